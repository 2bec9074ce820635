// SPDX-License-Identifier: Apache-2.0
/*
 * Where execution begins:
 *
 * - At the entry point of a program or of the dynamic loader (System V ABI, "Process Initialization"). The
 *   kernel jumps to it; above its stack pointer lie argc and argv. Its code calls a function that does not
 *   return, so it ends with that call, or with an instruction that does not continue.
 *
 * - Behind a system call clone or clone3 in the child, which has an empty stack. Where the child sets rbp to
 *   0 before it calls anything, as musl's does, it marks itself as the outermost frame. (A child that goes on
 *   in the frame of its parent, as after fork, does not.)
 *
 * - A coroutine of makecontext returns to the first byte of glibc's __start_context, which then switches to
 *   another stack. An unwinder looks up the byte before, which is padding: that byte gets the row.
 *
 * - The first function of a greenlet (Python's greenlet, gevent) runs on a stack of which only the part
 *   below it is the greenlet's own: what lies above changes whenever another greenlet runs. Its FDE says that
 *   it was called, which it was, by a greenlet that has gone on since.
 *
 * - A fiber of Boost.Context, whose code others use, too (PHP), returns to a label inside make_fcontext:
 *   xor edi, edi; call _exit; hlt. make_fcontext loads that address with `lea`.
 *
 * Threads and fibers are searched in code without call-frame information; where there is some, it says what
 * is outermost.
 */
#include "agent/elf/code/roots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/definition.h"

#define ROOT_BYTES_MAX 1024u /* of the code of one outermost frame */
#define ENTRY_INSNS 4	     /* by which an entry point is recognised */
#define CHUNK_BYTES (256u << 10)
#define CLONE_BEFORE 48	 /* bytes before a system call in which its number is loaded */
#define FIBER_BEFORE 256 /* bytes between make_fcontext's `lea` and its label */
#define ARM64_INSN 4

static const struct elf_rule root_rule = {
	.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}};

static int add_root(struct row_spans *spans, uint64_t start, uint64_t end, enum elf_source source)
{
	const size_t first = spans->out.n_rows;
	int r = cfi_output_add(&spans->out, 0, &root_rule);

	return r < 0 ? r : row_spans_add(spans, start, end, first, source);
}

/* --- the code of an outermost frame */

/*
 * The end of the code at `at`: behind an instruction that does not continue and over which no branch jumps,
 * or behind a call that is followed by padding or by the function that it calls.
 */
static size_t x86_code_end(const uint8_t *code, size_t n, size_t at)
{
	const size_t start = at, limit = n - at < ROOT_BYTES_MAX ? n : at + ROOT_BYTES_MAX;
	size_t furthest = at, stop = limit; /* target of a branch, of a call */

	while (at < stop) {
		const struct x86_insn insn = x86_decode(code + at, n - at);
		const int64_t target = (int64_t)at + insn.len + insn.disp;

		if (!insn.len)
			break;
		at += insn.len;
		if (insn.op == X86_CALL && target > (int64_t)start && target < (int64_t)stop)
			stop = (size_t)target;
		if ((insn.op == X86_BRANCH || insn.op == X86_JUMP) && target > (int64_t)furthest &&
		    target < (int64_t)stop)
			furthest = (size_t)target;
		if (furthest >= at)
			continue;
		if (insn.op == X86_JUMP || insn.op == X86_JUMP_FAR_AWAY || insn.op == X86_RETURN ||
		    insn.op == X86_TRAP ||
		    ((insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY) &&
		     x86_nops(code + at, (uint32_t)(n - at))))
			break;
	}
	return at < stop ? at : stop;
}

/*
 * Up to the first branch that always branches, `brk`, `udf` or `hlt`; or to a call directly behind another
 * one: of abort, should the first return.
 */
static size_t arm64_code_end(const uint8_t *code, size_t n, size_t at)
{
	const size_t limit = n - at < ROOT_BYTES_MAX ? n : at + ROOT_BYTES_MAX;
	bool called = false;

	while (limit - at >= ARM64_INSN) {
		uint32_t insn;

		memcpy(&insn, code + at, sizeof insn);
		at += ARM64_INSN;
		if ((called && insn >> 26 == 0x25) || insn >> 26 == 0x05 ||
		    (insn & 0xff9ffc1f) == 0xd61f0000 || insn >> 21 == 0x6a1 || insn >> 21 == 0x6a2 ||
		    insn >> 16 == 0)
			break;
		called = insn >> 26 == 0x25;
	}
	return at;
}

