// SPDX-License-Identifier: Apache-2.0
/*
 * Lines from top to bottom: host and time, sums, tabs, column heads, rows, the last line of the log, keys. If
 * the terminal has too few lines, these are omitted, in this order: the line of the log, keys, tabs, host and
 * time, sums. Within an opened row, the line of tabs is the path that leads to it. Texts that are typed, and
 * notices, take the line of the keys, which is there in any case then.
 */
#include "agent/output/screen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/display_text.h"
#include "agent/output/screen_line.h"
#include "agent/output/screen_table.h"

#define MIN_ROWS 3u
#define GAP "   "
#define NARROW "  " /* separator in a line that must fit 80 columns */
#define ELLIPSIS "\xe2\x80\xa6"
#define CRUMB " \xe2\x80\xba "
#define CRUMB_COLUMNS 28u /* of one name in the path */
#define PATH_REST 32u	  /* columns behind the path */

static const char *const view_names[OUTPUT_LIVE_VIEWS_N] = {"functions", "processes", "containers"};

/* --- the lines around it */

struct draw {
	const struct output_screen_head *head;
	const struct output_screen *s;
	enum screen_table_kind kind;
	bool plain;
	struct output_live_query query;
	struct output_live_rows rows;
	struct output_live_sums sums;
	struct line line;
};

