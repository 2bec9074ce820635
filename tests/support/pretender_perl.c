// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself Perl 5.36, by what proflet recognises that by, with stacks of contexts that are
 * wrong. It computes in what it calls the interpreter's loop, which main() calls as a program's.
 *
 *	pretender_perl MODE
 *
 * The modes are in `modes`. Prints "ready" when the contexts are as they are to be.
 */
#include "pretender.h"

#define CONTEXTS 4
#define STACKS 3
#define MAIN 1
#define SORT 2 /* a stack for native code that calls Perl code */
#define BLOCK 1u
#define FUNCTION 9u
#define EVAL 11u
#define IS_FUNCTION (13ull << 32 | 1) /* in a value's second word: type, references */
#define NAMED (0x8000ull << 32)

struct hek {
	uint32_t hash;
	int32_t length;
	char bytes[64];
};

struct statement {
	uint64_t before[4];
	uint32_t flags, line; /* at 36 */
	uint64_t package;
	const char *file; /* at 48 */
};

struct package_body {
	uint64_t before[4];
	const struct hek *name; /* at 32 */
	uint64_t more[2];
	int32_t flags, n_names;
};

struct package {
	const struct package_body *body;
};

struct function_body {
	uint64_t before[4];
	const struct package *package; /* at 32 */
	uint64_t middle[2];
	const struct hek *name; /* at 56 */
	const char *file;
	uint64_t after[2];
	uint64_t flags; /* at 88; the upper half */
};

struct function {
	const struct function_body *body;
	uint64_t type;
};

struct context {
	uint64_t type, unused;
	const struct statement *before; /* at 16 */
	uint64_t middle[3];
	const void *returns; /* at 48 */
	uint64_t more[2];
	const struct function *function; /* at 72 */
	uint64_t rest[3];
};

struct stack {
	uint64_t values;
	const struct context *contexts;
	const struct stack *outer;
	uint64_t inner;
	int32_t index, most; /* at 32 */
	int32_t unused, kind;
};

struct jump {
	const struct jump *outer;
};

struct interpreter {
	uint64_t before[26];
	const struct statement *statement; /* at 0xd0 */
	uint64_t middle;
	const struct stack *stack; /* at 0xe0 */
	uint64_t more[66];
	const struct jump *jump; /* at 0x2f8 */
	struct jump first;
};

_Static_assert(__builtin_offsetof(struct statement, line) == 36 &&
		       __builtin_offsetof(struct statement, file) == 48,
	       "COP");
_Static_assert(__builtin_offsetof(struct package_body, name) == 32, "xpvhv_with_aux");
_Static_assert(__builtin_offsetof(struct function_body, name) == 56 &&
		       __builtin_offsetof(struct function_body, flags) == 88,
	       "XPVCV");
_Static_assert(sizeof(struct context) == 0x68 && __builtin_offsetof(struct context, function) == 0x48,
	       "PERL_CONTEXT");
_Static_assert(__builtin_offsetof(struct stack, index) == 32 &&
		       __builtin_offsetof(struct stack, kind) == 0x2c,
	       "PERL_SI");
_Static_assert(__builtin_offsetof(struct interpreter, statement) == 0xd0 &&
		       __builtin_offsetof(struct interpreter, stack) == 0xe0 &&
		       __builtin_offsetof(struct interpreter, jump) == 0x2f8,
	       "interpreter");

EXPORTED const uint8_t PL_revision = 5, PL_version = 36, PL_subversion = 1;
EXPORTED pthread_key_t PL_thr_key;

static struct hek name = {1, 5, "lying"}, package_name = {2, 4, "Liar"};
static struct package_body package_body = {.name = &package_name};
static struct package package = {&package_body};
static struct function_body body = {.package = &package, .name = &name, .flags = NAMED, .file = "/lying.pl"};
static struct function function = {&body, IS_FUNCTION};
static struct statement statement = {.line = 7, .file = "/lying.pl"};
static struct context contexts[CONTEXTS];
static struct stack stacks[STACKS];
static struct interpreter interpreter;
static struct jump jumps[2];

EXPORTED __attribute__((noinline)) void Perl_runops_standard(void)
{
	for (;;)
		sink = sink * 31 + 7;
}

