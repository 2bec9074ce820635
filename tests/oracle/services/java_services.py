# SPDX-License-Identifier: Apache-2.0
"""Java: a Spring Boot application that is deployed again and again, Kafka with a producer and a consumer, and javac. async-profiler counts, too."""
import collections
import glob
import os
import re
import shutil
import socket
import time
import zipfile

from service import CACHE, HERE, Clients, Service, Unavailable, libraries, maven, run

INTERVAL = 10309278  # ns of CPU time: 97 Hz
FRAME = re.compile(r"^(.*)_\[[0ij1]\]$")  # interpreted, inlined, compiled, compiled by C1
HIDDEN = re.compile(r"(\$\$Lambda|\$\$FastClass\w*|\$\$SpringCGLIB\$*\w*|LambdaForm\$\w+|GeneratedMethodAccessor|GeneratedConstructorAccessor)[^.]*")


def async_profiler():
    """→ the library"""
    path = os.path.join(CACHE, "async-profiler", "libasyncProfiler.so")
    jar = next(j for j in libraries("async-profiler"))
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(jar):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with zipfile.ZipFile(jar) as z, z.open("linux-x64/libasyncProfiler.so") as f, open(path + ".new", "wb") as to:
            shutil.copyfileobj(f, to)
        os.rename(path + ".new", path)
    return path


def plain(name):
    """A method's name without what differs from run to run: numbers of classes that are made as the program runs."""
    return HIDDEN.sub(r"\1", name.replace("/", "."))


class JavaService(Service):
    kind, profiler = "jvm", "async-profiler"
    # JavaCalls begins with these: threads, the program, the VM's own beginning and end
    root = (r"\.(run|main)$|^java\.lang\.(Thread\.(exit|dispatchUncaughtException)|System\.(initPhase\d|<clinit>)|Shutdown\.shutdown)$"
            r"|^sun\.launcher\.|^java\.lang\.ref\.|^jdk\.internal\.(vm|misc)\.|<clinit>$|^java\.lang\.ThreadGroup\.")

    @classmethod
    def prepare(cls):
        async_profiler()

    def counting(self):
        return f"-agentpath:{async_profiler()}=start,event=ctimer,interval={INTERVAL},file={self.folder}/%p.collapsed,collapsed,ann"

    def java(self, *arguments):
        return self.spawn(["java", self.counting(), *arguments])

    def theirs(self):
        """Methods by the innermost one in Java."""
        leaves = collections.Counter()
        for file in glob.glob(os.path.join(self.folder, "*.collapsed")):
            with open(file, encoding="utf-8", errors="replace") as f:
                for line in f:
                    stack, _, n = line.rpartition(" ")
                    found = next((m for m in map(FRAME.match, reversed(stack.split(";"))) if m), None)
                    if found and not found[1].startswith("["):  # a class that was unloaded meanwhile
                        leaves[plain(found[1])] += int(n)
        return leaves

    def key(self, frame):
        return plain(frame.name) if frame.kind == "jvm" and "." in frame.name else None


class Spring(JavaService):
    name, port = "spring", 18451
    each = 15  # s of a deployment
    paths = ["/orders/40", "/words/300", "/orders/80", "/report/20", ("POST", "/sum", '{"values": [3, 1, 4, 1, 5, 9, 2, 6], "name": "pi"}')]
    # So small that code is thrown away; little else is in it
    flags = ["-XX:ReservedCodeCacheSize=14m", "-Xmx512m", "-Xlog:class+unload=info:file=unloaded", "-Xlog:codecache+sweep*=info:file=swept", "-cp"]
    classes = os.path.join(CACHE, "spring-classes")

    @classmethod
    def prepare(cls):
        super().prepare()
        os.makedirs(cls.classes, exist_ok=True)
        for source, folder, path in (("Web.java", "web", ":".join(libraries("spring"))), ("Deployments.java", "deployments", "")):
            out = os.path.join(cls.classes, folder)
            shutil.rmtree(out, ignore_errors=True)
            run("javac", "-g", "-parameters", "-proc:none", "-cp", path or out, "-d", out, os.path.join(HERE, source))

    def start(self):
        self.clients = Clients(self, self.port, self.paths)
        self.java(*self.flags, os.path.join(self.classes, "deployments"), "Deployments", str(self.port), str(self.each),
                  os.path.join(self.classes, "web") + "/", *libraries("spring"))
        self.wait_for(self.clients.answers)

    def work(self, end):
        self.clients.work(end)

    def stop(self):
        if self.processes[0].poll() is not None:
            raise RuntimeError(f"it has ended with {self.processes[0].returncode}: {self.log()}")
        self.cache = run("jcmd", str(self.processes[0].pid), "Compiler.codecache")
        super().stop()

    def account(self):
        """Deployments refuse while they are exchanged."""
        with open(os.path.join(self.folder, "unloaded"), encoding="utf-8", errors="replace") as f:
            unloaded = sum("unloading class" in line for line in f)
        deployments = self.log_lines("deployed")
        used = re.search(r"max_used=(\w+)", self.cache)
        text = f"{self.counts['answers']} answers, {self.counts['refused']} refused, {deployments} deployments, {unloaded} classes unloaded, "
        return text + f"code cache: {used[1] if used else '?'} used of 14 MiB, full {self.full()} times", self.counts["answers"] > 0 and unloaded > 0 and deployments > 1

    def full(self):
        found = re.search(r"full_count=(\d+)", self.cache)
        return found[1] if found else "?"

    def log_lines(self, word):
        with open(os.path.join(self.folder, "log0"), encoding="utf-8", errors="replace") as f:
            return sum(line.startswith(word) for line in f)


