// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* All data of one file. */
struct check {
	const struct check_options *o;
	const char *path;
	char *why;
	struct texts texts;
	struct table table;
	struct frames frames;
	struct expressions expressions;
	struct binary binary;
	struct expected expected;
	struct layout_skip *skips;
	struct compare_range *overridden;
	size_t n_skips, skips_cap, n_overridden, overridden_cap;
	bool follow; /* readelf also reads the separate debug file */
};

static void check_fini(struct check *c)
{
	free(c->skips);
	free(c->overridden);
	expected_fini(&c->expected);
	binary_fini(&c->binary);
	expressions_fini(&c->expressions);
	frames_fini(&c->frames);
	table_fini(&c->table);
	texts_fini(&c->texts);
}

static int failed(struct check *c, int error, const char *what, const char *detail)
{
	snprintf(c->why, CHECK_WHY, "%s: %s", what, *detail ? detail : strerror(-error));
	return error;
}

/* Closes the output. `r` is the result of reading it. */
static int close_proflet(struct check *c, struct lines *l, int r)
{
	char text[CHECK_WHY / 2];

	lines_error(l, (const char *const[]){NULL}, text, sizeof text);
	int exit_code = lines_close(l);
	if (r < 0)
		return failed(c, r, "proflet tables", r == -EINVAL ? "not its rows, or not in order" : "");
	if (exit_code && !strstr(text, ": no call-frame information"))
		return failed(c, -EIO, "proflet tables", *text ? text : "it failed");
	return 0;
}

static int read_table(struct check *c)
{
	char *argv[] = {(char *)c->o->proflet, (char *)"tables", (char *)c->path, NULL};
	struct lines l;

	int r = c->o->rows ? lines_open_file(&l, c->o->rows) : lines_open_command(&l, argv);
	if (r == 0)
		r = table_read(&c->table, &c->texts, &l);
	return close_proflet(c, &l, r);
}

/*
 * After something that it cannot read, readelf prints a warning and continues; then its table is incomplete.
 */
static int close_readelf(struct check *c, struct lines *l, int r)
{
	/* in a debug file, the sections of segments have headers only */
	static const char *const harmless[] = {"Unable to find program interpreter name",
					       "no .dynamic section in the dynamic segment", NULL};
	char text[CHECK_WHY / 2], any[CHECK_WHY / 2];

	lines_error(l, (const char *const[]){NULL}, any, sizeof any);
	lines_error(l, harmless, text, sizeof text);
	int exit_code = lines_close(l);
	if (r == -EINVAL && c->frames.unknown[0])
		return failed(c, r, "readelf, a line that is not understood", c->frames.unknown);
	if (r < 0)
		return failed(c, r, "readelf", "");
	if (*text || (exit_code && !*any && !c->frames.no_bytes))
		return failed(c, -EIO, "readelf", *text ? text : "it failed");
	return 0;
}

static const char *readelf_path(const struct check *c)
{
	return c->o->reference ? c->o->reference : c->path;
}

static int open_readelf(const struct check *c, struct lines *l, const char *dump)
{
	char what[64];
	char *argv[] = {(char *)"readelf", (char *)"-W", what, (char *)readelf_path(c), NULL};

	snprintf(what, sizeof what, "--debug-dump=%s,%s", dump,
		 c->follow ? "follow-links" : "no-follow-links");
	return lines_open_command(l, argv);
}

static int read_expressions(struct check *c)
{
	struct lines l;

	if (!c->frames.expression)
		return 0;
	int r = open_readelf(c, &l, "frames");
	if (r == 0)
		r = expressions_read(&c->expressions, &c->frames, &l);
	return close_readelf(c, &l, r);
}

static int read_frames(struct check *c)
{
	struct lines l;

	int r = open_readelf(c, &l, "frames-interp");
	if (r == 0)
		r = frames_read(&c->frames, readelf_path(c), &c->texts, &l);
	r = close_readelf(c, &l, r);
	return r < 0 ? r : read_expressions(c);
}

