// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/proc/tree.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "agent/base/buf.h"
#include "agent/proc/maps.h"
#include "agent/proc/stat.h"

/* The lines that a callback got. */
struct seen {
	size_t n, stop_after, longest_path;
	int stop_with; /* 0: -EXFULL */
	uint64_t find, found_start;
	uint64_t last_end;
	bool ascending;
	char path[256];
	bool deleted, escaped;
	char *decoded;
	struct child *kill;
};

static int watch(const struct proc_maps_line *line, void *data)
{
	struct seen *s = data;

	cr_assert(line->executable);
	s->n++;
	s->ascending &= line->start >= s->last_end;
	s->last_end = line->end;
	if (line->path_len > s->longest_path)
		s->longest_path = line->path_len;
	if (s->find >= line->start && s->find < line->end) {
		s->found_start = line->start;
		s->deleted = line->deleted;
		s->escaped = line->escaped;
		snprintf(s->path, sizeof s->path, "%.*s", (int)line->path_len, line->path ? line->path : "");
		free(s->decoded);
		s->decoded = NULL;
		if (line->path)
			cr_assert_eq(proc_maps_path(line, &s->decoded), 0);
	}
	if (s->kill) {
		child_stop(s->kill);
		s->kill = NULL;
	}
	if (s->n != s->stop_after)
		return 0;
	return s->stop_with ? s->stop_with : -EXFULL;
}

Test(maps_read, reads_executable_mappings_only)
{
	struct seen s = {.ascending = true};
	struct tree t;

	tree_make(&t);
	tree_text(&t, "1/maps",
		  "1000-2000 r--p 0 0:1 5 /a\n2000-3000 r-xp 1000 0:1 5 /a\n3000-4000 rw-p 0 0:0 0 \n"
		  "4000-5000 rwxp 0 0:0 0 \n5000-6000 --xp 0 0:0 0");
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 0);
	cr_assert_eq(s.n, 3);
	cr_assert(s.ascending);
	s = (struct seen){.stop_after = 2};
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), -EXFULL);
	cr_assert_eq(s.n, 2);
	tree_remove(&t);
}

/* Results of the callback are returned unchanged, even if they are errors of the reader, too. */
Test(maps_read, stops_with_the_value_of_the_callback)
{
	static const int values[] = {-ENOENT, -ESRCH, -ECANCELED, -EINVAL, -1000};
	struct tree t;

	tree_make(&t);
	tree_text(&t, "1/maps", "1000-2000 r-xp 0 0:1 5 /a\n2000-3000 r-xp 1000 0:1 5 /a\n");
	tree_text(&t, "2/maps", "");
	tree_text(&t, "2/task/3/maps", "1000-2000 r-xp 0 0:1 5 /a\n2000-3000 r-xp 1000 0:1 5 /a\n");
	tree_text(&t, "2/task/4/maps", "1000-2000 r-xp 0 0:1 5 /a\n2000-3000 r-xp 1000 0:1 5 /a\n");
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		for (uint32_t pid = 1; pid <= 2; pid++) {
			struct seen s = {.stop_after = 1, .stop_with = values[i]};

			cr_expect_eq(proc_maps_read(t.fd, pid, watch, &s), values[i]);
			cr_expect_eq(s.n, 1);
		}
	}
	tree_remove(&t);
}

static void append_line(struct buf *b, unsigned i, size_t path_len)
{
	cr_assert_eq(buf_printf(b, "%x000-%x000 r-xp 0 0:1 5 /", i, i + 1), 0);
	for (size_t k = 1; k < path_len; k++)
		cr_assert_eq(buf_putc(b, 'p'), 0);
	cr_assert_eq(buf_putc(b, '\n'), 0);
}

