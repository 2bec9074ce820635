// SPDX-License-Identifier: Apache-2.0
/* Lists of pods as flat bytes: what is written is read again, and nothing else is taken. */
#include "agent/delivery/pods_answer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "cgroup/pods.h"

#define ID "2227daf62df6694645fee5df53c1f91271546a9560e8600a525690ae252b7f63"

static const char text[] =
	"{\"kind\":\"PodList\",\"items\":["
	"{\"metadata\":{\"uid\":\"6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e\",\"name\":\"web-1\",\"namespace\":"
	"\"shop\","
	"\"labels\":{\"app\":\"web\",\"empty\":\"\"}},"
	"\"spec\":{\"containers\":[{\"name\":\"app\",\"image\":\"registry:5000/web:1\"},{\"name\":\"new\"}]},"
	"\"status\":{\"containerStatuses\":[{\"name\":\"app\",\"containerID\":\"containerd://" ID
	"\"},{\"name\":\"new\"}]}},"
	"{\"metadata\":{\"uid\":\"7fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e\"}},{\"metadata\":{}}]}";

static struct buf bytes;

static void write_list(void)
{
	_cleanup_(pod_list_fini) struct pod_list list = {0};
	const char *why;

	cr_assert_eq(pod_list_parse(text, strlen(text), &list, &why), 0, "%s", why);
	cr_assert_eq(pods_answer_put(&list, &bytes), 0);
}

static void free_list(void)
{
	buf_fini(&bytes);
}

TestSuite(pods_answer, .init = write_list, .fini = free_list);

Test(pods_answer, all_fields)
{
	_cleanup_(pod_list_fini) struct pod_list list = {0};
	const struct pod *p;

	cr_assert_eq(pods_answer_get(bytes.data, bytes.len, &list), 0);
	cr_assert_eq(list.n, 2);
	cr_expect_eq(list.n_left_out, 1);
	p = list.items[0];
	cr_expect_str_eq(p->uid, "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e");
	cr_expect_str_eq(p->name, "web-1");
	cr_expect_str_eq(p->namespace, "shop");
	cr_expect_str_eq(pod_label(p, "app"), "web");
	cr_expect_str_eq(pod_label(p, "empty"), "");
	cr_assert_eq(p->n_containers, 2);
	cr_expect_str_eq(p->containers[0].id, ID);
	cr_expect_str_eq(p->containers[0].image, "registry:5000/web");
	cr_expect_str_eq(p->containers[1].id, "");
	cr_expect_null(list.items[1]->name);
}

Test(pods_answer, nothing_that_is_cut_or_longer)
{
	struct pod_list list = {0};

	for (size_t n = 0; n < bytes.len; n++)
		cr_expect_eq(pods_answer_get(bytes.data, n, &list), -EBADMSG, "of %zu bytes", n);
	cr_assert_eq(buf_putc(&bytes, 0), 0);
	cr_expect_eq(pods_answer_get(bytes.data, bytes.len, &list), -EBADMSG);
	cr_expect_eq(list.n, 0);
}

/* Each byte in turn: what is taken is well formed, which the fuzz target checks for any bytes. */
Test(pods_answer, no_byte_makes_it_read_beyond)
{
	unsigned n_taken = 0, n_refused = 0;

	for (size_t i = 0; i < bytes.len; i++) {
		const uint8_t was = bytes.data[i];

		for (unsigned change = 1; change < 256; change *= 2) {
			struct pod_list list = {0};

			bytes.data[i] = (uint8_t)(was ^ change);
			if (pods_answer_get(bytes.data, bytes.len, &list) < 0) {
				n_refused++;
				continue;
			}
			n_taken++;
			cr_expect_leq(list.n, 2);
			pod_list_fini(&list);
		}
		bytes.data[i] = was;
	}
	cr_expect_gt(n_taken, 0, "other letters in a name");
	cr_expect_gt(n_refused, n_taken / 8, "other lengths");
}

Test(pods_answer, control_characters_are_refused)
{
	struct pod_list list = {0};
	char *name = memmem(bytes.data, bytes.len, "web-1", 5);

	cr_assert_not_null(name);
	*name = 0x1b;
	cr_expect_eq(pods_answer_get(bytes.data, bytes.len, &list), -EBADMSG);
}
