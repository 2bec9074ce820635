// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself HotSpot (the form of JDK 17 that hotspot_machine.h makes), with tables, code
 * heaps, methods and scopes that are wrong. It computes in what it calls a compiled method.
 *
 *	pretender_java MODE [FILE]
 *
 * The modes are in `modes`; with FILE, what hangs is in it. Prints "ready" when everything is as it is to be.
 */
#define _GNU_SOURCE
#include "tests/support/pretender.h"

#include <time.h>

#include "tests/support/hotspot_machine.h"

#define HUGE_BYTES (1ull << 30)
#define PIECE_BYTES (2u << 20) /* that are mapped over and over again to make HUGE_BYTES */
#define HUGE_AT 0x600000000000ull
#define BLOB (HM_NMETHOD + 16)
#define PLACES (BLOB + 0x400)
#define SCOPES (PLACES + 0x80)
#define SPINNING 11u /* where in the code it computes */

EXPORTED uint64_t gHotSpotVMStructs = HM_BASE + HM_FIELDS_AT;
EXPORTED uint64_t gHotSpotVMTypes = HM_BASE + HM_TYPES_AT;

static struct hotspot_machine machine;
static uint32_t entry = HM_NMETHOD_CODE;

static void put(uint32_t at, uint64_t value, unsigned bytes)
{
	hm_put(&machine, at, value, bytes);
}

