#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A plain gRPC server on C-core (Debian's python3-grpcio) for tests. Options, files and last line as tests/support/otelcol/grpcgo.

A refusal is trailers-only: C-core sends no headers of its own before it. --details is grpc-status-details-bin in hex.
"""
import argparse
import json
import os
import signal
import threading
import time
from concurrent import futures

import grpc


def options_of():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--client-ca")
    parser.add_argument("--max-age", type=float, help="seconds of a connection")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--compress", choices=["gzip", "deflate"])
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--text", default="")
    parser.add_argument("--details", type=bytes.fromhex, default=b"")
    return parser.parse_args()


def message(data):
    """The bytes as they are, if they can be an ExportProfilesServiceRequest: C-core hands out what it cannot decompress."""
    if data[:1] not in (b"", b"\x0a", b"\x12"):
        raise ValueError("no ExportProfilesServiceRequest")
    return data


class Server(grpc.GenericRpcHandler):
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.account = {"calls": 0, "failed": 0, "bytes": 0, "peers": 0}
        self.peers = set()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.answer, request_deserializer=message)

    def keep(self, request, peer):
        with self.lock:
            self.peers.add(peer)
            self.account["peers"] = len(self.peers)
            self.account["calls"] += 1
            self.account["bytes"] += len(request)
            number = self.account["calls"]
            busy = number <= self.options.busy
            self.account["failed"] += busy
        base = os.path.join(self.options.dir, "%06d" % number)
        with open(base + ".otlp", "wb") as f:
            f.write(request)
        with open(base + ".status", "w") as f:
            f.write("Unavailable\n" if busy else "OK\n")
        return busy

    def answer(self, request, context):
        busy = self.keep(request, context.peer())
        time.sleep(self.options.delay)
        if busy:
            context.set_trailing_metadata((("grpc-status-details-bin", self.options.details),))
            context.abort(grpc.StatusCode.UNAVAILABLE, self.options.text)
        return b"\x0a\x00" * 100 if self.options.compress else b""  # an empty partial_success, long enough to be compressed


def credentials_of(options):
    def content(path):
        with open(path, "rb") as f:
            return f.read()

    authority = content(options.client_ca) if options.client_ca else None
    return grpc.ssl_server_credentials([(content(options.key), content(options.cert))], authority, bool(authority))


def main():
    options = options_of()
    settings = [("grpc.so_reuseport", 0)]
    if options.max_age:
        settings.append(("grpc.max_connection_age_ms", int(options.max_age * 1000)))
    compression = {None: None, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}[options.compress]
    handler = Server(options)
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(handler,), options=settings, compression=compression)
    if options.cert:
        server.add_secure_port(options.listen, credentials_of(options))
    else:
        server.add_insecure_port(options.listen)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    ended.wait()
    server.stop(2).wait()
    print(json.dumps(handler.account), flush=True)


if __name__ == "__main__":
    main()
