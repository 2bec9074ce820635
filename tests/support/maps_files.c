// SPDX-License-Identifier: Apache-2.0
/*
 * Maps each file of a folder executable, and keeps them mapped: maps_files FOLDER [SECONDS]. Then runs the
 * code of the last one, in turns with its own: the instruction at offset 0x1000 returns. Prints "ready" when
 * all are mapped.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spin.h"

#define CODE_AT 0x1000

int main(int argc, char **argv)
{
	DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
	const struct dirent *e;
	void (*run)(void) = NULL;
	unsigned long n = 0;

	if (!folder)
		return 2;
	stop_after(argc > 2 ? argv[2] : "3600");
	while ((e = readdir(folder))) {
		int fd = e->d_name[0] == '.' ? -1 : openat(dirfd(folder), e->d_name, O_RDONLY);
		char *bytes = MAP_FAILED;

		if (fd < 0)
			continue;
		bytes = mmap(NULL, 2 * CODE_AT, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		close(fd);
		run = (void (*)(void))(bytes + CODE_AT);
		n++;
	}
	printf("ready %lu\n", n);
	fflush(stdout);
	while (run && !stop)
		run();
	return 0;
}
