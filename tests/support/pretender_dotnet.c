// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself .NET (the form of .NET 8 to 10 that dotnet_machine.h makes), with ranges,
 * methods, unwind information and metadata that are wrong. It computes in what it calls a method.
 *
 *	pretender_dotnet MODE [FILE]
 *
 * The modes are in `modes`; with FILE, what hangs is in it. Prints "ready" when everything is as it is to be.
 */
#define _GNU_SOURCE
#include "tests/support/pretender.h"

#include "tests/support/dotnet_machine.h"
#include "tests/support/pdb_file.h"

EXPORTED uint64_t g_dacTable[16];
EXPORTED char what_version[] = "@(#)Version 9.0.725.31616 @Commit: 0";

static struct dotnet_machine machine;
static uint32_t code = DM_FIRST; /* that computes */

/* push rbp; mov rbp, rsp; mov ecx, 1 << 24; 1: dec ecx; jne 1b; pop rbp; ret */
static const uint8_t function[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0,    0,   0,
				   1,	 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};

static void put(uint32_t at, uint64_t value)
{
	dm_put(&machine, at, value, 8);
}

static void put_4(uint32_t at, uint32_t value)
{
	dm_put(&machine, at, value, 4);
}

static void put_2(uint32_t at, uint32_t value)
{
	dm_put(&machine, at, value, 2);
}

static struct pdb_file lines;

/* The file of lines as it is, in one block of RFC 1951 that says that it is not compressed. */
static uint32_t store(uint8_t *to)
{
	const uint16_t n = (uint16_t)lines.n, inverse = (uint16_t)~n;

	to[0] = 1;
	memcpy(to + 1, &n, 2);
	memcpy(to + 3, &inverse, 2);
	memcpy(to + 5, lines.bytes, n);
	return 5u + n;
}

/* The assembly has the lines in it. */
static void put_lines(uint32_t bytes)
{
	static uint8_t packed[PDB_BYTES];

	dm_lines(&machine, packed, store(packed), bytes);
}

