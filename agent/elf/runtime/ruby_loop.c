// SPDX-License-Identifier: Apache-2.0
/*
 * rb_iseq_eval, which extension modules may call, prepares a frame and runs the interpreter's loop: by a
 * call or, as its last act, by a jump. Of the functions that it goes to, the loop is the one that calls the
 * interpreter's core, or is that itself: a large function that goes from each instruction to the next one by
 * a jump through a pointer in memory. No other function near them has as many of these jumps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/code/a64.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/ruby.h"

#define FUNCTION_BYTES_MAX (4u << 20)
#define CALLER_BYTES_MAX 65536u
#define TARGETS_MAX 64u /* functions that one function goes to, of which are looked at */
#define CORE_BYTES_MIN 8192u
#define CORE_JUMPS_MIN 48u
#define CALL 0xe8
#define JUMP 0xe9

struct range {
	uint64_t start, end;
};

/* The functions that a function calls, or ends with a jump to. */
struct targets {
	struct range ranges[TARGETS_MAX];
	size_t n;
};

static int read_code(const struct elf_image *img, struct range f, size_t max, uint8_t **ret)
{
	size_t len = f.end - f.start;
	uint8_t *bytes = f.end > f.start && len <= max ? malloc(len) : NULL;

	if (!bytes)
		return f.end > f.start && len <= max ? -ENOMEM : -ENOENT;
	if (elf_image_read_code(img, f.start, bytes, len) < 0) {
		free(bytes);
		return -ENOENT;
	}
	*ret = bytes;
	return 0;
}

static bool has_target(const struct frame_query *q, size_t n, uint64_t va)
{
	for (size_t i = 0; i < n; i++)
		if (q[i].va == va)
			return true;
	return false;
}

static bool is_arm64(const struct elf_image *img)
{
	return elf_arch(elf_image_machine(img)) == &elf_arch_aarch64;
}

static struct a64_insn a64_insn_at(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof word);
	return a64_decode(word);
}

/* Where the call or jump at `bytes`, which is at `va`, leads to; 0: it is none. */
static uint64_t a64_target(const uint8_t *bytes, uint64_t va)
{
	const struct a64_insn insn = a64_insn_at(bytes);

	return insn.op == A64_CALL || insn.op == A64_JUMP ? va + (uint64_t)(int64_t)insn.disp : 0;
}

static uint64_t x86_target(const uint8_t *bytes, uint64_t va)
{
	int32_t distance;

	if (bytes[0] != CALL && bytes[0] != JUMP)
		return 0;
	memcpy(&distance, bytes + 1, sizeof distance);
	return va + 5 + (uint64_t)(int64_t)distance;
}

/*
 * On x86-64, every byte may be the begin of a call or jump; only such count that lead to the begin of a
 * function.
 */
static size_t find_targets(const struct elf_image *img, struct frame_query *q, const uint8_t *bytes,
			   struct range f)
{
	const bool arm64 = is_arm64(img);
	size_t n = 0;

	for (size_t i = 0; i + 5 <= f.end - f.start && n < TARGETS_MAX; i += arm64 ? A64_BYTES : 1) {
		const uint64_t target = (arm64 ? a64_target : x86_target)(bytes + i, f.start + i);
		const struct elf_segment *s = target ? elf_image_segment_at(img, target) : NULL;

		if (!s || !s->executable || target - f.start < f.end - f.start || has_target(q, n, target))
			continue;
		q[n++] = (struct frame_query){.va = target, .error = -ENOENT};
	}
	return n;
}

/* 0, also if there are none; -ENOMEM. */
static int targets_of(struct targets *ret, struct elf_image *img, const struct cfi_section *section,
		      struct range f)
{
	_cleanup_free_ struct frame_query *q = calloc(TARGETS_MAX, sizeof *q);
	_cleanup_free_ uint8_t *bytes = NULL;
	int r = q ? read_code(img, f, CALLER_BYTES_MAX, &bytes) : -ENOMEM;
	size_t n;

	ret->n = 0;
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	n = find_targets(img, q, bytes, f);
	r = frame_rules_in_section(section, q, n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (q[i].error == 0 && q[i].fde_start == q[i].va && q[i].fde_start < q[i].fde_end)
			ret->ranges[ret->n++] = (struct range){q[i].fde_start, q[i].fde_end};
	return 0;
}

/* jmp *(reg) or jmp *disp8(reg), of which register ever */
static bool is_jump_through_memory(const uint8_t *bytes)
{
	uint8_t form = bytes[1] & 0xf8, reg = bytes[1] & 7;

	return bytes[0] == 0xff && reg != 4 && ((form == 0x20 && reg != 5) || form == 0x60);
}

/* 1: it is an interpreter's core; 0: not so; -ENOMEM. */
static int is_core(const struct elf_image *img, struct range f)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t jumps = 0;
	int r;

	if (f.end - f.start < CORE_BYTES_MIN)
		return 0;
	r = read_code(img, f, FUNCTION_BYTES_MAX, &bytes);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (is_arm64(img))
		for (size_t i = 0; i + A64_BYTES <= f.end - f.start; i += A64_BYTES)
			jumps += a64_insn_at(bytes + i).op == A64_JUMP_REG; /* what it loads before */
	else
		for (size_t i = 0; i + 2 <= f.end - f.start; i++)
			jumps += is_jump_through_memory(bytes + i);
	return jumps >= CORE_JUMPS_MIN;
}

/* The core that the loop calls; the loop itself, if it is the core. 1; 0: there is none; -ENOMEM. */
static int core_of(struct range *ret, struct elf_image *img, const struct cfi_section *section,
		   struct range loop)
{
	struct targets called;
	int r = is_core(img, loop);

	*ret = loop;
	if (r)
		return r;
	r = targets_of(&called, img, section, loop);
	for (size_t i = 0; r == 0 && i < called.n; i++) {
		r = is_core(img, called.ranges[i]);
		*ret = called.ranges[i];
	}
	return r;
}

int ruby_loop_find(struct ruby_facts *f, struct elf_image *img, uint64_t caller, uint64_t caller_end,
		   uint64_t known, uint64_t known_end)
{
	struct targets callees = {.ranges = {{known, known_end}}, .n = 1};
	struct cfi_section section;
	struct range core = {0};
	int r = 0;

	if (frame_section_eh(img, &section) < 0)
		return 0;
	if (known >= known_end)
		r = targets_of(&callees, img, &section, (struct range){caller, caller_end});
	for (size_t i = 0; r == 0 && i < callees.n; i++) {
		r = core_of(&core, img, &section, callees.ranges[i]);
		if (r <= 0)
			continue;
		f->loop_start[0] = callees.ranges[i].start;
		f->loop_end[0] = callees.ranges[i].end;
		f->n_loops = 1;
		if (core.start != callees.ranges[i].start) {
			f->inner_start = core.start;
			f->inner_end = core.end;
		}
	}
	if (r == 0 && known < known_end) {
		f->loop_start[0] = known;
		f->loop_end[0] = known_end;
		f->n_loops = 1;
	}
	return r < 0 ? r : 0;
}
