// SPDX-License-Identifier: Apache-2.0
/*
 * Names of a window's frames: which are requested, when they are complete, what becomes of those that fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/base/fs.h"
#include "agent/proc/root.h"
#include "agent/report/names.h"
#include "agent/report/window.h"
#include "agent/symbol/dwarf.h"
#include "agent/symbol/symbol_cache.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/tables.h"
#include "fake_code_names.h"
#include "fake_machine.h"

#define ANONYMOUS frame_anonymous(0x7f0000001000ull)

struct scene {
	struct machine m;
	struct names_options options;
	struct names *names;
	struct window window;
	struct process *process;
	struct arena *arena;
	struct unwind_tables *tables;
	void *segment;
};

static void scene_init(struct scene *s, unsigned threads)
{
	memset(s, 0, sizeof *s);
	machine_init(&s->m, threads);
	s->options = (struct names_options){.binaries = s->m.binaries,
					    .worker = s->m.worker,
					    .kernel = true,
					    .native = true,
					    .kallsyms = s->m.kallsyms};
	s->process = machine_process(&s->m, 7);
	cr_assert_eq(window_init(&s->window, s->m.binaries, 4u << 20, false), 0);
}

static void scene_open(struct scene *s)
{
	cr_assert_eq(names_new(&s->names, &s->options), 0);
}

static void scene_fini(struct scene *s)
{
	worker_free(TAKE_PTR(s->m.worker));
	names_free(s->names);
	window_fini(&s->window);
	unwind_tables_free(s->tables);
	arena_free(s->arena);
	free(s->segment);
	machine_fini(&s->m);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static void add_sample(struct scene *s, const struct sample_view *v)
{
	const struct sampled_task task = {.process = s->process, .image = s->process->image};

	names_note(s->names, s->process, v);
	cr_assert_eq(window_add(&s->window, &task, v), 0);
}

/* Adds one sample, so that the window has one entry. */
static void add(struct scene *s, const uint64_t *words, uint16_t n_kernel, uint16_t n_user)
{
	struct sample_view v = machine_sample(s->process, words, n_kernel, n_user);

	add_sample(s, &v);
}

static void request(struct scene *s)
{
	names_request(s->names, s->window.samples, 0);
}

static void work(struct scene *s)
{
	while (worker_pending(s->m.worker)) {
		worker_drain(s->m.worker, MACHINE_WAIT_NS);
		names_progress(s->names);
	}
}

/* The functions of the first entry's frames, leaf first. */
static const char *functions(struct scene *s)
{
	static struct frame frames[NAMES_FRAMES_MAX];
	static char text[512];
	size_t n = names_frames(s->names, sample_aggregate_entries(s->window.samples), frames);

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(text);

		snprintf(text + at, sizeof text - at, "%s%s", i ? ";" : "", frames[i].function ?: "?");
	}
	return text;
}

static struct frame frame_at(struct scene *s, size_t i)
{
	static struct frame frames[NAMES_FRAMES_MAX];
	size_t n = names_frames(s->names, sample_aggregate_entries(s->window.samples), frames);

	cr_assert_lt(i, n);
	return frames[i];
}

/* --- what a frame is called */

Test(names, kernel_module_and_program)
{
	_cleanup_scene_ struct scene s;
	struct frame f;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t words[] = {MACHINE_MODULE_FUNCTION + 8, MACHINE_KERNEL_FUNCTION + 4,
				  machine_alpha_frame(&s.m), machine_beta_frame(&s.m)};

	add(&s, words, 2, 2);
	cr_expect(names_complete(s.names));
	request(&s);
	cr_expect_not(names_complete(s.names));
	work(&s);
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "module_function;kernel_function;machine_alpha;machine_beta");
	f = frame_at(&s, 0);
	cr_expect_eq(f.kind, FRAME_KERNEL);
	cr_expect_eq(f.address, MACHINE_MODULE_FUNCTION + 8);
	cr_expect_str_eq(f.module->name, "[mod]");
	cr_expect_str_eq(frame_at(&s, 1).module->name, "[kernel]");
	f = frame_at(&s, 2);
	cr_expect_eq(f.kind, FRAME_NATIVE);
	cr_expect_eq(f.module, &binary_registry_get(s.m.binaries, s.m.program)->module);
	cr_expect_null(f.system_name);
	cr_expect_eq(f.n_lines, 0);
	cr_expect_gt(names_bytes(s.names), 0);
	request(&s);
	cr_expect_eq(worker_pending(s.m.worker), 1, "nothing new: the file is only looked at");
	work(&s);
	cr_expect(names_complete(s.names));
}

