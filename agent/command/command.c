// SPDX-License-Identifier: Apache-2.0
#include "agent/command/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/exit_code.h"
#include "agent/base/log.h"
#include "agent/base/urgency.h"
#include "agent/check/check.h"
#include "agent/config/secrets.h"
#include "agent/parser/parser.h"

#define URGENT_SHARE 0.05 /* of a CPU, until the configuration is known */

int command_load(struct config **ret, const struct command_line *line, int *ret_first)
{
	_cleanup_free_ char *error = NULL;
	int first = line->argc;
	int r = config_load(ret, line->argc, line->argv, line->options, line->n_options,
			    line->positional ? &first : NULL, &error);

	if (r == CONFIG_HELP_ASKED) {
		fputs(line->usage, stdout);
		config_help(stdout, line->options, line->n_options);
		return EXIT_DONE;
	}
	if (r < 0) {
		fprintf(stderr, "%s\n", error ? error : "proflet: out of memory");
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	(void)secrets_settle(*ret);
	if (ret_first)
		*ret_first = first;
	return COMMAND_GOES_ON;
}

int command_check_system(char **ret_why)
{
	int r = check_kernel_supported(ret_why);

	return r < 0 ? r : check_permissions(ret_why);
}

int command_urgent(void)
{
	int r = urgency_allow(URGENT_SHARE);

	urgency_check(URGENCY_EVENTS);
	parser_be_urgent();
	return r;
}

void command_urgent_within(const struct config *c, int r)
{
	urgency_set_share(c->cpu.max);
	if (r < 0)
		log_info("no thread is urgent (%s): where all CPUs are busy, samples may be late or lost; "
			 "needs "
			 "SYS_RESOURCE, and on kernels with CONFIG_RT_GROUP_SCHED SYS_NICE",
			 strerror(-r));
}

int command_failed(int r, const char *why)
{
	fprintf(stderr, "proflet: %s\n", why ? why : strerror(-r));
	return r == -EPERM || r == -EACCES ? EXIT_NOT_PERMITTED : EXIT_FAILED;
}

bool command_file_is(const char *path, const char *extension)
{
	const size_t n = strlen(path), m = strlen(extension);

	return n > m && strcmp(path + n - m, extension) == 0;
}
