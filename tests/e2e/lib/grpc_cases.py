# SPDX-License-Identifier: Apache-2.0
"""What is shown with each gRPC implementation, see grpc_servers. Cases that do not disturb each other run together."""
import os

from . import certificates, programs, spooled
from .grpc_servers import Case, end
from .scenario import wait_for

TEXT = "zu viel los: 100 % – später"  # grpc-message percent-encodes what is not printable ASCII
RETRY_SECONDS = 0.7
MAX_AGE_SECONDS = 2
LIMIT = 4 << 20  # of a message, the default of all three
ANY_STREAM = (1 << 31) - 1


def run(s, kind, codings, answers=(), refused=None, both_steps=True):
    """`codings`: of requests; `answers`: those in which the server answers in the same; `refused`: one that it lacks."""
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    well(s, kind, codings, answers)
    troubled(s, kind, both_steps)
    if refused:
        unknown_coding(s, kind, refused)


# --- servers with which all goes well
def well(s, kind, codings, answers):
    coded = [Case(s, kind, f"in {name}", compression=name, **({"compress": name} if name in answers else {}))
             for name in codings]
    path = s.path("server.sock")
    cases = coded + [Case(s, kind, "IPv6", listen="[::1]:{port}", endpoint="http://[::1]:{port}"),
                     Case(s, kind, "a Unix socket", listen="unix:" + path, endpoint="unix:" + path)] + secured(s, kind)
    for case in cases:
        case.wait()
    end(cases)
    for case in cases:
        case.check()
        s.equal(f"{case.name}: nothing came twice", case.contents.twice(), 0)
    for case in coded:
        n = sum(c.compressed_answers() for c in case.tap.connections)
        s.check(f"{case.name}: answers on the wire", n >= 3 if case.compression in answers else n == 0, f"{n} compressed")


def secured(s, kind):
    """TLS, a name other than the endpoint's, and a client that must show a certificate."""
    ca, ca_key = certificates.authority(s, "ca")
    cert, key = certificates.issue(s, "server", ca, ca_key)
    named, named_key = certificates.issue(s, "named", ca, ca_key, names="DNS:collector.example")
    client, client_key = certificates.issue(s, "client", ca, ca_key, names="DNS:agent")
    trust, url = ["--tls.ca", ca], "https://localhost:{port}"
    return [Case(s, kind, "TLS", *trust, endpoint=url, cert=cert, key=key),
            Case(s, kind, "TLS by another name", *trust, "--tls.server_name", "collector.example", endpoint=url, cert=named,
                 key=named_key),
            Case(s, kind, "mTLS", *trust, "--tls.cert", client, "--tls.key", client_key, endpoint=url, cert=cert, key=key,
                 client_ca=ca)]


# --- servers that make trouble
def troubled(s, kind, both_steps):
    busy = Case(s, kind, "busy", busy=2, text=TEXT, retry=RETRY_SECONDS)
    aged = Case(s, kind, "max_connection_age", max_age=MAX_AGE_SECONDS, delay=0.6)
    spool = s.folder("spool")
    n_large, size = spooled.large_request(spool, LIMIT + (1 << 20))
    large = Case(s, kind, "too large", "--queue.spool", spool)
    stranger = Case(s, kind, "mTLS without a certificate", "--tls.ca", s.path("ca.pem"), endpoint="https://localhost:{port}",
                    cert=s.path("server.pem"), key=s.path("server.key"), client_ca=s.path("ca.pem"))
    lines = stranger.agent.wait_line("collector is away", 30)
    busy.wait()
    large.wait()
    wait_for(lambda: len(aged.tap.connections) >= 4 or aged.agent.process.poll() is not None, 60, "four connections")
    end([stranger, busy, large, aged])
    s.equal("mTLS without a certificate: requests that arrived", len(stranger.server.files()), 0)
    s.check("mTLS without a certificate: the log says why", "certificate" in lines[0], lines[0][:200])
    check_busy(s, busy)
    check_aged(s, aged, both_steps)
    check_large(s, large, spool, n_large, size)


def check_busy(s, case):
    """UNAVAILABLE with RetryInfo: the same request comes again, not before the time asked for."""
    def kept(path):
        with open(path, "rb") as f:
            return os.stat(path).st_mtime, f.read()

    case.check()
    first, second, third = map(kept, case.server.files()[:3])
    s.check("busy: what was refused comes again, unchanged", first[1] == second[1] == third[1])
    s.check("busy: not before the time that RetryInfo asks for", min(second[0] - first[0], third[0] - second[0]) >= RETRY_SECONDS,
            f"{second[0] - first[0]:.2f} s, {third[0] - second[0]:.2f} s")
    s.check("busy: the log has the server's text", len(case.agent.lines("away: UNAVAILABLE: " + TEXT)) == 1,
            "; ".join(case.agent.lines("away"))[:200])
    s.equal("busy: nothing came twice", case.contents.twice(), 0)


def check_aged(s, case, both_steps):
    """GOAWAY every 2 s, with a request on the way most of the time."""
    case.check()
    goaways = [c.goaways for c in case.tap.connections if c.goaways]
    s.check("max_connection_age: the server sent GOAWAY", len(goaways) >= 2, str(goaways))
    if both_steps:  # with nothing on the way the agent leaves after the first
        s.check("max_connection_age: the first step, and the second where the connection still was", bool(goaways) and
                all(g[0] == ANY_STREAM and (len(g) == 1 or g[-1] < ANY_STREAM) for g in goaways), str(goaways))
    s.equal("max_connection_age: nothing came twice", case.contents.twice(), 0)
    s.equal("max_connection_age: lines that say away", len(case.agent.lines("is away")), 0)


def check_large(s, case, spool, n_large, size):
    """A request of an earlier run is beyond the server's limit when it is decompressed: it comes in two parts."""
    final = case.check()
    s.equal("too large: recovered", final.get("recovered"), n_large)
    parts = [f for f in case.server.accepted() if os.path.getsize(f) > size / 3]
    s.equal("too large: it came in two parts", len(parts), 2)
    left = [f for f in os.listdir(spool) if f.endswith(".otlp")]
    s.check("too large: nothing is left in the spool", not left, str(left))


def unknown_coding(s, kind, coding):
    """The server refuses the coding: the agent says so once and goes on with one that it has."""
    case = Case(s, kind, f"{coding}, which it lacks", compression=coding)
    case.lacks_coding = True
    case.wait()
    end([case])
    case.check()
    lines = case.agent.lines(f"does not take {coding}")
    s.equal(f"{case.name}: lines that say so", len(lines), 1)
    s.note(f"{case.name}: {lines[:1]}")
