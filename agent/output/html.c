// SPDX-License-Identifier: Apache-2.0
/*
 * The data, read by flamegraph_model.js:
 *   info       what the recording was
 *   modules    [path, build id] by module id; [0] is none
 *   name, module, kind    of the functions, by function id; [0] is none; enum page_kind
 *   file       source files by function id, of those that are known; with ":LINE" if the first line is
 *   runtime    language runtimes by function id, of those that belong to one
 *   groups     [container id, container name, process, pid, thread, complete samples], as their trees come
 *   nodes      of every tree in preorder, a text of three numbers each: up, function, self. `up` is how
 *              many levels it is above a child of the node before; a group's root has function 0
 *   time       {from_ns, width_ns, columns, cells}, if times of samples are known: columns of that width, the
 *              first of which begins so long behind the start of the recording. Of each node with self, cells
 *              is a text of numbers: how many columns have samples of it, and for each of them twice the
 *              number of columns since the one before, the first one counted from -1, less 1; plus 1 if it
 *              has several samples. Then their number follows, less 2
 *   difference if the page compares two recordings, what they are and what tells noise (struct
 *              output_html_difference). Groups of the second recording end with a 1
 *
 * A number of that text is its groups of five bits, lowest first, each a base64 digit (RFC 4648), with 32
 * added to all but the last: half the bytes of decimal numbers, and read without a list of millions.
 */
#include "agent/output/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/profile_private.h"
#include "agent/output/display_text.h"
#include "agent/output/walk.h"

/* --- the files of the page, compiled in */

/* All files of the page; the scripts in the order in which they run: name in C, file. */
#define OUTPUT_SCRIPTS(X)                                      \
	X(model, "agent/output/flamegraph_model.js")           \
	X(times, "agent/output/flamegraph_times.js")           \
	X(difference, "agent/output/flamegraph_difference.js") \
	X(chart, "agent/output/flamegraph_chart.js")           \
	X(input, "agent/output/flamegraph_input.js")           \
	X(paint, "agent/output/flamegraph_paint.js")           \
	X(table, "agent/output/flamegraph_table.js")           \
	X(info, "agent/output/flamegraph_info.js")             \
	X(timeline, "agent/output/flamegraph_timeline.js") X(app, "agent/output/flamegraph_app.js")
#define OUTPUT_ASSETS(X)                        \
	X(page, "agent/output/flamegraph.html") \
	X(style, "agent/output/flamegraph.css") \
	OUTPUT_SCRIPTS(X)

#define OUTPUT_ASSET_ENUM(name, file) ASSET_##name,
enum output_asset { OUTPUT_ASSETS(OUTPUT_ASSET_ENUM) OUTPUT_N_ASSETS };

/* The assembler reads the files below the include directory, so no build step has to generate source. */
#define EMBED(name, file)                                                    \
	__asm__(".pushsection .rodata\n"                                     \
		"output_asset_" #name ": .incbin \"" file "\"\n"             \
		"output_asset_" #name "_end: .byte 0\n"                      \
		".popsection\n");                                            \
	extern const char name##_start[] __asm__("output_asset_" #name)      \
		__attribute__((visibility("hidden")));                       \
	extern const char name##_end[] __asm__("output_asset_" #name "_end") \
		__attribute__((visibility("hidden")));
OUTPUT_ASSETS(EMBED)

#define BOUNDS(name, file) {name##_start, name##_end},
static const struct {
	const char *start, *end;
} assets[OUTPUT_N_ASSETS] = {OUTPUT_ASSETS(BOUNDS)};

/* The bytes of the file, static, and their number. */
static const char *output_asset(enum output_asset asset, size_t *ret_len)
{
	*ret_len = (size_t)(assets[asset].end - assets[asset].start);
	return assets[asset].start;
}

/* --- the page */

struct html {
	const struct output_profile *p;
	const struct output_html_difference *difference; /* NULL: of one recording */
	FILE *f;
	char nonce[33];
	size_t level; /* level of a child of the previous node */
	/* of the node that is being written */
	struct output_cell *cells; /* owned */
	size_t n_cells, cells_cap;
	bool out_of_memory;
};

/* The kinds of functions, which are drawn in different colours. flamegraph_model.js has the same numbers. */
enum page_kind {
	PAGE_NATIVE = FRAME_NATIVE,
	PAGE_KERNEL = FRAME_KERNEL,
	PAGE_ENDING = FRAME_ENDING,
	PAGE_GO,
	PAGE_JIT,     /* generated at run time: it is in no file */
	PAGE_RUNTIME, /* belongs to a language runtime, which `runtime` names */
};

