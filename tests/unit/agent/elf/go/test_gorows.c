// SPDX-License-Identifier: Apache-2.0
/*
 * Uses binaries that the installed Go toolchain builds with each of its ways to link. The rows must agree
 * with .debug_frame, which Go's linker makes of the same stack depths in another form, and the names with
 * .symtab.
 */
#include "tests/unit/agent/elf/elf_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/elf/cfi/fde_reader.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/names/go_names.h"
#include "agent/elf/go/gorows.h"
#include "agent/elf/unwind_table.h"
#include "agent/elf/file/strtab.h"
#include "agent/elf/names/symtab.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

#define ROWS_OF_THE_RUNTIME 80 /* rows in which .debug_frame may be wrong; more than any version has */

static const char pure[] = "package main\n"
			   "//go:noinline\n"
			   "func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }\n"
			   "func main() { println(fib(5)) }\n";
static const char with_c[] = "package main\n"
			     "// static int twice(int n) { return 2 * n; }\n"
			     "import \"C\"\n"
			     "func main() { println(C.twice(3)) }\n";

struct variant {
	const char *name, *source, *flags, *env;
	bool stripped, c;
};

static const struct variant variants[] = {
	{"exe", pure, "", "CGO_ENABLED=0", false, false},
	{"stripped", pure, "-ldflags='-s -w'", "CGO_ENABLED=0", true, false},
	{"pie", pure, "-buildmode=pie", "CGO_ENABLED=0", false, false},
	{"cgo", with_c, "", "CGO_ENABLED=1", false, true},
	{"cgo stripped", with_c, "-ldflags='-s -w'", "CGO_ENABLED=1", true, true},
	{"cgo pie stripped", with_c, "-buildmode=pie -ldflags='-s -w'", "CGO_ENABLED=1", true, true},
	{"arm64", pure, "", "CGO_ENABLED=0 GOARCH=arm64", false, false},
};

static bool have(const char *command)
{
	_cleanup_buf_ struct buf line = {0};

	buf_printf(&line, "%s >/dev/null 2>&1", command);
	return system(buf_str(&line)) == 0;
}

/* Builds the variant. NULL: this toolchain cannot. */
static struct elf_image *build(const struct variant *v)
{
	char dir[] = "/tmp/proflet-test-go-XXXXXX", path[sizeof(dir) + 16];
	_cleanup_buf_ struct buf command = {0};
	struct elf_image *img = NULL;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/main.go", dir);
	FILE *f = fopen(path, "we");
	cr_assert_not_null(f);
	fputs(v->source, f);
	fclose(f);
	buf_printf(&command,
		   "cd %s && GO111MODULE=off GOTOOLCHAIN=local GOPROXY=off GOFLAGS= %s go build %s -o out "
		   "main.go",
		   dir, v->env, v->flags);
	int built = system(buf_str(&command));
	snprintf(path, sizeof(path), "%s/out", dir);
	_cleanup_close_ int fd = built == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0)
		cr_assert_eq(elf_image_open(&img, fd), 0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/main.go", dir);
	unlink(path);
	rmdir(dir);
	return img;
}

static const struct elf_rule *rule_at(const struct elf_rows *t, uint64_t va)
{
	const struct elf_row *row = elf_rows_find(t, va);

	return row ? &t->rules[row->rule] : &t->rules[0];
}

/* The table of .debug_frame alone. */
static struct elf_rows *debug_rows(struct elf_image *img)
{
	struct elf_rows *t = NULL;
	struct elf_data data;
	struct row_spans f = {0};

	cr_assert_eq(elf_image_section(img, ".debug_frame", &data), 0);
	const struct cfi_section s = {.bytes = data.bytes,
				      .len = data.len,
				      .arch = elf_arch(elf_image_machine(img)),
				      .debug = true,
				      .bases = {.bytes = data.bytes, .section = data.va}};
	cr_assert_eq(row_spans_init(&f, NULL, 0), 0);
	cr_assert_eq(fdes_read(&f, &s), 0);
	cr_assert_eq(row_spans_lay_out(&f, &t), 0);
	row_spans_fini(&f);
	return t;
}

