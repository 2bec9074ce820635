// SPDX-License-Identifier: Apache-2.0
/*
 * Tests the kernel's own side-band. Needs the permission to open perf events on every CPU; skipped, with the
 * reason, without it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/sideband.h"

#define PROGRAM "/bin/true"
#define EVENTS_MAX 256

/* The events of the process under test, in the order in which they arrived. */
struct seen {
	uint32_t pid;
	uint64_t last_ns;
	bool ascending;
	unsigned n;
	struct {
		struct sideband_event event;
		char name[256];
	} events[EVENTS_MAX];
};

DEFINE_CLEANUP(struct sideband *, sideband_free)
#define _cleanup_sideband_ _cleanup_(sideband_free_p)

static uint64_t lost_total(const struct sideband *s)
{
	uint64_t lost[SIDEBAND_LOSSES_N], n = 0;

	sideband_lost(s, lost);
	for (int i = 0; i < SIDEBAND_LOSSES_N; i++)
		n += lost[i];
	return n;
}

static void on_event(const struct sideband_event *e, void *data)
{
	struct seen *s = data;

	s->ascending &= e->time_ns >= s->last_ns;
	s->last_ns = e->time_ns;
	if (e->pid != s->pid || s->n == EVENTS_MAX)
		return;
	s->events[s->n].event = *e;
	snprintf(s->events[s->n].name, sizeof s->events[s->n].name, "%s", e->name);
	s->n++;
}

static struct sideband *open_or_skip(void)
{
	struct sideband *s = NULL;
	int r = sideband_new(&s);

	if (r == -EPERM || r == -EACCES || r == -ENOSYS)
		cr_skip_test("perf events on every CPU are not permitted: %s", strerror(-r));
	cr_assert_eq(r, 0, "%s", strerror(-r));
	return s;
}

/* Index of the first event from `from` on that is of this kind and whose name ends like that. -1: none. */
static int find(const struct seen *s, int from, enum sideband_kind kind, const char *suffix)
{
	for (unsigned i = (unsigned)from; from >= 0 && i < s->n; i++) {
		size_t len = strlen(s->events[i].name), n = strlen(suffix);

		if (s->events[i].event.kind == kind && len >= n &&
		    strcmp(s->events[i].name + len - n, suffix) == 0)
			return (int)i;
	}
	return -1;
}

static void expect_mapping_of(const struct sideband_event *e, const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	cr_expect(e->mmap.executable);
	cr_expect_gt(e->mmap.len, 0);
	cr_expect_not(e->mmap.has_build_id, "what proves the file comes in its place");
	cr_expect_eq(e->mmap.inode, st.st_ino);
	cr_expect_eq(e->mmap.dev_major, major(st.st_dev));
	cr_expect_eq(e->mmap.dev_minor, minor(st.st_dev));
}

/* The whole life of a short process (fork, exec, mappings, exit) is in order, even if it changes CPUs. */
Test(sideband, life_of_a_process)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;
	struct pollfd ready = {.fd = sideband_fd(s), .events = POLLIN};
	uint64_t before = clock_mono_ns();
	int status, fork_at, exec_at, map_at, exit_at;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0) {
		execl(PROGRAM, PROGRAM, (char *)NULL);
		_exit(127);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_expect_eq(poll(&ready, 1, 120000), 1, "readable when records wait");
	cr_expect(sideband_pending(s));
	seen = (struct seen){.pid = (uint32_t)child, .ascending = true};
	cr_assert_gt(sideband_drain(s, on_event, &seen), 0);
	cr_expect(seen.ascending, "oldest first over all CPUs");
	fork_at = find(&seen, 0, SIDEBAND_FORK, "");
	exec_at = find(&seen, fork_at, SIDEBAND_COMM, "true");
	map_at = find(&seen, exec_at, SIDEBAND_MMAP, "/true");
	exit_at = find(&seen, map_at, SIDEBAND_EXIT, "");
	cr_assert(fork_at >= 0 && exec_at >= 0 && map_at >= 0 && exit_at >= 0,
		  "fork %d exec %d map %d exit %d", fork_at, exec_at, map_at, exit_at);
	cr_expect_eq(seen.events[fork_at].event.ppid, (uint32_t)getpid());
	cr_expect_eq(seen.events[fork_at].event.tid, (uint32_t)child);
	cr_expect(seen.events[exec_at].event.exec);
	expect_mapping_of(&seen.events[map_at].event, PROGRAM);
	cr_expect_geq(seen.events[fork_at].event.time_ns, before, "the clock is CLOCK_MONOTONIC");
	cr_expect_leq(seen.events[exit_at].event.time_ns, clock_mono_ns());
	cr_expect_eq(exit_at, (int)seen.n - 1, "nothing after the end");
}

