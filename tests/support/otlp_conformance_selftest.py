# SPDX-License-Identifier: Apache-2.0
"""The self-test of otlp_conformance.py: a good request passes, and each way to break it is found by its rule."""

import struct

from otlp_conformance import BUILD_IDS, FIELDS, MAX_BYTES, Checker


def put_varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_bytes(number, body):
    return put_varint(number << 3 | 2) + put_varint(len(body)) + body


def encode(type_name, fields):
    """Encodes a dict; "raw" appends bytes as they are. Lists are repeated fields, None leaves a field out."""
    out = b""
    for number, (name, kind) in sorted(FIELDS[type_name].items()):
        value = fields.get(name)
        if value is None:
            continue
        scalar = kind.lstrip("*")
        if kind.startswith("*") and scalar in ("int", "fixed64"):
            pack = put_varint if scalar == "int" else lambda v: struct.pack("<Q", v)
            out += put_bytes(number, b"".join(pack(v) for v in value)) if value else b""
        elif scalar == "fixed64":
            out += put_varint(number << 3 | 1) + struct.pack("<Q", value)
        elif scalar in ("int", "bool"):
            out += put_varint(number << 3) + put_varint(value)
        else:
            for one in value if kind.startswith("*") else [value]:
                if scalar == "string":
                    one = one if isinstance(one, bytes) else one.encode()
                elif scalar != "bytes":
                    one = encode(scalar, one)
                out += put_bytes(number, one)
    return out + fields.get("raw", b"")


def good_request():
    strings = ["", "samples", "count", "cpu", "nanoseconds", "profile.frame.type", "main", "/srv/app",
               BUILD_IDS[2], "thread.name", "step"]
    return {
        "resource_profiles": [{
            "resource": {"attributes": [
                {"key": "container.id", "value": {"string_value": "0123456789abcdef" * 4}},
                {"key": "service.name", "value": {"string_value": "app"}}]},
            "scope_profiles": [{
                "scope": {"name": "proflet", "version": "0.1.0"},
                "profiles": [{
                    "sample_type": {"type_strindex": 1, "unit_strindex": 2},
                    "samples": [
                        {"stack_index": 1, "attribute_indices": [3], "timestamps_unix_nano": [1000, 1500]},
                        {"stack_index": 2, "attribute_indices": [3], "timestamps_unix_nano": [1999]}],
                    "time_unix_nano": 1000, "duration_nano": 1000,
                    "period_type": {"type_strindex": 3, "unit_strindex": 4}, "period": 52631578,
                    "profile_id": b"0123456789abcdef"}]}]}],
        "dictionary": {
            "mapping_table": [{}, {"memory_start": 0x1000, "memory_limit": 0x2000, "filename_strindex": 7,
                                   "attribute_indices": [2]}],
            "location_table": [{}, {"mapping_index": 1, "address": 0x1100, "lines": [{"function_index": 1}],
                                    "attribute_indices": [1]},
                               {"mapping_index": 1, "address": 0x1200, "lines": [{"function_index": 2}],
                                "attribute_indices": [1]}],
            "function_table": [{}, {"name_strindex": 6}, {"name_strindex": 10}],
            "link_table": [{}],
            "string_table": strings,
            "attribute_table": [{}, {"key_strindex": 5, "value": {"string_value": "native"}},
                                {"key_strindex": 8, "value": {"string_value": "00112233445566778899aabbccddeeff"}},
                                {"key_strindex": 9, "value": {"string_value": "worker"}}],
            "stack_table": [{}, {"location_indices": [1]}, {"location_indices": [2, 1]}]}}


