// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitname.h"

#include <stddef.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define DUMP_BEGIN "jit-"
#define DUMP_END ".dump"

/*
 * The kinds of code that V8 generates for JavaScript. A mark follows: the tier, before it "o" if the code is
 * entered in a loop (on-stack replacement), behind it "'" if it is for one closure. No function has a name
 * that begins so.
 */
static const char *const v8_kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};

static const struct {
	char mark;
	const char *name;
} v8_tiers[] = {{'~', "interpreter"}, {'^', "sparkplug"}, {'+', "maglev"}, {'*', "turbofan"}};

static const char *after(const char *s, const char *begin)
{
	size_t n = strlen(begin);

	return strncmp(s, begin, n) == 0 ? s + n : NULL;
}

bool jit_name_is_dump(const char *file)
{
	const char *digits = after(file, DUMP_BEGIN);
	size_t n = digits ? strspn(digits, "0123456789") : 0;

	return n && strcmp(digits + n, DUMP_END) == 0;
}

const char *jit_name_runtime(const char *file)
{
	static const struct {
		const char *name, *runtime;
	} runtimes[] = {
		{"libjvm.so", "jvm"}, {"libcoreclr.so", "dotnet"},
		{"node", "v8js"},     {"nodejs", "v8js"},
		{"deno", "v8js"},     {"d8", "v8js"},
		{"electron", "v8js"}, {"chrome", "v8js"},
		{"chromium", "v8js"}, {"beam.smp", "beam"},
		{"ruby", "ruby"},     {"php", "php"},
		{"php-fpm", "php"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++)
		if (strcmp(file, runtimes[i].name) == 0)
			return runtimes[i].runtime;
	if (after(file, "libnode.so"))
		return "v8js";
	return after(file, "libruby.so") ? "ruby" : NULL;
}

/* The name without V8's kind of code. NULL: V8 did not make this name. */
static const char *after_v8_kind(const char *name)
{
	const char *rest = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(v8_kinds) && !rest; i++)
		rest = after(name, v8_kinds[i]);
	return rest;
}

/* The name without the mark of its tier, whose name is *ret_tier; NULL: there is none. */
static const char *after_v8_tier(const char *s, const char **ret_tier)
{
	const char *mark = s + (*s == 'o');

	*ret_tier = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(v8_tiers); i++)
		if (*mark == v8_tiers[i].mark)
			*ret_tier = v8_tiers[i].name;
	if (*ret_tier)
		return mark + 1 + (mark[1] == '\'');
	return s + (*s == '\''); /* a name cannot begin with it */
}

const char *jit_name_tier(const char *name)
{
	const char *rest = after_v8_kind(name), *tier = NULL;

	if (rest)
		(void)after_v8_tier(rest, &tier);
	return tier;
}

const char *jit_name_language(const char *name)
{
	if (after_v8_kind(name))
		return "v8js";
	return after(name, "py::") ? "cpython" : NULL;
}

const char *jit_name_readable(const char *name)
{
	const char *rest = after_v8_kind(name), *tier;

	rest = rest ? after_v8_tier(rest, &tier) : after(name, "py::");
	if (!rest)
		return name;
	rest += strspn(rest, " ");
	return *rest ? rest : name;
}
