// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/symbol/demangle.h"

static const struct {
	const char *linkage_name, *expected; /* NULL: the name is shown unchanged */
} rows[] = {
	{"main", NULL},
	{"", NULL},
	{"_", NULL},
	{"_Z", NULL},
	{"_R", NULL},
	{"_Zx", NULL},
	{"_Realloc", NULL},
	{"__libc_start_main", NULL},
	{"runtime.gcDrain", NULL},
	{"main.(*T).func1", NULL},
	{"main.part", NULL},
	{"puts@plt", NULL},
	/* C++ */
	{"_ZN3net4Conn4readEPvm", "net::Conn::read"},
	{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
	{"_ZZN3foo3barEvENKUlT_E_clIiEEDaS0_", "foo::bar()::{lambda(auto:1)#1}::operator()<int>"},
	{"_ZL3maxIiET_S0_S0_", "max<int>"},
	{"_ZTV3Foo", "vtable for Foo"},
	{"_ZThn8_N3Foo3barEv", "non-virtual thunk to Foo::bar()"},
	{"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"},
	{"_ZN3FooD0Ev", "Foo::~Foo"},
	{"_Znwm", "operator new"},
	{"_Znwm@plt", "operator new@plt"},
	/* Rust legacy */
	{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
	{"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$"
	 "17h0123456789abcdefE",
	 "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>"},
	{"_ZN4core3fmt5write17h0123456789abcdefE.llvm.8211987", "core::fmt::write"},
	{"_ZN4core3fmt5write17h0123456789abcdefE.cold", "core::fmt::write [clone .cold]"},
	/* Rust v0 */
	{"_RNvC6_123foo3bar", "123foo::bar"},
	{"_RNvXs5_NtC3std2ioNtB5_4FileNtB5_4Read4read", "<std::io::File as std::io::Read>::read"},
	{"_RNvC5crateu8gdel_5qa", "crate::g\xc3\xb6"
				  "del"},
	{"_RNvC6_123foo3bar.llvm.12", "123foo::bar"},
	{"_RNvC0_3bar", "::bar"},
	/* D */
	{"_Dmain", "D main"},
	{"_D4demo3fooFiZv", "demo.foo(int)"},
	{"_D3std5stdio4File5writeMFNfAyaZv", "std.stdio.File.write(immutable(char)[])"},
	{"_D5three__T3fooTiZQhFiZi", "three.foo!(int).foo(int)"},
	{"_D4demo3fooFiZv@plt", "demo.foo(int)@plt"},
	{"_D4demo3fooFiZv.cold", "demo.foo(int) [clone .cold]"},
	{"_D3std9algorithm7sorting__T8medianOfSQBj10functional__T9binaryFunVAyaa5_61203c2062VQra1_61VQza1_"
	 "62ZQBsVEQDy8typecons__T4FlagVQCha9_6c65616e5269676874ZQBfi0TAQDnTmTmTmTmTmZQFoFNaNbNiNfQBbmmmmmZv",
	 "std.algorithm.sorting.medianOf!(std.functional.binaryFun!(\"a < b\", \"a\", \"b\").binaryFun, 0, "
	 "immutable(char)[][], ulong, ulong, ulong, ulong, ulong).medianOf(immutable(char)[][], ulong, "
	 "ulong, "
	 "ulong, ulong, ulong)"},
	{"_DYNAMIC", NULL},
	{"_D", NULL},
	{"_Dx", NULL},
	/* clones */
	{"copy_user.cold", "copy_user [clone .cold]"},
	{"copy_user.cold.12", "copy_user [clone .cold.12]"},
	{"copy_user.isra.0.cold", "copy_user [clone .isra.0] [clone .cold]"},
	{"copy_user.constprop.0.isra.0", "copy_user [clone .constprop.0] [clone .isra.0]"},
	{"copy_user.part.0", "copy_user [clone .part.0]"},
	{"helper.llvm.8123477", "helper"},
	{"helper.lto_priv.0", "helper"},
	{"helper.lto_priv.0.cold", "helper [clone .cold]"},
	{"helper.__uniq.123.llvm.77", "helper"},
	{"helper.localalias", "helper"},
	{"counter.1234", NULL},
	{"main.run.cold", "main.run [clone .cold]"},
	{".cold", NULL},
	{"helper.cold.", NULL},
	{"helper.cold.unknown", NULL},
	{"_ZN3foo3barEv.cold", "foo::bar [clone .cold]"},
	{"_ZN3foo3barEi.part.0.cold", "foo::bar [clone .part.0] [clone .cold]"},
	{"_ZN3foo3barEi.avx2.5", "foo::bar [clone .avx2.5]"},
	{"_ZN3foo3barEi.llvm.55", "foo::bar"},
	{"_Zx.cold", "_Zx [clone .cold]"},
	{"_Zx.x", NULL},
};

Test(demangle, names)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *name = symbol_demangle(rows[i].linkage_name);

		if (rows[i].expected && name)
			cr_expect_str_eq(name, rows[i].expected, "%s: %s", rows[i].linkage_name, name);
		else
			cr_expect(!rows[i].expected && !name, "%s: %s", rows[i].linkage_name,
				  name ? name : "NULL");
	}
}

