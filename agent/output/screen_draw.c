// SPDX-License-Identifier: Apache-2.0
/*
 * From the top: host and time; the account; the tabs; heads of columns; rows; the log's last line; keys. On a
 * low terminal the keys go first, then the tabs, then the account.
 */
#include "agent/output/screen.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/line.h"
#include "agent/output/screen_table.h"

#define MIN_ROWS 3u
#define GAP "   "
#define NARROW "  " /* where much has to stand in 80 columns */

struct draw {
	const struct output_screen_head *head;
	const struct output_screen *s;
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

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
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
	line_printf(l, NARROW "incomplete %.1f%%" NARROW, percent(d->sums.incomplete, d->sums.samples));
	if (d->s->since_start) /* some of them are over */
		line_printf(l, "%zu processes ran", d->sums.n_processes);
	else
		line_printf(l, "%zu of %zu processes ran", d->sums.n_processes,
			    h->n_processes > d->sums.n_processes ? h->n_processes : d->sums.n_processes);
	line_end(l);
}

static void draw_period(struct draw *d)
{
	line_put(&d->line, d->s->since_start ? "since start, " : "last ");
	put_time(&d->line, d->sums.duration_ns);
}

/* What of the recording is in no row. */
static void draw_left_out(struct draw *d)
{
	uint64_t forgotten = d->s->view == OUTPUT_LIVE_FUNCTIONS ? d->sums.forgotten_functions
								 : d->sums.forgotten_processes;

	if (d->s->since_start && forgotten)
		line_printf(&d->line, GAP "forgotten %.1f%%", percent(forgotten, d->sums.samples));
	if (d->sums.merged)
		line_printf(&d->line, GAP "in [other] %" PRIu64, d->sums.merged);
}

