// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <unistd.h>

#include "agent/base/packet.h"
#include "agent/parser/operation.h"

int parser_operation_run(const struct parser_operation *operation, struct parser_job *job)
{
	return operation->run(job);
}

int parser_fd_send(int socket, int fd)
{
	const char byte = 0;
	const struct packet p = {.head = &byte, .head_len = 1, .fds = {fd}, .n_fds = 1};

	return packet_send(socket, &p);
}

int parser_fd_receive(int socket)
{
	char byte;
	struct packet p = {.body = &byte, .body_len = 1};
	int r = packet_poll(socket, &p);

	if (r < 0)
		return r;
	while (p.n_fds > 1)
		close(p.fds[--p.n_fds]);
	return p.n_fds ? p.fds[0] : -EPROTO;
}
