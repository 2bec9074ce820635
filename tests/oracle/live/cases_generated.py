# SPDX-License-Identifier: Apache-2.0
"""The same chains as code that a process makes at run time: in memory without a file, without call-frame information; listed in a
perf map, in a jitdump file, with and without records of unwind data, or not at all."""
from .chain import GLOBALS, HEADER
from .work import START, Program, stacks

PLACE = 0x10000000
NO_FP = "-fomit-frame-pointer"
FLAGS = ["-static", "-nostdlib", "-no-pie", "-fno-pie", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions",
         "-fcf-protection=none", "-Wl,--build-id=none", "-Wl,-z,norelro", "-Wl,-z,noseparate-code", "-mno-red-zone"]
# usage: loader HOW BLOB: copies the blob, an ELF program that needs nothing, to its place in memory without a file, and calls its
# entry. HOW: none; map, dump and unwind list its functions, of which BLOB.nm has the symbols; unwind has a record of unwind data
# before that of each function, as CPython and V8 write them (tools/perf/Documentation/jitdump-specification.txt of Linux).
LOADER = r"""
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { BYTES = 1 << 20 };
static char *const place = (char *)@PLACE@;
static FILE *list;
static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void put(const void *bytes, size_t n) { if (fwrite(bytes, 1, n, list) != n) exit(3); }
static void list_begin(const char *how)
{
	struct { uint32_t magic, version, bytes, machine, pad, pid; uint64_t time, flags; }
		header = {0x4a695444, 1, sizeof header, EM_X86_64, 0, (uint32_t)getpid(), now_ns(), 0};
	char path[64];
	snprintf(path, sizeof path, *how == 'm' ? "/tmp/perf-%d.map" : "/tmp/jit-%d.dump", getpid());
	list = fopen(path, "w+");
	if (!list) exit(3);
	if (*how == 'm') return;
	put(&header, sizeof header);
	fflush(list);
	if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(list), 0) == MAP_FAILED) exit(3);
}
static void list_unwind_data(void)
{
	static const char data[48]; // an .eh_frame section and its header, of which nothing is said here
	struct { uint32_t id, bytes; uint64_t time, data_bytes, header_bytes, mapped_bytes; }
		unwinding = {4, sizeof unwinding + sizeof data, now_ns(), sizeof data, 20, sizeof data};
	put(&unwinding, sizeof unwinding);
	put(data, sizeof data);
}
static void list_blob(const char *blob, const char *how)
{
	char path[4096], name[256], type;
	unsigned long at, size;
	static uint64_t index;
	FILE *nm;
	snprintf(path, sizeof path, "%s.nm", blob);
	nm = fopen(path, "r");
	while (nm && fscanf(nm, "%lx %lx %c %255s", &at, &size, &type, name) == 4) {
		struct { uint32_t id, bytes; uint64_t time; uint32_t pid, tid; uint64_t vma, address, size, index; }
			load = {0, (uint32_t)(sizeof load + strlen(name) + 1 + size), now_ns(), (uint32_t)getpid(),
				(uint32_t)getpid(), at, at, size, ++index};
		if (type != 't' && type != 'T') continue;
		if (*how == 'm') {
			fprintf(list, "%lx %lx %s\n", at, size, name);
		} else {
			if (*how == 'u') list_unwind_data();
			put(&load, sizeof load);
			put(name, strlen(name) + 1);
			put((void *)at, size);
		}
	}
	fclose(nm);
	fflush(list);
}
static unsigned long (*load(const char *blob))(unsigned long)
{
	static char file[BYTES];
	FILE *f = fopen(blob, "r");
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *p;
	if (!f || fread(file, 1, sizeof file, f) < sizeof *e) exit(3);
	fclose(f);
	p = (const void *)(file + e->e_phoff);
	memset(place, 0, BYTES);
	for (int i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			memcpy((void *)p[i].p_vaddr, file + p[i].p_offset, p[i].p_filesz);
	return (unsigned long (*)(unsigned long))e->e_entry;
}
int main(int argc, char **argv)
{
	unsigned long (*enter)(unsigned long);
	alarm(300);
	if (argc != 3 || mmap(place, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place)
		return 3;
	if (strcmp(argv[1], "none")) list_begin(argv[1]);
	enter = load(argv[2]);
	if (list) list_blob(argv[2], argv[1]);
	for (;;)
		enter((unsigned long)argc);
}
"""
BUILDS = {
    "gcc -O2": ("gcc", ["-O2", NO_FP]),
    "gcc -O0": ("gcc", ["-O0", NO_FP]),
    "gcc -Os": ("gcc", ["-Os", NO_FP]),
    "gcc -O2 frame pointer": ("gcc", ["-O2", "-fno-omit-frame-pointer", "-momit-leaf-frame-pointer"]),
    "clang -O2": ("clang-19", ["-O2", NO_FP]),
}


def blob(work, name, build):
    """A program of one chain that is linked to where it will be. Returns its path and the chain."""
    compiler, flags = BUILDS[build]
    c = work.chain(functions=15, depth=30)
    path = work.cc(name, [HEADER + GLOBALS + c.source()], [*flags, *FLAGS, f"-Wl,-Ttext-segment={PLACE:#x}", f"-Wl,-e,{c.entry}"],
                   compiler=compiler)
    work.write(name + ".nm", work.run(["nm", "-S", "--defined-only", path]))
    return path, c


def generated(work, how, build):
    return run(work, how, *blob(work, "blob", build))


def run(work, how, path, c):
    loader = work.cc("loader", [LOADER.replace("@PLACE@", hex(PLACE))], ["-O2", "-Wno-maybe-uninitialized", "-Wno-array-bounds",
                                                                         "-Wno-unused-result", "-Wno-stringop-overflow"])
    return Program([loader, how, path], [stacks(START, c.walks())], c.functions | set(c.side_calls().values()),
                   [loader, ("", path)], names=how != "none")


CASES = {f"generated {how} {build}": lambda w, how=how, build=build: generated(w, how, build)
         for how in ("map", "dump", "unwind", "none") for build in BUILDS}
QUICK = ("generated map gcc -O2", "generated dump clang -O2", "generated none gcc -Os")
