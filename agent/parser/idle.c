// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/idle.h"

#include <pthread.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/parser/session.h"

struct waiting {
	struct parser_session session;
	const struct parser_operation *operation;
	uint64_t since_ns;
};

static pthread_mutex_t mutex;
static struct waiting waiting[IDLE_MAX]; /* the first n; who came last, is last */
static unsigned n;

void idle_init(void)
{
	thread_mutex_init(&mutex);
}

static void remove_at(unsigned i)
{
	n--;
	for (; i < n; i++)
		waiting[i] = waiting[i + 1];
}

bool idle_take(struct parser_session *ret, const struct parser_operation *operation, bool urgent)
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	for (unsigned i = n; i-- && !found;) {
		const struct waiting *w = &waiting[i];

		if (w->operation != operation || (w->session.urgent && !urgent))
			continue;
		*ret = w->session;
		remove_at(i);
		found = true;
	}
	pthread_mutex_unlock(&mutex);
	return found;
}

void idle_give(struct parser_session *s, const struct parser_operation *operation)
{
	const bool again = s->socket && !s->spent && s->jobs < IDLE_JOBS_MAX && s->cpu_ns < IDLE_CPU_MAX_NS;

	pthread_mutex_lock(&mutex);
	if (again && n < IDLE_MAX) {
		waiting[n++] = (struct waiting){*s, operation, clock_mono_ns()};
		*s = (struct parser_session){0};
	}
	pthread_mutex_unlock(&mutex);
	parser_session_end(s);
}

void idle_trim(uint64_t since_ns)
{
	pthread_mutex_lock(&mutex);
	for (unsigned i = n; i--;) {
		if (waiting[i].since_ns >= since_ns)
			continue;
		parser_session_end(&waiting[i].session);
		remove_at(i);
	}
	pthread_mutex_unlock(&mutex);
}
