// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself BEAM (the form of OTP 25 that beam_machine.h makes), with tables, modules,
 * atoms, code and processes that are wrong. It computes in what it calls a function of Erlang.
 *
 *	pretender_beam MODE [FILE]
 *
 * The modes are in `modes`; with FILE, what hangs is in it. Prints "ready" when everything is as it is to be.
 */
#define _GNU_SOURCE
#include "tests/support/pretender.h"

#include "tests/support/beam_machine.h"

#define DATA_WORDS 64u	   /* variables without a name, in which the tables of modules are looked for */
#define RANGES_WORD 20u	   /* of them, where these are */
#define PROCESS 0x14000u   /* what it says a process is */
#define STACK_TOP 0x16000u /* of that */
#define PID 0x3c3u
#define STOP 88u
#define CALL_BYTES 5u

EXPORTED const char etp_otp_release[] = "25";
EXPORTED const int etp_beamasm = 1;
EXPORTED uint32_t the_active_code_index;
EXPORTED uint64_t erts_atom_table[32];
EXPORTED uint64_t beam_normal_exit;
EXPORTED int erts_frame_layout;
static uint64_t data[DATA_WORDS];

static struct beam_machine machine;
static uint64_t process;

static void put(uint32_t at, uint64_t value)
{
	bm_put(&machine, at, value);
}

/* What a debugger changes; sub rsp, 16; mov ecx, 1 << 24; 1: dec ecx; jne 1b; add rsp, 16; ret */
static const uint8_t function[] = {0xeb, 0x06, 0x00, 0xe8, 0x68, 0xfd, 0xff, 0xff, 0x48,
				   0x83, 0xec, 0x10, 0xb9, 0,	 0,    0,    1,	   0xff,
				   0xc9, 0x75, 0xfc, 0x48, 0x83, 0xc4, 0x10, 0xc3};
/*
 * The same, on a thread's stack: xor eax, eax; jne over the next one; mov [r13 + 88], rsp; mov rax, rsp;
 * lea rsp, [rbx - 128]; mov ecx, 1 << 24; 1: dec ecx; jne 1b; mov rsp, rax; ret
 */
static const uint8_t on_thread[] = {0xeb, 0x06, 0x00, 0xe8, 0x68, 0xfd, 0xff, 0xff, 0x31, 0xc0, 0x75, 0x04,
				    0x49, 0x89, 0x65, 0x58, 0x48, 0x89, 0xe0, 0x48, 0x8d, 0x63, 0x80, 0xb9,
				    0,	  0,	0,    1,    0xff, 0xc9, 0x75, 0xfc, 0x48, 0x89, 0xc4, 0xc3};
#define ON_THREAD_BRANCH 10u
#define ON_THREAD_OVER 23u /* behind the change to the thread's stack */
#define JUMP_IF_EQUAL 0x74 /* by the next byte; the flag is set there */

static void put_call(uint32_t at, uint32_t to)
{
	const int32_t distance = (int32_t)(to - at);

	machine.bytes[at - CALL_BYTES] = 0xe8;
	memcpy(machine.bytes + at - 4, &distance, sizeof distance);
}

