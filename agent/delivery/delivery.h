// SPDX-License-Identifier: Apache-2.0
/*
 * The delivery process: has the secrets and the sockets. It sends requests to the Collector, keeps the spool,
 * answers at the address of `listen`, and calls the kubelet. What servers and strangers send is interpreted
 * there, and it has no right to look at other processes (confine.h); the agent, which may, talks to nobody.
 *
 * It is forked before there are threads, BPF programs and perf events. If it ends, a process that keeps it
 * forks it again; the requests in its memory are lost then, and counted. It ends with the agent.
 *
 *	agent → delivery: requests, in memfds; pages; to call the kubelet; to stop
 *	delivery → agent: which page or profile is wanted; the list of pods    shared memory: its numbers
 */
#ifndef PROFLET_DELIVERY_H
#define PROFLET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/delivery/http_server.h"
#include "agent/delivery/options.h"
#include "agent/delivery/pull_stats.h"
#include "otlp/exporter.h"

struct buf;
struct delivery;
struct loop;
struct pod_list;
struct pull_request;

#define DELIVERY_PULLS_MAX HTTP_SERVER_HELD_MAX /* that run at once */

/*
 * Makes a page: appends to the empty `body`, and sets *content_type, which is read at once, if it is not
 * HTTP_SERVER_TEXT. `accept` is the request's Accept header, "" if there is none. Returns the HTTP status;
 * 404: no such path.
 */
typedef unsigned (*delivery_page_fn)(const char *path, const char *accept, struct buf *body,
				     const char **content_type, void *data);

/* Called on the main loop. */
struct delivery_callbacks {
	/*
	 * It cannot work: -EINVAL: a setting is wrong; -EPIPE: it has ended, and will not be started again.
	 * `why`: a line for the operator.
	 */
	void (*failed)(int error, const char *why, void *data);
	/* Whether it listens: 0 or -errno with a line for the operator. */
	void (*listens)(int result, const char *why, void *data);
	delivery_page_fn page; /* of requests at `listen` */
	/* A profile is requested; delivery_answer answers, at any time. */
	void (*pull)(uint64_t number, const struct pull_request *request, void *data);
	/* Nobody waits for the answer any more; 0: for any of them. */
	void (*pull_end)(uint64_t number, void *data);
	void *data;
};

/*
 * Forks it; call while there is one thread. The caller's secrets can be forgotten then (config_forget). 0 or
 * -errno.
 */
int delivery_start(struct delivery **ret, const struct delivery_options *options);
/*
 * Waits until it is known whether the settings are right, at most `timeout_ns`. 0; 1: not known yet; -EINVAL,
 * -EPIPE, -errno with *ret_why = a line for the operator (owned).
 */
int delivery_wait(struct delivery *d, uint64_t timeout_ns, char **ret_why);
/* Takes its messages on this loop from now on. `callbacks` is copied. 0 or -errno. */
int delivery_watch(struct delivery *d, struct loop *loop, const struct delivery_callbacks *callbacks);
/* Hands over a request, and frees it; never blocks. If that fails, it counts as dropped (no_sender). */
void delivery_submit(struct delivery *d, struct otlp_request *request);
/*
 * Answers a pull, with an HTTP status and copies of `body` and `content_type`. Does nothing if nobody waits
 * for it.
 */
void delivery_answer(struct delivery *d, uint64_t number, unsigned status, const struct buf *body,
		     const char *content_type);
/* Has it listen at the configured address. 0 or -errno. */
int delivery_listen(struct delivery *d);
/*
 * Has it request the pods from the kubelet; one request at a time. `done` gets 0 and a list, which it may
 * empty, or an error as kubelet_fetch and why. 0; -EBUSY; -errno.
 */
int delivery_request_pods(struct delivery *d,
			  void (*done)(int result, struct pod_list *pods, const char *why, void *data),
			  void *data);
/* No answer is wanted any more: `done` will not be called. */
void delivery_forget_pods(struct delivery *d);
/*
 * As otlp_exporter_stats, since the start of the agent: `queued` includes what is on its way to the process,
 * and `cpu_ns` is that of the whole process.
 */
void delivery_stats(struct delivery *d, struct otlp_exporter_stats *ret);
void delivery_http_stats(const struct delivery *d, struct http_server_stats *ret);
void delivery_pull_stats(const struct delivery *d, struct pull_stats *ret);
/* The process itself; 0: there is none. */
int delivery_pid(const struct delivery *d);
uint64_t delivery_restarts(const struct delivery *d);
/*
 * As otlp_exporter_stop; waits for its end. All that is not delivered then is in the spool, or counted as
 * dropped.
 */
int delivery_stop(struct delivery *d, uint64_t deadline_mono_ns);
/* Ends it. The loop that watched it is not run any more. NULL is fine. */
void delivery_free(struct delivery *d);

DEFINE_CLEANUP(struct delivery *, delivery_free)

#endif
