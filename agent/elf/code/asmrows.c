// SPDX-License-Identifier: Apache-2.0
/*
 * Some code has no call-frame information: assembly (codecs, the start-up code of the C compiler, embedded
 * interpreters), and whole programs that were compiled without (musl, busybox, Free Pascal). There, only the
 * instructions show the frames. The code is analysed in pieces (sweep.h), whose states become rows here.
 */
#include "agent/elf/code/asmrows.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/cfi/row_rule.h"
#include "agent/elf/code/a64_rows.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/starts.h"
#include "agent/elf/code/sweep.h"
#include "agent/elf/code/v8_blob.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/elf_image.h"

struct analysed {
	const struct code_piece *piece;
	struct code_sweep *sweep; /* owned */
};

static bool is_known(const struct analysed *c, uint32_t off)
{
	return code_sweep_insn(c->sweep, off, NULL);
}

/*
 * Where the frame is lost, neither rsp nor rbp leads to it: what the frame pointer leads to is the frame of
 * another function.
 */
static struct elf_rule rule_of(const struct flow_state *state)
{
	return state ? flow_rule(state) : (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
}

/* Writes consecutive known instructions from *off on as one span, and moves *off behind them. */
static int emit_known(struct row_spans *spans, const struct analysed *c, uint32_t *off)
{
	const uint32_t start = *off;
	const size_t first = spans->out.n_rows;
	const struct flow_state *state, *last = NULL;
	unsigned len;
	int r = 0;

	for (; r == 0 && (len = code_sweep_insn(c->sweep, *off, &state)); *off += len) {
		if (state != last || *off == start) {
			const struct elf_rule rule = rule_of(state);

			r = cfi_output_add(&spans->out, *off - start, &rule);
		}
		last = state;
	}
	return r < 0 ? r : row_spans_add(spans, c->piece->va + start, c->piece->va + *off, first, ELF_CODE);
}

/*
 * Writes the span of a trampoline of `len` bytes at *off. A signal handler returns to its first byte, and an
 * unwinder looks up the byte before. That is padding, and the span includes it unless it is covered (up to
 * the offset `covered`).
 */
static int emit_trampoline(struct row_spans *spans, const struct analysed *c, uint32_t *off, uint32_t len,
			   uint32_t covered)
{
	const uint32_t start = *off > covered ? *off - 1 : *off;
	const size_t first = spans->out.n_rows;
	int r = cfi_output_add(&spans->out, 0, &row_rule_x86_signal);

	*off += len;
	return r < 0 ? r : row_spans_add(spans, c->piece->va + start, c->piece->va + *off, first, ELF_CODE);
}

/*
 * Writes a span that says that the code from *off on is not known, and moves *off behind it. It is short:
 * else it would be taken for padding, and for a part of what is before it.
 */
static int emit_unknown(struct row_spans *spans, const struct analysed *c, uint32_t *off)
{
	const uint32_t start = *off;
	const size_t first = spans->out.n_rows;
	int r;

	while (*off < c->piece->n && !is_known(c, *off) && !code_sweep_is_covered(c->sweep, *off) &&
	       !x86_sigreturn(c->piece->code + *off, c->piece->n - *off))
		++*off;
	if (*off - start >= ELF_GAP_MIN)
		return 0;
	r = cfi_output_add_index(&spans->out, 0, 0);
	return r < 0 ? r : row_spans_add(spans, c->piece->va + start, c->piece->va + *off, first, ELF_CODE);
}

/* Behind the padding at `off`, which ends where something is known. */
static uint32_t behind_padding(const struct analysed *c, uint32_t off)
{
	const uint32_t end = x86_padding(c->piece->code, c->piece->n, off);

	while (off < end && !is_known(c, off) && !code_sweep_is_covered(c->sweep, off))
		off++;
	return off;
}

static int emit(struct row_spans *spans, const struct analysed *c)
{
	uint32_t off = 0, written = 0, len;
	int r = 0;

	while (off < c->piece->n && r == 0) {
		uint32_t padded;

		if (code_sweep_is_covered(c->sweep, off)) {
			written = ++off;
		} else if (is_known(c, off)) {
			r = emit_known(spans, c, &off);
			written = off;
		} else if ((len = x86_sigreturn(c->piece->code + off, c->piece->n - off))) {
			r = emit_trampoline(spans, c, &off, len, written);
			written = off;
		} else if ((padded = behind_padding(c, off)) > off) {
			off = padded;
		} else {
			r = emit_unknown(spans, c, &off);
			written = off;
		}
	}
	return r;
}

static void observe(const struct analysed *c)
{
	const struct code_observer *o = c->piece->observer;
	const struct flow_state *state;
	unsigned len;

	for (uint32_t off = 0; off < c->piece->n; off++)
		if ((len = code_sweep_insn(c->sweep, off, &state)) && state)
			o->instruction(c->piece->va + off, len, state, o->data);
}

int asmrows_read_piece(struct row_spans *spans, const struct code_piece *piece)
{
	struct analysed c = {.piece = piece};
	int r;

	if (x86_padding(piece->code, piece->n, 0) == piece->n)
		return 0;
	r = code_sweep_new(&c.sweep, piece, spans);
	if (r < 0)
		return r;
	if (piece->observer)
		observe(&c);
	r = emit(spans, &c);
	code_sweep_free(c.sweep);
	return r;
}

/*
 * Padding behind a span gets the rule of its last row: some functions continue through it into the next one
 * (checking variants in glibc).
 */
static int read_padding(struct row_spans *spans, const struct row_span *before, uint64_t va,
			const uint8_t *code, uint32_t n)
{
	const uint32_t end = x86_nops(code, n), rule = spans->out.rows[before->first + before->n - 1].rule;
	const size_t first = spans->out.n_rows;
	int r;

	if (end < ELF_GAP_MIN || x86_sigreturn(code + end, n - end))
		return 0;
	r = cfi_output_add_index(&spans->out, 0, rule);
	return r < 0 ? r : row_spans_add(spans, va, va + end, first, ELF_CODE);
}

/*
 * Of CPU time, for one file. A table job that takes 4 s is not waited for, and one that takes 5 is ended: the
 * file's own call-frame information would be lost with the rest of the analysis.
 */
#define ANALYSIS_CPU_NS 2500000000ull
#define CLOCK_BYTES \
	(64u << 10) /* of code, after which the clock is read: that takes as long as a small gap */

struct range_options {
	int (*read_piece)(struct row_spans *spans, const struct code_piece *piece);
	const struct code_starts *starts, *symbols; /* NULL: none are known */
	const struct code_observer *observer;
	uint64_t until_ns;  /* as of a piece */
	uint64_t unchecked; /* bytes that were analysed since the clock was read */
	bool late;
};

static bool is_late(struct range_options *o)
{
	if (o->until_ns && o->unchecked >= CLOCK_BYTES) {
		o->late |= clock_thread_cpu_ns() > o->until_ns;
		o->unchecked = 0;
	}
	return o->late;
}

static int read_range(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap,
		      void *data)
{
	struct range_options *o = data;
	struct code_piece piece = {.img = img,
				   .starts = o->starts,
				   .symbols = o->symbols,
				   .observer = o->observer,
				   .until_ns = o->until_ns};
	int r = 0;

	for (uint64_t at = gap->start; at < gap->end && r == 0; at += piece.n) {
		_cleanup_free_ uint8_t *code = NULL;

		if (is_late(o))
			return 0;
		piece.va = at;
		piece.before = at - gap->start;
		piece.n = gap->end - at < ASM_PIECE_BYTES ? (uint32_t)(gap->end - at) : ASM_PIECE_BYTES;
		piece.behind = gap->end - at - piece.n;
		piece.code = code = malloc(piece.n);
		if (!code)
			return -ENOMEM;
		if (elf_image_pread(img, gap->offset + (at - gap->start), code, piece.n) < 0)
			return 0;
		if (at == gap->start && gap->before.n && o->read_piece == asmrows_read_piece)
			r = read_padding(spans, &gap->before, at, code, piece.n);
		if (r == 0)
			r = o->read_piece(spans, &piece);
		o->unchecked += piece.n;
	}
	return r;
}

/* Whether a substantial part of the code has no rows. */
static bool is_needed(const struct row_spans *spans, const struct elf_image *img)
{
	uint64_t covered = 0, text = code_bytes(img);

	for (size_t i = 0; i < spans->n; i++)
		covered += spans->v[i].end - spans->v[i].start;
	return covered < text - text / 8;
}

/* What analyses the code of this machine; NULL: nothing does. */
static int (*reader_of(const struct elf_image *img))(struct row_spans *spans, const struct code_piece *piece)
{
	switch (elf_image_machine(img)) {
	case EM_X86_64:
		return asmrows_read_piece;
	case EM_AARCH64:
		return a64_read_piece;
	default:
		return NULL;
	}
}

/* All code, with what is known of functions. */
static int read_all(struct row_spans *spans, const struct elf_image *img, struct range_options *o)
{
	_cleanup_(code_starts_fini) struct code_starts starts = {0};
	int r = code_starts_read(&starts, img, spans);

	o->starts = &starts;
	return r < 0 ? r : code_ranges_visit(spans, img, read_range, o);
}

/* Only the code that has no rows. */
static int read_gaps(struct row_spans *spans, const struct elf_image *img, struct code_gaps *gaps,
		     struct range_options *o)
{
	_cleanup_(code_starts_fini) struct code_starts symbols = {0};
	int r = code_gaps_find(gaps, spans, img);

