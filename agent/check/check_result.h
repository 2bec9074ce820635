// SPDX-License-Identifier: Apache-2.0
/* The results of the checks: a list that the single checks append to, printed as text or JSON. */
#ifndef PROFLET_CHECK_RESULT_H
#define PROFLET_CHECK_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/buf.h"

/* The names are the contract of `proflet check --json`. */
enum check_status { CHECK_OK, CHECK_DEGRADED, CHECK_FAILS };

struct check_result {
	enum check_status status;
	bool permission; /* a capability, another user or a policy would end this failure: exit code 3 */
	char name[24];
	char detail[320];
	char fix[320]; /* "" when there is nothing to do */
};

#define CHECK_MAX_RESULTS 40

struct check_report {
	struct check_result results[CHECK_MAX_RESULTS];
	size_t n;
};

/* Appends a result. The texts are copied, cut to size, and cleaned: valid UTF-8, no control characters. */
void check_add(struct check_report *report, enum check_status status, const char *name, const char *detail,
	       const char *fix);
/* As check_add with CHECK_FAILS, for a failure that a permission would end. */
void check_add_denied(struct check_report *report, const char *name, const char *detail, const char *fix);

/* 0 `run` would work, 3 it lacks permissions, 1 something else is missing (exit_code.h). */
int check_exit_code(const struct check_report *report);
/* One line per result: "ok  name  detail", followed by " → fix" where there is one. 0 or -ENOMEM. */
int check_format_text(const struct check_report *report, struct buf *b);
/* [{"name", "status", "detail", "fix"}, …]. 0 or -ENOMEM. */
int check_format_json(const struct check_report *report, struct buf *b);

#endif
