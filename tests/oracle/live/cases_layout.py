# SPDX-License-Identifier: Apache-2.0
"""The same walk in executables and libraries that linkers and packagers lay out differently, or that are not where they were."""
import os
import shutil

from .cases_process import libraries
from .chain import GLOBALS, HEADER
from .work import START, Program, main_of, stack, stacks

O2 = ["-O2", "-fomit-frame-pointer"]


def walk(work, compile_flags=(), link=(), compiler="gcc", mode="walk", begin="", start=START, parts=(), frame_pointer=False, **options):
    """A walk through one program. `parts`: assembler texts that come between the first and the second half of the code."""
    f = work.chain(functions=15, depth=25)
    g = work.chain("g", functions=15, depth=25)
    f.leaf_text = "x += g_enter(x);"
    f_text = HEADER + "C_BEGIN unsigned long g_enter(unsigned long x); C_END\n" + GLOBALS + f.source() + main_of(f, begin)
    objects = []
    for i, text in enumerate(parts):
        source = work.write(f"part{i}.s", text)
        objects.append(work.path(f"part{i}.o"))
        work.run(["gcc", "-c", "-o", objects[-1], source])
    flags = ["-O2", "-fno-omit-frame-pointer" if frame_pointer else "-fomit-frame-pointer", "-D_GNU_SOURCE", *compile_flags]
    for name, text in (("f", f_text), ("g", HEADER + g.source())):
        objects.insert(0 if name == "f" else len(objects), work.cc(f"{name}.o", [text], [*flags, "-c"], compiler=compiler))
    path = work.path("layout")
    work.run([compiler, *compile_flags, "-o", path, *objects, *link])
    lists = f.walks() + [f.frames + x for x in g.walks()]
    expect = [stacks(start, lists)] if mode == "walk" else [stack(start, f.frames, g.frames)]
    functions = f.functions | g.functions | set(f.side_calls().values()) | set(g.side_calls().values())
    return Program([path, mode], expect, functions, [path], **options)


def with_copy(program, change):
    """Applies change(path) to the program after a copy with its symbols was kept."""
    path = program.argv[0]
    shutil.copy(path, path + ".symbols")
    change(path)
    program.elves = [(path, path + ".symbols")]
    program.names = False
    return program


def strip_sections(path):
    """Cuts the section headers off, as sstrip does: e_shoff, e_shnum and e_shstrndx become 0."""
    with open(path, "r+b") as f:
        f.seek(0x28)
        end = int.from_bytes(f.read(8), "little")
        f.seek(0x28)
        f.write(bytes(8))
        f.seek(0x3c)
        f.write(bytes(4))
        f.truncate(end)


def stripped(work, headers, **options):
    program = walk(work, **options)
    return with_copy(program, strip_sections if headers else lambda path: work.run(["strip", "-s", path]))


def lld(work, *flags, **options):
    work.need("ld.lld-19", "clang-19")
    return walk(work, compiler="clang-19", link=["-fuse-ld=lld", *["-Wl," + f for f in flags]], **options)


def far_code(work, **options):
    f = work.chain(functions=15, depth=25)
    g = work.chain("g", functions=15, depth=25, section=".text_far")
    f.leaf_text = "x += g_enter(x);"
    text = HEADER + "C_BEGIN unsigned long g_enter(unsigned long x); C_END\n" + GLOBALS + f.source() + g.source() + main_of(f)
    text = text.replace("FN unsigned long g_enter", '__attribute__((section(".text_far"))) FN unsigned long g_enter')
    path = work.cc("layout", [text], [*O2, *options.get("flags", ())], ["-Wl,--section-start=.text_far=0x8000000"])
    functions = f.functions | g.functions | set(f.side_calls().values()) | set(g.side_calls().values())
    return Program([path, "walk"], [stacks(START, f.walks() + [f.frames + x for x in g.walks()])], functions, [path])


UNLINK = """{ static char self[4096]; ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1); if (n > 0) { self[n] = 0; %s } }"""


# Each recording begins with the binary, and the one that will replace it, as they were.
RESTORE = 'cp "$0.symbols" "$0"; [ ! -e "$0.new" ] || cp "$0.new" "$0.other"; exec "$0" "$@"'


def deleted(work, what="unlink(self);", **options):
    program = walk(work, begin=UNLINK % what, **options)
    path = program.argv[0]
    shutil.copy(path, path + ".symbols")
    program.elves = [(path, path + ".symbols")]
    program.argv = ["sh", "-ec", RESTORE] + program.argv
    return program


def replaced(work):
    """An upgrade while the program runs: another binary gets its name."""
    program = deleted(work, what='static char other[4200]; strcat(strcpy(other, self), ".other"); rename(other, self);')
    other = work.chain("z", functions=15, depth=25)
    new = work.cc("new", [HEADER + GLOBALS + other.source() + main_of(other)], O2)
    os.rename(new, program.elves[0][0] + ".new")
    return program