EXPORTED __attribute__((noinline)) void perl_run(void)
{
	Perl_runops_standard();
	sink++;
}

static void context_make(struct context *c, unsigned type)
{
	*c = (struct context){
		.type = type, .before = &statement, .returns = &statement, .function = &function};
}

static void make(void)
{
	static struct statement leaf = {.line = 9, .file = "/lying.pl"};

	for (size_t i = 0; i < CONTEXTS; i++)
		context_make(&contexts[i], i % 2 ? FUNCTION : BLOCK);
	stacks[0] =
		(struct stack){.contexts = contexts, .index = CONTEXTS - 1, .most = CONTEXTS, .kind = MAIN};
	jumps[0].outer = &interpreter.first;
	interpreter.statement = &leaf;
	interpreter.stack = &stacks[0];
	interpreter.jump = &jumps[0];
	pthread_key_create(&PL_thr_key, NULL);
	pthread_setspecific(PL_thr_key, &interpreter);
}

/* --- stacks */

/* Stacks for native code, in front of one that is none. */
static void stacks_make(const struct stack *last)
{
	for (size_t i = 0; i < STACKS; i++)
		stacks[i] = (struct stack){.contexts = contexts,
					   .outer = i + 1 < STACKS ? &stacks[i + 1] : last,
					   .index = CONTEXTS - 1,
					   .most = CONTEXTS,
					   .kind = SORT};
}

static void circle(void)
{
	stacks_make(NULL);
	stacks[0].outer = &stacks[0];
}

static void circle_of_all(void)
{
	stacks_make(&stacks[0]);
}

static void no_main(void)
{
	stacks_make(NULL);
}

static void stack_unmapped(void)
{
	stacks_make(unmapped());
}

static void stack_kernel(void)
{
	stacks_make(in_kernel());
}

static void stack_ends(void)
{
	stacks_make((struct stack *)((char *)unmapped() - 24));
}

static void stacks_deep(void)
{
	struct stack *all = calloc(DEPTH, sizeof *all);

	for (size_t i = 0; i < DEPTH; i++)
		all[i] = (struct stack){.contexts = contexts,
					.outer = &all[(i + 1) % DEPTH],
					.index = 1,
					.most = CONTEXTS,
					.kind = i + 1 < DEPTH ? SORT : MAIN};
	interpreter.stack = all;
}

static void kind_other(void)
{
	stacks_make(&stacks[0]);
	stacks[1].kind = 1 << 20;
}

static void index_huge(void)
{
	stacks_make(NULL);
	stacks[1].index = 0x7ffffffe;
	stacks[1].most = 0x7fffffff;
}

static void interpreter_kernel(void)
{
	pthread_setspecific(PL_thr_key, in_kernel());
}

static void interpreter_unmapped(void)
{
	pthread_setspecific(PL_thr_key, unmapped());
}

/* --- contexts */

static void contexts_of(const struct context *all, int32_t n)
{
	stacks[0].contexts = all;
	stacks[0].index = n - 1;
	stacks[0].most = n;
}

static void contexts_unmapped(void)
{
	contexts_of(unmapped(), CONTEXTS);
}

static void contexts_kernel(void)
{
	contexts_of(in_kernel(), CONTEXTS);
}

static void deep_of(unsigned type)
{
	struct context *all = calloc(DEPTH, sizeof *all);

	for (size_t i = 0; i < DEPTH; i++)
		context_make(&all[i], type);
	contexts_of(all, DEPTH);
}

static void deep(void)
{
	deep_of(FUNCTION);
}

static void blocks(void)
{
	deep_of(BLOCK);
}

static void function_unmapped(void)
{
	contexts[1].function = unmapped();
}

static void function_kernel(void)
{
	contexts[1].function = in_kernel();
}

static void function_none(void)
{
	static struct function value = {&body, 1};

	contexts[1].function = &value;
}

static void body_kernel(void)
{
	static struct function without = {NULL, IS_FUNCTION};

	without.body = in_kernel();
	contexts[1].function = &without;
}

/* --- what does not fit the native stack: loops that there are none of */

static void calls(void)
{
	contexts[1].returns = contexts[3].returns = NULL;
}