/* Pids that were forked and have not ended. */
struct lives {
	uint32_t parent;
	uint8_t forked[1 << 22]; /* by pid, below the kernel's PID_MAX_LIMIT */
	unsigned n_ended, n_unborn;
};

static void on_life(const struct sideband_event *e, void *data)
{
	struct lives *l = data;

	if (e->ppid != l->parent || e->tid != e->pid || e->pid >= sizeof l->forked)
		return;
	if (e->kind == SIDEBAND_FORK)
		l->forked[e->pid] = 1;
	if (e->kind != SIDEBAND_EXIT)
		return;
	l->n_unborn += !l->forked[e->pid];
	l->n_ended++;
	l->forked[e->pid] = 0;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof set, &set);
}

/* Forked on one CPU, ended on another. */
static void many_lives(int n, int n_cpus)
{
	for (int i = 0; i < n; i++) {
		pid_t child;

		run_on(i % n_cpus);
		child = fork();
		if (child == 0) {
			run_on((i + 1) % n_cpus);
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
	}
	_exit(0);
}

/* Rings are read while CPUs write: no event comes before its cause, which another CPU wrote. */
Test(sideband, no_end_before_its_beginning)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct lives lives;
	int status, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0)
		many_lives(500, cpus);
	lives.parent = (uint32_t)child;
	do
		cr_assert_geq(sideband_drain(s, on_life, &lives), 0);
	while (waitpid(child, &status, WNOHANG) == 0);
	cr_assert_geq(sideband_drain(s, on_life, &lives), 0);
	cr_expect_geq(lives.n_ended, 400);
	cr_expect_eq(lives.n_unborn, 0, "%u of %u", lives.n_unborn, lives.n_ended);
}

static void *nothing(void *data)
{
	return data;
}

/* A thread is a fork within its process; executable memory without a file has neither inode nor build id. */
Test(sideband, thread_and_anonymous_memory)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;
	pthread_t thread;
	int at;
	void *mem;

	cr_assert_eq(pthread_create(&thread, NULL, nothing, NULL), 0);
	pthread_join(thread, NULL);
	mem = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(mem, MAP_FAILED);
	seen = (struct seen){.pid = (uint32_t)getpid(), .ascending = true};
	cr_assert_gt(sideband_drain(s, on_event, &seen), 0);
	at = find(&seen, 0, SIDEBAND_FORK, "");
	cr_assert_geq(at, 0);
	cr_expect_eq(seen.events[at].event.ppid, (uint32_t)getpid());
	cr_expect_neq(seen.events[at].event.tid, (uint32_t)getpid());
	for (at = find(&seen, 0, SIDEBAND_MMAP, ""); at >= 0; at = find(&seen, at + 1, SIDEBAND_MMAP, ""))
		if (seen.events[at].event.mmap.start == (uintptr_t)mem)
			break;
	cr_assert_geq(at, 0, "the mapping was reported");
	cr_expect_eq(seen.events[at].event.mmap.len, 8192);
	cr_expect_not(seen.events[at].event.mmap.has_build_id);
	cr_expect_eq(seen.events[at].event.mmap.inode, 0);
	munmap(mem, 8192);
}

static unsigned count_at(const struct seen *seen, const void *mem)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seen->n; i++)
		n += seen->events[i].event.kind == SIDEBAND_MMAP &&
		     seen->events[i].event.mmap.start == (uintptr_t)mem;
	return n;
}

static void map_again(void *mem)
{
	cr_assert_eq(mmap(mem, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		     mem);
}

static void drain_mine(struct sideband *s, struct seen *seen)
{
	*seen = (struct seen){.pid = (uint32_t)getpid(), .ascending = true};
	cr_assert_geq(sideband_drain(s, on_event, seen), 0);
	cr_expect(seen->ascending);
}

#define PIECES 6 /* every other one, because neighbours would be joined to one mapping */

/* Ignored memory is not reported until another event of the process is. */
Test(sideband, ignored)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;
	uint8_t *mem = mmap(NULL, PIECES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mem, MAP_FAILED);
	sideband_ignore(s, (uint32_t)getpid(), (uintptr_t)mem, (uintptr_t)mem + 3 * 4096);
	map_again(mem);
	map_again(mem + 2 * 4096);
	drain_mine(s, &seen);
	cr_expect_eq(count_at(&seen, mem) + count_at(&seen, mem + 2 * 4096), 0);
	map_again(mem + 4 * 4096); /* beyond the ignored range */
	map_again(mem);
	drain_mine(s, &seen);
	cr_expect_eq(count_at(&seen, mem + 4 * 4096), 1);
	cr_expect_eq(count_at(&seen, mem), 1);
	munmap(mem, PIECES * 4096);
}

