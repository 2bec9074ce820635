# SPDX-License-Identifier: Apache-2.0
"""A recording whose frames have what is needed to judge names: both forms of the name and the ids of the file."""
import collections
import hashlib
import os
import re

from live import recording

Frame = collections.namedtuple("Frame", "kind module address name linkage ids place begin")
UNNAMED = re.compile(r"(.*)\+0x([0-9a-f]+)")
NATIVE = "native"


class Names(recording.Profile):
    """`name` is None where proflet has none: its line is then MODULE+0xBEGIN where it knows where the function begins (`begin`),
    MODULE+0xADDRESS where not (then `begin` is None, as at a function's first byte). Where calls were inlined it is that of the
    outermost function; `place`: ([functions, innermost first], FILE:LINE), None where the source is not known."""

    def _frame(self, location):
        mapping = self.d["mapping_table"][location["mapping_index"]]
        module = self.strings[mapping["filename_strindex"]]
        kind = self._attributes(location["attribute_indices"]).get("profile.frame.type", "")
        kind = NATIVE if kind == "go" else kind  # machine code, with symbols
        ids = tuple(sorted(self._attributes(mapping["attribute_indices"]).items()))
        if not location["lines"]:
            return Frame(kind, module, location["address"], None, None, ids, None, None)
        first = location["lines"][0]
        inner = self.d["function_table"][first["function_index"]]
        calls = [self.strings[self.d["function_table"][line["function_index"]]["name_strindex"]] for line in location["lines"]]
        place = (calls, f"{self.strings[inner['filename_strindex']]}:{first['line']}") if first["line"] else None
        function = self.d["function_table"][location["lines"][-1]["function_index"]]
        name = self.strings[function["name_strindex"]]
        if name == "[anonymous]":
            name = None
        unnamed = UNNAMED.fullmatch(name or "")
        if unnamed and unnamed[1] == os.path.basename(module):
            begin = int(unnamed[2], 16)
            return Frame(kind, module, location["address"], None, None, ids, place, begin if begin != location["address"] else None)
        return Frame(kind, module, location["address"], name, self.strings[function["system_name_strindex"]] or name, ids, place, None)


def htlhash(path):
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        head = f.read(4096)
        f.seek(max(0, size - 4096))
        tail = f.read(4096)
    return hashlib.sha256(head + tail + size.to_bytes(8, "big")).hexdigest()[:32]


def same_file(path, ids):
    """Whether the file of that path is still the one that was recorded; None: it is gone."""
    known = dict(ids).get("process.executable.build_id.htlhash")
    try:
        return not known or htlhash(path) == known
    except OSError:
        return None
