// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/buf.h"
#include "cgroup/podtable.h"

#define SECOND 1000000000ull

static void container_id(unsigned n, char ret[CGROUP_ID_LEN + 1])
{
	snprintf(ret, CGROUP_ID_LEN + 1, "%064x", n);
}

/* Pods first, …, first + n - 1, each with one container of its number. */
static void update(struct pod_table *t, unsigned first, unsigned n, uint64_t now_ns)
{
	_cleanup_buf_ struct buf b = {0};
	struct pod_list l;
	const char *why;

	(void)buf_puts(&b, "{\"items\":[");
	for (unsigned i = first; i < first + n; i++)
		(void)buf_printf(
			&b,
			"%s{\"metadata\":{\"uid\":\"uid-%u\",\"name\":\"pod-%u\",\"annotations\":{"
			"\"kubernetes.io/config.hash\":\"hash-%u\"}},\"status\":{\"containerStatuses\":["
			"{\"name\":\"c%u\",\"containerID\":\"containerd://%064x\"}]}}",
			i > first ? "," : "", i, i, i, i, i);
	(void)buf_puts(&b, "]}");
	cr_assert_eq(pod_list_parse(b.data, b.len, &l, &why), 0, "%s", why);
	pod_table_update(t, &l, now_ns);
	cr_expect_eq(l.n, 0, "taken over");
}

static const char *find(const struct pod_table *t, unsigned container, const char *uid,
			const char **ret_container)
{
	struct cgroup_identity id = {0};
	const struct pod_container *c;
	const struct pod *p;

	if (container)
		container_id(container, id.container_id);
	snprintf(id.pod_uid, sizeof id.pod_uid, "%s", uid);
	p = pod_table_find(t, &id, &c);
	*ret_container = c ? c->name : "";
	return p ? p->name : "";
}

static struct pod_table_stats stats_of(const struct pod_table *t)
{
	struct pod_table_stats s;

	pod_table_stats(t, &s);
	return s;
}

Test(podtable, by_container_and_by_pod)
{
	struct pod_table *t = NULL;
	const char *c;

	cr_assert_eq(pod_table_new(&t, 100), 0);
	cr_expect_str_eq(find(t, 1, "", &c), "", "nothing was heard yet");
	update(t, 1, 3, SECOND);
	cr_expect_str_eq(find(t, 2, "", &c), "pod-2");
	cr_expect_str_eq(c, "c2");
	cr_expect_str_eq(find(t, 2, "uid-2", &c), "pod-2");
	cr_expect_str_eq(find(t, 0, "uid-3", &c), "pod-3");
	cr_expect_str_eq(c, "");
	cr_expect_str_eq(find(t, 77, "uid-3", &c), "pod-3", "the pause container is in no list");
	cr_expect_str_eq(c, "");
	cr_expect_str_eq(find(t, 0, "hash-1", &c), "pod-1", "a static pod");
	cr_expect_str_eq(find(t, 0, "uid-9", &c), "");
	cr_expect_str_eq(find(t, 0, "", &c), "");
	cr_expect_eq(stats_of(t).pods, 3);
	cr_expect_eq(stats_of(t).containers, 3);
	cr_expect_eq(stats_of(t).entries, 9);
	pod_table_free(t);
}

Test(podtable, pods_come_and_go)
{
	struct pod_table *t = NULL;
	const char *c;

	cr_assert_eq(pod_table_new(&t, 100), 0);
	update(t, 1, 2, SECOND);
	update(t, 2, 2, 60 * SECOND);
	cr_expect_str_eq(find(t, 1, "", &c), "pod-1", "gone, and samples of it still come");
	cr_expect_str_eq(find(t, 3, "", &c), "pod-3");
	cr_expect_eq(stats_of(t).pods, 2);
	update(t, 2, 2, SECOND + POD_KEEP_NS);
	cr_expect_str_eq(find(t, 1, "", &c), "pod-1");
	update(t, 2, 2, 2 * SECOND + POD_KEEP_NS);
	cr_expect_str_eq(find(t, 1, "", &c), "", "forgotten");
	cr_expect_str_eq(find(t, 2, "", &c), "pod-2");
	cr_expect_eq(stats_of(t).entries, 6);
	update(t, 0, 0, 3 * POD_KEEP_NS);
	cr_expect_eq(stats_of(t).entries, 0);
	pod_table_free(t);
}

Test(podtable, maximum)
{
	struct pod_table *t = NULL;
	const char *c;

	cr_assert_eq(pod_table_new(&t, 9), 0);
	update(t, 1, 3, SECOND);
	cr_expect_eq(stats_of(t).refused, 0);
	update(t, 11, 3, 2 * SECOND);
	cr_expect_str_eq(find(t, 13, "", &c), "pod-13", "what is gone makes room");
	cr_expect_str_eq(find(t, 1, "", &c), "");
	cr_expect_eq(stats_of(t).refused, 0);
	update(t, 11, 5, 3 * SECOND);
	cr_expect_eq(stats_of(t).refused, 6, "two pods too many");
	cr_expect_eq(stats_of(t).entries, 9);
	cr_expect_str_eq(find(t, 11, "", &c), "pod-11");
	pod_table_free(t);
	cr_expect_eq(pod_table_new(&t, 0), -EINVAL);
	pod_table_free(NULL);
}

/* Ten thousand pods, each for a minute: the table has no more than those of the last minutes. */
Test(podtable, a_long_life)
{
	struct pod_table *t = NULL;
	const char *c;

	cr_assert_eq(pod_table_new(&t, 4096), 0);
	for (unsigned i = 0; i < 1000; i++) {
		update(t, 1 + 10 * i, 10, (i + 1) * 60 * SECOND);
		cr_expect_leq(stats_of(t).entries, 6 * 30);
	}
	cr_expect_str_eq(find(t, 9991, "", &c), "pod-9991");
	cr_expect_str_eq(find(t, 9000, "uid-9000", &c), "");
	cr_expect_eq(stats_of(t).refused, 0);
	pod_table_free(t);
}
