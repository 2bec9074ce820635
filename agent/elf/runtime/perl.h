// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises Perl 5.28 to 5.42 in an ELF file (perl, libperl), and says where what a profiler needs lies in
 * it and in its objects, which do not describe themselves: the offsets are those of the version. In a build
 * for threads, each thread's interpreter is an object, the value of a pthread key; in others, what it
 * consists of are variables of the file. Pure. Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_PERL_H
#define PROFLET_ELF_RUNTIME_PERL_H

#include <stdbool.h>
#include <stdint.h>

struct elf_arch;
struct elf_image;

#define PERL_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)

/* Functions of which the place matters: the loop, and those that call it. */
enum perl_function {
	PERL_RUNOPS,
	PERL_RUNOPS_DEBUG,
	PERL_CALL_SV,	  /* calls a function */
	PERL_AMAGIC_CALL, /* calls the function of an overloaded operator */
	PERL_EVAL_SV,	  /* evaluates a text */
	PERL_RUN,	  /* runs the program */
	PERL_PARSE,	  /* reads the program, and runs what is to run at once */
	PERL_FUNCTIONS,
};

/* Offsets that depend on the version. */
struct perl_layout {
	uint16_t statement, stack, environment; /* in the interpreter: curcop, curstackinfo, top_env */
	uint16_t stack_kind;			/* in a stack: si_type */
	uint16_t context_bytes, function;	/* of a context; in it, the function */
	uint16_t body_names;			/* 1: the names of a package are in the body of its hash */
	uint16_t zero;
};

/* Addresses are ELF virtual addresses. */
struct perl_facts {
	uint32_t version; /* PERL_VERSION | release << 8; 0: no Perl in the file */
	uint32_t known;	  /* 1: `layout` is filled in; 0: an unknown version */
	uint64_t key;	  /* PL_thr_key; 0: not built for threads */
	/* PL_curcop, PL_curstackinfo, PL_top_env, where built without threads */
	uint64_t statement, stack, environment;
	uint64_t start[PERL_FUNCTIONS], end[PERL_FUNCTIONS]; /* [start, end); 0, 0: not in the file */
	struct perl_layout layout;
};

/* Whether a variable is near enough to the first one. */
static inline bool perl_is_offset(uint64_t start, uint64_t va)
{
	return va - start < UINT16_MAX && (va & 7) == 0;
}

/*
 * The address that the interpreter's offsets count from where built without threads: the first of its
 * variables. 0: built for threads, or they are further apart than offsets can say.
 */
static inline uint64_t perl_facts_start(const struct perl_facts *f)
{
	uint64_t start = f->statement < f->stack ? f->statement : f->stack;

	if (f->environment < start)
		start = f->environment;
	if (f->key || !perl_is_offset(start, f->statement) || !perl_is_offset(start, f->stack) ||
	    !perl_is_offset(start, f->environment))
		return 0;
	return start;
}

/*
 * 0: *ret describes the Perl in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed.
 * Costs a look-up of two names where there is none.
 */
int perl_facts_read(struct perl_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as perl_facts_read gives, also on failure. */
bool perl_facts_valid(const struct perl_facts *f);
/* The layout of a version (PERL_VERSION, without release). False: not known. */
bool perl_layout_of(struct perl_layout *ret, uint32_t version, const struct elf_arch *arch);
/* The function that the address is in; PERL_FUNCTIONS: in none of these. */
enum perl_function perl_function_at(const struct perl_facts *f, uint64_t va);

#endif
