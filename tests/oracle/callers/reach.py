# SPDX-License-Identifier: Apache-2.0
"""Where a transfer of control can lead: along jumps, PLT entries, tail calls, cold parts, landing pads and IFUNC resolvers."""
import collections
import functools
import os

from names import recorded

from . import elf
from .elf import Elf, NotElf

LIMIT = 4000  # functions that one search looks at
ENDS = {"jump", "jump slot", "jump indirect", "jump switch", "return", "stop"}
LOADER = "ld-linux-x86-64.so.2"
Place = collections.namedtuple("Place", "module address")


class Module:
    """An ELF file with the flow of its functions, each decoded once. Compared by identity."""

    def __init__(self, path, decoder, data=None):
        self.elf, self.decoder, self.path = Elf(path, data), decoder, path
        self.name = os.path.basename(path)
        self.elf.survey_names = self._named
        self.least = min((lo for lo, _ in self.elf.code), default=0)

    def unit(self, address):
        return self.elf.unit(address)

    def _named(self, file):
        """What the code names, for Elf.starts."""
        low, high = file.code[0][0], file.code[-1][1]
        return set().union(*(self.decoder.names(file.read(a, b - a), a, low, high, file.known_starts) for a, b in file.code))

    @functools.lru_cache(maxsize=None)
    def flow(self, unit):
        """→ (items, address behind the last instruction)"""
        return self.decoder.scan(self.elf.read(unit.start, unit.end - unit.start), unit.start, self.least)

    @functools.lru_cache(maxsize=None)
    def calls(self, unit):
        return {i.end: i for i in self.flow(unit)[0] if i.kind in ("call", "call slot", "call indirect")}

    def call_at(self, end):
        """The call that ends there, of the function as it is decoded from its begin; or None."""
        unit = self.unit(end - 1)
        return self.calls(unit).get(end) if unit else None

    def is_boundary(self, address):
        unit = self.unit(address)
        return bool(unit) and self.decoder.is_boundary(self.elf.read(unit.start, unit.end - unit.start), address - unit.start)

    @functools.cached_property
    def _survey(self):
        """(functions whose address code or data has, {function: those that jump into it})"""
        taken, into = set(self.elf.taken_by_data), collections.defaultdict(set)
        for low, high in self.elf.code:
            named, jumps = self.decoder.survey(self.elf.read(low, high - low), low, self.elf.starts)
            taken |= named
            for here, there in jumps:
                into[there].add(here)
        return taken, into

    @functools.cached_property
    def _pads_of(self):
        """{function that has landing pads of another: those others}"""
        into = collections.defaultdict(set)
        for start in self.elf.starts:
            unit = self.unit(start)
            if unit and unit.lsda and unit.start == start:
                for pad in self.elf.landing_pads(unit.lsda, start):
                    if not unit.start <= pad < unit.end:
                        there = self.unit(pad)
                        into[there.start if there else 0].add(start)
        return into

    @functools.lru_cache(maxsize=None)
    def is_taken(self, unit):
        """Whether an indirect call can reach the function: its address, or that of one that jumps into it, is in code or data."""
        taken, into = self._survey
        queue, seen = [unit], set()
        while queue and len(seen) < LIMIT:
            u = queue.pop()
            if u.start in seen:
                continue
            seen.add(u.start)
            starts = self.elf.starts_within(u)
            if any(s in taken for s in starts):
                return True
            sources = set().union(*(into.get(s, ()) for s in starts)) | (self._pads_of.get(u.start, set()) if len(seen) < 4 else set())
            before = self.unit(u.start - 1)
            if before and before.start not in seen and self.falls_through(before) == u.start:
                sources.add(before.start)
            queue.extend(filter(None, map(self.unit, sources)))
        return False

    def falls_through(self, unit):
        """The address that the flow goes on at behind the function's last instruction, or None."""
        items, end = self.flow(unit)
        last = items[-1] if items else None
        return None if last and last.end == end and last.kind in ENDS else end

    def names(self, address):
        """Of the function at the address."""
        unit = self.unit(address)
        return self.elf.names_at(unit.start) if unit else set()


class Modules:
    def __init__(self, decoder, vdso=None):
        self.decoder, self.known, self.left_out = decoder, {}, {}
        self.vdso = Module("[vdso]", decoder, vdso) if vdso else None
        self.by_soname = {}

    def of(self, frame):
        """The module of a frame, or None: no file, or not the one that was recorded."""
        key = frame.module, frame.ids
        if key not in self.known:
            self.known[key] = self._open(frame)
        return self.known[key]

    def _open(self, frame):
        if frame.module == "[vdso]":
            return self.vdso
        if not frame.module or frame.module.startswith("["):
            return None
        same = recorded.same_file(frame.module, frame.ids)
        if not same:
            self.left_out[frame.module] = "is gone" if same is None else "is another file by now"
            return None
        return self._load(frame.module)

    def _load(self, path):
        try:
            module = Module(path, self.decoder)
        except (NotElf, OSError, ValueError) as e:
            self.left_out[path] = str(e)
            return None
        self.by_soname.setdefault(module.elf.needed[1] or module.name, module)
        return module


