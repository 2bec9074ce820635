// SPDX-License-Identifier: Apache-2.0
/* Runs the subcommand that argv[1] names. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/alive.h"
#include "agent/base/cleanup.h"
#include "agent/command/cmd.h"
#include "agent/command/parsers.h"
#include "agent/config/secrets.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
	bool profiles; /* reads the binaries of others */
} commands[] = {
	{"run", cmd_run, "profile this node and send OTLP profiles to a collector, until SIGTERM", true},
	{"record", cmd_record, "profile this host or one command for a while, write flamegraph and pprof",
	 true},
	{"top", cmd_top, "show what runs now on the terminal: functions, processes, containers", true},
	{"show", cmd_show, "show a recording: functions, tree of calls, flamegraph; also of other profilers",
	 false},
	{"diff", cmd_diff, "compare two recordings: which functions take more or less, beyond noise", false},
	{"check", cmd_check, "report whether run would work here, and if not, why and what to change", false},
	{"tables", cmd_tables, "print the unwind table of ELF files", false},
	{"version", cmd_version, "print version, commit and requirements", false},
};

static void usage(FILE *out)
{
	fputs("proflet profiles every process of a Linux host with eBPF, without frame pointers.\n\n"
	      "Usage: proflet COMMAND [OPTION]...\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("  help     print this text, or with the name of a command, its options and their defaults\n\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not permitted.\n\n"
	      "A flamegraph of this host, as root:  proflet record -d 10s -o profile\n"
	      "What runs right now:                 proflet top\n"
	      "Will the agent work here?            proflet check\n",
	      out);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* Prints the name without control characters, which could affect the terminal. */
static int unknown(const char *name)
{
	fputs("proflet: \"", stderr);
	for (const char *p = name; *p && p - name < 40; p++)
		fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, stderr);
	fputs("\" is no command; accepted is ", stderr);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(stderr, "%s, ", commands[i].name);
	fputs("help\n", stderr);
	return EXIT_USAGE;
}

/* `proflet help COMMAND` is `proflet COMMAND --help`. */
static int help(int argc, char **argv)
{
	static char option[] = "--help";
	const struct command *command;

	if (argc < 2) {
		usage(stdout);
		return EXIT_DONE;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	return command->run(2, (char *[]){argv[1], option, NULL});
}

static int profile(const struct command *command, int argc, char **argv)
{
	int code;

	parsers_start();
	code = command->run(argc, argv);
	parsers_stop();
	return code;
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *name = argc < 2 ? NULL : argv[1];

	if (!name) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help(argc - 1, argv + 1);
	command = find(strcmp(name, "--version") == 0 ? "version" : name);
	if (!command)
		return unknown(name);
	if (alive_is_called(argc, argv))
		return alive_check(argv[2]);
	secrets_hide();
	return command->profiles ? profile(command, argc - 1, argv + 1) : command->run(argc - 1, argv + 1);
}
