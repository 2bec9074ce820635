// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/log.h"

/* Redirects standard error to a file; returns the text of all lines without their time stamps. */
struct capture {
	FILE *file;
	int saved;
};

static void capture_begin(struct capture *c)
{
	c->file = tmpfile();
	cr_assert(c->file);
	c->saved = dup(STDERR_FILENO);
	cr_assert_eq(dup2(fileno(c->file), STDERR_FILENO), STDERR_FILENO);
}

static void capture_end(struct capture *c, struct buf *ret)
{
	dup2(c->saved, STDERR_FILENO);
	close(c->saved);
	cr_assert_eq(lseek(fileno(c->file), 0, SEEK_SET), 0);
	cr_assert_eq(fs_read_fd(fileno(c->file), 1 << 20, ret), 0);
	fclose(c->file);
}

static unsigned lines(struct buf *b)
{
	unsigned n = 0;

	for (size_t i = 0; i < b->len; i++)
		n += b->data[i] == '\n';
	return n;
}

/* Expects `text` to be `before`, a time stamp, `after`. */
static void expect_line(const char *text, const char *before, const char *after)
{
	const char *stamp = text + strlen(before);
	int y, mo, d, h, mi, s, ms, n = 0;

	cr_expect_eq(strncmp(text, before, strlen(before)), 0, "%s", text);
	cr_assert_eq(sscanf(stamp, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &y, &mo, &d, &h, &mi, &s, &ms, &n), 7,
		     "%s", text);
	cr_expect_str_eq(stamp + n, after);
}

