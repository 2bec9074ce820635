// SPDX-License-Identifier: Apache-2.0
/* Tests the names of a process, by time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/table.h"

DEFINE_CLEANUP(struct proc_table *, proc_table_free)
#define _cleanup_table_ _cleanup_(proc_table_free_p)

struct workload {
	int refs;
};

static void workload_ref(void *data)
{
	((struct workload *)data)->refs++;
}

static void workload_unref(void *data)
{
	((struct workload *)data)->refs--;
}

/* Has one reference, for the image. */
static struct proc_context context(struct workload *w)
{
	w->refs++;
	return (struct proc_context){w, workload_ref, workload_unref, 0};
}

static struct proc_table *table_new(void)
{
	struct proc_table *t = NULL;

	cr_assert_eq(proc_table_new(&t, 100, NULL), 0);
	return t;
}

static struct process *add(struct proc_table *t, uint32_t pid, uint64_t start_ns, const char *comm)
{
	struct process *p = NULL;

	cr_assert_eq(proc_table_add(t, pid, start_ns, &p), 0);
	strcpy(p->image->comm, comm);
	return p;
}

static struct proc_image *rename_at(struct process *p, uint64_t time_ns, const char *comm)
{
	struct proc_image *i = NULL;

	cr_assert_eq(proc_image_begin(p, time_ns, &i), 0);
	strcpy(i->comm, comm);
	return i;
}

static struct proc_image *exec_at(struct process *p, uint64_t time_ns, const char *comm, const char *exe)
{
	struct proc_image *i = NULL;

	cr_assert_eq(proc_image_exec(p, time_ns, &i), 0);
	strcpy(i->comm, comm);
	i->program->exe = exe ? strdup(exe) : NULL;
	return i;
}

Test(image, by_time)
{
	static const struct {
		uint64_t time_ns;
		const char *comm, *executable;
	} cases[] = {{50, "shell", "shell"},	{100, "shell", "shell"}, {199, "shell", "shell"},
		     {200, "make", "gmake"},	{250, "make", "gmake"},	 {300, "renamed", "gmake"},
		     {399, "renamed", "gmake"}, {400, "cc", "cc1"},	 {9999, "cc", "cc1"}};
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "shell");

	exec_at(p, 200, "make", "/usr/bin/gmake");
	rename_at(p, 300, "renamed");
	exec_at(p, 400, "cc", "cc1");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct proc_image *image = proc_image_at(p, cases[i].time_ns);

		cr_expect_str_eq(image->comm, cases[i].comm);
		cr_expect_str_eq(proc_image_executable(image), cases[i].executable);
		cr_expect_eq(image->pid, 10);
		cr_expect_eq(image->start_ns, 100);
	}
}

/* What the process is called, of what its main thread is called. */
Test(image, names)
{
	static const struct {
		const char *exec, *comm, *exe, *name;
	} cases[] = {
		{"node", "node", "/usr/bin/node", "node"},
		{"node", "MainThread", "/usr/bin/node", "node"},
		{"node", "node-MainThread", "/usr/bin/node", "node"},
		{"", "MainThread", "/usr/bin/node", "node"}, /* older than the agent */
		{"app", "main", "/srv/app", "app"},
		{"app", "Main Thread", "/srv/app", "app"},
		{"app", "main_thread", "/srv/app", "app"},
		{"app", "worker", "/srv/app", "worker"},
		{"app", "MainThread", NULL, "MainThread"},
		/* a program or script of that name */
		{"main", "main", "/srv/main", "main"},
		{"main", "main", "/usr/bin/python3.11", "main"},
		{"", "main", "/srv/main", "main"},
		/* more telling than the executable */
		{"nginx", "nginx: worker", "/usr/sbin/nginx", "nginx: worker"},
		{"postgres", "postgres: writer", "/usr/lib/postgresql/15/bin/postgres", "postgres: write"},
		{"deploy.sh", "deploy.sh", "/usr/bin/bash", "deploy.sh"},
		{"python3", "gunicorn", "/usr/bin/python3.11", "gunicorn"},
		{"java", "worker-7", "/opt/jdk/bin/java", "worker-7"},
		{"a-very-long-nam", "a-very-long-nam", "/srv/a-very-long-name", "a-very-long-nam"},
		{"app", "app-reader", "/srv/app", "app-reader"},
		{"app", "mainframe", "/srv/app", "mainframe"},
		{"app", "", "/srv/app", ""},
	};
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "shell");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char exec[PROC_TASK_COMM_LEN], comm[PROC_TASK_COMM_LEN];

		snprintf(exec, sizeof exec, "%.15s", cases[i].exec);
		snprintf(comm, sizeof comm, "%.15s", cases[i].comm);
		struct proc_image *image = exec_at(p, 200 + 10 * i, exec, cases[i].exe);
		strcpy(image->program->comm, exec);
		image = rename_at(p, 205 + 10 * i, comm);
		cr_expect_str_eq(proc_image_name(image), cases[i].name, "%s: %s", cases[i].comm,
				 proc_image_name(image));
	}
}

