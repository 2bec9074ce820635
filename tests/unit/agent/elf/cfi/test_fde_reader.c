// SPDX-License-Identifier: Apache-2.0
/* Damages entries of .eh_frame and of its search table: only the damaged function is lost. */
#include "tests/unit/agent/elf/elf_file.h"

#include "agent/elf/unwind_table.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define FUNCTIONS 5
#define FUNCTION_BYTES 0x40 /* the FDE describes 0x20 of them */
#define DESCRIBED_BYTES 0x20
#define FRAME_VA 0x4000
#define HEADER_VA 0x3000
#define TABLE_AT 12 /* offset in .eh_frame_hdr */

/* not an instruction, so that the code gives no rows */
static char code[FUNCTIONS * FUNCTION_BYTES] = {[0 ... FUNCTIONS * FUNCTION_BYTES - 1] = 0x06};
static const struct file_section text = {
	".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};

struct frame {
	struct buf eh, header;
	size_t fdes[FUNCTIONS]; /* offsets in eh */
};

static uint64_t va_of(size_t function)
{
	return TEXT_VA + function * FUNCTION_BYTES;
}

/* In function n, the CFA is rsp + 16 * (n + 2) from its second byte on. */
static void write_frame(struct frame *f)
{
	*f = (struct frame){0};
	size_t cie = put_cie(&f->eh, EM_X86_64, "", X86_START);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		char program[] = {0x41, DW_CFA_def_cfa_offset, (char)(16 * (i + 2))};

		f->fdes[i] = put_fde(&f->eh, cie, false, va_of(i), DESCRIBED_BYTES,
				     (struct bytes){program, sizeof(program)});
	}
	put_u32(&f->eh, 0);
	put(&f->header, "\x01\x1b\x03\x3b\xfc\x0f\x00\x00", 8); /* .eh_frame is 0x1000 bytes behind it */
	put_u32(&f->header, FUNCTIONS);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		put_u32(&f->header, (uint32_t)(va_of(i) - HEADER_VA));
		put_u32(&f->header, (uint32_t)(FRAME_VA + f->fdes[i] - HEADER_VA));
	}
}

static void frame_fini(struct frame *f)
{
	buf_fini(&f->eh);
	buf_fini(&f->header);
}

static struct elf_rows *rows_of(struct frame *f, unsigned flags)
{
	const struct file_section s[] = {
		text,
		{".eh_frame_hdr", SHT_PROGBITS, 0, HEADER_VA, f->header.data, f->header.len, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, FRAME_VA, f->eh.data, f->eh.len, 0, 0},
	};
	struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), flags);
	struct elf_rows *t = NULL;

	cr_assert_eq(elf_rows_build(&t, img), 0);
	elf_image_free(img);
	return t;
}

static bool is_whole(const struct elf_rows *t, size_t function)
{
	const struct elf_row *first = elf_rows_find(t, va_of(function)),
			     *second = elf_rows_find(t, va_of(function) + 2),
			     *behind = elf_rows_find(t, va_of(function) + DESCRIBED_BYTES);

	return first && t->rules[first->rule].cfa_off == 8 &&
	       t->rules[second->rule].cfa_off == (int32_t)(16 * (function + 2)) && behind->rule == 0;
}

struct damage {
	const char *name;
	size_t at; /* in the FDE of function 2, or in .eh_frame_hdr */
	uint32_t value;
	const char *reason; /* NULL: nothing is skipped */
};

static void check_damage(const struct damage *d, bool in_header, unsigned flags)
{
	struct frame f;

	write_frame(&f);
	struct buf *b = in_header ? &f.header : &f.eh;
	memcpy(b->data + (in_header ? 0 : f.fdes[2]) + d->at, &d->value, sizeof(d->value));
	struct elf_rows *t = rows_of(&f, flags);
	for (size_t i = 0; i < FUNCTIONS; i++)
		cr_expect(is_whole(t, i) || (i == 2 && !in_header), "%s: function %zu", d->name, i);
	cr_expect_eq(t->n_skipped > 0, d->reason != NULL, "%s: %zu skipped", d->name, t->n_skipped);
	if (d->reason && t->n_skipped) {
		cr_expect_str_eq(t->skipped[0].reason, d->reason, "%s: %s", d->name, t->skipped[0].reason);
		cr_expect_eq(t->skipped[0].offset, f.fdes[2], "%s", d->name);
	}
	elf_rows_free(t);
	frame_fini(&f);
}

