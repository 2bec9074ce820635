// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/output/display_text.h"

Test(output_text, names_are_cleaned)
{
	static const struct {
		const char *name, *in, *out;
		size_t max;
	} rows[] = {
		{"plain", "std::vector<int>::at", "std::vector<int>::at", 100},
		{"utf-8", "größe \xe2\x82\xac \xf0\x9f\x94\xa5", "größe \xe2\x82\xac \xf0\x9f\x94\xa5", 100},
		{"control", "a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?", 100},
		{"C1 control",
		 "a\xc2\x9b"
		 "b",
		 "a?b", 100},
		{"reordering",
		 "a\xe2\x80\xae"
		 "b\xe2\x81\xa6"
		 "c",
		 "a?b?c", 100},
		{"lone continuation", "a\x80", "a\xef\xbf\xbd", 100},
		{"truncated sequence", "a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd", 100},
		{"overlong", "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", 100},
		{"overlong in three", "\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 100},
		{"surrogate", "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 100},
		{"beyond Unicode", "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
		 100},
		{"cut", "0123456789", "01234\xe2\x80\xa6", 8},
		{"cut between characters", "012\xe2\x82\xac\xe2\x82\xac", "012\xe2\x80\xa6", 8},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf b = {0};

		cr_expect_eq(output_text_clean(&b, rows[i].in, rows[i].max), 0);
		cr_expect_str_eq(buf_str(&b), rows[i].out, "%s: %s", rows[i].name, buf_str(&b));
		cr_expect_leq(b.len, rows[i].max, "%s", rows[i].name);
	}
}

Test(output_text, json_cannot_leave_its_script_element)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"main", "\"main\""},
		{"", "\"\""},
		{"</script><!--", "\"\\u003c/script\\u003e\\u003c!--\""},
		{"a\"b\\c", "\"a\\u0022b\\u005cc\""},
		{"a&b'c", "\"a\\u0026b\\u0027c\""},
		{"\xe2\x80\xa8\xe2\x80\xa9", "\"\\u2028\\u2029\""},
		{"\xe2\x82\xac", "\"\xe2\x82\xac\""},
		{"\n\x01", "\"\\u000a\\u0001\""},
		{"\xff", "\"\\ufffd\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *text = NULL;
		size_t len;
		FILE *f = open_memstream(&text, &len);

		output_text_json(f, rows[i].in);
		fclose(f);
		cr_expect_str_eq(text, rows[i].out);
	}
}

Test(output_text, columns_count_characters)
{
	cr_expect_eq(output_text_columns("a\xe2\x82\xac"
					 "b"),
		     3);
	cr_expect_eq(output_text_bytes("a\xe2\x82\xac"
				       "b",
				       2),
		     4);
	cr_expect_eq(output_text_bytes("ab", 9), 2);
}

Test(output_text, the_end_of_a_source_path)
{
	static const char *const paths[][2] = {
		{"", ""},
		{"a.py", "a.py"},
		{"/srv/a.py", "a.py"},
		{"/srv/shop/__init__.py", "shop/__init__.py"},
		{"/__main__.py", "__main__.py"},
		{"__main__.py", "__main__.py"},
		{"shop/__main__.py", "shop/__main__.py"},
		{"<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"},
		{"/srv/", ""},
	};

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		cr_expect_str_eq(output_text_file(paths[i][0]), paths[i][1], "%s", paths[i][0]);
}
