// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks over a frame whose rule the table cannot hold, finished by complete rules from a file:
 *
 *	leaf    sp + 8
 *	saver   sp + 24, has the caller's rbx at CFA - 16
 *	base    rbx + 16, or an expression over rbx
 *	start   outermost
 */
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"
#include "tests/unit/agent/unwind/world.h"

#include "agent/unwind/finish.h"
#include "agent/unwind/list.h"
#include "tests/unit/machine.h"

#define BIAS 0x10000u
#define TEXT TEXT_VA
#define LEAF (TEXT + 0x10)
#define SAVER (TEXT + 0x110)
#define BASE (TEXT + 0x210)
#define START (TEXT + 0x310)
#define TRAMPOLINE (TEXT + 0x410)
#define BETWEEN (TEXT + 0x1000) /* functions of 16 bytes, each with an FDE of its own: sp + 8 */
#define BETWEEN_MAX 400u
#define SP 0x7ffe0000u
#define KERNEL 0xffffffff81000000ull

struct scene {
	struct world world;
	struct finisher *finisher;
	uint32_t file, list;
	unsigned n_ready;
	struct {
		struct saved_stack head;
		uint64_t stack[BETWEEN_MAX + 32];
	} saved;
	uint64_t frames[BETWEEN_MAX + 8];
	struct sample_view view;
};

static void on_ready(void *data)
{
	struct scene *s = data;

	s->n_ready++;
}

/* (rbx ^ 1 ^ 1) + 16: no shape of the table */
#define EXPRESSION BYTES("\x0f\x08\x73\x00\x31\x27\x31\x27\x23\x10")
#define BASE_REGISTER BYTES("\x0c\x03\x10")
#define OTHER_REGISTER BYTES("\x0c\x0c\x10") /* r12 + 16: wrong by what the stack says */
#define LOST_REGISTER BYTES("\x0c\x0a\x10")  /* r10 + 16: calls do not preserve it */

static void file_add(struct scene *s, struct bytes base, unsigned n_between)
{
	static const uint8_t code[BETWEEN - TEXT + 16 * BETWEEN_MAX];
	_cleanup_buf_ struct buf eh = {0}, file = {0};
	size_t cie = put_cie(&eh, EM_X86_64, "", X86_START);

	put_fde(&eh, cie, false, LEAF, 0x80, BYTES(""));
	put_fde(&eh, cie, false, SAVER, 0x80, BYTES("\x0e\x18\x83\x02"));
	put_fde(&eh, cie, false, BASE, 0x80, base);
	put_fde(&eh, cie, false, START, 0x80, BYTES("\x07\x10"));
	for (unsigned i = 0; i < n_between; i++)
		put_fde(&eh, cie, false, BETWEEN + 16 * i, 16, BYTES(""));
	put_u32(&eh, 0);
	const struct file_section sections[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, code, sizeof code, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, SECTION_VA, eh.data, eh.len, 0, 0},
	};
	file_write(&file, EM_X86_64, sections, 2, 0);
	world_write(&s->world, "program", file.data, file.len);
	cr_assert_eq(world_add(&s->world, "program", &s->file), 0);
	world_settle(&s->world);
	cr_assert_eq(world_table(&s->world, s->file)->n_placed, 1);
}

static void list_add(struct scene *s)
{
	const struct unwind_placed *placed = &world_table(&s->world, s->file)->placed[0];
	struct mapping_entry m = {BIAS + placed->va,
				  BIAS + placed->end,
				  BIAS,
				  (uint16_t)s->file,
				  (uint16_t)placed->block.generation,
				  placed->block.ref};
	struct arena_block block;

	cr_assert_eq(arena_alloc(s->world.arena, list_bytes(1), NOBODY, &block), 0);
	list_write(arena_at(s->world.arena, block.ref), &m, 1, 1, 0);
	s->list = block.ref;
}

static uint64_t frame(const struct scene *s, uint64_t va)
{
	return (uint64_t)s->file << FRAME_VA_BITS | va;
}

/*
 * What the program sends for it: leaf, n_between functions, saver and base, where it ended; the stack from
 * the leaf on.
 */
