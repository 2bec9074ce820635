// SPDX-License-Identifier: Apache-2.0
/*
 * Code that a process has generated, read from the memory of this one: its table, and how that follows the
 * code.
 */
#include "world.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/mapping.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/list.h"
#include "bpf/unwind.h"
#include "tests/support/beam_machine.h"
#include "tests/unit/machine.h"

#define PAGE 4096u
#define PAGES 64u
#define AT 0x100u /* of the function */

/* sub rsp, N; nop; add rsp, N; ret */
static const uint8_t function[] = {0x48, 0x83, 0xec, 24, 0x90, 0x48, 0x83, 0xc4, 24, 0xc3};

struct scene {
	struct world w;
	uint8_t *code;
	uint64_t from; /* the address of offset 0: that of the code, unless a test has other code */
	uint32_t index;
};

static struct scene *scene_new(void)
{
	struct scene *s = calloc(1, sizeof *s);
	struct binary *b;

	world_init(&s->w, 2, 16);
	unwind_tables_follow_generated(s->w.tables);
	s->code = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(s->code, MAP_FAILED);
	s->from = (uintptr_t)s->code;
	memcpy(s->code + AT, function, sizeof function);
	cr_assert_eq(binary_new_generated(&b, (uint32_t)getpid()), 0);
	cr_assert_eq(binary_registry_enter(s->w.binaries, b, 0, &s->index), 0);
	cr_assert(binary_registry_hold(s->w.binaries, s->index));
	cr_assert_eq(unwind_tables_add_generated(s->w.tables, s->index, (uint32_t)getpid()), 0);
	return s;
}

static void scene_free(struct scene **s)
{
	munmap((*s)->code, PAGES * PAGE);
	world_fini(&(*s)->w);
	free(*s);
}

#define _cleanup_scene_ _cleanup_(scene_free)

static uint64_t address(const struct scene *s, size_t offset)
{
	return s->from + offset;
}

static void request(struct scene *s, size_t offset, size_t start, size_t end)
{
	const struct generated_request q = {.address = address(s, offset),
					    .start = end ? address(s, start) : 0,
					    .end = end ? address(s, end) : 0,
					    .low = address(s, 0),
					    .high = address(s, PAGES * PAGE)};

	unwind_tables_request(s->w.tables, s->index, &q);
}

/* Time for the next build, which has its share of it. */
static void build(struct scene *s)
{
	world_table(&s->w, s->index)->not_before_ns = 0;
	unwind_tables_pump(s->w.tables);
	world_settle(&s->w);
}

/* What the BPF program finds at an offset: the CFA's offset; or, < 0: -1 not known, -2 refused. */
static int cfa_at(const struct scene *s, size_t offset)
{
	_cleanup_(list_entries_fini) struct list_entries l = {0};
	struct proc_maps *maps;
	int found = 0;

	cr_assert_eq(proc_maps_new(&maps, NULL), 0);
	cr_assert_eq(proc_maps_insert(maps, (struct proc_mapping){.start = address(s, 0),
								  .end = address(s, PAGES * PAGE)}),
		     0);
	proc_maps_set_code(maps, s->index);
	cr_assert_eq(list_entries_make(&l, maps, s->w.tables), 0);
	proc_maps_unref(maps);
	for (size_t i = 0; i < l.n; i++) {
		const struct mapping_entry *e = &l.entries[i];
		struct unwind_rule rule = {.kind = UNWIND_CFA_NONE};

		if (address(s, offset) < e->start || address(s, offset) >= e->end)
			continue;
		cr_assert_eq(e->bias, 0);
		cr_assert_eq(e->file, s->index);
		if (e->table <= TABLE_REFUSED)
			return e->table == TABLE_PENDING ? -1 : -2;
		struct segment *segment = s->w.segments[ref_segment(e->table)];
		const uint32_t at = ref_offset(e->table);
		const struct unwind_table *t = (const struct unwind_table *)(segment->bytes + at);
		const struct unwind_state state = {
			.index = t->index, .rows = t->rows, .rules = at + (uint32_t)sizeof *t};
		const uint64_t bits = table_rule(segment, &state, address(s, offset) - t->va);

		memcpy(&rule, &bits, sizeof rule);
		found = rule.kind != UNWIND_CFA_NONE ? rule.cfa : rule.cfa == UNWIND_NONE_REFUSED ? -2 : -1;
	}
	cr_assert_neq(found, 0);
	return found;
}