/* .debug_frame does not know what a signal handler pushes. */
static bool is_of_the_runtime(const struct elf_rule *r)
{
	if (r->cfa_reg == elf_arch_aarch64.sp && r->flags & RULE_INTERRUPTS)
		return true;
	return r->cfa_kind != CFA_REG_OFF || r->ra.kind == REG_REGISTER;
}

static void compare_rows(const char *what, struct elf_image *img, const struct elf_rows *t)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *debug = debug_rows(img);
	size_t n = 0, runtime = 0, wrong = 0;

	for (size_t i = 0; i + 1 < debug->n_rows; i++) {
		const struct elf_rule *want = &debug->rules[debug->rows[i].rule];
		const struct elf_rule *rule = rule_at(t, debug->rows[i].va);

		if (want->cfa_kind != CFA_REG_OFF)
			continue;
		n++;
		if (is_of_the_runtime(rule))
			runtime++;
		else if (rule->cfa_reg != want->cfa_reg || rule->cfa_off != want->cfa_off ||
			 rule->ra.kind != want->ra.kind || rule->ra.off != want->ra.off)
			wrong++;
	}
	cr_expect_gt(n, 3000, "%s: %zu rows", what, n);
	cr_expect_eq(wrong, 0, "%s: %zu of %zu rows differ from .debug_frame", what, wrong, n);
	cr_expect_leq(runtime, ROWS_OF_THE_RUNTIME, "%s: %zu rows of the runtime", what, runtime);
}

/* The symbols of .symtab themselves, since elf_symtab_resolve prefers the spelling of the function table. */
struct symbols {
	struct elf_strtab strings;
	Elf64_Sym *v;
	size_t n;
};

static struct symbols symbols_read(struct elf_image *img)
{
	struct symbols s = {0};
	struct elf_section table;
	uint8_t *bytes;

	if (elf_image_find_section_type(img, SHT_SYMTAB, &table) < 0 ||
	    !elf_strtab_open(&s.strings, img, &table))
		return s;
	cr_assert_eq(elf_image_pread_new(img, table.offset, table.bytes, &bytes), 0);
	s.v = (Elf64_Sym *)bytes;
	s.n = table.bytes / sizeof *s.v;
	return s;
}

static void symbols_name(struct symbols *s, uint64_t va, char ret[ELF_STRING_MAX + 1])
{
	ret[0] = '\0';
	for (size_t i = 0; i < s->n; i++) {
		const Elf64_Sym *sym = &s->v[i];

		if (ELF64_ST_TYPE(sym->st_info) == STT_FUNC && va - sym->st_value < sym->st_size)
			strcpy(ret, elf_strtab_get(&s->strings, sym->st_name));
	}
}

/* The address of each row must have the name in the symbol table, which also contains the ABI. */
static void compare_names(const char *what, struct elf_image *img, const struct elf_rows *t)
{
	enum { N = 512 };
	uint64_t addrs[N];
	struct elf_symbol found[N] = {0};
	size_t n = 0, compared = 0;

	for (size_t i = 0; i + 1 < t->n_rows && n < N; i += t->n_rows / N + 1) {
		if (t->rows[i].rule)
			addrs[n++] = t->rows[i].va;
	}
	for (size_t i = 0; i < n; i++)
		found[i].end = UINT64_MAX;
	cr_assert_eq(gonames_resolve(img, addrs, n, false, found), 0);
	struct symbols symbols = symbols_read(img);
	for (size_t i = 0; i < n; i++) {
		char name[ELF_STRING_MAX + 1], *abi;

		symbols_name(&symbols, addrs[i], name);
		abi = strstr(name, ".abi");
		if (abi)
			*abi = '\0';
		if (found[i].name && name[0] && !strchr(name, '[')) {
			compared++;
			cr_expect_str_eq(found[i].name, name, "%s: %" PRIx64, what, addrs[i]);
		}
		free(found[i].name);
	}
	free(symbols.v);
	cr_expect_gt(compared, n / 2, "%s: %zu of %zu names compared", what, compared, n);
}

