// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/hotspot_names.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/elf/runtime/hotspot_code.h"
#include "agent/elf/runtime/hotspot_layout.h"

#define LINE_BYTES_MAX 65536u /* of a method's line table that are decoded */
#define ZERO_EXCLUDED 20u     /* from this version on, no byte of a number is 0 */
#define HIDDEN_DIGITS 16u     /* behind the name of a hidden class: its address */
#define SCOPES_SEARCHED 64u
#define FLAG_LINES 1u

/* --- numbers of the encoding UNSIGNED5 */

struct stream {
	struct vm_memory *m;
	uint64_t at;
	unsigned excluded; /* byte values that do not occur: 0, or 1 */
};

static int next_byte(struct stream *s, uint8_t *ret)
{
	int r = vm_read(s->m, ret, s->at, 1);

	s->at++;
	return r;
}

/*
 * One to five digits of base 64, the lowest first: a byte of 192 and more (191, where 0 does not occur)
 * says that another one follows.
 */
static int next_number(struct stream *s, uint32_t *ret)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < 5; i++) {
		uint8_t byte;
		int r = next_byte(s, &byte);

		if (r < 0)
			return r;
		if (byte < s->excluded)
			return -EBADMSG;
		value += (uint32_t)(byte - s->excluded) << (6 * i);
		if (byte < 192)
			break;
	}
	*ret = value;
	return 0;
}

/* --- names */

/* Appends a symbol's text. 0; -ENOTSUP: it is none. */
static int append_symbol(struct vm_memory *m, const struct hotspot_layout *l, uint64_t symbol, char *to,
			 size_t size)
{
	const enum hotspot_field_name body =
		hotspot_has(l, HOTSPOT_SYMBOL_BODY) ? HOTSPOT_SYMBOL_BODY : HOTSPOT_SYMBOL_BODY_OLD;
	size_t at = strlen(to);
	uint64_t len = 0;
	int r;

	if (hotspot_has(l, HOTSPOT_SYMBOL_LENGTH)) {
		r = hotspot_get(m, l, symbol, HOTSPOT_SYMBOL_LENGTH, &len);
	} else {
		r = hotspot_get(m, l, symbol, HOTSPOT_SYMBOL_LENGTH_NEW, &len);
		len >>= 16;
	}
	if (r < 0)
		return r;
	if (!len)
		return -ENOTSUP;
	len = len < size - 1 - at ? len : size - 1 - at;
	r = vm_read(m, to + at, symbol + l->fields[body].off, len);
	if (r < 0)
		return r;
	to[at + len] = '\0';
	return memchr(to + at, 0, len) ? -ENOTSUP : 0;
}

/* Appends the symbol of a slot of the constant pool. */
static int append_slot(struct vm_memory *m, const struct hotspot_layout *l, uint64_t pool, uint64_t slot,
		       char *to, size_t size)
{
	uint64_t length = UINT16_MAX + 1u, symbol = 0;
	int r = hotspot_has(l, HOTSPOT_POOL_LENGTH) ? hotspot_get(m, l, pool, HOTSPOT_POOL_LENGTH, &length)
						    : 0;

	if (r == 0 && (!slot || slot >= length))
		r = -ENOTSUP;
	if (r == 0)
		r = vm_read_number(m, &symbol, pool + l->pool_bytes + slot * 8, 8);
	return r < 0 ? r : append_symbol(m, l, symbol & ~1ull, to, size);
}

static bool is_hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdef") >= n;
}

/* "a/b/C" → "a.b.C"; a hidden class has its address behind its name, which is left out. */
static void make_readable(char *name)
{
	for (char *c = name; *c; c++) {
		if ((*c == '/' || *c == '+') && c[1] == '0' && c[2] == 'x' && is_hex(c + 3, HIDDEN_DIGITS)) {
			memmove(c, c + 3 + HIDDEN_DIGITS, strlen(c + 3 + HIDDEN_DIGITS) + 1);
			if (!*c)
				return;
		}
		if (*c == '/')
			*c = '.';
	}
}

/* The name of the file is in the pool, or, in old versions, in the class; without it, it is unknown. */
static void read_file(struct vm_memory *m, const struct hotspot_layout *l, uint64_t pool, uint64_t class,
		      struct hotspot_method *ret)
{
	uint64_t slot = 0;
	int r = hotspot_has(l, HOTSPOT_POOL_FILE) ? hotspot_get(m, l, pool, HOTSPOT_POOL_FILE, &slot)
						  : hotspot_get(m, l, class, HOTSPOT_CLASS_FILE, &slot);

