// SPDX-License-Identifier: Apache-2.0
/* Parses lists of pods from a kubelet, and malformed ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "cgroup/pods.h"

#define A "2227daf62df6694645fee5df53c1f91271546a9560e8600a525690ae252b7f63"
#define B "90d81341ef3a0ea5cc28b2bd6cd9b9d6b28dfb7f1d6f1d9a0d5e8b5f2a1c7e44"
#define UID "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e"
#define LIST(items) "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[" items "]}"
#define POD(metadata) "{\"metadata\":{\"uid\":\"" UID "\"," metadata "}}"

static struct pod_list parse(const char *text)
{
	struct pod_list l = {0};
	const char *why;

	cr_assert_eq(pod_list_parse(text, strlen(text), &l, &why), 0, "%s: %s", why, text);
	return l;
}

Test(pods, all_fields)
{
	static const char text[] = LIST(
		"{\"metadata\":{\"name\":\"web-7d9f5c6b4-x2k8p\",\"namespace\":\"shop\",\"uid\":\"" UID "\","
		"\"labels\":{\"app\":\"web\",\"pod-template-hash\":\"7d9f5c6b4\",\"empty\":\"\"},"
		"\"annotations\":{\"note\":\"{\\\"items\\\":[]}\"},"
		"\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"web-7d9f5c6b4\",\"controller\":"
		"true}]},"
		"\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"app\",\"image\":\"registry:5000/"
		"team/web:1.2\"},"
		"{\"name\":\"sidecar\",\"image\":\"proxy@sha256:abc\"}],\"initContainers\":[{\"name\":"
		"\"init\",\"image\":\"busybox\"}]},"
		"\"status\":{\"containerStatuses\":["
		"{\"name\":\"app\",\"containerID\":\"containerd://" A "\",\"image\":\"sha256:1234\"},"
		"{\"name\":\"sidecar\"}],\"initContainerStatuses\":[{\"name\":\"init\",\"containerID\":\"cri-"
		"o://" B "\"}]}}");
	struct pod_list l = parse(text);
	const struct pod *p = l.items[0];

	cr_assert_eq(l.n, 1);
	cr_expect_eq(l.n_left_out, 0);
	cr_expect_str_eq(p->uid, UID);
	cr_expect_str_eq(p->name, "web-7d9f5c6b4-x2k8p");
	cr_expect_str_eq(p->namespace, "shop");
	cr_expect_str_eq(p->workload, "web");
	cr_expect_str_eq(pod_service_name(p), "web");
	cr_expect_str_eq(pod_label(p, "app"), "web");
	cr_expect_str_eq(pod_label(p, "empty"), "");
	cr_expect_null(pod_label(p, "ap"));
	cr_assert_eq(p->n_containers, 3);
	cr_expect_str_eq(p->containers[0].id, A);
	cr_expect_str_eq(p->containers[0].name, "app");
	cr_expect_str_eq(p->containers[0].image, "registry:5000/team/web");
	cr_expect_str_eq(p->containers[1].id, "", "not made yet");
	cr_expect_str_eq(p->containers[1].image, "proxy");
	cr_expect_str_eq(p->containers[2].id, B);
	cr_expect_str_eq(p->containers[2].image, "busybox");
	pod_list_fini(&l);
	pod_list_fini(&l);
}

#define OWNER(kind, name) \
	"\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}]"

Test(pods, what_a_pod_belongs_to)
{
	static const struct {
		const char *text, *service;
	} rows[] = {
		{LIST(POD("\"name\":\"bare\"")), "bare"},
		{LIST(POD("\"name\":\"db-0\"," OWNER("StatefulSet", "db"))), "db"},
		{LIST(POD("\"name\":\"log-x8k2p\"," OWNER("DaemonSet", "log"))), "log"},
		{LIST(POD("\"name\":\"rs-x8k2p\"," OWNER("ReplicaSet", "rs"))), "rs"},
		{LIST(POD("\"name\":\"a-1f-x\",\"labels\":{\"pod-template-hash\":\"1f\"}," OWNER("ReplicaSet",
												 "a-1f"))),
		 "a"},
		{LIST(POD("\"name\":\"a-1f-x\",\"labels\":{\"pod-template-hash\":\"2f\"}," OWNER("ReplicaSet",
												 "a-1f"))),
		 "a-1f"},
		{LIST(POD("\"name\":\"once-abcde\"," OWNER("Job", "once"))), "once"},
		{LIST(POD("\"name\":\"c-28912345-abcde\"," OWNER("Job", "c-28912345"))), "c"},
		{LIST(POD("\"name\":\"j-2024-abcde\"," OWNER("Job", "j-2024"))), "j-2024"},
		{LIST(POD("\"name\":\"etcd-node1\"," OWNER("Node", "node1"))), "etcd-node1"},
		{LIST(POD("\"name\":\"p\",\"ownerReferences\":[{\"kind\":\"X\",\"name\":\"x\"},"
			  "{\"kind\":\"Y\",\"name\":\"y\",\"controller\":true},{\"kind\":\"Z\",\"name\":"
			  "\"z\"}]")),
		 "y"},
		{LIST(POD("\"name\":\"p\",\"annotations\":{\"resource.opentelemetry.io/"
			  "service.name\":\"cart\"}," OWNER("DaemonSet", "d"))),
		 "cart"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pod_list l = parse(rows[i].text);

		cr_assert_eq(l.n, 1);
		cr_expect_str_eq(pod_service_name(l.items[0]), rows[i].service, "%s", rows[i].text);
		pod_list_fini(&l);
	}
}

Test(pods, lists_without_pods)
{
	static const char *const texts[] = {LIST(""),
					    " {\"items\" : [ ] } \n",
					    "{\"items\":null}",
					    LIST("{}"),
					    LIST("null"),
					    LIST("{\"metadata\":{\"uid\":7}}"),
					    LIST("{\"metadata\":{\"uid\":\"\"}},[]")};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct pod_list l = parse(texts[i]);

		cr_expect_eq(l.n, 0, "%s", texts[i]);
		pod_list_fini(&l);
	}
}

Test(pods, no_lists)
{
	static const char *const texts[] = {"",
					    " ",
					    "null",
					    "[]",
					    "Unauthorized",
					    "<html>",
					    "{",
					    "{}",
					    "{\"items\":[}",
					    "{\"items\":[]",
					    "{\"items\":[]]",
					    "{\"items\":{}",
					    "{\"kind\":\"Status\"}",
					    "{\"items\":[{},]}",
					    "{\"items\":[{}{}]}",
					    "{\"items\":[]}x",
					    "{items:[]}",
					    "{\"items\":[{\"metadata\":{\"uid\":\"" UID "\"}}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct pod_list l = {.n = 77};
		const char *why = NULL;

		cr_expect_eq(pod_list_parse(texts[i], strlen(texts[i]), &l, &why), -EBADMSG, "%s", texts[i]);
		cr_expect(why && *why, "%s", texts[i]);
		cr_expect_eq(l.n, 77, "written although it failed");
	}
}

/* Every prefix of a list, in a block of exactly its size. */
Test(pods, truncated_anywhere)
{
	static const char text[] =
		LIST(POD("\"name\":\"p\",\"labels\":{\"a\":\"\\u00e9\"}") "," POD("\"name\":\"q\""));

	for (size_t n = 0; n < sizeof text - 1; n++) {
		_cleanup_free_ char *copy = malloc(n ?: 1);
		struct pod_list l;
		const char *why;

		memcpy(copy, text, n);
		cr_expect_eq(pod_list_parse(copy, n, &l, &why), -EBADMSG, "%.*s", (int)n, text);
	}
}

