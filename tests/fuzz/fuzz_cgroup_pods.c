// SPDX-License-Identifier: Apache-2.0
/* Parses any bytes as the kubelet's list of pods: the results must be well formed and within their maxima. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
	check_text(pod_service_name(p));
	require(p->n_containers <= POD_CONTAINERS_MAX && p->n_labels <= POD_LABELS_MAX);
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct pod_container *c = &p->containers[i];

		require(!c->id[0] || strspn(c->id, "0123456789abcdef") == CGROUP_ID_LEN);
		check_text(c->name);
	}
	for (size_t i = 0; i < p->n_labels; i++)
		require(pod_label(p, p->labels[i].key) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pod_list list = {0};
	struct pod_table *table;
	const char *why = NULL;

	if (pod_list_parse(data, size, &list, &why) < 0) {
		require(why && *why && !list.n);
		return 0;
	}
	for (size_t i = 0; i < list.n; i++)
		check(list.items[i]);
	require(pod_table_new(&table, 16) == 0);
	pod_table_update(table, &list, 1);
	pod_table_free(table);
	return 0;
}
