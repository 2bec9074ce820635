// SPDX-License-Identifier: Apache-2.0
/*
 * Packets with descriptors between processes of the agent, over SOCK_SEQPACKET sockets: what is sent by one
 * call is received by one. Both sides are forks of one program, so values are sent as they are in memory.
 */
#ifndef PROFLET_BASE_PACKET_H
#define PROFLET_BASE_PACKET_H

#include <stddef.h>

#define PACKET_FDS_MAX 4u

/* A packet to send, or one that was received. Its descriptors are borrowed, or owned by the receiver. */
struct packet {
	const void *head;
	size_t head_len;
	void *body;
	size_t body_len; /* when receiving: room for the whole packet, then its length */
	int fds[PACKET_FDS_MAX];
	unsigned n_fds;
};

/* 0 or -errno; -EPIPE: the other side has ended; -EAGAIN: the socket does not block, and is full. */
int packet_send(int fd, const struct packet *p);
/*
 * Receives one packet into p->body. 0; -EPIPE: the other side has ended; -EMSGSIZE: it does not fit, or has
 * too many descriptors; -EAGAIN: the socket does not block, and there is none; -errno. On failure no
 * descriptor is left open.
 */
int packet_receive(int fd, struct packet *p);
/* The same, but never waits. */
int packet_poll(int fd, struct packet *p);
void packet_close_fds(struct packet *p);

#endif
