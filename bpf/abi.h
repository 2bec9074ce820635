/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Everything that crosses between the BPF program and the agent: the arena's layout, rules, mapping lists,
 *records, counters. Included by both sides; fixed-width fields, explicit padding, sizes asserted. Enums here
 *are append-only.
 *
 * The arena is an array of segments (one mmapable array map each) that the agent writes directly. A `ref`
 *names a 64-byte aligned block in it: segment << REF_OFFSET_BITS | offset / 64. Segment 0 begins with the
 *process table, so ref 0 is never a block and means "none".
 *
 *	process table ──ref──► mapping list ──ref──► unwind table
 *	(pid → list)           (ip → file, table)    (va → rule)
 *
 * The agent publishes from right to left and frees only after an RCU grace period, so a running program sees
 *the old state or the whole new one.
 */
#ifndef PROFLET_BPF_ABI_H
#define PROFLET_BPF_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* --- arena */
#define SEGMENT_BYTES (1u << 21)	      /* usable bytes of a segment */
#define SEGMENT_VALUE (SEGMENT_BYTES + 4096u) /* with room for an 8-byte read at any masked even offset */
#define SEGMENTS_MAX 4096u		      /* 8 GiB; memory.tables says how many are made */
#define REF_ALIGN 64u
#define REF_OFFSET_BITS 15u /* SEGMENT_BYTES / REF_ALIGN */

/* --- process table: PROCESS_BUCKETS buckets of 8 entries at the start of segment 0, linear probing */
#define PROCESS_BUCKETS 4096u
#define PROCESS_BUCKET_SLOTS 8u
#define PROCESS_PROBES 4u /* buckets looked at before a pid counts as unknown */
#define PROCESS_PID_DELETED 0xffffffffu
#define PROCESS_TABLE_BYTES (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS * 8u)
/* pid 0: free slot, ends the probe. list 0: known process that has no mapping list (kernel thread). */
struct process_slot {
	__u32 pid;
	__u32 list; /* ref, and PROCESS_STACK */
};
/* Its mappings may be others before the agent has heard of it (between fork and execve; where they are
 * replaced again and again): samples bring their registers and stack. No ref has this bit. */
#define PROCESS_STACK (1u << 31)

/* --- mapping list: header, starts[n_padded] ascending (padded with ~0), entries[n] */
#define LIST_SEARCH_STEPS 15u /* so up to 32768 entries, as many as fit a segment */
struct mapping_list {
	__u32 n;	  /* entries, at least 1 */
	__u32 top;	  /* highest power of two <= n, the first step of the search */
	__u32 entries;	  /* offset of entries[] from the list, bytes */
	__u32 generation; /* goes into the record: which list a stack was walked with */
	__u32 flags;	  /* LIST_* */
	__u32 reserved[3];
};
#define LIST_SKIP 1u /* not selected: count, and take no sample */

/* No block can have these refs: the process table is there. */
#define TABLE_NEVER 0u	 /* the file has none: step by frame pointer */
#define TABLE_PENDING 1u /* being built: the unwind ends, and is finished in user space */

struct mapping_entry {
	__u64 start, end; /* process addresses, [start, end) */
	__u64 bias;	  /* process address - bias = ELF virtual address (mod 2^64) */
	__u32 file;  /* file index of the frames, 1..FRAME_FILE_MAX; FILE_ANONYMOUS for memory without a file
		      */
	__u32 table; /* ref, TABLE_NEVER or TABLE_PENDING. Written alone, with one store */
};

/* --- unwind table of one text range: header, rules[n_rules], index[n_pages + 1], rows */
#define PAGE_SHIFT_ROWS 7u /* text is cut in pages of 128 bytes */
#define TABLE_RULES_MAX 255u
#define TABLE_ROW_STEPS 43u /* a page has at most 128 rows, three are passed a step */
struct unwind_table {
	__u64 va; /* ELF virtual address of the first page, 128-byte aligned */
	__u32 n_pages;
	__u32 index; /* byte offset in the segment: u32 number of the page's first row, n_pages + 1 of them */
	__u32 rows;  /* byte offset in the segment: u16 (va & 127) << 8 | rule; the row before the first is
			valid */
	__u32 n_rows;
	__u32 n_rules;
	__u32 reserved;
};

