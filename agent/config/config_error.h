// SPDX-License-Identifier: Apache-2.0
/* Error messages about the configuration: one line each, with the place, what was found and what is accepted.
 * Private to agent/config. */
#ifndef PROFLET_CONFIG_ERROR_H
#define PROFLET_CONFIG_ERROR_H

#include "agent/config/config_types.h"

/* "proflet: " + text in *ret_error, owned by the caller. Control characters become '?', so that it stays one
 * line. Returns -EINVAL, or -ENOMEM without a message. */
int config_fail(char **ret_error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As config_fail, with the place in front: "FILE:LINE:COLUMN: KEY: ", "option --x: " or "environment variable
 * X: ". */
int config_fail_at(const struct config *c, const struct config_origin *origin, const char *key,
		   char **ret_error, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
