# SPDX-License-Identifier: Apache-2.0
"""What a kubelet is to the agent: an HTTPS server that lists the pods of its node to who has the right token. It can refuse,
hang, or answer with something else.
"""
import http.server
import json
import socket
import ssl
import threading

HANG = 600  # seconds; longer than anybody waits
HUGE = 17 << 20


def container(name, ident, image="registry.example:5000/team/app:1.2"):
    return {"name": name, "image": image, "id": ident}


def pod(name, uid, containers, namespace="shop", labels=None, owner=None):
    """A pod as the core API has it, with what a kubelet fills in."""
    metadata = {"name": name, "namespace": namespace, "uid": uid, "labels": labels or {},
                "annotations": {"kubernetes.io/config.source": "api"}}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True}]
    return {"metadata": metadata,
            "spec": {"nodeName": "node-1", "containers": [{"name": c["name"], "image": c["image"]} for c in containers]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": c["name"], "ready": True, "containerID": "containerd://" + c["id"],
                 "imageID": "sha256:" + "0" * 64} for c in containers]}}


class Kubelet:
    """`mode`: ok, hang, garbage, huge, close, or a status such as 403. `tokens`: those it takes; None: nobody needs one."""

    def __init__(self, s, certificate=None, tokens=None):
        self.pods, self.mode, self.tokens = [], "ok", tokens
        self.asked, self.seen = 0, []  # requests; what came as authorization
        self.ending = threading.Event()
        kubelet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                kubelet.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that go away

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True).start()
        s.defer(self.end)

    def url(self, host="localhost"):
        return f"{self.scheme}://{host}:{self.port}"

    def end(self):
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request):
        token = request.headers.get("authorization")
        self.seen.append(token)
        self.asked += 1
        mode = self.mode
        if mode == "hang":
            self.ending.wait(HANG)
        if mode in ("hang", "close"):
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
            return
        status, body = 200, b""
        if request.path != "/pods":
            status = 404
        elif isinstance(mode, int):
            status = mode
        elif self.tokens is not None and token not in [f"Bearer {t}" for t in self.tokens]:
            status = 401
        elif mode == "garbage":
            body = b"<html>" + bytes(range(256)) * 40
        elif mode == "huge":
            body = b'{"items":[' + b" " * HUGE + b"]}"
        else:
            body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}).encode()
        if status != 200:
            body = f"{status} of {token}".encode()  # a server may say what it was sent
        try:
            request.send_response(status, f"No {token}" if status != 200 else None)
            request.send_header("content-type", "application/json")
            request.send_header("content-length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            request.close_connection = True

