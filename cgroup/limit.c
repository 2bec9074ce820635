// SPDX-License-Identifier: Apache-2.0
/*
 * /proc/self/mountinfo says where the hierarchy with the memory controller is mounted, and which of its
 * groups is at the mount point; /proc/self/cgroup says which group is ours. In a container the mount point is
 * often our group itself, whatever its path outside; then our path is not below the mount's.
 */
#include "cgroup/limit.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

#define FILE_MAX (1u << 20)
#define V1_NONE (1ull << 62) /* v1 writes "no limit" as the largest possible number of pages */

struct place {
	char mount[PATH_MAX], group[PATH_MAX]; /* the mount point; our group, relative to it */
	const char *file;
};

static char *read_text(const char *root, const char *path, struct buf *b)
{
	char name[PATH_MAX];

	if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name ||
	    fs_read_file(name, FILE_MAX, b) < 0)
		return NULL;
	return (char *)(uintptr_t)buf_str(b);
}

/* Whether `word` is one of the words between commas. */
static bool lists(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (; *text; text += strcspn(text, ","), text += *text == ',')
		if (strncmp(text, word, len) == 0 && (text[len] == ',' || !text[len]))
			return true;
	return false;
}

/* The path of our group in the hierarchy with the memory controller, NULL: none. Modifies the text. */
static const char *own_group(char *text, bool v1)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':'), *path;

		path = controllers ? strchr(++controllers, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (v1 ? lists(controllers, "memory") : !*controllers)
			return path;
	}
	return NULL;
}

/* "36 35 98:0 ROOT MOUNT-POINT OPTIONS ... - TYPE SOURCE SUPER-OPTIONS" (proc_pid_mountinfo(5)). */
static bool parse_mount(const char *line, bool v1, char group[PATH_MAX], char mount[PATH_MAX])
{
	const char *tail = strstr(line, " - ");
	char type[32], options[512];

	_Static_assert(PATH_MAX == 4096, "the widths below");
	if (!tail || sscanf(tail, " - %31s %*s %511s", type, options) != 2 ||
	    strcmp(type, v1 ? "cgroup" : "cgroup2") != 0 || (v1 && !lists(options, "memory")))
		return false;
	return sscanf(line, "%*s %*s %*s %4095s %4095s", group, mount) == 2;
}

static bool find_mount(char *text, bool v1, const char *own, struct place *ret)
{
	char *save = NULL, at[PATH_MAX];

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t len;

		if (!parse_mount(line, v1, at, ret->mount))
			continue;
		len = strcmp(at, "/") == 0 ? 0 : strlen(at);
		if (strncmp(own, at, len) != 0 || (own[len] && own[len] != '/') || strstr(own, "/.."))
			own = "", len = 0;
		snprintf(ret->group, sizeof ret->group, "%s", own + len);
		ret->file = v1 ? "memory.limit_in_bytes" : "memory.max";
		return true;
	}
	return false;
}

static bool find_place(const char *root, bool v1, struct place *ret)
{
	_cleanup_buf_ struct buf groups = {0}, mounts = {0};
	char *text = read_text(root, "/proc/self/cgroup", &groups);
	const char *own = text ? own_group(text, v1) : NULL;

	text = own ? read_text(root, "/proc/self/mountinfo", &mounts) : NULL;
	return text && find_mount(text, v1, own, ret);
}

static uint64_t limit_of(const char *root, const struct place *p)
{
	_cleanup_buf_ struct buf b = {0};
	char path[2 * PATH_MAX + 64];
	unsigned long long bytes;
	const char *text;
	char *end;

	snprintf(path, sizeof path, "%s%s/%s", p->mount, p->group, p->file);
	text = read_text(root, path, &b);
	if (!text)
		return UINT64_MAX;
	errno = 0;
	bytes = strtoull(text, &end, 10);
	return end == text || errno || bytes >= V1_NONE ? UINT64_MAX : bytes; /* "max" */
}

int cgroup_memory_limit(const char *root, uint64_t *ret)
{
	uint64_t least = UINT64_MAX;
	struct place p;

	if (!find_place(root, true, &p) && !find_place(root, false, &p))
		return -ENOENT;
	for (;;) {
		uint64_t bytes = limit_of(root, &p);
		char *slash = strrchr(p.group, '/');

		least = bytes < least ? bytes : least;
		if (!slash)
			break;
		*slash = '\0';
	}
	*ret = least;
	return 0;
}
