// SPDX-License-Identifier: Apache-2.0
/* The distinct rules of a table, each with an index in the order of first use. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_RULESET_H
#define PROFLET_ELF_RULESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include "agent/elf/cfi/rule.h"

#define RULES_MAX (1u << 20) /* of one file; the largest real files have some thousands */
#define RULE_FAMILIES 64     /* a power of two */
#define RULE_FAMILY_OFFSETS 64
#define RULE_FAMILY_SAVED 8 /* a power of two */

/* Rules with a CFA of register + offset that differ in this offset only, as most rows of one function do. */
struct rule_family {
	struct elf_rule rule; /* cfa_off is 0 */
	bool used;
	/*
	 * the family after the frame pointer is saved: by (CFA offset / 8) modulo the array's length; NULL:
	 * not looked up yet
	 */
	struct rule_family *fp_saved[RULE_FAMILY_SAVED];
	uint32_t known[RULE_FAMILY_OFFSETS]; /* index of the rule with offset 8 * i; 0: not looked up yet */
};

struct ruleset {
	struct elf_rule *rules; /* owned, as are all below */
	uint32_t *slots;	/* hash table: index + 1, or 0 if free; at most half full */
	size_t n, n_slots;
	struct rule_family *families; /* RULE_FAMILIES of them, by hash */
};

/* Initialises the set with the rule CFA_NONE. 0 or -ENOMEM; call ruleset_fini in both cases. */
int ruleset_init(struct ruleset *set);
void ruleset_fini(struct ruleset *set);
/* Adds a rule that is not in the set. Returns its index, -ENOMEM, or -EFBIG at RULES_MAX. */
int64_t ruleset_add(struct ruleset *set, const struct elf_rule *rule);
/*
 * Finds or makes the family of a rule; it lives as long as the set. NULL: the CFA is not register + offset,
 * or there is no free place for the family.
 */
struct rule_family *ruleset_family(struct ruleset *set, const struct elf_rule *rule);

/* The same for a rule of the family `before` in which the frame pointer is now saved at CFA + n. */
struct rule_family *ruleset_family_saved(struct ruleset *set, struct rule_family *before,
					 const struct elf_rule *rule);

static inline struct rule_family **rule_family_saved(struct rule_family *family, int32_t fp_off)
{
	return &family->fp_saved[(uint32_t)fp_off / 8 % RULE_FAMILY_SAVED];
}

/*
 * The place in the family for the index of the rule with this offset. NULL if there is no family, or for
 * unusual offsets.
 */
static inline uint32_t *rule_family_slot(struct rule_family *family, int32_t cfa_off)
{
	/* rotated, so that a negative or uneven offset becomes a large number */
	uint32_t i = (uint32_t)cfa_off >> 3 | (uint32_t)cfa_off << 29;

	return family && i < RULE_FAMILY_OFFSETS ? &family->known[i] : NULL;
}

/* A rule as integers, for hashing and comparing. */
struct rule_key {
	uint64_t word[3];
	uint32_t last;
};

static inline struct rule_key rule_key_of(const struct elf_rule *r)
{
	const uint8_t *bytes = (const uint8_t *)r;
	struct rule_key k;

	memcpy(&k.word[0], bytes, 8);
	memcpy(&k.word[1], bytes + 8, 8);
	memcpy(&k.word[2], bytes + 16, 8);
	memcpy(&k.last, bytes + 24, 4);
	return k;
}

/*
 * Fast, but does not resist chosen collisions: a file with those makes its own table slow to build, within
 * bounds.
 */
static inline uint64_t rule_key_hash(const struct rule_key *k)
{
	uint64_t a = k->word[0] + k->word[2] * 0x9e3779b97f4a7c15ull,
		 b = k->word[1] ^ (uint64_t)k->last << 32;
	uint64_t h = (a ^ (a >> 29)) * 0xbf58476d1ce4e5b9ull + b * 0x94d049bb133111ebull;

	return h ^ (h >> 32);
}

static inline bool rule_key_equal(const struct rule_key *a, const struct rule_key *b)
{
	return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		(a->last ^ b->last)) == 0;
}

/* Finds or adds a rule. Returns its index, -ENOMEM, or -EFBIG at RULES_MAX. */
static inline int64_t ruleset_intern(struct ruleset *set, const struct elf_rule *rule)
{
	const struct rule_key key = rule_key_of(rule);
	size_t mask = set->n_slots - 1;

	for (size_t at = rule_key_hash(&key) & mask; set->slots[at]; at = (at + 1) & mask) {
		const struct rule_key other = rule_key_of(&set->rules[set->slots[at] - 1]);

		if (rule_key_equal(&other, &key))
			return set->slots[at] - 1;
	}
	return ruleset_add(set, rule);
}

#endif
