// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/probe/tick.h"

#define ENTRY                                       \
	"ffffffff82000000 T __entry_text_start\n"   \
	"ffffffff82000b60 T asm_sysvec_something\n" \
	"ffffffff82001a87 T __entry_text_end\n"

static const struct {
	const char *text;
	int r;
	uint64_t function;
} rows[] = {
	{ENTRY "ffffffff8114a000 t tick_sched_timer\n", 0, 0xffffffff8114a000},
	{"ffffffff8114b000 t tick_nohz_handler\n" ENTRY, 0, 0xffffffff8114b000},
	/* Before 6.9 both names exist, and the tick has the older one. */
	{"ffffffff8114b000 t tick_nohz_handler\nffffffff8114a000 t tick_sched_timer\n" ENTRY, 0,
	 0xffffffff8114a000},
	{"ffffffff8114a000 t tick_sched_timer\nffffffff8114b000 t tick_nohz_handler\n" ENTRY, 0,
	 0xffffffff8114a000},
	{"ffffffff8114a000 t tick_sched_timer\n", -ENOENT, 0},
	{ENTRY "ffffffff8114a000 t tick_sched_timers\n", -ENOENT, 0},
	{ENTRY "ffffffffc0000000 t tick_sched_timer\t[module]\n", -ENOENT, 0},
	{"0000000000000000 T __entry_text_start\n0000000000000000 t tick_sched_timer\n", -EPERM, 0},
	{"", -EPERM, 0},
	{"garbage\n\n", -EPERM, 0},
};

Test(tick, symbols)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(fclose_p) FILE *f = tmpfile();
		struct tick_symbols s = {0};

		cr_assert(f);
		fputs(rows[i].text, f);
		rewind(f);
		cr_expect_eq(tick_symbols_read(f, &s), rows[i].r, "row %zu", i);
		cr_expect_eq(s.function, rows[i].function, "row %zu: %lx", i, (unsigned long)s.function);
		if (rows[i].r == 0) {
			cr_expect_eq(s.entry_text, 0xffffffff82000000);
			cr_expect_eq(s.entry_end, 0xffffffff82001a87);
		}
	}
}
