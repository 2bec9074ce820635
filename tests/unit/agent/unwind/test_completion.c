// SPDX-License-Identifier: Apache-2.0
/* Samples that lack a process, a mapping or a table, and what becomes of them. */
#include "world.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/proc/history.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/unwind/code_times.h"
#include "agent/unwind/completion.h"
#include "agent/unwind/generated.h"

#include "tests/unit/agent/elf/elf_file.h"
#include "tests/unit/machine.h"

#define CODE 0x10000ull /* anonymous memory: walked by frame pointers, needs no table */
#define STACK 0x7ffe0000ull
#define PROGRAM 0x8000ull  /* where a program is mapped whose entry point all stacks begin in */
#define ENTRY 0x80	   /* offset of its code in the file */
#define BASE 0x20000000ull /* where the C library is mapped */
#define START_NS (1000 * NS_PER_SEC)
#define OUTCOMES_MAX 1024

static uint64_t now_ns;

static uint64_t fake_now(void)
{
	return now_ns;
}

struct outcome {
	uint32_t tid;
	enum unwind_ending ending;
	uint16_t n_user;
	uint64_t frames[8];
	char thread[PROC_TASK_COMM_LEN];
	bool saved;
};

struct scene {
	struct world w;
	struct completion *completion;
	struct proc_table *processes;
	struct process *process;
	struct outcome outcomes[OUTCOMES_MAX];
	size_t n;
	uint64_t epoch;
	uint32_t program, next_tid;
	bool reading; /* the mappings of every process are being read */
};

static void on_final(const struct sampled_task *task, const struct sample_view *v, void *data)
{
	struct scene *s = data;
	struct outcome *o = &s->outcomes[s->n++];

	cr_assert_leq(s->n, OUTCOMES_MAX);
	o->tid = v->tid;
	o->ending = v->ending;
	o->n_user = v->n_user;
	o->saved = v->saved || v->stack;
	memcpy(o->frames, v->frames + v->n_kernel, (v->n_user < 8 ? v->n_user : 8) * sizeof *v->frames);
	memcpy(o->thread, task->thread, sizeof o->thread);
}

static bool is_reading(const struct process *p, void *data)
{
	const struct scene *s = data;

	return p == s->process && s->reading;
}

static void insert(struct proc_maps *maps, uint64_t start, uint64_t end, uint64_t offset, uint32_t file)
{
	cr_assert_eq(proc_maps_insert(maps, (struct proc_mapping){start, end, offset, file}), 0);
}

/* Every process with mappings has the program. */
static void map(struct scene *s, uint64_t start, uint64_t end, uint64_t offset, uint32_t file)
{
	cr_assert_eq(proc_maps_own(s->process), 0);
	insert(s->process->maps, PROGRAM, PROGRAM + 0x1000, 0, s->program);
	insert(s->process->maps, start, end, offset, file);
	s->epoch++;
}

static uint32_t add_program(struct world *w)
{
	static const char code[] =
		"\x48\x31\xed\x48\x89\xe7\xe8\x00\x10\x00\x00\xf4"; /* xor rbp; mov; call; hlt */
	const struct file_section text = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000 + ENTRY, code, sizeof code - 1, 0,
		0};
	_cleanup_buf_ struct buf b = {0};
	uint32_t index;

	file_write(&b, EM_X86_64, &text, 1, 0);
	file_set_entry(&b, ET_EXEC, text.va);
	world_write(w, "program", b.data, b.len);
	cr_assert_eq(world_add(w, "program", &index), 0);
	world_settle(w);
	return index;
}

static void scene_init(struct scene *s, size_t max_bytes)
{
	struct completion_options o = {.user_frames = 512,
				       .max_bytes = max_bytes,
				       .now = fake_now,
				       .reading = is_reading,
				       .final = on_final,
				       .data = s};

	memset(s, 0, sizeof *s);
	now_ns = START_NS;
	world_init(&s->w, 2, 8);
	o.arena = s->w.arena;
	o.tables = s->w.tables;
	o.worker = s->w.worker;
	cr_assert_eq(completion_new(&s->completion, &o), 0);
	cr_assert_eq(proc_table_new(&s->processes, 64, NULL), 0);
	cr_assert_eq(proc_table_add(s->processes, 42, 0, &s->process), 0);
	s->program = add_program(&s->w);
	s->next_tid = 1;
}