	if (r == 0 && gaps->n && !spans->n_functions) /* Go has one of each of its own */
		r = code_starts_read_symbols(&symbols, img, gaps->v, gaps->n);
	if (r == 0 && gaps->n && !spans->n_functions)
		r = v8_blob_read_starts(&symbols, img, gaps->v, gaps->n, o->until_ns);
	o->symbols = &symbols;
	return r < 0 ? r : code_gaps_visit(gaps, spans, img, read_range, o);
}

int asmrows_read(struct row_spans *spans, const struct elf_image *img, struct code_gaps *gaps)
{
	struct range_options o = {.read_piece = reader_of(img),
				  .until_ns = clock_thread_cpu_ns() + ANALYSIS_CPU_NS};
	int r;

	if (!o.read_piece)
		return 0;
	r = is_needed(spans, img) && !spans->n_functions ? read_all(spans, img, &o)
							 : read_gaps(spans, img, gaps, &o);
	o.unchecked = CLOCK_BYTES;
	if (r == 0 && is_late(&o))
		row_spans_skip_part(spans, ELF_CODE, 0, "its analysis takes too long");
	return r;
}

int asmrows_observe(const struct elf_image *img, const struct code_observer *observer)
{
	struct range_options o = {.read_piece = reader_of(img), .observer = observer};
	_cleanup_(row_spans_fini) struct row_spans spans = {0};
	const struct elf_segment *segments;
	size_t n;
	int r;

	segments = elf_image_segments(img, &n);
	r = row_spans_init(&spans, segments, n);
	return r < 0 ? r : read_all(&spans, img, &o);
}
