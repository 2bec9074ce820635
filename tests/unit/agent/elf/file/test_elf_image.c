// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/elf/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <zlib.h>
#include <zstd.h>

#include "agent/elf/cfi/rows.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define CODE_VA 0x201000ull

static char code[0x80];

static struct file_section text_section(void)
{
	return (struct file_section){
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, CODE_VA, code, sizeof(code), 0, 0};
}

Test(image, other_files_are_refused)
{
	_cleanup_buf_ struct buf good = {0};
	struct file_section s = text_section();

	file_write(&good, EM_X86_64, &s, 1, 0);
	static const struct {
		const char *name;
		size_t offset;
		uint8_t value;
	} changes[] = {
		{"magic", 0, 0x7e},
		{"32 bit", EI_CLASS, ELFCLASS32},
		{"big endian", EI_DATA, ELFDATA2MSB},
		{"version", EI_VERSION, 9},
	};
	struct elf_image *img = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		uint8_t old = good.data[changes[i].offset];

		good.data[changes[i].offset] = changes[i].value;
		_cleanup_close_ int fd = file_fd(good.data, good.len);
		cr_expect_eq(elf_image_open(&img, fd), -ENOEXEC, "%s", changes[i].name);
		cr_expect_null(img);
		good.data[changes[i].offset] = old;
	}
	_cleanup_close_ int empty = file_fd("", 0), shorter = file_fd(good.data, 63);
	cr_expect_eq(elf_image_open(&img, empty), -ENOEXEC);
	cr_expect_eq(elf_image_open(&img, shorter), -ENOEXEC);
	cr_expect_eq(elf_image_open(&img, -1), -EBADF);
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	cr_expect_eq(elf_image_open(&img, ends[0]), -ENOEXEC);
	close(ends[0]);
	close(ends[1]);
}

/* For each truncation of a file, a section is returned completely, or not at all. */
Test(image, truncated_files_give_whole_sections_or_errors)
{
	_cleanup_buf_ struct buf b = {0};
	size_t refused = 0, without_section = 0, whole = 0;
	struct file_section s[] = {text_section(),
				   {".data", SHT_PROGBITS, SHF_ALLOC, 0x300000, "data", 4, 0, 0}};

	file_write(&b, EM_X86_64, s, ARRAY_SIZE(s), 0);
	for (size_t len = 0; len <= b.len; len++) {
		_cleanup_close_ int fd = file_fd(b.data, len);
		struct elf_image *img = NULL;
		struct elf_data data;
		struct elf_ids ids;

		if (elf_image_open(&img, fd) < 0) {
			refused++;
			continue;
		}
		cr_expect_eq(elf_image_file_bytes(img), len);
		cr_expect_eq(elf_image_ids(img, &ids), 0);
		cr_expect_eq(ids.n_gnu, 0, "it has none");
		if (elf_image_section(img, ".text", &data) == 0) {
			whole++;
			cr_assert_eq(data.len, s[0].len, "%zu bytes of the file", len);
			cr_expect_arr_eq(data.bytes, s[0].data, data.len);
		} else {
			without_section++;
		}
		elf_image_free(img);
	}
	cr_expect_geq(refused, sizeof(Elf64_Ehdr), "a part of the header is refused");
	cr_expect_gt(without_section, 0, "the section headers stand at the end");
	cr_expect_geq(whole, 1, "the whole file");
}