/* Facts about a program that are found after it began apply to all of its samples, including earlier ones. */
Test(image, the_executable_is_known_later)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "shell");
	struct proc_image *held = proc_image_ref(exec_at(p, 200, "cc", NULL));

	rename_at(p, 210, "other");
	cr_expect_str_eq(proc_image_executable(held), "cc");
	p->image->program->exe = strdup("/usr/bin/cc1");
	cr_expect_str_eq(proc_image_executable(held), "cc1");
	proc_image_unref(held);
}

/* Events of two CPUs may arrive in the wrong order: no image begins before its predecessor. */
Test(image, out_of_order)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "a");

	rename_at(p, 300, "b");
	rename_at(p, 200, "c");
	cr_expect_str_eq(proc_image_at(p, 250)->comm, "a");
	cr_expect_str_eq(proc_image_at(p, 300)->comm, "c");
}

Test(image, samples_hold_a_reference)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "a");
	struct proc_image *held = proc_image_ref(proc_image_at(p, 150));

	exec_at(p, 200, "b", "/b");
	proc_images_forget(p, 1000);
	cr_expect_eq(p->n_images, 1);
	cr_expect_str_eq(proc_image_at(p, 150)->comm, "b", "the oldest one that is kept");
	proc_table_end(t, p, 300);
	proc_table_reap(t, 1000);
	cr_expect_str_eq(held->comm, "a");
	proc_image_unref(held);
	proc_image_unref(NULL);
}

Test(image, forget)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 100, "a");

	rename_at(p, 200, "b");
	rename_at(p, 300, "c");
	proc_images_forget(p, 150);
	cr_expect_eq(p->n_images, 3);
	proc_images_forget(p, 200);
	cr_expect_eq(p->n_images, 2, "one that ended then was the last moment before");
	cr_expect_str_eq(proc_image_at(p, 250)->comm, "b");
	cr_expect_str_eq(proc_image_at(p, 300)->comm, "c");
}

/* Samples of a forgotten image are "[unknown]"; they do not get other names. */
Test(image, maximum)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct process *p = add(t, 10, 0, "0");
	unsigned n = 3 * PROC_IMAGES_MAX, wrong = 0, known = 0;
	char name[PROC_TASK_COMM_LEN];

	p->image->selected = true;
	for (unsigned i = 1; i <= n; i++) {
		snprintf(name, sizeof name, "%u", i);
		rename_at(p, i, name);
		cr_assert_leq(p->n_images, PROC_IMAGES_MAX);
	}
	for (unsigned i = 0; i <= n; i++) {
		const struct proc_image *image = proc_image_at(p, i);

		snprintf(name, sizeof name, "%u", i);
		known += strcmp(image->comm, name) == 0;
		wrong += strcmp(image->comm, name) != 0 && strcmp(image->comm, "[unknown]") != 0;
		cr_expect(image->selected);
	}
	cr_expect_eq(wrong, 0);
	cr_expect_geq(known, PROC_IMAGES_MAX - 3);
}

