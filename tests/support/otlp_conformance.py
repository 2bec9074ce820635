#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks ExportProfilesServiceRequest bytes (OTLP 1.10 layout) against the rules that receivers and proflet set.

Usage: otlp_conformance.py [--length-prefixed] [--ignore RULE]... [--stats] FILE...
       otlp_conformance.py --self-test

The decoder is this file's own and shares nothing with the encoder under test. Exit 1 with one line per violation,
"FILE: RULE: WHERE: WHAT"; exit 2 for usage. --length-prefixed reads several messages of the Collector's file exporter
(4-byte big-endian length before each; it rewrites resource attributes, so add --ignore reference-attribute).
"""

import argparse
import copy
import struct
import sys

MAX_BYTES = 3584 << 10

# message → {field number: (name, kind)}; kinds: int, fixed64, double, string, bytes, bool or a message name; a leading
# "*" means repeated. Numbers are those of opentelemetry-proto 1.10.0.
FIELDS = {
    "Request": {1: ("resource_profiles", "*ResourceProfiles"), 2: ("dictionary", "Dictionary")},
    "Dictionary": {
        1: ("mapping_table", "*Mapping"), 2: ("location_table", "*Location"), 3: ("function_table", "*Function"),
        4: ("link_table", "*Link"), 5: ("string_table", "*string"), 6: ("attribute_table", "*KeyValueAndUnit"),
        7: ("stack_table", "*Stack")},
    "ResourceProfiles": {1: ("resource", "Resource"), 2: ("scope_profiles", "*ScopeProfiles"), 3: ("schema_url", "string")},
    "ScopeProfiles": {1: ("scope", "Scope"), 2: ("profiles", "*Profile"), 3: ("schema_url", "string")},
    "Resource": {1: ("attributes", "*KeyValue"), 2: ("dropped_attributes_count", "int"), 3: ("entity_refs", "*EntityRef")},
    "EntityRef": {1: ("schema_url", "string"), 2: ("type", "string"), 3: ("id_keys", "*string"),
                  4: ("description_keys", "*string")},
    "Scope": {1: ("name", "string"), 2: ("version", "string"), 3: ("attributes", "*KeyValue"),
              4: ("dropped_attributes_count", "int")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue"), 3: ("key_strindex", "int")},
    "AnyValue": {1: ("string_value", "string"), 2: ("bool_value", "bool"), 3: ("int_value", "int"),
                 4: ("double_value", "double"), 5: ("array_value", "ArrayValue"), 6: ("kvlist_value", "KeyValueList"),
                 7: ("bytes_value", "bytes"), 8: ("string_value_strindex", "int")},
    "ArrayValue": {1: ("values", "*AnyValue")},
    "KeyValueList": {1: ("values", "*KeyValue")},
    "Profile": {1: ("sample_type", "ValueType"), 2: ("samples", "*Sample"), 3: ("time_unix_nano", "fixed64"),
                4: ("duration_nano", "int"), 5: ("period_type", "ValueType"), 6: ("period", "int"),
                7: ("profile_id", "bytes"), 8: ("dropped_attributes_count", "int"),
                9: ("original_payload_format", "string"), 10: ("original_payload", "bytes"),
                11: ("attribute_indices", "*int")},
    "ValueType": {1: ("type_strindex", "int"), 2: ("unit_strindex", "int")},
    "Sample": {1: ("stack_index", "int"), 2: ("attribute_indices", "*int"), 3: ("link_index", "int"),
               4: ("values", "*int"), 5: ("timestamps_unix_nano", "*fixed64")},
    "Mapping": {1: ("memory_start", "int"), 2: ("memory_limit", "int"), 3: ("file_offset", "int"),
                4: ("filename_strindex", "int"), 5: ("attribute_indices", "*int")},
    "Stack": {1: ("location_indices", "*int")},
    "Location": {1: ("mapping_index", "int"), 2: ("address", "int"), 3: ("lines", "*Line"),
                 4: ("attribute_indices", "*int")},
    "Line": {1: ("function_index", "int"), 2: ("line", "int"), 3: ("column", "int")},
    "Function": {1: ("name_strindex", "int"), 2: ("system_name_strindex", "int"), 3: ("filename_strindex", "int"),
                 4: ("start_line", "int")},
    "Link": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes")},
    "KeyValueAndUnit": {1: ("key_strindex", "int"), 2: ("value", "AnyValue"), 3: ("unit_strindex", "int")},
}
UNSIGNED = {"memory_start", "memory_limit", "file_offset", "address", "duration_nano"}
TABLES = [name for name, _ in (FIELDS["Dictionary"][n] for n in sorted(FIELDS["Dictionary"]))]
WIRE_TYPE = {"int": 0, "bool": 0, "fixed64": 1, "double": 1, "string": 2, "bytes": 2}
FRAME_TYPES = {"native", "kernel", "jvm", "cpython", "go", "php", "phpjit", "ruby", "perl", "v8js", "dotnet", "beam"}
BUILD_IDS = ["process.executable.build_id." + kind for kind in ("gnu", "go", "htlhash")]


class Malformed(Exception):
    pass


class Message(dict):
    """Field name → value, of the fields that are there. Absent scalars read as 0, "" or b"", absent repeated fields as [], absent
    messages as None."""

    __slots__ = ("type_name", "n_bytes")

    def __init__(self, type_name, n_bytes=0):
        super().__init__()
        self.type_name, self.n_bytes = type_name, n_bytes

    def __missing__(self, name):
        default = DEFAULTS[self.type_name][name]
        return [] if default == [] else default

    @property
    def present(self):
        return self.keys()


DEFAULTS = {message: {name: [] if kind[0] == "*" else {"string": "", "bytes": b"", "int": 0, "fixed64": 0, "bool": 0, "double": 0.0}.get(kind)
                      for name, kind in fields.values()} for message, fields in FIELDS.items()}
# message → {number: (name, kind, repeated, wire type)}
NUMBERS = {message: {number: (name, kind.lstrip("*"), kind[0] == "*", WIRE_TYPE.get(kind.lstrip("*"), 2)) for number, (name, kind) in fields.items()}
           for message, fields in FIELDS.items()}


def varint(data, at):
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("a varint is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise Malformed("a varint has more than 10 bytes")


def place(where):
    """The text of (message's place, field, index), which is made only for what is reported."""
    if isinstance(where, str):
        return where
    parent, name, index = where
    return "%s.%s" % (place(parent), name) + ("[%d]" % index if index is not None else "")


class Decoder:
    def __init__(self, report):
        self.say = report

    def report(self, rule, where, what):
        self.say(rule, place(where), what)

    def scalar(self, kind, name, data, at):
        if kind in ("fixed64", "double"):
            if at + 8 > len(data):
                raise Malformed("%s is cut short" % name)
            return struct.unpack_from("<Q" if kind == "fixed64" else "<d", data, at)[0], at + 8
        value, at = varint(data, at)
        if kind == "int" and value >= 1 << 63 and name not in UNSIGNED:
            value -= 1 << 64
        return value, at

    def scalars(self, kind, name, data):
        """Packed ones."""
        if kind == "fixed64" and len(data) % 8 == 0:
            return struct.unpack("<%dQ" % (len(data) // 8), data)
        values, at = [], 0
        while at < len(data):
            if data[at] < 0x80 and kind == "int":
                values.append(data[at])
                at += 1
            else:
                value, at = self.scalar(kind, name, data, at)
                values.append(value)
        return values

    def body(self, data, at):
        if at < len(data) and data[at] < 0x80:
            length, at = data[at], at + 1
        else:
            length, at = varint(data, at)
        if at + length > len(data):
            raise Malformed("a field is longer than its message")
        return data[at:at + length], at + length

    def length_delimited(self, kind, name, body, where):
        if kind == "string":
            try:
                return body.decode("utf-8")
            except UnicodeDecodeError as error:
                self.report("utf8", where, "%s is no UTF-8: %s" % (name, error))
                return body.decode("utf-8", "replace")
        return bytes(body) if kind == "bytes" else self.message(kind, body, where)

    def message(self, type_name, data, where):
        m, numbers = Message(type_name, len(data)), NUMBERS[type_name]
        at, end = 0, len(data)
        while at < end:
            if data[at] < 0x80:
                tag, at = data[at], at + 1
            else:
                tag, at = varint(data, at)
            field = numbers.get(tag >> 3)
            if field is None:
                self.report("unknown-field", where, "%s has no field %d (wire type %d)" % (type_name, tag >> 3, tag & 7))
                at = self.skip(tag & 7, data, at)
            else:
                at = self.field(m, field, tag & 7, data, at, where)
        return m

    def field(self, m, field, wire, data, at, where):
        name, kind, repeated, wanted = field
        inner = (where, name, len(m[name]) if repeated else None)
        if wanted == 2:
            if wire != 2:
                raise Malformed("%s has wire type %d" % (place(inner), wire))
            body, at = self.body(data, at)
            value = self.length_delimited(kind, name, body, inner)
            if repeated:
                m.setdefault(name, []).append(value)
            else:
                m[name] = value
            return at
        if repeated and wire == 2:
            body, at = self.body(data, at)
            m.setdefault(name, []).extend(self.scalars(kind, name, body))
            return at
        if wire != wanted:
            raise Malformed("%s has wire type %d" % (place(inner), wire))
        value, at = self.scalar(kind, name, data, at)
        if repeated:
            self.report("packed", inner, "a repeated number is not packed")
            m.setdefault(name, []).append(value)
        else:
            m[name] = value
        return at

    def skip(self, wire, data, at):
        if wire == 0:
            return varint(data, at)[1]
        if wire == 2:
            return self.body(data, at)[1]
        size = {1: 8, 5: 4}.get(wire)
        if size is None or at + size > len(data):
            raise Malformed("an unknown field cannot be skipped")
        return at + size


def freeze(value):
    """A hashable copy, equal for messages that have the same fields with equal values."""
    if isinstance(value, dict):
        return tuple(sorted((k, freeze(v) if isinstance(v, (dict, list)) else v) for k, v in value.items()))
    if isinstance(value, list):
        return tuple(freeze(v) for v in value) if value and isinstance(value[0], (dict, list)) else tuple(value)
    return value


class Checker:
    def __init__(self, ignore):
        self.ignore = set(ignore)
        self.violations = []
        self.counts = {"samples": 0, "events": 0, "profiles": 0, "resources": 0}
        self.profile_ids = set()

    def report(self, rule, where, what):
        if rule not in self.ignore:
            self.violations.append("%s: %s: %s" % (rule, where, what))

    def need(self, condition, rule, where, what):
        if not condition:
            self.report(rule, where, what)
        return bool(condition)

    # references -------------------------------------------------------------------------------------------------

    def ref(self, table, index, where):
        """The entry, or None (and a report) when the index is outside. Marks it as used."""
        entries = self.dictionary[table]
        if not 0 <= index < len(entries):
            return self.report("index", where, "%s[%d] of %d" % (table, index, len(entries)))
        self.used[table].add(index)
        return entries[index]

    def string(self, index, where):
        return self.ref("string_table", index, where)

    def attributes(self, indices, where):
        """{key: value} of attribute_indices."""
        found = {}
        for i in indices:
            entry = self.ref("attribute_table", i, where)
            if entry is None:
                continue
            self.need(i != 0, "null-reference", where, "refers to attribute_table[0]")
            key = self.dictionary["string_table"][entry["key_strindex"]] \
                if 0 <= entry["key_strindex"] < len(self.dictionary["string_table"]) else None
            self.need(key not in found, "unique-keys", where, "attribute %r twice" % key)
            found[key] = self.plain(entry["value"])
        return found

    @staticmethod
    def plain(value):
        if value is None:
            return None
        for name in ("string_value", "int_value", "bool_value", "double_value", "bytes_value"):
            if name in value.present:
                return value[name]
        return value

    # the dictionary ---------------------------------------------------------------------------------------------

    def check_tables(self):
        d = self.dictionary
        for name in TABLES:
            table = d[name]
            if not self.need(table, "zero-entry", name, "the table is empty"):
                continue
            zero = table[0] == "" if name == "string_table" else table[0].n_bytes == 0
            self.need(zero, "zero-entry", name + "[0]", "is not the zero value")
            seen = {}
            for i, entry in enumerate(table):
                key = freeze(self.identity(entry))
                if seen.setdefault(key, i) != i:
                    self.report("duplicate", "%s[%d]" % (name, i), "equals entry %s" % seen[key])

    @staticmethod
    def identity(entry):
        """Attributes of an entry are a set: their order makes no other entry."""
        if not isinstance(entry, dict) or len(entry.get("attribute_indices", [])) < 2:
            return entry
        same = copy.copy(entry)
        same["attribute_indices"] = sorted(entry["attribute_indices"])
        return same

    def check_entries(self):
        d = self.dictionary
        for i, m in enumerate(d["mapping_table"]):
            self.check_mapping(m, "mapping_table[%d]" % i, i)
        for i, location in enumerate(d["location_table"]):
            self.check_location(location, "location_table[%d]" % i, i)
        for i, f in enumerate(d["function_table"]):
            self.check_function(f, "function_table[%d]" % i, i)
        for i, link in enumerate(d["link_table"][1:], 1):
            self.need(len(link["trace_id"]) == 16 and len(link["span_id"]) == 8, "link", "link_table[%d]" % i,
                      "ids are not 16 and 8 bytes")
        for i, a in enumerate(d["attribute_table"]):
            where = "attribute_table[%d]" % i
            key = self.string(a["key_strindex"], where)
            self.string(a["unit_strindex"], where)
            if i:
                self.need(key, "attribute", where, "has no key")
                self.need(a["value"] is not None and a["value"].present, "attribute", where, "has no value")
            if a["value"] is not None and "string_value_strindex" in a["value"].present:
                self.string(a["value"]["string_value_strindex"], where)
        for i, stack in enumerate(d["stack_table"]):
            where, locations = "stack_table[%d]" % i, stack["location_indices"]
            if locations and 0 < min(locations) and max(locations) < len(d["location_table"]):
                self.used["location_table"].update(locations)
                continue
            for location in locations:
                self.ref("location_table", location, where)
                self.need(location != 0, "null-reference", where, "refers to location_table[0]")

    def check_mapping(self, m, where, i):
        start, limit = m["memory_start"], m["memory_limit"]
        self.need(start < limit or start == limit == 0, "mapping-range", where, "start %#x, limit %#x" % (start, limit))
        name = self.string(m["filename_strindex"], where)
        ids = self.attributes(m["attribute_indices"], where)
        if i == 0:
            return
        if name and not name.startswith("["):
            self.need(any(ids.get(key) for key in BUILD_IDS), "build-id", where, "%s has no build id" % name)
        for key in (BUILD_IDS[0], BUILD_IDS[2]):
            if key in ids:
                good = isinstance(ids[key], str) and ids[key] and not set(ids[key]) - set("0123456789abcdef")
                self.need(good, "build-id", where, "%s is no hex: %r" % (key, ids[key]))
        if isinstance(ids.get(BUILD_IDS[2]), str):
            self.need(len(ids[BUILD_IDS[2]]) == 32, "build-id", where, "htlhash has not 32 digits")

    def check_location(self, location, where, i):
        mapping = self.ref("mapping_table", location["mapping_index"], where)
        attributes = self.attributes(location["attribute_indices"], where)
        for line in location["lines"]:
            self.ref("function_table", line["function_index"], where)
            self.need(line["function_index"] != 0, "null-reference", where, "a line refers to function_table[0]")
            self.need(line["line"] >= 0 and line["column"] >= 0, "line", where, "negative line or column")
        if i == 0:
            return
        kind = attributes.get("profile.frame.type")
        self.need(kind in FRAME_TYPES, "frame-type", where, "profile.frame.type is %r" % kind)
        self.need(location["lines"], "fallback-line", where, "a frame without a line")
        if mapping and mapping["memory_limit"] and location["mapping_index"]:
            self.need(mapping["memory_start"] <= location["address"] <= mapping["memory_limit"], "address-range", where,
                      "%#x is outside of its mapping" % location["address"])

    def check_function(self, f, where, i):
        names = [self.string(f[key], where) for key in ("name_strindex", "system_name_strindex", "filename_strindex")]
        self.need(i == 0 or any(names), "function", where, "has no name at all")
        self.need(f["start_line"] >= 0, "line", where, "negative start_line")

    def check_orphans(self):
        for name in TABLES:
            for i in sorted(set(range(1, len(self.dictionary[name]))) - self.used[name]):
                self.report("orphan", "%s[%d]" % (name, i), "nothing refers to it")

    # profiles ---------------------------------------------------------------------------------------------------

    def plain_attributes(self, attributes, where):
        found = {}
        for a in attributes:
            key = a["key"]
            if "key_strindex" in a.present:
                self.report("reference-attribute", where, "key_strindex is lost by receivers")
                key = self.string(a["key_strindex"], where)
            value = a["value"]
            if not self.need(value is not None and value.present, "attribute", where, "%r has no value" % key):
                continue
            plain = self.plain(value)
            if "string_value_strindex" in value.present:
                self.report("reference-attribute", where, "string_value_strindex is lost by receivers")
                plain = self.string(value["string_value_strindex"], where)
            self.need(key, "attribute", where, "an attribute has no key")
            self.need(key not in found, "unique-keys", where, "attribute %r twice" % key)
            found[key] = plain
        return found

    def check_resource(self, rp, where):
        self.counts["resources"] += 1
        if not self.need(rp["resource"] is not None, "empty", where, "no resource"):
            return
        attributes = self.plain_attributes(rp["resource"]["attributes"], where + ".resource")
        # of a pod, the Collector knows it, and adds it where it is absent
        self.need(attributes.get("service.name") or attributes.get("k8s.pod.uid"), "service-name", where, "no service.name")
        container = attributes.get("container.id")
        if "container.id" in attributes:
            good = isinstance(container, str) and len(container) == 64 and not set(container) - set("0123456789abcdef")
            self.need(good, "container-id", where, "container.id %r is not 64 hex digits" % container)

    def check_shape(self, samples, where):
        shapes = set()
        for i, s in enumerate(samples):
            n_values, n_times = len(s["values"]), len(s["timestamps_unix_nano"])
            inner = "%s.samples[%d]" % (where, i)
            if not self.need(n_values or n_times, "empty", inner, "neither values nor timestamps"):
                continue
            if n_values and n_times:
                self.need(n_values == n_times, "shape", inner, "%d values, %d timestamps" % (n_values, n_times))
            elif n_values:
                self.need(n_values == 1, "shape", inner, "%d values and no timestamps" % n_values)
            shapes.add((bool(n_values), bool(n_times)))
        self.need(len(shapes) <= 1, "shape", where, "samples of different shapes")

    def check_samples(self, p, where):
        start, end = p["time_unix_nano"], p["time_unix_nano"] + p["duration_nano"]
        identities = {}
        for i, s in enumerate(p["samples"]):
            inner = "%s.samples[%d]" % (where, i)
            self.counts["samples"] += 1
            self.counts["events"] += len(s["timestamps_unix_nano"]) or sum(s["values"])
            self.ref("stack_table", s["stack_index"], inner)
            self.ref("link_table", s["link_index"], inner)
            self.attributes(s["attribute_indices"], inner)
            outside = [t for t in s["timestamps_unix_nano"] if not start <= t < end]
            self.need(not outside, "timestamp", inner, "%s is outside [%d, %d)" % (outside[:1], start, end))
            identity = (s["stack_index"], frozenset(s["attribute_indices"]), s["link_index"])
            if identities.setdefault(identity, i) != i:
                self.report("duplicate-sample", inner, "same as %s" % identities[identity])

    def type_of(self, value_type, where):
        if not self.need(value_type is not None, "type", where, "is not set"):
            return (None, None)
        return (self.string(value_type["type_strindex"], where), self.string(value_type["unit_strindex"], where))

    def check_profile(self, p, where):
        self.counts["profiles"] += 1
        sample_type = self.type_of(p["sample_type"], where + ".sample_type")
        if sample_type == ("samples", "count"):
            period_type = self.type_of(p["period_type"], where + ".period_type")
            self.need(period_type == ("cpu", "nanoseconds"), "type", where, "period_type is %s/%s" % period_type)
            self.need(p["period"] > 0, "period", where, "is %d" % p["period"])
        else:
            self.need(sample_type == ("off_cpu", "nanoseconds"), "type", where, "sample_type is %s/%s" % sample_type)
        self.need(len(p["profile_id"]) == 16 and any(p["profile_id"]), "profile-id", where, repr(p["profile_id"]))
        self.need(p["profile_id"] not in self.profile_ids, "profile-id", where, "is used twice")
        self.profile_ids.add(p["profile_id"])
        self.need(bool(p["original_payload"]) == bool(p["original_payload_format"]), "payload", where,
                  "original_payload and its format belong together")
        self.need(p["samples"], "empty", where, "no samples")
        self.attributes(p["attribute_indices"], where)
        self.check_shape(p["samples"], where)
        self.check_samples(p, where)

    def check(self, data):
        self.need(len(data) <= MAX_BYTES, "size", "request", "%d bytes, at most %d" % (len(data), MAX_BYTES))
        try:
            request = Decoder(self.report).message("Request", data, "request")
        except Malformed as error:
            self.report("malformed", "request", str(error))
            return
        self.dictionary = request["dictionary"]
        if self.dictionary is None:
            self.report("zero-entry", "request", "no dictionary")
            self.dictionary = Message("Dictionary")
        self.used = {name: set() for name in TABLES}
        self.check_tables()
        self.check_entries()
        self.need(request["resource_profiles"], "empty", "request", "no resource_profiles")
        for i, rp in enumerate(request["resource_profiles"]):
            where = "resource_profiles[%d]" % i
            self.check_resource(rp, where)
            self.need(rp["scope_profiles"], "empty", where, "no scope_profiles")
            for j, sp in enumerate(rp["scope_profiles"]):
                inner = "%s.scope_profiles[%d]" % (where, j)
                if self.need(sp["scope"] is not None, "empty", inner, "no scope"):
                    self.need(sp["scope"]["name"] == "proflet", "scope", inner, "its name is %r" % sp["scope"]["name"])
                    self.plain_attributes(sp["scope"]["attributes"], inner)
                self.need(sp["profiles"], "empty", inner, "no profiles")
                for k, p in enumerate(sp["profiles"]):
                    self.check_profile(p, "%s.profiles[%d]" % (inner, k))
        self.check_orphans()


def messages_of(path, length_prefixed):
    with open(path, "rb") as f:
        data = f.read()
    if not length_prefixed:
        yield path, data
        return
    at = n = 0
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        yield "%s#%d" % (path, n), data[at + 4:at + 4 + size]
        at += 4 + size
        n += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length-prefixed", action="store_true")
    parser.add_argument("--ignore", action="append", default=[], metavar="RULE")
    parser.add_argument("--stats", action="store_true", help="print what was checked")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    if options.self_test:
        import otlp_conformance_selftest
        return otlp_conformance_selftest.self_test()
    if not options.files:
        parser.error("no FILE")
    bad = 0
    for path in options.files:
        for name, data in messages_of(path, options.length_prefixed):
            checker = Checker(options.ignore)
            checker.check(data)
            for violation in checker.violations:
                print("%s: %s" % (name, violation))
            bad += len(checker.violations)
            if options.stats:
                print("%s: %d bytes, %s" % (name, len(data), ", ".join("%d %s" % (n, what)
                                                                     for what, n in checker.counts.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