static void draw_tabs(struct draw *d)
{
	static const char *const names[OUTPUT_LIVE_VIEWS_N] = {"functions", "processes", "containers"};
	struct line *l = &d->line;

	for (unsigned i = 0; i < OUTPUT_LIVE_VIEWS_N; i++) {
		bool here = i == (unsigned)d->s->view;

		if (here)
			line_style(l, LINE_BOLD);
		line_printf(l, here ? "[%u %s]" : " %u %s ", i + 1, names[i]);
		if (here)
			line_plain(l);
	}
	line_put(l, GAP);
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

/* The last line: no newline behind it. */
static void draw_keys(struct draw *d)
{
	struct line *l = &d->line;

	if (d->s->editing) {
		line_put(l, "filter: ");
		line_put_foreign(l, d->s->filter);
		line_style(l, LINE_REVERSE);
		line_put(l, d->line.colour ? " " : "_");
		line_plain(l);
		line_put(l, "   (Enter keeps it, Esc clears it)");
		return;
	}
	draw_key(l, "q", "quit");
	draw_key(l, "h", "help");
	draw_key(l, "Tab", "view");
	if (d->s->view == OUTPUT_LIVE_FUNCTIONS)
		draw_key(l, "s", d->s->by_total ? "by self" : "by total");
	draw_key(l, "c", d->s->since_start ? "last seconds" : "since start");
	draw_key(l, "/", "filter");
	draw_key(l, "p", d->s->paused ? "go on" : "pause");
	draw_key(l, "\xe2\x86\x91\xe2\x86\x93", "scroll");
}

static void draw_empty(struct draw *d)
{
	line_put(&d->line, d->s->filter[0]	 ? "  nothing here has the filter's text in it"
			   : d->sums.duration_ns ? "  nothing ran"
						 : "  waiting for the first samples");
	line_end(&d->line);
}

static void draw_help(struct draw *d, size_t lines)
{
	static const char *const text[] = {
		"",
		"  1 2 3, Tab       functions, processes, containers",
		"  s                functions by SELF% or by TOTAL%",
		"  c                the last seconds, or everything since the start",
		"  /                only rows with a text in them; Esc clears it",
		"  p, Space         pause; what is sampled meanwhile is left out",
		"  arrows, PageUp, PageDown, Home, End",
		"  q, Esc, Ctrl-C   quit",
		"",
		"  SELF%, TOTAL%    samples in the function itself; in it or in what it called",
		"  SHARE%, CPU%     part of all samples; 100 is one CPU, busy all the time",
		"  TOP FUNCTION     where most of them were, and what part of the row's",
		"  CONTAINER        where it ran most; +: in others, too; host: in none",
		"  [no name in X]   X has no symbol there; [code of no file]: made at run time",
		"  lost             samples that did not get here, in the last interval",
		"  incomplete       samples whose stack could not be followed to its root",
		"",
		"  Any key goes back.",
	};

	for (size_t i = 0; i < lines; i++) {
		if (i < ARRAY_SIZE(text))
			line_put(&d->line, text[i]);
		line_end(&d->line);
	}
}

/* Of those in the rows. Time goes on while some of its samples wait for names: they are scaled to it. */
static double samples_of_a_cpu(const struct draw *d)
{
	double samples = d->head->frequency_hz * ((double)d->sums.duration_ns / (double)NS_PER_SEC);

	return d->sums.arrived ? samples * (double)d->sums.samples / (double)d->sums.arrived : samples;
}

static void draw_rows(struct draw *d, size_t n, bool heads)
{
	struct screen_table t;
	size_t i = 0;

	screen_table_init(&t, d->s->view, &d->rows, d->line.columns);
	t.samples = d->sums.samples;
	t.samples_of_a_cpu = samples_of_a_cpu(d);
	t.by_total = d->s->by_total;
	if (heads)
		screen_table_heads(&t, &d->line);
	if (!d->rows.n && n) {
		draw_empty(d);
		i++;
	}
	for (; i < n; i++) {
		if (d->s->scroll + i < d->rows.n)
			screen_table_row(&t, &d->rows.rows[d->s->scroll + i], &d->line);
		line_end(&d->line);
	}
}

static void clamp(struct output_screen *s, size_t n_rows, size_t page)
{
	size_t most = n_rows > page ? n_rows - page : 0;

	s->page = page;
	if (s->scroll > most)
		s->scroll = most;
}

static void draw_screen(struct draw *d, struct output_screen *s, size_t lines)
{
	/* heads of columns and keys are worth less than rows, the rest less than heads */
	bool message = d->head->message && lines >= MIN_ROWS + 5;
	bool account = lines >= MIN_ROWS + 1, heads = lines >= MIN_ROWS, keys = lines >= MIN_ROWS + 4,
	     tabs = lines >= MIN_ROWS + 3, title = lines >= MIN_ROWS + 2;
	size_t used = (size_t)title + account + tabs + heads + keys + message;

	clamp(s, d->rows.n, lines - used);
	if (title)
		draw_title(d);
	if (account)
		draw_account(d);
	if (tabs)
		draw_tabs(d);
	if (s->help)
		draw_help(d, lines - used + heads);
	else
		draw_rows(d, lines - used, heads);
	if (message) {
		line_put_foreign(&d->line, d->head->message);
		line_end(&d->line);
	}
	if (keys)
		draw_keys(d);
}

static void draw_plain(struct draw *d, struct output_screen *s, size_t lines)
{
	clamp(s, d->rows.n, lines);
	draw_title(d);
	draw_account(d);
	draw_period(d);
	draw_left_out(d);
	line_end(&d->line);
	draw_rows(d, d->rows.n < lines ? (d->rows.n ? d->rows.n : 1) : lines, true);
	line_end(&d->line);
}

int output_screen_draw(struct output_live *l, const struct output_screen_head *head, struct output_screen *s,
		       const struct output_screen_size *size, struct buf *out)
{
	const struct output_live_query q = {s->view, s->by_total, s->since_start, s->filter};
	struct draw d = {
		.head = head, .s = s, .line = {.out = out, .columns = size->columns, .colour = size->colour}};
	int r = output_live_rows(l, &q, &d.rows);

	if (r < 0)
		return r;
	output_live_sums(l, s->since_start, &d.sums);
	if (size->plain)
		draw_plain(&d, s, size->lines);
	else if (size->lines)
		draw_screen(&d, s, size->lines);
	output_live_rows_fini(&d.rows);
	return d.line.error;
}
