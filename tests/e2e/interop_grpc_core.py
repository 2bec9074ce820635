#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Delivery to a gRPC C-core server (python3-grpcio) with its own defaults: codings, TLS, connections that end every 2 s, refusals, its size limit."""
from lib import grpc_cases, grpc_servers
from lib.scenario import Scenario


def body(s):
    grpc_cases.run(s, grpc_servers.c_core, ["none", "gzip"], answers=["gzip"], refused="zstd")


if __name__ == "__main__":
    Scenario("interop_grpc_core").execute(body)
