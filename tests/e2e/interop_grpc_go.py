#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Delivery to a grpc-go server with its own defaults: codings, TLS, connections that end every 2 s, refusals, its size limit."""
from lib import grpc_cases, grpc_servers
from lib.scenario import Scenario


def body(s):
    grpc_cases.run(s, grpc_servers.grpc_go, ["none", "gzip", "zstd"], answers=["gzip", "zstd"])


if __name__ == "__main__":
    Scenario("interop_grpc_go").execute(body)
