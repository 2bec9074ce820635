// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>

#include "agent/base/resources.h"

/* Pages of files that this process has mapped and used; proc(5), /proc/pid/statm. */
static long resident_file_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long shared = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%*d %*d %ld", &shared) != 1)
		shared = -1;
	fclose(f);
	return shared;
}

extern const char __executable_start, etext; /* of the linker: where the program's code begins and ends */

/* Reads each page of the program's code. Returns something of all of them. */
static unsigned read_code(void)
{
	unsigned sum = 0;

	for (const volatile char *p = &__executable_start; p < &etext; p += 4096)
		sum = sum * 31 + (unsigned char)*p;
	return sum;
}

Test(resources, code_is_released_and_comes_back)
{
	unsigned code = read_code();
	long before = resident_file_pages(), after;

	resources_release_code();
	after = resident_file_pages();
	cr_expect(before > 0 && after > 0 && after < before, "%ld pages, then %ld", before, after);
	cr_expect(read_code() == code);
}
