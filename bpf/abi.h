/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Everything that crosses between the BPF program and the agent: the layout of the arena, unwind rules,
 * mapping lists, sample records, counters. Both sides include this file. Fields have fixed widths, padding
 * is explicit, sizes are asserted. Enums here grow only at their end.
 *
 * The arena is an array of segments (one mmapable array map each) that the agent writes directly. A `ref`
 * names a 64-byte aligned block in it: segment << REF_OFFSET_BITS | offset / 64. Segment 0 begins with the
 * process table, so no block has ref 0; it means "none".
 *
 *	process table ──ref──► mapping list ──ref──► unwind table
 *	(pid → list)           (ip → file, table)    (va → rule)
 *
 * The agent publishes from right to left and frees a block only after an RCU grace period, so a running
 * program sees either the old state or the new one, never a mixture.
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
#define REF_BITS 27u	    /* of every ref, with SEGMENTS_MAX segments */
/*
 * Every block has a u32 generation at this offset; 0 while the block is free. A ref to a block comes with the
 * low bits of its generation: where these differ, the reader does not follow the ref.
 */
#define BLOCK_GENERATION 28u

/* --- process table: PROCESS_BUCKETS buckets of 8 entries at the start of segment 0, linear probing */
#define PROCESS_BUCKETS 4096u
#define PROCESS_BUCKET_SLOTS 8u
#define PROCESS_PROBES 4u /* buckets looked at before a pid counts as unknown */
#define PROCESS_PID_DELETED 0xffffffffu
#define PROCESS_TABLE_BYTES (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS * 8u)
/* pid 0: free slot, ends the probe. list 0: known process that has no mapping list (kernel thread). */
struct process_slot {
	__u32 pid;
	__u32 list; /* ref | generation << SLOT_GENERATION_SHIFT | PROCESS_STACK */
};
#define SLOT_LIST_MASK ((1u << REF_BITS) - 1)
#define SLOT_GENERATION_SHIFT REF_BITS
#define SLOT_GENERATION_MASK 15u /* of the list's generation */
/*
 * The process may have other mappings by the time the agent sees the sample (between fork and execve, or
 * where it replaces mappings all the time): its samples carry registers and stack.
 */
#define PROCESS_STACK (1u << 31)

/*
 * --- mapping list: header, starts[n_padded] ascending (padded with ~0), entries[n], and if the process has a
 * language runtime, its struct runtime_walk, or its struct code_heaps
 */
#define LIST_SEARCH_STEPS 15u /* so up to 32768 entries, as many as fit a segment */
struct mapping_list {
	__u32 n;       /* entries, at least 1 */
	__u32 top;     /* highest power of two <= n, the first step of the search */
	__u32 entries; /* offset of entries[] from the list, bytes */
	__u32 flags;   /* LIST_* */
	__u32 runtime; /* offset of a struct runtime_walk from the list, bytes; 0: none */
	__u32 heaps;   /* the same of a struct code_heaps */
	__u32 reserved;
	__u32 generation; /* also goes into the record: which list a stack was walked with */
};
#define LIST_RUNTIME 16u /* offset of `runtime` */
#define LIST_HEAPS 20u	 /* of `heaps` */
#define LIST_SKIP 1u	 /* not selected: its samples are counted, not taken */

/* No block can have these refs, since the process table lies there. */
#define TABLE_NEVER 0u	 /* the file has none: step by frame pointer */
#define TABLE_PENDING 1u /* being built: the unwind ends, and is finished in user space */
#define TABLE_REFUSED 2u /* there will be none, and the frame pointer cannot be trusted: the unwind ends */

struct mapping_entry {
	__u64 start, end; /* process addresses, [start, end) */
	__u64 bias;	  /* process address - bias = ELF virtual address (mod 2^64) */
	__u16 file;	  /* index in frames, 1 to FRAME_FILE_MAX; FILE_ANONYMOUS: memory without a file */
	__u16 generation; /* low bits of the table's */
	__u32 table;	  /* ref, or one of the above. Written alone, with one store */
};

/* --- unwind table of one text range: header, rules[n_rules], index[n_pages + 1], rows */
#define PAGE_SHIFT_ROWS 7u /* text is cut in pages of 128 bytes */
#define TABLE_RULES_MAX 255u
#define TABLE_ROW_STEPS 43u /* a page has at most 128 rows, three are passed a step */
struct unwind_table {
	__u64 va; /* ELF virtual address of the first page, 128-byte aligned */
	__u32 n_pages;
	__u32 index; /* byte offset in the segment: u32 number of the page's first row, n_pages + 1 of them */
	__u32 rows;  /* byte offset in the segment: u16 (va & 127) << 8 | rule; one more stands before */
	__u32 n_rows;
	__u32 n_rules;
	__u32 generation;
};

