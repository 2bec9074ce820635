// SPDX-License-Identifier: Apache-2.0
/* The cache of complete rules: what one walk needs is never evicted while the walk needs it. */
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"
#include "tests/unit/agent/unwind/world.h"

#include "agent/base/fs.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/unwind/rules.h"

#define FUNCTIONS 600u	 /* of the file, 16 bytes each, with an FDE of its own */
#define RULE_BYTES 1300u /* more than an entry of the cache takes */

struct scene {
	struct world world;
	struct rules *rules;
	uint32_t file;
	unsigned n_ready;
	uint64_t now_ns;
};

static void on_ready(void *data)
{
	((struct scene *)data)->n_ready++;
}

static uint64_t function(unsigned i)
{
	return TEXT_VA + 16 * i;
}

static void scene_init(struct scene *s, size_t max_bytes)
{
	static const uint8_t code[16 * FUNCTIONS];
	_cleanup_buf_ struct buf eh = {0}, file = {0};
	size_t cie = put_cie(&eh, EM_X86_64, "", X86_START);

	*s = (struct scene){.now_ns = NS_PER_SEC};
	for (unsigned i = 0; i < FUNCTIONS; i++)
		put_fde(&eh, cie, false, function(i), 16, BYTES(""));
	put_u32(&eh, 0);
	const struct file_section sections[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof code, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, SECTION_VA, eh.data, eh.len, 0, 0},
	};
	world_init(&s->world, 1, 16);
	file_write(&file, EM_X86_64, sections, 2, 0);
	world_write(&s->world, "program", file.data, file.len);
	cr_assert_eq(world_add(&s->world, "program", &s->file), 0);
	world_settle(&s->world);
	cr_assert_eq(rules_new(&s->rules, &(struct rules_options){.binaries = s->world.binaries,
								  .worker = s->world.worker,
								  .max_bytes = max_bytes,
								  .ready = on_ready,
								  .data = s}),
		     0);
}

static void scene_fini(struct scene *s)
{
	worker_drain(s->world.worker, WORLD_WAIT_NS);
	rules_free(s->rules);
	world_fini(&s->world);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static struct rules_stats stats(const struct scene *s)
{
	struct rules_stats ret;

	rules_stats(s->rules, &ret);
	return ret;
}

/* One walk over the functions [from, to): returns the worst of their answers. */
static enum rules_answer walk(struct scene *s, unsigned from, unsigned to)
{
	enum rules_answer worst = RULES_FOUND;

	rules_walk_begin(s->rules, s->now_ns);
	for (unsigned i = from; i < to; i++) {
		const struct frame_rule *rule = NULL;
		enum rules_answer answer = rules_get(s->rules, s->file, function(i), &rule);

		if (answer == RULES_FOUND) {
			cr_assert_not_null(rule);
			cr_expect(rule->start <= function(i) && function(i) < rule->end);
		}
		worst = answer > worst ? answer : worst;
	}
	rules_walk_end(s->rules, worst == RULES_PENDING);
	return worst;
}

/* Repeats the walk until it is not pending any more. */
static enum rules_answer walk_finally(struct scene *s, unsigned from, unsigned to)
{
	enum rules_answer answer = walk(s, from, to);

	for (unsigned i = 0; i < 100 && answer == RULES_PENDING; i++) {
		worker_drain(s->world.worker, WORLD_WAIT_NS);
		answer = walk(s, from, to);
	}
	return answer;
}

Test(rules, one_walk_gets_all_that_it_needs)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 0);
	cr_expect_eq(walk_finally(&s, 0, FUNCTIONS), RULES_FOUND);
	cr_expect_eq(stats(&s).found, FUNCTIONS, "each was looked up once: %lu",
		     (unsigned long)stats(&s).found);
	cr_expect_eq(stats(&s).refused, 0);
	cr_expect_geq(s.n_ready, FUNCTIONS / 32);
}

Test(rules, one_walk_that_is_larger_than_the_cache_is_refused_at_once)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 100 * RULE_BYTES);
	cr_expect_eq(walk(&s, 0, FUNCTIONS), RULES_FULL);
	cr_expect_eq(stats(&s).refused, 1);
	cr_expect_eq(stats(&s).bytes, 0, "nothing is looked up for it");
	cr_expect_eq(walk_finally(&s, 0, 50), RULES_FOUND);
	cr_expect_eq(walk(&s, 0, FUNCTIONS), RULES_FULL, "nor is it with a part that is known");
	cr_expect_eq(stats(&s).refused, 2);
}

Test(rules, two_walks_do_not_evict_each_other)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 100 * RULE_BYTES);
	cr_expect_eq(walk(&s, 0, 70), RULES_PENDING);
	cr_expect_eq(walk(&s, 100, 170), RULES_FULL, "the first one will be repeated");
	worker_drain(s.world.worker, WORLD_WAIT_NS);
	cr_expect_eq(walk(&s, 100, 170), RULES_FULL, "it has not been yet");
	cr_expect_eq(walk(&s, 0, 70), RULES_FOUND);
	cr_expect_eq(stats(&s).refused, 2);
	s.now_ns += RULES_HOLD_NS;
	cr_expect_eq(walk_finally(&s, 100, 170), RULES_FOUND, "the hold is over");
	cr_expect_eq(stats(&s).found, 140);
	cr_expect_leq(stats(&s).bytes, 100 * RULE_BYTES);
}