Test(names, frames_without_a_name)
{
	_cleanup_scene_ struct scene s;
	struct frame f;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t words[] = {0xffffffff90000000, frame_native(s.m.program, 0x10), ANONYMOUS,
				  frame_native(4711, 0x1234)};

	add(&s, words, 1, 4 - 1);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "?;?;?;?");
	f = frame_at(&s, 0);
	cr_expect_str_eq(f.module->name, "[kernel]");
	f = frame_at(&s, 1);
	cr_expect_not_null(f.module);
	f = frame_at(&s, 2);
	cr_expect_null(f.module);
	cr_expect_eq(f.address, 0x7f0000001000);
	f = frame_at(&s, 3);
	cr_expect_null(f.module, "there is no such binary");
	cr_expect_eq(f.address, 0x1234);
}

Test(names, a_cut_stack_ends_with_its_reason)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);
	struct sample_view v = machine_sample(s.process, &word, 0, 1);

	v.ending = ENDING_DEPTH_LIMIT;
	add_sample(&s, &v);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_alpha;[truncated: depth limit]");
	cr_expect_eq(frame_at(&s, 1).kind, FRAME_ENDING);
}

Test(names, omitted_frames_are_one_frame)
{
	_cleanup_scene_ struct scene s;
	uint64_t numbers[NAMES_FRAMES_MAX];
	bool own;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t words[] = {machine_beta_frame(&s.m), frame_omitted(12345), machine_alpha_frame(&s.m)};
	struct sample_view v = machine_sample(s.process, words, 0, 3);

	v.omitted = 1;
	add_sample(&s, &v);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_beta;[frames omitted];machine_alpha");
	cr_expect_eq(frame_at(&s, 1).kind, FRAME_ENDING);
	cr_expect_null(frame_at(&s, 1).module);
	cr_assert_eq(names_numbers(s.names, sample_aggregate_entries(s.window.samples), numbers, &own), 3);
	cr_expect_eq(numbers[1], frame_omitted(0));
	cr_expect_not(own);
}

Test(names, frames_of_language_runtimes)
{
	static const struct fake_code known = {0x1000, 0x20, {"", "A.run", "/srv/a.py", 3, 7}};
	struct code_names code = {.codes = &known, .n = 1};
	_cleanup_scene_ struct scene s;
	uint64_t numbers[NAMES_FRAMES_MAX];
	struct frame f;
	uint32_t detail;
	bool own;

	scene_init(&s, 1);
	s.options.code = &code;
	scene_open(&s);
	const uint64_t words[] = {machine_alpha_frame(&s.m),
				  frame_runtime_head(RUNTIME_CPYTHON, 1, 0x1000),
				  0x20,
				  frame_runtime_head(RUNTIME_CPYTHON, 1, 0x1001),
				  0x20,
				  frame_runtime_head(RUNTIMES, 1, 0x1000),
				  0x20,
				  machine_beta_frame(&s.m)};

	add(&s, words, 0, ARRAY_SIZE(words));
	request(&s);
	work(&s);
	const struct sample_entry *e = sample_aggregate_entries(s.window.samples);

	cr_assert_eq(names_numbers(s.names, e, numbers, &own), 4, "a runtime that is not known is left out");
	cr_expect_not(own);
	cr_expect_str_eq(functions(&s), "machine_alpha;A.run;[unknown function];machine_beta");
	f = frame_at(&s, 1);
	cr_expect_str_eq(f.runtime, "cpython");
	cr_expect_eq(f.start_line, 3);
	cr_assert_eq(f.n_lines, 1);
	cr_expect_eq(f.lines->line, 7);
	cr_expect_eq(names_unknown_code(s.names), 1);
	cr_expect_eq(names_ending(s.names, e, &detail), e->stack->ending);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_alpha;A.run;[unknown function];machine_beta");
	cr_expect_eq(names_unknown_code(s.names), 2, "once in each window");
}

