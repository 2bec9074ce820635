// SPDX-License-Identifier: Apache-2.0
/* usage: renamed NAME: its main thread takes another name, and computes until it is ended. */
#include <sys/prctl.h>
#include <unistd.h>

#include "spin.h"

DEFINE_LEAF(work)

int main(int argc, char **argv)
{
	if (argc != 2 || prctl(PR_SET_NAME, argv[1]) < 0)
		return 2;
	alarm(3600);
	return (int)work((unsigned long)argc) & 1;
}