/* Writes p<a, a>, then in each level two references to the level before: 2^levels words when printed. */
static void nest_cxx(struct buf *b, int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	buf_puts(b, "_Z1gI1pI1aS0_E"); /* S_ is p, S0_ a, S1_ p<a, a> */
	for (int i = 0; i < levels; i++)
		buf_printf(b, "S_IS%c_S%c_E", digits[i + 1], digits[i + 1]);
	buf_puts(b, "EvT_");
}

/*
 * The same with tuples. A reference counts bytes from the end of "_R", in base 62 with "_" for 0 and "0_" for
 * 1.
 */
static void nest_rust(struct buf *b, int levels)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t last, at = 0;

	buf_puts(b, "_RIC1a");
	for (int i = 0; i < levels; i++) {
		last = at;
		at = b->len - 2;
		if (i == 0)
			buf_puts(b, "TuuE");
		else if (last <= 62)
			buf_printf(b, "TB%c_B%c_E", digits[last - 1], digits[last - 1]);
		else
			buf_printf(b, "TB%c%c_B%c%c_E", digits[(last - 1) / 62], digits[(last - 1) % 62],
				   digits[(last - 1) / 62], digits[(last - 1) % 62]);
	}
	buf_puts(b, "E");
}

Test(demangle, names_that_explode_are_cut)
{
	uint64_t start = clock_thread_cpu_ns();

	for (int rust = 0; rust < 2; rust++) {
		_cleanup_buf_ struct buf b = {0};
		_cleanup_free_ char *name = NULL;

		(rust ? nest_rust : nest_cxx)(&b, 30);
		name = symbol_demangle(buf_str(&b));
		cr_assert(name, "%s", buf_str(&b));
		cr_expect_leq(strlen(name), SYMBOL_NAME_MAX);
		cr_expect_gt(strlen(name), SYMBOL_NAME_MAX / 2);
		cr_expect_str_eq(name + strlen(name) - 3, "...");
	}
	cr_expect_lt(clock_thread_cpu_ns() - start, NS_PER_SEC);
}

Test(demangle, cut_names_end_with_a_whole_character_and_their_clones)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_free_ char *name = NULL;

	/* sixty identifiers of 100 two-byte characters do not fit */
	buf_puts(&b, "_R");
	for (int i = 0; i < 60; i++)
		buf_puts(&b, "Nv");
	buf_puts(&b, "C1a");
	for (int i = 0; i < 60; i++) {
		buf_puts(&b, "u102");
		buf_puts(&b, "tda");
		for (int k = 0; k < 99; k++)
			buf_putc(&b, 'a');
	}
	buf_puts(&b, ".cold");
	name = symbol_demangle(buf_str(&b));
	cr_assert(name);
	cr_expect_leq(strlen(name), SYMBOL_NAME_MAX);
	cr_expect_str_eq(name + strlen(name) - strlen("... [clone .cold]"), "... [clone .cold]");
	cr_expect_lt((unsigned char)name[strlen(name) - strlen("... [clone .cold]") - 1], 0xc0);
}

Test(demangle, long_names_stay_mangled)
{
	_cleanup_free_ char *name = malloc(SYMBOL_MANGLED_MAX + 64);

	strcpy(name, "_ZN3foo");
	memset(name + 7, 'x', SYMBOL_MANGLED_MAX);
	name[SYMBOL_MANGLED_MAX + 7] = '\0';
	cr_expect_null(symbol_demangle(name));
}