class Reach:
    """Searches. `scope`: the modules of the stack that is judged, where symbols are looked up beside the callee's own."""

    def __init__(self, modules):
        self.modules = modules

    def find(self, start, callee, scope):
        """How `start` (a Place) leads to the callee's address: a word, or None: it does not. Unknown jumps on the way count last."""
        queue, seen, indirect = collections.deque([(start, 0, "")]), set(), False
        goal = callee.module.unit(callee.address)
        while queue and len(seen) < LIMIT:
            place, depth, via = queue.popleft()
            unit = place.module.unit(place.address)
            if not unit or (place.module, unit.start) in seen:
                continue
            seen.add((place.module, unit.start))
            if place.module is callee.module and unit == goal:
                return via or ("direct" if place.address == unit.start or depth else "direct, into a function")
            for there, how in self.edges(place.module, unit, scope):
                if there is None:
                    indirect = True
                else:
                    queue.append((there, depth + 1, merge(via, how)))
            if unit.source == "plt" and self._binds(place.module, unit, callee):
                return "lazy binding"
        return "indirect jump on the way" if indirect else None

    def edges(self, module, unit, scope):
        """(Place or None: anywhere, how) that the flow leaves the function to"""
        for i in module.flow(unit)[0]:
            if i.kind in ("jump", "branch") and not unit.start <= i.target < unit.end:
                yield Place(module, i.target), "tail call" if i.kind == "jump" else "cold part or tail call"
            elif i.kind == "jump slot":
                how = "plt" if unit.source == "plt" else "tail call"
                targets = list(self.slot(module, i.target, scope))
                yield from ((t, how) for t in targets)
                if not targets and unit.source != "plt":
                    yield None, how
            elif i.kind == "jump indirect":
                yield None, "tail call"
        if unit.lsda:
            for pad in module.elf.landing_pads(unit.lsda, unit.start):
                if not unit.start <= pad < unit.end:
                    yield Place(module, pad), "landing pad"
        end = module.falls_through(unit)
        following = module.unit(end) if end else None
        if following and following.start == end:
            yield Place(module, end), "falls through"

    def slot(self, module, address, scope):
        """The functions that the linker may write to a slot: none if it is not one of the linker's."""
        r = module.elf.relocations.get(address)
        if not r:
            return
        if r.type == elf.R_IRELATIVE:
            yield from self.resolved(module, r.addend)
        elif r.type in (elf.R_GLOB_DAT, elf.R_JUMP_SLOT) and r.name:
            for other in scope:
                for s in other.elf.exports.get(r.name, ()):
                    if s.type == elf.STT_IFUNC:
                        yield from self.resolved(other, s.address)
                    else:
                        yield Place(other, s.address)
                if r.type == elf.R_GLOB_DAT:
                    yield from (Place(other, s.address) for s in other.elf.stubs.get(r.name, ()))

    def resolved(self, module, resolver):
        """What an IFUNC's resolver can return: the functions that its code names."""
        queue, seen = [resolver], set()
        while queue and len(seen) < 16:
            unit = module.unit(queue.pop())
            if not unit or unit.start in seen:
                continue
            seen.add(unit.start)
            for i in module.flow(unit)[0]:
                if i.kind == "address" and module.elf.is_code(i.target):
                    yield Place(module, i.target)
                elif i.kind in ("jump", "branch") and not unit.start <= i.target < unit.end:
                    queue.append(i.target)

    def _binds(self, module, unit, callee):
        """Whether the callee is the loader's resolver, which PLT entries of files that are bound lazily lead to."""
        return callee.module.elf.needed[1] == LOADER and any(i.kind == "jump indirect" for i in callee.module.flow(callee.module.unit(callee.address))[0])

    def call(self, module, call, callee, scope):
        """How a call leads to the callee, or None."""
        if call.kind == "call":
            return self.find(Place(module, call.target), callee, scope)
        if call.kind == "call slot":
            targets = list(self.slot(module, call.target, scope))
            if targets:
                return next((f"slot, {how}" for how in (self.find(t, callee, scope) for t in targets) if how), None)
        unit = callee.module.unit(callee.address)
        return "indirect call" if not unit or callee.module.is_taken(unit) else None


def merge(via, how):
    """One word for a path of several edges."""
    order = ("", "falls through", "cold part or tail call", "landing pad", "plt", "tail call")
    return max(via, how, key=order.index)