Test(names, numbers_of_frames)
{
	_cleanup_scene_ struct scene s;
	uint64_t numbers[NAMES_FRAMES_MAX];
	bool own = true;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t words[] = {MACHINE_KERNEL_FUNCTION, machine_alpha_frame(&s.m), ANONYMOUS};

	add(&s, words, 1, 2);
	cr_assert_eq(names_numbers(s.names, sample_aggregate_entries(s.window.samples), numbers, &own), 3);
	cr_expect_eq(frame_tag(numbers[0]), FRAME_TAG_KERNEL);
	cr_expect_eq(numbers[1], words[1]);
	cr_expect_eq(numbers[2], words[2]);
	cr_expect_not(own, "no frame has a meaning in this process alone");
}

Test(names, what_is_switched_off_is_not_read)
{
	for (int i = 0; i < 2; i++) {
		_cleanup_scene_ struct scene s;

		scene_init(&s, 1);
		s.options.kernel = i;
		s.options.native = !i;
		scene_open(&s);
		const uint64_t words[] = {MACHINE_KERNEL_FUNCTION, machine_alpha_frame(&s.m), ANONYMOUS};

		names_prepare(s.names);
		cr_expect_eq(names_complete(s.names), !i, "the kernel's symbols are read ahead");
		add(&s, words, 1, 2);
		request(&s);
		work(&s);
		cr_expect_str_eq(functions(&s), i ? "kernel_function;?;?" : "?;machine_alpha;?");
	}
}

Test(names, the_kernels_are_read_before_the_first_window)
{
	_cleanup_scene_ struct scene s;
	const uint64_t word = MACHINE_KERNEL_FUNCTION;

	scene_init(&s, 1);
	scene_open(&s);
	names_prepare(s.names);
	cr_expect_not(names_complete(s.names));
	work(&s);
	add(&s, &word, 1, 0);
	request(&s);
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "kernel_function");
}

/* --- kernels that give no names */

struct capture {
	int file, saved;
};

static void capture_begin(struct capture *c)
{
	c->file = fileno(tmpfile());
	c->saved = dup(STDERR_FILENO);
	cr_assert_eq(dup2(c->file, STDERR_FILENO), STDERR_FILENO);
}

static void capture_end(struct capture *c, struct buf *ret)
{
	dup2(c->saved, STDERR_FILENO);
	close(c->saved);
	cr_assert_eq(lseek(c->file, 0, SEEK_SET), 0);
	cr_assert_eq(fs_read_fd(c->file, 1 << 20, ret), 0);
	close(c->file);
}

/* Names frames of the kernel for two windows, and expects one line of log with this text. */
static void expect_said_once(struct scene *s, const char *text)
{
	const uint64_t words[] = {MACHINE_KERNEL_FUNCTION, machine_alpha_frame(&s->m)};
	_cleanup_buf_ struct buf log = {0};
	struct capture c;
	const char *at;

	add(s, words, 1, 1);
	capture_begin(&c);
	for (int i = 0; i < 2; i++) {
		request(s);
		work(s);
		(void)functions(s);
	}
	capture_end(&c, &log);
	cr_expect_str_eq(functions(s), "?;machine_alpha");
	at = strstr(buf_str(&log), text);
	cr_assert_not_null(at, "%s", buf_str(&log));
	cr_expect_null(strstr(at + 1, text));
	cr_expect_str_eq(frame_at(s, 0).module->name, "[kernel]");
}

