// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/symbol/jitname.h"

Test(jitname, readable)
{
	static const struct {
		const char *name, *readable, *language, *tier; /* NULL: none */
	} rows[] = {
		{"JS:*work /a.js:1:2", "work /a.js:1:2", "v8js", "turbofan"},
		{"JS:*'work /a.js:1:2", "work /a.js:1:2", "v8js", "turbofan"},
		{"JS:o*work /a.js:1:2", "work /a.js:1:2", "v8js", "turbofan"},
		{"JS:o+'work /a.js:1:2", "work /a.js:1:2", "v8js", "maglev"},
		{"JS:+work /a.js:1:2", "work /a.js:1:2", "v8js", "maglev"},
		{"JS:'work /a.js:1:2", "work /a.js:1:2", "v8js", NULL},
		{"JS:o /a.js:1:2", "o /a.js:1:2", "v8js", NULL},
		{"JS:on /a.js:1:2", "on /a.js:1:2", "v8js", NULL},
		{"LazyCompile:~work /a.js:1:2", "work /a.js:1:2", "v8js", "interpreter"},
		{"Function:^work file:///b.mjs:3:4", "work file:///b.mjs:3:4", "v8js", "sparkplug"},
		{"JS:+ /a.js:9:1", "/a.js:9:1", "v8js", "maglev"},
		{"JS:*", "JS:*", "v8js", "turbofan"},
		{"JS:o+'", "JS:o+'", "v8js", "maglev"},
		{"JS:", "JS:", "v8js", NULL},
		{"Builtin:ArrayMap", "Builtin:ArrayMap", NULL, NULL},
		{"py::outer:/srv/app.py", "outer:/srv/app.py", "cpython", NULL},
		{"py::", "py::", "cpython", NULL},
		{"int Hot.loop(int)", "int Hot.loop(int)", NULL, NULL},
		{"JSON", "JSON", NULL, NULL},
		{"", "", NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *language = jit_name_language(rows[i].name), *tier = jit_name_tier(rows[i].name);

		cr_expect_str_eq(jit_name_readable(rows[i].name), rows[i].readable);
		cr_expect(rows[i].language ? language && strcmp(language, rows[i].language) == 0 : !language,
			  "%s", rows[i].name);
		cr_expect(rows[i].tier ? tier && strcmp(tier, rows[i].tier) == 0 : !tier, "%s", rows[i].name);
	}
}

Test(jitname, files)
{
	cr_expect(jit_name_is_dump("jit-1.dump"));
	cr_expect(jit_name_is_dump("jit-4194304.dump"));
	cr_expect_not(jit_name_is_dump("jit-.dump"));
	cr_expect_not(jit_name_is_dump("jit-1.dump.old"));
	cr_expect_not(jit_name_is_dump("jit-1"));
	cr_expect_not(jit_name_is_dump("libjvm.so"));
	cr_expect_str_eq(jit_name_runtime("libjvm.so"), "jvm");
	cr_expect_str_eq(jit_name_runtime("node"), "v8js");
	cr_expect_str_eq(jit_name_runtime("libnode.so.115"), "v8js");
	cr_expect_null(jit_name_runtime("nodelike"));
	cr_expect_null(jit_name_runtime(""));
}
