// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/proc/tree.h"

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/proc/stat.h"

/* Fields 3 to 24 after the name: ppid 7, flags 4194560, 3 threads, start 5025. */
#define REST " S 7 12 12 0 -1 4194560 113 0 0 0 1 2 0 0 20 0 3 0 5025 1 2\n"

Test(stat, parses_names_of_any_bytes)
{
	static const struct {
		const char *text, *comm;
	} cases[] = {
		{"12 (bash)" REST, "bash"},
		{"12 (a) S 9 9 (b)" REST, "a) S 9 9 (b"},
		{"12 ())" REST, ")"},
		{"12 ()" REST, ""},
		{"12 (new\nline here)" REST, "new\nline here"},
		{"12 (kworker/u8:3+flush-259:0)" REST, "kworker/u8:3+flush-259:0"},
		{"12 (0123456789012345678901234567890123456789012345678901234567890123456789)" REST,
		 "012345678901234567890123456789012345678901234567890123456789012"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_stat s;

		cr_assert_eq(proc_stat_parse(cases[i].text, strlen(cases[i].text), &s), 0, "%s",
			     cases[i].text);
		cr_expect_str_eq(s.comm, cases[i].comm);
		cr_expect_eq(s.state, 'S');
		cr_expect_eq(s.ppid, 7);
		cr_expect_eq(s.flags, 4194560);
		cr_expect_not(s.kernel_thread);
		cr_expect_eq(s.num_threads, 3);
		cr_expect_eq(s.start_time_ticks, 5025);
	}
}

Test(stat, knows_kernel_threads_and_large_numbers)
{
	static const char text[] =
		"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 18446744073709551615";
	struct proc_stat s;

	cr_assert_eq(proc_stat_parse(text, sizeof text - 1, &s), 0);
	cr_assert(s.kernel_thread);
	cr_assert_eq(s.ppid, 0);
	cr_assert_eq(s.start_time_ticks, UINT64_MAX);
}

Test(stat, refuses_what_is_no_stat)
{
	static const char *const cases[] = {
		"",
		"12",
		"12 (bash",
		"12 bash)",
		")(",
		"12 (bash)",
		"12 (bash) ",
		"12 (bash) S",
		("12 (bash)S 7" REST),
		"12 (bash) S x 12 12 0 -1 4194560 113 0 0 0 1 2 0 0 20 0 3 0 5025",
		"12 (bash) S 7 12 12 0 -1 4194560 113 0 0 0 1 2 0 0 20 0 3 0",
		"12 (bash) S 7 12 12 0 - 4194560 113 0 0 0 1 2 0 0 20 0 3 0 5025",
		"12 (bash) S 7 12 12 0 -1 4294967296 113 0 0 0 1 2 0 0 20 0 3 0 5025",
		"12 (bash) S 7 12 12 0 -1 4194560 113 0 0 0 1 2 0 0 20 0 3 0 18446744073709551616",
		"12 (bash) S 7  12 12 0 -1 4194560 113 0 0 0 1 2 0 0 20 0 3 0 5025",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_stat s = {.ppid = 99};
		size_t len = strlen(cases[i]);
		_cleanup_free_ char *copy = malloc(len ? len : 1);

		memcpy(copy, cases[i], len);
		cr_expect_eq(proc_stat_parse(copy, len, &s), -EINVAL, "%s", cases[i]);
		cr_expect_eq(s.ppid, 99, "%s: written on failure", cases[i]);
	}
}

static int rename_me(void *data)
{
	return prctl(PR_SET_NAME, data) < 0 ? -errno : 0;
}

Test(stat, reads_a_real_process)
{
	_cleanup_close_ int proc_fd = proc_root();
	uint64_t before = clock_mono_ns(), start, after;
	struct child c = child_start(rename_me, (void *)"a) R 1\n(b");
	char comm[PROC_TASK_COMM_LEN];
	struct proc_stat s;

	after = clock_mono_ns();
	cr_assert_eq(proc_stat_read(proc_fd, (uint32_t)c.pid, &s), 0);
	cr_assert_eq(s.ppid, (uint32_t)getpid());
	cr_assert_str_eq(s.comm, "a) R 1\n(b");
	cr_assert_eq(s.num_threads, 1);
	cr_assert_not(s.kernel_thread);
	start = proc_start_mono_ns(s.start_time_ticks, proc_boot_offset_ns());
	cr_assert(start <= after && start + 10 * NS_PER_MS + 5 * NS_PER_MS >= before, "%lu in [%lu, %lu]",
		  start, before, after);
	cr_assert_eq(proc_comm_read(proc_fd, (uint32_t)c.pid, (uint32_t)c.pid, comm), 0);
	cr_assert_str_eq(comm, "a) R 1\n(b");
	cr_assert_eq(proc_comm_read(proc_fd, (uint32_t)c.pid, (uint32_t)getpid(), comm), -ENOENT);
	child_stop(&c);
	cr_assert_eq(proc_stat_read(proc_fd, (uint32_t)c.pid, &s), -ESRCH);
	cr_assert_eq(proc_comm_read(proc_fd, (uint32_t)c.pid, (uint32_t)c.pid, comm), -ESRCH);
}

Test(stat, start_time_in_monotonic_ns)
{
	static const struct {
		uint64_t ticks, offset_ns, want_ns;
	} cases[] = {
		{0, 0, 0},
		{100, 0, NS_PER_SEC},
		{1, 0, 10 * NS_PER_MS},
		{500, 2 * NS_PER_SEC, 3 * NS_PER_SEC},
		{100, 2 * NS_PER_SEC, 0},
		{UINT64_MAX, 0, 0},
	};

	if (sysconf(_SC_CLK_TCK) != 100)
		cr_skip("the clock tick is not 10 ms here");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(proc_start_mono_ns(cases[i].ticks, cases[i].offset_ns), cases[i].want_ns,
			     "case %zu", i);
}

Test(stat, comm_is_cut_and_keeps_its_bytes)
{
	static const struct {
		const char *file, *want;
	} cases[] = {
		{"bash\n", "bash"},
		{"\n", ""},
		{"", ""},
		{"a\n\n", "a\n"},
		{"no newline", "no newline"},
		{"kworker/u8:3+flush-259:0\n", "kworker/u8:3+fl"},
	};
	char comm[PROC_TASK_COMM_LEN];
	struct tree t;

	tree_make(&t);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		tree_text(&t, "5/task/6/comm", cases[i].file);
		memset(comm, 'x', sizeof comm);
		cr_assert_eq(proc_comm_read(t.fd, 5, 6, comm), 0);
		cr_expect_str_eq(comm, cases[i].want);
	}
	tree_remove(&t);
}

