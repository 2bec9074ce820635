# SPDX-License-Identifier: Apache-2.0
"""Files of the disk spool, made without proflet: the format of otlp/spool_file.h."""
import os
import struct
import sys
import zlib

from .scenario import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from otlp_conformance_selftest import encode, good_request  # noqa: E402

IDENTITY = 0
START = 1_700_000_000_000_000_000
SECOND = 10 ** 9


def write(folder, data, n_samples):
    body = struct.pack("<8sQQQQQII", b"PFLSPL01", n_samples, 1, len(data), START, START + 10 * SECOND, len(data), IDENTITY)
    body += struct.pack("<I", zlib.crc32(data))
    with open(os.path.join(folder, f"{1:016x}-{n_samples}.otlp"), "wb") as f:
        f.write(body + struct.pack("<I", zlib.crc32(body)) + data)


def large_request(folder, size):
    """One request of at least `size` bytes into the spool. Returns how many samples it has and its size."""
    n = size // 8
    request = good_request()
    profile = request["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]
    profile["time_unix_nano"], profile["duration_nano"] = START, 10 * SECOND
    for i, sample in enumerate(profile["samples"]):
        sample["timestamps_unix_nano"] = [START + 2 * k + i for k in range(n // 2)]
    data = encode("Request", request)
    write(folder, data, n // 2 * 2)
    return n // 2 * 2, len(data)