Test(names, a_kernel_that_hides_its_symbols)
{
	_cleanup_scene_ struct scene s;
	const char *hidden = "0000000000000000 T a\n0000000000000000 T b\n";

	scene_init(&s, 1);
	cr_assert_eq(fs_write_file(s.m.kallsyms, hidden, strlen(hidden)), 0);
	scene_open(&s);
	expect_said_once(&s, "the kernel hides its symbols");
}

Test(names, a_kernel_without_symbols)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	cr_assert_eq(unlink(s.m.kallsyms), 0);
	scene_open(&s);
	expect_said_once(&s, "/proc/kallsyms cannot be used (No such file or directory)");
}

/* --- jobs that do not come to an end */

/* A FIFO in place of the symbols: whoever opens it waits for a writer. */
Test(names, a_job_that_hangs_is_given_up)
{
	_cleanup_scene_ struct scene s;
	const uint64_t word = MACHINE_KERNEL_FUNCTION;
	const char line[] = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n";
	int fd;

	scene_init(&s, 1);
	cr_assert_eq(unlink(s.m.kallsyms), 0);
	cr_assert_eq(mkfifo(s.m.kallsyms, 0600), 0);
	scene_open(&s);
	add(&s, &word, 1, 0);
	request(&s);
	cr_expect_not(names_complete(s.names));
	for (int i = 0; i < 120000 && !names_complete(s.names); i++) {
		worker_check(s.m.worker, 0);
		usleep(1000);
	}
	cr_expect(names_complete(s.names), "the window no longer waits for it");
	cr_expect_str_eq(functions(&s), "?");
	fd = open(s.m.kallsyms, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, line, sizeof line - 1), (ssize_t)sizeof line - 1);
	usleep(10000); /* the reader has it open before the last writer goes */
	close(fd);
	for (int i = 0; i < 120000 && worker_pending(s.m.worker); i++) {
		worker_collect(s.m.worker);
		usleep(1000);
	}
	cr_expect_eq(worker_pending(s.m.worker), 0);
	cr_expect(names_complete(s.names), "it is not counted twice");
	cr_expect_str_eq(functions(&s), "kernel_function", "what it has read is used");
}

Test(names, a_full_queue_leaves_names_for_the_next_window)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	worker_free(s.m.worker);
	cr_assert_eq(worker_new(&s.m.worker, 1, 1, "test"), 0);
	s.options.worker = s.m.worker;
	s.options.kernel = false;
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	machine_block(&s.m);
	add(&s, &word, 0, 1);
	request(&s);
	cr_expect(names_complete(s.names), "nothing can be waited for");
	cr_expect_str_eq(functions(&s), "?");
	machine_unblock(&s.m);
	work(&s);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_alpha");
}

/* Copies of the test program, each another binary. */
static uint64_t copy_of_program(struct scene *s, unsigned i, uint64_t tenant)
{
	_cleanup_buf_ struct buf self = {0};
	char name[16];
	uint32_t index;

	cr_assert_eq(fs_read_file("/proc/self/exe", 1u << 30, &self), 0);
	snprintf(name, sizeof name, "copy-%u", i);
	index = machine_binary(&s->m, machine_write(&s->m, name, self.data, self.len));
	binary_registry_get(s->m.binaries, index)->tenant = tenant;
	return frame_native(index, frame_va(machine_alpha_frame(&s->m)));
}

