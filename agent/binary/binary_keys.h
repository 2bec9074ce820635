// SPDX-License-Identifier: Apache-2.0
/*
 * The keys that lead to a binary's index. Several keys may lead to one index: the same library in many
 * container images. Bounded; a key that finds no room costs a second reading of the file some day, no more.
 * Private to agent/binary.
 */
#ifndef PROFLET_BINARY_KEYS_H
#define PROFLET_BINARY_KEYS_H

#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/map.h"

struct binary_keys {
	struct map map;
};

void binary_keys_init(struct binary_keys *k, size_t max);
void binary_keys_fini(struct binary_keys *k);
/* By device, inode, mtime and size: this very content. 0: not known. */
uint32_t binary_keys_find(const struct binary_keys *k, const struct stat *st);
/* By GNU build id in hex. */
uint32_t binary_keys_find_id(const struct binary_keys *k, const char *build_id);
/* By device and inode: what was found there last. */
uint32_t binary_keys_find_inode(const struct binary_keys *k, dev_t dev, uint64_t inode);
void binary_keys_add(struct binary_keys *k, const struct stat *st, uint32_t index);
/* Borrows the string until the index is forgotten. */
void binary_keys_add_id(struct binary_keys *k, const char *build_id, uint32_t index);
void binary_keys_forget(struct binary_keys *k, uint32_t index);

#endif
