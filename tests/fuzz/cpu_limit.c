// SPDX-License-Identifier: Apache-2.0
/*
 * Linked to each libFuzzer target. libFuzzer measures an input by the clock on the wall, by which each is
 * slow where a CPU has other work. So `run` sets a limit of CPU time (RLIMIT_CPU), and an input that uses
 * it up is reported like one that crashes: libFuzzer writes its stack and the input.
 */
#include <signal.h>
#include <stdlib.h>

static void cpu_used_up(int sig)
{
	(void)sig;
	abort();
}

__attribute__((constructor)) static void report_cpu_used_up(void)
{
	struct sigaction act = {.sa_handler = cpu_used_up};

	sigaction(SIGXCPU, &act, NULL);
}
