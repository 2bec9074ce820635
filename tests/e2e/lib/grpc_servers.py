# SPDX-License-Identifier: Apache-2.0
"""gRPC servers of three implementations with one set of options, and an agent that delivers to one of them: a Case.

grpc-go comes with the Collector (tests/support/build-collector), C-core from Debian's python3-grpcio, grpc-js from npm
(tests/support/build-npm). Each keeps every request's bytes and prints its own account at its end.
"""
import json
import os
import socket
import subprocess
import sys

from . import assertions, recorded
from .agent import Agent
from .collector import binaries
from .scenario import ROOT, Skip, free_port, stop, wait_for
from .tap import Tap

SUPPORT = os.path.join(ROOT, "tests", "support")
sys.path.insert(0, SUPPORT)
from otlp_conformance_selftest import put_bytes, put_varint  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-grpcio
UNAVAILABLE = 14


def retry_info(text, seconds):
    """google.rpc.Status with one detail, google.rpc.RetryInfo."""
    whole, nanos = divmod(round(seconds * 1e9), 10 ** 9)
    duration = b"\x08" + put_varint(whole) + b"\x10" + put_varint(nanos)
    detail = put_bytes(1, b"type.googleapis.com/google.rpc.RetryInfo") + put_bytes(2, put_bytes(1, duration))
    return b"\x08" + put_varint(UNAVAILABLE) + put_bytes(2, text.encode()) + put_bytes(3, detail)


def grpc_go(options):
    argv = [os.path.join(binaries(), "grpcgo")]
    for name, value in options.items():
        argv += ["--" + name, f"{value:g}s" if name in ("max-age", "delay", "retry") else str(value)]
    return argv, {}


def _details(options):
    """The options with RetryInfo as bytes: these libraries have no message for it."""
    options = dict(options)
    if "retry" in options:
        options["details"] = retry_info(options["text"], options.pop("retry")).hex()
    return [word for name, value in options.items() for word in ("--" + name, str(value))]


def c_core(options):
    if subprocess.run([PYTHON, "-c", "import grpc"], capture_output=True).returncode:
        raise Skip("python3-grpcio is not installed: tests/support/install test")
    return [PYTHON, os.path.join(SUPPORT, "grpc", "core.py"), *_details(options)], {}


def grpc_js(options):
    done = subprocess.run([os.path.join(SUPPORT, "build-npm"), "grpc/js"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Skip("@grpc/grpc-js cannot be had: " + done.stderr.strip()[-300:])
    return ["node", os.path.join(SUPPORT, "grpc", "js", "server.js"), *_details(options)], {"NODE_PATH": done.stdout.strip()}


def reachable(address):
    """Whether anything listens at HOST:PORT, [IPv6]:PORT or unix:PATH."""
    unix = address.startswith("unix:")
    host, _, port = address.rpartition(":")
    family = socket.AF_UNIX if unix else socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as s:
        return s.connect_ex(address[5:] if unix else (host.strip("[]"), int(port))) == 0


class Server:
    """One life of a server; `options` as the programs take them."""

    def __init__(self, s, kind, name, listen=None, **options):
        self.name = name
        self.folder = s.folder("requests-" + name)
        self.port = free_port()
        self.address = listen.format(port=self.port) if listen else f"127.0.0.1:{self.port}"
        words = {key.replace("_", "-"): value for key, value in options.items()}
        argv, env = kind({"listen": self.address, "dir": self.folder, **words})
        self.account = {}
        self.process = s.start(argv, "server-" + name, env=env)
        wait_for(lambda: reachable(self.address) or self.process.poll() is not None, 30, f"server {name}")
        if self.process.poll() is not None:
            raise RuntimeError(f"server {name} did not start")

    def files(self):
        return recorded.files(self.folder)

    def accepted(self):
        return recorded.accepted(self.folder)

    def stop(self):
        stop(self.process)
        with open(self.process.log, errors="replace") as f:
            lines = [line for line in f if line.startswith("{")]
        self.account = json.loads(lines[-1]) if lines else {}


class Case:
    """An agent that delivers to a server of its own. wait, end together with others, check."""

    def __init__(self, s, kind, name, *options, compression="gzip", endpoint=None, tapped=True, env=None, **server):
        self.s, self.name = s, name
        slug = name.replace(" ", "-").replace("/", "-")
        self.server = Server(s, kind, slug, **server)
        self.tap = Tap(s, self.server.port) if tapped and "cert" not in server and "listen" not in server else None
        url = endpoint.format(port=self.server.port) if endpoint else self.tap.endpoint()
        self.compression = compression
        self.lacks_coding = False  # the server does
        self.agent = Agent(s, url, "--compression", compression, *options, window="1s", frequency=19, env=env)

    def wait(self, n=3, seconds=60):
        def enough():
            if self.agent.process.poll() is not None:
                raise RuntimeError(f"{self.name}: proflet ended with exit code {self.agent.process.returncode}")
            return len(self.server.accepted()) >= n

        wait_for(enough, seconds, f"{self.name}: {n} requests")

    def check(self):
        """What always holds of what has ended. Returns the final line."""
        s = self.s
        self.contents = recorded.Contents(self.server.accepted())
        s.equal(f"{self.name}: exit code", self.code, 0)
        final = assertions.loss_identity(s, self.agent, self.contents.events, self.name)
        assertions.delivered(s, final, self.name)
        assertions.conforms(s, self.server.files(), self.name)
        self._account()
        if self.tap:
            self.tap.check(s, self.name)
            self._compressed()
        return final

    def _account(self):
        """What the server says of itself is what it kept. What it did not read at all failed, too."""
        account, files = self.server.account, self.server.files()
        found = (account.get("calls", 0) - account.get("failed", 0), account.get("bytes"))
        self.s.equal(f"{self.name}: the server's own account: calls that succeeded, bytes", found,
                     (len(self.server.accepted()), sum(map(os.path.getsize, files))))

    def _compressed(self):
        n, whole = sum(c.compressed() for c in self.tap.connections), len(self.server.files())
        if self.compression == "none":
            self.s.equal(f"{self.name}: compressed requests on the wire", n, 0)
        else:
            least = 1 if self.lacks_coding else whole  # it may have no other one either
            self.s.check(f"{self.name}: compressed requests on the wire", whole and n >= least, f"{n} of {whole}")


def end(cases):
    """Ends agents and servers; none works on while another is looked at."""
    for case in cases:
        case.agent.process.terminate()
    for case in cases:
        case.code = case.agent.stop(60)
        case.server.stop()
