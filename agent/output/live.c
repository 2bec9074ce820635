// SPDX-License-Identifier: Apache-2.0
/*
 * An entry is a function, a process, or a cell: a function in a process. Each entry has its sums for the
 * window and since the start. Each interval lists what it added to which entry; when the interval leaves the
 * window, that is subtracted again.
 */
#include "agent/output/live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/output/display_text.h"

#define MAX_DELTAS (1u << 20) /* in all intervals together; beyond that the window gets shorter */

struct live_count {
	uint64_t self, total; /* processes and cells have self only */
};

struct live_entry {
	struct map_node node;
	struct live_count window, ever;
	uint64_t interval; /* number of the latest interval in which it was counted */
	size_t at;	   /* its index in that interval's list */
	uint64_t stack;	   /* number of the latest stack in which it was counted: recursion counts once */
	size_t n_cells;	   /* number of cells that refer to it */
	size_t row;	   /* scratch of output_live_rows: 1 + the row's index */
};

struct live_function {
	struct live_entry entry;
	enum frame_kind kind;
	size_t len; /* of name and module, with their NULs */
	const char *module;
	char name[];
};

struct live_process {
	struct live_entry entry;
	uint32_t pid;
	size_t len; /* of the three texts, with their NULs */
	const char *container, *container_name;
	char comm[];
};

struct live_cell {
	struct live_entry entry;
	struct live_function *function;
	struct live_process *process;
};

struct live_delta {
	struct live_entry *entry; /* valid: entries in the window are not removed */
	struct live_count count;
};

struct live_interval {
	struct live_delta *deltas; /* owned */
	size_t n, cap;
	uint64_t ns, arrived, samples, incomplete;
};

struct output_live {
	uint64_t window_ns;
	struct map functions, processes, cells;
	struct live_function *other_function; /* in no map */
	struct live_process *other_process;
	struct live_interval *intervals; /* oldest first; the last one is the current one */
	size_t n_intervals, cap_intervals, n_deltas;
	uint64_t interval, stack; /* numbers of the current ones */
	struct output_live_sums window, ever;
	struct buf key;
};

/* --- entries: found by their texts, created when missing */

/* Appends a text and its NUL to the key. */
static int key_add(struct output_live *l, const char *s)
{
	int r = s ? output_text_clean(&l->key, s, OUTPUT_LIVE_MAX_NAME) : 0;

	return r < 0 ? r : buf_putc(&l->key, '\0');
}

static bool function_is(const struct map_node *node, const void *key)
{
	const struct live_function *f = container_of(node, struct live_function, entry.node);
	const struct buf *b = key;

	return f->len == b->len && !memcmp(f->name, b->data, b->len);
}

static struct live_function *function_new(const struct buf *key, enum frame_kind kind)
{
	struct live_function *f = calloc(1, sizeof *f + key->len);

	if (!f)
		return NULL;
	memcpy(f->name, key->data, key->len);
	f->len = key->len;
	f->module = f->name + strlen(f->name) + 1;
	f->kind = kind;
	return f;
}

/* Frames without a name share one row per module: single addresses are too many and mean little. */
static void describe(const struct frame *f, char ret[static OUTPUT_LIVE_MAX_NAME])
{
	if (f->kind == FRAME_ENDING)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[truncated]");
	else if (f->module && f->unnamed_start)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "%.*s+0x%" PRIx64, OUTPUT_LIVE_MAX_NAME - 24,
			 f->module->name, f->unnamed_start);
	else if (f->module)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[no name in %s]", f->module->name);
	else
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[code of no file]");
}

/* Functions of a language runtime are in a source file; other code made at run time belongs to no file. */
static const char *module_of(const struct frame *f)
{
	if (f->module)
		return f->module->name;
	return f->runtime && f->n_lines && *f->lines->file ? output_text_file(f->lines->file) : f->runtime;
}

static int function_key(struct output_live *l, const char *name, const char *module)
{
	int r;

	buf_clear(&l->key);
	r = key_add(l, name);
	return r < 0 ? r : key_add(l, module);
}