static void build(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *made;

	bm_init(&machine);
	made = machine.bytes;
	machine.bytes = mmap((void *)BM_BASE, BM_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
	if (machine.bytes != (uint8_t *)BM_BASE) {
		perror("mmap");
		exit(1);
	}
	memcpy(machine.bytes, made, BM_BYTES);
	memcpy(machine.bytes + BM_CODE + BEAM_INFO_BYTES, function, sizeof function);
	put_call(BM_EXIT, BM_CODE + BEAM_INFO_BYTES);
	machine.bytes[BM_EXIT] = 0xc3;
	memcpy(erts_atom_table, machine.bytes + BM_ATOM_TABLE, sizeof erts_atom_table);
	memcpy(data + RANGES_WORD, machine.bytes + BM_RANGES, 96);
	the_active_code_index = 1;
	beam_normal_exit = BM_BASE + BM_EXIT;
	process = BM_BASE + PROCESS;
}

/* --- the tables of modules: { modules, n, allocated, middle }, three times */

static void for_each_table(unsigned field, uint64_t value)
{
	for (unsigned i = 0; i < 3; i++)
		data[RANGES_WORD + i * 4 + field] = value;
}

static void index_huge(void)
{
	the_active_code_index = 0x80000000;
}
static void index_none(void)
{
	the_active_code_index = 3;
}
static void tables_none(void)
{
	for_each_table(0, 0);
}
static void tables_unmapped(void)
{
	for_each_table(0, (uintptr_t)unmapped());
	for_each_table(3, data[RANGES_WORD]);
}
static void tables_kernel(void)
{
	for_each_table(0, KERNEL);
	for_each_table(3, KERNEL);
}
static void tables_huge(void)
{
	for_each_table(1, 1ull << 60);
	for_each_table(2, 1ull << 60);
}
static void tables_twice(void)
{
	memcpy(data + RANGES_WORD + 16, data + RANGES_WORD, 96);
}

/* The active one changes when the tables have been found. */
static void tables_end(void)
{
	for_each_table(1, 1u << 20);
	for_each_table(2, 1u << 20);
}

/* --- modules */

static void for_each_module(unsigned field, uint64_t value)
{
	for (uint32_t i = 0; i < 3; i++)
		put(BM_MODULES + i * 0x100 + field * 8, value);
}

static void module_unmapped(void)
{
	const uint64_t at = (uintptr_t)unmapped();

	for_each_module(0, at);
	for_each_module(1, at + PAGE);
}
static void module_kernel(void)
{
	for_each_module(0, KERNEL);
	for_each_module(1, KERNEL + PAGE);
}
static void module_everything(void)
{
	for_each_module(1, BM_BASE + (200ull << 20));
}
static void functions_huge(void)
{
	put(BM_MODULE, 1ull << 62);
}
static void functions_many(void)
{
	put(BM_MODULE, 65535);
}
static void functions_descend(void)
{
	put(BM_FUNCTIONS + 8, BM_BASE + BM_CODE);
}
static void function_huge(void)
{
	for_each_module(1, BM_BASE + (128ull << 20));
	put(BM_FUNCTIONS + 8, BM_BASE + (100ull << 20));
	put(BM_FUNCTIONS + 16, BM_BASE + (101ull << 20));
	put(BM_FUNCTIONS + 24, BM_BASE + (102ull << 20));
}
static void function_elsewhere(void)
{
	put(BM_FUNCTIONS + 24, KERNEL);
}

/* --- names */

static void atoms_unmapped(void)
{
	erts_atom_table[15] = (uintptr_t)unmapped();
}
static void atoms_kernel(void)
{
	erts_atom_table[15] = KERNEL;
}
static void atom_nowhere(void)
{
	put(BM_CODE + 24, BM_ATOM(1u << 25));
}
static void atom_none(void)
{
	put(BM_CODE + 24, 0x7fffffffff);
}
static void atom_unmapped(void)
{
	put(BM_PIECE + BM_LEAF * 8, (uintptr_t)unmapped());
}
static void atom_kernel(void)
{
	put(BM_PIECE + BM_LEAF * 8, KERNEL);
}
static void text_huge(void)
{
	put(BM_ATOMS + BM_LEAF * 64 + 24, 0xffff);
}
static void text_long(void)
{
	char *at = calloc(1, 2048);

	memset(at, 'x', 2047);
	put(BM_ATOMS + BM_LEAF * 64 + 24, 1020);
	put(BM_ATOMS + BM_LEAF * 64 + 32, (uintptr_t)at);
}
static void text_unmapped(void)
{
	put(BM_ATOMS + BM_LEAF * 64 + 32, (uintptr_t)unmapped());
}
static void text_kernel(void)
{
	put(BM_ATOMS + BM_LEAF * 64 + 32, KERNEL);
}
static void text_odd(void)
{
	static const char odd[] = "\x1b[31mred\r\n\x01\xc3\xff\xe2\x80\xae</script>";

	memcpy(machine.bytes + BM_TEXTS + BM_LEAF * 32, odd, sizeof odd);
	put(BM_ATOMS + BM_LEAF * 64 + 24, sizeof odd);
}
static void arity_huge(void)
{
	put(BM_CODE + 32, UINT64_MAX);
}

/* --- code and stacks */

static void layout_odd(void)
{
	erts_frame_layout = 77;
}
static void layout_records(void)
{
	erts_frame_layout = 1;
}
static void exit_kernel(void)
{
	beam_normal_exit = KERNEL;
}
static void exit_none(void)
{
	beam_normal_exit = 0;
}
static void exit_in_function(void)
{
	beam_normal_exit = BM_BASE + BM_CODE + BEAM_INFO_BYTES + 17;
}

static void on_thread_stack(void)
{
	memcpy(machine.bytes + BM_CODE + BEAM_INFO_BYTES, on_thread, sizeof on_thread);
	put(PROCESS, PID);
}
static void process_kernel(void)
{
	on_thread_stack();
	put(PROCESS, KERNEL);
}

/* Another thread changes what the process says. */
static void *change(void *arg)
{
	static const uint64_t stops[] = {KERNEL,	   0, BM_BASE + PROCESS, BM_BASE + STACK_TOP, 1,
					 BM_BASE + BM_CODE};

	(void)arg;
	for (unsigned i = 0;; i++)
		set_word(machine.bytes + PROCESS + STOP, stops[i % 6]);
	return NULL;
}

static void stack_flickers(void)
{
	on_thread_stack();
	for (uint32_t at = STACK_TOP; at < STACK_TOP + 4096; at += 8)
		put(at, BM_BASE + BM_EXIT);
	beside(change);
}

static void *other_names(void *arg)
{
	(void)arg;
	for (uint64_t i = 0;; i++) {
		set_word(machine.bytes + BM_CODE + 24, BM_ATOM(i % BM_N_ATOMS));
		set_word(machine.bytes + BM_CODE + 32, i & 7);
	}
	return NULL;
}

static void flicker(void)
{
	beside(other_names);
}

/* --- memory that never arrives; see pretender.h */

static void tables_hang(void)
{
	const uint64_t at = (uintptr_t)hanging();

	for_each_table(0, at);
	for_each_table(3, at);
}
static void module_hangs(void)
{
	const uint64_t at = (uintptr_t)hanging();

	for_each_module(0, at);
	for_each_module(1, at + HANGING_BYTES);
}
static void atoms_hang(void)
{
	erts_atom_table[15] = (uintptr_t)hanging();
}
static void piece_hangs(void)
{
	put(BM_PIECES, (uintptr_t)hanging());
}
static void atom_hangs(void)
{
	put(BM_PIECE + BM_LEAF * 8, (uintptr_t)hanging());
}
static void text_hangs(void)
{
	put(BM_ATOMS + BM_LEAF * 64 + 32, (uintptr_t)hanging());
}

/* The function goes on in it. */
static void code_hangs(void)
{
	(void)hanging_at((void *)(BM_BASE + BM_BYTES));
	for_each_module(1, BM_BASE + BM_BYTES + HANGING_BYTES);
	for (uint32_t i = 1; i <= BM_N_FUNCTIONS; i++)
		put(BM_FUNCTIONS + i * 8, BM_BASE + BM_BYTES + i * PAGE);
}

/* It calls C code that is in it, as far as its instructions say: it jumps over the call. */
static void callee_hangs(void)
{
	const uint32_t over = BM_CODE + BEAM_INFO_BYTES + ON_THREAD_OVER, behind = over + 2 + CALL_BYTES;

	on_thread_stack();
	memmove(machine.bytes + behind, machine.bytes + over, sizeof on_thread - ON_THREAD_OVER);
	machine.bytes[over] = JUMP_IF_EQUAL;
	machine.bytes[over + 1] = CALL_BYTES;
	(void)hanging_at((void *)(BM_BASE + BM_BYTES));
	put_call(behind, BM_BYTES);
}

/* It jumps over what would store there. */
static void process_hangs(void)
{
	on_thread_stack();
	machine.bytes[BM_CODE + BEAM_INFO_BYTES + ON_THREAD_BRANCH] = JUMP_IF_EQUAL;
	process = (uintptr_t)hanging();
}

static const struct pretender_mode modes[] = {
	{"honest", NULL},
	{"index_huge", index_huge},
	{"index_none", index_none},
	{"tables_none", tables_none},
	{"tables_unmapped", tables_unmapped},
	{"tables_kernel", tables_kernel},
	{"tables_huge", tables_huge},
	{"tables_twice", tables_twice},
	{"tables_end", tables_end},
	{"module_unmapped", module_unmapped},
	{"module_kernel", module_kernel},
	{"module_everything", module_everything},
	{"functions_huge", functions_huge},
	{"functions_many", functions_many},
	{"functions_descend", functions_descend},
	{"function_huge", function_huge},
	{"function_elsewhere", function_elsewhere},
	{"atoms_unmapped", atoms_unmapped},
	{"atoms_kernel", atoms_kernel},
	{"atom_nowhere", atom_nowhere},
	{"atom_none", atom_none},
	{"atom_unmapped", atom_unmapped},
	{"atom_kernel", atom_kernel},
	{"text_huge", text_huge},
	{"text_long", text_long},
	{"text_unmapped", text_unmapped},
	{"text_kernel", text_kernel},
	{"text_odd", text_odd},
	{"arity_huge", arity_huge},
	{"layout_odd", layout_odd},
	{"layout_records", layout_records},
	{"exit_kernel", exit_kernel},
	{"exit_none", exit_none},
	{"exit_in_function", exit_in_function},
	{"on_thread_stack", on_thread_stack},
	{"process_kernel", process_kernel},
	{"stack_flickers", stack_flickers},
	{"flicker", flicker},
	{"tables_hang", tables_hang},
	{"module_hangs", module_hangs},
	{"atoms_hang", atoms_hang},
	{"piece_hangs", piece_hangs},
	{"atom_hangs", atom_hangs},
	{"text_hangs", text_hangs},
	{"code_hangs", code_hangs},
	{"callee_hangs", callee_hangs},
	{"process_hangs", process_hangs},
};

/* With a stack for the thread's C code, below rbx. */
__attribute__((noinline)) static void call_erlang(uint64_t code)
{
	static uint8_t thread[PAGE] __attribute__((aligned(64)));
	register uint64_t r13 __asm__("r13") = process;

	__asm__ volatile("call *%1"
			 : "+r"(r13)
			 : "r"(code), "b"(thread + sizeof thread)
			 : "rax", "rcx", "memory");
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
		call_erlang(BM_BASE + BM_EXIT - CALL_BYTES);
}
