// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/label_end.h"

#include <elf.h>
#include <stdbool.h>

#include "agent/elf/code/x86.h"
#include "agent/elf/file/elf_image.h"

#define CHUNK 1024u /* bytes; most functions are shorter */

/* Code that is read as far as it is decoded. */
struct reader {
	const struct elf_image *img;
	uint64_t start;
	uint32_t n; /* bytes of the function at most */
	uint64_t *budget;
	uint32_t at, len; /* what `code` has: offset and bytes */
	uint8_t code[CHUNK];
};

/* The instruction at `off`; len is 0 if there is none. */
static struct x86_insn decode(struct reader *r, uint32_t off)
{
	const struct x86_insn none = {0};

	if (off < r->at || off + X86_MAX_BYTES > r->at + r->len) {
		const uint32_t bytes = r->n - off < CHUNK ? r->n - off : CHUNK;

		if (r->at + r->len < r->n || r->len == 0 || off < r->at) {
			if (bytes > *r->budget ||
			    elf_image_read_code(r->img, r->start + off, r->code, bytes) < 0)
				return none;
			*r->budget -= bytes;
			r->at = off;
			r->len = bytes;
		}
	}
	return x86_decode(r->code + (off - r->at), r->at + r->len - off);
}

uint64_t label_end(const struct elf_image *img, uint64_t start, uint64_t high, uint64_t *budget)
{
	struct reader r = {.img = img, .start = start, .budget = budget};
	uint32_t off = 0, farthest = 0; /* target of a branch */

	if (elf_image_machine(img) != EM_X86_64 || high <= start)
		return high;
	r.n = high - start < LABEL_BYTES_MAX ? (uint32_t)(high - start) : LABEL_BYTES_MAX;
	while (off < r.n) {
		const struct x86_insn insn = decode(&r, off);
		const int64_t to = (int64_t)off + insn.len + insn.disp;

		if (insn.len == 0 || insn.op == X86_JUMP_FAR_AWAY)
			return high;
		if ((insn.op == X86_BRANCH || insn.op == X86_JUMP) && to > farthest &&
		    (uint64_t)to < high - start)
			farthest = to < (int64_t)r.n ? (uint32_t)to : r.n;
		off += insn.len;
		if ((insn.op == X86_RETURN || insn.op == X86_JUMP || insn.op == X86_TRAP) && off > farthest)
			return off < high - start ? start + off : high;
	}
	return high;
}
