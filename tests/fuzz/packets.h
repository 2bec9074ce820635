// SPDX-License-Identifier: Apache-2.0
/*
 * What one side of a pair of sockets may send to the other (agent/base/packet.h), made of the bytes of an
 * input. A packet is a byte, whose lower three bits are a number of descriptors, up to seven; two bytes with
 * its length; and its bytes. What the upper bits of the first byte mean is the target's.
 */
#ifndef PROFLET_TESTS_FUZZ_PACKETS_H
#define PROFLET_TESTS_FUZZ_PACKETS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKETS_FDS_MAX 7u
#define PACKETS_MAX 64u /* of one input */

struct packets {
	const uint8_t *at;
	size_t left;
};

static inline void require(int condition)
{
	if (!condition)
		abort();
}

/* Takes `len` bytes; fewer: zeroes behind them. */
static inline void packets_take(struct packets *p, void *to, size_t len)
{
	const size_t n = p->left < len ? p->left : len;

	memset(to, 0, len);
	memcpy(to, p->at, n);
	p->at += n;
	p->left -= n;
}

/* A pair of sockets that do not block; [0] is the side under test. */
static inline void packets_open(int sockets[2])
{
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
}

/* Sends the next packet with so many times `fd`. False: there is none, or no room for it. */
static inline bool packets_send(struct packets *p, int socket, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * PACKETS_FDS_MAX)];
	} control = {.bytes = {0}};
	struct iovec part = {.iov_len = 0};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
	uint8_t first;
	uint16_t len;
	unsigned n;

	if (p->left < 3)
		return false;
	packets_take(p, &first, sizeof first);
	packets_take(p, &len, sizeof len);
	n = first & PACKETS_FDS_MAX;
	part.iov_base = (void *)p->at;
	part.iov_len = len < p->left ? len : p->left;
	if (n) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		*CMSG_FIRSTHDR(&m) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
						      .cmsg_type = SCM_RIGHTS,
						      .cmsg_len = CMSG_LEN(sizeof(int) * n)};
		for (unsigned i = 0; i < n; i++)
			memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)) + i * sizeof fd, &fd, sizeof fd);
	}
	p->at += part.iov_len;
	p->left -= part.iov_len;
	return sendmsg(socket, &m, MSG_NOSIGNAL) >= 0;
}

/* Sends all, and then the end of the stream. */
static inline void packets_send_all(struct packets *p, int socket, int fd)
{
	for (unsigned i = 0; i < PACKETS_MAX && packets_send(p, socket, fd); i++)
		;
	require(shutdown(socket, SHUT_WR) == 0);
}

/* How many descriptors are open, of low numbers: as many after an input as before. */
static inline unsigned packets_n_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 48; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif
