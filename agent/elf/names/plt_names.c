// SPDX-License-Identifier: Apache-2.0
/*
 * A PLT slot is identified by its indirect jump: the address of the GOT entry that it loads is the r_offset
 * of a relocation, and the symbol of that relocation is the function. So .plt, .plt.sec and .plt.got of all
 * linkers can be read, in any order of slots.
 */
#include "agent/elf/names/plt_names.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/strtab.h"

#define SLOT_BYTES 16
#define RELOCATIONS_PER_READ 2048

struct plt_target {
	uint64_t got; /* address of the GOT entry */
	struct plt_slot slot;
};

struct plt {
	struct elf_image *img;
	const struct elf_arch *arch;
	struct elf_strtab strings;
	struct elf_section dynsym;  /* without entries if there is none */
	struct plt_target *targets; /* owned; sorted by got */
	size_t n;
	struct plt_ifuncs *ifuncs;
};

static int compare_targets(const void *a, const void *b)
{
	const struct plt_target *x = a, *y = b;

	return x->got < y->got ? -1 : x->got > y->got;
}

/* Recognises jmp *disp32(%rip), possibly behind endbr64 and a bnd prefix. */
static bool got_of_x86_slot(const uint8_t *code, uint64_t va, uint64_t *ret)
{
	for (int i = 0; i + 6 <= SLOT_BYTES; i++) {
		int32_t disp;

		if (code[i] != 0xff || code[i + 1] != 0x25)
			continue;
		memcpy(&disp, code + i + 2, sizeof(disp));
		*ret = va + (uint64_t)i + 6 + (uint64_t)(int64_t)disp;
		return true;
	}
	return false;
}

/* Recognises adrp x16, page; ldr x17, [x16, #off], possibly behind bti c. */
static bool got_of_arm64_slot(const uint8_t *code, uint64_t va, uint64_t *ret)
{
	for (int i = 0; i + 8 <= SLOT_BYTES; i += 4) {
		uint32_t adrp, ldr;

		memcpy(&adrp, code + i, sizeof(adrp));
		memcpy(&ldr, code + i + 4, sizeof(ldr));
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		uint64_t pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7ffff) << 2;
		if (pages & 1 << 20)
			pages |= ~0ull << 21;
		*ret = ((va + (uint64_t)i) & ~0xfffull) + (pages << 12) + (ldr >> 10 & 0xfffull) * 8;
		return true;
	}
	return false;
}

static void find_slot(struct plt *p, const struct elf_section *section, uint64_t slot_bytes, uint64_t addr,
		      size_t index)
{
	uint64_t in = (addr - section->va) / slot_bytes * slot_bytes;
	struct plt_target t = {
		.slot = {.index = index, .start = section->va + in, .end = section->va + in + slot_bytes}};
	uint8_t code[SLOT_BYTES] = {0};
	size_t len = slot_bytes < SLOT_BYTES ? slot_bytes : SLOT_BYTES;

	if (elf_image_pread(p->img, section->offset + in, code, len) < 0)
		return;
	bool found = p->arch->machine == EM_X86_64 ? got_of_x86_slot(code, t.slot.start, &t.got)
						   : got_of_arm64_slot(code, t.slot.start, &t.got);
	if (found)
		p->targets[p->n++] = t;
}

static void find_slots(struct plt *p, const uint64_t *addrs, size_t n, const struct elf_symbol *ret)
{
	static const struct {
		const char *name;
		uint64_t x86_bytes; /* bytes of a slot */
	} tables[] = {{".plt", 16}, {".plt.sec", 16}, {".plt.got", 8}, {".iplt", 16}};
	struct elf_section section;

	for (size_t k = 0; k < ARRAY_SIZE(tables); k++) {
		if (elf_image_find_section(p->img, tables[k].name, &section) < 0)
			continue;
		/*
		 * slots of .plt.got have 8 bytes, or 16 with endbr64, those of .plt 8 in static programs: the
		 * section header says so
		 */
		uint64_t bytes = section.entry_bytes == 8 || section.entry_bytes == 16 ? section.entry_bytes
										       : tables[k].x86_bytes;
		if (p->arch->machine == EM_AARCH64)
			bytes = 16;
		for (size_t i = 0; i < n; i++) {
			if (!ret[i].name && addrs[i] >= section.va && addrs[i] - section.va < section.bytes &&
			    p->n < n)
				find_slot(p, &section, bytes, addrs[i], i);
		}
	}
	qsort(p->targets, p->n, sizeof(*p->targets), compare_targets);
}

