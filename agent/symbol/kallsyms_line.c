// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/kallsyms_private.h"

#include <string.h>

#include "agent/base/cleanup.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kallsyms_line_parse(const char *p, size_t len, struct kallsyms_line *ret)
{
	const char *end = p + len, *start = p, *tab;

	*ret = (struct kallsyms_line){0};
	for (; p < end && hex_digit(*p) >= 0; p++)
		ret->addr = ret->addr << 4 | (uint64_t)hex_digit(*p);
	if (p == start || p - start > 16 || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	ret->type = p[1];
	ret->name = p + 3;
	tab = memchr(ret->name, '\t', (size_t)(end - ret->name));
	ret->name_len = (size_t)((tab ? tab : end) - ret->name);
	if (tab) {
		if (end - tab < 4 || tab[1] != '[' || end[-1] != ']')
			return false;
		ret->module = tab + 2;
		ret->module_len = (size_t)(end - 1 - ret->module);
	}
	return ret->name_len && !memchr(ret->name, '\0', len - (size_t)(ret->name - start));
}

bool kallsyms_line_named(const struct kallsyms_line *l, const char *name)
{
	return l->name_len == strlen(name) && memcmp(l->name, name, l->name_len) == 0;
}

static bool name_ends(const struct kallsyms_line *l, const char *suffix)
{
	size_t n = strlen(suffix);

	return l->name_len > n && memcmp(l->name + l->name_len - n, suffix, n) == 0;
}

/* Marks that the linker script sets between functions (include/asm-generic/vmlinux.lds.h). */
static bool is_mark(const struct kallsyms_line *l)
{
	static const char *const marks[] = {"_text",	  "_stext",	"_etext",    "_sinittext",
					    "_einittext", "_sexittext", "_eexittext"};

	if (l->module || l->name[0] != '_')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (kallsyms_line_named(l, marks[i]))
			return true;
	return name_ends(l, "_text_start") || name_ends(l, "_text_end");
}

uint16_t kallsyms_line_rank(const struct kallsyms_line *l)
{
	bool weak = l->type == 'w' || l->type == 'W', local = l->type == 't';
	uint16_t underscores = 0;

	if (is_mark(l))
		return KALLSYMS_RANK_GAP;
	while (underscores < l->name_len && underscores < 31 && l->name[underscores] == '_')
		underscores++;
	return (uint16_t)(weak << 6 | local << 5 | underscores);
}
