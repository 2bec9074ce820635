// SPDX-License-Identifier: Apache-2.0
/* CIE versions, augmentations, pointer encodings, lengths; in .eh_frame and in .debug_frame. */
#include "tests/unit/agent/elf/cfi_bytes.h"

#define ROWS "1000 rsp+8 same cfa-8; 1040 none"

/* A CIE, given by its bytes behind the id, and an FDE, given by its bytes behind the CIE pointer. */
struct entry_case {
	const char *name;
	struct bytes cie, fde;
	const char *expected;
};

static void put_entry(struct buf *b, uint32_t id, struct bytes body)
{
	size_t start = b->len;

	put_u32(b, 0);
	put_u32(b, id);
	put(b, body.data, body.len);
	end_entry(b, start);
}

static void run_case(const struct entry_case *c, bool debug)
{
	_cleanup_buf_ struct buf b = {0};

	put_entry(&b, debug ? UINT32_MAX : 0, c->cie);
	put_entry(&b, debug ? 0 : (uint32_t)b.len + 4, c->fde);
	struct cfi_section s = section_of(&b, EM_X86_64);
	s.debug = debug;
	s.bases.text = 0x800;
	s.bases.data = 0x900;
	s.bases.has_text = s.bases.has_data = true;
	check_table(c->name, &s, c->expected);
}

#define FDE_ABS "\x00\x10\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00"
#define START "\x0c\x07\x08\x90\x01"

Test(entry, versions_and_augmentations)
{
	static const struct entry_case cases[] = {
		{"version 1", BYTES("\x01\0\x01\x78\x10" START), BYTES(FDE_ABS), ROWS},
		{"version 3", BYTES("\x03\0\x01\x78\x90\x00" START), BYTES(FDE_ABS), ROWS},
		{"version 4", BYTES("\x04\0\x08\x00\x01\x78\x10" START), BYTES(FDE_ABS), ROWS},
		{"version 2", BYTES("\x02\0\x01\x78\x10" START), BYTES(FDE_ABS),
		 "no rows | 18 unknown version of the CIE"},
		{"version 4, 4-byte addresses", BYTES("\x04\0\x04\x00\x01\x78\x10" START), BYTES(FDE_ABS),
		 "no rows | 18 address size of the CIE is not 8"},
		{"version 4, segments", BYTES("\x04\0\x08\x02\x01\x78\x10" START), BYTES(FDE_ABS),
		 "no rows | 18 CIE uses segment selectors"},
		{"z alone", BYTES("\x01z\0\x01\x78\x10\x00" START), BYTES(FDE_ABS "\x00"), ROWS},
		{"FDE augmentation data is stepped over", BYTES("\x01z\0\x01\x78\x10\x00" START),
		 BYTES(FDE_ABS "\x02\x3f\x3f"), ROWS},
		{"zR", BYTES("\x01zR\0\x01\x78\x10\x01\x00" START), BYTES(FDE_ABS "\x00"), ROWS},
		{"zPLR", BYTES("\x01zPLR\0\x01\x78\x10\x07\x03\xaa\xaa\xaa\xaa\x03\x00" START),
		 BYTES(FDE_ABS "\x00"), ROWS},
		{"zPLR, personality indirect and relative, as GCC writes it",
		 BYTES("\x01zPLR\0\x01\x78\x10\x07\x9b\xaa\xaa\xaa\xaa\x1b\x00" START), BYTES(FDE_ABS "\x00"),
		 ROWS},
		{"zPR, personality omitted", BYTES("\x01zPR\0\x01\x78\x10\x02\xff\x00" START),
		 BYTES(FDE_ABS "\x00"), ROWS},
		{"zRSBG", BYTES("\x01zRSBG\0\x01\x78\x10\x01\x00" START), BYTES(FDE_ABS "\x00"), ROWS},
		{"S without z", BYTES("\x01S\0\x01\x78\x10" START), BYTES(FDE_ABS), ROWS},
		{"eh of GCC 2",
		 BYTES("\x01"
		       "eh\0\x11\x22\x33\x44\x55\x66\x77\x88\x01\x78\x10" START),
		 BYTES(FDE_ABS), ROWS},
		{"unknown letter behind z", BYTES("\x01zX\0\x01\x78\x10\x00" START), BYTES(FDE_ABS "\x00"),
		 "no rows | 18 unknown augmentation of the CIE"},
		{"unknown letter",
		 BYTES("\x01"
		       "armcc\0\x01\x78\x10" START),
		 BYTES(FDE_ABS), "no rows | 18 unknown augmentation of the CIE"},
		{"R without z has no data to read", BYTES("\x01R\0\x01\x78\x10" START), BYTES(FDE_ABS),
		 "no rows | 18 unknown augmentation of the CIE"},
		{"augmentation data shorter than its letters", BYTES("\x01zR\0\x01\x78\x10\x00" START),
		 BYTES(FDE_ABS "\x00"), "no rows | 18 augmentation data of the CIE is truncated"},
		{"augmentation longer than the CIE", BYTES("\x01zR\0\x01\x78\x10\x7f\x00" START),
		 BYTES(FDE_ABS "\x00"), "no rows | 18 augmentation data of the CIE is truncated"},
		{"unterminated string", BYTES("\x01zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"),
		 BYTES(FDE_ABS), "no rows | 38 augmentation string of the CIE is not terminated"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i], false);
	run_case(&cases[0], true);
	run_case(&cases[1], true);
	run_case(&cases[2], true);
}

