// SPDX-License-Identifier: Apache-2.0
#include "agent/report/kernel_modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/map.h"
#include "agent/symbol/kallsyms.h"

#define MODULES_MAX 4096u
#define FIRST_ID 0x10000u /* ids of frame modules: higher than the index of any binary */
#define ID_MAX_BYTES 64u

struct kernel_module {
	struct map_node node; /* by name */
	struct frame_module module;
	char name[80];
	char build_id[2 * ID_MAX_BYTES + 1];
};

struct kernel_modules {
	struct map by_name;
	const char *sys; /* borrowed */
};

int kernel_modules_new(struct kernel_modules **ret, const char *sys)
{
	struct kernel_modules *m = calloc(1, sizeof *m);

	if (!m)
		return -ENOMEM;
	map_init(&m->by_name, MODULES_MAX);
	m->sys = sys ? sys : "/sys";
	*ret = m;
	return 0;
}

void kernel_modules_free(struct kernel_modules *m)
{
	struct map_node *n;

	if (!m)
		return;
	map_for_each (&m->by_name, n, it)
		free(container_of(n, struct kernel_module, node));
	map_fini(&m->by_name);
	free(m);
}

static bool name_is(const struct map_node *node, const void *key)
{
	return strcmp(container_of(node, struct kernel_module, node)->name, key) == 0;
}

/* The GNU build id among ELF notes (System V ABI, note section), in hex; "" when there is none. */
static void notes_build_id(const uint8_t *at, size_t left, char ret[2 * ID_MAX_BYTES + 1])
{
	Elf64_Nhdr note;

	ret[0] = '\0';
	while (left >= sizeof note) {
		size_t name, desc;

		memcpy(&note, at, sizeof note);
		name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (name + desc > left - sizeof note)
			return;
		at += sizeof note;
		left -= sizeof note + name + desc;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at, "GNU", 4) == 0 &&
		    note.n_descsz <= ID_MAX_BYTES) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(ret + 2 * i, 3, "%02x", at[name + i]);
			return;
		}
		at += name + desc;
	}
}

static void read_build_id(struct kernel_module *k, const char *sys, const char *name)
{
	_cleanup_buf_ struct buf notes = {0};
	char path[192];

	if (name)
		snprintf(path, sizeof path, "%s/module/%s/notes/.note.gnu.build-id", sys, name);
	else
		snprintf(path, sizeof path, "%s/kernel/notes", sys);
	if (fs_read_file(path, 65536, &notes) < 0)
		return;
	notes_build_id(notes.data, notes.len, k->build_id);
	if (k->build_id[0])
		k->module.build_id_gnu = k->build_id;
}

static struct kernel_module *add(struct kernel_modules *m, const char *label, const char *name, uint64_t hash)
{
	struct kernel_module *k = calloc(1, sizeof *k);

	if (!k)
		return NULL;
	snprintf(k->name, sizeof k->name, "%s", label);
	k->module = (struct frame_module){
		.id = FIRST_ID + (uint32_t)m->by_name.len, .path = k->name, .name = k->name};
	read_build_id(k, m->sys, name);
	if (map_insert(&m->by_name, &k->node, hash) < 0) {
		free(k);
		return NULL;
	}
	return k;
}

const struct frame_module *kernel_modules_get(struct kernel_modules *m, const struct kallsyms *table,
					      size_t index)
{
	struct kallsyms_module known = {0};
	struct kernel_module *k;
	struct map_node *n;
	uint64_t hash;
	char label[80];

	if (table && kallsyms_module(table, index, &known) < 0)
		return NULL;
	snprintf(label, sizeof label, "[%s]", known.name ? known.name : "kernel");
	hash = hash_bytes(label, strlen(label));
	n = map_find(&m->by_name, hash, name_is, label);
	k = n ? container_of(n, struct kernel_module, node) : add(m, label, known.name, hash);
	if (!k)
		return NULL;
	k->module.start = known.start; /* a module that was loaded again may have another address */
	k->module.limit = known.end;
	return &k->module;
}
