// SPDX-License-Identifier: Apache-2.0
/*
 * Symbols of the parts that GCC moves away from a function, "name.cold", are no functions: they are entered
 * by jumps, with the frame that the function has made.
 *
 * Pointers to functions lie in data: as addends of relocations, as words to be relocated (SHT_RELR), or, in
 * programs with fixed addresses, as words. Labels of computed jumps and of tables for switches are there,
 * too, so such an address may be inside a function.
 */
#include "agent/elf/code/starts.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/a64.h"
#include "agent/elf/code/cold_names.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/strtab.h"

#ifndef SHT_RELR
#define SHT_RELR 19
#endif
#define STARTS_MAX (1u << 20)
#define ENTRIES_PER_READ 2048
#define DATA_CHUNK (64u << 10)
#define DATA_MAX (64u << 20) /* bytes of data in which pointers are searched */
#define CODE_MAX (64u << 20) /* bytes of code with rows */
#define SYMBOLS_MAX (8u << 20)
#define CELLS 4096u /* of the code of a file, in which there are gaps or not */

/* Imported functions that do not return. */
static const char *const no_return_names[] = {
	"_Exit",
	"_Unwind_Resume",
	"_ZSt10unexpectedv",
	"_ZSt16__throw_bad_castv",
	"_ZSt17__throw_bad_allocv",
	"_ZSt19__throw_logic_errorPKc",
	"_ZSt20__throw_length_errorPKc",
	"_ZSt20__throw_out_of_rangePKc",
	"_ZSt20__throw_system_errori",
	"_ZSt24__throw_invalid_argumentPKc",
	"_ZSt24__throw_out_of_range_fmtPKcz",
	"_ZSt25__throw_bad_function_callv",
	"_ZSt28__throw_bad_array_new_lengthv",
	"_ZSt9terminatev",
	"__assert",
	"__assert_fail",
	"__assert_perror_fail",
	"__chk_fail",
	"__cxa_bad_cast",
	"__cxa_bad_typeid",
	"__cxa_call_unexpected",
	"__cxa_pure_virtual",
	"__cxa_rethrow",
	"__cxa_throw",
	"__cxa_throw_bad_array_new_length",
	"__fortify_fail",
	"__libc_start_main",
	"__longjmp_chk",
	"__stack_chk_fail",
	"_d_arraybounds",
	"_d_arraybounds_index",
	"_d_arraybounds_indexp",
	"_d_arraybounds_slice",
	"_d_arraybounds_slicep",
	"_d_arrayboundsp",
	"_d_assert",
	"_d_assert_msg",
	"_d_assertp",
	"_d_throw",
	"_exit",
	"_longjmp",
	"abort",
	"err",
	"errx",
	"exit",
	"longjmp",
	"pthread_exit",
	"quick_exit",
	"siglongjmp",
	"thrd_exit",
	"verr",
	"verrx",
};

struct reader {
	struct code_starts *s;
	const struct elf_image *img;
	const struct elf_arch *arch;
	const struct elf_segment *segments;
	size_t n_segments;
	const struct code_gap *gaps; /* only these are of interest; NULL: all code is */
	size_t n_gaps;
	uint8_t has_gap[CELLS],
		cell_bits; /* a cell has 1 << cell_bits bytes; the first begins with the first gap */
	int fatal;
};

