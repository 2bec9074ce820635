// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/map.h"

#define SLOTS_FIRST (1u << 16)

int code_init(struct code *c)
{
	*c = (struct code){.n_slots = SLOTS_FIRST};
	c->entries = calloc(c->n_slots, sizeof *c->entries);
	return c->entries ? 0 : -ENOMEM;
}

void code_fini(struct code *c)
{
	free(c->entries);
	*c = (struct code){0};
}

void code_forget(struct code *c)
{
	memset(c->entries, 0, c->n_slots * sizeof *c->entries);
	c->n = 0;
}

static struct code_entry *slot(const struct code *c, uint64_t address)
{
	size_t i = hash_u64(address) & (c->n_slots - 1);

	while (c->entries[i].address && c->entries[i].address != address)
		i = (i + 1) & (c->n_slots - 1);
	return &c->entries[i];
}

static int grow(struct code *c)
{
	struct code old = *c;

	c->n_slots *= 2;
	c->entries = calloc(c->n_slots, sizeof *c->entries);
	if (!c->entries) {
		*c = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.entries[i].address)
			*slot(c, old.entries[i].address) = old.entries[i];
	free(old.entries);
	return 0;
}

int code_kind(struct code *c, const struct tracee *t, const struct tables *tables, uint64_t address,
	      uint32_t *ret_visits)
{
	struct code_entry *e = slot(c, address);
	uint8_t bytes[INSN_BYTES];
	enum insn_kind kind;

	if (e->address) {
		*ret_visits = e->visits += e->visits != UINT32_MAX;
		return (int)e->kind;
	}
	*ret_visits = 0;
	kind = insn_kind_of(bytes, tracee_read(t, address, bytes, sizeof bytes));
	if (!tables_is_file(tables, address))
		return kind;
	if (c->n * 2 >= c->n_slots) {
		int r = grow(c);

		if (r < 0)
			return r;
		e = slot(c, address);
	}
	*e = (struct code_entry){.address = address, .kind = kind};
	c->n++;
	return kind;
}
