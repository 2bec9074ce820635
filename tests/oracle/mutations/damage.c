// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/mutations/damage.h"

#include "agent/base/cleanup.h"

#define HEAD_BYTES 16 /* bytes of the head of an FDE: length, CIE pointer, start, range */

/* splitmix64 */
static uint64_t next_random(uint64_t *random)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t below(uint64_t *random, uint64_t n)
{
	return n ? next_random(random) % n : 0;
}

static void flip(uint64_t *random, struct target *t, struct range r)
{
	uint64_t at = r.offset + below(random, r.len);

	if (r.len && at < t->len)
		target_patch(t, at, t->bytes[at] ^ (uint8_t)(1u << below(random, 8)));
}

/* Writes a number that often causes trouble. */
static void put_u32(uint64_t *random, struct target *t, uint64_t at)
{
	static const uint32_t values[] = {0, 1, 3, 4, 7, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
	uint64_t pick = below(random, 2 * ARRAY_SIZE(values));
	uint32_t value = pick < ARRAY_SIZE(values) ? values[pick] : (uint32_t)below(random, 0x1000);

	for (unsigned i = 0; i < sizeof(value); i++)
		target_patch(t, at + i, (uint8_t)(value >> 8 * i));
}

static const char *const sections[] = {".eh_frame",
				       ".eh_frame_hdr",
				       ".debug_frame",
				       ".gopclntab",
				       ".symtab",
				       ".strtab",
				       ".dynsym",
				       ".dynstr",
				       ".rela.plt",
				       ".plt",
				       ".text",
				       ".go.buildinfo",
				       ".note.gnu.build-id",
				       ".shstrtab"};

static void damage_section(uint64_t *random, struct target *t)
{
	struct range present[ARRAY_SIZE(sections)], r;
	uint64_t n = 0, va;

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		if (target_section(t, sections[i], &r, &va))
			present[n++] = r;
	}
	r = n ? present[below(random, n)] : (struct range){0, t->len};
	for (uint64_t i = 1 + below(random, 4); i > 0; i--) {
		if (below(random, 3) == 0)
			put_u32(random, t, r.offset + below(random, r.len));
		else
			flip(random, t, r);
	}
}

static void damage_headers(uint64_t *random, struct target *t)
{
	const struct range headers[] = {{0, sizeof(Elf64_Ehdr)}, target_phdrs(t), target_shdrs(t)};
	struct range r = headers[below(random, ARRAY_SIZE(headers))];

	if (r.len == 0)
		r = headers[0];
	for (uint64_t i = 1 + below(random, 3); i > 0; i--) {
		if (below(random, 2))
			flip(random, t, r);
		else
			put_u32(random, t, r.offset + below(random, r.len) / 4 * 4);
	}
}

/* Truncates the file at a random place, or at or near the end of a header or section. */
static void cut(uint64_t *random, struct target *t)
{
	struct range r;
	uint64_t va, at = below(random, t->len);

	if (below(random, 2) && target_section(t, sections[below(random, ARRAY_SIZE(sections))], &r, &va))
		at = r.offset + (below(random, 2) ? r.len : below(random, r.len));
	else if (below(random, 4) == 0)
		at = below(random, 2) ? below(random, 4096) : target_shdrs(t).offset + below(random, 256);
	target_cut(t, at + below(random, 3));
}

/*
 * Damages one FDE: any byte, or one of its first four words. Without a search table, only the head of an FDE
 * says where the next one begins and which function it describes; then only bytes behind the head are
 * damaged. Returns the index of the FDE.
 */
static size_t damage_fde(uint64_t *random, struct subject *s)
{
	size_t i = below(random, s->fdes.n);
	const struct fde_place *p = &s->fdes.v[i];
	uint64_t skip = s->indexed ? 0 : HEAD_BYTES;

	if (skip >= p->len)
		return i;
	if (s->indexed && below(random, 2))
		put_u32(random, &s->target, p->at + 4 * below(random, 4));
	else
		flip(random, &s->target, (struct range){p->at + skip, p->len - skip});
	return i;
}

static const char *const kind_names[] = {"headers", "section", "cut", "one FDE", "search table", "anywhere"};

static enum damage_kind damage(uint64_t *random, struct subject *s, size_t *ret_fde)
{
	enum damage_kind kind = (enum damage_kind)below(random, KINDS);
	struct range hdr;
	uint64_t va;

	*ret_fde = SIZE_MAX;
	if (kind == ONE_FDE && s->fdes.n == 0)
		kind = SECTION;
	if (kind == INDEX && (!s->indexed || !target_section(&s->target, ".eh_frame_hdr", &hdr, &va)))
		kind = ANYWHERE;
	switch (kind) {
	case HEADERS:
		damage_headers(random, &s->target);
		break;
	case SECTION:
		damage_section(random, &s->target);
		break;
	case CUT:
		cut(random, &s->target);
		break;
	case ONE_FDE:
		*ret_fde = damage_fde(random, s);
		break;
	case INDEX:
		flip(random, &s->target, hdr);
		*ret_fde = s->fdes.n ? s->fdes.n : SIZE_MAX;
		break;
	default:
		for (uint64_t i = 1 + below(random, PATCHES_MAX - 1); i > 0; i--)
			flip(random, &s->target, (struct range){0, s->target.len});
	}
	return kind;
}

const char *damage_kind_name(enum damage_kind kind)
{
	return kind_names[kind];
}

enum damage_kind damage_make(struct subject *subjects, int n, uint64_t seed, uint64_t number,
			     struct subject **ret, size_t *ret_fde)
{
	uint64_t random = seed * 0x2545f4914f6cdd1dull + number * 0x632be59bd9b4e019ull;

	*ret = &subjects[below(&random, (uint64_t)n)];
	return damage(&random, *ret, ret_fde);
}
