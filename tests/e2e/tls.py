#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Over TLS to a Collector with a certificate of our own authority. Its gRPC server insists on ALPN h2. A server that the
configured authority did not sign gets nothing, and the log says why.
"""
from lib import assertions, certificates, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.profiles import total
from lib.scenario import Scenario, wait_for

REFUSED = r"(?i)certificate"


def trusted(s, collector, ca):
    agent = Agent(s, collector.endpoint("https", "localhost"), "--tls.ca", ca)
    agent.wait_samples(collector)
    s.equal("our authority: exit code", agent.stop(), 0)
    collector.settle()
    assertions.loss_identity(s, agent, total(collector.samples()))


def untrusted(s, collector, what, *options, host="localhost"):
    before = collector.size()
    agent = Agent(s, collector.endpoint("https", host), *options)
    wait_for(lambda: agent.lines(REFUSED), 30, "a log line about the certificate")
    s.check(f"{what}: the agent runs on", agent.process.poll() is None)
    s.equal(f"{what}: exit code at SIGTERM", agent.stop(60), 0)
    s.check(f"{what}: the log says why", agent.lines(REFUSED), agent.lines(REFUSED)[0][:240])
    s.equal(f"{what}: bytes that arrived", collector.size() - before, 0)
    final = agent.final() or {}
    s.check(f"{what}: all samples are counted as dropped",
            final.get("taken", 0) > 0 and final.get("taken") == final.get("dropped"), str(final))


def body(s):
    s.need_root()
    s.need_proflet()
    ca, ca_key = certificates.authority(s, "authority")
    other, _ = certificates.authority(s, "other-authority")
    cert, key = certificates.issue(s, "server", ca, ca_key)
    programs.start_chain(s)
    collector = Collector(s, "config-tls.yaml", env={"CERT": cert, "KEY": key})
    trusted(s, collector, ca)
    untrusted(s, collector, "another authority", "--tls.ca", other)
    untrusted(s, collector, "system roots")
    untrusted(s, collector, "a name that the certificate does not have", "--tls.ca", ca, "--tls.server_name", "collector.example")
    s.check("the Collector is still there", collector.process.poll() is None)


if __name__ == "__main__":
    Scenario("tls").execute(body)
