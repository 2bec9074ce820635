#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of pods from a kubelet: a real HTTPS server with a certificate of our own authority, real control groups with
processes in them, a real Collector. Pods come and go, the token is replaced, the kubelet refuses, hangs and talks nonsense;
the profile goes on, the log says each thing once, and the token is in no output. Pods are selected by namespace, label and
the name of the container, also when that changes.
"""
import re
import secrets
import time
import uuid

from lib import assertions, certificates, cgroups, programs
from lib.agent import Agent, written_at
from lib.collector import Collector
from lib.kubelet import Kubelet, container, pod
from lib.profiles import total
from lib.scenario import PROFLET, Scenario, free_port, stop, wait_for
from status import Pages

TOKENS = [f"tOkEn{i}." + secrets.token_hex(12) for i in range(2)]
FAILED = 'proflet_kubelet_requests_total{result="failed"}'
KUBELET = r"msg=\"kubelet "
FAULTS = {  # mode → what the log says of it
    401: "HTTP 401: it does not know the token", 403: "HTTP 403: the token may not get nodes/pods",
    404: "HTTP 404: no list of pods", 500: "HTTP 500: no list of pods", "garbage": "the answer is no list of pods: not JSON",
    "huge": "the answer is larger than 16 MiB", "close": "Empty reply from server", "hang": "no answer within 10 s", "absent": "no connection: Connection refused",
}


class Workload:
    """A pod with one container, and a process in it."""

    def __init__(self, s, program, name, owner=None, labels=None, namespace="shop"):
        self.name, self.ident, self.uid = name, secrets.token_hex(32), str(uuid.uuid4())
        group = cgroups.make(s, f"kubepods/burstable/pod{self.uid}/{self.ident}")
        self.process = cgroups.start(s, group, programs.modest(program, programs.LIFE), name)
        self.pod = pod(name, self.uid, [container("app-" + name, self.ident)], owner=owner, labels=labels, namespace=namespace)

    def resources(self, collector):
        """The resources of its samples, first one first, without duplicates."""
        found = []
        for x in collector.samples():
            if x.resource.get("container.id") == self.ident and x.resource not in found:
                found.append(x.resource)
        return found

    def named(self, collector):
        return [r for r in self.resources(collector) if r.get("k8s.pod.name") == self.name]


class Bench:
    def __init__(self, s):
        self.s = s
        self.ca, ca_key = certificates.authority(s, "authority")
        self.other, _ = certificates.authority(s, "other-authority")
        self.certificate = certificates.issue(s, "kubelet", self.ca, ca_key, names="DNS:localhost")
        self.token_file = s.path("token")
        self.program = programs.build_c(s, "chain")
        self.collector = Collector(s)
        self.outputs = []
        self.write(TOKENS[0])

    def write(self, token):
        with open(self.token_file, "w") as f:
            f.write(token + "\n")

    def options(self, url, *more):
        return ["--kubernetes.metadata", "on", "--kubernetes.kubelet", url, "--kubernetes.ca", self.ca,
                "--kubernetes.token_file", self.token_file, "--kubernetes.node", "node-1", *more]

    def agent(self, url, *more):
        self.port = free_port()
        return Agent(self.s, self.collector.endpoint(), *self.options(url, *more), "--listen", f"127.0.0.1:{self.port}",
                     "--log.level", "debug", window="1s")

    def end(self, agent, what):
        self.outputs.append((what, Pages(self.port).get("/metrics")[2] + Pages(self.port).get("/debug/state")[2]))
        self.s.equal(f"{what}: exit code at SIGTERM", agent.stop(), 0)
        self.collector.settle()
        self.outputs.append((what, agent.text()))

    def check(self, what, url, *more):
        done = self.s.run([PROFLET, "check", "--endpoint", self.collector.endpoint(), *self.options(url, *more)], check=False)
        self.outputs.append((what, done.stdout + done.stderr))
        return next((line for line in done.stdout.splitlines() if re.match(r"\S+ +kubelet ", line)), "no line")


def names(s, b):
    """Attributes arrive; a pod that comes later is found; the token is replaced; the kubelet goes away and comes back."""
    kubelet = Kubelet(s, b.certificate, TOKENS[:1])
    first = Workload(s, b.program, "web-7d9f5c6b4-x2k8p", ("ReplicaSet", "web-7d9f5c6b4"), {"pod-template-hash": "7d9f5c6b4"})
    kubelet.pods = [first.pod]
    agent = b.agent(kubelet.url())
    wait_for(lambda: first.named(b.collector), 60, "names of the first pod")
    wanted = {"container.id": first.ident, "k8s.pod.uid": first.uid, "k8s.pod.name": first.name, "k8s.namespace.name": "shop",
              "k8s.container.name": "app-" + first.name, "container.image.name": "registry.example:5000/team/app",
              "k8s.node.name": "node-1", "service.name": "web"}
    resource = first.named(b.collector)[0]
    for key, value in wanted.items():
        s.equal(f"attributes: {key}", resource.get(key), value)
    s.equal("one line says that it answers", len(agent.lines(KUBELET)), 1)

    late = Workload(s, b.program, "db-0", ("StatefulSet", "db"))
    begin = time.monotonic()
    time.sleep(1)  # the kubelet learns of it later than we do
    kubelet.pods = [first.pod, late.pod]
    wait_for(lambda: late.named(b.collector), 90, "names of a pod that came later")
    s.check("a pod that comes later has its names", late.named(b.collector)[0]["service.name"] == "db",
            f"{time.monotonic() - begin:.1f} s after its start")

    b.write(TOKENS[1])
    kubelet.tokens = TOKENS[1:]
    third = Workload(s, b.program, "third")
    kubelet.pods = [first.pod, late.pod, third.pod]
    wait_for(lambda: third.named(b.collector), 60, "names with another token")
    s.check("the token is read again", "Bearer " + TOKENS[1] in kubelet.seen and not agent.lines("HTTP 401"))

    kubelet.pods = [late.pod, third.pod]
    stop(first.process)
    kubelet.mode = 500
    fourth = Workload(s, b.program, "fourth")
    agent.wait_line("HTTP 500", 60)
    kubelet.mode, kubelet.pods = "ok", [late.pod, third.pod, fourth.pod]
    wait_for(lambda: fourth.named(b.collector), 60, "names after a failure")
    said = agent.lines(KUBELET)
    s.check("the failure is said once, and its end", len(agent.lines("HTTP 500")) == 1 and "answers" in said[-1],
            f"{len(said)} lines, the last: {said[-1][-80:]}")
    metrics = Pages(b.port).metrics()
    s.check("metrics", metrics.get('proflet_kubelet_requests_total{result="ok"}', 0) >= 4 and
            metrics.get(FAILED, 0) >= 1 and metrics.get("proflet_kubelet_pods") == 3 and
            metrics.get("proflet_kubelet_containers") == 3 and 0 <= metrics.get("proflet_kubelet_age_seconds", -1) < 61 and
            metrics.get("proflet_kubelet_ids") == 8, str({k: v for k, v in metrics.items() if "kubelet" in k}))
    b.end(agent, "names")
    unnamed = [x for w in (first, late, third, fourth) for x in w.resources(b.collector) if x.get("k8s.pod.uid") != w.uid]
    s.check("every resource has its own pod's UID", not unnamed, str(unnamed[:1]))
    assertions.loss_identity(s, agent, total(b.collector.samples()))


def selected(s, b):
    """What is not selected has no sample from the first answer on; a pod that gets another label is selected then."""
    kubelet = Kubelet(s, b.certificate, TOKENS[1:])
    work = {name: Workload(s, b.program, name, labels={"app": app}, namespace=namespace) for name, app, namespace in
            (("wanted", "web", "shop-blue"), ("labelled", "db", "shop-blue"), ("sidecar", "web", "shop-blue"), ("system", "web", "kube-system"))}
    kubelet.pods = [w.pod for w in work.values()]
    agent = b.agent(kubelet.url(), "--select.include", "namespace=shop-*", "--select.exclude", "label=app=db,container_name=app-side*")
    wait_for(lambda: work["wanted"].named(b.collector), 60, "samples of the pod that is selected")
    time.sleep(3)
    for name, why in (("labelled", "its label is excluded"), ("sidecar", "its container's name is excluded"), ("system", "its namespace is not included")):
        s.equal(f"selection: samples of a pod when {why}", len(work[name].resources(b.collector)), 0)
    work["labelled"].pod["metadata"]["labels"]["app"] = "web"
    fresh = Workload(s, b.program, "fresh", labels={"app": "web"}, namespace="shop-blue")  # a list is asked for when something is new
    kubelet.pods = [*kubelet.pods, fresh.pod]
    begin = time.monotonic()
    wait_for(lambda: work["labelled"].named(b.collector) and fresh.named(b.collector), 60, "samples of what is selected now")
    s.note(f"selected {time.monotonic() - begin:.1f} s after the label changed")
    b.end(agent, "selection")
    final = agent.final()
    s.check("selection: what was left out is counted", final and final["not_selected"] > 0 and
            final["taken"] == final["exported"] + final["dropped"] + final["in_flight"], str(final))


def recorded(s, b):
    """`record --pod` takes that pod, and calls its container by pod and name; -o - is one file on standard output."""
    kubelet = Kubelet(s, b.certificate, TOKENS[1:])
    work = [Workload(s, b.program, name, namespace="shop-blue") for name in ("mine", "other")]
    kubelet.pods = [w.pod for w in work]
    done = s.run([PROFLET, "record", "-d", "5s", "--pod", "shop-blue/mine", "--format", "folded", "--by", "container", "-o", "-",
                  *b.options(kubelet.url())], check=False, seconds=120)
    b.outputs.append(("record --pod", done.stdout + done.stderr))
    containers = {line.split(";")[0] for line in done.stdout.splitlines()}
    s.check("record --pod: the one pod's stacks and nothing else, on standard output", done.returncode == 0 and
            containers == {"mine/app-mine"} and "taken=" in done.stderr, f"{containers} {done.stderr[-300:]}")
    done = s.run([PROFLET, "record", "-d", "1s", "--pod", "shop-blue/absent", "-o", s.path("absent"), *b.options(kubelet.url())], check=False, seconds=120)
    s.check("record --pod: a pod that is not there is told", "no pod of this node" in done.stderr, done.stderr[-300:])


def fault(s, b, kubelet, mode, says):
    """The kubelet fails from the start: one line, and the profile goes on."""
    kubelet.mode = mode
    before = b.collector.size()
    agent = b.agent(kubelet.url() if mode != "absent" else f"https://localhost:{free_port()}")
    failed = written_at(agent.wait_line(KUBELET, 90)[0])
    wait_for(lambda: Pages(b.port).metrics().get(FAILED, 0) >= 2, 90, "a second failure")
    again = time.time() - failed
    wait_for(lambda: b.collector.size() > before, 30, "samples without a kubelet")
    lines = agent.lines(KUBELET)
    s.check(f"{mode}: one line, with the reason", len(lines) == 1 and says in lines[0], lines[0][:260])
    s.check(f"{mode}: it is asked again, and not at once", again > 0.8, f"failed again after {again:.1f} s")
    b.end(agent, f"{mode}")


def certificates_and_plain_text(s, b):
    kubelet = Kubelet(s, b.certificate, TOKENS[1:])
    for what, url, more, says in (
            ("another authority", kubelet.url(), ["--kubernetes.ca", b.other], "certificate"),
            ("a name that the certificate does not have", kubelet.url("127.0.0.1"), [], "127.0.0.1"),
            ("no token file", kubelet.url(), ["--kubernetes.token_file", s.path("nothing")], "nothing: No such file"),
            ("a token in the place of its file", kubelet.url(), ["--kubernetes.token_file", TOKENS[1]], "the token file: No such file"),
            ("nobody listens", f"https://localhost:{free_port()}", [], "no connection: Connection refused")):
        line = b.check(what, url, *more)
        s.check(f"check, {what}: degraded, and why", line.startswith("degraded") and says in line, line[:300])
    s.equal("a kubelet that is not trusted gets no token", kubelet.seen, [])
    for what, more in (("trusted", []), ("insecure", ["--kubernetes.ca", b.other, "--kubernetes.insecure", "on"])):
        line = b.check(what, kubelet.url(), *more)
        s.check(f"check, {what}", line.startswith("ok") and "lists 0 pods" in line, line)
    kubelet.mode = 403
    line = b.check("403", kubelet.url())
    s.check("check, 403: names the role", line.startswith("degraded") and "nodes/pods" in line, line[:300])
    plain = Kubelet(s)
    line = b.check("plain text", plain.url())
    s.check("check, http", line.startswith("ok"), line)
    s.equal("no token goes out in plain text", plain.seen, [None])
    s.check("check without metadata has no line for it", "kubelet" not in s.run(
        [PROFLET, "check", "--endpoint", b.collector.endpoint()], check=False).stdout)


def body(s):
    s.need_root()
    s.need("openssl")
    s.need_proflet()
    b = Bench(s)
    names(s, b)
    selected(s, b)
    recorded(s, b)
    certificates_and_plain_text(s, b)
    kubelet = Kubelet(s, b.certificate)
    for mode, says in FAULTS.items():
        fault(s, b, kubelet, mode, says)
    for token in TOKENS:
        found = [what for what, text in b.outputs if token in text]
        s.check("a token: in no output", not found, "; ".join(found) or f"{len(b.outputs)} outputs")


if __name__ == "__main__":
    Scenario("kubelet").execute(body)
