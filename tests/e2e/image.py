#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The container image: what is in it, that containerd and docker take it, the one for both architectures, and the agent in it with a
pod's rights.

The container is run as the chart's pod is: host PID namespace, the eight capabilities (less what this machine itself lacks),
read-only root, no new privileges, deploy/seccomp.json, here with death instead of an error for every other call: who lives
was refused nothing. By gRPC with a spool and /metrics, by HTTP, without a Collector, and `proflet check`.
"""
import hashlib
import io
import json
import os
import signal
import struct
import tarfile
import urllib.request

from lib import programs
from lib.collector import Collector
from lib.containers import Containerd, Docker, remove_cgroup
from lib.machine import hang_limit
from lib.scenario import PROFLET, ROOT, Scenario, free_port, tail, wait_for

MAX_MIB = 60
CGROUP = "/proflet-e2e-image"
SPOOL = "/var/lib/proflet/spool"
NAME = "docker.io/library/proflet:e2e"
BOTH = "docker.io/library/proflet:both"
MACHINES = {"amd64": 62, "arm64": 183} # in ELF headers
CAPABILITIES = {"SYS_PTRACE": 19, "SYS_RESOURCE": 24, "SYSLOG": 34, "IPC_LOCK": 14, "DAC_READ_SEARCH": 2, "PERFMON": 38, "BPF": 39,
                "CHECKPOINT_RESTORE": 40}


def make(s, name):
    path = s.path(name)
    done = s.run([os.path.join(ROOT, "deploy", "image"), "-o", path, "-n", NAME, "--max-mib", str(MAX_MIB), PROFLET], seconds=180)
    return path, done.stdout.strip().split(": ", 1)[1]


def contents(s, archive):
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    index, legacy = json.loads(files["index.json"]), json.loads(files["manifest.json"])[0]
    blobs = {n: d for n, d in files.items() if n.startswith("blobs/sha256/")}
    s.check("every blob is named by its digest", all(n.endswith(hashlib.sha256(d).hexdigest()) for n, d in blobs.items()))
    manifest = json.loads(files["blobs/" + index["manifests"][0]["digest"].replace(":", "/")])
    config = json.loads(files[legacy["Config"]])
    s.check("both tables of contents name the same image", legacy["Config"].endswith(manifest["config"]["digest"].split(":")[1]) and
            legacy["RepoTags"] == [NAME])
    s.equal("entry point", (config["config"]["Entrypoint"], config["config"]["Cmd"]), (["/usr/bin/proflet-start"], ["run"]))
    labels = config["config"]["Labels"]
    s.check("labels name title, version, licence and revision", all(labels.get("org.opencontainers.image." + n) for n in
            ("title", "version", "licenses", "revision", "created")), str(labels))
    layer = s.path("layer.tar.gz")
    with open(layer, "wb") as f:
        f.write(files[legacy["Layers"][0]])
    with tarfile.open(layer) as tar:
        members = tar.getmembers()
    names = {m.name for m in members}
    writable = [m.name for m in members if not m.issym() and m.mode & 0o222]
    s.check("no file is writable, none belongs to an id that runs", not writable and {m.uid for m in members} == {65532}, str(writable))
    run = {m.name for m in members if m.isfile() and m.mode & 0o111 and ".so" not in m.name}
    s.equal("the only programs", run, {"usr/bin/proflet", "usr/bin/proflet-start"})
    records = [n for n in names if n.startswith("var/lib/dpkg/status.d/")]
    s.check("scanners find the packages and their licences", "etc/os-release" in names and len(records) > 20 and
            all(f"usr/share/doc/{os.path.basename(n)}/copyright" in names for n in records), f"{len(records)} packages")
    s.equal("files at most", sum(m.size for m in members) <= MAX_MIB * 2**20, True)


def bounding():
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("CapBnd:")).split()[1], 16)


def pod_spec(arguments, capabilities, spool):
    """What the kubelet's runtime makes of the chart's pod: the host's PIDs, rights, seccomp profile, masked paths."""
    with open(os.path.join(ROOT, "deploy", "seccomp.json")) as f:
        profile = json.load(f)
    calls = [{k: v for k, v in group.items() if k != "comment"} for group in profile["syscalls"]]
    seccomp = {"defaultAction": "SCMP_ACT_KILL_PROCESS", "architectures": profile["architectures"], "syscalls": calls}
    rights = ["CAP_" + c for c in capabilities]
    quiet = ["nosuid", "noexec", "nodev"]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": arguments, "env": ["PATH=/usr/bin", "K8S_NODE_NAME=e2e"],
                    "noNewPrivileges": True, "capabilities": {"bounding": rights, "effective": rights, "permitted": rights}},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": quiet},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
                   {"destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro", *quiet]},
                   {"destination": SPOOL, "type": "bind", "source": spool, "options": ["rbind", "rw", *quiet]}],
        "linux": {"cgroupsPath": CGROUP, "namespaces": [{"type": t} for t in ("mount", "uts", "ipc")], "seccomp": seccomp,
                  "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
                                  "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"],
                  "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]},
    }