Test(log, one_line_in_each_format)
{
	static const struct {
		enum log_format format;
		const char *before, *after;
	} cases[] = {
		{LOG_FORMAT_LOGFMT, "time=", " level=warn msg=\"say \\\"no\\\" \\\\ 7\\u000a\"\n"},
		{LOG_FORMAT_JSON, "{\"time\":\"",
		 "\",\"level\":\"warn\",\"msg\":\"say \\\"no\\\" \\\\ 7\\u000a\"}\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct capture c;

		log_setup(LOG_INFO, cases[i].format);
		capture_begin(&c);
		log_warn("say \"no\" \\ %d\n", 7);
		capture_end(&c, &b);
		expect_line(buf_str(&b), cases[i].before, cases[i].after);
	}
}

Test(log, fields)
{
	static const struct {
		enum log_format format;
		const char *before, *after;
	} cases[] = {
		{LOG_FORMAT_LOGFMT,
		 "time=", " level=info msg=\"opened a file\" pid=7 way=root ratio=0.5 none=\n"},
		{LOG_FORMAT_JSON, "{\"time\":\"",
		 "\",\"level\":\"info\",\"msg\":\"opened a file\",\"pid\":7,"
		 "\"way\":\"root\",\"ratio\":0.5,\"none\":\"\"}\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct capture c;

		log_setup(LOG_INFO, cases[i].format);
		capture_begin(&c);
		log_fields(LOG_INFO, "opened a file", "pid=%d way=%s ratio=%.1f none=", 7, "root", 0.5);
		capture_end(&c, &b);
		expect_line(buf_str(&b), cases[i].before, cases[i].after);
	}
}

Test(log, levels_below_the_maximum_are_silent)
{
	_cleanup_buf_ struct buf b = {0};
	struct capture c;

	log_setup(LOG_WARN, LOG_FORMAT_LOGFMT);
	cr_expect(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN));
	cr_expect_not(log_enabled(LOG_INFO) || log_enabled(LOG_DEBUG));
	capture_begin(&c);
	log_info("not this");
	log_debug("nor this");
	log_error("this");
	capture_end(&c, &b);
	cr_expect_eq(lines(&b), 1);
	cr_expect(strstr(buf_str(&b), "level=error msg=\"this\""));
}

Test(log, a_place_that_floods_is_held_and_says_so)
{
	_cleanup_buf_ struct buf flood = {0}, after = {0};
	struct log_site site = {0}, other = {0};
	struct capture c;

	log_setup(LOG_INFO, LOG_FORMAT_LOGFMT);
	capture_begin(&c);
	for (unsigned i = 0; i < 3 * LOG_BURST; i++)
		log_write(&site, LOG_INFO, "line %u", i);
	log_write(&other, LOG_INFO, "another place");
	capture_end(&c, &flood);
	cr_expect_eq(lines(&flood), LOG_BURST + 1);
	cr_expect(strstr(buf_str(&flood), "another place"));

	capture_begin(&c);
	site.window_start_ns -= LOG_INTERVAL_NS + 1; /* as if the interval had passed */
	log_write(&site, LOG_INFO, "later");
	log_write(&site, LOG_INFO, "at last");
	capture_end(&c, &after);
	cr_expect(strstr(buf_str(&after), "msg=\"later\" suppressed=20\n"), "%s", buf_str(&after));
	cr_expect(strstr(buf_str(&after), "msg=\"at last\"\n"));
}

/* What processes, servers and files are called is their business. */
Test(log, any_bytes_are_a_json_string_in_utf8)
{
	static const struct {
		const char *text, *escaped;
	} table[] = {
		{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5"},
		{"a\xff"
		 "b\xfe",
		 "a\xef\xbf\xbd"
		 "b\xef\xbf\xbd"},
		{"\xc3", "\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf0\x9f\x94"
		 "x",
		 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"},
		{"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},		  /* an overlong NUL */
		{"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* an overlong slash */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a lone surrogate */
		{"\xf4\x90\x80\x80",
		 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond U+10FFFF */
		{"\x1b[31m\x7f\n\t", "\\u001b[31m\\u007f\\u000a\\u0009"},
		{"\xc2\x9b"
		 "31m",
		 "\\u009b31m"}, /* CSI as one character of C1 */
		{"a\"b\\c", "a\\\"b\\\\c"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf b = {0}, text = {0}, field = {0};
		struct capture c;

		log_setup(LOG_INFO, LOG_FORMAT_JSON);
		capture_begin(&c);
		log_write(&(struct log_site){0}, LOG_INFO, "%s", table[i].text);
		log_write_fields(&(struct log_site){0}, LOG_INFO, "t", "name=%s n=7", table[i].text);
		capture_end(&c, &b);
		cr_assert_eq(buf_printf(&text, "\"msg\":\"%s\"}\n", table[i].escaped), 0);
		cr_expect(strstr(buf_str(&b), buf_str(&text)), "row %zu: %s", i, buf_str(&b));
		cr_assert_eq(buf_printf(&field, "\"name\":\"%s\"", table[i].escaped), 0);
		if (!strchr(table[i].text, ' ')) /* which ends a field */
			cr_expect(strstr(buf_str(&b), buf_str(&field)), "row %zu: %s", i, buf_str(&b));
	}
}

/* Many long fields: each is whole or missing, and the line is an object. */
Test(log, fields_are_cut_between_fields)
{
	_cleanup_buf_ struct buf b = {0}, fields = {0};
	struct capture c;

	for (int i = 0; i < 600; i++)
		cr_assert_eq(buf_printf(&fields, "%sf%d=123456", i ? " " : "", i), 0);
	log_setup(LOG_INFO, LOG_FORMAT_JSON);
	capture_begin(&c);
	log_fields(LOG_INFO, "t", "%s", buf_str(&fields));
	capture_end(&c, &b);
	cr_expect_eq(lines(&b), 1);
	cr_expect_gt(b.len, 3000);
	cr_expect_str_eq(buf_str(&b) + b.len - 9, ":123456}\n");
}

Test(log, long_texts_are_cut_and_stay_one_line)
{
	_cleanup_buf_ struct buf b = {0};
	struct capture c;
	char text[5000];

	memset(text, '\1', sizeof text);
	text[sizeof text - 1] = '\0';
	log_setup(LOG_INFO, LOG_FORMAT_JSON);
	capture_begin(&c);
	log_info("%s", text);
	memset(text, 'x', sizeof text - 1);
	log_info("%s", text);
	capture_end(&c, &b);
	cr_expect_eq(lines(&b), 2);
	cr_expect_str_eq(buf_str(&b) + b.len - 4, "x\"}\n");
	cr_expect(strstr(buf_str(&b), "\\u0001\"}\n{"));
}
