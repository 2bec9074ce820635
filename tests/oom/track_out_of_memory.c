// SPDX-License-Identifier: Apache-2.0
/*
 * The flow of processes with every allocation failing in turn; see README.md. The machine is that of the unit
 * tests, so that nothing but memory is missing. Prints one PASS or FAIL line; leaks are reported at the end
 * of the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/proc/table.h"
#include "tests/oom/failing_malloc.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL 100u
#define CHILD 200u
#define UNHEARD_OF 300u
#define CODE 0x400000ull
#define LIB 0x7f0000000000ull
#define BURST 10

struct totals {
	unsigned long runs, most, failures, not_started, repaired;
};

/* What a failed allocation may not spoil: it is there before. */
static struct flow *prepare(void)
{
	struct flow *f = flow_prepare();

	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_file_add(&f->host, "/lib/lib", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	strcpy(f->host.processes[0].exe, "/bin/sh");
	strcpy(f->host.processes[0].service, "shop");
	f->options.host = f->host.host;
	flow_wait(f, NS_PER_SEC);
	return f;
}

/* A child that runs a tool, has a thread, and maps a library over another; a process without any event. */
static void happen(struct flow *f)
{
	struct fake_host *h = &f->host;

	fake_process_add(h, CHILD, SHELL, "tool");
	fake_process_map(h, CHILD, CODE, 4, 0, "/bin/tool");
	fake_process_map(h, CHILD, LIB, 4, 0, "/lib/lib");
	fake_fork(h, SHELL, CHILD);
	fake_exec(h, CHILD, CHILD, "tool");
	fake_mmap(h, CHILD, CODE, 4, 0, "/bin/tool");
	fake_mmap(h, CHILD, LIB, 4, 0, "/bin/sh");
	fake_mmap(h, CHILD, LIB, 4, 0, "/lib/lib");
	fake_thread(h, CHILD, CHILD + 1);
	fake_comm(h, CHILD, CHILD + 1, "worker");
	fake_fork(h, CHILD, CHILD + 2);
	fake_exit(h, CHILD + 2, CHILD + 2);
	fake_process_add(h, UNHEARD_OF, 1, "other");
	fake_process_map(h, UNHEARD_OF, CODE, 4, 0, "/bin/sh");
}

static void run(struct flow *f)
{
	struct sampled_task task;

	(void)track_scan(f->track);
	(void)track_drain(f->track);
	for (uint32_t pid = SHELL; pid <= UNHEARD_OF; pid += 100) {
		const struct sample_view v = {
			.pid = pid, .tid = pid, .time_ns = fake_now_ns, .ending = ENDING_ROOT};

		(void)track_attribute(f->track, &v, &task);
	}
	track_reselect(f->track);
	track_sweep(f->track, fake_now_ns);
	(void)fake_pool_work(&f->host.workers);
	track_progress(f->track);
}

/* Later, with memory: gaps lead to another look at /proc. */
static void recover(struct flow *f)
{
	for (unsigned i = 0; i < 10; i++) {
		flow_wait(f, 10 * NS_PER_SEC);
		(void)track_drain(f->track);
		track_sweep(f->track, fake_now_ns);
		(void)fake_pool_work(&f->host.workers);
	}
	flow_settle(f);
}

static bool is(const char *what, const char *got, const char *want)
{
	if (strcmp(got, want) == 0)
		return true;
	printf("  %s: \"%s\" instead of \"%s\"\n", what, got, want);
	return false;
}

/* Whether everything that runs is known, called and mapped as it is, and published. */
static bool complete(struct flow *f)
{
	bool ok = is("shell", flow_sample(f, SHELL, SHELL).image->comm, "sh") &&
		  is("child", flow_sample(f, CHILD, CHILD).image->comm, "tool") &&
		  is("other", flow_sample(f, UNHEARD_OF, UNHEARD_OF).image->comm, "other") &&
		  is("code of the shell", flow_path(f, SHELL, CODE), "/bin/sh") &&
		  is("library of the shell", flow_path(f, SHELL, LIB), "/lib/lib") &&
		  is("code of the child", flow_path(f, CHILD, CODE), "/bin/tool") &&
		  is("library of the child", flow_path(f, CHILD, LIB), "/lib/lib") &&
		  is("code of the other", flow_path(f, UNHEARD_OF, CODE), "/bin/sh");

	for (uint32_t pid = SHELL; pid <= UNHEARD_OF; pid += 100)
		if (flow_slot(f, pid) != SLOT_LIST ||
		    publisher_outdated(track_publisher(f->track), flow_process(f, pid)->maps)) {
			printf("  process %u is not published\n", pid);
			ok = false;
		}
	return ok;
}

/* One flow with allocations [first, first + n) failing. Returns how many there were. */
static unsigned long one(unsigned long first, unsigned long n, struct totals *t, bool *ok)
{
	struct flow *f = prepare();
	unsigned long count, failed;
	int r;

	happen(f);
	failing_malloc_start_in_thread(first, n); /* not where tables are built, at any time */
	r = track_new(&f->track, &f->options);
	if (r == 0)
		run(f);
	count = failing_malloc_stop(&failed);
	t->runs++;
	t->failures += failed;
	t->not_started += r < 0;
	t->most = count > t->most ? count : t->most;
	if (r == 0) {
		recover(f);
		t->repaired += flow_stats(f).rescans > 0;
		*ok = complete(f);
	} else {
		*ok = failed > 0 && !f->track;
	}
	flow_free(f);
	return count;
}

int main(void)
{
	struct totals t = {0};
	bool ok = true;

	log_setup(LOG_ERROR, LOG_FORMAT_LOGFMT);
	(void)one(0, 0, &t, &ok);
	if (ok && t.repaired) {
		printf("  with memory there was a gap\n");
		ok = false;
	}
	for (unsigned long n = 1; n <= BURST && ok; n += BURST - 1)
		for (unsigned long first = 1; ok; first += n) {
			unsigned long count = one(first, n, &t, &ok);

			if (!ok)
				printf("  allocation %lu and %lu more\n", first, n - 1);
			if (count < first)
				break;
		}
	printf("%s oom/track: %lu flows of up to %lu allocations, %lu failed; %lu starts refused, %lu "
	       "repaired by "
	       "another look at /proc\n",
	       ok ? "PASS" : "FAIL", t.runs, t.most, t.failures, t.not_started, t.repaired);
	return !ok;
}