/* How the CFA is found. sp, fp: the frame's stack and frame pointer. */
enum unwind_cfa {
	UNWIND_CFA_SP,	     /* sp + cfa */
	UNWIND_CFA_FP,	     /* fp + cfa */
	UNWIND_CFA_DEREF_SP, /* *(sp + low16(cfa)) + high16(cfa) */
	UNWIND_CFA_DEREF_FP, /* *(fp + low16(cfa)) + high16(cfa) */
	UNWIND_CFA_PLT,	     /* in a PLT slot: arch_plt_cfa(ip, sp, cfa) */
	UNWIND_CFA_SIGNAL,   /* the kernel's signal frame at sp */
	UNWIND_CFA_ROOT,     /* return address undefined: outermost frame */
	UNWIND_CFA_NONE,     /* no call-frame information here; `cfa` is one of enum unwind_none */
	UNWIND_CFA_REG,	     /* register `reg` + cfa, innermost frame only */
	/* *(sp + REGISTER_INDEX * 8 + low16(cfa)) + high16(cfa), innermost frame only */
	UNWIND_CFA_DEREF_INDEX,
	UNWIND_CFA_UNSUPPORTED,
	/*
	 * fp + cfa, on any stack; the frame record at fp has the caller's fp and ip. If `reg` is 1, the
	 * record is the caller's own, which is omitted.
	 */
	UNWIND_CFA_SWITCH,
	/*
	 * The same as _SP and _FP, by rules that may be wrong, as the code may have changed since, or was
	 * not found by certain means: the return address must follow a call. The low bits of `cfa` are
	 * UNWIND_CHECKED_*.
	 */
	UNWIND_CFA_SP_CHECKED,
	UNWIND_CFA_FP_CHECKED,
	/*
	 * A method that HotSpot interprets: stepped by the frame record, below which its other words lie
	 * (JVM_FRAME_*), the address of its bytecode instruction `cfa` bytes from the record; while it
	 * does not call, that is in REGISTER_JVM_BYTECODE. The frame has a head of RUNTIME_JVM with the
	 * address of the method, and, if there is room, a word with FRAME_TAG_BYTECODE. If `cfa` is not
	 * negative, it is one of enum unwind_entered.
	 */
	UNWIND_CFA_INTERPRETED,
	/*
	 * BEAM: *(p + BEAM_PROCESS_STOP) + high16(cfa), on any stack, p being the address of an Erlang
	 * process's structure: a register in the innermost frame, else what was saved at sp + low16(cfa), and
	 * the return address must follow a call. If low16(cfa) is 0, p is searched for, and the frame must be
	 * this function's: with UNWIND_FP_CFA, the frame pointer must be the address of the frame record,
	 * where it is restored from; with UNWIND_FP_SAME, the return address must follow a call of the
	 * function that begins `fp` bytes before this instruction (0: none is). With high16(cfa) of 0 no
	 * process runs: sp + low16(cfa), of a stack that was aligned, and so much more that the return
	 * address follows a call.
	 */
	UNWIND_CFA_KEPT,
};

#define UNWIND_CHECKED_MASK 7
#define UNWIND_CHECKED_CODE 1	 /* of a method that HotSpot has compiled: which one it is, is looked up */
#define UNWIND_CHECKED_TRUSTED 2 /* the return address need not follow a call */

/* Of BEAM on x86-64, OTP 25 to 29: erts/emulator/beam/erl_process.h, jit/x86. */
#define BEAM_PROCESS_REGISTER 13u /* DWARF number; of the structure of the process that runs */
#define BEAM_PROCESS_STOP 88	  /* its stack pointer */
#define BEAM_PID_MASK 15u	  /* of the structure's first word, its number as a term */
#define BEAM_PID_TAG 3u
#define BEAM_SEARCH_WORDS 48u /* of the stack of C code */
#define BEAM_ALIGNED 4	      /* CFAs that the alignment to 64 bytes may lead to */
#define BEAM_ENTRY_BYTES 8u   /* a function is called at its beginning, or so many bytes behind it */
#define BEAM_CALL_BYTES 16u   /* a call instruction is shorter */

/* Where HotSpot's interpreter keeps what belongs to a frame, from the frame record; JDK 8 and later. */
#define JVM_FRAME_SENDER_SP (-8) /* the caller's stack pointer */
#define JVM_FRAME_LAST_SP (-16) /* this frame's, while it calls: an address, or words from the record; or 0 */
#define JVM_FRAME_METHOD (-24)
#define JVM_FRAME_BYTES_MAX (1u << 20) /* between any of these and the record */

/* Where a frame of HotSpot's has the caller's frame pointer, and its return address: words from the CFA. */
#define HOTSPOT_SAVED_FP (-2)
#define HOTSPOT_SAVED_RA (-1)

#define CODE_HEAPS_MAX 4u
#define CODE_HEADER_BYTES 512u /* what is read of a block is less */
#define CODE_NO_OFFSET 0xffffu
#define CODE_SHORT 0x8000u /* of `complete`: it is a s16 */

/* [low, low + bytes): process addresses. */
struct code_heap {
	__u64 low, bytes;
	__u64 segments; /* process address of the segment map, a byte for each */
};

/*
 * The memory that HotSpot has for code, and where in a piece of code (CodeBlob) is what identifies it. A
 * compiled method has a frame of constant size, and gives its memory to other code when it is freed: so the
 * size, and the number of the compilation, are read when a sample is taken, and go into its record
 * (FRAME_TAG_CODE).
 */
struct code_heaps {
	struct code_heap heaps[CODE_HEAPS_MAX];
	__u64 method, native; /* values of `name`: of compiled methods; of what calls native methods */
	__u64 unloaded[2];    /* process addresses of numbers of classes that were unloaded; 0: not known */
	__u16 bytes; /* that are read of a block, a multiple of 8: all of the following offsets are there */
	__u16 used;  /* u8, bit 0: it is in use */
	__u16 name;  /* pointer */
	__u16 compile_id;  /* u32 */
	__u16 frame_words; /* s32: from the caller's stack pointer to this one's */
	__u16 begin;	   /* of the code: pointer, or s32 from `origin` */
	__u16 complete; /* s32, CODE_SHORT, or CODE_NO_OFFSET: in the code, from where on the frame stands */
	__u16 origin;	/* in a block; 0: `begin` is a pointer */
	__u16 shift;	/* log2 of the bytes of a segment */
	__u16 reserved[3];
};

/* What a walk does where there is no rule. */
enum unwind_none {
	UNWIND_NONE_FRAME_POINTER, /* steps by frame pointer */
	UNWIND_NONE_PENDING,	   /* ends: user space is about to look at this code */
	UNWIND_NONE_REFUSED,	   /* ends: the code has been looked at */
};

/*
 * Where the return address is while HotSpot's interpreter enters a method. Its address is in
 * REGISTER_JVM_METHOD, and the caller's stack pointer in REGISTER_JVM_BYTECODE.
 */
