# SPDX-License-Identifier: Apache-2.0
"""Compares two names of one address: they are equal, different for one of the reasons listed here, or wrong.

addr2line prefers DWARF, and where there is none takes the nearest symbol before an address, however far. So what it says is
held against nm: ours must be a symbol of the file that covers the address.
"""
import os
import re

SUFFIX = re.compile(r"(?<=.)\.(?:cold|part|isra|constprop|clone|lto_priv|llvm|localalias|specialized|__uniq|[0-9]).*$")
REASONS = {
    "same": "addr2line says the same",
    "nobody": "neither has a name, and no FDE covers it",
    "function": "neither has a name; proflet says where the function begins, and readelf's FDE says the same",
    "alias": "another symbol at the same address and of this file: proflet takes the global one, fewer underscores, shorter",
    "clone": "DWARF calls a part or clone of a function (.cold, .part.0 …) by the function's name",
    "constructor": "DWARF calls both symbols of a constructor or destructor (C1, C2) by one that is none (C4)",
    "DWARF name": "DWARF's name is no symbol of the file (static, renamed by the compiler or by asm()); nm says ours",
    "nested": "the symbol that addr2line names covers it, too: a smaller one inside of that is ours",
    "ended": "addr2line takes the nearest symbol before; that has ended here, and nm says ours",
    "silent": "addr2line has none; nm says ours",
    "label": "a symbol without a size: it holds up to the next one, and nm says it stands there",
    "slot": "a slot of a procedure linkage table: objdump says so",
    "chosen slot": "a slot of a function that is chosen at the start (IRELATIVE): objdump has the address of who chooses, nm its name",
    "C in Go": "code of a Go program that its function table lacks: go tool addr2line takes the function before; addr2line or nm say ours",
}


def bare(name):
    return SUFFIX.sub("", name)


def constructor(name):
    return re.sub(r"(?<=[0-9A-Za-z_])([CD])[0-5](?=E)", r"\1x", name)


def against_nm(file, address, ours, theirs):
    """ours: a linkage name. theirs: the outermost that addr2line has."""
    covering = file.symbols.covering(address)
    inner = {name for start, name in covering if covering and start == covering[-1][0]}
    if ours in inner or bare(ours) in {bare(n) for n in inner if n.startswith(ours)}:
        if theirs in inner:
            return "alias"
        if theirs == "??":
            return "silent"
        if constructor(bare(theirs)) == constructor(bare(ours)):
            return "clone" if bare(theirs) == bare(ours) and theirs != ours else "constructor"
        if theirs in {name for _, name in covering}:
            return "nested"
        if theirs in file.symbols.named:
            return "ended"
        return "DWARF name"
    if not covering and ours in file.symbols.labels(address):
        return "label"
    return None


def slot(file, address, ours):
    theirs = file.plt(address)
    if theirs == ours:
        return "slot"
    match = re.fullmatch(r"\*ABS\*\+0x([0-9a-f]+)@plt", theirs or "")
    return "chosen slot" if match and ours[:-4] in file.symbols.at(int(match[1], 16)) else None


def begin_of(file, address, begin):
    """Of code without a name: does its function begin there?"""
    starts = file.fde_starts(address)
    if begin is None and address not in starts:
        return f"wrong: no function, and readelf's FDE begins at {max(starts):#x}" if starts else "nobody"
    begin = address if begin is None else begin
    return "function" if starts and begin == max(starts) else f"wrong: function at {begin:#x}, readelf has {[hex(x) for x in starts]}"


def unnamed(file, address, theirs, begin):
    if file.symbols.covering(address):
        return "wrong: no name, and nm has " + file.symbols.covering(address)[-1][1]
    if theirs == "??" or (theirs in file.symbols.named and all(size for _, size in file.symbols.named[theirs])):
        return begin_of(file, address, begin)
    return f"wrong: no name, and addr2line has {theirs}"


def judge(file, address, ours, theirs, begin=None):
    """begin: where our function begins that has no name. A key of REASONS, or a text that begins with "wrong"."""
    if ours is None:
        return unnamed(file, address, theirs, begin)
    if ours == theirs:
        return "same"
    verdict = slot(file, address, ours) if ours.endswith("@plt") else against_nm(file, address, ours, theirs)
    return verdict or f"wrong: {ours}, and addr2line has {theirs}"


def judge_go(file, address, ours, theirs, tool, begin=None):
    """tool: what go tool addr2line says."""
    if ours == tool:
        return "same"
    verdict = judge(file, address, ours, theirs, begin)
    if verdict.startswith("wrong"):
        return f"wrong: {ours}, go tool addr2line has {tool}, addr2line has {theirs}"
    covering = file.symbols.covering(address)
    if tool != "?" and covering and spelled(covering[-1][1]) == tool:
        return f"wrong: {ours}, go tool addr2line has {tool}"
    return verdict if verdict in ("nobody", "function") else "C in Go"


