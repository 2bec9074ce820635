// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/pull_request.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/delivery/http_server.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define N253                                                                                                 \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aa"                                                                                                 \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aa"                                                                                                 \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* "a=1&b=2" as the server hands it over. */
static void set_query(struct http_request *r, char *query)
{
	char *pair;

	while ((pair = strsep(&query, "&"))) {
		char *value = strchr(pair, '=');

		if (value)
			*value++ = '\0';
		r->parameters[r->n_parameters++] = (struct http_parameter){pair, value ? value : ""};
	}
}

static int parse(const char *path, const char *query, struct pull_request *ret, struct buf *why)
{
	char text[1024];
	struct http_request r = {.id = 1, .path = path};

	snprintf(text, sizeof text, "%s", query);
	if (*query)
		set_query(&r, text);
	return pull_request_parse(&r, ret, why);
}

Test(pull_request, paths)
{
	enum pull_form form = PULL_FORMS_N;

	cr_expect(pull_path("/debug/pprof/profile", &form));
	cr_expect_eq(form, PULL_PPROF);
	cr_expect(pull_path("/flamegraph", &form));
	cr_expect_eq(form, PULL_FLAMEGRAPH);
	cr_expect(pull_path("/top", &form));
	cr_expect_eq(form, PULL_TOP);
	cr_expect_not(pull_path("/top/", &form));
	cr_expect_not(pull_path("/debug/pprof/heap", &form));
	cr_expect_str_eq(pull_form_path(PULL_TOP), "/top");
}

Test(pull_request, what_is_accepted)
{
	static const struct {
		const char *query;
		struct pull_request expected;
	} cases[] = {
		{"", {.seconds = PULL_SECONDS}},
		{"seconds=1", {.seconds = 1}},
		{"seconds=300", {.seconds = 300}},
		{"pid=1", {.seconds = PULL_SECONDS, .pid = 1}},
		{"container=web", {.seconds = PULL_SECONDS, .container = "web"}},
		{"container=" ID, {.seconds = PULL_SECONDS, .container = ID}},
		{"pod=web-0", {.seconds = PULL_SECONDS, .pod = "web-0"}},
		{"pod=shop/web-0", {.seconds = PULL_SECONDS, .pod = "web-0", .namespace = "shop"}},
		{"pod=web-0&namespace=shop", {.seconds = PULL_SECONDS, .pod = "web-0", .namespace = "shop"}},
		{"namespace=" N253, {.seconds = PULL_SECONDS, .namespace = N253}},
		{"pid=7&container=a_b.c-D&seconds=2", {.seconds = 2, .pid = 7, .container = "a_b.c-D"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf why = {0}, bytes = {0};
		struct pull_request q, again;
		struct flat_reader reader;

		cr_assert_eq(parse("/top", cases[i].query, &q, &why), 0, "%s: %s", cases[i].query,
			     buf_str(&why));
		cr_expect_eq(q.form, PULL_TOP);
		cr_expect_eq(q.seconds, cases[i].expected.seconds, "%s", cases[i].query);
		cr_expect_eq(q.pid, cases[i].expected.pid, "%s", cases[i].query);
		cr_expect_str_eq(q.container, cases[i].expected.container);
		cr_expect_str_eq(q.pod, cases[i].expected.pod);
		cr_expect_str_eq(q.namespace, cases[i].expected.namespace);
		cr_assert_eq(pull_request_put(&q, &bytes), 0);
		reader = flat_read(bytes.data, bytes.len);
		cr_assert_eq(pull_request_get(&reader, &again), 0);
		cr_expect_eq(again.form, q.form);
		cr_expect_eq(again.seconds, q.seconds);
		cr_expect_eq(again.pid, q.pid);
		cr_expect_str_eq(again.container, q.container);
		cr_expect_str_eq(again.pod, q.pod);
		cr_expect_str_eq(again.namespace, q.namespace);
		for (size_t len = 0; len < bytes.len; len++) {
			reader = flat_read(bytes.data, len);
			cr_expect_eq(pull_request_get(&reader, &again), -EBADMSG, "%zu bytes", len);
		}
	}
}

Test(pull_request, what_is_refused)
{
	static const struct {
		const char *query, *why;
	} cases[] = {
		{"seconds=", "seconds="},
		{"seconds=0", "1 to 300"},
		{"seconds=301", "1 to 300"},
		{"seconds=-1", "seconds="},
		{"seconds=1.5", "seconds="},
		{"seconds=99999999999999999999", "seconds="},
		{"seconds=1&seconds=2", "twice"},
		{"pid=0", "process id"},
		{"pid=x", "process id"},
		{"pid=4294967295", "process id"},
		{"pid=1&pid=2", "twice"},
		{"container=", "container="},
		{"container=a/b", "container="},
		{"container=a b", "container="},
		{"container=*", "container="},
		{"pod=a/b/c", "pod="},
		{"pod=/b", "pod="},
		{"pod=a/", "pod="},
		{"pod=a/b&namespace=c", "namespace="},
		{"namespace=c&pod=a/b", "pod="},
		{"namespace=" N253 "a", "namespace="},
		{"frequency=99", "no such parameter"},
		{"Seconds=1", "no such parameter"},
		{"=", "no such parameter"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf why = {0};
		struct pull_request q;

		cr_expect_eq(parse("/flamegraph", cases[i].query, &q, &why), -EINVAL, "%s", cases[i].query);
		cr_expect(strstr(buf_str(&why), cases[i].why), "%s: %s", cases[i].query, buf_str(&why));
		cr_expect_eq(strcspn(buf_str(&why), "\n") + 1, why.len, "one line");
	}
}

Test(pull_request, too_many_parameters)
{
	struct http_request r = {.path = "/top", .has_more = true};
	_cleanup_buf_ struct buf why = {0};
	struct pull_request q;

	cr_expect_eq(pull_request_parse(&r, &q, &why), -EINVAL);
	cr_expect(strstr(buf_str(&why), "too many parameters"));
	r.path = "/metrics";
	cr_expect_eq(pull_request_parse(&r, &q, &why), -EINVAL);
}

/* Bytes of a process that a stranger has taken over. */
Test(pull_request, numbers_and_names_that_no_request_has)
{
	static const struct {
		uint64_t form, seconds, pid;
		const char *name;
	} cases[] = {
		{PULL_FORMS_N, 1, 0, ""}, {UINT64_MAX, 1, 0, ""},	 {PULL_TOP, 0, 0, ""},
		{PULL_TOP, 301, 0, ""},	  {PULL_TOP, UINT64_MAX, 0, ""}, {PULL_TOP, 1, 1ull << 31, ""},
		{PULL_TOP, 1, 0, "a/b"},  {PULL_TOP, 1, 0, "\xff"},	 {PULL_TOP, 1, 0, N253 "a"},
		{PULL_TOP, 1, 0, "a\nb"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf bytes = {0};
		struct pull_request q;
		struct flat_reader reader;

		cr_assert_eq(flat_put_u64(&bytes, cases[i].form), 0);
		cr_assert_eq(flat_put_u64(&bytes, cases[i].seconds), 0);
		cr_assert_eq(flat_put_u64(&bytes, cases[i].pid), 0);
		for (int k = 0; k < 3; k++)
			cr_assert_eq(flat_put_string(&bytes, cases[i].name), 0);
		reader = flat_read(bytes.data, bytes.len);
		cr_expect_eq(pull_request_get(&reader, &q), -EBADMSG, "case %zu", i);
	}
}
