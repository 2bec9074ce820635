// SPDX-License-Identifier: Apache-2.0
/*
 * Makes export requests of closed windows, and weighted stacks for recordings. Every sample is in an emitted
 * request, in an unfinished one (pending), or counted as failed. Private to agent/report. Main loop only.
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
struct pulls;
struct resources;
struct sender;
struct window;

/* Members that are not explained here are those of struct report_options. */
struct sender_options {
	const struct config *config;
	const struct clock_steps *clock; /* convert the times of samples to Unix time */
	struct names *names;
	const struct resources *resources;
	size_t max_request_bytes;
	bool one_request;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	void (*emit)(struct otlp_request *request, void *data);
	void *emit_data;
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
	struct pulls *pulls; /* NULL: there are none */
};

struct sender_stats {
	uint64_t emitted;      /* samples in requests that were handed to emit */
	uint64_t pending;      /* samples in a request that is not finished */
	uint64_t file_changed; /* samples whose stack was cut at a file that may have had other content */
	uint64_t failed;       /* samples that no request can hold, or for which there was no memory */
};

/* All pointers in `options` are borrowed until sender_free. 0 or -ENOMEM. */
int sender_new(struct sender **ret, const struct sender_options *options);
/* Pending samples are lost. NULL is fine. */
void sender_free(struct sender *s);
/* Sends a closed window; with options.one_request its samples become pending. */
void sender_send(struct sender *s, const struct window *w);
/* With options.one_request: finishes and emits the request. */
void sender_finish(struct sender *s);
void sender_stats(const struct sender *s, struct sender_stats *ret);

#endif
