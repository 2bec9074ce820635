// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/parser.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/base/flat.h"
#include "agent/parser/idle.h"

#define BIG_BYTES (3u << 20)
#define MIB ((uint64_t)1 << 20)

static int run_echo(struct parser_job *job)
{
	char byte = 0;

	if (job->n_fds && pread(job->fds[0], &byte, 1, 0) == 1 && buf_putc(job->answer, byte) < 0)
		return -ENOMEM;
	return buf_append(job->answer, job->request, job->request_len);
}

static int run_refuse(struct parser_job *job)
{
	(void)job;
	return -ESTALE;
}

static int run_query(struct parser_job *job)
{
	char text[16] = {0};
	int fd = job->query(job, job->request, job->request_len);

	if (fd < 0)
		return fd;
	if (pread(fd, text, sizeof text - 1, 0) < 0)
		return -errno;
	close(fd);
	return buf_puts(job->answer, text);
}

static int run_query_for_ever(struct parser_job *job)
{
	int fd;

	while ((fd = job->query(job, "x", 1)) >= 0)
		close(fd);
	return fd;
}

static int run_crash(struct parser_job *job)
{
	(void)job;
	__builtin_trap();
}

static int run_silence(struct parser_job *job)
{
	(void)job;
	_exit(0);
}

static int run_spin(struct parser_job *job)
{
	for (volatile unsigned i = 1; i; i |= 1)
		;
	return job->n_fds ? 0 : -EIO;
}

