// SPDX-License-Identifier: Apache-2.0
/*
 * The separate debug file of a binary, in the file system of a process that has it mapped. Both are foreign:
 * nothing outside of that root is reached, only a regular file is opened, and it must prove to belong to the
 * binary (agent/elf/file/debuglink.h). It may block as long as that file system does: for worker threads.
 * Rank 2.
 */
#ifndef PROFLET_UNWIND_DEBUGFILE_H
#define PROFLET_UNWIND_DEBUGFILE_H

#include <stdint.h>

struct elf_image;
struct elf_rows;
struct proc_root;

struct debug_file {
	struct elf_image *img; /* owned; NULL: there is none */
	int fd;		       /* owned; it may have O_PATH; -1 */
	uint64_t delta;	       /* to be added to its addresses */
};

/* Where it is looked for. Borrowed by whoever is handed one. */
struct debug_place {
	const struct proc_root *root; /* NULL: nowhere */
	const char *path;	      /* of the binary, as maps has it */
};

#define DEBUG_FILE_NONE (struct debug_file){.fd = -1}

/*
 * Finds the debug file of `img` that has the section of that name: without it the rest is not even looked
 * at. 0; -ENOENT: there is none; -ESTALE: what has its name belongs to another binary; -EACCES, -ENOMEM,
 * -EMFILE, another -errno.
 */
int debug_file_find(struct debug_file *ret, struct elf_image *img, const struct debug_place *place,
		    const char *section);
/* One that was found before. Duplicates the fd. 0 or as elf_image_open; -ESTALE: not `img`'s. */
int debug_file_reopen(struct debug_file *ret, struct elf_image *img, int fd);
void debug_file_fini(struct debug_file *f);

/*
 * The table of a binary, completed from its debug file where the binary describes less than its text. What
 * was taken from there is in `debug` (which may hold the file already, or is DEBUG_FILE_NONE); it stays
 * empty when it was not needed or not found. Errors as elf_rows_build.
 */
int debug_file_rows(struct elf_rows **ret, struct elf_image *img, const struct debug_place *place,
		    struct debug_file *debug);

#endif