Test(generated, listed_function)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();

	cr_expect_eq(cfa_at(s, AT), -1, "nothing is known yet");
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, AT), 8);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
	cr_expect_eq(cfa_at(s, AT + 9), 8);
	cr_expect_eq(cfa_at(s, AT + sizeof function), -1, "behind it, nothing is");
	cr_expect_eq(cfa_at(s, AT - 1), -1);
	cr_expect_eq(world_stats(&s->w).generated, 1);
	cr_expect_eq(world_stats(&s->w).ready, 1);
}

Test(generated, unlisted_function)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();

	request(s, AT + 4, 0, 0);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
	cr_expect_eq(cfa_at(s, AT - 1), -1);
}

/* A function is added to the table of those that are known. */
Test(generated, more_functions)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();
	const size_t other = 9 * PAGE;

	memcpy(s->code + other, function, sizeof function);
	s->code[other + 3] = s->code[other + 8] = 40;
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, other + 4), -1);
	request(s, other + 4, other, other + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, other + 4), 48);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
	cr_expect_eq(world_stats(&s->w).ready, 1, "it is one table");
	cr_expect_eq(world_stats(&s->w).table_bytes, world_used(&s->w), "the one before was given back");
}

/* Of code that is known, nothing is lost when what is found of other code covers a part of it. */
Test(generated, known_function_stays)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();
	const size_t second = AT + sizeof function;

	memcpy(s->code + second, function, sizeof function);
	request(s, AT + 4, AT, second + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, second + 4), 32);
	memset(s->code + AT - 16, 0x90, 16); /* goes on at the first one */
	request(s, AT - 8, AT - 16, second);
	build(s);
	cr_expect_eq(cfa_at(s, AT - 8), 8);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
	cr_expect_eq(cfa_at(s, second + 4), 32);
}

/* Code that has changed is dropped when it is used again, and analysed anew when a sample needs it. */
Test(generated, replaced_function)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();

	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	s->code[AT + 3] = s->code[AT + 8] = 56;
	world_table(&s->w, s->index)->checked_ns = 0;
	unwind_tables_touch(s->w.tables, s->index, clock_mono_ns());
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), -1);
	cr_expect_eq(world_stats(&s->w).generated_replaced, 1);
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), 64);
}

/* What cannot be read, or has no instructions, is not requested for ever. */
Test(generated, refused)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();

	cr_assert_eq(munmap(s->code + 32 * PAGE, PAGE), 0);
	request(s, 32 * PAGE + 8, 0, 0);
	memset(s->code + 48 * PAGE, 6, PAGE);
	request(s, 48 * PAGE + 8, 48 * PAGE, 48 * PAGE + 16);
	build(s);
	cr_expect_eq(cfa_at(s, 32 * PAGE + 8), -2);
	cr_expect_eq(cfa_at(s, 48 * PAGE + 8), -2);
	cr_expect_eq(cfa_at(s, 48 * PAGE + 16), -1);
	unwind_tables_refuse(s->w.tables, s->index);
	cr_expect_eq(cfa_at(s, 48 * PAGE + 16), -2, "nothing more is analysed");
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), -2);
}

/* Code that was not understood is analysed again after a second: by then its runtime may list it. */
Test(generated, refused_for_a_while)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();

	memset(s->code + AT, 6, 16);
	request(s, AT + 4, 0, 0);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), -2);
	memcpy(s->code + AT, function, sizeof function);
	usleep(1100 * 1000);
	unwind_tables_touch(s->w.tables, s->index, clock_mono_ns());
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), -1);
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
}

