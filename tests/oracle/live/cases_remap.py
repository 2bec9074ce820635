# SPDX-License-Identifier: Apache-2.0
"""Programs that move their own text to anonymous memory at the same place, as those do that want it on huge pages."""
from .cases_layout import walk

# What such libraries do. `from` and `n` are pages of text; nothing of it runs meanwhile.
LIBRARY = """
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void by_mremap(char *from, unsigned long n);
void by_mprotect(char *from, unsigned long n);
void by_mmap(char *from, unsigned long n);
static char *copy_of(char *from, unsigned long n, int prot)
{
	char *copy = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, from, n);
	mprotect(copy, n, prot);
	return copy;
}
void by_mremap(char *from, unsigned long n)
{
	mremap(copy_of(from, n, PROT_READ | PROT_EXEC), n, n, MREMAP_MAYMOVE | MREMAP_FIXED, from);
}
/* The change of rights is what the kernel reports: memory without a file, over that of the file. */
void by_mprotect(char *from, unsigned long n)
{
	mremap(copy_of(from, n, PROT_READ | PROT_WRITE), n, n, MREMAP_MAYMOVE | MREMAP_FIXED, from);
	mprotect(from, n, PROT_READ | PROT_EXEC);
}
/* Reported while it is still empty. */
void by_mmap(char *from, unsigned long n)
{
	char *copy = copy_of(from, n, PROT_READ);
	mmap(from, n, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	usleep(200000);
	memcpy(from, copy, n);
	mprotect(from, n, PROT_READ | PROT_EXEC);
}
"""
BEGIN = """{ extern char etext[], MARK[]; size_t from = ((size_t)MARK & ~4095ul) + EDGE * 4096, to = (((size_t)etext + 4095) & ~4095ul) - EDGE * 4096;
	void HOW(char *from, unsigned long n); HOW((char *)from, to - from); }"""
NO_PIE = ["-no-pie", "-fno-pie"]


def moved(work, how, edge=0, flags=(), pad=0, **options):
    """`edge`: pages at both ends that stay where they are; `pad`: bytes of text that are there on top."""
    library = work.cc("libmove.so", [LIBRARY], ["-O2", "-shared", "-fPIC"])
    begin = BEGIN.replace("MARK", "_init").replace("EDGE", str(edge)).replace("HOW", how)
    parts = [f".text\n.fill {pad},1,0x90\n"] if pad else []
    program = walk(work, [*flags, "-Wno-nested-externs"], [library, f"-Wl,-rpath,{work.folder}"], begin=begin, parts=parts, **options)
    program.early = 1.5  # it is looked at again half a second after it was seen empty
    return program


CASES = {
    "remap mremap": lambda w: moved(w, "by_mremap"),
    "remap mprotect": lambda w: moved(w, "by_mprotect", flags=NO_PIE),
    "remap mprotect pie": lambda w: moved(w, "by_mprotect"),
    "remap mprotect middle": lambda w: moved(w, "by_mprotect", edge=1, pad=1 << 20),
    "remap mmap": lambda w: moved(w, "by_mmap"),
    "remap mmap middle": lambda w: moved(w, "by_mmap", edge=1, pad=1 << 20),
    "remap mremap attach": lambda w: moved(w, "by_mremap", attach=True),
    "remap mprotect attach": lambda w: moved(w, "by_mprotect", flags=NO_PIE, attach=True),
    "remap mmap attach": lambda w: moved(w, "by_mmap", attach=True),
    "remap mmap attach middle": lambda w: moved(w, "by_mmap", edge=1, pad=1 << 20, attach=True),
    "remap attach noseparate": lambda w: moved(w, "by_mprotect", flags=["-Wl,-z,noseparate-code"], attach=True),
    "remap attach lld": lambda w: moved(w, "by_mprotect", compiler="clang-19", flags=["-fuse-ld=lld"], attach=True),
}
QUICK = ("remap mmap", "remap mprotect attach")