def in_namespace(work, program, binary, script):
    """Has a shell script run the program in a mount namespace of its own; $1 is its folder, $2 the binary to copy. It may run
    more than once."""
    work.need("unshare", "mount")
    program.argv = ["unshare", "-m", "sh", "-ec", script, "sh", work.folder, binary]
    program.min_share = 0.3
    return program


OVERLAY = """mkdir -p "$1/lower" "$1/upper" "$1/workdir" "$1/merged"; cp "$2" "$1/lower/layout"
mount -t tmpfs none "$1/upper"; mkdir "$1/upper/u" "$1/upper/w"
mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper/u,workdir=$1/upper/w" none "$1/merged"
exec "$1/merged/layout" walk"""
TMPFS = """mkdir -p "$1/tmp"; mount -t tmpfs none "$1/tmp"; cp "$2" "$1/tmp/layout"; exec "$1/tmp/layout" walk"""
CHROOT = """mkdir -p "$1/root"; mount -t tmpfs none "$1/root"; cp "$2" "$1/root/layout"; exec chroot "$1/root" /layout walk"""


def namespace(work, script, **options):
    program = walk(work, **options)
    path = program.argv[0]
    os.rename(path, path + ".symbols")  # it is nowhere but in that namespace
    program.elves = [(path, path + ".symbols")]
    return in_namespace(work, program, path + ".symbols", script)


MEMFD = """if (!getenv("AGAIN")) { int fd = memfd_create("layout", 0); char b[65536]; ssize_t n; FILE *f = fopen("/proc/self/exe", "rb");
	while ((n = (ssize_t)fread(b, 1, sizeof b, f)) > 0) if (write(fd, b, (size_t)n) != n) abort();
	setenv("AGAIN", "1", 1); extern char **environ; fexecve(fd, argv, environ); abort(); }"""


def memfd(work):
    program = walk(work, begin=MEMFD, compile_flags=["-include", "sys/mman.h"])
    path = program.argv[0]
    program.elves = [path, ("memfd:layout", path)]
    return program


HUGE = """{ extern char __executable_start[], etext[]; char *from = (char *)(((size_t)__executable_start + 4095) & ~4095ul);
	from = (char *)((size_t)&main & ~4095ul); while ((size_t)from > 4096 && from > __executable_start + 8192) from -= 4096;
	size_t n = (((size_t)etext + 4095) & ~4095ul) - (size_t)from;
	char *copy = (char *)mmap(0, n, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, from, n); mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, from); }"""


def remapped(work, frame_pointer, attach=False):
    """Text moved to anonymous memory at its own place. The kernel tells nobody, so that a process known from its start keeps
    its table. Where the agent comes later it finds the file by the mappings beside it."""
    program = walk(work, begin=HUGE, compile_flags=["-include", "sys/mman.h", "-no-pie", "-fno-pie"], mode="spin",
                   frame_pointer=frame_pointer, attach=attach)
    path = program.argv[0]
    program.elves = [path]
    return program


def fill(bytes_):
    return f".text\n.globl filling\n.type filling,@function\nfilling: .skip {bytes_}\n.size filling,.-filling\n"


def many_rows(n):
    """n functions of four bytes with three rows each."""
    return f""".text
.rept {n}
.cfi_startproc
nop
.cfi_def_cfa_offset 16
nop
.cfi_def_cfa_offset 24
nop
.cfi_def_cfa_offset 8
nop
.cfi_endproc
.endr
"""


def wide_row(bytes_):
    """One function, one row, much text; and its call from the end of it."""
    return f""".text
.globl wide
.type wide,@function
wide:
.cfi_startproc
.skip {bytes_}
1:	push %rdi
.cfi_def_cfa_offset 16
	call *%rsi
	pop %rdi
.cfi_def_cfa_offset 8
	ret
.cfi_endproc
.size wide,.-wide
.globl wide_end
.set wide_end,1b
"""


def wide(work, bytes_):
    f = work.chain(functions=10, depth=12)
    g = work.chain("g", functions=10, depth=12)
    f.leaf_text = "x += wide_end(x, g_enter);"
    text = HEADER + "C_BEGIN unsigned long g_enter(unsigned long x);\n" \
        "unsigned long wide_end(unsigned long x, unsigned long (*f)(unsigned long x)); C_END\n" + GLOBALS + f.source() + g.source() + main_of(f)
    work.write("wide.s", wide_row(bytes_))
    path = work.cc("layout", [text], O2, ["wide.s"])
    expect = [stacks(START, f.walks() + [f.frames + ["wide"]] + [f.frames + ["wide"] + x for x in g.walks()])]
    return Program([path, "walk"], expect, f.functions | g.functions | {"wide"} | set(f.side_calls().values()) |
                   set(g.side_calls().values()), [path])


