// SPDX-License-Identifier: Apache-2.0
/*
 * Which method of .NET is at an address of a process? usage: dotnet_find PID FILE BIAS < ADDRESSES
 *
 * FILE has the runtime, and is mapped at BIAS. For each address, in hexadecimal, prints it and "START END
 * NAME" of its function, or why there is none. Exit 0; 1: FILE has no runtime that is known, or the process
 * cannot be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/dotnet.h"
#include "agent/elf/runtime/dotnet_code.h"

static int facts_of(struct dotnet_facts *ret, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *img;
	int r = fd < 0 ? -errno : elf_image_open(&img, fd);

	if (r < 0)
		return r;
	r = dotnet_facts_read(ret, img);
	elf_image_free(img);
	return r == 0 && !ret->known ? -ENOTSUP : r;
}

static void print_place(struct dotnet_reader *reader, uint64_t address)
{
	struct dotnet_place place;
	char name[VM_TEXT_MAX] = "stub";
	int r;

	reader->memory.reads = 0;
	r = dotnet_place_find(&place, reader, address);
	if (r == 0 && place.kind == DOTNET_METHOD)
		r = dotnet_place_name(&place, reader, name, sizeof name);
	if (r < 0)
		printf("%" PRIx64 " - - %s\n", address, strerror(-r));
	else
		printf("%" PRIx64 " %" PRIx64 " %" PRIx64 " %s\n", address, place.start, place.end, name);
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct dotnet_reader *reader = calloc(1, sizeof *reader);
	struct dotnet_facts facts;
	char path[64], line[64];
	int fd, r;

	if (argc != 4 || !reader)
		return fprintf(stderr, "usage: dotnet_find PID FILE BIAS < ADDRESSES\n"), 2;
	r = facts_of(&facts, argv[2]);
	snprintf(path, sizeof path, "/proc/%s/mem", argv[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	reader->memory.read = vm_memory_pread;
	reader->memory.data = &fd;
	reader->vm.dac_table = facts.dac_table + strtoull(argv[3], NULL, 16);
	if (r == 0)
		r = fd < 0 ? -errno : dotnet_reader_init(reader);
	if (r < 0)
		return fprintf(stderr, "dotnet_find: %s\n", strerror(-r)), 1;
	while (fgets(line, sizeof line, stdin))
		print_place(reader, strtoull(line, NULL, 16));
	dotnet_reader_fini(reader);
	close(fd);
	return 0;
}
