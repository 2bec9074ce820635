// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/dwarf.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/elf/names/symtab.h"
#include "agent/symbol/demangle.h"

#define LIBRARY "libdw.so.1"
#define DW_AT_GNU_discriminator 0x2136 /* of inlined calls; dwarf.h does not have it */
#define CPU_NS (4 * NS_PER_SEC)	       /* limit per file */
#define STEPS 16u		       /* between looks at the clock */
#define DEPTH_MAX 32u	/* inlined calls at one address; beyond this the outermost are left out */
#define LEVELS_MAX 256u /* depth of nested scopes */

#define FUNCTIONS(X)               \
	X(dwarf_attr_integrate)    \
	X(dwarf_begin)             \
	X(dwarf_child)             \
	X(dwarf_diename)           \
	X(dwarf_entrypc)           \
	X(dwarf_end)               \
	X(dwarf_filesrc)           \
	X(dwarf_formstring)        \
	X(dwarf_formudata)         \
	X(dwarf_get_units)         \
	X(dwarf_getsrc_die)        \
	X(dwarf_getsrcfiles)       \
	X(dwarf_haspc)             \
	X(dwarf_linediscriminator) \
	X(dwarf_lineno)            \
	X(dwarf_linesrc)           \
	X(dwarf_ranges)            \
	X(dwarf_siblingof)         \
	X(dwarf_tag)

static struct {
	void *library;
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
} dw;

static void load(void)
{
	bool all;

	dw.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	all = dw.library;
#define X(name) all = all && (dw.name = (__typeof__(name) *)dlsym(dw.library, #name));
	FUNCTIONS(X)
#undef X
	if (!all && dw.library) {
		dlclose(dw.library);
		dw.library = NULL;
	}
}

int symbol_dwarf_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return dw.library ? 0 : -ENOENT;
}

struct search {
	uint64_t delta, until_ns; /* of the CPU time of this thread */
	const uint64_t *addrs;
	size_t n;
	struct elf_symbol *symbols; /* to be completed; NULL: `visit` takes the calls */
	symbol_dwarf_visit_fn visit;
	void *data;
	bool *visited; /* by index */
	unsigned steps;
	bool late; /* the time is over */
};

/*
 * To be called before each step whose number depends on the file: many units and entries may share one long
 * list of ranges.
 */
static bool is_late(struct search *s)
{
	if (!s->late && s->steps++ % STEPS == 0)
		s->late = clock_thread_cpu_ns() > s->until_ns;
	return s->late;
}

/* One call. Strings are borrowed from libdw, except `readable`. */
struct call {
	const char *function, *file;
	char *readable; /* owned; `function` demangled; NULL: it was not mangled */
	uint32_t line, start_line, discriminator;
};

struct calls {
	struct call v[DEPTH_MAX];
	size_t n;
	uint64_t entry;	    /* of the function */
	const char *folder; /* directory of relative paths; NULL: unknown */
};

static void calls_fini(struct calls *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].readable);
}

/* Adds a call of `function`, which begins at `start_line`, at the position of `at`. */
static void calls_add(struct calls *c, const char *function, uint32_t start_line, const struct call *at)
{
	char *readable = function ? symbol_demangle(function) : NULL;

	c->v[c->n++] = (struct call){.function = function && *function ? function : "[inlined]",
				     .file = at->file ?: "",
				     .readable = readable,
				     .line = at->line,
				     .discriminator = at->discriminator,
				     .start_line = start_line};
}

static const char *text_of(const struct call *c)
{
	return c->readable ?: c->function;
}

/*
 * The directory to put in front of the path of a call's file, or NULL; libdw has already added it to some
 * paths.
 */
static const char *folder_of(const struct calls *c, const struct call *call)
{
	size_t len = c->folder ? strlen(c->folder) : 0;

	if (!len || !call->file[0] || call->file[0] == '/')
		return NULL;
	return strncmp(call->file, c->folder, len) == 0 && call->file[len] == '/' ? NULL : c->folder;
}

static size_t file_bytes(const struct calls *c, const struct call *call)
{
	const char *folder = folder_of(c, call);

	return (folder ? strlen(folder) + 1 : 0) + strlen(call->file) + 1;
}

static char *put_file(char *to, const struct calls *c, const struct call *call)
{
	const char *folder = folder_of(c, call);

	if (folder)
		to = stpcpy(stpcpy(to, folder), "/");
	return stpcpy(to, call->file) + 1;
}

/* Makes one block of lines and strings, as in struct elf_symbol. */
static int calls_write(const struct calls *c, struct elf_symbol *ret)
{
	size_t bytes = c->n * sizeof(struct frame_line);
	struct frame_line *block;
	char *to;

	for (size_t i = 0; i < c->n; i++)
		bytes += strlen(text_of(&c->v[i])) + 1 + file_bytes(c, &c->v[i]);
	block = malloc(bytes);
	if (!block)
		return -ENOMEM;
	to = (char *)(block + c->n);
	for (size_t i = 0; i < c->n; i++) {
		block[i] = (struct frame_line){
			.function = to, .line = c->v[i].line, .start_line = c->v[i].start_line};
		to = stpcpy(to, text_of(&c->v[i])) + 1;
		block[i].file = to;
		to = put_file(to, c, &c->v[i]);
	}
	ret->lines = block;
	ret->n_lines = c->n;
	return 0;
}

