// SPDX-License-Identifier: Apache-2.0
/*
 * Requests about other processes that may never be answered. A file may lie on a file system whose server is
 * dead, and so may the memory of a process; a thread that reads it then waits for ever. So a worker thread
 * reads, and the main loop waits for it at most REQUEST_WAIT_NS, and with all requests together for at most a
 * small share of its time. An answer that comes later is taken when it comes.
 *
 * A request is stuck when its thread has been blocked in the kernel for REQUEST_BLOCKED_NS. A thread that
 * waits for a CPU is late, and may be so for minutes. Until the thread of a stuck request is back, other
 * requests about the same file system, or the same process, are parked: they wait here without a thread. They
 * are made when it is back, or when one of them, tried now and then, is answered. Main loop only.
 */
#ifndef PROFLET_TRACK_REQUESTS_H
#define PROFLET_TRACK_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/proc/open.h"
#include "agent/track/track_host.h"

#define REQUEST_WAIT_NS (2 * NS_PER_MS)	       /* an idle machine answers sooner */
#define REQUEST_WAIT_FREE_NS (NS_PER_MS / 10)  /* of each wait, not counted against the share */
#define REQUEST_WAIT_SHARE 20u		       /* 1/20 of all time may go into waiting, */
#define REQUEST_WAIT_SAVED_NS (50 * NS_PER_MS) /* and up to this much of it is saved up */
#define REQUEST_WAIT_START_NS (1 * NS_PER_SEC) /* saved at the start, when everything is read at once */
#define REQUEST_BLOCKED_NS (2 * NS_PER_SEC)
/*
 * After this, the log says so. The memory of a process may be locked by a thread that waits for a busy CPU.
 */
#define REQUEST_REPORT_FILES_NS (5 * NS_PER_SEC)
#define REQUEST_REPORT_PROCESS_NS (30 * NS_PER_SEC)
#define REQUEST_RETRY_NS (1 * NS_PER_SEC) /* before one of the parked requests is tried; doubles */
#define REQUEST_RETRY_MAX_NS (60 * NS_PER_SEC)
#define REQUEST_RETRY_THREADS 4u /* no more of them are tried while so many threads are blocked by a cause */
#define REQUEST_PARKED_MAX 4096u
#define REQUEST_THREADS 2u
#define REQUEST_REFUSED_MAX \
	(REQUEST_THREADS + WORKER_STUCK_MAX) /* file systems to avoid: no more can block a thread */
#define REQUEST_QUEUE_MAX 16384u

struct blocker;
struct late_process;
struct request_list;
struct requests;

/* The first member of a struct with what a request needs and what it finds. Zeroed; allocated. */
struct request {
	struct worker_job job;
	const struct request_kind *kind;
	struct requests *owner;	   /* for the main loop only */
	struct request_list *list; /* that it is in; NULL: none */
	struct request *prev, *next;
	struct late_process *late; /* while it is late */
	struct blocker *blocker;   /* that it is blocked by; NULL: none, or not known */
	struct blocker *tries;	   /* that it is made in spite of; NULL: none */
	uint64_t *account;	   /* requests_charge */
	uint32_t pid;
	const char
		*path; /* that it is about, for the log; set by the owner, valid until `free`. May be NULL */
	struct proc_view proc;
	struct host_clock clock;
	uint64_t made_ns;
	uint64_t began_ns; /* when a thread began with it; 0 before */
	uint64_t cpu_ns;   /* that the thread has used for it */
	bool blocked;	   /* its thread has been seen blocked */
	struct proc_open_watch watch;
	uint64_t refused[REQUEST_REFUSED_MAX];
};

struct request_kind {
	const char *what; /* for the log: "reading its mappings" */
	/* On a thread; may touch nothing but the request. The others run on the main loop. */
	void (*run)(struct request *q);
	/* Whether the answer is incomplete: `run` is called again. NULL: never. */
	bool (*again)(struct request *q);
	/*
	 * Whether the answer is that it would have had to access q->watch.dev, which is refused: the request
	 * is parked, and `run` is called again when the file system answers. NULL: never.
	 */
	bool (*refused)(struct request *q);
	/* Takes an answer after REQUEST_LATER. NULL: it is dropped. */
	void (*late)(struct request *q);
	/* It is stuck or parked, once more perhaps; `late` is called if it ever returns. May be NULL. */
	void (*stuck)(struct request *q);
	void (*free)(struct request *q);
};

enum request_result {
	REQUEST_DONE,	 /* the request is the caller's again, with its answer */
	REQUEST_LATER,	 /* `late` will be called if it is answered, then `free` */
	REQUEST_REFUSED, /* not made: there are too many; the request is the caller's */
};

struct requests_stats {
	uint64_t made, late, refused;
	uint64_t given_up; /* stuck: no longer expected, though taken if they return */
	uint64_t parked;
	uint64_t waited_ns, waited_max_ns; /* by the main loop */
	unsigned pending;		   /* late, and not stuck */
	unsigned n_parked;		   /* now */
};

/* `host` is borrowed. 0 or -ENOMEM. */
int requests_new(struct requests **ret, const struct track_host *host);
/* After the threads of host->readers have ended, before the owners of requests are freed. NULL is fine. */
void requests_free(struct requests *r);

enum request_result requests_make(struct requests *r, struct request *q, const struct request_kind *kind,
				  uint32_t pid);
/*
 * The same in two steps, for a kind without `again`: the thread works while the main loop does something
 * else, after the requests that the main loop waits for. False: refused, the request is the caller's. After
 * true, call requests_wait before the pool's finished jobs are collected.
 */
bool requests_begin(struct requests *r, struct request *q, const struct request_kind *kind, uint32_t pid);
enum request_result requests_wait(struct requests *r, struct request *q); /* DONE or LATER */

/* For `run`: the file system is about to be accessed. False: it must not be (request_kind.refused). */
bool request_enters(struct request *q, uint64_t dev);

/* Finds out what is stuck, and tries what is parked. Call every 100 ms or so. */
void requests_check(struct requests *r);
/* Blocks until a late answer has come, or the time is over. */
void requests_drain(struct requests *r, uint64_t timeout_ns);
/*
 * From now on, *account is charged with the CPU time of every request that is answered late, and of those
 * made while its answer is taken. NULL: no account is charged. Returns the former one.
 */
uint64_t *requests_charge(struct requests *r, uint64_t *account);
/* Requests that are late and not stuck; 0 while no thread is left that could answer them. */
unsigned requests_pending(const struct requests *r);
/* Whether one of these is about the process. */
bool requests_about(const struct requests *r, uint32_t pid);
void requests_stats(const struct requests *r, struct requests_stats *ret);

#endif