	if (r == 0)
		r = append_slot(m, l, pool, slot, ret->file, sizeof ret->file);
	if (r < 0)
		ret->file[0] = '\0';
}

int hotspot_method_read(struct vm_memory *m, const struct hotspot_layout *l, uint64_t method,
			struct hotspot_method *ret)
{
	uint64_t pool = 0, class = 0, name = 0, slot = 0, bytes = 0;
	int r;

	memset(ret, 0, sizeof *ret);
	if (method & 7)
		return -ENOTSUP;
	r = hotspot_get(m, l, method, HOTSPOT_METHOD_CONST, &ret->constant);
	if (r == 0)
		r = hotspot_get(m, l, ret->constant, HOTSPOT_CONST_POOL, &pool);
	if (r == 0)
		r = hotspot_get(m, l, ret->constant, HOTSPOT_CONST_NAME, &slot);
	if (r == 0)
		r = hotspot_get(m, l, ret->constant, HOTSPOT_CONST_CODE_SIZE, &bytes);
	ret->start = ret->constant + l->method_bytes;
	ret->end = ret->start + bytes;
	if (r == 0)
		r = hotspot_get(m, l, pool, HOTSPOT_POOL_HOLDER, &class);
	if (r == 0)
		r = hotspot_get(m, l, class, HOTSPOT_CLASS_NAME, &name);
	if (r == 0)
		r = append_symbol(m, l, name, ret->name, sizeof ret->name - VM_TEXT_MAX);
	if (r < 0)
		return r;
	make_readable(ret->name);
	strcat(ret->name, "."); /* there is room for VM_TEXT_MAX bytes */
	r = append_slot(m, l, pool, slot, ret->name, sizeof ret->name);
	if (r == 0)
		read_file(m, l, pool, class, ret);
	return r;
}

/* --- lines */

/* The next entry of a line table: a bytecode from which on a line begins. 0; -ENODATA: there are no more. */
static int next_line(struct stream *s, uint32_t *bci, uint32_t *line)
{
	uint32_t by_bci, by_line;
	uint8_t byte;
	int r = next_byte(s, &byte);

	if (r == 0 && !byte)
		return -ENODATA;
	if (r == 0 && byte != 0xff) {
		*bci += byte >> 3;
		*line += byte & 7;
		return 0;
	}
	if (r == 0)
		r = next_number(s, &by_bci);
	if (r == 0)
		r = next_number(s, &by_line);
	if (r < 0)
		return r;
	/* signed: the sign is the lowest bit */
	*bci += (by_bci >> 1) ^ -(by_bci & 1);
	*line += (by_line >> 1) ^ -(by_line & 1);
	return 0;
}

/* The beginning of a method's line table. False: it has none. */
static bool lines_of(struct vm_memory *m, const struct hotspot_layout *l, uint64_t constant,
		     struct stream *ret)
{
	const bool new_flags = hotspot_has(l, HOTSPOT_CONST_FLAGS_NEW);
	uint64_t flags = 0, code = 0;
	int r = hotspot_get(m, l, constant, new_flags ? HOTSPOT_CONST_FLAGS_NEW : HOTSPOT_CONST_FLAGS,
			    &flags);

	if (r == 0)
		r = hotspot_get(m, l, constant, HOTSPOT_CONST_CODE_SIZE, &code);
	*ret = (struct stream){
		.m = m, .at = constant + l->method_bytes + code, .excluded = l->version >= ZERO_EXCLUDED};
	return r == 0 && flags & FLAG_LINES;
}

uint32_t hotspot_line(struct vm_memory *m, const struct hotspot_layout *l, uint64_t constant, uint32_t bci)
{
	uint32_t at = 0, line = 0, found = 0, nearest = 0;
	struct stream s;

	if (!lines_of(m, l, constant, &s))
		return 0;
	for (uint64_t limit = s.at + LINE_BYTES_MAX; s.at < limit && next_line(&s, &at, &line) == 0;)
		if (at <= bci && (!found || at >= nearest)) {
			nearest = at;
			found = line;
		}
	return found;
}