Test(image, maximum_of_all)
{
	_cleanup_table_ struct proc_table *t = NULL;
	struct process *p = NULL;
	unsigned n = 2 * PROC_IMAGES_ALL_MAX / PROC_IMAGES_MAX;

	cr_assert_eq(proc_table_new(&t, 2 * n, NULL), 0);
	for (unsigned pid = 1; pid <= n; pid++) {
		p = add(t, pid, 0, "first");
		for (unsigned i = 1; i < PROC_IMAGES_MAX; i++)
			rename_at(p, i, "other");
		cr_assert_leq(*p->n_images_all, PROC_IMAGES_ALL_MAX + 3 * n);
	}
	cr_expect_str_eq(proc_image_at(p, 0)->comm, "[unknown]");
	cr_expect_str_eq(proc_image_at(p, PROC_IMAGES_MAX)->comm, "other");
	for (unsigned pid = 1; pid <= n; pid++)
		proc_table_end(t, proc_table_get(t, pid), 1000);
	p = add(t, n + 1, 0, "last");
	proc_table_reap(t, UINT64_MAX);
	cr_expect_eq(*p->n_images_all, 1);
}

/*
 * A forked process has its parent's names until one of them changes, and shares what is read about
 * the program.
 */
Test(image, inherit)
{
	_cleanup_table_ struct proc_table *t = table_new();
	struct workload w = {0};
	struct process *parent = add(t, 10, 100, "server"), *child = add(t, 11, 200, "");

	parent->image->program->exe = strdup("/usr/bin/server");
	parent->image->selected = true;
	proc_image_set_context(parent->image, context(&w), 120);
	proc_image_inherit(child, parent);
	cr_expect_eq(w.refs, 2);
	cr_expect_eq(child->image->context_ns, 0, "not read of the child itself");
	cr_expect_str_eq(child->image->comm, "server");
	cr_expect_str_eq(proc_image_executable(child->image), "server");
	cr_expect(child->image->selected);
	cr_expect_eq(child->image->pid, 11);
	cr_expect_eq(child->image->start_ns, 200);
	proc_program_set_service(child->image->program, strdup("shop"), 11, 250);
	cr_expect_str_eq(parent->image->program->service_name, "shop");
	exec_at(child, 300, "sh", "/bin/sh");
	cr_expect_null(child->image->program->service_name);
	cr_expect_str_eq(parent->image->program->service_name, "shop");
	cr_expect_eq(child->image->context.data, &w);
	proc_table_free(TAKE_PTR(t));
	cr_expect_eq(w.refs, 0);
}

/* An environment that was read after the process left the program is discarded. */
Test(image, service_name_read_too_late)
{
	static const struct {
		uint32_t reader;
		uint64_t read_ns, left_ns;
		bool stays;
	} cases[] = {{10, 150, 200, true}, {10, 250, 200, false}, {11, 250, 200, true}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_table_ struct proc_table *t = table_new();
		struct process *p = add(t, 10, 100, "a");
		struct proc_image *first = proc_image_ref(p->image);

		proc_program_set_service(first->program, strdup("shop"), cases[i].reader, cases[i].read_ns);
		exec_at(p, cases[i].left_ns, "b", "/b");
		cr_expect_eq(first->program->service_name != NULL, cases[i].stays, "case %zu", i);
		cr_expect_neq(first->program->environ_ns, 0, "not read again");
		proc_image_unref(first);
	}
}

/* A workload that was read by the pid after another process got it is discarded. */
Test(image, workload_of_another_process)
{
	struct workload launcher = {0}, first = {0}, second = {0};

	for (uint64_t reuse_ns = 250; reuse_ns <= 350; reuse_ns += 100) {
		_cleanup_table_ struct proc_table *t = table_new();
		struct process *p = add(t, 10, 100, "launcher");
		struct proc_image *image;

		proc_image_set_context(p->image, context(&launcher), 110);
		image = exec_at(p, 200, "a", "/a");
		proc_image_set_context(image, context(reuse_ns < 300 ? &second : &first), 300);
		proc_table_end(t, p, 240);
		add(t, 10, reuse_ns, "launcher");
		cr_expect_eq(image->context.data, reuse_ns < 300 ? &launcher : &first);
		cr_expect_eq(proc_image_at(p, 150)->context.data, &launcher);
	}
	cr_expect_eq(launcher.refs + first.refs + second.refs, 0);
}