/* C functions that cgo links in are in a Go module, but have no package in front of a dot in their names. */
static enum page_kind kind_of(const struct output_profile *p, const struct output_function *f)
{
	const struct output_module *m = output_module_of(p, f->module);

	if (f->kind != FRAME_NATIVE)
		return (enum page_kind)f->kind;
	if (f->runtime)
		return PAGE_RUNTIME;
	if (!m)
		return PAGE_JIT;
	return m->go && (!f->named || strchr(output_string_text(p, f->name), '.')) ? PAGE_GO : PAGE_NATIVE;
}

static void put_text(FILE *f, const char *key, const char *s)
{
	fprintf(f, ",\"%s\":", key);
	output_text_json(f, s ? s : "");
}

static void put_info(const struct html *h)
{
	const struct output_profile *p = h->p;
	const struct output_info *info = &p->info;

	fprintf(h->f, "\"info\":{\"start_ms\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"hz\":%" PRIu32,
		(uint64_t)(info->start_unix_ns / NS_PER_MS), info->duration_ns, info->frequency_hz);
	fprintf(h->f, ",\"taken\":%" PRIu64 ",\"dropped\":%" PRIu64, info->n_taken, info->n_dropped);
	fprintf(h->f, ",\"samples\":%" PRIu64 ",\"complete\":%" PRIu64 ",\"merged\":%" PRIu64, p->n_samples,
		p->n_complete, p->n_merged);
	put_text(h->f, "host", info->hostname);
	put_text(h->f, "command", info->command);
	put_text(h->f, "version", info->version);
	fputc('}', h->f);
}

static void put_modules(const struct html *h)
{
	fputs(",\"modules\":[[\"\",\"\"]", h->f);
	for (uint32_t id = 1; id <= output_table_len(&h->p->modules); id++) {
		const struct output_module *m = output_module_of(h->p, id);

		fputs(",[", h->f);
		output_text_json(h->f, output_string_text(h->p, m->path));
		fputc(',', h->f);
		output_text_json(h->f, output_string_text(h->p, m->build_id));
		fputc(']', h->f);
	}
	fputc(']', h->f);
}

static int put_file(const struct html *h, const struct output_function *f)
{
	_cleanup_buf_ struct buf text = {0};
	const char *file = output_string_text(h->p, f->file);
	int r;

	if (!f->start_line) {
		output_text_json(h->f, file);
		return 0;
	}
	r = buf_printf(&text, "%s:%" PRIu32, file, f->start_line);
	if (r == 0)
		output_text_json(h->f, buf_str(&text));
	return r;
}

static int put_files(const struct html *h)
{
	const char *separator = "";
	int r = 0;

	fputs(",\"file\":{", h->f);
	for (uint32_t id = 1; id <= output_table_len(&h->p->functions) && r == 0; id++) {
		const struct output_function *f = output_function_of(h->p, id);

		if (!f->file)
			continue;
		fprintf(h->f, "%s\"%" PRIu32 "\":", separator, id);
		r = put_file(h, f);
		separator = ",";
	}
	fputc('}', h->f);
	return r;
}

static void put_runtimes(const struct html *h)
{
	const char *separator = "";

	fputs(",\"runtime\":{", h->f);
	for (uint32_t id = 1; id <= output_table_len(&h->p->functions); id++) {
		uint32_t runtime = output_function_of(h->p, id)->runtime;

		if (!runtime)
			continue;
		fprintf(h->f, "%s\"%" PRIu32 "\":", separator, id);
		output_text_json(h->f, output_string_text(h->p, runtime));
		separator = ",";
	}
	fputc('}', h->f);
}

static int put_functions(const struct html *h)
{
	uint32_t n = output_table_len(&h->p->functions);

	fputs(",\"name\":[\"\"", h->f);
	for (uint32_t id = 1; id <= n; id++) {
		fputc(',', h->f);
		output_text_json(h->f, output_string_text(h->p, output_function_of(h->p, id)->name));
	}
	fputs("],\"module\":[0", h->f);
	for (uint32_t id = 1; id <= n; id++)
		fprintf(h->f, ",%" PRIu32, output_function_of(h->p, id)->module);
	fputs("],\"kind\":[0", h->f);
	for (uint32_t id = 1; id <= n; id++)
		fprintf(h->f, ",%d", (int)kind_of(h->p, output_function_of(h->p, id)));
	fputc(']', h->f);
	put_runtimes(h);
	return put_files(h);
}

#define NUMBER_MAX 13 /* digits of a 64-bit number */

