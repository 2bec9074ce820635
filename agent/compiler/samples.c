// SPDX-License-Identifier: Apache-2.0
#include "agent/compiler/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/elf/file/elf_image.h"
#include "agent/output/profile.h"

struct address {
	struct map_node node;
	struct compiler_address at;
};

struct compiler_samples {
	int fd; /* owned */
	struct elf_image *img;
	char build_id[2 * BUILD_ID_MAX + 1]; /* "": there is none, and the name has to do */
	char *name;			     /* last component of the path; owned */
	struct map addresses;		     /* entries owned */
	struct compiler_address *sorted;     /* owned */
	uint64_t n_all, n_own, n_other;
};

DEFINE_CLEANUP(struct compiler_samples *, compiler_samples_free)

static int read_build_id(struct compiler_samples *s)
{
	struct elf_ids ids;
	int r = elf_image_ids(s->img, &ids);

	for (size_t i = 0; r == 0 && i < ids.n_gnu; i++)
		snprintf(s->build_id + 2 * i, 3, "%02x", ids.gnu[i]);
	return r;
}

int compiler_samples_new(struct compiler_samples **ret, const char *path)
{
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = calloc(1, sizeof *s);
	const char *slash = strrchr(path, '/');
	int r;

	if (!s)
		return -ENOMEM;
	map_init(&s->addresses, COMPILER_ADDRESSES_MAX);
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	s->name = strdup(slash ? slash + 1 : path);
	if (!s->name)
		return -ENOMEM;
	r = elf_image_open(&s->img, s->fd);
	if (r == 0)
		r = read_build_id(s);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

void compiler_samples_free(struct compiler_samples *s)
{
	struct map_node *n;

	if (!s)
		return;
	map_for_each (&s->addresses, n, it)
		free(container_of(n, struct address, node));
	map_fini(&s->addresses);
	elf_image_free(s->img);
	if (s->fd >= 0)
		close(s->fd);
	free(s->name);
	free(s->sorted);
	free(s);
}

enum whose { OTHERS, OWN, OTHER_BUILD };

static enum whose whose(const struct compiler_samples *s, const struct frame_module *m)
{
	const bool same_name = strcmp(m->name, s->name) == 0;

	if (!s->build_id[0] || !m->build_id_gnu)
		return same_name ? OWN : OTHERS;
	if (strcmp(m->build_id_gnu, s->build_id) == 0)
		return OWN;
	return same_name ? OTHER_BUILD : OTHERS;
}

static bool address_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct address, node)->at.va == *(const uint64_t *)key;
}

static int add_address(struct compiler_samples *s, uint64_t va, uint64_t n)
{
	const uint64_t hash = hash_u64(va);
	struct map_node *node = map_find(&s->addresses, hash, address_is, &va);
	_cleanup_free_ struct address *new = NULL;
	int r;

	if (node) {
		container_of(node, struct address, node)->at.n += n;
		return 0;
	}
	new = calloc(1, sizeof *new);
	if (!new)
		return -ENOMEM;
	new->at = (struct compiler_address){va, n};
	r = map_insert(&s->addresses, &new->node, hash);
	if (r == 0)
		(void)TAKE_PTR(new);
	return r;
}

int compiler_samples_add(struct compiler_samples *s, const struct output_stack *stack)
{
	const struct frame *leaf = stack->n_frames ? stack->frames : NULL;
	const enum whose w = leaf && leaf->module ? whose(s, leaf->module) : OTHERS;
	uint64_t va;

	s->n_all += stack->count;
	if (w == OTHER_BUILD)
		s->n_other += stack->count;
	/* others' recordings have the addresses of a process; the place in the file is the same in all */
	if (w != OWN ||
	    elf_image_offset_to_va(s->img, leaf->address - leaf->module->start + leaf->module->file_offset,
				   &va) < 0)
		return 0;
	s->n_own += stack->count;
	return add_address(s, va, stack->count);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = ((const struct compiler_address *)a)->va,
		       y = ((const struct compiler_address *)b)->va;

	return (x > y) - (x < y);
}

int compiler_samples_get(struct compiler_samples *s, const struct compiler_address **ret, size_t *ret_n)
{
	struct map_node *node;
	size_t n = 0;

	free(s->sorted);
	s->sorted = malloc((s->addresses.len + 1) * sizeof *s->sorted);
	if (!s->sorted)
		return -ENOMEM;
	map_for_each (&s->addresses, node, it)
		s->sorted[n++] = container_of(node, struct address, node)->at;
	qsort(s->sorted, n, sizeof *s->sorted, compare);
	*ret = s->sorted;
	*ret_n = n;
	return 0;
}

uint64_t compiler_samples_all(const struct compiler_samples *s)
{
	return s->n_all;
}

uint64_t compiler_samples_own(const struct compiler_samples *s)
{
	return s->n_own;
}

uint64_t compiler_samples_other(const struct compiler_samples *s)
{
	return s->n_other;
}

struct elf_image *compiler_samples_image(struct compiler_samples *s)
{
	return s->img;
}

int compiler_samples_fd(const struct compiler_samples *s)
{
	return s->fd;
}