static const char *symbol_name(struct plt *p, uint64_t index)
{
	Elf64_Sym sym;

	if (index == 0 || index >= p->dynsym.bytes / sizeof(sym) ||
	    elf_image_pread(p->img, p->dynsym.offset + index * sizeof(sym), &sym, sizeof(sym)) < 0)
		return "";
	return elf_strtab_get(&p->strings, sym.st_name);
}

int plt_name_slot(struct elf_symbol *s, const struct plt_slot *slot, const char *function)
{
	if (!function || !function[0] || s->name)
		return 0;
	if (asprintf(&s->name, "%.*s@plt", (int)strcspn(function, "@"), function) < 0) {
		s->name = NULL;
		return -ENOMEM;
	}
	s->start = slot->start;
	s->end = slot->end;
	return 0;
}

static bool is_irelative(const struct plt *p, const Elf64_Rela *rela)
{
	uint64_t type = ELF64_R_TYPE(rela->r_info);

	return type == p->arch->irelative;
}

/* The first target with this GOT entry, or the place where it would be inserted. */
static size_t target_of(const struct plt *p, uint64_t got)
{
	return array_first(p->n, i, p->targets[i].got >= got);
}

static int apply_relocation(struct plt *p, const Elf64_Rela *rela, struct elf_symbol *ret)
{
	for (size_t i = target_of(p, rela->r_offset); i < p->n && p->targets[i].got == rela->r_offset; i++) {
		const struct plt_slot *slot = &p->targets[i].slot;
		struct plt_ifuncs *later = p->ifuncs;

		if (is_irelative(p, rela) && later->n < p->n) {
			later->slots[later->n] = *slot;
			later->resolvers[later->n++] = (uint64_t)rela->r_addend;
			continue;
		}
		int r = plt_name_slot(&ret[slot->index], slot, symbol_name(p, ELF64_R_SYM(rela->r_info)));
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_relocations(struct plt *p, const struct elf_section *table, Elf64_Rela *relas,
			    struct elf_symbol *ret)
{
	uint64_t n = table->bytes / sizeof(*relas);

	for (uint64_t first = 0; first < n; first += RELOCATIONS_PER_READ) {
		uint64_t left = n - first, here = left < RELOCATIONS_PER_READ ? left : RELOCATIONS_PER_READ;

		if (elf_image_pread(p->img, table->offset + first * sizeof(*relas), relas,
				    here * sizeof(*relas)) < 0)
			return 0;
		for (uint64_t i = 0; i < here; i++) {
			int r = apply_relocation(p, &relas[i], ret);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int name_slots(struct plt *p, struct elf_symbol *ret)
{
	_cleanup_free_ Elf64_Rela *relas = calloc(RELOCATIONS_PER_READ, sizeof(*relas));
	static const char *const tables[] = {".rela.plt", ".rela.dyn", ".rela.iplt"};
	struct elf_section section;

	if (!relas)
		return -ENOMEM;
	for (size_t k = 0; k < ARRAY_SIZE(tables); k++) {
		if (elf_image_find_section(p->img, tables[k], &section) < 0)
			continue;
		int r = read_relocations(p, &section, relas, ret);
		if (r < 0)
			return r;
	}
	return 0;
}

static int targets_new(struct plt *p, size_t n)
{
	p->targets = calloc(n + 1, sizeof(*p->targets));
	p->ifuncs->slots = calloc(n + 1, sizeof(*p->ifuncs->slots));
	p->ifuncs->resolvers = calloc(n + 1, sizeof(*p->ifuncs->resolvers));
	return p->targets && p->ifuncs->slots && p->ifuncs->resolvers ? 0 : -ENOMEM;
}

int plt_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret,
		struct plt_ifuncs *ret_ifuncs)
{
	const struct elf_arch *arch = elf_arch(elf_image_machine(img));
	struct plt *p;
	int r;

	if (!arch)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->img = img;
	p->arch = arch;
	p->ifuncs = ret_ifuncs;
	r = targets_new(p, n);
	if (r == 0)
		find_slots(p, addrs, n, ret);
	if (elf_image_find_section_type(img, SHT_DYNSYM, &p->dynsym) < 0 ||
	    !elf_strtab_open(&p->strings, img, &p->dynsym))
		p->dynsym = (struct elf_section){0};
	if (p->n)
		r = name_slots(p, ret);
	free(p->targets);
	free(p);
	return r;
}

void plt_ifuncs_fini(struct plt_ifuncs *x)
{
	free(x->slots);
	free(x->resolvers);
	*x = (struct plt_ifuncs){0};
}