static struct live_function *live_function_of(struct output_live *l, const struct frame *frame)
{
	bool named = frame->function && *frame->function;
	char unnamed[OUTPUT_LIVE_MAX_NAME];
	struct live_function *f;
	struct map_node *n;
	uint64_t hash;

	if (!named)
		describe(frame, unnamed);
	if (function_key(l, named ? frame->function : unnamed, module_of(frame)) < 0)
		return l->other_function;
	hash = hash_bytes(l->key.data, l->key.len);
	n = map_find(&l->functions, hash, function_is, &l->key);
	if (n)
		return container_of(n, struct live_function, entry.node);
	f = function_new(&l->key, frame->kind);
	if (!f || map_insert(&l->functions, &f->entry.node, hash) < 0) {
		free(f);
		return l->other_function;
	}
	return f;
}

struct process_key {
	uint32_t pid;
	const struct buf *texts;
};

static bool process_is(const struct map_node *node, const void *key)
{
	const struct live_process *p = container_of(node, struct live_process, entry.node);
	const struct process_key *k = key;

	return p->pid == k->pid && p->len == k->texts->len && !memcmp(p->comm, k->texts->data, p->len);
}

static struct live_process *process_new(const struct process_key *k)
{
	struct live_process *p = calloc(1, sizeof *p + k->texts->len);

	if (!p)
		return NULL;
	memcpy(p->comm, k->texts->data, k->texts->len);
	p->len = k->texts->len;
	p->pid = k->pid;
	p->container = p->comm + strlen(p->comm) + 1;
	p->container_name = p->container + strlen(p->container) + 1;
	return p;
}

static int process_key(struct output_live *l, const char *comm, const struct output_stack *s)
{
	int r;

	buf_clear(&l->key);
	r = key_add(l, comm && *comm ? comm : "[unknown]");
	if (r == 0)
		r = key_add(l, s->container);
	return r < 0 ? r : key_add(l, s->container_name);
}

static struct live_process *live_process_of(struct output_live *l, const struct output_stack *s)
{
	const struct process_key key = {s->pid, &l->key};
	struct live_process *p;
	struct map_node *n;
	uint64_t hash;

	if (process_key(l, s->process, s) < 0)
		return l->other_process;
	hash = hash_u64(hash_bytes(l->key.data, l->key.len) ^ s->pid);
	n = map_find(&l->processes, hash, process_is, &key);
	if (n)
		return container_of(n, struct live_process, entry.node);
	p = process_new(&key);
	if (!p || map_insert(&l->processes, &p->entry.node, hash) < 0) {
		free(p);
		return l->other_process;
	}
	return p;
}

static bool cell_is(const struct map_node *node, const void *key)
{
	const struct live_cell *c = container_of(node, struct live_cell, entry.node), *k = key;

	return c->function == k->function && c->process == k->process;
}

static struct live_cell *live_cell_of(struct output_live *l, struct live_process *p, struct live_function *f)
{
	const struct live_cell key = {.function = f, .process = p};
	uint64_t hash = hash_u64((uintptr_t)p ^ hash_u64((uintptr_t)f));
	struct map_node *n = map_find(&l->cells, hash, cell_is, &key);
	struct live_cell *c;

	if (n)
		return container_of(n, struct live_cell, entry.node);
	c = malloc(sizeof *c);
	if (!c)
		return NULL;
	*c = key;
	if (map_insert(&l->cells, &c->entry.node, hash) < 0) {
		free(c);
		return NULL;
	}
	p->entry.n_cells++;
	f->entry.n_cells++;
	return c;
}

static int make_other(struct output_live *l)
{
	const struct process_key key = {0, &l->key};
	int r = function_key(l, "[other]", NULL);

	if (r == 0)
		l->other_function = function_new(&l->key, FRAME_ENDING);
	if (r == 0)
		r = process_key(l, "[other]", &(struct output_stack){0});
	if (r == 0)
		l->other_process = process_new(&key);
	return r < 0 || !l->other_function || !l->other_process ? -ENOMEM : 0;
}