def spelled(symbol):
    """A symbol of Go's linker as the function table has it."""
    return re.sub(r"\[.*\]", "[...]", symbol.removesuffix(".abi0"))


PLACES = {
    "same": "go tool addr2line has the same FILE:LINE for the innermost inlined call",
    "no lines": "neither has a line",
    "same calls": "DWARF has the same inlined calls, in the same order (llvm-symbolizer --inlines)",
}


PLACES_DWARF = {
    "same": "llvm-symbolizer --inlines has the same calls and the same FILE:LINE for the innermost",
    "no lines": "neither has a line",
    "left": "no name, or a function of no symbol: not asked for",
}


def dwarf_place(ours, name, theirs, filtered, full, short):
    """ours: ([functions, innermost first], FILE:LINE) or None; theirs: (linkage names, [FILE:LINE]); filtered: c++filt -p, full: c++filt, short: c++filt -i,
    which leaves std::ostream as it is, as addr2line does."""
    functions, places = theirs
    if not name:
        return "left"
    known = places and not places[0].startswith("??") and not places[0].endswith(":0")
    if ours is None:
        return f"wrong: no line, llvm-symbolizer has {places[0]}" if known else "no lines"
    pairs = zip(ours[0][:-1], functions[:-1])
    differ = lambda a, b: all(readable(a, b, None if b.startswith("_R") else x[b], filtered[b], full[b]).startswith("wrong") for x in (full, short))
    if len(ours[0]) != len(functions) or any(differ(a, b) for a, b in pairs):
        return f"wrong: calls {ours[0][:-1]}, llvm-symbolizer has {functions[:-1]}"
    line = ours[1].rpartition(":")
    same = known and (os.path.normpath(line[0]), line[2]) == (os.path.normpath(places[0].rpartition(":")[0]), places[0].rpartition(":")[2])
    return "same" if same else f"wrong: {ours[1]}, llvm-symbolizer has {places[:1]}"


def place(ours, theirs):
    """ours: (function, FILE:LINE) or None; theirs: FILE:LINE."""
    if ours is None:
        return "no lines" if theirs.endswith((":0", "?", "")) and theirs in ("", "?:0", "??:0") else f"wrong: no line, go tool addr2line has {theirs}"
    return "same" if ours[1] == theirs else f"wrong: {ours[1]}, go tool addr2line has {theirs}"


def calls(ours, theirs):
    return "same calls" if ours == theirs else f"wrong: {ours}, llvm-symbolizer has {theirs}"


READABLE = {
    "same": "as addr2line -C, or c++filt without parameters, prints it",
    "not mangled": "the linkage name as it is",
    "clone": "a C name's suffix, spelled as c++filt spells it in C++ names: f [clone .cold]",
    "left out": "what only makes a name unique is left out: .llvm.123, .lto_priv.0, Rust's hash",
}


def readable(name, linkage, theirs, filtered, full):
    """How the readable form relates to addr2line -C (theirs; None: it named something else), c++filt -p (filtered) and c++filt."""
    if linkage.startswith("_R"):  # c++filt prints the hashes of crates and the types of numbers, addr2line does not
        verbose = r"\[[0-9a-f]+\](?=::)|(?<=\d): [iu](?:8|16|32|64|128|size)\b"
        filtered, full = (re.sub(verbose, "", x) for x in (filtered, full))
    clone = re.fullmatch(r"(.*?)((?: \[clone [^]]*\])+)", name)
    suffix = "".join(re.findall(r"\[clone ([^]]*)\]", clone[2])) if clone else ""
    if clone and linkage.endswith(suffix) and linkage.startswith(("_R", "_ZN")):  # of Rust: c++filt has "f (.cold)", addr2line "f"
        if clone[1] in {(x or "").removesuffix(suffix).removesuffix(f" ({suffix})") for x in (theirs, filtered, full)}:
            return "clone"
    if theirs and (name + "(") in theirs:  # c++filt writes std::ostream out, addr2line does not
        return "same"
    if theirs not in (None, full, linkage, name):
        return f"wrong: {linkage} is {theirs} for addr2line, {full} for c++filt"
    if name == linkage:
        return "not mangled" if full == linkage else f"wrong: {linkage} is not made readable: {full}"
    clones = "".join(re.findall(r" \[clone [^]]*\]", full))  # which -p leaves out
    if name in (theirs, filtered, filtered + clones) or (linkage.startswith("_D") and name == full):
        return "same"
    if name == filtered + re.sub(r" \[clone \.(?:llvm|lto_priv|localalias|__uniq)[^]]*\]", "", clones):
        return "left out"
    if re.sub(r" \[clone (\.[^]]*)\]", r"\1", name) == re.sub(r"\.(?:llvm|lto_priv|__uniq)\.\d+|\.localalias", "", linkage):
        return "clone" if "[clone" in name else "left out"
    return f"wrong: {linkage} as {name}, c++filt says {filtered}"