static void scene_fini(struct scene *s)
{
	completion_free(s->completion);
	proc_table_free(s->processes);
	world_fini(&s->w);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static struct completion_stats stats(const struct scene *s)
{
	struct completion_stats c;

	completion_stats(s->completion, &c);
	return c;
}

/* A record of one frame pointer chain: `ip`, called from CODE + 0x200, called from the entry point. */
struct record {
	struct sample_record head;
	uint64_t frames[3];
	struct saved_stack saved;
	uint64_t stack[6];
};

static size_t record_of(struct scene *s, struct record *r, uint64_t ip, enum unwind_ending ending)
{
	*r = (struct record){
		.head = {.time_ns = now_ns,
			 .value = 1,
			 .pid = s->process->pid,
			 .tid = s->next_tid++,
			 .ending = (uint8_t)ending,
			 .flags = SAMPLE_SAVED_STACK},
		.saved = {.ip = ip,
			  .sp = STACK,
			  .fp = STACK + 16,
			  .stack_address = STACK,
			  .innermost = 1,
			  .stack_bytes = sizeof r->stack},
	};
	/* frame pointer → the caller's frame pointer, return address */
	r->stack[2] = STACK + 32;
	r->stack[3] = CODE + 0x201;
	r->stack[4] = 0;
	r->stack[5] = PROGRAM + ENTRY + 11;
	return sizeof *r;
}

static void take_bytes(struct scene *s, const void *bytes, size_t len)
{
	struct sampled_task task = {.process = s->process, .image = s->process->image, .thread = "worker"};
	struct sample_view v;

	cr_assert_eq(sample_decode(bytes, len, &v), 0);
	completion_take(s->completion, &task, &v, bytes, len);
}

static void take_record(struct scene *s, struct record *r)
{
	/* without frames the saved stack follows the head at once */
	uint8_t bytes[sizeof *r] __attribute__((aligned(8)));
	size_t frames = (r->head.n_kernel + r->head.n_user) * 8u, len = sizeof r->head;

	memcpy(bytes, &r->head, sizeof r->head);
	memcpy(bytes + len, r->frames, frames);
	len += frames;
	if (r->head.flags & SAMPLE_SAVED_STACK) {
		memcpy(bytes + len, &r->saved, sizeof r->saved + sizeof r->stack);
		len += sizeof r->saved + sizeof r->stack;
	}
	take_bytes(s, bytes, len);
}

/* A sample of anonymous code without a process in the program's table. */
static void take(struct scene *s)
{
	struct record r;

	record_of(s, &r, CODE + 0x100, ENDING_NO_PROCESS);
	take_record(s, &r);
}

static void retry(struct scene *s)
{
	completion_retry(s->completion, s->epoch);
}

static void expect_whole(const struct outcome *o)
{
	cr_expect_eq(o->ending, ENDING_ROOT, "%s", unwind_ending_text(o->ending));
	cr_assert_eq(o->n_user, 3);
	cr_expect_eq(o->frames[0], frame_anonymous(CODE + 0x100));
	cr_expect_eq(o->frames[1], frame_anonymous(CODE + 0x200));
	cr_expect_not(o->saved);
	cr_expect_str_eq(o->thread, "worker");
}

Test(completion, a_final_stack_goes_through)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	record_of(&s, &r, 0, ENDING_ROOT);
	r.head.flags = 0;
	r.head.n_user = 1;
	r.frames[0] = frame_anonymous(CODE);
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(stats(&s).completed, 0, "nothing was to be done");
}

Test(completion, completed_at_once)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	take(&s);
	cr_assert_eq(s.n, 1);
	expect_whole(&s.outcomes[0]);
	cr_expect_eq(stats(&s).completed, 1);
	cr_expect_eq(stats(&s).waiting, 0);
}

Test(completion, completed_when_the_mapping_is_known)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	take(&s);
	cr_expect_eq(s.n, 0);
	cr_expect_eq(stats(&s).waiting, 2);
	cr_expect_gt(stats(&s).waiting_bytes, 2 * sizeof(struct record));
	retry(&s);
	cr_expect_eq(s.n, 0, "nothing has come");
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	cr_assert_eq(s.n, 2);
	expect_whole(&s.outcomes[0]);
	cr_expect(s.outcomes[0].tid == 1 && s.outcomes[1].tid == 2, "in the order of arrival");
	cr_expect_eq(stats(&s).waiting, 0);
	cr_expect_eq(stats(&s).waiting_bytes, 0);
	cr_expect_eq(stats(&s).completed, 2);
	cr_expect_eq(stats(&s).late, 0);
}

Test(completion, nothing_is_tried_while_nothing_is_published)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	completion_retry(s.completion, 0);
	cr_expect_eq(s.n, 0, "the epoch is the one of the last try");
	completion_retry(s.completion, s.epoch);
	cr_expect_eq(s.n, 1);
}

Test(completion, out_of_time_it_goes_as_it_is)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	now_ns += COMPLETION_PROCESS_NS - 1;
	s.epoch++;
	retry(&s);
	cr_expect_eq(s.n, 0);
	now_ns += 1;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_PROCESS);
	cr_expect_eq(s.outcomes[0].n_user, 0);
	cr_expect_not(s.outcomes[0].saved);
	cr_expect_eq(stats(&s).late, 1);
	cr_expect_eq(stats(&s).completed, 0);
}

Test(completion, the_end_takes_all_that_wait)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	take(&s);
	completion_finish(s.completion);
	cr_expect_eq(s.n, 2);
	cr_expect_eq(stats(&s).waiting, 0);
	cr_expect_eq(stats(&s).late, 2);
	completion_finish(s.completion);
	cr_expect_eq(s.n, 2);
}

Test(completion, at_the_maximum_it_goes_as_it_is)
{
	_cleanup_scene_ struct scene s;
	struct completion_stats c;

	scene_init(&s, 4096);
	for (int i = 0; i < 40; i++)
		take(&s);
	c = stats(&s);
	cr_expect_gt(c.waiting, 0);
	cr_expect_leq(c.waiting_bytes, 4096u);
	cr_expect_eq(c.no_room, 40 - c.waiting);
	cr_expect_eq(s.n, c.no_room);
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_PROCESS);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	cr_expect_eq(s.n, 40);
	expect_whole(&s.outcomes[39]);
	take(&s);
	cr_expect_eq(s.n, 41);
}

static void nothing(void *data)
{
	(void)data;
}

static void set_workload(struct process *p, int *workload)
{
	proc_image_set_context(p->image,
			       (struct proc_context){workload, nothing, nothing, (uintptr_t)workload}, 1);
}