/* Each way out of the sandbox; the request is its number. 0: it is open. */
static int run_escape(struct parser_job *job)
{
	int r = -1;

	errno = 0;
	switch (job->request[0]) {
	case 0:
		r = open("/proc/self/status", O_RDONLY);
		break;
	case 1:
		r = socket(AF_INET, SOCK_STREAM, 0);
		break;
	case 2:
		r = execl("/bin/true", "true", NULL);
		break;
	case 3:
		r = (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
		break;
	case 4:
		r = kill(getppid(), 0);
		break;
	case 5:
		r = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
			    ? -1
			    : 0;
		break;
	case 6:
		r = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		break;
	case 7:
		r = unlink("/tmp/proflet-no-such-file");
		break;
	case 8:
		r = (int)syscall(SYS_bpf, 0, NULL, 0);
		break;
	case 9:
		r = setuid(0);
		break;
	case 10:
		r = memfd_create("x", 0);
		break;
	case 11:
		r = (int)syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
		break;
	}
	return r >= 0 ? 0 : -errno;
}
#define ESCAPES 12u

/* Who it is, as /proc shows it to the test. */
static int run_wait_for_query(struct parser_job *job)
{
	int fd = job->query(job, "now", 3);

	if (fd >= 0)
		close(fd);
	return 0;
}

static int run_big(struct parser_job *job)
{
	for (unsigned i = 0; i < BIG_BYTES; i++)
		if (buf_putc(job->answer, (char)(i * 31 >> 3)) < 0)
			return -ENOMEM;
	return 0;
}

static int run_too_big(struct parser_job *job)
{
	buf_init(job->answer, 1u << 30);
	return run_big(job);
}

/* As a process may answer that was taken over. */
static int run_result(struct parser_job *job)
{
	int result;

	memcpy(&result, job->request, sizeof result);
	return result;
}

static const struct parser_operation results = {"result", 0, run_result, false};
static const struct parser_operation echo = {"echo", BIG_BYTES, run_echo, false},
				     refuse = {"refuse", 0, run_refuse, false},
				     queries_once = {"query", 4096, run_query, false},
				     queries_for_ever = {"query for ever", 0, run_query_for_ever, false},
				     crash = {"crash", 0, run_crash, false},
				     silence = {"silence", 0, run_silence, false},
				     spin = {"spin", 0, run_spin, false},
				     escape = {"escape", 0, run_escape, false},
				     waits = {"wait", 0, run_wait_for_query, false},
				     big = {"big", BIG_BYTES, run_big, false},
				     too_big = {"too big", 4096, run_too_big, false};
/* Waits for bytes that never come. */
static int run_sleep(struct parser_job *job)
{
	char byte;

	return read(job->fds[0], &byte, 1) < 0 ? -errno : 0;
}

/* Opens what the request names, below a folder, and hands it to whoever has the other end of the socket. */
static int run_open(struct parser_job *job)
{
	int fd = openat(job->fds[0], (const char *)job->request, O_RDONLY), r;

	if (fd < 0)
		return -errno;
	r = parser_fd_send(job->fds[1], fd);
	close(fd);
	return r;
}

/* Its byte must be read by a process that cannot open it. */
static int run_take(struct parser_job *job)
{
	int fd = parser_fd_receive(job->fds[0]);
	char text[16] = {0};

	if (fd < 0)
		return fd;
	if (pread(fd, text, sizeof text - 1, 0) < 0)
		return -errno;
	close(fd);
	return buf_puts(job->answer, text);
}

/* What is not for reading. */
static int run_open_more(struct parser_job *job)
{
	int r = -1;

	errno = 0;
	switch (job->request[0]) {
	case 0:
		r = openat(job->fds[0], "file", O_WRONLY);
		break;
	case 1:
		r = openat(job->fds[0], "new", O_RDONLY | O_CREAT, 0600);
		break;
	case 2:
		r = openat(job->fds[0], "file", O_RDONLY | O_TRUNC);
		break;
	case 3:
		r = socket(AF_UNIX, SOCK_STREAM, 0);
		break;
	case 4:
		r = execl("/bin/true", "true", NULL);
		break;
	case 5:
		r = unlinkat(job->fds[0], "file", 0);
		break;
	case 6:
		r = (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
		break;
	default:
		return -EINVAL;
	}
	return r < 0 ? -EPERM : 0;
}

/*
 * When it begins and ends: computes for so many hundredths of a second, then until a file has a byte, or
 * sleeps until a pipe has one.
 */
struct period {
	uint64_t begin_ns, end_ns;
};

static int run_period(struct parser_job *job)
{
	struct period p = {.begin_ns = clock_mono_ns()};
	const uint64_t end_ns = p.begin_ns + job->request[0] * 10 * NS_PER_MS;
	char byte;

	while (clock_mono_ns() < end_ns)
		;
	while (job->n_fds > 1 && read(job->fds[1], &byte, 1) == 0)
		;
	p.end_ns = clock_mono_ns();
	return buf_append(job->answer, &p, sizeof p);
}

static int run_count(struct parser_job *job);
static const struct parser_operation period = {"period", sizeof(struct period), run_period, false};
static const struct parser_operation counts = {"count", 16, run_count, false};
static const struct parser_operation sleeps = {"sleep", 0, run_sleep, false},
				     opener = {"open", 0, run_open, true},
				     opens_more = {"open more", 0, run_open_more, true},
				     takes = {"take", 64, run_take, false};
static const struct parser_operation *const operations[] = {
	&period,       &results,	  &sleeps, &opener,  &opens_more, &takes,  &counts, &echo, &refuse,
	&queries_once, &queries_for_ever, &crash,  &silence, &spin,	  &escape, &waits,  &big,  &too_big};

static void start(void)
{
	cr_assert_eq(parser_start(operations, ARRAY_SIZE(operations)), 0);
}

static int call(const struct parser_operation *o, const void *request, size_t len, struct buf *answer)
{
	struct parser_call c = {.operation = o};
	int r = buf_append(&c.request, request, len);

	cr_assert_eq(r, 0);
	r = parser_call(&c, answer);
	buf_fini(&c.request);
	return r;
}

static int file_with(const char *text)
{
	int fd = memfd_create("test", 0);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

static int answer_with_file(const void *query, size_t len, void *data)
{
	if (len == 2 && memcmp(query, "no", 2) == 0)
		return -ENOENT;
	++*(unsigned *)data;
	return file_with("found");
}

Test(parser, works_without_a_nursery)
{
	_cleanup_buf_ struct buf answer = {0};

	cr_assert_eq(call(&echo, "abc", 3, &answer), 0);
	cr_assert_str_eq(buf_str(&answer), "abc");
	cr_assert_eq(call(&refuse, "", 0, &answer), -ESTALE);
}

Test(parser, request_and_answer, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	_cleanup_close_ int fd = file_with("F");
	struct parser_call c = {.operation = &echo, .fds = {fd}, .n_fds = 1};

	for (unsigned i = 0; i < 20; i++) {
		buf_clear(&answer);
		cr_assert_eq(call(&echo, &i, sizeof i, &answer), 0);
		cr_assert_arr_eq(answer.data, &i, sizeof i);
	}
	buf_clear(&answer);
	cr_assert_eq(parser_call(&c, &answer), 0);
	cr_assert_str_eq(buf_str(&answer), "F");
	cr_assert_eq(call(&refuse, "", 0, &answer), -ESTALE);
	parser_stop();
	buf_clear(&answer);
	cr_assert_eq(call(&echo, "abc", 3, &answer), 0, "the caller does it again");
}

Test(parser, a_result_is_an_error_number_or_0, .init = start)
{
	static const struct {
		int sent, expected;
	} rows[] = {{0, 0},
		    {-1, -1},
		    {-4095, -4095},
		    {-4096, -ENOTRECOVERABLE},
		    {INT_MIN, -ENOTRECOVERABLE},
		    {1, -ENOTRECOVERABLE}};
	_cleanup_buf_ struct buf answer = {0};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_eq(call(&results, &rows[i].sent, sizeof rows[i].sent, &answer), rows[i].expected,
			     "row %zu", i);
}

Test(parser, long_ones_are_in_memory_files, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	_cleanup_free_ uint8_t *bytes = malloc(BIG_BYTES);

	for (unsigned i = 0; i < BIG_BYTES; i++)
		bytes[i] = (uint8_t)(i * 31 >> 3);
	cr_assert_eq(call(&big, "", 0, &answer), 0);
	cr_assert_eq(answer.len, BIG_BYTES);
	cr_assert_eq(memcmp(answer.data, bytes, BIG_BYTES), 0);
	buf_clear(&answer);
	cr_assert_eq(call(&echo, bytes, BIG_BYTES, &answer), 0);
	cr_assert_eq(answer.len, BIG_BYTES);
	cr_assert_eq(memcmp(answer.data, bytes, BIG_BYTES), 0);
}

Test(parser, answers_over_the_maximum_are_refused, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_stats s;

	cr_assert_lt(call(&too_big, "", 0, &answer), 0);
	cr_assert_eq(answer.len, 0);
	parser_stats(&s);
	cr_assert_eq(s.jobs, 1);
	cr_assert_eq(s.failed[PARSER_CRASHED] + s.failed[PARSER_REFUSED], 1);
}

Test(parser, queries, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	unsigned n = 0;
	struct parser_call c = {.operation = &queries_once, .query = answer_with_file, .data = &n};

	cr_assert_eq(parser_call(&c, &answer), 0);
	cr_assert_str_eq(buf_str(&answer), "found");
	cr_assert_eq(buf_puts(&c.request, "no"), 0);
	cr_assert_eq(parser_call(&c, &answer), -ENOENT);
	c.query = NULL;
	cr_assert_eq(parser_call(&c, &answer), -EOPNOTSUPP);
	buf_fini(&c.request);
	c = (struct parser_call){.operation = &queries_for_ever, .query = answer_with_file, .data = &n};
	n = 0;
	cr_assert_eq(parser_call(&c, &answer), -E2BIG);
	cr_assert_eq(n, PARSER_QUERIES_MAX);
}

/* Its number in its process, and the process. "q": after a query; "2": crashes if it is not the first. */
static int run_count(struct parser_job *job)
{
	static uint64_t n; /* of this process */
	const char wish = job->request_len ? (char)job->request[0] : '\0';
	int fd = wish == 'q' ? job->query(job, "x", 1) : -1;

	if (fd >= 0)
		close(fd);
	if (wish == '2' && n)
		__builtin_trap();
	return flat_put_u64(job->answer, ++n) < 0 ? -ENOMEM : flat_put_u64(job->answer, (uint64_t)getpid());
}

static uint64_t count(struct parser_session *session, const struct parser_operation *o)
{
	struct parser_call c = {.operation = o};
	_cleanup_buf_ struct buf answer = {0};
	struct flat_reader r;

	cr_assert_eq(session ? parser_session_call(session, &c, &answer) : parser_call(&c, &answer), 0);
	r = flat_read(answer.data, answer.len);
	return flat_u64(&r);
}

Test(parser, one_job_a_process_but_in_a_session, .init = start)
{
	struct parser_session session = {0};
	struct parser_call c = {.operation = &crash};
	_cleanup_buf_ struct buf answer = {0};

	cr_expect_eq(count(NULL, &counts), 1);
	cr_expect_eq(count(NULL, &counts), 1);
	for (uint64_t i = 1; i < 100; i++)
		cr_expect_eq(count(&session, &counts), i);
	cr_expect_eq(parser_session_call(&session, &c, &answer), -ENOTRECOVERABLE);
	cr_expect_eq(count(&session, &counts), 1, "another process");
	parser_session_end(&session);
	cr_expect_eq(session.socket, 0);
}

/* It cannot be sent. */
static int answer_with_closed(const void *query, size_t len, void *data)
{
	int fd = answer_with_file(query, len, data);

	close(fd);
	return fd;
}

Test(parser, who_still_waits_for_a_word_gets_no_further_job, .init = start)
{
	struct parser_session session = {0};
	_cleanup_buf_ struct buf answer = {0};
	unsigned n = 0;
	struct parser_call c = {.operation = &queries_once, .query = answer_with_closed, .data = &n};

	cr_assert_eq(parser_session_call(&session, &c, &answer), -EBADF);
	c.query = answer_with_file;
	cr_assert_eq(parser_session_call(&session, &c, &answer), 0);
	cr_assert_str_eq(buf_str(&answer), "found");
	parser_session_end(&session);
}

/* One about the system's files. */
static uint64_t count_of_system(const char *wish, pid_t *ret_pid)
{
	unsigned queries = 0;
	struct parser_call c = {
		.operation = &counts, .of_system = true, .query = answer_with_file, .data = &queries};
	_cleanup_buf_ struct buf answer = {0};
	struct flat_reader r;
	uint64_t n;

	cr_assert_eq(buf_puts(&c.request, wish), 0);
	cr_assert_eq(parser_call(&c, &answer), 0);
	buf_fini(&c.request);
	r = flat_read(answer.data, answer.len);
	n = flat_u64(&r);
	*ret_pid = (pid_t)flat_u64(&r);
	cr_assert(flat_done(&r), "one answer");
	return n;
}

Test(parser, jobs_about_the_systems_files_share_a_process, .init = start)
{
	struct parser_stats s;
	pid_t pid, other;

	cr_expect_eq(count_of_system("", &pid), 1);
	cr_expect_eq(count_of_system("", &other), 2);
	cr_expect_eq(other, pid);
	cr_expect_eq(count(NULL, &counts), 1, "a tenant's");
	cr_expect_eq(count_of_system("", &other), 3);
	parser_stats(&s);
	cr_expect_eq(s.again, 2);
	parser_trim(false);
	cr_expect_eq(count_of_system("", &other), 4, "it has not waited for long");
	parser_trim(true);
	cr_expect_eq(count_of_system("", &other), 1);
	cr_expect_neq(other, pid);
}

Test(parser, a_process_for_several_does_not_live_for_ever, .init = start)
{
	pid_t pid;

	for (uint64_t i = 0; i < 2ull * IDLE_JOBS_MAX; i++)
		cr_expect_eq(count_of_system("", &pid), i % IDLE_JOBS_MAX + 1);
}

Test(parser, a_descriptor_by_a_query_is_of_somebody_else, .init = start)
{
	pid_t pid;

	cr_expect_eq(count_of_system("q", &pid), 1);
	cr_expect_eq(count_of_system("", &pid), 1);
	cr_expect_eq(count_of_system("q", &pid), 2);
	cr_expect_eq(count_of_system("", &pid), 1);
}

Test(parser, what_an_earlier_job_has_done_is_not_the_next_ones_fault, .init = start)
{
	struct parser_stats s;
	pid_t pid, other;

	cr_expect_eq(count_of_system("", &pid), 1);
	cr_expect_eq(count_of_system("2", &other), 1, "done once more, in a process of its own");
	cr_expect_neq(other, pid);
	parser_stats(&s);
	cr_expect_eq(s.failed[PARSER_CRASHED], 1);
	cr_assert_eq(kill(other, SIGKILL), 0);
	cr_expect_eq(count_of_system("", &pid), 1, "somebody has killed the one that waited");
}

Test(parser, a_crash_costs_its_own_job, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_stats s;

	cr_assert_eq(call(&crash, "", 0, &answer), -ENOTRECOVERABLE);
	cr_assert_eq(call(&silence, "", 0, &answer), -ENOTRECOVERABLE);
	cr_assert_eq(call(&echo, "abc", 3, &answer), 0);
	cr_assert_str_eq(buf_str(&answer), "abc");
	parser_stats(&s);
	cr_assert_eq(s.failed[PARSER_CRASHED], 2);
	cr_assert_eq(s.jobs, 3);
}

Test(parser, time_is_bounded, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_stats s;

	cr_assert_eq(call(&spin, "", 0, &answer), -ETIME);
	parser_stats(&s);
	cr_assert_eq(s.failed[PARSER_OUT_OF_TIME], 1);
	cr_assert_geq(s.cpu_ns, (PARSER_CPU_MAX_S - 1) * NS_PER_SEC);
}

Test(parser, time_is_in_proportion_to_files, .init = start)
{
	const int small = file_with("a few bytes"), sparse = memfd_create("sparse", 0);
	_cleanup_buf_ struct buf answer = {0};
	struct parser_stats s;

	cr_assert_eq(pwrite(sparse, "x", 1, (off_t)1 << 40), 1);
	for (int i = 0; i < 2; i++) {
		struct parser_call c = {
			.operation = &spin, .fds = {i ? sparse : small}, .n_fds = 1, .in_proportion = true};

		cr_assert_eq(parser_call(&c, &answer), -ETIME);
		cr_expect_geq(c.cpu_ns, PARSER_CPU_OF(0));
		cr_expect_lt(c.cpu_ns, 4 * PARSER_CPU_OF(0), "%lu ns", (unsigned long)c.cpu_ns);
		parser_stats(&s);
		cr_expect_eq(s.failed[PARSER_OUT_OF_TIME], (uint64_t)i + 1);
		cr_expect_geq(s.wasted_ns, (uint64_t)(i + 1) * PARSER_CPU_OF(0));
	}
	close(small);
	close(sparse);
}

Test(parser, wasted_time, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_call c = {.operation = &echo};
	struct parser_stats s;

	cr_assert_eq(parser_call(&c, &answer), 0);
	cr_assert_gt(c.cpu_ns, 0);
	cr_expect_eq(parser_judge(&c, 0), 0);
	cr_expect_eq(parser_judge(&c, -ENOENT), -ENOENT);
	parser_stats(&s);
	cr_expect_eq(s.wasted_ns, 0);
	cr_expect_eq(parser_judge(&c, -EBADMSG), -EBADMSG);
	parser_stats(&s);
	cr_expect_eq(s.wasted_ns, c.cpu_ns);
	cr_assert_eq(call(&crash, "", 0, &answer), -ENOTRECOVERABLE);
	parser_stats(&s);
	cr_expect_gt(s.wasted_ns, c.cpu_ns);
}

/* The sanitizers have the call fail instead. */
Test(parser, nothing_leads_out, .init = start)
{
	for (uint8_t way = 0; way < ESCAPES; way++) {
		_cleanup_buf_ struct buf answer = {0};
		int r = call(&escape, &way, 1, &answer);

		cr_assert(r == -ENOTRECOVERABLE || r == -EPERM || r == -EACCES, "%d: %d", way, r);
	}
}

static void field(pid_t pid, const char *name, char *ret, size_t size)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	f = fopen(path, "re");
	cr_assert_not_null(f);
	*ret = '\0';
	while (fgets(line, sizeof line, f))
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			sscanf(line + strlen(name) + 1, " %63s", ret);
	(void)size;
	fclose(f);
}

/* The process waits for its answer, and the test looks at it: the youngest child of the nursery. */
static int look(const void *query, size_t len, void *data)
{
	char path[64], value[64] = "";
	pid_t pid = 0;
	FILE *f;

	(void)query;
	(void)len;
	++*(unsigned *)data;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", parser_pid(), parser_pid());
	f = fopen(path, "re");
	cr_assert_not_null(f);
	cr_assert_eq(fscanf(f, "%d", &pid), 1);
	fclose(f);
	field(pid, "Seccomp", value, sizeof value);
	cr_assert_str_eq(value, "2");
	field(pid, "NoNewPrivs", value, sizeof value);
	cr_assert_str_eq(value, "1");
	field(pid, "CapPrm", value, sizeof value);
	cr_assert_eq(strtoull(value, NULL, 16), 0);
	field(pid, "CapEff", value, sizeof value);
	cr_assert_eq(strtoull(value, NULL, 16), 0);
	field(pid, "Uid", value, sizeof value);
	if (geteuid() == 0)
		cr_assert_neq(strtoul(value, NULL, 10), 0);
	return -ENOENT;
}

Test(parser, rights_as_the_kernel_shows_them, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	unsigned n = 0;
	struct parser_call c = {.operation = &waits, .query = look, .data = &n};

	cr_assert_eq(parser_call(&c, &answer), 0);
	cr_assert_eq(n, 1);
}

static int kill_nursery(const void *query, size_t len, void *data)
{
	(void)query;
	(void)len;
	(void)data;
	cr_assert_eq(kill(parser_pid(), SIGKILL), 0);
	return -ENOENT;
}

/* As the kernel does when memory is short. */
Test(parser, a_nursery_that_was_killed_is_replaced, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_call c = {.operation = &queries_once, .query = kill_nursery};
	struct parser_stats s;

	for (unsigned i = 1; i <= 5; i++) {
		cr_assert_lt(parser_call(&c, &answer), 0, "its child has ended, too");
		buf_clear(&answer);
		cr_assert_eq(call(&echo, "abc", 3, &answer), 0);
		cr_assert_str_eq(buf_str(&answer), "abc");
		parser_stats(&s);
		cr_assert_eq(s.replaced, i);
	}
}

#define CALLERS 4
#define ROUNDS 40
#define KILLS 6 /* in a round: each makes the next nursery come later */

struct caller {
	pthread_t thread;
	atomic_bool *over, ended;
};

static void *call_until_over(void *data)
{
	struct caller *c = data;

	while (!atomic_load(c->over)) {
		_cleanup_buf_ struct buf answer = {0};

		(void)call(&echo, "abc", 3, &answer);
	}
	atomic_store(&c->ended, true);
	return NULL;
}

static void kill_nurseries(unsigned seed)
{
	pid_t killed = 0;

	for (int i = 0; i < KILLS;) {
		pid_t pid = parser_pid();

		usleep(rand_r(&seed) % 1500);
		if (pid <= 0 || pid == killed)
			continue;
		(void)kill(pid, SIGKILL);
		killed = pid;
		i++;
	}
}

/* A process that was just forked then has no parent that would say what became of it. */
Test(parser, calls_end_though_the_nursery_is_killed_at_any_time, .timeout = 120)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		atomic_bool over = false;
		struct caller callers[CALLERS];

		start();
		for (int i = 0; i < CALLERS; i++) {
			callers[i].over = &over;
			atomic_init(&callers[i].ended, false);
			cr_assert_eq(pthread_create(&callers[i].thread, NULL, call_until_over, &callers[i]),
				     0);
		}
		kill_nurseries(round + 1);
		atomic_store(&over, true);
		for (int i = 0; i < CALLERS; i++) {
			for (int tries = 0; !atomic_load(&callers[i].ended) && tries < 2000; tries++)
				usleep(10000);
			cr_assert(atomic_load(&callers[i].ended), "round %u: caller %d waits for ever", round,
				  i);
			pthread_join(callers[i].thread, NULL);
		}
		parser_stop();
	}
}

