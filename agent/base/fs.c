// SPDX-License-Identifier: Apache-2.0
#include "agent/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

int fs_read_fd(int fd, size_t max_bytes, struct buf *b)
{
	size_t total = 0;

	for (;;) {
		ssize_t n;
		int r = buf_reserve(b, 4096);

		if (r < 0)
			return r;
		n = read(fd, b->data + b->len, b->cap - b->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		total += (size_t)n;
		if (total > max_bytes)
			return -EFBIG;
		b->len += (size_t)n;
	}
}

int fs_read_file(const char *path, size_t max_bytes, struct buf *b)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fs_read_fd(fd, max_bytes, b);
}

int fs_write_fd(int fd, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_write_file(const char *path, const void *data, size_t len)
{
	_cleanup_free_ char *tmp = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&tmp, "%s.part", path) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = fs_write_fd(fd, data, len);
	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(tmp);
	return r;
}

int fs_reopen(int fd)
{
	char link[32];
	int r;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	r = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return r < 0 ? -errno : r;
}

bool fs_is_short(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EAGAIN;
}

int fs_reopen_parts(int fd)
{
	int r = fs_reopen(fd);

	if (r >= 0)
		(void)posix_fadvise(r, 0, 0, POSIX_FADV_RANDOM);
	return r;
}