Test(completion, the_largest_workload_gives_way_with_its_oldest_sample)
{
	static int workloads[2];
	_cleanup_scene_ struct scene s;
	struct process *other, *greedy;
	uint64_t kept;

	scene_init(&s, 16384);
	greedy = s.process;
	cr_assert_eq(proc_table_add(s.processes, 43, 0, &other), 0);
	set_workload(greedy, &workloads[0]);
	set_workload(other, &workloads[1]);
	for (int i = 0; i < 60; i++)
		take(&s);
	kept = stats(&s).waiting;
	cr_expect_gt(stats(&s).waiting_bytes, 16384u * 3 / 4, "alone, it may take all of the room");
	cr_expect_leq(stats(&s).waiting_bytes, 16384u);
	cr_assert_eq(s.n, 60 - kept);
	cr_expect_eq(s.outcomes[0].tid, 1, "the first");
	cr_expect_eq(s.outcomes[s.n - 1].tid, s.n, "in the order of arrival");
	s.process = other;
	s.n = 0;
	for (uint64_t i = 0; i < kept / 2 - 1; i++)
		take(&s);
	for (size_t i = 0; i < s.n; i++)
		cr_expect_leq(s.outcomes[i].tid, 60u, "%u is of the smaller workload", s.outcomes[i].tid);
	cr_expect_geq(s.n, kept / 2 - 2);
	cr_expect_leq(stats(&s).waiting_bytes, 16384u);
	cr_expect_eq(stats(&s).no_room, 60 - kept + s.n);
	cr_expect_eq(stats(&s).late, 0);
	completion_finish(s.completion);
	cr_expect_eq(stats(&s).waiting_bytes, 0);
}

Test(completion, a_record_larger_than_the_room_goes_as_it_is)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, sizeof(struct record));
	take(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_PROCESS);
	cr_expect_eq(stats(&s).no_room, 1);
	cr_expect_eq(stats(&s).waiting_bytes, 0);
}

/* --- many that wait */

#define DEEP_STACK 16384u

/* A sample like that of take(), with a stack of the usual size: frames first, then locals. */
static void take_deep(struct scene *s)
{
	struct {
		struct sample_record head;
		struct saved_stack saved;
		uint64_t stack[DEEP_STACK / 8];
	} deep;
	struct record r;

	record_of(s, &r, CODE + 0x100, ENDING_NO_PROCESS);
	deep.head = r.head;
	deep.saved = r.saved;
	deep.saved.stack_bytes = DEEP_STACK;
	for (size_t i = 0; i < ARRAY_SIZE(deep.stack); i++)
		deep.stack[i] = i % 4 ? 0 : STACK + i * 8 + r.head.tid;
	memcpy(deep.stack, r.stack, sizeof r.stack);
	take_bytes(s, &deep, sizeof deep);
}

Test(completion, stacks_are_compressed_when_much_of_the_room_is_taken)
{
	_cleanup_scene_ struct scene s;
	const uint32_t n = 40;

	scene_init(&s, n / 2 * DEEP_STACK);
	take_deep(&s);
	cr_expect_eq(stats(&s).packed, 0, "there is room");
	cr_expect_gt(stats(&s).waiting_bytes, DEEP_STACK);
	for (uint32_t i = 1; i < n; i++)
		take_deep(&s);
	cr_expect_gt(stats(&s).packed, n / 2);
	cr_assert_eq(stats(&s).waiting, n, "twice as many as there is room for");
	cr_expect_lt(stats(&s).waiting_bytes, n / 2 * DEEP_STACK);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	cr_assert_eq(s.n, n);
	for (uint32_t i = 0; i < n; i++) {
		expect_whole(&s.outcomes[i]);
		cr_expect_eq(s.outcomes[i].tid, i + 1);
	}
	cr_expect_eq(stats(&s).no_room, 0);
	cr_expect_eq(stats(&s).waiting_bytes, 0);
}

Test(completion, only_those_are_tried_for_which_something_has_changed)
{
	_cleanup_scene_ struct scene s;
	struct process *first, *second;

	scene_init(&s, 1u << 20);
	first = s.process;
	cr_assert_eq(proc_table_add(s.processes, 43, 0, &second), 0);
	take(&s);
	s.process = second;
	take(&s);
	s.epoch++; /* something of another process was published */
	retry(&s);
	cr_expect_eq(stats(&s).tried, 0);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	cr_expect_eq(stats(&s).tried, 1);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].tid, 2);
	s.process = first;
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	cr_expect_eq(s.n, 2);
	cr_expect_eq(stats(&s).tried, 2);
}

Test(completion, a_retry_is_bounded_and_goes_on_where_it_ended)
{
	_cleanup_scene_ struct scene s;
	const size_t n = 600;
	size_t most;

	scene_init(&s, 1u << 22);
	for (size_t i = 0; i < n; i++)
		take(&s);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	retry(&s);
	most = s.n;
	cr_expect_gt(most, 0);
	cr_expect_lt(most, n / 2);
	retry(&s);
	cr_expect_eq(s.n, 2 * most, "although nothing more was published");
	completion_finish(s.completion);
	cr_assert_eq(s.n, n);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(s.outcomes[i].tid, i + 1);
	cr_expect_eq(stats(&s).late, 0);
}

/* --- what is on its way */

Test(completion, the_deadline_is_put_off_while_the_process_is_read)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	s.reading = true;
	take(&s);
	for (uint64_t waited = 0; waited < 10 * COMPLETION_PROCESS_NS; waited += COMPLETION_PROCESS_NS) {
		now_ns += COMPLETION_PROCESS_NS;
		retry(&s);
	}
	cr_expect_eq(s.n, 0);
	s.reading = false; /* without a result */
	retry(&s);
	cr_expect_eq(s.n, 0, "the time begins again");
	now_ns += COMPLETION_PROCESS_NS;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_PROCESS);
	cr_expect_eq(stats(&s).late, 1);
}

