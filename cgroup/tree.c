// SPDX-License-Identifier: Apache-2.0
#include "cgroup/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

#define MOUNTS_MAX (4u << 20) /* bytes of a mountinfo */

struct hierarchy {
	int fd;		   /* its root; owned */
	char options[256]; /* of the super block: the controllers are among them; "": the unified one */
};

struct cgroup_tree {
	struct hierarchy v[CGROUP_TREES_MAX];
	size_t n;
};

/* A line of mountinfo, proc_pid_mountinfo(5). */
struct mount_line {
	char point[PATH_MAX], options[256];
	bool unified;
};

/* Takes only a mount that shows the hierarchy from its root. */
static bool mount_parse(const char *line, struct mount_line *ret)
{
	const char *tail = strstr(line, " - ");
	char type[32], root[8];

	_Static_assert(PATH_MAX == 4096, "the widths below");
	if (!tail || sscanf(tail, " - %31s %*s %255s", type, ret->options) != 2 ||
	    sscanf(line, "%*s %*s %*s %7s %4095s", root, ret->point) != 2)
		return false;
	ret->unified = strcmp(type, "cgroup2") == 0;
	if (ret->unified)
		ret->options[0] = '\0';
	return (ret->unified || strcmp(type, "cgroup") == 0) && strcmp(root, "/") == 0 &&
	       !strchr(ret->point, '\\');
}

static bool has(const struct cgroup_tree *t, const char *options)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].options, options) == 0)
			return true;
	return false;
}

/* 0, also when it is not to be taken; or -errno. `root`: where mount points are looked up. */
static int take(struct cgroup_tree *t, const char *root, const struct mount_line *m)
{
	char path[PATH_MAX + 16];
	int fd;

	if (t->n == CGROUP_TREES_MAX || has(t, m->options))
		return 0;
	snprintf(path, sizeof path, "%s%s", root, m->point);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	t->v[t->n].fd = fd;
	snprintf(t->v[t->n].options, sizeof t->v[t->n].options, "%s", m->options);
	t->n++;
	return 0;
}

static int take_all(struct cgroup_tree *t, const char *mountinfo, const char *root)
{
	_cleanup_buf_ struct buf text = {0};
	struct mount_line m;
	char *at, *line;
	int r = fs_read_file(mountinfo, MOUNTS_MAX, &text), error = -ENOENT;

	if (r == 0)
		r = buf_putc(&text, '\0');
	if (r < 0)
		return r;
	at = (char *)text.data;
	while ((line = strsep(&at, "\n")))
		if (mount_parse(line, &m)) {
			r = take(t, root, &m);
			error = r < 0 ? r : error;
		}
	return error;
}

int cgroup_tree_new(struct cgroup_tree **ret, bool shared)
{
	_cleanup_free_ struct cgroup_tree *t = calloc(1, sizeof *t);
	int r = -ENOENT;

	if (!t)
		return -ENOMEM;
	if (shared)
		r = take_all(t, "/proc/self/mountinfo", "");
	if (!t->n)
		r = take_all(t, "/proc/1/mountinfo", "/proc/1/root");
	if (!t->n)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

void cgroup_tree_free(struct cgroup_tree *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		close(t->v[i].fd);
	free(t);
}

/* Whether `word` is one of the words between commas. */
static bool lists(const char *text, const char *word, size_t len)
{
	for (; *text; text += strcspn(text, ","), text += *text == ',')
		if (strcspn(text, ",") == len && memcmp(text, word, len) == 0)
			return true;
	return false;
}

/* The descriptor of the hierarchy's root, or -1. A v1 hierarchy is known by its first controller. */
static int root_of(const struct cgroup_tree *t, const struct cgroup_folder *f)
{
	const char *comma = memchr(f->controllers, ',', f->controllers_len);
	size_t len = comma ? (size_t)(comma - f->controllers) : f->controllers_len;

	for (size_t i = 0; i < t->n; i++)
		if (f->unified ? !t->v[i].options[0] : len && lists(t->v[i].options, f->controllers, len))
			return t->v[i].fd;
	return -1;
}

/* Who may make folders in it. */
static bool only_root_writes(int root, const char *path)
{
	struct stat st;

	return fstatat(root, *path ? path : ".", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == 0 &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

bool cgroup_tree_is_roots(void *data, const struct cgroup_folder *f)
{
	char path[2 * PATH_MAX + 1];
	int root = root_of(data, f);
	char *slash = path + f->own_len;

	if (root < 0 || f->len <= f->own_len)
		return true;
	if (f->len >= sizeof path)
		return false;
	memcpy(path, f->path, f->len);
	path[f->len] = '\0';
	if (path[f->len - 1] == '/')
		path[f->len - 1] = '\0';
	while (slash && *slash) { /* each folder on the way; the paths for the kernel are relative */
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		if (!only_root_writes(root, path + strspn(path, "/")))
			return false;
		if (slash)
			*slash = '/';
	}
	return true;
}