/* How the CFA is found. sp, fp: the frame's stack and frame pointer. */
enum unwind_cfa {
	UNWIND_CFA_SP,	     /* sp + cfa */
	UNWIND_CFA_FP,	     /* fp + cfa */
	UNWIND_CFA_DEREF_SP, /* *(sp + low16(cfa)) + high16(cfa) */
	UNWIND_CFA_DEREF_FP, /* *(fp + low16(cfa)) + high16(cfa) */
	UNWIND_CFA_PLT,	     /* sp + 8 + ((ip & 15) >= cfa ? 8 : 0) */
	UNWIND_CFA_SIGNAL,   /* the kernel's signal frame at sp */
	UNWIND_CFA_ROOT,     /* return address undefined: outermost frame */
	UNWIND_CFA_NONE,     /* no call-frame information here */
	UNWIND_CFA_REG,	     /* register `reg` + cfa, innermost frame only */
	UNWIND_CFA_DEREF_R9, /* *(sp + r9 * 8 + low16(cfa)) + high16(cfa), innermost frame only */
	UNWIND_CFA_UNSUPPORTED,
	UNWIND_CFA_SWITCH, /* fp + cfa on whichever stack; caller's fp and return address in the record at fp
			    */
};

/* Where the caller's frame pointer is. */
enum unwind_fp {
	UNWIND_FP_SAME,
	UNWIND_FP_CFA, /* *(CFA + 8 * fp) */
	UNWIND_FP_FP,  /* *(fp + 8 * fp) */
	UNWIND_FP_UNDEFINED,
};

/* kind = cfa | fp << 4 | UNWIND_RA_REG | UNWIND_RA_EXACT */
#define UNWIND_CFA_MASK 0x0fu
#define UNWIND_FP_SHIFT 4u
#define UNWIND_FP_MASK 0x30u
#define UNWIND_RA_REG 0x40u   /* return address in register `reg`, innermost frame only; else at CFA - 8 */
#define UNWIND_RA_EXACT 0x80u /* it is that of an interrupted instruction, not behind a call: not minus 1 */

/* A step over more than this, or down, leads to another stack: once in an unwind, and never by sp + cfa. */
#define FRAME_BYTES_MAX (1ull << 30)

struct unwind_rule {
	__s32 cfa; /* bytes */
	__s16 fp;  /* units of 8 bytes */
	__u8 kind;
	__u8 reg; /* DWARF number, with UNWIND_CFA_REG or UNWIND_RA_REG */
};

/* --- records, agent byte order, in the ring buffer */
#define KERNEL_FRAMES_MAX 127u
#define USER_FRAMES_MAX 1024u
#define FRAME_VA_BITS 48
#define FRAME_FILE_MAX 0xfffeu
#define FILE_ANONYMOUS 0xffffu /* frame value: the process address itself */
#define FRAME_VA_MASK ((1ull << FRAME_VA_BITS) - 1)

/*
 * How an unwind ended: X(name, text, complete). The text is the reason in metrics and in the root frame
 * "[truncated: text]".
 */
#define UNWIND_ENDINGS(X)                                                                                  \
	X(ROOT, "complete", 1)		     /* outermost frame reached */                                 \
	X(KERNEL_THREAD, "kernel thread", 1) /* or a worker of the kernel in a process: no user stack */   \
	X(NO_PROCESS, "no process", 0)	     /* pid not published yet */                                   \
	X(NO_MAPPING, "no mapping", 0)	     /* address in no executable mapping */                        \
	X(NO_TABLE, "no table", 0)	     /* mapping without unwind table, frame pointer no help */     \
	X(NO_ROW, "no row", 0)		     /* table has no row, frame pointer no help */                 \
	X(UNSUPPORTED_RULE, "unsupported rule", 0)                                                         \
	X(BAD_CFA, "bad CFA", 0)       /* not aligned, or left the stack */                                \
	X(READ_FAULT, "read fault", 0) /* stack memory not readable */                                     \
	X(DEPTH_LIMIT, "depth limit", 0)                                                                   \
	X(COMPAT_TASK, "32-bit task", 0)                                                                   \
	X(NO_REGISTERS, "no registers", 0)  /* user registers of a task in the kernel could not be read */ \
	X(EXITING, "task exiting", 1)	    /* its memory is gone; see below */                            \
	X(OUTDATED, "outdated mappings", 0) /* walked, in part, with mappings that were gone; by the agent \
					     */

/*
 * EXITING counts as complete: the memory of the process is freed, at its end or by execve, a user stack
 * exists no more than that of a kernel thread, and the frames of the kernel are whole. User frames that were
 * found are left out.
 */
