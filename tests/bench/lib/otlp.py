# SPDX-License-Identifier: Apache-2.0
"""Counts the samples of an ExportProfilesServiceRequest, with a protobuf reader of its own.

Field numbers: opentelemetry-proto, profiles/v1development/profiles.proto of release 1.10.
"""
import struct
from dataclasses import dataclass, field


@dataclass
class Summary:
    samples: int = 0
    times: list = field(default_factory=list)  # Unix ns of each sample that has one
    pids: dict = field(default_factory=dict)  # process.pid -> samples


def varint(buf, at):
    value = shift = 0
    while True:
        if at >= len(buf) or shift > 63:
            raise ValueError("protobuf: varint cut off at %d" % at)
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(buf):
    """(number, value) of each field: int for varints and fixed sizes, memoryview for the rest."""
    buf, at = memoryview(buf), 0
    while at < len(buf):
        key, at = varint(buf, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(buf, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > len(buf):
                raise ValueError("protobuf: fixed field cut off")
            value = int.from_bytes(buf[at:at + size], "little")
            at += size
        elif kind == 2:
            size, at = varint(buf, at)
            if at + size > len(buf):
                raise ValueError("protobuf: field %d cut off" % (key >> 3))
            value = buf[at:at + size]
            at += size
        else:
            raise ValueError("protobuf: wire type %d" % kind)
        yield key >> 3, value


def every(buf, number):
    return [v for n, v in fields(buf) if n == number]


def integers(value):
    """A repeated integer, packed or not."""
    if isinstance(value, int):
        return [value]
    out, at = [], 0
    while at < len(value):
        v, at = varint(value, at)
        out.append(v)
    return out


def fixed64(value):
    if isinstance(value, int):
        return [value]
    return [v for (v,) in struct.iter_unpack("<Q", value)]


def pid_attributes(dictionary):
    """Index in attribute_table -> pid, of the process.pid attributes."""
    strings = [bytes(s) for s in every(dictionary, 5)]
    out = {}
    for index, attribute in enumerate(every(dictionary, 6)):
        key = value = None
        for n, v in fields(attribute):
            if n == 1:
                key = v
            elif n == 2:
                value = next((x for m, x in fields(v) if m == 3), None)
        if key is not None and key < len(strings) and strings[key] == b"process.pid" and value is not None:
            out[index] = value
    return out


def resource_pid(resource_profiles):
    """process.pid among the Resource's plain attributes, where a profiler keeps it there."""
    for resource in every(resource_profiles, 1):
        for attribute in every(resource, 1):
            f = dict(fields(attribute))
            if bytes(f.get(1, b"")) == b"process.pid" and 2 in f:
                return dict(fields(f[2])).get(3)
    return None


def add_sample(out, sample, pids, pid):
    count, times = 0, []
    for n, v in fields(sample):
        if n == 2:
            pid = next((pids[i] for i in integers(v) if i in pids), pid)
        elif n == 4:
            count += sum(integers(v))
        elif n == 5:
            times += fixed64(v)
    count = len(times) or count # a timestamp is worth one sample
    out.samples += count
    out.times += times
    if pid is not None:
        out.pids[pid] = out.pids.get(pid, 0) + count


def summary(request, out=None):
    """Adds a request's samples to out; ValueError on bytes that are no such message."""
    out = out or Summary()
    dictionary = b"".join(bytes(d) for d in every(request, 2))
    pids = pid_attributes(dictionary)
    for resource_profiles in every(request, 1):
        pid = resource_pid(resource_profiles)
        for scope_profiles in every(resource_profiles, 2):
            for profile in every(scope_profiles, 2):
                for sample in every(profile, 2):
                    add_sample(out, sample, pids, pid)
    return out
