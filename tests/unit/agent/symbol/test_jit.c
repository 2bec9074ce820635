// SPDX-License-Identifier: Apache-2.0
/* Uses real files of this process: its perf map in /tmp, and a jitdump file passed as a descriptor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/table.h"
#include "agent/symbol/jit.h"
#include "tests/unit/agent/symbol/jit_support.h"

static struct symbol_jit *jit;
static struct proc_table *table;
static struct process *self;
static char map_path[64];
static uint64_t now_ns;

static void setup(void)
{
	snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", getpid());
	now_ns = clock_mono_ns();
	cr_assert_eq(symbol_jit_new(&jit, 1 << 20), 0);
	cr_assert_eq(proc_table_new(&table, 10, NULL), 0);
	cr_assert_eq(proc_table_add(table, (uint32_t)getpid(), 0, &self), 0);
}

static void teardown(void)
{
	unlink(map_path);
	symbol_jit_free(jit);
	proc_table_free(table);
}

TestSuite(jit, .init = setup, .fini = teardown);

static void put(const char *path, int flags, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static struct symbol_jit_stats stats(void)
{
	struct symbol_jit_stats s;

	symbol_jit_get_stats(jit, &s);
	return s;
}

static void look(int dump_fd)
{
	struct symbol_jit_job *job;
	struct worker_job *work;

	cr_assert_geq(symbol_jit_note(jit, self, clock_mono_ns()), 0);
	cr_assert_eq(symbol_jit_job_new(&job, jit, self, dump_fd, now_ns), 0);
	work = symbol_jit_job_work(job);
	work->run(work);
	work->done(work, false);
}

static void look_after(unsigned seconds)
{
	now_ns += seconds * NS_PER_SEC;
	look(-1);
}

static bool put_off(void)
{
	uint64_t before = stats().n_deferred;
	struct symbol_jit_job *job;

	if (symbol_jit_job_new(&job, jit, self, -1, now_ns) == -EAGAIN)
		return stats().n_deferred == before + 1;
	symbol_jit_complete(jit, job); /* it has not run */
	return false;
}

static const char *name(uint64_t address)
{
	int slot = symbol_jit_slot(jit, self);
	struct jit_symbol s;

	return slot >= 0 && symbol_jit_find(jit, (unsigned)slot, address, &s) ? s.name : "";
}

Test(jit, map_that_grows)
{
	cr_expect_eq(symbol_jit_note(jit, self, 1), 1);
	cr_expect_eq(symbol_jit_note(jit, self, 2), 0);
	cr_expect_eq(symbol_jit_process(jit, (unsigned)symbol_jit_slot(jit, self)), self);
	look(-1); /* the file does not exist yet */
	cr_expect_str_eq(name(0x1000), "");
	put(map_path, 0, "1000 100 one\n2000 1");
	look(-1);
	cr_expect_str_eq(name(0x10ff), "one");
	put(map_path, O_APPEND, "00 two\n3000 10 three\n");
	look(-1);
	cr_expect_str_eq(name(0x1000), "one");
	cr_expect_str_eq(name(0x20ff), "two");
	cr_expect_str_eq(name(0x3000), "three");
	put(map_path, O_APPEND, "1080 10 over one\n");
	look(-1);
	cr_expect_str_eq(name(0x1000), "");
	cr_expect_str_eq(name(0x1080), "over one");
	look(-1);
	cr_expect_str_eq(name(0x1080), "over one");
	cr_expect_eq(stats().n_failed, 0);
	cr_expect_eq(stats().n_bad, 0);
}

/*
 * The file is rewritten in place and shorter, in place and longer (equal first bytes must not make it look
 * grown), and as another file.
 */
