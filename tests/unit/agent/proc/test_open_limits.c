// SPDX-License-Identifier: Apache-2.0
/* Tests missing rights and descriptors, and processes that end during the call. */
#include "tests/unit/agent/proc/mapped.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Runs in a child: drops rights, tries, and reports the error, or 1000 + the way. */
struct attempt {
	uint32_t drop[4]; /* capability numbers */
	size_t n_drop;
	bool as_nobody;
	const struct proc_open_request *req;
};

static int attempt_run(void *data)
{
	struct attempt *a = data;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];
	int proc_fd = proc_root(), r;
	struct proc_opened o;

	if (a->as_nobody && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return -EDOM;
	if (syscall(SYS_capget, &header, caps) < 0)
		return -EDOM;
	for (size_t i = 0; i < a->n_drop; i++)
		caps[a->drop[i] / 32].effective &= ~(1u << (a->drop[i] % 32));
	if (syscall(SYS_capset, &header, caps) < 0)
		return -EDOM;
	r = proc_open_mapping(proc_fd, a->req, &o);
	return r < 0 ? r : 1000 + (int)o.way;
}

Test(open_limits, says_which_right_is_missing)
{
	enum { CHECKPOINT = CAP_CHECKPOINT_RESTORE, ADMIN = CAP_SYS_ADMIN };
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct proc_open_request deleted;
	struct child c, tried;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	deleted = m.req;
	deleted.deleted = true;
	const struct {
		struct attempt attempt;
		int want;
	} cases[] = {
		{{.req = &m.req}, 1000 + PROC_OPEN_MAP_FILES},
		{{.drop = {CHECKPOINT, ADMIN}, .n_drop = 2, .req = &m.req}, 1000 + PROC_OPEN_ROOT},
		{{.drop = {CHECKPOINT, ADMIN}, .n_drop = 2, .req = &deleted}, -EPERM},
		{{.as_nobody = true, .req = &m.req}, -EACCES},
		{{.as_nobody = true, .req = &deleted}, -EACCES},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct attempt a = cases[i].attempt;

		tried = child_start(attempt_run, &a);
		cr_expect_eq(tried.ready, cases[i].want, "case %zu: %d", i, tried.ready);
		child_stop(&tried);
	}
	child_stop(&c);
	mapped_remove(&m);
}

Test(open_limits, out_of_descriptors_is_said_at_once)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct rlimit limit;
	struct mapped m;
	int dup_fd;

	mapped_make(&m);
	m.req.pid = (uint32_t)getpid();
	dup_fd = dup(proc_fd);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int more = 0; more < 3; more++) {
		struct rlimit tight = {.rlim_cur = (rlim_t)(dup_fd + more), .rlim_max = limit.rlim_max};

		close(dup_fd);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
		expect_error(proc_fd, &m.req, -EMFILE);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		cr_assert_eq(dup(proc_fd), dup_fd);
	}
	close(dup_fd);
	mapped_remove(&m);
}

struct killer {
	pid_t pid;
	unsigned yields;
};

static void *kill_soon(void *data)
{
	struct killer *k = data;

	for (unsigned i = 0; i < k->yields; i++)
		sched_yield();
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
	return NULL;
}

/* The process ends at any point of the attempt: there is a result or an error, and no descriptor leaks. */
Test(open_limits, survives_a_process_that_ends_meanwhile)
{
	_cleanup_close_ int proc_fd = proc_root();
	unsigned ok = 0, gone = 0;
	struct mapped m;
	int fds;

	mapped_make(&m);
	fds = open_fds();
	for (unsigned i = 0; i < 150; i++) {
		struct child c = child_start(NULL, NULL);
		struct killer k = {c.pid, i % 50};
		struct proc_opened o;
		pthread_t thread;
		int r = 0;

		m.req.pid = (uint32_t)c.pid;
		m.req.deleted = i & 1;
		cr_assert_eq(pthread_create(&thread, NULL, kill_soon, &k), 0);
		while (r != -ESRCH) {
			r = proc_open_mapping(proc_fd, &m.req, &o);
			if (r == 0)
				close(o.fd);
			ok += r == 0;
			gone += r == -ESRCH;
			/* -ENOENT: ended, but not waited for yet. */
			cr_assert(r == 0 || r == -ESRCH || r == -ENOENT ||
					  (geteuid() && (r == -EPERM || r == -EACCES)),
				  "%d", r);
		}
		pthread_join(thread, NULL);
	}
	cr_assert_eq(gone, 150);
	cr_assert_gt(ok, 0);
	cr_assert_eq(open_fds(), fds);
	mapped_remove(&m);
}