Test(maps_read, takes_long_paths_and_drops_what_is_longer)
{
	static const size_t lengths[] = {10,
					 4096,
					 5000,
					 20000,
					 PROC_MAPS_LINE_MAX - 26,
					 PROC_MAPS_LINE_MAX,
					 3 * PROC_MAPS_LINE_MAX + 5,
					 12};
	_cleanup_buf_ struct buf text = {0};
	struct seen s = {.ascending = true};
	struct tree t;

	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++)
		append_line(&text, i + 1, lengths[i]);
	tree_make(&t);
	tree_file(&t, "1/maps", text.data, text.len);
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 2);
	cr_assert_eq(s.n, ARRAY_SIZE(lengths) - 2);
	cr_assert_eq(s.longest_path, PROC_MAPS_LINE_MAX - 26);
	/* The same without a newline: too long, and never complete. */
	tree_file(&t, "1/maps", text.data, text.len - 40);
	s = (struct seen){0};
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 2);
	tree_remove(&t);
}

Test(maps_read, counts_malformed_lines_and_goes_on)
{
	struct seen s = {0};
	struct tree t;

	tree_make(&t);
	tree_text(&t, "1/maps", "rubbish\n1000-2000 r-xp 0 0:0 0\n\n2000-3000 r-xp 0 0:0 0 /a\n3000-");
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 3);
	cr_assert_eq(s.n, 2);
	tree_remove(&t);
}

Test(maps_read, streams_130000_mappings)
{
	enum { N = 130000 };
	_cleanup_buf_ struct buf text = {0};
	struct seen s = {.ascending = true};
	struct tree t;

	for (unsigned i = 0; i < N; i++)
		append_line(&text, i + 1, 1 + i % 90);
	tree_make(&t);
	tree_file(&t, "1/maps", text.data, text.len);
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 0);
	cr_assert_eq(s.n, N);
	cr_assert(s.ascending);
	tree_remove(&t);
}

Test(maps_read, a_process_without_memory_has_not_ended)
{
	struct seen s = {0};
	struct tree t;

	tree_make(&t);
	tree_dir(&t, "1");
	tree_text(&t, "3/maps", "");
	cr_assert_eq(proc_maps_read(t.fd, 1, watch, &s), 0);
	cr_assert_eq(proc_maps_read(t.fd, 2, watch, &s), -ESRCH);
	cr_assert_eq(proc_maps_read(t.fd, 3, watch, &s), 0);
	tree_text(&t, "3/task/3/maps", "");
	tree_text(&t, "3/task/4/maps", "1000-2000 r-xp 0 0:0 0\n");
	cr_assert_eq(proc_maps_read(t.fd, 3, watch, &s), 0);
	cr_assert_eq(s.n, 1);
	tree_remove(&t);
}

/* Maps a page of `fd` executable; the kernel would join neighbours, so the caller leaves gaps. */
static void *map_page(int fd)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

Test(maps_read, finds_this_program_and_a_file_with_a_newline)
{
	static const char page[4096];
	_cleanup_close_ int proc_fd = proc_root(), fd = -1;
	struct seen s = {.find = (uint64_t)(uintptr_t)map_page, .ascending = true};
	char exe[256] = "", name[128];
	struct tree t;
	void *p;

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof exe - 1), 0);
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)getpid(), watch, &s), 0);
	cr_assert(s.ascending);
	cr_assert_str_eq(s.path, exe);

	tree_make(&t);
	tree_file(&t, "a\nb", page, sizeof page);
	fd = openat(t.fd, "a\nb", O_RDONLY | O_CLOEXEC);
	p = map_page(fd);
	s.find = (uint64_t)(uintptr_t)p;
	s.last_end = 0;
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)getpid(), watch, &s), 0);
	cr_assert_eq(s.found_start, s.find);
	cr_assert(s.escaped);
	snprintf(name, sizeof name, "%s/a\nb", t.path);
	cr_assert_str_eq(s.decoded, name);
	cr_assert_not(s.deleted);
	unlinkat(t.fd, "a\nb", 0);
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)getpid(), watch, &s), 0);
	cr_assert(s.deleted);
	cr_assert_str_eq(s.decoded, name);
	munmap(p, 4096);
	free(s.decoded);
	tree_remove(&t);
}

