// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/fair_queue.h"

#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/tenant.h"

#define TENANTS_MAX 4096u
#define PASSED_OVER_MAX 16u	       /* at a time */
#define HALF_LIFE_NS (10 * NS_PER_SEC) /* of the time that jobs have taken */

struct fair_tenant {
	struct tenant_share share; /* its references are jobs that wait, or are with the workers */
	struct fair_list waiting;
	unsigned n_working;
	uint64_t used_ns, at_ns; /* what its jobs had taken then */
};

static void list_append(struct fair_list *l, struct fair_wait *w)
{
	w->earlier = l->last;
	w->later = NULL;
	*(l->last ? &l->last->later : &l->first) = w;
	l->last = w;
}

static void list_remove(struct fair_list *l, struct fair_wait *w)
{
	*(w->earlier ? &w->earlier->later : &l->first) = w->later;
	*(w->later ? &w->later->earlier : &l->last) = w->earlier;
	w->earlier = w->later = NULL;
}

static struct fair_tenant *tenant_of(struct map_node *n)
{
	return container_of(container_of(n, struct tenant_share, node), struct fair_tenant, share);
}

static void tenant_free(struct fair_queue *q, struct fair_tenant *t)
{
	tenant_share_remove(&q->tenants, &t->share);
	free(t);
}

void fair_queue_init(struct fair_queue *q, unsigned max_of_a_tenant)
{
	*q = (struct fair_queue){.max_of_a_tenant = max_of_a_tenant};
	map_init(&q->tenants, TENANTS_MAX);
}

void fair_queue_on_held(struct fair_queue *q, uint64_t (*held_until_ns)(uint64_t tenant, const void *data),
			const void *data)
{
	q->held_until_ns = held_until_ns;
	q->held_data = data;
}

void fair_queue_fini(struct fair_queue *q)
{
	struct map_node *n;

	map_for_each (&q->tenants, n, it)
		tenant_free(q, tenant_of(n));
	map_fini(&q->tenants);
}

/* NULL: no memory, or too many tenants. */
static struct fair_tenant *tenant_get(struct fair_queue *q, uint64_t tenant)
{
	struct tenant_share *found = tenant_share_find(&q->tenants, tenant);
	struct fair_tenant *t;

	if (found)
		return container_of(found, struct fair_tenant, share);
	t = calloc(1, sizeof *t);
	if (t && tenant_share_add(&q->tenants, &t->share, tenant) == 0)
		return t;
	free(t);
	return NULL;
}

void fair_queue_add(struct fair_queue *q, struct fair_wait *w, uint64_t tenant, bool urgent)
{
	w->owner = tenant;
	w->tenant = urgent ? tenant_get(q, tenant) : NULL;
	list_append(w->tenant ? &w->tenant->waiting : &q->ordinary, w);
	if (w->tenant)
		w->tenant->share.refs++;
	q->n_waiting++;
}

void fair_queue_remove(struct fair_queue *q, struct fair_wait *w)
{
	list_remove(w->tenant ? &w->tenant->waiting : &q->ordinary, w);
	if (w->tenant)
		w->tenant->share.refs--;
	q->n_waiting--;
}

static uint64_t used_ns(struct fair_tenant *t, uint64_t now_ns)
{
	uint64_t halvings = now_ns > t->at_ns ? (now_ns - t->at_ns) / HALF_LIFE_NS : 0;

	if (halvings) {
		t->used_ns = halvings < 64 ? t->used_ns >> halvings : 0;
		t->at_ns += halvings * HALF_LIFE_NS;
	}
	return t->used_ns;
}

static bool is_held(const struct fair_queue *q, uint64_t tenant, uint64_t now_ns)
{
	return q->held_until_ns && q->held_until_ns(tenant, q->held_data) > now_ns;
}

static bool may_begin(const struct fair_queue *q, const struct fair_tenant *t, uint64_t now_ns)
{
	return t->waiting.first && t->n_working < q->max_of_a_tenant && !is_held(q, t->share.tenant, now_ns);
}

/* A few whose tenants are held back go to the end, so that others come to the front, now or next time. */
static struct fair_wait *next_ordinary(struct fair_queue *q, uint64_t now_ns)
{
	if (q->n_ordinary)
		return NULL;
	for (unsigned i = 0; i < PASSED_OVER_MAX; i++) {
		struct fair_wait *w = q->ordinary.first;

		if (!w || !is_held(q, w->owner, now_ns))
			return w;
		list_remove(&q->ordinary, w);
		list_append(&q->ordinary, w);
	}
	return NULL;
}

struct fair_wait *fair_queue_next(struct fair_queue *q, uint64_t now_ns)
{
	struct fair_tenant *least = NULL;
	struct map_node *n;

	map_for_each (&q->tenants, n, it) {
		struct fair_tenant *t = tenant_of(n);
		uint64_t used = used_ns(t, now_ns);

		if (!t->share.refs && !used)
			tenant_free(q, t);
		else if ((!least || used < least->used_ns) && may_begin(q, t, now_ns))
			least = t;
	}
	return least ? least->waiting.first : next_ordinary(q, now_ns);
}

void fair_queue_begin(struct fair_queue *q, struct fair_wait *w, uint64_t now_ns)
{
	w->begun_ns = now_ns;
	q->n_ordinary += !w->tenant;
	if (!w->tenant)
		return;
	w->tenant->share.refs++;
	w->tenant->n_working++;
}

void fair_queue_end(struct fair_queue *q, struct fair_wait *w, uint64_t now_ns)
{
	struct fair_tenant *t = TAKE_PTR(w->tenant);

	q->n_ordinary -= !t;
	if (!t)
		return;
	(void)used_ns(t, now_ns);
	if (!t->used_ns)
		t->at_ns = now_ns;
	t->used_ns += now_ns > w->begun_ns ? now_ns - w->begun_ns : 0;
	t->share.refs--;
	t->n_working--;
}