Test(names, a_tenant_does_not_wait_for_all_binaries_of_another)
{
	enum { THEIRS = 12, AT_ONCE = SYMBOL_JOBS_OF_A_TENANT };
	_cleanup_scene_ struct scene s;
	uint64_t words[THEIRS + 1];

	scene_init(&s, 1);
	s.options.kernel = false;
	scene_open(&s);
	for (unsigned i = 0; i <= THEIRS; i++)
		words[i] = copy_of_program(&s, i, i < THEIRS ? 1 : 2);
	machine_block(&s.m);
	add(&s, words, 0, THEIRS + 1);
	request(&s);
	cr_expect_eq(worker_pending(s.m.worker), 1 + AT_ONCE + 1 + 1,
		     "the one that blocks, theirs, the neighbour's, and the look at the files: %zu",
		     worker_pending(s.m.worker));
	cr_expect_not(names_complete(s.names));
	machine_unblock(&s.m);
	work(&s);
	cr_expect(names_complete(s.names));
	for (unsigned i = 0; i <= THEIRS; i++)
		cr_expect_str_eq(frame_at(&s, i).function, "machine_alpha");
}

Test(names, without_descriptors_names_are_left_for_the_next_window)
{
	_cleanup_scene_ struct scene s;
	struct rlimit before, none = {0};

	scene_init(&s, 1);
	s.options.kernel = false;
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	request(&s);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	worker_drain(s.m.worker, MACHINE_WAIT_NS); /* looks whether the file has changed */
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "?");
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_alpha");
}

Test(names, a_binary_without_descriptor_is_given_up)
{
	_cleanup_scene_ struct scene s;
	struct binary *b;

	scene_init(&s, 1);
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	b = binary_registry_get(s.m.binaries, s.m.program);
	close(b->fd);
	b->fd = -1;
	request(&s);
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "?");
}

Test(names, a_binary_that_is_forgotten)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	cr_assert_eq(symbol_dwarf_load(), 0);
	s.options.source_lines = true;
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	request(&s);
	work(&s);
	cr_expect_str_eq(functions(&s), "machine_alpha");
	names_forget(s.names, s.m.program);
	cr_expect_str_eq(functions(&s), "?", "the index may stand for another one");
	names_free(NULL);
}

/* --- separate debug files */

static int segment_of(void *data, uint32_t index, void **ret)
{
	struct scene *s = data;

	cr_assert_eq(index, 0);
	s->segment = calloc(1, SEGMENT_VALUE);
	cr_assert_not_null(s->segment);
	*ret = s->segment;
	return 0;
}

static void on_ready(void *data)
{
	(void)data;
}

/* The program is to get a table, and its debug file is to be looked for in the machine's folder. */
static void with_tables(struct scene *s)
{
	int fd = open(s->m.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_root *root;

	cr_assert_eq(proc_root_of_folder(&root, fd), 0);
	cr_assert_eq(arena_new(&s->arena, SEGMENT_BYTES, segment_of, s), 0);
	cr_assert_eq(unwind_tables_new(&s->tables, s->m.binaries, s->arena, s->m.worker, on_ready, s), 0);
	binary_registry_set_root(s->m.binaries, s->m.program, root);
	proc_root_unref(root);
	unwind_tables_add(s->tables, s->m.program);
	s->options.tables = s->tables;
	s->options.kernel = false;
}

Test(names, wait_for_the_search_for_a_debug_file)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	with_tables(&s);
	scene_open(&s);
	const uint64_t words[] = {machine_alpha_frame(&s.m), machine_beta_frame(&s.m)};

	add(&s, words, 0, 2);
	request(&s);
	cr_expect_not(names_complete(s.names));
	names_progress(s.names);
	cr_expect_not(names_complete(s.names), "the table is not there yet");
	work(&s); /* looks whether the file has changed */
	cr_expect_not(names_complete(s.names), "nothing is read before");
	unwind_tables_pump(s.tables); /* builds the table, and looks for the file */
	work(&s);
	names_progress(s.names);
	work(&s);
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "machine_alpha;machine_beta");
}

Test(names, do_not_wait_for_a_table_that_is_stuck)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	with_tables(&s);
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	request(&s);
	cr_expect_not(names_complete(s.names));
	unwind_tables_get(s.tables, s.m.program)->put_off = true;
	names_progress(s.names);
	work(&s);
	cr_expect(names_complete(s.names));
	cr_expect_str_eq(functions(&s), "machine_alpha");
}

