// SPDX-License-Identifier: Apache-2.0
/* Order of work, and the tables that come out. */
#include <dirent.h>
#include <sys/resource.h>

#include "agent/elf/runtime/facts.h"
#include "agent/elf/unwind_table.h"
#include "agent/unwind/build.h"
#include "agent/unwind/pack.h"
#include "bpf/unwind.h"
#include "tests/unit/agent/elf/runtime/runtime_file.h"
#include "tests/unit/agent/unwind/world.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

Test(tables, indices)
{
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	cr_expect_null(unwind_tables_get(w.tables, 0));
	cr_expect_null(unwind_tables_get(w.tables, 1));
	cr_expect_null(unwind_tables_get(w.tables, 17));
	cr_expect_null(unwind_tables_get(w.tables, FILE_ANONYMOUS));
	unwind_tables_touch(w.tables, 5, 1); /* a frame of a file that is no more */
	cr_expect_eq(world_add_libc(&w, "a", 0), 1);
	cr_expect_eq(world_binary(&w, 1)->module.id, 1);
}

/* What is mapped executable and no ELF file has no table; its addresses are offsets. */
Test(tables, not_elf)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
	} cases[] = {{"empty", "", 0},
		     {"text", "hello\n", 6},
		     {"magic", "\177ELF", 4},
		     {"head", "\177ELF\2\1\1\0", 8}};
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t index;

		world_write(&w, cases[i].name, cases[i].bytes, cases[i].len);
		cr_assert_eq(world_add(&w, cases[i].name, &index), 0);
		world_settle(&w);
		cr_expect_eq(world_table(&w, index)->state, TABLE_NONE, "%s", cases[i].name);
		cr_expect_eq(world_binary(&w, index)->n_segments, 0);
		cr_expect_eq(world_binary(&w, index)->module.limit, cases[i].len);
	}
	cr_expect_eq(world_stats(&w).failed, 0);
}

/* The lowest number that is free is beyond the limit: no file can be opened. */
static void no_descriptor_is_free(struct rlimit *was)
{
	struct rlimit none;
	int fd = dup(0);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, was), 0);
	none = *was;
	none.rlim_cur = (rlim_t)fd;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

Test(tables, a_build_without_descriptors_is_tried_again)
{
	_cleanup_world_ struct world w;
	struct rlimit was;
	uint32_t index;

	world_init(&w, 1, 16);
	index = world_add_libc(&w, "a", 1);
	no_descriptor_is_free(&was);
	world_settle(&w);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_expect_eq(world_table(&w, index)->state, TABLE_EVICTED);
	cr_expect_eq(world_stats(&w).failed, 0);
	cr_expect_not(world_binary(&w, index)->searched, "its debug files are still to be searched for");
}

static unsigned n_waiting(const struct world *w, const uint32_t *files, unsigned n)
{
	unsigned waiting = 0;

	for (unsigned i = 0; i < n; i++)
		waiting += world_table(w, files[i])->state == TABLE_WAITING;
	return waiting;
}

/* A frame in a file without a table puts it before all that merely wait. */
Test(tables, samples_first)
{
	enum { N = UNWIND_JOBS_MAX + 6 };
	_cleanup_world_ struct world w;
	uint32_t files[N];

	world_init(&w, 2, N);
	for (uint8_t i = 0; i < N; i++) {
		char name[] = {(char)('a' + i), '\0'};

		files[i] = world_add_libc(&w, name, i + 1);
	}
	cr_expect_eq(unwind_tables_pending(w.tables), N);
	unwind_tables_touch(w.tables, files[N - 1], 1000);
	unwind_tables_pump(w.tables);
	cr_expect_eq(world_table(&w, files[N - 1])->state, TABLE_BUILDING);
	cr_expect_eq(n_waiting(&w, files, N), N - 2, "one of those that no sample has hit is at a worker");
	cr_expect_not(world_table(&w, files[0])->job->job.urgent);
	for (int i = 0; i < N; i++)
		unwind_tables_touch(w.tables, files[i], 1000);
	cr_expect(world_table(&w, files[0])->job->job.urgent, "it becomes urgent there");
	unwind_tables_pump(w.tables);
	cr_expect_eq(n_waiting(&w, files, N), N - 1 - UNWIND_JOBS_OF_A_TENANT);
	cr_expect_eq(unwind_tables_pending(w.tables), N);
	world_settle(&w);
	for (int i = 0; i < N; i++)
		cr_expect_eq(world_table(&w, files[i])->state, TABLE_READY);
	cr_expect_eq(world_stats(&w).ready, N);
	cr_expect_eq(world_stats(&w).built, N);
}