static int live_store_init(struct output_live *l, const struct output_live_options *o)
{
	map_init(&l->functions, o->max_functions ? o->max_functions : OUTPUT_LIVE_MAX_FUNCTIONS);
	map_init(&l->processes, o->max_processes ? o->max_processes : OUTPUT_LIVE_MAX_PROCESSES);
	map_init(&l->cells, o->max_cells ? o->max_cells : OUTPUT_LIVE_MAX_CELLS);
	return make_other(l);
}

static void live_store_fini(struct output_live *l)
{
	struct map_node *n;

	map_for_each (&l->cells, n, i)
		free(container_of(n, struct live_cell, entry.node));
	map_for_each (&l->functions, n, i)
		free(container_of(n, struct live_function, entry.node));
	map_for_each (&l->processes, n, i)
		free(container_of(n, struct live_process, entry.node));
	map_fini(&l->cells);
	map_fini(&l->functions);
	map_fini(&l->processes);
	free(l->other_function);
	free(l->other_process);
	buf_fini(&l->key);
}

/* --- counting: stacks, intervals */

static struct live_interval *current(struct output_live *l)
{
	return &l->intervals[l->n_intervals - 1];
}

static int delta_add(struct output_live *l, struct live_entry *e)
{
	struct live_interval *i = current(l);

	if (array_reserve(&i->deltas, &i->cap, i->n + 1, sizeof *i->deltas) < 0)
		return -ENOMEM;
	e->interval = l->interval;
	e->at = i->n;
	i->deltas[i->n++] = (struct live_delta){.entry = e};
	l->n_deltas++;
	return 0;
}

static void add_to(struct live_count *c, uint64_t self, uint64_t total)
{
	c->self += self;
	c->total += total;
}

static int count(struct output_live *l, struct live_entry *e, uint64_t self, uint64_t total)
{
	if (e->interval != l->interval && delta_add(l, e) < 0)
		return -ENOMEM;
	add_to(&current(l)->deltas[e->at].count, self, total);
	add_to(&e->window, self, total);
	add_to(&e->ever, self, total);
	return 0;
}

static int count_frames(struct output_live *l, const struct output_stack *s, struct live_function **ret_leaf)
{
	static const struct frame none = {.function = "[no frames]", .kind = FRAME_ENDING};
	size_t n = s->n_frames ? s->n_frames : 1;
	int r = 0;

	l->stack++;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct live_function *f = live_function_of(l, s->n_frames ? &s->frames[i] : &none);

		if (i == 0)
			*ret_leaf = f;
		if (f->entry.stack != l->stack)
			r = count(l, &f->entry, i == 0 ? s->count : 0, s->count);
		f->entry.stack = l->stack;
	}
	return r;
}

void output_live_add(struct output_live *l, const struct output_stack *s)
{
	struct live_process *p = live_process_of(l, s);
	struct live_function *leaf = NULL;
	struct live_cell *c;

	if (!s->count)
		return;
	current(l)->samples += s->count;
	current(l)->incomplete += s->complete ? 0 : s->count;
	l->window.samples += s->count;
	l->window.incomplete += s->complete ? 0 : s->count;
	l->ever.samples += s->count;
	l->ever.incomplete += s->complete ? 0 : s->count;
	if (count(l, &p->entry, s->count, s->count) < 0 || count_frames(l, s, &leaf) < 0 ||
	    p == l->other_process || leaf == l->other_function)
		l->ever.merged += s->count;
	c = leaf ? live_cell_of(l, p, leaf) : NULL;
	if (c)
		(void)count(l, &c->entry, s->count, s->count);
}

/* Removes the oldest interval from the window. */
static void forget_interval(struct output_live *l)
{
	struct live_interval *i = &l->intervals[0];

	for (size_t d = 0; d < i->n; d++) {
		struct live_entry *e = i->deltas[d].entry;

		e->window.self -= i->deltas[d].count.self;
		e->window.total -= i->deltas[d].count.total;
	}
	l->n_deltas -= i->n;
	l->window.samples -= i->samples;
	l->window.incomplete -= i->incomplete;
	l->window.duration_ns -= i->ns;
	l->window.arrived -= i->arrived;
	free(i->deltas);
	l->n_intervals--;
	memmove(l->intervals, l->intervals + 1, l->n_intervals * sizeof *l->intervals);
}

