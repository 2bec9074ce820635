// SPDX-License-Identifier: Apache-2.0
/*
 * One binary: a file that some process has mapped executable. It has what identifies the file, what we
 * know of its ELF image, and open descriptors, because the process may be gone by the time its table or
 * its names are wanted. It owns its strings, segments and descriptors.
 */
#ifndef PROFLET_BINARY_BINARY_H
#define PROFLET_BINARY_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/version.h"

struct file_share;
struct proc_root;

struct binary {
	uint32_t index; /* in the registry, and in frames; 0: not registered */
	dev_t dev;
	uint64_t inode;
	struct elf_version version; /* of its content */
	bool changed;		    /* the file has other content by now */
	unsigned quarantined;	    /* enum binary_use, or-ed: it must not be read for these */
	uint64_t unchanged_ns;	    /* the last time it is known to have had its own; CLOCK_MONOTONIC */
	/* After `doubt_from_ns` and until `doubt_to_ns` it may have had other content. */
	uint64_t doubt_from_ns, doubt_to_ns;
	bool has_generation;
	uint32_t generation; /* of the inode: distinguishes it from an earlier one with the same number */
	int fd;		     /* -1: closed. May have O_PATH: worker threads open the file anew to read it */
	uint64_t opened_ns;  /* since when fd keeps the inode from being reused; CLOCK_MONOTONIC */
	int debug_fd;	     /* separate debug file that the table needs; -1: none */
	int names_fd;	     /* separate debug file with names that the binary lacks; may have O_PATH; -1 */
	struct elf_version names_version;
	uint64_t names_delta;	/* add it to an address of that file to get the binary's */
	struct proc_root *root; /* where to look for the debug file; a reference until that is done; NULL */
	bool searched;		/* we have looked for a debug file */
	bool of_system;		/* the file is one of the system's own (proc/system_file.h) */
	bool generated;		/* no file: it stands for the code that a process has generated */
	struct elf_segment *segments;
	size_t n_segments;
	struct frame_module module; /* strings owned */
	/* used by the registry only */
	struct map_node by_file, by_inode;
	bool findable; /* it is in the map by_file */
	bool latest;   /* it is in the map by_inode: no newer binary has the same inode number */
	uint32_t refs;
	uint64_t tenant;	      /* struct proc_context; 0: nobody's */
	struct file_share *share;     /* of the tenant that brought it; NULL: nobody's */
	uint64_t unused_ns;	      /* since when refs is 0 */
	struct binary *newer, *older; /* neighbours in the list of unreferenced binaries */
};

/*
 * Most bytes of a file that are read to identify it, and most reads: the headers and notes two or three
 * times, and twice all of a file of at most ELF_VERSION_WHOLE_MAX bytes. This happens in the process that has
 * capabilities, so nothing else of the file is interpreted, and no library does it.
 */
#define BINARY_READ_MAX (17u << 20)
#define BINARY_READS_MAX 1000u

/*
 * Reads segments and ids of a file; blocks as long as its file system does, so call it on a worker thread.
 * Takes the fd (it may have O_PATH) on success. 0, -ENOMEM, or -ESTALE: the file changed while it was
 * read. A file that is not ELF has no segments.
 */
int binary_new(struct binary **ret, int fd, const struct stat *st, const char *path);
/*
 * One that stands for the code that a process has generated: no file, and its addresses are the process's.
 * 0 or -ENOMEM.
 */
int binary_new_generated(struct binary **ret, uint32_t pid);
void binary_free(struct binary *b);
/* The version to check when the binary's file is read again. NULL: it is not an ELF file. Borrowed. */
static inline const struct elf_version *binary_version(const struct binary *b)
{
	return b->n_segments ? &b->version : NULL;
}

#endif
