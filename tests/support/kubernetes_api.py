# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API server, for clients that must run without a cluster: Helm and the Collector's k8s_attributes.

It stores any object, lists, watches and deletes it, and knows the resources in RESOURCES; nothing checks an object. A created pod has
ended at once, as `ended` says. Plain HTTP at loopback; kubeconfig() is the text of a file for it. Helm sends its own secrets as
protobuf, which is read as far as Helm needs it; every answer is JSON.
"""
import base64
import copy
import http.server
import json
import queue
import re
import threading
import urllib.parse

# group and version: {plural: (kind, namespaced)}
RESOURCES = {
    "v1": {"pods": ("Pod", True), "services": ("Service", True), "configmaps": ("ConfigMap", True), "secrets": ("Secret", True),
           "serviceaccounts": ("ServiceAccount", True), "namespaces": ("Namespace", False), "nodes": ("Node", False)},
    "apps/v1": {"daemonsets": ("DaemonSet", True), "replicasets": ("ReplicaSet", True), "deployments": ("Deployment", True)},
    "rbac.authorization.k8s.io/v1": {"clusterroles": ("ClusterRole", False), "clusterrolebindings": ("ClusterRoleBinding", False)},
    "networking.k8s.io/v1": {"networkpolicies": ("NetworkPolicy", True)},
}
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
PATH = re.compile(r"/(?:api|apis)/(?P<gv>v1|[\w.-]+/v\w+)(?:/namespaces/(?P<ns>[\w.-]+)(?=/))?/(?P<plural>[a-z]+)(?:/(?P<name>[\w.:-]+))?(?:/(?P<sub>\w+))?")


MAGIC = b"k8s\0"  # before a protobuf message runtime.Unknown, whose field 2 is the object


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """[(number, bytes or integer)] of a message of strings, messages and varints."""
    out, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        out.append((tag >> 3, value))
    return out


def entries(message, number):
    pairs = [dict(fields(value)) for n, value in message if n == number]
    return {pair[1].decode(): pair.get(2, b"") for pair in pairs}


def secret_of(data):
    secret = fields(dict(fields(data[len(MAGIC):]))[2])
    meta = fields(dict(secret)[1])
    return {"apiVersion": "v1", "kind": "Secret", "type": dict(secret).get(3, b"Opaque").decode(),
            "metadata": {"name": dict(meta)[1].decode(), "labels": {k: v.decode() for k, v in entries(meta, 11).items()}},
            "data": {k: base64.b64encode(v).decode() for k, v in entries(secret, 2).items()}}


class Store:
    """All objects by (group and version, plural, namespace, name), and who watches."""

    def __init__(self, ended, log):
        self.lock, self.objects, self.watchers, self.version, self.events = threading.Lock(), {}, [], 1, []
        self.ended, self.log = ended, log

    def emit(self, what, key, item):
        self.events.append((what, key[1], item["metadata"]["name"]))
        for of, waiting in self.watchers:
            if of == key[:2]:
                waiting.put({"type": what, "object": copy.deepcopy(item)})

    def put(self, key, item):
        """Creates or replaces."""
        with self.lock:
            self.version += 1
            old = self.objects.get(key)
            item["metadata"].update({"resourceVersion": str(self.version), "uid": old["metadata"]["uid"] if old else f"uid-{self.version}",
                                     "creationTimestamp": "2026-01-01T00:00:00Z", **({"namespace": key[2]} if key[2] else {})})
            if key[1] == "pods":
                item["status"] = {"phase": self.ended, "containerStatuses": []}
            self.objects[key] = item
            self.emit("MODIFIED" if old else "ADDED", key, item)
            return item

    def remove(self, key):
        with self.lock:
            item = self.objects.pop(key, None)
            if item:
                self.emit("DELETED", key, item)
            return item

    def matching(self, gv, plural, namespace, query):
        wanted = dict(x.split("=", 1) for x in query.get("labelSelector", [""])[0].split(",") if "=" in x)
        chosen = dict(x.split("=", 1) for x in query.get("fieldSelector", [""])[0].split(",") if "=" in x)
        return [item for key, item in sorted(self.objects.items()) if key[:2] == (gv, plural) and namespace in (None, key[2]) and
                wanted.items() <= item["metadata"].get("labels", {}).items() and chosen.get("metadata.name", key[3]) == key[3]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, content_type="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def missing(self, what):
        self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                          "message": f"{what} not found"})

    def discovery(self, path):
        groups = {}
        for gv in RESOURCES:
            if "/" in gv:
                version = {"groupVersion": gv, "version": gv.split("/")[1]}
                groups[gv.split("/")[0]] = {"name": gv.split("/")[0], "versions": [version], "preferredVersion": version}
        if path == "/version":
            return VERSION
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
        if path.startswith("/openapi/v3"):
            return self.openapi(path.removeprefix("/openapi/v3").lstrip("/"))
        gv = re.sub(r"^/apis?/", "", path)
        if gv not in RESOURCES:
            return None
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": [
            {"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs}
            for plural, (kind, namespaced) in RESOURCES[gv].items()]}

    def openapi(self, path):
        """Only that the server checks fields itself: then no client does."""
        if not path:
            urls = {("apis/" if "/" in gv else "api/") + gv for gv in RESOURCES}
            return {"paths": {url: {"serverRelativeURL": f"/openapi/v3/{url}?hash=1"} for url in urls}}
        gv = re.sub(r"^apis?/", "", path)
        group, version = gv.split("/") if "/" in gv else ("", gv)
        return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1"}, "paths": {f"/{path}/{plural}": {"patch": {
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
            "responses": {"200": {"description": "OK"}}}} for plural, (kind, _) in RESOURCES[gv].items()}} if gv in RESOURCES else None

    def watch(self, gv, plural, namespace, query):
        waiting = queue.Queue()
        with self.store.lock:
            present = [] if query.get("resourceVersion", ["0"])[0] not in ("", "0") else self.store.matching(gv, plural, namespace, query)
            for item in present:
                waiting.put({"type": "ADDED", "object": copy.deepcopy(item)})
            if query.get("sendInitialEvents") == ["true"]:
                waiting.put({"type": "BOOKMARK", "object": {"kind": RESOURCES[gv][plural][0], "apiVersion": gv, "metadata": {
                    "resourceVersion": str(self.store.version), "annotations": {"k8s.io/initial-events-end": "true"}}}})
            self.store.watchers.append(((gv, plural), waiting))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(json.dumps(waiting.get(timeout=60)).encode() + b"\n")
                self.wfile.flush()
        except (OSError, queue.Empty):
            pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query, found = urllib.parse.parse_qs(url.query), self.discovery(url.path)
        if found:
            return self.answer(200, found)
        at = PATH.fullmatch(url.path)
        if not at or at["plural"] not in RESOURCES.get(at["gv"], {}):
            return self.missing(url.path)
        gv, plural, namespace = at["gv"], at["plural"], at["ns"] or (None if not at["name"] else "")
        if at["name"]:
            item = self.store.objects.get((gv, plural, namespace, at["name"]))
            if not item:
                return self.missing(f"{plural} \"{at['name']}\"")
            return self.answer(200, self.store.log.encode(), "text/plain") if at["sub"] == "log" else self.answer(200, item)
        if query.get("watch", ["false"])[0] in ("true", "1"):
            return self.watch(gv, plural, namespace, query)
        with self.store.lock:
            items, version = copy.deepcopy(self.store.matching(gv, plural, namespace, query)), str(self.store.version)
        return self.answer(200, {"kind": RESOURCES[gv][plural][0] + "List", "apiVersion": gv, "metadata": {"resourceVersion": version}, "items": items})

    def change(self, status):
        at = PATH.fullmatch(urllib.parse.urlsplit(self.path).path)
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
        item = secret_of(sent) if sent.startswith(MAGIC) else json.loads(sent)
        if not at or at["plural"] not in RESOURCES.get(at["gv"], {}):
            return self.missing(self.path)
        key = (at["gv"], at["plural"], at["ns"] or "", at["name"] or item["metadata"]["name"])
        return self.answer(status, self.store.put(key, item))

    def do_POST(self):
        self.change(201)

    def do_PUT(self):
        self.change(200)

    def do_PATCH(self):
        """Server-side apply, as Helm 4 does it: the whole object, in JSON."""
        if "apply-patch" in self.headers.get("Content-Type", ""):
            return self.change(200)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self.answer(415, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "UnsupportedMediaType", "code": 415})

    def do_DELETE(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        at = PATH.fullmatch(urllib.parse.urlsplit(self.path).path)
        item = at and self.store.remove((at["gv"], at["plural"], at["ns"] or "", at["name"]))
        self.answer(200, item) if item else self.missing(self.path)


class Api:
    """Serves while it is a context. `events`: (ADDED, MODIFIED or DELETED; plural; name) of each change."""

    def __init__(self, ended="Succeeded", log="the pod's log\n"):
        store = self.store = Store(ended, log)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"store": store}))
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def events(self):
        return list(self.store.events)

    def left(self):
        """plural/name of each object."""
        return sorted(f"{plural}/{name}" for _, plural, _, name in self.store.objects)

    def kubeconfig(self):
        return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                           "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}], "users": [{"name": "u", "user": {}}],
                           "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]})
