// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/check/privileges.h"
#include "tests/unit/agent/check/fake_system.h"

#define READ (CAP(CAP_SYS_PTRACE) | CAP(CAP_DAC_READ_SEARCH) | CAP(N_RESTORE) | CAP(CAP_SYSLOG))
#define MAIN (READ | CAP(N_BPF) | CAP(N_PERFMON))
#define EIGHT (all_capabilities | CAP(CAP_SYS_RESOURCE))
#define ROOT (CAP(41) - 1)

/* CPUs that may come are those of /sys; the fake has none, and so none is sure. */
Test(privileges, a_pod_keeps_what_its_work_takes)
{
	_cleanup_config_ struct config *config = config_of("auto");
	struct fake fake = {.with = CAP(CAP_SYS_RESOURCE)};
	struct check_view view = view_of(&fake);
	struct privileges p;

	privileges_of(&view, config, &p);
	cr_expect_eq(p.held, EIGHT);
	cr_expect_eq(p.start, EIGHT);
	cr_expect_eq(p.kept, MAIN | CAP(CAP_IPC_LOCK));
	cr_expect_eq(p.of_thread[THREAD_READER], READ);
	cr_expect_eq(p.of_thread[THREAD_NETWORK], CAP(CAP_DAC_READ_SEARCH));
}

Test(privileges, root_keeps_no_more)
{
	_cleanup_config_ struct config *config = config_of("auto");
	struct fake fake = {.with = ROOT};
	struct check_view view = view_of(&fake);
	struct privileges p;

	privileges_of(&view, config, &p);
	cr_expect_eq(p.kept, MAIN | CAP(CAP_IPC_LOCK));
	cr_expect_not(p.start & CAP(CAP_SYS_ADMIN));
	config->queue.spool = strdup("/var/lib/proflet");
	privileges_of(&view, config, &p);
	cr_expect_not(p.kept & CAP(CAP_DAC_OVERRIDE));
	cr_expect(p.start & CAP(CAP_DAC_OVERRIDE), "the delivery process is forked then");
	cr_expect(p.of_thread[THREAD_NETWORK] & CAP(CAP_DAC_OVERRIDE), "the socket may be another user's");
}

Test(privileges, sys_admin_is_kept_where_it_stands_for_another)
{
	_cleanup_config_ struct config *config = config_of("auto");
	struct fake fake = {.without = CAP(N_BPF), .with = CAP(CAP_SYS_ADMIN)};
	struct check_view view = view_of(&fake);
	struct privileges p;

	privileges_of(&view, config, &p);
	cr_expect(p.kept & CAP(CAP_SYS_ADMIN));
	cr_expect_not(p.of_thread[THREAD_READER] & CAP(CAP_SYS_ADMIN));
	fake.without = CAP(N_RESTORE);
	privileges_of(&view, config, &p);
	cr_expect(p.of_thread[THREAD_READER] & CAP(CAP_SYS_ADMIN));
	fake.without = 0;
	privileges_of(&view, config, &p);
	cr_expect_not(p.kept & CAP(CAP_SYS_ADMIN));
	fake.path = "/proc/sys/kernel/perf_event_paranoid";
	fake.content = "3\n";
	privileges_of(&view, config, &p);
	cr_expect(p.kept & CAP(CAP_SYS_ADMIN), "for events of CPUs that come online");
}

Test(privileges, sets_have_names)
{
	static const struct {
		uint64_t set;
		const char *text;
	} rows[] = {
		{0, "none"},
		{CAP(N_BPF), "BPF"},
		{MAIN, "BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH, SYSLOG, CHECKPOINT_RESTORE"},
		{CAP(N_BPF) | CAP(CAP_CHOWN), "BPF and 1 other"},
		{CAP(CAP_KILL) | CAP(CAP_CHOWN), "2 others"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf b = {0};

		cr_assert_eq(privileges_format(rows[i].set, &b), 0);
		cr_expect_str_eq(buf_str(&b), rows[i].text);
	}
}

static uint64_t permitted(void)
{
	cap_t caps = cap_get_proc();
	uint64_t set = 0;

	for (int i = 0; i < cap_max_bits(); i++) {
		cap_flag_value_t v;

		if (cap_get_flag(caps, i, CAP_PERMITTED, &v) == 0 && v == CAP_SET)
			set |= CAP(i);
	}
	cap_free(caps);
	return set;
}

struct asking {
	struct worker_job job;
	uint64_t set;
};

static void ask(struct worker_job *job)
{
	container_of(job, struct asking, job)->set = permitted();
}

static void done(struct worker_job *job, bool cancelled)
{
	(void)job;
	(void)cancelled;
}

/* In a child, which needs its capabilities no more. */
static int give_up(void)
{
	struct asking asking = {.job = {.run = ask, .done = done}};
	struct worker *w;
	struct privileges p = {.held = permitted()};

	p.start = p.held & (MAIN | CAP(CAP_IPC_LOCK));
	p.kept = p.held & MAIN;
	p.of_thread[THREAD_READER] = p.held & READ;
	if (privileges_limit(&p) < 0 || permitted() != p.start)
		return 1;
	if (worker_new(&w, 1, 1, "test") < 0 || worker_submit(w, &asking.job, WORKER_HIGH) < 0)
		return 2;
	worker_drain(w, 120 * NS_PER_SEC);
	(void)worker_free(w);
	if (asking.set != p.of_thread[THREAD_READER])
		return 3;
	if (privileges_settle(&p) < 0 || permitted() != p.kept)
		return 4;
	return 0;
}

Test(privileges, are_given_up_for_good)
{
	int status;
	pid_t pid;

	if (permitted() != (permitted() | MAIN))
		cr_skip_test("not root");
	pid = fork();
	if (pid == 0)
		_exit(give_up());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "exit %d", WEXITSTATUS(status));
}
