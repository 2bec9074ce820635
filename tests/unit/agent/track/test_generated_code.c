// SPDX-License-Identifier: Apache-2.0
/* Which processes get a table for the code that they generate, and when its functions are looked up. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CHILD 200u
#define CODE 0x7f0000000000ull /* memory without a file */

struct list {
	int answer; /* of each look-up */
	unsigned n;
	struct generated_request last;
	uint64_t since_ns;
	enum vm_kind machine; /* that is known by now */
	unsigned n_machine;
};

static int look_up(struct process *p, uint64_t since_ns, struct generated_request *request, void *data)
{
	struct list *l = data;

	(void)p;
	l->n++;
	l->last = *request;
	l->since_ns = since_ns;
	return l->answer;
}

static bool find_machine(struct process *p, struct generated_request *request, void *data)
{
	struct list *l = data;

	(void)p;
	l->n_machine++;
	request->vm.kind = l->machine;
	return l->machine != VM_NONE;
}

static struct flow *with_code(struct list *l)
{
	struct flow *f = flow_prepare();

	f->options.function = look_up;
	f->options.machine = find_machine;
	f->options.function_data = l;
	f->options.max_files = 256;
	flow_add_shell(f);
	fake_process_map(&f->host, SHELL, CODE, 4, 0, NULL);
	flow_start(f);
	return f;
}

/* The table entry of the BPF program for an address. */
static struct mapping_entry entry_at(struct flow *f, uint32_t pid, uint64_t address)
{
	const struct mapping_list *list = flow_list(f, pid);
	const struct mapping_entry *e;

	cr_assert_not_null(list);
	e = (const struct mapping_entry *)((const uint8_t *)list + list->entries);
	for (uint32_t i = 0; i < list->n; i++)
		if (address >= e[i].start && address < e[i].end)
			return e[i];
	cr_assert_fail("no entry at %#lx", (unsigned long)address);
	return (struct mapping_entry){0};
}

static uint32_t code_of(struct flow *f, uint32_t pid)
{
	return flow_process(f, pid)->maps->code;
}

static void hit(struct flow *f, uint32_t pid, uint64_t address)
{
	track_generated(f->track, flow_process(f, pid), address, GENERATED_CODE);
	track_progress(f->track);
}

/* Before the first sample, the code is not known; then it is that of a binary of its own. */
Test(generated_code, first_hit)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);

	cr_expect_eq(entry_at(f, SHELL, CODE).table, TABLE_PENDING);
	cr_expect_eq(entry_at(f, SHELL, CODE).file, FILE_ANONYMOUS);
	cr_expect_eq(code_of(f, SHELL), 0);
	hit(f, SHELL, CODE + 0x40);
	cr_assert_neq(code_of(f, SHELL), 0);
	cr_expect_eq(entry_at(f, SHELL, CODE).file, code_of(f, SHELL));
	cr_expect_eq(entry_at(f, SHELL, CODE).bias, 0);
	cr_expect_eq(l.n, 1);
	cr_expect_eq(l.last.address, CODE + 0x40);
	cr_expect_eq(l.last.low, CODE);
	cr_expect_eq(l.last.high, CODE + 4 * FAKE_PAGE);
	cr_expect_eq(flow_stats(f).generated.processes, 1);
}

/* The address waits until the runtime's list has been read; the list must be newer than the hit. */
Test(generated_code, list_is_being_read)
{
	struct list l = {.answer = -EAGAIN};
	_cleanup_flow_ struct flow *f = with_code(&l);
	const uint64_t at = fake_now_ns;

	hit(f, SHELL, CODE + 0x40);
	cr_expect(track_reading(f->track, flow_process(f, SHELL)), "its samples wait");
	flow_wait(f, NS_PER_SEC);
	track_progress(f->track);
	cr_expect_eq(l.n, 2);
	cr_expect_eq(l.since_ns, at);
	l.answer = 0;
	track_progress(f->track);
	cr_expect_eq(l.n, 3);
	cr_expect_not(track_reading(f->track, flow_process(f, SHELL)));
	track_progress(f->track);
	cr_expect_eq(l.n, 3, "it was requested");
}

