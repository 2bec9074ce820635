// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises Ruby 2.7 and 3.0 to 3.4 in an ELF file (ruby, libruby), and says where what a profiler needs
 * lies in it and in its objects, which do not describe themselves: the offsets are those of the version.
 * x86-64 only. Pure. Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_RUBY_H
#define PROFLET_ELF_RUNTIME_RUBY_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define RUBY_LOOPS_MAX 2u
#define RUBY_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)
#define RUBY_NO_OFFSET 0xffffu

/* Offsets that are the same in all versions; more of them are in bpf/ruby.h. */
#define RUBY_CONTEXT_FRAME 16u /* in an execution context: the innermost control frame */
#define RUBY_FRAME_PC 0u
#define RUBY_FRAME_ISEQ 16u
#define RUBY_FRAME_EP 32u
#define RUBY_METHOD_OWNER 32u

/* Offsets that depend on the version. */
struct ruby_layout {
	uint16_t frame_bytes;	 /* of a control frame */
	uint16_t context_thread; /* in a context: its thread */
	/* in a thread: its context; before 3.0, where one pointer serves all threads, its pthread_t */
	uint16_t thread_back;
	/* in the body of an iseq */
	uint16_t lines, n_lines, lines_index; /* insns_info: body, size, succ_index_table */
	uint16_t local;			      /* local_iseq */
	uint16_t line_bytes;		      /* of an entry of `lines` */
	uint16_t text_length;		      /* in a string object that has its text; 0: in its flags */
	uint16_t text;			      /* where that begins */
	uint16_t class_path, attached;	      /* in a class; RUBY_NO_OFFSET: not there */
	uint16_t single_flag;		      /* number of a class's flag: it is of one object only */
	uint8_t number_of_line;		      /* 1: the first line is a number as Ruby code has it */
	uint8_t hides_handlers; /* 1: backtraces have code that handles exceptions as one with what it is in */
};

/* Addresses are ELF virtual addresses; 0: not in the file. */
struct ruby_facts {
	uint32_t version; /* RUBY_VERSION | release << 8; 0: no Ruby in the file */
	uint32_t known;	  /* 1: `layout` is filled in; 0: an unknown version */
	uint64_t context; /* 2.7: pointer to the context of the thread that runs Ruby code */
	uint64_t symbols; /* pointer to the names of IDs */
	/* The interpreter's loop, [start, end): rb_vm_exec, and what the compiler split off it. */
	uint64_t loop_start[RUBY_LOOPS_MAX], loop_end[RUBY_LOOPS_MAX];
	uint32_t n_loops;
	uint32_t zero;
	uint64_t inner_start, inner_end; /* vm_exec_core, which the loop calls for each run; or 0 */
	struct ruby_layout layout;
	uint32_t zero_end;
};

/*
 * 0: *ret describes the Ruby in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed. Costs
 * a look-up of one name where there is none.
 */
int ruby_facts_read(struct ruby_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as ruby_facts_read gives, also on failure. */
bool ruby_facts_valid(const struct ruby_facts *f);
/* The layout of a version (RUBY_VERSION, without release). False: not known. */
bool ruby_layout_of(struct ruby_layout *ret, uint32_t version);

/* --- for ruby.c */

/*
 * Fills in the ranges of the loop in a file that need not name it, from those of a function that calls it:
 * [caller, caller_end). [known, known_end): the loop's own, if it has a name; else 0. 0, also when nothing
 * was found; -ENOMEM.
 */
int ruby_loop_find(struct ruby_facts *f, struct elf_image *img, uint64_t caller, uint64_t caller_end,
		   uint64_t known, uint64_t known_end);

#endif
