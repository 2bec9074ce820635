#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`proflet check` in environments that are broken for real: each time it names the cause and the fix, and ends as it says.

An environment takes something away (a mount, a capability, a system call), or has another server where the Collector
should be. In each: the exit code, one line with status, cause and fix, the same as JSON, and nothing else fails that the
environment did not break. Where `check` says that `run` would not start, it does not, and where it says that, it does.
"""
import concurrent.futures
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from lib import certificates, faults
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import hang_limit
from lib.faulty_server import Server, Step
from lib.scenario import PROFLET, Scenario, free_port

CAPABILITIES = "bpf perfmon sys_ptrace sys_resource dac_read_search syslog checkpoint_restore ipc_lock".split()
SECCOMP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "seccomp.py")
BPF, PERF_EVENT_OPEN, EPERM, ENOSYS = 321, 298, 1, 38
NOBODY = "65534"
LINE = re.compile(r"^(ok|degraded|fails) +(.+?)  +(.*?)(?: → (.*))?$")
AT_ONCE = 3
STARTED = "started"
MOVES = "cpu weight"  # the line whose status depends on how busy the machine is at that time


def mounted(script):
    return ["unshare", "-m", "sh", "-c", script + ' && exec "$@"', "sh"]


def without(*names):
    """As a pod has it, but for these."""
    return ["setpriv", "--bounding-set", "-all," + ",".join("+" + c for c in CAPABILITIES if c not in names and c in has()), "--inh-caps", "-all"]


def has():
    with open("/proc/self/status") as f:
        bounding = int(re.search(r"CapBnd:\s*(\w+)", f.read()).group(1), 16)
    numbers = dict(zip(CAPABILITIES, (39, 38, 19, 24, 2, 34, 40, 14)))
    return {c for c, n in numbers.items() if bounding >> n & 1}


def seccomp(number, errno):
    return [sys.executable, SECCOMP, str(number), str(errno)]


# name: prefix of the command; options; exit code; name of the line, its status, cause and fix; run's exit code (None: not asked
# where check fails)
def node(s):
    """What a node or a container runtime may lack."""
    spool = s.folder("spool")
    yield "no BTF", mounted("mount -t tmpfs none /sys/kernel/btf"), [], 1, "btf", "fails", "No such file", "CONFIG_DEBUG_INFO_BTF=y", 1
    yield ("BTF that may not be read", mounted("mount -t tmpfs none /sys/kernel/btf && install -m 0 -o nobody /dev/null /sys/kernel/btf/vmlinux") +
           without("dac_read_search"), [], 3, "btf", "fails", "Permission denied", "let the agent read", 1)
    yield ("lockdown", mounted("mount -t tmpfs none /sys/kernel/security && echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown"),
           [], 1, "lockdown", "fails", "confidentiality", "lockdown=integrity", None)
    yield "no CAP_BPF", without("bpf"), [], 3, "CAP_BPF", "fails", "missing", "add BPF to", 3
    yield "no CAP_PERFMON", without("perfmon"), [], 3, "CAP_PERFMON", "fails", "missing", "add PERFMON to", 3
    yield ("an ordinary user", ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps", "-all"], [], 3,
           "CAP_BPF", "fails", "missing", "run as root", 3)
    yield "a user namespace", ["unshare", "-Ur"], [], 3, "user namespace", "fails", "not the initial one", "hostUsers: true", 3
    yield "seccomp refuses bpf", seccomp(BPF, EPERM), [], 3, "bpf", "fails", "not permitted", "seccomp filter is active: use the profile", 3
    yield "seccomp knows no bpf", seccomp(BPF, ENOSYS), [], 1, "bpf", "fails", "not implemented", "allow bpf in the seccomp profile", 1
    yield ("seccomp refuses perf_event_open", seccomp(PERF_EVENT_OPEN, EPERM), [], 0, "perf_event_open", "degraded", "the timer tick is used instead",
           "seccomp filter is active", None)
    yield ("seccomp refuses the event that was asked for", seccomp(PERF_EVENT_OPEN, EPERM), ["--sampling.event", "cpu-clock"], 3,
           "perf_event_open", "fails", "denied", "seccomp filter is active", 3)
    yield ("neither perf events nor symbols", mounted("mount --bind /dev/null /proc/kallsyms") + seccomp(PERF_EVENT_OPEN, EPERM), [], 3,
           "kallsyms", "fails", "empty: the timer tick, the only event left", "mount over it", 1)
    yield "kallsyms masked", mounted("mount --bind /dev/null /proc/kallsyms"), [], 0, "kallsyms", "degraded", "is empty", "mount over it", None
    yield "no CAP_SYSLOG", without("syslog"), [], 0, "kallsyms", "degraded", "all addresses are zero", "SYSLOG|kptr_restrict=1", None
    yield "no CAP_SYS_PTRACE", without("sys_ptrace"), [], 0, "binaries", "degraded", "map_files", "add SYS_PTRACE", None
    yield ("/proc with hidepid", mounted("mount -t proc -o hidepid=4 proc /proc") + without("sys_ptrace"), [], 0, "proc", "degraded",
           "hidepid=", "add SYS_PTRACE to .*hidepid=0", None)
    yield "no /proc", mounted("mount -t tmpfs none /proc"), [], 1, "proc", "fails", "No such file", "mount -t proc", None
    yield ("/proc of another PID namespace", ["unshare", "-p", "-f"], [], 1, "pid namespace", "fails", "another PID namespace", "hostPID: true", None)
    yield "no hostPID", ["unshare", "-p", "-f", "--mount-proc"], [], 0, "pid namespace", "degraded", "own container", "hostPID: true", None
    yield "no cgroup mount", mounted("umount -l /sys/fs/cgroup"), [], 0, "cgroup", "degraded", "not mounted", "mount it at /sys/fs/cgroup", None
    yield ("little locked memory", ["prlimit", "--memlock=65536:65536", *without("ipc_lock")], [], 0, "CAP_IPC_LOCK", "degraded",
           "perf_event_mlock_kb", "add IPC_LOCK", None)
    yield "few open files", ["prlimit", "--nofile=1024:1024"], [], 0, "open files", "degraded", "at most 1024: further binaries", "LimitNOFILE", None
    yield "hardly any open files", ["prlimit", "--nofile=64:64"], [], 1, "open files", "fails", "at most 64: the BPF program", "LimitNOFILE", 1
    yield ("a spool on a read-only file system", mounted(f"mount --bind {spool} {spool} && mount -o remount,bind,ro {spool}"),
           ["--queue.spool", spool], 0, "spool", "degraded", "Read-only file system", "mount a writable volume", None)
    yield ("a spool on a full file system", mounted(f"mount -t tmpfs -o size=64k none {spool}"), ["--queue.spool", spool], 0, "spool",
           "degraded", "No space left", "make room", None)
    yield "a spool nowhere", [], ["--queue.spool", s.path("not", "there")], 0, "spool", "degraded", "No such file", "parent directory", None


class Raw:
    """Takes connections; says `banner` and no more."""

    def __init__(self, s, banner=b""):
        self.sock, self.banner, self.held = socket.create_server(("127.0.0.1", 0)), banner, []
        s.defer(self.sock.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.sock.accept()
            except OSError:
                return
            self.held.append(c)
            if self.banner:
                c.sendall(self.banner)

    def endpoint(self):
        return "http://127.0.0.1:%d" % self.sock.getsockname()[1]


def taken(s):
    """Addresses for `listen` that are somebody's: an agent's, another server's."""
    address = f"127.0.0.1:{free_port()}"
    agent = Agent(s, "http://127.0.0.1:1", "--listen", address)
    agent.wait_line('msg="sampling" ', 30)
    yield "an agent that runs already", [], ["--listen", address], 0, "listen", "ok", "in use by an agent that runs already", "", None
    for name, banner in (("a server that says nothing, where it would listen", b""), ("another server, where it would listen", b"HTTP/1.0 200 OK\r\n\r\nhello\n")):
        yield (name, [], ["--listen", Raw(s, banner).endpoint().removeprefix("http://")], 1, "listen", "fails", "Address already in use",
               "set listen to another address", None)


