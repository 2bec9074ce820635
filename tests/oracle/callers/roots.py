# SPDX-License-Identifier: Apache-2.0
"""Functions that nobody calls: entry points, and where threads, goroutines and contexts begin. Proven by code, in Go by name."""
import bisect
import functools

CLONES = (56, 58, 435)  # clone, vfork, clone3
START_CONTEXT = b"\x48\x89\xdc"  # mov %rbx,%rsp: glibc's __start_context
KERNEL_ENTRIES = ("entry_", "asm_", "error_entry", "ret_from_fork", "common_interrupt", "exc_", "syscall_")
NO_USER_STACK = {"do_exit", "begin_new_exec", "load_elf_binary", "load_script", "bprm_execve"}
# Goroutines return to goexit + 1; mcall and morestack leave the goroutine's stack for the scheduler's, from which nothing
# returns; the others begin on a new stack, where no return address is, or the program's, to which the entry point jumps.
GO_STARTS = {"runtime.goexit", "runtime.goexit.abi0"}
GO_ROOTS = {"runtime.goexit": "Go: goexit", "runtime.rt0_go": "Go: rt0_go", "runtime.mstart": "Go: mstart", "runtime.mcall": "Go: mcall",
            "runtime.morestack": "Go: morestack", "gogo": "Go: gogo", "_rt0_amd64": "Go: rt0_amd64", "_rt0_arm64": "Go: rt0_arm64"}


def code_of(place):
    unit = place.module.unit(place.address)
    return (unit, place.module.elf.read(unit.start, unit.end - unit.start)) if unit else (None, b"")


def clones(unit, place):
    """Whether the function has the system call that starts a thread."""
    # the part that runs in the new thread may have call-frame information of its own
    parts = [unit]
    while parts[-1] and len(parts) < 3 and unit.source == "fde":
        parts.append(place.module.unit(parts[-1].start - 1))
    for part in filter(None, parts):
        for item in place.module.flow(part)[0]:
            if item.kind == "syscall":
                code = place.module.elf.read(item.address - 40, 40)
                if any(b"\xb8" + n.to_bytes(4, "little") in code or n < 128 and b"\xb0" + bytes([n]) in code for n in CLONES):
                    return True
    return False


def start_of(place):
    """What a return address belongs to that no call has pushed; `place`: the byte before it."""
    unit, code = code_of(place)
    if unit and place.address == unit.start and place.module.names(place.address) & GO_STARTS:
        return "Go: return to goexit"
    following = place.module.elf.read(place.address + 1, 3)
    if following == START_CONTEXT or (unit and START_CONTEXT == code[:3] and place.address - unit.start < 2):
        return "makecontext's start"
    return None


def root_of(place):
    unit, code = code_of(place)
    if not unit:
        return None
    if unit.start <= place.module.elf.entry < unit.end:
        return "entry point"
    if clones(unit, place):
        return "thread start"
    for name in place.module.names(place.address):
        if place.module.elf.go and name.removesuffix(".abi0") in GO_ROOTS:
            return GO_ROOTS[name.removesuffix(".abi0")]
    return "makecontext's start" if start_of(place) else None


@functools.lru_cache(maxsize=1)
def kallsyms():
    """Sorted (address, name) of the kernel's text."""
    with open("/proc/kallsyms", encoding="utf-8") as f:
        rows = (line.split()[:3] for line in f)
        return sorted((int(a, 16), name) for a, kind, name in rows if kind in "tTwW")


def kernel_name(address):
    table = kallsyms()
    i = bisect.bisect_right(table, (address, "\x7f")) - 1
    return table[i][1] if i >= 0 else "?"


def kernel(frames):
    """→ (whether a stack of kernel frames alone can be complete, class or reason). Innermost first."""
    names = [kernel_name(f.address) for f in frames]
    if names[-1].startswith("ret_from_fork"):
        return True, "kernel thread or new process"
    if NO_USER_STACK & {n.partition(".")[0] for n in names}:
        return True, "in execve or exit, without user memory"
    if not names[-1].startswith(KERNEL_ENTRIES):
        return None, "kernel frames alone, which the kernel could not unwind to where it was entered"
    return False, f"no user frame, and the kernel's outermost is {names[-1]}"
