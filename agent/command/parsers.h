// SPDX-License-Identifier: Apache-2.0
/* Starts the processes that read the bytes of others (agent/parser), for commands that profile. */
#ifndef PROFLET_COMMAND_PARSERS_H
#define PROFLET_COMMAND_PARSERS_H

struct config;

/* First of all, before anything is read that these processes must not have. A failure is logged. */
void parsers_start(void);
void parsers_stop(void);
/* How much memory each of them may take, as the configuration says. */
void parsers_limit(const struct config *config);

#endif
