// SPDX-License-Identifier: Apache-2.0
/* What the agent does with a file that a tenant chose, before it knows the binary: little, and by itself. */
#include "tests/unit/agent/binary/binary_files.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/syscall.h>

static uint64_t n_reads, n_bytes;

/* In place of that of the C library, for the whole program: counts. */
ssize_t pread(int fd, void *to, size_t len, off_t offset)
{
	long n = syscall(SYS_pread64, fd, to, len, offset);

	n_reads++;
	n_bytes += n > 0 ? (uint64_t)n : 0;
	return n;
}

/*
 * A file with as many headers as are allowed, all of which have notes of `notes_bytes`, and names of sections
 * that differ from the one that is looked for in their last byte. They lie in a hole of `bytes`.
 */
static void write_greedy(const struct files *f, const char *name, uint64_t bytes, uint64_t notes_bytes)
{
	static char names[ELF_SECTION_NAMES_MAX];
	static Elf64_Shdr sections[ELF_SECTIONS_MAX];
	static Elf64_Phdr segments[ELF_SEGMENTS_MAX];
	const size_t n = bytes < sizeof sections ? bytes / sizeof *sections / 2 : ELF_SECTIONS_MAX;
	const Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_phoff = sizeof header,
		.e_phentsize = sizeof *segments,
		.e_phnum = ELF_SEGMENTS_MAX,
		.e_shoff = sizeof header + sizeof segments,
		.e_shentsize = sizeof *sections,
		.e_shnum = (Elf64_Half)n,
		.e_shstrndx = 1};
	int fd = open(files_path(f, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	memcpy(names, ".gopclntab?", sizeof ".gopclntab?");
	for (size_t i = 0; i < ELF_SEGMENTS_MAX; i++)
		segments[i] = (Elf64_Phdr){.p_type = PT_NOTE, .p_filesz = notes_bytes, .p_offset = bytes / 2};
	for (size_t i = 0; i < n; i++)
		sections[i] = (Elf64_Shdr){.sh_type = SHT_NOTE, .sh_offset = i, .sh_size = notes_bytes};
	sections[1] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_size = sizeof names, .sh_offset = bytes - sizeof names};
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	cr_assert_eq(pwrite(fd, names, sizeof names, (off_t)(bytes - sizeof names)), sizeof names);
	cr_assert_eq(pwrite(fd, sections, n * sizeof *sections, (off_t)header.e_shoff),
		     (ssize_t)(n * sizeof *sections));
	cr_assert_eq(pwrite(fd, segments, sizeof segments, sizeof header), sizeof segments);
	cr_assert_eq(pwrite(fd, &header, sizeof header, 0), sizeof header);
	close(fd);
}

Test(reading, is_bounded)
{
	static const struct {
		const char *name;
		uint64_t bytes, notes_bytes;
	} cases[] = {
		{"large", 1ull << 30, 12},
		{"large with large notes", 1ull << 30, ELF_NOTES_BYTES_MAX / ELF_NOTES_MAX},
		{"large with one note", 1ull << 30, ELF_NOTES_BYTES_MAX},
		{"all bytes count", 4ull << 20, ELF_NOTES_BYTES_MAX / ELF_NOTES_MAX},
	};
	_cleanup_files_ struct files f;

	files_init(&f, 16);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct binary *b;

		write_greedy(&f, cases[i].name, cases[i].bytes, cases[i].notes_bytes);
		n_reads = n_bytes = 0;
		b = files_get(&f, files_add(&f, cases[i].name));
		cr_expect_eq(strlen(b->module.htlhash), 32, "it is taken for an ELF file");
		cr_expect_not(b->module.go);
		cr_expect_geq(n_bytes, 4 << 20, "%s: %lu bytes", cases[i].name, n_bytes);
		cr_expect_leq(n_bytes, BINARY_READ_MAX, "%s: %lu bytes", cases[i].name, n_bytes);
		cr_expect_leq(n_reads, BINARY_READS_MAX, "%s: %lu reads", cases[i].name, n_reads);
	}
}

/* An ordinary file is known by a few kilobytes. */
Test(reading, is_little)
{
	_cleanup_files_ struct files f;
	struct stat st;
	const char *libc = NULL;
	uint32_t index;
	int fd;

	files_init(&f, 16);
	cr_assert(dl_iterate_phdr(files_find_libc, &libc));
	fd = open(libc, O_PATH | O_CLOEXEC);
	cr_assert_eq(fstat(fd, &st), 0);
	n_reads = n_bytes = 0;
	cr_assert_eq(binary_registry_add(f.registry, fd, &st, libc, &index), 0);
	cr_expect_eq(strlen(files_get(&f, index)->module.build_id_gnu), 40);
	cr_expect_leq(n_bytes, 64 << 10, "%lu bytes", n_bytes);
	cr_expect_leq(n_reads, 20, "%lu reads", n_reads);
}

static int is_elf_library(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	return strstr(info->dlpi_name, "libelf") || strstr(info->dlpi_name, "libdw");
}

/* This program has all that `binary` uses. */
Test(reading, without_a_library)
{
	_cleanup_files_ struct files f;

	files_init(&f, 16);
	files_write_libc(&f, "a", false);
	files_add(&f, "a");
	cr_expect_not(dl_iterate_phdr(is_elf_library, NULL), "what tenants choose is read by a library");
}