/* The symbols of a table, and which of them are names of cold parts: read when that is needed first. */
struct symbols {
	struct elf_strtab names;
	struct cold_names cold;
	bool have_cold;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool does_not_return(const char *name)
{
	return bsearch(&name, no_return_names, ARRAY_SIZE(no_return_names), sizeof *no_return_names,
		       compare_names);
}

static bool is_code(const struct reader *r, uint64_t va)
{
	for (size_t i = 0; i < r->n_segments; i++)
		if (r->segments[i].executable && va - r->segments[i].va < r->segments[i].file_bytes)
			return true;
	return false;
}

/* So that of the many symbols in other code, none is searched among the gaps. */
static void mark_cells(struct reader *r)
{
	const uint64_t from = r->gaps[0].start;
	uint64_t to = from;

	for (size_t i = 0; i < r->n_gaps; i++) /* they may overlap, as the sections of a damaged file do */
		to = r->gaps[i].end > to ? r->gaps[i].end : to;
	while ((to - from) >> r->cell_bits >= CELLS)
		r->cell_bits++;
	for (size_t i = 0; i < r->n_gaps; i++) {
		const size_t last = (size_t)((r->gaps[i].end - 1 - from) >> r->cell_bits);

		for (size_t cell = (size_t)((r->gaps[i].start - from) >> r->cell_bits); cell <= last; cell++)
			r->has_gap[cell] = 1;
	}
}

static bool is_in_gap(const struct reader *r, uint64_t va)
{
	const uint64_t cell = (va - r->gaps[0].start) >> r->cell_bits;
	size_t behind;

	if (cell >= CELLS || !r->has_gap[cell])
		return false;
	behind = array_first(r->n_gaps, k, r->gaps[k].start > va);
	return behind && va < r->gaps[behind - 1].end;
}

static bool is_of_interest(const struct reader *r, uint64_t va)
{
	return r->gaps ? is_in_gap(r, va) : is_code(r, va);
}

static void add(struct reader *r, uint64_t va, bool certain)
{
	struct code_starts *s = r->s;

	if (r->fatal || s->n >= STARTS_MAX || !is_code(r, va))
		return;
	r->fatal = array_reserve(&s->v, &s->cap, s->n + 1, sizeof *s->v);
	if (r->fatal == 0)
		s->v[s->n++] = (struct code_start){.va = va, .certain = certain};
}

static void add_word(struct reader *r, uint64_t va)
{
	const size_t n = r->s->n;

	add(r, va, false);
	if (r->s->n > n)
		r->s->v[n].word = true;
}

/* --- symbols */

static bool is_cold(struct reader *r, struct symbols *s, uint64_t name)
{
	if (!s->have_cold && cold_names_read(&s->cold, &s->names) == -ENOMEM)
		r->fatal = -ENOMEM;
	s->have_cold = true;
	return cold_names_has(&s->cold, name);
}

static void add_symbol(struct reader *r, struct symbols *s, const Elf64_Sym *sym)
{
	const unsigned type = ELF64_ST_TYPE(sym->st_info);

	if ((type == STT_FUNC || type == STT_GNU_IFUNC) && sym->st_shndx != SHN_UNDEF &&
	    is_of_interest(r, sym->st_value) && !is_cold(r, s, sym->st_name))
		add(r, sym->st_value, true);
}

static void add_symbols(struct reader *r, struct symbols *s, const struct elf_section *section)
{
	_cleanup_free_ Elf64_Sym *v = malloc(ENTRIES_PER_READ * sizeof *v);
	uint64_t n = section->bytes / sizeof *v < SYMBOLS_MAX ? section->bytes / sizeof *v : SYMBOLS_MAX;

	if (!v)
		r->fatal = -ENOMEM;
	for (uint64_t at = 0; at < n && r->fatal == 0; at += ENTRIES_PER_READ) {
		const uint64_t some = n - at < ENTRIES_PER_READ ? n - at : ENTRIES_PER_READ;

		if (elf_image_pread(r->img, section->offset + at * sizeof *v, v, some * sizeof *v) < 0)
			return;
		for (uint64_t i = 0; i < some; i++)
			add_symbol(r, s, &v[i]);
	}
}

static void read_symbols(struct reader *r, uint32_t type)
{
	struct symbols s = {0};
	struct elf_section section;

	if (elf_image_find_section_type(r->img, type, &section) < 0 ||
	    section.entry_bytes != sizeof(Elf64_Sym) || !elf_strtab_open(&s.names, r->img, &section))
		return;
	add_symbols(r, &s, &section);
	cold_names_fini(&s.cold);
}

/* --- relocations */

static void note_no_return(struct reader *r, uint64_t got)
{
	struct code_starts *s = r->s;

	if (s->n_no_return >= STARTS_MAX || r->fatal)
		return;
	r->fatal = array_reserve(&s->no_return, &s->cap_no_return, s->n_no_return + 1, sizeof *s->no_return);
	if (r->fatal == 0)
		s->no_return[s->n_no_return++] = got;
}

static void add_relocation(struct reader *r, const struct elf_section *symbols, struct elf_strtab *names,
			   const Elf64_Rela *rela)
{
	const uint32_t type = ELF64_R_TYPE(rela->r_info);
	Elf64_Sym sym;

	if (type == r->arch->relative || type == r->arch->irelative)
		add(r, (uint64_t)rela->r_addend, type == r->arch->irelative);
	else if ((type == r->arch->jump_slot || type == r->arch->glob_dat) && names &&
		 elf_image_pread(r->img, symbols->offset + ELF64_R_SYM(rela->r_info) * sizeof sym, &sym,
				 sizeof sym) == 0 &&
		 sym.st_shndx == SHN_UNDEF && does_not_return(elf_strtab_get(names, sym.st_name)))
		note_no_return(r, rela->r_offset);
}

static void read_relocations(struct reader *r, const struct elf_section *section)
{
	_cleanup_free_ Elf64_Rela *v = malloc(ENTRIES_PER_READ * sizeof *v);
	struct elf_section symbols;
	struct elf_strtab names;
	const bool named = elf_image_find_section_type(r->img, SHT_DYNSYM, &symbols) == 0 &&
			   elf_strtab_open(&names, r->img, &symbols);
	const uint64_t n = section->bytes / sizeof *v;

	if (!v) {
		r->fatal = -ENOMEM;
		return;
	}
	for (uint64_t at = 0; at < n && at < SYMBOLS_MAX; at += ENTRIES_PER_READ) {
		const uint64_t some = n - at < ENTRIES_PER_READ ? n - at : ENTRIES_PER_READ;

		if (elf_image_pread(r->img, section->offset + at * sizeof *v, v, some * sizeof *v) < 0)
			return;
		for (uint64_t i = 0; i < some; i++)
			add_relocation(r, &symbols, named ? &names : NULL, &v[i]);
	}
}

static void read_all_relocations(struct reader *r)
{
	const size_t n = elf_image_n_sections(r->img);

	for (size_t i = 1; i < n && r->fatal == 0; i++) {
		struct elf_section section;

		if (elf_image_section_header(r->img, i, &section) && section.type == SHT_RELA &&
		    section.flags & SHF_ALLOC)
			read_relocations(r, &section);
	}
}

/* --- words in data */

#define RELR_MAX (1u << 20)

static void read_word(struct reader *r, uint64_t va)
{
	const struct elf_segment *s = elf_image_segment_at(r->img, va);
	uint64_t word;

	if (s && s->file_bytes - (va - s->va) >= sizeof word &&
	    elf_image_pread(r->img, s->offset + (va - s->va), &word, sizeof word) == 0)
		add(r, word, false);
}

/* An even entry is the address of a word; an odd one has a bit for each of the next 63 words. */
static void read_relr(struct reader *r)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_section section;
	uint64_t at = 0, n;

