// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/perl.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

enum name {
	NAME_KEY,
	NAME_STACK,
	NAME_STATEMENT,
	NAME_ENVIRONMENT,
	NAME_MAJOR,
	NAME_MINOR,
	NAME_RELEASE,
	NAME_FUNCTIONS, /* the first of PERL_FUNCTIONS */
	N_NAMES = NAME_FUNCTIONS + PERL_FUNCTIONS,
};

static const char *const names[N_NAMES] = {
	[NAME_KEY] = "PL_thr_key",
	[NAME_STACK] = "PL_curstackinfo",
	[NAME_STATEMENT] = "PL_curcop",
	[NAME_ENVIRONMENT] = "PL_top_env",
	[NAME_MAJOR] = "PL_revision",
	[NAME_MINOR] = "PL_version",
	[NAME_RELEASE] = "PL_subversion",
	[NAME_FUNCTIONS + PERL_RUNOPS] = "Perl_runops_standard",
	[NAME_FUNCTIONS + PERL_RUNOPS_DEBUG] = "Perl_runops_debug",
	[NAME_FUNCTIONS + PERL_CALL_SV] = "Perl_call_sv",
	[NAME_FUNCTIONS + PERL_AMAGIC_CALL] = "Perl_amagic_call",
	[NAME_FUNCTIONS + PERL_EVAL_SV] = "Perl_eval_sv",
	[NAME_FUNCTIONS + PERL_RUN] = "perl_run",
	[NAME_FUNCTIONS + PERL_PARSE] = "perl_parse",
};

struct version_layout {
	uint32_t version; /* the first one with this layout */
	struct perl_layout layout;
};

static const struct version_layout layouts[] = {
	{PERL_VERSION(5, 28), {0xe0, 0xf0, 0x308, 0x28, 0x60, 0x40, 0, 0}},
	{PERL_VERSION(5, 32), {0xe0, 0xf0, 0x308, 0x2c, 0x68, 0x48, 0, 0}},
	{PERL_VERSION(5, 34), {0xd0, 0xe0, 0x2f8, 0x2c, 0x68, 0x48, 0, 0}},
	{PERL_VERSION(5, 36), {0xd0, 0xe0, 0x2f8, 0x2c, 0x68, 0x48, 1, 0}},
	{PERL_VERSION(5, 38), {0xd0, 0xe0, 0x308, 0x2c, 0x68, 0x48, 1, 0}},
};
static const uint32_t last_known = PERL_VERSION(5, 42);

bool perl_layout_of(struct perl_layout *ret, uint32_t version, const struct elf_arch *arch)
{
	if (version > last_known || version >> 16 & 1) /* odd ones are of development */
		return false;
	for (size_t i = ARRAY_SIZE(layouts); i--;)
		if (version >= layouts[i].version) {
			*ret = layouts[i].layout;
			/* a struct stat lies before it */
			ret->environment =
				(uint16_t)(ret->environment + arch->stat_bytes - elf_arch_x86_64.stat_bytes);
			return true;
		}
	return false;
}

/* A byte of the file's data. 0, or -ENOENT. */
static int read_byte(const struct elf_image *img, const struct elf_definition *d, uint8_t *ret)
{
	const struct elf_segment *s = d->found ? elf_image_segment_at(img, d->va) : NULL;

	if (!s || d->va - s->va >= s->file_bytes)
		return -ENOENT;
	return elf_image_pread(img, s->offset + (d->va - s->va), ret, 1) == 0 ? 0 : -ENOENT;
}

/* 0: not in the file. */
static uint32_t version_of(const struct elf_image *img, const struct elf_definition *d)
{
	uint8_t major, minor, release;

	if (read_byte(img, &d[NAME_MAJOR], &major) < 0 || read_byte(img, &d[NAME_MINOR], &minor) < 0 ||
	    read_byte(img, &d[NAME_RELEASE], &release) < 0)
		return 0;
	return PERL_VERSION(major, minor) | (uint32_t)release << 8;
}

static void find_functions(struct perl_facts *f, const struct elf_definition *d)
{
	for (size_t i = 0; i < PERL_FUNCTIONS; i++) {
		uint64_t end;

		if (!d[i].found || !d[i].va || !d[i].bytes ||
		    __builtin_add_overflow(d[i].va, d[i].bytes, &end))
			continue;
		f->start[i] = d[i].va;
		f->end[i] = end;
	}
}

/* Where the interpreter is. False: there is none. */
static bool find_interpreter(struct perl_facts *f, const struct elf_definition *d)
{
	if (d[NAME_KEY].found) {
		f->key = d[NAME_KEY].va;
		return f->key != 0;
	}
	f->statement = d[NAME_STATEMENT].va;
	f->stack = d[NAME_STACK].va;
	f->environment = d[NAME_ENVIRONMENT].va;
	return f->statement && f->stack && f->environment;
}

static bool find_layout(struct perl_facts *f, const struct elf_arch *arch)
{
	return arch && f->start[PERL_RUNOPS] && (f->key || perl_facts_start(f)) &&
	       perl_layout_of(&f->layout, f->version & 0xffff0000u, arch);
}

int perl_facts_read(struct perl_facts *ret, struct elf_image *img)
{
	struct elf_definition d[N_NAMES] = {0};
	struct perl_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	for (size_t i = 0; i < N_NAMES; i++)
		d[i].name = names[i];
	r = elf_definitions_find_dynamic(img, d, NAME_STACK + 1);
	if (r == 0 && (d[NAME_KEY].found || d[NAME_STACK].found))
		r = elf_definitions_find_dynamic(img, d, N_NAMES);
	if (r < 0)
		return r;
	f.version = find_interpreter(&f, d) ? version_of(img, d) : 0;
	if (f.version >> 24 == 0)
		return -ENOENT;
	find_functions(&f, d + NAME_FUNCTIONS);
	f.known = find_layout(&f, elf_arch(elf_image_machine(img)));
	*ret = f;
	return 0;
}

static bool functions_valid(const struct perl_facts *f)
{
	for (size_t i = 0; i < PERL_FUNCTIONS; i++)
		if (f->start[i] ? f->start[i] >= f->end[i] : f->end[i] != 0)
			return false;
	return true;
}

static bool layout_valid(const struct perl_facts *f, const struct elf_arch *arch)
{
	static const struct perl_layout none;
	struct perl_facts g = *f;

	g.layout = none;
	return (!f->known || find_layout(&g, arch)) && memcmp(&g.layout, &f->layout, sizeof g.layout) == 0;
}

bool perl_facts_valid(const struct perl_facts *f)
{
	static const struct perl_facts none;

	if (!f->version)
		return memcmp(f, &none, sizeof none) == 0;
	if (f->key ? f->statement || f->stack || f->environment
		   : !f->statement || !f->stack || !f->environment)
		return false;
	if (f->version >> 24 == 0 || f->known > 1 || !functions_valid(f))
		return false;
	return layout_valid(f, &elf_arch_x86_64) || layout_valid(f, &elf_arch_aarch64);
}

enum perl_function perl_function_at(const struct perl_facts *f, uint64_t va)
{
	size_t i = 0;

	while (i < PERL_FUNCTIONS && !(va >= f->start[i] && va < f->end[i]))
		i++;
	return (enum perl_function)i;
}
