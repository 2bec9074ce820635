// SPDX-License-Identifier: Apache-2.0
/*
 * The assembler reads the files (.incbin), found below the include directory that every compilation has: no
 * generated source, and no step for the build to know.
 */
#include "agent/output/assets.h"

#define EMBED(name, file)                                                    \
	__asm__(".pushsection .rodata\n"                                     \
		"output_asset_" #name ": .incbin \"" file "\"\n"             \
		"output_asset_" #name "_end: .byte 0\n"                      \
		".popsection\n");                                            \
	extern const char name##_start[] __asm__("output_asset_" #name)      \
		__attribute__((visibility("hidden")));                       \
	extern const char name##_end[] __asm__("output_asset_" #name "_end") \
		__attribute__((visibility("hidden")));
OUTPUT_ASSETS(EMBED)

#define BOUNDS(name, file) {name##_start, name##_end},
static const struct {
	const char *start, *end;
} assets[OUTPUT_N_ASSETS] = {OUTPUT_ASSETS(BOUNDS)};

const char *output_asset(enum output_asset asset, size_t *ret_len)
{
	*ret_len = (size_t)(assets[asset].end - assets[asset].start);
	return assets[asset].start;
}
