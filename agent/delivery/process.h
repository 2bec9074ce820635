// SPDX-License-Identifier: Apache-2.0
/* The inside of the delivery process. Private to delivery/. */
#ifndef PROFLET_DELIVERY_PROCESS_H
#define PROFLET_DELIVERY_PROCESS_H

#include "agent/delivery/account.h"
#include "agent/delivery/options.h"

/*
 * Confines the calling process, which was just forked, and keeps a delivery process: forks it again whenever
 * it has crashed or was killed. `socket`: to the agent, does not block. Does not return.
 */
void process_keep(int socket, const struct delivery_options *options, struct account_page *page)
	__attribute__((noreturn));

#endif