Test(image, sections)
{
	struct file_section s[] = {
		text_section(),
		{".data", SHT_PROGBITS, SHF_ALLOC, 0x300000, "data", 4, 0, 0},
		{".bss", SHT_NOBITS, SHF_ALLOC, 0x400000, NULL, 64, 0, 0},
	};
	struct elf_image *img = file_image(EM_AARCH64, s, ARRAY_SIZE(s), 0);
	struct elf_data data, again;

	cr_expect_eq(elf_image_machine(img), EM_AARCH64);
	cr_assert_eq(elf_image_section(img, ".data", &data), 0);
	cr_expect_eq(data.len, 4);
	cr_expect_eq(data.va, 0x300000);
	cr_expect_arr_eq(data.bytes, "data", 4);
	cr_assert_eq(elf_image_section(img, ".data", &again), 0);
	cr_expect_eq(again.bytes, data.bytes, "read once");
	cr_expect_eq(elf_image_section(img, ".bss", &data), -ENOENT);
	cr_expect_eq(elf_image_section(img, ".nothing", &data), -ENOENT);
	elf_image_free(img);
}

Test(image, section_outside_the_file)
{
	_cleanup_buf_ struct buf b = {0};
	struct file_section s = text_section();
	struct elf_data data;

	file_write(&b, EM_X86_64, &s, 1, 0);
	Elf64_Shdr *sh = (Elf64_Shdr *)(b.data + ((Elf64_Ehdr *)b.data)->e_shoff) + 1;
	static const struct {
		uint64_t offset, len;
		int expected;
	} cases[] = {
		{0, 1 << 20, -EINVAL},
		{UINT64_MAX, 2, -EINVAL},
		{16, UINT64_MAX - 8, -EINVAL},
		{1 << 20, 0, -EINVAL},
		{0, 64, 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		sh->sh_offset = cases[i].offset;
		sh->sh_size = cases[i].len;
		struct elf_image *img = file_open(&b);
		cr_expect_eq(elf_image_section(img, ".text", &data), cases[i].expected, "case %zu", i);
		elf_image_free(img);
	}
}

/* Uses a sparse file of 3 GiB; reading must not allocate that much. */
Test(image, sections_above_the_limit)
{
	_cleanup_buf_ struct buf b = {0};
	struct file_section s = text_section();
	struct elf_image *img = NULL;
	struct elf_data data;

	file_write(&b, EM_X86_64, &s, 1, 0);
	((Elf64_Shdr *)(b.data + ((Elf64_Ehdr *)b.data)->e_shoff))[1].sh_size = ELF_SECTION_MAX + 1;
	_cleanup_close_ int fd = file_fd(b.data, b.len);
	cr_assert_eq(ftruncate(fd, 3ll << 30), 0);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_expect_eq(elf_image_section(img, ".text", &data), -EFBIG);
	elf_image_free(img);
}

/* Headers that claim whatever they like; the rest of the file is a hole. */
struct claim {
	const char *what;
	uint64_t phoff;
	uint16_t phnum, phentsize;
	uint64_t shoff;
	uint16_t shnum, shentsize, shstrndx;
	uint64_t sections, names_bytes; /* sh_size of the first two section headers */
	int expected;
	size_t n_sections; /* that there are then */
};

#define CLAIM_END (1ull << 40) /* of the file */

static int claim_fd(const struct claim *c)
{
	const Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = c->phoff,
		.e_shoff = c->shoff,
		.e_ehsize = sizeof header,
		.e_phentsize = c->phentsize,
		.e_phnum = c->phnum,
		.e_shentsize = c->shentsize,
		.e_shnum = c->shnum,
		.e_shstrndx = c->shstrndx};
	const Elf64_Shdr headers[] = {
		{.sh_size = c->sections, .sh_info = 1u << 20, .sh_link = 1},
		{.sh_type = SHT_STRTAB, .sh_offset = 8 << 20, .sh_size = c->names_bytes, .sh_name = 1}};
	int fd = file_fd((const uint8_t *)&header, sizeof header);

	cr_assert_eq(pwrite(fd, headers, sizeof headers, 64), (ssize_t)sizeof headers);
	cr_assert_eq(pwrite(fd, "\0.names", 8, 8 << 20), 8);
	cr_assert_eq(ftruncate(fd, CLAIM_END), 0);
	return fd;
}

