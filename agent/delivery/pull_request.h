// SPDX-License-Identifier: Apache-2.0
/*
 * A request for a profile of what is sampled from now on (a pull). It is read in the delivery process, which
 * hands it to the agent as flat bytes. Pure.
 */
#ifndef PROFLET_DELIVERY_PULL_REQUEST_H
#define PROFLET_DELIVERY_PULL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/flat.h"

#define PULL_SECONDS 10u /* if the request has none */
#define PULL_SECONDS_MAX 300u
#define PULL_NAME_MAX 254u /* with the NUL: what Kubernetes allows */

struct http_request;

/* X(name, path) */
#define PULL_FORMS(X)                    \
	X(PPROF, "/debug/pprof/profile") \
	X(FLAMEGRAPH, "/flamegraph")     \
	X(TOP, "/top")

enum pull_form {
#define X(name, path) PULL_##name,
	PULL_FORMS(X)
#undef X
		PULL_FORMS_N
};

/* All that is given must apply to a process; 0 and "": not given. */
struct pull_request {
	enum pull_form form;
	uint32_t seconds;
	uint32_t pid;
	char container[PULL_NAME_MAX]; /* its name, or 12 to 64 digits of its id */
	char pod[PULL_NAME_MAX], namespace[PULL_NAME_MAX];
};

/* Whether it is the path of a profile. */
bool pull_path(const char *path, enum pull_form *ret);
/* Static string. */
const char *pull_form_path(enum pull_form form);
/*
 * Reads the parameters of a request whose path is one of these. 0; -EINVAL with a line for the client, which
 * is appended to `why`.
 */
int pull_request_parse(const struct http_request *r, struct pull_request *ret, struct buf *why);
/* 0 or -ENOMEM. */
int pull_request_put(const struct pull_request *r, struct buf *b);
/* Takes nothing on trust. 0 or -EBADMSG. */
int pull_request_get(struct flat_reader *bytes, struct pull_request *ret);

#endif
