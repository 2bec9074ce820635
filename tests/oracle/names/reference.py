# SPDX-License-Identifier: Apache-2.0
"""Names of a file's addresses from other tools: addr2line, go tool addr2line, nm, objdump, c++filt."""
import bisect
import os
import re
import subprocess
import tempfile

SYMBOL = re.compile(r"^([0-9a-f]+) (?:([0-9a-f]+) )?([tTwWiuV]) (.*)$")
PLT_LABEL = re.compile(r"^([0-9a-f]+) <(.*@plt)>:$")
PLT_JUMP = re.compile(r"^ *([0-9a-f]+):\s+(?:bnd )?jmp +\*0x[0-9a-f]+\(%rip\) +# ([0-9a-f]+)")
RELOCATION = re.compile(r"^([0-9a-f]+)  [0-9a-f]+ \S+ +(?:[0-9a-f]{16} (\S+) \+ 0|([0-9a-f]+))$")
FDE = re.compile(r" FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)$", re.MULTILINE)
PLT_SECTION = re.compile(r"\] (\.plt|\.plt\.sec|\.plt\.got|\.iplt) +PROGBITS +([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)")
DEBUG = "/usr/lib/debug/.build-id"


def output(*argv, text=None):
    done = subprocess.run(argv, input=text, stdin=subprocess.DEVNULL if text is None else None, capture_output=True, text=True,
                          errors="replace", timeout=900)
    return done.stdout


def readelf(path, *options):
    return output("readelf", "-W", *options, path)


class Symbols:
    """nm's functions: what covers an address, and labels that have no size."""

    def __init__(self, texts):
        found = set()
        for text in texts:
            for line in text.splitlines():
                match = SYMBOL.match(line)
                if match:
                    found.add((int(match[1], 16), int(match[2] or "0", 16), re.sub(r"(?<=.)@.*|\.abi0$", "", match[4])))
        self.all = sorted(found)
        self.starts = [s for s, _, _ in self.all]
        self.named = {}
        self.longest = max((n for _, n, _ in self.all), default=0)
        for start, size, name in self.all:
            self.named.setdefault(name, []).append((start, size))

    def covering(self, address):
        """[(start, name)] of those with a size, the innermost last."""
        i = bisect.bisect_right(self.starts, address)
        result = []
        while i and address - self.starts[i - 1] < self.longest:
            i -= 1
            start, size, name = self.all[i]
            if address < start + size:
                result.append((start, name))
        return sorted(result)

    def at(self, address):
        low, high = bisect.bisect_left(self.starts, address), bisect.bisect_right(self.starts, address)
        return {name for _, _, name in self.all[low:high]}

    def labels(self, address):
        """The names of the nearest symbol at or before the address, if one of them has no size."""
        i = bisect.bisect_right(self.starts, address)
        if not i:
            return set()
        here = self.at(self.starts[i - 1])
        return here if any((self.starts[i - 1], 0) in self.named[n] for n in here) else set()


