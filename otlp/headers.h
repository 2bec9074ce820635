// SPDX-License-Identifier: Apache-2.0
/*
 * Request headers that the user configured. Their values are secrets: they appear in no error, no event and
 * no HPACK table, and are wiped when freed. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_HEADERS_H
#define PROFLET_OTLP_HEADERS_H

#include <stddef.h>

#define OTLP_HEADERS_MAX 64

struct otlp_header {
	const char *name, *value;
};

struct otlp_headers {
	struct otlp_header *items; /* owned, with its strings; names in lower case */
	size_t n;
};

/*
 * Makes the headers anew, on the thread that sends. 0 with *ret, owned by the caller; < 0: the old ones
 * remain in use.
 */
typedef int (*otlp_headers_renew)(const void *data, struct otlp_headers *ret);

/*
 * Copies n headers. 0, -ENOMEM, -E2BIG (more than OTLP_HEADERS_MAX), or -EINVAL: HTTP/2 forbids a name or
 * value, or the protocol sets a header of that name itself; *ret_bad (may be NULL) is its index.
 */
int otlp_headers_copy(const struct otlp_header *headers, size_t n, struct otlp_headers *ret, size_t *ret_bad);
void otlp_headers_fini(struct otlp_headers *h); /* may be called twice */

#endif
