// SPDX-License-Identifier: Apache-2.0
#include "agent/binary/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/binary/binary_keys.h"
#include "agent/proc/root.h"
#include "bpf/abi.h"

struct binary_registry {
	struct binary **binaries; /* [1 .. max] */
	uint32_t max, n, next_index;
	struct binary_keys keys;
	struct binary_stats stats;
};

int binary_registry_new(struct binary_registry **ret, uint32_t max_binaries)
{
	struct binary_registry *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->max = max_binaries < FRAME_FILE_MAX ? max_binaries : FRAME_FILE_MAX;
	r->binaries = calloc((size_t)r->max + 1, sizeof *r->binaries);
	if (!r->binaries) {
		free(r);
		return -ENOMEM;
	}
	binary_keys_init(&r->keys, (size_t)r->max * 4);
	*ret = r;
	return 0;
}

void binary_registry_free(struct binary_registry *r)
{
	if (!r)
		return;
	binary_keys_fini(&r->keys);
	for (uint32_t i = 1; i <= r->max; i++)
		binary_free(r->binaries[i]);
	free(r->binaries);
	free(r);
}

static uint32_t free_index(struct binary_registry *r)
{
	for (uint32_t i = 0; i < r->max; i++) {
		r->next_index = r->next_index % r->max + 1;
		if (!r->binaries[r->next_index])
			return r->next_index;
	}
	return 0;
}

/* Registers it, or finds that the same content is here under another inode. Returns the index, 0: no room. */
static uint32_t enter(struct binary_registry *r, struct binary *b)
{
	const char *id = b->module.build_id_gnu;
	uint32_t same = id ? binary_keys_find_id(&r->keys, id) : 0, index;

	if (same && r->binaries[same]->size == b->size) {
		binary_free(b);
		return same;
	}
	index = r->n < r->max ? free_index(r) : 0;
	if (!index) {
		r->stats.full++;
		binary_free(b);
		return 0;
	}
	b->index = b->module.id = index;
	r->binaries[index] = b;
	r->n++;
	if (id && !same)
		binary_keys_add_id(&r->keys, id, index);
	return index;
}

uint32_t binary_registry_known(const struct binary_registry *r, const struct stat *st)
{
	return binary_keys_find(&r->keys, st);
}

int binary_registry_enter(struct binary_registry *r, struct binary *b, const struct stat *st, uint32_t *ret)
{
	uint32_t index = enter(r, b);

	if (!index)
		return -ENFILE;
	binary_keys_add(&r->keys, st, index);
	*ret = index;
	return 0;
}

int binary_registry_add(struct binary_registry *r, int fd, const struct stat *st, const char *path,
			uint32_t *ret)
{
	uint32_t index = binary_registry_known(r, st);
	struct binary *b;
	int e;

	if (index) {
		close(fd);
		*ret = index;
		return 0;
	}
	e = binary_new(&b, fd, st, path);
	if (e < 0) {
		close(fd);
		return e;
	}
	return binary_registry_enter(r, b, st, ret);
}

uint32_t binary_registry_find(const struct binary_registry *r, const char *build_id)
{
	return binary_keys_find_id(&r->keys, build_id);
}

uint32_t binary_registry_find_inode(const struct binary_registry *r, dev_t dev, uint64_t inode)
{
	return binary_keys_find_inode(&r->keys, dev, inode);
}

struct binary *binary_registry_get(const struct binary_registry *r, uint32_t index)
{
	return index && index <= r->max ? r->binaries[index] : NULL;
}

uint32_t binary_registry_max(const struct binary_registry *r)
{
	return r->max;
}

bool binary_registry_wants_root(const struct binary_registry *r, uint32_t index)
{
	const struct binary *b = binary_registry_get(r, index);

	return b && !b->searched && !b->root && b->n_segments;
}

void binary_registry_set_root(struct binary_registry *r, uint32_t index, struct proc_root *root)
{
	if (binary_registry_wants_root(r, index))
		r->binaries[index]->root = proc_root_ref(root);
}

/* What was found once is wanted again when the table was evicted. */
void binary_registry_searched(struct binary_registry *r, uint32_t index, struct binary_debug *found)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b)
		return;
	proc_root_unref(TAKE_PTR(b->root));
	b->searched = true;
	if (b->names_fd < 0 && found->names_fd >= 0) {
		b->names_fd = TAKE_FD(found->names_fd);
		b->names_delta = found->names_delta;
		r->stats.names_files++;
	}
	if (b->debug_fd < 0 && found->debug_fd >= 0) {
		b->debug_fd = TAKE_FD(found->debug_fd);
		r->stats.debug_files++;
	}
}

void binary_registry_set_htlhash(struct binary_registry *r, uint32_t index, const char *htlhash)
{
	struct binary *b = binary_registry_get(r, index);

	if (b && !b->module.htlhash)
		b->module.htlhash = strdup(htlhash);
}

void binary_registry_remove(struct binary_registry *r, uint32_t index)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b)
		return;
	binary_keys_forget(&r->keys, index);
	binary_free(b);
	r->binaries[index] = NULL;
	r->n--;
}

void binary_registry_stats(const struct binary_registry *r, struct binary_stats *ret)
{
	*ret = r->stats;
	ret->known = r->n;
}
