// SPDX-License-Identifier: Apache-2.0
#include "agent/base/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * PACKET_FDS_MAX)];
};

int packet_send(int fd, const struct packet *p)
{
	struct iovec parts[] = {{(void *)p->head, p->head_len}, {p->body, p->body_len}};
	union control control = {.bytes = {0}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n;

	if (p->n_fds) {
		struct cmsghdr *c;

		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * p->n_fds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * p->n_fds);
		memcpy(CMSG_DATA(c), p->fds, sizeof(int) * p->n_fds);
	}
	do
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return (size_t)n == p->head_len + p->body_len ? 0 : -EMSGSIZE;
}

static void take_fds(struct packet *p, struct msghdr *m)
{
	p->n_fds = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && p->n_fds < PACKET_FDS_MAX; i++)
			memcpy(&p->fds[p->n_fds++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

void packet_close_fds(struct packet *p)
{
	while (p->n_fds)
		close(p->fds[--p->n_fds]);
}

static int receive(int fd, struct packet *p, int flags)
{
	struct iovec part = {p->body, p->body_len};
	union control control;
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	ssize_t n;

	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	take_fds(p, &m);
	if (n == 0 || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		packet_close_fds(p);
		return n == 0 ? -EPIPE : -EMSGSIZE;
	}
	p->body_len = (size_t)n;
	return 0;
}

int packet_receive(int fd, struct packet *p)
{
	return receive(fd, p, 0);
}

int packet_poll(int fd, struct packet *p)
{
	return receive(fd, p, MSG_DONTWAIT);
}
