// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/check/check.h"
#include "agent/check/check_view.h"
#include "agent/command/cmd.h"
#include "agent/command/command.h"
#include "agent/command/parsers.h"
#include "agent/delivery/http_server.h"

#define PROCESS_PAGE_BYTES (64u << 10)

static int print_report(const struct check_report *report, bool json)
{
	_cleanup_buf_ struct buf text = {0};
	int r = json ? check_format_json(report, &text) : check_format_text(report, &text);

	if (r == 0 && (fputs(buf_str(&text), stdout) == EOF || fflush(stdout) == EOF))
		r = -errno;
	return r;
}

/* Prints what the agent that runs says of a process. Returns the exit code. */
static int print_process(const struct config *config, unsigned pid)
{
	_cleanup_buf_ struct buf page = {.max = PROCESS_PAGE_BYTES};
	char path[32];
	int r;

	if (!config->listen) {
		fprintf(stderr, "proflet: the agent is asked at the address of listen, which is off\n");
		return EXIT_FAILED;
	}
	snprintf(path, sizeof path, "/debug/state/%u", pid);
	r = http_page_get(config->listen, path, &page);
	if (r == -ENOENT) {
		fprintf(stderr, "proflet: the agent at %s knows no process %u\n", config->listen, pid);
		return EXIT_FAILED;
	}
	if (r < 0) {
		fprintf(stderr, "proflet: no agent answers at %s: %s\n", config->listen, strerror(-r));
		return EXIT_FAILED;
	}
	fputs(buf_str(&page), stdout);
	return EXIT_DONE;
}

static const char usage[] =
	"Usage: proflet check [OPTION]...\n\n"
	"Reports for each thing that the agent needs whether it is there (ok), partly there (degraded: the\n"
	"agent works with less) or missing (fails), why, and what to change. Exit code 0: run would work;\n"
	"3: it lacks permissions; 1: something else is missing.\n\n"
	"`proflet check --alive` and `proflet check --ready`, without other options, call the agent that "
	"runs in\n"
	"the same container, or on this host, instead. Exit code 0: samples arrive; sampling has begun.\n\n"
	"`proflet check --process PID` prints what the agent that runs (at the address of listen) knows of "
	"a\n"
	"process, and why functions of its language are not shown.\n\n";

int cmd_check(int argc, char **argv)
{
	bool json = false;
	uint32_t pid = 0;
	const struct config_extra_option options[] = {
		{.name = "json",
		 .type = CONFIG_FLAG,
		 .target = &json,
		 .help = "print the report as a JSON array"},
		{.name = "process",
		 .type = CONFIG_U32,
		 .target = &pid,
		 .min = 1,
		 .max = UINT32_MAX,
		 .value_name = "PID",
		 .help = "print what the running agent knows of a process instead"},
	};
	_cleanup_config_ struct config *config = NULL;
	const struct command_line line = {argc, argv, options, ARRAY_SIZE(options), usage, false};
	struct check_report report;
	int r, code = command_load(&config, &line, NULL);

	if (code != COMMAND_GOES_ON)
		return code;
	if (pid)
		return print_process(config, pid);
	parsers_start(); /* as `run` does: the report says what these processes may do */
	check_run(&check_view_real, config, &report);
	parsers_stop();
	r = print_report(&report, json);
	if (r < 0) {
		fprintf(stderr, "proflet: the report cannot be printed: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	return check_exit_code(&report);
}
