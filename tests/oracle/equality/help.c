// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/help.h"

#include <stdio.h>

#include "agent/base/cleanup.h"
#include "tests/oracle/equality/compare.h"

static const char usage[] =
	"usage: table_equality [OPTION]... FILE...\n"
	"\n"
	"Compares `proflet tables` with `readelf --debug-dump=frames-interp`, an independent reader\n"
	"of the same bytes. At every address that an FDE of .eh_frame or .debug_frame covers, the\n"
	"CFA, the frame pointer and the return address must agree; where none covers it, proflet must\n"
	"have no row but those counted below. Prints a line for each file and one that counts.\n"
	"Exit 0: no difference; 1: differences, or a file that could not be read; 2: usage.\n"
	"\n"
	"  --proflet PROGRAM  (default: proflet beside this program)\n"
	"  --rows FILE        what `proflet tables` printed for the one FILE, instead of running it\n"
	"  --summary FILE     the same of `proflet tables --summary`, asked only where rows differ\n"
	"  --reference FILE   what readelf reads: the same program in another form (not stripped)\n"
	"  --show N           differences printed per file (5)\n"
	"  --self-test        check the parts of this program, and that planted differences are found\n"
	"\n"
	"Where readelf's table says less or something else than the call-frame information:\n"
	"\n"
	"  u     readelf prints \"u\" for a register without a rule as for DW_CFA_undefined. For the\n"
	"        frame pointer (and for x30 on aarch64) both readings are accepted; for rip it is the\n"
	"        outermost frame.\n"
	"  exp   (and vexp) the interpreted dump does not show expressions: they are from the raw dump\n"
	"        (--debug-dump=frames), followed through remember_state, restore_state and restore.\n"
	"  rows  readelf prints rows behind the end of the FDE when the instructions go on: cut. An\n"
	"        FDE whose instructions are all nops gets no row: the CIE's row holds.\n"
	"  rsp   where a rule for the stack pointer exists (longjmp, setcontext), the caller's stack\n"
	"        pointer is not the CFA, and `proflet tables` shows where it is instead: computed from\n"
	"        readelf's columns.\n"
	"  S     glibc's __restore_rt, whose registers are all in the signal frame, is \"signal\".\n"
	"  Go    proflet takes a Go function from .gopclntab; .debug_frame is made from the same stack\n"
	"        depths. That says nothing of the frame pointer: not compared. Nor of where the\n"
	"        runtime's own functions leave their stack or are outermost (switch, undef, signal,\n"
	"        none, a return address in a register), and it takes signal handlers for outermost:\n"
	"        such rows may differ, at most %u of a file.\n"
	"\n"
	"FDEs that overlap are resolved as agent/elf/cfi/rows.h says: .eh_frame before .debug_frame, then\n"
	"the one that starts last, then the first in the section. FDEs of no length, or (in\n"
	".debug_frame) at address 0, which the linker has dropped, are left out. A warning of readelf\n"
	"is a failure, but for a debug file's .interp and .dynamic, which have no bytes there. The\n"
	"separate debug file, as readelf finds it, is looked at where proflet has rows that no FDE of\n"
	"the file has.\n"
	"\n"
	"Counted, and no difference:\n"
	"\n";

void help_print(void)
{
	static const struct {
		const char *name, *text;
	} counts[] = {
#define X(name, printed, text) {printed, text},
		COMPARE_COUNTS(X)
#undef X
	};

	printf(usage, GO_RUNTIME_ROWS);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		printf("  %-14s %s\n", counts[i].name, counts[i].text);
}
