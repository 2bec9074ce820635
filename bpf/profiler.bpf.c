// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The sampling program: looks up the task and whether it is selected, walks its stacks, sends the record. It
 * runs on every sampling event of every CPU, in interrupt context, at most one at a time per CPU (the kernel
 * does not nest BPF programs of perf events).
 */
#include "bpf/kernel.h"
#include "bpf/maps.h"
#include "bpf/regs.h"
#include "bpf/runtime.h"
#include "bpf/saved_stack.h"
#include "bpf/unwind.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PID_LEVELS 8 /* nested PID namespaces that are looked through */

/* Set by the agent before loading. Constants to the verifier, which drops the branches that they exclude. */
const volatile __u32 config_task_pt_regs; /* 1: bpf_task_pt_regs exists (5.15) */
const volatile __u32 config_pid_inum;	  /* inode of the agent's PID namespace; 0: it is the initial one */
const volatile __u32 config_frames = 512; /* most user frames */
const volatile __u32 config_wake_bytes = 1 << 16; /* a CPU wakes the agent after so many bytes */
const volatile __u64 config_ip_signature;	  /* arch_ip_signature() */
__u32 wake_early; /* 1: the agent drains the ring seldom: a sample that gives it work wakes it */

/* The pid of `task` in the agent's PID namespace, 0 if it is not visible there. */
static __always_inline __u32 pid_in_namespace(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level = BPF_CORE_READ(pid, level);

	for (__u32 i = 1; i < PID_LEVELS && i <= level; i++) {
		__u32 skip = i * bpf_core_type_size(struct upid);
		struct pid_namespace *ns;
		int nr;

		if (bpf_core_read(&ns, sizeof ns, (void *)&pid->numbers[0].ns + skip) ||
		    BPF_CORE_READ(ns, ns.inum) != config_pid_inum)
			continue;
		return bpf_core_read(&nr, sizeof nr, (void *)&pid->numbers[0].nr + skip) ? 0 : nr;
	}
	return 0;
}

/* Replaces pid << 32 | tid of the initial namespace by those of the agent's. 0: not visible there. */
UNWIND_FN __u64 pids_translate(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 pid = pid_in_namespace(BPF_CORE_READ(task, group_leader));

	return pid ? pid << 32 | pid_in_namespace(task) : 0;
}

#include "bpf/reports.h"

/*
 * A sample taken in kernel mode: the kernel's stack goes first into the record, and the user's registers come
 * from where the kernel saved them. Returns NEXT_MAPPING, or the ending when there is nothing of the user's
 * to walk.
 */
UNWIND_FN int kernel_part(struct bpf_perf_event_data *ctx)
{
	struct unwind_area *a = env_area();
	long bytes;

	if (!a)
		return ENDING_NO_REGISTERS;
	a->record.flags = SAMPLE_KERNEL_MODE;
	bytes = bpf_get_stack(ctx, a->frames, KERNEL_FRAMES_MAX * 8, 0);
	a->state.n = bytes > 0 ? (__u32)bytes / 8 : 0;
	if (config_task_pt_regs)
		return user_registers_btf(a);
	return user_registers_read(a);
}

/* All registers with which the task entered the kernel into state.regs. */
UNWIND_FN int registers_of_task(void)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	a->state.have_regs = 1;
	if (config_task_pt_regs)
		return registers_fill_btf(a);
	return registers_fill_read(a);
}

/* All registers of the sample into state.regs, for the rare rules that need more than sp and fp. */
UNWIND_FN int registers_fill(struct bpf_perf_event_data *ctx)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	a->state.have_regs = 1;
	if (!(a->record.flags & SAMPLE_KERNEL_MODE)) {
		registers_fill_context(a, ctx);
		return 0;
	}
	registers_of_task();
	return 0;
}

/* The process's mapping list, 0 when it is not known. */
static __always_inline __u32 process_list(__u32 pid)
{
	struct segment *s = env_segment(0);
	__u32 bucket = pid * 2654435761u >> 20; /* 32 - log2(PROCESS_BUCKETS) */

	if (!s)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < (int)(PROCESS_PROBES * PROCESS_BUCKET_SLOTS); i++) {
		__u64 slot = segment_u64(s, (bucket * PROCESS_BUCKET_SLOTS + i) %
						    (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS) * 8);

		if ((__u32)slot == pid)
			return slot >> 32;
		if (!(__u32)slot)
			break;
	}
	return 0;
}

/*
 * Where the frames of a language runtime are found in a process that the agent does not know yet: as in its
 * parent, which has the same memory until one of them calls execve. Sets state.list and state.runtime_at.
 */
