// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP server behind `listen`: answers GET on the main loop, a few connections at a time, by
 * libmicrohttpd. Rank 3.
 */
#ifndef PROFLET_SERVE_H
#define PROFLET_SERVE_H

struct buf;
struct loop;
struct server;

#define SERVE_TEXT "text/plain; charset=utf-8"

/*
 * Fills the empty `body` and, if it is not SERVE_TEXT, *content_type (static string). `accept`: the request's
 * header of this name, "" without. Returns the HTTP status; 404: there is no such path. Must not block.
 */
typedef unsigned (*serve_fn)(const char *path, const char *accept, struct buf *body,
			     const char **content_type, void *data);

/*
 * Listens at HOST:PORT, [ADDRESS]:PORT or :PORT (every address). 0, or -errno with *ret_why = a line for the
 * operator (owned). `loop` and `data` are borrowed and outlive the server.
 */
int server_new(struct server **ret, struct loop *loop, const char *listen, serve_fn fn, void *data,
	       char **ret_why);
/*
 * Whether server_new could listen there now: 0; 1: an agent like this one does; -errno. Takes a second at
 * most, where somebody else does.
 */
int server_probe(const char *listen);
/* NULL is fine. */
void server_free(struct server *s);

#endif
