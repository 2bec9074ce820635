// SPDX-License-Identifier: Apache-2.0
/*
 * The stacks of the window, whole: for callers and callees, and for a recording of what is shown. Equal
 * frames are kept once. Beyond the maximum of bytes, the oldest intervals lose theirs.
 *
 * The content of a frame is a struct frame_head, the numbers of its lines, and its texts. It is the key by
 * which an equal frame is found, and the memory that the kept frame's pointers point to.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/live_private.h"

struct frame_head {
	uint64_t address, unnamed_start, start, limit, file_offset;
	const char *runtime, *tier; /* static texts */
	uint32_t kind, start_line, module, n_lines;
	uint8_t has_module, go, fixed, inlined;
};

struct line_numbers {
	uint32_t line, start_line;
};

/* --- a frame to its content, and back */

static void head_of(const struct frame *f, struct frame_head *ret)
{
	const struct frame_module *m = f->module;

	memset(ret, 0, sizeof *ret); /* padding, too: it is part of a key */
	ret->address = f->address;
	ret->unnamed_start = f->unnamed_start;
	ret->runtime = f->runtime;
	ret->tier = f->tier;
	ret->kind = f->kind;
	ret->start_line = f->start_line;
	ret->n_lines = (uint32_t)f->n_lines;
	ret->inlined = f->inlined;
	if (!m)
		return;
	ret->has_module = 1;
	ret->start = m->start;
	ret->limit = m->limit;
	ret->file_offset = m->file_offset;
	ret->module = m->id;
	ret->go = m->go;
	ret->fixed = m->fixed;
}

/* A text, or a mark that there is none. */
static int put_text(struct buf *b, const char *s)
{
	int r = buf_putc(b, s ? 1 : 0);

	return r < 0 || !s ? r : buf_append(b, s, strlen(s) + 1);
}

static const char *take_text(const char **at)
{
	const char *s = *at + 1;

	if (!*(*at)++)
		return NULL;
	*at += strlen(s) + 1;
	return s;
}

static int put_lines(struct buf *b, const struct frame *f)
{
	int r = 0;

	for (size_t i = 0; i < f->n_lines && r == 0; i++) {
		const struct line_numbers n = {f->lines[i].line, f->lines[i].start_line};

		r = buf_append(b, &n, sizeof n);
	}
	for (size_t i = 0; i < f->n_lines && r == 0; i++) {
		r = put_text(b, f->lines[i].function);
		if (r == 0)
			r = put_text(b, f->lines[i].file);
	}
	return r;
}

static int put_frame(struct buf *b, const struct frame *f)
{
	const struct frame_module *m = f->module;
	const char *const texts[] = {f->function,
				     f->system_name,
				     m ? m->path : NULL,
				     m ? m->name : NULL,
				     m ? m->build_id_gnu : NULL,
				     m ? m->build_id_go : NULL,
				     m ? m->htlhash : NULL};
	struct frame_head head;
	int r;

	buf_clear(b);
	head_of(f, &head);
	r = buf_append(b, &head, sizeof head);
	if (r == 0)
		r = put_lines(b, f);
	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = put_text(b, texts[i]);
	return r;
}

static const char *take_lines(const char *at, size_t n, struct frame_line *ret)
{
	const char *texts = at + n * sizeof(struct line_numbers);

	for (size_t i = 0; i < n; i++) {
		struct line_numbers numbers;

		memcpy(&numbers, at + i * sizeof numbers, sizeof numbers);
		ret[i].line = numbers.line;
		ret[i].start_line = numbers.start_line;
		ret[i].function = take_text(&texts);
		ret[i].file = take_text(&texts);
	}
	return texts;
}

/* `lines`: room for those of the frame; `content` outlives the frame. */
static void take_frame(struct live_frame *f, struct frame_line *lines, const char *content)
{
	const char *at = content + sizeof(struct frame_head);
	struct frame_head head;

	memcpy(&head, content, sizeof head);
	at = take_lines(at, head.n_lines, lines);
	f->frame = (struct frame){
		.module = head.has_module ? &f->module : NULL,
		.address = head.address,
		.function = take_text(&at),
		.kind = (enum frame_kind)head.kind,
		.runtime = head.runtime,
		.lines = head.n_lines ? lines : NULL,
		.n_lines = head.n_lines,
		.unnamed_start = head.unnamed_start,
		.tier = head.tier,
		.start_line = head.start_line,
		.inlined = head.inlined,
	};
	f->frame.system_name = take_text(&at);
	f->module = (struct frame_module){
		.id = head.module,
		.start = head.start,
		.limit = head.limit,
		.file_offset = head.file_offset,
		.go = head.go,
		.fixed = head.fixed,
	};
	f->module.path = take_text(&at);
	f->module.name = take_text(&at);
	f->module.build_id_gnu = take_text(&at);
	f->module.build_id_go = take_text(&at);
	f->module.htlhash = take_text(&at);
}

