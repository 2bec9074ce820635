// SPDX-License-Identifier: Apache-2.0
/* What commands have in common: reading their options, checking the system, reporting failure. */
#ifndef PROFLET_COMMAND_H
#define PROFLET_COMMAND_H

#include "agent/config/config.h"

struct command_line {
	int argc;
	char **argv; /* argv[0] is the name of the command */
	const struct config_extra_option *options;
	size_t n_options;
	const char *usage; /* printed before the list of options for --help */
	bool positional;   /* the command takes arguments after its options */
};

enum { COMMAND_GOES_ON = -1 };

/*
 * Loads the configuration and handles --help and mistakes. Returns COMMAND_GOES_ON with the index of the
 * first positional argument (argc: none) in *ret_first, which may be NULL; or the exit code of the process.
 */
int command_load(struct config **ret, const struct command_line *line, int *ret_first);
/* Whether this kernel is supported and the required capabilities are there. 0, or -errno with *ret_why = a
 * line for the operator (owned); -EPERM: capabilities are missing. */
int command_check_system(char **ret_why);
/*
 * Makes the main thread urgent (agent/base/urgency.h), first of all: on a busy node, reading the
 * configuration may take seconds. 0 or -errno, for command_urgent_within, which sets the bound to cpu.max and
 * logs a failure.
 */
int command_urgent(void);
void command_urgent_within(const struct config *c, int r);
/* Prints the reason, or the errno text where `why` is NULL. Returns the exit code for it: EXIT_NOT_PERMITTED
 * for -EPERM and -EACCES, else EXIT_FAILED. */
int command_failed(int r, const char *why);
/* Whether the name of a file that is to be written has that extension, such as ".html". */
bool command_file_is(const char *path, const char *extension);

#endif