/* --- the entry point */

/* Whether the instructions use the stack pointer as a pointer to argc, or set rbp to 0. */
static bool x86_is_entry(const uint8_t *code, size_t n)
{
	size_t at = 0;

	for (int i = 0; i < ENTRY_INSNS && at < n; i++) {
		const struct x86_insn insn = x86_decode(code + at, n - at);

		if (!insn.len)
			return false;
		if (insn.op == X86_POP ||
		    (insn.op == X86_MOVE && insn.base == X86_SP && insn.reg != X86_BP) ||
		    (insn.op == X86_OTHER && insn.writes == 1u << X86_BP))
			return true;
		if (insn.op == X86_PUSH || insn.writes & 1u << X86_SP)
			return false;
		at += insn.len;
	}
	return false;
}

/* mov x29, #0, or mov x0, sp */
static bool arm64_is_entry(const uint8_t *code, size_t n)
{
	for (size_t at = 0; at + ARM64_INSN <= n && at < ENTRY_INSNS * ARM64_INSN; at += ARM64_INSN) {
		uint32_t insn;

		memcpy(&insn, code + at, sizeof insn);
		if (insn == 0xd280001d || insn == 0x910003e0)
			return true;
	}
	return false;
}

/* Linkers give shared libraries an entry point, too: the start of their code. It is not one. */
static bool is_entry(const struct elf_image *img, const uint8_t *code, size_t n)
{
	struct elf_segment unused;

	if (elf_image_type(img) == ET_EXEC || elf_image_program_header(img, PT_INTERP, &unused) == 0)
		return true;
	return elf_image_machine(img) == EM_X86_64 ? x86_is_entry(code, n) : arm64_is_entry(code, n);
}

static bool is_root_at(const struct row_spans *spans, const struct row_span *span, uint64_t va)
{
	const struct cfi_row *rows = spans->out.rows + span->first;
	const size_t i = array_first(span->n, k, rows[k].off > va - span->start);

	return i && spans->out.rules.rules[rows[i - 1].rule].cfa_kind == CFA_UNDEFINED;
}

/* The innermost span that covers `va`; spans->n: there is none. */
static size_t span_at(const struct row_spans *spans, uint64_t va)
{
	size_t found = spans->n;

	for (size_t i = 0; i < spans->n; i++) {
		const struct row_span *s = &spans->v[i];

		if (va >= s->start && va < s->end &&
		    (found == spans->n || s->source < spans->v[found].source ||
		     (s->source == spans->v[found].source && s->start > spans->v[found].start)))
			found = i;
	}
	return found;
}

/* The start of the first span behind `va`. */
static uint64_t next_span(const struct row_spans *spans, uint64_t va)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < spans->n; i++)
		if (spans->v[i].start > va && spans->v[i].start < next)
			next = spans->v[i].start;
	return next;
}

/* Code of the span that says that it was called, from `entry` to `end`, was not: it is `what`. */
static int override_span(struct row_spans *spans, size_t index, uint64_t entry, uint64_t end,
			 const char *what)
{
	struct row_span *span = &spans->v[index];
	const size_t first = spans->out.n_rows;
	int r;

	if (span->start != entry) /* a longer piece of assembly */
		r = add_root(spans, entry, end < span->end ? end : span->end, span->source);
	else if ((r = cfi_output_add(&spans->out, 0, &root_rule)) == 0) {
		span->first = (uint32_t)first;
		span->n = 1;
		end = span->end;
	}
	return r < 0 ? r : row_spans_note_override(spans, entry, end, what);
}

static int read_entry(struct row_spans *spans, const struct elf_image *img)
{
	const uint64_t entry = elf_image_entry(img);
	const struct elf_segment *segment = entry ? elf_image_segment_at(img, entry) : NULL;
	uint8_t code[ROOT_BYTES_MAX];
	uint64_t end, next;
	size_t n, span;

	if (!segment || !segment->executable)
		return 0;
	n = segment->va + segment->file_bytes - entry < sizeof code
		    ? segment->va + segment->file_bytes - entry
		    : sizeof code;
	if (elf_image_read_code(img, entry, code, n) < 0 || !is_entry(img, code, n))
		return 0;
	span = span_at(spans, entry);
	if (span < spans->n && is_root_at(spans, &spans->v[span], entry))
		return 0;
	end = entry +
	      (elf_image_machine(img) == EM_X86_64 ? x86_code_end(code, n, 0) : arm64_code_end(code, n, 0));
	if (span < spans->n)
		return override_span(spans, span, entry, end, "entry point");
	next = next_span(spans, entry);
	return add_root(spans, entry, end < next ? end : next, ELF_CODE);
}