Test(jit, map_that_is_rewritten)
{
	put(map_path, 0, "1000 100 old\n2000 100 old as well\n");
	look(-1);
	put(map_path, O_TRUNC, "1000 100 new\n");
	look_after(0);
	cr_expect_str_eq(name(0x1000), "new");
	cr_expect_str_eq(name(0x2000), "");
	put(map_path, O_TRUNC, "5000 100 n\n6000 100 longer than what was there before\n");
	look_after(6);
	cr_expect_str_eq(name(0x1000), "");
	cr_expect_str_eq(name(0x5000), "n");
	cr_expect_str_eq(name(0x6000), "longer than what was there before");
	cr_assert_eq(unlink(map_path), 0);
	look_after(11);
	cr_expect_str_eq(name(0x5000), "n", "what was read of the file that is gone remains");
	put(map_path, O_EXCL, "7000 100 another file\n8000 100 that is longer than that one was\n");
	look_after(11);
	cr_expect_str_eq(name(0x5000), "");
	cr_expect_str_eq(name(0x8000), "that is longer than that one was");
}

/* The more often it is, the longer it waits; not when it is only once in a while. */
Test(jit, who_rewrites_all_the_time_waits)
{
	static const unsigned waits[] = {5, 10, 20, 40, 80, 160, 320, 600, 600};

	put(map_path, 0, "1000 100 first\n");
	look(-1);
	for (unsigned i = 0; i < ARRAY_SIZE(waits); i++) {
		char text[64];

		snprintf(text, sizeof text, "1000 100 %u\n2000 100 more %0*u\n", i, i + 1, 0);
		put(map_path, O_TRUNC, text);
		look(-1);
		cr_expect_str_neq(name(0x2000), "");
		cr_expect_eq(stats().n_rewritten, i + 1);
		now_ns += (waits[i] - 1) * NS_PER_SEC;
		cr_expect(put_off(), "%u", i);
		now_ns += 2 * NS_PER_SEC;
	}
	now_ns += 1200 * NS_PER_SEC;
	put(map_path, O_TRUNC, "1000 100 once in a while\n");
	look(-1);
	cr_expect(put_off());
	look_after(6);
	cr_expect_str_eq(name(0x1000), "once in a while");
}

/* Reads until nothing may be read any more. Returns the MiB that were read in all. */
static uint64_t read_all(void)
{
	unsigned n = 0;

	while (!put_off() && n++ < 100)
		look(-1);
	return (stats().bytes_read + (1u << 19)) >> 20;
}

/* A process reads 8 MiB in a job, 32 MiB at once, and then 16 MiB a minute. */
Test(jit, bytes_are_a_budget)
{
	put(map_path, 0, "1000 100 one\n");
	cr_assert_eq(truncate(map_path, 200 << 20), 0);
	look(-1);
	cr_expect_eq((stats().bytes_read + (1u << 19)) >> 20, 8);
	cr_expect_eq(read_all(), 32);
	now_ns += 60 * NS_PER_SEC;
	cr_expect_eq(read_all(), 48);
	cr_expect_str_eq(name(0x1000), "one");
}

/* An unchanged file is not read at all. */
Test(jit, what_has_not_grown_is_not_read)
{
	put(map_path, 0, "1000 100 one\n");
	look(-1);
	cr_expect_eq(stats().bytes_read, 13);
	look(-1);
	cr_expect_eq(stats().bytes_read, 13);
	put(map_path, O_APPEND, "2000 100 two\n");
	look(-1);
	cr_expect_eq(stats().bytes_read, 26);
}

/* The file has more entries than a builder holds. */
Test(jit, long_map)
{
	_cleanup_fclose_ FILE *f = fopen(map_path, "we");
	unsigned n = JIT_PENDING_MAX * 2 + 7;

	for (unsigned i = 0; i < n; i++)
		fprintf(f, "%x 10 f%u\n", 0x100000 + i * 16, i);
	cr_assert_eq(fflush(f), 0);
	symbol_jit_free(jit);
	cr_assert_eq(symbol_jit_new(&jit, 64 << 20), 0);
	look(-1);
	cr_expect_str_eq(name(0x100000), "f0");
	cr_expect_str_eq(name(0x100000 + (n - 1) * 16), "f131078");
	cr_expect_eq(stats().n_cut, 0);
}

