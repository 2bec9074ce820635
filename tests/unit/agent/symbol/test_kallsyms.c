// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/symbol/kallsyms.h"

DEFINE_CLEANUP(struct kallsyms *, kallsyms_free)
#define _cleanup_kallsyms_ _cleanup_(kallsyms_free_p)

static const char small[] = "0000000000000000 A fixed_percpu_data\n"
			    "ffffffff81000000 T _stext\n"
			    "ffffffff81000000 T _text\n"
			    "ffffffff81000040 T start_kernel\n"
			    "ffffffff81000100 t __pfx_do_one\n"
			    "ffffffff81000110 t do_one\n"
			    "ffffffff81000200 W memcpy\n"
			    "ffffffff81000200 T __memcpy\n"
			    "ffffffff81000300 t local_name\n"
			    "ffffffff81000300 T ___global\n"
			    "ffffffff81000300 T _global\n"
			    "ffffffff81000400 T __entry_text_end\n"
			    "ffffffff81000500 T last_function\n"
			    "ffffffff81000580 T _etext\n"
			    "ffffffff81000600 D some_data\n"
			    "ffffffff81900000 T _sinittext\n"
			    "ffffffff81900000 t init_function\n"
			    "ffffffff81900100 T _einittext\n"
			    "ffffffffc0008000 t ext4_read\t[ext4]\n"
			    "ffffffffc0008100 t ext4_write\t[ext4]\n"
			    "ffffffffc0002000 t nf_hook\t[nf_tables]\n"
			    "ffffffffc0100000 t bpf_prog_6deef7357e7b4530_sd_fw_egress\t[bpf]\n"
			    "ffffffffc0200000 t late\t[ext4]\n";

static void parse(const char *text, struct kallsyms **ret)
{
	cr_assert_eq(kallsyms_parse(ret, text, strlen(text)), 0);
}

Test(kallsyms, lookups)
{
	static const struct {
		uint64_t addr;
		const char *name, *module; /* name NULL: -ENOENT */
		uint64_t start, end;
	} rows[] = {
		{0, NULL, NULL, 0, 0},
		{0xffffffff80ffffff, NULL, NULL, 0, 0},
		{0xffffffff81000000, NULL, NULL, 0, 0}, /* a mark of the linker script is not a function */
		{0xffffffff81000040, "start_kernel", NULL, 0xffffffff81000040, 0xffffffff81000100},
		{0xffffffff810000ff, "start_kernel", NULL, 0xffffffff81000040, 0xffffffff81000100},
		{0xffffffff81000100, "__pfx_do_one", NULL, 0xffffffff81000100, 0xffffffff81000110},
		{0xffffffff81000110, "do_one", NULL, 0xffffffff81000110, 0xffffffff81000200},
		{0xffffffff81000210, "__memcpy", NULL, 0xffffffff81000200, 0xffffffff81000300},
		{0xffffffff81000310, "_global", NULL, 0xffffffff81000300, 0xffffffff81000400},
		{0xffffffff81000410, NULL, NULL, 0, 0}, /* between __entry_text_end and the next */
		{0xffffffff8100057f, "last_function", NULL, 0xffffffff81000500, 0xffffffff81000580},
		{0xffffffff81000580, NULL, NULL, 0, 0}, /* _etext */
		{0xffffffff81000610, NULL, NULL, 0, 0}, /* data */
		{0xffffffff81900010, "init_function", NULL, 0xffffffff81900000, 0xffffffff81900100},
		{0xffffffff81900100, NULL, NULL, 0, 0},
		{0xffffffffc0001fff, NULL, NULL, 0, 0},
		{0xffffffffc0002001, "nf_hook", "nf_tables", 0xffffffffc0002000, 0xffffffffc0008000},
		{0xffffffffc0008001, "ext4_read", "ext4", 0xffffffffc0008000, 0xffffffffc0008100},
		{0xffffffffc00180ff, "ext4_write", "ext4", 0xffffffffc0008100, 0xffffffffc0018100},
		{0xffffffffc0018100, NULL, NULL, 0, 0}, /* too far behind the module's last function */
		{0xffffffffc0100800, "bpf_prog_6deef7357e7b4530_sd_fw_egress", "bpf", 0xffffffffc0100000,
		 0xffffffffc0110000},
		{0xffffffffc0200001, "late", "ext4", 0xffffffffc0200000, 0xffffffffc0210000},
		{UINT64_MAX, NULL, NULL, 0, 0},
	};
	_cleanup_kallsyms_ struct kallsyms *t = NULL;

	parse(small, &t);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kallsyms_symbol s = {0};
		int r = kallsyms_lookup(t, rows[i].addr, &s);

		cr_expect_eq(r, rows[i].name ? 0 : -ENOENT, "%" PRIx64 ": %d %s", rows[i].addr, r, s.name);
		if (r < 0 || !rows[i].name)
			continue;
		cr_expect_str_eq(s.name, rows[i].name);
		cr_expect_eq(!s.module, !rows[i].module);
		if (s.module && rows[i].module)
			cr_expect_str_eq(s.module, rows[i].module);
		cr_expect_eq(s.start, rows[i].start, "%s starts %" PRIx64, s.name, s.start);
		cr_expect_eq(s.end, rows[i].end, "%s ends %" PRIx64, s.name, s.end);
	}
}