UNWIND_FN int runtime_of_parent(void)
{
	struct unwind_area *a = env_area();
	struct task_struct *task = (void *)bpf_get_current_task(), *leader, *parent;
	struct segment *s;
	__u32 pid, slot, list;

	if (!a)
		return 0;
	leader = BPF_CORE_READ(task, group_leader);
	parent = BPF_CORE_READ(leader, real_parent);
	if (!(BPF_CORE_READ(leader, flags) & PF_FORKNOEXEC) ||
	    BPF_CORE_READ(task, mm, start_stack) != BPF_CORE_READ(parent, mm, start_stack) ||
	    BPF_CORE_READ(task, mm, start_code) != BPF_CORE_READ(parent, mm, start_code))
		return 0;
	pid = config_pid_inum ? pid_in_namespace(BPF_CORE_READ(parent, group_leader))
			      : (__u32)BPF_CORE_READ(parent, tgid);
	slot = pid ? process_list(pid) : 0;
	s = slot_segment(slot);
	if (!s)
		return 0;
	list = slot & SLOT_LIST_MASK;
	if (segment_u32(s, ref_offset(list) + 12) & LIST_SKIP)
		return 0;
	a->state.runtime_at = segment_u32(s, ref_offset(list) + LIST_RUNTIME);
	if (a->state.runtime_at)
		a->state.runtime_at += ref_offset(list);
	a->state.list = list;
	return 0;
}

/*
 * Walks on for at most ROUNDS rounds; a round does up to FRAMES_A_CALL frames, or one where every frame is in
 * another mapping. Two nested loops of 33 instead of one of 1,089: the verifier follows each round of a loop.
 */
#define ROUNDS 33

static __always_inline int rounds(struct bpf_perf_event_data *ctx, int next, const int tick)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (next == NEXT_MAPPING)
			next = unwind_mapping();
		if (next == NEXT_REGISTERS) {
			if (tick)
				registers_of_task();
			else
				registers_fill(ctx);
			next = NEXT_FRAMES;
		}
		if (next == NEXT_FRAMES)
			next = unwind_frames();
		if (next < ENDINGS)
			break;
	}
	return next;
}

UNWIND_FN int user_rounds(struct bpf_perf_event_data *ctx, int next)
{
	return rounds(ctx, next, 0);
}

UNWIND_FN int tick_rounds(int next)
{
	return rounds(0, next, 1);
}

/* Walks the user's stack from state.ip, sp, fp. Returns the ending. */
static __always_inline int user_part(struct bpf_perf_event_data *ctx, const int tick)
{
	int next = NEXT_MAPPING;

	for (int i = 0; i < ROUNDS && next >= ENDINGS; i++)
		next = tick ? tick_rounds(next) : user_rounds(ctx, next);
	return next < ENDINGS ? next : ENDING_DEPTH_LIMIT;
}

/* Walks as many frames beyond the limit as the ring holds. */
UNWIND_FN int user_lap(struct bpf_perf_event_data *ctx)
{
	unwind_beyond_limit();
	return user_part(ctx, 0);
}

UNWIND_FN int tick_lap(void)
{
	unwind_beyond_limit();
	return user_part(0, 1);
}

/*
 * Walks on beyond the limit, to the root of a deep recursion. The time is limited: from 1 ms on, the kernel
 * complains about an interrupt handler.
 */
#define LAPS_MAX 256
#define LAPS_NS 800000

static __always_inline int laps(struct bpf_perf_event_data *ctx, const int tick)
{
	__u64 begun = bpf_ktime_get_ns();
	int ending = ENDING_DEPTH_LIMIT;

	ROLLED
	for (int i = 0; i < LAPS_MAX && ending == ENDING_DEPTH_LIMIT; i++) {
		ending = tick ? tick_lap() : user_lap(ctx);
		if (bpf_ktime_get_ns() - begun > LAPS_NS)
			break;
	}
	return unwind_omit(ending);
}

UNWIND_FN int user_laps(struct bpf_perf_event_data *ctx)
{
	return laps(ctx, 0);
}

UNWIND_FN int tick_laps(void)
{
	return laps(0, 1);
}

/*
 * Whether a task in execve has no stack any more: it is in the new memory, or in that of the parent that
 * has started it by vfork. The latter goes on as soon as execve has let go of its memory, and writes over the
 * stack that both had, before the task has its own memory.
 */
static __always_inline int stack_is_gone(const struct unwind_area *a, struct task_struct *task)
{
	__u64 word;

	if (env_read_user(&word, sizeof word, a->state.sp))
		return 1;
	return !BPF_CORE_READ(task, vfork_done) &&
	       BPF_CORE_READ(task, mm, mm_users.counter) > BPF_CORE_READ(task, signal, nr_threads);
}