KAFKA = """node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={folder}/data
num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.segment.bytes=8388608
log.retention.bytes=16777216
log.retention.check.interval.ms=5000
compression.type=gzip
"""


class Kafka(JavaService):
    name, port, controller = "kafka", 18452, 18453

    @classmethod
    def prepare(cls):
        super().prepare()
        maven("kafka")

    def start(self):
        path, configuration = ":".join(libraries("kafka")), os.path.join(self.folder, "server.properties")
        with open(configuration, "w", encoding="ascii") as f:
            f.write(KAFKA.format(port=self.port, controller=self.controller, folder=self.folder))
        run("java", "-cp", path, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", configuration)
        self.java("-Xmx512m", "-cp", path, "kafka.Kafka", configuration)
        address = f"127.0.0.1:{self.port}"
        self.wait_for(self.listens)
        self.java("-Xmx256m", "-cp", path, "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", "1000000000", "--throughput",
                  "20000", "--record-size", "300", "--producer-props", f"bootstrap.servers={address}", "compression.type=lz4")
        self.java("-Xmx256m", "-cp", path, "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", address, "--topic", "t",
                  "--messages", "1000000000", "--timeout", "3600000", "--show-detailed-stats", "--reporting-interval", "1000")

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
            return True
        except OSError:
            return False

    def work(self, end):
        while time.monotonic() < end and all(p.poll() is None for p in self.processes):
            time.sleep(0.5)

    def stop(self):
        self.alive = sum(p.poll() is None for p in self.processes)
        super().stop()

    def account(self):
        with open(os.path.join(self.folder, "log1"), encoding="utf-8", errors="replace") as f:
            sent = sum(int(m) for m in re.findall(r"^(\d+) records sent", f.read(), re.M))
        with open(os.path.join(self.folder, "log2"), encoding="utf-8", errors="replace") as f:
            received = len(re.findall(r"^\d{4}-\d\d-\d\d", f.read(), re.M))
        return f"{sent} records sent, {received} reports of the consumer", self.alive == 3 and sent > 1000 and received > 1


class Javac(JavaService):
    name = "javac"
    sources = os.path.join(CACHE, "lucene")

    @classmethod
    def prepare(cls):
        super().prepare()
        if not os.path.exists(cls.sources):
            with zipfile.ZipFile(next(j for j in libraries("sources") if j.endswith("-sources.jar"))) as z:
                z.extractall(cls.sources + ".part")
            os.rename(cls.sources + ".part", cls.sources)
        if not cls.files():
            raise Unavailable(f"{cls.sources}: no sources")

    @classmethod
    def files(cls):
        return sorted(f for f in glob.glob(os.path.join(cls.sources, "org", "**", "*.java"), recursive=True))

    def start(self):
        with open(os.path.join(self.folder, "files"), "w", encoding="utf-8") as f:
            f.write("\n".join(self.files()))

    def work(self, end):
        self.again_and_again(end, lambda: ["javac", "-J" + self.counting(), "-g", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", "classes", "@files"])

    def account(self):
        return f"{len(self.files())} files, {self.counts['runs']} times", self.counts["runs"] > 0 and not self.counts["failed"]
