// SPDX-License-Identifier: Apache-2.0
/*
 * libdw interprets the instructions of the FDEs (dwarf_cfi_addrframe). Where FDEs begin is read here, from
 * .eh_frame by way of dwarf_next_cfi. Nothing of the agent is used.
 */
#include "tests/oracle/analysis/reference.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

struct starts {
	uint64_t *v;
	size_t n, cap;
};

struct sections {
	Elf_Scn *eh_frame;
	uint64_t va;
};

static int find_sections(struct reference *r, Elf *elf, struct sections *ret)
{
	size_t names;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return -ENOENT;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

		if (!name)
			continue;
		if (strcmp(name, ".eh_frame") == 0 && header.sh_type != SHT_NOBITS && header.sh_size)
			*ret = (struct sections){scn, header.sh_addr};
		else if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0)
			r->go = true;
		else if (strcmp(name, ".comment") == 0 && !r->producer && header.sh_size) {
			const Elf_Data *data = elf_getdata(scn, NULL);

			r->producer = data && data->d_buf ? strndup(data->d_buf, data->d_size) : NULL;
		}
	}
	return ret->eh_frame ? 0 : -ENOENT;
}

/* The encoding of addresses in FDEs of the CIE (LSB, "DWARF Extensions"). */
static uint8_t encoding(const Dwarf_CIE *cie)
{
	const uint8_t *p = cie->augmentation_data, *end = p ? p + cie->augmentation_data_size : NULL;

	if (!cie->augmentation || cie->augmentation[0] != 'z')
		return DW_EH_PE_absptr;
	for (const char *a = cie->augmentation + 1; *a && p && p < end; a++) {
		if (*a == 'R')
			return *p;
		if (*a == 'L')
			p++;
		else if (*a == 'P')
			p += 1 + ((*p & 7) == DW_EH_PE_udata4 ? 4 : (*p & 7) == DW_EH_PE_udata2 ? 2 : 8);
		else if (*a != 'S' && *a != 'B')
			return DW_EH_PE_absptr;
	}
	return DW_EH_PE_absptr;
}

/* The address in an FDE, whose first byte has the address `va`. */
static uint64_t location(const uint8_t *bytes, uint8_t how, uint64_t va)
{
	const uint64_t base = (how & 0x70) == DW_EH_PE_pcrel ? va : 0;
	uint64_t wide;
	uint32_t narrow;

	if ((how & 7) == DW_EH_PE_udata4) {
		memcpy(&narrow, bytes, sizeof narrow);
		return base + (how & DW_EH_PE_signed ? (uint64_t)(int64_t)(int32_t)narrow : narrow);
	}
	memcpy(&wide, bytes, sizeof wide);
	return base + wide;
}

static int add_start(struct starts *s, uint64_t va)
{
	if (s->n == s->cap) {
		const size_t cap = s->cap ? 2 * s->cap : 1024;
		uint64_t *v = reallocarray(s->v, cap, sizeof *v);

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = va;
	return 0;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int read_starts(struct starts *ret, Elf *elf, const struct sections *sections)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	Elf_Data *data = elf_rawdata(sections->eh_frame, NULL);
	Dwarf_Off at = 0, next;
	int r = 0;

	while (data && r == 0) {
		Dwarf_CFI_Entry entry, cie;
		Dwarf_Off unused;
		const int found = dwarf_next_cfi(ident, data, true, at, &next, &entry);

		if (found > 0 || next <= at)
			break;
		at = next;
		if (found < 0 || dwarf_cfi_cie_p(&entry) ||
		    dwarf_next_cfi(ident, data, true, entry.fde.CIE_pointer, &unused, &cie) != 0 ||
		    !dwarf_cfi_cie_p(&cie) || entry.fde.end - entry.fde.start < 8)
			continue;
		r = add_start(ret,
			      location(entry.fde.start, encoding(&cie.cie),
				       sections->va + (uint64_t)(entry.fde.start - (uint8_t *)data->d_buf)));
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, compare_addresses);
	return r;
}

/* --- rows */

/* Register and offset of an operation that is their sum; false: it is another one. */
static bool is_sum(const Dwarf_Op *op, uint8_t *ret_reg, int32_t *ret_off)
{
	if (op->atom == DW_OP_bregx && op->number < 32) {
		*ret_reg = (uint8_t)op->number;
		*ret_off = (int32_t)op->number2;
		return true;
	}
	if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
		return false;
	*ret_reg = (uint8_t)(op->atom - DW_OP_breg0);
	*ret_off = (int32_t)op->number;
	return true;
}

static void set_cfa(struct ref_row *row, const Dwarf_Op *ops, size_t n)
{
	if (!n || !is_sum(ops, &row->reg, &row->off))
		return;
	if (n == 1)
		row->cfa = REF_CFA_REG;
	else if (ops[1].atom == DW_OP_deref && n == 2)
		row->cfa = REF_CFA_DEREF;
	else if (ops[1].atom == DW_OP_deref && n == 3 && ops[2].atom == DW_OP_plus_uconst) {
		row->cfa = REF_CFA_DEREF;
		row->add = (int32_t)ops[2].number;
	}
}

static struct ref_reg read_register(Dwarf_Frame *frame, int number)
{
	struct ref_reg r = {REF_OTHER, 0};
	Dwarf_Op memory[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, number, memory, &ops, &n) < 0)
		return r;
	if (n == 0)
		r.kind = ops ? REF_UNDEFINED : REF_SAME;
	else if (ops[0].atom == DW_OP_call_frame_cfa && n <= 2 &&
		 (n == 1 || ops[1].atom == DW_OP_plus_uconst))
		r = (struct ref_reg){REF_AT, n == 1 ? 0 : (int32_t)ops[1].number};
	return r;
}