Test(kallsyms, modules)
{
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	struct kallsyms_symbol s;
	struct kallsyms_module m;
	struct kallsyms_stats stats;

	parse(small, &t);
	cr_assert_eq(kallsyms_module(t, 0, &m), 0);
	cr_expect_null(m.name);
	cr_expect_eq(m.start, 0xffffffff81000040);
	cr_expect_eq(m.end, 0xffffffff81000580, "up to _etext, without init text: %" PRIx64, m.end);
	cr_assert_eq(kallsyms_lookup(t, 0xffffffffc0008000, &s), 0);
	cr_assert_eq(kallsyms_module(t, s.module_index, &m), 0);
	cr_expect_str_eq(m.name, "ext4");
	cr_expect_eq(m.start, 0xffffffffc0008000);
	cr_expect_eq(m.end, 0xffffffffc0210000);
	cr_expect_eq(kallsyms_module(t, 4, &m), -ENOENT);
	kallsyms_table_stats(t, &stats);
	cr_expect_eq(stats.n_modules, 3);
	cr_expect_eq(stats.n_skipped, 0);
}

/* On arm64, modules lie more than 4 GiB from the kernel's text; with some kernels, BPF programs do. */
Test(kallsyms, far_apart)
{
	static const char text[] = "ffff800008000000 T first\n"
				   "ffff800008001000 T second\n"
				   "ffff900000000000 t far\t[mod]\n"
				   "ffff900000000100 t far_too\t[mod]\n"
				   "1000 t near\t[mod]\n";
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	struct kallsyms_symbol s;

	parse(text, &t);
	cr_expect(kallsyms_lookup(t, 0x1010, &s) == 0 && !strcmp(s.name, "near"));
	cr_expect_eq(kallsyms_lookup(t, 0x1000 + KALLSYMS_TAIL_MAX, &s), -ENOENT);
	cr_expect(kallsyms_lookup(t, 0xffff800008000fff, &s) == 0 && !strcmp(s.name, "first"));
	cr_expect(kallsyms_lookup(t, 0xffff800008001000, &s) == 0 && !strcmp(s.name, "second"));
	cr_expect_eq(kallsyms_lookup(t, 0xffff800108001000, &s), -ENOENT);
	cr_expect(kallsyms_lookup(t, 0xffff900000000080, &s) == 0 && !strcmp(s.name, "far") &&
		  !strcmp(s.module, "mod"));
	cr_expect(kallsyms_lookup(t, 0xffff900000000180, &s) == 0 && !strcmp(s.name, "far_too"));
}

