// SPDX-License-Identifier: Apache-2.0
/*
 * Lines from top to bottom: host and time, sums, tabs, column heads, rows, the last line of the log, keys. If
 * the terminal has too few lines, these are omitted, in this order: the line of the log, keys, tabs, host and
 * time, sums.
 */
#include "agent/output/screen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/display_text.h"
#include "agent/output/keyboard.h"

#define NUMBERS_WIDTH 16u	/* columns of numbers for functions: two percentages */
#define GROUP_NUMBERS_WIDTH 25u /* for processes and containers: three */
#define COLUMN_GAP 2u
#define ID_DIGITS 12 /* of a container's id, as docker shows them */
#define WIDE 60u     /* with fewer columns, only the most important ones are shown */
#define NAME_COLUMNS 32u
#define CONTAINER_BYTES 128u
#define HOT 10.0 /* percent; rows with this much or more are highlighted */
#define MIN_ROWS 3u
#define GAP "   "
#define NARROW "  " /* separator in a line that must fit 80 columns */
#define ELLIPSIS "\xe2\x80\xa6"
#define MAX_FOREIGN 512 /* bytes of a foreign text */

/* --- one line: text that does not fit is cut, styles take no columns */

/* SGR parameters that are readable on light and dark backgrounds. */
#define LINE_BOLD "1"
#define LINE_DIM "2"
#define LINE_REVERSE "7"
#define LINE_RED "31"
#define LINE_MAGENTA "35"

struct line {
	struct buf *out;
	size_t columns, used;
	bool colour;
	int error; /* the first one; nothing is written after it */
};

static void append(struct line *l, const char *s, size_t n)
{
	if (l->error == 0)
		l->error = buf_append(l->out, s, n);
}

static void line_style(struct line *l, const char *sgr)
{
	if (!l->colour)
		return;
	append(l, "\033[", 2);
	append(l, sgr, strlen(sgr));
	append(l, "m", 1);
}

static void line_plain(struct line *l)
{
	line_style(l, "0");
}

/* Writes cleaned text, cut at the end of the line. */
static void line_put(struct line *l, const char *s)
{
	size_t n = output_text_fit(s, l->columns - l->used);

	l->used += s[n] ? l->columns - l->used : output_text_width(s);
	append(l, s, n);
}

__attribute__((format(printf, 2, 3))) static void line_printf(struct line *l, const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	line_put(l, text);
}

/* Cleans foreign text and writes it. */
static void line_put_foreign(struct line *l, const char *s)
{
	_cleanup_buf_ struct buf clean = {0};

	if (output_text_clean(&clean, s, MAX_FOREIGN) < 0)
		l->error = -ENOMEM;
	else
		line_put(l, buf_str(&clean));
}

/* Writes blanks up to a column. */
static void line_fill(struct line *l, size_t column)
{
	for (; l->used < column && l->used < l->columns; l->used++)
		append(l, " ", 1);
}

/* The start of the last `columns` columns of a text of width `width`. */
static const char *tail_of(const char *s, size_t width, size_t columns)
{
	size_t n = output_text_fit(s, width - columns);

	while (output_text_width(s + n) > columns) /* a wide character lies across the cut */
		n += output_text_bytes(s + n, 1);
	return s + n;
}

/* Writes a text in exactly `width` columns, or up to the end of the line. Cuts a longer one in its middle. */
static void line_cell(struct line *l, const char *s, size_t width)
{
	size_t n = output_text_width(s), end;

	if (width > l->columns - l->used)
		width = l->columns - l->used;
	end = l->used + width;
	if (n > width && width) {
		size_t tail = (width - 1) / 3, head = width - 1 - tail;

		head = output_text_fit(s, head);
		append(l, s, head);
		append(l, ELLIPSIS, strlen(ELLIPSIS));
		l->used += n - output_text_width(s + head) + 1;
		s = tail_of(s, n, tail);
	}
	if (width)
		line_put(l, s);
	line_fill(l, end);
}

/* Ends the line and begins the next. */
static void line_end(struct line *l)
{
	while (!l->colour && l->used && l->out->len && l->out->data[l->out->len - 1] == ' ')
		l->out->len--; /* remove trailing blanks */
	append(l, "\n", 1);
	l->used = 0;
}

/* --- keys change the state */

static enum output_screen_effect view_set(struct output_screen *s, unsigned view)
{
	s->view = (enum output_live_view)(view % OUTPUT_LIVE_VIEWS_N);
	s->scroll = 0;
	return OUTPUT_SCREEN_CHANGED;
}

/* May scroll too far down; drawing corrects that. */
static enum output_screen_effect scroll(struct output_screen *s, size_t up, size_t down)
{
	s->scroll = up > s->scroll ? 0 : s->scroll - up;
	s->scroll += down;
	return OUTPUT_SCREEN_CHANGED;
}

static void filter_shorten(struct output_screen *s)
{
	size_t n = strlen(s->filter);

	while (n && ((unsigned char)s->filter[--n] & 0xc0) == 0x80)
		;
	s->filter[n] = '\0';
}

