// SPDX-License-Identifier: Apache-2.0
/*
 * Host names to addresses with a deadline. getaddrinfo has none of its own and may wait 20 s for dead name
 * servers, so a name is looked up on a thread that is left behind when time is up (at most
 * RESOLVE_MAX_PENDING of them); it frees everything itself. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_RESOLVE_H
#define PROFLET_OTLP_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

#include "agent/base/cleanup.h"

#define RESOLVE_MAX_PENDING 4

/*
 * 0 and a list for freeaddrinfo; or -ETIMEDOUT (deadline on the monotonic clock), -ECANCELED (cancel_fd is
 * readable; -1: none), -EBUSY (RESOLVE_MAX_PENDING lookups hang), -ENOENT with *ret_why = the resolver's
 * text, -ENOMEM.
 */
int otlp_resolve(const char *host, uint16_t port, uint64_t deadline_mono_ns, int cancel_fd,
		 struct addrinfo **ret, const char **ret_why);

DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)
#define _cleanup_addrinfo_ _cleanup_(freeaddrinfo_p)

#endif
