#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nghttpd (Debian's nghttp2-server): a strict HTTP/2 server that knows nothing of gRPC.

It reads every request to its end whatever the windows, and its log has each frame. What it answers is no gRPC, so the HTTP
status decides; every sample is counted as dropped, the log says why, and the agent runs on. The headers are those of gRPC's
specification, none is in the table that HPACK keeps if it could be secret.
"""
import os
import re

from lib import assertions, certificates, programs
from lib.agent import Agent
from lib.grpc_servers import reachable
from lib.scenario import Scenario, free_port, stop, wait_for
from lib.tap import Tap

PATH = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
WANTED = {":method": "POST", ":scheme": "http", ":path": PATH, "te": "trailers", "content-type": "application/grpc",
          "grpc-encoding": "gzip", "x-token": "secret-value"}
HEADER = re.compile(r"recv \(stream_id=\d+(, sensitive)?\) (:?[\w-]+): (.*)")


class Nghttpd:
    def __init__(self, s, name, *options, tls=None, page=False):
        self.port = free_port()
        root = s.folder("root-" + name)
        if page:
            os.makedirs(root + os.path.dirname(PATH))
            with open(root + PATH, "w") as f:
                f.write("no gRPC here\n")
        self.process = s.start(["nghttpd", "-v", "-a", "127.0.0.1", "-d", root, *options, *([] if tls else ["--no-tls"]),
                                str(self.port), *(reversed(tls) if tls else [])], "nghttpd-" + name)
        wait_for(lambda: reachable(f"127.0.0.1:{self.port}"), 20, "nghttpd's port")

    def log(self):
        with open(self.process.log, errors="replace") as f:
            return re.sub(r"\x1b\[[0-9;]*m", "", f.read())


class Case:
    def __init__(self, s, name, says, *options, agent=(), tls=None, page=False, protocol="grpc"):
        self.s, self.name, self.says, self.tls, self.protocol = s, name, says, tls, protocol
        self.server = Nghttpd(s, name.replace(" ", "-"), *options, tls=tls, page=page)
        self.tap = None if tls else Tap(s, self.server.port)
        url = f"https://localhost:{self.server.port}" if tls else self.tap.endpoint()
        self.agent = Agent(s, url, "--protocol", protocol, "--headers", "x-token=secret-value", *agent, window="1s", frequency=19)

    def wait(self):
        self.agent.wait_line(self.says, 60)
        if self.protocol == "grpc":
            wait_for(lambda: self.server.log().count("; END_STREAM | END_HEADERS") + self.server.log().count("; END_STREAM\n") >= 2
                     or self.agent.process.poll() is not None, 60, f"{self.name}: two requests")

    def check(self):
        s = self.s
        s.equal(f"{self.name}: exit code", self.code, 0)
        final = assertions.loss_identity(s, self.agent, 0, self.name)
        s.equal(f"{self.name}: what was taken is counted as dropped", final.get("dropped"), final.get("taken"))
        lines = self.agent.lines(self.says)
        s.equal(f"{self.name}: lines that say why", len(lines), 1)
        s.note(lines[0][:260] if lines else "")
        s.check(f"{self.name}: no header's value in the log", "secret-value" not in self.agent.text())
        log = self.server.log()
        s.check(f"{self.name}: nghttpd has nothing to object to", not re.search(r"recv GOAWAY.*\n.*error_code=(?!NO_ERROR)", log)
                and not re.search(r"send (GOAWAY|RST_STREAM).*\n.*error_code=\w*(PROTOCOL|FLOW|FRAME|COMPRESSION)", log))
        if self.tap and self.protocol == "grpc":
            self.tap.check(s, self.name)


def check_headers(s, case):
    lines = HEADER.findall(case.server.log())
    found = {name: value for _, name, value in lines}
    s.equal("headers that HPACK may never index", {name for mark, name, _ in lines if mark}, {"x-token"})
    s.equal("headers as gRPC wants them", {k: found.get(k) for k in WANTED}, WANTED)
    s.check("headers: grpc-timeout, user-agent, grpc-accept-encoding",
            re.fullmatch(r"\d{1,8}[HMSmun]", found.get("grpc-timeout", "")) and found.get("user-agent", "").startswith("proflet/")
            and "gzip" in found.get("grpc-accept-encoding", ""), str({k: v for k, v in found.items() if k[0] != ":"})[:300])


def body(s):
    s.need_root()
    s.need("nghttpd")
    s.need_proflet()
    programs.start_chain(s)
    ca, ca_key = certificates.authority(s, "ca")
    tls = certificates.issue(s, "server", ca, ca_key)
    not_there = r"does not serve OTLP profiles.*HTTP status 404 with content type 'text/html.*is no gRPC"
    small = Case(s, "small windows", r"HTTP status 200 with content type '' is no gRPC", "--window-bits=8",
                 "--connection-window-bits=16", "--max-concurrent-streams=1", "--header-table-size=0", page=True)
    cases = [
        Case(s, "no such path", not_there),
        small,
        Case(s, "padded frames", not_there, "--padding=200"),
        Case(s, "an answer before the request is there", not_there, "--early-response"),
        Case(s, "TLS", not_there, agent=["--tls.ca", ca], tls=tls),
        Case(s, "HTTP over TLS", r"HTTP 404", agent=["--tls.ca", ca], tls=tls, protocol="http/protobuf"),
        Case(s, "HTTP 1.1, which it does not speak", r"collector is away", protocol="http/protobuf")]
    for case in cases:
        case.wait()
    for case in cases:
        case.agent.process.terminate()
    for case in cases:
        case.code = case.agent.stop(60)
        stop(case.server.process)
        case.check()
    s.check("small windows: the window was used up and opened again", sum(c.n_waits for c in small.tap.connections) > 3,
            f"{sum(c.n_waits for c in small.tap.connections)} times")
    check_headers(s, cases[0])


if __name__ == "__main__":
    Scenario("interop_nghttpd").execute(body)