Test(jit, dump_before_map)
{
	_cleanup_close_ int fd = memfd_create("jit-1.dump", MFD_CLOEXEC);
	struct dump d = {0};

	put(map_path, 0, "1000 100 map\n2000 100 map too\n");
	dump_header(&d, 0);
	dump_load(&d, 0x1000, 0x8000, "dump"); /* the code of the record is not completely written yet */
	cr_assert_eq(write(fd, d.b.data, d.b.len - 100), (ssize_t)d.b.len - 100);
	look(fd);
	cr_expect_str_eq(name(0x1000), "dump");
	cr_expect_str_eq(name(0xb000), "");
	cr_assert_eq(write(fd, d.b.data + d.b.len - 100, 100), 100);
	buf_fini(&d.b);
	d = (struct dump){0};
	dump_load(&d, 0x20000, 0x10, "more");
	cr_assert_eq(write(fd, d.b.data, d.b.len), (ssize_t)d.b.len);
	look(fd);
	cr_expect_str_eq(name(0x1000), "dump");
	cr_expect_str_eq(name(0x20000), "more");
	look(-1); /* the jitdump file stays open, so later jobs need no descriptor */
	cr_expect_str_eq(name(0x20000), "more");
	buf_fini(&d.b);
}

Test(jit, a_file_that_is_no_jitdump)
{
	_cleanup_close_ int fd = memfd_create("jit-1.dump", MFD_CLOEXEC);

	put(map_path, 0, "1000 100 map\n");
	cr_assert_eq(ftruncate(fd, 100000), 0);
	look(fd);
	look(fd);
	cr_expect_str_eq(name(0x1000), "map");
	cr_expect_eq(stats().n_failed, 1, "it is not tried again");
}

static void expect_refused(enum jit_refusal why, const char *what)
{
	uint64_t before = stats().n_refused[why];

	look(-1);
	cr_expect_eq(stats().n_refused[why], before + 1, "%s", what);
	cr_expect_str_eq(name(0x1000), "", "%s", what);
}

/* Whatever another user put in the place of the map, the job neither blocks on it nor reads it. */
Test(jit, files_of_others_are_refused)
{
	char other[80];
	struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

	snprintf(other, sizeof other, "%s.other", map_path);
	cr_assert_eq(mkfifo(map_path, 0600), 0);
	expect_refused(JIT_NOT_REGULAR, "a FIFO");
	cr_assert_eq(unlink(map_path), 0);
	put(other, 0, "1000 100 elsewhere\n");
	cr_assert_eq(symlink(other, map_path), 0);
	expect_refused(JIT_NOT_REGULAR, "a link");
	cr_assert_eq(unlink(map_path), 0);
	cr_assert_eq(link(other, map_path), 0);
	expect_refused(JIT_LINKED, "a hard link");
	cr_assert_eq(unlink(map_path), 0);
	cr_assert_eq(mkdir(map_path, 0700), 0);
	expect_refused(JIT_NOT_REGULAR, "a folder");
	cr_assert_eq(rmdir(map_path), 0);
	cr_assert_eq(rename(other, map_path), 0);
	cr_assert_eq(utimensat(AT_FDCWD, map_path, old, 0), 0);
	expect_refused(JIT_OLD, "written by an earlier process with the same pid");
	cr_assert_eq(utimensat(AT_FDCWD, map_path, NULL, 0), 0);
	if (getuid() == 0) {
		cr_assert_eq(chown(map_path, 4321, 4321), 0);
		expect_refused(JIT_FOREIGN, "another user's");
		cr_assert_eq(chown(map_path, 0, 0), 0);
	}
	look(-1);
	cr_expect_str_eq(name(0x1000), "elsewhere");
}

/* Our own processes' /tmp is not visible to others. */
static void leave_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		cr_skip_test("no mount namespace can be made: %s", strerror(errno));
}

/* A file that is mounted on the map's name is refused, also one of the same file system and owner. */
Test(jit, a_mounted_file_is_refused)
{
	char other[80];

	leave_mounts();
	snprintf(other, sizeof other, "%s.other", map_path);
	put(other, 0, "1000 100 elsewhere\n");
	put(map_path, 0, "");
	cr_assert_eq(mount(other, map_path, NULL, MS_BIND, NULL), 0);
	expect_refused(JIT_MOUNTED, "a bind mount");
	cr_assert_eq(umount2(map_path, MNT_DETACH), 0);
	cr_assert_eq(rename(other, map_path), 0);
	look(-1);
	cr_expect_str_eq(name(0x1000), "elsewhere");
}