Test(rules, unused_for_longest_goes_first)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 100 * RULE_BYTES);
	for (unsigned i = 0; i < 100; i += 10)
		cr_expect_eq(walk_finally(&s, i, i + 10), RULES_FOUND);
	s.now_ns += RULES_HOLD_NS;
	cr_expect_eq(walk(&s, 0, 10), RULES_FOUND, "used again");
	cr_expect_eq(stats(&s).found, 100);
	cr_expect_eq(walk_finally(&s, 200, 230), RULES_FOUND);
	cr_expect_eq(walk(&s, 0, 10), RULES_FOUND, "still there");
	cr_expect_eq(walk(&s, 10, 20), RULES_PENDING, "gone");
}

Test(rules, a_rule_serves_its_range)
{
	_cleanup_scene_ struct scene s;
	const struct frame_rule *rule;

	scene_init(&s, 0);
	cr_expect_eq(walk_finally(&s, 3, 4), RULES_FOUND);
	rules_walk_begin(s.rules, s.now_ns);
	for (uint64_t va = function(3); va < function(4); va++)
		cr_expect_eq(rules_get(s.rules, s.file, va, &rule), RULES_FOUND, "%lx", (unsigned long)va);
	cr_expect_eq(rules_get(s.rules, s.file, function(4), &rule), RULES_PENDING);
	cr_expect_eq(rules_get(s.rules, s.file, function(3) - 1, &rule), RULES_PENDING);
	cr_expect_eq(rules_get(s.rules, s.file + 1, function(3), &rule), RULES_PENDING);
	rules_walk_end(s.rules, false);
	cr_expect_eq(stats(&s).found, 1);
}

Test(rules, no_rule_and_no_file)
{
	_cleanup_scene_ struct scene s;
	const struct frame_rule *rule;

	scene_init(&s, 0);
	for (int i = 0; i < 2; i++) {
		rules_walk_begin(s.rules, s.now_ns);
		cr_expect_eq(rules_get(s.rules, s.file, function(FUNCTIONS + 100), &rule),
			     i ? RULES_NONE : RULES_PENDING);
		cr_expect_eq(rules_get(s.rules, s.file + 1, function(0), &rule),
			     i ? RULES_NONE : RULES_PENDING);
		rules_walk_end(s.rules, !i);
		worker_drain(s.world.worker, WORLD_WAIT_NS);
	}
	cr_expect_eq(stats(&s).none, 2);
	cr_expect_eq(stats(&s).failed, 1, "the file that is not known");
}

/* Other jobs of a tenant wait while two are with the workers, so that a neighbour's goes at once. */
Test(rules, a_tenant_does_not_wait_for_all_files_of_another)
{
	enum { THEIRS = 8, AT_ONCE = 2 };
	_cleanup_scene_ struct scene s;
	_cleanup_buf_ struct buf program = {0};
	const struct frame_rule *rule;
	uint32_t files[THEIRS + 1];
	char name[16];

	scene_init(&s, 0);
	cr_assert_eq(fs_read_file(world_path(&s.world, "program"), 1u << 20, &program), 0);
	for (unsigned i = 0; i <= THEIRS; i++) {
		snprintf(name, sizeof name, "program-%u", i);
		world_write(&s.world, name, program.data, program.len);
		cr_assert_eq(world_add(&s.world, name, &files[i]), 0);
		binary_registry_get(s.world.binaries, files[i])->tenant = i < THEIRS ? 1 : 2;
	}
	world_settle(&s.world);
	rules_walk_begin(s.rules, s.now_ns);
	for (unsigned i = 0; i <= THEIRS; i++)
		cr_expect_eq(rules_get(s.rules, files[i], function(0), &rule), RULES_PENDING);
	rules_walk_end(s.rules, true);
	cr_expect_eq(worker_pending(s.world.worker), AT_ONCE + 1, "%zu", worker_pending(s.world.worker));
	worker_drain(s.world.worker, WORLD_WAIT_NS);
	cr_expect_eq(stats(&s).found, THEIRS + 1, "all have their turn: %lu", (unsigned long)stats(&s).found);
}

/* The answer to a request for a file whose index stands for another by then. */
Test(rules, forgotten_while_a_worker_looks)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 0);
	cr_expect_eq(walk(&s, 0, 40), RULES_PENDING, "32 of them are with a worker");
	rules_forget(s.rules, s.file);
	cr_expect_eq(stats(&s).bytes, 0);
	cr_expect_eq(walk(&s, 0, 1), RULES_PENDING, "asked anew");
	worker_drain(s.world.worker, WORLD_WAIT_NS);
	cr_expect_eq(stats(&s).found, 1, "the earlier answers are ignored: %lu",
		     (unsigned long)stats(&s).found);
	cr_expect_eq(walk(&s, 0, 1), RULES_FOUND);
	rules_forget(s.rules, s.file);
	cr_expect_eq(stats(&s).bytes, 0);
}

/* Its last reader crashed: no walk that comes to another address of it has it read again. */
Test(rules, a_file_in_quarantine_is_not_read)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 0);
	cr_expect_eq(walk_finally(&s, 0, 1), RULES_FOUND);
	cr_assert(binary_registry_quarantine(s.world.binaries, s.file, BINARY_FOR_RULES, -ENOTRECOVERABLE));
	cr_expect_eq(walk_finally(&s, FUNCTIONS - 1, FUNCTIONS), RULES_NONE);
	cr_expect_eq(stats(&s).failed, 1);
	cr_expect_eq(worker_pending(s.world.worker), 0);
	cr_expect_eq(walk_finally(&s, 0, 1), RULES_FOUND, "what is known of it stays");
}