/* The rule that the placed table has for an address. */
static struct unwind_rule placed_rule(const struct world *w, const struct unwind_placed *p, uint64_t va)
{
	struct segment *s = w->segments[ref_segment(p->block.ref)];
	uint32_t at = ref_offset(p->block.ref);
	const struct unwind_table *t = (const struct unwind_table *)(s->bytes + at);
	const struct unwind_state state = {
		.index = t->index, .rows = t->rows, .rules = at + (uint32_t)sizeof *t};
	uint64_t bits = table_rule(s, &state, va - t->va);
	struct unwind_rule rule;

	memcpy(&rule, &bits, sizeof rule);
	return rule;
}

/* What lies in the arena is the file's table. */
Test(tables, table_in_the_arena)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	_cleanup_world_ struct world w;
	const struct binary_table *f;
	size_t wrong = 0, found = 0;

	world_init(&w, 1, 16);
	f = world_table(&w, world_add_libc(&w, "a", 0));
	world_settle(&w);
	cr_assert_eq(f->state, TABLE_READY);
	cr_expect_eq(strlen(f->binary->module.htlhash), 32);
	cr_assert_eq(elf_image_open(&img, f->binary->fd), 0);
	cr_assert_eq(elf_rows_build(&rows, img), 0);
	cr_expect_eq(f->n_rows, rows->n_rows);
	for (size_t i = 0; i + 1 < rows->n_rows; i++) {
		struct unwind_rule want = unwind_rule_pack(&rows->rules[rows->rows[i].rule],
							   elf_image_machine(img)),
				   got;

		for (size_t k = 0; k < f->n_placed; k++) {
			if (rows->rows[i].va < f->placed[k].va || rows->rows[i].va >= f->placed[k].end)
				continue;
			got = placed_rule(&w, &f->placed[k], rows->rows[i].va);
			wrong += memcmp(&got, &want, sizeof got) != 0;
			found++;
		}
	}
	cr_expect_eq(wrong, 0, "%zu rows differ", wrong);
	cr_expect_geq(found * 10, rows->n_rows * 9, "%zu of %zu rows are in blocks", found, rows->n_rows);
	cr_expect_eq(world_stats(&w).table_bytes, world_used(&w));
	cr_expect_eq(world_stats(&w).rows, rows->n_rows);
}

