// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/ruleset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"

#define FIRST_SLOTS 1024
#define FAMILY_PROBES 4

static void place(struct ruleset *set, uint32_t index)
{
	const struct rule_key key = rule_key_of(&set->rules[index]);
	size_t at = rule_key_hash(&key) & (set->n_slots - 1);

	while (set->slots[at])
		at = (at + 1) & (set->n_slots - 1);
	set->slots[at] = index + 1;
}

static int grow(struct ruleset *set)
{
	size_t n_slots = set->n_slots ? set->n_slots * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots || array_resize(&set->rules, n_slots / 2, sizeof(*set->rules)) < 0) {
		free(slots);
		return -ENOMEM;
	}
	free(set->slots);
	set->slots = slots;
	set->n_slots = n_slots;
	for (uint32_t i = 0; i < set->n; i++)
		place(set, i);
	return 0;
}

int ruleset_init(struct ruleset *set)
{
	const struct elf_rule none = {.cfa_kind = CFA_NONE};

	*set = (struct ruleset){0};
	set->families = calloc(RULE_FAMILIES, sizeof(*set->families));
	return set->families ? (int)ruleset_add(set, &none) : -ENOMEM;
}

void ruleset_fini(struct ruleset *set)
{
	free(set->rules);
	free(set->slots);
	free(set->families);
	*set = (struct ruleset){0};
}

int64_t ruleset_add(struct ruleset *set, const struct elf_rule *rule)
{
	if (set->n == RULES_MAX)
		return -EFBIG;
	if (set->n == set->n_slots / 2) {
		int r = grow(set);
		if (r < 0)
			return r;
	}
	set->rules[set->n] = *rule;
	place(set, (uint32_t)set->n);
	return (int64_t)set->n++;
}

struct rule_family *ruleset_family(struct ruleset *set, const struct elf_rule *rule)
{
	struct elf_rule member = *rule;

	if (rule->cfa_kind != CFA_REG_OFF)
		return NULL;
	member.cfa_off = 0;
	const struct rule_key key = rule_key_of(&member);
	size_t at = rule_key_hash(&key);
	for (unsigned i = 0; i < FAMILY_PROBES; i++, at++) {
		struct rule_family *family = &set->families[at % RULE_FAMILIES];

		if (!family->used) {
			family->rule = member;
			family->used = true;
			return family;
		}
		const struct rule_key other = rule_key_of(&family->rule);
		if (rule_key_equal(&other, &key))
			return family;
	}
	return NULL;
}

struct rule_family *ruleset_family_saved(struct ruleset *set, struct rule_family *before,
					 const struct elf_rule *rule)
{
	struct rule_family **saved = rule_family_saved(before, rule->fp.off);

	if (!*saved || (*saved)->rule.fp.off != rule->fp.off)
		*saved = ruleset_family(set, rule);
	return *saved;
}
