// SPDX-License-Identifier: Apache-2.0
/*
 * The places a value comes from. Each reader applies what it finds to a struct config and notes the origin;
 * the order of the calls (file, environment, options) is the precedence. Private to agent/config*.c and their
 * tests. Rank 3.
 *
 * All return 0, -ENOMEM, or -EINVAL with one whole error line in *ret_error, owned by the caller.
 */
#ifndef PROFLET_CONFIG_SOURCE_H
#define PROFLET_CONFIG_SOURCE_H

#include "agent/config/config_keys.h"

#define CONFIG_MAX_FILE_BYTES (256u << 10)

/* What argv said beside the keys. */
struct config_options {
	const char *file; /* --config, borrowed from argv */
	bool help;
	int first_positional; /* index in argv; argc: none */
};

/* `file` names the source in error lines. */
int config_yaml_apply(struct config *c, const char *file, const void *data, size_t len, char **ret_error);
int config_file_apply(struct config *c, const char *file, char **ret_error);
int config_environment_apply(struct config *c, char **ret_error);
/* Two walks over argv: the first only finds --config and --help and reports every mistake of form; it stores
 * nothing. With `positional_allowed` false an argument that is no option is a mistake. */
int config_options_scan(int argc, char **argv, const struct config_extra_option *extra, size_t n_extra,
			bool positional_allowed, struct config_options *ret, char **ret_error);
int config_options_apply(struct config *c, int argc, char **argv, const struct config_extra_option *extra,
			 size_t n_extra, char **ret_error);

/* Adds the lines of a headers_file, which it takes apart in place. No error line holds any of its text. */
int config_headers_parse(struct config_pairs *pairs, const char *file, char *text, char **ret_error);

/* Sets key number `index` from text. A LIST or PAIRS that this same source has set already is added to. */
int config_key_set(struct config *c, size_t index, const struct config_origin *origin, const char *text,
		   char **ret_error);

/* "proflet: " + text; control characters become '?', so that it stays one line. Returns -EINVAL or -ENOMEM.
 */
int config_fail(char **ret_error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As config_fail, with the place in front: "FILE:LINE:COLUMN: KEY: ", "option --x: ", "environment variable
 * X: ". */
int config_fail_at(const struct config *c, const struct config_origin *origin, const char *key,
		   char **ret_error, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
