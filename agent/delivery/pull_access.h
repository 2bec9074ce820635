// SPDX-License-Identifier: Apache-2.0
/*
 * Who may request a profile. Profiles show what every process of the node runs, so without a token only
 * clients on this machine get one; with the setting `listen_token_file`, only those that have the token.
 */
#ifndef PROFLET_DELIVERY_PULL_ACCESS_H
#define PROFLET_DELIVERY_PULL_ACCESS_H

#include <stdbool.h>

#define PULL_TOKEN_MAX 1024u /* bytes */
#define PULL_TOKEN_MIN 16u

struct buf;
struct http_request;

/*
 * 0: it may. Else an HTTP status, and a line for the client is appended to `why`: 401: the token is missing
 * or wrong; 403: there is no token, and the client is not on this machine; 503: the file cannot be read, or
 * has no token. `token_file` is read again for each request; NULL: there is none. No text has the token.
 */
unsigned pull_access(const struct http_request *r, const char *token_file, struct buf *why);
/*
 * Whether two texts are equal. The time does not depend on where they differ. Texts of more than
 * PULL_TOKEN_MAX bytes are equal to none.
 */
bool pull_token_is(const char *token, const char *given);

#endif