static void scene_init_deep(struct scene *s, struct bytes base, unsigned n_between)
{
	uint64_t sp = SP + 8 * n_between; /* what the functions between have pushed: their return addresses */
	uint64_t *at, *frame_at;

	*s = (struct scene){0};
	world_init(&s->world, 2, 16);
	file_add(s, base, n_between);
	list_add(s);
	cr_assert_eq(finisher_new(&s->finisher, &(struct finisher_options){.arena = s->world.arena,
									   .binaries = s->world.binaries,
									   .worker = s->world.worker,
									   .user_frames = 512,
									   .ready = on_ready,
									   .data = s}),
		     0);
	s->saved.head = (struct saved_stack){
		.ip = BIAS + BASE, .sp = sp + 32, .stack_address = SP, .stack_bytes = sizeof s->saved.stack};
	s->saved.head.regs[7] = SP;
	s->saved.head.regs[16] = BIAS + LEAF;
	s->saved.head.regs[12] = sp + 48;
	frame_at = s->frames;
	*frame_at++ = KERNEL;
	*frame_at++ = frame(s, LEAF);
	at = s->saved.stack;
	for (unsigned i = 0; i < n_between; i++) {
		*at++ = BIAS + BETWEEN + 16 * i + 1;
		*frame_at++ = frame(s, BETWEEN + 16 * i);
	}
	*frame_at++ = frame(s, SAVER);
	*frame_at++ = frame(s, BASE);
	at[0] = BIAS + SAVER + 1; /* CFA = sp + 8 */
	at[2] = sp + 64;	  /* base's rbx, at the saver's CFA - 16 */
	at[3] = BIAS + BASE + 1;  /* of the saver, CFA = sp + 32 */
	at[9] = BIAS + START + 1; /* of base, CFA = rbx + 16 = sp + 80 */
	s->view = (struct sample_view){.ending = ENDING_UNSUPPORTED_RULE,
				       .n_kernel = 1,
				       .n_user = (uint16_t)(3 + n_between),
				       .frames = s->frames,
				       .saved = &s->saved.head,
				       .stack = (const uint8_t *)s->saved.stack};
}

static void scene_init(struct scene *s, struct bytes base)
{
	scene_init_deep(s, base, 0);
}

static void scene_fini(struct scene *s)
{
	worker_drain(s->world.worker, WORLD_WAIT_NS);
	finisher_free(s->finisher);
	world_fini(&s->world);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

/* Walks, and once more when the rules have come. */
static bool walk(struct scene *s, struct sample_view *ret)
{
	if (finisher_walk(s->finisher, &s->view, s->list, ret))
		return true;
	worker_drain(s->world.worker, WORLD_WAIT_NS);
	return finisher_walk(s->finisher, &s->view, s->list, ret);
}

static void expect_whole(const struct scene *s, const struct sample_view *v)
{
	const uint64_t want[] = {KERNEL, frame(s, LEAF), frame(s, SAVER), frame(s, BASE), frame(s, START)};

	cr_expect_eq(v->ending, ENDING_ROOT, "%s", unwind_ending_text(v->ending));
	cr_assert_eq(v->n_user, 4, "%u frames", v->n_user);
	cr_expect_arr_eq(v->frames, want, sizeof want);
}

static void expect_as_it_came(const struct scene *s, const struct sample_view *v)
{
	cr_expect_eq(v->ending, ENDING_UNSUPPORTED_RULE, "%s", unwind_ending_text(v->ending));
	cr_assert_eq(v->n_user, 3);
	cr_expect_arr_eq(v->frames, s->frames, 4 * sizeof *s->frames);
}

static struct finisher_stats stats(const struct scene *s)
{
	struct finisher_stats ret;

	finisher_stats(s->finisher, &ret);
	return ret;
}

Test(follow, rules_come_from_a_worker_and_stay)
{
	ONLY_ON_X86_64("the registers");
	static const struct bytes bases[] = {BASE_REGISTER, EXPRESSION};

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		_cleanup_scene_ struct scene s;
		struct sample_view done;

		scene_init(&s, bases[i]);
		cr_expect_not(finisher_walk(s.finisher, &s.view, s.list, &done),
			      "the rules are not here yet");
		expect_as_it_came(&s, &done);
		worker_drain(s.world.worker, WORLD_WAIT_NS);
		cr_expect_eq(s.n_ready, 1, "one job for all three: %u", s.n_ready);
		cr_expect(finisher_walk(s.finisher, &s.view, s.list, &done));
		expect_whole(&s, &done);
		cr_expect(finisher_walk(s.finisher, &s.view, s.list, &done), "known by now");
		expect_whole(&s, &done);
		cr_expect_eq(stats(&s).rules, 3);
		cr_expect_eq(stats(&s).followed, 2);
		cr_expect_eq(stats(&s).not_followed, 0);
	}
}