/* Begins an interval. Without memory, the current one continues. */
static void begin_interval(struct output_live *l)
{
	if (array_reserve(&l->intervals, &l->cap_intervals, l->n_intervals + 1, sizeof *l->intervals) < 0)
		return;
	l->intervals[l->n_intervals++] = (struct live_interval){0};
	l->interval++;
}

/*
 * Entries are removed in rounds: those that are not in the window and have at most `limit` samples since the
 * start. Then the limit is doubled, until there is room. A cell is removed before its function or process.
 */

static bool is_idle(const struct live_entry *e, uint64_t limit)
{
	return !e->window.total && e->ever.total <= limit;
}

static void sweep_cells(struct output_live *l, uint64_t limit)
{
	struct map_node *n;

	map_for_each (&l->cells, n, i) {
		struct live_cell *c = container_of(n, struct live_cell, entry.node);

		if (c->entry.window.total)
			continue;
		if (!is_idle(&c->entry, limit) && !is_idle(&c->process->entry, limit) &&
		    !is_idle(&c->function->entry, limit))
			continue;
		c->process->entry.n_cells--;
		c->function->entry.n_cells--;
		map_remove(&l->cells, n);
		free(c);
	}
}

/* Removes the idle entries of a map whose elements begin with their struct live_entry. */
static uint64_t sweep(struct map *m, uint64_t limit)
{
	uint64_t forgotten = 0;
	struct map_node *n;

	map_for_each (m, n, i) {
		struct live_entry *e = container_of(n, struct live_entry, node);

		if (!is_idle(e, limit) || e->n_cells)
			continue;
		forgotten += e->ever.self;
		map_remove(m, n);
		free(e);
	}
	return forgotten;
}

_Static_assert(offsetof(struct live_function, entry) == 0 && offsetof(struct live_process, entry) == 0,
	       "sweep frees an element by the address of its entry");

static bool is_full(const struct map *m)
{
	return m->len > m->max - m->max / 8;
}

static bool has_room(const struct map *m)
{
	return m->len <= m->max / 4 * 3;
}

static void live_sweep(struct output_live *l)
{
	if (!is_full(&l->functions) && !is_full(&l->processes) && !is_full(&l->cells))
		return;
	for (uint64_t limit = 1; limit && limit <= l->ever.samples * 2; limit *= 2) {
		sweep_cells(l, limit);
		l->ever.forgotten_functions += sweep(&l->functions, limit);
		l->ever.forgotten_processes += sweep(&l->processes, limit);
		if (has_room(&l->functions) && has_room(&l->processes) && has_room(&l->cells))
			return;
	}
}

void output_live_tick(struct output_live *l, uint64_t interval_ns, uint64_t arrived)
{
	current(l)->ns += interval_ns;
	current(l)->arrived += arrived;
	l->window.arrived += arrived;
	l->ever.arrived += arrived;
	l->window.duration_ns += interval_ns;
	l->ever.duration_ns += interval_ns;
	/* intervals have varying lengths */
	while (l->n_intervals > 1 &&
	       (l->n_deltas > MAX_DELTAS ||
		l->window.duration_ns - l->intervals[0].ns + interval_ns / 2 >= l->window_ns))
		forget_interval(l);
	live_sweep(l);
	begin_interval(l);
}

/* Processes that ran in the window, or all that are known. */
static size_t count_processes(const struct output_live *l, bool since_start)
{
	struct map_node *node;
	size_t n = 0;

	map_for_each (&l->processes, node, i) {
		const struct live_entry *e = container_of(node, struct live_entry, node);

		n += since_start || e->window.self > 0;
	}
	return n;
}

void output_live_sums(const struct output_live *l, bool since_start, struct output_live_sums *ret)
{
	*ret = l->ever;
	if (!since_start) {
		ret->samples = l->window.samples;
		ret->incomplete = l->window.incomplete;
		ret->duration_ns = l->window.duration_ns;
		ret->arrived = l->window.arrived;
	}
	ret->n_processes = count_processes(l, since_start);
}

/* --- rows: entries as a sorted table */

