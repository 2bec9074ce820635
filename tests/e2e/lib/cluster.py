# SPDX-License-Identifier: Apache-2.0
"""A real cluster of one node for scenarios: the images that it needs, and a Collector in it that writes what it received to a file.

The node (tests/support/node) and everything on it is built from Go modules: the first time takes half an hour, later runs half a minute.
"""
import glob
import json
import os
import re
import shutil
import time

from . import containers, programs
from .scenario import ROOT

SUPPORT = os.path.join(ROOT, "tests", "support")
TOOLS_IMAGE = "localhost/pause:1"
PATIENCE = 240  # seconds for what takes 20 on a quiet machine

COLLECTOR = """
apiVersion: v1
kind: Namespace
metadata: {name: observability}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: collector, namespace: observability}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: collector}
rules:
  - {apiGroups: [""], resources: [pods, namespaces, nodes], verbs: [get, list, watch]}
  - {apiGroups: [apps], resources: [replicasets, deployments, daemonsets, statefulsets], verbs: [get, list, watch]}
  - {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: collector}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: collector}
subjects: [{kind: ServiceAccount, name: collector, namespace: observability}]
---
apiVersion: v1
kind: Pod
metadata: {name: collector, namespace: observability}
spec:
  serviceAccountName: collector
  hostNetwork: true
  containers:
    - name: collector
      image: %(image)s
      command: [/bin/otelcol-k8s, --config, /config/kubernetes.yaml, --config, /config/file.yaml, --feature-gates=+service.profilesSupport]
      env:
        - {name: BACKEND, value: "127.0.0.1:1"}
        - {name: OUT, value: /out}
      readinessProbe: {httpGet: {path: /, port: 13133}, periodSeconds: 2}
      volumeMounts:
        - {name: config, mountPath: /config}
        - {name: out, mountPath: /out}
  volumes:
    - {name: config, configMap: {name: collector}}
    - {name: out, hostPath: {path: %(out)s}}
"""
# Laid over deploy/collector/kubernetes.yaml.
TO_FILE = """
exporters:
  file: {path: "${env:OUT}/profiles.json", append: true, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    profiles: {exporters: [file]}
"""


class Node:
    """The cluster of one node, and the commands against it. `env` is what a shell needs for them."""

    def __init__(self, s, *archives):
        """Starts it with the images of `archives` and of the tools; builds first what the cache lacks."""
        self.s, self.folder = s, os.path.join(SUPPORT, "node")
        s.note("building Kubernetes, the Collector and Helm where the cache lacks them")
        tools = tools_archive(s)
        helm = s.run([os.path.join(SUPPORT, "build-helm")], seconds=4 * 3600).stdout.strip()
        s.defer(lambda: s.run([os.path.join(self.folder, "down")], seconds=120, check=False))
        begin = time.monotonic()
        said = s.run([os.path.join(self.folder, "up"), tools, *archives], seconds=4 * 3600).stdout
        s.note(f"the node is up after {time.monotonic() - begin:.0f} s")
        self.env = dict(re.findall(r"^export (\w+)=(\S+)$", said, flags=re.M))
        self.env["PATH"] = helm + ":" + self.env["PATH"].replace("$PATH", os.environ["PATH"])

    def run(self, *argv, check=True, seconds=PATIENCE + 60, given=None):
        argv = [shutil.which(argv[0], path=self.env["PATH"]), *argv[1:]]
        if given is not None:
            path = self.s.path("given.yaml")
            with open(path, "w") as f:
                f.write(given)
            argv += ["-f", path]
        return self.s.run(argv, seconds=seconds, env=self.env, check=check)

    def start(self, *argv):
        return self.s.start([shutil.which(argv[0], path=self.env["PATH"]), *argv[1:]], argv[0], env=self.env)

    def get(self, *argv):
        return json.loads(self.run("kubectl", "get", *argv, "-o", "json").stdout)

    def ready(self, namespace, pod):
        self.run("kubectl", "-n", namespace, "wait", "--for=condition=Ready", f"--timeout={PATIENCE}s", f"pod/{pod}")


def tools_archive(s):
    """One image with the pause program, the Collector, the known-chain program and busybox."""
    s.run([os.path.join(SUPPORT, "node", "build")], seconds=4 * 3600)
    cache = os.environ.get("K8S_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proflet", "node")
    pause = glob.glob(os.path.join(cache, "bin-*", "pause"))
    collector = s.run([os.path.join(SUPPORT, "otelcol-k8s", "build")], seconds=4 * 3600).stdout.strip()
    root = containers.rootfs(s, [pause[0], os.path.join(collector, "otelcol-k8s"), programs.build_c(s, "chain")])
    return containers.oci_archive(s, containers.tar_rootfs(s, root), TOOLS_IMAGE, ["/bin/pause"])


def need(s):
    s.need_root()
    s.need("containerd", "ctr", "runc", "openssl", "ip", "iptables", "nsenter", "gcc", "busybox")
    s.need_proflet()


def apply_collector(node, out):
    node.run("kubectl", "apply", given=COLLECTOR % {"image": TOOLS_IMAGE, "out": out})


def start_collector(s, node):
    """The Collector of deploy/collector/kubernetes.yaml at the node's address; → the file with all requests that it received."""
    out = s.folder("collected")
    os.chmod(out, 0o777)
    overlay = s.path("file.yaml")
    with open(overlay, "w") as f:
        f.write(TO_FILE)
    apply_collector(node, out)
    node.run("kubectl", "-n", "observability", "create", "configmap", "collector", "--from-file",
             os.path.join(ROOT, "deploy", "collector", "kubernetes.yaml"), "--from-file", overlay)
    node.ready("observability", "collector")
    said = node.run("kubectl", "-n", "observability", "logs", "collector").stdout.splitlines()
    warnings = [line for line in said if re.search(r"\t(warn|error)\t", line)]
    s.check("deploy/collector/kubernetes.yaml: the Collector starts without a warning", said and not warnings, "; ".join(warnings)[:600])
    return os.path.join(out, "profiles.json")
