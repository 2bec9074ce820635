// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/v8_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/v8.h"
#include "agent/elf/runtime/vm_memory.h"

#define SCRIPT_WORDS 16u
#define CHUNK_BYTES 16384u
#define HOPS_MAX 3	   /* strings that stand for another one */
#define STRING_TYPES 0x80u /* types below are those of strings */
#define STRING_FORM 7u	   /* bits of them */
#define STRING_ONE_BYTE 8u
#define STRING_UNCACHED 16u   /* an external string does not say where its characters are */
#define STRING_CHARACTERS 16u /* of a sequential string */
#define LINE_MAX INT32_MAX

enum string_form { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, THIN = 5 };

/* How strings begin; what the last two are depends on the form. */
struct string_head {
	uint64_t map;
	uint32_t hash, length;
	uint64_t first, second;
};

/* What there is of a script: equal before and after the text was read, or the text is not that script's. */
struct source {
	uint64_t text;	     /* the string that has the characters, as a pointer of V8 */
	uint64_t characters; /* address of the first one */
	int64_t first_line;  /* of the script, from 0 on */
	uint32_t length;     /* in characters */
	uint32_t width;	     /* 1 or 2 bytes for each */
};

static int read_bytes(struct v8_memory *m, void *to, uint64_t address, size_t n)
{
	if (address >= VM_ADDRESS_MAX || n > VM_ADDRESS_MAX - address)
		return -EFAULT;
	if (n > m->left)
		return -E2BIG;
	m->left -= n;
	return m->read(to, address, n, m->data);
}

static bool is_pointer(uint64_t word)
{
	return (word & 3) == 1;
}

/* The type of the objects of a map. 0; -ESTALE: it is none. */
static int read_type(struct v8_memory *m, const struct v8_layout *l, uint64_t map, uint16_t *ret)
{
	return is_pointer(map) ? read_bytes(m, ret, map - 1 + l->map_type, sizeof *ret) : -ESTALE;
}

static bool is_smi(uint64_t word)
{
	return !(uint32_t)word;
}

/* Fills in text and first_line. */
static int read_script(struct v8_memory *m, const struct v8_layout *l, const struct v8_script *s,
		       struct source *ret)
{
	uint64_t words[SCRIPT_WORDS];
	const size_t id = l->script_id / 8, source = l->script_source / 8,
		     first_line = l->script_name / 8 + 1;
	uint16_t type = 0;
	int r;

	if (id >= SCRIPT_WORDS || source >= SCRIPT_WORDS || first_line >= SCRIPT_WORDS)
		return -ENOTSUP;
	if (!is_pointer(s->address))
		return -ESTALE;
	r = read_bytes(m, words, s->address - 1, (size_t)l->script_id + 8);
	if (r == 0)
		r = read_type(m, l, words[0], &type);
	if (r < 0)
		return r;
	if (type != l->script_type || words[id] != s->id || !is_smi(s->id))
		return -ESTALE;
	if (!is_smi(words[first_line]) || !is_pointer(words[source]))
		return -ENOTSUP;
	ret->text = words[source];
	ret->first_line = (int64_t)words[first_line] >> 32;
	return 0;
}

/* Whether a string of two parts has only the first one. */
static bool is_flat(struct v8_memory *m, const struct string_head *cons)
{
	struct string_head second = {0};

	return is_pointer(cons->second) &&
	       read_bytes(m, &second, cons->second - 1, offsetof(struct string_head, first)) == 0 &&
	       second.length == 0;
}

