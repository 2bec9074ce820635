// SPDX-License-Identifier: Apache-2.0
/* The subcommands. Each takes its own arguments (argv[0] is the subcommand) and returns the process's exit
 * code. Rank 3. */
#ifndef PROFLET_CMD_H
#define PROFLET_CMD_H

/* Exit codes, a contract with scripts. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_PERMITTED = 3 };

int cmd_run(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_tables(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
