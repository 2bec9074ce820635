// SPDX-License-Identifier: Apache-2.0
/*
 * From the text to the table. Lines are "ADDRESS TYPE NAME", modules add a tab and "[MODULE]". They come
 * roughly, not strictly, in the order of their addresses. Only one piece of the text is in memory at a
 * time: it is some 5 to 15 MiB long, and the agent's memory is counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/symbol/kallsyms_private.h"

#define PIECE_BYTES (32u << 10) /* longer than any line: names have up to 512 bytes, modules 56 */
#define NAMES_MAX (64u << 20)	/* bytes */
#define ZEROS_MEAN_LOCKED 4096u /* text symbols at address 0 and no other: the rest is not read */

static void builder_fini(struct kallsyms_builder *b)
{
	free(b->raws);
	free(b->owners);
	buf_fini(&b->names);
}

static int builder_init(struct kallsyms_builder *b)
{
	buf_init(&b->names, NAMES_MAX);
	b->n_owners = 1;
	b->owners = calloc(KALLSYMS_MODULES_MAX, sizeof *b->owners);
	if (!b->owners)
		return -ENOMEM;
	return buf_putc(&b->names, '\0');
}

static int add_string(struct kallsyms_builder *b, const char *s, size_t len, uint32_t *ret)
{
	size_t at = b->names.len;
	int r = buf_reserve(&b->names, len + 1);

	if (r < 0)
		return r;
	r = buf_append(&b->names, s, len);
	if (r >= 0)
		r = buf_putc(&b->names, '\0');
	if (r >= 0)
		*ret = (uint32_t)at;
	return r;
}

/*
 * Kernels built for call thunks list "__pfx_NAME" in front of each NAME: the second is the end of the
 * first.
 */
static int add_name(struct kallsyms_builder *b, const struct kallsyms_line *l, uint32_t *ret)
{
	static const char prefix[] = "__pfx_";
	size_t n = sizeof prefix - 1, last_len = b->last_name ? b->names.len - 1 - b->last_name : 0;
	const char *last = (const char *)b->names.data + b->last_name;
	int r;

	if (last_len == l->name_len + n && memcmp(last, prefix, n) == 0 &&
	    memcmp(last + n, l->name, l->name_len) == 0) {
		*ret = (uint32_t)(b->last_name + n);
		return 0;
	}
	r = add_string(b, l->name, l->name_len, ret);
	if (r >= 0)
		b->last_name = *ret;
	return r;
}

static bool owner_is(const struct kallsyms_builder *b, size_t i, const struct kallsyms_line *l)
{
	const char *name = (const char *)b->names.data + b->owners[i].name;

	return strncmp(name, l->module, l->module_len) == 0 && !name[l->module_len];
}

/* Lines of a module stand together, so the last one is nearly always right. */
static int find_owner(struct kallsyms_builder *b, const struct kallsyms_line *l, uint16_t *ret)
{
	uint32_t name;
	int r;

	if (!l->module) {
		*ret = 0;
		return 0;
	}
	if (!b->last_owner || !owner_is(b, b->last_owner, l)) {
		size_t i = 1;

		while (i < b->n_owners && !owner_is(b, i, l))
			i++;
		if (i == KALLSYMS_MODULES_MAX)
			return -ENOSPC;
		if (i == b->n_owners) {
			r = add_string(b, l->module, l->module_len, &name);
			if (r < 0)
				return r;
			b->owners[b->n_owners++].name = name;
		}
		b->last_owner = i;
	}
	*ret = (uint16_t)b->last_owner;
	return 0;
}

static int raws_reserve(struct kallsyms_builder *b)
{
	if (b->n_raws == b->cap && b->n_raws >= KALLSYMS_SYMBOLS_MAX)
		return -ENOSPC;
	return array_reserve(&b->raws, &b->cap, b->n_raws + 1, sizeof *b->raws);
}

static int add_symbol(struct kallsyms_builder *b, const struct kallsyms_line *l)
{
	struct kallsyms_raw raw = {.addr = l->addr, .rank = kallsyms_line_rank(l)};
	int r = raws_reserve(b);

	if (r >= 0)
		r = find_owner(b, l, &raw.owner);
	if (r >= 0 && raw.rank != KALLSYMS_RANK_GAP)
		r = add_name(b, l, &raw.name);
	if (r >= 0)
		b->raws[b->n_raws++] = raw;
	return r;
}

static int add_line(struct kallsyms_builder *b, const char *p, size_t len)
{
	struct kallsyms_line l;
	int r;

	if (!kallsyms_line_parse(p, len, &l)) {
		b->n_skipped++;
		return 0;
	}
	if (!strchr("tTwW", l.type) || !l.type)
		return 0;
	b->n_text++;
	if (!l.addr)
		return b->n_text >= ZEROS_MEAN_LOCKED && !b->n_nonzero ? -EPERM : 0;
	b->n_nonzero++;
	if (!l.module && kallsyms_line_named(&l, "_etext"))
		b->etext = l.addr;
	r = add_symbol(b, &l);
	if (r == -ENOSPC || r == -EOVERFLOW) {
		b->n_skipped++;
		return 0;
	}
	return r;
}

/* Takes the complete lines of a piece; the number of bytes taken or negative errno. */
static ssize_t add_piece(struct kallsyms_builder *b, const char *piece, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *end = memchr(piece + at, '\n', len - at);
		int r;

		if (!end)
			return (ssize_t)at;
		r = add_line(b, piece + at, (size_t)(end - piece) - at);
		if (r < 0)
			return r;
		at = (size_t)(end - piece) + 1;
	}
}

int kallsyms_parse(struct kallsyms **ret, const char *text, size_t len)
{
	_cleanup_(builder_fini) struct kallsyms_builder b = {0};
	ssize_t taken;
	int r = builder_init(&b);

	if (r < 0)
		return r;
	taken = add_piece(&b, text, len);
	if (taken < 0)
		return (int)taken;
	if ((size_t)taken < len)
		r = add_line(&b, text + taken, len - (size_t)taken);
	return r < 0 ? r : kallsyms_builder_finish(&b, ret);
}

/* Reads to the end of the file; a piece without a single newline is dropped. */
static int add_file(struct kallsyms_builder *b, int fd, char *piece)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, piece + have, PIECE_BYTES - have), taken;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return have ? add_line(b, piece, have) : 0;
		have += (size_t)n;
		taken = add_piece(b, piece, have);
		if (taken < 0)
			return (int)taken;
		if (!taken && have == PIECE_BYTES) {
			taken = PIECE_BYTES;
			b->n_skipped++;
		}
		have -= (size_t)taken;
		memmove(piece, piece + taken, have);
	}
}

int kallsyms_read(struct kallsyms **ret, int fd)
{
	_cleanup_(builder_fini) struct kallsyms_builder b = {0};
	_cleanup_free_ char *piece = malloc(PIECE_BYTES);
	int r = builder_init(&b);

	if (r < 0)
		return r;
	if (!piece)
		return -ENOMEM;
	r = add_file(&b, fd, piece);
	return r < 0 ? r : kallsyms_builder_finish(&b, ret);
}
