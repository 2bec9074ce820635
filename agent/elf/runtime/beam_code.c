// SPDX-License-Identifier: Apache-2.0
/*
 * Offsets are those of OTP 25 to 27, erts/emulator/beam: beam_ranges.c, beam_code.h, atom.h, index.h. Those
 * that have changed between releases are found by what is there: the table of functions by its ascending
 * addresses, the table of atoms by the first three, which are always the same.
 */
#include "agent/elf/runtime/beam_code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define TABLES 3u
#define MODULES_MAX (1u << 20)
#define MODULES_LOOKED_AT 16u /* to recognise a table */
#define FUNCTIONS_MAX 65536u
#define HEADER_BYTES_MAX 512u /* before the table of functions */
#define MODULE_BYTES_MAX (256ull << 20)
#define INFO_MODULE 16u /* ErtsCodeInfo: module, name, arity */
#define ARITY_MAX 255u

#define ATOM_TAG 0x0bu
#define ATOM_TAG_MASK 0x3fu
#define ATOM_TAG_BITS 6
#define ATOMS_A_PIECE 1024u
#define ATOMS_MAX (1u << 26)
#define ATOM_LENGTH 24u /* i16, bytes */
#define ATOM_TEXT 32u	/* pointer */
#define ATOM_BYTES_MAX 1020u
#define INDEX_TABLE_BYTES 256u /* in which the pointer to the pieces is looked for */
#define INDEX_TABLE_FROM 64u

/* struct ranges */
struct modules {
	uint64_t at; /* of struct { start, end } each */
	uint64_t n, allocated, middle;
};

struct module {
	uint64_t start, end;
};

static bool is_address(uint64_t a)
{
	return a >= VM_PIECE_BYTES && a < VM_ADDRESS_MAX && !(a & 7);
}

/* --- atoms */

/* 0; -ENOTSUP: it is none. */
static int atom_read(struct vm_memory *m, uint64_t atoms, uint64_t term, char *to, size_t size)
{
	const uint64_t i = term >> ATOM_TAG_BITS;
	uint64_t piece, atom, len, text;
	int r;

	if ((term & ATOM_TAG_MASK) != ATOM_TAG || i >= ATOMS_MAX)
		return -ENOTSUP;
	r = vm_read_number(m, &piece, atoms + i / ATOMS_A_PIECE * 8, 8);
	if (r == 0)
		r = vm_read_number(m, &atom, piece + i % ATOMS_A_PIECE * 8, 8);
	if (r == 0)
		r = vm_read_number(m, &len, atom + ATOM_LENGTH, 2);
	if (r == 0)
		r = vm_read_number(m, &text, atom + ATOM_TEXT, 8);
	if (r < 0)
		return r;
	if (len > ATOM_BYTES_MAX)
		return -ENOTSUP;
	len = len < size ? len : size - 1;
	to[len] = '\0';
	return vm_read(m, to, text, len);
}

static bool has_first_atoms(struct vm_memory *m, uint64_t atoms)
{
	static const char *const first[] = {"false", "true", "_"};
	char text[8];

	for (uint64_t i = 0; i < ARRAY_SIZE(first); i++)
		if (atom_read(m, atoms, i << ATOM_TAG_BITS | ATOM_TAG, text, sizeof text) < 0 ||
		    strcmp(text, first[i]) != 0)
			return false;
	return true;
}

static int find_atoms(struct vm_memory *m, uint64_t table, uint64_t *ret)
{
	for (uint64_t off = INDEX_TABLE_FROM; off < INDEX_TABLE_BYTES; off += 8) {
		uint64_t atoms;
		int r = vm_read_number(m, &atoms, table + off, 8);

		if (r < 0)
			return r;
		if (is_address(atoms) && has_first_atoms(m, atoms)) {
			*ret = atoms;
			return 0;
		}
	}
	return -ENOTSUP;
}

/* --- modules */

