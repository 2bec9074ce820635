# SPDX-License-Identifier: Apache-2.0
"""The life of a release, by Helm itself against tests/support/kubernetes_api.py: what is installed, what `helm test` prints and leaves,
and that nothing is left after `helm uninstall`."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from kubernetes_api import Api  # noqa: E402

REPORT = "kernel ok, rights ok, collector away\n"
CHECK = "pods/proflet-check"


class Release:
    def __init__(self, helm, chart, api, folder):
        self.helm, self.chart, self.api, self.file = helm, chart, api, os.path.join(folder, f"kubeconfig-{api.port}")
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(api.kubeconfig())

    def run(self, *argv):
        return subprocess.run([self.helm, *argv, "-n", "observe", "--kubeconfig", self.file, "--timeout", "30s"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120)

    def install(self, *options):
        return self.run("install", "proflet", self.chart, "--set", "config.kubernetes.metadata=true", *options)


def passing(r):
    done = r.install()
    yield "install", not done.returncode and "daemonsets/proflet" in r.api.left(), done.stderr
    installed = r.api.left()
    done = r.run("test", "proflet")
    yield "helm test runs check and prints its report", not done.returncode and REPORT in done.stdout + done.stderr and \
        ("ADDED", "pods", "proflet-check") in r.api.events, done.stdout[-400:] + done.stderr
    yield "helm test leaves no pod", r.api.left() == installed, r.api.left()
    # when this begins to succeed, the documents need no warning any more
    done = r.run("test", "proflet", "--logs")
    yield "helm test --logs prints the report, too, and then misses the pod", done.returncode == 1 and REPORT in done.stdout + done.stderr and \
        'pods "proflet-check" not found' in done.stderr, done.stdout[-400:] + done.stderr
    done = r.run("uninstall", "proflet")
    yield "nothing is left after uninstall", not done.returncode and not r.api.left(), (r.api.left(), done.stderr)


def failing(r):
    r.install()
    done = r.run("test", "proflet")
    yield "helm test fails with check, and prints its report", done.returncode == 1 and REPORT in done.stdout + done.stderr and CHECK not in r.api.left(), \
        done.stdout[-400:] + done.stderr
    r.run("uninstall", "proflet")
    yield "nothing is left after a failed test and uninstall", not r.api.left(), r.api.left()


def keeping(r):
    r.install("--set", "test.keepPod=true")
    done = r.run("test", "proflet", "--logs")
    yield "test.keepPod: helm test --logs has the report", not done.returncode and f"POD LOGS: proflet-check\n{REPORT}" in done.stdout, done.stderr
    done = r.run("test", "proflet")
    yield "test.keepPod: the next test replaces the pod", not done.returncode and r.api.left().count(CHECK) == 1, done.stderr
    r.run("uninstall", "proflet")
    yield "test.keepPod: the pod is left after uninstall", r.api.left() == [CHECK], r.api.left()


def results(helm, chart):
    """(what, whether it is so, detail) of each test."""
    for ended, story in (("Succeeded", passing), ("Failed", failing), ("Succeeded", keeping)):
        with tempfile.TemporaryDirectory(prefix="proflet-release-") as folder, Api(ended, REPORT) as api:
            yield from story(Release(helm, chart, api, folder))
