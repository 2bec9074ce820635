# SPDX-License-Identifier: Apache-2.0
"""Judges each caller frame of a recording: does a call that can lead to the frame above end at its return address?

A location's address is the return address minus 1; that of the innermost frame, and of a frame that a signal interrupted, is
exact. So a caller's return address is its address + 1, and the address itself lies in the call, also where the call is the
last instruction of its function.
"""
import collections

from . import roots
from .reach import Place, Reach

SIGRETURN = (b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\x0f\x00\x00\x00\x0f\x05")  # mov $15,%rax or %eax; syscall
# mov n(%rdx),%rsp; mov n(%rdi),%rsp, with the forms of n; mov %r8,%rsp; mov %rdx,%rsp
LOADS_RSP = (b"\x48\x8b\xa2", b"\x48\x8b\xa7", b"\x48\x8b\x62", b"\x48\x8b\x67", b"\x4c\x89\xc4", b"\x48\x89\xd4")
Verdict = collections.namedtuple("Verdict", "ok word")  # word: class, or the reason why it is not explained
OMIT_CALLER = {"runtime.systemstack", "runtime.asmcgocall"}  # up to Go 1.20, on the stack of the thread: no frame leads to the caller
KERNEL, TRUNCATED = "kernel", "[truncated: "
SAVES = {"setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp", "swapcontext", "getcontext"}


def good(word):
    return Verdict(True, word)


def bad(word):
    return Verdict(False, word)


class Judge:
    """`memory`: what was read of live processes, for code that is in no file; may be None."""

    def __init__(self, modules, memory=None):
        self.modules, self.memory, self.reach = modules, memory, Reach(modules)
        self.scopes = collections.defaultdict(dict)  # program → its modules
        self.places = {}

    def learn(self, sample):
        """Notes which files a program maps. Of all samples, before any is judged."""
        scope = self.scopes[sample.process]
        for f in sample.frames:
            if f.kind != KERNEL and f.module:
                module = self.place(f)
                if module:
                    scope[module.module] = None

    def place(self, frame):
        """In a file that can be read, else None."""
        key = id(frame)
        if key not in self.places:
            module = self.modules.of(frame)
            self.places[key] = Place(module, frame.address) if module else None
        return self.places[key]

    def scope(self, sample, first):
        return [first] + [m for m in self.scopes[sample.process] if m is not first]

    # --- pairs
    def pair(self, sample, callee, caller):
        """The Verdict on `caller` below the frame `callee`."""
        above, here = self.place(callee), self.place(caller)
        if self.is_trampoline(callee, above, sample):
            return self.interrupted(sample, caller, here)
        if here is None:
            return self.no_file(sample, callee, caller, above)
        if self.starts_trampoline(here):
            return good("signal trampoline") if self.may_handle(above) else bad("signal trampoline, but nothing has the address of the function above")
        call = here.module.call_at(caller.address + 1)
        if call and above:
            how = self.reach.call(here.module, call, above, self.scope(sample, above.module))
            if how:
                return good(how)
        elif call and callee.module:
            return self.missing(callee)
        elif call and call.kind != "call":
            return good(f"{call.kind} to code in no file")
        elif call:
            return self.into_anonymous(here, call, sample)
        special = self.special(sample, above, here, call)
        if special:
            return good(special)
        if call and call.kind == "call indirect":
            return bad("indirect call, but nothing has the address of the function of the frame above")
        if call:
            return bad(f"{call.kind} to {self.describe(here, call)}, which does not lead to the frame above")
        return bad("no call ends at the return address")

    def describe(self, here, call):
        if call.kind != "call":
            return f"{call.target:#x}"
        names = here.module.names(call.target)
        return f"{call.target:#x}" + (f" {min(names)}" if names else "")

    # --- signals
    def bytes_at(self, frame, place, sample, address, n):
        if place:
            return place.module.elf.read(address, n)
        return self.memory.read(sample.pid, address, n) if self.memory and not frame.module else b""

    def is_trampoline(self, frame, place, sample):
        """Whether the frame is in the code that ends a signal handler, or at the byte before it, or in its system call."""
        code = self.bytes_at(frame, place, sample, frame.address - 16, 26)
        return any(0 <= code.find(s) <= 17 and 16 <= code.find(s) + len(s) for s in SIGRETURN)

    @staticmethod
    def may_handle(above):
        """Whether the kernel can have called the function: its address is known somewhere."""
        unit = above and above.module.unit(above.address)
        return not unit or above.module.is_taken(unit)

    def starts_trampoline(self, place):
        return place.module.elf.read(place.address + 1, 9).startswith(SIGRETURN)

    def interrupted(self, sample, caller, here):
        if here is None:
            return good("interrupted by a signal, code in no file") if not caller.module else self.missing(caller)
        return good("interrupted by a signal") if here.module.is_boundary(caller.address) else bad("interrupted inside an instruction")

    # --- code in no file
    def missing(self, frame):
        if frame.module.startswith("["):
            return bad(f"{frame.module} cannot be read")
        return Verdict(None, f"file {self.modules.left_out.get(frame.module, 'is gone')}")

    def no_file(self, sample, callee, caller, above):
        if caller.module:
            return self.missing(caller)
        if not self.memory:
            return Verdict(None, "code made at run time, of which there is no copy")
        end = caller.address + 1
        variants = self.memory.variants(sample.pid, end - 10, 10)
        if not variants:
            return Verdict(None, "code made at run time, not read before it was gone")
        if self.memory.is_named(sample.pid, end):
            return good("code made at run time: return address from a table of the process's data")
        calls = [c for v in variants for c in self.modules.decoder.call_before(v, end)]
        how = next(filter(None, (self.call_in_memory(sample, callee, c) for c in calls)), None)
        if how:
            return good("code made at run time: " + how)
        if self.memory.is_pushed(sample.pid, end):
            return good("code made at run time: pushed return address")
        if self.memory.changes(sample.pid, end):
            return Verdict(None, "code made at run time, rewritten while it was recorded")
        if not calls:
            return bad("code made at run time: no call ends at the return address")
        return bad(f"code made at run time: call to {calls[0].target:#x}, which does not lead to the frame above")

    def call_in_memory(self, sample, callee, call):
        """How a call in code made at run time leads to the callee, or None."""
        if call.kind != "call":
            return "indirect call"
        if self.memory.in_file(sample.pid, {call.target}):
            return "direct call into a file" if callee.module else "direct call into a file, and from there to code in no file"
        queue, seen = [call.target], set()
        while queue and len(seen) < 200:
            at = queue.pop()
            if at in seen:
                continue
            seen.add(at)
            for code in self.memory.variants(sample.pid, at, 512) or self.memory.variants(sample.pid, at, 64):
                items, end = self.modules.decoder.scan(code, at)
                for i in items:
                    if i.kind in ("jump indirect", "jump slot", "jump switch"):
                        return "direct call to code that jumps"
                    if i.kind in ("jump", "branch"):
                        if self.memory.in_file(sample.pid, {i.target}):
                            return "direct call to code that jumps into a file"
                        queue.append(i.target)
                    if i.kind in ("jump", "return", "stop", "invalid"):
                        end = i.end
                        break
                if not callee.module and at <= callee.address < end:
                    return "direct call"
                if not items or items[-1].kind not in ("jump", "return", "stop", "invalid"):
                    queue.append(end)
        return None

    def into_anonymous(self, here, call, sample):
        for there, _ in self._leads(here.module, call.target, sample):
            if there is None:
                return good("indirect jump on the way to code in no file")
        return bad("direct call, and the frame above is code in no file")

    def _leads(self, module, target, sample):
        queue, seen = [Place(module, target)], set()
        scope = self.scope(sample, module)
        while queue and len(seen) < 300:
            place = queue.pop()
            unit = place.module.unit(place.address)
            if not unit or (place.module, unit.start) in seen:
                continue
            seen.add((place.module, unit.start))
            for there, how in self.reach.edges(place.module, unit, scope):
                yield there, how
                if there:
                    queue.append(there)

    # --- what is no call
    def special(self, sample, above, here, call):
        if not above:
            return None
        go = above.module.elf.go and above.module.names(above.address)
        if go and go & {"runtime.asyncPreempt", "runtime.sigpanic", "runtime.sigpanic0", "runtime.debugCallV2"}:
            return "Go: call put in by a signal" if here.module.is_boundary(here.address) else None  # exact
        if go and go & OMIT_CALLER and sample.frames[-1].name == TRUNCATED + "caller omitted]":
            return "Go: caller omitted, and the stack says so"
        word = roots.start_of(here)
        if word and not call:
            return word
        if self.installs_context(above):
            return "libgcc overwrites the return address to jump to a handler"
        if call and call.kind == "call" and self.saved_context(sample, here, call) and self.leaves(above):
            return "return address of a saved context"
        return None

    @staticmethod
    def installs_context(above):
        """Whether the frame is in libgcc between the call of the function that overwrites the registers which this frame has saved,
        the return address among them, and the jump to the handler: __builtin_eh_return, which ends with `mov %rcx,%rsp`."""
        unit = above.module.unit(above.address)
        if not unit:
            return False
        jump = above.module.elf.read(unit.start, unit.end - unit.start).find(b"\x48\x89\xcc")
        calls = [i.address for i in above.module.flow(unit)[0] if i.kind == "call" and i.address < unit.start + jump][-2:]
        return jump >= 0 and bool(calls) and above.address >= calls[0]

    def saved_context(self, sample, here, call):
        """Whether the call is one of setjmp's family, by the symbol that the PLT entry is for."""
        unit = here.module.unit(call.target)
        if not unit:
            return False
        names = set(here.module.names(call.target))
        for i in here.module.flow(unit)[0]:
            if i.kind == "jump slot" and i.target in here.module.elf.relocations:
                names.add(here.module.elf.relocations[i.target].name)
        return bool(names & SAVES)

    @staticmethod
    def leaves(above):
        """Whether the function loads the stack pointer, and goes on elsewhere: longjmp, setcontext, swapcontext."""
        unit = above.module.unit(above.address)
        code = above.module.elf.read(unit.start, unit.end - unit.start) if unit else b""
        return any(load in code for load in LOADS_RSP)

    # --- code that nothing describes
    def generated(self, callee, caller):
        """Whether one of the frames is in code that a program has generated: nothing describes it, its callers are found by the
        frame pointer, and a leaf that has not set it yet hides its caller."""
        return any(not f.module or self.is_blob(self.place(f)) for f in (callee, caller))

    @staticmethod
    def is_blob(place):
        if not place or not place.module.elf.blob:
            return False
        return place.module.unit(place.address).source != "fde" and any(n.startswith("Builtins_") for n in place.module.names(place.address))

    # --- roots
    def root(self, frame):
        """The Verdict on the outermost user frame of a complete stack."""
        place = self.place(frame)
        if not place:
            return Verdict(None, "in " + (frame.module or "code made at run time"))
        word = roots.root_of(place)
        return good(word) if word else bad("no root: neither an entry point nor the start of a thread or context")
