#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets stay where they were put: header values (file, option, environment), tokens of a headers_file, passwords in the
addresses of endpoint and proxy, the client's private key. They are given right and wrong, to every command, at debug level
in both formats, to servers and proxies that send them back in what they refuse; then all output is searched for each of
them, as it is and as base64. A process that has one leaves no core file.
"""
import base64
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

from lib.machine import hang_limit, wait_exit
from lib.scenario import PROFLET, Scenario, free_port, stop, wait_for

NAMES = ("yaml", "option", "environment", "file", "renewed", "proxy", "endpoint")
SECRETS = {name: f"sEcrEt{i}{name.upper()}xq7Zk" for i, name in enumerate(NAMES)}
BASIC = base64.b64encode(f"joe:{SECRETS['proxy']}".encode()).decode()
PREFACE = 24  # bytes of the client's
END_STREAM, END_HEADERS, ACK = 1, 4, 1
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8


SENT = ("yaml", "option", "environment", "file")


def everything(proxy=False):
    """What a malicious or merely talkative peer says of what it was sent."""
    said = [f"bad token {SECRETS['file']}, Bearer {SECRETS['file']},", *(SECRETS[name] for name in SENT)]
    return " ".join(said + ([BASIC, SECRETS["proxy"]] if proxy else []))


def forms(secret):
    """The secret as it may come out: as it is, percent-encoded, and the part of each base64 that its neighbours do not change."""
    found = {secret, urllib.parse.quote(secret, safe="")}
    for shift in range(3):
        coded = base64.b64encode(b"x" * shift + secret.encode())
        found.add(coded[(shift * 8 + 5) // 6:len(coded) - 4].decode())
    return found


class Output:
    """All that was printed, with where it came from."""

    def __init__(self, s):
        self.s, self.texts = s, []

    def run(self, what, *argv, env=None, seconds=30):
        done = self.s.run([PROFLET, *argv], seconds=seconds, env=env, check=False)
        self.texts.append((what, done.stdout + done.stderr))
        return done

    def search(self, secrets):
        for name, secret in secrets.items():
            found = [what for what, text in self.texts if any(form in text for form in forms(secret))]
            self.s.check(f"{name}: in no output", not found, f"{len(self.texts)} outputs" if not found else "; ".join(found))


class Peer:
    """A server on a port of its own; `answer` gets each connection."""

    def __init__(self, s, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer, self.asked = answer, 0
        threading.Thread(target=self.accept, daemon=True).start()
        s.defer(self.listener.close)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.asked += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                self.answer(connection)
            except (OSError, struct.error):
                pass


def literal(name, value):
    """An HPACK field without indexing (RFC 7541, 6.2.2); lengths below 16511."""
    def string(text):
        data, n = text.encode(), len(text.encode())
        return (bytes([n]) if n < 127 else bytes([127, (n - 127) & 127 | (128 if n >= 255 else 0)]) +
                (bytes([(n - 127) >> 7]) if n >= 255 else b"")) + data
    return b"\0" + string(name) + string(value)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def grpc_refusal(status):
    """Every call ends with the status and a message of secrets, percent-encoded as grpc-message is."""
    message = urllib.parse.quote(everything(), safe=" ,")

    def answer(connection):
        stream = connection.makefile("rb")
        stream.read(PREFACE)
        connection.sendall(frame(SETTINGS, 0, 0))
        while True:
            head = stream.read(9)
            if len(head) < 9:
                return
            kind, flags, number = struct.unpack(">BBI", head[3:])
            payload = stream.read(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                connection.sendall(frame(PING, ACK, 0, payload))
            if kind == DATA and payload:
                update = struct.pack(">I", len(payload))
                connection.sendall(frame(WINDOW_UPDATE, 0, 0, update) + frame(WINDOW_UPDATE, 0, number, update))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                block = b"\x88" + literal("content-type", "application/grpc") + literal("grpc-status", str(status)) + \
                    literal("grpc-message", message)
                connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, number, block))
    return answer


def http_refusal(status, proxy=False):
    def answer(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or b"\r\n\r\n"
        body = everything(proxy).encode()
        connection.sendall(f"HTTP/1.1 {status} {everything(proxy)}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
                           f"content-length: {len(body)}\r\n\r\n".encode() + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    return answer


def key_and_certificate(s):
    cert, key = s.path("client.pem"), s.path("client.key")
    s.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=client", "-keyout", key,
           "-out", cert])
    with open(key) as f:
        lines = [line for line in f.read().split("\n") if line and not line.startswith("-")]
    return cert, key, {f"private key, line {i + 1}": line for i, line in enumerate(lines) if len(line) > 20 and i % 5 == 1}


def write(s, name, text):
    with open(s.path(name), "w") as f:
        f.write(text)
    return s.path(name)


def good(s, endpoint, more=""):
    """A configuration with a secret in each place that takes one."""
    token = write(s, "headers", f"authorization: Bearer {SECRETS['file']}\n")
    text = f"endpoint: {endpoint}\nheaders:\n  x-key: {SECRETS['yaml']}\nheaders_file: {token}\nwindow: 1s\n{more}"
    return write(s, "proflet.yaml", text), {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-env=" + SECRETS["environment"],
        "http_proxy": "", "https_proxy": "", "no_proxy": ""}


def refused_configurations(s, out, key):
    """Mistakes beside and inside of secrets."""
    with open(key) as f:
        pem = f.read()
    yaml, option, env, endpoint = (SECRETS[n] for n in ("yaml", "option", "environment", "endpoint"))
    documents = {
        "a bad line beside a header": f"headers:\n  x-key: {yaml}\n  no separator {yaml}\nwindow: [\n",
        "headers as text": f"headers: {yaml}\n", "headers as a list": f"headers:\n  - {yaml}\n",
        "a header that is a map": f"headers:\n  x-key:\n    {yaml}: {yaml}\n",
        "a token where a name should be": f"headers:\n  \"Bearer {yaml}\": x\n",
        "a control character behind a token": f"headers:\n  x-key: \"{yaml}\\x01\"\n",
        "a token as unknown key": f"headers:\n  x-key: a\nBearer {yaml}: x\n",
        "a tab": f"headers:\n\tx-key: {yaml}\n", "an unfinished text": f"headers:\n  x-key: \"{yaml}\n",
        "an alias": f"headers:\n  x-key: *{yaml}\n",
        "a wrong value behind": f"headers:\n  x-key: {yaml}\nwindow: fast\n",
        "a password in the endpoint": f"endpoint: http://joe:{endpoint}@localhost:4317\n",
        "a password in a wrong endpoint": f"endpoint: ftp://joe:{endpoint}@localhost:99999\n",
        "a token in the endpoint's query": f"endpoint: http://localhost:4317/?token={endpoint}\n",
        "a key where its path should be": "tls:\n  key: |\n" + "".join(f"    {line}\n" for line in pem.splitlines()),
        "a header where the path of its file should be": f"headers_file: 'authorization: Bearer {yaml}'\n",
    }
    for what, text in documents.items():
        path = write(s, "wrong.yaml", text)
        for command in ("run", "check"):
            done = out.run(f"{command}, {what}", command, "--config", path)
            s.check(f"{command}, {what}: refused", done.returncode != 0 and done.stderr or done.stdout, f"exit {done.returncode}")
    for what, argv in {
            "no header": ["--headers", option], "an escape": ["--headers", f"x={option}%zz"],
            "a control character": ["--headers", f"x={option}\x01"], "a name": ["--headers", f"{option} y=x"],
            "a mistyped option": [f"--header=x={option}"], "a mistyped option, apart": ["--header", f"x={option}"],
            "an argument": [f"x={option}"], "an endpoint": ["--endpoint", f"http://joe:{endpoint}@:1"],
            "a file": ["--headers_file", f"authorization: Bearer {option}"],
            "a key": ["--tls.key", pem, "--tls.cert", pem]}.items():
        done = out.run(f"run, {what} as option", "run", *argv)
        s.check(f"run, {what} as option: refused", done.returncode in (1, 2) and done.stderr, f"exit {done.returncode}")
    for what, value in {"no header": env, "an escape": f"x={env}%zz", "a name": f"{env} y=x"}.items():
        for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS"):
            s.equal(f"{name}, {what}: exit code", out.run(f"{name}, {what}", "run", env={name: value}).returncode, 2)
    out.run("an endpoint in the environment", "run", env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://joe:{endpoint}@h:x"})
    wrong = write(s, "headers.wrong", f"{SECRETS['file']}\n")
    s.equal("a headers_file without a header: exit code", out.run("headers_file", "run", "--headers_file", wrong).returncode, 2)
    broken = write(s, "broken.key", re.sub(r"\n.{20}", "\n!!!!!!!!!!!!!!!!!!!!", pem, count=3))
    out.run("a damaged key", "check", "--endpoint", "https://localhost:1", "--tls.key", broken, "--tls.cert", s.path("client.pem"))


def page_of(port, page):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=hang_limit(10)) as answer:
            return answer.read().decode(errors="replace")
    except urllib.error.HTTPError as e:
        return e.read().decode(errors="replace")


def session(s, out, what, peer, config, env, *options, renew=False):
    """The agent until the peer has refused it, then SIGTERM; and `check` at the same peer."""
    port = free_port()
    process = s.start([PROFLET, "run", "--config", config, "--listen", f"127.0.0.1:{port}", "--headers", f"x-option={SECRETS['option']}", "--log.level", "debug",
                       *options], "proflet-" + re.sub(r"\W+", "-", what), env=env)
    try:
        if peer:
            wait_for(lambda: peer.asked or process.poll() is not None, 60, f"a request ({what})")
        wait_for(lambda: re.search(r"away|reject|refuse", open(process.log).read()) or process.poll() is not None, 60,
                 f"a word about it ({what})")
        if renew:
            write(s, "headers", f"authorization {SECRETS['renewed']}\n")
            wait_for(lambda: "headers_file" in open(process.log).read(), 60, "a word about the new headers_file")
        for page in ("metrics", "healthz", "state", ""):
            out.texts.append((f"{what}, /{page}", page_of(port, page)))
    finally:
        code = stop(process, 60)
    s.equal(f"{what}: exit code", code, 0)
    with open(process.log, errors="replace") as f:
        out.texts.append((what, f.read()))
    out.run(f"{what}, check", "check", *(["--json"] if "json" in what else []), "--config", config, env=env, seconds=90)


def sessions(s, out, cert, key):
    for style in ("logfmt", "json"):
        log = f"log:\n  format: {style}\n"
        config, env = good(s, f"http://127.0.0.1:{free_port()}", log)
        session(s, out, f"nobody listens, {style}", None, config, env, renew=style == "json")
        for status in (16, 14):
            peer = Peer(s, grpc_refusal(status))
            config, env = good(s, f"http://127.0.0.1:{peer.port}", log)
            session(s, out, f"grpc-status {status}, {style}", peer, config, env)
    for status in (401, 403, 503):
        peer = Peer(s, http_refusal(status))
        config, env = good(s, f"http://127.0.0.1:{peer.port}", "protocol: http/protobuf\n")
        session(s, out, f"HTTP {status}", peer, config, env)
    peer = Peer(s, http_refusal(403))
    config, env = good(s, f"http://127.0.0.1:{peer.port}")
    session(s, out, "HTTP/1.1 403 to gRPC", peer, config, env)
    for protocol in ("grpc", "http/protobuf"):
        peer = Peer(s, http_refusal(407, proxy=True))
        config, env = good(s, f"http://collector.example:{free_port()}", f"protocol: {protocol}\n")
        env["http_proxy"] = f"http://joe:{SECRETS['proxy']}@127.0.0.1:{peer.port}"
        session(s, out, f"a proxy refuses {protocol}", peer, config, env)
    peer = Peer(s, http_refusal(400))
    config, env = good(s, f"https://127.0.0.1:{peer.port}", f"tls:\n  insecure: true\n  cert: {cert}\n  key: {key}\n")
    session(s, out, "no TLS behind https", peer, config, env)


def core_files(s):
    """A crash with a secret leaves no core file; without, it does, so that it can be looked into."""
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    if pattern.startswith(("|", "/")):
        s.skip("core files", f"the kernel hands them elsewhere ({pattern})")
        return
    config, env = good(s, f"http://127.0.0.1:{free_port()}")
    kubelet = ["--kubernetes.metadata", "on", "--kubernetes.kubelet", f"https://127.0.0.1:{free_port()}"]
    for what, argv, wanted in (("with a secret", ["--config", config], False), ("with the kubelet's token", kubelet, False),
                               ("without", ["--endpoint", f"http://127.0.0.1:{free_port()}"], True)):
        folder = s.folder("core " + what)
        process = subprocess.Popen([PROFLET, "run", "--listen", "off", *argv], cwd=folder, env=dict(os.environ, **(env if not wanted else {})),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (64 << 20, 64 << 20)))
        s.defer(lambda p=process: stop(p))
        for line in process.stderr:
            if "sampling" in line:
                break
        process.send_signal(signal.SIGABRT)
        code = wait_exit(process, 30)
        s.equal(f"{what}: ended by SIGABRT", code, -signal.SIGABRT)
        s.equal(f"{what}: a core file", bool(os.listdir(folder)), wanted)


def body(s):
    s.need_root()
    s.need("openssl")
    s.need_proflet()
    out = Output(s)
    cert, key, lines = key_and_certificate(s)
    _, env = good(s, "http://localhost:4317")
    for argv in (["--help"], ["run", "--help"], ["check", "--help"], ["record", "--help"], ["version"], ["help", "run"]):
        out.run(" ".join(argv), *argv, env=env)
    refused_configurations(s, out, key)
    sessions(s, out, cert, key)
    out.search(SECRETS)
    out.search({"the proxy's Basic credentials": BASIC, **lines})
    core_files(s)


if __name__ == "__main__":
    Scenario("secrecy").execute(body)
