# SPDX-License-Identifier: Apache-2.0
"""One ELF64 file: bytes by address, symbols, relocations, and functions by .eh_frame, symbols and Go's table. Shares nothing with proflet."""
import array
import bisect
import collections
import functools
import mmap
import struct

PT_LOAD, PT_DYNAMIC, PT_EH_FRAME, PT_RELRO = 1, 2, 0x6474e550, 0x6474e552
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_DYNSYM, SHT_RELR = 2, 4, 8, 11, 19
STT_NOTYPE, STT_FUNC, STT_IFUNC = 0, 2, 10
R_64, R_GLOB_DAT, R_JUMP_SLOT, R_RELATIVE, R_IRELATIVE = 1, 6, 7, 8, 37
GO_MAGIC = {0xfffffffa: 116, 0xfffffff0: 118, 0xfffffff1: 120}

Section = collections.namedtuple("Section", "name type flags address offset size link entry_size")
Segment = collections.namedtuple("Segment", "type flags offset address file_size size")
Symbol = collections.namedtuple("Symbol", "address size type name")
Relocation = collections.namedtuple("Relocation", "type name addend")
Fde = collections.namedtuple("Fde", "start end lsda")
# `end`: behind its last byte; `lsda`: address of its exception table, or 0.
Unit = collections.namedtuple("Unit", "start end source lsda")


def plt_step(section):
    return section.entry_size if section.entry_size in (8, 16) else 16


class NotElf(Exception):
    pass