def gold(work):
    work.need("ld.gold")
    return walk(work, link=["-fuse-ld=gold"])


def musl(work, *flags):
    work.need("musl-gcc")
    # musl itself has no call-frame information, so the stack ends where its start code calls main, and must say so
    return walk(work, compile_flags=list(flags), compiler="musl-gcc",
                start=r"(?:_start;_start_c;|\[truncated: no (?:row|table)\];)(?:[^;]+;)?main",
                incomplete="musl has no call-frame information: below main nothing is known")


def debug_frame_only(work):
    """-fno-asynchronous-unwind-tables with -g: the call-frame information is in .debug_frame."""
    flags = ["-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]
    return walk(work, flags)


PIE_BASE = ["-Wl,-Ttext-segment=0x20000000"]
CASES = {
    "layout no-pie": lambda w: walk(w, ["-no-pie", "-fno-pie"]),
    "layout pie": lambda w: walk(w, ["-pie", "-fpie"]),
    "layout static": lambda w: walk(w, ["-static"]),
    "layout static-pie": lambda w: walk(w, ["-static-pie"]),
    "layout static stripped": lambda w: stripped(w, False, compile_flags=["-static"],
                                                 start=r"<[^>]*>;(?:<[^>]*>;){1,3}main|_start;(?:[^;]+;){1,3}main"),
    "layout musl": musl,
    "layout musl static": lambda w: musl(w, "-static"),
    "layout lld": lld,
    "layout lld noseparate": lambda w: lld(w, "-z,noseparate-code"),
    "layout lld separate": lambda w: lld(w, "-z,separate-loadable-segments", "--no-rosegment"),
    "layout lld static": lambda w: lld(w, "--build-id=none", compile_flags=["-static"]),
    "layout lld no-pie base": lambda w: lld(w, "--image-base=0x20000000", compile_flags=["-no-pie", "-fno-pie"]),
    "layout gold": gold,
    "layout separate-code": lambda w: walk(w, link=["-Wl,-z,separate-code"]),
    "layout noseparate-code": lambda w: walk(w, link=["-Wl,-z,noseparate-code"]),
    "layout now": lambda w: walk(w, ["-fcf-protection=full"], link=["-Wl,-z,now"]),
    "layout stripped": lambda w: stripped(w, False),
    "layout no section headers": lambda w: stripped(w, True),
    "layout no section headers lld": lambda w: stripped(w, True, compiler="clang-19", link=["-fuse-ld=lld"]),
    "layout prelinked program": lambda w: walk(w, ["-no-pie", "-fno-pie"], PIE_BASE),
    "layout prelinked pie": lambda w: walk(w, link=PIE_BASE),
    "layout prelinked library": lambda w: libraries(w, 1 << 40, ["-Wl,-Ttext-segment=0x3000000000"]),
    "layout library lld": lambda w: libraries(w, 1 << 40, ["-fuse-ld=lld"], "clang-19"),
    "layout two segments": far_code,
    "layout two segments no-pie": lambda w: far_code(w, flags=["-no-pie", "-fno-pie"]),
    "layout no build id": lambda w: walk(w, link=["-Wl,--build-id=none"]),
    "layout no eh_frame_hdr": lambda w: walk(w, link=["-Wl,--no-eh-frame-hdr"]),
    "layout debug_frame only": debug_frame_only,
    "layout deleted": deleted,
    "layout replaced": replaced,
    "layout overlayfs": lambda w: namespace(w, OVERLAY),
    "layout other mounts": lambda w: namespace(w, TMPFS),
    "layout chroot": lambda w: namespace(w, CHROOT, compile_flags=["-static"]),
    "layout memfd": memfd,
    "layout text 70 MiB": lambda w: walk(w, parts=[fill(70 << 20)]),
    "layout text 1.1 GiB": lambda w: walk(w, parts=[fill(1100 << 20)]),
    "layout 3 M rows": lambda w: walk(w, parts=[many_rows(1000000)], early=2.0),
    "layout wide row 20 MiB": lambda w: wide(w, 20 << 20),
    "layout wide row 70 MiB": lambda w: wide(w, 70 << 20),
    "layout remapped": lambda w: remapped(w, False),
    "layout remapped before": lambda w: remapped(w, False, attach=True),
    "layout remapped before fp": lambda w: remapped(w, True, attach=True),
    "attach": lambda w: walk(w, attach=True),
    "attach deleted": lambda w: deleted(w, attach=True),
    "attach chroot": lambda w: namespace(w, CHROOT, compile_flags=["-static"], attach=True),
}


QUICK = ("layout static-pie", "layout lld", "layout no section headers", "layout two segments", "layout prelinked library",
         "layout replaced", "layout overlayfs", "layout remapped before", "attach deleted")