/* What was analysed before a virtual machine was known leads to it: no sample would. */
Test(generated_code, machine_that_is_known_late)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);
	const struct binary_table *t;

	hit(f, SHELL, CODE + 0x40);
	t = unwind_tables_get(track_tables(f->track), code_of(f, SHELL));
	for (int i = 0; i < 10; i++)
		track_progress(f->track);
	cr_expect_leq(l.n_machine, 1, "not at every turn");
	(void)generated_begin(t->generated, false);
	cr_expect_not(generated_requested(t->generated));
	l.machine = VM_HOTSPOT;
	flow_wait(f, 2 * NS_PER_SEC);
	track_progress(f->track);
	cr_expect(generated_requested(t->generated), "its code is looked at again");
	(void)generated_begin(t->generated, false);
	flow_wait(f, 2 * NS_PER_SEC);
	track_progress(f->track);
	cr_expect_not(generated_requested(t->generated), "once");
}

/* A child has its parent's table as long as it generates nothing itself. */
Test(generated_code, fork)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);
	uint32_t parents;

	hit(f, SHELL, CODE);
	parents = code_of(f, SHELL);
	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect_eq(code_of(f, CHILD), parents);
	hit(f, CHILD, CODE);
	cr_expect_neq(code_of(f, CHILD), parents);
	cr_expect_neq(code_of(f, CHILD), 0);
	cr_expect_eq(code_of(f, SHELL), parents);
}

Test(generated_code, execve)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);
	uint32_t before;

	hit(f, SHELL, CODE);
	before = code_of(f, SHELL);
	flow_wait(f, NS_PER_SEC);
	fake_exec(&f->host, SHELL, SHELL, "tool");
	fake_mmap(&f->host, SHELL, CODE, 4, 0, NULL);
	(void)track_drain(f->track);
	cr_expect_eq(code_of(f, SHELL), 0);
	hit(f, SHELL, CODE);
	cr_expect_neq(code_of(f, SHELL), 0);
	cr_expect_neq(code_of(f, SHELL), before);
}

/* A mapping that the process makes later belongs to the same code, and replaces nothing. */
Test(generated_code, more_memory)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);

	hit(f, SHELL, CODE);
	fake_mmap(&f->host, SHELL, CODE, 4, 0, NULL);
	fake_mmap(&f->host, SHELL, CODE + (1 << 20), 4, 0, NULL);
	(void)track_drain(f->track);
	cr_expect_eq(entry_at(f, SHELL, CODE).file, code_of(f, SHELL));
	cr_expect_eq(entry_at(f, SHELL, CODE + (1 << 20)).file, code_of(f, SHELL));
	cr_expect_not(flow_sends_stack(f, SHELL));
}

/* One control group does not take the places of others; who has none is cut, not skipped. */
Test(generated_code, too_many_processes)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);

	for (uint32_t i = 0; i <= GENERATED_WORKLOAD_MAX; i++) {
		fake_process_add(&f->host, CHILD + i, SHELL, "sh");
		fake_fork(&f->host, SHELL, CHILD + i);
		(void)track_drain(f->track);
		hit(f, CHILD + i, CODE);
	}
	cr_expect_geq(flow_stats(f).generated.full, 1);
	cr_expect_eq(flow_stats(f).generated.processes, GENERATED_WORKLOAD_MAX);
	cr_expect_eq(entry_at(f, CHILD + GENERATED_WORKLOAD_MAX, CODE).table, TABLE_REFUSED);
	cr_expect_eq(entry_at(f, CHILD, CODE).table, TABLE_PENDING);
}

/* Its memory cannot be read any more. */
Test(generated_code, ended_process)
{
	struct list l = {.answer = -ENOENT};
	_cleanup_flow_ struct flow *f = with_code(&l);
	struct process *p = process_ref(flow_process(f, SHELL));

	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	track_generated(f->track, p, CODE, GENERATED_CODE);
	cr_expect_neq(p->maps->code, 0);
	cr_expect(unwind_tables_get(track_tables(f->track), p->maps->code)->refused);
	process_unref(p);
}