/* --- kept frames, with references */

static const char *content_of(const struct live_frame *f)
{
	return (const char *)(f + 1) + f->frame.n_lines * sizeof(struct frame_line);
}

static size_t bytes_of(const struct live_frame *f)
{
	return sizeof *f + f->frame.n_lines * sizeof(struct frame_line) + f->len;
}

static bool frame_is(const struct map_node *node, const void *key)
{
	const struct live_frame *f = container_of(node, struct live_frame, node);
	const struct buf *b = key;

	return f->len == b->len && !memcmp(content_of(f), b->data, b->len);
}

/* A reference on the kept frame that is equal to this one; NULL: no memory. */
static struct live_frame *frame_keep(struct output_live *l, const struct frame *frame)
{
	size_t lines = frame->n_lines * sizeof(struct frame_line);
	struct live_frame *f;
	struct map_node *n;
	uint64_t hash;

	if (put_frame(&l->key, frame) < 0)
		return NULL;
	hash = hash_bytes(l->key.data, l->key.len);
	n = map_find(&l->frames, hash, frame_is, &l->key);
	if (n) {
		f = container_of(n, struct live_frame, node);
		f->refs++;
		return f;
	}
	f = malloc(sizeof *f + lines + l->key.len);
	if (!f)
		return NULL;
	*f = (struct live_frame){.refs = 1, .len = l->key.len};
	memcpy((char *)(f + 1) + lines, l->key.data, l->key.len);
	take_frame(f, (struct frame_line *)(f + 1), (char *)(f + 1) + lines);
	if (map_insert(&l->frames, &f->node, hash) < 0) {
		free(f);
		return NULL;
	}
	l->kept_bytes += bytes_of(f);
	return f;
}

static void frame_release(struct output_live *l, struct live_frame *f)
{
	if (!f || --f->refs)
		return;
	l->kept_bytes -= bytes_of(f);
	map_remove(&l->frames, &f->node);
	free(f);
}

/* --- kept stacks */

static void stack_free(struct output_live *l, struct live_stack *s)
{
	for (size_t i = 0; i < s->n; i++)
		frame_release(l, s->steps[i].frame);
	l->kept_bytes -= s->bytes;
	free(s);
}

void live_stacks_forget(struct output_live *l, struct live_interval *i)
{
	for (size_t k = 0; k < i->n_stacks; k++) {
		i->unkept += i->stacks[k]->count;
		stack_free(l, i->stacks[k]);
	}
	free(i->stacks);
	i->stacks = NULL;
	i->n_stacks = i->cap_stacks = 0;
}

/* Copies all but the frames. */
static struct live_stack *stack_new(struct output_live *l, const struct output_stack *s, size_t n)
{
	size_t thread = s->thread ? strlen(s->thread) + 1 : 0;
	size_t times = s->times && s->mono_ns ? s->count * sizeof *s->times : 0;
	size_t bytes = sizeof(struct live_stack) + n * sizeof(struct live_step) + 2 * times + thread;
	struct live_stack *k = calloc(1, bytes);
	char *at;

	if (!k)
		return NULL;
	at = (char *)(k->steps + n);
	*k = (struct live_stack){.tid = s->tid,
				 .cpu = s->cpu,
				 .complete = s->complete,
				 .count = s->count,
				 .n = n,
				 .bytes = bytes};
	if (times) {
		k->times = memcpy(at, s->times, times);
		k->mono_ns = memcpy(at + times, s->mono_ns, times);
	}
	if (thread)
		k->thread = memcpy(at + 2 * times, s->thread, thread);
	l->kept_bytes += bytes;
	return k;
}

/* The stack with its frames; NULL: no memory. */
static struct live_stack *stack_copy(struct output_live *l, const struct output_stack *s,
				     struct live_process *p, size_t n)
{
	struct live_stack *k = stack_new(l, s, n);

	if (!k)
		return NULL;
	k->process = p;
	for (size_t i = 0; i < n; i++) {
		k->steps[i].function = l->steps[i].function;
		if (i >= s->n_frames)
			continue;
		k->steps[i].frame = frame_keep(l, &s->frames[i]);
		if (!k->steps[i].frame) {
			stack_free(l, k);
			return NULL;
		}
	}
	return k;
}