static void build(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *made;

	pdb_init(&lines);
	dm_init(&machine);
	put_lines(lines.n);
	made = machine.bytes;
	machine.bytes = mmap((void *)DM_BASE, DM_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
	if (machine.bytes != (uint8_t *)DM_BASE) {
		perror("mmap");
		exit(1);
	}
	memcpy(machine.bytes, made, DM_BYTES);
	memcpy(machine.bytes + DM_FIRST, function, sizeof function);
	memcpy(machine.bytes + DM_IMAGE + DM_READY_CODE, function, sizeof function);
	g_dacTable[0] = DM_BASE + DM_LEVELS;
}

/* --- ranges */

#define LAST_LEVEL (DM_LEVELS + 4 * 0x800)

static void for_each_slot(uint32_t level, uint64_t value)
{
	for (uint32_t i = 0; i < 256; i++)
		put(level + i * 8, value);
}

static void levels_none(void)
{
	g_dacTable[0] = 0;
}
static void levels_unmapped(void)
{
	g_dacTable[0] = (uintptr_t)unmapped();
}
static void levels_kernel(void)
{
	g_dacTable[0] = KERNEL;
}
static void levels_circle(void)
{
	for_each_slot(DM_LEVELS, DM_BASE + DM_LEVELS);
}
static void level_odd(void)
{
	for_each_slot(DM_LEVELS + 0x800, DM_BASE + DM_LEVELS + 3);
}
static void fragments_circle(void)
{
	put(DM_FRAGMENTS, DM_BASE + DM_FRAGMENTS);
	put(DM_FRAGMENTS + 8, 0);
	put(DM_FRAGMENTS + 16, 0);
}
static void fragments_kernel(void)
{
	for_each_slot(LAST_LEVEL, KERNEL);
}
static void section_unmapped(void)
{
	put(DM_FRAGMENTS + 24, (uintptr_t)unmapped());
}
static void section_kernel(void)
{
	put(DM_FRAGMENTS + 24, KERNEL);
}
static void section_elsewhere(void)
{
	put(DM_SECTIONS, DM_BASE + DM_CODE_END);
}
static void range_everything(void)
{
	put(DM_SECTIONS, 0);
	put(DM_SECTIONS + 8, UINT64_MAX);
}
static void range_is_list(void)
{
	put_4(DM_SECTIONS + 16, 4);
}
static void list_kernel(void)
{
	put_4(DM_SECTIONS + 16, 4);
	put(DM_SECTIONS + 48, KERNEL);
}
static void range_is_image(void)
{
	put_4(DM_SECTIONS + 16, 0);
}

/* --- the heap */

static void heap_unmapped(void)
{
	put(DM_SECTIONS + 40, (uintptr_t)unmapped());
}
static void heap_kernel(void)
{
	put(DM_SECTIONS + 40, KERNEL);
}
static void map_unmapped(void)
{
	put(DM_HEAP + 40, (uintptr_t)unmapped());
}
static void map_kernel(void)
{
	put(DM_HEAP + 40, KERNEL);
}

/* Nothing begins in 2 GiB before the code: the search goes back through all of them. */
static void map_endless(void)
{
	char *words = mmap(NULL, 64u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	put(DM_HEAP + 32, DM_BASE - (2ull << 30));
	put(DM_HEAP + 40, (uintptr_t)words);
}
static void map_points_away(void)
{
	put_4(DM_MAP, 0xfffffff9);
}
static void map_points_back(void)
{
	put(DM_HEAP + 32, DM_BASE);
	put(DM_HEAP + 40, DM_BASE + DM_MAP);
	put_4(DM_MAP + (DM_CODE >> 8) * 4, 9);
}
static void header_kernel(void)
{
	put(DM_FIRST - 8, KERNEL);
}
static void header_unmapped(void)
{
	put(DM_FIRST - 8, (uintptr_t)unmapped());
}
static void header_stub(void)
{
	put(DM_FIRST - 8, 3);
}
static void functions_none(void)
{
	put_4(DM_HEADERS + 32, 0);
}
static void functions_huge(void)
{
	put_4(DM_HEADERS + 32, UINT32_MAX);
}
static void functions_many(void)
{
	put_4(DM_HEADERS + 32, 4096);
	put_4(DM_HEADERS + 40, 0);
}
static void function_huge(void)
{
	put_4(DM_HEADERS + 40, UINT32_MAX);
}
static void function_odd(void)
{
	put_4(DM_HEADERS + 36, 0x3f);
}

/* --- unwind information */

static void unwind_far(void)
{
	put_4(DM_HEADERS + 44, UINT32_MAX);
}
static void unwind_other(void)
{
	machine.bytes[DM_UNWIND] = 0x07;
}
static void unwind_chained(void)
{
	machine.bytes[DM_UNWIND] = 0x21;
}
static void unwind_long(void)
{
	machine.bytes[DM_UNWIND + 2] = 0xff;
}
static void frame_huge(void)
{
	static const uint8_t unwind[] = {0x01, 0x04, 0x03, 0x00, 0x01, 0x11, 0xff, 0xff, 0xff, 0x7f};

	memcpy(machine.bytes + DM_UNWIND, unwind, sizeof unwind);
}
static void frame_wrong(void)
{
	static const uint8_t unwind[] = {0x01, 0x01, 0x01, 0x00, 0x01, 0xf2};

	memcpy(machine.bytes + DM_UNWIND, unwind, sizeof unwind);
}
static void frame_none(void)
{
	static const uint8_t unwind[] = {0x01, 0x00, 0x00, 0x00};

	memcpy(machine.bytes + DM_UNWIND, unwind, sizeof unwind);
}

/* --- names */

static void method_unmapped(void)
{
	put(DM_HEADERS + 24, (uintptr_t)unmapped());
}
static void method_kernel(void)
{
	put(DM_HEADERS + 24, KERNEL);
}
static void method_far(void)
{
	machine.bytes[DM_METHODS + 24 + 2] = 0xff;
}
static void dynamic_kernel(void)
{
	put_2(DM_METHODS + 24 + 6, 7);
	put(DM_METHODS + 24 + 32, KERNEL);
}
static void dynamic_endless(void)
{
	char *text = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(text, 'x', 16 * PAGE);
	put_2(DM_METHODS + 24 + 6, 7);
	put(DM_METHODS + 24 + 32, (uintptr_t)text);
}
static const char odd[] = "\x1b[31mred\r\n\x01\xc3\xff\xe2\x80\xae</script>";
static void dynamic_odd(void)
{
	put_2(DM_METHODS + 24 + 6, 7);
	put(DM_METHODS + 24 + 32, (uintptr_t)odd);
}
static void table_kernel(void)
{
	put(DM_METHODS, KERNEL);
}
static void module_unmapped(void)
{
	put(DM_TABLE + 24, (uintptr_t)unmapped());
}
static void image_none(void)
{
	put(DM_MODULE + 0x120, 0);
}
static void images_many(void)
{
	for (uint32_t i = 0; i < 64; i++)
		put(DM_MODULE + i * 8, DM_BASE + (i & 1 ? DM_IMAGE : DM_FILE));
}
static void token_far(void)
{
	put_2(DM_METHODS + 18, 0xfff);
}

#define FILE_RVA(rva) (DM_FILE + DM_RAW + (rva) - DM_RVA)
#define ROWS (FILE_RVA(DM_METADATA) + DM_TABLES_OFFSET + 24)

static void header_far(void)
{
	put_4(DM_FILE + 0x3c, 0xffffffff);
}
static void sections_many(void)
{
	put_2(DM_FILE + 0x86, 0xffff);
}
static void sections_huge(void)
{
	put_4(DM_FILE + 0x80 + 24 + 240 + 16, 0xffffffff);
}
static void metadata_far(void)
{
	put_4(FILE_RVA(DM_CLI) + 8, 0xfffffff0);
}
static void streams_many(void)
{
	put_2(FILE_RVA(DM_METADATA) + 30, 0xffff);
}
static void rows_huge(void)
{
	for (uint32_t i = 0; i < 4; i++)
		put_4(ROWS + i * 4, 0xffffffff);
}
static void tables_all(void)
{
	put(FILE_RVA(DM_METADATA) + DM_TABLES_OFFSET + 8, UINT64_MAX);
}

/* The types are in each other. */
static void types_circle(void)
{
	put_2(ROWS + 16 + 10 + 3 * 14 + 4 * 14, 2);
	put_2(ROWS + 16 + 10 + 3 * 14 + 4 * 14 + 2, 2);
}
static void text_far(void)
{
	put_2(ROWS + 16 + 10 + 3 * 14 + 14 + 8, 0xffff);
}
static void text_odd(void)
{
	memcpy(machine.bytes + FILE_RVA(DM_METADATA) + DM_STRINGS_OFFSET + 1, odd, sizeof odd);
}

/* --- code that was compiled ahead of time */

static void ready(void)
{
	code = DM_IMAGE + DM_READY_CODE;
}
static void ready_sections(void)
{
	ready();
	put_4(DM_IMAGE + DM_READY + 12, 0xffffffff);
}
static void ready_functions(void)
{
	ready();
	put_4(DM_IMAGE + DM_READY + 24, 0xfffffff0);
}
static void ready_descends(void)
{
	ready();
	put_4(DM_IMAGE + DM_FUNCTIONS + 12, 0);
	put_4(DM_IMAGE + DM_FUNCTIONS + 16, 0xffffffff);
}
static void ready_methods(void)
{
	ready();
	memset(machine.bytes + DM_IMAGE + DM_ENTRIES, 0xff, 11);
}
static void ready_instances(void)
{
	ready();
	machine.bytes[DM_IMAGE + DM_INSTANCES] = 23 << 2;
}
static void ready_types(void)
{
	ready();
	memset(machine.bytes + DM_IMAGE + DM_INSTANCES + 7, 0x1d, 9); /* arrays of arrays of … */
}

/* --- lines */

static void debug_kernel(void)
{
	put(DM_HEADERS, KERNEL);
}
static void debug_unmapped(void)
{
	put(DM_HEADERS, (uintptr_t)unmapped());
}
static void debug_odd(void)
{
	memset(machine.bytes + DM_TEXT + 0x100, 0xff, 0x100);
}
static void debug_endless(void)
{
	char *map = mmap(NULL, 64u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);

	map[0] = 1;
	memset(map + 9, 0xff, 4); /* local variables */
	put(DM_HEADERS, (uintptr_t)map);
}
static void symbols_far(void)
{
	put_4(DM_FILE + 0x80 + 24 + 112 + 48, UINT32_MAX - 16);
}
static void symbols_many(void)
{
	put_4(DM_FILE + 0x80 + 24 + 112 + 52, UINT32_MAX);
}
static void packed_odd(void)
{
	memset(machine.bytes + DM_FILE + DM_RAW + (DM_EMBEDDED - DM_RVA) + 8, 0xff, 64);
}
static void packed_huge(void)
{
	put_lines(DOTNET_PDB_MAX);
}
static void lines_of_another(void)
{
	lines.bytes[0x100] ^= 1;
	put_lines(lines.n);
}
static void lines_odd(void)
{
	memset(lines.bytes + 0x148, 0xff, 0x100);
	put_lines(lines.n);
}
static void lines_endless(void)
{
	memset(lines.bytes + 0x400, 0x01, 0x800);
	put_lines(lines.n);
}

/* --- what changes */

static void *other_methods(void *arg)
{
	(void)arg;
	for (uint64_t i = 0;; i++) {
		set_word(machine.bytes + DM_METHODS + 24,
			 (i & 7) | (i & 1) << 48 | 7ull << 48 * (i >> 3 & 1));
		set_word(machine.bytes + DM_FIRST - 8, DM_BASE + DM_HEADERS + (i & 3) * 128);
	}
	return NULL;
}
static void flicker(void)
{
	beside(other_methods);
}

static void *other_rows(void *arg)
{
	(void)arg;
	for (uint64_t i = 0;; i++)
		set_word(machine.bytes + DM_UNWIND + 4, i * 0x9e3779b97f4a7c15);
	return NULL;
}
static void unwind_flickers(void)
{
	beside(other_rows);
}

/* --- memory that never arrives; see pretender.h */

static uint64_t hang(void)
{
	return (uintptr_t)hanging();
}

static void levels_hang(void)
{
	g_dacTable[0] = hang();
}
static void fragment_hangs(void)
{
	for_each_slot(LAST_LEVEL, hang());
}
static void section_hangs(void)
{
	put(DM_FRAGMENTS + 24, hang());
}
static void heap_hangs(void)
{
	put(DM_SECTIONS + 40, hang());
}
static void map_hangs(void)
{
	put(DM_HEAP + 40, hang());
}
static void header_hangs(void)
{
	put(DM_FIRST - 8, hang());
}
static void method_hangs(void)
{
	put(DM_HEADERS + 24, hang());
}
static void dynamic_hangs(void)
{
	put_2(DM_METHODS + 24 + 6, 7);
	put(DM_METHODS + 24 + 32, hang());
}
static void table_hangs(void)
{
	put(DM_METHODS, hang());
}
static void module_hangs(void)
{
	put(DM_TABLE + 24, hang());
}
static void image_hangs(void)
{
	put(DM_MODULE + 0x120, hang());
}
static void debug_hangs(void)
{
	put(DM_HEADERS, hang());
}

/* The assembly is mapped from a file system that stops, and the file with its lines would be there, too. */
static void lines_hang(void)
{
	uint8_t *image = machine.bytes + DM_FILE;
	const int fd = hanging_file ? open(hanging_file, O_RDONLY | O_CLOEXEC) : -1;
	const int flags = MAP_PRIVATE | MAP_FIXED | (hanging_file ? 0 : MAP_ANONYMOUS);
	static uint8_t copy[DM_IMAGE_BYTES];

	memcpy(copy, image, sizeof copy);
	if (mmap(image, sizeof copy, PROT_READ | PROT_WRITE, flags, fd, 0) != image) {
		perror("mmap");
		exit(1);
	}
	memcpy(image, copy, sizeof copy);
	dm_lines(&machine, NULL, 0, 0);
	memcpy(image + DM_RAW + (DM_CODEVIEW - DM_RVA) + 24, "file", 5);
}

static const struct pretender_mode modes[] = {
	{"honest", NULL},
	{"levels_none", levels_none},
	{"levels_unmapped", levels_unmapped},
	{"levels_kernel", levels_kernel},
	{"levels_circle", levels_circle},
	{"level_odd", level_odd},
	{"fragments_circle", fragments_circle},
	{"fragments_kernel", fragments_kernel},
	{"section_unmapped", section_unmapped},
	{"section_kernel", section_kernel},
	{"section_elsewhere", section_elsewhere},
	{"range_everything", range_everything},
	{"range_is_list", range_is_list},
	{"list_kernel", list_kernel},
	{"range_is_image", range_is_image},
	{"heap_unmapped", heap_unmapped},
	{"heap_kernel", heap_kernel},
	{"map_unmapped", map_unmapped},
	{"map_kernel", map_kernel},
	{"map_endless", map_endless},
	{"map_points_away", map_points_away},
	{"map_points_back", map_points_back},
	{"header_kernel", header_kernel},
	{"header_unmapped", header_unmapped},
	{"header_stub", header_stub},
	{"functions_none", functions_none},
	{"functions_huge", functions_huge},
	{"functions_many", functions_many},
	{"function_huge", function_huge},
	{"function_odd", function_odd},
	{"unwind_far", unwind_far},
	{"unwind_other", unwind_other},
	{"unwind_chained", unwind_chained},
	{"unwind_long", unwind_long},
	{"frame_huge", frame_huge},
	{"frame_wrong", frame_wrong},
	{"frame_none", frame_none},
	{"method_unmapped", method_unmapped},
	{"method_kernel", method_kernel},
	{"method_far", method_far},
	{"dynamic_kernel", dynamic_kernel},
	{"dynamic_endless", dynamic_endless},
	{"dynamic_odd", dynamic_odd},
	{"table_kernel", table_kernel},
	{"module_unmapped", module_unmapped},
	{"image_none", image_none},
	{"images_many", images_many},
	{"token_far", token_far},
	{"header_far", header_far},
	{"sections_many", sections_many},
	{"sections_huge", sections_huge},
	{"metadata_far", metadata_far},
	{"streams_many", streams_many},
	{"rows_huge", rows_huge},
	{"tables_all", tables_all},
	{"types_circle", types_circle},
	{"text_far", text_far},
	{"text_odd", text_odd},
	{"ready", ready},
	{"ready_sections", ready_sections},
	{"ready_functions", ready_functions},
	{"ready_descends", ready_descends},
	{"ready_methods", ready_methods},
	{"ready_instances", ready_instances},
	{"ready_types", ready_types},
	{"flicker", flicker},
	{"unwind_flickers", unwind_flickers},
	{"debug_kernel", debug_kernel},
	{"debug_unmapped", debug_unmapped},
	{"debug_odd", debug_odd},
	{"debug_endless", debug_endless},
	{"symbols_far", symbols_far},
	{"symbols_many", symbols_many},
	{"packed_odd", packed_odd},
	{"packed_huge", packed_huge},
	{"lines_of_another", lines_of_another},
	{"lines_odd", lines_odd},
	{"lines_endless", lines_endless},
	{"levels_hang", levels_hang},
	{"fragment_hangs", fragment_hangs},
	{"section_hangs", section_hangs},
	{"heap_hangs", heap_hangs},
	{"map_hangs", map_hangs},
	{"header_hangs", header_hangs},
	{"method_hangs", method_hangs},
	{"dynamic_hangs", dynamic_hangs},
	{"table_hangs", table_hangs},
	{"module_hangs", module_hangs},
	{"image_hangs", image_hangs},
	{"debug_hangs", debug_hangs},
	{"lines_hang", lines_hang},
};

int main(int argc, char **argv)
{
	int r;

	build();
	r = pretend(modes, sizeof modes / sizeof modes[0], argc, argv);
	if (r)
		return r;
	for (;;) {
		((void (*)(void))(DM_BASE + code))();
		sink++;
	}
}
