// SPDX-License-Identifier: Apache-2.0
#include "agent/output/screen_table.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/base/frame.h"
#include "agent/output/display_text.h"
#include "agent/output/screen_line.h"

#define NUMBERS_WIDTH 16u	/* columns of numbers for functions: two percentages */
#define GROUP_NUMBERS_WIDTH 25u /* for processes and containers: three */
#define COLUMN_GAP 2u
#define ROLE_COLUMNS 9u /* "called by" */
#define ID_DIGITS 12	/* of a container's id, as docker shows them */
#define WIDE 60u	/* with fewer columns, only the most important ones are shown */
#define NAME_COLUMNS 32u
#define CONTAINER_BYTES 128u
#define HOT 10.0 /* percent; rows with this much or more are highlighted */

/* The container's name, else its id. */
static void container_text(const struct output_live_row *row, char ret[static CONTAINER_BYTES])
{
	const char *name = row->container_name;
	size_t n = output_text_fit(name, NAME_COLUMNS);

	if (n > CONTAINER_BYTES - 2)
		n = 0; /* the name would be too long */
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

void screen_table_init(struct screen_table *t, enum screen_table_kind kind,
		       const struct output_live_rows *rows, size_t columns)
{
	bool functions = kind == SCREEN_FUNCTIONS || kind == SCREEN_CALLS;
	size_t numbers = functions ? NUMBERS_WIDTH : GROUP_NUMBERS_WIDTH;
	size_t room = columns > numbers ? columns - numbers : 0;

	*t = (struct screen_table){.kind = kind};
	if (kind == SCREEN_CALLS) {
		t->role = columns < WIDE ? 1 : ROLE_COLUMNS;
		room = room > t->role + COLUMN_GAP ? room - t->role - COLUMN_GAP : 0;
	}
	t->name = room;
	if (columns < WIDE)
		return;
	if (kind != SCREEN_CONTAINERS && has_containers(rows)) {
		t->container = ID_DIGITS + 1;
		room -= t->container + COLUMN_GAP;
	}
	if (functions) {
		t->module = room / 4 < 24 ? room / 4 : 24;
		t->name = room - t->module - COLUMN_GAP;
	} else { /* the remaining width is for the top function */
		t->name = kind == SCREEN_PROCESSES ? 15 : ID_DIGITS + (columns >= 100 ? 12 : 0);
	}
}

static void heads_of_functions(const struct screen_table *t, struct line *l)
{
	if (t->kind == SCREEN_CALLS) {
		line_put(l, "SHARE%  TOTAL%  ");
		line_cell(l, "", t->role + COLUMN_GAP);
	} else {
		line_printf(l, "%sSELF%% %sTOTAL%%  ", t->by_total ? " " : ">", t->by_total ? ">" : " ");
	}
	line_cell(l, "FUNCTION", t->name);
	if (!t->module)
		return;
	line_put(l, "  ");
	line_cell(l, "MODULE", t->module);
}

void screen_table_heads(const struct screen_table *t, struct line *l)
{
	bool functions = t->kind == SCREEN_FUNCTIONS || t->kind == SCREEN_CALLS;

	line_style(l, LINE_REVERSE);
	if (functions) {
		heads_of_functions(t, l);
	} else {
		line_put(l, t->kind == SCREEN_PROCESSES ? "SHARE%    CPU%      PID  "
							: "SHARE%    CPU%    PROCS  ");
		line_cell(l, t->kind == SCREEN_PROCESSES ? "PROCESS" : "CONTAINER", t->name);
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

static void put_share(const struct screen_table *t, uint64_t samples, bool selected, struct line *l)
{
	double share = screen_percent(samples, t->samples);

	if (share >= HOT)
		line_style(l, LINE_BOLD);
	line_printf(l, "%c%5.1f", selected ? '>' : ' ', share);
	if (share >= HOT)
		line_plain(l);
}

/* A name in the colour of its kind of code. */
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

/* What the row is to the function whose callers and callees are shown. */
static void put_role(const struct screen_table *t, enum output_live_role role, struct line *l)
{
	static const char *const words[] = {"", "called by", "itself", "calls"};
	static const char *const signs[] = {"", "\xe2\x86\x91", "=", "\xe2\x86\x93"};

	line_cell(l, t->role < ROLE_COLUMNS ? signs[role] : words[role], t->role);
	line_put(l, "  ");
}

static void function_row(const struct screen_table *t, const struct output_live_row *row, bool selected,
			 struct line *l)
{
	put_share(t, row->self, selected, l);
	line_put(l, "  ");
	line_printf(l, "%6.1f  ", screen_percent(row->total, t->kind == SCREEN_CALLS ? t->all : t->samples));
	if (t->role)
		put_role(t, row->role, l);
	put_name(row->name, row->kind, t->name, l);
	if (t->module) {
		line_put(l, "  ");
		line_cell(l, row->module, t->module);
	}
	if (t->container && row->most)
		put_container(t, row, l);
}

static void group_row(const struct screen_table *t, const struct output_live_row *row, bool selected,
		      struct line *l)
{
	bool processes = t->kind == SCREEN_PROCESSES;
	char container[CONTAINER_BYTES];

	put_share(t, row->self, selected, l);
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

static void put_row(const struct screen_table *t, const struct output_live_row *row, bool selected,
		    struct line *l)
{
	if (t->kind == SCREEN_FUNCTIONS || t->kind == SCREEN_CALLS)
		function_row(t, row, selected, l);
	else
		group_row(t, row, selected, l);
}

void screen_table_row(const struct screen_table *t, const struct output_live_row *row, bool selected,
		      struct line *l)
{
	bool colour = l->colour;

	if (!selected) {
		put_row(t, row, false, l);
		return;
	}
	line_style(l, LINE_REVERSE);
	l->colour = false; /* other styles would end it */
	put_row(t, row, true, l);
	if (colour)
		line_fill(l, l->columns);
	l->colour = colour;
	line_plain(l);
}
