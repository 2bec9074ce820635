// SPDX-License-Identifier: Apache-2.0
/*
 * Compilers move code that is rarely run out of a function, to a place without a name. It has an FDE of its
 * own that begins with the frame that the function has set up, and the function jumps there. A function that
 * is jumped to as well, by a tail call, begins with no frame but its return address.
 */
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/php.h"

#define LOOP_BYTES_MAX (4u << 20)
#define TARGETS_MAX 32u /* jumps out of the function to different places that are looked at */
#define RETURN_ADDRESS_BYTES 8

/* The target of the jump with a 32-bit distance at bytes[i], if there is one; 0: no such jump. */
static uint64_t jump_target(const uint8_t *bytes, size_t i, uint64_t va)
{
	size_t opcode = bytes[i] == 0xe9 ? 1 : bytes[i] == 0x0f && (bytes[i + 1] & 0xf0) == 0x80 ? 2 : 0;
	int32_t distance;

	if (!opcode)
		return 0;
	memcpy(&distance, bytes + i + opcode, sizeof distance);
	return va + i + opcode + sizeof distance + (uint64_t)(int64_t)distance;
}

static bool has_target(const struct frame_query *q, size_t n, uint64_t va)
{
	for (size_t i = 0; i < n; i++)
		if (q[i].va == va)
			return true;
	return false;
}

/* Adds to `q`, which has n entries, where the code jumps outside of itself. Returns their number. */
static size_t find_targets(const struct elf_image *img, struct frame_query *q, size_t n, const uint8_t *bytes,
			   size_t len, uint64_t va)
{
	for (size_t i = 0; i + 6 <= len && n < TARGETS_MAX; i++) {
		uint64_t target = jump_target(bytes, i, va);
		const struct elf_segment *s;

		if (!target || target - va < len || has_target(q, n, target))
			continue;
		s = elf_image_segment_at(img, target);
		if (s && s->executable)
			q[n++] = (struct frame_query){.va = target, .error = -ENOENT};
	}
	return n;
}

static bool same_frame(const struct frame_query *a, const struct frame_query *b)
{
	const struct frame_location *x = &a->rule.cfa, *y = &b->rule.cfa;

	return a->error == 0 && b->error == 0 && x->kind == LOCATION_REGISTER && y->kind == x->kind &&
	       x->reg == y->reg && x->off == y->off && x->off > RETURN_ADDRESS_BYTES;
}

/* The first of the queries is inside the function. */
static int split_of(const struct frame_query *q, size_t n, uint64_t *ret_start, uint64_t *ret_end)
{
	for (size_t i = 1; i < n; i++)
		if (same_frame(&q[0], &q[i]) && q[i].fde_start != q[0].fde_start) {
			*ret_start = q[i].fde_start;
			*ret_end = q[i].fde_end;
			return 0;
		}
	return -ENOENT;
}

int php_loop_split(struct elf_image *img, uint64_t start, uint64_t end, uint64_t *ret_start,
		   uint64_t *ret_end)
{
	const size_t len = end - start;
	_cleanup_free_ struct frame_query *q = calloc(TARGETS_MAX, sizeof *q);
	_cleanup_free_ uint8_t *bytes = len <= LOOP_BYTES_MAX ? malloc(len) : NULL;
	struct cfi_section section;
	size_t n;
	int r;

	if (elf_arch(elf_image_machine(img)) != &elf_arch_x86_64 || len > LOOP_BYTES_MAX)
		return -ENOENT;
	if (!q || !bytes)
		return -ENOMEM;
	if (elf_image_read_code(img, start, bytes, len) < 0 || frame_section_eh(img, &section) < 0)
		return -ENOENT;
	q[0] = (struct frame_query){.va = start + len / 2, .error = -ENOENT};
	n = find_targets(img, q, 1, bytes, len, start);
	r = frame_rules_in_section(&section, q, n);
	return r < 0 ? r : split_of(q, n, ret_start, ret_end);
}
