// SPDX-License-Identifier: Apache-2.0
/*
 * decoder_equality: decodes the code of ELF files, or random bytes, with proflet's decoder and with Zydis,
 * and counts where they differ, by Zydis' names of the instructions.
 *
 * Of a file, the code that has rows is decoded, from the beginning of a row on, so that both begin where an
 * instruction begins; behind one that either refuses, from the next row on.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "tests/oracle/decoder/compare.h"

#define RANGE_MAX (64u << 20)
#define CLASSES_MAX 4096u

static const char *const texts[COMPARE_OUTCOMES_N] = {
#define X(name, text, defect) text,
	COMPARE_OUTCOMES(X)
#undef X
};

static const bool defects[COMPARE_OUTCOMES_N] = {
#define X(name, text, defect) defect,
	COMPARE_OUTCOMES(X)
#undef X
};

/* Instructions alike, with the first of them. */
struct class
{
	const char *mnemonic; /* of Zydis; for what it refuses, the map and opcode are the class */
	unsigned map_opcode;
	uint64_t n;
	struct compared first;
	uint8_t bytes[X86_MAX_BYTES];
};

struct totals {
	uint64_t n[COMPARE_OUTCOMES_N];
	struct class *classes[COMPARE_OUTCOMES_N]; /* owned */
	size_t n_classes[COMPARE_OUTCOMES_N];
};

static void totals_fini(struct totals *t)
{
	for (int i = 0; i < COMPARE_OUTCOMES_N; i++)
		free(t->classes[i]);
}

/* Map and opcode behind the prefixes, as a class of what has no name. */
static unsigned map_opcode(const uint8_t *code, size_t n)
{
	size_t at = 0;

	while (at < n &&
	       (strchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0", code[at]) ||
		(code[at] & 0xf0) == 0x40) &&
	       code[at])
		at++;
	if (at + 3 >= n)
		return 0;
	switch (code[at]) {
	case 0x0f:
		return code[at + 1] == 0x38 || code[at + 1] == 0x3a
			       ? 0x0f0000u | (unsigned)code[at + 1] << 8 | code[at + 2]
			       : 0x0f00u | code[at + 1];
	case 0xc4:
	case 0xc5:
	case 0x62:
	case 0x8f:
		return (unsigned)code[at] << 8;
	default:
		return code[at];
	}
}

static void note(struct totals *t, const struct compared *c, const uint8_t *code, size_t n)
{
	const unsigned key = c->len ? 0 : map_opcode(code, n);
	size_t i = 0;

	t->n[c->outcome]++;
	if (c->outcome == COMPARE_SAME || c->outcome == COMPARE_NEITHER)
		return;
	while (i < t->n_classes[c->outcome] &&
	       (strcmp(t->classes[c->outcome][i].mnemonic, c->mnemonic) != 0 ||
		t->classes[c->outcome][i].map_opcode != key))
		i++;
	if (i == CLASSES_MAX)
		return;
	if (!t->classes[c->outcome])
		t->classes[c->outcome] = calloc(CLASSES_MAX, sizeof **t->classes);
	if (!t->classes[c->outcome])
		abort();
	if (i == t->n_classes[c->outcome]) {
		struct class *new = &t->classes[c->outcome][t->n_classes[c->outcome]++];

		*new = (struct class){.mnemonic = c->mnemonic, .map_opcode = key, .first = *c};
		memcpy(new->bytes, code, n < sizeof new->bytes ? n : sizeof new->bytes);
	}
	t->classes[c->outcome][i].n++;
}

static int by_count(const void *a, const void *b)
{
	const struct class *x = a, *y = b;

	return (x->n < y->n) - (x->n > y->n);
}

static void print_class(const struct class *c)
{
	const struct compared *f = &c->first;
	const unsigned shown = f->len > f->ours.len ? f->len : f->ours.len;

	printf("  %10lu  ", (unsigned long)c->n);
	if (f->len)
		printf("%-12s", c->mnemonic);
	else
		printf("opcode %-5x", c->map_opcode);
	for (unsigned i = 0; i < shown && i < sizeof c->bytes; i++)
		printf(" %02x", c->bytes[i]);
	printf("   length %u/%u, ours op %u reg %#x base %#x disp %d writes %#x, Zydis writes %#x\n",
	       f->ours.len, f->len, f->ours.op, f->ours.reg, f->ours.base, f->ours.disp, f->ours.writes,
	       f->written);
}

