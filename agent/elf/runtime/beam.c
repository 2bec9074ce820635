// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/beam.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

enum { RELEASE, JIT, CODE_INDEX, ATOM_TABLE, NORMAL_EXIT, FRAME_LAYOUT, DEFINITIONS };

/* The bytes of a variable in the file. False: they are not there. */
static bool read_variable(const struct elf_image *img, uint64_t va, void *to, size_t n)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	return s && elf_image_pread(img, s->offset + (va - s->va), to, n) == 0;
}

/* The part of the segment with that variable which has no bytes in the file. */
static void find_data(struct beam_facts *f, const struct elf_image *img, uint64_t variable)
{
	size_t n;
	const struct elf_segment *s = elf_image_segments(img, &n);

	for (size_t i = 0; i < n; i++) {
		const uint64_t start = s[i].va + s[i].file_bytes, end = s[i].va + s[i].mem_bytes;

		if (!s[i].writable || variable < start || variable >= end || end - start > BEAM_DATA_MAX)
			continue;
		f->data_start = (start + 7) & ~7ull;
		f->data_end = end & ~7ull;
	}
}

static bool is_complete(const struct beam_facts *f)
{
	return f->code_index && f->atom_table && f->normal_exit && f->frame_layout && !(f->code_index & 3) &&
	       !(f->atom_table & 7) && !(f->normal_exit & 7) && !(f->frame_layout & 3) && f->data_start &&
	       f->data_start < f->data_end && f->data_end - f->data_start <= BEAM_DATA_MAX &&
	       !(f->data_start & 7) && !(f->data_end & 7);
}

static void find_variables(struct beam_facts *f, const struct elf_image *img, const struct elf_definition *d)
{
	struct beam_facts found = *f;

	found.code_index = d[CODE_INDEX].va;
	found.atom_table = d[ATOM_TABLE].va;
	found.normal_exit = d[NORMAL_EXIT].va;
	found.frame_layout = d[FRAME_LAYOUT].va;
	find_data(&found, img, d[ATOM_TABLE].va);
	found.known = 1;
	if (f->release >= BEAM_RELEASE_MIN && f->release <= BEAM_RELEASE_MAX && is_complete(&found))
		*f = found;
}

int beam_facts_read(struct beam_facts *ret, struct elf_image *img)
{
	struct elf_definition d[DEFINITIONS] = {
		[RELEASE] = {.name = "etp_otp_release"},
		[JIT] = {.name = "etp_beamasm"},
		[CODE_INDEX] = {.name = "the_active_code_index"},
		[ATOM_TABLE] = {.name = "erts_atom_table"},
		[NORMAL_EXIT] = {.name = "beam_normal_exit"},
		[FRAME_LAYOUT] = {.name = "erts_frame_layout"},
	};
	int r = elf_definitions_find_dynamic(img, d, DEFINITIONS);
	char release[3] = {0};
	uint32_t jit = 0;

	memset(ret, 0, sizeof *ret);
	if (r < 0)
		return r;
	if (!d[RELEASE].found || !d[JIT].found || !read_variable(img, d[JIT].va, &jit, sizeof jit) ||
	    jit != 1 || !read_variable(img, d[RELEASE].va, release, sizeof release - 1))
		return -ENOENT;
	ret->release = (uint32_t)strtoul(release, NULL, 10);
	if (!ret->release)
		return -ENOENT;
	find_variables(ret, img, d);
	return 0;
}

bool beam_facts_valid(const struct beam_facts *f)
{
	const struct beam_facts none = {.release = f->release};

	if (!f->release || f->release > 99 || f->known > 1)
		return false;
	return f->known ? f->release >= BEAM_RELEASE_MIN && f->release <= BEAM_RELEASE_MAX && is_complete(f)
			: memcmp(f, &none, sizeof none) == 0;
}
