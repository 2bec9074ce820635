#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and trust: several addresses behind a name, a name that moves, whom tls.ca trusts, a secret that is renewed.

In a mount namespace of its own, with its own /etc/hosts and /etc/ssl/certs. The servers are grpc-go and the Collector.
"""
import os
import shutil
import sys

from lib import assertions, certificates, programs, recorded
from lib.agent import Agent
from lib.collector import Collector
from lib.grpc_servers import Server, grpc_go
from lib.profiles import total
from lib.scenario import Scenario, free_port, stop, wait_for

NAME = "collector.test"
MARK = "PROFLET_NAMES_NAMESPACE"


def hosts(s, *addresses):
    """What the name means from now on; the file stays the same one, which is mounted."""
    with open(s.path("hosts"), "w") as f:
        f.write("127.0.0.1 localhost\n" + "".join(f"{a} {NAME}\n" for a in addresses))


def mount(s, source, target):
    s.run(["mount", "--bind", source, target])
    s.defer(lambda: s.run(["umount", target], check=False))


def system_roots(s, ca):
    """A folder as Debian's, with one authority, by name of its hash (libcurl) and in the file of all (OpenSSL)."""
    folder = s.folder("roots")
    name = s.run(["openssl", "x509", "-noout", "-hash", "-in", ca]).stdout.strip()
    shutil.copy(ca, os.path.join(folder, name + ".0"))
    shutil.copy(ca, os.path.join(folder, "ca-certificates.crt"))
    mount(s, folder, "/etc/ssl/certs")


def accepted(server, n=2):
    wait_for(lambda: len(server.accepted()) >= n, 60, f"{server.name}: {n} requests")


def finish(s, what, agent, servers):
    s.equal(f"{what}: exit code", agent.stop(60), 0)
    for server in servers:
        server.stop()
    contents = recorded.Contents(f for server in servers for f in server.accepted())
    assertions.delivered(s, assertions.loss_identity(s, agent, contents.events, what), what)
    assertions.conforms(s, [f for server in servers for f in server.files()], what)
    s.equal(f"{what}: nothing came twice", contents.twice(), 0)


def moves(s):
    """The first of two addresses does not listen; then the name has another one, where the next server is."""
    port = free_port()
    hosts(s, "127.0.0.2", "127.0.0.3")
    first = Server(s, grpc_go, "first-address", listen=f"127.0.0.3:{port}")
    agent = Agent(s, f"http://{NAME}:{port}", window="1s", frequency=19)
    accepted(first)
    hosts(s, "127.0.0.4")
    stop(first.process)
    second = Server(s, grpc_go, "second-address", listen=f"127.0.0.4:{port}")
    accepted(second)
    finish(s, "a name that moves", agent, [first, second])


def one_of_two_is_wrong(s, good, bad):
    """Both addresses accept connections; the certificate of the first is another authority's."""
    port = free_port()
    hosts(s, "127.0.0.2", "127.0.0.3")
    wrong = Server(s, grpc_go, "wrong-certificate", listen=f"127.0.0.2:{port}", cert=bad[0], key=bad[1])
    right = Server(s, grpc_go, "right-certificate", listen=f"127.0.0.3:{port}", cert=good[0], key=good[1])
    agent = Agent(s, f"https://{NAME}:{port}", "--tls.ca", s.path("ca.pem"), window="1s", frequency=19)
    accepted(right)
    finish(s, "one of two certificates is wrong", agent, [right])
    stop(wrong.process)
    s.equal("one of two certificates is wrong: what that one got", len(wrong.files()), 0)
    s.equal("one of two certificates is wrong: lines that say away", len(agent.lines("is away")), 0)


