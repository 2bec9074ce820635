/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The one difference between the two builds of unwind.h: in the kernel (clang -target bpf) memory comes from
 * maps and helpers; on the host from a struct env that the caller sets, so that the tests and the
 * user-space completion run the same code, and tests can inject faults.
 */
#ifndef PROFLET_BPF_ENV_H
#define PROFLET_BPF_ENV_H

#ifdef __bpf__

#include "bpf/kernel.h"
#include "bpf/maps.h"

/* Verified once, as a function of its own: arguments are scalars or the context only (Linux 5.10). */
#define UNWIND_FN __noinline
/* Bounds an offset for the verifier. In assembly: clang would bound one copy and use another. */
#define BOUND(x, mask) asm volatile("%0 &= %1" : "+r"(x) : "i"(mask))
/* Before a loop that must stay a loop, which the verifier follows round by round. */
#define ROLLED _Pragma("clang loop unroll(disable)")

typedef __u64 rows_word; /* read at any even offset: the verifier allows it in map values */

static __always_inline int env_read_user(void *to, __u32 bytes, __u64 address)
{
	return bpf_probe_read_user(to, bytes, (const void *)address);
}

/*
 * Reads a text up to its NUL, or the first bytes - 1 characters and a NUL. Returns the bytes; < 0:
 * unreadable.
 */
static __always_inline int env_read_user_text(void *to, __u32 bytes, __u64 address)
{
	return bpf_probe_read_user_str(to, bytes, (const void *)address);
}

static __always_inline int env_copy(void *to, __u32 bytes, const void *from)
{
	return bpf_probe_read_kernel(to, bytes, from);
}

static __always_inline __u64 env_thread_pointer(void)
{
	return arch_thread_pointer((void *)bpf_get_current_task());
}

/* The stack pointer with which the process's program began. */
static __always_inline __u64 env_start_stack(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm, start_stack);
}

static __always_inline int env_is_main_thread(void)
{
	__u64 pids = bpf_get_current_pid_tgid();

	return pids >> 32 == (__u32)pids;
}

/* In bpf/reports.h. */
UNWIND_FN int env_report_code(__u64 number, __u64 code);
UNWIND_FN int env_report_slot(__s32 slot);

#else

#include <stddef.h>
#include <string.h>

#include "bpf/abi.h"
#include "bpf/area.h"

#define UNWIND_FN static inline
#undef __always_inline /* libc and linux/stddef.h have one each */
#define __always_inline inline __attribute__((always_inline))
#define BOUND(x, mask) ((x) &= (mask))
#define ROLLED

typedef __u64 rows_word __attribute__((aligned(2)));

/* What an unwind on the host works on: borrowed for the time of the call. */
struct env {
	struct unwind_area *area;
	struct deep_area *deep;				     /* for reports; NULL: none are made */
	struct code_cache *codes;			     /* NULL: nothing is kept from walk to walk */
	struct segment *(*segment)(void *data, __u32 index); /* NULL: no such segment */
	int (*read_user)(void *data, void *to, __u32 bytes, __u64 address); /* 0, or < 0 for a fault */
	void *data;
	/* of the sampled thread, for runtime.h */
	__u64 thread;	   /* thread pointer */
	int is_other;	   /* it is not the process's main thread */
	__u64 start_stack; /* the stack pointer with which the program began; 0: not known */
};

extern _Thread_local const struct env *env_current;

static inline struct unwind_area *env_area(void)
{
	return env_current->area;
}

static inline struct deep_area *env_deep_area(void)
{
	return env_current->deep;
}

static inline struct code_cache *env_code_cache(void)
{
	return env_current->codes;
}

static inline struct segment *env_segment(__u32 index)
{
	return env_current->segment(env_current->data, index);
}

static inline int env_read_user(void *to, __u32 bytes, __u64 address)
{
	return env_current->read_user(env_current->data, to, bytes, address);
}

static inline int env_read_user_text(void *to, __u32 bytes, __u64 address)
{
	char *text = to;

	for (__u32 i = 0; i + 1 < bytes; i++) {
		if (env_read_user(text + i, 1, address + i))
			return -1;
		if (!text[i])
			return (int)i + 1;
	}
	text[bytes - 1] = 0;
	return (int)bytes;
}

static inline int env_copy(void *to, __u32 bytes, const void *from)
{
	memcpy(to, from, bytes);
	return 0;
}

static inline __u64 env_thread_pointer(void)
{
	return env_current->thread;
}

static inline __u64 env_start_stack(void)
{
	return env_current->start_stack;
}

static inline int env_is_main_thread(void)
{
	return !env_current->is_other;
}

static inline int env_report_code(__u64 number, __u64 code)
{
	(void)number, (void)code;
	return 0;
}

static inline int env_report_slot(__s32 slot)
{
	(void)slot;
	return 0;
}

#endif

#endif