/* --- coroutines of makecontext */

/* mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi: the whole function has this length */
#define START_CONTEXT_BYTES 26
static const uint8_t start_context[] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff};

static bool is_start_context(const struct elf_image *img, const struct row_span *span)
{
	uint8_t code[START_CONTEXT_BYTES];

	return span->end - span->start == START_CONTEXT_BYTES && span->n == 1 &&
	       elf_image_read_code(img, span->start, code, sizeof(code)) == 0 &&
	       memcmp(code, start_context, sizeof(start_context)) == 0;
}

static int read_context_root(struct row_spans *spans, const struct elf_image *img)
{
	for (size_t i = 0; i < spans->n; i++)
		if (is_start_context(img, &spans->v[i]))
			return add_root(spans, spans->v[i].start - 1, spans->v[i].start, ELF_CODE);
	return 0;
}

/* --- greenlets */

/* greenlet::UserGreenlet::inner_bootstrap, of greenlet 2, and from 3 on */
static const char *const greenlet_names[] = {
	("_ZN8greenlet12UserGreenlet15inner_bootstrapERNS_4refs14_OwnedGreenletI9_greenletXadL_ZNS1_"
	 "15GreenletCheckerEPvEEEERNS1_14OwnedReferenceI7_objectXadL_ZNS1_11NoOpCheckerES4_EEEE"),
	"_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object",
};

static int read_greenlet_root(struct row_spans *spans, struct elf_image *img)
{
	struct elf_definition d[ARRAY_SIZE(greenlet_names)] = {0};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		d[i].name = greenlet_names[i];
	r = elf_definitions_find_dynamic(img, d, ARRAY_SIZE(d));
	for (size_t i = 0; i < ARRAY_SIZE(d) && r == 0; i++) {
		size_t span = d[i].found && d[i].bytes ? span_at(spans, d[i].va) : spans->n;

		if (span < spans->n && spans->v[span].start == d[i].va)
			r = override_span(spans, span, d[i].va, d[i].va + d[i].bytes, "greenlet");
	}
	return r;
}

/* --- threads and fibers, in code without call-frame information */

static bool starts_with(const uint8_t *code, size_t n, size_t at, const void *bytes, size_t len)
{
	return at <= n && n - at >= len && memcmp(code + at, bytes, len) == 0;
}

/* Whether rax is set to the number of clone or clone3 shortly before the system call at `at`. */
static bool is_clone(const uint8_t *code, size_t n, size_t at)
{
	static const struct {
		const char *bytes;
		size_t len;
	} loads[] = {
		{"\xb0\x38", 2},		 /* mov $56,%al */
		{"\xb8\x38\x00\x00\x00", 5},	 /* mov $56,%eax */
		{"\xc7\xc0\x38\x00\x00\x00", 6}, /* mov $56,%rax */
		{"\x6a\x38\x58", 3},		 /* push $56; pop %rax */
		{"\xb8\xb3\x01\x00\x00", 5},	 /* mov $435,%eax */
		{"\xc7\xc0\xb3\x01\x00\x00", 6}, /* mov $435,%rax */
	};

	for (size_t i = at > CLONE_BEFORE ? at - CLONE_BEFORE : 0; i < at; i++)
		for (size_t k = 0; k < ARRAY_SIZE(loads); k++)
			if (starts_with(code, n, i, loads[k].bytes, loads[k].len))
				return true;
	return false;
}

/* The offset of the child's first instruction behind `test %eax,%eax` and a branch at `at`; 0: unknown. */
static size_t child_of(const uint8_t *code, size_t n, size_t at)
{
	struct x86_insn branch;
	int64_t target;
	uint8_t op;

	if (starts_with(code, n, at, "\x48\x85\xc0", 3))
		at++;
	if (!starts_with(code, n, at, "\x85\xc0", 2))
		return 0;
	at += 2;
	branch = x86_decode(code + at, n - at);
	if (!branch.len || branch.op != X86_BRANCH)
		return 0;
	op = code[at] == 0x0f ? code[at + 1] & 15 : code[at] & 15;
	target = (int64_t)at + branch.len + branch.disp;
	if (op == 4) /* je: to the child */
		return target > 0 && target < (int64_t)n ? (size_t)target : 0;
	return op == 5 ? at + branch.len : 0; /* jne: to the parent */
}