def trust(s, collector, ports, ca, other):
    """Without tls.ca the system's roots count, with it nothing else, by either protocol."""
    for protocol in ("grpc", "http/protobuf"):
        url = f"https://{NAME}:{ports[protocol]}"
        before = total(collector.samples())
        agent = Agent(s, url, "--protocol", protocol, window="1s", frequency=19)
        wait_for(lambda: total(collector.samples()) > before, 60, "samples by the system's roots")
        s.equal(f"{protocol}: the system's roots: exit code", agent.stop(60), 0)
        collector.settle()
        assertions.loss_identity(s, agent, total(collector.samples()) - before, f"{protocol}, the system's roots")
        size = collector.size()
        agent = Agent(s, url, "--protocol", protocol, "--tls.ca", other, window="1s", frequency=19)
        lines = agent.wait_line("is away", 30)
        s.check(f"{protocol}: tls.ca is not the server's: the log says why", "certificate" in lines[0], lines[0][:220])
        s.equal(f"{protocol}: tls.ca is not the server's: exit code", agent.stop(60), 0)
        s.equal(f"{protocol}: tls.ca is not the server's: bytes that arrived", collector.size() - size, 0)


def secret(s, version, cert, key):
    """An update as the kubelet does it: a folder of its own, and ..data renamed over the old link."""
    folder = s.folder("secret", ".." + version)
    for source, name in ((cert, "tls.crt"), (key, "tls.key")):
        shutil.copy(source, os.path.join(folder, name))
    os.symlink(".." + version, s.path("secret", "..data_tmp"))
    os.rename(s.path("secret", "..data_tmp"), s.path("secret", "..data"))


def renewed(s, good, ca, ca_key):
    """The server sees the new certificate with the next request, on a new connection."""
    for name in ("tls.crt", "tls.key"):
        os.symlink("..data/" + name, os.path.join(s.folder("secret"), name))
    secret(s, "1", *certificates.issue(s, "agent-1", ca, ca_key, names="DNS:agent"))
    hosts(s, "127.0.0.1")
    server = Server(s, grpc_go, "mutual", cert=good[0], key=good[1], client_ca=ca)
    agent = Agent(s, f"https://{NAME}:{server.port}", "--tls.ca", ca, "--tls.cert", s.path("secret", "tls.crt"),
                  "--tls.key", s.path("secret", "tls.key"), window="1s", frequency=19)
    accepted(server)
    secret(s, "2", *certificates.issue(s, "agent-2", ca, ca_key, names="DNS:agent"))
    n = len(server.files())
    accepted(server, n + 2)
    finish(s, "a renewed secret", agent, [server])
    clients = server.account.get("clients", {})
    s.check("a renewed secret: the server saw both certificates", clients.get("agent-1", 0) >= 2 and clients.get("agent-2", 0) >= 1,
            str(clients))
    s.equal("a renewed secret: lines that say away", len(agent.lines("is away")), 0)


def body(s):
    s.need_root()
    s.need_proflet()
    hosts(s)
    mount(s, s.path("hosts"), "/etc/hosts")
    ca, ca_key = certificates.authority(s, "ca")
    other, other_key = certificates.authority(s, "other")
    good = certificates.issue(s, "server", ca, ca_key, names="DNS:" + NAME)
    bad = certificates.issue(s, "impostor", other, other_key, names="DNS:" + NAME)
    programs.start_chain(s)
    moves(s)
    one_of_two_is_wrong(s, good, bad)
    renewed(s, good, ca, ca_key)
    system_roots(s, ca)
    hosts(s, "127.0.0.1")
    words = ("GRPC_TLS", "HTTP_TLS", "GRPC_MTLS", "HTTP_MTLS")
    ports = {word: free_port() for word in words}
    env = dict({word: f"127.0.0.1:{port}" for word, port in ports.items()}, CERT=good[0], KEY=good[1], CA=ca,
               METRICS=str(free_port()))
    collector = Collector(s, "config-interop.yaml", env=env)
    trust(s, collector, {"grpc": ports["GRPC_TLS"], "http/protobuf": ports["HTTP_TLS"]}, ca, other)


if __name__ == "__main__":
    if MARK not in os.environ and os.geteuid() == 0 and shutil.which("unshare"):
        os.environ[MARK] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    Scenario("names").execute(body)