/* "    .eh_frame+0x1f8  the reason", "    .eh_frame+0x1f8  in part: the reason" */
static int put_skip(struct check *c, const char *line)
{
	static const char *const names[] = {[EH_FRAME] = "    .eh_frame+0x",
					    [DEBUG_FRAME] = "    .debug_frame+0x",
					    [DEBUG_FILE] = "    debug file+0x"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(line, names[i], n) != 0)
			continue;
		if (c->n_skips == c->skips_cap && texts_grow(&c->skips, &c->skips_cap, sizeof *c->skips) < 0)
			return -ENOMEM;
		c->skips[c->n_skips++] =
			(struct layout_skip){(enum section_kind)i, strtoull(line + n, NULL, 16),
					     strstr(line, "  in part: ") != NULL};
	}
	return 0;
}

/* "    00000000000011a0 000000000000128b  the function" */
static int put_overridden(struct check *c, const char *line)
{
	unsigned long long start, end;

	if (strlen(line) < 4 + 16 || strspn(line + 4, "0123456789abcdef") != 16 ||
	    sscanf(line, "    %16llx %16llx  ", &start, &end) != 2 || start >= end)
		return 0;
	if (c->n_overridden == c->overridden_cap &&
	    texts_grow(&c->overridden, &c->overridden_cap, sizeof *c->overridden) < 0)
		return -ENOMEM;
	c->overridden[c->n_overridden++] = (struct compare_range){start, end};
	return 0;
}

/* Reads what proflet skipped or replaced. */
static int read_summary(struct check *c)
{
	char *argv[] = {(char *)c->o->proflet, (char *)"tables", (char *)"--summary", (char *)c->path, NULL};
	const char *line;
	struct lines l;
	size_t len;

	int r = c->o->summary ? lines_open_file(&l, c->o->summary) : lines_open_command(&l, argv);
	while (r == 0 && (line = lines_next(&l, &len))) {
		r = put_skip(c, line);
		if (r == 0)
			r = put_overridden(c, line);
	}
	return close_proflet(c, &l, r);
}

static int read_frames_again(struct check *c, bool follow)
{
	expected_fini(&c->expected);
	expressions_fini(&c->expressions);
	frames_fini(&c->frames);
	c->follow = follow;
	int r = read_frames(c);
	expected_init(&c->expected, &c->frames, &c->expressions);
	return r;
}

/* Rows that no FDE of the file has may come from its debug file. */
static int read_debug_file(struct check *c)
{
	int r = read_frames_again(c, true);

	if (r != -EIO)
		return r;
	c->why[0] = '\0'; /* readelf does not find the debug file, or warns about it */
	return read_frames_again(c, false);
}

static int compare(struct check *c, struct compare_result *ret)
{
	struct compare_input in = {.expected = &c->expected, .table = &c->table, .binary = &c->binary};

	expected_init(&c->expected, &c->frames, &c->expressions);
	int r = compare_run(&in, ret);
	if (r < 0 || !ret->differing)
		return r;
	/* compares again with all possible explanations, and prints */
	r = read_summary(c);
	if (r == 0 && ret->without_fde > 0)
		r = read_debug_file(c);
	if (r < 0)
		return r;
	in.skips = c->skips;
	in.n_skips = c->n_skips;
	in.overridden = c->overridden;
	in.n_overridden = c->n_overridden;
	in.show = c->o->show;
	return compare_run(&in, ret);
}

int check_file(const struct check_options *o, const char *path, struct compare_result *ret,
	       char why[static CHECK_WHY])
{
	_cleanup_(check_fini) struct check c = {.o = o, .path = path, .why = why};

	why[0] = '\0';
	texts_init(&c.texts);
	int r = binary_read(&c.binary, readelf_path(&c));
	if (r < 0)
		return failed(&c, r, "not read", "");
	r = read_table(&c);
	if (r == 0)
		r = read_frames(&c);
	if (r < 0)
		return r;
	r = compare(&c, ret);
	return r < 0 && !why[0] ? failed(&c, r, "comparing", "") : r;
}
