// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/room.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "agent/base/clock.h"
#include "agent/parser/progress.h"

#define SMALL_SHARE 16u /* of the limit: a handful of such processes at a time does no harm */
#define LOOK_NS (20 * NS_PER_MS)
#define ASLEEP_NS NS_PER_SEC /* and used no CPU time: then nobody waits for them */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t limit, taken;
	struct room *holders;
	struct waiter *first; /* who waits longest, and has the next room */
	bool cancelled;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct waiter {
	struct waiter *next;
};

/* What a thread that waits has seen of those that have room. */
struct watch {
	uint64_t cpu_ns, since_ns; /* since: monotonic */
};

void room_limit(uint64_t bytes)
{
	pthread_mutex_lock(&state.lock);
	state.limit = bytes;
	state.cancelled = false;
	pthread_cond_broadcast(&state.changed);
	pthread_mutex_unlock(&state.lock);
}

uint64_t room_small(void)
{
	uint64_t limit;

	pthread_mutex_lock(&state.lock);
	limit = state.limit;
	pthread_mutex_unlock(&state.lock);
	return limit ? limit / SMALL_SHARE : UINT64_MAX;
}

void room_cancel(void)
{
	pthread_mutex_lock(&state.lock);
	state.cancelled = true;
	pthread_cond_broadcast(&state.changed);
	pthread_mutex_unlock(&state.lock);
}

void room_count(unsigned *ret_holders, unsigned *ret_waiting)
{
	*ret_holders = *ret_waiting = 0;
	pthread_mutex_lock(&state.lock);
	for (const struct room *r = state.holders; r; r = r->next)
		++*ret_holders;
	for (const struct waiter *w = state.first; w; w = w->next)
		++*ret_waiting;
	pthread_mutex_unlock(&state.lock);
}

/* With the lock held: whether one of those that have room computes, or waits for a CPU. */
static bool holders_get_on(struct watch *w)
{
	const uint64_t now = clock_mono_ns();
	uint64_t cpu_ns = 0;
	bool awake = false;

	for (const struct room *r = state.holders; r; r = r->next) {
		cpu_ns += progress_cpu_ns(r->pid);
		awake |= !progress_is_asleep(r->pid);
	}
	if (!w->since_ns || awake || cpu_ns != w->cpu_ns)
		*w = (struct watch){.cpu_ns = cpu_ns, .since_ns = now};
	return now - w->since_ns < ASLEEP_NS;
}

/* With the lock held: whether the thread need not wait any longer. */
static bool may_take(const struct waiter *me, uint64_t bytes, struct watch *w)
{
	if (state.cancelled)
		return true;
	if (state.first != me)
		return false;
	return !state.holders || state.taken + bytes <= state.limit || !holders_get_on(w);
}

static void wait_a_while(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)LOOK_NS;
	if (until.tv_nsec >= (long)NS_PER_SEC) {
		until.tv_nsec -= (long)NS_PER_SEC;
		until.tv_sec++;
	}
	(void)pthread_cond_timedwait(&state.changed, &state.lock, &until);
}

void room_take(struct room *r, pid_t pid, uint64_t bytes, void (*wait)(pid_t holder))
{
	struct waiter me = {0}, **at = &state.first;
	struct watch watch = {0};

	pthread_mutex_lock(&state.lock);
	while (*at)
		at = &(*at)->next;
	*at = &me;
	while (!may_take(&me, bytes, &watch)) {
		if (state.holders)
			wait(state.holders->pid);
		wait_a_while();
	}
	for (at = &state.first; *at != &me; at = &(*at)->next)
		;
	*at = me.next;
	*r = (struct room){.bytes = bytes, .pid = pid, .next = state.holders};
	state.holders = r;
	state.taken += bytes;
	pthread_cond_broadcast(&state.changed);
	pthread_mutex_unlock(&state.lock);
}

void room_give(struct room *r)
{
	if (!r->bytes)
		return;
	pthread_mutex_lock(&state.lock);
	for (struct room **at = &state.holders; *at; at = &(*at)->next) {
		if (*at != r)
			continue;
		*at = r->next;
		state.taken -= r->bytes;
		break;
	}
	*r = (struct room){0};
	pthread_cond_broadcast(&state.changed);
	pthread_mutex_unlock(&state.lock);
}
