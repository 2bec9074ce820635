// SPDX-License-Identifier: Apache-2.0
/* Who gets a profile. That a comparison takes equally long is measured: first and last byte are wrong. */
#include "agent/delivery/pull_access.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/delivery/http_server.h"

#define TOKEN "s3cret-token-of-32-bytes-or-more!"

static unsigned access_of(const struct http_request *r, const char *file)
{
	_cleanup_buf_ struct buf why = {0};
	unsigned status = pull_access(r, file, &why);

	cr_expect_eq(status == 0, why.len == 0);
	cr_expect_null(strstr(buf_str(&why), "s3cret"));
	return status;
}

Test(pull_access, without_a_token_this_machine_only)
{
	static const struct {
		const char *host;
		bool from_loopback;
		unsigned status;
	} cases[] = {
		{"127.0.0.1:9464", true, 0},
		{"127.0.0.1", true, 0},
		{"localhost:9464", true, 0},
		{"LocalHost", true, 0},
		{"[::1]:9464", true, 0},
		{"", true, 0},
		{"127.0.0.1:9464", false, 403},
		{"10.0.0.7:9464", true, 403}, /* a proxy beside us */
		{"evil.example", true, 403},
		{"localhost.evil.example:9464", true, 403},
		{"127.0.0.1.evil.example", true, 403},
		{"localhost:9464x", true, 403},
		{"localhost:", true, 403},
		{"[::1].evil.example", true, 403},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct http_request r = {.host = cases[i].host,
					       .from_loopback = cases[i].from_loopback};

		cr_expect_eq(access_of(&r, NULL), cases[i].status, "%s", cases[i].host);
	}
}

static void with_file(const char *content, char path[static 40])
{
	strcpy(path, "/tmp/proflet-token-XXXXXX");
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fs_write_fd(fd, content, strlen(content)), 0);
	close(fd);
}

Test(pull_access, with_a_token)
{
	static const struct {
		const char *authorization;
		unsigned status;
	} cases[] = {
		{"Bearer " TOKEN, 0},
		{"bearer " TOKEN, 0},
		{NULL, 401},
		{"", 401},
		{TOKEN, 401},
		{"Bearer ", 401},
		{"Bearer  " TOKEN, 401},
		{"Bearer " TOKEN "x", 401},
		{"Bearer s3cret-token-of-32-bytes-or-more", 401},
		{"Bearer t3cret-token-of-32-bytes-or-more!", 401},
		{"Basic " TOKEN, 401},
	};
	char path[40];

	with_file(TOKEN "\n", path);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_request r = {.host = "evil.example", .authorization = cases[i].authorization};

		cr_expect_eq(access_of(&r, path), cases[i].status, "%s", cases[i].authorization);
		r.from_loopback = true;
		r.host = "localhost";
		cr_expect_eq(access_of(&r, path), cases[i].status, "this machine needs it, too");
	}
	remove(path);
}

/* A token that nobody has is not one that everybody has. */
Test(pull_access, a_file_without_a_token)
{
	static const char *const contents[] = {"", "\n", "   \n", "short\n"};
	const struct http_request empty = {
		.host = "localhost", .from_loopback = true, .authorization = "Bearer "};
	const struct http_request shorter = {.host = "localhost", .authorization = "Bearer short"};
	char path[40];

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		with_file(contents[i], path);
		cr_expect_eq(access_of(&empty, path), 503);
		cr_expect_eq(access_of(&shorter, path), 503);
		remove(path);
	}
	cr_expect_eq(access_of(&empty, path), 503, "there is no file");
}

Test(pull_access, long_tokens)
{
	char a[PULL_TOKEN_MAX + 2], b[PULL_TOKEN_MAX + 2];

	memset(a, 'a', sizeof a);
	memset(b, 'a', sizeof b);
	a[PULL_TOKEN_MAX] = b[PULL_TOKEN_MAX] = '\0';
	cr_expect(pull_token_is(a, b));
	b[PULL_TOKEN_MAX - 1] = 'b';
	cr_expect_not(pull_token_is(a, b));
	b[PULL_TOKEN_MAX - 1] = '\0';
	cr_expect_not(pull_token_is(a, b));
	cr_expect_not(pull_token_is(b, a));
	memset(b, 'a', sizeof b);
	a[PULL_TOKEN_MAX] = 'a';
	a[PULL_TOKEN_MAX + 1] = b[PULL_TOKEN_MAX + 1] = '\0';
	cr_expect_not(pull_token_is(a, b), "too long, even if equal");
	cr_expect(pull_token_is("", ""));
}

/* The fastest of many, so that what else the machine does is left out. */
static uint64_t fastest_ns(const char *given)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 2000; i++) {
		const uint64_t before = clock_mono_ns();
		uint64_t took;

		for (int k = 0; k < 10; k++)
			cr_assert_not(pull_token_is(TOKEN, given));
		took = clock_mono_ns() - before;
		best = took < best ? took : best;
	}
	return best;
}

Test(pull_access, where_tokens_differ_takes_no_time, .timeout = 120)
{
	const uint64_t first = fastest_ns("X3cret-token-of-32-bytes-or-more!"),
		       last = fastest_ns("s3cret-token-of-32-bytes-or-moreX"), length = fastest_ns("s");

	cr_expect_lt(first, 2 * last, "%lu %lu", (unsigned long)first, (unsigned long)last);
	cr_expect_lt(last, 2 * first, "%lu %lu", (unsigned long)first, (unsigned long)last);
	cr_expect_lt(last, 2 * length, "%lu %lu", (unsigned long)last, (unsigned long)length);
}
