// SPDX-License-Identifier: Apache-2.0
/* Workload and service name of a process, by time; who is selected by them. */
#include <string.h>

#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL 100u
#define CHILD 200u
#define CODE 0x400000ull
#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* A shell in container A, with a service name. */
static struct flow *prepare(void)
{
	struct flow *f = flow_prepare();
	struct fake_process *p = fake_process_add(&f->host, SHELL, 1, "sh");

	fake_file_add(&f->host, "/bin/sh", false);
	strcpy(p->container, A);
	strcpy(p->service, "shop");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	flow_wait(f, NS_PER_SEC);
	return f;
}

static struct flow *with_shell(void)
{
	struct flow *f = prepare();

	flow_start(f);
	return f;
}

static const char *container_of_image(const struct proc_image *i)
{
	const struct cgroup_meta *m = i->context.data;

	return m ? m->identity.container_id : "";
}

static void child_in(struct flow *f, const char *container)
{
	strcpy(fake_process_add(&f->host, CHILD, SHELL, "sh")->container, container);
	fake_process_map(&f->host, CHILD, CODE, 4, 0, "/bin/sh");
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
}

Test(process_names, workload)
{
	_cleanup_flow_ struct flow *f = with_shell();

	cr_expect_str_eq(container_of_image(flow_sample(f, SHELL, SHELL).image), A);
	cr_expect_eq(f->n_workloads, 1);
	cr_expect_eq(flow_stats(f).names.workloads.entries, 1);
}

/* What a fork has inherited is read at its first sample: the runtime forks, and then moves it. */
Test(process_names, workload_of_a_fork)
{
	_cleanup_flow_ struct flow *f = with_shell();

	child_in(f, B);
	cr_expect_eq(f->n_workloads, 1, "of the shell alone");
	cr_expect_str_eq(container_of_image(flow_sample(f, CHILD, CHILD).image), B);
	cr_expect_eq(f->n_workloads, 2);
	cr_expect_str_eq(container_of_image(flow_sample(f, SHELL, SHELL).image), A);
}

Test(process_names, workload_at_execve)
{
	_cleanup_flow_ struct flow *f = with_shell();

	child_in(f, B);
	fake_exec(&f->host, CHILD, CHILD, "app");
	(void)track_drain(f->track);
	cr_expect_str_eq(container_of_image(flow_sample(f, CHILD, CHILD).image), B);
}

/* No event tells of a move: samples of before keep the former one. */
Test(process_names, moved)
{
	_cleanup_flow_ struct flow *f = with_shell();
	unsigned n_cgroups;
	uint64_t before;

	(void)flow_sample(f, SHELL, SHELL);
	before = fake_now_ns;
	n_cgroups = f->host.n_cgroups;
	strcpy(f->host.processes[0].container, B);
	flow_wait(f, NS_PER_SEC);
	cr_expect_str_eq(container_of_image(flow_sample(f, SHELL, SHELL).image), A);
	cr_expect_eq(f->host.n_cgroups, n_cgroups, "it is not read for each sample");
	flow_wait(f, 5 * NS_PER_SEC);
	cr_expect_str_eq(container_of_image(flow_sample(f, SHELL, SHELL).image), B);
	cr_expect_eq(f->host.n_cgroups, n_cgroups + 1);
	cr_expect_str_eq(container_of_image(flow_sample_at(f, SHELL, SHELL, before).image), A);
}

/* The process is gone when its sample is handled: what is known of it stays. */
Test(process_names, workload_of_one_that_is_gone)
{
	_cleanup_flow_ struct flow *f = with_shell();

	flow_wait(f, 6 * NS_PER_SEC);
	fake_process_remove(&f->host, SHELL);
	cr_expect_str_eq(container_of_image(flow_sample(f, SHELL, SHELL).image), A);
}

Test(process_names, service)
{
	_cleanup_flow_ struct flow *f = with_shell();

	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).image->program->service_name, "shop");
	(void)flow_sample(f, SHELL, SHELL);
	cr_expect_eq(f->host.n_environs, 1, "read once");
	child_in(f, A);
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->program->service_name, "shop",
			 "the same program");
	cr_expect_eq(f->host.n_environs, 1);
	fake_exec(&f->host, CHILD, CHILD, "app");
	(void)track_drain(f->track);
	cr_expect_null(flow_sample(f, CHILD, CHILD).image->program->service_name);
	cr_expect_eq(f->host.n_environs, 2);
}

