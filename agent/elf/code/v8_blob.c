// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/v8_blob.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/starts.h"
#include "agent/elf/file/elf_image.h"

#define ALIGN 32u	 /* of functions, at least */
#define PADDING_MAX 64u	 /* behind each */
#define FUNCTION_MIN 16u /* bytes of the first function, which enters a deoptimisation */
#define FUNCTION_MAX 65536u
#define STRIDE_MIN 12u /* 32-bit numbers, of which the first two are offset and length */
#define STRIDE_MAX 32u
#define PADDING 0xcc  /* int3 */
#define TRAPS_MAX 32u /* functions that are never called: they trap at once */
#define BLOCK_MIN (256u << 10)
#define BLOCK_MAX (16u << 20) /* of a gap in which it is looked for */
#define CHUNK (4u << 20)
#define TABLE_MAX (V8_BLOB_FUNCTIONS_MAX * STRIDE_MAX)
#define DATA_MAX (256ull << 20) /* bytes that are searched */
#define CLOCK_EVERY 64u		/* places for the code, after which the clock is read */

static uint32_t number(const uint8_t *at)
{
	uint32_t ret;

	memcpy(&ret, at, sizeof ret);
	return ret;
}

uint32_t v8_blob_offset(const struct v8_blob *b, uint32_t i)
{
	return number(b->table + i * b->stride);
}

uint32_t v8_blob_length(const struct v8_blob *b, uint32_t i)
{
	return number(b->table + i * b->stride + 4);
}

/* Whether the next entry says that its function begins behind this one's, and the padding. */
static bool is_followed(const uint8_t *entry, size_t stride)
{
	const uint64_t end = (uint64_t)number(entry) + number(entry + 4);
	const uint32_t next = number(entry + stride);

	return number(entry + 4) && next > end && next - end <= PADDING_MAX && next % ALIGN == 0;
}

static uint32_t entries(const uint8_t *data, size_t n, size_t stride)
{
	uint32_t k = 0;

	for (; (k + 1) * stride + 8 <= n && k < V8_BLOB_FUNCTIONS_MAX; k++)
		if (!is_followed(data + k * stride, stride))
			return k + 1;
	return 0; /* it does not end */
}

bool v8_blob_is_table(const uint8_t *data, size_t n, struct v8_blob *ret)
{
	if (n < 8 || number(data) || number(data + 4) < FUNCTION_MIN || number(data + 4) >= FUNCTION_MAX)
		return false;
	for (size_t stride = STRIDE_MIN; stride <= STRIDE_MAX; stride += 4) {
		const uint32_t found = entries(data, n, stride);

		if (found >= V8_BLOB_FUNCTIONS_MIN) {
			*ret = (struct v8_blob){.table = data, .stride = stride, .n = found};
			return true;
		}
	}
	return false;
}

bool v8_blob_is_code(const struct v8_blob *b, const uint8_t *code, size_t n)
{
	const uint32_t last = b->n - 1;
	uint32_t traps = 0;

	if ((uint64_t)v8_blob_offset(b, last) + v8_blob_length(b, last) > n)
		return false;
	for (uint32_t i = 0; i < last; i++) {
		const uint32_t begin = v8_blob_offset(b, i), next = v8_blob_offset(b, i + 1);

		traps += code[begin] == PADDING;
		if (traps > (i ? TRAPS_MAX : 0))
			return false;
		for (uint32_t at = begin + v8_blob_length(b, i); at < next; at++)
			if (code[at] != PADDING)
				return false;
	}
	return true;
}

static bool is_late(uint64_t until_ns)
{
	return until_ns && clock_thread_cpu_ns() > until_ns;
}

/* The bytes of a segment are in parts, each with the beginning of the next one, so that a table is in one. */
static int find_in_segment(const struct elf_image *img, const struct elf_segment *segment, uint64_t until_ns,
			   uint8_t *bytes, struct v8_blob *ret)
{
	for (uint64_t from = 0; from < segment->file_bytes && !is_late(until_ns); from += CHUNK) {
		const uint64_t left = segment->file_bytes - from;
		const size_t n = left < CHUNK + TABLE_MAX ? (size_t)left : CHUNK + TABLE_MAX;

		if (elf_image_pread(img, segment->offset + from, bytes, n) < 0)
			return 0;
		for (size_t at = 0; at + 8 <= n && at < CHUNK; at += 4)
			if (v8_blob_is_table(bytes + at, n - at, ret))
				return 1;
	}
	return 0;
}

/*
 * 1: *ret is the table, in `bytes`; 0: there is none. Older linkers put read-only data and code into one
 * segment.
 */
static int find_table(const struct elf_image *img, uint64_t until_ns, uint8_t *bytes, struct v8_blob *ret)
{
	uint64_t budget = DATA_MAX;
	size_t n;
	const struct elf_segment *segments = elf_image_segments(img, &n);

	for (int executable = 0; executable < 2; executable++)
		for (size_t i = 0; i < n; i++) {
			if (segments[i].executable != executable || segments[i].writable ||
			    segments[i].file_bytes > budget)
				continue;
			budget -= segments[i].file_bytes;
			if (find_in_segment(img, &segments[i], until_ns, bytes, ret))
				return 1;
		}
	return 0;
}

static int add_functions(struct code_starts *s, const struct v8_blob *b, uint64_t va)
{
	_cleanup_free_ uint64_t *v = array_zeroed(b->n, sizeof *v);

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->n; i++)
		v[i] = va + v8_blob_offset(b, i);
	return code_starts_add(s, v, b->n);
}

/* Adds its functions if the block is in the gap. */
static int look_in_gap(struct code_starts *s, const struct elf_image *img, const struct code_gap *gap,
		       const struct v8_blob *b, uint64_t until_ns)
{
	const uint64_t bytes = gap->end - gap->start;
	_cleanup_free_ uint8_t *code = NULL;
	int r = elf_image_pread_new(img, gap->offset, bytes, &code);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (uint64_t at = -gap->start % ALIGN; at + BLOCK_MIN <= bytes; at += ALIGN) {
		if (v8_blob_is_code(b, code + at, bytes - at))
			return add_functions(s, b, gap->start + at);
		if (at / ALIGN % CLOCK_EVERY == 0 && is_late(until_ns))
			return 0;
	}
	return 0;
}

static bool is_candidate(const struct code_starts *s, const struct code_gap *gap)
{
	const uint64_t bytes = gap->end - gap->start;
	const size_t known = code_starts_from(s, gap->end) - code_starts_from(s, gap->start);

	return bytes >= BLOCK_MIN && bytes <= BLOCK_MAX && known < V8_BLOB_FUNCTIONS_MIN;
}

int v8_blob_read_starts(struct code_starts *s, const struct elf_image *img, const struct code_gap *gaps,
			size_t n_gaps, uint64_t until_ns)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct v8_blob blob = {0};
	int r = 0;

	if (elf_image_machine(img) != EM_X86_64)
		return 0;
	for (size_t i = 0; i < n_gaps && r == 0; i++) {
		if (!is_candidate(s, &gaps[i]))
			continue;
		if (!bytes) {
			bytes = malloc(CHUNK + TABLE_MAX);
			if (!bytes)
				return -ENOMEM;
			if (!find_table(img, until_ns, bytes, &blob))
				return 0;
		}
		r = look_in_gap(s, img, &gaps[i], &blob, until_ns);
	}
	return r;
}