	if (elf_image_find_section_type(r->img, SHT_RELR, &section) < 0)
		return;
	n = section.bytes / sizeof at < RELR_MAX ? section.bytes / sizeof at : RELR_MAX;
	if (elf_image_pread_new(r->img, section.offset, n * sizeof at, &bytes) < 0)
		return;
	for (uint64_t i = 0; i < n && r->fatal == 0; i++) {
		uint64_t entry;

		memcpy(&entry, bytes + i * sizeof entry, sizeof entry);
		if (!(entry & 1)) {
			read_word(r, entry);
			at = entry + 8;
			continue;
		}
		for (unsigned bit = 1; bit < 64; bit++)
			if (entry >> bit & 1)
				read_word(r, at + (bit - 1) * 8);
		at += 63 * 8;
	}
}

static void read_words(struct reader *r, const struct elf_segment *segment)
{
	_cleanup_free_ uint64_t *v = malloc(DATA_CHUNK);
	const uint64_t skip = -segment->va & 7,
		       bytes = segment->file_bytes > skip ? segment->file_bytes - skip : 0;

	if (!v) {
		r->fatal = -ENOMEM;
		return;
	}
	for (uint64_t at = 0; at < bytes && at < DATA_MAX; at += DATA_CHUNK) {
		const uint64_t some = bytes - at < DATA_CHUNK ? bytes - at : DATA_CHUNK;

		if (elf_image_pread(r->img, segment->offset + skip + at, v, some) < 0)
			return;
		for (uint64_t i = 0; i < some / sizeof *v; i++)
			add_word(r, v[i]);
	}
}

/* --- code that has rows already */

static void read_a64_span(struct reader *r, const struct row_span *span, const uint8_t *code)
{
	struct a64_pages pages = {0};

	for (uint64_t va = span->start; span->end - va >= A64_BYTES && r->fatal == 0; va += A64_BYTES) {
		struct a64_insn insn;
		uint64_t address;
		uint32_t word;

		memcpy(&word, code + (va - span->start), sizeof word);
		insn = a64_decode(word);
		address = a64_address(&pages, word, va, &insn);
		if (insn.op == A64_CALL)
			add(r, va + (uint64_t)(int64_t)insn.disp, true);
		else if (insn.op == A64_ADD && address)
			add(r, address, false);
	}
}

