// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/status.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/proc/entry.h"

/*
 * The text after "\nNAME:" up to the end of the line; false: there is no such line. Names are not indented,
 * and newlines in the process's own name, the only untrusted text, are escaped.
 */
static bool find_line(const char *text, size_t len, const char *name, const char **ret, const char **ret_end)
{
	const char *found = memmem(text, len, name, strlen(name)), *end = text + len, *newline;

	if (!found)
		return false;
	found += strlen(name);
	newline = memchr(found, '\n', (size_t)(end - found));
	*ret = found;
	*ret_end = newline ? newline : end;
	return true;
}

/* Consumes the next number of the line. */
static bool take_number(const char **p, const char *end, uint32_t *ret)
{
	const char *start;
	uint64_t v = 0;

	while (*p < end && (**p == ' ' || **p == '\t'))
		(*p)++;
	for (start = *p; *p < end && **p >= '0' && **p <= '9' && v <= UINT32_MAX; (*p)++)
		v = v * 10 + (uint64_t)(**p - '0');
	*ret = (uint32_t)v;
	return *p > start && v <= UINT32_MAX;
}

int proc_status_parse(const char *text, size_t len, struct proc_status *ret)
{
	struct proc_status status = {0};
	const char *p, *end;
	uint32_t pid;

	if (!find_line(text, len, "\nUid:", &p, &end))
		return -EINVAL;
	for (int i = 0; i < 4; i++)
		if (!take_number(&p, end, &status.uids[i]))
			return -EINVAL;
	if (!find_line(text, len, "\nNSpid:", &p, &end) || !take_number(&p, end, &pid))
		return -EINVAL;
	do /* one number per namespace, from ours to the innermost */
		status.ns_pid = pid;
	while (take_number(&p, end, &pid));
	*ret = status;
	return 0;
}

int proc_status_read(int proc_fd, uint32_t pid, struct proc_status *ret)
{
	/* Both fields are in the first kilobyte, as only a list of groups can be long, and it follows. */
	char text[4096];
	ssize_t n = proc_entry_read(proc_fd, pid, "status", text, sizeof text);

	return n < 0 ? (int)n : proc_status_parse(text, (size_t)n, ret);
}
