// SPDX-License-Identifier: Apache-2.0
/*
 * A stack is inserted root first: from the root of its group, one tree node per location, made if it does not
 * exist. Whether the new nodes fit the budget is decided before the first is made, so that a refused stack
 * adds only its count to the [other] node of the group, which always exists.
 */
#include "agent/output/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/memo.h"
#include "agent/output/profile_private.h"
#include "agent/output/display_text.h"

#define MAX_GROUPS 65536
#define FOLD_KEPT 1024u /* processes and threads with trees of their own: those with the most samples */

struct group_key {
	uint32_t process, thread, container, container_name, pid, after;
};

static void info_fini(struct output_info *info)
{
	free((char *)info->hostname);
	free((char *)info->command);
	free((char *)info->version);
}

static int copy_text(const char *s, const char **ret)
{
	_cleanup_buf_ struct buf b = {0};
	int r;

	if (!s)
		return 0;
	r = output_text_clean(&b, s, OUTPUT_MAX_NAME);
	if (r < 0)
		return r;
	*ret = strdup(buf_str(&b));
	return *ret ? 0 : -ENOMEM;
}

int output_profile_set_info(struct output_profile *p, const struct output_info *info)
{
	_cleanup_(info_fini) struct output_info copy = *info, old = p->info;
	int r;

	copy.hostname = copy.command = copy.version = NULL;
	copy.max_nodes = p->info.max_nodes;
	copy.max_string_bytes = p->info.max_string_bytes;
	r = copy_text(info->hostname, &copy.hostname);
	if (r == 0)
		r = copy_text(info->command, &copy.command);
	if (r == 0)
		r = copy_text(info->version, &copy.version);
	if (r < 0) {
		old = (struct output_info){0}; /* the old info stays in use */
		return r;
	}
	p->info = copy;
	copy = (struct output_info){0};
	return 0;
}

const struct output_info *output_profile_info(const struct output_profile *p)
{
	return &p->info;
}

void output_profile_set_frequency(struct output_profile *p, uint32_t frequency_hz)
{
	p->info.frequency_hz = frequency_hz;
}

uint32_t output_profile_frequency(const struct output_profile *p)
{
	return p->info.frequency_hz;
}

static bool group_is(const struct map_node *node, const void *key)
{
	const struct output_group *g = container_of(node, struct output_group, entry.node);
	const struct group_key *k = key;

	return g->process == k->process && g->thread == k->thread && g->container == k->container &&
	       g->container_name == k->container_name && g->pid == k->pid && g->after == k->after;
}

/* Finds or makes the group with this key. */
static int find_group(struct output_profile *p, const struct group_key *key, struct output_group **ret)
{
	_cleanup_free_ struct output_group *new = NULL;
	uint64_t hash = hash_bytes(key, sizeof *key);
	struct output_entry *e = output_table_find(&p->groups, hash, group_is, key);
	int r;

	if (!e) {
		new = calloc(1, sizeof *new);
		if (!new)
			return -ENOMEM;
		new->process = key->process;
		new->thread = key->thread;
		new->container = key->container;
		new->container_name = key->container_name;
		new->pid = key->pid;
		new->after = key->after;
		new->other.location = p->other_location;
		new->other.parent = &new->root;
		new->root.child = &new->other;
		r = output_table_add(&p->groups, &new->entry, hash);
		if (r < 0)
			return r;
		e = &TAKE_PTR(new)->entry;
	}
	*ret = container_of(e, struct output_group, entry);
	return 0;
}

static int intern_group(struct output_profile *p, const struct output_stack *s, struct output_group **ret)
{
	struct group_key key = {.pid = s->pid, .after = s->after};
	int r;

	r = output_intern_string(p, s->process && *s->process ? s->process : "[unknown]", &key.process);
	if (r == 0)
		r = output_intern_string(p, s->thread, &key.thread);
	if (r == 0)
		r = output_intern_string(p, s->container, &key.container);
	if (r == 0)
		r = output_intern_string(p, s->container_name, &key.container_name);
	return r < 0 ? r : find_group(p, &key, ret);
}

struct node_key {
	const struct output_node *parent;
	uint32_t location;
};

static bool node_is(const struct map_node *node, const void *key)
{
	const struct output_node *n = container_of(node, struct output_node, node);
	const struct node_key *k = key;

	return n->parent == k->parent && n->location == k->location;
}

static uint64_t node_hash(const struct node_key *k)
{
	return hash_u64((uintptr_t)k->parent ^ (uint64_t)k->location << 40 ^ k->location);
}

static struct output_node *find_node(const struct output_profile *p, const struct node_key *key)
{
	struct map_node *n = map_find(&p->nodes, node_hash(key), node_is, key);

	return n ? container_of(n, struct output_node, node) : NULL;
}

static int make_node(struct output_profile *p, struct output_node *parent, uint32_t location,
		     struct output_node **ret)
{
	struct output_node *n = calloc(1, sizeof *n);
	int r;

