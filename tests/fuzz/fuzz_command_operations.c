// SPDX-License-Identifier: Apache-2.0
/*
 * Runs an operation of parser processes over any request and files of any bytes, in this process. The input:
 *
 *	u8   the operation
 *	u8   two bits: how many descriptors; 4: queries are answered; 8: lists of generated code are received
 *	     from a socket, and sent to one
 *	u16  bytes of the request, which follows; the files are behind it
 *	u16  where among the bytes of files the second one begins; the third one is both
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/parser/operation.h"
#include "agent/symbol/batch.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/jitread.h"
#include "agent/unwind/code_job.h"
#include "agent/unwind/beam_job.h"
#include "agent/unwind/dotnet_job.h"
#include "agent/unwind/hotspot_job.h"
#include "agent/unwind/rule_job.h"
#include "agent/unwind/table_job.h"
#include "agent/unwind/v8_code_job.h"
#include "agent/unwind/v8_job.h"
#include "agent/unwind/v8_rows_job.h"

#define FDS_MAX 3u

struct head {
	uint8_t operation, fds;
	uint16_t request, second;
};

enum { N_FDS = 3, ANSWERS = 4, BY_SOCKET = 8 };

struct files {
	int fds[FDS_MAX], sockets[2];
	unsigned queries;
};

static void require(int condition)
{
	if (!condition)
		abort();
}

static int file_of(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	require(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	return fd;
}

static void files_open(struct files *f, const uint8_t *bytes, size_t len, uint16_t second)
{
	const size_t first_len = len ? second % len : 0;

	f->fds[0] = file_of(bytes, first_len ? first_len : len);
	f->fds[1] = file_of(bytes + first_len, len - first_len);
	f->fds[2] = file_of(bytes, len);
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->sockets) == 0);
	require(parser_fd_send(f->sockets[0], f->fds[0]) == 0);
}

static void files_close(const struct files *f)
{
	for (unsigned i = 0; i < FDS_MAX; i++)
		close(f->fds[i]);
	close(f->sockets[0]);
	close(f->sockets[1]);
}

/* The second file, every second time. */
static int answer_query(const struct parser_job *job, const void *query, size_t len)
{
	struct files *f = job->side;

	require(query != NULL || !len);
	return f->queries++ % 2 ? -ENOENT : dup(f->fds[1]);
}

static int refuse_query(const struct parser_job *job, const void *query, size_t len)
{
	(void)job;
	require(query != NULL || !len);
	return -EOPNOTSUPP;
}

/* What the agent would say to the answer, where that does not depend on the request. */
static void check_answer(const struct parser_operation *operation, const struct buf *answer, int result)
{
	struct table_result table;
	int r;

	require(result <= 0 && answer->len <= operation->answer_max);
	if (operation != &table_operation)
		return;
	r = table_answer_read(&table, answer->data, answer->len, result);
	require(r == result || r == -ENOMEM);
	table_result_fini(&table);
}

static void run(const struct head *head, const uint8_t *request, struct files *f)
{
	static const struct parser_operation *const operations[] = {
		&table_operation,    &symbol_operation,	  &rule_operation,    &code_operation,
		&jit_open_operation, &jit_read_operation, &hotspot_operation, &v8_operation,
		&beam_operation,     &dotnet_operation,	  &v8_code_operation, &v8_rows_operation};
	const struct parser_operation *operation = operations[head->operation % ARRAY_SIZE(operations)];
	_cleanup_free_ uint8_t *own = malloc(head->request + 1u); /* its end is watched */
	_cleanup_buf_ struct buf answer = {0};
	int fds[FDS_MAX] = {f->fds[0], f->fds[1], f->fds[2]};
	struct parser_job job = {.request = own,
				 .request_len = head->request,
				 .fds = fds,
				 .n_fds = head->fds & N_FDS,
				 .answer = &answer,
				 .query = head->fds & ANSWERS ? answer_query : refuse_query,
				 .side = f};

	require(own != NULL);
	memcpy(own, request, head->request);
	if (head->fds & BY_SOCKET && operation == &jit_read_operation)
		fds[0] = f->sockets[1];
	else if (head->fds & BY_SOCKET && operation == &jit_open_operation)
		fds[1] = f->sockets[0];
	buf_init(&answer, operation->answer_max);
	check_answer(operation, &answer, parser_operation_run(operation, &job));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct files f = {.queries = 0};
	struct head head;

	if (size < sizeof head)
		return 0;
	memcpy(&head, data, sizeof head);
	data += sizeof head;
	size -= sizeof head;
	if (head.request > size)
		head.request = (uint16_t)size;
	files_open(&f, data + head.request, size - head.request, head.second);
	run(&head, data, &f);
	files_close(&f);
	return 0;
}
