// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/symtab.h"
#include "agent/base/flat.h"
#include "agent/parser/parser.h"
#include "agent/symbol/demangle.h"
#include "agent/symbol/dwarf.h"

#define SYMBOL_BATCH_MAX 65536u /* addresses */
#define MALLOC_OVERHEAD 16u	/* bytes that the allocator adds to each block */

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

size_t symbol_range_bytes(const struct symbol_range *r)
{
	return sizeof *r + (r->names ? MALLOC_OVERHEAD + r->names_bytes : 0) +
	       (r->lines ? MALLOC_OVERHEAD + r->lines_bytes : 0);
}

void symbol_range_fini(struct symbol_range *r)
{
	free(r->names);
	free(r->lines);
}

void symbol_ranges_fini(struct symbol_ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		symbol_range_fini(&r->v[i]);
	free(r->v);
	*r = (struct symbol_ranges){0};
}

struct symbol_range *symbol_ranges_find(const struct symbol_ranges *r, uint64_t va)
{
	size_t at = array_first(r->n, i, r->v[i].end > va);

	return at < r->n && r->v[at].start <= va ? &r->v[at] : NULL;
}

void symbol_ranges_truncate(struct symbol_ranges *r, size_t n)
{
	r->n = n;
	if (n) {
		(void)array_resize(&r->v, n,
				   sizeof *r->v); /* on failure the block stays larger than necessary */
		return;
	}
	free(r->v);
	r->v = NULL;
}

/* Appends the part of a range that lies behind the last range, and takes ownership of its names. */
static void ranges_push(struct symbol_ranges *r, struct symbol_range *x)
{
	uint64_t from = r->n ? r->v[r->n - 1].end : 0;

	if (x->start < from) {
		x->start = from;
		x->unnamed = false;
	}
	if (x->start < x->end)
		r->v[r->n++] = *x;
	else
		symbol_range_fini(x);
}

int symbol_ranges_merge(struct symbol_ranges *into, struct symbol_ranges *from)
{
	struct symbol_ranges all = {0};
	size_t i = 0, j = 0, n = into->n + from->n;

	if (!n)
		return 0;
	all.v = malloc(n * sizeof *all.v);
	if (!all.v)
		return -ENOMEM;
	while (i < into->n || j < from->n) {
		if (j == from->n || (i < into->n && into->v[i].start <= from->v[j].start))
			ranges_push(&all, &into->v[i++]);
		else
			ranges_push(&all, &from->v[j++]);
	}
	free(into->v);
	free(from->v);
	*from = (struct symbol_ranges){0};
	*into = all;
	return 0;
}

void symbol_batch_free(struct symbol_batch *b)
{
	if (!b)
		return;
	if (b->fd >= 0)
		close(b->fd);
	if (b->debug_fd >= 0)
		close(b->debug_fd);
	symbol_ranges_fini(&b->ranges);
	free(b->addrs);
	free(b);
}

int symbol_batch_answer_none(struct symbol_batch *b)
{
	symbol_ranges_fini(&b->ranges);
	b->ranges.v = calloc(b->n_addrs ? b->n_addrs : 1, sizeof *b->ranges.v);
	if (!b->ranges.v)
		return -ENOMEM;
	for (size_t i = 0; i < b->n_addrs; i++) {
		struct symbol_range x = {.start = b->addrs[i], .end = b->addrs[i] + 1, .used = true};

		ranges_push(&b->ranges, &x);
	}
	return 0;
}

/*
 * Stores both forms of a name in one block. Go names can contain words that look like clone suffixes, so only
 * mangled names of a Go program are demangled. Without memory the range has no name.
 */
static void name_range(struct symbol_range *x, const char *linkage_name, bool go)
{
	size_t system_n = strnlen(linkage_name, SYMBOL_MANGLED_MAX), n;
	_cleanup_free_ char *readable = NULL;

	if (!go || linkage_name[0] == '_')
		readable = symbol_demangle(linkage_name);
	n = readable ? strlen(readable) + 1 : 0;
	x->names = malloc(n + system_n + 1);
	if (!x->names)
		return;
	if (readable) {
		memcpy(x->names, readable, n);
		x->system_name_at = (uint32_t)n;
	}
	memcpy(x->names + n, linkage_name, system_n);
	x->names[n + system_n] = '\0';
	x->names_bytes = (uint32_t)(n + system_n + 1);
}

static void take_lines(struct symbol_range *x, struct elf_symbol *s)
{
	for (size_t i = 0; i < s->n_lines; i++)
		x->lines_bytes += (uint32_t)(sizeof *s->lines + strlen(s->lines[i].function) +
					     strlen(s->lines[i].file) + 2);
	x->n_lines = (uint32_t)s->n_lines;
	x->lines = TAKE_PTR(s->lines);
}

/*
 * Adds one range for each run of addresses in the same function. Addresses are sorted, and so are their
 * ranges.
 */