static size_t format_number(char *text, uint64_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t len = 0;

	for (; n > 31; n >>= 5)
		text[len++] = digits[32 + (n & 31)];
	text[len++] = digits[n];
	return len;
}

static int enter(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct html *h = data;
	char text[3 * NUMBER_MAX];
	size_t len;

	len = format_number(text, h->level - depth);
	len += format_number(text + len, function);
	len += format_number(text + len, self);
	h->level = depth + 1;
	return fwrite(text, 1, len, h->f) < len ? -EIO : 0;
}

/* Calls `put` for each group with samples. `n`: how many were before. */
static int each_group(struct html *h, int (*put)(struct html *h, const struct output_group *g, size_t n))
{
	size_t n = 0;
	int r = 0;

	for (uint32_t id = 1; id <= output_table_len(&h->p->groups) && r == 0; id++) {
		const struct output_group *g = output_group_of(h->p, id);

		if (g->n_samples)
			r = put(h, g, n++);
	}
	return r;
}

static int put_group(struct html *h, const struct output_group *g, size_t n)
{
	const uint32_t texts[] = {g->container, g->container_name, g->process};

	fputs(n ? ",[" : "[", h->f);
	for (size_t i = 0; i < 3; i++) {
		output_text_json(h->f, output_string_text(h->p, texts[i]));
		fputc(',', h->f);
	}
	fprintf(h->f, "%" PRIu32 ",", g->pid);
	output_text_json(h->f, output_string_text(h->p, g->thread));
	fprintf(h->f, ",%" PRIu64, g->n_complete);
	fputs(g->after ? ",1]" : "]", h->f);
	return 0;
}

static int put_tree(struct html *h, const struct output_group *g, size_t n)
{
	static const struct output_walk_ops ops = {.enter = enter};
	int r = enter(h, 0, 0, 0);

	(void)n;
	return r < 0 ? r : output_walk(h->p, &g, 1, &ops, h);
}

/* --- times */

static void collect_cells(void *data, const struct output_node *node)
{
	const struct output_cell *cells;
	struct html *h = data;

	for (uint32_t at = node->cells; at; at = cells[at].next) {
		cells = h->p->times.cells;
		if (array_reserve(&h->cells, &h->cells_cap, h->n_cells + 1, sizeof *h->cells) < 0) {
			h->out_of_memory = true;
			return;
		}
		h->cells[h->n_cells++] = cells[at];
	}
}

static int compare_cells(const void *a, const void *b)
{
	const struct output_cell *x = a, *y = b;

	return (x->column > y->column) - (x->column < y->column);
}

/* Puts the cells in order, those of one column as one. */
static void merge_cells(struct html *h)
{
	size_t n = 0;

	if (h->n_cells > 1)
		qsort(h->cells, h->n_cells, sizeof *h->cells, compare_cells);
	for (size_t i = 0; i < h->n_cells; i++) {
		if (n && h->cells[n - 1].column == h->cells[i].column)
			h->cells[n - 1].count += h->cells[i].count;
		else
			h->cells[n++] = h->cells[i];
	}
	h->n_cells = n;
}

static int enter_times(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct html *h = data;
	uint64_t next = h->p->times.first;
	char text[NUMBER_MAX];

	(void)function, (void)depth;
	if (h->out_of_memory)
		return -ENOMEM;
	if (!self)
		return 0;
	merge_cells(h);
	fwrite(text, 1, format_number(text, h->n_cells), h->f);
	for (size_t i = 0; i < h->n_cells; i++) {
		const struct output_cell *c = &h->cells[i];

		fwrite(text, 1, format_number(text, 2 * (c->column - next) + (c->count > 1)), h->f);
		if (c->count > 1)
			fwrite(text, 1, format_number(text, c->count - 2), h->f);
		next = c->column + 1;
	}
	h->n_cells = 0;
	return ferror(h->f) ? -EIO : 0;
}

static int put_tree_times(struct html *h, const struct output_group *g, size_t n)
{
	static const struct output_walk_ops ops = {.node = collect_cells, .enter = enter_times};

	(void)n;
	return output_walk(h->p, &g, 1, &ops, h);
}

static int put_times(struct html *h)
{
	const struct output_times *t = &h->p->times;
	const uint64_t start = h->p->info.start_unix_ns, from = t->first << t->shift;
	int r;

	if (!t->n_samples)
		return 0;
	fprintf(h->f, ",\"time\":{\"from_ns\":%" PRId64 ",\"width_ns\":%" PRIu64 ",\"columns\":%" PRIu64,
		start ? (int64_t)(from - start) : 0, (uint64_t)1 << t->shift, output_times_columns(t));
	fputs(",\"cells\":\"", h->f);
	r = each_group(h, put_tree_times);
	fputs("\"}", h->f);
	return r;
}