Test(image, claims_are_bounded)
{
	static const struct claim claims[] = {
		{"small", 1 << 20, 1, 56, 64, 2, 64, 1, 0, 100, 0, 2},
		{"most segments", 1 << 20, ELF_SEGMENTS_MAX, 56, 64, 2, 64, 1, 0, 100, 0, 2},
		{"more segments", 1 << 20, ELF_SEGMENTS_MAX + 1, 56, 64, 2, 64, 1, 0, 100, -ENOEXEC, 0},
		{"extended numbering of segments", 1 << 20, PN_XNUM, 56, 64, 2, 64, 1, 0, 100, -ENOEXEC, 0},
		{"large segment headers", 1 << 20, 1, 57, 64, 2, 64, 1, 0, 100, -ENOEXEC, 0},
		{"no segment headers", 0, 1, 56, 64, 2, 64, 1, 0, 100, 0, 2},
		{"segments behind the end", CLAIM_END - 55, 1, 56, 64, 2, 64, 1, 0, 100, -ENOEXEC, 0},
		{"segments wrap around", -8ull, 1, 56, 64, 2, 64, 1, 0, 100, -ENOEXEC, 0},
		{"extended numbering of sections", 1 << 20, 1, 56, 64, 0, 64, 1, 1000, 100, 0, 1000},
		{"extended numbering of names", 1 << 20, 1, 56, 64, 2, 64, SHN_XINDEX, 0, 100, 0, 2},
		{"most sections", 1 << 20, 1, 56, 64, 0, 64, 1, ELF_SECTIONS_MAX, ELF_SECTION_NAMES_MAX, 0,
		 ELF_SECTIONS_MAX},
		{"more sections", 1 << 20, 1, 56, 64, 0, 64, 1, ELF_SECTIONS_MAX + 1ull, 100, -ENOEXEC, 0},
		{"far more sections", 1 << 20, 1, 56, 64, 0, 64, 1, 1ull << 58, 100, -ENOEXEC, 0},
		{"more names", 1 << 20, 1, 56, 64, 2, 64, 1, 0, ELF_SECTION_NAMES_MAX + 1ull, -ENOEXEC, 0},
		{"far more names", 1 << 20, 1, 56, 64, 2, 64, 1, 0, 1ull << 39, -ENOEXEC, 0},
		{"small section headers", 1 << 20, 1, 56, 64, 2, 63, 1, 0, 100, -ENOEXEC, 0},
		{"no section headers", 1 << 20, 1, 56, 0, 2, 64, 1, 0, 100, 0, 0},
		{"no sections", 1 << 20, 1, 56, 64, 0, 64, 1, 0, 100, 0, 0},
		{"names in no section", 1 << 20, 1, 56, 64, 2, 64, 2, 0, 100, 0, 2},
		{"sections behind the end", 1 << 20, 1, 56, CLAIM_END - 127, 2, 64, 1, 0, 100, 0, 0},
		{"sections at the end", 1 << 20, 1, 56, CLAIM_END - 128, 2, 64, 1, 0, 100, 0, 2},
		{"sections wrap around", 1 << 20, 1, 56, -64ull, 2, 64, 1, 0, 100, 0, 0},
		{"their number behind the end", 1 << 20, 1, 56, -64ull, 0, 64, 1, 0, 100, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		_cleanup_close_ int fd = claim_fd(&claims[i]);
		struct elf_image *img = NULL;
		struct elf_section section;
		struct elf_ids ids;

		cr_expect_eq(elf_image_open(&img, fd), claims[i].expected, "%s", claims[i].what);
		if (!img)
			continue;
		cr_expect_eq(elf_image_n_sections(img), claims[i].n_sections, "%s", claims[i].what);
		cr_expect_not(elf_image_section_header(img, claims[i].n_sections, &section));
		cr_expect_eq(elf_image_ids(img, &ids), 0);
		if (claims[i].shoff == 64 && claims[i].n_sections && claims[i].shstrndx != 2)
			cr_expect_eq(elf_image_find_section(img, ".names", &section), 0, "%s",
				     claims[i].what);
		elf_image_free(img);
	}
}

/* Names that begin outside of the table, or do not end in it, are no names. */
Test(image, names_beyond_their_table)
{
	_cleanup_buf_ struct buf b = {0};
	struct file_section s = text_section();
	Elf64_Shdr *headers;
	uint64_t bytes;

	file_write(&b, EM_X86_64, &s, 1, 0);
	headers = (Elf64_Shdr *)(b.data + ((Elf64_Ehdr *)b.data)->e_shoff);
	bytes = headers[2].sh_size; /* "\0.text\0.shstrtab\0" */
	const struct {
		uint32_t name;
		uint64_t table_bytes, table_offset;
		uint32_t table_type;
		bool found;
	} cases[] = {
		{1, bytes, headers[2].sh_offset, SHT_STRTAB, true},
		{1, sizeof "\0.text", headers[2].sh_offset, SHT_STRTAB, true},
		{1, sizeof "\0.text" - 1, headers[2].sh_offset, SHT_STRTAB, false},
		{1, 1, headers[2].sh_offset, SHT_STRTAB, false},
		{1, 0, headers[2].sh_offset, SHT_STRTAB, false},
		{2, bytes, headers[2].sh_offset, SHT_STRTAB, false},
		{(uint32_t)bytes, bytes, headers[2].sh_offset, SHT_STRTAB, false},
		{UINT32_MAX, bytes, headers[2].sh_offset, SHT_STRTAB, false},
		{1, bytes, b.len - bytes + 1, SHT_STRTAB, false},
		{1, bytes, UINT64_MAX - 4, SHT_STRTAB, false},
		{1, bytes, headers[2].sh_offset, SHT_PROGBITS, false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_section section;
		struct elf_image *img;

		headers[1].sh_name = cases[i].name;
		headers[2].sh_size = cases[i].table_bytes;
		headers[2].sh_offset = cases[i].table_offset;
		headers[2].sh_type = cases[i].table_type;
		img = file_open(&b);
		cr_expect_eq(elf_image_find_section(img, ".text", &section), cases[i].found ? 0 : -ENOENT,
			     "case %zu", i);
		cr_expect_eq(elf_image_n_sections(img), 3, "case %zu", i);
		elf_image_free(img);
	}
}

Test(image, a_file_that_shrinks_gives_an_error)
{
	_cleanup_buf_ struct buf b = {0};
	struct file_section s = text_section();
	struct elf_image *img = NULL;
	struct elf_data data;
	struct elf_ids ids;
	char hash[33];

	file_write(&b, EM_X86_64, &s, 1, 0);
	_cleanup_close_ int fd = file_fd(b.data, b.len);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(elf_image_section(img, ".text", &data), 0);
	elf_image_free(img);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(ftruncate(fd, 100), 0);
	cr_expect_eq(elf_image_section(img, ".text", &data), -EINVAL);
	cr_expect_eq(elf_image_ids(img, &ids), 0);
	cr_expect_eq(elf_image_htlhash(img, hash), -EINVAL);
	elf_image_free(img);
}

Test(image, offset_to_va)
{
	_cleanup_buf_ struct buf b = {0};
	struct file_section s[] = {text_section(), text_section()};
	struct elf_image *img;
	uint64_t va;

	s[1].va = CODE_VA + 0x10000;
	file_write(&b, EM_X86_64, s, ARRAY_SIZE(s), 0);
	/* the layout of ld: the second segment begins in the page in which the first ends */
	Elf64_Phdr *ph = (Elf64_Phdr *)(b.data + sizeof(Elf64_Ehdr));
	ph[0].p_offset = 0x1100;
	ph[0].p_filesz = 0x2000;
	ph[1].p_offset = 0x3200;
	ph[1].p_filesz = 0x1000;
	static const struct {
		uint64_t offset, va;
		int expected;
	} cases[] = {
		{0x0fff, 0, -ENOENT},
		{0x1000, CODE_VA - 0x100, 0}, /* the start of the page is before the segment */
		{0x1100, CODE_VA, 0},
		{0x30ff, CODE_VA + 0x1fff, 0},
		{0x3000, CODE_VA + 0x1f00, 0}, /* in the page of the second segment, but inside the first */
		{0x3100, CODE_VA + 0x10000 - 0x100, 0},
		{0x3200, CODE_VA + 0x10000, 0},
		{0x41ff, CODE_VA + 0x10fff, 0},
		{0x4200, 0, -ENOENT},
	};
	img = file_open(&b);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = elf_image_offset_to_va(img, cases[i].offset, &va);

		cr_expect_eq(r, cases[i].expected, "case %zu: %d", i, r);
		if (r == 0)
			cr_expect_eq(va, cases[i].va, "case %zu: %" PRIx64, i, va);
	}
	elf_image_free(img);
	ph[1].p_type = PT_NULL;
	ph[0].p_offset = 0x18000;
	((Elf64_Ehdr *)b.data)->e_machine = EM_AARCH64; /* pages of up to 64 KiB */
	img = file_open(&b);
	cr_assert_eq(elf_image_offset_to_va(img, 0x10000, &va), 0);
	cr_expect_eq(va, CODE_VA - 0x8000);
	cr_expect_eq(elf_image_offset_to_va(img, 0xffff, &va), -ENOENT);
	elf_image_free(img);
}

static const char gnu_note[] = "\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\x05\0\0\0";
static const char go_note[] = "\x04\0\0\0\x07\0\0\0\x04\0\0\0Go\0\0abc/def\0";

Test(image, build_ids)
{
	for (unsigned flags = 0; flags <= FILE_NO_SECTIONS; flags++) {
		const struct file_section s[] = {
			text_section(),
			{".note.go.buildid", SHT_NOTE, SHF_ALLOC, 0x1000, go_note, sizeof(go_note) - 1, 0, 0},
			{".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, 0x2000, gnu_note, sizeof(gnu_note) - 1, 0,
			 0},
		};
		struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), flags);
		struct elf_ids ids;

		cr_assert_eq(elf_image_ids(img, &ids), 0);
		cr_assert_eq(ids.n_gnu, 5);
		cr_expect_arr_eq(ids.gnu, "\x01\x02\x03\x04\x05", 5);
		cr_expect_str_eq(ids.go, "abc/def");
		elf_image_free(img);
	}
}