static void evals(void)
{
	for (size_t i = 0; i < CONTEXTS; i++) {
		contexts[i].type = EVAL | (i & 1 ? 0x40 : 0);
		contexts[i].returns = i & 2 ? NULL : &statement;
	}
}

static void jumps_circle(void)
{
	jumps[0].outer = &jumps[1];
	jumps[1].outer = &jumps[0];
}

static void jumps_kernel(void)
{
	jumps[0].outer = in_kernel();
}

/* --- names and places */

static void name_huge(void)
{
	name.length = 0x7fffffff;
}

static void name_odd(void)
{
	static const char odd[] = "a\033[2J\n<script>\xff\xfe\xe2\x80\xae\x7f";

	memcpy(name.bytes, odd, sizeof odd - 1);
	name.length = sizeof odd - 1;
}

static void name_kernel(void)
{
	body.name = in_kernel();
}

static void package_kernel(void)
{
	body.package = in_kernel();
}

static void names_many(void)
{
	package_body.n_names = -1;
	package_body.name = in_kernel();
}

static void file_endless(void)
{
	char *text = malloc(1 << 20);

	memset(text, 'x', 1 << 20);
	statement.file = text;
}

static void statement_kernel(void)
{
	contexts[3].before = in_kernel();
}

/* --- all the time */

/* Everything that the stack leads to changes while it is read. */
static void *flickering(void *unused)
{
	const uint64_t words[] = {
		0, 1, KERNEL, (uintptr_t)unmapped(), (uintptr_t)&function, (uintptr_t)&statement, ~0ull};
	const size_t n = sizeof words / sizeof words[0];

	for (uint64_t i = 0;; i++) {
		set_word(&contexts[1].function, words[i % n]);
		set_word(&contexts[3].before, words[i / 2 % n]);
		set_word(&contexts[3].returns, words[i / 3 % n]);
		set_word(&contexts[2].type, i % 256);
		set_word(&body.name, words[i / 5 % n]);
		set_word(&body.package, words[i / 7 % n]);
		set_word(&jumps[0].outer, words[i / 11 % n]);
		set_word(&stacks[0].outer, words[i / 13 % n]);
		set_word(&stacks[0].index, i % 7 | 8ull << 32);
		__atomic_store_n(&stacks[0].kind, (int32_t)(i / 17 % 4), __ATOMIC_RELAXED);
	}
	return unused;
}

static void flicker(void)
{
	beside(flickering);
}

static void *changing(void *unused)
{
	for (uint32_t i = 0;; i++)
		__atomic_store_n(&name.hash, i, __ATOMIC_RELAXED);
	return unused;
}

/* Another function each time that somebody looks. */
static void many(void)
{
	beside(changing);
}

static const struct pretender_mode modes[] = {
	{"honest", NULL},
	{"circle", circle},
	{"circle_of_all", circle_of_all},
	{"no_main", no_main},
	{"stack_unmapped", stack_unmapped},
	{"stack_kernel", stack_kernel},
	{"stack_ends", stack_ends},
	{"stacks_deep", stacks_deep},
	{"kind_other", kind_other},
	{"index_huge", index_huge},
	{"interpreter_kernel", interpreter_kernel},
	{"interpreter_unmapped", interpreter_unmapped},
	{"contexts_unmapped", contexts_unmapped},
	{"contexts_kernel", contexts_kernel},
	{"deep", deep},
	{"blocks", blocks},
	{"function_unmapped", function_unmapped},
	{"function_kernel", function_kernel},
	{"function_none", function_none},
	{"body_kernel", body_kernel},
	{"calls", calls},
	{"evals", evals},
	{"jumps_circle", jumps_circle},
	{"jumps_kernel", jumps_kernel},
	{"name_huge", name_huge},
	{"name_odd", name_odd},
	{"name_kernel", name_kernel},
	{"package_kernel", package_kernel},
	{"names_many", names_many},
	{"file_endless", file_endless},
	{"statement_kernel", statement_kernel},
	{"flicker", flicker},
	{"many", many},
};

int main(int argc, char **argv)
{
	int r;

	make();
	r = pretend(modes, sizeof modes / sizeof *modes, argc, argv);
	if (r == 0)
		perl_run();
	return r;
}
