// SPDX-License-Identifier: Apache-2.0
/*
 * /proc/self/mountinfo says where the hierarchy with a controller is mounted, and which of its groups is at
 * the mount point; /proc/self/cgroup says which group is ours. In a container the mount point is often our
 * group itself, whatever its path outside; then our path is not below the mount's.
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

/* The path of our group in the v1 hierarchy with the controller, or in v2. NULL: none. Modifies the text. */
static const char *own_group(char *text, bool v1, const char *controller)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':'), *path;

		path = controllers ? strchr(++controllers, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (v1 ? lists(controllers, controller) : !*controllers)
			return path;
	}
	return NULL;
}

/* "36 35 98:0 ROOT MOUNT-POINT OPTIONS ... - TYPE SOURCE SUPER-OPTIONS" (proc_pid_mountinfo(5)). */
static bool parse_mount(const char *line, bool v1, const char *controller, char group[PATH_MAX],
			char mount[PATH_MAX])
{
	const char *tail = strstr(line, " - ");
	char type[32], options[512];

	_Static_assert(PATH_MAX == 4096, "the widths below");
	if (!tail || sscanf(tail, " - %31s %*s %511s", type, options) != 2 ||
	    strcmp(type, v1 ? "cgroup" : "cgroup2") != 0 || (v1 && !lists(options, controller)))
		return false;
	return sscanf(line, "%*s %*s %*s %4095s %4095s", group, mount) == 2;
}

static bool find_mount(char *text, bool v1, const char *controller, const char *own, struct place *ret)
{
	char *save = NULL, at[PATH_MAX];

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t len;

		if (!parse_mount(line, v1, controller, at, ret->mount))
			continue;
		len = strcmp(at, "/") == 0 ? 0 : strlen(at);
		if (strncmp(own, at, len) != 0 || (own[len] && own[len] != '/') || strstr(own, "/.."))
			own = "", len = 0;
		snprintf(ret->group, sizeof ret->group, "%s", own + len);
		return true;
	}
	return false;
}

static bool find_place(const char *root, bool v1, const char *controller, struct place *ret)
{
	_cleanup_buf_ struct buf groups = {0}, mounts = {0};
	char *text = read_text(root, "/proc/self/cgroup", &groups);
	const char *own = text ? own_group(text, v1, controller) : NULL;

	text = own ? read_text(root, "/proc/self/mountinfo", &mounts) : NULL;
	return text && find_mount(text, v1, controller, own, ret);
}

/* The number in a file of the group. False: there is no such file, or no number in it ("max"). */
static bool read_number(const char *root, const struct place *p, const char *file, uint64_t *ret)
{
	_cleanup_buf_ struct buf b = {0};
	char path[2 * PATH_MAX + 64];
	unsigned long long n;
	const char *text;
	char *end;

	snprintf(path, sizeof path, "%s%s/%s", p->mount, p->group, file);
	text = read_text(root, path, &b);
	if (!text)
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || errno)
		return false;
	*ret = n;
	return true;
}

int cgroup_memory_limit(const char *root, uint64_t *ret)
{
	uint64_t least = UINT64_MAX;
	const char *file = "memory.limit_in_bytes";
	struct place p;

	if (!find_place(root, true, "memory", &p)) {
		if (!find_place(root, false, "memory", &p))
			return -ENOENT;
		file = "memory.max";
	}
	for (;;) {
		char *slash = strrchr(p.group, '/');
		uint64_t bytes;

		if (read_number(root, &p, file, &bytes) && bytes < V1_NONE && bytes < least)
			least = bytes;
		if (!slash)
			break;
		*slash = '\0';
	}
	*ret = least;
	return 0;
}

int cgroup_cpu_weight(const char *root, struct cgroup_cpu *ret)
{
	struct cgroup_cpu found = {.version = 1};
	struct place p;

	if (!find_place(root, true, "cpu", &p)) {
		if (!find_place(root, false, "cpu", &p))
			return -ENOENT;
		found.version = 2;
	}
	if (!read_number(root, &p, found.version == 1 ? "cpu.shares" : "cpu.weight", &found.weight))
		return -ENODATA;
	if (snprintf(found.folder, sizeof found.folder, "%s%s", p.mount, p.group) >= (int)sizeof found.folder)
		return -ENAMETOOLONG;
	*ret = found;
	return 0;
}
