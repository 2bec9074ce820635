// SPDX-License-Identifier: Apache-2.0
/*
 * What files of the cache are found by: several keys may lead to one file index (the same library in many
 * container images). Bounded; a key that finds no room costs a second reading of the file some day, no more.
 * Inside unwind/ only.
 */
#ifndef PROFLET_UNWIND_KEYS_H
#define PROFLET_UNWIND_KEYS_H

#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/map.h"

struct file_keys {
	struct map map;
};

void file_keys_init(struct file_keys *k, size_t max);
void file_keys_fini(struct file_keys *k);
/* By device, inode, mtime and size: this very content. 0: not known. */
uint32_t file_keys_find(const struct file_keys *k, const struct stat *st);
/* By GNU build id in hex. */
uint32_t file_keys_find_id(const struct file_keys *k, const char *build_id);
/* By device and inode: what was found there last. */
uint32_t file_keys_find_inode(const struct file_keys *k, dev_t dev, uint64_t inode);
void file_keys_add(struct file_keys *k, const struct stat *st, uint32_t index);
/* Borrows the string until the index is forgotten. */
void file_keys_add_id(struct file_keys *k, const char *build_id, uint32_t index);
void file_keys_forget(struct file_keys *k, uint32_t index);

#endif
