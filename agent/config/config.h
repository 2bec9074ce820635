// SPDX-License-Identifier: Apache-2.0
/*
 * Loading the configuration. One table of keys (config_keys.c) defines the YAML keys, the long options, the
 * environment variables, the defaults, the help text and the reference manual. Precedence: option, then
 * environment, then file, then default.
 *
 * The caller of config_load owns the struct config (config_types.h). Nothing here logs, and no error message
 * or dump contains the value of a secret (headers).
 */
#ifndef PROFLET_CONFIG_H
#define PROFLET_CONFIG_H

#include <stdio.h>

#include "agent/base/buf.h"
#include "agent/config/config_types.h"

/*
 * Reads file, environment and options. argv[0] is the subcommand; options end at "--" or at the first
 * argument that is none. --config FILE is always understood. *ret_first_positional is the index in argv of
 * the first argument after the options (argc: none); where the pointer is NULL such arguments are errors.
 *
 * Returns 0; CONFIG_HELP_ASKED (1) when --help or -h was given (*ret stays unset; print config_help); -EINVAL
 * with *ret_error = one whole line without newline, owned by the caller ("proflet: FILE:3:1: KEY: what was
 * found; what is accepted") for anything the user wrote wrong: exit code 2; -ENOMEM (*ret_error may be
 * unset).
 */
enum { CONFIG_HELP_ASKED = 1 };
int config_load(struct config **ret, int argc, char **argv, const struct config_extra_option *extra,
		size_t n_extra, int *ret_first_positional, char **ret_error);
void config_free(struct config *c);
DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(config_free_p)

/* Where the value of a dotted key came from; NULL: no such key. Borrowed from `c`. */
const struct config_origin *config_origin(const struct config *c, const char *key);

/* Prints the options of a command: first `extra`, then every key with its default, grouped. */
void config_help(FILE *out, const struct config_extra_option *extra, size_t n_extra);
/* Appends the effective configuration as YAML with each value's origin as a comment; secrets are masked.
 * 0 or -ENOMEM. */
int config_dump(const struct config *c, struct buf *b);

/*
 * The request headers: `headers` plus those of `headers_file` as the file is now (lines "name: value" or
 * "name=value", # comments). Names are lower case. 0; -EINVAL or an error of opening or reading the file,
 * with *ret_error set (it shows no value); -ENOMEM.
 */
int config_headers_read(const struct config *c, struct config_pairs *ret, char **ret_error);

#endif
