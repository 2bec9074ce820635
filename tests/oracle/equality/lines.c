// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "agent/base/cleanup.h"

#define BUF_BYTES (1u << 20)
#define LINE_MAX_BYTES (64u << 20)

static int init(struct lines *l, size_t bytes)
{
	*l = (struct lines){.fd = -1, .error_fd = -1, .cap = bytes};
	l->buf = malloc(bytes);
	return l->buf ? 0 : -ENOMEM;
}

/* The environment with LC_ALL=C; the strings are borrowed. NULL when memory is short. */
static char **environment(void)
{
	size_t n = 0;

	while (environ[n])
		n++;
	char **copy = calloc(n + 2, sizeof *copy);
	if (!copy)
		return NULL;
	copy[0] = (char *)"LC_ALL=C";
	for (size_t i = 0, at = 1; i < n; i++) {
		if (strncmp(environ[i], "LC_ALL=", 7) != 0)
			copy[at++] = environ[i];
	}
	return copy;
}

static int start(struct lines *l, char *const argv[], int out)
{
	_cleanup_free_ char **envp = environment();
	posix_spawn_file_actions_t actions;
	int r;

	if (!envp)
		return -ENOMEM;
	r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = -posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (r == 0)
		r = -posix_spawn_file_actions_adddup2(&actions, l->error_fd, STDERR_FILENO);
	if (r == 0)
		r = -posix_spawnp(&l->pid, argv[0], &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	if (r < 0)
		l->pid = 0;
	return r;
}

int lines_open_command(struct lines *l, char *const argv[])
{
	_cleanup_close_ int out = -1;
	int ends[2], r;

	r = init(l, BUF_BYTES);
	if (r < 0)
		return r;
	l->error_fd = memfd_create("stderr", MFD_CLOEXEC);
	if (l->error_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	l->fd = ends[0];
	out = ends[1];
	fcntl(l->fd, F_SETPIPE_SZ, BUF_BYTES); /* only for speed */
	return start(l, argv, out);
}

int lines_open_file(struct lines *l, const char *path)
{
	int r = init(l, BUF_BYTES);

	if (r < 0)
		return r;
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	return l->fd < 0 ? -errno : 0;
}

int lines_open_string(struct lines *l, const char *s)
{
	size_t len = strlen(s);
	int r = init(l, len + 1);

	if (r < 0)
		return r;
	memcpy(l->buf, s, len);
	l->end = len;
	return 0;
}

/* More bytes behind those that are there. False at the end. */
static bool fill(struct lines *l)
{
	ssize_t n;

	if (l->fd < 0)
		return false;
	if (l->at > 0) {
		memmove(l->buf, l->buf + l->at, l->end - l->at);
		l->end -= l->at;
		l->at = 0;
	}
	if (l->end + 1 >= l->cap) {
		char *more = l->cap < LINE_MAX_BYTES ? realloc(l->buf, l->cap * 2) : NULL;

		if (!more)
			return false;
		l->buf = more;
		l->cap *= 2;
	}
	do
		n = read(l->fd, l->buf + l->end, l->cap - l->end - 1);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	l->end += (size_t)n;
	return true;
}

char *lines_next(struct lines *l, size_t *ret_len)
{
	size_t seen = 0;
	char *newline;

	while (!l->stop) {
		newline = memchr(l->buf + l->at + seen, '\n', l->end - l->at - seen);
		if (newline || (seen = l->end - l->at, !fill(l))) {
			char *line = l->buf + l->at;

			l->stop = !newline;
			if (!newline && l->at == l->end)
				return NULL;
			newline = newline ? newline : l->buf + l->end;
			*newline = '\0';
			*ret_len = (size_t)(newline - line);
			l->at = *ret_len + (size_t)(line - l->buf) + !l->stop;
			return line;
		}
	}
	return NULL;
}

int lines_close(struct lines *l)
{
	int status = 0;
	bool whole = l->stop;

	if (l->fd >= 0)
		close(l->fd);
	if (l->error_fd >= 0)
		close(l->error_fd);
	if (l->pid > 0) {
		if (!whole)
			kill(l->pid, SIGKILL);
		while (waitpid(l->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	free(l->buf);
	*l = (struct lines){.fd = -1, .error_fd = -1};
	if (!whole)
		return 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool contains(const char *line, const char *const words[])
{
	for (; *words; words++) {
		if (strstr(line, *words))
			return true;
	}
	return false;
}

void lines_error(const struct lines *l, const char *const except[], char *ret, size_t size)
{
	char text[4096];
	ssize_t n = l->error_fd < 0 ? 0 : pread(l->error_fd, text, sizeof text - 1, 0);

	ret[0] = '\0';
	text[n > 0 ? n : 0] = '\0';
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (*line && !contains(line, except)) {
			snprintf(ret, size, "%s", line);
			return;
		}
	}
}