static int add_row(struct reference *r, Dwarf_Frame *frame, uint64_t function, uint64_t *at)
{
	struct ref_row row = {.function = function};
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_info(frame, &row.start, &row.end, &row.signal) < 0 || row.end <= *at)
		return -EIO;
	row.start = *at;
	*at = row.end;
	if (dwarf_frame_cfa(frame, &ops, &n) == 0)
		set_cfa(&row, ops, n);
	row.rbp = read_register(frame, REF_RBP);
	row.ra = read_register(frame, REF_RA);
	if (r->n == r->cap) {
		const size_t cap = r->cap ? 2 * r->cap : 4096;
		struct ref_row *v = reallocarray(r->v, cap, sizeof *v);

		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	r->v[r->n++] = row;
	r->bytes += row.end - row.start;
	return 0;
}

static int read_rows(struct reference *r, Dwarf_CFI *cfi, const struct starts *starts)
{
	int result = 0;

	for (size_t i = 0; i < starts->n && result != -ENOMEM; i++) {
		const uint64_t limit = i + 1 < starts->n ? starts->v[i + 1] : UINT64_MAX;
		uint64_t at = starts->v[i];

		for (result = 0; result == 0 && at < limit;) {
			Dwarf_Frame *frame;

			if (dwarf_cfi_addrframe(cfi, at, &frame) != 0)
				break;
			result = add_row(r, frame, starts->v[i], &at);
			free(frame);
		}
	}
	return result == -ENOMEM ? result : 0;
}

static int read_elf(struct reference *r, Elf *elf)
{
	struct sections sections = {0};
	struct starts starts = {0};
	GElf_Ehdr header;
	Dwarf_CFI *cfi;
	int result;

	if (!gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64)
		return -ENOENT;
	result = find_sections(r, elf, &sections);
	if (result < 0 || r->go)
		return result;
	cfi = dwarf_getcfi_elf(elf);
	if (!cfi)
		return -EIO;
	result = read_starts(&starts, elf, &sections);
	if (result == 0)
		result = read_rows(r, cfi, &starts);
	dwarf_cfi_end(cfi);
	free(starts.v);
	return result;
}

int reference_read(struct reference *r, int fd)
{
	Elf *elf;
	int result;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf)
		return -EIO;
	result = elf_kind(elf) == ELF_K_ELF ? read_elf(r, elf) : -ENOENT;
	elf_end(elf);
	return result;
}

void reference_fini(struct reference *r)
{
	free(r->v);
	free(r->producer);
	*r = (struct reference){0};
}

const struct ref_row *reference_find(const struct reference *r, uint64_t va, size_t *hint)
{
	size_t low = 0, high = r->n;

	if (*hint < r->n && va >= r->v[*hint].start) {
		if (va < r->v[*hint].end)
			return &r->v[*hint];
		if (*hint + 1 < r->n && va < r->v[*hint + 1].start)
			return NULL;
		low = *hint + 1;
		if (low < r->n && va < r->v[low].end)
			high = low + 1;
	}
	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (va < r->v[mid].end)
			high = mid;
		else
			low = mid + 1;
	}
	*hint = low;
	return low < r->n && va >= r->v[low].start ? &r->v[low] : NULL;
}