Test(process_names, service_comes_late)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.readers.answer = FAKE_LATE;
	cr_expect_null(flow_sample(f, SHELL, SHELL).image->program->service_name);
	flow_wait(f, NS_PER_MS);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).image->program->service_name, "shop");
}

/* By the time that it was read, the pid ran another program. */
Test(process_names, service_comes_late_after_execve)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct proc_image *before;

	f->host.readers.answer = FAKE_LATE;
	before = proc_image_ref(flow_sample(f, SHELL, SHELL).image);
	fake_exec(&f->host, SHELL, SHELL, "app");
	strcpy(f->host.processes[0].service, "other");
	(void)track_drain(f->track);
	flow_wait(f, NS_PER_MS);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_null(before->program->service_name);
	proc_image_unref(before);
}

Test(process_names, service_comes_late_after_exit)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct proc_image *before;

	f->host.readers.answer = FAKE_LATE;
	before = proc_image_ref(flow_sample(f, SHELL, SHELL).image);
	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	flow_wait(f, NS_PER_MS);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_null(before->program->service_name);
	proc_image_unref(before);
}

/* It was read at once, but an event that arrives later says that the pid had gone before. */
Test(process_names, service_of_another_process)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct proc_image *image;

	fake_exit(&f->host, SHELL, SHELL);
	flow_wait(f, NS_PER_MS);
	image = proc_image_ref(flow_sample_at(f, SHELL, SHELL, FAKE_START_NS + NS_PER_SEC).image);
	cr_expect_str_eq(image->program->service_name, "shop");
	(void)track_drain(f->track);
	cr_expect_null(image->program->service_name, "it may be that of the next process of this pid");
	proc_image_unref(image);
}

/* --- selection */

static const char *selected_container;
static enum select_answer otherwise;

static enum select_answer by_container(const struct process *p, void *data)
{
	(void)data;
	return strcmp(container_of_image(p->image), selected_container) == 0 ? SELECT_YES : otherwise;
}

Test(process_names, selection)
{
	_cleanup_flow_ struct flow *f = prepare();

	selected_container = B;
	otherwise = SELECT_NO;
	f->options.select = by_container;
	flow_start(f);
	cr_expect_not(flow_sample(f, SHELL, SHELL).image->selected);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_SKIP);
	child_in(f, B);
	cr_expect_not(flow_sample(f, CHILD, CHILD).image->selected, "as its parent");
	fake_exec(&f->host, CHILD, CHILD, "app");
	fake_mmap(&f->host, CHILD, CODE, 4, 0, "/bin/sh");
	(void)track_drain(f->track);
	cr_expect(flow_sample(f, CHILD, CHILD).image->selected);
	cr_expect_eq(flow_slot(f, CHILD), SLOT_LIST);
	cr_expect_not(flow_sample(f, 999, 999).image->selected, "one that is gone without a trace");
}

Test(process_names, selection_changes)
{
	_cleanup_flow_ struct flow *f = prepare();

	selected_container = A;
	otherwise = SELECT_NO;
	f->options.select = by_container;
	fake_process_add(&f->host, 2, 0, "kthreadd")->kernel_thread = true;
	flow_start(f);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
	strcpy(f->host.processes[0].container, B);
	track_reselect(f->track);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_SKIP);
	strcpy(f->host.processes[0].container, A);
	track_reselect(f->track);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
	track_reselect(f->track);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
}

/* A selection by pid goes from parents to children. */
Test(process_names, selection_as_the_parent)
{
	_cleanup_flow_ struct flow *f = prepare();

	selected_container = A;
	otherwise = SELECT_AS_PARENT;
	f->options.select = by_container;
	fake_process_add(&f->host, 300, SHELL, "there before");
	fake_process_add(&f->host, 301, 1, "other");
	flow_start(f);
	cr_expect(flow_sample(f, SHELL, SHELL).image->selected);
	cr_expect(flow_sample(f, 300, 300).image->selected);
	cr_expect_not(flow_sample(f, 301, 301).image->selected);
	child_in(f, B);
	fake_exec(&f->host, CHILD, CHILD, "app");
	(void)track_drain(f->track);
	cr_expect(flow_sample(f, CHILD, CHILD).image->selected);
}
