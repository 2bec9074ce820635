// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP server at the address of the setting `listen`: takes GET requests on the main loop, one for each
 * connection (libmicrohttpd). Anybody may be able to connect, so all is limited: connections in total, by
 * address, and in a second; the time for a request to arrive, for its answer to be made, and to be taken.
 * Above the limits, the connection that has waited longest is closed for a new one, so that every peer gets
 * an answer.
 */
#ifndef PROFLET_HTTP_SERVER_H
#define PROFLET_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_SERVER_CONNECTIONS_MAX 16u
#define HTTP_SERVER_PER_ADDRESS_MAX 8u /* an IPv4 address, or a /64 of IPv6 */
#define HTTP_SERVER_PER_SECOND_MAX 100u
#define HTTP_SERVER_REQUESTS_MAX (2 * HTTP_SERVER_CONNECTIONS_MAX) /* that wait for their answer */
#define HTTP_SERVER_DEADLINE_NS 5000000000ull	    /* for the whole request, and again to take its answer */
#define HTTP_SERVER_ANSWER_NS 10000000000ull	    /* for the answer to be made */
#define HTTP_SERVER_HELD_MAX 4u			    /* of http_server_hold */
#define HTTP_SERVER_HELD_DEADLINE_NS 20000000000ull /* to take the answer of such a request */
#define HTTP_SERVER_PARAMETERS_MAX 16u

struct http_server_stats {
	uint64_t accepted;
	uint64_t evicted; /* closed for a new connection */
	uint64_t late;	  /* closed at the deadline */
	uint64_t paused;  /* times that new connections had to wait */
};

struct buf;
struct loop;
struct http_server;

#define HTTP_SERVER_TEXT "text/plain; charset=utf-8"

/* Of the query, decoded. Never NULL. */
struct http_parameter {
	const char *name, *value;
};

/* All strings are valid during the call that gets it. */
struct http_request {
	uint64_t id; /* never 0 */
	const char *path;
	const char *accept;	   /* the Accept header; "": there is none */
	const char *host;	   /* the Host header; "": there is none */
	const char *authorization; /* secret; NULL: there is none */
	bool from_loopback;	   /* the peer's address is one of this machine alone */
	struct http_parameter parameters[HTTP_SERVER_PARAMETERS_MAX];
	size_t n_parameters;
	bool has_more; /* parameters than there is room for */
};

struct http_server_callbacks {
	/*
	 * Takes a request. http_server_answer answers it, during this call or later; other requests are
	 * served meanwhile. Must not block.
	 */
	void (*request)(const struct http_request *request, void *data);
	/*
	 * The connection of a request was closed: its answer was taken, or will never be. NULL: not called.
	 */
	void (*closed)(uint64_t id, void *data);
	void *data;
};

/*
 * Listens at HOST:PORT, [ADDRESS]:PORT or :PORT (every address). 0, or -errno with *ret_why = a line for the
 * operator (owned). `loop` is borrowed and outlives the server; `callbacks` is copied.
 */
int http_server_new(struct http_server **ret, struct loop *loop, const char *listen,
		    const struct http_server_callbacks *callbacks, char **ret_why);
/*
 * The request's answer takes up to `wait_ns`. Its connection is not closed for a new one. At most
 * HTTP_SERVER_HELD_MAX connections are held: false, there are as many, or the request no longer waits.
 */
bool http_server_hold(struct http_server *s, uint64_t id, uint64_t wait_ns);
/*
 * Answers a request with an HTTP status and a copy of `body`; 404: no such path. Does nothing if the request
 * no longer waits: it was closed for a new connection, by its peer, or because the time had passed.
 */
void http_server_answer(struct http_server *s, uint64_t id, unsigned status, const struct buf *body,
			const char *content_type);
/*
 * Appends the page of a server that listens there (`listen` as above), up to ret->max bytes. 0; -ENOENT: it
 * has no such page; -ECONNREFUSED, -ETIMEDOUT, -EIO, -ENOMEM. Takes up to a second.
 */
int http_page_get(const char *listen, const char *path, struct buf *ret);
/*
 * Whether http_server_new could listen there now: 0; 1: no, an agent like this one does already; -errno.
 * Takes up to a second if the address is in use.
 */
int http_server_probe(const char *listen);
void http_server_stats(const struct http_server *s, struct http_server_stats *ret);
/* NULL is fine. */
void http_server_free(struct http_server *s);

#endif