static void read_x86_span(struct reader *r, const struct row_span *span, const uint8_t *code)
{
	const size_t n = span->end - span->start;
	struct x86_insn insn;

	for (size_t at = 0; at < n && r->fatal == 0; at += insn.len) {
		uint64_t target;

		insn = x86_decode(code + at, n - at);
		if (!insn.len)
			return;
		target = span->start + at + insn.len + (uint64_t)(int64_t)insn.disp;
		if (insn.op == X86_CALL || (insn.op == X86_JUMP && target - span->start >= n))
			add(r, target, insn.op == X86_CALL);
		else if (insn.op == X86_ADDRESS)
			add(r, target, false);
		else if (insn.op == X86_CONSTANT && elf_image_type(r->img) == ET_EXEC)
			add(r, (uint64_t)insn.disp, false);
	}
}

/* Functions that it calls, and addresses that it loads. `code` has the bytes of the span. */
static void read_span(struct reader *r, const struct row_span *span, const uint8_t *code)
{
	if (r->arch->machine == EM_X86_64)
		read_x86_span(r, span, code);
	else
		read_a64_span(r, span, code);
}

static void read_spans(struct reader *r, const struct row_spans *spans)
{
	uint64_t budget = CODE_MAX;

	for (size_t i = 0; i < spans->n && r->fatal == 0; i++) {
		const struct row_span *span = &spans->v[i];
		_cleanup_free_ uint8_t *code = NULL;

		if (span->end - span->start > budget)
			return;
		budget -= span->end - span->start;
		code = malloc(span->end - span->start + 1);
		if (!code)
			r->fatal = -ENOMEM;
		else if (elf_image_read_code(r->img, span->start, code, span->end - span->start) == 0)
			read_span(r, span, code);
	}
}

/* --- all together */

static int compare_starts(const void *a, const void *b)
{
	const struct code_start *x = a, *y = b;

	if (x->va != y->va)
		return (x->va > y->va) - (x->va < y->va);
	return x->certain != y->certain ? y->certain - x->certain : x->word - y->word;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void sort(struct code_starts *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof *s->v, compare_starts);
	for (size_t i = 0; i < s->n; i++)
		if (!n || s->v[i].va != s->v[n - 1].va)
			s->v[n++] = s->v[i];
	s->n = n;
	if (s->n_no_return)
		qsort(s->no_return, s->n_no_return, sizeof *s->no_return, compare_addresses);
}

int code_starts_read(struct code_starts *s, const struct elf_image *img, const struct row_spans *spans)
{
	struct reader r = {.s = s, .img = img, .arch = elf_arch(elf_image_machine(img))};

	if (!r.arch)
		return 0;
	r.segments = elf_image_segments(img, &r.n_segments);
	read_spans(&r, spans);
	read_symbols(&r, SHT_SYMTAB);
	read_symbols(&r, SHT_DYNSYM);
	read_all_relocations(&r);
	read_relr(&r);
	for (size_t i = 0; i < r.n_segments && r.fatal == 0 && elf_image_type(img) == ET_EXEC; i++)
		if (!r.segments[i].executable)
			read_words(&r, &r.segments[i]);
	sort(s);
	return r.fatal;
}

int code_starts_read_symbols(struct code_starts *s, const struct elf_image *img, const struct code_gap *gaps,
			     size_t n_gaps)
{
	struct reader r = {
		.s = s, .img = img, .arch = elf_arch(elf_image_machine(img)), .gaps = gaps, .n_gaps = n_gaps};

	if (!r.arch || !n_gaps)
		return 0;
	mark_cells(&r);
	r.segments = elf_image_segments(img, &r.n_segments);
	read_symbols(&r, SHT_SYMTAB);
	read_symbols(&r, SHT_DYNSYM);
	sort(s);
	return r.fatal;
}

int code_starts_add(struct code_starts *s, const uint64_t *va, size_t n)
{
	const int r = array_reserve(&s->v, &s->cap, s->n + n, sizeof *s->v);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		s->v[s->n++] = (struct code_start){.va = va[i], .certain = true};
	sort(s);
	return 0;
}

void code_starts_fini(struct code_starts *s)
{
	free(s->v);
	free(s->no_return);
	*s = (struct code_starts){0};
}

size_t code_starts_from(const struct code_starts *s, uint64_t va)
{
	return array_first(s->n, i, s->v[i].va >= va);
}

const struct code_start *code_starts_at(const struct code_starts *s, uint64_t va)
{
	const size_t i = code_starts_from(s, va);

	return i < s->n && s->v[i].va == va ? &s->v[i] : NULL;
}

bool code_starts_no_return(const struct code_starts *s, uint64_t got)
{
	const size_t i = array_first(s->n_no_return, k, s->no_return[k] >= got);

	return i < s->n_no_return && s->no_return[i] == got;
}