/* Walked from the first frame on in user space, it meets the same rule there. */
Test(follow, a_process_that_was_unknown)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, EXPRESSION);
	s.view.ending = ENDING_NO_PROCESS;
	s.view.n_user = 0;
	s.saved.head.ip = BIAS + LEAF;
	s.saved.head.sp = SP;
	s.saved.head.innermost = 1;
	cr_expect(walk(&s, &done));
	expect_whole(&s, &done);
}

/* The last frame whose registers are all known is one that a signal interrupted. */
Test(follow, from_an_interrupted_frame)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, BASE_REGISTER);
	memmove(&s.frames[3], &s.frames[1], 3 * sizeof *s.frames);
	s.frames[1] = frame(&s, LEAF); /* the handler, and the trampoline */
	s.frames[2] = frame(&s, TRAMPOLINE);
	s.view.n_user = 5;
	s.saved.head.n_before = 2;
	cr_expect(walk(&s, &done));
	cr_expect_eq(done.ending, ENDING_ROOT, "%s", unwind_ending_text(done.ending));
	cr_assert_eq(done.n_user, 6);
	cr_expect_eq(done.frames[1], frame(&s, LEAF));
	cr_expect_eq(done.frames[2], frame(&s, TRAMPOLINE));
	cr_expect_eq(done.frames[6], frame(&s, START));
}

/* (rsp ^ 1 ^ 1) + 0 */
#define SAME_STACK BYTES("\x0f\x08\x77\x00\x31\x27\x31\x27\x23\x00")

/* Base returns to itself, its stack pointer where it was: such stacks are not walked for long. */
Test(follow, a_circle)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, SAME_STACK);
	cr_expect(walk(&s, &done));
	cr_expect_not(unwind_ending_complete(done.ending), "%s", unwind_ending_text(done.ending));
	cr_expect_geq(stats(&s).followed, 100);
	cr_expect_leq(stats(&s).followed, 2048, "%lu", (unsigned long)stats(&s).followed);
	cr_expect_eq(stats(&s).rules_costly, 1);
}

Test(follow, what_cannot_be_known_stays_unsupported)
{
	static const struct bytes lost[] = {LOST_REGISTER, BYTES("\x0f\x04\x73\x00\x06\x06")};

	for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
		_cleanup_scene_ struct scene s;
		struct sample_view done;

		scene_init(&s, lost[i]);
		cr_expect(walk(&s, &done), "nothing more will come");
		expect_as_it_came(&s, &done);
		cr_expect_eq(stats(&s).not_followed, 1);
	}
}

/* r12 is known, and says what the stack does not bear out: the return address there is 0, as in an outermost
 * frame. */
Test(follow, a_rule_is_taken_at_its_word)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, OTHER_REGISTER);
	s.saved.stack[7] = BIAS + START + 1; /* r12 + 8 */
	cr_expect(walk(&s, &done));
	expect_whole(&s, &done);
}

Test(follow, stack_that_was_not_brought)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, BASE_REGISTER);
	for (uint32_t bytes = 0; bytes < 80; bytes += 8) {
		s.saved.head.stack_bytes = bytes;
		cr_expect(walk(&s, &done), "%u", bytes);
		cr_expect_neq(done.ending, ENDING_ROOT, "%u", bytes);
		cr_expect_geq(done.n_user, 3);
	}
	/* only from base on: its rbx is not known */
	s.saved.head.stack_bytes = sizeof s.saved.stack - 32;
	s.saved.head.stack_address = SP + 32;
	s.view.stack = (const uint8_t *)&s.saved.stack[4];
	cr_expect(walk(&s, &done));
	expect_as_it_came(&s, &done);
}

/* The rules lead from the leaf to another function than the one that the table led to. */
Test(follow, disagreement_changes_nothing)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, BASE_REGISTER);
	s.saved.stack[0] = BIAS + START + 1;
	cr_expect(walk(&s, &done));
	expect_as_it_came(&s, &done);
	cr_expect_eq(stats(&s).disagreed, 1);
}

