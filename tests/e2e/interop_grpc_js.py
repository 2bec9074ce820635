#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Delivery to a Node @grpc/grpc-js server with its own defaults: codings, TLS, connections that end every 2 s, refusals, its size limit."""
from lib import grpc_cases, grpc_servers
from lib.scenario import Scenario


def body(s):
    grpc_cases.run(s, grpc_servers.grpc_js, ["none", "gzip"], refused="zstd")


if __name__ == "__main__":
    Scenario("interop_grpc_js").execute(body)
