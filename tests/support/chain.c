// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose call chain is known: main → f1 → … → f8, all time spent in f8. usage: chain [SECONDS],
 * default 30
 *
 * The functions are static, so their names are in .symtab only. Each frame has its own size, one of them more
 * than two pages, so that an unwinder that guesses goes wrong.
 */
#include <stdio.h>

#include "spin.h"

DEFINE_LEAF(f8)
DEFINE_LINK(f7, f8(x + 1), 40)
DEFINE_LINK(f6, f7(x + 1), 1304)
DEFINE_LINK(f5, f6(x + 1), 88)
DEFINE_LINK(f4, f5(x + 1), 9000)
DEFINE_LINK(f3, f4(x + 1), 24)
DEFINE_LINK(f2, f3(x + 1), 264)
DEFINE_LINK(f1, f2(x + 1), 152)

int main(int argc, char **argv)
{
	stop_after(argc > 1 ? argv[1] : "30");
	printf("%lu\n", f1((unsigned long)argc));
	return 0;
}