Test(image, bad_notes_are_no_build_id)
{
	static const struct bytes notes[] = {
		BYTES(""), BYTES("\x04\0\0\0"),
		BYTES("\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03"), /* truncated */
		/* Name length. */
		BYTES("\xff\xff\xff\xff\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\x05\0\0\0"),
		/* Description length. */
		BYTES("\x04\0\0\0\xff\xff\xff\xff\x03\0\0\0GNU\0\x01\x02\x03\x04\x05\0\0\0"),
		BYTES("\x04\0\0\0\x05\0\0\0\x03\0\0\0GMU\0\x01\x02\x03\x04\x05\0\0\0"), /* other owner */
		BYTES("\x04\0\0\0\x05\0\0\0\x01\0\0\0GNU\0\x01\x02\x03\x04\x05\0\0\0"), /* other type */
	};

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		const struct file_section s = {".note",	      SHT_NOTE,	    SHF_ALLOC, 0,
					       notes[i].data, notes[i].len, 0,	       0};
		struct elf_image *img = file_image(EM_X86_64, &s, 1, 0);
		struct elf_ids ids;

		cr_assert_eq(elf_image_ids(img, &ids), 0);
		cr_expect_eq(ids.n_gnu, 0, "case %zu", i);
		cr_expect_str_empty(ids.go);
		elf_image_free(img);
	}
}