static int map_many(void *data)
{
	int fd = memfd_create("many", MFD_CLOEXEC);
	char *area;

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return -errno;
	area = mmap(NULL, 2 * 4096 * (size_t)*(int *)data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return -errno;
	for (int i = 0; i < *(int *)data; i++)
		if (mmap(area + 2 * 4096 * (size_t)i, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
			 fd, 0) == MAP_FAILED)
			return -errno;
	return 0;
}

Test(maps_read, reads_a_real_process_with_many_mappings_and_survives_its_end)
{
	_cleanup_close_ int proc_fd = proc_root();
	int many = 20000;
	struct child few = child_start(NULL, NULL), c = child_start(map_many, &many);
	struct seen s = {.ascending = true}, base = {.ascending = true};
	int r;

	cr_assert_eq(c.ready, 0, "%s", strerror(-c.ready));
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)few.pid, watch, &base), 0);
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)c.pid, watch, &s), 0);
	cr_assert(s.ascending);
	cr_assert_eq(s.n, base.n + (size_t)many);
	child_stop(&few);

	s = (struct seen){.kill = &c};
	r = proc_maps_read(proc_fd, (uint32_t)c.pid, watch, &s);
	cr_assert(r == 0 || r == -ESRCH, "%d", r);
	cr_assert_lt(s.n, base.n + (size_t)many);
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)c.pid, watch, &s), -ESRCH);
}

static void *wait_for_main_to_end(void *data)
{
	struct proc_stat stat = {0};
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	while (proc_stat_read(fd, (uint32_t)getpid(), &stat) == 0 && stat.state != 'Z')
		sched_yield();
	if (write(*(int *)data, &r, sizeof r) != sizeof r)
		_exit(1);
	for (;;)
		pause();
}

Test(maps_read, come_from_another_thread_when_the_main_one_ended)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct seen s = {0};
	struct child c;
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, wait_for_main_to_end, &fds[1]) != 0)
			_exit(1);
		pthread_exit(NULL);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &c.ready, sizeof c.ready), (ssize_t)sizeof c.ready);
	close(fds[0]);
	cr_assert_eq(proc_maps_read(proc_fd, (uint32_t)c.pid, watch, &s), 0);
	cr_assert_gt(s.n, 0);
	child_stop(&c);
}

Test(maps_read, kernel_threads_have_none)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_stat stat;
	struct seen s = {0};

	if (proc_stat_read(proc_fd, 2, &stat) < 0 || !stat.kernel_thread)
		cr_skip("pid 2 is not a kernel thread in this PID namespace");
	cr_assert_eq(proc_maps_read(proc_fd, 2, watch, &s), 0);
	cr_assert_eq(s.n, 0);
}

static int count_kinds(const struct proc_maps_line *line, void *data)
{
	unsigned *n = data; /* not executable, executable */

	n[line->executable]++;
	return 0;
}

Test(maps_read, all_mappings_on_request)
{
	unsigned n[2] = {0};
	struct tree t;

	tree_make(&t);
	tree_text(
		&t, "1/maps",
		"00400000-00401000 r--p 00000000 08:01 7 /bin/x\n00401000-00402000 r-xp 00001000 08:01 7 "
		"/bin/x\n"
		"00402000-00403000 r--p 00002000 08:01 7 /bin/x\n00403000-00404000 rwxp 00000000 00:00 0\n");
	cr_expect_eq(proc_maps_read_all(t.fd, 1, count_kinds, n), 0);
	cr_expect(n[0] == 2 && n[1] == 2, "%u, %u", n[0], n[1]);
	cr_expect_eq(proc_maps_read(t.fd, 1, count_kinds, n), 0);
	cr_expect(n[0] == 2 && n[1] == 4, "%u, %u", n[0], n[1]);
	tree_remove(&t);
}