/* Where the characters of a string are. 0; 1: it stands for ret->text; -ENOTSUP, -ESTALE, -EFAULT. */
static int read_string(struct v8_memory *m, const struct v8_layout *l, struct source *ret)
{
	struct string_head s = {0};
	uint16_t type = 0;
	int r = is_pointer(ret->text) ? read_bytes(m, &s, ret->text - 1, sizeof s) : -ENOTSUP;

	if (r == 0)
		r = read_type(m, l, s.map, &type);
	if (r < 0)
		return r;
	if (type >= STRING_TYPES)
		return -ENOTSUP;
	ret->length = s.length;
	ret->width = type & STRING_ONE_BYTE ? 1 : 2;
	switch (type & STRING_FORM) {
	case SEQUENTIAL:
		ret->characters = ret->text - 1 + STRING_CHARACTERS;
		return 0;
	case EXTERNAL:
		ret->characters = s.second;
		return type & STRING_UNCACHED ? -ENOTSUP : 0;
	case CONS:
		if (!is_flat(m, &s))
			return -ENOTSUP;
		ret->text = s.first;
		return 1;
	case THIN:
		ret->text = s.first;
		return 1;
	default:
		return -ENOTSUP;
	}
}

static int read_source(struct v8_memory *m, const struct v8_layout *l, const struct v8_script *s,
		       struct source *ret)
{
	int r;

	memset(ret, 0, sizeof *ret);
	r = read_script(m, l, s, ret);
	if (r < 0)
		return r;
	r = 1;
	for (int i = 0; i < HOPS_MAX && r > 0; i++)
		r = read_string(m, l, ret);
	return r > 0 ? -ENOTSUP : r;
}

/* Goes through the characters of a text, and notes the lines of places. */
struct counter {
	const uint32_t *places;
	uint32_t *lines;
	struct v8_member *members; /* NULL: not wanted */
	size_t n, next;		   /* places; the one that comes next */
	int64_t line;		   /* of the character at hand */
	uint32_t at;		   /* its number */
	bool after_cr;		   /* which ends a line, unless this is LF */
	struct v8_classes classes;
};

static void note(struct counter *c, uint32_t character)
{
	for (; c->next < c->n && c->places[c->next] == c->at; c->next++) {
		c->lines[c->next] = c->line > 0 && c->line <= LINE_MAX ? (uint32_t)c->line : 0;
		if (c->members)
			v8_classes_member(&c->classes, character, &c->members[c->next]);
	}
}

static void count(struct counter *c, uint32_t character)
{
	c->line += c->after_cr && character != '\n';
	note(c, character);
	if (c->members)
		v8_classes_put(&c->classes, character);
	c->after_cr = character == '\r';
	c->line += character == '\n' || character == 0x2028 || character == 0x2029;
	c->at++;
}

static int count_all(struct v8_memory *m, const struct source *s, struct counter *c)
{
	uint8_t bytes[CHUNK_BYTES];

	while (c->at < s->length && c->next < c->n) {
		const uint32_t left = s->length - c->at, most = CHUNK_BYTES / s->width;
		const uint32_t n = left < most ? left : most;
		const int r = read_bytes(m, bytes, s->characters + (uint64_t)c->at * s->width, n * s->width);

		if (r < 0)
			return r;
		for (uint32_t i = 0; i < n; i++)
			count(c, s->width == 1 ? bytes[i] : bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8);
	}
	if (c->at == s->length) { /* a place may be behind the last character */
		c->line += c->after_cr;
		note(c, 0);
	}
	return 0;
}

int v8_lines_read(struct v8_memory *m, const struct v8_layout *l, const struct v8_script *script,
		  const uint32_t *places, uint32_t *ret_lines, struct v8_member *ret_members, size_t n)
{
	struct source before, after;
	int r = read_source(m, l, script, &before);

	memset(ret_lines, 0, n * sizeof *ret_lines);
	if (ret_members)
		memset(ret_members, 0, n * sizeof *ret_members);
	if (r == 0) {
		struct counter c = {.places = places,
				    .lines = ret_lines,
				    .members = ret_members,
				    .n = n,
				    .line = before.first_line + 1};

		r = count_all(m, &before, &c);
	}
	if (r == 0)
		r = read_source(m, l, script, &after);
	if (r == 0 && memcmp(&before, &after, sizeof before) != 0)
		r = -ESTALE;
	if (r < 0)
		memset(ret_lines, 0, n * sizeof *ret_lines);
	if (r < 0 && ret_members)
		memset(ret_members, 0, n * sizeof *ret_members);
	return r;
}