/*
 * The ending of a sample that was taken in the kernel, where the task explains it better than the walk: the
 * task has given its memory back (exit, or execve before the new image has its own), or it is a worker of the
 * kernel in a user's process, whose user registers are zero.
 */
UNWIND_FN int ending_of_task(int ending)
{
	struct unwind_area *a = env_area();
	struct task_struct *task = (void *)bpf_get_current_task();
	int in_execve = 0;

	if (!a)
		return ending;
	if (bpf_core_field_exists(task->in_execve))
		in_execve = BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
	if (ending == ENDING_ROOT && !in_execve)
		return ending;
	if (BPF_CORE_READ(task, mm) && !(in_execve && stack_is_gone(a, task)))
		return a->state.ip || a->state.sp ? ending : ENDING_KERNEL_THREAD;
	a->record.flags &= ~SAMPLE_OMITTED;
	a->state.n = a->record.n_kernel; /* a leaf without callers would pass for a root */
	return ENDING_EXITING;
}

/* Walks the frames of the process's language runtime. Two nested loops, for the verifier. */
#define RUNTIME_ROUNDS 16

UNWIND_FN int runtime_rounds(void)
{
	ROLLED
	for (int i = 0; i < RUNTIME_ROUNDS; i++)
		if (!runtime_steps())
			return 0;
	return 1;
}

UNWIND_FN int runtime_walk_all(void)
{
	ROLLED
	for (__u32 i = 0; i < RUNTIME_STEPS_MAX / RUNTIME_STEPS_A_CALL / RUNTIME_ROUNDS + 1; i++)
		if (!runtime_rounds())
			break;
	return runtime_walked();
}

/* Whether the agent has more to do with the area's record than to count it, and is not about to look. */
static __always_inline int record_is_urgent(const struct unwind_area *a)
{
	return (a->state.saved_bytes || a->state.runtime_words) && wake_early;
}

