// SPDX-License-Identifier: Apache-2.0
/*
 * What the nursery and a parser process send to the agent's thread that waits for them; a process may have
 * been taken over by the file that it read. The packets lie in the socket before the thread looks, and behind
 * them the stream ends. The input:
 *
 *	u8   1: the process is a new one, and the first packet is the nursery's; 2: queries are answered
 *	u24  bytes of the memfd for large answers
 *	packets (packets.h)
 */
#include "agent/parser/parser.c"

#include "tests/fuzz/packets.h"

#define ANSWER_MAX (1u << 20)
#define CALLS_MAX 3u /* in one session */

enum { IS_NEW = 1, ANSWERS = 2 };

struct input {
	uint8_t flags, memfd_bytes[3];
};

static unsigned n_queries;

static int answer_query_of(const void *query, size_t len, void *data)
{
	uint8_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum ^= ((const uint8_t *)query)[i];
	require(len <= PARSER_QUERY_BYTES_MAX);
	n_queries++;
	return sum % 2 ? -ENOENT : dup(*(const int *)data);
}

static int run_nothing(struct parser_job *job)
{
	(void)job;
	return 0;
}

static const struct parser_operation operation = {
	.name = "fuzzed", .answer_max = ANSWER_MAX, .run = run_nothing};

/* One call of a session. False: the session has ended. */
static bool call(struct parser_session *s, int memfd, bool answers)
{
	struct parser_call c = {.operation = &operation,
				.fds = {memfd},
				.n_fds = 1,
				.query = answers ? answer_query_of : NULL,
				.data = &memfd};
	_cleanup_free_ uint8_t *packet = malloc(PACKET_MAX);
	_cleanup_buf_ struct buf answer = {0};
	struct exchange x = {.call = &c, .answer = &answer, .memfd = memfd, .packet = packet};
	int r;

	require(packet != NULL);
	n_queries = 0;
	r = exchange(&x, s, 0);
	require(r <= 0 && r >= -4095);
	require(answer.len <= ANSWER_MAX && n_queries <= PARSER_QUERIES_MAX);
	return s->socket != 0;
}

static void wait_for_process(struct parser_session *s, int memfd)
{
	uint8_t packet[PACKET_MAX];
	struct parser_call c = {.operation = &operation};
	struct exchange x = {.call = &c, .socket = s->socket - 1, .memfd = memfd, .packet = packet};
	const int pid = await_process(&x);

	require(pid != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct packets packets = {data, size};
	const unsigned n_open = packets_n_open();
	struct parser_session session;
	struct input input;
	int sockets[2], memfd = memfd_create("answer", MFD_CLOEXEC);
	unsigned calls = 0;

	packets_take(&packets, &input, sizeof input);
	packets_open(sockets);
	require(memfd >= 0);
	require(ftruncate(memfd, input.memfd_bytes[0] | input.memfd_bytes[1] << 8 |
					 (input.memfd_bytes[2] & 0x1f) << 16) == 0);
	packets_send_all(&packets, sockets[1], memfd);
	session = (struct parser_session){.socket = sockets[0] + 1};
	if (input.flags & IS_NEW)
		wait_for_process(&session, memfd);
	while (calls++ < CALLS_MAX && call(&session, memfd, input.flags & ANSWERS))
		;
	parser_session_end(&session);
	close(sockets[1]);
	close(memfd);
	require(packets_n_open() == n_open);
	return 0;
}