enum unwind_ending {
#define X(name, text, complete) ENDING_##name,
	UNWIND_ENDINGS(X)
#undef X
		ENDINGS
};

#define SAMPLE_KERNEL_MODE 1u /* taken in the kernel */
#define SAMPLE_FROM_START \
	2u /* the saved stack is of the sample itself, not of the frame where the unwind stopped */

/*
 * A sample. Followed by n_kernel + n_user frames of eight bytes, each part leaf first. Kernel frames: the
 * address. User frames: file << 48 | ELF virtual address, return addresses minus 1.
 */
struct sample_record {
	__u64 time_ns;	  /* CLOCK_MONOTONIC */
	__u32 pid, tid;	  /* in the agent's PID namespace */
	__u32 generation; /* of the mapping list; 0 none */
	__u16 cpu;
	__u8 ending; /* enum unwind_ending */
	__u8 flags;
	__u16 n_kernel, n_user;
	__u32 saved_stack_bytes; /* behind the frames: 0, or a struct saved_stack and stack */
};

#define SAVED_STACK_NEAR 16384u /* bytes of stack that any record may have */
#define SAVED_STACK_MAX 65536u	/* that one put together in a CPU's deep area may have */
#define SAVED_STACK_CHUNK 2048u /* bytes that are read at once, up to a multiple of them */
#define SAVED_STACK_BELOW \
	128u /* bytes below sp: the red zone; a register that an epilogue has just popped is read there */
#define SAVED_STACK_FRAMES_MAX 1000u /* a stack with more frames is not finished */
#define SAVED_STACK_REGISTERS 32u

/*
 * Where an unwind stopped for want of a process, mapping or table, or at a rule that is evaluated in user
 * space, with what it takes to go on later: the frame to step from, the last frame below it whose registers
 * are all known (the sample's own, or one that a signal interrupted), and the stack as it was.
 */
struct saved_stack {
	__u64 ip, sp, fp; /* of the frame to step from; with "no table" and "unsupported rule" it is the last
			     of the record */
	__u64 stack_address; /* process address of the first byte of the stack: SAVED_STACK_BELOW below the
				frame, or its sp where that cannot be read */
	__u32 stack_bytes;   /* that follow; those of holes are 0 */
	__u32 innermost;     /* regs are of the frame to step from */
	__u32 n_before;	     /* user frames in the record before the one that regs are of */
	__u32 holes; /* bit n: the n-th chunk of the stack, the first may be a part of one, could not be read
		      */
	__u64 regs[SAVED_STACK_REGISTERS]; /* by DWARF number, with the ip */
};

/* --- counters, one set a CPU, only ever increased by the program: X(name, text) */
#define PROBE_COUNTERS(X)                                       \
	X(TAKEN, "samples taken") /* of tasks, idle left out */ \
	X(NOT_SELECTED, "samples not selected")                 \
	X(RING_FULL, "samples dropped, ring full")              \
	X(NO_PID, "samples dropped, task in another PID namespace")

enum probe_counter {
#define X(name, text) COUNTER_##name,
	PROBE_COUNTERS(X)
#undef X
		PROBE_COUNTERS_N
};

/* --- what tasks do, where the perf side-band may not be opened: in a ring of its own */
enum task_event_kind {
	TASK_FORK, /* ppid/ptid made pid/tid */
	TASK_EXEC, /* its mappings are those of the new image */
	TASK_NAME, /* renamed to comm */
	TASK_EXIT,
};

struct task_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 kind;    /* enum task_event_kind */
	__u32 pid, tid, ppid, ptid;
	__u32 reserved;
	char comm[16]; /* TASK_EXEC, TASK_NAME; NUL terminated */
};

_Static_assert(sizeof(struct task_event) == 48, "task_event");
_Static_assert(sizeof(struct process_slot) == 8, "process_slot");
_Static_assert(((__u64)SEGMENTS_MAX << REF_OFFSET_BITS) <= PROCESS_STACK, "PROCESS_STACK");
_Static_assert(sizeof(struct mapping_list) == 32, "mapping_list");
_Static_assert(sizeof(struct mapping_entry) == 32, "mapping_entry");
_Static_assert(sizeof(struct unwind_table) == 32, "unwind_table");
_Static_assert(sizeof(struct unwind_rule) == 8, "unwind_rule");
_Static_assert(sizeof(struct sample_record) == 32, "sample_record");
_Static_assert(sizeof(struct saved_stack) == 304, "saved_stack");

#endif
