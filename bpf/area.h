/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What one CPU works in: counters, the unwind's state, a window of the user's stack, the record under
 * construction. One value of a small array per CPU: below 32 KiB and not mmapable, so the kernel takes it
 * from its direct map, where the first touch costs no page walk of its own.
 */
#ifndef PROFLET_BPF_AREA_H
#define PROFLET_BPF_AREA_H

#include "bpf/abi.h"
#include "bpf/arch.h"

#define WINDOW_BYTES 1024u
#define RECORD_FRAMES 2048u /* power of two above KERNEL_FRAMES_MAX + USER_FRAMES_MAX + RING_FRAMES */
#define RING_FRAMES 512u    /* power of two, at least half of USER_FRAMES_MAX */
#define RECORD_WORDS 3648u  /* SAVED_STACK_FRAMES_MAX frames, a struct saved_stack, SAVED_STACK_NEAR bytes */
#define TIMED_EVERY 16u	    /* power of two: reading the clock takes a good part of a short stack's time */

/* What the unwind's functions return beside an enum unwind_ending: how to go on. */
enum unwind_next {
	NEXT_FRAMES = ENDINGS, /* unwind_frames again */
	NEXT_MAPPING,	       /* ip left the mapping: unwind_mapping */
	NEXT_REGISTERS,	       /* the rule needs the sample's registers: fill regs, unwind_frames again */
};

#define N_BEFORE_NONE 0xffffffffu /* the frame that regs belong to is not in the record */

struct segment {
	__u8 bytes[SEGMENT_VALUE];
};

/*
 * Signal handlers, one within the other. A circle of them, which a tenant can make, would be walked for long:
 * each brings all registers.
 */
#define SIGNALS_MAX 64u

struct unwind_state {
	/* of the frame to step from; ip is a return address minus 1, unless `innermost` */
	__u64 ip, sp, fp;
	/* the mapping of the last frame, and its table */
	__u64 start, length; /* process addresses; length 0: none */
	__u64 bias;
	__u64 tag; /* file << FRAME_VA_BITS */
	__u64 table_va;
	__u32 segment, n_pages;	  /* of the table; n_pages 0: no table */
	__u32 rules, index, rows; /* byte offsets in the segment */
	__u32 list;		  /* ref of the process's mapping list */
	/* the window */
	__u64 window;	   /* process address of its first byte, 8-byte aligned */
	__u32 window_len;  /* bytes, 0 or at least 8 */
	__u32 n, limit;	   /* frames in the record; most it may have */
	__u32 innermost;   /* 1 in the sample's own frame and in one that a signal interrupted: regs apply */
	__u32 interrupted; /* not 0: it did not call what runs, see INTERRUPTED_RA; unless `innermost` */
	__u32 have_regs;   /* regs[] is filled; 0: the sample's own have to be fetched first */
	__u32 fallback;	   /* ending to report if the last frame-pointer step led nowhere; 0: none */
	__u32 pending;	   /* TABLE_PENDING or TABLE_REFUSED: of the mapping; 0: neither */
	__u32 switches;	   /* steps to another stack (FRAME_BYTES_MAX), allowed once */
	__u32 signals;	   /* steps out of signal handlers */
	__u32 n_before;	   /* words in the record before the frame that regs belong to; or N_BEFORE_NONE */
	__u32 ring; /* beyond the limit: index of the ring's first word (unwind_beyond_limit); else 0 */
	__u32 laps; /* times that the ring was full */
	__u32 saved_bytes; /* behind the words: 0, or a struct saved_stack and its stack */
	/* Of the process's language runtime; here, in lines that each sample touches. */
	__u32 runtime_at;    /* its walk in the list's segment, bytes; 0: there is none */
	__u32 runtime_words; /* its part of the record, behind the native frames */
	__u32 heaps_at; /* its heaps of code in the list's segment, bytes; 0: it has none that are known */
	union {		/* the rule that the rare functions work on */
		struct unwind_rule rule;
		__u64 rule_bits;
	};
	__u64 cfa;
	__u64 next_marker;		    /* of the runtime's next segment; ~0: none */
	__u64 tie_ip, tie_sp, tie_cfa;	    /* of the frame that reaches beyond it */
	__u64 regs[REGISTER_SLOTS];	    /* by DWARF number, and REGISTER_IP */
	__u64 first_ip, first_sp, first_fp; /* of the sample, with SAMPLE_FROM_START */
};

#define RUNTIME_MEMO 8u /* power of two */

/* The walk of Perl's contexts (RUNTIME_SHAPE_PAIRED). */
struct runtime_perl {
	__u64 contexts, outer;	/* of the stack: its first context, the next stack */
	__u64 statement;	/* that the next frame is at */
	__u64 file, file_hash;	/* of a statement: the text's address, and its hash */
	__u64 name, package;	/* of a function: two HEKs; 0: it has none */
	__u64 report;		/* number of a frame's code that may be new; 0: none */
	__u32 left, stack_kind; /* contexts that are left in the stack */
	__u32 line;		/* of the statement; 0: unknown */
	__u32 code;		/* enum runtime_perl_code */
	__u32 runs;		/* it runs a program */
	__u32 called_at;	/* the line of the statement that called the first function; 0: unknown */
	__u32 called;		/* a function was called by native code */
	__u32 eval, eval_end;	/* the segment has an eval, which ends behind so many words */
};