/* The CIE has 24 bytes with its padding, so the FDE's pointer is at 0x400020. */
#define CIE_R(encoding) BYTES("\x01zR\0\x01\x78\x10\x01" encoding START)

Test(entry, pointer_encodings)
{
	static const struct entry_case cases[] = {
		{"absptr", CIE_R("\x00"), BYTES(FDE_ABS "\x00"), ROWS},
		{"udata8", CIE_R("\x04"), BYTES(FDE_ABS "\x00"), ROWS},
		{"sdata8", CIE_R("\x0c"), BYTES(FDE_ABS "\x00"), ROWS},
		{"signed", CIE_R("\x08"), BYTES(FDE_ABS "\x00"), ROWS},
		{"uleb128", CIE_R("\x01"), BYTES("\x80\x20\x40\x00"), ROWS},
		{"sleb128", CIE_R("\x09"), BYTES("\x80\x20\x40\x00"), ROWS},
		{"udata2", CIE_R("\x02"), BYTES("\x00\x10\x40\x00\x00"), ROWS},
		{"sdata2", CIE_R("\x0a"), BYTES("\x00\x10\x40\x00\x00"), ROWS},
		{"udata4", CIE_R("\x03"), BYTES("\x00\x10\x00\x00\x40\x00\x00\x00\x00"), ROWS},
		{"sdata4", CIE_R("\x0b"), BYTES("\x00\x10\x00\x00\x40\x00\x00\x00\x00"), ROWS},
		{"pcrel sdata4", CIE_R("\x1b"), BYTES("\xe0\x0f\xc0\xff\x40\x00\x00\x00\x00"), ROWS},
		{"pcrel sdata2", CIE_R("\x1a"), BYTES("\x00\x00\x40\x00\x00"),
		 "400020 rsp+8 same cfa-8; 400060 none"},
		{"textrel udata2", CIE_R("\x22"), BYTES("\x00\x08\x40\x00\x00"), ROWS},
		{"datarel sdata2", CIE_R("\x3a"), BYTES("\x00\x07\x40\x00\x00"), ROWS},
		{"funcrel has no function yet", CIE_R("\x42"), BYTES("\x00\x08\x40\x00\x00"),
		 "no rows | 18 pointer encoding of the FDE is not supported"},
		{"aligned", CIE_R("\x50"), BYTES(FDE_ABS "\x00"), ROWS},
		{"indirect", CIE_R("\x9b"), BYTES(FDE_ABS "\x00"),
		 "no rows | 18 pointer encoding of the FDE is not supported"},
		{"omit", CIE_R("\xff"), BYTES(FDE_ABS "\x00"),
		 "no rows | 18 pointer encoding of the FDE is not supported"},
		{"unknown format", CIE_R("\x05"), BYTES(FDE_ABS "\x00"),
		 "no rows | 18 pointer encoding of the FDE is not supported"},
		{"unknown base", CIE_R("\x60"), BYTES(FDE_ABS "\x00"),
		 "no rows | 18 pointer encoding of the FDE is not supported"},
		{"truncated start", CIE_R("\x00"), BYTES("\x00\x10\x00\x00"),
		 "no rows | 18 FDE is truncated"},
		{"truncated length", CIE_R("\x00"), BYTES("\x00\x10\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00"),
		 "no rows | 18 FDE is truncated"},
		{"augmentation leaves the FDE", CIE_R("\x00"), BYTES(FDE_ABS "\x7f"),
		 "no rows | 18 FDE is truncated"},
		{"range wraps", CIE_R("\x00"),
		 BYTES("\x00\x10\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00"),
		 "no rows | 18 range of the FDE wraps around"},
		{"range of 4 GiB", CIE_R("\x00"),
		 BYTES("\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"),
		 "no rows | 18 range of the FDE is larger than 4 GiB"},
		{"empty range", CIE_R("\x00"),
		 BYTES("\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), "no rows"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i], false);
}

Test(entry, aligned_pointers_skip_padding)
{
	/*
	 * the personality byte shifts the data of the FDE encoding; the pointer field itself is not aligned
	 */
	static const struct entry_case c = {"aligned behind an odd CIE", CIE_R("\x50"), BYTES(FDE_ABS "\x00"),
					    ROWS};
	_cleanup_buf_ struct buf b = {0};

	put_entry(&b, 0, c.cie);
	size_t start = b.len;
	put_u32(&b, 0);
	put_u32(&b, (uint32_t)b.len);
	put_u32(&b, 0xaaaaaaaa); /* padding: with the section at ...4, 4 bytes to the next multiple of 8 */
	put(&b, c.fde.data, c.fde.len);
	end_entry(&b, start);
	struct cfi_section s = section_of(&b, EM_X86_64);
	s.bases.section += 4;
	check_table(c.name, &s, c.expected);
}

Test(entry, set_loc_may_be_relative_to_the_function)
{
	_cleanup_buf_ struct buf b = {0};
	struct cfi_bases bases = {
		.func = 0x1000, .has_func = true, .bytes = (const uint8_t *)"", .section = 0};
	struct cursor c = cursor_of("\x10\x00\x00\x00", 4);
	uint64_t address;

	cr_expect(entry_pointer(&c, DW_EH_PE_funcrel | DW_EH_PE_udata4, &bases, &address));
	cr_expect_eq(address, 0x1010);
}

Test(entry, lengths)
{
	static const struct {
		const char *name;
		struct bytes tail; /* behind a valid CIE (24 bytes) and a valid FDE (24 bytes) */
		const char *expected;
	} cases[] = {
		{"end of section", BYTES(""), ROWS},
		{"terminator", BYTES("\0\0\0\0"), ROWS},
		{"rest of less than 4 bytes", BYTES("\x01\x02"), ROWS},
		{"length past the end", BYTES("\x10\0\0\0\0\0\0\0"),
		 ROWS " | 30 length leaves the section; what follows is lost"},
		{"reserved length", BYTES("\xf0\xff\xff\xff\0\0\0\0"),
		 ROWS " | 30 length leaves the section; what follows is lost"},
		{"huge 64-bit length", BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"),
		 ROWS " | 30 length leaves the section; what follows is lost"},
		{"truncated 64-bit length", BYTES("\xff\xff\xff\xff\0\0"),
		 ROWS " | 30 length leaves the section; what follows is lost"},
		{"entry without room for its id", BYTES("\x02\0\0\0\0\0"), ROWS " | 30 FDE is truncated"},
		{"FDE without a CIE", BYTES("\x04\0\0\0\x30\0\0\0"),
		 ROWS " | 30 no CIE where the CIE pointer points"},
		{"FDE whose CIE is an FDE", BYTES("\x04\0\0\0\x1c\0\0\0"),
		 ROWS " | 30 no CIE where the CIE pointer points"},
		{"FDE whose CIE would stand before the section", BYTES("\x04\0\0\0\xff\xff\0\0"),
		 ROWS " | 30 no CIE where the CIE pointer points"},
		{"FDE whose CIE pointer goes forward", BYTES("\x04\0\0\0\xf0\xff\xff\xff"),
		 ROWS " | 30 no CIE where the CIE pointer points"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

		put_fde(&b, cie, false, TEXT_VA, 0x40, BYTES(""));
		put(&b, cases[i].tail.data, cases[i].tail.len);
		struct cfi_section s = section_of(&b, EM_X86_64);
		check_table(cases[i].name, &s, cases[i].expected);
	}
}

Test(entry, zero_lengths_between_entries)
{
	for (int until_zero = 0; until_zero <= 1; until_zero++) {
		_cleanup_buf_ struct buf b = {0};
		size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

		put_fde(&b, cie, false, TEXT_VA, 0x40, BYTES(""));
		put_u64(&b, 0);
		put_fde(&b, cie, false, TEXT_VA + 0x40, 0x40, BYTES("\x0e\x10"));
		struct cfi_section s = section_of(&b, EM_X86_64);
		s.until_zero = until_zero;
		check_table("zero", &s,
			    until_zero ? ROWS : "1000 rsp+8 same cfa-8; 1040 rsp+16 same cfa-8; 1080 none");
	}
}

/* 64-bit lengths: the CIE pointer has 4 bytes in .eh_frame and 8 in .debug_frame. */
Test(entry, dwarf64)
{
	static const char cie[] = "\x01\0\x01\x78\x10" START;

	for (int debug = 0; debug <= 1; debug++) {
		_cleanup_buf_ struct buf b = {0};
		size_t id_bytes = debug ? 8 : 4;

		put_u32(&b, UINT32_MAX);
		put_u64(&b, id_bytes + sizeof(cie) - 1);
		if (debug)
			put_u64(&b, UINT64_MAX);
		else
			put_u32(&b, 0);
		put(&b, cie, sizeof(cie) - 1);
		put_u32(&b, UINT32_MAX);
		put_u64(&b, id_bytes + 16);
		if (debug)
			put_u64(&b, 0);
		else
			put_u32(&b, (uint32_t)b.len);
		put(&b, FDE_ABS, 16);
		struct cfi_section s = section_of(&b, EM_X86_64);
		s.debug = debug;
		check_table("dwarf64", &s, ROWS);
	}
}

Test(entry, debug_frame_may_refer_forward_and_has_discarded_functions)
{
	static const struct entry_case c = {"", BYTES("\x03\0\x01\x78\x10" START), BYTES(FDE_ABS), ROWS};
	_cleanup_buf_ struct buf b = {0};

	put_entry(&b, 48, c.fde);
	put_entry(&b, 48, BYTES("\0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0")); /* at address 0 */
	cr_assert_eq(b.len, 48);
	put_entry(&b, UINT32_MAX, c.cie);
	struct cfi_section s = section_of(&b, EM_X86_64);
	s.debug = true;
	check_table("forward", &s, ROWS);
}

Test(entry, overlapping_cies_run_out_of_budget)
{
	/*
	 * the CIE pointers of these FDEs lead into a long run of bytes; at each place, another CIE with a
	 * long program can be read
	 */
	_cleanup_buf_ struct buf b = {0};
	enum { CIES = 2000 };
	size_t n = 0;

	/*
	 * a length, an id of 0, version 1, "", alignments, nops: repeated every 24 bytes, each up to the end
	 */
	for (size_t i = 0; i < CIES; i++) {
		put_u32(&b, (uint32_t)(24 * (CIES - i) - 4));
		put_u32(&b, 0);
		put(&b, "\x01\0\x01\x78\x10\0\0\0\0\0\0\0\0\0\0\0", 16);
	}
	size_t fdes = b.len;
	for (size_t i = 0; i < CIES; i++)
		put_fde(&b, 24 * i, false, TEXT_VA + 0x40 * i, 0x40, BYTES(""));
	struct cfi_section s = section_of(&b, EM_X86_64);
	struct row_spans spans = {0};
	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	for (size_t i = 0; i < spans.n_skipped && i < ELF_SKIPPED_MAX; i++)
		n += strcmp(spans.skipped[i].reason, "CIEs overlap") == 0 && spans.skipped[i].offset >= fdes;
	cr_expect_geq(n, ELF_SKIPPED_MAX - 4); /* only the first ones fail for another reason */
	cr_expect_gt(spans.n_skipped, CIES / 2);
	row_spans_fini(&spans);
}
