// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"

static const struct {
	const char *content, *pairs, *error;
} files[] = {
	{"", "a=1;", NULL},
	{"Authorization: Bearer x=y\n", "a=1;authorization=Bearer x=y;", NULL},
	{"# note\n\nx-key=v:w\r\n  y :  z  ", "a=1;x-key=v:w;y=z;", NULL},
	{"A: 2\n", "a=2;", NULL}, /* the file overrides the option */
	{"ok: 1\nsecret\n", NULL, "proflet: FILE:2: has no \":\"; accepted is \"name: value\""},
	{"bad name: secret\n", NULL, "proflet: FILE:1: is no header; accepted is \"name: value\""},
	{": secret\n", NULL, "proflet: FILE:1: is no header; accepted is \"name: value\""},
};

Test(config_headers, are_read_when_used)
{
	char dir[] = "/tmp/proflet-test-XXXXXX", path[64], expected[256];
	char *argv[] = {(char *)"run", (char *)"--headers", (char *)"A=1", (char *)"--headers_file", path};
	_cleanup_config_ struct config *c = NULL;
	_cleanup_free_ char *load_error = NULL;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/headers", dir);
	cr_assert_eq(config_load(&c, 5, argv, NULL, 0, NULL, &load_error), 0, "%s", load_error);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_pairs_ struct config_pairs pairs = {0};
		_cleanup_free_ char *error = NULL;
		_cleanup_buf_ struct buf got = {0};
		FILE *f = fopen(path, "w");

		fputs(files[i].content, f);
		fclose(f);
		cr_expect_eq(config_headers_read(c, &pairs, &error), files[i].error ? -EINVAL : 0, "row %zu",
			     i);
		for (size_t j = 0; j < pairs.n; j++)
			buf_printf(&got, "%s=%s;", pairs.items[j].key, pairs.items[j].value);
		cr_expect_str_eq(buf_str(&got), files[i].pairs ? files[i].pairs : "");
		if (files[i].error)
			snprintf(expected, sizeof expected, "proflet: %s%s", path,
				 strstr(files[i].error, "FILE") + 4);
		cr_expect_eq(!error, !files[i].error, "row %zu", i);
		if (error && files[i].error)
			cr_expect_str_eq(error, expected);
	}
	unlink(path);
	{
		_cleanup_pairs_ struct config_pairs pairs = {0};
		_cleanup_free_ char *error = NULL;

		cr_expect_eq(config_headers_read(c, &pairs, &error), -ENOENT);
		cr_expect(error && strstr(error, "cannot be read: No such file or directory"));
	}
	rmdir(dir);
}
