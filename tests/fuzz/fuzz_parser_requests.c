// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent sends to the nursery and to a parser process, without forks: the nursery has as many
 * children as it may have. The packets lie in the socket before the process looks, and behind them the stream
 * ends. The input:
 *
 *	u8   1: to the nursery, else to a parser process
 *	packets (packets.h)
 *
 * An empty packet to the nursery is left out: it ends it, as the agent's end does.
 */
#include "agent/parser/nursery.c"

#include "tests/fuzz/packets.h"

#define QUERIES_MAX 80u /* tried in one job: more than it may make */

/* The request says what to do: how many queries are made, then a result, then so many times the request. */
static int run_request(struct parser_job *job)
{
	struct packets request = {job->request, job->request_len};
	uint8_t queries, result, times, byte;

	packets_take(&request, &queries, sizeof queries);
	packets_take(&request, &result, sizeof result);
	packets_take(&request, &times, sizeof times);
	for (unsigned i = 0; i < queries % QUERIES_MAX; i++) {
		int fd = job->query(job, request.at, request.left);

		if (fd < 0)
			return fd;
		close(fd);
	}
	for (unsigned i = 0; i < job->n_fds; i++)
		if (pread(job->fds[i], &byte, 1, 0) == 1 && buf_putc(job->answer, (char)byte) < 0)
			return -ENOMEM;
	for (unsigned i = 0; i < times; i++)
		if (buf_append(job->answer, job->request, job->request_len) < 0)
			return -EOVERFLOW;
	return -(int)result;
}

static const struct parser_operation small = {.name = "small", .answer_max = 100, .run = run_request},
				     large = {.name = "large", .answer_max = 1u << 20, .run = run_request};
static const struct parser_operation *const operations[] = {&small, &large};

/* As serve(), without a sandbox. */
static void serve_all(const struct nursery *n, int socket)
{
	static struct incoming p;
	int r = 0;

	while (r == 0 && receive_request(n, socket, &p)) {
		r = do_job(socket, &p, 0);
		packet_close_fds(&p.packet);
	}
	packet_close_fds(&p.packet); /* of no request: the process ends */
}

static void command_all(struct nursery *n, struct packets *packets, int sender, int fd)
{
	for (unsigned i = 0; i < PACKETS_MAX && packets->left >= 3; i++) {
		if ((packets->at[1] || packets->at[2]) && packets->left > 3) {
			require(packets_send(packets, sender, fd));
			command(n);
		} else {
			packets->at += 3;
			packets->left -= 3;
		}
		require(n->n == NURSERY_CHILDREN_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t bytes[100] = "a request in a file, or a file to read";
	static struct nursery n;
	struct packets packets = {data, size};
	const unsigned n_open = packets_n_open();
	int sockets[2], memfd = memfd_create("file", MFD_CLOEXEC);
	uint8_t to_nursery;

	packets_open(sockets);
	require(memfd >= 0 && pwrite(memfd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
	n = (struct nursery){.control = sockets[0],
			     .operations = operations,
			     .n_operations = ARRAY_SIZE(operations),
			     .n = NURSERY_CHILDREN_MAX};
	for (unsigned i = 0; i < n.n; i++)
		n.children[i] = (struct child){.pid = -(int)i - 1, .socket = -1}; /* nobody */
	packets_take(&packets, &to_nursery, sizeof to_nursery);
	if (to_nursery & 1) {
		command_all(&n, &packets, sockets[1], memfd);
	} else {
		packets_send_all(&packets, sockets[1], memfd);
		serve_all(&n, sockets[0]);
	}
	close(sockets[0]);
	close(sockets[1]);
	close(memfd);
	require(packets_n_open() == n_open);
	return 0;
}