static enum output_screen_effect edit(struct output_screen *s, const struct output_key *key)
{
	switch (key->code) {
	case OUTPUT_KEY_TEXT:
		if (strlen(s->filter) + strlen(key->text) >= sizeof s->filter)
			return OUTPUT_SCREEN_NOTHING;
		memcpy(s->filter + strlen(s->filter), key->text, strlen(key->text) + 1);
		break;
	case OUTPUT_KEY_BACKSPACE:
		filter_shorten(s);
		break;
	case OUTPUT_KEY_CLEAR:
		s->filter[0] = '\0';
		break;
	case OUTPUT_KEY_ESCAPE:
		s->filter[0] = '\0';
		s->editing = false;
		break;
	case OUTPUT_KEY_ENTER:
		s->editing = false;
		break;
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
	s->scroll = 0;
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect toggle(bool *what)
{
	*what = !*what;
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect letter(struct output_screen *s, char c)
{
	switch (c) {
	case 'q':
	case 'Q':
		return OUTPUT_SCREEN_QUIT;
	case '1':
	case '2':
	case '3':
		return view_set(s, (unsigned)(c - '1'));
	case 's':
		s->scroll = 0;
		return toggle(&s->by_total);
	case 'c':
		return toggle(&s->since_start);
	case 'p':
	case ' ':
		return toggle(&s->paused);
	case 'h':
	case '?':
		return toggle(&s->help);
	case '/':
		return toggle(&s->editing);
	case 'k':
		return scroll(s, 1, 0);
	case 'j':
		return scroll(s, 0, 1);
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
}

enum output_screen_effect output_screen_key(struct output_screen *s, const struct output_key *key)
{
	size_t page = s->page > 1 ? s->page - 1 : 1; /* pages overlap by one row */

	if (key->code == OUTPUT_KEY_INTERRUPT)
		return OUTPUT_SCREEN_QUIT;
	if (key->code == OUTPUT_KEY_REDRAW)
		return OUTPUT_SCREEN_CLEARED;
	if (s->help && (key->code != OUTPUT_KEY_TEXT || key->text[0] != 'q'))
		return toggle(&s->help); /* any key ends it */
	switch (key->code) {
	case OUTPUT_KEY_UP:
		return scroll(s, 1, 0);
	case OUTPUT_KEY_DOWN:
		return scroll(s, 0, 1);
	case OUTPUT_KEY_PAGE_UP:
		return scroll(s, page, 0);
	case OUTPUT_KEY_PAGE_DOWN:
		return scroll(s, 0, page);
	case OUTPUT_KEY_HOME:
		return scroll(s, s->scroll, 0);
	case OUTPUT_KEY_END:
		return scroll(s, s->scroll, SIZE_MAX / 2);
	case OUTPUT_KEY_TAB:
		return view_set(s, s->view + 1);
	case OUTPUT_KEY_BACK_TAB:
		return view_set(s, s->view + OUTPUT_LIVE_VIEWS_N - 1);
	default:
		break;
	}
	if (s->editing)
		return edit(s, key);
	if (key->code == OUTPUT_KEY_ESCAPE && !s->filter[0])
		return OUTPUT_SCREEN_QUIT;
	if (key->code == OUTPUT_KEY_ESCAPE)
		return edit(s, key);
	return key->code == OUTPUT_KEY_TEXT ? letter(s, key->text[0]) : OUTPUT_SCREEN_NOTHING;
}

/* --- the table: columns of each view */

struct screen_table {
	enum output_live_view view;
	bool by_total;
	uint64_t samples;		/* all: 100 % */
	double samples_of_a_cpu;	/* samples that one busy CPU produces in that time */
	size_t name, module, container; /* widths; 0: no such column */
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

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

static void screen_table_init(struct screen_table *t, enum output_live_view view,
			      const struct output_live_rows *rows, size_t columns)
{
	size_t numbers = view == OUTPUT_LIVE_FUNCTIONS ? NUMBERS_WIDTH : GROUP_NUMBERS_WIDTH;
	size_t room = columns > numbers ? columns - numbers : 0;

	*t = (struct screen_table){.view = view, .name = room};
	if (columns < WIDE)
		return;
	if (view != OUTPUT_LIVE_CONTAINERS && has_containers(rows)) {
		t->container = ID_DIGITS + 1;
		room -= t->container + COLUMN_GAP;
	}
	if (view == OUTPUT_LIVE_FUNCTIONS) {
		t->module = room / 4 < 24 ? room / 4 : 24;
		t->name = room - t->module - COLUMN_GAP;
	} else { /* the remaining width is for the top function */
		t->name = view == OUTPUT_LIVE_PROCESSES ? 15 : ID_DIGITS + (columns >= 100 ? 12 : 0);
	}
}

static void screen_table_heads(const struct screen_table *t, struct line *l)
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

static void put_share(const struct screen_table *t, uint64_t samples, struct line *l)
{
	double share = percent(samples, t->samples);

	if (share >= HOT)
		line_style(l, LINE_BOLD);
	line_printf(l, "%6.1f", share);
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

static void function_row(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	put_share(t, row->self, l);
	line_put(l, "  ");
	line_printf(l, "%6.1f  ", percent(row->total, t->samples));
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

static void screen_table_row(const struct screen_table *t, const struct output_live_row *row, struct line *l)
{
	if (t->view == OUTPUT_LIVE_FUNCTIONS)
		function_row(t, row, l);
	else
		group_row(t, row, l);
}

/* --- the lines around it */

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
	if (d->s->since_start) /* some of these processes have ended */
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

/* Samples that are in no row. */
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

/* The last line, which has no newline. */
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

/*
 * Number of samples that one busy CPU produces in the time that the rows cover. Some samples of that time
 * still wait for names, so the number is scaled down to those that have arrived.
 */
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
	/* room goes to the rows first, then to column heads, sums, title, tabs, keys and message */
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