/* --- two recordings */

static void put_weights(const struct html *h, const uint8_t *weights)
{
	const size_t n = (size_t)h->difference->n_draws * h->difference->n_blocks;
	char text[NUMBER_MAX];

	fputc('"', h->f);
	for (size_t i = 0; weights && i < n; i++)
		fwrite(text, 1, format_number(text, weights[i]), h->f);
	fputc('"', h->f);
}

static void put_side(const struct html *h, int side)
{
	const struct output_html_side *s = &h->difference->sides[side];

	fprintf(h->f, "{\"file\":");
	output_text_json(h->f, s->file);
	fprintf(h->f, ",\"start_ms\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"samples\":%.17g,\"weights\":",
		(uint64_t)(s->start_unix_ns / NS_PER_MS), s->duration_ns, s->samples);
	put_weights(h, s->weights);
	fputc('}', h->f);
}

static void put_difference(const struct html *h)
{
	const struct output_html_difference *d = h->difference;

	if (!d)
		return;
	fprintf(h->f,
		",\"difference\":{\"blocks\":%u,\"least\":%.17g,\"limit\":{\"self\":%.17g,\"total\":%.17g}",
		d->n_blocks, d->least, d->limit_self, d->limit_total);
	fputs(",\"sides\":[", h->f);
	put_side(h, 0);
	fputc(',', h->f);
	put_side(h, 1);
	fputs("]}", h->f);
}

static int put_trees(struct html *h)
{
	int r;

	fputs(",\"groups\":[", h->f);
	r = each_group(h, put_group);
	fputs("],\"nodes\":\"", h->f);
	if (r == 0)
		r = each_group(h, put_tree);
	fputc('"', h->f);
	return r < 0 ? r : put_times(h);
}

static int put_data(struct html *h)
{
	fputc('{', h->f);
	put_info(h);
	put_modules(h);
	if (put_functions(h) < 0)
		return -ENOMEM;
	put_difference(h);
	if (put_trees(h) < 0)
		return ferror(h->f) ? -EIO : -ENOMEM;
	fputc('}', h->f);
	return 0;
}

static void put_asset(const struct html *h, enum output_asset asset)
{
	size_t len;
	const char *data = output_asset(asset, &len);

	fwrite(data, 1, len, h->f);
}

static int put_scripts(struct html *h)
{
#define PUT_SCRIPT(name, file) put_asset(h, ASSET_##name);
	OUTPUT_SCRIPTS(PUT_SCRIPT)
	return 0;
}

static int put_style(struct html *h)
{
	put_asset(h, ASSET_style);
	return 0;
}

static int put_nonce(struct html *h)
{
	fputs(h->nonce, h->f);
	return 0;
}

/* The places of the template that are filled in. */
static const struct {
	const char *name;
	int (*put)(struct html *h);
} slots[] = {
	{"{{nonce}}", put_nonce},
	{"{{style}}", put_style},
	{"{{data}}", put_data},
	{"{{script}}", put_scripts},
};

static int put_slot(struct html *h, const char *at, size_t len, size_t *ret_len)
{
	for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
		*ret_len = strlen(slots[i].name);
		if (*ret_len <= len && !memcmp(at, slots[i].name, *ret_len))
			return slots[i].put(h);
	}
	fputc(*at, h->f);
	*ret_len = 1;
	return 0;
}

/* The nonce makes the page's own script the only one that may run, whatever a name in the data looks like. */
static int make_nonce(struct html *h)
{
	unsigned char random[16];

	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return -EIO;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(h->nonce + 2 * i, 3, "%02x", random[i]);
	return 0;
}

static void html_fini(struct html *h)
{
	free(h->cells);
}

int output_html_write(const struct output_profile *p, const struct output_html_difference *difference,
		      FILE *f)
{
	_cleanup_(html_fini) struct html h = {.p = p, .difference = difference, .f = f};
	size_t len, n;
	const char *page = output_asset(ASSET_page, &len);
	int r;

	r = make_nonce(&h);
	while (r == 0 && len) {
		const char *slot = memchr(page, '{', len);

		n = slot ? (size_t)(slot - page) : len;
		fwrite(page, 1, n, f);
		page += n;
		len -= n;
		if (!len)
			break;
		r = put_slot(&h, page, len, &n);
		page += n;
		len -= n;
	}
	if (r == 0 && (fflush(f) != 0 || ferror(f)))
		r = -EIO;
	return r;
}
