// SPDX-License-Identifier: Apache-2.0
/* Outermost frames: entry points, threads and fibers in code without call-frame information. */
#include "tests/unit/agent/elf/elf_file.h"

#include "agent/elf/unwind_table.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define TEXT_BYTES 0x100

struct root_case {
	const char *name;
	struct bytes code; /* at TEXT_VA + 0x40 */
	uint16_t type;
	uint32_t entry;		     /* offset in the text; 0: the file has no entry point */
	uint32_t fde_start, fde_end; /* of an FDE of a usual function, in the text; 0: there is none */
	const char *expected;	     /* [start, end) of the outermost frames, in the text */
};

/* The parts of the text whose rows say that the frame is the outermost. */
static void roots_of(const struct elf_rows *t, struct buf *out)
{
	for (size_t i = 0; i + 1 < t->n_rows; i++)
		if (t->rules[t->rows[i].rule].cfa_kind == CFA_UNDEFINED)
			buf_printf(out, "%s%x-%x", out->len ? " " : "", (unsigned)(t->rows[i].va - TEXT_VA),
				   (unsigned)(t->rows[i + 1].va - TEXT_VA));
}

static void check_roots(const struct root_case *c, uint16_t machine)
{
	_cleanup_buf_ struct buf file = {0}, eh = {0}, out = {0};
	size_t cie = put_cie(&eh, machine, "", X86_START);
	char bytes[TEXT_BYTES];
	struct elf_rows *t = NULL;
	struct elf_image *img;

	memset(bytes, machine == EM_X86_64 ? 0xcc : 0xff, sizeof bytes);
	memcpy(bytes + 0x40, c->code.data, c->code.len);
	if (c->fde_end)
		put_fde(&eh, cie, false, TEXT_VA + c->fde_start, c->fde_end - c->fde_start,
			BYTES("\x41\x0e\x10"));
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, bytes, sizeof bytes, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
	};

	file_write(&file, machine, s, ARRAY_SIZE(s), 0);
	file_set_entry(&file, c->type ?: ET_DYN, c->entry ? TEXT_VA + c->entry : 0);
	img = file_open(&file);
	if (elf_rows_build(&t, img) == 0)
		roots_of(t, &out);
	cr_expect_str_eq(buf_str(&out) ?: "", c->expected, "%s: %s", c->name, buf_str(&out));
	elf_rows_free(t);
	elf_image_free(img);
}

#define MUSL_START "\x48\x31\xed\x48\x89\xe7\x48\x83\xe4\xf0\xe8\x01\x00\x00\x00\x90"
#define MUSL_CLONE                                                                                         \
	"\x31\xc0\xb0\x38\x49\x89\xfb\x4d\x89\xc1\x48\x83\xe6\xf0\x48\x83\xee\x08\x48\x89\x0e\x0f\x05\x85" \
	"\xc0\x75\x0f\x31\xed\x5f\x41\xff\xd1\x89\xc7\x31\xc0\xb0\x3c\x0f\x05\xf4\xc3"
#define MAKE_FCONTEXT                                                                                      \
	"\x48\x89\xf8\x48\x8d\x0d\x0f\x00\x00\x00\x48\x89\x48\x38\xc3\xcc\x55\xff\xe3\xcc\xcc\xcc\xcc\xcc" \
	"\xcc\x48\x31\xff\xe8\x00\x00\x00\x00\xf4"

static const struct root_case x86_cases[] = {
	{"the entry point of a program", BYTES(MUSL_START), ET_EXEC, 0x40, 0, 0, "40-50"},
	{"of a loader, recognised by its code", BYTES(MUSL_START), ET_DYN, 0x40, 0, 0, "40-50"},
	{"a library's is none", BYTES("\x53\x48\x89\xfb\x5b\xc3"), ET_DYN, 0x40, 0, 0, ""},
	{"an entry point whose FDE says that it was called", BYTES(MUSL_START), ET_EXEC, 0x40, 0x40, 0x80,
	 "40-80"},
	{"an entry point in a longer FDE", BYTES(MUSL_START), ET_EXEC, 0x40, 0x20, 0x80, "40-4f"},
	{"up to the function that it calls",
	 BYTES("\x31\xed\x48\x89\xe7\xe8\x02\x00\x00\x00\x0f\x0b\x53\x5b\xc3"), ET_EXEC, 0x40, 0, 0, "40-4c"},
	{"goes on behind a call: mov rdi, rsp; call; mov r12, rax; jmp r12",
	 BYTES("\x48\x89\xe7\xe8\x00\x10\x00\x00\x49\x89\xc4\x41\xff\xe4"), ET_DYN, 0x40, 0, 0, "40-4e"},
	{"an entry point outside of the code", BYTES(MUSL_START), ET_EXEC, 0x4000, 0, 0, ""},
	{"a thread of clone", BYTES(MUSL_CLONE), ET_DYN, 0, 0, 0, "5b-6a"},
	{"a child of clone that does not zero rbp",
	 BYTES("\xb8\x38\x00\x00\x00\x0f\x05\x85\xc0\x75\x03\x5f\xff\xd1\xf4\xc3"), ET_DYN, 0, 0, 0, ""},
	{"another system call", BYTES("\xb8\x39\x00\x00\x00\x0f\x05\x85\xc0\x75\x05\x31\xed\xff\xd1\xf4\xc3"),
	 ET_DYN, 0, 0, 0, ""},
	{"clone3, je to the child",
	 BYTES("\xb8\xb3\x01\x00\x00\x0f\x05\x48\x85\xc0\x74\x01\xc3\x31\xed\xff\xd1\xf4"), ET_DYN, 0, 0, 0,
	 "4d-52"},
	{"a fiber returns to a label that is loaded", BYTES(MAKE_FCONTEXT), ET_DYN, 0, 0, 0, "58-62"},
	{"a function that exits",
	 BYTES("\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x31\xff\xe8\x00\x00\x00\x00"
	       "\xf4"),
	 ET_DYN, 0, 0, 0, ""},
};

