// SPDX-License-Identifier: Apache-2.0
/*
 * A label has the method's name behind what the code is of it: "rescue in block (2 levels) in method".
 */
#include "agent/runtime/ruby_text.h"

#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/runtime/utf8_text.h"
#include "bpf/abi.h"

#define LENGTH_BYTES sizeof(uint64_t)
#define LEVELS "block ("
#define LEVELS_END " levels) in "

#define ISEQ_METHOD 1u /* type of iseqs, in all versions */

/* A part of a string. */
struct part {
	const uint8_t *bytes;
	size_t len;
};

/* The text that there is of a string. 1: it is not all; 0; -EBADMSG. */
static int read_string(struct part *ret, struct ruby_string s)
{
	uint64_t length;

	if (s.len < LENGTH_BYTES)
		return -EBADMSG;
	memcpy(&length, s.bytes, sizeof length);
	*ret = (struct part){s.bytes + LENGTH_BYTES, s.len - LENGTH_BYTES};
	if (length > ret->len)
		return 1;
	ret->len = length;
	return 0;
}

static bool begins_with(struct part p, const char *text)
{
	return p.len >= strlen(text) && memcmp(p.bytes, text, strlen(text)) == 0;
}

static struct part without(struct part p, size_t n)
{
	return (struct part){p.bytes + n, p.len - n};
}

/* The bytes of "block (2 levels) in " at the begin; 0: it does not begin so. */
static size_t levels_len(struct part p)
{
	size_t n = strlen(LEVELS);

	if (!begins_with(p, LEVELS))
		return 0;
	while (n < p.len && p.bytes[n] >= '0' && p.bytes[n] <= '9')
		n++;
	return begins_with(without(p, n), LEVELS_END) ? n + strlen(LEVELS_END) : 0;
}

static size_t handler_len(struct part p)
{
	static const char *const words[] = {"rescue in ", "ensure in "};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (begins_with(p, words[i]))
			return strlen(words[i]);
	return 0;
}

/* The bytes of what stands before the method's name. */
static size_t prefix_len(struct part label)
{
	struct part p = label;
	size_t n;

	do {
		n = handler_len(p) ?: levels_len(p);
		if (!n && begins_with(p, "block in "))
			n = strlen("block in ");
		p = without(p, n);
	} while (n);
	return label.len - p.len;
}

static bool has_class(struct part class, uint32_t form)
{
	return form & RUNTIME_FORM_METHOD && class.len && class.bytes[0] != '#'; /* "#<Class:0x…>" */
}

int ruby_text_append(struct buf *out, struct ruby_string s)
{
	struct part p = {0};
	int cut = read_string(&p, s), r = cut < 0 ? cut : utf8_text_append(out, p.bytes, p.len, cut);

	return r < 0 ? r : cut;
}

int ruby_name_append(struct buf *out, struct ruby_string label, struct ruby_string class, uint32_t form)
{
	const uint32_t type = form & RUNTIME_FORM_TYPE;
	struct part name = {0}, owner = {0};
	int cut = read_string(&name, label), class_cut = 0, r = 0;
	size_t prefix = 0;

	if (cut < 0)
		return cut;
	if (class.len)
		class_cut = read_string(&owner, class);
	if (class_cut < 0)
		return class_cut;
	if (!(form & RUNTIME_FORM_NATIVE) && type != ISEQ_METHOD)
		prefix = prefix_len(name);
	if (has_class(owner, form)) {
		r = utf8_text_append(out, name.bytes, prefix, false);
		name = without(name, prefix);
		if (r == 0)
			r = utf8_text_append(out, owner.bytes, owner.len, class_cut);
		if (r == 0)
			r = buf_putc(out, form & RUNTIME_FORM_SINGLE ? '.' : '#');
	} else {
		class_cut = 0;
	}
	if (r == 0)
		r = utf8_text_append(out, name.bytes, name.len, cut);
	return r < 0 ? r : cut | class_cut;
}
