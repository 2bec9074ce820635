# SPDX-License-Identifier: Apache-2.0
"""Node.js: the TypeScript compiler, webpack, and an Express server. V8's own sampling profiler (--cpu-prof) counts, too."""
import collections
import glob
import json
import os
import re
import shutil

from service import HERE, SUPPORT, Clients, Service, builds_of, run

builds = builds_of("node")
INTERVAL = 5000  # us of V8's profiler
COLLECTION = re.compile(r"\b(Heap|Scavenger\w*|MarkCompact\w*|MinorMarkSweep\w*|Sweeper|GarbageCollector|CollectGarbage\w*|GCTracer)\b")
TSC = {"compilerOptions": {"target": "es2020", "module": "commonjs", "moduleResolution": "node", "lib": ["es2020", "dom", "esnext.disposable"], "strict": True,
                           "outDir": "out", "declaration": True, "skipLibCheck": False, "types": []}, "include": ["src/**/*.ts"]}


def packages():
    """→ the folder of the npm packages"""
    return run(os.path.join(SUPPORT, "build-npm"), "services").strip()


class NodeService(Service):
    kind, profiler = "v8js", "--cpu-prof"
    version = "22"

    @classmethod
    def prepare(cls):
        packages()
        cls.binary = builds.fetch(cls.version)

    def node(self, *arguments):
        return [self.binary, "--cpu-prof", "--cpu-prof-interval", str(INTERVAL), "--cpu-prof-dir", os.path.join(self.folder, "profiles"), *arguments]

    def theirs(self):
        """Functions by file and first line: the innermost one of a script; an anonymous function has no name that both agree on."""
        leaves = collections.Counter()
        for file in glob.glob(os.path.join(self.folder, "profiles", "*.cpuprofile")):
            with open(file, encoding="utf-8") as f:
                profile = json.load(f)
            nodes = {n["id"]: n for n in profile["nodes"]}
            parent = {c: n["id"] for n in profile["nodes"] for c in n.get("children", [])}
            for sample, us in zip(profile["samples"], profile["timeDeltas"]):
                leaf = self.scripted(nodes, parent, sample)
                if leaf:
                    leaves[leaf] += us / INTERVAL
        return collections.Counter({k: round(n) for k, n in leaves.items()})

    @staticmethod
    def scripted(nodes, parent, sample):
        while sample is not None:
            call = nodes[sample]["callFrame"]
            if call["functionName"] == "(garbage collector)":
                return None
            if call["url"]:
                return os.path.basename(call["url"]), call["lineNumber"] + 1
            sample = parent.get(sample)
        return None

    def key(self, frame):
        """The first line is not known at once."""
        return (os.path.basename(frame.source), frame.first_line) if frame.kind == "v8js" and frame.source and frame.first_line else None

    def counted(self, frames):
        """V8's profiler counts the time of collections apart."""
        return not any(f.kind == "native" and COLLECTION.search(f.name) for f in frames)

    def elsewhere(self, frames):
        """V8's profiler counts for how long a system call takes, and waits, not the CPU time."""
        return any(f.kind == "kernel" for f in frames)


class Tsc(NodeService):
    name = "tsc"

    def start(self):
        modules = packages()
        shutil.copytree(os.path.join(modules, "rxjs", "src"), os.path.join(self.folder, "src"))
        os.symlink(modules, os.path.join(self.folder, "node_modules"))
        with open(os.path.join(self.folder, "tsconfig.json"), "w", encoding="ascii") as f:
            json.dump(TSC, f)

    def work(self, end):
        self.again_and_again(end, lambda: self.node("node_modules/typescript/lib/tsc.js", "-p", "."))

    def account(self):
        return f"compiled {self.counts['runs']} times, {self.counts['failed']} with errors", self.counts["runs"] > 0 and not self.counts["failed"]


class Webpack(NodeService):
    name = "webpack"

    def start(self):
        os.symlink(packages(), os.path.join(self.folder, "node_modules"))
        for file in ("webpack.config.js", "bundle.js", "pack.js"):
            shutil.copy(os.path.join(HERE, file), self.folder)

    def work(self, end):
        self.again_and_again(end, lambda: self.node("pack.js"))

    def account(self):
        return f"bundled {self.counts['runs']} times, {self.counts['failed']} with errors", self.counts["runs"] > 0 and not self.counts["failed"]


class Express(NodeService):
    name, port = "express", 18454
    paths = ["/orders/40", "/page/30", "/words/300", "/orders/90", ("POST", "/sum", '{"values": [3, 1, 4, 1, 5, 9, 2, 6], "name": "pi"}')]

    def start(self):
        os.symlink(packages(), os.path.join(self.folder, "node_modules"))
        for file in ("server.js", "page.pug"):
            shutil.copy(os.path.join(HERE, file), self.folder)
        self.clients = Clients(self, self.port, self.paths)
        self.spawn(self.node("server.js", str(self.port)))
        self.wait_for(self.clients.answers)

    def work(self, end):
        self.clients.work(end)