Test(roots, x86)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86_cases); i++)
		check_roots(&x86_cases[i], EM_X86_64);
}

static const struct root_case arm64_cases[] = {
	{"mov x29, #0; mov x0, sp; bl; udf",
	 BYTES("\x1d\x00\x80\xd2\xe0\x03\x00\x91\x00\x10\x00\x94\x00\x00\x00\x00"), ET_DYN, 0x40, 0, 0,
	 "40-50"},
	{"mov x0, sp; bl; br x21", BYTES("\xe0\x03\x00\x91\x00\x10\x00\x94\xa0\x02\x1f\xd6"), ET_DYN, 0x40, 0,
	 0, "40-4c"},
	{"mov x0, sp; bl; bl; ret: what follows a second call is another function",
	 BYTES("\xe0\x03\x00\x91\x00\x10\x00\x94\x00\x10\x00\x94\xc0\x03\x5f\xd6"), ET_DYN, 0x40, 0, 0,
	 "40-4c"},
	{"a library's is none", BYTES("\xfd\x7b\xbf\xa9\xfd\x03\x00\x91\xc0\x03\x5f\xd6"), ET_DYN, 0x40, 0, 0,
	 ""},
};

Test(roots, arm64)
{
	for (size_t i = 0; i < ARRAY_SIZE(arm64_cases); i++)
		check_roots(&arm64_cases[i], EM_AARCH64);
}

/* The FDE of a greenlet's first function says that it was called, and so it may have been, but long ago. */
Test(roots, greenlet)
{
	static const char *const names[] = {
		"_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object",
		("_ZN8greenlet12UserGreenlet15inner_bootstrapERNS_4refs14_OwnedGreenletI9_greenletXadL_ZNS1_"
		 "15GreenletCheckerEPvEEEERNS1_14OwnedReferenceI7_objectXadL_ZNS1_11NoOpCheckerES4_EEEE"),
		"_ZN8greenlet12UserGreenlet13g_initialstubEPv",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Sym symbols[] = {{0},
					     {.st_name = 1,
					      .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					      .st_shndx = 1,
					      .st_value = TEXT_VA + 0x40,
					      .st_size = 0x30}};
		_cleanup_buf_ struct buf file = {0}, eh = {0}, out = {0}, strings = {0};
		size_t cie = put_cie(&eh, EM_X86_64, "", X86_START);
		static const char code[TEXT_BYTES];
		struct elf_rows *t = NULL;
		struct elf_image *img;

		put_fde(&eh, cie, false, TEXT_VA, 0x40, BYTES("\x41\x0e\x10"));
		put_fde(&eh, cie, false, TEXT_VA + 0x40, 0x30, BYTES("\x41\x0e\x10"));
		buf_putc(&strings, '\0');
		buf_append(&strings, names[i], strlen(names[i]) + 1);
		const struct file_section s[] = {
			{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof code, 0, 0},
			{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
			{".dynsym", SHT_DYNSYM, SHF_ALLOC, 0x5000, symbols, sizeof symbols, 4,
			 sizeof *symbols},
			{".dynstr", SHT_STRTAB, SHF_ALLOC, 0x6000, strings.data, strings.len, 0, 0},
		};

		file_write(&file, EM_X86_64, s, ARRAY_SIZE(s), 0);
		img = file_open(&file);
		cr_assert_eq(elf_rows_build(&t, img), 0);
		roots_of(t, &out);
		cr_expect_str_eq(buf_str(&out) ?: "", i < 2 ? "40-70" : "", "%s: %s", names[i],
				 buf_str(&out));
		elf_rows_free(t);
		elf_image_free(img);
	}
}