/* The walk of Lua's coroutines (RUNTIME_SHAPE_STATES). */
struct runtime_lua {
	__u64 state;		   /* of the coroutine; 0: there is none yet */
	__u64 stack, stack_end;	   /* its stack of values */
	__u64 outermost;	   /* call, where they are an array */
	__u64 function;		   /* of a call */
	__u64 instruction;	   /* from a register: that the innermost loop runs next; 0: unknown */
	__u64 report, report_code; /* number of a code object that may be new, 0: none; its address */
	__u32 n_loops;		   /* on the native stack, as far as they are known */
	__u32 loop;		   /* the next one, which has no segment yet */
	__u32 first;		   /* the next frame is the innermost one of all */
	__u32 innermost;	   /* the next frame is the innermost one of its coroutine */
	__u32 lost;		   /* the coroutine of a loop is not known */
	__u32 entered;		   /* the loop is about to be entered */
	__u64 next;		   /* RUNTIME_SHAPE_VALUES: the bytecode at which the next frame goes on */
	__u64 base;		   /* the same, from a register: of the innermost frame */
	__u32 running;		   /* the innermost native frame is the loop: the registers are its own */
	__u32 traced;		   /* the innermost loop has jumped to code that was compiled */
	__u32 left;		   /* the innermost loop was left: `base` is its caller's */
	__u32 skip;		   /* the next frame is the same function's as the one before */
	__u32 kept; /* what the next frame's function runs is as the loop keeps it, maybe outdated */
};

/* V8's frames (RUNTIME_SHAPE_NATIVE). */
struct runtime_v8_state {
	__u64 shared_map, script_map, bytecode_map; /* maps whose type was looked at in this sample */
	__u32 n_found;				    /* functions that may be new */
};

/* The frames of the process's language runtime. */
struct runtime_state {
	struct runtime_walk walk;
	struct runtime_part part;
	__u64 thread; /* the thread pointer */
	__u64 task;   /* that the thread's event loop runs; 0: none, or not wanted */
	__u64 cursor; /* the next frame; 0: there is none */
	__u64 marker; /* of the present segment, where markers are a list of their own; 0: none */
	__u32 steps;
	__u32 n_ended;		  /* words in segments */
	__u32 n_sent, sent_bytes; /* code objects that were sent with this sample */
	__u32 in_loop;		  /* the frame that was added is one of a loop */
	__u32 next;		  /* segment that next_marker belongs to */
	__u64 end;		  /* RUNTIME_SHAPE_ARRAY: of the stack that the frames are on */
	__u64 method;		  /* the frame's method entry; 0: none, or not known */
	__u64 handler_line; /* of the code that handles an exception for the next frame; 0: there is none */
	struct runtime_memo {
		__u64 code, number;
		__u64 instructions, instructions_bytes; /* RUNTIME_WALK_LINES; 0: it has none */
	} memo[RUNTIME_MEMO];
	struct runtime_perl perl;
	struct runtime_lua lua;
	struct runtime_v8_state v8;
};

struct unwind_area {
	__u64 counters[7];	 /* enum probe_counter */
	__u64 ip_signature;	 /* bits of a return address that arch_strip_ip() removes */
	__u64 unannounced;	 /* bytes put in the ring since this CPU last woke the agent */
	__u64 saved_stack_tried; /* bytes of stack that were requested for the record, read or not */
	__u64 tick_busy_ns;	 /* by the CPU's ticks, since the last sample */
	__u64 tick_interval_ns;	 /* busy time at which the next tick is a sample; 0: none was drawn yet */
	__u64 timed_ns;		 /* time spent on every TIMED_EVERYth sample, their sum */
	__u64 begun_ns;		 /* CLOCK_MONOTONIC: start of the present sample; 0: it is not timed */
	__u64 n_ring_pressure;	 /* samples sent without their saved stack because the ring was filling up */
	__u64 n_reports_lost;	 /* code objects that could not be sent, because their ring was full */
	struct unwind_state state;
	struct runtime_state runtime;
	__u8 window[WINDOW_BYTES + 8];
	struct sample_record record;
	__u64 frames[RECORD_WORDS]; /* directly behind the record; then a struct saved_stack */
};

/*
 * Compiled methods of HotSpot that frames were in, by the frame's address: where to read the header, which
 * tells whether it is still the same code. An entry belongs to one list of mappings, so to one process. The
 * low half of the address will do: all heaps lie within 2 GiB.
 */
#define CODE_CACHE_BITS 10
#define CODE_CACHE_BACK_SHIFT (FRAME_CODE_ID_BITS + FRAME_CODE_WORDS_BITS)
struct code_cache_entry {
	__u32 ip, generation; /* of the list, as in the record; 0: the entry is empty */
	__u64 code; /* payload of FRAME_TAG_CODE, without flags; above it, the bytes from the block to ip */
};

struct code_cache {
	struct code_cache_entry entries[1 << CODE_CACHE_BITS];
};

/* Where a record with more stack than an area holds is assembled. Rare, so memory from vmalloc will do. */
struct deep_area {
	__u8 record[sizeof(struct sample_record) + SAVED_STACK_FRAMES_MAX * sizeof(__u64) +
		    sizeof(struct saved_stack) + SAVED_STACK_MAX];
};

_Static_assert(sizeof(struct sample_record) % 8 == 0, "frames lie directly behind the record");
_Static_assert(KERNEL_FRAMES_MAX + USER_FRAMES_MAX + RING_FRAMES < RECORD_FRAMES &&
		       RECORD_FRAMES <= RECORD_WORDS,
	       "frames");
_Static_assert(RING_FRAMES >= USER_FRAMES_MAX / 2, "the ring holds the outermost half");
_Static_assert(PROBE_COUNTERS_N <= 7, "counters");
_Static_assert(sizeof(struct code_cache_entry) == 16, "code_cache_entry");
_Static_assert(sizeof(struct unwind_area) <= 32000, "an area larger than 32 KiB comes from vmalloc");

#endif
