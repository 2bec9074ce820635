// SPDX-License-Identifier: Apache-2.0
/*
 * Resolves host names with a deadline. getaddrinfo has none, and may wait 20 s for dead name servers. So it
 * runs on a thread, which is abandoned when the deadline passes (at most RESOLVE_MAX_PENDING of them at a
 * time) and frees everything itself. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_RESOLVE_H
#define PROFLET_OTLP_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

#include "agent/base/cleanup.h"

#define RESOLVE_MAX_PENDING 4

/*
 * 0 and a list for freeaddrinfo; or -ETIMEDOUT (deadline on the monotonic clock), -ECANCELED (cancel_fd is
 * readable; -1: none), -EBUSY (RESOLVE_MAX_PENDING lookups do not return), -ENOENT with *ret_why = the
 * resolver's text, -ENOMEM.
 */
int otlp_resolve(const char *host, uint16_t port, uint64_t deadline_mono_ns, int cancel_fd,
		 struct addrinfo **ret, const char **ret_why);

DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)
#define _cleanup_addrinfo_ _cleanup_(freeaddrinfo_p)

#endif
