// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the separate debug file of a binary. A tenant controls both, so one is used only if it proves to
 * belong to the binary (agent/elf/file/debuglink.h). This module opens nothing: it may run in a process that
 * cannot (agent/parser). All functions may block as long as the file systems do.
 */
#ifndef PROFLET_UNWIND_DEBUGFILE_H
#define PROFLET_UNWIND_DEBUGFILE_H

#include <stdint.h>

#include "agent/elf/file/version.h"

struct elf_image;
struct elf_rows;

struct debug_file {
	struct elf_image *img;	    /* owned; NULL: there is none */
	unsigned number;	    /* which of the paths that were to be opened: 0, 1, … */
	uint64_t delta;		    /* add it to an address of the debug file to get the binary's */
	struct elf_version version; /* of the content that was found to be the binary's */
};

/* Where to look for the debug file. */
struct debug_place {
	/*
	 * Opens a regular file below the root of the process that has the binary mapped. Returns a descriptor
	 * for reading, owned by the caller, or -errno. NULL: there is no place to look.
	 */
	int (*open)(const char *path, void *data);
	void *data;
	const char *path;  /* of the binary, below that root */
	unsigned n_opened; /* calls of `open` */
};

#define DEBUG_FILE_NONE     \
	(struct debug_file) \
	{                   \
		.img = NULL \
	}
#define DEBUG_FILE_GIVEN (~0u) /* the number of one that was found before */

/*
 * Finds a debug file of `img` that has a section called `section`. 0; -ENOENT: there is none; -ESTALE: the
 * file with its name belongs to another binary; -EACCES, -ENOMEM, -EMFILE, another -errno.
 */
int debug_file_find(struct debug_file *ret, struct elf_image *img, struct debug_place *place,
		    const char *section);
/*
 * Opens a debug file that was found before. `fd` is open for reading; borrowed. 0; -ESTALE: it is not of
 * `img`; else as elf_image_open.
 */
int debug_file_reopen(struct debug_file *ret, struct elf_image *img, int fd);
void debug_file_fini(struct debug_file *f);

/*
 * Builds the rows of a binary. Where its own call-frame information does not cover all of its text, the rows
 * are completed from its debug file: the one in `debug`, or, if that is DEBUG_FILE_NONE, one that is searched
 * for and stored there. *debug stays as it was when no debug file was needed or found. Errors as
 * elf_rows_build.
 */
int debug_file_rows(struct elf_rows **ret, struct elf_image *img, struct debug_place *place,
		    struct debug_file *debug);

#endif
