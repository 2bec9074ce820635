// SPDX-License-Identifier: Apache-2.0
#include "agent/output/top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/profile_private.h"
#include "agent/output/display_text.h"
#include "agent/output/sheet.h"
#include "agent/output/walk.h"

#define NUMBERS_WIDTH 26 /* three numbers and the gaps after them */

static const struct sheet_columns limits = {.min = 80, .max = 120, .otherwise = 100};

/* One line of any of the tables. */
struct row {
	uint32_t id, second; /* ids of what the row shows: function; process name; container and its name */
	uint32_t on_path;    /* occurrences on the current path: recursion counts once */
	uint32_t n_pids;
	uint32_t n_folded; /* folded processes, which have no pids */
	uint64_t self, total;
};

struct top {
	const struct output_profile *p;
	struct sheet sheet;
	struct output_top_options options; /* defaults filled in */
	struct row *rows;		   /* owned */
	size_t n;
};

static void top_fini(struct top *t)
{
	free(t->rows);
}

static int enter(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct top *t = data;

	(void)depth;
	t->rows[function].on_path++;
	t->rows[function].self += self;
	return 0;
}

static int leave(void *data, uint32_t function, size_t depth, uint64_t total)
{
	struct top *t = data;

	(void)depth;
	if (--t->rows[function].on_path == 0)
		t->rows[function].total += total;
	return 0;
}

static int by_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->id > y->id) - (x->id < y->id);
}

/* `s` in exactly `width` columns (a last column is not padded); what does not fit is cut from its middle. */
static void put_cell(const struct top *t, const char *s, size_t width, bool last)
{
	size_t n = output_text_columns(s);

	if (n > width) {
		size_t head = (width - 1) * 2 / 3, tail = width - 1 - head;

		fwrite(s, 1, output_text_bytes(s, head), t->sheet.f);
		fprintf(t->sheet.f, "\xe2\x80\xa6%s", s + output_text_bytes(s, n - tail));
		n = width;
	} else {
		fputs(s, t->sheet.f);
	}
	if (!last)
		fprintf(t->sheet.f, "%*s", (int)(width - n), "");
}

static double percent(const struct top *t, uint64_t samples)
{
	return t->p->n_samples ? 100.0 * (double)samples / (double)t->p->n_samples : 0;
}

static int count_functions(struct top *t)
{
	static const struct output_walk_ops ops = {.enter = enter, .leave = leave};
	uint32_t n_groups = output_table_len(&t->p->groups);
	_cleanup_free_ const struct output_group **groups = calloc(n_groups, sizeof *groups);

	t->n = output_table_len(&t->p->functions) + 1;
	t->rows = calloc(t->n, sizeof *t->rows);
	if (!groups || !t->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n; i++)
		t->rows[i].id = i;
	for (uint32_t i = 0; i < n_groups; i++)
		groups[i] = output_group_of(t->p, i + 1);
	return output_walk(t->p, groups, n_groups, &ops, t);
}

static void put_functions(struct top *t)
{
	size_t room = t->sheet.columns - NUMBERS_WIDTH;
	size_t module_width = room / 4, name_width = room - module_width - 2;

	qsort(t->rows, t->n, sizeof *t->rows, by_self);
	fprintf(t->sheet.f, "%s SELF%%  TOTAL%%   SAMPLES  ", sheet_style(&t->sheet, SHEET_BOLD));
	put_cell(t, "FUNCTION", name_width, false);
	fprintf(t->sheet.f, "  MODULE%s\n", sheet_style(&t->sheet, SHEET_PLAIN));
	for (size_t i = 0; i < t->n && i < t->options.n_functions && t->rows[i].self; i++) {
		const struct row *row = &t->rows[i];
		const struct output_function *f = output_function_of(t->p, row->id);
		const char *origin = output_function_origin(t->p, f);

		fprintf(t->sheet.f, "%6.2f  %6.2f  %8" PRIu64 "  ", percent(t, row->self),
			percent(t, row->total), row->self);
		put_cell(t, output_string_text(t->p, f->name), name_width, !*origin);
		if (*origin) {
			fprintf(t->sheet.f, "  %s", sheet_style(&t->sheet, SHEET_DIM));
			put_cell(t, origin, module_width, true);
			fputs(sheet_style(&t->sheet, SHEET_PLAIN), t->sheet.f);
		}
		fputc('\n', t->sheet.f);
	}
}

static int by_id(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->n_pids > y->n_pids) - (x->n_pids < y->n_pids);
}

/*
 * One row per distinct id of the groups, with the number of distinct pids in it: `n_pids` first carries the
 * group's pid, by which the sort brings equal ones together.
 */
