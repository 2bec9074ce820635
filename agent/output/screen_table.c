// SPDX-License-Identifier: Apache-2.0
#include "agent/output/screen_table.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/output/text.h"

#define NUMBERS_WIDTH 16u	/* of functions: two columns of percents */
#define GROUP_NUMBERS_WIDTH 25u /* of processes and containers: three */
#define GAP 2u
#define ID_DIGITS 12 /* of a container's id, as docker shows them */
#define WIDE 60u     /* columns from which there is more than the most needed */
#define NAME_COLUMNS 32u
#define CONTAINER_BYTES 128u
#define HOT 10.0 /* percent that stand out */

/* As it is known to people: its name, else its id. */
static void container_text(const struct output_live_row *row, char ret[static CONTAINER_BYTES])
{
	const char *name = row->container_name;
	size_t n = output_text_fit(name, NAME_COLUMNS);

	if (n > CONTAINER_BYTES - 2)
		n = 0; /* hardly a name */
	if (n)
		snprintf(ret, CONTAINER_BYTES, "%.*s%s", (int)n, name, row->elsewhere ? "+" : "");
	else
		snprintf(ret, CONTAINER_BYTES, "%.*s%s", ID_DIGITS,
			 row->container[0] ? row->container : "host", row->elsewhere ? "+" : "");
}

static bool has_containers(const struct output_live_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->rows[i].container[0])
			return true;
	return false;
}

void screen_table_init(struct screen_table *t, enum output_live_view view,
		       const struct output_live_rows *rows, size_t columns)
{
	size_t numbers = view == OUTPUT_LIVE_FUNCTIONS ? NUMBERS_WIDTH : GROUP_NUMBERS_WIDTH;
	size_t room = columns > numbers ? columns - numbers : 0;

	*t = (struct screen_table){.view = view, .name = room};
	if (columns < WIDE)
		return;
	if (view != OUTPUT_LIVE_CONTAINERS && has_containers(rows)) {
		t->container = ID_DIGITS + 1;
		room -= t->container + GAP;
	}
	if (view == OUTPUT_LIVE_FUNCTIONS) {
		t->module = room / 4 < 24 ? room / 4 : 24;
		t->name = room - t->module - GAP;
	} else { /* `name` is the top function's then */
		t->name = view == OUTPUT_LIVE_PROCESSES ? 15 : ID_DIGITS + (columns >= 100 ? 12 : 0);
	}
}

void screen_table_heads(const struct screen_table *t, struct line *l)
{
	bool functions = t->view == OUTPUT_LIVE_FUNCTIONS;

	line_style(l, LINE_REVERSE);
	if (functions) {
		line_printf(l, "%sSELF%% %sTOTAL%%  ", t->by_total ? " " : ">", t->by_total ? ">" : " ");
		line_cell(l, "FUNCTION", t->name);
	} else {
		line_put(l, t->view == OUTPUT_LIVE_PROCESSES ? "SHARE%    CPU%      PID  "
							     : "SHARE%    CPU%    PROCS  ");
		line_cell(l, t->view == OUTPUT_LIVE_PROCESSES ? "PROCESS" : "CONTAINER", t->name);
	}
	if (functions && t->module) {
		line_put(l, "  ");
		line_cell(l, "MODULE", t->module);
	}
	if (t->container) {
		line_put(l, "  ");
		line_cell(l, "CONTAINER", t->container);
	}
	if (!functions)
		line_put(l, "  TOP FUNCTION");
	line_fill(l, l->columns);
	line_plain(l);
	line_end(l);
}

static double percent(const struct screen_table *t, uint64_t samples)
{
	return t->samples ? 100.0 * (double)samples / (double)t->samples : 0;
}

static void put_share(const struct screen_table *t, uint64_t samples, struct line *l)
{
	double share = percent(t, samples);

	if (share >= HOT)
		line_style(l, LINE_BOLD);
	line_printf(l, "%6.1f", share);
	if (share >= HOT)
		line_plain(l);
}

/* A name in the colour of what it is. */
static void put_name(const char *name, enum frame_kind kind, size_t width, struct line *l)
{
	if (kind != FRAME_NATIVE)
		line_style(l, kind == FRAME_KERNEL ? LINE_MAGENTA : LINE_RED);
	line_cell(l, name, width);
	if (kind != FRAME_NATIVE)
		line_plain(l);
}

static void put_container(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	char text[CONTAINER_BYTES];

	container_text(row, text);
	line_put(l, "  ");
	line_cell(l, text, t->container);
}

static void function_row(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	put_share(t, row->self, l);
	line_put(l, "  ");
	line_printf(l, "%6.1f  ", percent(t, row->total));
	put_name(row->name, row->kind, t->name, l);
	if (t->module) {
		line_put(l, "  ");
		line_cell(l, row->module, t->module);
	}
	if (t->container && row->most)
		put_container(t, row, l);
}

static void group_row(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	bool processes = t->view == OUTPUT_LIVE_PROCESSES;
	char container[CONTAINER_BYTES];

	put_share(t, row->self, l);
	line_printf(l, "  %6.1f",
		    t->samples_of_a_cpu > 0 ? 100.0 * (double)row->self / t->samples_of_a_cpu : 0);
	line_printf(l, "  %7" PRIu32 "  ", processes ? row->pid : row->n_processes);
	container_text(row, container);
	line_cell(l, processes ? row->name : container, t->name);
	if (t->container)
		put_container(t, row, l);
	if (!row->top_self)
		return;
	line_printf(l, "  %3.0f%% ", 100.0 * (double)row->top_self / (double)row->self);
	put_name(row->top, row->kind, l->columns - l->used, l);
}

void screen_table_row(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	if (t->view == OUTPUT_LIVE_FUNCTIONS)
		function_row(t, row, l);
	else
		group_row(t, row, l);
}