Test(completion, nothing_is_waited_for_without_end)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	s.reading = true;
	take(&s);
	now_ns = START_NS + COMPLETION_PENDING_NS - 1;
	retry(&s);
	cr_expect_eq(s.n, 0);
	now_ns += COMPLETION_PROCESS_NS;
	retry(&s);
	cr_expect_eq(s.n, 1);
	cr_expect_eq(stats(&s).late, 1);
}

Test(completion, the_deadline_is_put_off_while_the_file_is_opened)
{
	const uint32_t ticket = PROC_FILE_OPENING | 7;
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	map(&s, CODE, CODE + 0x1000, 0, ticket);
	take(&s);
	now_ns += 4 * COMPLETION_PROCESS_NS;
	s.epoch++;
	retry(&s);
	cr_expect_eq(s.n, 0);
	cr_assert(proc_maps_opened(s.process->maps, ticket, PROC_FILE_NONE));
	s.epoch++;
	retry(&s);
	cr_assert_eq(s.n, 1);
	expect_whole(&s.outcomes[0]);
	cr_expect_eq(stats(&s).late, 0);
}

Test(completion, a_file_that_is_opened_elsewhere_is_not_waited_for)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	map(&s, CODE + 0x100000, CODE + 0x101000, 0, PROC_FILE_OPENING | 7);
	take(&s);
	now_ns += COMPLETION_PROCESS_NS;
	retry(&s);
	cr_expect_eq(s.n, 1);
}

Test(completion, a_process_that_has_ended_is_held)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	proc_table_end(s.processes, s.process, now_ns + 1);
	proc_table_reap(s.processes, now_ns + 2);
	cr_expect_null(proc_table_at(s.processes, 42, now_ns), "nobody else knows it");
	retry(&s);
	cr_assert_eq(s.n, 1);
	expect_whole(&s.outcomes[0]);
}

Test(completion, samples_that_wait_are_released_at_the_end)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	take(&s);
	take(&s);
	completion_free(s.completion); /* the sanitizer counts */
	s.completion = NULL;
	cr_expect_eq(s.n, 0);
}

/* --- tables */

static uint64_t libc_offset(const struct world *w, uint32_t index, const char *name)
{
	Dl_info info;
	void *at = dlsym(RTLD_DEFAULT, name);

	(void)w;
	(void)index;
	cr_assert(at && dladdr(at, &info));
	return (uint64_t)((uintptr_t)at - (uintptr_t)info.dli_fbase);
}

/* A sample at the first instruction of a function of the C library; it returns to nothing. */
static void take_in_libc(struct scene *s, uint64_t offset)
{
	struct record r;

	record_of(s, &r, BASE + offset, ENDING_NO_PROCESS);
	r.stack[0] = PROGRAM + ENTRY + 11;
	take_record(s, &r);
}

Test(completion, a_table_is_waited_for_longer_than_a_mapping)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	uint32_t libc;
	uint64_t offset;

	scene_init(&s, 1u << 20);
	libc = world_add_libc(&s.w, "libc", 0);
	offset = libc_offset(&s.w, libc, "getpid");
	map(&s, BASE, BASE + (8u << 20), 0, libc);
	take_in_libc(&s, offset);
	cr_expect_eq(s.n, 0, "the table is not there");
	now_ns += COMPLETION_PROCESS_NS + 1;
	s.epoch++;
	retry(&s);
	cr_expect_eq(s.n, 0);
	world_settle(&s.w);
	s.epoch++;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT, "%s", unwind_ending_text(s.outcomes[0].ending));
	cr_assert_eq(s.outcomes[0].n_user, 2);
	cr_expect_eq(frame_file(s.outcomes[0].frames[0]), libc);
	cr_expect_gt(world_table(&s.w, libc)->last_used_ns, 0, "it is in use");
	cr_expect_eq(stats(&s).completed, 1);
}

Test(completion, a_table_that_is_queued_is_waited_for)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_scene_ struct scene s;
	uint32_t libc;

	scene_init(&s, 1u << 20);
	libc = world_add_libc(&s.w, "libc", 0);
	map(&s, BASE, BASE + (8u << 20), 0, libc);
	take_in_libc(&s, libc_offset(&s.w, libc, "getpid"));
	for (int i = 0; i < 20; i++) {
		now_ns += COMPLETION_TABLE_NS;
		s.epoch++;
		retry(&s);
	}
	cr_expect_eq(s.n, 0, "the workers had no CPU");
	world_settle(&s.w);
	s.epoch++;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT, "%s", unwind_ending_text(s.outcomes[0].ending));
	cr_expect_eq(stats(&s).late, 0);
}

/* Without room for it, the table is not built, but may be later. */
static void evict(struct scene *s, uint32_t index)
{
	struct binary_table *table = world_table(&s->w, index);

	table->state = TABLE_EVICTED;
	table->evicted_ns = now_ns;
	table->wait_ns = COMPLETION_PENDING_NS;
}

Test(completion, the_time_for_a_table_begins_with_the_sample)
{
	_cleanup_scene_ struct scene s;
	uint32_t libc;

	scene_init(&s, 1u << 20);
	libc = world_add_libc(&s.w, "libc", 0);
	evict(&s, libc);
	take_in_libc(&s, 0x30000);
	now_ns += COMPLETION_PROCESS_NS / 2;
	map(&s, BASE, BASE + (8u << 20), 0, libc); /* from now on it waits for the table */
	retry(&s);
	now_ns = START_NS + COMPLETION_TABLE_NS - 1;
	retry(&s);
	cr_expect_eq(s.n, 0);
	now_ns = START_NS + COMPLETION_TABLE_NS;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_TABLE);
	cr_expect_eq(s.outcomes[0].n_user, 1, "as far as it was walked");
	cr_expect_eq(stats(&s).late, 1);
}