/* Whether the code at `at` sets rbp to 0 before it calls or jumps. */
static bool zeroes_frame_pointer(const uint8_t *code, size_t n, size_t at)
{
	for (int i = 0; i < ENTRY_INSNS && at < n; i++) {
		const struct x86_insn insn = x86_decode(code + at, n - at);
		const size_t op = insn.len > 1 ? at + insn.len - 2u : at; /* behind a prefix */

		if (!insn.len || insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY || insn.op == X86_JUMP)
			return false;
		if (insn.writes == 1u << X86_BP && insn.len <= 3 && (code[op] == 0x31 || code[op] == 0x33) &&
		    code[op + 1] == 0xed)
			return true;
		at += insn.len;
	}
	return false;
}

static int find_threads(struct row_spans *spans, uint64_t va, const uint8_t *code, size_t n)
{
	static const uint8_t syscall[] = {0x0f, 0x05};
	const uint8_t *found = code;
	int r = 0;

	while (r == 0 && (found = memmem(found, n - (size_t)(found - code), syscall, sizeof syscall))) {
		const size_t at = (size_t)(found - code);
		size_t child = 0;

		found += sizeof syscall;
		if (is_clone(code, n, at))
			child = child_of(code, n, at + sizeof syscall);
		if (child && zeroes_frame_pointer(code, n, child))
			r = add_root(spans, va + child, va + x86_code_end(code, n, child), ELF_CODE);
	}
	return r;
}

/* Whether a `lea` before `label` loads its address. */
static bool is_loaded(const uint8_t *code, size_t label)
{
	for (size_t i = label > FIBER_BEFORE ? label - FIBER_BEFORE : 0; i + 7 <= label; i++) {
		int32_t disp;

		if ((code[i] & 0xfb) != 0x48 || code[i + 1] != 0x8d || (code[i + 2] & 0xc7) != 0x05)
			continue;
		memcpy(&disp, code + i + 3, sizeof disp);
		if ((int64_t)i + 7 + disp == (int64_t)label)
			return true;
	}
	return false;
}

static int find_fibers(struct row_spans *spans, uint64_t va, const uint8_t *code, size_t n)
{
	static const uint8_t no_status[] = {0x31, 0xff}; /* xor %edi,%edi */
	const uint8_t *found = code;
	int r = 0;

	while (r == 0 && (found = memmem(found, n - (size_t)(found - code), no_status, sizeof no_status))) {
		const size_t at = (size_t)(found - code), label = at && found[-1] == 0x48 ? at - 1 : at;

		found += sizeof no_status;
		/* call; hlt */
		if (label && n - at > 7 && code[at + 2] == 0xe8 && code[at + 7] == 0xf4 &&
		    is_loaded(code, label))
			r = add_root(spans, va + label - 1, va + at + 8, ELF_CODE);
	}
	return r;
}

static int search_gap(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap,
		      void *data)
{
	const size_t most = gap->end - gap->start < CHUNK_BYTES ? gap->end - gap->start : CHUNK_BYTES;
	_cleanup_free_ uint8_t *code = malloc(most);
	int r = 0;

	(void)data;
	if (!code)
		return -ENOMEM;
	/* chunks overlap, so that nothing is cut */
	for (uint64_t at = gap->start; r == 0; at += most - ROOT_BYTES_MAX) {
		const size_t n = gap->end - at < most ? gap->end - at : most;

		if (elf_image_pread(img, gap->offset + (at - gap->start), code, n) < 0)
			return 0;
		r = find_threads(spans, at, code, n);
		if (r == 0)
			r = find_fibers(spans, at, code, n);
		if (at + n == gap->end)
			break;
	}
	return r;
}

int roots_read(struct row_spans *spans, struct elf_image *img, struct code_gaps *gaps)
{
	int r = read_entry(spans, img);

	if (r == 0)
		r = read_greenlet_root(spans, img);
	if (r < 0 || elf_image_machine(img) != EM_X86_64)
		return r;
	r = read_context_root(spans, img);
	return r < 0 ? r : code_gaps_visit(gaps, spans, img, search_gap, NULL);
}