static void expect_kind(const char *what, struct elf_image *img, const struct elf_rows *t, const char *name,
			enum cfa_kind kind)
{
	struct elf_symbol s = {.end = UINT64_MAX};

	for (size_t i = 0; i + 1 < t->n_rows; i++) {
		uint64_t va = t->rows[i].va;

		if (t->rules[t->rows[i].rule].cfa_kind != kind)
			continue;
		va += kind == CFA_SIGNAL; /* a signal trampoline begins a byte early */
		cr_assert_eq(gonames_resolve(img, &va, 1, false, &s), 0);
		bool equal = s.name && strcmp(s.name, name) == 0;
		free(s.name);
		s = (struct elf_symbol){.end = UINT64_MAX};
		if (equal)
			return;
	}
	cr_expect(false, "%s: %s has no row of kind %d", what, name, kind);
}

/*
 * On aarch64, whoever makes it look as if asyncPreempt was called has pushed 16 bytes; below those it saves
 * x30, and x29 below that.
 */
static void expect_preempted(const char *what, struct elf_image *img, const struct elf_rows *t)
{
	size_t n = 0;

	for (size_t i = 0; i + 1 < t->n_rows; i++) {
		const struct elf_rule *r = &t->rules[t->rows[i].rule];
		struct elf_symbol s = {.end = UINT64_MAX};

		if (!(r->flags & RULE_INTERRUPTS) || r->cfa_off <= 16)
			continue;
		cr_assert_eq(gonames_resolve(img, &t->rows[i].va, 1, false, &s), 0);
		if (s.name && strcmp(s.name, "runtime.asyncPreempt") == 0) {
			n++;
			cr_expect_eq(r->ra.off, -r->cfa_off, "%s: %d", what, r->ra.off);
			cr_expect(r->fp.kind == REG_SAME || r->fp.off == -r->cfa_off - 8, "%s: %d", what,
				  r->fp.off);
		}
		free(s.name);
	}
	cr_expect_geq(n, 2, "%s: %zu rows of asyncPreempt", what, n);
}

static void check_variant(const struct variant *v, struct elf_image *img)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *t = NULL;
	struct elf_data data;

	cr_assert_eq(elf_rows_build(&t, img), 0, "%s", v->name);
	cr_expect_gt(t->n_functions, 1000, "%s: %zu functions", v->name, t->n_functions);
	cr_expect_eq(t->n_skipped, 0, "%s: %zu skipped", v->name, t->n_skipped);
	cr_expect_eq(t->n_fdes > 0, v->c, "%s: %zu FDEs", v->name, t->n_fdes);
	if (elf_image_section(img, ".debug_frame", &data) == 0)
		compare_rows(v->name, img, t);
	if (!v->stripped)
		compare_names(v->name, img, t);
	expect_kind(v->name, img, t, "runtime.goexit", CFA_UNDEFINED);
	expect_kind(v->name, img, t, "runtime.mcall", CFA_UNDEFINED);
	expect_kind(v->name, img, t, "runtime.systemstack", CFA_SWITCH);
	expect_kind(v->name, img, t, "runtime.asmcgocall", CFA_SWITCH);
	if (elf_image_machine(img) == EM_X86_64) {
		expect_kind(v->name, img, t, "runtime.sigreturn__sigaction", CFA_SIGNAL);
		expect_kind(v->name, img, t, "runtime.clone", CFA_UNDEFINED);
	} else {
		expect_preempted(v->name, img, t);
	}
}

Test(go, binaries_of_the_installed_toolchain)
{
	bool have_cc = have("cc --version") || have("gcc --version");

	if (!have("go version"))
		cr_skip("no go in PATH");
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		if (variants[i].c && !have_cc)
			continue;
		_cleanup_(elf_image_free_p) struct elf_image *img = build(&variants[i]);

		cr_assert_not_null(img, "%s: go build failed", variants[i].name);
		check_variant(&variants[i], img);
	}
}
