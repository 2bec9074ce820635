// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/debug_search.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/proc/beneath.h"
#include "agent/proc/root.h"

#define DEBUG_FOLDER "/usr/lib/debug/"
#define DEBUG_SUBFOLDER ".debug/"

void debug_search_init(struct debug_search *s, const struct proc_root *root, int fd, const char *path)
{
	struct stat st;

	*s = (struct debug_search){.root = root, .binary = root ? proc_root_strip(root, path) : path};
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	s->has_file = true;
	s->dev = st.st_dev;
	s->uid = st.st_uid;
}

void debug_search_fini(struct debug_search *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	s->n = 0;
}

static bool has_prefix(const char *path, const char *prefix)
{
	return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* Whether this is a place of a debug file: beside the binary, in .debug there, or in the folder of all. */
static bool is_place(const struct debug_search *s, const char *path)
{
	const char *slash = strrchr(s->binary, '/');
	const size_t folder = slash ? (size_t)(slash - s->binary) + 1 : 0;
	const char *name = path + folder;

	if (has_prefix(path, DEBUG_FOLDER))
		return !strstr(path, "/../");
	if (path[0] != '/' || !folder || strncmp(path, s->binary, folder) != 0)
		return false;
	if (has_prefix(name, DEBUG_SUBFOLDER))
		name += strlen(DEBUG_SUBFOLDER);
	return *name && !strchr(name, '/');
}

/* Only who could also have written the binary could have written this file, or chosen it. */
static bool is_trusted(const struct debug_search *s, int path_fd)
{
	struct stat st;

	if (!s->has_file || fstat(path_fd, &st) < 0)
		return false;
	return (st.st_uid == 0 || st.st_uid == s->uid) && !(st.st_mode & S_IWOTH) &&
	       (st.st_dev == s->dev || s->root->is_hosts);
}

int debug_search_open(const char *path, void *data)
{
	struct debug_search *s = data;
	_cleanup_close_ int path_fd = -1;
	struct stat st;
	int fd;

	if (s->n == PARSER_QUERIES_MAX)
		return -E2BIG;
	s->fds[s->n++] = -1;
	if (!s->root)
		return -ENOENT;
	if (!is_place(s, path))
		return -EACCES;
	path_fd = proc_beneath_find(s->root->fd, path);
	if (path_fd < 0)
		return path_fd;
	if (!is_trusted(s, path_fd))
		return -EPERM;
	fd = proc_beneath_reopen(path_fd, &st);
	if (fd >= 0)
		s->fds[s->n - 1] = TAKE_FD(path_fd);
	return fd;
}

int debug_search_answer(const void *query, size_t len, void *data)
{
	char path[PARSER_QUERY_BYTES_MAX + 1];

	if (len >= sizeof path || memchr(query, 0, len))
		return -EINVAL;
	memcpy(path, query, len);
	path[len] = '\0';
	return debug_search_open(path, data);
}

int debug_search_take(struct debug_search *s, unsigned number)
{
	return number < s->n ? TAKE_FD(s->fds[number]) : -1;
}
