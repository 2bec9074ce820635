// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/ruby.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/a64.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/runtime/php.h"

#define VERSION_BYTES_MAX 12u  /* "255.255.255", with its NUL */
#define SYMBOLS_CODE_MAX 1024u /* bytes of rb_sym_all_symbols */
#define OPERATORS_MIN 128u     /* IDs of operators, whose number is in the file as that of the last ID */
#define OPERATORS_MAX 1024u

enum name { NAME_VERSION, NAME_CONTEXT, NAME_LOOP, NAME_EVAL, NAME_SYMBOLS, N_NAMES };

struct version_layout {
	uint32_t version;
	struct ruby_layout layout;
};

/* vm_core.h, iseq.h, rstring.h, internal/class.h of each version */
#define NONE RUBY_NO_OFFSET
static const struct version_layout layouts[] = {
	{RUBY_VERSION(2, 7), {56, 56, 72, 120, 136, 144, 176, 8, 0, 16, NONE, NONE, 0, 1, 0}},
	{RUBY_VERSION(3, 0), {56, 56, 40, 120, 136, 144, 176, 8, 0, 16, NONE, NONE, 0, 1, 0}},
	{RUBY_VERSION(3, 1), {64, 48, 40, 120, 136, 144, 176, 12, 0, 16, NONE, NONE, 0, 1, 0}},
	{RUBY_VERSION(3, 2), {64, 48, 48, 112, 128, 136, 168, 12, 16, 24, NONE, NONE, 0, 0, 0}},
	{RUBY_VERSION(3, 3), {56, 48, 48, 112, 128, 136, 168, 12, 16, 24, 152, 128, 12, 0, 0}},
	{RUBY_VERSION(3, 4), {56, 48, 48, 112, 128, 136, 168, 12, 16, 24, 152, 128, 13, 0, 1}},
};

bool ruby_layout_of(struct ruby_layout *ret, uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].version == version) {
			*ret = layouts[i].layout;
			return true;
		}
	return false;
}

/* Reads data by its address. False: the file does not have it. */
static bool read_data(const struct elf_image *img, uint64_t va, void *ret, size_t len)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	return s && va - s->va <= s->file_bytes && len <= s->file_bytes - (va - s->va) &&
	       elf_image_pread(img, s->offset + (va - s->va), ret, len) == 0;
}

/* "3.1.2" → a number; 0: it is no version. */
static uint32_t parse_version(const char *text)
{
	uint32_t part[3] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		const char *begin = text;

		for (; *text >= '0' && *text <= '9' && part[i] < 256; text++)
			part[i] = part[i] * 10 + (uint32_t)(*text - '0');
		if (text == begin || part[i] > 255 || *text != (i < 2 ? '.' : '\0'))
			return 0;
		text++;
	}
	return part[0] ? RUBY_VERSION(part[0], part[1]) | part[2] << 8 : 0;
}

static uint32_t find_version(const struct elf_image *img, const struct elf_definition *d)
{
	char text[VERSION_BYTES_MAX + 1] = "";

	if (!d->found || !d->bytes || d->bytes > VERSION_BYTES_MAX ||
	    !read_data(img, d->va, text, (size_t)d->bytes))
		return 0;
	return parse_version(text);
}

/* Whether the table of symbols is at this address, as in the file: all but the last ID is 0. */
static bool is_symbols(const struct elf_image *img, uint64_t va)
{
	uint64_t words[4]; /* last ID, names → IDs, IDs → names, symbols made at run time */

	return read_data(img, va, words, sizeof words) && words[0] >= OPERATORS_MIN &&
	       words[0] <= OPERATORS_MAX && !words[1] && !words[2] && !words[3];
}

static uint64_t a64_symbols(const struct elf_image *img, const struct elf_definition *d, const uint8_t *code)
{
	struct a64_pages pages = {0};

	for (size_t i = 0; i + A64_BYTES <= d->bytes; i += A64_BYTES) {
		struct a64_insn insn;
		uint64_t address;
		uint32_t word;

		memcpy(&word, code + i, sizeof word);
		insn = a64_decode(word);
		address = a64_address(&pages, word, d->va + i, &insn);
		address -= address && insn.op == A64_LOAD ? 8 : 0; /* else the table's own */
		if (address && is_symbols(img, address))
			return address + 16;
	}
	return 0;
}

static uint64_t x86_symbols(const struct elf_image *img, const struct elf_definition *d, const uint8_t *code)
{
	for (size_t i = 0; i + 7 <= d->bytes; i++) {
		int32_t distance;
		uint64_t va;

		/* mov distance(%rip), a register of 64 bits */
		if ((code[i] & 0xfb) != 0x48 || code[i + 1] != 0x8b || (code[i + 2] & 0xc7) != 5)
			continue;
		memcpy(&distance, code + i + 3, sizeof distance);
		va = d->va + i + 7 + (uint64_t)(int64_t)distance;
		if (is_symbols(img, va - 8))
			return va + 8;
	}
	return 0;
}