Test(completion, an_old_sample_does_not_bring_an_evicted_table_back)
{
	_cleanup_scene_ struct scene s;
	uint32_t libc;

	scene_init(&s, 1u << 20);
	libc = world_add_libc(&s.w, "libc", 0);
	map(&s, BASE, BASE + (8u << 20), 0, libc);
	take_in_libc(&s, 0x30000);
	now_ns += COMPLETION_TABLE_NS;
	evict(&s, libc); /* after the sample was taken */
	completion_finish(s.completion);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(world_table(&s.w, libc)->state, TABLE_EVICTED, "it is not built before its time");
}

Test(completion, binaries_of_the_frames_are_held_while_it_waits)
{
	_cleanup_scene_ struct scene s;
	struct record r;
	uint32_t libc;

	scene_init(&s, 1u << 20);
	libc = world_add_libc(&s.w, "libc", 0);
	world_settle(&s.w);
	binary_registry_release(s.w.binaries, libc); /* the world's own */
	cr_assert_eq(world_binaries(&s.w).unused, 1);
	for (int i = 0; i < 2; i++) {
		record_of(&s, &r, CODE + 0x100, ENDING_NO_MAPPING);
		r.head.n_user = 2;
		r.frames[0] = frame_native(libc, 0x1000);
		r.frames[1] = frame_native(libc, 0x2000);
		take_record(&s, &r);
	}
	cr_expect_eq(stats(&s).waiting, 2);
	cr_expect_eq(world_binaries(&s.w).unused, 0);
	completion_finish(s.completion);
	cr_expect_eq(world_binaries(&s.w).unused, 1);
}

/* --- outdated mappings */

/* The program walked two frames with the list of generation 5; then the memory at `unmapped` went. */
static void outdate(struct scene *s, struct record *r, uint64_t unmapped)
{
	static const uint64_t starts[] = {CODE, CODE + 0x8000, CODE + 0x10000};
	struct proc_maps *right;

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		map(s, starts[i], starts[i] + 0x1000, 0, PROC_FILE_NONE);
	cr_assert_eq(proc_history_add(s->process, now_ns, 5), 0);
	cr_assert_eq(proc_maps_new(&right, NULL), 0);
	insert(right, PROGRAM, PROGRAM + 0x1000, 0, s->program);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (starts[i] != unmapped)
			insert(right, starts[i], starts[i] + 0x1000, 0, PROC_FILE_NONE);
	proc_maps_unref(s->process->maps);
	s->process->maps = right;
	now_ns += NS_PER_SEC;
	record_of(s, r, CODE + 0x100, ENDING_ROOT);
	r->head.generation = 5;
	r->head.n_user = 2;
	r->frames[0] = frame_anonymous(CODE + 0x100);
	r->frames[1] = frame_anonymous(CODE + 0x8200);
}

Test(completion, outdated_frames_are_cut)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x8000);
	r.head.flags = 0; /* no stack came along */
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_assert_eq(s.outcomes[0].n_user, 1, "up to what went");
	cr_expect_eq(s.outcomes[0].frames[0], frame_anonymous(CODE + 0x100));
	cr_expect_eq(stats(&s).cut, 1);
}

Test(completion, frames_beside_the_change_are_right)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x10000);
	r.head.flags = 0;
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(s.outcomes[0].n_user, 2);
	cr_expect_eq(stats(&s).cut, 0);
}

Test(completion, with_its_stack_an_outdated_one_is_walked_again)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x8000);
	r.head.flags |= SAMPLE_FROM_START;
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	expect_whole(&s.outcomes[0]);
	cr_expect_eq(stats(&s).walked_again, 1);
	cr_expect_eq(stats(&s).cut, 0);
}

Test(completion, the_frame_that_an_outdated_list_ended_at_is_walked_again)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x8000);
	r.head.ending =
		ENDING_NO_TABLE; /* of a file that the memory is not of any more; the stack is from there */
	r.head.n_user = 1;
	r.frames[0] = frame_native(s.program, 0x100);
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	expect_whole(&s.outcomes[0]);
	cr_expect_eq(stats(&s).cut, 0);
}

Test(completion, where_nothing_is_mapped_any_more_the_outdated_frame_goes)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x8000);
	proc_maps_unref(s.process->maps);
	cr_assert_eq(proc_maps_new(&s.process->maps, NULL), 0);
	r.head.ending = ENDING_NO_TABLE;
	r.head.n_user = 1;
	r.frames[0] = frame_native(s.program, 0x100);
	take_record(&s, &r);
	completion_finish(s.completion);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].n_user, 0);
	cr_expect_not(unwind_ending_complete(s.outcomes[0].ending));
}

Test(completion, a_frame_that_an_outdated_list_has_led_to_is_none)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	outdate(&s, &r, CODE + 0x8000);
	r.head.ending = ENDING_NO_TABLE;
	r.frames[0] = frame_anonymous(CODE + 0x8200); /* the step from here */
	r.frames[1] = frame_native(s.program, 0x100);
	take_record(&s, &r);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 0);
	cr_expect_eq(stats(&s).cut, 1);
}

Test(completion, a_stack_from_the_start_never_makes_it_shorter)
{
	/* the program could read on where the copy ends */
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	record_of(&s, &r, CODE + 0x100, ENDING_NO_MAPPING);
	r.head.flags |= SAMPLE_FROM_START;
	r.head.n_user = 2;
	r.frames[0] = frame_anonymous(CODE + 0x100);
	r.frames[1] = frame_anonymous(CODE + 0x300);
	r.stack[2] = 0x1234; /* and no frame pointer chain */
	r.stack[3] = 0x99999;
	take_record(&s, &r);
	now_ns += COMPLETION_TABLE_NS;
	completion_finish(s.completion);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].n_user, 2);
	cr_expect_eq(s.outcomes[0].frames[1], frame_anonymous(CODE + 0x300));
}

