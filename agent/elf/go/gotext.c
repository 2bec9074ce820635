// SPDX-License-Identifier: Apache-2.0
/*
 * Where the text starts that a table's offsets count from. The header said so up to Go 1.25, unless a linker
 * left it to a relocation. A section .text starts there, too, if Go's own linker made the file; with another
 * linker, start-up code of C goes before. So each candidate is put to the test: the first functions of the
 * table that have a frame must have a prologue in that place. That needs no symbols and no knowledge of the
 * runtime's data, and also refuses a header that lies.
 */
#include "agent/elf/go/gocode.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"

#define PROBES 48
#define PROBES_MIN 8		  /* fewer could agree by chance */
#define PROBED_FUNCTIONS 2048	  /* functions that are looked at for PROBES with a frame */
#define DEPTHS_PREFIX 64	  /* bytes of a pc-value table that are read for its first values */
#define SCAN_BYTES (512ull << 10) /* of each executable segment, for other starts than the likely ones */
#define SCAN_ALIGN 16

/* The end of the instruction that makes a function's frame. */
struct probe {
	uint64_t offset; /* from the start of the text */
	int32_t depth;
};

struct probes {
	struct probe probes[PROBES];
	unsigned n;
};

static bool first_depth(const struct gopclntab *t, const struct gopclntab_function *fn, struct probe *ret)
{
	uint8_t prefix[DEPTHS_PREFIX];
	struct gopclntab_values v;
	uint64_t from;

	gopclntab_depths(t, fn, prefix, sizeof(prefix), &v);
	while (gopclntab_values_next(&v, &from)) {
		*ret = (struct probe){.offset = from, .depth = v.value};
		if (v.value != 0)
			return from > fn->start && from < fn->end && v.value >= 8;
	}
	return false;
}

static void collect(const struct gopclntab *t, struct probes *ret)
{
	struct gopclntab_function fn;

	ret->n = 0;
	for (uint64_t i = 0; i < t->n_functions && i < PROBED_FUNCTIONS && ret->n < PROBES; i++) {
		if (gopclntab_function(t, i, &fn) == 0 && !(fn.flags & (GO_FLAG_ASM | GO_FLAG_SPWRITE)) &&
		    first_depth(t, &fn, &ret->probes[ret->n]))
			ret->n++;
	}
}

/* The first eight, and nearly all that follow. */
static bool fits(const struct probes *p, struct gocode *code, uint64_t text, enum go_prologue *ret)
{
	unsigned n[GO_PROLOGUE_STR + 1] = {0}, best = GO_PROLOGUE_PUSH;

	for (unsigned i = 0; i < p->n; i++) {
		n[gocode_prologue(code, text + p->probes[i].offset, p->probes[i].depth)]++;
		if (n[GO_PROLOGUE_NONE] > i / 8)
			return false;
	}
	for (unsigned k = GO_PROLOGUE_SUB; k <= GO_PROLOGUE_STR; k++)
		best = n[k] > n[best] ? k : best;
	*ret = n[best] ? best : GO_PROLOGUE_NONE;
	return true;
}

static int scan(struct gopclntab *t, const struct probes *p, struct gocode *code, enum go_prologue *ret)
{
	size_t n;
	const struct elf_segment *segments = elf_image_segments(t->img, &n);

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segments[i];
		uint64_t bytes = s->file_bytes < SCAN_BYTES ? s->file_bytes : SCAN_BYTES;

		if (!s->executable || s->va > UINT64_MAX - SCAN_BYTES - SCAN_ALIGN)
			continue;
		for (uint64_t at = (s->va + SCAN_ALIGN - 1) & ~(uint64_t)(SCAN_ALIGN - 1); at < s->va + bytes;
		     at += SCAN_ALIGN) {
			if (!fits(p, code, at, ret))
				continue;
			t->text = at;
			return 0;
		}
	}
	return -ENOENT;
}

/* The likely starts. */
static size_t candidates(const struct gopclntab *t, uint64_t ret[2])
{
	struct elf_section section;
	size_t n = 0;

	if (t->header_text)
		ret[n++] = t->header_text;
	if (elf_image_find_section(t->img, ".text", &section) == 0)
		ret[n++] = section.va;
	return n;
}

int gocode_find_text(struct gopclntab *t, enum go_prologue *ret)
{
	_cleanup_free_ struct gocode *code = calloc(1, sizeof(*code));
	struct probes p;
	uint64_t starts[2];

	*ret = GO_PROLOGUE_NONE;
	if (t->layout == GOPCLNTAB_1_16)
		return 0; /* addresses, not offsets */
	if (!code)
		return -ENOMEM;
	code->img = t->img;
	collect(t, &p);
	size_t n = candidates(t, starts);
	for (size_t i = 0; i < n; i++) {
		if (!fits(&p, code, starts[i], ret))
			continue;
		t->text = starts[i];
		return 0;
	}
	return p.n >= PROBES_MIN ? scan(t, &p, code, ret) : -ENOENT;
}