/* The folder may be a file system of its own, or a link to another folder. */
Test(jit, tmp_may_be_a_mount)
{
	leave_mounts();
	cr_assert_eq(mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m"), 0);
	put(map_path, 0, "1000 100 one\n");
	look(-1);
	cr_expect_str_eq(name(0x1000), "one");
}

static void become(uid_t real, uid_t effective)
{
	cr_assert_eq(setresuid(real, effective, effective), 0);
	cr_assert_eq(prctl(PR_SET_DUMPABLE, 1), 0);
}

/* A process gets the files of its own user, and not those of root, although root could read them for it. */
Test(jit, files_of_root_are_for_processes_of_root)
{
	_cleanup_close_ int dump = memfd_create("jit-1.dump", MFD_CLOEXEC);
	struct dump d = {0};

	if (getuid() != 0)
		cr_skip_test("needs root");
	dump_header(&d, 0);
	dump_load(&d, 0x1000, 0x10, "secret");
	cr_assert_eq(write(dump, d.b.data, d.b.len), (ssize_t)d.b.len);
	buf_fini(&d.b);
	leave_mounts();
	cr_assert_eq(mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m"), 0); /* we cannot remove root's file */
	put(map_path, 0, "1000 100 secret\n");
	cr_assert_eq(seteuid(4321), 0); /* a program that changes between users */
	cr_assert_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	expect_refused(JIT_FOREIGN, "root's, and the process is root's in part");
	symbol_jit_free(jit);
	cr_assert_eq(symbol_jit_new(&jit, 1 << 20), 0);
	cr_assert_eq(seteuid(0), 0);
	become(4321, 4321);
	expect_refused(JIT_FOREIGN, "root's");
	look(dump);
	cr_expect_str_eq(name(0x1000), "");
	cr_expect_eq(stats().n_refused[JIT_FOREIGN], 3);
}

/* A sparse file of zeros contains no line; each job reads a bounded part of it. */
Test(jit, huge_file)
{
	put(map_path, 0, "1000 100 one\n");
	cr_assert_eq(truncate(map_path, (off_t)100 << 30), 0);
	look(-1);
	cr_expect_str_eq(name(0x1000), "one");
	cr_expect_eq(stats().n_bad, 1);
	cr_expect_eq(stats().n_cut, 0);
}

Test(jit, execve_discards_the_names)
{
	struct symbol_jit_job *job;

	put(map_path, 0, "1000 100 one\n");
	look(-1);
	self->exec_ns = clock_mono_ns();
	cr_expect_str_eq(name(0x1000), "");
	cr_expect_eq(symbol_jit_note(jit, self, clock_mono_ns()), 1);
	cr_expect_eq(symbol_jit_job_new(&job, jit, self, -1, now_ns), 0);
	cr_expect_not(symbol_jit_idle(jit, self));
	symbol_jit_complete(jit, job); /* the job did not run */
	cr_expect(symbol_jit_idle(jit, self));
	look(-1);
	cr_expect_str_eq(name(0x1000), "one", "written less than a second before execve");
}

Test(jit, forgotten_and_evicted)
{
	struct symbol_jit_job *job;

	put(map_path, 0, "1000 100 one\n");
	symbol_jit_free(jit);
	cr_assert_eq(symbol_jit_new(&jit, 16), 0);
	look(-1);
	cr_expect_eq(stats().n_evicted, 1);
	cr_expect_eq(stats().bytes, 0);
	look(-1);
	cr_expect_eq(stats().n_evicted, 2, "read again, from the start");
	symbol_jit_sweep(jit, UINT64_MAX);
	cr_expect_eq(stats().n_processes, 1, "it lives");
	process_ref(self);
	proc_table_end(table, self, clock_mono_ns());
	symbol_jit_sweep(jit, UINT64_MAX);
	cr_expect_eq(stats().n_processes, 0);
	cr_expect_eq(symbol_jit_job_new(&job, jit, self, -1, now_ns), -ENOENT);
	cr_expect_eq(symbol_jit_note(jit, self, 1), -ESRCH);
	process_unref(self);
}