class File:
    """One ELF file and, where it has one, its debug file; the sections that name functions."""

    def __init__(self, path):
        self.path = path
        sections = readelf(path, "-S")
        self.has = {s for s in (".symtab", ".dynsym", ".gopclntab", ".go.buildinfo", ".gnu_debugdata", ".debug_info", ".gnu_debuglink")
                    if re.search(r"\]\s+" + re.escape(s) + r"\s", sections)}
        self.go = bool(self.has & {".gopclntab", ".go.buildinfo"})
        self.debug = self._debug_file()
        texts = [output("nm", "-S", "--defined-only", p) for p in [path, self.debug] if p]
        dynamic = output("nm", "-D", "-S", "--defined-only", path)
        self.exports = Symbols([dynamic])
        if ".gnu_debugdata" in self.has:
            texts.append(self._inner())
        self.symbols = Symbols(texts + [dynamic])
        self._plt = self._fdes = None
        self.go_shift = self._go_shift(sections)

    def _go_shift(self, sections):
        """go tool addr2line counts from .text. Go's table counts from what its header says (1.18 to 1.25), which is further on where
        another linker puts code of C before."""
        text = re.search(r"\] \.text +PROGBITS +([0-9a-f]+)", sections)
        table = re.search(r"\.gopclntab\s+PROGBITS\s+[0-9a-f]+ ([0-9a-f]+)", sections)
        if not text or not table:
            return 0
        with open(self.path, "rb") as f:
            f.seek(int(table[1], 16))
            header = f.read(32)
        begin = int.from_bytes(header[24:32], "little")
        return begin - int(text[1], 16) if begin and header[0] in (0xf0, 0xf1) else 0

    def _debug_file(self):
        match = re.search(r"Build ID: ([0-9a-f]+)", readelf(self.path, "-n"))
        link = re.search(r"\]\s+([^\s]+)\n", output("readelf", "-p", ".gnu_debuglink", self.path)) if ".gnu_debuglink" in self.has else None
        folder = os.path.dirname(self.path)
        names = [f"{DEBUG}/{match[1][:2]}/{match[1][2:]}.debug"] if match else []
        if link:
            names += [f"{folder}/{link[1]}", f"{folder}/.debug/{link[1]}", f"/usr/lib/debug{folder}/{link[1]}"]
        return next((n for n in names if os.path.isfile(n) and ".symtab" in readelf(n, "-S")), None)

    def _inner(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "inner")
            subprocess.run(["objcopy", "--dump-section", f".gnu_debugdata={name}.xz", self.path, name + ".copy"], capture_output=True)
            subprocess.run(["xz", "-d", name + ".xz"], capture_output=True)
            return output("nm", "-S", "--defined-only", name)

    def go_functions(self):
        """How many Go's function table has: a word of its header."""
        match = re.search(r"\.gopclntab\s+PROGBITS\s+[0-9a-f]+ ([0-9a-f]+)", readelf(self.path, "-S"))
        if not match:
            return 0
        with open(self.path, "rb") as f:
            f.seek(int(match[1], 16) + 8)
            return int.from_bytes(f.read(8), "little")

    @property
    def source(self):
        """What names its functions: 'all' of them, 'exports' only, or None."""
        if ".symtab" in self.has or self.debug or ".gnu_debugdata" in self.has or self.go:
            return "all"
        return "exports" if self.exports.all else None

    def sources(self):
        """The names of the sections, for people."""
        found = sorted(self.has - {".go.buildinfo", ".gnu_debuglink", ".debug_info"} - (set() if self.exports.all else {".dynsym"}))
        return ", ".join(found + ([f"debug file {self.debug}"] if self.debug else [])) or "none"

    def fde_starts(self, address):
        """Where the FDEs begin that readelf has for the address."""
        if self._fdes is None:
            self._fdes = sorted((int(a, 16), int(b, 16)) for a, b in FDE.findall(readelf(self.path, "--debug-dump=frames")))
            self._longest_fde = max((b - a for a, b in self._fdes), default=0)
        i, found = bisect.bisect_right(self._fdes, (address, 1 << 64)), []
        while i and address - self._fdes[i - 1][0] <= self._longest_fde:
            i -= 1
            if address < self._fdes[i][1]:
                found.append(self._fdes[i][0])
        return found

    def plt(self, address):
        """objdump's name of the slot: 'puts@plt', '*ABS*+0x1234@plt'; None."""
        if self._plt is None:
            self._plt = sorted(self._slots())
        i = bisect.bisect_right(self._plt, (address, 1 << 64, ""))
        return self._plt[i - 1][2] if i and address < self._plt[i - 1][1] else None

    def _slots(self):
        """(start, end, name) as objdump has them; those without a label there by their jump, through readelf's relocations."""
        relocations = {int(m[1], 16): re.sub(r"@.*", "", m[2] or "") or f"*ABS*+0x{m[3]}" for m in map(RELOCATION.match, readelf(self.path, "-r").splitlines()) if m}
        for section, begin, size in PLT_SECTION.findall(readelf(self.path, "-S")):
            begin, size, labelled = int(begin, 16), int(size, 16) or 16, False
            for line in output("objdump", "-d", "--no-show-raw-insn", "-j", section, self.path).splitlines():
                label, jump = PLT_LABEL.match(line), PLT_JUMP.match(line)
                if label:
                    labelled = True
                    yield int(label[1], 16), int(label[1], 16) + size, label[2]
                elif jump and not labelled and int(jump[2], 16) in relocations:
                    at = begin + (int(jump[1], 16) - begin) // size * size
                    yield at, at + size, relocations[int(jump[2], 16)] + "@plt"


def addr2line(path, addresses, *options):
    """address → names, the innermost inlined function first; ['??'] where there is none."""
    text = output("addr2line", "-a", "-f", "-i", *options, "-e", path, text="".join(f"{a:#x}\n" for a in addresses))
    result, names = {}, None
    for line in text.splitlines():
        if names is not None and len(names) % 2 == 0 and re.fullmatch(r"0x[0-9a-f]{16}", line):
            result[int(line, 16)] = names = []
        elif names is None:
            result[int(line, 16)] = names = []
        else:
            names.append(line)
    return {a: n[::2] for a, n in result.items()}


def inlined(symbolizer, path, addresses):
    """address → (names, FILE:LINE of each) by llvm-symbolizer, the innermost inlined call first: binutils 2.40 finds none in Go's DWARF 5."""
    text = output(symbolizer, "--obj=" + path, "--functions=linkage", "--no-demangle", "--inlines", text="".join(f"{a:#x}\n" for a in addresses))
    blocks = (block.splitlines() for block in text.split("\n\n"))
    return {a: (lines[::2], [x.rpartition(":")[0] for x in lines[1::2]]) for a, lines in zip(addresses, blocks)}


def go_addr2line(go, file, addresses):
    """address → (function, FILE:LINE)"""
    ordered = sorted(addresses)
    lines = output(go, "tool", "addr2line", file.path, text="".join(f"{a - file.go_shift:#x}\n" for a in ordered)).splitlines()
    return {a: (lines[2 * i], lines[2 * i + 1]) for i, a in enumerate(ordered) if 2 * i + 1 < len(lines)}


def filt(names, *options):
    """c++filt: the readable form of linkage names by another demangler."""
    result = {}
    for style in ("dlang", "auto"):  # which has all but D
        ordered = sorted(n for n in set(names) if n.startswith("_D") == (style == "dlang"))
        lines = output("c++filt", "-s", style, *options, text="".join(n + "\n" for n in ordered)).splitlines()
        result.update(zip(ordered, lines))
    return result
