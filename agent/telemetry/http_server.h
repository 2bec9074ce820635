// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP server at the address of the setting `listen`: answers GET requests on the main loop, with a few
 * connections at a time (libmicrohttpd).
 */
#ifndef PROFLET_HTTP_SERVER_H
#define PROFLET_HTTP_SERVER_H

struct buf;
struct loop;
struct http_server;

#define HTTP_SERVER_TEXT "text/plain; charset=utf-8"

/*
 * Answers a request: appends to the empty `body`, and sets *content_type (static string) if it is not
 * HTTP_SERVER_TEXT. `accept` is the request's Accept header, "" if there is none. Returns the HTTP status;
 * 404: no such path. Must not block.
 */
typedef unsigned (*http_server_fn)(const char *path, const char *accept, struct buf *body,
				   const char **content_type, void *data);

/*
 * Listens at HOST:PORT, [ADDRESS]:PORT or :PORT (every address). 0, or -errno with *ret_why = a line for the
 * operator (owned). `loop` and `data` are borrowed and outlive the server.
 */
int http_server_new(struct http_server **ret, struct loop *loop, const char *listen, http_server_fn fn,
		    void *data, char **ret_why);
/*
 * Whether http_server_new could listen there now: 0; 1: no, an agent like this one does already; -errno.
 * Takes up to a second if the address is in use.
 */
int http_server_probe(const char *listen);
/* NULL is fine. */
void http_server_free(struct http_server *s);

#endif
