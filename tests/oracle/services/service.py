# SPDX-License-Identifier: Apache-2.0
"""What all services have in common: their processes, the ids of these, somebody who asks all the time, and what is fetched for them."""
import collections
import glob
import hashlib
import http.client
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.normpath(os.path.join(HERE, "..", "..", "support"))
sys.path.insert(0, os.path.dirname(HERE))
import debian  # noqa: E402
from debian import Unavailable  # noqa: E402

CACHE = os.path.join(debian.CACHE, "services")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:"
BEGIN, END = 180, 60  # s within which a service must answer, and end


def run(*argv, cwd=None, env=None):
    """→ what it wrote"""
    try:
        done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ, **(env or {})))
    except OSError as e:
        raise Unavailable(f"{os.path.basename(argv[0])}: {e.strerror}") from e
    if done.returncode:
        raise Unavailable(f"{os.path.basename(argv[0])}: {(done.stdout + done.stderr).strip()[-400:]}")
    return done.stdout


def builds_of(language):
    """→ the module LANGUAGE/builds.py of the oracles"""
    spec = importlib.util.spec_from_file_location(f"{language}_builds", os.path.join(os.path.dirname(HERE), language, "builds.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def maven(name):
    """→ the folder with the libraries of NAME.xml, fetched once"""
    pom = os.path.join(HERE, name + ".xml")
    with open(pom, "rb") as f:
        folder = os.path.join(CACHE, f"{name}-{hashlib.sha256(f.read()).hexdigest()[:16]}")
    if not os.path.exists(folder):
        debian.say(f"{name}: fetching its libraries from a Maven repository, once")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        shutil.copy(pom, os.path.join(part, "pom.xml"))
        run("nice", "mvn", "-q", "-B", COPY + "copy-dependencies", f"-DoutputDirectory={part}", cwd=part)
        os.rename(part, folder)
    return folder


def libraries(name):
    return sorted(glob.glob(os.path.join(maven(name), "*.jar")))


def children(pid):
    found = [pid]
    for p in found:
        for task in glob.glob(f"/proc/{p}/task/*/children"):
            try:
                with open(task, encoding="ascii") as f:
                    found += map(int, f.read().split())
            except OSError:
                pass
    return found


class Service:
    """One service in a folder of its own. A service is started, worked on, and stopped; then its account and its own profile are there."""

    name = None
    kind = None  # profile.frame.type of its language
    root = None  # pattern of the functions with which the language's part of a stack begins; None: any
    loop = r"(?!)"  # pattern of native functions that execute the language: a stack with one of them has functions of it
    profiler = None  # whose shares are compared

    def __init__(self, folder):
        self.folder = os.path.join(folder, self.name)
        os.makedirs(self.folder)
        self.processes, self.pids, self.over = [], set(), False
        self.counts = collections.Counter()
        threading.Thread(target=self._follow, daemon=True).start()

    # --- to be made by each
    @classmethod
    def prepare(cls):
        """Fetches and compiles what it needs, into the cache."""

    def start(self):
        """Starts what answers, and waits until it does."""

    def work(self, end):
        """Until time.monotonic() is `end`."""

    def stop(self):
        """Ends all processes, each in its own way, so that it writes its profile."""
        for process in reversed(self.processes):
            self.end(process)

    def theirs(self):
        """→ {key: samples} by its profiler: the innermost function in the language"""
        return {}

    def key(self, frame):
        """→ what stands for the same function in `theirs`; None: no function that is compared"""
        return None

    def counted(self, frames):
        """→ whether its profiler has such a sample (leaf first)"""
        return True

    def elsewhere(self, frames):
        """→ whether such a sample's time passes where its profiler counts another one (on the wall)"""
        return False

    def account(self):
        """→ a line about what it has done, and whether that is what it should"""
        return ", ".join(f"{n} {what}" for what, n in self.counts.items()), self.counts["answers"] > 0 and not self.counts["refused"]

    # --- for all
    def spawn(self, argv, env=None, stdin=subprocess.DEVNULL):
        with open(os.path.join(self.folder, f"log{len(self.processes)}"), "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(argv, stdin=stdin, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                                                   env=dict(os.environ, **(env or {}))))
        return self.processes[-1]

    def end(self, process):
        """Its children, too, when it has not ended after END seconds."""
        process.terminate()
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def kill(self):
        """All of it, at once."""
        self.over = True
        for process in self.processes:
            for pid in children(process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()

    def log(self, i=-1):
        with open(os.path.join(self.folder, f"log{i % max(1, len(self.processes))}"), encoding="utf-8", errors="replace") as f:
            return f.read()[-600:]

    def wait_for(self, condition):
        end = time.monotonic() + BEGIN
        while not condition():
            if self.processes[-1].poll() is not None:
                raise RuntimeError(f"it has ended with {self.processes[-1].returncode}: {self.log()}")
            if time.monotonic() > end:
                raise RuntimeError(f"it does not answer: {self.log()}")
            time.sleep(0.2)

    def again_and_again(self, end, command):
        """Runs command() from start to end; one that has begun is waited for."""
        while time.monotonic() < end and not self.over:
            self.counts["runs" if self.spawn(command()).wait() == 0 else "failed"] += 1

    def _follow(self):
        while not self.over:
            for process in list(self.processes):
                if process.poll() is None:
                    self.pids.update(children(process.pid))
            time.sleep(0.05)


class Clients:
    """Threads that ask for paths of a server, each on a connection of its own."""

    def __init__(self, service, port, paths, clients=2):
        self.service, self.port, self.paths, self.clients = service, port, paths, clients

    def ask(self, connection, path):
        try:
            method, path, body = path if isinstance(path, tuple) else ("GET", path, None)
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status == 200 and len(answer.read()) > 20
        except (OSError, http.client.HTTPException):
            connection.close()
            return False

    def answers(self):
        return self.ask(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), self.paths[0])

    def client(self, i, end):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while time.monotonic() < end and not self.service.over:
            i += 1
            if self.ask(connection, self.paths[i % len(self.paths)]):
                self.service.counts["answers"] += 1
            else:
                self.service.counts["refused"] += 1
                time.sleep(0.1)
        connection.close()

    def work(self, end):
        threads = [threading.Thread(target=self.client, args=(i, end), daemon=True) for i in range(self.clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