static int count_groups(struct top *t, bool containers)
{
	size_t n = 0;

	free(t->rows);
	t->n = 0;
	t->rows = calloc(output_table_len(&t->p->groups), sizeof *t->rows);
	if (!t->rows)
		return -ENOMEM;
	for (uint32_t id = 1; id <= output_table_len(&t->p->groups); id++) {
		const struct output_group *g = output_group_of(t->p, id);

		if (g->n_samples)
			t->rows[t->n++] = (struct row){.id = containers ? g->container : g->process,
						       .second = g->container_name,
						       .n_pids = g->pid,
						       .n_folded = g->n_folded,
						       .self = g->n_samples};
	}
	qsort(t->rows, t->n, sizeof *t->rows, by_id);
	for (size_t i = 0; i < t->n; n++) {
		struct row sum = {.id = t->rows[i].id, .second = t->rows[i].second};
		uint32_t pid = 0;

		for (; i < t->n && t->rows[i].id == sum.id; i++) {
			sum.n_pids += t->rows[i].n_folded ?: !sum.n_pids || t->rows[i].n_pids != pid;
			pid = t->rows[i].n_pids;
			sum.self += t->rows[i].self;
		}
		t->rows[n] = sum;
	}
	t->n = n;
	qsort(t->rows, t->n, sizeof *t->rows, by_self);
	return 0;
}

static int put_groups(struct top *t, bool containers)
{
	size_t width = t->sheet.columns - NUMBERS_WIDTH;
	int r = count_groups(t, containers);

	if (r < 0)
		return r;
	if (containers && t->n == 1 && !t->rows[0].id)
		return 0; /* only the host: nothing to compare */
	fprintf(t->sheet.f, "\n%sSHARE%%    PIDS   SAMPLES  %s%s\n", sheet_style(&t->sheet, SHEET_BOLD),
		containers ? "CONTAINER" : "PROCESS", sheet_style(&t->sheet, SHEET_PLAIN));
	for (size_t i = 0; i < t->n && i < t->options.n_groups; i++) {
		const struct row *row = &t->rows[i];
		const char *id = output_string_text(t->p, row->id),
			   *name = output_string_text(t->p, row->second);

		fprintf(t->sheet.f, "%6.2f  %6" PRIu32 "  %8" PRIu64 "  ", percent(t, row->self), row->n_pids,
			row->self);
		if (!containers) {
			put_cell(t, id, width, true);
		} else if (!*id) {
			fputs("host", t->sheet.f);
		} else {
			fprintf(t->sheet.f, "%.12s%s", id, *name ? "  " : "");
			put_cell(t, name, width - 14, true);
		}
		fputc('\n', t->sheet.f);
	}
	if (t->n > t->options.n_groups)
		fprintf(t->sheet.f, "%26sand %zu more\n", "", t->n - t->options.n_groups);
	return 0;
}

static void put_summary(const struct top *t)
{
	const struct output_info *info = &t->p->info;

	fprintf(t->sheet.f, "\n%s%" PRIu64 " samples", sheet_style(&t->sheet, SHEET_DIM), t->p->n_samples);
	if (info->duration_ns)
		fprintf(t->sheet.f, ", %.1f s", (double)info->duration_ns / 1e9);
	if (info->frequency_hz)
		fprintf(t->sheet.f, " at %" PRIu32 " Hz", info->frequency_hz);
	fprintf(t->sheet.f, ", %.1f %% complete stacks, %" PRIu64 " dropped", percent(t, t->p->n_complete),
		info->n_dropped);
	if (t->p->n_merged)
		fprintf(t->sheet.f, ", %" PRIu64 " merged into [other]", t->p->n_merged);
	fprintf(t->sheet.f, "%s\n", sheet_style(&t->sheet, SHEET_PLAIN));
}

static void set_options(struct top *t, const struct output_top_options *options)
{
	t->options = *options;
	t->options.n_functions = options->n_functions ? options->n_functions : 20;
	t->options.n_groups = options->n_groups ? options->n_groups : 8;
}

int output_top_write(const struct output_profile *p, const struct output_top_options *options, FILE *f)
{
	_cleanup_(top_fini) struct top t = {.p = p,
					    .sheet = sheet_of(f, options->columns, &limits, options->colour)};
	int r;

	set_options(&t, options);
	r = count_functions(&t);
	if (r < 0)
		return r;
	put_functions(&t);
	r = put_groups(&t, false);
	if (r == 0)
		r = put_groups(&t, true);
	if (r < 0)
		return r;
	put_summary(&t);
	return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}