Test(entries, a_damaged_fde_skips_its_own_function_only)
{
	static const struct damage damages[] = {
		{"length leaves the section", 0, 0x7ffff0, "length leaves the section"},
		{"reserved length", 0, 0xfffffff3, "length leaves the section"},
		{"length of two entries", 0, 0x24 + 4 + 0x24,
		 "length reaches over the next FDE of .eh_frame_hdr"},
		{"length into the next", 0, 0x2c, "length reaches over the next FDE of .eh_frame_hdr"},
		{"CIE pointer leads nowhere", 4, 0x7000, "no CIE where the CIE pointer points"},
		{"CIE pointer of a CIE", 4, 0, "FDE of .eh_frame_hdr has the id of a CIE"},
		{"start in another function", 8, TEXT_VA + 8,
		 "start of the FDE is another one in .eh_frame_hdr"},
		{"start in a gap", 8, TEXT_VA + 0x30, "start of the FDE is another one in .eh_frame_hdr"},
		{"start of another function", 8, TEXT_VA + 0x40,
		 "start of the FDE is another one in .eh_frame_hdr"},
		{"start inside the function before", 8, TEXT_VA + 0x48,
		 "start of the FDE is another one in .eh_frame_hdr"},
		{"start nowhere", 8, 0x900000, "start of the FDE is another one in .eh_frame_hdr"},
		{"range over the others", 16, 0x10000, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++)
		check_damage(&damages[i], false, 0);
}

Test(entries, a_short_length_skips_its_own_function_only)
{
	for (uint32_t length = 0; length < 0x24; length++) {
		const struct damage d = {"short length", 0, length, NULL};
		struct frame f;

		write_frame(&f);
		memcpy(f.eh.data + f.fdes[2], &d.value, sizeof(d.value));
		struct elf_rows *t = rows_of(&f, length % 2 ? FILE_NO_SECTIONS : 0);
		for (size_t i = 0; i < FUNCTIONS; i++)
			cr_expect(is_whole(t, i) || i == 2, "length %u: function %zu", length, i);
		elf_rows_free(t);
		frame_fini(&f);
	}
}

Test(entries, terminator_in_the_middle)
{
	const struct damage d = {"zero length", 0, 0, "terminator before the last FDE of .eh_frame_hdr"};

	check_damage(&d, false, FILE_NO_SECTIONS);
}

Test(entries, damaged_table_loses_nothing)
{
	static const struct damage damages[] = {
		{"version", 0, 0x3b031b02, NULL},
		{"encoding of the table", 0, 0x1b031b01, NULL},
		{"encoding of the count", 0, 0x3bff1b01, NULL},
		{"pointer to .eh_frame", 4, 0x12345678, NULL},
		{"count of none", 8, 0, NULL},
		{"count of few", 8, 2, NULL},
		{"count of many", 8, UINT32_MAX, NULL},
		{"start inside the function", TABLE_AT + 16, (uint32_t)(TEXT_VA + 0x88 - HEADER_VA), NULL},
		{"start inside the function before", TABLE_AT + 16, (uint32_t)(TEXT_VA + 0x48 - HEADER_VA),
		 NULL},
		{"start far below", TABLE_AT + 16, 0x80000000, NULL},
		{"start far above", TABLE_AT + 16, 0x7fffffff, NULL},
		{"FDE nowhere", TABLE_AT + 20, 0x7ffffffc, NULL},
		{"FDE in the middle of another", TABLE_AT + 20, FRAME_VA - HEADER_VA + 0x18 + 8, NULL},
		{"FDE of another", TABLE_AT + 20, FRAME_VA - HEADER_VA + 0x18, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++)
		check_damage(&damages[i], true, 0);
}

/* Damages the length of one FDE, in a file without search table. */
static struct elf_rows *rows_without_table(struct frame *f, size_t function, uint32_t length)
{
	write_frame(f);
	f->header.data[0] = 2;
	memcpy(f->eh.data + f->fdes[function], &length, sizeof(length));
	return rows_of(f, 0);
}

Test(entries, without_a_table_two_entries_in_a_row_are_searched)
{
	static const uint32_t lengths[] = {0x7f7f7f7f, 0xfffffff1, 0x200};
	struct frame f;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct elf_rows *t = rows_without_table(&f, 1, lengths[i]);

		for (size_t k = 0; k < FUNCTIONS; k++)
			cr_expect(is_whole(t, k) || k == 1, "length %x: function %zu", lengths[i], k);
		cr_expect_gt(t->n_skipped, 0);
		cr_expect_eq(t->skipped[0].offset, f.fdes[1]);
		elf_rows_free(t);
		frame_fini(&f);
	}
}

Test(entries, nothing_is_searched_behind_the_last_entry)
{
	struct frame f;
	struct elf_rows *t = rows_without_table(&f, FUNCTIONS - 1, 0x7f7f7f7f);

	for (size_t k = 0; k < FUNCTIONS - 1; k++)
		cr_expect(is_whole(t, k), "function %zu", k);
	cr_assert_eq(t->n_skipped, 1);
	cr_expect_eq(t->skipped[0].offset, f.fdes[FUNCTIONS - 1]);
	cr_expect_str_eq(t->skipped[0].reason, "length leaves the section; what follows is lost");
	elf_rows_free(t);
	frame_fini(&f);
}