class Pod:
    """The agent's container, one at a time, from a bundle with the image's files."""

    def __init__(self, s, bundle):
        self.s, self.bundle = s, bundle
        self.runc = ["runc", "--root", s.folder("runc")]
        self.given = [c for c, number in CAPABILITIES.items() if bounding() >> number & 1]
        missing = sorted(set(CAPABILITIES) - set(self.given))
        s.note(f"capabilities: {' '.join(self.given)}" + (f"; this machine has no {' '.join(missing)}" if missing else ""))
        s.defer(lambda: remove_cgroup(CGROUP))

    def start(self, name, *arguments):
        """Returns runc's process, which ends as the agent does, and the agent's id."""
        with open(os.path.join(self.bundle, "config.json"), "w") as f:
            json.dump(pod_spec(["/usr/bin/proflet-start", *arguments], self.given, self.s.folder("spool")), f)
        ident, pid = f"proflet-{name}", self.s.path(name + ".pid")
        self.s.defer(lambda: self.s.run([*self.runc, "delete", "--force", ident], check=False))
        process = self.s.start([*self.runc, "run", "--bundle", self.bundle, "--pid-file", pid, ident], ident)
        wait_for(lambda: process.poll() is not None or (os.path.exists(pid) and os.path.getsize(pid)), 30, "the container starts")
        with open(pid) as f:
            return process, int(f.read())

    def end(self, what, process, pid):
        if process.poll() is None:
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: process.poll() is not None, 40, "the container ends")
        self.s.equal(f"{what}: no call was refused, exit code", process.returncode, 0)


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def rights(s, pid):
    with open(f"/proc/{pid}/status") as f:
        fields = {name: value.strip() for name, _, value in (line.partition(":") for line in f)}
    allowed = sum(1 << number for number in CAPABILITIES.values())
    s.check("the agent holds none but the eight", not (int(fields["CapEff"], 16) | int(fields["CapBnd"], 16)) & ~allowed, fields["CapEff"])
    s.equal("no new privileges, filtered", (fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"))
    s.note(f"RSS {int(fields['VmRSS'].split()[0]) / 1024:.1f} MiB, peak {int(fields['VmHWM'].split()[0]) / 1024:.1f} MiB")


def agent_in_pod(s):
    programs.start_chain(s)
    collector, port = Collector(s), free_port()
    pod = Pod(s, s.path("bundle"))
    for name, options in (("grpc", ["--endpoint", collector.endpoint()]),
                          ("http", ["--endpoint", f"http://127.0.0.1:{collector.http_port}", "--protocol", "http/protobuf", "--compression", "zstd"])):
        before = len(collector.samples())
        process, pid = pod.start(name, "run", *options, "--window", "1s", "--listen", f"127.0.0.1:{port}", "--queue.spool", SPOOL)
        chains = lambda: [x for x in collector.samples()[before:] if programs.is_chain(x)]
        wait_for(lambda: process.poll() is not None or chains(), 60, f"samples by {name}")  # the first window is of some milliseconds
        if name == "grpc" and process.poll() is None:
            rights(s, pid)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=hang_limit(10)) as answer:
                s.check("/metrics answers", b"proflet_" in answer.read())
        pod.end(name, process, pid)
        s.check(f"{name}: the log has no error", "level=error" not in read(process.log), tail(process.log, 20))
        collector.settle()
        s.check(f"{name}: samples with exact chains arrived", chains(), f"{len(chains())}")
    process, pid = pod.start("away", "run", "--endpoint", f"http://127.0.0.1:{free_port()}", "--window", "1s", "--listen", "off",
                             "--queue.spool", SPOOL)
    waiting = lambda: [name for name in os.listdir(s.path("spool")) if name.endswith(".otlp")]
    wait_for(lambda: waiting() or process.poll() is not None, 60, "a request in the spool")
    pod.end("no Collector", process, pid)
    s.check("what waits is in the spool", waiting(), read(process.log)[-300:])
    process, _ = pod.start("check", "check", "--endpoint", collector.endpoint())
    wait_for(lambda: process.poll() is not None, 60, "check ends")
    s.check("check says that run would work", process.returncode == 0, tail(process.log, 20))


def both(s, containerd):
    """One archive for two architectures: all of a layer's programs are of its own, and the engine takes the one of this machine."""
    path = s.path("both.tar")
    s.run([os.path.join(ROOT, "deploy", "image"), "--platforms", ",".join(MACHINES), "-o", path, "-n", BOTH], seconds=600)
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    blob = lambda descriptor: files["blobs/" + descriptor["digest"].replace(":", "/")]
    top = json.loads(files["index.json"])["manifests"]
    manifests = json.loads(blob(top[0]))["manifests"]
    s.equal("one image, of two architectures", (len(top), [m["platform"]["architecture"] for m in manifests]), (1, list(MACHINES)))
    for manifest in manifests:
        name = manifest["platform"]["architecture"]
        with tarfile.open(fileobj=io.BytesIO(blob(json.loads(blob(manifest))["layers"][0]))) as layer:
            programs_of = {m.name: layer.extractfile(m).read(20) for m in layer.getmembers() if m.isfile()}
        machines = {n: struct.unpack_from("<H", head, 18)[0] for n, head in programs_of.items() if head.startswith(b"\x7fELF")}
        s.check(f"{name}: all programs and libraries are of it", set(machines.values()) == {MACHINES[name]} and len(machines) > 20 and
                "usr/bin/proflet" in machines, str(machines)[:300])
        s.check(f"{name}: scanners find the packages", sum(n.startswith("var/lib/dpkg/status.d/") for n in programs_of) > 20)
    containerd.ctr("images", "import", "--all-platforms", path)
    said = next((line for line in containerd.ctr("images", "ls").stdout.splitlines() if line.startswith(BOTH)), "")
    s.check("containerd has it for both", all("linux/" + name in said for name in MACHINES), said)
    done = containerd.ctr("run", "--rm", BOTH, "proflet-both", "/usr/bin/proflet", "version", check=False)
    s.check("containerd runs the one of this machine", "proflet" in done.stdout, done.stdout + done.stderr)


def engines(s, archive):
    containerd = Containerd(s)
    both(s, containerd)
    containerd.ctr("images", "import", archive)
    done = containerd.ctr("run", "--rm", NAME, "proflet-version", "/usr/bin/proflet", "version", check=False)
    s.check("containerd takes it and runs it", "proflet" in done.stdout, done.stdout + done.stderr)
    docker = Docker(s, containerd)
    said = docker.docker("load", "-i", archive).stdout
    s.check("docker load takes it", NAME.removeprefix("docker.io/library/") in said, said)
    done = docker.docker("run", "--rm", "--network", "none", NAME, "version")
    s.check("docker runs it", "proflet" in done.stdout, done.stdout + done.stderr)


def body(s):
    s.need_root()
    s.need("containerd", "ctr", "runc")
    s.need_proflet()
    archive, said = make(s, "first.tar")
    s.note(said)
    again, _ = make(s, "second.tar")
    with open(archive, "rb") as a, open(again, "rb") as b:
        s.check("the same inputs make the same bytes", a.read() == b.read())
    contents(s, archive)
    root = s.path("bundle", "rootfs")
    s.run([os.path.join(ROOT, "deploy", "image"), "--rootfs", root, PROFLET], seconds=180)
    done = s.run(["chroot", root, "/usr/bin/proflet-start", "version"], check=False)
    s.check("the program runs with nothing but the image's files", done.returncode == 0 and "proflet" in done.stdout, done.stderr)
    agent_in_pod(s)
    engines(s, archive)


if __name__ == "__main__":
    Scenario("image").execute(body)
