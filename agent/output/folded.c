// SPDX-License-Identifier: Apache-2.0
/*
 * Groups are sorted by their prefix. Each run of equal prefixes is walked as one tree; its lines are
 * collected, sorted and written. So the lines of only one process are in memory at a time, and the output is
 * sorted as a whole, since every line starts with its prefix and a ";".
 */
#include "agent/output/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/display_text.h"
#include "agent/output/profile_private.h"
#include "agent/output/walk.h"

struct prefixed {
	char *prefix; /* owned, ends in ';' */
	const struct output_group *group;
};

struct line {
	size_t offset; /* of the stack's text in folded.text, NUL terminated */
	uint64_t count;
};

struct folded {
	const struct output_profile *p;
	struct prefixed *groups; /* owned */
	size_t n_groups;
	struct buf stack; /* "a;b;c;" of the frames entered */
	struct buf marks; /* size_t per frame: stack.len before it */
	struct buf text;  /* the stacks of all lines of the run */
	struct buf lines; /* struct line */
};

static void folded_fini(struct folded *o)
{
	for (size_t i = 0; i < o->n_groups; i++)
		free(o->groups[i].prefix);
	free(o->groups);
	buf_fini(&o->stack);
	buf_fini(&o->marks);
	buf_fini(&o->text);
	buf_fini(&o->lines);
}

/*
 * Appends `name`, " (file)" if the file is not "", the suffix and a ';'. Names were cleaned before and
 * contain no newline.
 */
static int append_name(struct buf *b, const char *name, const char *file, const char *suffix)
{
	size_t start = b->len;
	int r;

	r = buf_printf(b, *file ? "%s (%s)%s;" : "%s%s%s;", name, file, suffix);
	for (size_t i = start; r == 0 && i + 1 < b->len; i++)
		if (b->data[i] == ';')
			b->data[i] = ':';
	return r;
}

static int enter(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct folded *o = data;
	const struct output_function *f = output_function_of(o->p, function);
	struct line line = {.offset = o->text.len, .count = self};
	const char *file = f->runtime ? output_text_file(output_string_text(o->p, f->file)) : "";
	size_t mark = o->stack.len;
	int r;

	(void)depth;
	r = buf_append(&o->marks, &mark, sizeof mark);
	if (r == 0)
		r = append_name(&o->stack, output_string_text(o->p, f->name), file,
				f->kind == FRAME_KERNEL ? "_[k]" : "");
	if (r < 0 || !self)
		return r;
	r = buf_append(&o->text, o->stack.data, o->stack.len - 1);
	if (r == 0)
		r = buf_putc(&o->text, '\0');
	return r < 0 ? r : buf_append(&o->lines, &line, sizeof line);
}

static int leave(void *data, uint32_t function, size_t depth, uint64_t total)
{
	struct folded *o = data;

	(void)function, (void)depth, (void)total;
	o->marks.len -= sizeof(size_t);
	memcpy(&o->stack.len, o->marks.data + o->marks.len, sizeof(size_t));
	return 0;
}

static int compare_lines(const void *a, const void *b, void *data)
{
	const struct line *x = a, *y = b;
	const char *text = data;

	return strcmp(text + x->offset, text + y->offset);
}

static void write_lines(const struct folded *o, const char *prefix, FILE *f)
{
	struct line *lines = (struct line *)o->lines.data;
	size_t n = o->lines.len / sizeof *lines;
	char *text = (char *)o->text.data;

	if (n)
		qsort_r(lines, n, sizeof *lines, compare_lines, text);
	for (size_t i = 0; i < n; i++) {
		uint64_t count = lines[i].count;

		/* functions of two modules may have the same name */
		while (i + 1 < n && !strcmp(text + lines[i].offset, text + lines[i + 1].offset))
			count += lines[++i].count;
		fprintf(f, "%s%s %" PRIu64 "\n", prefix, text + lines[i].offset, count);
	}
}

static int add_prefix(struct folded *o, const struct output_group *g,
		      const struct output_folded_options *options)
{
	_cleanup_buf_ struct buf b = {0};
	const char *name = output_string_text(o->p, g->container_name);
	const char *id = output_string_text(o->p, g->container);
	const char *thread = output_string_text(o->p, g->thread);
	char *prefix;
	int r = 0;

	if (options->by_container && !*name && *id) {
		r = buf_printf(&b, "%.12s;", id);
	} else if (options->by_container) {
		r = append_name(&b, *name ? name : "host", "", "");
	}
	if (r == 0)
		r = append_name(&b, output_string_text(o->p, g->process), "", "");
	if (r == 0 && options->by_thread)
		r = append_name(&b, *thread ? thread : "[unknown]", "", "");
	if (r < 0)
		return r;
	prefix = strdup(buf_str(&b));
	if (!prefix)
		return -ENOMEM;
	o->groups[o->n_groups++] = (struct prefixed){prefix, g};
	return 0;
}

static int compare_prefixes(const void *a, const void *b)
{
	const struct prefixed *x = a, *y = b;

	return strcmp(x->prefix, y->prefix);
}

static int write_run(struct folded *o, size_t first, size_t end, FILE *f)
{
	static const struct output_walk_ops ops = {.enter = enter, .leave = leave};
	_cleanup_free_ const struct output_group **run = calloc(end - first, sizeof *run);
	int r;

	if (!run)
		return -ENOMEM;
	for (size_t i = first; i < end; i++)
		run[i - first] = o->groups[i].group;
	buf_clear(&o->stack);
	buf_clear(&o->marks);
	buf_clear(&o->text);
	buf_clear(&o->lines);
	r = output_walk(o->p, run, end - first, &ops, o);
	if (r == 0)
		write_lines(o, o->groups[first].prefix, f);
	return r;
}

int output_folded_write(const struct output_profile *p, const struct output_folded_options *options, FILE *f)
{
	_cleanup_(folded_fini) struct folded o = {.p = p};
	uint32_t n = output_table_len(&p->groups);
	int r = 0;

	o.groups = calloc(n, sizeof *o.groups);
	if (!o.groups)
		return -ENOMEM;
	for (uint32_t id = 1; id <= n && r == 0; id++)
		r = add_prefix(&o, output_group_of(p, id), options);
	if (r < 0)
		return r;
	qsort(o.groups, o.n_groups, sizeof *o.groups, compare_prefixes);
	for (size_t i = 0, end; i < o.n_groups && r == 0; i = end) {
		for (end = i + 1; end < o.n_groups && !strcmp(o.groups[end].prefix, o.groups[i].prefix);
		     end++)
			;
		r = write_run(&o, i, end, f);
	}
	if (r == 0 && (fflush(f) != 0 || ferror(f)))
		r = -EIO;
	return r;
}