Test(completion, mappings_that_are_forgotten_end_the_wait)
{
	_cleanup_scene_ struct scene s;
	struct record r;

	scene_init(&s, 1u << 20);
	map(&s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	record_of(&s, &r, CODE + 0x100, ENDING_NO_PROCESS);
	for (uint32_t i = 0; i < PROC_HISTORY_MAX + 2; i++) {
		now_ns++;
		cr_assert_eq(proc_history_add(s.process, now_ns, i + 1), 0);
		map(&s, CODE + 0x100000 + i * 0x2000, CODE + 0x101000 + i * 0x2000, 0, PROC_FILE_NONE);
	}
	take_record(&s, &r);
	cr_assert_eq(s.n, 1, "what was mapped then is not known any more");
	cr_expect_eq(s.outcomes[0].ending, ENDING_NO_PROCESS);
}

/* --- outdated, as the file of a mapping is opened once more */

#define TICKET (PROC_FILE_OPENING | 7)

/* A frame in the C library; then its mapping was read again. Returns the library's index. */
static uint32_t take_opened_again(struct scene *s)
{
	const uint32_t libc = world_add_libc(&s->w, "libc", 0);
	struct proc_maps *right;
	struct record r;

	map(s, BASE, BASE + (8u << 20), 0, libc);
	cr_assert_eq(proc_history_add(s->process, now_ns, 5), 0);
	cr_assert_eq(proc_maps_new(&right, NULL), 0);
	insert(right, BASE, BASE + (8u << 20), 0, TICKET);
	proc_maps_unref(s->process->maps);
	s->process->maps = right;
	now_ns += NS_PER_SEC;
	record_of(s, &r, BASE, ENDING_ROOT);
	r.head.generation = 5;
	r.head.flags = 0; /* no stack came along */
	r.head.n_user = 1;
	r.frames[0] = frame_native(libc, libc_offset(&s->w, libc, "getpid"));
	take_record(s, &r);
	cr_assert_eq(s->n, 0, "it may be the same file");
	cr_assert_eq(stats(s).waiting, 1);
	return libc;
}

static void opened(struct scene *s, uint32_t file)
{
	cr_assert(proc_maps_opened(s->process->maps, TICKET, file));
	s->epoch++;
	retry(s);
	cr_assert_eq(s->n, 1);
}

Test(completion, a_frame_whose_file_is_opened_again_is_waited_for)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	opened(&s, take_opened_again(&s));
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT, "%s", unwind_ending_text(s.outcomes[0].ending));
	cr_expect_eq(s.outcomes[0].n_user, 1);
	cr_expect_eq(stats(&s).cut, 0);
}

Test(completion, a_frame_is_cut_when_another_file_was_opened)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	(void)take_opened_again(&s);
	opened(&s, s.program);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(stats(&s).cut, 1);
}

Test(completion, a_frame_is_cut_when_no_file_was_opened_in_time)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1u << 20);
	(void)take_opened_again(&s);
	now_ns += COMPLETION_PENDING_NS;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(stats(&s).late, 1);
}

/* --- code whose memory is given to other code */

/* sub rsp, N; nop; add rsp, N; ret: the nop is at the address that the stacks of record_of() have. */
static void write_function(uint64_t nop, uint8_t n)
{
	const uint8_t function[] = {0x48, 0x83, 0xec, n, 0x90, 0x48, 0x83, 0xc4, n, 0xc3};

	memcpy((void *)(nop - 4), function, sizeof function);
}

static void analyse(struct scene *s, uint32_t machine, uint64_t nop)
{
	const struct generated_request q = {
		.address = nop, .start = nop - 4, .end = nop + 6, .low = CODE, .high = CODE + 0x1000};

	unwind_tables_request(s->w.tables, machine, &q);
}

/* The memory at CODE is that of a virtual machine. Returns the binary that stands for it. */
static uint32_t add_machine(struct scene *s)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	void *memory = mmap((void *)CODE, 0x1000, PROT_READ | PROT_WRITE, flags, -1, 0);
	struct binary *b;
	uint32_t index;

	cr_assert_eq(memory, (void *)CODE);
	write_function(CODE + 0x100, 24);
	write_function(CODE + 0x200, 8);
	unwind_tables_follow_generated(s->w.tables);
	cr_assert_eq(binary_new_generated(&b, (uint32_t)getpid()), 0);
	cr_assert_eq(binary_registry_enter(s->w.binaries, b, 0, &index), 0);
	cr_assert(binary_registry_hold(s->w.binaries, index));
	cr_assert_eq(unwind_tables_add_generated(s->w.tables, index, (uint32_t)getpid()), 0);
	analyse(s, index, CODE + 0x100);
	analyse(s, index, CODE + 0x200);
	unwind_tables_pump(s->w.tables);
	world_settle(&s->w);
	cr_assert_eq(munmap(memory, 0x1000), 0);
	cr_assert_eq(world_table(&s->w, index)->n_placed, 1);
	cr_assert_eq(code_times_new(&world_table(&s->w, index)->times), 0);
	map(s, CODE, CODE + 0x1000, 0, PROC_FILE_NONE);
	proc_maps_set_code(s->process->maps, index);
	return index;
}