struct rows {
	struct output_live *l;
	const struct output_live_query *q;
	struct output_live_row *v; /* owned */
	size_t n, cap;
};

static const struct live_count *sums(const struct rows *r, const struct live_entry *e)
{
	return r->q->since_start ? &e->ever : &e->window;
}

static int row_new(struct rows *r, struct live_entry *e, struct output_live_row **ret)
{
	const struct live_count *c = sums(r, e);

	if (array_reserve(&r->v, &r->cap, r->n + 1, sizeof *r->v) < 0)
		return -ENOMEM;
	*ret = &r->v[r->n++];
	**ret = (struct output_live_row){.name = "",
					 .module = "",
					 .container = "",
					 .container_name = "",
					 .top = "",
					 .self = c->self,
					 .total = c->total};
	e->row = r->n;
	return 0;
}

static int function_row(struct rows *r, struct live_function *f)
{
	struct output_live_row *row;

	f->entry.row = 0;
	if (!sums(r, &f->entry)->total)
		return 0;
	if (row_new(r, &f->entry, &row) < 0)
		return -ENOMEM;
	row->name = f->name;
	row->module = f->module;
	row->kind = f->kind;
	return 0;
}

static int functions(struct rows *r)
{
	struct map_node *n;

	map_for_each (&r->l->functions, n, i)
		if (function_row(r, container_of(n, struct live_function, entry.node)) < 0)
			return -ENOMEM;
	if (function_row(r, r->l->other_function) < 0)
		return -ENOMEM;
	map_for_each (&r->l->cells, n, i) {
		const struct live_cell *c = container_of(n, struct live_cell, entry.node);
		uint64_t self = sums(r, &c->entry)->self;
		struct output_live_row *row;

		if (!self || !c->function->entry.row)
			continue;
		row = &r->v[c->function->entry.row - 1];
		row->elsewhere |= row->most && strcmp(row->container, c->process->container) != 0;
		if (self <= row->most)
			continue;
		row->most = self;
		row->container = c->process->container;
		row->container_name = c->process->container_name;
	}
	return 0;
}

static int process_row(struct rows *r, struct live_process *p)
{
	struct output_live_row *row;

	p->entry.row = 0;
	if (!sums(r, &p->entry)->self)
		return 0;
	if (row_new(r, &p->entry, &row) < 0)
		return -ENOMEM;
	row->name = p->comm;
	row->container = p->container;
	row->container_name = p->container_name;
	row->pid = p->pid;
	row->n_processes = 1;
	return 0;
}

static int processes(struct rows *r)
{
	struct map_node *n;

	map_for_each (&r->l->processes, n, i)
		if (process_row(r, container_of(n, struct live_process, entry.node)) < 0)
			return -ENOMEM;
	return process_row(r, r->l->other_process);
}

static int by_container(const void *a, const void *b)
{
	const struct live_process *x = *(const struct live_process *const *)a,
				  *y = *(const struct live_process *const *)b;

	return strcmp(x->container, y->container);
}

/* One row for each run of processes with the same container. */
static int merge_processes(struct rows *r, struct live_process **v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct output_live_row *row;

		if (i && strcmp(v[i]->container, v[i - 1]->container) == 0) {
			row = &r->v[r->n - 1];
			v[i]->entry.row = r->n;
			row->self += sums(r, &v[i]->entry)->self;
			row->total += sums(r, &v[i]->entry)->self;
		} else {
			if (row_new(r, &v[i]->entry, &row) < 0)
				return -ENOMEM;
			row->container = v[i]->container;
		}
		if (v[i]->container_name[0])
			row->container_name = v[i]->container_name;
		row->n_processes++;
	}
	return 0;
}

static int containers(struct rows *r)
{
	_cleanup_free_ struct live_process **v = calloc(r->l->processes.len + 1, sizeof *v);
	struct map_node *node;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	map_for_each (&r->l->processes, node, i) {
		struct live_process *p = container_of(node, struct live_process, entry.node);

		p->entry.row = 0;
		if (sums(r, &p->entry)->self)
			v[n++] = p;
	}
	r->l->other_process->entry.row = 0;
	if (sums(r, &r->l->other_process->entry)->self)
		v[n++] = r->l->other_process;
	qsort(v, n, sizeof(struct live_process *), by_container);
	return merge_processes(r, v, n);
}

