// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the separate debug file of a binary in the file system of a process that has the binary mapped. A
 * tenant controls both, so we open regular files below the process's root only, and use one only if it
 * proves to belong to the binary (agent/elf/file/debuglink.h). All functions may block as long as that
 * file system does: call them on worker threads.
 */
#ifndef PROFLET_UNWIND_DEBUGFILE_H
#define PROFLET_UNWIND_DEBUGFILE_H

#include <stdint.h>

#include "agent/elf/file/version.h"

struct elf_image;
struct elf_rows;
struct proc_root;

struct debug_file {
	struct elf_image *img;	    /* owned; NULL: there is none */
	int fd;			    /* owned; it may have O_PATH; -1 */
	uint64_t delta;		    /* add it to an address of the debug file to get the binary's */
	struct elf_version version; /* of the content that was found to be the binary's */
};

/* Where to look for the debug file. */
struct debug_place {
	const struct proc_root *root; /* NULL: nowhere */
	const char *path;	      /* of the binary, as in /proc/<pid>/maps */
};

#define DEBUG_FILE_NONE (struct debug_file){.fd = -1}

/*
 * Finds a debug file of `img` that has a section called `section`. 0; -ENOENT: there is none; -ESTALE: the
 * file with its name belongs to another binary; -EACCES, -ENOMEM, -EMFILE, another -errno.
 */
int debug_file_find(struct debug_file *ret, struct elf_image *img, const struct debug_place *place,
		    const char *section);
/*
 * Opens a debug file that was found before. Duplicates fd. 0; -ESTALE: it is not of `img`; else as
 * elf_image_open.
 */
int debug_file_reopen(struct debug_file *ret, struct elf_image *img, int fd);
void debug_file_fini(struct debug_file *f);

/*
 * Builds the rows of a binary. Where its own call-frame information does not cover all of its text, the rows
 * are completed from its debug file: the one in `debug`, or, if that is DEBUG_FILE_NONE, one that is searched
 * for and stored there. *debug stays as it was when no debug file was needed or found. Errors as
 * elf_rows_build.
 */
int debug_file_rows(struct elf_rows **ret, struct elf_image *img, const struct debug_place *place,
		    struct debug_file *debug);

#endif