/* Nothing has changed: the table stays where it is. */
Test(generated, unchanged)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();
	uint32_t change;

	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	change = unwind_tables_change(s->w.tables);
	world_table(&s->w, s->index)->checked_ns = 0;
	unwind_tables_touch(s->w.tables, s->index, clock_mono_ns());
	build(s);
	cr_expect_gt(world_table(&s->w, s->index)->checked_ns, 0, "it was compared");
	cr_expect_eq(unwind_tables_change(s->w.tables), change);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
}

/* The memory of a process that has ended is gone; what was known stays. */
Test(generated, ended_process)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();
	const uint64_t at = address(s, AT);
	struct binary *b;
	uint32_t index;
	int pipes[2];
	pid_t child;
	char c;

	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (!child) {
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) != 0);
	}
	cr_assert_eq(binary_new_generated(&b, (uint32_t)child), 0);
	cr_assert_eq(binary_registry_enter(s->w.binaries, b, 0, &index), 0);
	cr_assert(binary_registry_hold(s->w.binaries, index));
	cr_assert_eq(unwind_tables_add_generated(s->w.tables, index, (uint32_t)child), 0);
	s->index = index;
	request(s, AT + 4, AT, AT + sizeof function);
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
	close(pipes[0]);
	close(pipes[1]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	world_table(&s->w, s->index)->checked_ns = 0;
	unwind_tables_touch(s->w.tables, s->index, clock_mono_ns());
	build(s);
	cr_expect_eq(cfa_at(s, AT + 4), 32, "%#lx", (unsigned long)at);
	cr_expect_eq(cfa_at(s, 9 * PAGE), -2, "and nothing more will be");
}

/* The process is a virtual machine for Erlang, too. */
struct beam_scene {
	struct scene *s;
	struct beam_machine m;
	uint8_t *memory;	    /* a copy of its bytes */
	struct generated_request q; /* of an instruction of its first function, behind `sub rsp, 16` */
};

static void beam_scene_new(struct beam_scene *b)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	*b = (struct beam_scene){
		.s = scene_new(),
		.memory = mmap((void *)BM_BASE, BM_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0)};
	cr_assert_eq(b->memory, (uint8_t *)BM_BASE);
	bm_init(&b->m);
	memcpy(b->memory, b->m.bytes, BM_BYTES);
	b->s->from = BM_BASE;
	b->q = (struct generated_request){.address = BM_BASE + BM_CODE + BEAM_INFO_BYTES + 12,
					  .low = BM_BASE,
					  .high = BM_BASE + BM_BYTES,
					  .vm = {.kind = VM_BEAM, .beam = b->m.vm}};
}

static void beam_scene_free(struct beam_scene *b)
{
	bm_free(&b->m);
	munmap(b->memory, BM_BYTES);
	scene_free(&b->s);
}

#define _cleanup_beam_scene_ _cleanup_(beam_scene_free)

/* Has the code at the request's address looked at. The CFA there, as cfa_at(). */
static int look_at_beam(struct beam_scene *b)
{
	unwind_tables_request(b->s->w.tables, b->s->index, &b->q);
	build(b->s);
	return cfa_at(b->s, b->q.address - BM_BASE);
}

static bool has_names(const struct beam_scene *b)
{
	return generated_found(world_table(&b->s->w, b->s->index)->generated) != NULL;
}

/*
 * While a virtual machine starts, nothing is said of its code: what it knows of it would never be
 * requested then.
 */
Test(generated, virtual_machine_that_is_not_ready)
{
	ONLY_ON_X86_64("the code");
	_cleanup_beam_scene_ struct beam_scene b;

	beam_scene_new(&b);
	memset(b.memory + BM_RANGES, 0, 96);
	cr_expect_eq(look_at_beam(&b), -1, "it is not analysed by its bytes alone");
	cr_expect_gt(world_table(&b.s->w, b.s->index)->not_before_ns, clock_mono_ns(), "not at once again");
	memcpy(b.memory + BM_RANGES, b.m.bytes + BM_RANGES, 96);
	cr_expect_eq(look_at_beam(&b), 24);
	cr_expect(has_names(&b));
}

