// SPDX-License-Identifier: Apache-2.0
/*
 * The binaries that are known, by index. The index is what mappings and frames carry; other rooms keep their
 * own state about a binary (tables in agent/unwind, names in agent/symbol) under it. Main loop only.
 *
 * Same device, inode, mtime and size, or same build id and size: same binary.
 */
#ifndef PROFLET_BINARY_REGISTRY_H
#define PROFLET_BINARY_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/binary/binary.h"

struct binary_registry;

/* What a search for the separate debug file of a binary has found. Descriptors are -1 where there is none. */
struct binary_debug {
	int debug_fd, names_fd;
	uint64_t names_delta;
};

struct binary_stats {
	uint64_t known;	      /* now */
	uint64_t full;	      /* refused at the maximum */
	uint64_t debug_files; /* binaries whose table needs a separate debug file, and has it */
	uint64_t names_files; /* binaries whose separate debug file has names that they lack */
};

int binary_registry_new(struct binary_registry **ret, uint32_t max_binaries);
void binary_registry_free(struct binary_registry *r);
/*
 * The index of the binary behind an open file that can be read without delay; takes the fd. 0, -ENFILE at
 * the maximum (counted), -ENOMEM.
 */
int binary_registry_add(struct binary_registry *r, int fd, const struct stat *st, const char *path,
			uint32_t *ret);
/* The index of the file that stat(2) describes so, 0 when it is not known. */
uint32_t binary_registry_known(const struct binary_registry *r, const struct stat *st);
/* Registers what binary_new has made of a file that is not known; takes it, also on failure. 0 or -ENFILE. */
int binary_registry_enter(struct binary_registry *r, struct binary *b, const struct stat *st, uint32_t *ret);
/* A binary with this GNU build id (hex), or of this device and inode, 0 when there is none. */
uint32_t binary_registry_find(const struct binary_registry *r, const char *build_id);
uint32_t binary_registry_find_inode(const struct binary_registry *r, dev_t dev, uint64_t inode);
/* The binary with this index, NULL when there is none. Borrowed until it is removed. */
struct binary *binary_registry_get(const struct binary_registry *r, uint32_t index);
uint32_t binary_registry_max(const struct binary_registry *r); /* the highest index there can be */
/* Whether the separate debug file of the binary is still to be looked for, and nobody has said where. */
bool binary_registry_wants_root(const struct binary_registry *r, uint32_t index);
/* Look for it below this root, which gets one more reference, when the binary's table is built first. */
void binary_registry_set_root(struct binary_registry *r, uint32_t index, struct proc_root *root);
/* The search is over. Takes the descriptors that the binary does not have yet, and sets them to -1. */
void binary_registry_searched(struct binary_registry *r, uint32_t index, struct binary_debug *found);
/* For the mapping's attribute process.executable.build_id.htlhash; copied, the first one stays. */
void binary_registry_set_htlhash(struct binary_registry *r, uint32_t index, const char *htlhash);
/* Forgets the binary; its index may stand for another from now on. */
void binary_registry_remove(struct binary_registry *r, uint32_t index);
void binary_registry_stats(const struct binary_registry *r, struct binary_stats *ret);

#endif