	if (!n)
		return -ENOMEM;
	r = map_insert(&p->nodes, &n->node, node_hash(&(struct node_key){parent, location}));
	if (r < 0) {
		free(n);
		return r;
	}
	n->location = location;
	n->parent = parent;
	n->sibling = parent->child;
	parent->child = n;
	*ret = n;
	return 0;
}

/* Finds or makes the node of the stack `locations` (leaf first) below `root`. 0, -ENOSPC, -ENOMEM. */
static int reach_leaf(struct output_profile *p, struct output_node *root, const uint32_t *locations, size_t n,
		      struct output_node **ret)
{
	struct output_node *node = root, *next = NULL;
	int r;

	while (n && (next = find_node(p, &(struct node_key){node, locations[n - 1]}))) {
		node = next;
		n--;
	}
	if (n > p->info.max_nodes - p->nodes.len)
		return -ENOSPC;
	for (; n; n--) {
		r = make_node(p, node, locations[n - 1], &node);
		if (r < 0)
			return r;
	}
	*ret = node;
	return 0;
}

static void add_samples(struct output_profile *p, struct output_node *node, const struct output_stack *s)
{
	node->self += s->count;
	if (s->times)
		output_times_add(p, node, s->times, s->count);
}

static int add_stack(struct output_profile *p, struct output_group *g, const struct output_stack *s)
{
	struct output_node *leaf = NULL;
	size_t n = s->n_frames;
	int r = 0;

	if (n > OUTPUT_MAX_DEPTH)
		return -ENOSPC;
	for (size_t i = 0; i < n && r == 0; i++)
		r = output_intern_frame(p, &s->frames[i], &p->locations_of_stack[i]);
	if (!n)
		p->locations_of_stack[n++] = p->empty_location;
	if (r == 0)
		r = reach_leaf(p, &g->root, p->locations_of_stack, n, &leaf);
	if (r < 0)
		return r;
	add_samples(p, leaf, s);
	return 0;
}

/* --- folding: small processes of one name become one group */

/* Removes `n` from the children of its parent. */
static void unlink_node(struct output_node *n)
{
	struct output_node **at = &n->parent->child;

	while (*at != n)
		at = &(*at)->sibling;
	*at = n->sibling;
}

/*
 * Moves a node, which has been removed from the map, with all nodes below it. Cannot fail: the removal made
 * room in the map.
 */
static void move_node(struct output_profile *p, struct output_node *n, struct output_node *to)
{
	n->parent = to;
	n->sibling = to->child;
	to->child = n;
	(void)map_insert(&p->nodes, &n->node, node_hash(&(struct node_key){to, n->location}));
}

/*
 * Moves all nodes below `from` to `to`, and adds up equal ones. The nodes below a moved node need no
 * comparison; those below added up nodes do.
 */
static void join_trees(struct output_profile *p, struct output_node *to, struct output_node *from)
{
	struct output_node *at = from;

	for (;;) {
		struct output_node *n = at->child, *same;

		if (n) {
			at->child = n->sibling;
			map_remove(&p->nodes, &n->node);
			same = find_node(p, &(struct node_key){to, n->location});
			if (same) {
				same->self += n->self;
				output_times_move(p, same, n);
				at = n;
				to = same;
			} else {
				move_node(p, n, to);
			}
		} else if (at == from) {
			return;
		} else {
			n = at;
			at = at->parent;
			to = to->parent;
			free(n);
		}
	}
}

/* Adds the samples of a group to the group of several processes. False: there is no memory. */
static bool fold_group(struct output_profile *p, struct output_group *g, struct memo *pids)
{
	const struct group_key key = {g->process, g->thread, g->container, g->container_name, 0, g->after};
	struct output_group *to;
	int32_t seen;

	if (find_group(p, &key, &to) < 0)
		return false;
	unlink_node(&g->other);
	to->other.self += g->other.self;
	output_times_move(p, &to->other, &g->other);
	join_trees(p, &to->root, &g->root);
	to->n_samples += g->n_samples;
	to->n_complete += g->n_complete;
	if (!memo_get(pids, g->pid, &seen)) { /* later groups with this pid are further threads */
		memo_put(pids, g->pid, 1);
		to->n_folded++;
	}
	return true;
}

static int by_samples(const void *a, const void *b)
{
	const struct output_group *x = *(struct output_group *const *)a,
				  *y = *(struct output_group *const *)b;

	return x->n_samples == y->n_samples ? (x->entry.id > y->entry.id) - (x->entry.id < y->entry.id)
					    : (x->n_samples < y->n_samples) - (x->n_samples > y->n_samples);
}

/* Frees these groups, which are empty, and renumbers the others without gaps. */
static void remove_groups(struct output_profile *p, struct output_group *const *gone, size_t n)
{
	struct output_table *t = &p->groups;
	uint32_t len = output_table_len(t), kept = 0;

	for (size_t i = 0; i < n; i++) {
		t->entries[gone[i]->entry.id] = NULL;
		map_remove(&t->map, &gone[i]->entry.node);
		free(gone[i]);
	}
	for (uint32_t id = 1; id <= len; id++)
		if (t->entries[id]) {
			t->entries[++kept] = t->entries[id];
			t->entries[kept]->id = kept;
		}
}