enum unwind_entered {
	UNWIND_ENTERED_REGISTER, /* in `reg` */
	UNWIND_ENTERED_STACK,	 /* at sp + fp * 8 */
	UNWIND_ENTERED_RECORD, /* in the frame record; the caller's stack pointer is below that once it is pushed */
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
#define UNWIND_RA_REG 0x40u   /* return address in register `reg`, innermost frame only; else see `ra` */
#define UNWIND_RA_EXACT 0x80u /* the caller was interrupted, it did not call: do not subtract 1 */

/* A longer step, or one down, leads to another stack: allowed once in an unwind, and never by sp + cfa. */
#define FRAME_BYTES_MAX (1ull << 30)

#define RULE_REGISTERS 32u /* numbers that `reg` may have */

struct unwind_rule {
	__s32 cfa; /* bytes */
	__s16 fp;  /* units of 8 bytes */
	__u8 kind;
	union {
		__u8 reg; /* DWARF number, with UNWIND_CFA_REG or UNWIND_RA_REG */
		/*
		 * Else the place of the return address, in units of 8 bytes, as arch_ra_offset() decodes it:
		 * from the CFA, or from the saved frame pointer. x86-64 always has -1, and does not look.
		 */
		__s8 ra;
	};
};

/* --- language runtimes */

#define RUNTIME_NO_OFFSET 0xffffu    /* in place of an offset of struct runtime_walk */
#define RUNTIME_FRAME_BYTES_MAX 128u /* that are read of a frame at once */
#define RUNTIME_CODE_BYTES_MAX 112u  /* of a code object that go into its number */
#define RUNTIME_FRAMES_MAX 512u	     /* in a record */
#define RUNTIME_SEGMENTS_MAX 64u     /* in a record; more are one with the last */
#define V8_SEGMENTS_MAX 128u	   /* of V8, of one function each; there is room for as many of any runtime */
#define RUNTIME_TEXT_MAX 512u	   /* bytes of a string object that are sent */
#define RUNTIME_LINES_MAX 16384u   /* bytes of a line table that are sent */
#define RUNTIME_NAMES_A_SAMPLE 64u /* code objects that are sent with one sample */
#define RUNTIME_NAMES_BYTES 49152u /* of them; so that no process takes all of their ring */
#define RUNTIME_SLOTS_BYTES 512u   /* of thread-local variables that are searched at once */

#define RUNTIME_WALK_ENTRY 1u /* the kind of a frame has a bit of entry_mask: it is the last of its segment */
#define RUNTIME_WALK_EACH 2u  /* each frame is a segment */
#define RUNTIME_WALK_INDEX 4u /* the instruction is a signed 32-bit index, not an address */
#define RUNTIME_WALK_SEARCH 8u /* report which thread-local variable has the thread's state */
/*
 * A code object has no number of its own, and one that takes the memory of another can have all its pointers:
 * what its name and its file name are goes into the number, too. A string has its hash behind its length, and
 * its text RUNTIME_TEXT_AT bytes behind it.
 */
#define RUNTIME_WALK_TEXTS 16u
#define RUNTIME_TEXT_AT 32u
#define RUNTIME_WALK_SKIP 32u /* a frame without code object is none */
/*
 * Code objects whose first byte is n are functions in the runtime's language if bit n of `kinds` is set, else
 * functions of native code, which no loop runs and which have no file. The second word of a frame is a line.
 */
#define RUNTIME_WALK_LINES 64u
/* With RUNTIME_SHAPE_ARRAY: the code that handles an exception is one frame with what it belongs to. */
#define RUNTIME_WALK_HANDLERS 128u
/* Perl without threads: a statement has the glob that is named after its file. */
#define RUNTIME_WALK_GLOB_FILES 256u
#define RUNTIME_WALK_BODY_NAMES 512u /* Perl 5.36 and later: the name of a package is in its hash's body */
/*
 * Threads run copies of a function's instructions: `instructions` is where a code object has a pointer to the
 * array of them, which begins with their number, u64; `n_instructions` is where a frame has the number of the
 * thread's, s32. Copy 0 is in the code object: the second word of a frame is as if the thread ran that.
 */
#define RUNTIME_WALK_COPIES 1024u
/*
 * The name of the task that an event loop runs is sent: `scope` is where a thread state has a pointer to the
 * task, `scope_name` where that has one to an object with its name.
 */
#define RUNTIME_WALK_TASKS 2048u
/*
 * Each thread has a block of memory with its own copies of the runtime's variables (PHP built for threads),
 * and a thread-local variable has the block. `thread` is an offset in it, `start` the process address of the
 * u64 offset at which its executor_globals begin, and `first` an offset in these.
 */
#define RUNTIME_WALK_BLOCK 4096u

/* How the frames of a runtime are linked. */
enum runtime_shape {
	RUNTIME_SHAPE_LIST, /* each frame has a pointer to the next one: CPython, PHP */
	RUNTIME_SHAPE_ARRAY, /* they lie behind each other, the innermost first, up to the end of a stack: Ruby */
	/*
	 * Arrays of contexts, the innermost context last, in a list of stacks: Perl. bpf/perl.h says which
	 * fields of struct runtime_walk have another meaning.
	 */
	RUNTIME_SHAPE_PAIRED,
	/*
	 * Each coroutine has a list, and the frame of a loop says which one it runs: Lua. bpf/lua.h says
	 * which fields have another meaning. Walked behind the native stack.
	 */
	RUNTIME_SHAPE_STATES,
	/*
	 * They are frames of the native stack, whose frame records lead to functions: V8. bpf/v8.h. The walk
	 * puts words of the language in place of their addresses.
	 */
	RUNTIME_SHAPE_NATIVE,
	/*
	 * They are on the coroutine's stack of values, each with the way to the next one, and the frame of
	 * the loop says which coroutine it runs: LuaJIT. bpf/luajit.h. Walked behind the native stack.
	 */
	RUNTIME_SHAPE_VALUES,
};

#define RUNTIME_SITES_MAX 8u

/* Where a loop's frame has the state of its coroutine, by the address that the loop returns to. */
struct runtime_site {
	__s32 distance; /* of that address from the loop's start; 0: there is none */
	__s16 offset;	/* of the state from the frame's CFA */
	__u16 resumes;	/* 1: the loop may run a coroutine that was suspended, with all that its list has */
};

/* Where what is known of V8's functions lies in its objects: offsets in bytes from the start of each. */
struct runtime_v8 {
	__u16 function_shared; /* JSFunction: pointer to a SharedFunctionInfo */
	__u16 shared_name;     /* SharedFunctionInfo: pointer to a String or a ScopeInfo */
	__u16 shared_script;   /* pointer to a Script; a multiple of 8, below 64 */
	__u16 shared_literal;  /* u32, the function's number in the script; below 64 */
	__u16 script_source, script_name, script_id; /* Script: multiples of 8, below 72 */
	__u16 script_line_ends;
	__u16 map_type;						   /* Map: u16, type of its objects */
	__u16 shared_type, script_type, scope_type, bytecode_type; /* types of objects */
	__u16 scope_first;     /* ScopeInfo: words behind its map that come before names of variables */
	__u16 scope_is_packed; /* its flags are an u32, and the place of the function comes early */
	__u16 scope_function;  /* what its flags have of a function */
	__u16 bytecode_data;   /* BytecodeArray: the bytecode */
	__u16 reserved[15];
};

/*
 * How the frames of a process's language runtime are found: a list in the process's memory, innermost frame
 * first. Part of the process's mapping list. Offsets are bytes; RUNTIME_NO_OFFSET: there is none.
 *
 *	thread pointer ─► thread state ─► frame ─► frame ─► … ─► 0
 *	                                    └─► code object ─► name, file, line table
 *
 * A runtime without threads has the pointer to the first frame at a constant address, `start`. With
 * RUNTIME_WALK_BLOCK, `start` leads to an offset instead.
 *
 * A segment is a run of frames that one frame of the native stack, that of the interpreter's loop, stands
 * for. Its marker is an address on the native stack that lies in the loop's frame.
 */
struct runtime_walk {
	__u64 salt; /* secret, and another one for each program: goes into numbers of code */
	__u64 key;  /* process address of the u32 pthread key of the thread state; 0: there is none */
	__u64 start; /* process address of the pointer to the main thread's first frame; 0: threads have states */
	__u64 bias; /* of the runtime's file: process address minus ELF virtual address */
	/* What `type` of a code object points to, a process address; another object is none. 0: not known. */
	__u64 code_type;
	__s32 slot;    /* thread-local variable with the thread state, from the thread pointer; 0: unknown */
	__u16 flags;   /* RUNTIME_WALK_* */
	__u16 runtime; /* enum frame_runtime */
	__u16 layout;  /* file index of the runtime, by which the agent knows the layout of its objects */
	/* thread pointer → value of the pthread key */
	__u16 tsd;	   /* of key 0; that of key n is 16 * n bytes behind (glibc) */
	__u16 tsd_pointer; /* or here lies a pointer to an array of values (musl) */
	/* thread state */
	__u16 thread;	       /* its thread pointer, by which it is recognised */
	__u16 first, first_of; /* the first frame is *(first), or *(*(first) + first_of) */
	__u16 marker_first;    /* markers are a list of their own; else a hidden frame is its marker */
	__u16 marker_next;     /* marker → next marker */
	/* frame */
	__u16 frame_bytes; /* to read; a multiple of 8, at most RUNTIME_FRAME_BYTES_MAX */
	__u16 next, code;  /* pointers */
	__u16 instruction; /* u64, or the s32 index */
	__u16 kind;	   /* u8 */
	__u8 code_tag;	   /* bits of the code pointer that are not of the address */
	__u8 hidden_kind;  /* frames of this kind and above have no function: the end of a segment; 0: none */
	/* code object */
	__u16 content, content_bytes; /* go into its number; multiples of 8, at most RUNTIME_CODE_BYTES_MAX */
	__u16 type;		      /* pointer, in an object of any type */
	__u16 first_line;	      /* u32 */
	__u16 name, file, lines;      /* pointers to two string objects and one of bytes */
	__u16 text_length;	      /* u64 characters, in a string object */
	__u16 bytes_length, bytes;    /* u64 length, in a bytes object; where the bytes begin */
	__u8 entry_mask;	      /* RUNTIME_WALK_ENTRY */
	/* with RUNTIME_WALK_LINES */
	__u8 kinds;
	__u8 leaf_register;	 /* DWARF number: may have the innermost frame's instruction; 0: none */
	__u8 shape;		 /* enum runtime_shape */
	__u16 scope, scope_name; /* code object → class → string object */
	__u16 instructions, n_instructions; /* in a code object: pointer, u32 */
	__u16 instruction_bytes;	    /* of each */
	__u16 line;			    /* in an instruction: u32 */
	/* with RUNTIME_SHAPE_ARRAY; bpf/ruby.h says what the fields above are */
	__u64 symbols; /* process address of the pointer to the names of IDs; 0: unknown */
	__u16 back; /* in what the state's `thread` points to: the state, or with `start` its thread pointer */
	__u16 local;	   /* in a code object: pointer to that of its method, behind that to what it is in */
	__u16 attached;	   /* in a class that one object has: the object */
	__u16 single_flag; /* number of the bit that such a class has in its flags */
	/* RUNTIME_SHAPE_PAIRED, in the thread state: the current statement, the innermost place to jump to */
	__u16 statement, environment;
	__u16 stack_kind; /* in a stack: s32 */
	__u16 reserved;
	/* RUNTIME_SHAPE_STATES */
	__u64 loop_start, loop_bytes; /* process address of the loop */
	__u16 loop_body;	      /* bytes before the loop has saved the registers of its caller */
	__u16 stack, stack_end;	      /* in a state: pointers */
	__u16 base;  /* in a frame: pointer to its first register; none: it is behind its function */
	__u16 steps; /* in a code object: u32 entries of the second table of lines; 0: lines are u32 each */
	__u8 entry_value; /* of the bits of entry_mask, in the last frame of a segment */
	__u8 call;	  /* opcode of a call */
	__u8 call_shift;  /* the bit of an instruction at which its first register begins */
	/* RUNTIME_SHAPE_VALUES, DWARF numbers: the places of the innermost frame and of its callee */
	__u8 leaf_base, leaf_callee;
	__u8 zero;
	union {
		struct runtime_site sites[RUNTIME_SITES_MAX];
		struct runtime_v8 v8; /* RUNTIME_SHAPE_NATIVE */
	};
};

/* --- frames of a stack, as 64-bit words */
#define FRAME_VA_BITS 48
#define FRAME_VA_MASK ((1ull << FRAME_VA_BITS) - 1)

/*
 * The top 16 bits of a word, its tag, say what it is:
 *
 *	0x0000        anonymous: process address of code in memory without a file
 *	0x0001-0xdfff native: file index; the low 48 bits are an ELF virtual address
 *	0xe000-0xefff head of a runtime frame: enum frame_runtime (10 bits), and how many of the words that
 *	              follow belong to the same frame (2 bits)
 *	0xf000-0xfffb not in records; a reader skips the one word
 *	0xfffc        of the frame before, a native one: which code of HotSpot it was then (FRAME_CODE_*)
 *	0xfffd        of the frame before, a head of RUNTIME_JVM: the address of its bytecode; a head of
 *	              RUNTIME_V8: its place (FRAME_V8_BYTECODE)
 *	0xfffe        frames that were omitted here, in a stack deeper than the limit; the low 48 bits are how
 *	              many
 *	0xffff        kernel: the address itself
 *
 * The low 48 bits of a head and the words that follow it are the runtime's own; by convention the code
 * object, then the instruction, then a word to check the code object by. Readers skip a runtime that they do
 * not know: its head says how far. agent/sample/frames.h iterates over the frames of a stack.
 *
 * A return address is stored minus 1, so that it lies in the instruction that called.
 */
#define FRAME_FILE_MAX 0xdfffu
#define FILE_ANONYMOUS 0u /* in place of a file index */
#define FRAME_TAG_RUNTIME 0xe000u
#define FRAME_TAG_RUNTIME_LAST 0xefffu
#define FRAME_TAG_CODE 0xfffcu
/* The low bits are the number of the compilation, behind them is the size of its frame in words. */
#define FRAME_CODE_ID_BITS 28
#define FRAME_CODE_WORDS_BITS 17
#define FRAME_CODE_BY_SIZE (1ull << 45) /* the step was made by the size of the frame, not by a row */
/*
 * The same, and it was certain: it had called a method; or by its instruction, and the size is what was
 * left.
 */
#define FRAME_CODE_SURE (1ull << 46)
#define FRAME_TAG_BYTECODE 0xfffdu
/* In a place of V8: the low bits are an offset in the bytecode; else they are an address of code. */
#define FRAME_V8_BYTECODE (1ull << 47)
#define FRAME_TAG_OMITTED 0xfffeu
#define FRAME_TAG_KERNEL 0xffffu
#define FRAME_RUNTIME_WORDS_MAX 3u /* that follow a head */

/* Language runtimes: X(name, text). At most 1023. */
#define FRAME_RUNTIMES(X)     \
	X(CPYTHON, "cpython") \
	X(RUBY, "ruby")       \
	X(PHP, "php")         \
	X(PERL, "perl")       \
	X(LUA, "lua")         \
	X(JVM, "jvm")         \
	X(V8, "v8js")         \
	X(DOTNET, "dotnet")   \
	X(BEAM, "beam")       \
	X(LUAJIT, "luajit")

enum frame_runtime {
	RUNTIME_NONE,
#define X(name, text) RUNTIME_##name,
	FRAME_RUNTIMES(X)
#undef X
		RUNTIMES
};

static inline __u32 frame_tag(__u64 word)
{
	return (__u32)(word >> FRAME_VA_BITS);
}

/* The file index, FILE_ANONYMOUS; more than FRAME_FILE_MAX for other kinds of words. */
static inline __u32 frame_file(__u64 word)
{
	return frame_tag(word);
}

/* The ELF virtual address, or the process address of an anonymous word. */
static inline __u64 frame_va(__u64 word)
{
	return word & FRAME_VA_MASK;
}

static inline __u64 frame_native(__u32 file, __u64 va)
{
	return (__u64)file << FRAME_VA_BITS | (va & FRAME_VA_MASK);
}

static inline __u64 frame_anonymous(__u64 address)
{
	return address & FRAME_VA_MASK;
}

/* Of the payload of a word with FRAME_TAG_CODE. */
static inline __u32 frame_code_id(__u64 code)
{
	return code & ((1u << FRAME_CODE_ID_BITS) - 1);
}

static inline __u32 frame_code_words(__u64 code)
{
	return code >> FRAME_CODE_ID_BITS & ((1u << FRAME_CODE_WORDS_BITS) - 1);
}

static inline __u64 frame_omitted(__u64 frames)
{
	return (__u64)FRAME_TAG_OMITTED << FRAME_VA_BITS | (frames & FRAME_VA_MASK);
}

static inline int frame_is_runtime(__u64 word)
{
	return frame_tag(word) >= FRAME_TAG_RUNTIME && frame_tag(word) <= FRAME_TAG_RUNTIME_LAST;
}

static inline __u64 frame_runtime_head(__u32 runtime, __u32 following, __u64 payload)
{
	return (__u64)(FRAME_TAG_RUNTIME | runtime << 2 | following) << FRAME_VA_BITS |
	       (payload & FRAME_VA_MASK);
}

/* Of a head: enum frame_runtime, or a number that is newer than this reader. */
static inline __u32 frame_runtime_of(__u64 head)
{
	return (frame_tag(head) & 0xfffu) >> 2;
}

/* How many words behind this one belong to the same frame. */
static inline __u32 frame_following(__u64 word)
{
	return frame_is_runtime(word) ? frame_tag(word) & FRAME_RUNTIME_WORDS_MAX : 0;
}

/* --- records, agent byte order, in the ring buffer */
#define KERNEL_FRAMES_MAX 127u
#define USER_FRAMES_MAX 1024u /* words */

/*
 * The user's part of a stack deeper than the limit of user frames: the innermost half, one word with
 * FRAME_TAG_OMITTED, the outermost half; together as many words as the limit. With ENDING_DEPTH_LIMIT the
 * outermost frames were not reached: the innermost frames alone, as many as the limit, and none omitted.
 */
static inline __u32 user_frames_inner(__u32 limit)
{
	return limit / 2;
}

/*
 * How an unwind ended: X(name, text, complete). The text is the reason in metrics and in the root frame
 * "[truncated: text]".
 */
#define UNWIND_ENDINGS(X)                                                                                    \
	X(ROOT, "complete", 1)		     /* outermost frame reached */                                   \
	X(KERNEL_THREAD, "kernel thread", 1) /* or a worker of the kernel in a process: no user stack */     \
	X(NO_PROCESS, "no process", 0)	     /* pid not published yet */                                     \
	X(NO_MAPPING, "no mapping", 0)	     /* address in no executable mapping */                          \
	X(NO_TABLE, "no table", 0)	     /* mapping without unwind table, frame pointer no help */       \
	X(NO_ROW, "no row", 0)		     /* table has no row, frame pointer no help */                   \
	X(UNSUPPORTED_RULE, "unsupported rule", 0)                                                           \
	X(BAD_CFA, "bad CFA", 0)       /* not aligned, or left the stack */                                  \
	X(READ_FAULT, "read fault", 0) /* stack memory not readable */                                       \
	X(DEPTH_LIMIT, "depth limit", 0)                                                                     \
	X(COMPAT_TASK, "32-bit task", 0)                                                                     \
	X(NO_REGISTERS, "no registers", 0)  /* user registers of a task in the kernel could not be read */   \
	X(EXITING, "task exiting", 1)	    /* its memory is gone; see below */                              \
	X(OUTDATED, "outdated mappings", 0) /* by the agent: some mappings had been replaced when it ran */  \
	X(RUNTIME, "runtime not walked", 0) /* runtime and runtime_reason of the record say which and why */ \
	X(NO_ROOT, "no root", 0) /* return address or frame pointer 0, in code not known as outermost */     \
	X(NO_CALL, "no call", 0) /* a rule by code analysis led to a return address behind no call */        \
	X(NOT_SAVED, "stack not saved", 0)     /* by the agent: beyond the copy that came with the sample */ \
	X(CALLER_OMITTED, "caller omitted", 0) /* the root was reached, but SAMPLE_CALLER_OMITTED */

/*
 * EXITING counts as complete: the memory of the process is freed, at its end or by execve, so that it has no
 * user stack, like a kernel thread, and the frames of the kernel are whole. User frames that were found are
 * left out.
 */
enum unwind_ending {
#define X(name, text, complete) ENDING_##name,
	UNWIND_ENDINGS(X)
#undef X
		ENDINGS
};

/*
 * Why the frames of a language runtime are missing (ENDING_RUNTIME); native frames stay: X(of, name, text),
 * with what the user of the list gives as `of`.
 */
#define RUNTIME_REASONS(X, of)                                                                         \
	X(of, UNKNOWN, "unknown reason")                                                               \
	X(of, LAYOUT, "layout not recognised") /* a version that the agent has no description of */    \
	X(of, NO_THREAD, "no thread state")    /* the thread's entry into the runtime was not found */ \
	X(of, READ_FAULT, "read fault")                                                                \
	X(of, INCONSISTENT, "inconsistent state") /* a check word did not match */                     \
	X(of, DEPTH_LIMIT, "depth limit")                                                              \
	X(of, NOT_KNOWN, "not known yet") /* the sample was taken before the process's runtime was found */

enum runtime_reason {
#define X(of, name, text) RUNTIME_REASON_##name,
	RUNTIME_REASONS(X, )
#undef X
		RUNTIME_REASONS_N
};

/* Which event source took a sample, and so the unit of its value. Events are numbered from EVENT_FIRST on. */
enum sample_origin {
	ORIGIN_CPU,	/* value 1: a sampling interval of CPU time */
	ORIGIN_OFF_CPU, /* nanoseconds that the thread did not run */
	ORIGIN_EVENT_FIRST = 16,
};

#define SAMPLE_KERNEL_MODE 1u	  /* taken in the kernel */
#define SAMPLE_FROM_START 2u	  /* the saved stack is that of the sample, not of where the unwind stopped */
#define SAMPLE_CONTEXT 4u	  /* a struct sample_context follows the frames */
#define SAMPLE_SAVED_STACK 8u	  /* a struct saved_stack and its stack are the record's end */
#define SAMPLE_OMITTED 16u	  /* a word of the user's frames has FRAME_TAG_OMITTED */
#define SAMPLE_CALLER_OMITTED 32u /* by a rule that cannot find a frame's caller, but the callers of that */
#define SAMPLE_RUNTIME 64u	  /* a struct runtime_part follows the frames and the context */
#define SAMPLE_TASK 128u	  /* a struct sample_task follows that part */

/*
 * A sample. It is followed by n_kernel + n_user frame words, each part leaf first, then by what the flags
 * announce.
 */
struct sample_record {
	__u64 time_ns;	  /* CLOCK_MONOTONIC */
	__u64 value;	  /* in the unit of the origin */
	__u32 pid, tid;	  /* in the agent's PID namespace */
	__u32 generation; /* of the mapping list; 0 none */
	__u16 origin;	  /* enum sample_origin */
	__u16 cpu;
	__u16 n_user;
	__u8 n_kernel;
	__u8 ending;	     /* enum unwind_ending */
	__u8 flags;	     /* SAMPLE_* */
	__u8 runtime_reason; /* enum runtime_reason, with ENDING_RUNTIME */
	__u16 runtime;	     /* enum frame_runtime, with ENDING_RUNTIME */
	/*
	 * Of a HotSpot, how many classes it had unloaded, and one more: as long as that stays the same, so do
	 * the methods that its objects are of. 0: not known.
	 */
	__u32 unloaded;
	__u32 reserved;
};

/* The request that the thread worked on (W3C trace context), as bytes in network order. */
struct sample_context {
	__u8 trace_id[16];
	__u8 span_id[8];
};

/*
 * The frames of a language runtime: this, then n_segments of struct runtime_segment, then n_words of frame
 * words, innermost first. Each frame is a head, whose payload is the number of its code object, and one word:
 * where in the code it is. That is the address of the instruction minus that of the code object, or its index
 * (RUNTIME_WALK_INDEX), as a signed number, or a line, 0: unknown (RUNTIME_WALK_LINES).
 */
struct runtime_part {
	__u16 runtime; /* enum frame_runtime */
	__u16 n_words;
	__u8 n_segments;
	__u8 whole;  /* 1: the end of the list was reached */
	__u8 reason; /* enum runtime_reason; why it was not */
	__u8 each;   /* 1: each frame is a segment (RUNTIME_WALK_EACH), also where several are in one here */
};

#define SAMPLE_TASK_BYTES 96u
#define SAMPLE_TASK_BYTES_MIN 40u /* are tried last: the memory behind the object may not be there */

/* The task that the thread's event loop ran (RUNTIME_WALK_TASKS): the object with its name, as it begins. */
struct sample_task {
	__u64 type;   /* of the object: the process address of it */
	__u64 bias;   /* of the runtime's file */
	__u16 layout; /* its file index */
	__u16 bytes;  /* of `object` that were read: SAMPLE_TASK_BYTES, or SAMPLE_TASK_BYTES_MIN */
	__u32 reserved;
	__u8 object[SAMPLE_TASK_BYTES];
};

#define RUNTIME_NOT_TIED 0xffffffffu

struct runtime_segment {
	__u64 marker; /* process address; 0: not known */
	__u32 native; /* user frames of the walk before the one that has the marker; or RUNTIME_NOT_TIED */
	__u16 end;    /* words of frames before the end of the segment */
	__u16 kind;   /* enum runtime_segment_kind; with RUNTIME_SHAPE_LIST: 0 */
};

/*
 * What began a segment of Perl's frames, and so which native function called the loop that runs it. Segments
 * of the kind _JUMP come first: they have no frames, and the marker is a place to jump to (JMPENV) that the
 * caller of a loop has on its stack.
 */
enum runtime_segment_kind {
	RUNTIME_SEGMENT_OPEN, /* not known: the walk was cut here */
	RUNTIME_SEGMENT_JUMP,
	RUNTIME_SEGMENT_EVAL,  /* up to an eval: if the one that called the loop had to catch exceptions */
	RUNTIME_SEGMENT_CALL,  /* a call by native code */
	RUNTIME_SEGMENT_LAST,  /* a call by native code, or by the last operation of the segment behind it */
	RUNTIME_SEGMENT_CATCH, /* a call by native code that catches exceptions; maybe of a native function */
	RUNTIME_SEGMENT_MANY,  /* native code that calls the same function many times, maybe not just now */
	RUNTIME_SEGMENT_STRING, /* a text that native code has evaluated */
	RUNTIME_SEGMENT_MAIN,	/* the program; not a thread's */
	/*
	 * Of Lua, whose marker is the coroutine's state. Loops of one coroutine and segments of its list are
	 * in order; those that the other has no more of are there without frames, or not tied.
	 */
	RUNTIME_SEGMENT_CALLED,	 /* the loop runs a function that native code calls */
	RUNTIME_SEGMENT_RESUMED, /* the loop may run the rest of the list */
	RUNTIME_SEGMENT_KINDS,
};

#define SAVED_STACK_NEAR 16384u /* bytes of stack that any record may have */
#define SAVED_STACK_MAX 65536u	/* bytes that a record put together in a CPU's deep area may have */
#define SAVED_STACK_CHUNK 2048u /* bytes that are read at once, up to a multiple of them */
/* Bytes below sp that are saved too: the red zone, and a register that an epilogue has just popped. */
#define SAVED_STACK_BELOW 128u
#define SAVED_STACK_FRAMES_MAX 1000u /* a stack with more words is not finished in user space */
#define SAVED_STACK_REGISTERS 33u    /* bpf/arch.h says which */

/*
 * Registers and stack of a sample whose unwind lacked a process, mapping or table, or met a rule that only
 * user space can evaluate: what the agent needs to go on later. It has the frame to step from, and the
 * registers of the last frame below it for which all are known: the sample's own, or one that a signal
 * interrupted.
 */
struct saved_stack {
	/* of the frame to step from: with "no table" and "unsupported rule" it is the record's last one */
	__u64 ip, sp, fp;
	/* process address of the first byte: SAVED_STACK_BELOW below sp if that can be read, else sp */
	__u64 stack_address;
	__u32 stack_bytes; /* that follow; those of holes are 0 */
	__u32 innermost;   /* regs belong to the frame to step from */
	/* user words in the record before the frame that regs belong to; more than n_user: it was omitted */
	__u32 n_before;
	__u32 holes; /* bit n: chunk n of the stack could not be read; the first may be a part of one */
	__u64 regs[SAVED_STACK_REGISTERS]; /* by DWARF number, and REGISTER_IP */
};

/* --- code objects of language runtimes, in a ring of their own */

enum runtime_report_kind {
	RUNTIME_REPORT_CODE, /* struct runtime_code */
	RUNTIME_REPORT_SLOT, /* struct runtime_slot */
};

/*
 * A code object that is in a sample and was not sent before: this, then name_bytes, file_bytes, class_bytes
 * and lines_bytes of the process's memory, each padded to a multiple of 8. The first three are the beginning
 * of a string object, header first; the last is the contents of the bytes object with the line table. With
 * RUNTIME_WALK_LINES, nothing is 0 bytes long because it could not be read: the code object has none. With
 * RUNTIME_SHAPE_ARRAY, a text is the length of the string, u64, and its beginning; the types are the first
 * words of the objects. With RUNTIME_SHAPE_NATIVE, a text is its number of characters, u32, how many bytes
 * each has, u32, and its beginning; the class is the name that V8 has guessed, "object.method"; the type is
 * the number of the script, a Smi, the name's type is the pointer to the Script, and the first line is the
 * number, from 1 on, of the character at which the function begins; 0: not known.
 */
struct runtime_code {
	__u32 kind; /* RUNTIME_REPORT_CODE */
	__u32 pid;
	__u64 number; /* of which a frame has the low FRAME_VA_BITS */
	__u64 bias;   /* of the runtime's file */
	__u64 type;   /* of the code object; of Perl: enum runtime_perl_code */
	__u64 name_type, file_type;
	__u32 first_line;
	__u16 runtime, layout;
	__u16 name_bytes, file_bytes; /* 0: could not be read */
	__u32 lines_bytes;
	__u32 lines_length; /* of the whole table; more than lines_bytes: the rest was too long, or unreadable */
	__u16 class_bytes;
	__u16 form; /* RUNTIME_FORM_*, RUNTIME_SHAPE_ARRAY only */
};

/* Of a code object with RUNTIME_SHAPE_ARRAY. */
#define RUNTIME_FORM_TYPE 0xffu	   /* these bits: what kind of code it is, as the runtime numbers them */
#define RUNTIME_FORM_NATIVE 0x100u /* it is a function of native code */
#define RUNTIME_FORM_METHOD 0x200u /* it is a method, or a block or the like in one */
#define RUNTIME_FORM_SINGLE 0x400u /* the class is of one object only, whose name is sent */
/*
 * What a frame of Perl runs. The texts of a report are those of HEKs (u32 hash, s32 length, bytes) for the
 * names of the function and its package, and the file name, NUL terminated.
 */
enum runtime_perl_code {
	RUNTIME_PERL_MAIN, /* the program's file */
	RUNTIME_PERL_EVAL, /* an eval, a file that is required: what caller() calls "(eval)" */
	RUNTIME_PERL_FUNCTION,
	RUNTIME_PERL_LEXICAL, /* a function that belongs to no package */
	RUNTIME_PERL_CODES,
};

/* A thread-local variable that has a thread's state (RUNTIME_WALK_SEARCH). */
struct runtime_slot {
	__u32 kind; /* RUNTIME_REPORT_SLOT */
	__u32 pid;
	__u32 list; /* generation of the mapping list */
	__s32 slot; /* from the thread pointer; 0: none was found */
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

/* --- events of tasks, in a ring of their own: where the perf side-band may not be opened */
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
_Static_assert(SEGMENTS_MAX << REF_OFFSET_BITS == 1u << REF_BITS, "REF_BITS");
_Static_assert(SLOT_GENERATION_MASK << SLOT_GENERATION_SHIFT == (PROCESS_STACK - (1u << REF_BITS)), "slot");
_Static_assert(__builtin_offsetof(struct mapping_list, generation) == BLOCK_GENERATION, "mapping_list");
_Static_assert(__builtin_offsetof(struct unwind_table, generation) == BLOCK_GENERATION, "unwind_table");
_Static_assert(sizeof(struct mapping_list) == 32, "mapping_list");
_Static_assert(sizeof(struct mapping_entry) == 32, "mapping_entry");
_Static_assert(sizeof(struct code_heaps) == 152, "code_heaps");
_Static_assert(sizeof(struct unwind_table) == 32, "unwind_table");
_Static_assert(sizeof(struct unwind_rule) == 8, "unwind_rule");
_Static_assert(sizeof(struct sample_record) == 48, "sample_record");
_Static_assert(sizeof(struct sample_context) == 24, "sample_context");
_Static_assert(sizeof(struct runtime_walk) == 232, "runtime_walk");
_Static_assert(sizeof(struct runtime_site) == 8, "runtime_site");
_Static_assert(sizeof(struct runtime_v8) == sizeof(struct runtime_site) * RUNTIME_SITES_MAX, "runtime_v8");
_Static_assert(sizeof(struct runtime_part) == 8, "runtime_part");
_Static_assert(sizeof(struct runtime_segment) == 16, "runtime_segment");
_Static_assert(sizeof(struct sample_task) == 120, "sample_task");
_Static_assert(sizeof(struct runtime_code) == 72, "runtime_code");
_Static_assert(sizeof(struct runtime_slot) == 16, "runtime_slot");
_Static_assert(sizeof(struct saved_stack) == 312, "saved_stack");
_Static_assert(RUNTIMES <= 1024, "a runtime is 10 bits of a tag");

#endif