/* Returns how many defects there are. */
static uint64_t report(struct totals *t, unsigned show)
{
	uint64_t wrong = 0;

	for (int i = 0; i < COMPARE_OUTCOMES_N; i++) {
		printf("# %lu %s\n", (unsigned long)t->n[i], texts[i]);
		wrong += defects[i] ? t->n[i] : 0;
		if (t->n_classes[i])
			qsort(t->classes[i], t->n_classes[i], sizeof **t->classes, by_count);
		for (size_t k = 0; k < t->n_classes[i] && k < (defects[i] ? 100 : show); k++)
			print_class(&t->classes[i][k]);
	}
	return wrong;
}

/* --- files */

static void decode_range(struct totals *t, const ZydisDecoder *decoder, const uint8_t *code, size_t n)
{
	for (size_t at = 0; at < n;) {
		const struct compared c = compare(decoder, code + at, n - at);

		note(t, &c, code + at, n - at);
		if (!c.len || c.len != c.ours.len)
			return;
		at += c.len;
	}
}

static int decode_file(struct totals *t, const ZydisDecoder *decoder, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *img = NULL;
	struct elf_rows *rows = NULL;
	int r = fd < 0 ? -errno : elf_image_open(&img, fd);

	if (r == 0)
		r = elf_image_machine(img) == EM_X86_64 ? elf_rows_build(&rows, img) : -ENOTSUP;
	for (size_t i = 0; r == 0 && i + 1 < rows->n_rows; i++) {
		const uint64_t n = rows->rows[i + 1].va - rows->rows[i].va;
		_cleanup_free_ uint8_t *code = NULL;

		if (rows->rules[rows->rows[i].rule].cfa_kind == CFA_NONE || n > RANGE_MAX)
			continue;
		code = malloc(n);
		if (!code)
			r = -ENOMEM;
		else if (elf_image_read_code(img, rows->rows[i].va, code, n) == 0)
			decode_range(t, decoder, code, n);
	}
	elf_rows_free(rows);
	elf_image_free(img);
	return r;
}

/* --- random bytes */

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * 0x2545f4914f6cdd1dull;
}

/* Random bytes, half of them behind a usual beginning, else most would be refused or be of the first map. */
static void decode_random(struct totals *t, const ZydisDecoder *decoder, uint64_t n, uint64_t seed)
{
	static const char *const begin[] = {
		"",	    "",		"\x48",	    "\x0f",	    "\x66\x0f",	    "\xf3\x0f",
		"\xf2\x0f", "\x0f\x38", "\x0f\x3a", "\x66\x0f\x38", "\x66\x0f\x3a", "\xc5",
		"\xc4\xe1", "\xc4\xe2", "\xc4\xe3", "\x62\xf1",	    "\x62\xf2",	    "\x62\xf3",
		"\x49",	    "\x66\x48", "\x8f\xe9", "\x64"};
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	while (n--) {
		uint8_t code[X86_MAX_BYTES];
		const char *from = begin[next(&x) % ARRAY_SIZE(begin)];
		const size_t len = strlen(from);
		struct compared c;

		for (size_t i = 0; i < sizeof code; i++)
			code[i] = i < len ? (uint8_t)from[i] : (uint8_t)(next(&x) >> 32);
		c = compare(decoder, code, sizeof code);
		note(t, &c, code, sizeof code);
	}
}

static int usage(int code)
{
	printf("usage: decoder_equality [--show N] [--random N [--seed N]] FILE...\n\n"
	       "Compares proflet's decoder of x86-64 instructions with Zydis, over the code of ELF files or "
	       "over N\n"
	       "random instructions. --show: the N most frequent kinds of each difference that is no defect "
	       "(5).\n"
	       "Exit 0: no defect; 1: another length, operation or number, or a register that changes "
	       "unsaid.\n");
	return code;
}

int main(int argc, char **argv)
{
	_cleanup_(totals_fini) struct totals t = {0};
	ZydisDecoder decoder;
	uint64_t random = 0, seed = 1;
	unsigned show = 5, files = 0;
	int i = 1;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		if (strcmp(argv[i], "--help") == 0)
			return usage(0);
		if (i + 1 == argc)
			return usage(2);
		if (strcmp(argv[i], "--show") == 0)
			show = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--random") == 0)
			random = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 10);
		else
			return usage(2);
	}
	if (i == argc && !random)
		return usage(2);
	compare_init(&decoder);
	decode_random(&t, &decoder, random, seed);
	for (; i < argc; i++)
		files += decode_file(&t, &decoder, argv[i]) == 0;
	printf("# %u files, %lu random\n", files, (unsigned long)random);
	return report(&t, show) ? 1 : 0;
}
