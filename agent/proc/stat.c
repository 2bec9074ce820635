// SPDX-License-Identifier: Apache-2.0
/*
 * The second field of a stat file is the name in parentheses, without escapes: it may contain ')', spaces and
 * newlines. Only a state letter and numbers follow, so the name ends at the last ')' of the text.
 */
#include "agent/proc/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/entry.h"

#define PF_KTHREAD 0x00200000u
#define DELETED " (deleted)"

/* Field numbers as in proc_pid_stat(5). */
enum { FIELD_PPID = 4, FIELD_FLAGS = 9, FIELD_NUM_THREADS = 20, FIELD_START_TIME = 22 };

/*
 * Consumes one field " NUMBER". Some fields may be negative; the agent uses none of these and reads them
 * as 0.
 */
static bool take_field(const char **p, const char *end, uint64_t *ret)
{
	const char *start;
	bool negative = false;
	uint64_t v = 0;

	if (*p == end || *(*p)++ != ' ')
		return false;
	if (*p < end && **p == '-') {
		negative = true;
		(*p)++;
	}
	for (start = *p; *p < end && **p >= '0' && **p <= '9'; (*p)++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(**p - '0'), &v))
			return false;
	*ret = negative ? 0 : v;
	return *p > start;
}

static int fields_parse(const char *p, const char *end, struct proc_stat *stat)
{
	uint64_t fields[FIELD_START_TIME + 1];

	for (unsigned i = FIELD_PPID; i <= FIELD_START_TIME; i++)
		if (!take_field(&p, end, &fields[i]))
			return -EINVAL;
	if (fields[FIELD_PPID] > UINT32_MAX || fields[FIELD_FLAGS] > UINT32_MAX ||
	    fields[FIELD_NUM_THREADS] > UINT32_MAX)
		return -EINVAL;
	stat->ppid = (uint32_t)fields[FIELD_PPID];
	stat->flags = (uint32_t)fields[FIELD_FLAGS];
	stat->num_threads = (uint32_t)fields[FIELD_NUM_THREADS];
	stat->start_time_ticks = fields[FIELD_START_TIME];
	stat->kernel_thread = stat->flags & PF_KTHREAD;
	return 0;
}

int proc_stat_parse(const char *text, size_t len, struct proc_stat *ret)
{
	const char *end = text + len, *open, *close;
	struct proc_stat stat = {0};
	size_t comm_len;
	int r;

	open = len ? memchr(text, '(', len) : NULL;
	close = open ? memrchr(open, ')', (size_t)(end - open)) : NULL;
	if (!close || end - close < 3 || close[1] != ' ')
		return -EINVAL;
	stat.state = close[2];
	r = fields_parse(close + 3, end, &stat);
	if (r < 0)
		return r;
	comm_len = strnlen(open + 1, (size_t)(close - open) - 1);
	if (comm_len >= sizeof stat.comm)
		comm_len = sizeof stat.comm - 1;
	memcpy(stat.comm, open + 1, comm_len);
	*ret = stat;
	return 0;
}

int proc_stat_read(int proc_fd, uint32_t pid, struct proc_stat *ret)
{
	char text[2048]; /* 52 numbers and a name take less */
	ssize_t n = proc_entry_read(proc_fd, pid, "stat", text, sizeof text);

	return n < 0 ? (int)n : proc_stat_parse(text, (size_t)n, ret);
}

int proc_comm_read(int proc_fd, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN])
{
	char name[32], text[PROC_STAT_COMM_LEN + 1];
	size_t len;
	ssize_t n;

	snprintf(name, sizeof name, "task/%u/comm", tid);
	n = proc_entry_read(proc_fd, pid, name, text, sizeof text);
	if (n < 0)
		return (int)n;
	len = (size_t)n;
	if (len && text[len - 1] == '\n')
		len--;
	len = strnlen(text, len);
	if (len >= PROC_TASK_COMM_LEN)
		len = PROC_TASK_COMM_LEN - 1;
	memset(ret, 0, PROC_TASK_COMM_LEN);
	memcpy(ret, text, len);
	return 0;
}

char *proc_exe_path(const char *name, size_t len)
{
	const size_t deleted = sizeof DELETED - 1;

	if (len > deleted && memcmp(name + len - deleted, DELETED, deleted) == 0)
		len -= deleted;
	return strndup(name, len);
}

/*
 * Until it executes the container's program, a container runtime runs from a copy of itself, in memory or on
 * a file system that is mounted nowhere: runc from "/memfd:runc_cloned:/proc/self/exe", or from "/".
 */
bool proc_exe_names_program(const char *path)
{
	static const char self[] = "/proc/self/exe";
	size_t len = strlen(path), n = sizeof self - 1;

	return strcmp(path, "/") != 0 && (len < n || strcmp(path + len - n, self) != 0);
}

int proc_exe_read(int proc_fd, uint32_t pid, char **ret)
{
	char link[24], target[PATH_MAX + 1];
	char *path;
	ssize_t n;

	snprintf(link, sizeof link, "%u/exe", pid);
	n = readlinkat(proc_fd, link, target, sizeof target);
	if (n < 0)
		return proc_entry_error(proc_fd, pid, errno);
	if ((size_t)n == sizeof target)
		return -ENAMETOOLONG;
	path = proc_exe_path(target, (size_t)n);
	if (!path)
		return -ENOMEM;
	if (!proc_exe_names_program(path)) {
		free(path);
		return -ENOENT;
	}
	*ret = path;
	return 0;
}

int proc_environ_parse(const char *text, size_t len, bool complete, const char *name, char **ret)
{
	const char *p = text, *end = text + len;
	size_t name_len = strlen(name);
	char *value;

	if (!name_len || strchr(name, '='))
		return -EINVAL;
	while (p < end) {
		size_t n = strnlen(p, (size_t)(end - p));

		bool last = p + n == end; /* the last variable, which lacks its NUL */

		if (last && !complete)
			break;
		if (n > name_len && p[name_len] == '=' && memcmp(p, name, name_len) == 0) {
			value = strndup(p + name_len + 1, n - name_len - 1);
			if (!value)
				return -ENOMEM;
			*ret = value;
			return 0;
		}
		if (last)
			break;
		p += n + 1;
	}
	return -ENOENT;
}

int proc_environ_find(int proc_fd, uint32_t pid, const char *name, char **ret)
{
	_cleanup_free_ char *text = malloc(PROC_ENVIRON_MAX);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = proc_entry_read(proc_fd, pid, "environ", text, PROC_ENVIRON_MAX);
	if (n < 0)
		return (int)n;
	return proc_environ_parse(text, (size_t)n, (size_t)n < PROC_ENVIRON_MAX, name, ret);
}

uint64_t proc_boot_offset_ns(void)
{
	struct timespec ts;
	uint64_t mono, boot;

	/* Read in this order, the difference cannot be negative. */
	mono = clock_mono_ns();
	clock_gettime(CLOCK_BOOTTIME, &ts);
	boot = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
	return boot > mono ? boot - mono : 0;
}

uint64_t proc_start_mono_ns(uint64_t start_time_ticks, uint64_t boot_offset_ns)
{
	long hz = sysconf(_SC_CLK_TCK);
	uint64_t boot_ns;

	if (__builtin_mul_overflow(start_time_ticks, NS_PER_SEC / (uint64_t)(hz > 0 ? hz : 100), &boot_ns))
		return 0;
	return boot_ns > boot_offset_ns ? boot_ns - boot_offset_ns : 0;
}
