// SPDX-License-Identifier: Apache-2.0
/*
 * Two maps lead to a number. The first one has the words of a frame, so that a frame that occurs again costs
 * one look-up. The second one has functions and lines: code objects of several processes may be the same
 * function. The texts of a function are copied once, for all its lines.
 */
#include "agent/report/language_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/runtime/code_names.h"
#include "agent/sample/frames.h"

#define WORDS_MAX (1u << 17) /* different frames of a window */
#define LINES_MAX (1u << 17) /* functions and lines of a window */
#define FUNCTIONS_MAX (1u << 16)
#define TEXT_BYTES_MAX (16u << 20) /* names and files of functions */

static const char *const runtime_texts[RUNTIMES] = {
#define X(name, text) [RUNTIME_##name] = (text),
	FRAME_RUNTIMES(X)
#undef X
};

/* The words of a frame, and its number. */
struct language_words {
	struct map_node node;
	uint64_t head, instruction;
	uint64_t number;
};

struct language_function {
	struct map_node node;
	uint32_t runtime, first_line;
	const char *file; /* in `name`, behind its NUL */
	char name[];
};

struct language_line {
	struct map_node node;
	const struct language_function *function;
	struct frame_line line;
	uint32_t index; /* in language_names.by_index */
};

struct language_names {
	struct code_names *code;
	struct map words, functions, lines; /* the entries are owned */
	struct language_line **by_index;    /* entries of `lines`; owned */
	size_t cap_by_index;
	size_t text_bytes;
	uint64_t n_unknown;
};

int language_names_new(struct language_names **ret, struct code_names *code)
{
	struct language_names *n = calloc(1, sizeof *n);

	if (!n)
		return -ENOMEM;
	n->code = code;
	map_init(&n->words, WORDS_MAX);
	map_init(&n->functions, FUNCTIONS_MAX);
	map_init(&n->lines, LINES_MAX);
	*ret = n;
	return 0;
}

void language_names_clear(struct language_names *n)
{
	struct map_node *node;

	map_for_each (&n->words, node, i)
		free(container_of(node, struct language_words, node));
	map_for_each (&n->lines, node, i)
		free(container_of(node, struct language_line, node));
	map_for_each (&n->functions, node, i)
		free(container_of(node, struct language_function, node));
	map_fini(&n->words);
	map_fini(&n->lines);
	map_fini(&n->functions);
	map_init(&n->words, WORDS_MAX);
	map_init(&n->functions, FUNCTIONS_MAX);
	map_init(&n->lines, LINES_MAX);
	free(n->by_index);
	n->by_index = NULL;
	n->cap_by_index = 0;
	n->text_bytes = 0;
}

void language_names_free(struct language_names *n)
{
	if (!n)
		return;
	language_names_clear(n);
	free(n);
}

/* --- functions and lines */

struct function_key {
	uint32_t runtime;
	const struct code_place *place;
};

static bool function_is(const struct map_node *node, const void *key)
{
	const struct language_function *f = container_of(node, struct language_function, node);
	const struct function_key *k = key;

	return f->runtime == k->runtime && f->first_line == k->place->first_line &&
	       strcmp(f->name, k->place->name) == 0 && strcmp(f->file, k->place->file) == 0;
}

/* Finds or adds the function. NULL: no memory, or no room. */
static const struct language_function *function_of(struct language_names *n, const struct function_key *key)
{
	const struct code_place *p = key->place;
	size_t name_len = strlen(p->name) + 1, file_len = strlen(p->file) + 1;
	uint64_t hash = hash_u64(hash_bytes(p->name, name_len) ^ hash_u64(hash_bytes(p->file, file_len)) ^
				 ((uint64_t)key->runtime << 32 | p->first_line));
	struct map_node *node = map_find(&n->functions, hash, function_is, key);
	struct language_function *f;

	if (node)
		return container_of(node, struct language_function, node);
	if (n->text_bytes + name_len + file_len > TEXT_BYTES_MAX)
		return NULL;
	f = malloc(sizeof *f + name_len + file_len);
	if (!f || map_insert(&n->functions, &f->node, hash) < 0) {
		free(f);
		return NULL;
	}
	f->runtime = key->runtime;
	f->first_line = p->first_line;
	f->file = f->name + name_len;
	memcpy(f->name, p->name, name_len);
	memcpy(f->name + name_len, p->file, file_len);
	n->text_bytes += name_len + file_len;
	return f;
}

