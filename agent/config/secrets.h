// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps secrets out of core files and of other processes' reach. They are copied on their way (environment,
 * parser, HTTP/2 frames, TLS), so not single pages are left out of a dump: a process that has any leaves no
 * core file and cannot be traced but with CAP_SYS_PTRACE (PR_SET_DUMPABLE). One without can be debugged as
 * usual. Rank 3.
 */
#ifndef PROFLET_SECRETS_H
#define PROFLET_SECRETS_H

#include <stdbool.h>

struct config;

/* To be called before the configuration is read. */
void secrets_hide(void);
/* To be called when it is: takes secrets_hide back if it has none. True: it has. */
bool secrets_settle(const struct config *config);

#endif