Test(follow, a_file_that_is_gone)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct binary *f;
	struct sample_view done;

	scene_init(&s, EXPRESSION);
	f = world_binary(&s.world, s.file);
	close(f->fd);
	f->fd = -1;
	cr_expect(walk(&s, &done));
	expect_as_it_came(&s, &done);
	cr_expect_eq(stats(&s).rules_failed, 3);
	cr_expect_eq(stats(&s).not_followed, 1);
	finisher_forget(s.finisher, s.file); /* and its index is another file's */
	cr_expect_not(finisher_walk(s.finisher, &s.view, s.list, &done), "asked anew");
}

/* A file cut short after its table was made. */
Test(follow, a_file_that_was_truncated)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s, EXPRESSION);
	cr_assert_eq(truncate(world_path(&s.world, "program"), 100), 0);
	cr_expect(walk(&s, &done));
	expect_as_it_came(&s, &done);
	cr_expect_eq(stats(&s).rules, 0);
	cr_expect_eq(stats(&s).no_rules + stats(&s).rules_failed, 3);
}

/* Beyond the limit, where the last registers that were all known belong to a frame that is omitted. */
Test(follow, beyond_the_limit)
{
	ONLY_ON_X86_64("the registers");
	enum {
		BETWEEN_N = 390,
		LIMIT = 64,
		FRAMES = BETWEEN_N + 4,
		INNER = LIMIT / 2,
		OUTER = LIMIT - INNER - 1
	};
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	bool final = false;

	scene_init_deep(&s, BASE_REGISTER, BETWEEN_N);
	finisher_free(s.finisher);
	cr_assert_eq(finisher_new(&s.finisher, &(struct finisher_options){.arena = s.world.arena,
									  .binaries = s.world.binaries,
									  .worker = s.world.worker,
									  .user_frames = LIMIT,
									  .ready = on_ready,
									  .data = &s}),
		     0);
	s.view.ending = ENDING_NO_PROCESS;
	s.view.n_user = 0;
	s.saved.head.ip = BIAS + LEAF;
	s.saved.head.sp = SP;
	s.saved.head.innermost = 1;
	for (unsigned rounds = 0; rounds < 100 && !final; rounds++) {
		final = finisher_walk(s.finisher, &s.view, s.list, &done);
		worker_drain(s.world.worker, WORLD_WAIT_NS);
	}
	cr_expect_eq(done.ending, ENDING_ROOT, "%s", unwind_ending_text(done.ending));
	cr_assert_eq(done.n_user, LIMIT);
	cr_expect_eq(done.frames[1], frame(&s, LEAF));
	cr_expect_eq(done.frames[1 + INNER - 1], frame(&s, BETWEEN + 16 * (INNER - 2)));
	cr_expect_eq(done.frames[1 + INNER], frame_omitted(FRAMES - INNER - OUTER));
	cr_expect_eq(done.omitted, 1 + INNER);
	cr_expect_eq(done.frames[LIMIT - 3], frame(&s, BETWEEN + 16 * (BETWEEN_N - 1)));
	cr_expect_eq(done.frames[LIMIT - 2], frame(&s, SAVER));
	cr_expect_eq(done.frames[LIMIT - 1], frame(&s, BASE));
	cr_expect_eq(done.frames[LIMIT], frame(&s, START));
}

/* Each frame of the stack needs a rule of its own. */
Test(follow, a_stack_of_more_functions_than_a_small_cache_holds)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	bool final = false;

	scene_init_deep(&s, BASE_REGISTER, 300);
	for (unsigned rounds = 0; rounds < 100 && !final; rounds++) {
		final = finisher_walk(s.finisher, &s.view, s.list, &done);
		worker_drain(s.world.worker, WORLD_WAIT_NS);
	}
	cr_assert(final, "waits for rules after 100 rounds: %lu were looked up",
		  (unsigned long)stats(&s).rules);
	cr_expect_eq(stats(&s).rules, 303, "%lu", (unsigned long)stats(&s).rules);
	cr_expect_eq(done.ending, ENDING_ROOT, "%s", unwind_ending_text(done.ending));
	cr_assert_eq(done.n_user, 304, "%u frames", done.n_user);
	cr_expect_arr_eq(done.frames, s.frames, 304 * sizeof *s.frames);
	cr_expect_eq(done.frames[304], frame(&s, START));
}
