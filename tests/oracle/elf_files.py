# SPDX-License-Identifier: Apache-2.0
"""The ELF files below folders that comparisons look at: 64-bit executables and shared objects of x86-64 and aarch64."""
import collections
import os

MACHINES = {62: "x86-64", 183: "aarch64"}

Found = collections.namedtuple("Found", "size mtime path")


def kind_of(path, machines):
    """"" for a file to compare, None for one that is no ELF file, else what it is."""
    try:
        with open(path, "rb") as f:
            head = f.read(20)
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    kind, machine = int.from_bytes(head[16:18], "little"), int.from_bytes(head[18:20], "little")
    if head[4:6] != b"\x02\x01" or machine not in machines:
        return "of other machines"
    return "" if kind in (2, 3) else "relocatable" if kind == 1 else "other"


def find(folders, machines=MACHINES):
    """→ [Found], largest first, and a count of skipped ELF files by reason."""
    seen, result, others = set(), [], collections.Counter()
    for folder in folders:
        walk = os.walk(folder) if os.path.isdir(folder) else [(os.path.dirname(folder), [], [os.path.basename(folder)])]
        for where, _, names in walk:
            for name in names:
                path = os.path.join(where, name)
                try:
                    st = os.lstat(path)
                except OSError:
                    continue
                key = (st.st_dev, st.st_ino)
                if os.path.islink(path) or not os.path.isfile(path) or st.st_size < 64 or key in seen:
                    continue
                kind = kind_of(path, machines)
                if kind is None:
                    continue
                seen.add(key)
                if kind:
                    others[kind] += 1
                else:
                    result.append(Found(st.st_size, st.st_mtime_ns, path))
    return sorted(result, reverse=True), others