/* Folds processes with few samples. Does nothing without memory. */
static void fold(struct output_profile *p)
{
	uint32_t len = output_table_len(&p->groups);
	_cleanup_free_ struct output_group **groups = calloc(len, sizeof *groups);
	_cleanup_(memo_fini) struct memo pids = {0};
	size_t n = 0, n_gone = 0;

	for (uint32_t id = 1; groups && id <= len; id++) {
		struct output_group *g = container_of(p->groups.entries[id], struct output_group, entry);

		if (g->pid)
			groups[n++] = g;
	}
	if (n > FOLD_KEPT) {
		qsort(groups, n, sizeof(struct output_group *), by_samples);
		for (size_t i = FOLD_KEPT; i < n; i++)
			if (fold_group(p, groups[i], &pids))
				groups[n_gone++] = groups[i];
		remove_groups(p, groups, n_gone);
	}
	/* the remaining nodes may be more than half: fold again when half of the free ones are used */
	if (p->nodes.len > p->info.max_nodes / 4)
		p->fold_nodes = p->nodes.len + (p->info.max_nodes - p->nodes.len) / 2;
	len = output_table_len(&p->groups);
	if (len > MAX_GROUPS / 4)
		p->fold_groups = len + (MAX_GROUPS - len) / 2;
}

int output_profile_add(struct output_profile *p, const struct output_stack *s)
{
	struct output_group *g = NULL;
	int r;

	if (p->nodes.len >= p->fold_nodes || output_table_len(&p->groups) >= p->fold_groups)
		fold(p);
	r = intern_group(p, s, &g);
	if (r == 0)
		r = add_stack(p, g, s);
	else
		g = p->other_group;
	if (r < 0) {
		add_samples(p, &g->other, s);
		p->n_merged += s->count;
	}
	g->n_samples += s->count;
	p->n_samples += s->count;
	if (s->complete) {
		g->n_complete += s->count;
		p->n_complete += s->count;
	}
	return r;
}

static int add_fixed(struct output_profile *p)
{
	const struct frame other = {.function = "[other]", .kind = FRAME_ENDING};
	const struct frame empty = {.function = "[no frames]", .kind = FRAME_ENDING};
	const struct output_stack s = {.process = "[other]"};
	int r;

	r = output_intern_frame(p, &other, &p->other_location);
	if (r == 0)
		r = output_intern_frame(p, &empty, &p->empty_location);
	if (r == 0)
		r = intern_group(p, &s, &p->other_group);
	return r;
}

int output_profile_new(struct output_profile **ret, const struct output_info *info)
{
	_cleanup_output_profile_ struct output_profile *p = calloc(1, sizeof *p);
	size_t max = info->max_nodes ? info->max_nodes : OUTPUT_MAX_NODES;
	int r;

	if (!p)
		return -ENOMEM;
	p->info.max_nodes = max;
	p->info.max_string_bytes = info->max_string_bytes ?: OUTPUT_MAX_STRING_BYTES;
	p->fold_nodes = max / 2;
	p->fold_groups = MAX_GROUPS / 2;
	map_init(&p->nodes, max);
	output_times_init(&p->times, max + MAX_GROUPS);
	output_table_init(&p->strings, max + MAX_GROUPS);
	output_table_init(&p->modules, max);
	/* refused stacks still add their functions; leave room for those of later stacks */
	output_table_init(&p->functions, 2 * max + 16);
	output_table_init(&p->locations, 2 * max + 16);
	output_table_init(&p->groups, MAX_GROUPS);
	p->locations_of_stack = calloc(OUTPUT_MAX_DEPTH, sizeof *p->locations_of_stack);
	if (!p->locations_of_stack)
		return -ENOMEM;
	r = output_profile_set_info(p, info);
	if (r == 0)
		r = add_fixed(p);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

void output_profile_free(struct output_profile *p)
{
	struct map_node *n;

	if (!p)
		return;
	map_for_each (&p->nodes, n, i)
		free(container_of(n, struct output_node, node));
	map_fini(&p->nodes);
	output_times_fini(&p->times);
	output_table_fini(&p->groups);
	output_table_fini(&p->locations);
	output_table_fini(&p->functions);
	output_table_fini(&p->modules);
	output_table_fini(&p->strings);
	buf_fini(&p->scratch);
	info_fini(&p->info);
	free(p->locations_of_stack);
	free(p);
}

uint64_t output_profile_samples(const struct output_profile *p)
{
	return p->n_samples;
}

uint64_t output_profile_timed(const struct output_profile *p)
{
	return p->times.n_samples;
}

uint64_t output_profile_merged(const struct output_profile *p)
{
	return p->n_merged;
}
