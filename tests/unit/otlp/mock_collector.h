// SPDX-License-Identifier: Apache-2.0
/*
 * A Collector on a loopback port for the tests: h2_server.h on a socket, plain or TLS, or plain HTTP/1.1. One
 * thread, one connection at a time.
 */
#ifndef TEST_MOCK_COLLECTOR_H
#define TEST_MOCK_COLLECTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "h2_server.h"

struct ssl_ctx_st;

struct mock_collector {
	/* Set by the test. */
	struct h2_reply (*decide)(void *data,
				  unsigned request); /* gRPC; request counts over all connections */
	const char *http_reply;			     /* HTTP/1.1: the whole answer; NULL: gRPC */
	void *data;
	struct ssl_ctx_st *tls; /* borrowed; NULL: plain */
	const char *socket;	/* path of a Unix socket, instead of the port */
	uint16_t port;		/* 0: any free port, which is then stored here */

	int listen_fd, stop_fd;
	pthread_t thread;
	atomic_uint n_connections, n_requests;
	pthread_mutex_t lock;
	struct buf bodies;  /* of all requests, concatenated, uncompressed and without envelope */
	struct buf headers; /* of the last request */
};

void mock_collector_start(struct mock_collector *m);
void mock_collector_stop(struct mock_collector *m);
/* A port on which no server listens. */
uint16_t mock_free_port(void);

#endif
