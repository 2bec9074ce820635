// SPDX-License-Identifier: Apache-2.0
#ifndef PROFLET_DELIVERY_OPTIONS_H
#define PROFLET_DELIVERY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct config;

/* Of a delivery process. */
struct delivery_options {
	const struct config *config; /* borrowed for the call */
	bool exports;		     /* requests are delivered; else it only calls the kubelet */
	uint64_t capabilities;	     /* that it keeps of those that the caller has; bit n: number n */
};

#endif
