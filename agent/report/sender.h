// SPDX-License-Identifier: Apache-2.0
/*
 * Closed windows become export requests, and weighted stacks for a recording. Every sample ends in a request
 * that was emitted, or is counted as dropped. Private to agent/report. Main loop only.
 */
#ifndef PROFLET_REPORT_SENDER_H
#define PROFLET_REPORT_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock_steps;
struct config;
struct names;
struct otlp_request;
struct output_stack;
struct resources;
struct sender;
struct window;

/* Most of it is as in struct report_options. */
struct sender_options {
	const struct config *config;
	const struct clock_steps *clock; /* that tell Unix time */
	struct names *names;
	const struct resources *resources;
	size_t max_request_bytes;
	bool one_request;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	void (*emit)(struct otlp_request *request, void *data);
	void *emit_data;
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
};

struct sender_stats {
	uint64_t emitted; /* samples in requests that were handed to emit */
	uint64_t pending; /* in a request that is not finished yet */
	uint64_t failed;  /* in none: no memory, or a stack too large for any */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int sender_new(struct sender **ret, const struct sender_options *options);
/* NULL is fine. Samples in a request that is not finished are lost. */
void sender_free(struct sender *s);
/* Sends a closed window; with options.one_request it only goes into the request. */
void sender_send(struct sender *s, const struct window *w);
/* Finishes and emits the one request. */
void sender_finish(struct sender *s);
void sender_stats(const struct sender *s, struct sender_stats *ret);

#endif
