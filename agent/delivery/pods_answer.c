// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/pods_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "cgroup/pods.h"

#define HEX "0123456789abcdef"

DEFINE_CLEANUP(struct pod *, pod_unref)

/* --- writing */

static int put_text(struct buf *b, const char *text)
{
	int r = flat_put_u64(b, text != NULL);

	return r < 0 || !text ? r : flat_put_string(b, text);
}

static int put_labels(struct buf *b, const struct pod *p)
{
	int r = flat_put_u64(b, p->n_labels);

	for (size_t i = 0; i < p->n_labels && r == 0; i++) {
		r = flat_put_string(b, p->labels[i].key);
		if (r == 0)
			r = flat_put_string(b, p->labels[i].value);
	}
	return r;
}

static int put_containers(struct buf *b, const struct pod *p)
{
	int r = flat_put_u64(b, p->n_containers);

	for (size_t i = 0; i < p->n_containers && r == 0; i++) {
		r = flat_put_string(b, p->containers[i].id);
		if (r == 0)
			r = put_text(b, p->containers[i].name);
		if (r == 0)
			r = put_text(b, p->containers[i].image);
	}
	return r;
}

static int put_pod(struct buf *b, const struct pod *p)
{
	const char *const texts[] = {p->other_uid, p->name, p->namespace, p->workload, p->service};
	int r = flat_put_string(b, p->uid);

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = put_text(b, texts[i]);
	if (r == 0)
		r = put_labels(b, p);
	return r < 0 ? r : put_containers(b, p);
}

int pods_answer_put(const struct pod_list *pods, struct buf *b)
{
	int r = flat_put_u64(b, pods->n_left_out);

	if (r == 0)
		r = flat_put_u64(b, pods->n);
	for (size_t i = 0; i < pods->n && r == 0; i++)
		r = put_pod(b, pods->items[i]);
	return r;
}

/* --- reading */

/* As cgroup/pods.c leaves them: at most so long, and nothing that a terminal would obey. */
static bool is_clean(const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		if ((unsigned char)text[n] < 0x20 || text[n] == 0x7f || n == POD_TEXT_MAX)
			return false;
	return true;
}

/* The next string, owned by the caller; NULL: it is bad, or memory is short (*ret_short). */
static char *get_string(struct flat_reader *r, bool *ret_short)
{
	const char *text = flat_string(r);
	char *copy;

	if (r->bad || !is_clean(text)) {
		r->bad = true;
		return NULL;
	}
	copy = strdup(text);
	if (!copy)
		*ret_short = r->bad = true;
	return copy;
}

/* As get_string; NULL also where put_text had none. */
static char *get_text(struct flat_reader *r, bool *ret_short)
{
	const uint64_t there = flat_u64(r);
	char *text = there == 1 ? get_string(r, ret_short) : NULL;

	if (there > 1 || (text && !*text))
		r->bad = true;
	return text;
}

/* A number of items that are to follow, each of `size` bytes in memory: *ret is room for them. */
static size_t get_items(struct flat_reader *r, size_t max, size_t size, void **ret, bool *ret_short)
{
	const uint64_t n = flat_u64(r);

	*ret = NULL;
	if (r->bad || n > max) {
		r->bad = true;
		return 0;
	}
	if (n)
		*ret = calloc(n, size);
	if (n && !*ret)
		*ret_short = r->bad = true;
	return r->bad ? 0 : n;
}

static void get_labels(struct flat_reader *r, struct pod *p, bool *ret_short)
{
	void *room;
	const size_t n = get_items(r, POD_LABELS_MAX, sizeof *p->labels, &room, ret_short);

	p->labels = room;
	for (size_t i = 0; i < n && !r->bad; i++) {
		struct pod_label *l = &p->labels[p->n_labels++];

		l->key = get_string(r, ret_short);
		l->value = get_string(r, ret_short);
	}
}

static void get_containers(struct flat_reader *r, struct pod *p, bool *ret_short)
{
	void *room;
	const size_t n = get_items(r, POD_CONTAINERS_MAX, sizeof *p->containers, &room, ret_short);

	p->containers = room;
	for (size_t i = 0; i < n && !r->bad; i++) {
		struct pod_container *c = &p->containers[p->n_containers++];
		const char *id = flat_string(r);

		if (!*id || (strlen(id) == CGROUP_ID_LEN && strspn(id, HEX) == CGROUP_ID_LEN))
			memcpy(c->id, id, strlen(id) + 1);
		else
			r->bad = true;
		c->name = get_text(r, ret_short);
		c->image = get_text(r, ret_short);
	}
}

static struct pod *get_pod(struct flat_reader *r, bool *ret_short)
{
	_cleanup_(pod_unref_p) struct pod *p = calloc(1, sizeof *p);

	if (!p) {
		*ret_short = r->bad = true;
		return NULL;
	}
	p->refs = 1;
	p->uid = get_string(r, ret_short);
	if (p->uid && (!*p->uid || strlen(p->uid) > POD_UID_MAX))
		r->bad = true;
	p->other_uid = get_text(r, ret_short);
	p->name = get_text(r, ret_short);
	p->namespace = get_text(r, ret_short);
	p->workload = get_text(r, ret_short);
	p->service = get_text(r, ret_short);
	get_labels(r, p, ret_short);
	get_containers(r, p, ret_short);
	return r->bad ? NULL : TAKE_PTR(p);
}

int pods_answer_get(const void *bytes, size_t len, struct pod_list *ret)
{
	struct flat_reader r = flat_read(bytes, len);
	struct pod_list list = {.n_left_out = flat_u64(&r)};
	bool is_short = false;
	void *room;
	const size_t n = get_items(&r, PODS_MAX, sizeof *list.items, &room, &is_short);

	list.items = room;
	while (list.n < n && !r.bad) {
		struct pod *p = get_pod(&r, &is_short);

		if (p)
			list.items[list.n++] = p;
	}
	if (flat_done(&r)) {
		*ret = list;
		return 0;
	}
	pod_list_fini(&list);
	return is_short ? -ENOMEM : -EBADMSG;
}
