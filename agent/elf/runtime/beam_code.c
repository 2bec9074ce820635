// SPDX-License-Identifier: Apache-2.0
/*
 * Offsets are those of OTP 25 to 29, erts/emulator/beam: beam_ranges.c, beam_code.h, atom.h, index.h. Those
 * that have changed between releases are found by what is there: the table of functions by its ascending
 * addresses, the table of atoms by the first three, which are always the same.
 *
 * Where no symbol leads to a variable: the table of atoms has a name of its own, and what the outermost
 * function of a process returns to is a function with a name, a little before the first module.
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
#define ATOM_TERM_TAG 2u /* of a pointer to a word, the number of bits, and the text */
#define ATOM_TERM_MASK 7u
#define ATOM_TERM_BITS 8u
#define ATOM_TERM_TEXT 16u

/* Without symbols */
#define TABLE_NAME "atom_tab"
#define TABLE_NAME_AT 64u /* of the table of atoms, the pointer to its name is behind its functions */
#define IMAGE_BYTES_MAX (64u << 20) /* from a constant to the variables */
#define EXIT_MODULE "erts_beamasm"
#define EXIT_FUNCTION "normal_exit"
#define EXIT_ATOMS_MAX 4096u	 /* the machine's own atoms come first */
#define EXIT_SEARCH_BYTES 65536u /* before the first module */
#define RECORDS_LOOKED_AT 64u	 /* functions */
#define RECORDS_AT 8u		 /* behind a jump and a call: push rbp; mov rbp, rsp */

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

/* Where the text is to which the atom's word leads. 0; -ENOTSUP: nowhere. */
static int text_find(struct vm_memory *m, const struct beam_layout *l, uint64_t word, uint64_t len,
		     uint64_t *ret)
{
	uint64_t bits;
	int r;

	*ret = word;
	if (!l->terms)
		return 0;
	if ((word & ATOM_TERM_MASK) != ATOM_TERM_TAG)
		return -ENOTSUP;
	r = vm_read_number(m, &bits, word - ATOM_TERM_TAG + ATOM_TERM_BITS, 8);
	*ret = word - ATOM_TERM_TAG + ATOM_TERM_TEXT;
	return r < 0 ? r : bits == len * 8 ? 0 : -ENOTSUP;
}

/* 0; -ENOTSUP: it is none. */
static int atom_read(struct vm_memory *m, const struct beam_layout *l, uint64_t term, char *to, size_t size)
{
	const uint64_t i = term >> ATOM_TAG_BITS;
	uint64_t piece, atom, len, text;
	int r;

	if ((term & ATOM_TAG_MASK) != ATOM_TAG || i >= ATOMS_MAX)
		return -ENOTSUP;
	r = vm_read_number(m, &piece, l->atoms + i / ATOMS_A_PIECE * 8, 8);
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
	r = text_find(m, l, text, len, &text);
	if (r < 0)
		return r;
	len = len < size ? len : size - 1;
	to[len] = '\0';
	return vm_read(m, to, text, len);
}

static bool has_first_atoms(struct vm_memory *m, const struct beam_layout *l)
{
	static const char *const first[] = {"false", "true", "_"};
	char text[8];

	for (uint64_t i = 0; i < ARRAY_SIZE(first); i++)
		if (atom_read(m, l, i << ATOM_TAG_BITS | ATOM_TAG, text, sizeof text) < 0 ||
		    strcmp(text, first[i]) != 0)
			return false;
	return true;
}

/* Of the table of atoms at that address. 0; -ENOTSUP: it is none. */
static int find_atoms(struct vm_memory *m, uint64_t table, struct beam_layout *l)
{
	for (uint64_t off = INDEX_TABLE_FROM; off < INDEX_TABLE_BYTES; off += 8) {
		struct beam_layout x = {0};
		int r = vm_read_number(m, &x.atoms, table + off, 8);

		if (r < 0)
			return r;
		for (; is_address(x.atoms) && x.terms <= 1; x.terms++)
			if (has_first_atoms(m, &x)) {
				l->atoms = x.atoms;
				l->terms = x.terms;
				return 0;
			}
	}
	return -ENOTSUP;
}