/* Entries of a folder of /proc/self. */
static unsigned count_own(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	cr_assert_not_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Threads are detached: one that has done its work takes a moment to end. */
static bool threads_end(unsigned expected)
{
	for (int i = 0; i < 24000 && count_own("/proc/self/task") > expected; i++)
		usleep(5000);
	return count_own("/proc/self/task") == expected;
}

/* Stopped while workers read files: no descriptor and no thread is left over. */
Test(tables, stop_at_work)
{
	unsigned fds = count_own("/proc/self/fd"), threads = count_own("/proc/self/task"), n_ready;
	struct world w;

	world_init(&w, 1, 16);
	for (uint8_t i = 0; i < 6; i++) {
		char name[] = {(char)('a' + i), '\0'};

		world_add_libc(&w, name, i + 1);
	}
	unwind_tables_pump(w.tables);
	cr_expect_gt(unwind_tables_pending(w.tables), 0, "there is work to stop at");
	cr_expect_geq(count_own("/proc/self/fd"), fds + 6, "each file is open");
	n_ready = w.n_ready;
	world_fini(&w);
	cr_expect_eq(count_own("/proc/self/fd"), fds);
	cr_expect(threads_end(threads), "%u threads", count_own("/proc/self/task"));
	cr_expect_lt(w.n_ready, n_ready + 6, "what no worker had begun was cancelled");
}

/* The file got other content before its table was built, or afterwards. */
Test(tables, content_has_changed)
{
	_cleanup_world_ struct world w;
	uint32_t before, after;
	struct stat st;
	int fd;

	world_init(&w, 1, 16);
	after = world_add_libc(&w, "after", 0);
	world_settle(&w);
	cr_assert_eq(world_table(&w, after)->state, TABLE_READY);
	unwind_tables_stale(w.tables, after);
	cr_expect_eq(world_table(&w, after)->state, TABLE_FAILED);
	cr_expect_eq(world_stats(&w).rows, 0);
	cr_expect_eq(world_stats(&w).stale, 1);
	unwind_tables_stale(w.tables, after);
	cr_expect_eq(world_stats(&w).stale, 1, "there is none any more");
	before = world_add_libc(&w, "before", 0);
	fd = fs_reopen(world_table(&w, before)->binary->fd);
	cr_assert_eq(fstat(fd, &st), 0);
	close(fd);
	cr_assert_eq(truncate(world_table(&w, before)->binary->module.path, st.st_size - 1), 0);
	world_settle(&w);
	cr_expect_eq(world_table(&w, before)->state, TABLE_FAILED);
	cr_expect(world_table(&w, before)->binary->changed);
	cr_expect_eq(world_stats(&w).stale, 2);
	cr_expect_eq(world_stats(&w).failed, 0);
}

static const struct runtime_symbol of_python[] = {
	{"_PyRuntime", RUNTIME_VA, 656, OBJECT},
	{"PyCode_NewWithPosOnlyArgs", LOOP_VA + 200, 16, FUNCTION},
};

static uint32_t add_python(struct world *w, const char *name)
{
	_cleanup_buf_ struct buf b = {0};
	uint32_t index;

	runtime_file_write(&b, &(struct runtime_file){.symbols = of_python, .n_symbols = 2});
	world_write(w, name, b.data, b.len);
	cr_assert_eq(world_add(w, name, &index), 0);
	return index;
}

/* What is known of a language runtime stays when the table goes, and goes with the content. */
Test(tables, a_runtime_is_known_whatever_becomes_of_the_table)
{
	_cleanup_world_ struct world w;
	const struct binary_table *python, *libc;
	struct runtime_facts *known;
	struct arena_hold hold;

	world_init(&w, 1, 16);
	python = world_table(&w, add_python(&w, "python"));
	libc = world_table(&w, world_add_libc(&w, "libc", 0));
	world_settle(&w);
	cr_expect_eq(libc->state, TABLE_READY);
	cr_expect_null(libc->runtime);
	cr_assert_not_null(python->runtime);
	cr_expect_eq(python->runtime->cpython.version, 0x03080000);
	known = python->runtime;
	cr_assert_eq(unwind_tables_make_room(w.tables, SEGMENT_BYTES - PROCESS_TABLE_BYTES - 4096, &hold), 0);
	cr_expect_eq(libc->state, TABLE_EVICTED);
	cr_expect_eq(python->runtime, known);
	arena_unhold(w.arena, &hold);
	unwind_tables_stale(w.tables, python->binary->index);
	cr_expect_null(python->runtime);
}

/* Frames of a language are read when a sample is taken, so its runtime must be known before. */
Test(tables, likely_runtimes_are_awaited)
{
	_cleanup_world_ struct world w;
	const struct binary_table *python, *perl, *other;

	world_init(&w, 2, 8);
	other = world_table(&w, world_add_libc(&w, "libother.so.1", 1));
	perl = world_table(&w, world_add_libc(&w, "libperl.so.5.36", 2)); /* by its name */
	python = world_table(&w, add_python(&w, "python3.8"));
	cr_expect_not(unwind_tables_expects_runtimes(w.tables), "nobody has called for them");
	unwind_tables_prefer_runtimes(w.tables);
	cr_expect(unwind_tables_expects_runtimes(w.tables));
	cr_expect(python->urgent);
	cr_expect(perl->urgent);
	cr_expect_not(other->urgent);
	unwind_tables_pump(w.tables);
	cr_expect_eq(python->state, TABLE_BUILDING);
	world_settle(&w);
	cr_assert_not_null(python->runtime);
	cr_expect_null(perl->runtime, "its table is built, and it is none");
	cr_expect_not(unwind_tables_expects_runtimes(w.tables));
}

/* Whoever has many files with such names does not take the places of others. */
Test(tables, a_tenant_has_a_share_of_likely_runtimes)
{
	enum { THEIRS = 20 };
	_cleanup_world_ struct world w;
	const struct binary_table *python;
	unsigned urgent = 0;
	uint32_t index, theirs[THEIRS];
	char name[32];

	world_init(&w, 2, THEIRS + 2);
	for (unsigned i = 0; i < THEIRS; i++) {
		snprintf(name, sizeof name, "libperl.so.5.%u", i);
		theirs[i] = world_add_libc(&w, name, 1 + i);
		binary_registry_get(w.binaries, theirs[i])->tenant = 1;
	}
	index = add_python(&w, "python3.8");
	binary_registry_get(w.binaries, index)->tenant = 2;
	python = world_table(&w, index);
	unwind_tables_prefer_runtimes(w.tables);
	for (unsigned i = 0; i < THEIRS; i++)
		urgent += world_table(&w, theirs[i])->urgent;
	cr_expect(python->urgent, "it is the last of them");
	cr_expect_eq(urgent, 15, "%u of another tenant's have the places that are left", urgent);
	world_settle(&w);
	cr_expect_not_null(python->runtime);
}