/* Sends the area's record. Wakes the agent when much waits, or this is urgent: else it drains by timer. */
static __always_inline void record_send(struct unwind_area *a)
{
	__u64 flags = BPF_RB_NO_WAKEUP, bytes = sizeof a->record +
						((__u64)a->state.n + a->state.runtime_words) * 8 +
						a->state.saved_bytes;

	BOUND(bytes, 0x7fff);
	if (bytes > sizeof a->record + sizeof a->frames)
		return;
	a->unannounced += bytes;
	if (a->unannounced >= config_wake_bytes || record_is_urgent(a)) {
		a->unannounced = 0;
		wake_early = 0;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (a->state.saved_bytes > sizeof(struct saved_stack) && !record_send_deep(flags))
		return;
	if (bpf_ringbuf_output(&ring, &a->record, bytes, flags))
		a->counters[COUNTER_RING_FULL]++;
}

/*
 * Counts the sample and prepares the area for it. Returns pid << 32 | tid, with the process's slot in
 * *ret_slot; 0: no sample is taken.
 */
static __always_inline __u64 sample_begin(struct unwind_area *a, __u64 pids, __u32 *ret_slot)
{
	struct segment *s;
	__u32 list;

	a->begun_ns = a->counters[COUNTER_TAKEN]++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns();
	if (config_pid_inum) {
		pids = pids_translate();
		if (!pids) {
			a->counters[COUNTER_NO_PID]++;
			return 0;
		}
	}
	*ret_slot = process_list(pids >> 32);
	list = *ret_slot & SLOT_LIST_MASK;
	a->record.generation = 0;
	a->state.runtime_at = 0;
	a->state.runtime_words = 0;
	a->state.heaps_at = 0;
	s = slot_segment(*ret_slot);
	if (s) {
		a->record.generation = segment_u32(s, ref_offset(list) + BLOCK_GENERATION);
		if (segment_u32(s, ref_offset(list) + 12) & LIST_SKIP) {
			a->counters[COUNTER_NOT_SELECTED]++;
			return 0;
		}
		a->state.runtime_at = segment_u32(s, ref_offset(list) + LIST_RUNTIME);
		if (a->state.runtime_at)
			a->state.runtime_at += ref_offset(list);
		a->state.heaps_at = segment_u32(s, ref_offset(list) + LIST_HEAPS);
		if (a->state.heaps_at)
			a->state.heaps_at += ref_offset(list);
	} else {
		list = 0;
		*ret_slot &= PROCESS_STACK;
	}
	a->ip_signature = config_ip_signature;
	a->state.list = list;
	a->state.n = 0;
	a->state.length = 0;
	a->state.segment = 0;
	a->state.window_len = 0;
	a->state.innermost = 1;
	a->state.have_regs = 0;
	a->state.fallback = 0;
	a->state.switches = 0;
	a->state.signals = 0;
	a->state.next_marker = NO_MARKER;
	a->record.flags = 0;
	a->state.saved_bytes = 0;
	return pids;
}

/* The most words of the user's stack. Frames of Java have two each. */
static __always_inline __u32 user_words(const struct unwind_area *a)
{
	__u32 words = a->state.heaps_at ? config_frames * 2 : config_frames;

	return words < USER_FRAMES_MAX ? words : USER_FRAMES_MAX;
}

/* Adds the frames of the runtime that the walk has found, if the sample has a stack. */
static __always_inline void runtime_add(struct unwind_area *a, int ending)
{
	__u32 words;

	if (!a->state.runtime_at || ending == ENDING_EXITING || ending == ENDING_KERNEL_THREAD)
		return;
	a->state.runtime_words = runtime_attach();
	if (!a->state.runtime_words)
		return;
	words = a->runtime.task ? runtime_attach_task() : 0;
	a->record.flags |= words ? SAMPLE_RUNTIME | SAMPLE_TASK : SAMPLE_RUNTIME;
	a->state.runtime_words += words;
}

/* After the kernel's part: walks the user's stack, adds what user space needs to go on, sends the record. */
static __always_inline void sample_end(struct unwind_area *a, struct bpf_perf_event_data *ctx, __u64 pids,
				       __u32 slot, int ending, const int tick)
{
	a->record.n_kernel = a->state.n;
	a->state.n_before = a->state.n;
	a->state.limit = a->state.n + user_words(a);
	if (ending == NEXT_MAPPING) {
		if (!slot)
			runtime_of_parent();
		if (slot & PROCESS_STACK) {
			a->record.flags |= SAMPLE_FROM_START;
			a->state.first_ip = a->state.ip;
			a->state.first_sp = a->state.sp;
			a->state.first_fp = a->state.fp;
		}
		if (a->state.runtime_at && runtime_begin()) {
			if (a->runtime.walk.leaf_register && tick)
				registers_of_task();
			else if (a->runtime.walk.leaf_register)
				registers_fill(ctx);
			runtime_walk_all();
		}
		ending = slot & ~PROCESS_STACK ? user_part(ctx, tick) : ENDING_NO_PROCESS;
		if (ending == ENDING_DEPTH_LIMIT) {
			a->state.ring = 0;
			ending = tick ? tick_laps() : user_laps(ctx);
		}
	} else {
		a->state.runtime_at = 0; /* nothing was looked for: what is there is of another sample */
	}
	if (a->record.flags & SAMPLE_KERNEL_MODE &&
	    (ending == ENDING_ROOT || ending == ENDING_NO_ROOT ||
	     (ending >= ENDING_NO_PROCESS && ending < ENDING_COMPAT_TASK)))
		ending = ending_of_task(ending);
	runtime_add(a, ending);
	if (ending != ENDING_EXITING && (a->record.flags & SAMPLE_FROM_START || can_finish(a, ending))) {
		int begun = saved_stack_begin();

		if (begun > 1 && tick)
			registers_of_task();
		else if (begun > 1)
			registers_fill(ctx);
		if (begun)
			saved_stack_attach(ending);
	}
	a->record.unloaded = a->state.heaps_at ? hotspot_unloaded() : 0;
	a->record.time_ns = bpf_ktime_get_ns();
	a->record.value = 1;
	a->record.origin = ORIGIN_CPU;
	a->record.pid = pids >> 32;
	a->record.tid = pids;
	a->record.cpu = bpf_get_smp_processor_id();
	a->record.ending = ending;
	a->record.n_user = a->state.n - a->record.n_kernel;
	record_send(a);
	if (a->state.saved_bytes)
		saved_stack_count(a);
	if (a->begun_ns)
		a->timed_ns += bpf_ktime_get_ns() - a->begun_ns;
}

SEC("perf_event")
int profile(struct bpf_perf_event_data *ctx)
{
	__u64 pids = bpf_get_current_pid_tgid();
	struct unwind_area *a;
	__u32 slot;
	int ending;

	if (!pids) /* idle */
		return 0;
	a = env_area();
	if (!a)
		return 0;
	pids = sample_begin(a, pids, &slot);
	if (!pids)
		return 0;
	ending = user_registers_context(a, ctx);
	if (ending == FROM_KERNEL)
		ending = kernel_part(ctx);
	sample_end(a, ctx, pids, slot, ending, 0);
	return 0;
}

#include "bpf/tasks.h"
#include "bpf/tick.h"