class Elf:
    """`data`: bytes or a mapped file."""

    def __init__(self, path, data=None):
        self.path = path
        if data is None:
            with open(path, "rb") as f:
                data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.data = data
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise NotElf(f"{path} is no ELF64 file")
        self.type, machine, self.entry, phoff, shoff, phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<HH4xQQQ4x2xHHHHH", self.data, 16)
        if machine != 62:
            raise NotElf(f"{path} is not for x86-64")
        self.segments = []
        for i in range(phnum):
            kind, flags, offset, address, _, file_size, size, _ = struct.unpack_from("<IIQQQQQQ", self.data, phoff + i * phentsize)
            self.segments.append(Segment(kind, flags, offset, address, file_size, size))
        self.called_by_loader = set()
        self.survey_names = None  # set by who can decode: Elf → addresses that its code names or calls
        self.loads = [s for s in self.segments if s.type == PT_LOAD]
        self.sections = self._sections(shoff, shentsize, shnum, shstrndx) if shoff else []

    def _sections(self, offset, size, n, names):
        raw = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(n)] if offset + n * size <= len(self.data) else []
        if not raw:
            return []
        base = raw[names][4]
        return [Section(self._string(base + r[0]), r[1], r[2], r[3], r[4], r[5], r[6], r[9]) for r in raw]

    def _string(self, at):
        return self.data[at:self.data.find(b"\0", at)].decode("utf-8", "replace")

    # --- bytes
    def read(self, address, n):
        """Up to n bytes from an address on; fewer where the file's part of the segment ends."""
        for s in self.loads:
            if s.address <= address < s.address + s.file_size:
                at = s.offset + address - s.address
                return self.data[at:at + min(n, s.address + s.file_size - address)]
        return b""

    def is_code(self, address):
        return any(s.flags & 1 and s.address <= address < s.address + s.size for s in self.loads)

    @functools.cached_property
    def code(self):
        """The ranges of code: sections where there are some, else segments."""
        ranges = [(s.address, s.address + s.size) for s in self.sections if s.flags & 4 and s.type != SHT_NOBITS and s.size]
        return sorted(ranges or [(s.address, s.address + s.file_size) for s in self.loads if s.flags & 1])

    def section_at(self, address):
        return next((s for s in self.sections if s.flags & 2 and s.address <= address < s.address + s.size), None)

    # --- symbols
    def _symbols(self, wanted):
        for section in self.sections:
            if section.type != wanted or section.entry_size != 24:
                continue
            strings = self.sections[section.link].offset
            for name, info, _, shndx, value, size in struct.iter_unpack("<IBBHQQ", self.data[section.offset:section.offset + section.size // 24 * 24]):
                yield Symbol(value, size, info & 15, strings + name), shndx

    @functools.cached_property
    def dynamic_names(self):
        """In the order of the symbol numbers."""
        return [self._string(s.name) for s, _ in self._symbols(SHT_DYNSYM)]

    @functools.cached_property
    def exports(self):
        """name → [Symbol] that this file defines for others"""
        found = collections.defaultdict(list)
        for s, shndx in self._symbols(SHT_DYNSYM):
            if shndx:
                found[self._string(s.name)].append(s)
        return found

    @functools.cached_property
    def stubs(self):
        """name → [Symbol]: entries of a program's PLT that are the functions' addresses for all files of its process (gABI, Function Addresses)"""
        found = collections.defaultdict(list)
        for s, shndx in self._symbols(SHT_DYNSYM):
            if not shndx and s.address and s.type == STT_FUNC:
                found[self._string(s.name)].append(s)
        return found

    @functools.cached_property
    def functions(self):
        """Symbols of code, sorted; `name` is the place of the name."""
        found = [s for kind in (SHT_SYMTAB, SHT_DYNSYM) for s, shndx in self._symbols(kind)
                 if shndx and (s.type in (STT_FUNC, STT_IFUNC) or s.type == STT_NOTYPE and s.address and 0 < shndx < 0xff00) and self.is_code(s.address)]
        return sorted(found, key=lambda s: (s.address, s.size))

    @functools.cached_property
    def _function_starts(self):
        return [s.address for s in self.functions]

    def names_at(self, address):
        """Of the symbols that begin exactly there, and of Go's function."""
        i = bisect.bisect_left(self._function_starts, address)
        names = set()
        while i < len(self.functions) and self.functions[i].address == address:
            names.add(self._string(self.functions[i].name))
            i += 1
        go = self.go
        if go and address in go.names:
            names.add(self._string(go.names[address]))
        return names

    # --- dynamic linking
    @functools.cached_property
    def relocations(self):
        """slot → Relocation, of those that say where a function is"""
        found, names = {}, self.dynamic_names
        for section in self.sections:
            if section.type != SHT_RELA or not section.flags & 2:
                continue
            for slot, info, addend in struct.iter_unpack("<QQq", self.data[section.offset:section.offset + section.size // 24 * 24]):
                kind, symbol = info & 0xffffffff, info >> 32
                if kind in (R_GLOB_DAT, R_JUMP_SLOT, R_64, R_RELATIVE, R_IRELATIVE):
                    found[slot] = Relocation(kind, names[symbol] if 0 < symbol < len(names) else "", addend)
        return found

    @functools.cached_property
    def pointers(self):
        """Words of data that may be addresses of code: by relocations, and all words of a file that is not relocated."""
        found = {r.addend for r in self.relocations.values() if r.type in (R_RELATIVE, R_IRELATIVE)}
        for section in self.sections:
            data = self.data[section.offset:section.offset + section.size // 8 * 8] if section.type != SHT_NOBITS else b""
            if section.type == SHT_RELR:
                found.update(struct.unpack("<Q", self.read(slot, 8).ljust(8, b"\0"))[0] for slot in _relr(data))
            elif self.type == 2 and section.flags & 2 and not section.flags & 4:
                found.update(array.array("Q", bytes(data)))
        low, high = self.code[0][0], self.code[-1][1]
        return {a for a in found if low <= a < high}

    @functools.cached_property
    def taken_by_data(self):
        """Starts of functions whose address data has, or that the loader or the unwinder calls."""
        self.needed  # knows what the loader calls
        found = self.pointers | self.called_by_loader | self.personalities | self._by_offsets()
        for symbols in (*self.exports.values(), *self.stubs.values()):
            found.update(s.address for s in symbols)
        return found & set(self.starts)

    @functools.cached_property
    def blob(self):
        """Where the code begins that V8 has generated when it was built, without call-frame information; 0: there is none."""
        return next((s.address for s in self.functions if self._string(s.name).endswith("_embedded_blob_code_")), 0)

    def _by_offsets(self):
        """Functions that 32-bit words of data name by their distance to the first one: Go's methods, V8's builtins."""
        bases = ([min(self.go.starts)] if self.go else []) + ([self.blob] if self.blob else [])
        found, words = set(), set()
        for section in self.sections if bases else ():
            if section.flags & 2 and not section.flags & 4 and section.type != SHT_NOBITS and "gopclntab" not in section.name:
                words.update(array.array("I", bytes(self.data[section.offset:section.offset + section.size // 4 * 4])))
        for base in bases:
            found.update(base + w for w in words)
        return found

    @functools.cached_property
    def needed(self):
        """DT_NEEDED, and DT_SONAME as ''."""
        result, soname, strings, tags = [], "", 0, []
        for s in self.segments:
            if s.type == PT_DYNAMIC:
                tags = [t for t in struct.iter_unpack("<QQ", self.data[s.offset:s.offset + s.file_size // 16 * 16])]
        for tag, value in tags:
            if tag == 5:
                strings = value
            elif tag in (12, 13):  # DT_INIT, DT_FINI
                self.called_by_loader.add(value)
        for tag, value in tags:
            if tag in (1, 14) and strings:
                name = self.read(strings + value, 512).split(b"\0")[0].decode("utf-8", "replace")
                if tag == 14:
                    soname = name
                else:
                    result.append(name)
        return result, soname

    # --- functions
    @functools.cached_property
    def _eh(self):
        """(.eh_frame_hdr's sorted starts, addresses of their FDEs)"""
        for s in self.segments:
            if s.type != PT_EH_FRAME or s.file_size < 12:
                continue
            version, encoding, count, table = self.data[s.offset:s.offset + 4]
            if (version, count, table) != (1, 3, 0x3b) or encoding & 15 not in (11, 3):
                continue
            n = min(struct.unpack_from("<I", self.data, s.offset + 8)[0], (s.file_size - 12) // 8)
            pairs = sorted(struct.iter_unpack("<ii", self.data[s.offset + 12:s.offset + 12 + 8 * n]))
            return [s.address + a for a, _ in pairs], [s.address + b for _, b in pairs]
        return self._eh_linear()

    def _eh_linear(self):
        """Without the table: .eh_frame from its begin to its end."""
        section = next((s for s in self.sections if s.name == ".eh_frame" and s.type != SHT_NOBITS), None)
        pairs, at = [], 0
        while section and at + 8 <= section.size:
            length, cie = struct.unpack_from("<II", self.data, section.offset + at)
            if length in (0, 0xffffffff):
                break
            if cie:
                fde = self._fde(section.address + at)
                if fde:
                    pairs.append((fde.start, section.address + at))
            at += 4 + length
        pairs.sort()
        return [a for a, _ in pairs], [b for _, b in pairs]

    @functools.lru_cache(maxsize=None)
    def _fde(self, address):
        head = self.read(address, 8)
        if len(head) < 8:
            return None
        length, back = struct.unpack("<II", head)
        encoding, lsda_encoding, _ = self._cie(address + 4 - back)
        body = self.read(address + 8, min(length - 4, 64))
        at, start = _pointer(body, 0, encoding, address + 8)
        at, size = _pointer(body, at, encoding & 15, 0)
        lsda = 0
        if lsda_encoding != 0xff and at < len(body):
            _, lsda = _pointer(body, at + 1, lsda_encoding, address + 8)
            raw = _pointer(body, at + 1, lsda_encoding & 15, 0)[1]
            lsda = lsda if raw else 0
        return Fde(start, start + size, lsda)

    @functools.lru_cache(maxsize=None)
    def _cie(self, address):
        body = self.read(address, 256)
        text = body[9:body.index(b"\0", 9)]
        at = 9 + len(text) + 1
        at, _ = _uleb(body, at)
        at, _ = _uleb(body, at)
        at = at + 1 if body[8] == 1 else _uleb(body, at)[0]
        encoding, lsda, personality = 0, 0xff, 0
        if text.startswith(b"z"):
            at, _ = _uleb(body, at)
            for letter in text[1:]:
                if letter == ord("R"):
                    encoding, at = body[at], at + 1
                elif letter == ord("L"):
                    lsda, at = body[at], at + 1
                elif letter == ord("P"):
                    form = body[at]
                    at, value = _pointer(body, at + 1, form & 0x7f, address)
                    personality = 0 if form & 0x80 else value
        return encoding, lsda, personality

    @functools.cached_property
    def go(self):
        return GoTable.find(self)

    @functools.cached_property
    def known_starts(self):
        """Addresses at which functions begin, sorted: by .eh_frame, symbols, Go's table, and the entries of PLTs."""
        found = set(self._eh[0]) | set(self._function_starts)
        if self.go:
            found.update(self.go.starts)
        for section in self.plts:
            found.update(range(section.address, section.address + section.size, plt_step(section)))
        return sorted(found)

    @functools.cached_property
    def starts(self):
        """And, in code that none of these describes, what code or data names: calls or holds the address of."""
        if not self.survey_names:
            return self.known_starts
        self.needed  # knows what the loader calls
        bare = {a for a in self.survey_names(self) | self.pointers | self.called_by_loader if self.is_code(a) and not self._described(a)}
        return sorted(bare.union(self.known_starts))

    @functools.cached_property
    def plts(self):
        return [s for s in self.sections if s.name.startswith(".plt") and s.flags & 4]

    def _described(self, address):
        return bool(self._fde_at(address) or self._symbol_at(address)) or bool(self.go) or any(s.address <= address < s.address + s.size for s in self.plts)

    def _fde_at(self, address):
        starts, addresses = self._eh
        i = bisect.bisect_right(starts, address) - 1
        fde = self._fde(addresses[i]) if i >= 0 else None
        return fde if fde and fde.start <= address < fde.end else None

    def _symbol_at(self, address):
        i = bisect.bisect_right(self._function_starts, address) - 1
        while i >= 0 and address - self._function_starts[i] < 1 << 20:
            s = self.functions[i]
            if s.address <= address < s.address + s.size:
                return s
            i -= 1
            if i >= 0 and self.functions[i].size and self.functions[i].address + self.functions[i].size <= address:
                break
        return None

    @functools.cached_property
    def personalities(self):
        """Functions that .eh_frame names for the unwinder to call."""
        found = set()
        for address in self._eh[1]:
            length_id = self.read(address, 8)
            if len(length_id) == 8:
                found.add(address + 4 - struct.unpack("<II", length_id)[1])
        return {p for p in (self._cie(cie)[2] for cie in found) if p}

    def starts_within(self, unit):
        return self.starts[bisect.bisect_left(self.starts, unit.start):bisect.bisect_left(self.starts, unit.end)] or [unit.start]

    @functools.lru_cache(maxsize=None)
    def unit(self, address):
        """The function at an address: an entry of a PLT, what an FDE, a symbol or Go's table covers, else up to the neighbours; or None."""
        if not self.is_code(address):
            return None
        section = self.section_at(address)
        if section in self.plts:
            start = address - (address - section.address) % plt_step(section)
            return Unit(start, start + plt_step(section), "plt", 0)
        fde = self._fde_at(address)
        if fde:
            return Unit(fde.start, fde.end, "fde", fde.lsda)
        if self.go:
            i = bisect.bisect_right(self.go.starts, address) - 1
            if 0 <= i < len(self.go.starts) - 1:
                return Unit(self.go.starts[i], self.go.starts[i + 1], "go", 0)
        s = self._symbol_at(address)
        if s:
            return Unit(max(s.address, self._fde_end_before(address)), s.address + s.size, "symbol", 0)
        return self._gap(address, section)

    def _gap(self, address, section):
        low, high = (section.address, section.address + section.size) if section else next((r for r in self.code if r[0] <= address < r[1]), (address, address + 1))
        i = bisect.bisect_right(self.starts, address)
        start = self.starts[i - 1] if i and self.starts[i - 1] >= low else low
        end = self.starts[i] if i < len(self.starts) and self.starts[i] <= high else high
        return Unit(max(start, self._fde_end_before(address)), end, "gap", 0)

    def _fde_end_before(self, address):
        starts, addresses = self._eh
        i = bisect.bisect_right(starts, address) - 1
        before = self._fde(addresses[i]) if i >= 0 else None
        return before.end if before and before.end <= address else 0

    @functools.lru_cache(maxsize=None)
    def landing_pads(self, lsda, function):
        """Of an exception table."""
        data = self.read(lsda, 1 << 20)
        try:
            at, base = 1, function
            if data[0] != 0xff:
                at, base = _pointer(data, 1, data[0], lsda)
            at, skip = at + 1, data[at]
            if skip != 0xff:
                at, _ = _uleb(data, at)
            encoding = data[at]
            at, length = _uleb(data, at + 1)
            end, pads = at + length, set()
            while at < end:
                at, _ = _pointer(data, at, encoding & 15, 0)
                at, _ = _pointer(data, at, encoding & 15, 0)
                at, pad = _pointer(data, at, encoding & 15, 0)
                at, _ = _uleb(data, at)
                if pad:
                    pads.add(base + pad)
            return frozenset(pads)
        except (IndexError, struct.error):
            return frozenset()


class GoTable:
    """Go's functions: sorted starts, the last one being the end, and where their names are in the file."""

    def __init__(self, starts, names):
        self.starts, self.names = starts, names

    @classmethod
    def find(cls, elf):
        section = next((s for s in elf.sections if s.name in (".gopclntab", ".data.rel.ro.gopclntab")), None)
        if not section:
            return None
        base = section.offset
        version = GO_MAGIC.get(struct.unpack_from("<I", elf.data, base)[0])
        if not version:
            return None
        word = struct.Struct("<Q")
        n = word.unpack_from(elf.data, base + 8)[0]
        if version >= 118:
            text = word.unpack_from(elf.data, base + 24)[0]
            names, table = (base + word.unpack_from(elf.data, base + 8 + 8 * k)[0] for k in (3, 7))
            if not text:  # filled in by the linker of an older version only
                text = next((s.address for s in elf.sections if s.name == ".text"), 0)
                text = next((s.address for s in elf.functions if elf._string(s.name) == "runtime.text"), text)
            entries = struct.iter_unpack("<II", elf.data[table:table + 8 * n])
            last = struct.unpack_from("<I", elf.data, table + 8 * n)[0]
        else:
            text = 0
            names, table = (base + word.unpack_from(elf.data, base + 8 + 8 * k)[0] for k in (2, 6))
            entries = struct.iter_unpack("<QQ", elf.data[table:table + 16 * n])
            last = struct.unpack_from("<Q", elf.data, table + 16 * n)[0]
        starts, where = [], {}
        for entry, function in entries:
            starts.append(text + entry)
            name = struct.unpack_from("<i", elf.data, table + function + (4 if version >= 118 else 8))[0]
            where[text + entry] = names + name
        return cls(starts + [text + last], where)


def _relr(data):
    """The places that a SHT_RELR section relocates."""
    where = 0
    for entry, in struct.iter_unpack("<Q", data):
        if entry & 1:
            yield from (where + 8 * i for i in range(63) if entry >> (i + 1) & 1)
            where += 8 * 63
        else:
            yield entry
            where = entry + 8


def _uleb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return at, value


POINTERS = {0: "<Q", 2: "<H", 3: "<I", 4: "<Q", 10: "<h", 11: "<i", 12: "<q"}


def _pointer(data, at, encoding, place):
    """→ (at, value); `place`: the address of data[0]. Indirect ones give the place of the pointer."""
    if encoding & 15 in (1, 9):
        begin = at
        at, value = _uleb(data, at)
        if encoding & 15 == 9 and value >> (7 * (at - begin) - 1) & 1:
            value -= 1 << 7 * (at - begin)
    else:
        form = POINTERS[encoding & 15]
        value = struct.unpack_from(form, data, at)[0]
        begin, at = at, at + struct.calcsize(form)
    if encoding & 0x70 == 0x10:
        value += place + begin
    return at, value & ((1 << 64) - 1)