static const char *text_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;

	return dw.dwarf_attr_integrate(die, name, &a) ? dw.dwarf_formstring(&a) : NULL;
}

/* The linkage name, else the plain name. For an inlined function, both are attributes of its definition. */
static const char *name_of(Dwarf_Die *die)
{
	const char *name = text_attribute(die, DW_AT_linkage_name);

	if (!name)
		name = text_attribute(die, DW_AT_MIPS_linkage_name);
	return name ? name : dw.dwarf_diename(die);
}

static Dwarf_Word number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;
	Dwarf_Word value;

	return dw.dwarf_attr_integrate(die, name, &a) && dw.dwarf_formudata(&a, &value) == 0 ? value : 0;
}

/* A compilation unit. With split DWARF, its line table and its scopes are in two files. */
struct unit {
	Dwarf_Die *lines, *scopes;
};

static const char *call_file(const struct unit *u, Dwarf_Die *die)
{
	Dwarf_Word index = number_of(die, DW_AT_call_file);
	Dwarf_Files *files;
	size_t n;

	if (dw.dwarf_getsrcfiles(u->lines, &files, &n) < 0 || index >= n)
		return NULL;
	return dw.dwarf_filesrc(files, index, NULL, NULL);
}

/* The function that contains an address, and its inlined calls that do, the outermost first. */
struct path {
	struct search *search;
	Dwarf_Die function; /* the innermost, where functions are nested */
	bool has_function;
	Dwarf_Die v[DEPTH_MAX];
	size_t n;
};

static bool path_into(Dwarf_Die *die, uint64_t addr, unsigned level, struct path *path);

/* True when `die` contains the address; then `path` has the inlined calls in it. */
static bool path_through(Dwarf_Die *die, uint64_t addr, unsigned level, struct path *path)
{
	int tag = dw.dwarf_tag(die);

	switch (tag) {
	case DW_TAG_namespace: /* contain functions but have no addresses of their own */
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return path_into(die, addr, level, path);
	case DW_TAG_inlined_subroutine:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		if (dw.dwarf_haspc(die, addr) <= 0)
			return false;
		if (tag == DW_TAG_inlined_subroutine && path->n < DEPTH_MAX - 1)
			path->v[path->n++] = *die;
		if (tag == DW_TAG_subprogram) {
			path->function = *die;
			path->has_function = true;
		}
		(void)path_into(die, addr, level, path);
		return true;
	default:
		return false;
	}
}

/*
 * libdw's dwarf_getscopes fails when an inlined function is defined in another unit, as in programs with
 * link-time optimisation.
 */
static bool path_into(Dwarf_Die *die, uint64_t addr, unsigned level, struct path *path)
{
	Dwarf_Die child;

	if (level == LEVELS_MAX || dw.dwarf_child(die, &child))
		return false;
	do {
		if (is_late(path->search))
			return false;
		if (path_through(&child, addr, level + 1, path))
			return true;
	} while (dw.dwarf_siblingof(&child, &child) == 0);
	return false;
}

/* The line of its declaration in the source file; 0: unknown. */
static uint32_t start_line_of(Dwarf_Die *die)
{
	return (uint32_t)number_of(die, DW_AT_decl_line);
}

/* Adds the calls from the innermost outwards: the position of each is that of the call inside it. */
static void add_calls(const struct unit *u, struct path *path, const char *function, struct call *at,
		      struct calls *ret)
{
	for (size_t i = path->n; i-- > 0;) {
		calls_add(ret, name_of(&path->v[i]), start_line_of(&path->v[i]), at);
		at->file = call_file(u, &path->v[i]);
		at->line = (uint32_t)number_of(&path->v[i], DW_AT_call_line);
		at->discriminator = (uint32_t)number_of(&path->v[i], DW_AT_GNU_discriminator);
	}
	calls_add(ret, function, path->has_function ? start_line_of(&path->function) : 0, at);
}

/* The calls at an address, whose function has that name; NULL: its own. None when they are not known. */
static void find_calls(struct search *s, const struct unit *u, uint64_t addr, const char *function,
		       struct calls *ret)
{
	Dwarf_Line *line = dw.dwarf_getsrc_die(u->lines, addr);
	struct path path = {.search = s};
	struct call at = {0};
	int number = 0;