static void *cancel_soon(void *data)
{
	(void)data;
	usleep(300000);
	parser_cancel();
	return NULL;
}

Test(parser, a_call_on_its_way_can_be_cancelled, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	uint64_t begin = clock_mono_ns();
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, NULL), 0);
	cr_expect_lt(call(&spin, "", 0, &answer), 0);
	cr_expect_lt(clock_mono_ns() - begin, (PARSER_CPU_MAX_S - 1) * NS_PER_SEC);
	pthread_join(thread, NULL);
	cr_expect_eq(call(&echo, "abc", 3, &answer), -EAGAIN, "nothing is read in this process");
}

struct spinning {
	struct worker_job job;
	struct buf answer;
	int result;
	bool overdue, done;
};

static void spin_run(struct worker_job *job)
{
	struct spinning *s = container_of(job, struct spinning, job);

	s->result = call(&spin, "", 0, &s->answer);
}

static void spin_done(struct worker_job *job, bool cancelled)
{
	(void)cancelled;
	container_of(job, struct spinning, job)->done = true;
}

static void spin_overdue(struct worker_job *job)
{
	container_of(job, struct spinning, job)->overdue = true;
}

/* A thread that waits for a process that computes sleeps, and is not stuck. */
Test(parser, a_process_at_work_is_not_a_stuck_thread, .init = start)
{
	struct spinning s = {.job = {.run = spin_run, .done = spin_done, .overdue = spin_overdue}};
	uint64_t end = clock_mono_ns() + 1500 * NS_PER_MS;
	struct worker *w;

	cr_assert_eq(worker_new(&w, 1, 4, "test"), 0);
	cr_assert_eq(worker_submit(w, &s.job, WORKER_HIGH), 0);
	while (clock_mono_ns() < end) {
		usleep(20000);
		worker_check(w, 200 * NS_PER_MS);
		cr_assert(!s.overdue, "it was taken for stuck");
	}
	while (!s.done) {
		usleep(20000);
		worker_check(w, 60 * NS_PER_SEC);
		worker_collect(w);
	}
	cr_assert(s.overdue && s.job.costly, "it has used more CPU time than a job may");
	cr_assert_eq(s.result, -ETIME);
	worker_free(w);
	buf_fini(&s.answer);
}