/* Of the variable that points to the table's name. 0; -EAGAIN: there is none yet. */
static int find_named_atoms(struct vm_memory *m, const struct beam_vm *vm, struct beam_layout *l)
{
	uint64_t name;
	char text[sizeof TABLE_NAME];

	for (uint64_t at = vm->data_start + TABLE_NAME_AT; at < vm->data_end; at += 8) {
		int r = vm_read_number(m, &name, at, 8);

		if (r < 0)
			return r;
		if (name >= vm->data_start || vm->data_start - name > IMAGE_BYTES_MAX ||
		    vm_read(m, text, name, sizeof text) < 0 || memcmp(text, TABLE_NAME, sizeof text) != 0)
			continue;
		if (find_atoms(m, at - TABLE_NAME_AT, l) == 0)
			return 0;
	}
	return -EAGAIN;
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

/* --- what no symbol leads to */

/* The atom with that text, one of the machine's own. 0; -ENOTSUP: there is none. */
static int atom_find(struct vm_memory *m, const struct beam_layout *l, const char *wanted, uint64_t *ret)
{
	char text[VM_TEXT_MAX];

	for (uint64_t i = 0; i < EXIT_ATOMS_MAX; i++) {
		*ret = i << ATOM_TAG_BITS | ATOM_TAG;
		int r = atom_read(m, l, *ret, text, sizeof text);

		if (r == -E2BIG)
			return r;
		if (r == 0 && strcmp(text, wanted) == 0)
			return 0;
	}
	return -ENOTSUP;
}

/* The first module of all, which the machine itself has loaded. */
static int first_module(struct vm_memory *m, const struct beam_layout *l, struct module *ret)
{
	struct modules all;
	int r = vm_read(m, &all, l->ranges, sizeof all);

	return r < 0 ? r : module_read(m, &all, 0, ret);
}

/* 0; -ENOTSUP: the function that processes end with is not where it is expected. */
static int find_exit(struct vm_memory *m, struct beam_layout *l)
{
	uint64_t wanted[3] = {0}, found[3];
	struct module x;
	int r = first_module(m, l, &x);

	if (r == 0)
		r = atom_find(m, l, EXIT_MODULE, &wanted[0]);
	if (r == 0)
		r = atom_find(m, l, EXIT_FUNCTION, &wanted[1]);
	for (uint64_t back = BEAM_INFO_BYTES; r == 0 && back < EXIT_SEARCH_BYTES && back < x.start;
	     back += 8) {
		const uint64_t info = x.start - back;

		r = vm_read(m, found, info + INFO_MODULE, sizeof found);
		if (r == 0 && memcmp(found, wanted, sizeof found) == 0) {
			l->exit = info + BEAM_INFO_BYTES;
			return 0;
		}
	}
	return r < 0 && r != -EFAULT ? r : -ENOTSUP;
}

/* By the first module's functions: those that call others make a record, or none does. */
static int find_records(struct vm_memory *m, struct beam_layout *l)
{
	static const uint8_t record[] = {0x55, 0x48, 0x89, 0xe5};
	uint64_t table, n, at, with = 0, i;
	uint8_t code[sizeof record];
	struct module x;
	int r = first_module(m, l, &x);

	if (r == 0)
		r = find_functions(m, &x, &table, &n);
	for (i = 0; r == 0 && i < n && i < RECORDS_LOOKED_AT; i++) {
		r = vm_read_number(m, &at, table + i * 8, 8);
		if (r == 0)
			r = vm_read(m, code, at + BEAM_INFO_BYTES + RECORDS_AT, sizeof code);
		with += r == 0 && memcmp(code, record, sizeof record) == 0;
	}
	l->records = r == 0 && with * 4 >= i;
	return r;
}

/* 0; -EAGAIN: the machine has not started yet. */
static int read_variables(struct vm_memory *m, const struct beam_vm *vm, struct beam_layout *l)
{
	uint64_t records = 0;
	int r = vm_read_number(m, &l->exit, vm->normal_exit, 8);

	if (r == 0 && !l->exit)
		return -EAGAIN;
	if (r == 0)
		r = vm_read_number(m, &records, vm->frame_layout, 4);
	if (r == 0 && (records > 1 || l->exit < VM_PIECE_BYTES || l->exit >= VM_ADDRESS_MAX))
		return -ENOTSUP;
	l->records = (uint32_t)records;
	return r < 0 ? r : find_atoms(m, vm->atom_table, l);
}

int beam_layout_read(struct beam_layout *ret, struct vm_memory *m, const struct beam_vm *vm)
{
	const bool exported = vm->normal_exit;
	struct beam_layout l = {0};
	int r = exported ? read_variables(m, vm, &l) : find_named_atoms(m, vm, &l);

	if (r == 0)
		r = find_ranges(m, vm, &l.ranges);
	if (r == 0 && !exported)
		r = find_exit(m, &l);
	if (r == 0 && !exported)
		r = find_records(m, &l);
	if (r == 0)
		*ret = l;
	return r;
}

bool beam_layout_valid(const struct beam_layout *l)
{
	return is_address(l->ranges) && is_address(l->atoms) && l->exit >= VM_PIECE_BYTES &&
	       l->exit < VM_ADDRESS_MAX && l->records <= 1 && l->terms <= 1;
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
		r = atom_read(m, l, mfa[0], module, sizeof module);
	if (r == 0)
		r = atom_read(m, l, mfa[1], function, sizeof function);
	if (r < 0)
		return r;
	if (strncmp(module, elixir, sizeof elixir - 1) == 0)
		shown += sizeof elixir - 1;
	(void)snprintf(f->name, sizeof f->name, "%.120s%c%.120s/%u", shown, shown == module ? ':' : '.',
		       function, (unsigned)mfa[2]);
	return 0;
}

/* In one of the tables of modules. */
static int find_in(struct beam_function *ret, struct vm_memory *m, const struct beam_layout *l,
		   uint64_t index, uint64_t address)
{
	uint64_t functions, n;
	struct modules all;
	struct module x;
	int r = vm_read(m, &all, l->ranges + index * sizeof all, sizeof all);

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

int beam_function_find(struct beam_function *ret, struct vm_memory *m, const struct beam_vm *vm,
		       const struct beam_layout *l, uint64_t address)
{
	uint64_t index;
	int r, result = -ENOENT;

	if (vm->code_index) {
		r = vm_read_number(m, &index, vm->code_index, 4);
		if (r == 0 && index >= TABLES)
			return -ENOTSUP;
		return r < 0 ? r : find_in(ret, m, l, index, address);
	}
	/*
	 * Which table is in use is not known. An older one may have modules that are gone: what is there now
	 * is judged by its own header, so that no name is that of former code.
	 */
	for (index = 0; index < TABLES; index++) {
		r = find_in(ret, m, l, index, address);
		if (r == 0 || r == -E2BIG)
			return r;
		if (r != -ENOENT)
			result = r;
	}
	return result;
}
