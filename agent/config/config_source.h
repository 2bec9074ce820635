// SPDX-License-Identifier: Apache-2.0
/*
 * The three sources of values: file (config_file.c), environment (config_environment.c) and options
 * (config_options.c). Each applies what it finds to a struct config and records the origin; the order of the
 * calls is the precedence. Private to agent/config and the tests.
 *
 * All return 0, -ENOMEM, or -EINVAL with one whole error line in *ret_error, owned by the caller.
 */
#ifndef PROFLET_CONFIG_SOURCE_H
#define PROFLET_CONFIG_SOURCE_H

#include "agent/config/config_types.h"

#define CONFIG_MAX_FILE_BYTES (256u << 10)

/* `file` names the source in error messages. */
int config_yaml_apply(struct config *c, const char *file, const void *data, size_t len, char **ret_error);
int config_file_apply(struct config *c, const char *file, char **ret_error);

int config_environment_apply(struct config *c, char **ret_error);
/* The file that PROFLET_CONFIG names, for commands without --config; NULL: none. Borrowed. */
const char *config_environment_file(void);

/* What the command line contains besides the keys. */
struct config_options {
	const char *file; /* --config, borrowed from argv */
	bool help;
	int first_positional; /* index in argv; argc: none */
};

/*
 * The options are read twice, because the file that --config names is applied before the options that
 * override it. The scan only finds --config and --help and reports every malformed option; it stores nothing.
 * With `positional_allowed` false an argument that is no option is an error.
 */
int config_options_scan(int argc, char **argv, const struct config_extra_option *extra, size_t n_extra,
			bool positional_allowed, struct config_options *ret, char **ret_error);
int config_options_apply(struct config *c, int argc, char **argv, const struct config_extra_option *extra,
			 size_t n_extra, char **ret_error);

/* Appends the lines of a headers_file, parsed in place. No error message holds any of its text. */
int config_headers_parse(struct config_pairs *pairs, const char *file, char *text, char **ret_error);

#endif