	if (!line || dw.dwarf_lineno(line, &number) < 0)
		return;
	(void)dw.dwarf_linediscriminator(line, &at.discriminator);
	at.file = dw.dwarf_linesrc(line, NULL, NULL);
	at.line = number > 0 ? (uint32_t)number : 0;
	ret->folder = text_attribute(u->lines, DW_AT_comp_dir);
	(void)path_into(u->scopes, addr, 0, &path);
	if (s->late) /* calls may be missing */
		return;
	if (!function && path.has_function)
		function = name_of(&path.function);
	if (path.has_function && dw.dwarf_entrypc(&path.function, &ret->entry) < 0)
		ret->entry = 0;
	add_calls(u, &path, function, &at, ret);
}

/* Adds source lines to a symbol that has a name and no lines. */
static int complete_symbol(struct search *s, const struct unit *u, size_t i)
{
	_cleanup_(calls_fini) struct calls calls = {.n = 0};
	struct elf_symbol *symbol = &s->symbols[i];
	int r;

	if (!symbol->name || symbol->lines)
		return 0;
	find_calls(s, u, s->addrs[i] - s->delta, symbol->name, &calls);
	if (!calls.n)
		return 0;
	r = calls_write(&calls, symbol);
	if (r < 0)
		return r;
	symbol->start = s->addrs[i];
	symbol->end = s->addrs[i] + 1;
	return 0;
}

static int visit_calls(struct search *s, const struct unit *u, size_t i)
{
	_cleanup_(calls_fini) struct calls calls = {.n = 0};
	struct symbol_dwarf_call v[DEPTH_MAX];

	if (s->visited[i])
		return 0;
	find_calls(s, u, s->addrs[i], NULL, &calls);
	for (size_t k = 0; k < calls.n; k++)
		v[k] = (struct symbol_dwarf_call){.function = calls.v[k].function,
						  .line = calls.v[k].line,
						  .start_line = calls.v[k].start_line,
						  .discriminator = calls.v[k].discriminator,
						  .entry = k + 1 == calls.n ? calls.entry : 0};
	s->visited[i] = calls.n;
	return calls.n ? s->visit(i, v, calls.n, s->data) : 0;
}

static int search_range(struct search *s, const struct unit *u, uint64_t start, uint64_t end)
{
	for (size_t i = array_first_from(s->addrs, s->n, start + s->delta);
	     i < s->n && s->addrs[i] - s->delta < end && !is_late(s); i++) {
		int r = s->symbols ? complete_symbol(s, u, i) : visit_calls(s, u, i);

		if (r < 0)
			return r;
	}
	return 0;
}

static int search_unit(struct search *s, Dwarf_Die *unit, Dwarf_Die *split)
{
	const struct unit u = {unit, split ?: unit};
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int r = 0;

	while (r == 0 && !is_late(s) && (at = dw.dwarf_ranges(unit, at, &base, &start, &end)) > 0)
		if (start < end)
			r = search_range(s, &u, start, end);
	return r;
}

static int search_all(struct search *s, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;
	int r = 0, more;

	do {
		Dwarf_Die unit, split = {0};

		more = dw.dwarf_get_units(dwarf, cu, &cu, NULL, &type, &unit, &split);
		if (more == 0 && (type == DW_UT_compile || type == DW_UT_skeleton))
			r = search_unit(s, &unit, type == DW_UT_skeleton && split.cu ? &split : NULL);
	} while (r == 0 && more == 0 && !is_late(s));
	return r;
}

/* How many symbols have a name only because the time was over. */
static int count_left(const struct search *s)
{
	int n = 0;

	for (size_t i = 0; s->late && i < s->n; i++)
		n += s->symbols[i].name && !s->symbols[i].lines;
	return n;
}

static int search_file(struct search *s, int fd)
{
	int readable = fs_reopen(fd), r;
	Dwarf *dwarf;

	if (readable < 0)
		return readable;
	dwarf = dw.library ? dw.dwarf_begin(readable, DWARF_C_READ) : NULL;
	r = dwarf ? search_all(s, dwarf) : -ENODATA;
	if (dwarf)
		dw.dwarf_end(dwarf);
	close(readable);
	return r;
}

int symbol_dwarf_lines(int fd, uint64_t delta, const uint64_t *addrs, size_t n, struct elf_symbol *symbols)
{
	struct search s = {.delta = delta,
			   .until_ns = clock_thread_cpu_ns() + CPU_NS,
			   .addrs = addrs,
			   .n = n,
			   .symbols = symbols};
	int r = search_file(&s, fd);

	return r < 0 ? r : count_left(&s);
}

int symbol_dwarf_calls(int fd, const uint64_t *addrs, size_t n, symbol_dwarf_visit_fn visit, void *data)
{
	_cleanup_free_ bool *visited = calloc(n + 1, sizeof *visited);
	struct search s = {.until_ns = UINT64_MAX,
			   .addrs = addrs,
			   .n = n,
			   .visit = visit,
			   .data = data,
			   .visited = visited};

	return visited ? search_file(&s, fd) : -ENOMEM;
}