/* push rbp; sub rsp, 16; mov ecx, 1 << 24; 1: dec ecx; jne 1b; add rsp, 16; pop rbp; ret */
static const uint8_t compiled[] = {0x55, 0x48, 0x83, 0xec, 0x10, 0xb9, 0,    0,	   0,	 1,
				   0xff, 0xc9, 0x75, 0xfc, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
/* push rbp; mov rbp, rsp; lea rax, [rbp + 16]; push rax; push 0; push rdi; then the same */
static const uint8_t interpreted[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x45, 0x10, 0x50,
				      0x6a, 0,	  0x57, 0xb9, 0,    0,	  0,	1,    0xff,
				      0xc9, 0x75, 0xfc, 0x48, 0x89, 0xec, 0x5d, 0xc3};

static void build(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *made;

	hm_init(&machine, false);
	made = machine.bytes;
	machine.bytes = mmap((void *)HM_BASE, HM_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
	if (machine.bytes != (uint8_t *)HM_BASE) {
		perror("mmap");
		exit(1);
	}
	memcpy(machine.bytes, made, HM_BYTES);
	memcpy(machine.bytes + HM_NMETHOD_CODE, compiled, sizeof compiled);
	put(BLOB + 40, HM_BASE + HM_NMETHOD_CODE + sizeof compiled, 8);
	memcpy(machine.bytes + HM_INTERPRETER, interpreted, sizeof interpreted);
}

/* A text without end. */
static uint64_t endless(int c)
{
	const int fd = memfd_create("endless", 0), flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
	uint8_t *piece = malloc(PIECE_BYTES);

	memset(piece, c, PIECE_BYTES);
	if (write(fd, piece, PIECE_BYTES) != PIECE_BYTES)
		exit(1);
	for (uint64_t at = 0; at < HUGE_BYTES; at += PIECE_BYTES)
		if (mmap((void *)(HUGE_AT + at), PIECE_BYTES, PROT_READ, flags, fd, 0) == MAP_FAILED)
			exit(1);
	free(piece);
	return HUGE_AT;
}

/* --- the tables */

static void fields_endless(void)
{
	const uint32_t entries = 1u << 20, bytes = 48;
	uint8_t *all = mmap(NULL, (size_t)entries * bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint32_t i = 0; i < entries; i++)
		memcpy(all + (size_t)i * bytes, machine.bytes + HM_FIELDS_AT, bytes);
	gHotSpotVMStructs = (uintptr_t)all;
}

static void fields_unmapped(void)
{
	gHotSpotVMStructs = (uintptr_t)unmapped();
}
static void fields_kernel(void)
{
	gHotSpotVMStructs = KERNEL;
}
static void fields_none(void)
{
	gHotSpotVMStructs = 0;
}
static void fields_themselves(void)
{
	gHotSpotVMStructs = (uintptr_t)&gHotSpotVMStructs;
}
static void types_unmapped(void)
{
	gHotSpotVMTypes = (uintptr_t)unmapped();
}
static void types_are_fields(void)
{
	gHotSpotVMTypes = gHotSpotVMStructs;
}
static void strings_unmapped(void)
{
	put(HM_FIELDS_AT + 48 * 3, (uintptr_t)unmapped(), 8);
}
static void strings_endless(void)
{
	put(HM_FIELDS_AT + 48 * 3, endless('a'), 8);
}
static void offset_huge(void)
{
	put(HM_FIELDS_AT + 48 * 5 + 32, 1ull << 40, 8);
}

static void sizes_huge(void)
{
	for (uint32_t i = 0; i < 4; i++)
		put(HM_TYPES_AT + i * 40 + 32, UINT64_MAX, 8);
}

static void version_none(void)
{
	put(HM_VERSION, 0, 4);
}

/* --- the code heap */

static void heaps_unmapped(void)
{
	put(HM_HEAPS, (uintptr_t)unmapped(), 8);
}
static void heaps_kernel(void)
{
	put(HM_HEAPS, KERNEL, 8);
}
static void heaps_many(void)
{
	put(HM_ARRAY, 0x7fffffff, 4);
}
static void heaps_circle(void)
{
	put(HM_DATA, HM_BASE + HM_DATA, 8);
}

static void heap_of_everything(void)
{
	put(HM_HEAP + 8 + 16, 0, 8);
	put(HM_HEAP + 8 + 24, UINT64_MAX, 8);
}

static void segments_huge(void)
{
	put(HM_HEAP + 248, 63, 4);
}

/* Each segment leads to the one before, for a million of them. */
static void segments_endless(void)
{
	const uint64_t n = 1u << 20, shift = 7;
	uint8_t *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(map, 1, n);
	put(HM_HEAP + 8 + 16, HM_BASE + HM_CODE - (n << shift) / 2, 8);
	put(HM_HEAP + 8 + 24, HM_BASE + HM_CODE + (n << shift) / 2, 8);
	put(HM_HEAP + 120 + 16, (uintptr_t)map, 8);
}

static void block_huge(void)
{
	put(HM_NMETHOD, UINT64_MAX / 2, 8);
}
static void blob_unmapped(void)
{
	put(BLOB + 96, (uintptr_t)unmapped(), 8);
}
static void blob_name_endless(void)
{
	put(BLOB + 96, endless('n'), 8);
}
static void code_kernel(void)
{
	put(BLOB + 32, KERNEL, 8);
}
static void code_everywhere(void)
{
	put(BLOB + 40, UINT64_MAX, 8);
}
static void frame_none(void)
{
	put(BLOB + 28, 0, 4);
}
static void frame_huge(void)
{
	put(BLOB + 28, 0x7fffffff, 4);
}
static void frame_wrong(void)
{
	put(BLOB + 28, 40, 4);
}

/* --- methods */

static void method_unmapped(void)
{
	put(BLOB + 112, (uintptr_t)unmapped(), 8);
}
static void method_kernel(void)
{
	put(BLOB + 112, KERNEL, 8);
}
static void method_circle(void)
{
	put(HM_METHOD + 8, HM_BASE + HM_METHOD, 8);
}
static void pool_unmapped(void)
{
	put(HM_CONST + 8, (uintptr_t)unmapped(), 8);
}
static void name_nowhere(void)
{
	put(HM_CONST + 34, 0xffff, 2);
}

static void pool_huge(void)
{
	put(HM_POOL + 60, 0x7fffffff, 4);
	name_nowhere();
}

static void class_kernel(void)
{
	put(HM_POOL + 24, KERNEL, 8);
}

/* At the end of what is mapped, a symbol that says to be longer. */
static void symbol_long(void)
{
	char *at = (char *)unmapped() - 64;

	memset(at, 'x', 64);
	at[4] = at[5] = (char)0xff;
	put(HM_POOL + 72 + 8, (uintptr_t)at, 8);
}

static void symbol_huge(void)
{
	char *at = calloc(1, 1u << 17);

	memset(at, 'x', (1u << 17) - 1);
	at[4] = at[5] = (char)0xff;
	put(HM_POOL + 72 + 8, (uintptr_t)at, 8);
	put(HM_CLASS + 24, (uintptr_t)at, 8);
}

static void symbol_odd(void)
{
	static const char odd[] = "\x1b[31mred\r\n\x01\xc3\xff\xe2\x80\xae</script>";

	hm_symbol(&machine, HM_SYMBOLS, odd);
	hm_symbol(&machine, HM_SYMBOLS + 0x80, odd);
}

static void lines_endless(void)
{
	uint8_t *constant = malloc(1u << 20);

	memcpy(constant, machine.bytes + HM_CONST, 48 + 20);
	memset(constant + 48 + 20, 0x0a, (1u << 20) - 48 - 20);
	put(HM_METHOD + 8, (uintptr_t)constant, 8);
}

/* --- scopes */

static void scopes_circle(void)
{
	put(SCOPES + 1, 0x010101, 3);
}
static void scopes_unmapped(void)
{
	put(BLOB + 120, (uintptr_t)unmapped(), 8);
}

/* A hundred thousand methods, each inlined into the one before. */
static void scopes_deep(void)
{
	uint8_t *all = calloc(DEPTH, 16);

	for (uint32_t i = 1; i < DEPTH; i++) {
		uint32_t outer = (i - 1) * 16;
		uint8_t *at = all + (size_t)i * 16;

		for (; outer >= 192; at++) { /* the encoding of numbers, by digits of six bits */
			*at = (uint8_t)(192 + (outer & 63));
			outer = (outer - *at) >> 6;
		}
		*at++ = (uint8_t)outer;
		*at++ = 1;
		*at = 1;
	}
	put(BLOB + 120, (uintptr_t)all, 8);
	put(PLACES + 2 * 16 + 4, (DEPTH - 1) * 16, 4);
}

static void places_many(void)
{
	put(BLOB + 140, 0x7fffffff, 4);
}
static void places_backward(void)
{
	put(PLACES + 16, SPINNING + 100, 4);
}
static void metadata_unmapped(void)
{
	put(BLOB + 132, 0x40000000, 4);
}

/* --- what changes all the time */

static void *change(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; sink != UINT64_MAX; i++) {
		put(BLOB + 128, i, 4);
		put(BLOB + 112, HM_BASE + (i & 1 ? HM_METHOD : HM_INLINED), 8);
		put(BLOB + 28, i & 2 ? 4 : 8, 4);
		put(HM_SYMBOLS + 6, 'a' + i % 26, 1);
	}
	return NULL;
}

static void flicker(void)
{
	beside(change);
}

static void *replace(void *unused)
{
	struct timespec pause = {.tv_nsec = 1000000};

	(void)unused;
	for (uint32_t i = 0; sink != UINT64_MAX; i++) {
		put(BLOB + 128, i, 4);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void many(void)
{
	beside(replace);
}

/* --- what it calls the interpreter: the method is where its frame has it */

static uint64_t method = HM_BASE + HM_METHOD;

static void in_interpreter(void)
{
	entry = HM_INTERPRETER;
}

static void interpreted_kernel(void)
{
	in_interpreter();
	method = KERNEL;
}

static void interpreted_unmapped(void)
{
	in_interpreter();
	method = (uintptr_t)unmapped();
}

static void interpreted_circle(void)
{
	in_interpreter();
	method_circle();
}

/* Another method at each call. */
static void interpreted_many(void)
{
	in_interpreter();
	method = 0;
}

/* --- what never arrives */

static void fields_hang(void)
{
	gHotSpotVMStructs = (uintptr_t)hanging();
}
static void types_hang(void)
{
	gHotSpotVMTypes = (uintptr_t)hanging();
}
static void strings_hang(void)
{
	put(HM_FIELDS_AT + 48 * 3, (uintptr_t)hanging(), 8);
}
static void heaps_hang(void)
{
	put(HM_HEAPS, (uintptr_t)hanging(), 8);
}
static void heap_hangs(void)
{
	put(HM_DATA, (uintptr_t)hanging(), 8);
}
static void segments_hang(void)
{
	put(HM_HEAP + 120 + 16, (uintptr_t)hanging(), 8);
}

/* The code heap goes on in it. */
static void code_hangs(void)
{
	const uint64_t at = HM_BASE + HM_BYTES;

	(void)hanging_at((void *)at);
	put(HM_HEAP + 8 + 24, at + HANGING_BYTES, 8);
	put(HM_NMETHOD, HANGING_BYTES / 128, 8);
	put(BLOB + 40, at + HANGING_BYTES, 8);
}

static void blob_name_hangs(void)
{
	put(BLOB + 96, (uintptr_t)hanging(), 8);
}
static void method_hangs(void)
{
	put(BLOB + 112, (uintptr_t)hanging(), 8);
}
static void constants_hang(void)
{
	put(HM_METHOD + 8, (uintptr_t)hanging(), 8);
}
static void pool_hangs(void)
{
	put(HM_CONST + 8, (uintptr_t)hanging(), 8);
}
static void class_hangs(void)
{
	put(HM_POOL + 24, (uintptr_t)hanging(), 8);
}
static void symbol_hangs(void)
{
	put(HM_POOL + 72 + 8, (uintptr_t)hanging(), 8);
}
static void scopes_hang(void)
{
	put(BLOB + 120, (uintptr_t)hanging(), 8);
}

static void interpreted_hangs(void)
{
	in_interpreter();
	method = (uintptr_t)hanging();
}

static const struct pretender_mode modes[] = {
	{"honest", NULL},
	{"fields_endless", fields_endless},
	{"fields_unmapped", fields_unmapped},
	{"fields_kernel", fields_kernel},
	{"fields_none", fields_none},
	{"fields_themselves", fields_themselves},
	{"types_unmapped", types_unmapped},
	{"types_are_fields", types_are_fields},
	{"strings_unmapped", strings_unmapped},
	{"strings_endless", strings_endless},
	{"offset_huge", offset_huge},
	{"sizes_huge", sizes_huge},
	{"version_none", version_none},
	{"heaps_unmapped", heaps_unmapped},
	{"heaps_kernel", heaps_kernel},
	{"heaps_many", heaps_many},
	{"heaps_circle", heaps_circle},
	{"heap_of_everything", heap_of_everything},
	{"segments_huge", segments_huge},
	{"segments_endless", segments_endless},
	{"block_huge", block_huge},
	{"blob_unmapped", blob_unmapped},
	{"blob_name_endless", blob_name_endless},
	{"code_kernel", code_kernel},
	{"code_everywhere", code_everywhere},
	{"frame_none", frame_none},
	{"frame_huge", frame_huge},
	{"frame_wrong", frame_wrong},
	{"method_unmapped", method_unmapped},
	{"method_kernel", method_kernel},
	{"method_circle", method_circle},
	{"pool_unmapped", pool_unmapped},
	{"pool_huge", pool_huge},
	{"name_nowhere", name_nowhere},
	{"class_kernel", class_kernel},
	{"symbol_long", symbol_long},
	{"symbol_huge", symbol_huge},
	{"symbol_odd", symbol_odd},
	{"lines_endless", lines_endless},
	{"scopes_circle", scopes_circle},
	{"scopes_unmapped", scopes_unmapped},
	{"scopes_deep", scopes_deep},
	{"places_many", places_many},
	{"places_backward", places_backward},
	{"metadata_unmapped", metadata_unmapped},
	{"flicker", flicker},
	{"many", many},
	{"in_interpreter", in_interpreter},
	{"interpreted_kernel", interpreted_kernel},
	{"interpreted_unmapped", interpreted_unmapped},
	{"interpreted_circle", interpreted_circle},
	{"interpreted_many", interpreted_many},
	{"fields_hang", fields_hang},
	{"types_hang", types_hang},
	{"strings_hang", strings_hang},
	{"heaps_hang", heaps_hang},
	{"heap_hangs", heap_hangs},
	{"segments_hang", segments_hang},
	{"code_hangs", code_hangs},
	{"blob_name_hangs", blob_name_hangs},
	{"method_hangs", method_hangs},
	{"constants_hang", constants_hang},
	{"pool_hangs", pool_hangs},
	{"class_hangs", class_hangs},
	{"symbol_hangs", symbol_hangs},
	{"scopes_hang", scopes_hang},
	{"interpreted_hangs", interpreted_hangs},
};

__attribute__((noinline)) static void call_java(void (*code)(uint64_t))
{
	static uint64_t n;

	code(method ? method : HM_BASE + HM_METHOD + 8 * (n++ & 1023));
	sink++;
}

int main(int argc, char **argv)
{
	int r;

	build();
	r = pretend(modes, sizeof modes / sizeof modes[0], argc, argv);
	if (r)
		return r;
	for (;;)
		call_java((void (*)(uint64_t))(HM_BASE + entry));
}
