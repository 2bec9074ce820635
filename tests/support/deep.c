// SPDX-License-Identifier: Apache-2.0
/*
 * Spins at the bottom of DEPTH frames below main: level1 → level2 → … → level8 → level1 → … → bottom, which
 * is the last of them. usage: deep DEPTH [SECONDS], at least 2 deep; without SECONDS until it is killed
 *
 * Each level has a frame of its own size, so that an unwinder needs different rows.
 */
#include <stdio.h>

#include "spin.h"

#define LEVEL(next) (x > 1 ? next(x - 1) : bottom(x))

static unsigned long level1(unsigned long left);

DEFINE_LEAF(bottom)
DEFINE_LINK(level8, LEVEL(level1), 88)
DEFINE_LINK(level7, LEVEL(level8), 24)
DEFINE_LINK(level6, LEVEL(level7), 104)
DEFINE_LINK(level5, LEVEL(level6), 56)
DEFINE_LINK(level4, LEVEL(level5), 136)
DEFINE_LINK(level3, LEVEL(level4), 40)
DEFINE_LINK(level2, LEVEL(level3), 72)
DEFINE_LINK(level1, LEVEL(level2), 24)

int main(int argc, char **argv)
{
	unsigned long depth = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (depth < 2 || depth > 200000) {
		fprintf(stderr, "usage: deep DEPTH [SECONDS], depth from 2 to 200000\n");
		return 2;
	}
	stop_after(argc > 2 ? argv[2] : "0");
	printf("%lu\n", level1(depth - 1));
	return 0;
}
