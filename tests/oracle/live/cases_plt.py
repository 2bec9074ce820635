# SPDX-License-Identifier: Apache-2.0
"""Procedure linkage tables: too short to be seen often, so their rows are compared with what their instructions do; and a
program whose calls are bound again and again (LD_BIND_NOT), so that every call goes through all of it."""
import re
import subprocess

from .cases_flow import ANY, FLAGS, chains, program, source_of
from .chain import GLOBALS, HEADER
from .work import START, main_of, stack, stacks

SECTION = re.compile(r"^Disassembly of section (\.plt\S*):")
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*?) *$")


def stack_depths(path):
    """(address, CFA - rsp) of every instruction of the PLT sections, by counting pushes."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    section, first, depth, result = None, 0, 8, []
    for line in text.splitlines():
        m = SECTION.match(line)
        if m or line.startswith("Disassembly"):
            section, first = (m.group(1), None) if m else (None, None)
            continue
        m = INSTRUCTION.match(line) if section else None
        if not m:
            continue
        address, instruction = int(m.group(1), 16), m.group(2)
        first = address if first is None else first
        if (address - first) % 16 == 0:
            # the first slot of .plt is jumped to by the others, which have pushed one word
            depth = 16 if section == ".plt" and address == first and "push" in instruction else 8
        result.append((section, address, depth))
        depth += 8 if instruction.startswith("push") else 0
    return result


def rows_of(proflet, path):
    text = subprocess.run([proflet, "tables", path], capture_output=True, text=True, check=True).stdout
    return [(int(a, 16), int(b, 16), cfa) for a, b, cfa, _, _ in (line.split("\t") for line in text.splitlines())]


class TableCheck:
    """Every instruction of the PLT sections has a row, with the right CFA."""

    def __init__(self, path, wanted):
        self.path, self.wanted = path, wanted

    def check(self, name, proflet):
        rows, bad, seen = rows_of(proflet, self.path), [], set()
        depths = stack_depths(self.path)
        for section, address, depth in depths:
            seen.add(section)
            cfa = next((cfa for a, b, cfa in rows if a <= address < b), "none")
            pushed = re.fullmatch(r"plt\(rsp\+8,(\d+)\)", cfa)
            if pushed:
                cfa = "rsp+16" if address % 16 >= int(pushed.group(1)) else "rsp+8"
            if cfa != f"rsp+{depth}":
                bad.append(f"{section} {address:#x}: rsp+{depth}, proflet says {cfa}")
        missing = set(self.wanted) - seen
        notes = bad[:5] + [f"no section {s}" for s in missing]
        line = f"{name}: {len(depths)} instructions of {' '.join(sorted(seen)) or 'no PLT'}, {len(bad)} differ"
        return "FAIL" if notes else "PASS", line, notes


def tables(work, wanted, *link, compiler="gcc", flags=()):
    f, = chains(work, "f", f="x += (unsigned long)getpid() + (unsigned long)time(0) + (unsigned long)clock(); if (x == 3) abort();")
    text = "#include <time.h>\n#include <stdlib.h>\n#include <unistd.h>\n" + HEADER + GLOBALS + f.source() + main_of(f)
    return TableCheck(work.cc("plt", [text], [*FLAGS, *flags], link, compiler), wanted)


def unbound(work, *link, flags=(), compiler="gcc"):
    """Every call of a library function goes through the first slot and the dynamic linker's resolver."""
    f, e = chains(work, "f", "e", f="x += e_enter(x); x += e_enter(x); x += e_enter(x);", depth=6)
    e.path, e.frames = e.path[:1], ["e_enter"]
    library = work.cc("libe.so", [HEADER + "unsigned long e_enter(unsigned long x);\nFN unsigned long e_enter(unsigned long x) { WORK(50) return x; }\n"],
                      ["-O2", "-fomit-frame-pointer", "-fPIC", "-shared"])
    main = HEADER + "C_BEGIN unsigned long e_enter(unsigned long x); C_END\n" + GLOBALS + source_of(f) + main_of(f)
    expect = [stacks(START, f.walks()), stacks(START, [f.frames], ANY + "(?:;e_enter)?"), stack(START, f.frames, ["e_enter"])]
    return program(work, ["walk"], [main], expect, [f], flags=[*FLAGS, *flags], link=[library, "-Wl,-z,lazy", *link],
                   extra={"e_enter"}, elves=[library], env={"LD_BIND_NOT": "1", "LD_LIBRARY_PATH": work.folder}, compiler=compiler)


CET = ["-fcf-protection=full"]
CASES = {
    "plt rows lazy": lambda w: tables(w, [".plt"], "-Wl,-z,lazy"),
    "plt rows lazy cf-protection": lambda w: tables(w, [".plt", ".plt.sec"], "-Wl,-z,lazy,-z,ibtplt", flags=CET),
    "plt rows now": lambda w: tables(w, [".plt.got"], "-Wl,-z,now"),
    "plt rows now cf-protection": lambda w: tables(w, [], "-Wl,-z,now,-z,ibtplt", flags=CET),
    "plt rows no-pie": lambda w: tables(w, [".plt"], "-no-pie", "-Wl,-z,lazy", flags=["-fno-pie"]),
    "plt rows lld": lambda w: tables(w, [".plt"], "-fuse-ld=lld", compiler="clang-19"),
    "plt rows gold": lambda w: tables(w, [".plt"], "-fuse-ld=gold", "-Wl,-z,lazy"),
    "plt unbound": unbound,
    "plt unbound cf-protection": lambda w: unbound(w, "-Wl,-z,ibtplt", flags=CET),
    "plt unbound lld": lambda w: unbound(w, "-fuse-ld=lld", compiler="clang-19"),
}
QUICK = ("plt rows lazy", "plt unbound")