static void answer(struct symbol_batch *b, struct elf_symbol *symbols, bool go)
{
	for (size_t i = 0; i < b->n_addrs; i++) {
		const struct symbol_range *last = b->ranges.n ? &b->ranges.v[b->ranges.n - 1] : NULL;
		struct symbol_range x = {.start = symbols[i].start,
					 .end = symbols[i].end,
					 .unnamed = symbols[i].unnamed,
					 .used = true};
		uint64_t addr = b->addrs[i];

		if (last && addr < last->end)
			continue;
		if (x.start > addr || x.end <= addr) {
			x.start = addr;
			x.end = addr + 1;
			x.unnamed = false;
		}
		if (symbols[i].name && symbols[i].name[0])
			name_range(&x, symbols[i].name, go);
		if (x.names && symbols[i].lines)
			take_lines(&x, &symbols[i]);
		ranges_push(&b->ranges, &x);
	}
}

/*
 * Reads source lines from the debug information in the file, or in its debug file. Addresses without lines
 * are left to recordings that want names only.
 */
static void add_source_lines(struct symbol_batch *b, struct elf_symbol *symbols, bool debug)
{
	int left = symbol_dwarf_lines(b->fd, 0, b->addrs, b->n_addrs, symbols);

	if (debug && left <= 0)
		left = symbol_dwarf_lines(b->debug_fd, b->debug_delta, b->addrs, b->n_addrs, symbols);
	b->n_lines_left = left > 0 ? (size_t)left : 0;
	for (size_t i = 0; i < b->n_addrs; i++) {
		if (symbols[i].lines)
			continue;
		free(symbols[i].name);
		symbols[i] = (struct elf_symbol){.start = b->addrs[i], .end = b->addrs[i] + 1};
	}
}

static int resolve(struct symbol_batch *b)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL, *debug = NULL;
	const struct elf_version *version = b->any_version ? NULL : &b->version;
	const struct elf_version *debug_version = b->any_debug_version ? NULL : &b->debug_version;
	_cleanup_free_ struct elf_symbol *symbols = NULL;
	struct elf_ids ids;
	int r = elf_version_open(&img, b->fd, version);

	if (r < 0)
		return r;
	if (b->debug_fd >= 0) /* on failure only the names in the file itself are used */
		(void)elf_version_open(&debug, b->debug_fd, debug_version);
	symbols = calloc(b->n_addrs, sizeof *symbols);
	b->ranges.v = calloc(b->n_addrs, sizeof *b->ranges.v);
	if (!symbols || !b->ranges.v)
		return -ENOMEM;
	r = elf_symtab_resolve_with(img, debug, b->debug_delta, b->addrs, b->n_addrs, symbols);
	if (r >= 0 && b->source_lines)
		add_source_lines(b, symbols, debug != NULL);
	if (r >= 0)
		r = elf_image_ids(img, &ids);
	if (r >= 0)
		r = elf_version_still(version, img);
	if (r >= 0 && debug)
		r = elf_version_still(debug_version, debug);
	if (r >= 0)
		answer(b, symbols, ids.go[0]);
	for (size_t i = 0; i < b->n_addrs; i++) {
		free(symbols[i].name);
		free(symbols[i].lines);
	}
	return r;
}

/* --- requests and answers */

/* What the process needs to know beside the descriptors and the addresses. */
struct wish {
	struct elf_version version, debug_version;
	uint64_t debug_delta, n_addrs;
	bool any_version, any_debug_version, has_debug;
};

/* A range in an answer; its names follow. */
struct range_head {
	uint64_t start, end;
	uint32_t system_name_at, names_bytes;
	uint32_t unnamed, reserved;
};

static int write_answer(const struct symbol_batch *b, struct buf *answer)
{
	int r = flat_put_u64(answer, b->ranges.n);

	for (size_t i = 0; i < b->ranges.n && r == 0; i++) {
		const struct symbol_range *x = &b->ranges.v[i];
		const struct range_head head = {.start = x->start,
						.end = x->end,
						.system_name_at = x->system_name_at,
						.names_bytes = x->names ? x->names_bytes : 0,
						.unnamed = x->unnamed};

		r = buf_append(answer, &head, sizeof head);
		if (r == 0)
			r = buf_append(answer, x->names, head.names_bytes);
	}
	return r;
}

static bool wish_valid(const struct wish *w)
{
	return elf_version_valid(&w->version) && elf_version_valid(&w->debug_version) &&
	       flat_is_bool(&w->any_version) && flat_is_bool(&w->any_debug_version) &&
	       flat_is_bool(&w->has_debug);
}

static int run_operation(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	struct symbol_batch b = {.fd = -1, .debug_fd = -1};
	struct wish wish;
	int r;

	flat_get(&request, &wish, sizeof wish);
	if (!wish_valid(&wish) || job->n_fds != 1u + wish.has_debug || wish.n_addrs > SYMBOL_BATCH_MAX)
		return -EINVAL;
	b = (struct symbol_batch){
		.fd = job->fds[0],
		.debug_fd = wish.has_debug ? job->fds[1] : -1,
		.version = wish.version,
		.debug_version = wish.debug_version,
		.any_version = wish.any_version,
		.any_debug_version = wish.any_debug_version,
		.debug_delta = wish.debug_delta,
		.addrs = (uint64_t *)(uintptr_t)flat_bytes(&request, wish.n_addrs * sizeof *b.addrs),
		.n_addrs = wish.n_addrs};
	r = flat_done(&request) ? resolve(&b) : -EINVAL;
	if (r >= 0)
		r = write_answer(&b, job->answer);
	symbol_ranges_fini(&b.ranges);
	return r;
}

