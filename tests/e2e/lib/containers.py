# SPDX-License-Identifier: Apache-2.0
"""containerd and dockerd of the test's own, in its temporary folder, and one image made from busybox and programs.

No registry, no bridge, no firewall rules. The image is a root file system with /bin/sh (busybox), the given programs and
the libraries they need; docker imports it as a tar, containerd as an OCI archive.
"""
import hashlib
import json
import os
import re
import secrets
import shutil
import tarfile
import uuid

from .scenario import wait_for

OCI = "application/vnd.oci.image."


def libraries(s, program):
    out = s.run(["ldd", program], check=False).stdout
    return re.findall(r"(/\S+) \(0x", out)


def rootfs(s, programs):
    """A folder with busybox, the programs in /bin and their libraries where the loader looks for them."""
    root = s.folder("rootfs")
    for d in ("bin", "proc", "sys", "dev", "tmp", "etc"):
        os.makedirs(os.path.join(root, d), exist_ok=True)
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    os.symlink("busybox", os.path.join(root, "bin/sh"))
    for program in programs:
        shutil.copy(program, os.path.join(root, "bin", os.path.basename(program)))
        for library in libraries(s, program):
            target = root + library
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(library, target)
    return root


def tar_rootfs(s, root):
    path = s.path("rootfs.tar")
    with tarfile.open(path, "w") as tar:
        for entry in sorted(os.listdir(root)):
            tar.add(os.path.join(root, entry), arcname=entry)
    return path


def oci_archive(s, layer, name, entrypoint=None):
    """Wraps a layer tar into an OCI image archive that `ctr images import` takes."""
    folder = s.folder("oci", "blobs", "sha256")

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(folder, digest), "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + digest, "size": len(data)}

    with open(layer, "rb") as f:
        layer_blob = blob(f.read())
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    config = blob(json.dumps({
        "architecture": arch, "os": "linux", "config": {"Env": ["PATH=/bin"], "Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]}}).encode())
    manifest = blob(json.dumps({
        "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
        "config": dict(config, mediaType=OCI + "config.v1+json"),
        "layers": [dict(layer_blob, mediaType=OCI + "layer.v1.tar")]}).encode())
    index = {"schemaVersion": 2, "manifests": [dict(
        manifest, mediaType=OCI + "manifest.v1+json", platform={"architecture": arch, "os": "linux"},
        annotations={"io.containerd.image.name": name})]}
    for file, content in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(s.path("oci", file), "w") as f:
            json.dump(content, f)
    path = s.path("image.tar")
    with tarfile.open(path, "w") as tar:
        for entry in ("oci-layout", "index.json", "blobs"):
            tar.add(s.path("oci", entry), arcname=entry)
    return path


def remove_cgroup(path):
    """Removes the empty cgroups of `path`, from the leaf upwards, in every hierarchy."""
    base = "/sys/fs/cgroup"
    for hierarchy in [base] + [os.path.join(base, h) for h in os.listdir(base)]:
        d = path
        while d.strip("/"):
            try:
                os.rmdir(hierarchy + d)
            except OSError:
                pass
            d = os.path.dirname(d)


def remove_later(s, folder):
    """A folder that a daemon makes outside of ours goes with the scenario, if it was not there before and is empty."""
    if not os.path.exists(folder):
        s.defer(lambda: s.run(["find", folder, "-depth", "-type", "d", "-empty", "-delete"], check=False))


class Containerd:
    def __init__(self, s):
        self.s = s
        remove_later(s, "/run/containerd")  # shims put sockets there whatever the state directory
        s.folder("containerd")
        self.socket = s.path("containerd", "sock")
        config = s.path("containerd", "config.toml")
        with open(config, "w") as f:
            f.write(f'version = 2\nroot = "{s.path("containerd", "root")}"\nstate = "{s.path("containerd", "state")}"\n'
                    'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
                    f'[grpc]\naddress = "{self.socket}"\n[debug]\nlevel = "warn"\n')
        s.start(["containerd", "-c", config], "containerd")
        wait_for(lambda: self.ctr("version", check=False).returncode == 0, 30, "containerd answers")

    def ctr(self, *argv, check=True):
        return self.s.run(["ctr", "-a", self.socket, "-n", "k8s.io", *argv], check=check)

    def run(self, archive, name, *argv):
        """Starts a container as a pod of Kubernetes has it; returns its id, its pod's UID and its process id."""
        self.ctr("images", "import", archive)
        ident, pod = secrets.token_hex(32), str(uuid.uuid4())
        cgroup = f"/kubepods/burstable/pod{pod}/{ident}"
        self.s.defer(lambda: remove_cgroup(cgroup))
        self.ctr("run", "-d", "--cgroup", cgroup, name, ident, *argv)
        self.s.defer(lambda: self._remove(ident))
        return ident, pod, self._pid(ident)

    def _pid(self, ident):
        for line in self.ctr("tasks", "ls").stdout.splitlines():
            fields = line.split()
            if fields and fields[0] == ident:
                return int(fields[1])
        raise RuntimeError(f"containerd lists no task {ident}")

    def _remove(self, ident):
        self.ctr("tasks", "kill", "-s", "KILL", ident, check=False)
        wait_for(lambda: self.ctr("tasks", "rm", ident, check=False).returncode == 0 or
                 ident not in self.ctr("tasks", "ls", "-q").stdout, 10, "container's task removed")
        self.ctr("containers", "rm", ident, check=False)


class Docker:
    def __init__(self, s, containerd):
        self.s = s
        s.folder("docker")
        s.defer(lambda: remove_cgroup("/docker"))
        remove_later(s, "/run/docker")  # for plugins, whatever the roots
        self.host = "unix://" + s.path("docker", "sock")
        s.start(["dockerd", "--containerd", containerd.socket, "--data-root", s.path("docker", "root"),
                 "--exec-root", s.path("docker", "exec"), "--pidfile", s.path("docker", "pid"), "-H", self.host,
                 "--log-level=warn", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--bridge=none"],
                "dockerd")
        wait_for(lambda: self.docker("version", check=False).returncode == 0, 60, "dockerd answers")

    def docker(self, *argv, check=True):
        return self.s.run(["docker", "-H", self.host, *argv], check=check)

    def run(self, rootfs_tar, name, *argv):
        """Starts a container; returns its 64-digit id and its process id."""
        self.docker("import", rootfs_tar, name)
        ident = self.docker("run", "-d", "--network", "none", name, *argv).stdout.strip()
        self.s.defer(lambda: self.docker("rm", "-f", ident, check=False))
        return ident, int(self.docker("inspect", "-f", "{{.State.Pid}}", ident).stdout)
