// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself Ruby 3.1, by what proflet recognises that by, with control frames that are
 * wrong. It computes in what it calls the interpreter's loop.
 *
 *	pretender_ruby MODE
 *
 * The modes are in `modes`. Prints "ready" when the frames are as they are to be.
 */
#include "pretender.h"

#define STACK_WORDS 8192
#define FRAMES 3 /* the last one is the stack's end */
#define EVALS 4
#define KIND(kind) ((uint64_t)(kind) << 16 | 0x23) /* the last frame of a run of the loop; of no block */
#define METHOD 0x1111
#define BLOCK 0x2222
#define EVAL 0x7777
#define DUMMY 0x7999
#define OTHER 0x1234 /* no kind at all */
#define TYPE_EVAL 6u
#define TYPE_STRING 5u
#define TYPE_ARRAY 7u
#define TYPE_INTERNAL 0x1au
#define INTERNAL_ISEQ (7u << 12)
#define ELSEWHERE (1u << 13)

struct string {
	uint64_t flags, class, length;
	const char *bytes;
	uint64_t capacity;
};

struct array {
	uint64_t flags, class;
	const void *first;
};

struct line {
	uint32_t line, node, events;
};

struct body {
	uint32_t type, n_instructions;
	const void *instructions;
	uint64_t before[6];
	const void *file, *base_label, *label; /* at 64 */
	uint64_t first_line, node, code[2];
	const struct line *lines; /* at 120, its length at 136 */
	uint64_t positions;
	uint32_t n_lines, padding;
	const void *lines_index;
	uint64_t middle[2];
	const void *parent, *local; /* at 168 */
};

struct iseq {
	uint64_t flags, class;
	struct body *body;
};

struct frame {
	const void *pc, *sp;
	const struct iseq *iseq;
	uint64_t self;
	const uint64_t *ep;
	const void *block, *bp, *jit;
};

struct thread {
	uint64_t before[5];
	const void *context; /* at 40 */
};

struct context {
	const void *stack;
	uint64_t words;
	const struct frame *frame;
	uint64_t middle[3];
	const struct thread *thread; /* at 48 */
};

_Static_assert(__builtin_offsetof(struct body, file) == 64 &&
		       __builtin_offsetof(struct body, first_line) == 88,
	       "location");
_Static_assert(__builtin_offsetof(struct body, lines) == 120 &&
		       __builtin_offsetof(struct body, n_lines) == 136,
	       "insns_info");
_Static_assert(__builtin_offsetof(struct body, lines_index) == 144, "succ_index_table");
_Static_assert(__builtin_offsetof(struct body, parent) == 168 &&
		       __builtin_offsetof(struct body, local) == 176,
	       "parent_iseq, local_iseq");
_Static_assert(sizeof(struct frame) == 64, "rb_control_frame_t");
_Static_assert(__builtin_offsetof(struct context, thread) == 48, "thread_ptr");

EXPORTED const char ruby_version[] = "3.1.2";

static struct string label = {TYPE_STRING | ELSEWHERE, 0, 5, "lying", 0},
		     path = {TYPE_STRING | ELSEWHERE, 0, 9, "/lying.rb", 0};
static struct array circle = {TYPE_ARRAY | ELSEWHERE | 1u << 15, 0, &circle};
static struct line lines[1] = {{7, 0, 0}};
static uint64_t instructions[4];
static struct body bodies[EVALS];
static struct iseq iseqs[EVALS];
static uint64_t environments[FRAMES][3];
static uint64_t stack[STACK_WORDS];
static struct thread thread;
static struct context context;
static __thread const struct context *volatile current;

EXPORTED __attribute__((noinline)) void rb_vm_exec(void)
{
	for (;;)
		sink = sink * 31 + 7;
}

static void iseq_make(size_t i)
{
	bodies[i] = (struct body){.type = 1,
				  .n_instructions = 4,
				  .instructions = instructions,
				  .file = &path,
				  .base_label = &label,
				  .label = &label,
				  .first_line = 5,
				  .lines = lines,
				  .n_lines = 1,
				  .local = &iseqs[i]};
	iseqs[i] = (struct iseq){TYPE_INTERNAL | INTERNAL_ISEQ, 0, &bodies[i]};
}

static struct frame *frame_at(size_t from_end)
{
	return (struct frame *)(stack + STACK_WORDS) - from_end;
}

static void frame_make(struct frame *f, size_t i, unsigned kind, const struct iseq *iseq)
{
	environments[i][2] = KIND(kind);
	*f = (struct frame){.pc = &instructions[1], .iseq = iseq, .ep = &environments[i][2]};
}

static void make(void)
{
	for (size_t i = 0; i < EVALS; i++)
		iseq_make(i);
	frame_make(frame_at(1), 0, DUMMY, NULL);
	frame_make(frame_at(2), 1, METHOD, &iseqs[0]);
	frame_make(frame_at(3), 2, METHOD, &iseqs[0]);
	thread.context = &context;
	context = (struct context){
		.stack = stack, .words = STACK_WORDS, .frame = frame_at(3), .thread = &thread};
	current = &context;
}

/* --- the stack */

static void stack_of(const void *memory, uint64_t words, const void *frame)
{
	context.stack = memory;
	context.words = words;
	context.frame = frame;
}

static void deep(void)
{
	struct frame *all = calloc(DEPTH, sizeof *all);

	for (size_t i = 0; i < DEPTH; i++)
		all[i] = *frame_at(3);
	stack_of(all, DEPTH * 8, all + 1);
}

static void stack_unmapped(void)
{
	const struct frame *page = unmapped();

	stack_of(page, STACK_WORDS, page + 8);
}

