// SPDX-License-Identifier: Apache-2.0
/* What runs in a parser process (parser.h): a function of a request and descriptors. */
#ifndef PROFLET_PARSER_OPERATION_H
#define PROFLET_PARSER_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct parser_job;

#define PARSER_FDS_MAX 2u
#define PARSER_QUERIES_MAX 64u /* in one job */
#define PARSER_QUERY_BYTES_MAX 8192u
#define PARSER_REQUEST_MAX (4u << 20) /* bytes */
/* Of CPU time. More than WORKER_CPU_MAX_NS, after which the worker pool no longer waits for a job. */
#define PARSER_CPU_MAX_S 5u

struct parser_operation {
	const char *name;  /* for the log: "unwind table" */
	size_t answer_max; /* bytes */
	/* Runs in the parser process. 0, or -errno, which is what parser_call returns. */
	int (*run)(struct parser_job *job);
	/*
	 * It opens files, and reads none: its process may look up and open whatever exists below the
	 * descriptors that it gets, by CAP_DAC_READ_SEARCH, and nothing else. Else it may open nothing.
	 */
	bool opens;
};

/* Tables and names of a file take up to so much memory, of its size. */
#define PARSER_ROOM_OF(file_bytes) ((file_bytes) / 4 * 3)

/* What `run` gets. */
struct parser_job {
	const uint8_t *request;
	size_t request_len;
	const int *fds; /* borrowed; open for reading */
	unsigned n_fds;
	struct buf *answer; /* to be appended to */
	/*
	 * Has the caller answer a query: a descriptor, owned by `run`, or -errno. At most
	 * PARSER_QUERIES_MAX times.
	 */
	int (*query)(const struct parser_job *job, const void *query, size_t len);
	void *side; /* of `query` */
};

/* Runs it, in a parser process. 0 or -errno. */
int parser_operation_run(const struct parser_operation *operation, struct parser_job *job);

/*
 * From one job to another, over a pair of sockets (SOCK_SEQPACKET) of which each has an end: so the agent
 * never has the file, whose close may block. The descriptor stays the sender's; the received one is owned by
 * the caller. Neither waits. 0 or a descriptor; -errno.
 */
int parser_fd_send(int socket, int fd);
int parser_fd_receive(int socket);

#endif
