// SPDX-License-Identifier: Apache-2.0
/*
 * A program that calls itself PHP 8.2, by what proflet recognises that by, with lists of frames that are
 * wrong. It computes in what it calls the interpreter's loop.
 *
 *	pretender MODE
 *
 * The modes are in main(). Prints "ready" when the list is as it is to be.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEPTH 100000
#define FUNCTIONS 4096
#define PAGE 4096
#define CURRENT_FRAME 488 /* in executor_globals, as in PHP 8.2 */
#define CALL_TOP (1u << 17)
#define KERNEL 0xffff888000001000ull

struct text {
	uint64_t header[2], length;
	char bytes[64];
};

struct class
{
	uint64_t type;
	const struct text *name;
};

struct instruction {
	uint64_t handler[3];
	uint32_t line, opcode;
};

struct function {
	uint8_t type, arguments[3];
	uint32_t flags;
	const struct text *name;
	const struct class *scope;
	uint64_t before[7];
	uint32_t n_instructions, padding; /* at 80 */
	const struct instruction *instructions;
	uint64_t middle[7];
	const struct text *file; /* at 152 */
	uint32_t first_line;
};

struct frame {
	const struct instruction *instruction;
	uint64_t call, value;
	const struct function *function;
	uint64_t object;
	uint32_t info, n;
	struct frame *next;
};

_Static_assert(__builtin_offsetof(struct function, n_instructions) == 80, "last");
_Static_assert(__builtin_offsetof(struct function, instructions) == 88, "opcodes");
_Static_assert(__builtin_offsetof(struct function, file) == 152, "filename");
_Static_assert(__builtin_offsetof(struct frame, info) == 40 && sizeof(struct frame) == 56, "execute_data");

const char version[] = "X-Powered-By: PHP/8.2.99";
uint64_t executor_globals[256] __attribute__((visibility("default")));

static struct text text = {{1, 0}, 5, "lying"}, path = {{1, 0}, 9, "/lying.php"};
static struct class class = {1, &text};
static struct instruction instructions[4] = {{{0}, 1, 0}, {{0}, 2, 0}, {{0}, 3, 0}, {{0}, 4, 0}};
static struct function function = {.type = 2,
				   .name = &text,
				   .scope = &class,
				   .n_instructions = 4,
				   .instructions = instructions,
				   .file = &path,
				   .first_line = 1};
static struct frame frames[2];
static volatile uint64_t sink;

__attribute__((noinline, visibility("default"))) void execute_ex(void)
{
	for (;;)
		sink = sink * 31 + 7;
}

static struct frame *frame_make(struct frame *f, struct frame *next)
{
	*f = (struct frame){
		.instruction = &instructions[1], .function = &function, .info = CALL_TOP, .next = next};
	return f;
}

static void set_first(void *frame)
{
	__atomic_store_n(&executor_globals[CURRENT_FRAME / 8], (uint64_t)(uintptr_t)frame, __ATOMIC_RELAXED);
}

static void *unmapped(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + PAGE, PAGE);
	return p + PAGE;
}

static struct frame *deep(void)
{
	struct frame *all = calloc(DEPTH, sizeof *all), *next = NULL;

	for (int i = 0; i < DEPTH; i++)
		next = frame_make(&all[i], next);
	return next;
}

/* Everything that the list leads to changes while it is read. */
static void *flicker(void *unused)
{
	const uint64_t words[] = {
		0, 1, KERNEL, (uintptr_t)unmapped(), (uintptr_t)&frames[0], (uintptr_t)&text, ~0ull};
	const size_t n = sizeof words / sizeof words[0];

	for (uint64_t i = 0;; i++) {
		__atomic_store_n((uint64_t *)&frames[0].next, words[i % n], __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&frames[0].function, words[i / n % n], __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&function.name, words[i / 3 % n], __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&function.file, words[i / 5 % n], __ATOMIC_RELAXED);
		__atomic_store_n(&text.length, words[i / 7 % n], __ATOMIC_RELAXED);
		__atomic_store_n(&function.type, (uint8_t)i, __ATOMIC_RELAXED);
	}
	return unused;
}

/* Another function each time that somebody looks. */
static void *many(void *unused)
{
	struct function *all = calloc(FUNCTIONS, sizeof *all);

	for (uint32_t i = 0; all; i++) {
		struct function *f = &all[i % FUNCTIONS];

		*f = function;
		f->first_line = i;
		__atomic_store_n(&frames[0].function, f, __ATOMIC_RELEASE);
	}
	return unused;
}

static void beside(void *(*fn)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, fn, NULL);
}

static void set_name(const char *bytes)
{
	text.length = strlen(bytes);
	memcpy(text.bytes, bytes, text.length);
}

static int prepare(const char *mode)
{
	struct frame *first = frame_make(&frames[0], NULL), *second = frame_make(&frames[1], NULL);
	char *edge;

	first->next = second;
	if (strcmp(mode, "honest") == 0) {
	} else if (strcmp(mode, "circle") == 0) {
		first->next = first;
	} else if (strcmp(mode, "circle_of_two") == 0) {
		second->next = first;
	} else if (strcmp(mode, "unmapped") == 0) {
		second->next = unmapped();
	} else if (strcmp(mode, "kernel") == 0) {
		second->next = (void *)(uintptr_t)KERNEL;
	} else if (strcmp(mode, "noncanonical") == 0) {
		second->next = (void *)(uintptr_t)0x8000000000000008ull;
	} else if (strcmp(mode, "odd_address") == 0) {
		second->next = (void *)((uintptr_t)first + 3);
	} else if (strcmp(mode, "end_of_page") == 0) {
		edge = (char *)unmapped() - 8;
		second->next = (struct frame *)edge;
	} else if (strcmp(mode, "deep") == 0) {
		first = deep();
	} else if (strcmp(mode, "function_unmapped") == 0) {
		second->function = unmapped();
	} else if (strcmp(mode, "function_kernel") == 0) {
		second->function = (void *)(uintptr_t)KERNEL;
	} else if (strcmp(mode, "instructions") == 0) {
		function.n_instructions = ~0u;
		function.instructions = (void *)(uintptr_t)KERNEL;
		first->instruction = (void *)(uintptr_t)(KERNEL + 32);
	} else if (strcmp(mode, "name_huge") == 0) {
		text.length = ~0ull >> 2;
	} else if (strcmp(mode, "name_odd") == 0) {
		set_name("a\033[2J\n<script>\xff\xfe\xe2\x80\xae\x7f");
	} else if (strcmp(mode, "class") == 0) {
		class.name = (void *)(uintptr_t)KERNEL;
	} else if (strcmp(mode, "flicker") == 0) {
		beside(flicker);
	} else if (strcmp(mode, "many") == 0) {
		beside(many);
	} else {
		return -1;
	}
	set_first(first);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2 || prepare(argv[1]) < 0) {
		fprintf(stderr, "usage: pretender MODE\n");
		return 2;
	}
	printf("ready %zu\n", sizeof version);
	fflush(stdout);
	execute_ex();
}