Test(stat, exe_is_a_path_without_deleted)
{
	static const struct {
		const char *link, *want;
	} cases[] = {
		{"/usr/bin/sh", "/usr/bin/sh"},
		{"/tmp/x (deleted)", "/tmp/x"},
		{"/a b", "/a b"},
		{"/x (deleted) (deleted)", "/x (deleted)"},
		{" (deleted)", " (deleted)"},
		{"/memfd:run (deleted)", "/memfd:run"},
	};
	/* container runtimes before they execute a container's program */
	static const char *const nobody[] = {"/", "/memfd:runc_cloned:/proc/self/exe (deleted)",
					     "/proc/self/exe"};
	char *exe = NULL;
	struct tree t;

	tree_make(&t);
	tree_dir(&t, "4");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = NULL;

		tree_link(&t, "3/exe", cases[i].link);
		cr_assert_eq(proc_exe_read(t.fd, 3, &got), 0);
		cr_expect_str_eq(got, cases[i].want);
		cr_assert_eq(unlinkat(t.fd, "3/exe", 0), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(nobody); i++) {
		tree_link(&t, "3/exe", nobody[i]);
		cr_expect_eq(proc_exe_read(t.fd, 3, &exe), -ENOENT, "%s", nobody[i]);
		cr_assert_eq(unlinkat(t.fd, "3/exe", 0), 0);
	}
	cr_assert_eq(proc_exe_read(t.fd, 4, &exe), -ENOENT);
	cr_assert_eq(proc_exe_read(t.fd, 5, &exe), -ESRCH);
	cr_assert_null(exe);
	tree_remove(&t);
}

/* cat with a known environment; it has started, because it echoed a byte. Ends when `in` is closed. */
struct cat {
	pid_t pid;
	int in, out;
};

static struct cat cat_start(const char *path, char *const env[])
{
	int in[2], out[2];
	struct cat c;
	char byte = 'x';

	cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		char *argv[] = {(char *)"cat", NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
			_exit(1);
		execve(path, argv, env);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	c.in = in[1];
	c.out = out[0];
	cr_assert_eq(write(c.in, &byte, 1), 1);
	cr_assert_eq(read(c.out, &byte, 1), 1);
	return c;
}

static void cat_stop(struct cat *c)
{
	int status;

	close(c->in);
	close(c->out);
	cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
}

Test(stat, environment_and_deleted_executable_of_a_real_process)
{
	char *const env[] = {(char *)"A=1", (char *)"OTEL_SERVICE_NAME=check out=1",
			     (char *)"OTEL_SERVICE_NAME=second", (char *)"EMPTY=", NULL};
	_cleanup_close_ int proc_fd = proc_root();
	_cleanup_free_ char *name = NULL, *empty = NULL, *exe = NULL;
	_cleanup_buf_ struct buf command = {0};
	char path[128], *none = NULL;
	struct tree t;
	struct cat c;

	tree_make(&t);
	snprintf(path, sizeof path, "%s/cat copy", t.path);
	cr_assert_eq(buf_printf(&command, "cp /bin/cat '%s'", path), 0);
	cr_assert_eq(system(buf_str(&command)), 0);
	c = cat_start(path, env);
	cr_assert_eq(unlink(path), 0);

	cr_assert_eq(proc_environ_find(proc_fd, (uint32_t)c.pid, "OTEL_SERVICE_NAME", &name), 0);
	cr_expect_str_eq(name, "check out=1");
	cr_assert_eq(proc_environ_find(proc_fd, (uint32_t)c.pid, "EMPTY", &empty), 0);
	cr_expect_str_eq(empty, "");
	cr_expect_eq(proc_environ_find(proc_fd, (uint32_t)c.pid, "OTEL_SERVICE", &none), -ENOENT);
	cr_assert_eq(proc_exe_read(proc_fd, (uint32_t)c.pid, &exe), 0);
	cr_expect_str_eq(exe, path);
	cat_stop(&c);
	cr_expect_eq(proc_environ_find(proc_fd, (uint32_t)c.pid, "A", &none), -ESRCH);
	cr_expect_eq(proc_exe_read(proc_fd, (uint32_t)c.pid, &none), -ESRCH);
	cr_expect_null(none);
	tree_remove(&t);
}

Test(stat, environment_bytes)
{
	static const char env[] = "A=1\0AB=2\0=x\0NOVALUE\0\0AB=3\0LAST=cut";
	static const struct {
		const char *name;
		bool complete;
		int want;
		const char *value;
	} cases[] = {
		{"A", true, 0, "1"},
		{"AB", true, 0, "2"},
		{"LAST", true, 0, "cut"},
		{"LAST", false, -ENOENT, NULL},
		{"NOVALUE", true, -ENOENT, NULL},
		{"", true, -EINVAL, NULL},
		{"A=1", true, -EINVAL, NULL},
		{"LASTER", true, -ENOENT, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = NULL, *copy = malloc(sizeof env - 1);

		memcpy(copy, env, sizeof env - 1);
		cr_expect_eq(proc_environ_parse(copy, sizeof env - 1, cases[i].complete, cases[i].name, &got),
			     cases[i].want, "case %zu", i);
		cr_expect(cases[i].value ? got && strcmp(got, cases[i].value) == 0 : !got, "case %zu", i);
	}
}

Test(stat, environment_is_bounded)
{
	_cleanup_buf_ struct buf env = {0};
	_cleanup_free_ char *first = NULL;
	char *beyond = NULL;
	struct tree t;

	cr_assert_eq(buf_append(&env, "FIRST=1", 8), 0);
	while (env.len < PROC_ENVIRON_MAX)
		cr_assert_eq(buf_append(&env, "FILL=0123456789", 16), 0);
	cr_assert_eq(buf_append(&env, "BEYOND=1", 9), 0);
	tree_make(&t);
	tree_file(&t, "1/environ", env.data, env.len);
	cr_assert_eq(proc_environ_find(t.fd, 1, "FIRST", &first), 0);
	cr_expect_str_eq(first, "1");
	cr_expect_eq(proc_environ_find(t.fd, 1, "BEYOND", &beyond), -ENOENT);
	tree_remove(&t);
}

Test(stat, kernel_thread)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_stat s;
	char *none = NULL;

	if (proc_stat_read(proc_fd, 2, &s) < 0 || strcmp(s.comm, "kthreadd") != 0)
		cr_skip("pid 2 is not kthreadd in this PID namespace");
	cr_assert(s.kernel_thread);
	cr_expect_eq(proc_exe_read(proc_fd, 2, &none), geteuid() ? -EACCES : -ENOENT);
	cr_expect_eq(proc_environ_find(proc_fd, 2, "PATH", &none), geteuid() ? -EACCES : -ENOENT);
}