/*
 * Where the pointer to the names of IDs is: in the table of symbols, whose second word the function
 * rb_sym_all_symbols loads. 0: not found.
 */
static uint64_t find_symbols(const struct elf_image *img, const struct elf_definition *d)
{
	_cleanup_free_ uint8_t *code = d->found && d->bytes <= SYMBOLS_CODE_MAX ? malloc(d->bytes + 1) : NULL;

	if (!code || elf_image_read_code(img, d->va, code, d->bytes) < 0)
		return 0;
	return elf_arch(elf_image_machine(img)) == &elf_arch_aarch64 ? a64_symbols(img, d, code)
								     : x86_symbols(img, d, code);
}

/* What the compiler split off the loop. 0 or -ENOMEM. */
static int add_split(struct ruby_facts *f, struct elf_image *img)
{
	uint64_t start, end;
	int r;

	if (!f->n_loops)
		return 0;
	r = php_loop_split(img, f->loop_start[0], f->loop_end[0], &start, &end);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (start >= end || (start < f->loop_end[0] && end > f->loop_start[0]) || start == f->inner_start)
		return 0;
	f->loop_start[1] = start;
	f->loop_end[1] = end;
	f->n_loops = 2;
	return 0;
}

/* 0 or -ENOMEM. */
static int find_loops(struct ruby_facts *f, struct elf_image *img, const struct elf_definition *d)
{
	const struct elf_definition *loop = &d[NAME_LOOP], *eval = &d[NAME_EVAL];
	bool known = loop->found && loop->bytes && loop->va + loop->bytes > loop->va;
	int r;

	if (!known && (!eval->found || eval->va + eval->bytes <= eval->va))
		return 0;
	r = ruby_loop_find(f, img, eval->va, eval->va + eval->bytes, known ? loop->va : 0,
			   known ? loop->va + loop->bytes : 0);
	return r == 0 ? add_split(f, img) : r;
}

int ruby_facts_read(struct ruby_facts *ret, struct elf_image *img)
{
	struct elf_definition d[N_NAMES] = {
		[NAME_VERSION] = {.name = "ruby_version"},
		[NAME_CONTEXT] = {.name = "ruby_current_execution_context_ptr"},
		[NAME_LOOP] = {.name = "rb_vm_exec"},
		[NAME_EVAL] = {.name = "rb_iseq_eval"},
		[NAME_SYMBOLS] = {.name = "rb_sym_all_symbols"},
	};
	struct ruby_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	if (!elf_arch(elf_image_machine(img)))
		return -ENOENT;
	r = elf_definitions_find_dynamic(img, d, 1);
	if (r == 0 && d[NAME_VERSION].found)
		r = elf_definitions_find_dynamic(img, d, N_NAMES);
	if (r < 0)
		return r;
	f.version = find_version(img, &d[NAME_VERSION]);
	if (!f.version)
		return -ENOENT;
	f.known = ruby_layout_of(&f.layout, f.version & 0xffff0000u);
	f.symbols = find_symbols(img, &d[NAME_SYMBOLS]);
	if (f.version < RUBY_VERSION(3, 0)) {
		f.context = d[NAME_CONTEXT].va;
		f.known = f.known && f.context;
	}
	if (!f.known)
		memset(&f.layout, 0, sizeof f.layout);
	r = find_loops(&f, img, d);
	if (r == 0)
		*ret = f;
	return r;
}

static bool loops_valid(const struct ruby_facts *f)
{
	if (f->n_loops > RUBY_LOOPS_MAX || f->inner_start > f->inner_end ||
	    (f->inner_end && (f->inner_start == f->inner_end || !f->n_loops)))
		return false;
	for (uint32_t i = 0; i < RUBY_LOOPS_MAX; i++)
		if (i < f->n_loops ? f->loop_start[i] >= f->loop_end[i] : f->loop_start[i] || f->loop_end[i])
			return false;
	return true;
}

bool ruby_facts_valid(const struct ruby_facts *f)
{
	static const struct ruby_facts none;
	struct ruby_layout layout = none.layout;

	if (!f->version)
		return memcmp(f, &none, sizeof none) == 0;
	if (f->known > 1 || f->zero || f->zero_end || !loops_valid(f) ||
	    (f->version >= RUBY_VERSION(3, 0) ? f->context != 0 : f->known && !f->context))
		return false;
	return (!f->known || ruby_layout_of(&layout, f->version & 0xffff0000u)) &&
	       memcmp(&layout, &f->layout, sizeof layout) == 0;
}