/* Where it becomes known late, what was made of its code by the bytes goes: it says less. */
Test(generated, virtual_machine_that_is_known_late)
{
	ONLY_ON_X86_64("the code");
	_cleanup_beam_scene_ struct beam_scene b;

	beam_scene_new(&b);
	b.q.vm.kind = VM_NONE;
	cr_expect_neq(look_at_beam(&b), -1, "analysed by its bytes");
	cr_expect_not(has_names(&b));
	b.q.vm.kind = VM_BEAM;
	cr_expect_eq(look_at_beam(&b), 24);
	cr_expect(has_names(&b));
}

/* What it does not know is analysed by its bytes, and looked at again after a second: it may know it then. */
Test(generated, code_that_a_virtual_machine_does_not_know_yet)
{
	ONLY_ON_X86_64("the code");
	_cleanup_beam_scene_ struct beam_scene b;

	beam_scene_new(&b);
	b.q.address += BM_FUNCTION_BYTES;
	(void)look_at_beam(&b);
	cr_expect(has_names(&b), "of another function");
	memset(b.memory + BM_MODULE, 0, 8); /* no functions any more */
	b.q.address -= BM_FUNCTION_BYTES;
	cr_expect_neq(look_at_beam(&b), -1, "analysed by its bytes");
	cr_expect_not(has_names(&b));
	memcpy(b.memory, b.m.bytes, BM_BYTES);
	usleep(1100 * 1000);
	world_table(&b.s->w, b.s->index)->checked_ns = 0;
	unwind_tables_touch(b.s->w.tables, b.s->index, clock_mono_ns());
	build(b.s);
	cr_expect_eq(cfa_at(b.s, b.q.address - BM_BASE), -1, "to be looked at again");
	cr_expect_eq(look_at_beam(&b), 24);
	cr_expect(has_names(&b));
}

/* One that is never ready is waited for some seconds; then its code is analysed like any other. */
Test(generated, virtual_machine_that_never_is_ready)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene *s = scene_new();
	struct generated_request q = {
		.address = address(s, AT + 4), .low = address(s, 0), .high = address(s, PAGES * PAGE)};
	unsigned tries = 0;

	q.vm.kind = VM_BEAM;
	q.vm.beam = (struct beam_vm){.code_index = address(s, 9 * PAGE),
				     .atom_table = address(s, 9 * PAGE),
				     .normal_exit = address(s, 9 * PAGE),
				     .frame_layout = address(s, 9 * PAGE),
				     .data_start = address(s, 10 * PAGE),
				     .data_end = address(s, 11 * PAGE)};
	while (cfa_at(s, AT + 4) == -1 && tries++ < 20) {
		unwind_tables_request(s->w.tables, s->index, &q);
		build(s);
	}
	cr_expect_eq(tries, 7);
	cr_expect_eq(cfa_at(s, AT + 4), 32);
}

Test(generated, many_requests)
{
	struct generated *g;

	cr_assert_eq(generated_new(&g, (uint32_t)getpid()), 0);
	for (uint64_t i = 0; i < GENERATED_REQUESTS_MAX; i++)
		cr_expect(generated_request(g, &(struct generated_request){.address = i + 1}));
	cr_expect(generated_request(g, &(struct generated_request){.address = 1}), "it has that one");
	cr_expect_not(generated_request(g, &(struct generated_request){.address = 1000}));
	cr_expect_eq(generated_begin(g, false), GENERATED_REQUESTS_MAX);
	cr_expect_not(generated_requested(g));
	cr_expect(generated_request(g, &(struct generated_request){.address = 1000}));
	generated_free(g);
	generated_free(NULL);
}
