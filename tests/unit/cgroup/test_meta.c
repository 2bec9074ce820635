// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/meta.h"

static struct cgroup_identity unit(unsigned n)
{
	struct cgroup_identity id = {0};

	snprintf(id.unit, sizeof id.unit, "svc-%u.service", n);
	return id;
}

static struct cgroup_meta *get(struct cgroup_meta_cache *c, struct cgroup_identity id)
{
	struct cgroup_meta *m = NULL;

	cr_assert_eq(cgroup_meta_get(c, &id, &m), 0);
	return m;
}

static struct cgroup_meta_stats stats_of(const struct cgroup_meta_cache *c)
{
	struct cgroup_meta_stats s;

	cgroup_meta_cache_stats(c, &s);
	return s;
}

Test(meta, same_workload_same_entry)
{
	struct cgroup_meta_cache *c = NULL;
	struct cgroup_meta *a, *b, *other, *empty;

	cr_assert_eq(cgroup_meta_cache_new(&c, 8), 0);
	a = get(c, unit(1));
	b = get(c, unit(1));
	other = get(c, unit(2));
	empty = get(c, (struct cgroup_identity){0});
	cr_expect_eq(a, b);
	cr_expect_neq(a, other);
	cr_expect_neq(a, empty);
	cr_expect_str_eq(a->identity.unit, "svc-1.service");
	cr_expect_eq(stats_of(c).entries, 3);
	cr_expect_eq(stats_of(c).n_hits, 1);
	cr_expect_eq(stats_of(c).n_misses, 3);
	cgroup_meta_unref(a);
	cgroup_meta_unref(b);
	cgroup_meta_unref(other);
	cgroup_meta_unref(empty);
	cgroup_meta_cache_free(c);
}

/* The text of two fields must not run together in the key. */
Test(meta, fields_are_distinguished)
{
	struct cgroup_identity by_pod = {.pod_uid = "x"}, by_unit = {.unit = "x"},
			       both = {.pod_uid = "x", .unit = "x"};
	struct cgroup_meta_cache *c = NULL;
	struct cgroup_meta *m[3];

	cr_assert_eq(cgroup_meta_cache_new(&c, 8), 0);
	m[0] = get(c, by_pod);
	m[1] = get(c, by_unit);
	m[2] = get(c, both);
	cr_expect_eq(stats_of(c).entries, 3);
	for (int i = 0; i < 3; i++)
		cgroup_meta_unref(m[i]);
	cgroup_meta_cache_free(c);
}

Test(meta, forgets_the_least_recently_requested)
{
	struct cgroup_meta_cache *c = NULL;
	struct cgroup_meta *first, *again;

	cr_assert_eq(cgroup_meta_cache_new(&c, 3), 0);
	first = get(c, unit(1));
	cgroup_meta_unref(get(c, unit(2)));
	cgroup_meta_unref(get(c, unit(3)));
	cgroup_meta_unref(get(c, unit(1))); /* now 2 is the oldest */
	cgroup_meta_unref(get(c, unit(4)));
	cr_expect_eq(stats_of(c).n_evicted, 1);
	again = get(c, unit(1));
	cr_expect_eq(again, first, "still there");
	cgroup_meta_unref(again);
	cgroup_meta_unref(get(c, unit(2)));
	cr_expect_eq(stats_of(c).n_evicted, 2, "2 had to be made anew");
	cr_expect_eq(stats_of(c).entries, 3);
	cgroup_meta_unref(first);
	cgroup_meta_cache_free(c);
}

Test(meta, a_reference_outlives_eviction_and_cache)
{
	struct cgroup_meta_cache *c = NULL;
	struct cgroup_meta *held, *more;

	cr_assert_eq(cgroup_meta_cache_new(&c, 2), 0);
	held = get(c, unit(1));
	for (unsigned n = 2; n < 50; n++)
		cgroup_meta_unref(get(c, unit(n)));
	cr_expect_eq(stats_of(c).n_evicted, 47);
	cr_expect_str_eq(held->identity.unit, "svc-1.service");
	more = cgroup_meta_ref(held);
	cgroup_meta_cache_free(c);
	cgroup_meta_unref(held);
	cr_expect_str_eq(more->identity.unit, "svc-1.service");
	cgroup_meta_unref(more);
}

Test(meta, labels)
{
	struct cgroup_meta m = {.identity.unit = "a.service"};
	char label[CGROUP_UNIT_MAX];

	cr_expect_str_eq(cgroup_meta_label(&m, label), "a.service");
	strcpy(m.identity.pod_uid, "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e");
	cr_expect_str_eq(cgroup_meta_label(&m, label), "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e");
	strcpy(m.identity.container_id, "2227daf62df6694645fee5df53c1f91271546a9560e8600a525690ae252b7f63");
	cr_expect_str_eq(cgroup_meta_label(&m, label), "2227daf62df6");
	cr_expect_str_eq(cgroup_meta_label(&(struct cgroup_meta){0}, label), "");
}

Test(meta, refuses_a_cache_of_nothing)
{
	struct cgroup_meta_cache *c = NULL;

	cr_expect_eq(cgroup_meta_cache_new(&c, 0), -EINVAL);
	cgroup_meta_cache_free(c);
	cgroup_meta_unref(NULL);
}
