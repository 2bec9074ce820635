// SPDX-License-Identifier: Apache-2.0
/*
 * The user's request headers. Their values are secrets: they appear in no error, no event and no HPACK table,
 * and are wiped when freed. Rank 1 (otlp).
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

/* Makes the headers anew, on the thread that sends. 0: *ret has them, now the caller's; < 0: the old ones
 * stay. */
typedef int (*otlp_headers_renew)(const void *data, struct otlp_headers *ret);

/*
 * Copies n headers. 0, -ENOMEM, -E2BIG (more than OTLP_HEADERS_MAX), or -EINVAL: a name or value that HTTP/2
 * forbids, or a name that the protocol itself sets; *ret_bad (may be NULL) is the index of the offender.
 */
int otlp_headers_copy(const struct otlp_header *headers, size_t n, struct otlp_headers *ret, size_t *ret_bad);
void otlp_headers_fini(struct otlp_headers *h); /* twice is fine */

#endif
