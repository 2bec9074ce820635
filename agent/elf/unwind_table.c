// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/unwind_table.h"

#include <elf.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/bolt.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/haskell.h"
#include "agent/elf/code/known_code.h"
#include "agent/elf/code/roots.h"
#include "agent/elf/cfi/ehindex.h"
#include "agent/elf/cfi/fde_reader.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/go/gorows.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/override.h"

#define _cleanup_row_spans_ _cleanup_(row_spans_fini)
#define _cleanup_eh_index_ _cleanup_(eh_index_fini)

static int read_eh_frame(struct row_spans *spans, struct elf_image *img)
{
	_cleanup_eh_index_ struct eh_index index = {0};
	struct cfi_section s;
	int r = frame_section_eh(img, &s);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	const struct elf_data data = {s.bytes, s.len, s.bases.section};
	r = eh_index_read(&index, img, &data);
	if (r < 0)
		return r;
	s.index = &index;
	return fdes_read(spans, &s);
}

static int read_debug_frame(struct row_spans *spans, struct elf_image *img)
{
	struct cfi_section s;
	int r = frame_section_debug(img, &s);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return fdes_read(spans, &s);
}

/* An error in a separate debug file is ignored: the rows of the binary itself are still valid. */
static int read_debug_file(struct row_spans *spans, struct elf_image *debug, uint64_t delta)
{
	struct cfi_section s;
	int r = frame_section_debug(debug, &s);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	s.separate = true;
	s.delta = delta;
	return fdes_read(spans, &s);
}

int elf_rows_build(struct elf_rows **ret, struct elf_image *img)
{
	return elf_rows_build_with(ret, img, NULL, 0);
}

int elf_rows_build_with(struct elf_rows **ret, struct elf_image *img, struct elf_image *debug, uint64_t delta)
{
	_cleanup_row_spans_ struct row_spans spans = {0};
	_cleanup_(code_gaps_fini) struct code_gaps gaps = {0};
	uint64_t begin_ns = clock_mono_ns();
	const struct elf_segment *segments;
	size_t n_segments;
	int r;

	if (!elf_arch(elf_image_machine(img)))
		return -ENOTSUP;
	segments = elf_image_segments(img, &n_segments);
	r = row_spans_init(&spans, segments, n_segments);
	if (r < 0)
		return r;
	r = read_eh_frame(&spans, img);
	if (r < 0)
		return r;
	r = gorows_read(&spans, img);
	if (r < 0)
		return r;
	/* Go's linker generates .debug_frame from the function table */
	if (spans.n_functions == 0 || spans.n_fdes > 0)
		r = read_debug_frame(&spans, img);
	if (r == 0 && debug)
		r = read_debug_file(&spans, debug, delta);
	if (r == 0)
		r = override_apply(&spans, img, override_list, override_list_n);
	if (r == 0)
		r = bolt_repair(&spans, img);
	if (r == 0)
		r = known_code_read(&spans, img);
	if (r == 0)
		r = roots_read(&spans, img, &gaps);
	if (r == 0)
		r = haskell_read(&spans, img, &gaps);
	if (r == 0)
		r = asmrows_read(&spans, img, &gaps);
	if (r < 0)
		return r;
	r = row_spans_lay_out(&spans, ret);
	if (r < 0)
		return r;
	(*ret)->text_bytes = code_bytes(img);
	(*ret)->build_ns = clock_mono_ns() - begin_ns;
	return 0;
}