/* Below the maximum again, at the cost of the oldest stacks. */
static void make_room(struct output_live *l)
{
	for (size_t i = 0; i < l->n_intervals && l->kept_bytes > l->max_kept_bytes; i++)
		live_stacks_forget(l, &l->intervals[i]);
}

void live_stacks_keep(struct output_live *l, const struct output_stack *s, struct live_process *p, size_t n)
{
	struct live_interval *i = &l->intervals[l->n_intervals - 1];
	struct live_stack *k = NULL;

	if (array_reserve(&i->stacks, &i->cap_stacks, i->n_stacks + 1, sizeof(struct live_stack *)) == 0)
		k = stack_copy(l, s, p, n);
	if (k)
		i->stacks[i->n_stacks++] = k;
	else
		i->unkept += s->count;
	make_room(l);
}

/* --- the stacks of a scope */

static bool is_function(const struct live_function *f, const struct output_live_scope *s)
{
	return strcmp(f->name, s->function) == 0 && strcmp(f->module, s->module ? s->module : "") == 0;
}

bool live_stack_in_scope(const struct live_stack *k, const struct output_live_scope *s)
{
	const struct live_process *p = k->process;

	if (s->process && (p->pid != s->pid || strcmp(p->comm, s->process) != 0))
		return false;
	if (s->container && strcmp(p->container, s->container) != 0)
		return false;
	for (size_t i = 0; s->function && i < k->n; i++)
		if (is_function(k->steps[i].function, s))
			return true;
	return !s->function;
}

/* Whether a row of the stack has the filter's text in it. */
static bool has_text(const struct live_stack *k, const char *filter, bool functions)
{
	const struct live_process *p = k->process;
	const struct output_live_row row = {.name = p->comm,
					    .module = "",
					    .container = p->container,
					    .container_name = p->container_name,
					    .top = "",
					    .pid = p->pid};

	if (live_row_wanted(&row, filter))
		return true;
	for (size_t i = 0; functions && i < k->n; i++)
		if (strcasestr(k->steps[i].function->name, filter) ||
		    strcasestr(k->steps[i].function->module, filter))
			return true;
	return false;
}

/* The frames of the stack that is passed on, and their numbers: the addresses of the kept ones. */
struct passed {
	struct frame *frames; /* owned */
	uint64_t *numbers;    /* owned */
	size_t cap, cap_numbers;
};

static void passed_fini(struct passed *p)
{
	free(p->frames);
	free(p->numbers);
}

struct frame output_live_frame(uint64_t number)
{
	return ((const struct live_frame *)(uintptr_t)number)->frame;
}

static int pass(const struct live_stack *k, struct passed *p, output_live_stack_fn fn, void *data)
{
	struct output_stack s = {
		.process = k->process->comm,
		.pid = k->process->pid,
		.thread = k->thread,
		.tid = k->tid,
		.cpu = k->cpu,
		.container = k->process->container[0] ? k->process->container : NULL,
		.container_name = k->process->container_name[0] ? k->process->container_name : NULL,
		.count = k->count,
		.times = k->times,
		.mono_ns = k->mono_ns,
		.complete = k->complete,
	};

	if (array_reserve(&p->frames, &p->cap, k->n, sizeof *p->frames) < 0 ||
	    array_reserve(&p->numbers, &p->cap_numbers, k->n, sizeof *p->numbers) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++) {
		if (!k->steps[i].frame)
			continue;
		p->frames[s.n_frames] = k->steps[i].frame->frame;
		p->numbers[s.n_frames++] = (uintptr_t)k->steps[i].frame;
	}
	s.frames = p->frames;
	return fn(&s, p->numbers, data);
}

static bool shows_functions(const struct output_live_query *q)
{
	return q->view == OUTPUT_LIVE_FUNCTIONS || q->scope;
}

int output_live_stacks(const struct output_live *l, const struct output_live_query *q,
		       output_live_stack_fn fn, void *data)
{
	_cleanup_(passed_fini) struct passed passed = {0};
	bool filtered = q->filter && *q->filter;
	int r = 0;

	for (size_t i = 0; i < l->n_intervals; i++)
		for (size_t k = 0; k < l->intervals[i].n_stacks && r == 0; k++) {
			const struct live_stack *s = l->intervals[i].stacks[k];

			if (q->scope && !live_stack_in_scope(s, q->scope))
				continue;
			if (!filtered || has_text(s, q->filter, shows_functions(q)))
				r = pass(s, &passed, fn, data);
		}
	return r;
}
