#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real Collector with every way to it: gRPC and HTTP, by gzip, zstd and none, plain, over TLS and over mutual TLS.

Each agent's samples carry the name of its way; what it exported is what the Collector wrote for that name, and what its
receivers counted. The protobuf that it passes on conforms but for what it rewrites itself: resource attributes, zero entries.
"""
import re
import urllib.request

from lib import assertions, certificates, programs, recorded
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import hang_limit
from lib.profiles import total
from lib.scenario import Scenario, free_port, wait_for

CODINGS = ("gzip", "zstd", "none")
PROTOCOLS = ("grpc", "http/protobuf")
ACCEPTED = re.compile(r'^otelcol_receiver_(accepted|refused|failed)_profile\w*?(?:_total)?\{(.*)\} (\S+)$', re.M)


class Way:
    """One agent's way to the Collector."""

    def __init__(self, s, endpoint, protocol, coding, security, options):
        self.name = f"{protocol} {coding} {security}"
        self.agent = Agent(s, endpoint, "--protocol", protocol, "--compression", coding, *options, window="1s", frequency=19,
                           env={"OTEL_RESOURCE_ATTRIBUTES": "test.way=" + self.name.replace(" ", "+").replace("/", "-")})
        self.key = self.name.replace(" ", "+").replace("/", "-")

    def exported(self):
        return (self.agent.final() or {}).get("exported")


def agents(s, ports, security, options):
    scheme = "http" if security == "plain" else "https"
    return [Way(s, f"{scheme}://localhost:{ports[protocol]}", protocol, coding, security, options)
            for protocol in PROTOCOLS for coding in CODINGS]


def deliver(collector, ways, samples_of):
    """Until something of each has arrived."""
    for way in ways:
        wait_for(lambda: way.agent.process.poll() is not None or way.key in collector_text(collector), 60, way.name)
    for way in ways:
        way.agent.process.terminate()
    for way in ways:
        samples_of[way.key] = way.agent.stop(60)


def collector_text(collector):
    try:
        with open(collector.file(), errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def check_way(s, way, code, samples):
    mine = [x for x in samples if x.resource.get("test.way") == way.key]
    s.equal(f"{way.name}: exit code", code, 0)
    final = assertions.loss_identity(s, way.agent, total(mine), way.name)
    assertions.delivered(s, final, way.name)
    s.equal(f"{way.name}: warnings", [line for line in way.agent.lines("level=(warn|error)") if "collector" in line], [])


def counted(metrics_port):
    """What the receivers say of themselves: {(accepted or refused, receiver, transport): n}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=hang_limit(10)) as answer:
        text = answer.read().decode()
    result = {}
    for word, labels, value in ACCEPTED.findall(text):
        names = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        key = (word, names.get("receiver"), names.get("transport"))
        result[key] = result.get(key, 0) + int(float(value))
    return result


def check_account(s, account, samples):
    """It counts Sample messages, not events."""
    for security in ("plain", "tls", "mtls"):
        for transport, protocol in (("grpc", "grpc"), ("http", "http-protobuf")):
            mine = [x for x in samples if x.resource.get("test.way", "").startswith(protocol + "+")
                    and x.resource["test.way"].endswith("+" + security)]
            s.equal(f"receiver otlp/{security} by {transport}: samples that it counts as accepted",
                    account.get(("accepted", "otlp/" + security, transport)), len(mine))
    bad = {k: v for k, v in account.items() if k[0] != "accepted" and v}
    s.equal("what the receivers refused", bad, {})


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    ca, ca_key = certificates.authority(s, "ca")
    cert, key = certificates.issue(s, "server", ca, ca_key)
    client, client_key = certificates.issue(s, "client", ca, ca_key, names="DNS:agent")
    ports = {security: {protocol: free_port() for protocol in PROTOCOLS} for security in ("tls", "mtls")}
    env = {f"{word}_{security.upper()}": f"127.0.0.1:{ports[security][protocol]}" for security in ports
           for word, protocol in (("GRPC", "grpc"), ("HTTP", "http/protobuf"))}
    metrics_port = free_port()
    collector = Collector(s, "config-interop.yaml", env=dict(env, CERT=cert, KEY=key, CA=ca, METRICS=str(metrics_port)))
    ports["plain"] = {"grpc": collector.port, "http/protobuf": collector.http_port}
    options = {"plain": [], "tls": ["--tls.ca", ca], "mtls": ["--tls.ca", ca, "--tls.cert", client, "--tls.key", client_key]}
    ways, codes = [], {}
    for security in ("plain", "tls", "mtls"):
        group = agents(s, ports[security], security, options[security])
        deliver(collector, group, codes)
        ways += group
    collector.settle()
    account = counted(metrics_port)
    collector.stop()
    samples = collector.samples()
    for way in ways:
        check_way(s, way, codes[way.key], samples)
    check_account(s, account, samples)
    contents = recorded.prefixed(s.path(collector.lives[-1], "profiles.proto"), ["reference-attribute", "zero-entry"])
    s.check("OTLP conformance of what the Collector passed on", contents.events and not contents.violations,
            "; ".join(contents.violations[:4]) or f"{contents.events} events in {len(contents.ids)} profiles")
    s.equal("nothing came twice", contents.twice(), 0)


if __name__ == "__main__":
    Scenario("interop_collector").execute(body)