#define STACK_BYTES (8u << 20) /* of a worker thread */
#define UNTOUCHED 0xa5

static void *demangle_on_own_stack(void *name)
{
	return symbol_demangle(name);
}

/* Bytes of stack that demangling the name uses. */
static size_t stack_used(const char *name)
{
	uint8_t *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t untouched = 0;
	pthread_attr_t attr;
	pthread_t thread;
	void *text;

	cr_assert_neq(stack, MAP_FAILED);
	memset(stack, UNTOUCHED, STACK_BYTES);
	pthread_attr_init(&attr);
	cr_assert_eq(pthread_attr_setstack(&attr, stack, STACK_BYTES), 0);
	cr_assert_eq(pthread_create(&thread, &attr, demangle_on_own_stack, (void *)name), 0);
	cr_assert_eq(pthread_join(thread, &text), 0);
	pthread_attr_destroy(&attr);
	free(text);
	while (untouched < STACK_BYTES && stack[untouched] == UNTOUCHED)
		untouched++;
	munmap(stack, STACK_BYTES);
	return STACK_BYTES - untouched;
}

Test(demangle, depth_is_bounded)
{
	static const char units[] = {'P', 'R', 'K', 'A', 'F', 'I', 'N', 'T', 'c', 'Y'};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		_cleanup_free_ char *name = malloc(SYMBOL_MANGLED_MAX + 1);

		for (int rust = 0; rust < 2; rust++) {
			size_t used;

			memset(name, units[i], SYMBOL_MANGLED_MAX);
			memcpy(name, rust ? "_R" : "_Z1fI", rust ? 2 : 5);
			name[SYMBOL_MANGLED_MAX] = '\0';
			used = stack_used(name);
			cr_expect_leq(used, STACK_BYTES / 8, "%.8s…: %zu bytes of stack", name, used);
		}
	}
}

/* Short names on which libiberty alone would work for minutes. */
Test(demangle, names_that_take_forever_stay_mangled)
{
	_cleanup_buf_ struct buf b = {0};
	uint64_t start = clock_thread_cpu_ns();

	buf_puts(&b, "_Zcv");
	for (int i = 0; i < 40; i++)
		buf_puts(&b, "T_I");
	buf_puts(&b, "i");
	for (int i = 0; i < 40; i++)
		buf_puts(&b, "E");
	buf_puts(&b, "v");
	cr_expect_null(symbol_demangle(buf_str(&b)));
	cr_expect_null(symbol_demangle("_RIC1aFGFFTC2wFFFFFFF_EuE"));
	buf_clear(&b);
	buf_puts(&b, "_D1a1fFHPiPi"); /* each map type refers to the one before as its key and as its value */
	for (int i = 0; i < 40; i++)
		buf_puts(&b, i ? "HQdQf" : "HQfQh");
	buf_puts(&b, "Zv");
	cr_expect_null(symbol_demangle(buf_str(&b)));
	buf_clear(&b);
	buf_puts(&b, "_D1a");
	for (int i = 0; i < 40; i++)
		buf_puts(&b, "__T1aS111");
	cr_expect_null(symbol_demangle(buf_str(&b)));
	cr_expect_lt(clock_thread_cpu_ns() - start, NS_PER_SEC);
}

/* The CPU time of demangling a name of so many bytes that is made of suffixes alone. */
static uint64_t cost_of_suffixes(size_t bytes)
{
	_cleanup_buf_ struct buf b = {0};
	uint64_t start;

	buf_puts(&b, "f");
	while (b.len + 6 < bytes)
		buf_puts(&b, ".cold");
	start = clock_thread_cpu_ns();
	for (int i = 0; i < 100; i++)
		free(symbol_demangle(buf_str(&b)));
	return clock_thread_cpu_ns() - start;
}

/* Suffixes are parsed in one pass: four times as many cost about four times as much, not sixteen times. */
Test(demangle, many_suffixes)
{
	cr_expect_lt(cost_of_suffixes(SYMBOL_MANGLED_MAX), 10 * cost_of_suffixes(SYMBOL_MANGLED_MAX / 4));
}