/* A note of that type and name, with a description of `len` bytes. */
static void put_note(struct buf *b, uint32_t type, const char name[static 4], size_t len)
{
	const uint32_t header[] = {4, (uint32_t)len, type};

	cr_assert_eq(buf_append(b, header, sizeof header), 0);
	cr_assert_eq(buf_append(b, name, 4), 0);
	for (size_t i = 0; i < (len + 3) / 4 * 4; i++)
		cr_assert_eq(buf_putc(b, i < len ? 'x' : 0), 0);
}

static struct elf_ids ids_of(const struct buf *file)
{
	struct elf_image *img = file_open(file);
	struct elf_ids ids;

	cr_assert_eq(elf_image_ids(img, &ids), 0);
	elf_image_free(img);
	return ids;
}

Test(image, build_ids_have_a_longest)
{
	for (size_t longer = 0; longer <= 1; longer++) {
		_cleanup_buf_ struct buf notes = {0}, file = {0};
		struct elf_ids ids;

		put_note(&notes, NT_GNU_BUILD_ID, "GNU", BUILD_ID_MAX + longer);
		put_note(&notes, 4, "Go\0", GO_BUILD_ID_MAX + longer);
		put_note(&notes, NT_GNU_BUILD_ID, "GNU", 20);
		const struct file_section s = {".note", SHT_NOTE, SHF_ALLOC, 0, notes.data, notes.len, 0, 0};
		file_write(&file, EM_X86_64, &s, 1, 0);
		ids = ids_of(&file);
		cr_expect_eq(ids.n_gnu, longer ? 0 : BUILD_ID_MAX, "only the first counts");
		cr_expect_eq(strlen(ids.go), longer ? 0 : GO_BUILD_ID_MAX);
	}
}

