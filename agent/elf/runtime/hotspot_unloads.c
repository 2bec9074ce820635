// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/hotspot_unloads.h"

#include <stdbool.h>
#include <string.h>

#include "agent/elf/runtime/vm_memory.h"

#define MAGIC 0xc0c0fecau /* as it is read where the bytes are in our order */
#define MAJOR 2u
#define ENTRIES_MAX 4096u
#define TYPE_LONG 'J'

/* What the counters begin with. */
struct prologue {
	uint32_t magic;
	uint8_t byte_order, major, minor, accessible;
	int32_t used, overflow;
	int64_t modified;
	int32_t entries, n;
};

struct entry {
	int32_t bytes, name, vector;
	uint8_t type, flags, units, variability;
	int32_t data;
};

static bool is_plausible(const struct prologue *p)
{
	return p->magic == MAGIC && p->major == MAJOR && p->n > 0 && p->n <= (int32_t)ENTRIES_MAX &&
	       p->entries >= (int32_t)sizeof *p;
}

void hotspot_unloads_find(struct hotspot_unloads *ret, struct vm_memory *m, uint64_t start)
{
	uint64_t base = 0, at;
	struct prologue p;
	struct entry e;

	*ret = (struct hotspot_unloads){0};
	if (!start || vm_read_number(m, &base, start, 8) < 0 || !base || vm_read(m, &p, base, sizeof p) < 0 ||
	    !is_plausible(&p))
		return;
	at = base + (uint32_t)p.entries;
	for (int32_t i = 0; i < p.n; i++, at += (uint32_t)e.bytes) {
		char name[sizeof "java.cls.sharedUnloadedClasses"];

		if (vm_read(m, &e, at, sizeof e) < 0 || e.bytes < (int32_t)sizeof e ||
		    vm_read_string(m, name, sizeof name, at + (uint32_t)e.name) < 0)
			return;
		if (e.type != TYPE_LONG)
			continue;
		if (strcmp(name, "java.cls.unloadedClasses") == 0)
			ret->own = at + (uint32_t)e.data;
		else if (strcmp(name, "java.cls.sharedUnloadedClasses") == 0)
			ret->shared = at + (uint32_t)e.data;
	}
}

/* Reads the page itself: what was read of it before may have changed. */
static bool read_anew(struct vm_memory *m, uint64_t address, uint64_t *ret)
{
	const uint64_t at = address % VM_PIECE_BYTES;
	uint8_t page[VM_PIECE_BYTES];

	if (at > VM_PIECE_BYTES - sizeof *ret || m->read(page, address - at, m->data) < 0)
		return false;
	memcpy(ret, page + at, sizeof *ret);
	return true;
}

uint64_t hotspot_unloads_read(const struct hotspot_unloads *u, struct vm_memory *m)
{
	uint64_t own = 0, shared = 0;

	if (!u->own || !u->shared || !read_anew(m, u->own, &own) || !read_anew(m, u->shared, &shared))
		return 0;
	return own + shared + 1;
}