/*
 * Where the module has its table of functions: the first pointer behind the numbers and other pointers of the
 * header that begins an ascending list of so many, all behind the list. 0; -ENOTSUP: nowhere.
 */
static int find_functions(struct vm_memory *m, const struct module *x, uint64_t *ret, uint64_t *ret_n)
{
	uint64_t n, first, second, last;
	int r = vm_read_number(m, &n, x->start, 8);

	if (r == 0 && (!n || n > FUNCTIONS_MAX))
		r = -ENOTSUP;
	for (uint64_t off = 8; r == 0 && off < HEADER_BYTES_MAX; off += 8) {
		const uint64_t table = x->start + off, behind = table + (n + 1) * 8;

		if (behind >= x->end)
			break;
		r = vm_read_number(m, &first, table, 8);
		if (r == 0)
			r = vm_read_number(m, &second, table + 8, 8);
		if (r == 0)
			r = vm_read_number(m, &last, table + n * 8, 8);
		if (r < 0 || first < behind || second <= first + BEAM_INFO_BYTES || last < second ||
		    last > x->end)
			continue;
		*ret = table;
		*ret_n = n;
		return 0;
	}
	return r < 0 ? r : -ENOTSUP;
}

static int module_read(struct vm_memory *m, const struct modules *all, uint64_t i, struct module *ret)
{
	int r = vm_read(m, ret, all->at + i * sizeof *ret, sizeof *ret);

	if (r == 0 &&
	    (!is_address(ret->start) || ret->end <= ret->start || ret->end - ret->start > MODULE_BYTES_MAX))
		r = -ENOTSUP;
	return r;
}

static bool is_shaped(const struct modules *t)
{
	return is_address(t->at) && t->n && t->n <= t->allocated && t->allocated <= MODULES_MAX &&
	       t->middle >= t->at && t->middle < t->at + t->n * sizeof(struct module) && !(t->middle & 7);
}

/* Whether these are modules: in ascending order, with functions. */
static bool has_modules(struct vm_memory *m, const struct modules *t)
{
	uint64_t before = 0, functions, n;

	for (uint64_t i = 0; i < t->n && i < MODULES_LOOKED_AT; i++) {
		struct module x;

		if (module_read(m, t, i, &x) < 0 || x.start < before ||
		    find_functions(m, &x, &functions, &n) < 0)
			return false;
		before = x.end;
	}
	return true;
}

/* Whether the three tables of modules are there. */
static bool are_tables(struct vm_memory *m, const struct modules t[TABLES])
{
	for (unsigned i = 0; i < TABLES; i++)
		if (!is_shaped(&t[i]))
			return false;
	for (unsigned i = 0; i < TABLES; i++)
		if (!has_modules(m, &t[i]))
			return false;
	return true;
}

static int find_ranges(struct vm_memory *m, const struct beam_vm *vm, uint64_t *ret)
{
	struct modules t[TABLES];
	uint64_t found = 0;

	for (uint64_t at = vm->data_start; at + sizeof t <= vm->data_end; at += 8) {
		int r = vm_read(m, t, at, sizeof t);

		if (r < 0)
			return r;
		if (!are_tables(m, t))
			continue;
		if (found)
			return -ENOTSUP;
		found = at;
	}
	*ret = found;
	return found ? 0 : -EAGAIN;
}

int beam_layout_read(struct beam_layout *ret, struct vm_memory *m, const struct beam_vm *vm)
{
	struct beam_layout l = {0};
	uint64_t records;
	int r = vm_read_number(m, &l.exit, vm->normal_exit, 8);

	if (r == 0 && !l.exit)
		return -EAGAIN;
	if (r == 0)
		r = vm_read_number(m, &records, vm->frame_layout, 4);
	if (r == 0 && (records > 1 || l.exit < VM_PIECE_BYTES || l.exit >= VM_ADDRESS_MAX))
		return -ENOTSUP;
	if (r == 0)
		r = find_atoms(m, vm->atom_table, &l.atoms);
	if (r == 0)
		r = find_ranges(m, vm, &l.ranges);
	if (r < 0)
		return r;
	l.records = (uint32_t)records;
	*ret = l;
	return 0;
}

