// SPDX-License-Identifier: Apache-2.0
/*
 * The profile is a tree: functions, their lines, and in lines the functions that were inlined there. A line
 * of source is several instructions, which all run equally often, so its count is that of the instruction
 * with most samples, not their sum.
 */
#include "agent/compiler/autofdo.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/compiler/samples.h"
#include "agent/symbol/dwarf.h"

#define NODES_MAX (8u << 20)
#define ENTRY_BYTES 16u	    /* the first instructions of a function, which run once for each call */
#define OFFSET_MASK 0xffffu /* of lines, as LLVM compares them */

struct place {
	uint32_t offset, discriminator; /* line in the function around it; 0 in the outermost function */
};

struct node {
	struct map_node node;
	struct node *parent, *child, *sibling; /* parent NULL: the root */
	size_t n_children;
	struct place at;
	uint64_t count, total; /* of a line; and of all below it */
	uint64_t entries;      /* of a function: of its first instructions */
	const char *function;  /* in the same block; "": a line */
};

struct profile {
	const struct compiler_address *v;
	uint64_t n_found; /* samples */
	struct map nodes; /* entries owned */
	struct node root;
	FILE *f;
};

static void profile_fini(struct profile *p)
{
	struct map_node *n;

	map_for_each (&p->nodes, n, it)
		free(container_of(n, struct node, node));
	map_fini(&p->nodes);
}

/* --- the tree */

struct node_key {
	const struct node *parent;
	struct place at;
	const char *function;
	size_t len;
};

static bool node_is(const struct map_node *node, const void *key)
{
	const struct node *n = container_of(node, struct node, node);
	const struct node_key *k = key;

	return n->parent == k->parent && n->at.offset == k->at.offset &&
	       n->at.discriminator == k->at.discriminator && strlen(n->function) == k->len &&
	       memcmp(n->function, k->function, k->len) == 0;
}

/* Finds or adds a node. NULL: no memory, or no room. */
static struct node *node_of(struct profile *p, struct node *parent, struct place at, const char *function,
			    size_t len)
{
	const struct node_key key = {parent, at, function, len};
	const uint64_t hash =
		hash_u64((uintptr_t)parent ^ hash_u64(hash_bytes(function, len) ^
						      ((uint64_t)at.offset << 32 | at.discriminator)));
	struct map_node *found = map_find(&p->nodes, hash, node_is, &key);
	struct node *n;

	if (found)
		return container_of(found, struct node, node);
	n = calloc(1, sizeof *n + len + 1);
	if (!n || map_insert(&p->nodes, &n->node, hash) < 0) {
		free(n);
		return NULL;
	}
	memcpy(n + 1, function, len);
	n->function = (const char *)(n + 1);
	n->parent = parent;
	n->at = at;
	n->sibling = parent->child;
	parent->child = n;
	parent->n_children++;
	return n;
}

/*
 * The part of a discriminator that tells blocks of one line apart: clang encodes it together with factors of
 * duplication (LLVM sources: DILocation::getBaseDiscriminatorFromDiscriminator).
 */
static uint32_t base_discriminator(uint32_t encoded)
{
	uint32_t value = encoded >> 1;

	if (encoded & 1)
		return 0;
	return value & 0x20 ? (value >> 1 & 0xfe0) | (value & 0x1f) : value & 0x1f;
}

static struct place place_in(const struct symbol_dwarf_call *c)
{
	return (struct place){(c->line - c->start_line) & OFFSET_MASK, base_discriminator(c->discriminator)};
}

/*
 * Without what a compiler adds to names of functions that it has made global, which the next build may not
 * add.
 */
static size_t name_len(const char *function)
{
	const char *suffix = strstr(function, ".llvm.");

	return suffix ? (size_t)(suffix - function) : strlen(function);
}

/* Calls without a line or a first line cannot be found again by the compiler. */
static bool is_known(const struct symbol_dwarf_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!calls[i].line || !calls[i].start_line || calls[i].function[0] == '[')
			return false;
	return true;
}

