// SPDX-License-Identifier: Apache-2.0
/* What commands have in common: options and configuration, exit codes. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/exit_code.h"
#include "agent/command/session.h"

Test(command, help_and_mistakes_end_it, .init = cr_redirect_stdout)
{
	static const struct {
		const char *option;
		int code;
	} table[] = {{"--help", EXIT_DONE},
		     {"-h", EXIT_DONE},
		     {"--no-such-option", EXIT_USAGE},
		     {"--sampling.frequency=0", EXIT_USAGE},
		     {"positional", EXIT_USAGE},
		     {"--sampling.frequency=7", COMMAND_GOES_ON}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_config_ struct config *config = NULL;
		char *argv[] = {(char *)"run", (char *)table[i].option, NULL};
		const struct command_line line = {.argc = 2, .argv = argv, .usage = "Usage: test\n"};

		cr_expect_eq(command_load(&config, &line, NULL), table[i].code, "%s", table[i].option);
		cr_expect_eq(config != NULL, table[i].code == COMMAND_GOES_ON, "%s", table[i].option);
	}
}

Test(command, the_usage_comes_before_the_options, .init = cr_redirect_stdout)
{
	_cleanup_config_ struct config *config = NULL;
	char *argv[] = {(char *)"run", (char *)"--help", NULL};
	const struct command_line line = {.argc = 2, .argv = argv, .usage = "Usage: test\n"};
	char text[64] = "";
	FILE *out;

	cr_assert_eq(command_load(&config, &line, NULL), EXIT_DONE);
	fflush(stdout);
	out = cr_get_redirected_stdout();
	cr_assert_eq(fread(text, 1, 20, out), 20u);
	cr_expect_str_eq(text, "Usage: test\nOptions:");
}

Test(command, arguments_after_the_options)
{
	_cleanup_config_ struct config *config = NULL;
	char *argv[] = {(char *)"record", (char *)"--window", (char *)"1s",
			(char *)"--",	  (char *)"make",     NULL};
	const struct command_line line = {.argc = 5, .argv = argv, .usage = "", .positional = true};
	int first = -1;

	cr_assert_eq(command_load(&config, &line, &first), COMMAND_GOES_ON);
	cr_expect_eq(first, 4);
}

Test(command, exit_codes_of_failures, .init = cr_redirect_stderr)
{
	cr_expect_eq(command_failed(-EPERM, "no rights"), EXIT_NOT_PERMITTED);
	cr_expect_eq(command_failed(-EACCES, NULL), EXIT_NOT_PERMITTED);
	cr_expect_eq(command_failed(-ESRCH, "gone"), EXIT_FAILED);
	cr_expect_eq(command_failed(-EOPNOTSUPP, NULL), EXIT_FAILED);
	fflush(stderr);
	cr_assert_stderr_eq_str("proflet: no rights\nproflet: Permission denied\nproflet: gone\n"
				"proflet: Operation not supported\n");
}

/* -F comes before sampling.frequency, and that before the commands' own default. */
Test(session, frequency)
{
	static const struct {
		const char *options[2];
		uint32_t hz;
	} table[] = {{{NULL}, 99},
		     {{"-F7"}, 7},
		     {{"--sampling.frequency=19"}, 19},
		     {{"--sampling.frequency=50"}, 50},
		     {{"-F7", "--sampling.frequency=50"}, 7}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct session s = {0};
		const struct config_extra_option options[] = {SESSION_OPTIONS(s)};
		char *argv[] = {(char *)"top", (char *)table[i].options[0], (char *)table[i].options[1],
				NULL};
		struct command_line line = {
			.argv = argv, .options = options, .n_options = ARRAY_SIZE(options), .usage = ""};

		while (argv[line.argc])
			line.argc++;
		cr_assert_eq(session_load(&s, &line, NULL), COMMAND_GOES_ON);
		cr_expect_eq(s.config->sampling.frequency, table[i].hz, "row %zu: %u", i,
			     s.config->sampling.frequency);
		session_fini(&s);
	}
}

Test(session, targets_are_checked)
{
	cr_expect_null(session_check_pid("1"));
	cr_expect_not_null(session_check_pid("0"));
	cr_expect_not_null(session_check_pid("-1"));
	cr_expect_not_null(session_check_pid("4294967296"));
	cr_expect_not_null(session_check_pid("x"));
	cr_expect_null(session_check_container("0123456789ab"));
	cr_expect_not_null(session_check_container("0123456789a"));
	cr_expect_not_null(session_check_container("0123456789aB"));
	cr_expect_null(
		session_check_container("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
	cr_expect_not_null(
		session_check_container("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"));
}
