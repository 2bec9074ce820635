// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/facts.h"

Test(facts, likely_runtimes_by_name)
{
	static const char *const likely[] = {"python3.11",
					     "libpython3.12.so.1.0",
					     "ruby3.1",
					     "libruby-3.1.so.3.1",
					     "php8.2",
					     "php-fpm8.2",
					     "libphp.so",
					     "perl",
					     "libperl.so.5.36.0",
					     "lua5.4",
					     "liblua5.4.so.0.0.0",
					     "libluajit-5.1.so.2",
					     "node",
					     "libnode.so.108"};
	static const char *const others[] = {"",	  "lib",      "bash",	"libc.so.6",
					     "libjvm.so", "mypython", "PYTHON", "[vdso]"};

	for (size_t i = 0; i < ARRAY_SIZE(likely); i++)
		cr_expect(runtime_facts_likely(likely[i]), "%s", likely[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_not(runtime_facts_likely(others[i]), "%s", others[i]);
}