def web_server(s):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    s.defer(server.server_close)
    s.defer(server.shutdown)
    return "http://127.0.0.1:%d" % server.server_address[1]


def peers(s, collector):
    """Who may be found where the Collector should be."""
    ca, key = certificates.authority(s, "authority")
    other, _ = certificates.authority(s, "other-authority")
    cert, cert_key = certificates.issue(s, "server", ca, key)
    secure = Collector(s, "config-tls.yaml", env={"CERT": cert, "KEY": cert_key})
    plain = Collector(s, "config-traces.yaml", gate=False)
    http_closed, https = f"http://127.0.0.1:{free_port()}", secure.endpoint("https", "localhost")
    asks = Server(s, then=Step("UNAUTHENTICATED", faults.grpc_code(16)))
    busy = Server(s, then=Step("UNAVAILABLE", faults.grpc_code(14)))
    for name, endpoint, options, cause, fix in (
            ("a closed port", http_closed, [], "Connection refused", "start a collector there, or correct endpoint"),
            ("a closed port, by HTTP", http_closed, ["--protocol", "http/protobuf"], "(?i)refused|connect", "start a collector there, or correct endpoint"),
            ("a server that says nothing", Raw(s).endpoint(), [], "no answer", "a server that is no OTLP receiver"),
            ("a server of another protocol", Raw(s, b"SSH-2.0-server\r\n").endpoint(), [], "endpoint", "a server that is no OTLP receiver"),
            ("a web server", web_server(s), [], "endpoint", "a server that is no OTLP receiver"),
            ("a Collector without profiles", plain.endpoint(), [], "does not serve OTLP profiles", r"feature-gates=\+service.profilesSupport"),
            ("a Collector with TLS, asked without", secure.endpoint(), [], "connection", "https:// if it speaks TLS"),
            ("a Collector without TLS, asked with", collector.endpoint("https"), [], "TLS", "use https:// in endpoint only for a collector that speaks TLS"),
            ("a certificate of another authority", https, ["--tls.ca", other], "certificate", "tls.ca"),
            ("a certificate for another name", https, ["--tls.ca", ca, "--tls.server_name", "else.example"], "certificate", "tls.server_name"),
            ("a certificate of another authority, by HTTP", https, ["--tls.ca", other, "--protocol", "http/protobuf"], "(?i)certificate|ssl", "tls.ca"),
            ("a file of roots that is not there", https, ["--tls.ca", s.path("none.pem")], "none.pem: No such file", "tls.ca"),
            ("a server that wants a header", asks.endpoint(), [], "UNAUTHENTICATED", "headers_file"),
            ("a server that is busy", busy.endpoint(), [], "UNAVAILABLE", "collector's own log"),
            ("a file of headers that is not there", collector.endpoint(), ["--headers_file", s.path("none")], "none", "correct the setting")):
        yield name, [], ["--endpoint", endpoint, *options], 1, "collector", "fails", cause, fix, None
    yield ("a name that nobody knows", ["unshare", "-n"], ["--endpoint", "http://collector.invalid:4317"], 1, "collector", "fails",
           "resolve collector.invalid", "correct the name in endpoint", None)
    yield ("a kubelet that is not there", [], ["--kubernetes.metadata", "on", "--kubernetes.kubelet", http_closed], 0, "kubelet", "degraded",
           "refused|connect", "kubernetes.kubelet", None)