int hotspot_lines_read(struct vm_memory *m, const struct hotspot_layout *l,
		       const struct hotspot_method *method, uint64_t address, struct hotspot_scopes *ret)
{
	const uint32_t bytes = (uint32_t)(method->end - method->start);
	uint32_t at = 0, line = 0, n = 0;
	struct stream s;

	ret->n_methods = 1;
	ret->methods[0] = address;
	ret->constants[0] = method->constant;
	ret->scopes[0] = (struct hotspot_scope){.outer = HOTSPOT_NO_SCOPE};
	ret->places[0] = (struct hotspot_place){bytes, 0};
	if (lines_of(m, l, method->constant, &s))
		for (uint64_t limit = s.at + LINE_BYTES_MAX;
		     s.at < limit && next_line(&s, &at, &line) == 0;) {
			if (at >= bytes || n == HOTSPOT_PLACES_MAX - 1 || (n && at <= ret->places[n - 1].end))
				continue; /* not in order */
			if (at)
				ret->places[n++].end = at - 1;
			ret->places[n] = (struct hotspot_place){bytes, n};
			ret->scopes[n] = (struct hotspot_scope){HOTSPOT_NO_SCOPE, 0, line};
		}
	ret->n_places = ret->n_scopes = n + 1;
	return 0;
}

/* --- scopes */

struct debug_data {
	uint64_t places, places_end, scopes, methods; /* process addresses */
};

static int add_offset(struct vm_memory *m, const struct hotspot_layout *l, uint64_t base, uint64_t object,
		      enum hotspot_field_name field, uint64_t *ret)
{
	uint64_t off = 0;
	int r = hotspot_get(m, l, object, field, &off);

	*ret = base + off;
	return r;
}

/* From JDK 23 on, the tables are outside of the code heap, and what is patched is elsewhere again. */
static int find_outside(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			struct debug_data *ret)
{
	uint64_t base = 0, data = 0;
	int r = hotspot_get(m, l, b->address, HOTSPOT_NMETHOD_IMMUTABLE, &base);

	if (r == 0)
		r = add_offset(m, l, base, b->address, HOTSPOT_NMETHOD_PCS, &ret->places);
	if (r == 0)
		r = add_offset(m, l, base, b->address, HOTSPOT_NMETHOD_SCOPES, &ret->scopes);
	ret->places_end = ret->scopes;
	if (r == 0)
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_MUTABLE_DATA, &data);
	return r < 0 ? r : add_offset(m, l, data, b->address, HOTSPOT_BLOB_RELOCATION_SIZE, &ret->methods);
}

static int find_debug_data(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			   struct debug_data *ret)
{
	int r;

	if (hotspot_has(l, HOTSPOT_NMETHOD_IMMUTABLE))
		return find_outside(m, l, b, ret);
	r = add_offset(m, l, b->address, b->address, HOTSPOT_NMETHOD_PCS, &ret->places);
	if (r == 0)
		r = add_offset(m, l, b->address, b->address, HOTSPOT_NMETHOD_DEPENDENCIES, &ret->places_end);
	if (r == 0)
		r = add_offset(m, l, b->address, b->address, HOTSPOT_NMETHOD_METADATA, &ret->methods);
	if (r < 0)
		return r;
	if (hotspot_has(l, HOTSPOT_COMPILED_SCOPES))
		return hotspot_get(m, l, b->address, HOTSPOT_COMPILED_SCOPES, &ret->scopes);
	return add_offset(m, l, b->address, b->address, HOTSPOT_NMETHOD_SCOPES, &ret->scopes);
}

/* What is decoded, and where to. */
struct decoding {
	struct vm_memory *m;
	const struct hotspot_layout *l;
	struct debug_data data;
	struct hotspot_scopes *to;
};

/* The index of a method. 0; -ENOTSUP: it is none. */
static int method_index(struct decoding *d, uint32_t number, uint16_t *ret)
{
	struct hotspot_scopes *s = d->to;
	struct hotspot_method read;
	uint64_t method = 0;
	int r = number ? vm_read_number(d->m, &method, d->data.methods + (number - 1) * 8ull, 8) : -ENOTSUP;

	for (uint32_t i = 0; i < s->n_methods && r == 0; i++)
		if (s->methods[i] == method) {
			*ret = (uint16_t)i;
			return 0;
		}
	if (r == 0)
		r = s->n_methods < HOTSPOT_METHODS_MAX ? hotspot_method_read(d->m, d->l, method, &read)
						       : -ENOTSUP;
	if (r < 0)
		return r;
	s->methods[s->n_methods] = method;
	s->constants[s->n_methods] = read.constant;
	*ret = (uint16_t)s->n_methods++;
	return 0;
}

/* The index of a scope that was decoded a short time ago; HOTSPOT_NO_SCOPE: none. */
static uint16_t known_scope(const struct hotspot_scopes *s, uint32_t offset)
{
	for (uint32_t i = s->n_scopes; i-- > 0 && s->n_scopes - i <= SCOPES_SEARCHED;)
		if (s->offsets[i] == offset)
			return (uint16_t)i;
	return HOTSPOT_NO_SCOPE;
}