/* A look has found code there at `found_ns`, and that it was the same at `same_ns`. */
static void look(struct scene *s, uint32_t machine, uint64_t found_ns, uint64_t same_ns)
{
	struct code_times *t = world_table(&s->w, machine)->times;
	const struct code_span span = {.start = CODE,
				       .end = CODE + 0x1000,
				       .found_ns = found_ns,
				       .same_ns = same_ns,
				       .look = found_ns};

	cr_assert_eq(code_times_set(t, &span, 1), 0);
	code_times_placed(t, span.look);
	code_times_published(t, same_ns);
	s->epoch++;
}

/* A stack that the program has walked through the code to its root. */
static void take_walked(struct scene *s, uint32_t machine, unsigned flags)
{
	struct record r;

	now_ns += NS_PER_SEC;
	record_of(s, &r, CODE + 0x100, ENDING_ROOT);
	r.head.flags = (uint8_t)flags;
	r.head.n_user = 2;
	r.frames[0] = frame_native(s->program, 0x100);
	r.frames[1] = frame_native(machine, CODE + 0x200);
	take_record(s, &r);
}

Test(completion, code_is_looked_at_before_its_samples_are_sent)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	take_walked(&s, machine, 0);
	cr_expect_eq(s.n, 0, "it waits for a look");
	retry(&s);
	cr_expect_eq(s.n, 0);
	look(&s, machine, START_NS, now_ns + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(s.outcomes[0].n_user, 2);
	cr_expect_eq(stats(&s).completed, 0, "nothing else was to be done");
	cr_expect_eq(stats(&s).code_cut, 0);
}

/* The process has ended, and nobody knows whether it was still that code. */
Test(completion, no_look_is_waited_for_that_will_not_come)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	take_walked(&s, machine, 0);
	cr_expect_eq(s.n, 0);
	unwind_tables_refuse(s.w.tables, machine);
	s.epoch++;
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 1);
	take_walked(&s, machine, 0);
	cr_assert_eq(s.n, 2);
	cr_expect_eq(s.outcomes[1].ending, ENDING_OUTDATED);
}

/* So it is at the end of a recording. */
Test(completion, without_its_look_a_step_is_not_sent)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	struct record r;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	take_walked(&s, machine, 0);
	record_of(&s, &r, CODE + 0x100, ENDING_NO_MAPPING); /* walked from its start */
	r.head.flags |= SAMPLE_FROM_START;
	r.head.n_user = 1;
	r.frames[0] = frame_native(machine, CODE + 0x100);
	take_record(&s, &r);
	completion_finish(s.completion);
	cr_assert_eq(s.n, 2);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 1);
	cr_expect_eq(s.outcomes[1].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[1].n_user, 0);
	cr_expect_eq(stats(&s).late, 2);
	cr_expect_eq(stats(&s).code_cut, 2);
}

Test(completion, steps_from_other_code_are_cut)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	take_walked(&s, machine, 0);
	look(&s, machine, now_ns + 1, now_ns + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_assert_eq(s.outcomes[0].n_user, 1, "up to the code, of which it is not known what it was");
	cr_expect_eq(s.outcomes[0].frames[0], frame_native(s.program, 0x100));
	cr_expect_eq(stats(&s).code_cut, 1);
}

/* Rows of the code before have led the program astray: with those of the code after, it reaches the root. */
Test(completion, with_its_stack_it_is_walked_through_the_other_code)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	struct record r;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	now_ns += NS_PER_SEC;
	record_of(&s, &r, CODE + 0x100, ENDING_NO_MAPPING);
	r.head.flags |= SAMPLE_FROM_START;
	r.head.n_user = 1;
	r.frames[0] = frame_native(machine, CODE + 0x100);
	take_record(&s, &r);
	cr_expect_eq(s.n, 0);
	look(&s, machine, now_ns + 1, now_ns + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(s.outcomes[0].n_user, 3);
	cr_expect_eq(s.outcomes[0].frames[1], frame_native(machine, CODE + 0x200));
	cr_expect_eq(stats(&s).code_walked_again, 1);
	cr_expect_eq(stats(&s).code_cut, 0);
}

/* Rows of both lead to the root: it is not known which code it was. */
Test(completion, whole_stacks_do_not_say_which_code_was_there)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	struct record r;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look(&s, machine, now_ns, now_ns);
	now_ns += NS_PER_SEC;
	record_of(&s, &r, CODE + 0x100, ENDING_ROOT);
	r.head.flags |= SAMPLE_FROM_START;
	r.head.n_user = 2;
	r.frames[0] = frame_native(machine, CODE + 0x100);
	r.frames[1] = frame_native(machine, CODE + 0x200);
	take_record(&s, &r);
	look(&s, machine, now_ns + 1, now_ns + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 0);
	cr_expect_eq(stats(&s).code_cut, 1);
}

/* --- samples that say which code it was */

#define COMPILE_ID 77u

/* A look has found that compilation there, whose number the samples have. */
static void look_at_compiled(struct scene *s, uint32_t machine, uint32_t compile_id)
{
	struct code_times *t = world_table(&s->w, machine)->times;
	const struct code_span span = {.start = CODE,
				       .end = CODE + 0x1000,
				       .found_ns = now_ns + 1,
				       .same_ns = now_ns + 1,
				       .look = now_ns + 1,
				       .compile_id = compile_id};

	cr_assert_eq(code_times_set(t, &span, 1), 0);
	code_times_placed(t, span.look);
	s->epoch++;
}