/* A process that sleeps is given up; one that computes is not. */
Test(parser, who_sleeps_for_too_long_is_given_up, .init = start)
{
	_cleanup_buf_ struct buf answer = {0};
	struct parser_call c = {.operation = &sleeps, .n_fds = 1, .patience_ms = 300}, count = {0};
	struct parser_stats stats;
	int sockets[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	c.fds[0] = sockets[0];
	cr_expect_eq(parser_call(&c, &answer), -ETIMEDOUT);
	parser_stats(&stats);
	cr_expect_eq(stats.failed[PARSER_NO_ANSWER], 1);
	count = (struct parser_call){.operation = &spin, .patience_ms = 300};
	cr_expect_eq(parser_call(&count, &answer), -ETIME, "it computes");
	close(sockets[0]);
	close(sockets[1]);
}

static int call_opener(const struct parser_operation *o, const void *request, size_t len, int folder, int to)
{
	struct parser_call c = {.operation = o, .fds = {folder, to}, .n_fds = 2, .patience_ms = 1000};
	_cleanup_buf_ struct buf answer = {0};
	int r;

	cr_assert_eq(buf_append(&c.request, request, len), 0);
	r = parser_call(&c, &answer);
	buf_fini(&c.request);
	return r;
}

/* A file that only its owner may read goes from who may open it to who may not, and never through us. */
Test(parser, files_are_opened_in_one_process_and_read_in_another, .init = start)
{
	char folder[] = "/tmp/proflet-test-XXXXXX", path[64];
	_cleanup_buf_ struct buf answer = {0};
	struct parser_call take = {.operation = &takes, .n_fds = 1};
	int sockets[2], fd;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	cr_assert_eq(write(fd, "found", 5), 5);
	close(fd);
	fd = open(folder, O_PATH | O_DIRECTORY);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
	cr_expect_eq(call_opener(&opener, "no", 3, fd, sockets[0]), -ENOENT);
	if (geteuid() == 0)
		cr_expect_eq(chown(folder, 1234, 1234) + chown(path, 1234, 1234), 0);
	cr_expect_eq(call_opener(&opener, "file", 5, fd, sockets[0]), 0);
	take.fds[0] = sockets[1];
	cr_expect_eq(parser_call(&take, &answer), 0);
	cr_expect_str_eq(buf_str(&answer), "found");
	cr_expect_eq(parser_call(&take, &answer), -EAGAIN, "there is no other");
	for (uint8_t i = 0; i < 7; i++)
		cr_expect_lt(call_opener(&opens_more, &i, 1, fd, sockets[0]), 0, "way %u", i);
	cr_expect_eq(access(path, F_OK), 0);
	close(fd);
	unlink(path);
	rmdir(folder);
}

/* Of the nursery whose processes open files. */
Test(parser, rights_of_the_opener, .init = start)
{
	char value[64] = "";

	for (int i = 0; i < 100 && strcmp(value, "2") != 0; i++, usleep(20000)) /* until it has entered */
		if (parser_opener_pid())
			field(parser_opener_pid(), "Seccomp", value, sizeof value);
	cr_expect_str_eq(value, "2");
	field(parser_opener_pid(), "CapEff", value, sizeof value);
	cr_expect_eq(strtoull(value, NULL, 16) & ~(1ull << 2), 0, "CAP_DAC_READ_SEARCH at most");
	field(parser_opener_pid(), "CapPrm", value, sizeof value);
	cr_expect_eq(strtoull(value, NULL, 16) & ~(1ull << 2), 0);
	field(parser_opener_pid(), "NoNewPrivs", value, sizeof value);
	cr_expect_str_eq(value, "1");
}

/* --- room: files of so many MiB, of which 48 can be read together */

struct reader {
	pthread_t thread;
	uint64_t file_bytes;
	uint8_t hundredths;
	int waits_for; /* a descriptor, for a byte; 0: for none */
	struct period got;
};

static void *read_file(void *data)
{
	struct reader *r = data;
	_cleanup_buf_ struct buf answer = {0};
	_cleanup_close_ int fd = memfd_create("large", 0);
	struct parser_call c = {
		.operation = &period, .fds = {fd, r->waits_for}, .n_fds = r->waits_for ? 2 : 1};

	cr_assert_eq(ftruncate(fd, (off_t)r->file_bytes), 0);
	cr_assert_eq(buf_putc(&c.request, (char)r->hundredths), 0);
	cr_assert_eq(parser_call(&c, &answer), 0);
	cr_assert_eq(answer.len, sizeof r->got);
	memcpy(&r->got, answer.data, sizeof r->got);
	buf_fini(&c.request);
	return NULL;
}

static void begin_reading(struct reader *r)
{
	cr_assert_eq(pthread_create(&r->thread, NULL, read_file, r), 0);
}

/* Until so many are read, and so many wait. */
static void await_room(unsigned large, unsigned waiting)
{
	const uint64_t end_ns = clock_mono_ns() + 60 * NS_PER_SEC;
	struct parser_stats s;

	do {
		usleep(1000);
		parser_stats(&s);
	} while ((s.large != large || s.waiting != waiting) && clock_mono_ns() < end_ns);
	cr_assert(s.large == large && s.waiting == waiting, "%u large, %u waiting", s.large, s.waiting);
}

static void end_reading(struct reader *r)
{
	cr_assert_eq(pthread_join(r->thread, NULL), 0);
}

static bool overlap(const struct reader *a, const struct reader *b)
{
	return a->got.begin_ns < b->got.end_ns && b->got.begin_ns < a->got.end_ns;
}

Test(parser, large_files_take_turns, .init = start)
{
	const int held = memfd_create("held", 0);
	struct reader r[] = {{.file_bytes = 40 * MIB, .waits_for = held},
			     {.file_bytes = 40 * MIB, .waits_for = held},
			     {.file_bytes = 1000 * MIB, .hundredths = 10},
			     {.file_bytes = 20 * MIB, .hundredths = 10},
			     {.file_bytes = 3 * MIB, .hundredths = 10}};

	parser_limit_memory(48 * MIB, 48 * MIB);
	begin_reading(&r[0]);
	for (unsigned i = 1; i < 4; i++) {
		begin_reading(&r[i]);
		await_room(1, i);
	}
	begin_reading(&r[4]);
	end_reading(&r[4]); /* a small one does not wait for them */
	await_room(1, 3);
	cr_assert_eq(pwrite(held, "xx", 2, 0), 2);
	for (size_t i = 0; i < 4; i++)
		end_reading(&r[i]);
	for (size_t i = 0; i < 4; i++)
		for (size_t k = i + 1; k < 4; k++)
			cr_expect_not(overlap(&r[i], &r[k]), "%zu and %zu", i, k);
	cr_expect_lt(r[2].got.begin_ns, r[3].got.begin_ns, "nobody is overtaken for ever");
	close(held);
}

Test(parser, files_for_which_there_is_room_do_not_wait, .init = start)
{
	const int held = memfd_create("held", 0);
	struct reader r[] = {{.file_bytes = 30 * MIB, .waits_for = held},
			     {.file_bytes = 30 * MIB, .waits_for = held}};

	parser_limit_memory(48 * MIB, 48 * MIB);
	begin_reading(&r[0]);
	begin_reading(&r[1]);
	await_room(2, 0);
	cr_assert_eq(pwrite(held, "xx", 2, 0), 2);
	end_reading(&r[0]);
	end_reading(&r[1]);
	close(held);
}

/* As one does whose file system does not answer. */
Test(parser, who_sleeps_holds_nobody_up, .init = start)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	struct reader sleeper = {.file_bytes = 60 * MIB, .waits_for = ends[0]},
		      other = {.file_bytes = 60 * MIB, .hundredths = 10};

	parser_limit_memory(48 * MIB, 48 * MIB);
	begin_reading(&sleeper);
	await_room(1, 0);
	begin_reading(&other);
	end_reading(&other);
	cr_assert_eq(write(ends[1], "x", 1), 1);
	end_reading(&sleeper);
	cr_expect(overlap(&sleeper, &other));
}