Test(pods, values_that_are_no_names)
{
	struct pod_list l = parse(LIST(POD(
		"\"name\":\"two\\nlines\",\"namespace\":5,\"labels\":[1,2]") ","
									     "{\"metadata\":{\"uid\":\"u\"},"
									     "\"status\":{"
									     "\"containerStatuses\":["
									     "{\"containerID\":\"containerd:/"
									     "/short\"},{\"containerID\":7,"
									     "\"name\":{}},"
									     "{\"containerID\":\"" A
									     "\"},5,null]}}"));

	cr_assert_eq(l.n, 2);
	cr_expect_null(l.items[0]->name);
	cr_expect_null(l.items[0]->namespace);
	cr_expect_null(pod_service_name(l.items[0]));
	cr_expect_eq(l.items[0]->n_labels, 0);
	for (size_t i = 0; i < l.items[1]->n_containers; i++)
		cr_expect_str_eq(l.items[1]->containers[i].id, "");
	pod_list_fini(&l);
}

static void repeat(struct buf *b, const char *head, const char *item, size_t n, const char *tail)
{
	cr_assert_eq(buf_puts(b, head), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(buf_printf(b, "%s%s", i ? "," : "", item), 0);
	cr_assert_eq(buf_puts(b, tail), 0);
}

Test(pods, maxima)
{
	_cleanup_buf_ struct buf pods = {0}, containers = {0}, labels = {0}, deep = {0}, wide = {0};
	struct pod_list l;
	const char *why;

	repeat(&pods, "{\"items\":[", POD("\"name\":\"p\""), PODS_MAX + 5, "]}");
	l = parse(buf_str(&pods));
	cr_expect_eq(l.n, PODS_MAX);
	cr_expect_eq(l.n_left_out, 5);
	pod_list_fini(&l);

	repeat(&containers, "{\"items\":[{\"metadata\":{\"uid\":\"u\"},\"status\":{\"containerStatuses\":[",
	       "{\"name\":\"c\"}", POD_CONTAINERS_MAX + 3, "]}}]}");
	l = parse(buf_str(&containers));
	cr_expect_eq(l.items[0]->n_containers, POD_CONTAINERS_MAX);
	cr_expect_eq(l.n_left_out, 3);
	pod_list_fini(&l);

	repeat(&labels, "{\"items\":[{\"metadata\":{\"uid\":\"u\",\"labels\":{", "\"k\":\"v\"",
	       POD_LABELS_MAX + 2, "}}}]}");
	l = parse(buf_str(&labels));
	cr_expect_eq(l.items[0]->n_labels, POD_LABELS_MAX);
	cr_expect_eq(l.n_left_out, 2);
	pod_list_fini(&l);

	/* A megabyte of brackets, deep and wide: refused before they take memory. */
	repeat(&deep, "{\"items\":[", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 1, "");
	for (int i = 0; i < 15; i++)
		cr_assert_eq(buf_append(&deep,
					"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
					64),
			     0);
	cr_expect_eq(pod_list_parse(deep.data, deep.len, &l, &why), -EBADMSG);
	repeat(&wide, "{\"items\":[[", "[]", 400000, "]]}");
	cr_expect_eq(pod_list_parse(wide.data, wide.len, &l, &why), -EBADMSG);
}