Test(names, the_next_window_forgets_what_the_one_before_waited_for)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s, 1);
	with_tables(&s);
	scene_open(&s);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	request(&s);
	cr_expect_not(names_complete(s.names));
	window_clear(&s.window);
	request(&s);
	work(&s); /* looked whether the file has changed */
	cr_expect(names_complete(s.names));
}

/* --- source lines */

static uint64_t returns_to;

__attribute__((noinline)) static void note_return(void)
{
	returns_to = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

__attribute__((always_inline)) static inline void inner(void)
{
	note_return();
}

__attribute__((always_inline)) static inline void middle(void)
{
	inner();
}

__attribute__((noinline)) static void outer(void)
{
	middle();
	__asm__ volatile("" ::: "memory");
}

static void scene_with_lines(struct scene *s, unsigned threads)
{
	outer();
	cr_assert_eq(symbol_dwarf_load(), 0);
	scene_init(s, threads);
	s->options.source_lines = true;
	s->options.kernel = false;
	scene_open(s);
}

Test(names, inlined_calls_are_frames_of_a_stack)
{
	_cleanup_scene_ struct scene s;
	struct frame f;

	scene_with_lines(&s, 1);
	const uint64_t words[] = {frame_native(s.m.program, returns_to - 1), machine_beta_frame(&s.m)};

	add(&s, words, 0, 2);
	request(&s);
	cr_expect_gt(names_lines_left(s.names), 0, "not read yet");
	work(&s);
	cr_expect_eq(names_lines_left(s.names), 0);
	cr_expect_gt(names_bytes(s.names), 0);
	cr_expect_str_eq(functions(&s), "inner;middle;outer;machine_beta");
	for (size_t i = 0; i < 3; i++) {
		f = frame_at(&s, i);
		cr_expect_eq(f.address, returns_to - 1, "one address");
		cr_assert_eq(f.n_lines, 1);
		cr_expect_str_eq(f.lines->function, f.function);
		cr_expect_not_null(strstr(f.lines->file, "test_names.c"));
		cr_expect_gt(f.lines->line, 0);
	}
}

/* As many inlined calls as there is room for: the outermost one of a frame remains. */
Test(names, inlined_calls_of_a_deep_stack)
{
	_cleanup_scene_ struct scene s;
	static uint64_t words[USER_FRAMES_MAX];
	static struct frame frames[NAMES_FRAMES_MAX];
	size_t n;

	scene_with_lines(&s, 1);
	for (size_t i = 0; i < USER_FRAMES_MAX; i++)
		words[i] = frame_native(s.m.program, returns_to - 1);
	add(&s, words, 0, USER_FRAMES_MAX);
	request(&s);
	work(&s);
	n = names_frames(s.names, sample_aggregate_entries(s.window.samples), frames);
	cr_assert_eq(n, NAMES_FRAMES_MAX);
	cr_expect_str_eq(frames[0].function, "inner");
	cr_expect_str_eq(frames[n - 1].function, "outer");
	cr_expect_eq(frames[n - 1].n_lines, 1);
	cr_expect_str_eq(frames[n - 1].lines->function, "outer");
}

Test(names, lines_that_there_was_no_time_for)
{
	_cleanup_scene_ struct scene s;

	scene_with_lines(&s, 0);
	const uint64_t word = machine_alpha_frame(&s.m);

	add(&s, &word, 0, 1);
	request(&s);
	cr_expect_eq(names_lines_left(s.names), 1);
	cr_expect_str_eq(functions(&s), "?");
}

/* --- files that are written anew */

/* A copy of the test program, as a library that the process has mapped. */
static uint32_t add_library(struct scene *s, char path[64])
{
	_cleanup_buf_ struct buf bytes = {.max = 1u << 30};
	uint32_t index = 0;
	struct stat st;
	int fd;

	snprintf(path, 64, "%s/library", s->m.dir);
	cr_assert_eq(fs_read_file("/proc/self/exe", 1u << 30, &bytes), 0);
	cr_assert_eq(fs_write_file(path, bytes.data, bytes.len), 0);
	fd = open(path, O_PATH | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(binary_registry_add(s->m.binaries, fd, &st, path, &index), 0);
	return index;
}

/* Changes one byte, and restores size and mtime; `back`: the byte, too. */
static void write_anew(const char *path, bool back)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	struct timespec times[2];
	struct stat st;
	char byte;

	cr_assert_eq(fstat(fd, &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	for (int i = 0; i < 1 + back; i++) {
		cr_assert_eq(pread(fd, &byte, 1, st.st_size - 1), 1);
		byte ^= 1;
		cr_assert_eq(pwrite(fd, &byte, 1, st.st_size - 1), 1);
	}
	cr_assert_eq(futimens(fd, times), 0);
}

/* One stack: alpha of the library, called by beta of the program. */
static void add_library_sample(struct scene *s, uint32_t library)
{
	const uint64_t words[] = {frame_native(library, frame_va(machine_alpha_frame(&s->m))),
				  machine_beta_frame(&s->m)};

	window_clear(&s->window);
	machine_now_ns = clock_mono_ns();
	add(s, words, 0, 2);
	request(s);
	work(s);
}

#define CUT "?;[truncated: outdated mappings]"

/* Neither names that were read before nor callers that the table found are those of the new content. */
Test(names, of_a_library_that_is_written_anew)
{
	_cleanup_scene_ struct scene s;
	uint32_t library, detail;
	struct frame f;
	char path[64];

	scene_init(&s, 1);
	s.options.kernel = false;
	scene_open(&s);
	library = add_library(&s, path);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), "machine_alpha;machine_beta");
	cr_expect_eq(names_ending(s.names, sample_aggregate_entries(s.window.samples), &detail), ENDING_ROOT);
	write_anew(path, false);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), CUT);
	f = frame_at(&s, 0);
	cr_expect_str_eq(f.module->path, path, "file and address stay");
	cr_expect_eq(f.address, frame_va(machine_alpha_frame(&s.m)));
	cr_expect_eq(names_ending(s.names, sample_aggregate_entries(s.window.samples), &detail),
		     ENDING_OUTDATED);
	cr_expect(binary_registry_get(s.m.binaries, library)->changed);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), CUT, "it stays so");
}