bool beam_layout_valid(const struct beam_layout *l)
{
	return is_address(l->ranges) && is_address(l->atoms) && l->exit >= VM_PIECE_BYTES &&
	       l->exit < VM_ADDRESS_MAX && l->records <= 1 && !l->zero;
}

/* --- functions */

static int module_find(struct vm_memory *m, const struct modules *all, uint64_t address, struct module *ret)
{
	uint64_t low = 0, high = all->n;

	while (low < high) {
		const uint64_t i = low + (high - low) / 2;
		int r = module_read(m, all, i, ret);

		if (r < 0)
			return r;
		if (address >= ret->start && address < ret->end)
			return 0;
		if (address < ret->start)
			high = i;
		else
			low = i + 1;
	}
	return -ENOENT;
}

/* The last of the ascending addresses that is not above `address`. 0; -ENOENT: none, or the last of all. */
static int function_find(struct vm_memory *m, uint64_t table, uint64_t n, uint64_t address,
			 struct beam_function *ret)
{
	uint64_t low = 0, high = n + 1;
	int r;

	while (low < high) {
		const uint64_t i = low + (high - low) / 2;
		uint64_t at;

		r = vm_read_number(m, &at, table + i * 8, 8);
		if (r < 0)
			return r;
		if (at <= address)
			low = i + 1;
		else
			high = i;
	}
	if (!low || low > n)
		return -ENOENT;
	r = vm_read_number(m, &ret->start, table + (low - 1) * 8, 8);
	if (r == 0)
		r = vm_read_number(m, &ret->end, table + low * 8, 8);
	return r == 0 && ret->end <= ret->start + BEAM_INFO_BYTES ? -ENOTSUP : r;
}

/* "module:function/arity"; of Elixir: "Module.function/arity". What does not fit is cut. */
static int name_read(struct vm_memory *m, const struct beam_layout *l, struct beam_function *f)
{
	static const char elixir[] = "Elixir.";
	char module[VM_TEXT_MAX], function[VM_TEXT_MAX];
	const char *shown = module;
	uint64_t mfa[3];
	int r = vm_read(m, mfa, f->start + INFO_MODULE, sizeof mfa);

	if (r == 0 && mfa[2] > ARITY_MAX)
		r = -ENOTSUP;
	if (r == 0)
		r = atom_read(m, l->atoms, mfa[0], module, sizeof module);
	if (r == 0)
		r = atom_read(m, l->atoms, mfa[1], function, sizeof function);
	if (r < 0)
		return r;
	if (strncmp(module, elixir, sizeof elixir - 1) == 0)
		shown += sizeof elixir - 1;
	(void)snprintf(f->name, sizeof f->name, "%.120s%c%.120s/%u", shown, shown == module ? ':' : '.',
		       function, (unsigned)mfa[2]);
	return 0;
}

int beam_function_find(struct beam_function *ret, struct vm_memory *m, const struct beam_vm *vm,
		       const struct beam_layout *l, uint64_t address)
{
	uint64_t index, functions, n;
	struct modules all;
	struct module x;
	int r = vm_read_number(m, &index, vm->code_index, 4);

	if (r == 0 && index >= TABLES)
		return -ENOTSUP;
	if (r == 0)
		r = vm_read(m, &all, l->ranges + index * sizeof all, sizeof all);
	if (r == 0 && !is_shaped(&all))
		return -ENOTSUP;
	if (r == 0)
		r = module_find(m, &all, address, &x);
	if (r == 0)
		r = find_functions(m, &x, &functions, &n);
	if (r == 0)
		r = function_find(m, functions, n, address, ret);
	if (r == 0 && ret->end > x.end)
		r = -ENOTSUP;
	return r < 0 ? r : name_read(m, l, ret);
}