def parse(text):
    return [dict(zip(("status", "name", "detail", "fix"), (x or "" for x in LINE.match(line).groups()))) for line in text.splitlines()]


class Program:
    def __init__(self, s, collector):
        self.s, self.endpoint = s, collector.endpoint()
        os.chmod(s.tmp, 0o755)
        self.program = shutil.copy(PROFLET, s.path("proflet"))  # for who may not look into a home

    def command(self, prefix, options, command="check"):
        return [*prefix, self.program, command, "--endpoint", self.endpoint, *options]

    def ask(self, row):
        """(exit code, lines, JSON, run's exit code)"""
        _, prefix, options, _, _, _, _, _, runs = row
        if "--listen" not in options:  # several ask at once
            options = [*options, "--listen", "off"]
        text = self.s.run(self.command(prefix, options), check=False)
        machine = self.s.run(self.command(prefix, ["--json", *options]), check=False)
        return text, machine, self.run(prefix, options) if runs is not None or text.returncode == 0 else None

    def run(self, prefix, options):
        """The exit code, or STARTED as soon as it samples."""
        process = subprocess.Popen(self.command(prefix, [*options, "--listen", "off"], "run"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        timer = threading.Timer(hang_limit(20), os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            if any('msg="sampling"' in line for line in process.stderr):
                os.killpg(process.pid, signal.SIGKILL)  # what it delivers is not asked here
                process.wait()
                return STARTED
            return process.wait()
        finally:
            timer.cancel()
            process.stderr.close()


def judge(s, row, usual, answer):
    name, _, _, code, line, status, cause, fix, runs = row
    text, machine, run = answer
    try:
        lines, again = parse(text.stdout), json.loads(machine.stdout)
    except (ValueError, AttributeError) as e:
        s.check(name, False, f"{e}: {text.stdout[-300:]}{text.stderr[-300:]}")
        return
    found = next((x for x in lines if x["name"] == line), None)
    problems = [] if text.returncode == machine.returncode == code else [f"exit {text.returncode} and {machine.returncode}, wanted {code}"]
    if not found or found["status"] != status or not re.search(cause, found["detail"]) or not re.search(fix, found["fix"]):
        problems.append(f"wanted {status}, {cause!r} → {fix!r}")
    if [(x["name"], x["status"], x["fix"]) for x in lines if x["name"] != MOVES] != [
            (x["name"], x["status"], x["fix"]) for x in again if x["name"] != MOVES]:
        problems.append("the JSON says something else")
    if code == 0 and any(x["status"] == "fails" for x in lines):
        problems.append("exit 0, and something fails")
    nameless = [x["name"] for x in lines if x["status"] != "ok" and (not x["detail"] or not x["fix"]) and x["name"] not in usual]
    if nameless:
        problems.append(f"no cause or no fix: {nameless}")
    wanted = STARTED if runs is None and code == 0 else runs
    if run != wanted:
        problems.append(f"run: {run}, wanted {wanted}")
    s.check(name, not problems, "; ".join([*problems, " ".join(text.stdout.split()) if problems and not found else
                                           f"{status} {line}: {found['detail']} → {found['fix']}"])[:500])


NUMBERS = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2}
KEEPERS = {"proflet-parser": "process: parsers", "proflet-opener": "process: openers", "proflet-deliver": "process: delivery"}
ALLOWED = {"process: parsers": set(), "process: openers": {"DAC_READ_SEARCH"}, "process: delivery": {"DAC_READ_SEARCH", "DAC_OVERRIDE"}}


def status_of(pid):
    """What the kernel says: (user, capabilities, no new privileges, seccomp filter)."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    return int(fields["Uid"].split()[0]), int(fields["CapEff"], 16), fields["NoNewPrivs"] == "1", fields["Seccomp"] == "2"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(x) for x in f.read().split()]


def processes(s, agent, lines):
    """Each process of a running agent has the rights that `check` prints, and no others."""
    said = {x["name"]: x["detail"] for x in lines if x["name"].startswith("process: ")}
    s.equal("check prints each process", sorted(said), ["process: agent", "process: delivery", "process: openers", "process: parsers"])
    found = {}
    for keeper in children(agent.process.pid):
        with open(f"/proc/{keeper}/comm", encoding="ascii") as f:
            found[KEEPERS.get(f.read().strip())] = keeper
    s.equal("the agent's processes", sorted(found, key=str), sorted(KEEPERS.values()))
    for name, keeper in found.items():
        m = re.match(r"user (\d+); capabilities ([\w, ]+); (no new privileges|may gain privileges); (no )?seccomp filter; namespaces of its own: (.*)", said[name])
        wanted = (int(m[1]), sum(1 << NUMBERS[c] for c in m[2].split(", ") if c != "none"), m[3] == "no new privileges", not m[4])
        for pid in children(keeper):
            s.equal(f"{name}: rights", status_of(pid), wanted)
            own = [n for n in os.listdir(f"/proc/{pid}/ns") if os.readlink(f"/proc/{pid}/ns/{n}") != os.readlink(f"/proc/{agent.process.pid}/ns/{n}")]
            s.equal(f"{name}: namespaces of its own", ", ".join(sorted(own)) or "none", m[5])
        allowed = sum(1 << NUMBERS[c] for c in ALLOWED[name])
        s.check(f"{name}: no rights but those that it needs", (wanted[0] != 0 or "delivery" in name) and not wanted[1] & ~allowed and wanted[2] and wanted[3], said[name])
    line = next(m for m in agent.lines("capabilities kept"))
    kept = re.search(r"capabilities kept: ([\w, ]+);", line)[1].split(", ")
    numbers = {"BPF": 39, "PERFMON": 38, "SYS_PTRACE": 19, "DAC_READ_SEARCH": 2, "SYSLOG": 34, "CHECKPOINT_RESTORE": 40, "SYS_RESOURCE": 24, "SYS_NICE": 23}
    s.equal("the agent's main thread has what it says", status_of(agent.process.pid)[1], sum(1 << numbers[k] for k in kept))
    threads = [status_of(f"{agent.process.pid}/task/{t}")[2:] for t in os.listdir(f"/proc/{agent.process.pid}/task")]
    s.check("each thread of the agent has a filter of system calls, and gains no privileges", len(threads) > 2 and set(threads) == {(True, True)}, str(threads))


def body(s):
    s.need_root()
    s.need("unshare", "setpriv", "prlimit", "openssl")
    s.need_proflet()
    begin = time.monotonic()
    collector = Collector(s)
    program = Program(s, collector)
    beside = Agent(s, collector.endpoint())  # has taken what perf buffers may lock, for who has no CAP_IPC_LOCK
    beside.wait_line('msg="sampling"', 30)
    healthy = parse(s.run(program.command([], [])).stdout)
    usual = {x["name"] for x in healthy if x["status"] != "ok"}
    s.check("nothing is broken: nothing fails", "fails" not in {x["status"] for x in healthy} and len(healthy) > 15, f"{len(healthy)} lines; not ok: {usual}")
    beside.wait_line("capabilities kept", 30)
    processes(s, beside, healthy)
    rows = [*peers(s, collector), *node(s), *taken(s)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for row, answer in zip(rows, pool.map(program.ask, rows)):
            judge(s, row, usual, answer)
    s.equal("the agent beside them is not disturbed", beside.stop(), 0)
    s.note(f"{len(rows)} environments, {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    Scenario("check").execute(body)