static bool line_is(const struct map_node *node, const void *key)
{
	const struct language_line *a = container_of(node, struct language_line, node), *b = key;

	return a->function == b->function && a->line.line == b->line.line;
}

/* Finds or adds the line of a function. NULL: no memory, or no room. */
static const struct language_line *line_of(struct language_names *n, const struct language_function *f,
					   uint32_t line)
{
	const struct language_line key = {.function = f,
					  .line = {f->name, f->file, line, f->first_line},
					  .index = (uint32_t)n->lines.len};
	uint64_t hash = hash_u64((uintptr_t)f ^ (uint64_t)line << 32);
	struct map_node *node = map_find(&n->lines, hash, line_is, &key);
	struct language_line *l;

	if (node)
		return container_of(node, struct language_line, node);
	if (array_reserve(&n->by_index, &n->cap_by_index, n->lines.len + 1, sizeof(struct language_line *)) <
	    0)
		return NULL;
	l = malloc(sizeof *l);
	if (l)
		*l = key;
	if (!l || map_insert(&n->lines, &l->node, hash) < 0) {
		free(l);
		return NULL;
	}
	n->by_index[l->index] = l;
	return l;
}

/* --- numbers: the first RUNTIMES of them are those of frames without a name */

static uint64_t unknown_number(uint32_t runtime)
{
	return frame_native(FRAME_TAG_LANGUAGE, runtime);
}

static uint64_t find_number(struct language_names *n, const struct stack_frame *f)
{
	uint32_t runtime = frame_runtime_of(f->word);
	int64_t offset = f->n_following ? (int64_t)f->following[0] : 0;
	const struct language_function *function = NULL;
	const struct language_line *line = NULL;
	struct code_place place;

	if (n->code && code_names_find(n->code, frame_va(f->word), offset, &place) && place.name[0])
		function = function_of(n, &(struct function_key){runtime, &place});
	if (function)
		line = line_of(n, function, place.line);
	if (line)
		return frame_native(FRAME_TAG_LANGUAGE, RUNTIMES + line->index);
	n->n_unknown++;
	return unknown_number(runtime);
}

static bool words_are(const struct map_node *node, const void *key)
{
	const struct language_words *a = container_of(node, struct language_words, node), *b = key;

	return a->head == b->head && a->instruction == b->instruction;
}

uint64_t language_names_number(struct language_names *n, const struct stack_frame *f)
{
	const struct language_words key = {.head = f->word,
					   .instruction = f->n_following ? f->following[0] : 0};
	uint64_t hash = hash_u64(key.head ^ hash_u64(key.instruction));
	struct map_node *node = map_find(&n->words, hash, words_are, &key);
	struct language_words *w;
	uint64_t number;

	if (node)
		return container_of(node, struct language_words, node)->number;
	number = find_number(n, f);
	w = malloc(sizeof *w);
	if (w)
		*w = key;
	if (!w || map_insert(&n->words, &w->node, hash) < 0) {
		free(w); /* it is looked up again when it occurs again */
		return number;
	}
	w->number = number;
	return number;
}

bool language_names_frame(const struct language_names *n, uint64_t number, struct frame *ret)
{
	uint64_t index = frame_va(number);
	const struct language_line *l;

	if (frame_tag(number) != FRAME_TAG_LANGUAGE)
		return false;
	*ret = (struct frame){.kind = FRAME_NATIVE, .function = "[unknown function]"};
	if (index < RUNTIMES) {
		ret->runtime = runtime_texts[index];
		return true;
	}
	if (index - RUNTIMES >= n->lines.len)
		return true;
	l = n->by_index[index - RUNTIMES];
	ret->runtime = runtime_texts[l->function->runtime];
	ret->function = l->function->name;
	ret->start_line = l->function->first_line;
	ret->lines = &l->line;
	ret->n_lines = 1;
	return true;
}

uint64_t language_names_unknown(const struct language_names *n)
{
	return n->n_unknown;
}

size_t language_names_bytes(const struct language_names *n)
{
	return n->words.len * sizeof(struct language_words) + n->lines.len * sizeof(struct language_line) +
	       n->functions.len * sizeof(struct language_function) + n->text_bytes +
	       (n->words.n_buckets + n->lines.n_buckets + n->functions.n_buckets) *
		       sizeof(struct map_node *) +
	       n->cap_by_index * sizeof(struct language_line *);
}