struct raw_scope {
	uint32_t offset, method, bci;
};

/* Decodes a scope and those around it, the innermost first. The number of them, or -errno. */
static int decode_chain(struct decoding *d, uint32_t offset, struct raw_scope *chain, uint16_t *ret_known)
{
	int n = 0;

	*ret_known = HOTSPOT_NO_SCOPE;
	while (offset) {
		struct stream s = {
			.m = d->m, .at = d->data.scopes + offset, .excluded = d->l->version >= ZERO_EXCLUDED};
		uint32_t outer;
		int r;

		*ret_known = known_scope(d->to, offset);
		if (*ret_known != HOTSPOT_NO_SCOPE)
			return n;
		if (n == (int)HOTSPOT_INLINED_MAX)
			return -ENOTSUP;
		r = next_number(&s, &outer);
		if (r == 0)
			r = next_number(&s, &chain[n].method);
		if (r == 0)
			r = next_number(&s, &chain[n].bci);
		if (r < 0 || outer >= offset) /* it was written before */
			return r < 0 ? r : -ENOTSUP;
		chain[n++].offset = offset;
		offset = outer;
	}
	return n;
}

/* The index of a scope, with those around it. 0, or -errno. */
static int add_scope(struct decoding *d, uint32_t offset, uint32_t *ret)
{
	struct raw_scope chain[HOTSPOT_INLINED_MAX];
	struct hotspot_scopes *s = d->to;
	uint16_t outer;
	int n = decode_chain(d, offset, chain, &outer), r = n < 0 ? n : 0;

	while (n-- > 0 && r == 0) {
		struct hotspot_scope *scope = &s->scopes[s->n_scopes];

		if (s->n_scopes == HOTSPOT_SCOPES_MAX)
			return -ENOTSUP;
		r = method_index(d, chain[n].method, &scope->method);
		if (r < 0)
			return r;
		scope->outer = outer;
		/* the bytecode plus 1; 0: before the first one */
		scope->line = hotspot_line(d->m, d->l, s->constants[scope->method],
					   chain[n].bci ? chain[n].bci - 1 : 0);
		s->offsets[s->n_scopes] = chain[n].offset;
		outer = (uint16_t)s->n_scopes++;
	}
	*ret = outer;
	return r < 0 || outer != HOTSPOT_NO_SCOPE ? r : -ENOTSUP;
}

/* 0; -ENOTSUP: something is not as it should be. */
static int read_places(struct decoding *d, uint64_t code_bytes)
{
	const uint64_t n = (d->data.places_end - d->data.places) / d->l->pc_bytes;
	struct hotspot_scopes *s = d->to;
	uint64_t last = 0;
	int r = 0;

	if (d->data.places_end < d->data.places || n > HOTSPOT_PLACES_MAX)
		return -ENOTSUP;
	for (uint64_t i = 0; i < n && r == 0; i++) {
		const uint64_t at = d->data.places + i * d->l->pc_bytes;
		uint64_t end = 0, scope = 0;

		r = hotspot_get(d->m, d->l, at, HOTSPOT_PC_OFFSET, &end);
		if (r == 0)
			r = hotspot_get(d->m, d->l, at, HOTSPOT_PC_SCOPE, &scope);
		/* the first and the last one are marks */
		if (r < 0 || (int32_t)end < 0 || end > code_bytes)
			continue;
		if (end < last)
			return -ENOTSUP;
		last = end;
		r = add_scope(d, (uint32_t)scope, &s->places[s->n_places].scope);
		s->places[s->n_places++].end = (uint32_t)end;
	}
	return r;
}

int hotspot_scopes_read(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			struct hotspot_scopes *ret)
{
	struct decoding d = {.m = m, .l = l, .to = ret};
	int r;

	ret->n_places = ret->n_scopes = 0;
	ret->n_methods = 1;
	ret->methods[0] = b->method;
	r = hotspot_get(m, l, b->method, HOTSPOT_METHOD_CONST, &ret->constants[0]);
	if (r < 0)
		return r;
	r = find_debug_data(m, l, b, &d.data);
	if (r == 0)
		r = read_places(&d, b->end - b->start);
	if (r < 0) {
		ret->n_places = ret->n_scopes = 0;
		ret->n_methods = 1;
	}
	return r == -E2BIG ? r : 0;
}