/* "4 s", "1:23", "2:03:04" */
static void put_time(struct line *l, uint64_t ns)
{
	uint64_t s = (ns + NS_PER_SEC / 2) / NS_PER_SEC;

	if (ns < 10 * NS_PER_SEC && ns % NS_PER_SEC / (NS_PER_SEC / 10) && ns < 2 * NS_PER_SEC)
		line_printf(l, "%.1f s", (double)ns / (double)NS_PER_SEC);
	else if (s < 60)
		line_printf(l, "%" PRIu64 " s", s);
	else if (s < 3600)
		line_printf(l, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	else
		line_printf(l, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

static void draw_title(struct draw *d)
{
	const struct output_screen_head *h = d->head;
	struct line *l = &d->line;

	line_style(l, LINE_BOLD);
	line_put(l, "proflet top");
	line_plain(l);
	line_put(l, GAP);
	line_put_foreign(l, h->host ? h->host : "");
	line_printf(l, GAP "%s" GAP "%" PRIu32 " Hz", h->time ? h->time : "", h->frequency_hz);
	if (h->event)
		line_printf(l, " (%s)", h->event);
	line_put(l, GAP "running ");
	put_time(l, h->running_ns);
	line_end(l);
}

static void draw_account(struct draw *d)
{
	const struct output_screen_head *h = d->head;
	struct line *l = &d->line;

	line_printf(l, "CPU %.0f%% of %u" NARROW "%.0f samples/s" NARROW, 100 * h->busy, h->n_cpus,
		    h->samples_per_second);
	if (h->dropped)
		line_style(l, LINE_RED);
	line_printf(l, "lost %" PRIu64, h->dropped);
	if (h->dropped)
		line_plain(l);
	if (h->dropped_ever)
		line_printf(l, " (%s since start)", h->drops ? h->drops : "");
	line_printf(l, NARROW "incomplete %.1f%%" NARROW,
		    screen_percent(d->sums.incomplete, d->sums.samples));
	if (d->query.since_start) /* some of these processes have ended */
		line_printf(l, "%zu processes ran", d->sums.n_processes);
	else
		line_printf(l, "%zu of %zu processes ran", d->sums.n_processes,
			    h->n_processes > d->sums.n_processes ? h->n_processes : d->sums.n_processes);
	line_end(l);
}

static void draw_period(struct draw *d)
{
	line_put(&d->line, d->query.since_start ? "since start, " : "last ");
	put_time(&d->line, d->sums.duration_ns);
}

/* Samples that are in no row. */
static void draw_left_out(struct draw *d)
{
	uint64_t forgotten = d->s->view == OUTPUT_LIVE_FUNCTIONS ? d->sums.forgotten_functions
								 : d->sums.forgotten_processes;

	if (d->query.since_start && forgotten)
		line_printf(&d->line, GAP "forgotten %.1f%%", screen_percent(forgotten, d->sums.samples));
	if (d->sums.merged)
		line_printf(&d->line, GAP "in [other] %" PRIu64, d->sums.merged);
	if (d->query.scope && d->sums.unkept)
		line_printf(&d->line, GAP "without a stack %.1f%%",
			    screen_percent(d->sums.unkept, d->sums.samples));
}

/* --- where the screen is */

/* A container as people know it. */
static void put_container(struct buf *b, const struct output_screen_place *p)
{
	if (p->container_name[0])
		(void)buf_puts(b, p->container_name);
	else
		(void)buf_printf(b, "%.12s", p->container[0] ? p->container : "host");
}

/* One step of the path; long names lose their end. */
static void put_place(struct buf *b, const struct output_screen_place *p)
{
	if (p->subject == OUTPUT_SCREEN_CONTAINER) {
		put_container(b, p);
		return;
	}
	(void)buf_printf(b, "%.*s", (int)output_text_fit(p->name, CRUMB_COLUMNS), p->name);
	if (p->name[output_text_fit(p->name, CRUMB_COLUMNS)])
		(void)buf_puts(b, ELLIPSIS);
	if (p->subject == OUTPUT_SCREEN_PROCESS)
		(void)buf_printf(b, " %u", p->pid);
}

/* "processes › app 10 › f8", from the given level on. */
static void put_path(struct buf *b, const struct output_screen *s, size_t from)
{
	buf_clear(b);
	(void)buf_puts(b, from ? ELLIPSIS : view_names[s->view]);
	for (size_t i = from; i < s->n_levels; i++) {
		(void)buf_puts(b, CRUMB);
		put_place(b, &s->levels[i].place);
	}
}

/* The path; if it is too long, its end. */
static void draw_path(struct draw *d)
{
	size_t room = d->line.columns > 2 * PATH_REST ? d->line.columns - PATH_REST : d->line.columns;
	_cleanup_buf_ struct buf b = {0};
	size_t from = 0;

	put_path(&b, d->s, 0);
	while (output_text_width(buf_str(&b)) > room && from + 1 < d->s->n_levels)
		put_path(&b, d->s, ++from);
	line_style(&d->line, LINE_BOLD);
	line_put(&d->line, buf_str(&b));
	line_plain(&d->line);
	line_printf(&d->line, NARROW "%.1f%%" NARROW,
		    screen_percent(d->rows.whole, d->sums.samples - d->sums.unkept));
}

static void draw_views(struct draw *d)
{
	struct line *l = &d->line;

	for (unsigned i = 0; i < OUTPUT_LIVE_VIEWS_N; i++) {
		bool here = i == (unsigned)d->s->view;

		if (here)
			line_style(l, LINE_BOLD);
		line_printf(l, here ? "[%u %s]" : " %u %s ", i + 1, view_names[i]);
		if (here)
			line_plain(l);
	}
	line_put(l, GAP);
}

static void draw_tabs(struct draw *d)
{
	struct line *l = &d->line;

	if (d->s->n_levels)
		draw_path(d);
	else
		draw_views(d);
	draw_period(d);
	if (d->s->filter[0] && !d->s->editing) {
		line_put(l, GAP "/");
		line_put_foreign(l, d->s->filter);
	}
	if (d->s->paused) {
		line_put(l, GAP);
		line_style(l, LINE_REVERSE);
		line_put(l, " paused ");
		line_plain(l);
		line_printf(l, " %" PRIu64 " samples left out", d->head->left_out);
	} else if (d->rows.n) {
		size_t last = d->s->scroll + d->s->page;

		line_printf(l, GAP "%zu-%zu of %zu", d->s->scroll + 1, last < d->rows.n ? last : d->rows.n,
			    d->rows.n);
	}
	draw_left_out(d);
	line_end(l);
}

static void draw_key(struct line *l, const char *key, const char *what)
{
	line_style(l, LINE_BOLD);
	line_put(l, key);
	line_plain(l);
	line_printf(l, " %s  ", what);
}

/* A text that is typed, and what to do then. */
static void draw_prompt(struct line *l, const char *what, const char *text, const char *hint)
{
	line_put(l, what);
	line_put_foreign(l, text);
	line_style(l, LINE_REVERSE);
	line_put(l, l->colour ? " " : "_");
	line_plain(l);
	line_put(l, hint);
}

/* The last line, which has no newline. */
static void draw_keys(struct draw *d)
{
	bool functions = d->s->view == OUTPUT_LIVE_FUNCTIONS || d->s->n_levels;
	struct line *l = &d->line;

	if (d->s->notice[0]) {
		line_put_foreign(l, d->s->notice);
		return;
	}
	if (d->s->naming) {
		draw_prompt(l, "write to: ", d->s->path,
			    "   (Enter writes .html .folded .pb.gz .otlp, Esc not)");
		return;
	}
	if (d->s->editing) {
		draw_prompt(l, "filter: ", d->s->filter, "   (Enter keeps it, Esc clears it)");
		return;
	}
	draw_key(l, "q", "quit");
	draw_key(l, "h", "help");
	draw_key(l, "Enter", "open");
	if (d->s->n_levels)
		draw_key(l, "Esc", "back");
	else
		draw_key(l, "Tab", "view");
	draw_key(l, "/", "filter");
	draw_key(l, "w", "write");
	draw_key(l, "p", d->s->paused ? "go on" : "pause");
	if (functions && d->kind != SCREEN_CALLS)
		draw_key(l, "s", d->s->by_total ? "by self" : "by total");
	if (!d->s->n_levels)
		draw_key(l, "c", d->s->since_start ? "last seconds" : "since start");
}

static void draw_empty(struct draw *d)
{
	line_put(&d->line, d->s->filter[0]	 ? "  nothing here has the filter's text in it"
			   : d->s->n_levels	 ? "  nothing of this ran in the last seconds"
			   : d->sums.duration_ns ? "  nothing ran"
						 : "  waiting for the first samples");
	line_end(&d->line);
}

static const char *const help[] = {
	"  Enter, Right     open the row: a function's",
	"                   callers and callees;",
	"                   a process's or a",
	"                   container's functions",
	"  Esc, Backspace   back",
	"  arrows, j k, PageUp, PageDown, Home, End",
	"  1 2 3, Tab       functions, processes,",
	"                   containers",
	"  s                by SELF% or by TOTAL%",
	"  c                last seconds, or since start",
	"  /                only rows with a text in them; Esc clears it",
	"  p, Space         pause; what is sampled meanwhile is left out",
	"  w                write the last seconds as a recording: what the rows",
	"                   here are made of, with the filter",
	"  q, Ctrl-C        quit (Esc, too, where there is no way back)",
	"",
	"  SELF%, TOTAL%    samples in the function itself; in it or in what it called",
	"  SHARE%, CPU%     part of all samples; 100 is one CPU, busy all the time",
	"  called by, calls SHARE%: part of the function's samples; TOTAL%: of all",
	"  TOP FUNCTION     where most of them were, and what part of the row's",
	"  CONTAINER        where it ran most; +: in others, too; host: in none",
	"  [no name in X]   X has no symbol there; [code of no file]: made at run time",
	"  lost             samples that did not get here, in the last interval",
	"  incomplete       samples whose stack could not be followed to its root",
	"",
	"  Arrows scroll, any other key goes back.",
};

static void draw_help(struct draw *d, struct output_screen *s, size_t lines)
{
	size_t most = ARRAY_SIZE(help) > lines ? ARRAY_SIZE(help) - lines : 0;

	if (s->help_scroll > most)
		s->help_scroll = most;
	for (size_t i = 0; i < lines; i++) {
		if (s->help_scroll + i < ARRAY_SIZE(help))
			line_put(&d->line, help[s->help_scroll + i]);
		line_end(&d->line);
	}
}

/*
 * Number of samples that one busy CPU produces in the time that the rows cover. Some samples of that time
 * still wait for names, so the number is scaled down to those that have arrived.
 */
static double samples_of_a_cpu(const struct draw *d)
{
	double samples = d->head->frequency_hz * ((double)d->sums.duration_ns / (double)NS_PER_SEC);

	return d->sums.arrived ? samples * (double)d->sums.samples / (double)d->sums.arrived : samples;
}

/* What a line of the table can be opened as. */
static void select_row(struct output_screen *s, const struct output_live_row *row,
		       enum screen_table_kind kind)
{
	struct output_screen_place *p = &s->selected;
	bool function = kind == SCREEN_FUNCTIONS || kind == SCREEN_CALLS;

	p->subject = kind == SCREEN_PROCESSES	       ? OUTPUT_SCREEN_PROCESS
		     : kind == SCREEN_CONTAINERS       ? OUTPUT_SCREEN_CONTAINER
		     : row->role == OUTPUT_LIVE_ITSELF ? OUTPUT_SCREEN_NO_SUBJECT /* it is open */
						       : OUTPUT_SCREEN_FUNCTION;
	p->pid = row->pid;
	snprintf(p->name, sizeof p->name, "%s", row->name);
	snprintf(p->module, sizeof p->module, "%s", row->module);
	snprintf(p->container, sizeof p->container, "%s", function ? "" : row->container);
	snprintf(p->container_name, sizeof p->container_name, "%s", function ? "" : row->container_name);
}

static void draw_rows(struct draw *d, struct output_screen *s, size_t n, bool heads)
{
	struct screen_table t;
	size_t i = 0;

	screen_table_init(&t, d->kind, &d->rows, d->line.columns);
	t.samples = d->rows.whole;
	t.all = d->sums.samples - d->sums.unkept;
	t.samples_of_a_cpu = samples_of_a_cpu(d);
	t.by_total = s->by_total;
	if (heads)
		screen_table_heads(&t, &d->line);
	if (!d->rows.n && n) {
		draw_empty(d);
		i++;
	}
	for (; i < n; i++) {
		size_t row = s->scroll + i;
		bool selected = !d->plain && row == s->cursor;

		if (row < d->rows.n)
			screen_table_row(&t, &d->rows.rows[row], selected, &d->line);
		line_end(&d->line);
	}
}

/* Keeps the cursor within the rows, and the visible ones around the cursor. */
static void clamp(struct draw *d, struct output_screen *s, size_t page)
{
	size_t n = d->rows.n, most = n > page ? n - page : 0;

	s->page = page;
	if (s->cursor >= n)
		s->cursor = n ? n - 1 : 0;
	if (s->scroll > s->cursor)
		s->scroll = s->cursor;
	if (page && s->scroll + page <= s->cursor)
		s->scroll = s->cursor - page + 1;
	if (s->scroll > most)
		s->scroll = most;
	s->selected.subject = OUTPUT_SCREEN_NO_SUBJECT;
	if (n)
		select_row(s, &d->rows.rows[s->cursor], d->kind);
}

static void draw_screen(struct draw *d, struct output_screen *s, size_t lines)
{
	/* room goes to the rows first, then to column heads, sums, title, tabs, keys and message */
	bool said = s->naming || s->editing || s->notice[0];
	bool message = d->head->message && lines >= MIN_ROWS + 5;
	bool account = lines >= MIN_ROWS + 1, heads = lines >= MIN_ROWS,
	     keys = lines >= MIN_ROWS + 4 || (said && lines > 1), tabs = lines >= MIN_ROWS + 3,
	     title = lines >= MIN_ROWS + 2;
	size_t used;

	if (keys && lines < MIN_ROWS + 4) /* in place of the heads */
		heads = false;
	used = (size_t)title + account + tabs + heads + keys + message;
	clamp(d, s, lines - used);
	if (title)
		draw_title(d);
	if (account)
		draw_account(d);
	if (tabs)
		draw_tabs(d);
	if (s->help)
		draw_help(d, s, lines - used + heads);
	else
		draw_rows(d, s, lines - used, heads);
	if (message) {
		line_put_foreign(&d->line, d->head->message);
		line_end(&d->line);
	}
	if (keys)
		draw_keys(d);
}

static void draw_plain(struct draw *d, struct output_screen *s, size_t lines)
{
	clamp(d, s, lines);
	draw_title(d);
	draw_account(d);
	draw_period(d);
	draw_left_out(d);
	line_end(&d->line);
	draw_rows(d, s, d->rows.n < lines ? (d->rows.n ? d->rows.n : 1) : lines, true);
	line_end(&d->line);
}

static enum screen_table_kind kind_of(const struct output_screen *s, const struct output_live_scope *scope)
{
	if (s->n_levels)
		return scope->function ? SCREEN_CALLS : SCREEN_FUNCTIONS;
	return s->view == OUTPUT_LIVE_FUNCTIONS	  ? SCREEN_FUNCTIONS
	       : s->view == OUTPUT_LIVE_PROCESSES ? SCREEN_PROCESSES
						  : SCREEN_CONTAINERS;
}

int output_screen_draw(struct output_live *l, const struct output_screen_head *head, struct output_screen *s,
		       const struct output_screen_size *size, struct buf *out)
{
	struct output_live_scope scope;
	struct draw d = {
		.head = head,
		.s = s,
		.query = output_screen_query(s, &scope),
		.plain = size->plain,
		.line = {.out = out, .columns = size->columns, .colour = size->colour},
	};
	int r = output_live_rows(l, &d.query, &d.rows);

	if (r < 0)
		return r;
	d.kind = kind_of(s, &scope);
	output_live_sums(l, d.query.since_start, &d.sums);
	if (size->plain)
		draw_plain(&d, s, size->lines);
	else if (size->lines)
		draw_screen(&d, s, size->lines);
	output_live_rows_fini(&d.rows);
	return d.line.error;
}