Test(kallsyms, errors)
{
	static const struct {
		const char *text;
		int expected;
	} rows[] = {
		{"", -ENODATA},
		{"garbage", -ENODATA},
		{"ffffffff81000000 D data\n", -ENODATA},
		{"0000000000000000 T a\n0000000000000000 t b\n", -EPERM},
		{"0000000000000000 D a\n0000000000000000 t b\t[m]\n", -EPERM},
		{"0000000000000000 T a\nffffffff81000000 T b\n", 0},
		{"ffffffff81000000 T b", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_kallsyms_ struct kallsyms *t = NULL;

		cr_expect_eq(kallsyms_parse(&t, rows[i].text, strlen(rows[i].text)), rows[i].expected, "%s",
			     rows[i].text);
		cr_expect_eq(!t, rows[i].expected != 0);
	}
}

Test(kallsyms, malformed_lines_are_counted_and_skipped)
{
	static const char text[] = "ffffffff81000000 T good\n"
				   "ffffffff81000000\n"
				   "ffffffff81000000 T\n"
				   "ffffffff81000000 T \n"
				   "xyz T name\n"
				   "12345678901234567 T seventeen_digits\n"
				   "ffffffff81000100 t name\t[unclosed\n"
				   "ffffffff81000100 t name\t[]\n"
				   "\n"
				   "ffffffff81000200 T also_good\n";
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	struct kallsyms_stats stats;

	parse(text, &t);
	kallsyms_table_stats(t, &stats);
	cr_expect_eq(stats.n_symbols, 2);
	cr_expect_eq(stats.n_skipped, 8, "%zu", stats.n_skipped);
}

/* The table does not depend on how the text is split into reads, even with a name longer than any buffer. */
Test(kallsyms, reading_in_pieces)
{
	_cleanup_close_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	_cleanup_buf_ struct buf text = {0};
	struct kallsyms_symbol s;
	struct kallsyms_stats stats;
	char name[64];

	for (unsigned i = 0; i < 30000; i++)
		buf_printf(&text, "ffffffff%08x t function_number_%u%s\n", 0x81000000 + i * 16, i,
			   i % 7 ? "" : "\t[module_a]");
	buf_puts(&text, "ffffffffa0000000 t ");
	for (unsigned i = 0; i < 100000; i++)
		buf_putc(&text, 'x');
	buf_puts(&text, "\nffffffffb0000000 T last\n");
	cr_assert_eq(write(fd, text.data, text.len), (ssize_t)text.len);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(kallsyms_read(&t, fd), 0);
	kallsyms_table_stats(t, &stats);
	cr_expect_eq(stats.n_symbols, 30001);
	cr_expect_geq(stats.n_skipped, 1);
	for (unsigned i = 0; i < 30000; i++) {
		snprintf(name, sizeof name, "function_number_%u", i);
		cr_assert_eq(kallsyms_lookup(t, 0xffffffff81000000 + i * 16, &s), 0);
		cr_assert_str_eq(s.name, name);
		cr_assert_eq(!s.module, i % 7 != 0);
	}
	cr_expect(kallsyms_lookup(t, 0xffffffffb0000000, &s) == 0 && !strcmp(s.name, "last"));
}

Test(kallsyms, hidden_addresses_are_detected_early)
{
	_cleanup_close_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	_cleanup_buf_ struct buf text = {0};

	for (unsigned i = 0; i < 100000; i++)
		buf_printf(&text, "%016x t name_%u\n", 0, i);
	cr_assert_eq(write(fd, text.data, text.len), (ssize_t)text.len);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_expect_eq(kallsyms_read(&t, fd), -EPERM);
	cr_expect_lt(lseek(fd, 0, SEEK_CUR), (off_t)text.len / 4);
}

/*
 * Looks up the address of each text symbol of the running kernel, and expects one of the names listed for it.
 */
Test(kallsyms, the_running_kernel)
{
	_cleanup_close_ int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	_cleanup_kallsyms_ struct kallsyms *t = NULL;
	struct kallsyms_stats stats;
	uint64_t start = clock_thread_cpu_ns(), addr;
	size_t n = 0, n_named = 0;
	char type, name[600], rest[80] = "";
	int r;

	if (fd < 0 || !f)
		cr_skip_test("/proc/kallsyms cannot be opened");
	r = kallsyms_read(&t, fd);
	if (r == -EPERM)
		cr_skip_test("the kernel hides its addresses");
	cr_assert_eq(r, 0);
	fprintf(stderr, "kallsyms: %.1f ms CPU\n", (double)(clock_thread_cpu_ns() - start) / 1e6);
	kallsyms_table_stats(t, &stats);
	fprintf(stderr, "kallsyms: %zu symbols, %zu modules, %zu bytes, %zu skipped\n", stats.n_symbols,
		stats.n_modules, stats.bytes, stats.n_skipped);
	cr_expect_eq(stats.n_skipped, 0);
	cr_expect_lt(stats.bytes, stats.n_symbols * 35);
	while (fscanf(f, "%" SCNx64 " %c %599s%79[^\n]", &addr, &type, name, rest) >= 3) {
		/* BPF programs may be loaded or unloaded between the two readings. */
		bool bpf = strstr(rest, "[bpf]");
		struct kallsyms_symbol s;

		rest[0] = '\0';
		if (!strchr("tTwW", type) || !addr || bpf)
			continue;
		n++;
		if (kallsyms_lookup(t, addr, &s) < 0)
			continue;
		n_named++;
		cr_assert_eq(s.start, addr, "%s: %" PRIx64, name, s.start);
	}
	cr_expect_gt(n_named, n - 50, "%zu of %zu", n_named, n);
}
