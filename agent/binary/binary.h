// SPDX-License-Identifier: Apache-2.0
/*
 * One binary: a file that is mapped executable somewhere. Holds what identifies it, what is known of its
 * ELF image, and open descriptors, because the process that had it mapped may be gone when its table or its
 * names are wanted. It owns its strings, segments and descriptors.
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

struct proc_root;

struct binary {
	uint32_t index; /* in the registry, and in frames; 0: not registered */
	dev_t dev;
	uint64_t inode;
	uint64_t size; /* bytes */
	struct timespec mtime, ctime;
	bool has_generation;
	uint32_t generation;  /* of the inode: tells it from another that had the same number before */
	int fd;		      /* names the file and may have O_PATH: only jobs read, by opening it anew; -1 */
	uint64_t opened_ns;   /* since then fd has kept the inode from being reused; CLOCK_MONOTONIC */
	int debug_fd;	      /* separate debug file that the table needs; -1: none */
	int names_fd;	      /* separate debug file with names that the binary lacks; may have O_PATH; -1 */
	uint64_t names_delta; /* added to an address of the binary to find it there */
	struct proc_root
		*root; /* where to look for the debug file, until that was done; one reference; NULL */
	bool searched; /* for a debug file */
	struct elf_segment *segments;
	size_t n_segments;
	struct frame_module module; /* strings owned */
	/* the registry's */
	struct map_node by_file, by_inode;
	bool latest; /* in by_inode: the last that was found under that inode number */
	uint32_t refs;
	uint64_t unused_ns;	      /* since when refs is 0 */
	struct binary *newer, *older; /* neighbours among the unreferenced */
};

/*
 * Reads segments and ids of a file; blocks as long as its file system does, so call it on a worker thread.
 * Takes the fd (it may have O_PATH) on success. 0 or -ENOMEM; a file that is not ELF has no segments.
 */
int binary_new(struct binary **ret, int fd, const struct stat *st, const char *path);
void binary_free(struct binary *b);

#endif