static int visit(size_t i, const struct symbol_dwarf_call *calls, size_t n, void *data)
{
	struct profile *p = data;
	struct node *node = &p->root;
	struct place at = {0};

	if (!is_known(calls, n))
		return 0;
	for (size_t k = n; k-- > 0 && node;) {
		node = node_of(p, node, at, calls[k].function, name_len(calls[k].function));
		if (node && calls[k].entry && p->v[i].va - calls[k].entry < ENTRY_BYTES)
			node->entries = p->v[i].n > node->entries ? p->v[i].n : node->entries;
		at = place_in(&calls[k]);
	}
	if (node)
		node = node_of(p, node, at, "", 0);
	if (!node)
		return -ENOMEM;
	node->count = p->v[i].n > node->count ? p->v[i].n : node->count;
	p->n_found += p->v[i].n;
	return 0;
}

/* --- the text */

static int compare(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

	if (!x->parent->parent) /* functions: those with most samples first */
		return x->total != y->total ? (x->total < y->total ? 1 : -1)
					    : strcmp(x->function, y->function);
	if (x->at.offset != y->at.offset)
		return x->at.offset < y->at.offset ? -1 : 1;
	if (x->at.discriminator != y->at.discriminator)
		return x->at.discriminator < y->at.discriminator ? -1 : 1;
	return strcmp(x->function, y->function);
}

/* Sums up. As deep as calls were inlined. */
static uint64_t add_up(struct node *n)
{
	n->total = n->count;
	for (struct node *c = n->child; c; c = c->sibling)
		n->total += add_up(c);
	return n->total;
}

/* Sorts the children, and theirs. 0 or -ENOMEM. */
static int sort(struct node *n)
{
	_cleanup_free_ struct node **v = calloc(n->n_children + 1, sizeof(struct node *));
	size_t i = 0;
	int r = 0;

	if (!v)
		return -ENOMEM;
	for (struct node *c = n->child; c; c = c->sibling)
		v[i++] = c;
	qsort(v, i, sizeof(struct node *), compare);
	n->child = NULL;
	while (i-- > 0) {
		v[i]->sibling = n->child;
		n->child = v[i];
	}
	for (struct node *c = n->child; c && r == 0; c = c->sibling)
		r = c->child ? sort(c) : 0;
	return r;
}

static void put_node(const struct profile *p, const struct node *n, unsigned depth)
{
	if (depth == 0) {
		fprintf(p->f, "%s:%" PRIu64 ":%" PRIu64 "\n", n->function, n->total, n->entries);
	} else {
		fprintf(p->f, "%*s%" PRIu32, (int)depth, "", n->at.offset);
		if (n->at.discriminator)
			fprintf(p->f, ".%" PRIu32, n->at.discriminator);
		fprintf(p->f, ": %s%s%" PRIu64 "\n", n->function, n->function[0] ? ":" : "", n->total);
	}
	for (const struct node *c = n->child; c; c = c->sibling)
		put_node(p, c, depth + 1);
}

int compiler_autofdo_write(struct compiler_samples *s, uint64_t *ret_left, FILE *f)
{
	_cleanup_(profile_fini) struct profile p = {.f = f};
	_cleanup_free_ uint64_t *addrs = NULL;
	size_t n;
	int r = compiler_samples_get(s, &p.v, &n);

	map_init(&p.nodes, NODES_MAX);
	*ret_left = 0;
	if (r == 0 && !(addrs = calloc(n + 1, sizeof *addrs)))
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		addrs[i] = p.v[i].va;
	if (r == 0)
		r = symbol_dwarf_calls(compiler_samples_fd(s), addrs, n, visit, &p);
	if (r < 0)
		return r;
	*ret_left = compiler_samples_own(s) - p.n_found;
	add_up(&p.root);
	r = sort(&p.root);
	for (const struct node *function = p.root.child; function && r == 0; function = function->sibling)
		put_node(&p, function, 0);
	if (r == 0 && (fflush(f) != 0 || ferror(f)))
		r = -EIO;
	return r;
}