static void stack_kernel(void)
{
	stack_of(in_kernel(), STACK_WORDS, (const struct frame *)in_kernel() + 8);
}

/* It goes on where there is no memory. */
static void stack_ends(void)
{
	struct frame *end = unmapped();

	end[-1] = end[-2] = *frame_at(3);
	stack_of(end - 8, 4096, end - 2);
}

static void stack_huge(void)
{
	context.words = 1ull << 60;
}

static void stack_uneven(void)
{
	context.frame = (const struct frame *)((const char *)context.frame + 8);
}

static void frame_outside(void)
{
	context.frame = (const struct frame *)((uintptr_t)frame_at(0) + 5 * sizeof(struct frame));
}

static void context_unmapped(void)
{
	current = unmapped();
}

static void context_kernel(void)
{
	current = in_kernel();
}

static void thread_of_another(void)
{
	thread.context = &thread;
}

/* --- frames */

static void iseq_unmapped(void)
{
	frame_at(2)->iseq = unmapped();
}

static void iseq_kernel(void)
{
	frame_at(2)->iseq = in_kernel();
}

static void body_kernel(void)
{
	iseqs[1].body = in_kernel();
	frame_at(2)->iseq = &iseqs[1];
}

static void ep_unmapped(void)
{
	frame_at(2)->ep = unmapped();
}

static void ep_kernel(void)
{
	frame_at(2)->ep = in_kernel();
}

static void kind_other(void)
{
	environments[1][2] = KIND(OTHER);
}

/* Blocks in each other, without end. */
static void scopes(void)
{
	for (size_t i = 1; i < FRAMES; i++) {
		environments[i][1] = (uint64_t)(uintptr_t)&environments[i][2] | 3;
		environments[i][2] = (KIND(BLOCK)) & ~2ull;
	}
}

/* Code that is evaluated in itself. */
static void evals(void)
{
	for (size_t i = 0; i < EVALS; i++) {
		bodies[i].type = TYPE_EVAL;
		bodies[i].parent = &iseqs[(i + 1) % EVALS];
	}
	frame_make(frame_at(2), 1, EVAL, &iseqs[0]);
}

/* --- names and lines */

static void label_huge(void)
{
	label.length = ~0ull >> 2;
}

static void label_odd(void)
{
	label.bytes = "a\033[2J\n<script>\xff\xfe\xe2\x80\xae\x7f";
	label.length = strlen(label.bytes);
}

static void label_kernel(void)
{
	label.bytes = in_kernel();
}

static void file_circle(void)
{
	for (size_t i = 0; i < EVALS; i++)
		bodies[i].file = &circle;
}

static void lines_kernel(void)
{
	bodies[0].lines = in_kernel();
	bodies[0].n_lines = ~0u;
	bodies[0].n_instructions = ~0u;
	bodies[0].lines_index = in_kernel();
}

/* --- all the time */

/* Everything that the frames lead to changes while it is read. */
static void *flickering(void *unused)
{
	const uint64_t words[] = {
		0, 1, KERNEL, (uintptr_t)unmapped(), (uintptr_t)&label, (uintptr_t)&iseqs[0], ~0ull};
	const size_t n = sizeof words / sizeof words[0];
	const uint64_t kinds[] = {METHOD, BLOCK, EVAL, OTHER, DUMMY, 0x5555, 0x7888};

	for (uint64_t i = 0;; i++) {
		set_word(&frame_at(2)->iseq, words[i % n]);
		set_word(&frame_at(2)->pc, words[i / 2 % n]);
		set_word(&environments[1][2], KIND(kinds[i / 3 % n]) & ~(i & 2));
		set_word(&environments[1][1], words[i / 5 % n]);
		set_word(&environments[1][0], words[i / 11 % n]);
		set_word(&iseqs[0].body, i & 1 ? (uintptr_t)&bodies[0] : words[i / 7 % n]);
		set_word(&bodies[0].label, words[i / 13 % n]);
		set_word(&label.length, words[i / 17 % n]);
		set_word(&context.frame, (uintptr_t)frame_at(i % 5));
	}
	return unused;
}

static void flicker(void)
{
	beside(flickering);
}

static void *changing(void *unused)
{
	for (uint64_t i = 0;; i++)
		set_word(&bodies[0].first_line, i & 0xffffff);
	return unused;
}

/* Another method each time that somebody looks. */
static void many(void)
{
	beside(changing);
}

static const struct pretender_mode modes[] = {
	{"honest", NULL},
	{"deep", deep},
	{"stack_unmapped", stack_unmapped},
	{"stack_kernel", stack_kernel},
	{"stack_ends", stack_ends},
	{"stack_huge", stack_huge},
	{"stack_uneven", stack_uneven},
	{"frame_outside", frame_outside},
	{"context_unmapped", context_unmapped},
	{"context_kernel", context_kernel},
	{"thread_of_another", thread_of_another},
	{"iseq_unmapped", iseq_unmapped},
	{"iseq_kernel", iseq_kernel},
	{"body_kernel", body_kernel},
	{"ep_unmapped", ep_unmapped},
	{"ep_kernel", ep_kernel},
	{"kind_other", kind_other},
	{"scopes", scopes},
	{"evals", evals},
	{"label_huge", label_huge},
	{"label_odd", label_odd},
	{"label_kernel", label_kernel},
	{"file_circle", file_circle},
	{"lines_kernel", lines_kernel},
	{"flicker", flicker},
	{"many", many},
};

int main(int argc, char **argv)
{
	int r;

	make();
	r = pretend(modes, sizeof modes / sizeof *modes, argc, argv);
	if (r == 0)
		rb_vm_exec();
	return r;
}
