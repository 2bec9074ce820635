// SPDX-License-Identifier: Apache-2.0
#include "agent/binary/quarantine.h"

#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/tenant.h"

#define STRIKES_FREE 2u			 /* without a pause: one broken file is no attack */
#define PAUSE_NS (NS_PER_SEC / 4)	 /* after the next; doubles */
#define STRIKES_MAX 10u			 /* that count: a pause of 32 s */
#define STRIKE_LIFE_NS (60 * NS_PER_SEC) /* in which a tenant loses one strike */

struct quarantined_tenant {
	struct tenant_share share; /* its references are entries */
	unsigned strikes;
	uint64_t struck_ns; /* the last strike, or since when the strikes are as many as now */
	uint64_t held_until_ns;
};

struct quarantine_entry {
	struct map_node node;
	struct quarantine_entry *older, *newer;
	struct quarantine_file file;
	unsigned uses;
	struct quarantined_tenant *tenant; /* NULL: nobody's */
};

const char *binary_use_text(enum binary_use use)
{
	switch (use) {
	case BINARY_FOR_TABLE:
		return "its unwind table";
	case BINARY_FOR_RULES:
		return "its unwind rules";
	case BINARY_FOR_NAMES:
		return "its names";
	}
	return "";
}

void quarantine_init(struct quarantine *q)
{
	*q = (struct quarantine){.oldest = NULL};
	map_init(&q->files, QUARANTINE_MAX);
	map_init(&q->tenants, QUARANTINE_MAX);
}

/* Its strikes are forgotten with the last of its files. */
static void tenant_put(struct quarantine *q, struct quarantined_tenant *t)
{
	if (!t || --t->share.refs)
		return;
	tenant_share_remove(&q->tenants, &t->share);
	free(t);
}

static void entry_free(struct quarantine *q, struct quarantine_entry *e)
{
	*(e->older ? &e->older->newer : &q->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &q->newest) = e->older;
	map_remove(&q->files, &e->node);
	tenant_put(q, e->tenant);
	free(e);
}

void quarantine_fini(struct quarantine *q)
{
	while (q->oldest)
		entry_free(q, q->oldest);
	map_fini(&q->files);
	map_fini(&q->tenants);
}

static uint64_t file_hash(const struct quarantine_file *f)
{
	return hash_u64(f->inode ^ hash_u64(f->dev ^ hash_u64((uint64_t)f->ctime.tv_sec))) ^
	       hash_u64((uint64_t)f->ctime.tv_nsec);
}

static bool file_is(const struct map_node *node, const void *key)
{
	const struct quarantine_file *a = &container_of(node, struct quarantine_entry, node)->file, *b = key;

	return a->dev == b->dev && a->inode == b->inode && a->ctime.tv_sec == b->ctime.tv_sec &&
	       a->ctime.tv_nsec == b->ctime.tv_nsec;
}

static struct quarantine_entry *entry_find(const struct quarantine *q, const struct quarantine_file *file)
{
	struct map_node *n = map_find(&q->files, file_hash(file), file_is, file);

	return n ? container_of(n, struct quarantine_entry, node) : NULL;
}

static struct quarantined_tenant *tenant_find(const struct quarantine *q, uint64_t tenant)
{
	struct tenant_share *s = tenant ? tenant_share_find(&q->tenants, tenant) : NULL;

	return s ? container_of(s, struct quarantined_tenant, share) : NULL;
}

/* One reference on what it returns. NULL: tenant 0, or no memory. */
static struct quarantined_tenant *tenant_get(struct quarantine *q, uint64_t tenant)
{
	struct quarantined_tenant *t = tenant_find(q, tenant);

	if (!t && tenant && (t = calloc(1, sizeof *t)) &&
	    tenant_share_add(&q->tenants, &t->share, tenant) < 0)
		free(TAKE_PTR(t));
	if (t)
		t->share.refs++;
	return t;
}

/* Room for one more: the oldest goes, of that tenant if it has its share. */
static void make_room(struct quarantine *q, const struct quarantined_tenant *t)
{
	bool own = t && t->share.refs >= QUARANTINE_OF_A_TENANT;
	struct quarantine_entry *e = own || q->files.len >= QUARANTINE_MAX ? q->oldest : NULL;

	while (e && own && e->tenant != t)
		e = e->newer;
	if (e)
		entry_free(q, e);
}

static struct quarantine_entry *entry_new(struct quarantine *q, const struct quarantine_file *file,
					  uint64_t tenant)
{
	struct quarantine_entry *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->file = *file;
	make_room(q, tenant_find(q, tenant));
	e->tenant = tenant_get(q, tenant);
	if (map_insert(&q->files, &e->node, file_hash(file)) < 0) {
		tenant_put(q, e->tenant);
		free(e);
		return NULL;
	}
	e->older = q->newest;
	*(q->newest ? &q->newest->newer : &q->oldest) = e;
	q->newest = e;
	return e;
}

static void strike(struct quarantined_tenant *t, uint64_t now_ns)
{
	uint64_t forgiven = now_ns > t->struck_ns ? (now_ns - t->struck_ns) / STRIKE_LIFE_NS : 0;

	t->strikes -= forgiven < t->strikes ? (unsigned)forgiven : t->strikes;
	t->strikes += t->strikes < STRIKES_MAX;
	t->struck_ns = now_ns;
	if (t->strikes > STRIKES_FREE)
		t->held_until_ns = now_ns + (PAUSE_NS << (t->strikes - STRIKES_FREE - 1));
}

void quarantine_add(struct quarantine *q, const struct quarantine_file *file, enum binary_use use,
		    uint64_t tenant, uint64_t now_ns)
{
	struct quarantine_entry *e = entry_find(q, file);

	if (!e && (e = entry_new(q, file, tenant)) && e->tenant)
		strike(e->tenant, now_ns);
	if (e)
		e->uses |= use;
}

unsigned quarantine_find(const struct quarantine *q, const struct quarantine_file *file)
{
	const struct quarantine_entry *e = entry_find(q, file);

	return e ? e->uses : 0;
}

uint64_t quarantine_held_until_ns(const struct quarantine *q, uint64_t tenant)
{
	const struct quarantined_tenant *t = tenant_find(q, tenant);

	return t ? t->held_until_ns : 0;
}
