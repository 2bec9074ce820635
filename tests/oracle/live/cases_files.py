# SPDX-License-Identifier: Apache-2.0
"""Programs whose unwind tables are in a separate debug file, and programs that a tool has rewritten."""
import os
import shutil

from .cases_layout import CHROOT, in_namespace, walk, with_copy
from .chain import GLOBALS, HEADER
from .work import START, Program, Skip, main_of, stack

# -O2 without frame pointers and without .eh_frame: whole stacks only by .debug_frame
BARE = ["-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]


def separate(work, path, place, build_id_tree=False):
    """Strips the program; its debug file goes to `place`, a folder."""
    debug = os.path.join(place, os.path.basename(path) + ".debug")
    os.makedirs(place, exist_ok=True)
    work.run(["objcopy", "--only-keep-debug", path, debug])
    work.run(["strip", path])
    work.run(["objcopy", f"--add-gnu-debuglink={debug}", path])
    if build_id_tree:
        build_id = work.run(["readelf", "-n", path]).split("Build ID: ")[1].split()[0]
        os.makedirs(os.path.join(place, build_id[:2]))
        os.rename(debug, os.path.join(place, build_id[:2], build_id[2:] + ".debug"))


def debug_file(work, folder="", **options):
    program = walk(work, BARE, **options)
    program.early = 1.0
    return with_copy(program, lambda path: separate(work, path, os.path.join(work.folder, folder)))


def foreign_root(work):
    """The debug file is in the root of the process alone, by build id, as a container's debug packages are."""
    program = walk(work, [*BARE, "-static"])
    path = program.argv[0]
    shutil.copy(path, path + ".symbols")
    separate(work, path, work.path("debug"), build_id_tree=True)
    program.elves = [(path, path + ".symbols")]
    program.names, program.early = False, 1.0
    tree = 'mkdir -p "$1/root/usr/lib/debug"; cp -r "$1/debug" "$1/root/usr/lib/debug/.build-id"; exec'
    return in_namespace(work, program, path, CHROOT.replace("exec", tree))


def bolted(work, *options, flags=()):
    """BOLT 19 describes some of the jumps that it adds as if they were the function's first instruction, and blocks as if they were
    their neighbours (readelf reads the same rows, see run_sources): agent/elf/code/bolt.c."""
    bolt = shutil.which("llvm-bolt-19") or "/usr/lib/llvm-19/bin/llvm-bolt"
    if not os.access(bolt, os.X_OK):
        raise Skip("bolt-19 is not installed")
    program = walk(work, list(flags), ["-Wl,--emit-relocs"])
    path = program.argv[0]
    work.run([bolt, path, "-o", path + ".bolt", "-reorder-blocks=reverse", "-split-functions", "-split-all-cold", *options])
    os.rename(path + ".bolt", path)
    return program


def patched(work, *options):
    work.need("patchelf")
    program = walk(work)
    work.run(["patchelf", *options, program.argv[0]])
    return program


def vdso(work):
    """The leaf asks for the time: the kernel's own library on top of the C library, or a system call where it has no clock."""
    f = work.chain(functions=15, depth=25, leaf="do { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); x += (unsigned long)t.tv_nsec; } while (spinning);")
    path = work.cc("layout", ["#include <time.h>\n" + HEADER + GLOBALS + f.source() + main_of(f)], ["-O2", "-fomit-frame-pointer", "-D_GNU_SOURCE"])
    on_top = r"(?:<layout>|<plt>|<libc\.so\.6>(?:;<\[vdso\]>)*)"  # <layout>: the slot of the linkage table
    expect = stack(START, f.frames, on_top) + "|" + stack(START, f.frames)
    return Program([path, "spin"], [expect], f.functions, [path])


CASES = {
    "vdso": vdso,
    "debug file beside": debug_file,
    "debug file .debug": lambda w: debug_file(w, ".debug"),
    "debug file no build id": lambda w: debug_file(w, link=["-Wl,--build-id=none"]),
    "debug file attach": lambda w: debug_file(w, attach=True),
    "debug file of a chroot": foreign_root,
    "files BOLT": bolted,
    "files BOLT no-pie": lambda w: bolted(w, flags=["-no-pie", "-fno-pie"]),
    "files BOLT in place": lambda w: bolted(w, "-use-old-text"),
    "files patchelf": lambda w: patched(w, "--set-rpath", "/" + "x" * 5000),
}
QUICK = ("debug file beside", "debug file of a chroot")
