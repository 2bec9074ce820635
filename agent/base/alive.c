// SPDX-License-Identifier: Apache-2.0
#include "agent/base/alive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/base/exit_code.h"

int alive_address(struct sockaddr_un *ret, socklen_t *ret_len)
{
	struct stat st;
	int n;

	if (stat("/proc/self/ns/mnt", &st) < 0)
		return -errno;
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "proflet/alive/%llu",
		     (unsigned long long)st.st_ino);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return 0;
}

bool alive_peer_is_trusted(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

bool alive_is_called(int argc, char **argv)
{
	return argc == 3 && strcmp(argv[1], "check") == 0 &&
	       (strcmp(argv[2], "--alive") == 0 || strcmp(argv[2], "--ready") == 0);
}

/* 0 with *ret, or -errno. */
static int call(int fd, struct alive_message *ret)
{
	const struct timeval timeout = {.tv_sec = ALIVE_TIMEOUT_S};
	struct sockaddr_un address;
	socklen_t len;
	ssize_t n;
	int r = alive_address(&address, &len);

	if (r < 0)
		return r;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) < 0 ||
	    connect(fd, (const struct sockaddr *)&address, len) < 0)
		return -errno;
	if (!alive_peer_is_trusted(fd))
		return -EPERM;
	n = recv(fd, ret, sizeof *ret, 0);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (n < (ssize_t)offsetof(struct alive_message, text))
		return -ECONNRESET;
	ret->text[n == sizeof *ret ? ALIVE_TEXT_MAX - 1 : (size_t)n - offsetof(struct alive_message, text)] =
		'\0';
	return 0;
}

int alive_check(const char *option)
{
	struct alive_message m;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : call(fd, &m);

	if (fd >= 0)
		close(fd);
	if (r < 0) {
		printf("no agent answers: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	puts(m.text);
	return (strcmp(option, "--ready") == 0 ? m.ready : m.alive) == '1' ? EXIT_DONE : EXIT_FAILED;
}
