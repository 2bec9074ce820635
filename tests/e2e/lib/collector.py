# SPDX-License-Identifier: Apache-2.0
"""The real Collector, and the recorder in front of it. Both are built by tests/support/build-collector."""
import glob
import os
import signal
import socket
import subprocess

from . import profiles, recorded
from .machine import unhurried
from .scenario import ROOT, Skip, accepts, free_port, stop, tail, wait_for

OTELCOL = os.path.join(ROOT, "tests", "support", "otelcol")
PAUSE = 0.5  # s of a quiet machine without growth of the file
REWRITTEN = ["reference-attribute", "zero-entry"]  # rules about what the Collector writes anew


def binaries():
    done = subprocess.run([os.path.join(ROOT, "tests", "support", "build-collector")], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode:
        raise Skip("the Collector does not build: " + done.stderr.strip()[-300:])
    return done.stdout.strip()


def hold(port):
    """A socket that keeps the port from others while nobody listens there: connections are refused."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the Collector's: it can listen beside it
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:  # somebody was faster
        holder.close()
        return None
    return holder


class Collector:
    """A Collector on fixed ports that can be killed and started again; each life writes a file of its own."""

    def __init__(self, s, config="config.yaml", env=None, gate=True):
        self.s, self.config, self.env = s, config, env or {}
        self.gate = ["--feature-gates=+service.profilesSupport"] if gate else []
        self.lives, self.held = [], []
        self.process = None
        self.program = os.path.join(binaries(), "otelcol")
        s.at_end(self.conforms)
        self.start_somewhere()

    def start_somewhere(self):
        """The first life, on ports that were free a moment ago: other scenarios take ports, too."""
        for last in (False, False, False, True):
            self.port, self.http_port = free_port(), free_port()
            try:
                self.start()
                return
            except RuntimeError:
                if last or "address already in use" not in tail(self.process.log, 50):
                    raise
                self.lives.pop()

    def start(self):
        self.lives.append(self.s.folder(f"collector-{self.port}-{len(self.lives) + 1}"))
        env = dict(self.env, OUT=self.lives[-1], GRPC=f"127.0.0.1:{self.port}", HTTP=f"127.0.0.1:{self.http_port}")
        self.process = self.s.start([self.program, "--config", os.path.join(OTELCOL, self.config), *self.gate],
                                    f"collector-{self.port}", env=env)
        wait_for(lambda: accepts(self.port) or self.process.poll() is not None, 30, "Collector's port")
        self.release()
        if self.process.poll() is not None:
            raise RuntimeError("the Collector did not start")

    def release(self):
        for holder in filter(None, self.held):
            holder.close()
        self.held = []

    def ended(self):
        """It may come back, to the same ports."""
        self.release()
        self.held = [hold(self.port), hold(self.http_port)]

    def stop(self):
        """A clean end, everything written."""
        stop(self.process)
        self.ended()

    def settle(self):
        """Until what was acknowledged is in the file: it is flushed every 100 ms."""
        size, since = -1, 0.0

        def quiet():
            nonlocal size, since
            if self.size() != size:
                size, since = self.size(), unhurried()
            return unhurried() - since >= PAUSE

        wait_for(quiet, 60, "a pause of the Collector")

    def kill(self):
        """SIGKILL in a pause, so that nothing is lost that was acknowledged."""
        self.settle()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.ended()

    def size(self):
        try:
            return os.path.getsize(self.file())
        except OSError:
            return 0

    def file(self):
        return os.path.join(self.lives[-1], "profiles.json")

    def samples(self):
        return [x for life in self.lives for x in profiles.read(os.path.join(life, "profiles.json"))]

    def conforms(self):
        """Every request that any life of it took follows the OTLP rules."""
        self.stop()
        paths = [os.path.join(life, "profiles.proto") for life in self.lives]
        contents = [recorded.prefixed(p, REWRITTEN) for p in paths if os.path.exists(p)]
        n, violations = sum(len(c.ids) for c in contents), [v for c in contents for v in c.violations]
        if n:
            self.s.check("OTLP conformance of every request at the Collector", not violations, "; ".join(violations[:4])[:600] or f"{n} profiles")

    def endpoint(self, scheme="http", host="127.0.0.1"):
        return f"{scheme}://{host}:{self.port}"


class Recorder:
    """Between the agent and a Collector: keeps each request's bytes in `folder`."""

    def __init__(self, s, collector):
        self.folder = s.folder("requests")
        self.port = free_port()
        s.start([os.path.join(binaries(), "recorder"), "-listen", f"127.0.0.1:{self.port}", "-forward",
                 f"127.0.0.1:{collector.port}", "-dir", self.folder], "recorder")
        wait_for(lambda: accepts(self.port), 10, "recorder's port")

    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def requests(self):
        return sorted(glob.glob(os.path.join(self.folder, "*.otlp")))
