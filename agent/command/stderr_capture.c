// SPDX-License-Identifier: Apache-2.0
/*
 * A pipe replaces stderr. It does not block: text written while the pipe is full is lost. That takes more
 * than the log, which limits its own lines, because the event loop drains the pipe.
 */
#include "agent/command/stderr_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define KEEP_MAX (64u << 10) /* bytes; later ones are dropped */
#define LINE_MAX_BYTES 512u

struct stderr_capture {
	int pipe[2], saved; /* saved: the original stderr */
	struct loop_source *source;
	struct buf kept;
	uint64_t lost_bytes; /* past KEEP_MAX */
	char line[LINE_MAX_BYTES], last[LINE_MAX_BYTES];
	size_t line_len;
};

static void take_byte(struct stderr_capture *m, char c)
{
	if (c == '\n') {
		m->line[m->line_len] = '\0';
		memcpy(m->last, m->line, m->line_len + 1);
		m->line_len = 0;
	} else if (m->line_len < sizeof m->line - 1) {
		m->line[m->line_len++] = c;
	}
}

static void drain(struct stderr_capture *m)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(m->pipe[0], bytes, sizeof bytes)) > 0) {
		if (buf_append(&m->kept, bytes, (size_t)n) < 0)
			m->lost_bytes += (uint64_t)n;
		for (ssize_t i = 0; i < n; i++)
			take_byte(m, bytes[i]);
	}
}

static int on_pipe(int fd, uint32_t events, void *data)
{
	(void)fd;
	(void)events;
	drain(data);
	return 0;
}

static void write_all(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

void stderr_capture_resume(struct stderr_capture *m)
{
	if (m)
		(void)dup2(m->pipe[1], STDERR_FILENO);
}

void stderr_capture_release(struct stderr_capture *m)
{
	if (!m)
		return;
	drain(m);
	(void)dup2(m->saved, STDERR_FILENO);
	write_all(STDERR_FILENO, m->kept.data, m->kept.len);
	if (m->lost_bytes)
		fprintf(stderr, "proflet: %" PRIu64 " bytes of messages were dropped\n", m->lost_bytes);
	buf_clear(&m->kept);
	m->lost_bytes = 0;
}

int stderr_capture_new(struct stderr_capture **ret, struct loop *loop)
{
	struct stderr_capture *m;
	int r;

	*ret = NULL;
	if (!isatty(STDERR_FILENO))
		return 0;
	m = calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->kept.max = KEEP_MAX;
	m->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (m->saved < 0 || pipe2(m->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		r = -errno;
		if (m->saved >= 0)
			close(m->saved);
		free(m);
		return r;
	}
	r = loop_add_fd(loop, m->pipe[0], EPOLLIN, on_pipe, m, &m->source);
	if (r < 0) {
		stderr_capture_free(m);
		return r;
	}
	stderr_capture_resume(m);
	*ret = m;
	return 0;
}

void stderr_capture_free(struct stderr_capture *m)
{
	if (!m)
		return;
	stderr_capture_release(m);
	loop_remove(m->source);
	close(m->pipe[0]);
	close(m->pipe[1]);
	close(m->saved);
	buf_fini(&m->kept);
	free(m);
}

const char *stderr_capture_last(const struct stderr_capture *m)
{
	return m && m->last[0] ? m->last : NULL;
}