/* A name can double, as it is kept mangled and readable. */
#define NAMES_MAX (8u * SYMBOL_MANGLED_MAX)
#define ANSWER_MAX (64u << 20)

const struct parser_operation symbol_operation = {
	.name = "names of functions", .answer_max = ANSWER_MAX, .run = run_operation};

/* Whether it can be appended: behind `from`, with strings that end. */
static bool range_valid(const struct range_head *x, const char *names, uint64_t from)
{
	if (x->start < from || x->start >= x->end || x->names_bytes > NAMES_MAX)
		return false;
	if (!x->names_bytes)
		return x->system_name_at == 0;
	return names[x->names_bytes - 1] == '\0' && x->system_name_at < x->names_bytes &&
	       (!x->system_name_at || names[x->system_name_at - 1] == '\0');
}

static int read_range(struct symbol_ranges *to, struct flat_reader *from)
{
	const uint64_t behind = to->n ? to->v[to->n - 1].end : 0;
	struct symbol_range x = {.used = true};
	struct range_head head;
	const uint8_t *names;

	flat_get(from, &head, sizeof head);
	names = flat_bytes(from, head.names_bytes);
	if (!names || !range_valid(&head, (const char *)names, behind))
		return -EBADMSG;
	x.start = head.start;
	x.end = head.end;
	x.unnamed = head.unnamed != 0;
	x.system_name_at = head.system_name_at;
	if (head.names_bytes) {
		x.names_bytes = head.names_bytes & 0x3fffffffu;
		x.names = malloc(head.names_bytes);
		if (!x.names)
			return -ENOMEM;
		memcpy(x.names, names, head.names_bytes);
	}
	to->v[to->n++] = x;
	return 0;
}

/* There is no range without an address. */
int symbol_answer_read(struct symbol_batch *b, const void *bytes, size_t len)
{
	struct flat_reader r = flat_read(bytes, len);
	const uint64_t n = flat_u64(&r);
	int e = 0;

	if (n > b->n_addrs)
		return -EBADMSG;
	b->ranges.v = calloc(n ? n : 1, sizeof *b->ranges.v);
	if (!b->ranges.v)
		return -ENOMEM;
	for (uint64_t i = 0; i < n && e == 0; i++)
		e = read_range(&b->ranges, &r);
	if (e < 0)
		return e;
	for (size_t i = 0; i < b->n_addrs; i++)
		if (!symbol_ranges_find(&b->ranges, b->addrs[i]))
			return -EBADMSG;
	return flat_done(&r) ? 0 : -EBADMSG;
}

static int write_request(const struct symbol_batch *b, struct parser_call *call)
{
	struct wish wish;
	int r;

	memset(&wish, 0, sizeof wish); /* with its padding */
	wish.version = b->version;
	wish.debug_version = b->debug_version;
	wish.debug_delta = b->debug_delta;
	wish.n_addrs = b->n_addrs;
	wish.any_version = b->any_version;
	wish.any_debug_version = b->any_debug_version;
	wish.has_debug = call->n_fds > 1;
	r = buf_append(&call->request, &wish, sizeof wish);
	return r < 0 ? r : buf_append(&call->request, b->addrs, b->n_addrs * sizeof *b->addrs);
}

/* Has the addresses resolved in a process of its own. */
static int resolve_apart(struct symbol_batch *b)
{
	struct parser_call call = {
		.operation = &symbol_operation, .of_system = b->of_system, .in_proportion = true};
	_cleanup_close_ int fd = fs_reopen_parts(b->fd),
			    debug_fd = b->debug_fd >= 0 ? fs_reopen_parts(b->debug_fd) : -1;
	_cleanup_buf_ struct buf answer = {0};
	int r;

	if (fd < 0)
		return fd;
	call.fds[call.n_fds++] = fd;
	if (debug_fd >= 0) /* else only the names in the file itself are used */
		call.fds[call.n_fds++] = debug_fd;
	r = write_request(b, &call);
	if (r == 0)
		r = parser_call(&call, &answer);
	buf_fini(&call.request);
	if (r >= 0)
		r = parser_judge(&call, symbol_answer_read(b, answer.data, answer.len));
	return r;
}

void symbol_batch_run(struct symbol_batch *b)
{
	b->status = b->source_lines ? resolve(b) : resolve_apart(b);
	if (b->status < 0 && b->status != -ENOMEM && b->status != -EAGAIN && symbol_batch_answer_none(b) < 0)
		b->status = -ENOMEM;
}
