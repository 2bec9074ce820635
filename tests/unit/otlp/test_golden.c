// SPDX-License-Identifier: Apache-2.0
/*
 * A request from fixed input must equal tests/fixtures/otlp/request.hex byte for byte, so that the encoding
 * that receivers rely on, such as field numbers, changes only on purpose. tests/support/otlp_golden.py
 * decodes the same bytes with protoc. UPDATE_GOLDEN=1 writes the file anew.
 */
#include <stdio.h>
#include <stdlib.h>

#include "profile_support.h"

#define GOLDEN TESTS_DIR "/fixtures/otlp/request.hex"
#define LINE_BYTES 32

static const struct frame_module library = {
	.id = 8,
	.path = "/usr/lib/libgo.so",
	.name = "libgo.so",
	.build_id_go = "go-build/id",
	.htlhash = "ffeeddccbbaa99887766554433221100",
	.start = 0x400000,
	.limit = 0x500000,
};

static void add_samples(struct otlp_batch *b)
{
	static const struct frame second[] = {
		{&library, 0x400123, "main.work", NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
		{&app, 0x1fff, NULL, NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
	};
	const struct otlp_attr attrs[] = {
		{"process.pid", OTLP_INT, NULL, 4711},
		{"thread.name", OTLP_STRING, "worker", 0},
	};
	const struct otlp_attr host[] = {
		{"service.name", OTLP_STRING, "app", 0},
		{"host.name", OTLP_STRING, "node-1", 0},
	};
	const struct otlp_attr container[] = {
		{"container.id", OTLP_STRING,
		 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 0},
		{"service.name", OTLP_STRING, "shop", 0},
	};
	const uint64_t times[] = {START + 5, START + 7, START + WINDOW - 1};

	cr_assert_eq(otlp_batch_resource(b, host, ARRAY_SIZE(host)), 0);
	cr_assert_eq(batch_sample(b, stack_a, ARRAY_SIZE(stack_a), attrs, 2, times, 2, NULL), 0);
	cr_assert_eq(batch_sample(b, second, 2, attrs, 1, times + 2, 1, NULL), 0);
	cr_assert_eq(otlp_batch_resource(b, container, ARRAY_SIZE(container)), 0);
	cr_assert_eq(batch_sample(b, second, 2, attrs, 2, times + 1, 1, NULL), 0);
}

static void write_hex(const struct buf *data, FILE *f)
{
	for (size_t i = 0; i < data->len; i++)
		fprintf(f, "%02x%s", data->data[i], (i + 1) % LINE_BYTES && i + 1 < data->len ? "" : "\n");
}

static void read_hex(struct buf *ret)
{
	_cleanup_fclose_ FILE *f = fopen(GOLDEN, "r");
	unsigned byte;

	cr_assert_not_null(f, "%s", GOLDEN);
	while (fscanf(f, "%2x", &byte) == 1)
		cr_assert_eq(buf_append(ret, &(uint8_t){(uint8_t)byte}, 1), 0);
}

Test(golden, request)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	_cleanup_buf_ struct buf wanted = {0};

	add_samples(b);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	if (getenv("UPDATE_GOLDEN")) {
		_cleanup_fclose_ FILE *f = fopen(GOLDEN, "w");

		cr_assert_not_null(f);
		write_hex(&r->data, f);
		return;
	}
	read_hex(&wanted);
	for (size_t i = 0; i < wanted.len && i < r->data.len; i++)
		cr_assert_eq(r->data.data[i], wanted.data[i], "byte %zu", i);
	cr_expect_eq(r->data.len, wanted.len);
}