/* The same while one drain runs, and on another CPU, whose ring is read later or earlier. */
Test(sideband, ignored_until_the_middle_of_a_drain)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;
	int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	uint8_t *mem = mmap(NULL, PIECES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mem, MAP_FAILED);
	for (int first = 0; first < 2; first++) {
		sideband_ignore(s, (uint32_t)getpid(), (uintptr_t)mem, (uintptr_t)mem + 3 * 4096);
		map_again(mem);
		run_on(first % n_cpus);
		map_again(mem + 4 * 4096); /* beyond the ignored range */
		run_on((first + 1) % n_cpus);
		map_again(mem + 2 * 4096);
		drain_mine(s, &seen);
		cr_expect_eq(count_at(&seen, mem), 0);
		cr_expect_eq(count_at(&seen, mem + 4 * 4096), 1);
		cr_expect_eq(count_at(&seen, mem + 2 * 4096), 1);
	}
	munmap(mem, PIECES * 4096);
}

/* The events of several drains exceed the size of a ring, so records wrap around its end at every offset. */
Test(sideband, ignored_without_end)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;
	uint8_t *mem = mmap(NULL, PIECES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mem, MAP_FAILED);
	run_on(0);
	for (int i = 0; i < 20; i++) {
		sideband_ignore(s, (uint32_t)getpid(), (uintptr_t)mem, (uintptr_t)mem + 3 * 4096);
		for (int k = 0; k < 999; k++)
			map_again(mem + k % 2 * 2 * 4096);
		drain_mine(s, &seen);
		cr_expect_eq(count_at(&seen, mem) + count_at(&seen, mem + 2 * 4096), 0);
		map_again(mem + 4 * 4096);
		drain_mine(s, &seen);
		cr_expect_eq(count_at(&seen, mem + 4 * 4096), 1);
	}
	cr_expect_eq(lost_total(s), 0);
	munmap(mem, PIECES * 4096);
}

/*
 * Runs as process 1 of a PID namespace: reports when it reads events, and afterwards how many events of
 * others it got.
 */
static _Noreturn void listen_inside(int say, int hear)
{
	struct sideband *s;
	static struct seen seen;
	char c = 0;

	if (sideband_new(&s) < 0 || write(say, &c, 1) != 1 || read(hear, &c, 1) != 1)
		_exit(100);
	seen = (struct seen){.pid = 0, .ascending = true};
	if (sideband_drain(s, on_event, &seen) < 0)
		_exit(101);
	_exit((int)seen.n);
}

Test(sideband, other_namespace)
{
	int inside[2], outside[2], status;
	pid_t child;
	void *mem;
	char c;

	sideband_free(open_or_skip());
	cr_assert_eq(pipe(inside), 0);
	cr_assert_eq(pipe(outside), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(errno == EPERM ? 99 : 98);
		child = fork();
		if (child == 0)
			listen_inside(inside[1], outside[0]);
		close(inside[1]);
		_exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 97);
	}
	close(inside[1]);
	if (read(inside[0], &c, 1) == 1) {
		mem = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_expect_neq(mem, MAP_FAILED);
		munmap(mem, 4096);
		cr_assert_eq(write(outside[1], &c, 1), 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 99)
		cr_skip_test("a PID namespace of its own is not permitted");
	cr_expect_eq(WEXITSTATUS(status), 0, "%d events without a pid, or an error", WEXITSTATUS(status));
}

/* More records than a ring holds: the loss is counted, and later events arrive. */
Test(sideband, overflow)
{
	_cleanup_sideband_ struct sideband *s = open_or_skip();
	static struct seen seen;

	cpu_set_t here;

	CPU_ZERO(&here); /* the loss is reported in the ring of the CPU on which it happened */
	CPU_SET((size_t)sched_getcpu(), &here);
	cr_assert_eq(sched_setaffinity(0, sizeof here, &here), 0);
	seen = (struct seen){.pid = (uint32_t)getpid(), .ascending = true};
	for (int i = 0; i < 20000; i++) {
		void *mem = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		cr_assert_neq(mem, MAP_FAILED);
		munmap(mem, 4096);
	}
	cr_assert_gt(sideband_drain(s, on_event, &seen), 0);
	/* The kernel reports the number of lost records with the next record that fits. */
	for (int i = 0; i < 100 && lost_total(s) == 0; i++) {
		void *mem = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(mem, 4096);
		cr_assert_geq(sideband_drain(s, on_event, &seen), 0);
	}
	cr_expect_gt(lost_total(s), 0);
}