/* One file's notes are read in few places, and few bytes of them, whatever its headers say. */
Test(image, notes_are_bounded)
{
	static const struct {
		size_t empty; /* places without a note, in front */
		uint64_t bytes;
		bool found;
	} cases[] = {
		{0, 16, true},
		{ELF_NOTES_MAX - 1, 16, true},
		{ELF_NOTES_MAX, 16, false},
		{1, ELF_NOTES_BYTES_MAX - 36, true},
		{1, ELF_NOTES_BYTES_MAX - 35, false},
		{1, ELF_NOTES_BYTES_MAX + 1, true}, /* it is not read at all */
		{ELF_NOTES_MAX - 1, UINT64_MAX, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		const size_t n = cases[i].empty + 1;
		Elf64_Ehdr eh = {
			.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_phoff = sizeof eh,
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = (Elf64_Half)n};
		const uint64_t at = sizeof eh + n * sizeof(Elf64_Phdr);
		Elf64_Phdr ph = {.p_type = PT_NOTE, .p_offset = 1 << 20, .p_filesz = cases[i].bytes};
		struct elf_image *img = NULL;
		struct elf_ids ids;

		cr_assert_eq(buf_append(&b, &eh, sizeof eh), 0);
		for (size_t k = 0; k < cases[i].empty; k++)
			cr_assert_eq(buf_append(&b, &ph, sizeof ph), 0);
		ph.p_offset = at;
		ph.p_filesz = 36;
		cr_assert_eq(buf_append(&b, &ph, sizeof ph), 0);
		put_note(&b, NT_GNU_BUILD_ID, "GNU", 20);
		_cleanup_close_ int fd = file_fd(b.data, b.len);
		cr_assert_eq(ftruncate(fd, 4 << 20), 0);
		cr_assert_eq(elf_image_open(&img, fd), 0);
		cr_assert_eq(elf_image_ids(img, &ids), 0);
		cr_expect_eq(ids.n_gnu, cases[i].found ? 20 : 0, "case %zu", i);
		elf_image_free(img);
	}
}

/* Expected values: (head -c 4096 F; tail -c 4096 F; printf length as 8 bytes) | sha256sum. */
Test(image, htlhash)
{
	static const struct {
		size_t len;
		const char *hash;
	} cases[] = {
		{64, "15c40682cb6cd7373032c55df34528f3"},
		{4096, "52b1fa02efe47f47311ef434ec880daa"},
		{10000, "2fbb767d93ee4338d857774ff2eda7c0"},
	};
	static uint8_t bytes[10000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	memset(bytes, 0, 64);
	memcpy(bytes, (uint8_t[]){ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	       7);
	bytes[16] = ET_DYN;
	bytes[20] = EV_CURRENT;
	bytes[52] = 64;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct buf b = {.data = bytes, .len = cases[i].len};
		struct elf_image *img = file_open(&b);
		char hash[33];

		cr_assert_eq(elf_image_htlhash(img, hash), 0);
		cr_expect_str_eq(hash, cases[i].hash, "%zu bytes: %s", cases[i].len, hash);
		elf_image_free(img);
	}
}

static struct buf compressed(uint32_t method, const void *data, size_t len, uint64_t claimed)
{
	const Elf64_Chdr header = {.ch_type = method, .ch_size = claimed, .ch_addralign = 1};
	static uint8_t packed[65536];
	uLongf zlib_len = sizeof(packed);
	size_t packed_len;
	struct buf b = {0};

	if (method == 2) {
		packed_len = ZSTD_compress(packed, sizeof(packed), data, len, 3);
		cr_assert(!ZSTD_isError(packed_len));
	} else {
		cr_assert_eq(compress(packed, &zlib_len, data, len), Z_OK);
		packed_len = zlib_len;
	}
	buf_append(&b, &header, sizeof(header));
	buf_append(&b, packed, packed_len);
	return b;
}

Test(image, compressed_sections)
{
	static char plain[10000];
	static const struct {
		const char *name;
		uint32_t method;
		uint64_t claimed;
		size_t cut; /* bytes removed at the end */
		int expected;
	} cases[] = {
		{"zlib", ELFCOMPRESS_ZLIB, sizeof(plain), 0, 0},
		{"zstd", 2, sizeof(plain), 0, 0},
		{"zlib, claims more", ELFCOMPRESS_ZLIB, sizeof(plain) + 1, 0, -EINVAL},
		{"zlib, claims less", ELFCOMPRESS_ZLIB, sizeof(plain) - 1, 0, -EINVAL},
		{"zstd, claims more", 2, sizeof(plain) + 1, 0, -EINVAL},
		{"zstd, claims less", 2, sizeof(plain) - 1, 0, -EINVAL},
		{"zlib, truncated", ELFCOMPRESS_ZLIB, sizeof(plain), 5, -EINVAL},
		{"zstd, truncated", 2, sizeof(plain), 5, -EINVAL},
		{"claims more than is read", ELFCOMPRESS_ZLIB, ELF_SECTION_MAX + 1, 0, -EFBIG},
		{"claims more than there is", ELFCOMPRESS_ZLIB, UINT64_MAX, 0, -EFBIG},
		{"unknown method", 77, sizeof(plain), 0, -ENOTSUP},
	};

	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (char)(i / 50);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b =
			compressed(cases[i].method, plain, sizeof(plain), cases[i].claimed);
		const struct file_section s = {
			".debug_frame", SHT_PROGBITS, SHF_COMPRESSED, 0, b.data, b.len - cases[i].cut, 0, 0};
		struct elf_image *img = file_image(EM_X86_64, &s, 1, 0);
		struct elf_data data;
		int r = elf_image_section(img, ".debug_frame", &data);

		cr_expect_eq(r, cases[i].expected, "%s: %d", cases[i].name, r);
		if (r == 0) {
			cr_expect_eq(data.len, sizeof(plain));
			cr_expect_arr_eq(data.bytes, plain, sizeof(plain));
		}
		elf_image_free(img);
	}
}
