// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/beam.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

#define VARIABLES_MAX (16u << 20) /* bytes of .data in which the text is searched */
#define BANNER "Erlang/OTP "	  /* "Erlang/OTP 29%s [erts-17.1.1] [source] [64-bit] … [jit:ns%s]" */
#define BANNER_MAX 256u		  /* bytes of it */
#define BANNER_RELEASE_MAX 5u	  /* "29%s " */
#define TABLES_BYTES (3 * 32u)	  /* the smallest range of variables that can have tables of modules */

enum { RELEASE, JIT, CODE_INDEX, ATOM_TABLE, NORMAL_EXIT, FRAME_LAYOUT, NIF, DRIVER, DEFINITIONS };

/* The bytes of a variable in the file. False: they are not there. */
static bool read_variable(const struct elf_image *img, uint64_t va, void *to, size_t n)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	return s && elf_image_pread(img, s->offset + (va - s->va), to, n) == 0;
}

/* The part of the segment with that variable (0: of any) which has no bytes in the file. */
static void find_data(struct beam_facts *f, const struct elf_image *img, uint64_t variable)
{
	size_t n;
	const struct elf_segment *s = elf_image_segments(img, &n);

	for (size_t i = 0; i < n; i++) {
		const uint64_t start = s[i].va + s[i].file_bytes, end = s[i].va + s[i].mem_bytes;

		if (!s[i].writable || end < start + TABLES_BYTES || end - start > BEAM_DATA_MAX)
			continue;
		if (variable && (variable < start || variable >= end))
			continue;
		f->data_start = (start + 7) & ~7ull;
		f->data_end = end & ~7ull;
	}
}

static bool has_data(const struct beam_facts *f)
{
	return f->data_start && f->data_start < f->data_end && f->data_end - f->data_start <= BEAM_DATA_MAX &&
	       !(f->data_start & 7) && !(f->data_end & 7);
}

static bool is_complete(const struct beam_facts *f)
{
	if (f->release < BEAM_RELEASE_MIN || f->release > BEAM_RELEASE_MAX || !has_data(f))
		return false;
	if (f->known == BEAM_SHAPE)
		return !f->code_index && !f->atom_table && !f->normal_exit && !f->frame_layout;
	return f->code_index && f->atom_table && f->normal_exit && f->frame_layout && !(f->code_index & 3) &&
	       !(f->atom_table & 7) && !(f->normal_exit & 7) && !(f->frame_layout & 3);
}

static void find_variables(struct beam_facts *f, const struct elf_image *img, const struct elf_definition *d)
{
	struct beam_facts found = *f;

	found.code_index = d[CODE_INDEX].va;
	found.atom_table = d[ATOM_TABLE].va;
	found.normal_exit = d[NORMAL_EXIT].va;
	found.frame_layout = d[FRAME_LAYOUT].va;
	found.known = BEAM_EXPORTED;
	if (!d[CODE_INDEX].found || !d[ATOM_TABLE].found || !d[NORMAL_EXIT].found || !d[FRAME_LAYOUT].found) {
		found = *f;
		found.known = BEAM_SHAPE;
	}
	find_data(&found, img, found.atom_table);
	if (is_complete(&found))
		*f = found;
}

/* The release by the text that a shell begins with. 0: there is none, or the machine has no JIT. */
static uint32_t release_by_text(struct elf_image *img)
{
	char text[BANNER_MAX + 1] = {0}, *end;
	struct elf_section section;
	struct elf_data data;
	const uint8_t *at;
	uint32_t release;

	if (elf_image_find_section(img, ".data", &section) < 0 || section.bytes > VARIABLES_MAX ||
	    elf_image_section(img, ".data", &data) < 0)
		return 0;
	for (at = data.bytes;
	     (at = memmem(at, (size_t)(data.bytes + data.len - at), BANNER, strlen(BANNER)));) {
		const size_t left = (size_t)(data.bytes + data.len - (at += strlen(BANNER)));
		const char *erts;

		memcpy(text, at, left < BANNER_MAX ? left : BANNER_MAX);
		release = (uint32_t)strtoul(text, &end, 10);
		erts = strstr(text, "[erts-");
		if (release && erts && erts <= end + BANNER_RELEASE_MAX && strstr(erts, "[jit"))
			return release;
	}
	return 0;
}

/* The release of OTP, if the file is a machine with a JIT. 0: it is not. */
static uint32_t find_release(struct elf_image *img, const struct elf_definition *d)
{
	char release[3] = {0};
	uint32_t jit = 0;

	if (!d[RELEASE].found || !d[JIT].found)
		return d[NIF].found && d[DRIVER].found ? release_by_text(img) : 0;
	if (!read_variable(img, d[JIT].va, &jit, sizeof jit) || jit != 1 ||
	    !read_variable(img, d[RELEASE].va, release, sizeof release - 1))
		return 0;
	return (uint32_t)strtoul(release, NULL, 10);
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
		[NIF] = {.name = "enif_schedule_nif"},
		[DRIVER] = {.name = "driver_output_term"},
	};
	int r = elf_definitions_find_dynamic(img, d, DEFINITIONS);

	memset(ret, 0, sizeof *ret);
	if (r < 0)
		return r;
	ret->release = find_release(img, d);
	if (!ret->release)
		return -ENOENT;
	find_variables(ret, img, d);
	return 0;
}

bool beam_facts_valid(const struct beam_facts *f)
{
	const struct beam_facts none = {.release = f->release};

	if (!f->release || f->release > 99 || f->known > BEAM_SHAPE)
		return false;
	return f->known ? is_complete(f) : memcmp(f, &none, sizeof none) == 0;
}