/* The samples of one function in one row of processes. */
struct part {
	size_t row;
	const struct live_function *function;
	uint64_t self;
};

static int by_row_and_function(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->function > y->function) - (x->function < y->function);
}

/* Finds the function with most samples for each row of processes. */
static int find_tops(struct rows *r)
{
	_cleanup_free_ struct part *v = calloc(r->l->cells.len + 1, sizeof *v);
	struct map_node *node;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	map_for_each (&r->l->cells, node, i) {
		const struct live_cell *c = container_of(node, struct live_cell, entry.node);
		uint64_t self = sums(r, &c->entry)->self;

		if (self && c->process->entry.row)
			v[n++] = (struct part){c->process->entry.row, c->function, self};
	}
	qsort(v, n, sizeof *v, by_row_and_function);
	for (size_t i = 0, next; i < n; i = next) {
		struct output_live_row *row = &r->v[v[i].row - 1];
		uint64_t self = 0;

		for (next = i; next < n && by_row_and_function(&v[i], &v[next]) == 0; next++)
			self += v[next].self;
		if (self <= row->top_self)
			continue;
		row->top_self = self;
		row->top = v[i].function->name;
		row->kind = v[i].function->kind;
	}
	return 0;
}

static bool wanted(const struct output_live_row *row, const char *filter)
{
	char pid[16];

	if (!filter || !*filter)
		return true;
	snprintf(pid, sizeof pid, "%u", row->pid);
	return strcasestr(row->name, filter) || strcasestr(row->module, filter) ||
	       strcasestr(row->container, filter) || strcasestr(row->container_name, filter) ||
	       strcasestr(row->top, filter) || (row->pid && strcmp(pid, filter) == 0);
}

static int by_most(const void *a, const void *b, void *by_total)
{
	const struct output_live_row *x = a, *y = b;
	bool total = *(const bool *)by_total;
	uint64_t first = total ? x->total : x->self, second = total ? y->total : y->self;

	if (first == second) {
		first = total ? x->self : x->total;
		second = total ? y->self : y->total;
	}
	if (first != second)
		return first < second ? 1 : -1;
	/* a fixed order, so that equal rows keep their places */
	return strcmp(x->name, y->name) ?: strcmp(x->module, y->module) ?: strcmp(x->container, y->container)
	       ?: (x->pid > y->pid) - (x->pid < y->pid);
}

int output_live_rows(struct output_live *l, const struct output_live_query *q, struct output_live_rows *ret)
{
	struct rows r = {.l = l, .q = q};
	bool by_total = q->by_total && q->view == OUTPUT_LIVE_FUNCTIONS;
	size_t n = 0;
	int e;

	*ret = (struct output_live_rows){0};
	e = q->view == OUTPUT_LIVE_FUNCTIONS   ? functions(&r)
	    : q->view == OUTPUT_LIVE_PROCESSES ? processes(&r)
					       : containers(&r);
	if (e == 0 && q->view != OUTPUT_LIVE_FUNCTIONS)
		e = find_tops(&r);
	if (e < 0) {
		free(r.v);
		return e;
	}
	for (size_t i = 0; i < r.n; i++)
		if (wanted(&r.v[i], q->filter))
			r.v[n++] = r.v[i];
	if (n)
		qsort_r(r.v, n, sizeof *r.v, by_most, &by_total);
	*ret = (struct output_live_rows){r.v, n};
	return 0;
}

void output_live_rows_fini(struct output_live_rows *r)
{
	free(r->rows);
	*r = (struct output_live_rows){0};
}

/* --- */

int output_live_new(struct output_live **ret, const struct output_live_options *options)
{
	struct output_live *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return -ENOMEM;
	l->window_ns = options->window_ns;
	r = live_store_init(l, options);
	begin_interval(l);
	if (r < 0 || !l->n_intervals) {
		output_live_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void output_live_free(struct output_live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_intervals; i++)
		free(l->intervals[i].deltas);
	free(l->intervals);
	live_store_fini(l);
	free(l);
}