def variants():
    """(name, rule that must fire, function that breaks a good request)."""
    def profile(r):
        return r["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]

    def tables(r):
        return r["dictionary"]

    def resource(r):
        return r["resource_profiles"][0]["resource"]["attributes"]

    def put(container, key, value):
        container[key] = value

    return [
        ("no resource_profiles", "empty", lambda r: put(r, "resource_profiles", [])),
        ("no scope_profiles", "empty", lambda r: put(r["resource_profiles"][0], "scope_profiles", [])),
        ("no samples", "empty", lambda r: put(profile(r), "samples", [])),
        ("no dictionary", "zero-entry", lambda r: r.pop("dictionary")),
        ("no link table", "zero-entry", lambda r: put(tables(r), "link_table", [])),
        ("zero-filled link", "zero-entry", lambda r: put(tables(r), "link_table",
                                                         [{"trace_id": bytes(16), "span_id": bytes(8)}])),
        ("string_table[0] set", "zero-entry", lambda r: put(tables(r)["string_table"], 0, "x")),
        ("stack index", "index", lambda r: put(profile(r)["samples"][0], "stack_index", 99)),
        ("negative index", "index", lambda r: put(profile(r)["samples"][0], "stack_index", -1)),
        ("function index", "index", lambda r: put(tables(r)["location_table"][1]["lines"][0], "function_index", 9)),
        ("string index", "index", lambda r: put(tables(r)["function_table"][1], "name_strindex", 99)),
        ("mapping index", "index", lambda r: put(tables(r)["location_table"][1], "mapping_index", 7)),
        ("attribute index", "index", lambda r: put(profile(r)["samples"][0], "attribute_indices", [3, 50])),
        ("location index", "index", lambda r: put(tables(r)["stack_table"][1], "location_indices", [77])),
        ("type index", "index", lambda r: put(profile(r)["sample_type"], "type_strindex", 99)),
        ("same key twice", "unique-keys", lambda r: put(profile(r)["samples"][0], "attribute_indices", [3, 3])),
        ("resource key twice", "unique-keys", lambda r: resource(r).append(resource(r)[0])),
        ("timestamp at the end", "timestamp", lambda r: put(profile(r)["samples"][0], "timestamps_unix_nano", [2000])),
        ("timestamp before", "timestamp", lambda r: put(profile(r)["samples"][0], "timestamps_unix_nano", [999])),
        ("mixed shapes", "shape", lambda r: profile(r)["samples"][0].update(timestamps_unix_nano=[], values=[1])),
        ("two values", "shape", lambda r: [s.update(timestamps_unix_nano=[], values=[1, 2])
                                           for s in profile(r)["samples"]]),
        ("values do not match", "shape", lambda r: [s.update(values=[1] * 3) for s in profile(r)["samples"]]),
        ("nothing in a sample", "empty", lambda r: put(profile(r)["samples"][0], "timestamps_unix_nano", [])),
        ("mapping range", "mapping-range", lambda r: put(tables(r)["mapping_table"][1], "memory_limit", 0x1000)),
        ("address", "address-range", lambda r: put(tables(r)["location_table"][1], "address", 0x9999)),
        ("negative line", "line", lambda r: put(tables(r)["location_table"][1]["lines"][0], "line", -1)),
        ("negative column", "line", lambda r: put(tables(r)["location_table"][1]["lines"][0], "column", -1)),
        ("negative start line", "line", lambda r: put(tables(r)["function_table"][1], "start_line", -1)),
        ("resource missing", "empty", lambda r: r["resource_profiles"][0].pop("resource")),
        ("scope missing", "empty", lambda r: r["resource_profiles"][0]["scope_profiles"][0].pop("scope")),
        ("no profiles", "empty", lambda r: put(r["resource_profiles"][0]["scope_profiles"][0], "profiles", [])),
        ("link index", "index", lambda r: put(profile(r)["samples"][0], "link_index", 1)),
        ("profile attribute index", "index", lambda r: put(profile(r), "attribute_indices", [50])),
        ("profile attribute twice", "unique-keys", lambda r: put(profile(r), "attribute_indices", [3, 3])),
        ("scope attribute twice", "unique-keys", lambda r: put(
            r["resource_profiles"][0]["scope_profiles"][0]["scope"], "attributes",
            [{"key": "a", "value": {"int_value": 1}}, {"key": "a", "value": {"int_value": 2}}])),
        ("no build id", "build-id", lambda r: put(tables(r)["mapping_table"][1], "attribute_indices", [])),
        ("short htlhash", "build-id", lambda r: put(tables(r)["attribute_table"][2]["value"], "string_value", "ab")),
        ("no frame type", "frame-type", lambda r: put(tables(r)["location_table"][1], "attribute_indices", [])),
        ("no line", "fallback-line", lambda r: put(tables(r)["location_table"][2], "lines", [])),
        ("nameless function", "function", lambda r: put(tables(r)["function_table"][1], "name_strindex", 0)),
        ("duplicate string", "duplicate", lambda r: tables(r)["string_table"].append("main")),
        ("duplicate stack", "duplicate", lambda r: tables(r)["stack_table"].append({"location_indices": [1]})),
        ("duplicate function", "duplicate", lambda r: tables(r)["function_table"].append({"name_strindex": 6})),
        ("duplicate link", "duplicate", lambda r: tables(r)["link_table"].append({})),
        ("duplicate attribute", "duplicate", lambda r: tables(r)["attribute_table"].append(
            dict(tables(r)["attribute_table"][3]))),
        ("duplicate location", "duplicate", lambda r: tables(r)["location_table"].append(
            dict(tables(r)["location_table"][1]))),
        ("duplicate mapping, attributes in another order", "duplicate", lambda r: [
            put(tables(r)["mapping_table"][1], "attribute_indices", [2, 3]),
            tables(r)["mapping_table"].append(dict(tables(r)["mapping_table"][1], attribute_indices=[3, 2]))]),
        ("duplicate sample", "duplicate-sample", lambda r: put(profile(r)["samples"][1], "stack_index", 1)),
        ("duplicate sample, attributes in another order", "duplicate-sample", lambda r: [
            s.update(stack_index=1, attribute_indices=order)
            for s, order in zip(profile(r)["samples"], ([2, 3], [3, 2]))]),
        ("profile id twice", "profile-id", lambda r: r["resource_profiles"].append(r["resource_profiles"][0])),
        ("orphan string", "orphan", lambda r: tables(r)["string_table"].append("unused")),
        ("no period", "period", lambda r: put(profile(r), "period", 0)),
        ("no period type", "type", lambda r: profile(r).pop("period_type")),
        ("wrong sample type", "type", lambda r: put(profile(r)["sample_type"], "type_strindex", 3)),
        ("profile id", "profile-id", lambda r: put(profile(r), "profile_id", bytes(16))),
        ("short profile id", "profile-id", lambda r: put(profile(r), "profile_id", b"short")),
        ("container id", "container-id", lambda r: put(resource(r)[0]["value"], "string_value", "containerd://ab")),
        ("no service.name", "service-name", lambda r: resource(r).pop()),
        ("reference attribute", "reference-attribute", lambda r: resource(r).append(
            {"key_strindex": 5, "value": {"string_value": "x"}})),
        ("reference value", "reference-attribute", lambda r: put(resource(r)[1], "value",
                                                                 {"string_value_strindex": 6})),
        ("attribute without a value", "attribute", lambda r: tables(r)["attribute_table"][3].pop("value")),
        ("scope name", "scope", lambda r: put(r["resource_profiles"][0]["scope_profiles"][0]["scope"], "name", "x")),
        ("bad UTF-8", "utf8", lambda r: put(tables(r)["string_table"], 6, b"ma\xffin")),
        ("unknown field", "unknown-field", lambda r: put(profile(r)["samples"][0], "raw", put_varint(9 << 3) + b"\1")),
        ("the layout of 1.9", "malformed", lambda r: put(profile(r)["samples"][0], "raw",
                                                         put_bytes(3, b"\1\2"))),
        ("unpacked", "packed", lambda r: put(profile(r)["samples"][0], "raw", put_varint(2 << 3) + b"\1")),
        ("link ids", "link", lambda r: tables(r)["link_table"].append({"trace_id": b"1", "span_id": b"2"})),
        ("payload without format", "payload", lambda r: put(profile(r), "original_payload", b"x")),
    ]


def rules_broken(data):
    checker = Checker([])
    checker.check(data)
    return checker.violations


def self_test():
    failures = []
    good = rules_broken(encode("Request", good_request()))
    if good:
        failures.append("the good request: %s" % good)
    for name, rule, spoil in variants():
        request = good_request()
        spoil(request)
        found = rules_broken(encode("Request", request))
        if not any(v.startswith(rule + ":") for v in found):
            failures.append("%s: rule %s did not fire; found %s" % (name, rule, found))
    whole = encode("Request", good_request())
    for cut in range(1, len(whole)):
        if not rules_broken(whole[:cut]):
            failures.append("cut at %d of %d bytes: nothing found" % (cut, len(whole)))
    if not any(v.startswith("size:") for v in rules_broken(whole + bytes(0) + put_bytes(15, bytes(MAX_BYTES)))):
        failures.append("a request that is too large: nothing found")
    for failure in failures:
        print(failure)
    print("self-test: %d variants, %d cuts, %d failures" % (len(variants()), len(whole) - 1, len(failures)))
    return 1 if failures else 0
