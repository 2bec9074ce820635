// SPDX-License-Identifier: Apache-2.0
/*
 * The subcommands. Each parses its own arguments (argv[0] is the name of the subcommand) and returns the exit
 * code of the process.
 */
#ifndef PROFLET_CMD_H
#define PROFLET_CMD_H

#include "agent/base/exit_code.h"

int cmd_run(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_tables(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
