// SPDX-License-Identifier: Apache-2.0
/* Any bytes as the list of pods that the delivery process hands to the agent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/delivery/pods_answer.h"
#include "cgroup/podtable.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_text(const char *text)
{
	require(!text || (*text && strlen(text) <= POD_TEXT_MAX));
	for (; text && *text; text++)
		require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check(const struct pod *p)
{
	require(p->refs == 1 && p->uid);
	check_text(p->uid);
	check_text(p->name);
	check_text(p->namespace);
	check_text(p->workload);
	check_text(pod_service_name(p));
	require(p->n_containers <= POD_CONTAINERS_MAX && p->n_labels <= POD_LABELS_MAX);
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct pod_container *c = &p->containers[i];

		require(!c->id[0] || strspn(c->id, "0123456789abcdef") == CGROUP_ID_LEN);
		check_text(c->name);
		check_text(c->image);
	}
	for (size_t i = 0; i < p->n_labels; i++)
		require(pod_label(p, p->labels[i].key) != NULL);
}

/* A list that was taken is written as the bytes that it was read from. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pod_list list = {0};
	_cleanup_buf_ struct buf again = {0};
	struct pod_table *table;
	int r = pods_answer_get(data, size, &list);

	if (r < 0) {
		require(r == -EBADMSG && !list.n);
		return 0;
	}
	for (size_t i = 0; i < list.n; i++)
		check(list.items[i]);
	require(pods_answer_put(&list, &again) == 0);
	require(again.len == size && memcmp(again.data, data, size) == 0);
	require(pod_table_new(&table, 16) == 0);
	pod_table_update(table, &list, 1);
	pod_table_free(table);
	return 0;
}
