# SPDX-License-Identifier: Apache-2.0
"""Reads what the Collector's file exporter wrote: one ExportProfilesServiceRequest as JSON on each line.

The exporter leaves zero fields out, prints 64-bit numbers as strings, and refers to resource attributes by
`keyStrindex`/`stringValueStrindex`; everything is resolved here.
"""
import collections
import json
import os

# `file` is the mapping's; `source`, `first_line` and `line` are the function's and 0 or "" where nothing is known.
Frame = collections.namedtuple("Frame", "name address file kind source first_line line", defaults=["", 0, 0])
Sample = collections.namedtuple("Sample", "resource attributes frames count type times")  # frames: leaf first


def _value(value, strings):
    if "stringValueStrindex" in value:
        return strings[value["stringValueStrindex"]]
    for key, convert in (("stringValue", str), ("intValue", int), ("boolValue", bool), ("doubleValue", float)):
        if key in value:
            return convert(value[key])
    return ""  # an empty string is a zero field


def _key(attribute, strings):
    return strings[attribute["keyStrindex"]] if "keyStrindex" in attribute else attribute.get("key", "")


class Request:
    """One request with its dictionary."""

    def __init__(self, message):
        self.message = message
        d = message.get("dictionary", {})
        self.strings = d.get("stringTable", [""])
        self.attributes = [(_key(a, self.strings), _value(a.get("value", {}), self.strings))
                           for a in d.get("attributeTable", [{}])]
        functions = [(self.strings[f.get("nameStrindex", 0)], self.strings[f.get("filenameStrindex", 0)], int(f.get("startLine", 0)))
                     for f in d.get("functionTable", [{}])]
        mappings = [self.strings[m.get("filenameStrindex", 0)] for m in d.get("mappingTable", [{}])]
        locations = [self._frame(l, functions, mappings) for l in d.get("locationTable", [{}])]
        self.stacks = [tuple(locations[i] for i in s.get("locationIndices", [])) for s in d.get("stackTable", [{}])]

    def attribute_set(self, owner):
        return dict(self.attributes[i] for i in owner.get("attributeIndices", []))

    def _frame(self, location, functions, mappings):
        lines = location.get("lines", [])
        outer = lines[-1] if lines else {}  # the others are inlined there
        name, source, first = functions[outer.get("functionIndex", 0)] if lines else ("", "", 0)
        kind = self.attribute_set(location).get("profile.frame.type", "")
        return Frame(name, int(location.get("address", 0)), mappings[location.get("mappingIndex", 0)], kind, source, first,
                     int(outer.get("line", 0)))

    def samples(self):
        for rp in self.message.get("resourceProfiles", []):
            resource = {_key(a, self.strings): _value(a.get("value", {}), self.strings)
                        for a in rp.get("resource", {}).get("attributes", [])}
            for sp in rp.get("scopeProfiles", []):
                for profile in sp.get("profiles", []):
                    kind = self.strings[profile.get("sampleType", {}).get("typeStrindex", 0)]
                    for s in profile.get("samples", []):
                        times, values = s.get("timestampsUnixNano", []), s.get("values", [])
                        count = sum(map(int, values)) if values else len(times)
                        yield Sample(resource, self.attribute_set(s), self.stacks[s.get("stackIndex", 0)], count, kind,
                                     tuple(map(int, times)))


def every_profile(path):
    """The profiles of a file as the Collector wrote them, references unresolved."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            for resource in json.loads(line).get("resourceProfiles", []):
                for scope in resource.get("scopeProfiles", []):
                    yield from scope.get("profiles", [])


class Reader:
    """A file that grows: what has been read of it is not read again. Scenarios look at it many times a second, beside what they judge."""

    def __init__(self, inode):
        self.inode, self.end, self.samples = inode, 0, []

    def more(self, f):
        f.seek(self.end)
        data = f.read()  # all at once: line by line, a line that is written meanwhile comes in two parts
        whole = data[:data.rfind(b"\n") + 1]
        for line in whole.split(b"\n")[:-1]:
            self.samples += Request(json.loads(line)).samples()
        self.end += len(whole)
        return list(self.samples)


_readers = {}


def read(path):
    """All samples of a file; a last line that is still being written is left out."""
    try:
        with open(path, "rb") as f:
            status = os.fstat(f.fileno())
            reader = _readers.get(path)
            if not reader or reader.inode != status.st_ino or reader.end > status.st_size:
                reader = _readers[path] = Reader(status.st_ino)
            return reader.more(f)
    except FileNotFoundError:
        return []


def total(samples):
    return sum(s.count for s in samples)


def names(sample):
    return [f.name for f in sample.frames]


def ending(sample):
    """`complete`, or the reason of the visible root frame `[truncated: REASON]`."""
    root = sample.frames[-1].name if sample.frames else "[truncated: empty stack]"
    if root.startswith("[truncated:"):
        return root[len("[truncated:"):-1].strip()
    return "complete"


def share(part, whole):
    return f"{100.0 * part / whole:.2f} % of {whole}" if whole else "no samples"