/* It has its content again: what was sampled meanwhile is not known, what is sampled afterwards is. */
Test(names, of_a_library_that_is_written_and_restored)
{
	_cleanup_scene_ struct scene s;
	uint32_t library;
	char path[64];

	scene_init(&s, 1);
	s.options.kernel = false;
	scene_open(&s);
	library = add_library(&s, path);
	add_library_sample(&s, library);
	write_anew(path, true);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), CUT);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), "machine_alpha;machine_beta");
	cr_assert_eq(unlink(path), 0);
	add_library_sample(&s, library);
	cr_expect_str_eq(functions(&s), "machine_alpha;machine_beta", "as by a package's update");
}

/* A program cannot be written while it runs: names that were read before are those of its samples. */
Test(names, of_a_program_that_is_written_anew)
{
	_cleanup_scene_ struct scene s;
	uint32_t program;
	char path[64];

	scene_init(&s, 1);
	s.options.kernel = false;
	scene_open(&s);
	program = add_library(&s, path);
	free(s.process->image->program->exe);
	s.process->image->program->exe = strdup(path);
	add_library_sample(&s, program);
	write_anew(path, false);
	add_library_sample(&s, program);
	cr_expect_str_eq(functions(&s), "machine_alpha;machine_beta");
	names_forget(s.names, program);
	add_library_sample(&s, program);
	cr_expect_str_eq(functions(&s), "?;machine_beta", "no name is read from the new content");
	cr_expect_eq(names_changed(s.names), 1);
}
