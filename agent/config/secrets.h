// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps secrets out of core files and away from other processes. Secrets are copied into many places
 * (environment, parser, HTTP/2 frames, TLS), so single pages cannot be excluded from a dump. Instead, a
 * process that has any secret writes no core file and can be traced only with CAP_SYS_PTRACE
 * (PR_SET_DUMPABLE). A process without secrets can be debugged as usual.
 */
#ifndef PROFLET_SECRETS_H
#define PROFLET_SECRETS_H

#include <stdbool.h>

struct config;

/* Makes the process undumpable. Call before the configuration is read. */
void secrets_hide(void);
/*
 * Undoes secrets_hide if the configuration has no secrets. Call after it is read. Returns whether it has any.
 */
bool secrets_settle(const struct config *config);
/*
 * Overwrites the secrets of the configuration and of the environment, in a process that does not use them:
 * headers, and the addresses of Collector and proxy, which may have a password. What else has been copied
 * remains.
 */
void secrets_forget(struct config *config);

#endif