/* A stack whose frame at `address` is a method's: its own, or that of a native function's caller. */
static void take_compiled(struct scene *s, uint32_t machine, uint64_t address, bool own, uint64_t flags)
{
	struct record r;
	unsigned n = 0;

	now_ns += NS_PER_SEC;
	record_of(s, &r, address, ENDING_ROOT);
	r.head.flags = 0;
	if (!own)
		r.frames[n++] = frame_native(s->program, 0x100);
	r.frames[n++] = frame_native(machine, address);
	r.frames[n++] = frame_native(FRAME_TAG_CODE,
				     4ull << FRAME_CODE_ID_BITS | COMPILE_ID | FRAME_CODE_BY_SIZE | flags);
	r.head.n_user = (uint16_t)n;
	take_record(s, &r);
}

Test(completion, code_that_a_sample_names_is_looked_at_once)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	take_compiled(&s, machine, CODE + 0x200, false, FRAME_CODE_SURE);
	cr_expect_eq(s.n, 0, "its name may become known");
	look_at_compiled(&s, machine, COMPILE_ID);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(s.outcomes[0].n_user, 3);
	take_compiled(&s, machine, CODE + 0x200, false, FRAME_CODE_SURE);
	cr_expect_eq(s.n, 2, "the next one need not wait");
	cr_expect_eq(s.outcomes[1].ending, ENDING_ROOT);
}

/* Its size is certain; that of a caller of a stub is not, nor whether the sample's own frame stood. */
Test(completion, without_its_look_a_certain_step_is_sent)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	take_compiled(&s, machine, CODE + 0x200, false, FRAME_CODE_SURE);
	take_compiled(&s, machine, CODE + 0x200, false, 0);
	take_compiled(&s, machine, CODE + 0x100, true, 0);
	completion_finish(s.completion);
	cr_assert_eq(s.n, 3);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(s.outcomes[0].n_user, 3);
	cr_expect_eq(s.outcomes[1].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[1].n_user, 1);
	cr_expect_eq(s.outcomes[2].n_user, 0);
}

Test(completion, a_caller_whose_code_is_gone_keeps_its_frame)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	take_compiled(&s, machine, CODE + 0x200, false, FRAME_CODE_SURE);
	look_at_compiled(&s, machine, COMPILE_ID + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_ROOT);
	cr_expect_eq(stats(&s).code_cut, 0);
}

/* It may have pushed something for a stub. */
Test(completion, a_caller_of_a_stub_whose_code_is_gone)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	take_compiled(&s, machine, CODE + 0x200, false, 0);
	look_at_compiled(&s, machine, COMPILE_ID + 1);
	retry(&s);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 1, "up to the code");
}

/* For most stubs, nothing is pushed. */
Test(completion, a_caller_of_a_plain_stub_whose_code_is_gone)
{
	ONLY_ON_X86_64("the code");

	for (int plain = 0; plain <= 1; plain++) {
		_cleanup_scene_ struct scene s;
		struct code_span spans[] = {
			{.start = CODE, .end = CODE + 0x400, .compile_id = COMPILE_ID + 1, .look = 1},
			{.start = CODE + 0x800, .end = CODE + 0x900, .look = 1, .plain = plain},
		};
		uint32_t machine;
		struct record r;

		scene_init(&s, 1u << 20);
		machine = add_machine(&s);
		now_ns += NS_PER_SEC;
		record_of(&s, &r, CODE + 0x840, ENDING_ROOT);
		r.head.flags = 0;
		r.frames[0] = frame_native(machine, CODE + 0x840);
		r.frames[1] = frame_native(machine, CODE + 0x200);
		r.frames[2] = frame_native(FRAME_TAG_CODE,
					   4ull << FRAME_CODE_ID_BITS | COMPILE_ID | FRAME_CODE_BY_SIZE);
		r.head.n_user = 3;
		spans[0].found_ns = spans[0].same_ns = spans[1].found_ns = now_ns + 1;
		cr_assert_eq(code_times_set(world_table(&s.w, machine)->times, spans, ARRAY_SIZE(spans)), 0);
		code_times_placed(world_table(&s.w, machine)->times, 1);
		take_record(&s, &r);
		cr_assert_eq(s.n, 1);
		cr_expect_eq(s.outcomes[0].ending, plain ? ENDING_ROOT : ENDING_OUTDATED, "%d", plain);
		cr_expect_eq(s.outcomes[0].n_user, plain ? 3 : 1);
		cr_expect_eq(stats(&s).code_cut, !plain);
	}
}

/* The sample's own frame may not have stood: of code that is gone, nobody can tell, unless its bytes have. */
Test(completion, an_own_frame_whose_code_is_gone)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	take_compiled(&s, machine, CODE + 0x100, true, 0);
	take_compiled(&s, machine, CODE + 0x100, true, FRAME_CODE_SURE);
	look_at_compiled(&s, machine, COMPILE_ID + 1);
	retry(&s);
	cr_assert_eq(s.n, 2);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED);
	cr_expect_eq(s.outcomes[0].n_user, 0);
	cr_expect_eq(s.outcomes[1].ending, ENDING_ROOT);
	cr_expect_eq(stats(&s).code_cut, 1);
}

/*
 * The rows of the function at CODE + 0x100 have 32 bytes where it was hit, as the step has, but no
 * saved fp.
 */
Test(completion, an_own_frame_is_compared_with_its_row)
{
	ONLY_ON_X86_64("the code");
	_cleanup_scene_ struct scene s;
	uint32_t machine;

	scene_init(&s, 1u << 20);
	machine = add_machine(&s);
	look_at_compiled(&s, machine, COMPILE_ID);
	take_compiled(&s, machine, CODE + 0x100, true, FRAME_CODE_SURE);
	cr_assert_eq(s.n, 1);
	cr_expect_eq(s.outcomes[0].ending, ENDING_OUTDATED, "the row says that the frame is another one");
	cr_expect_eq(stats(&s).code_cut, 1);
}
