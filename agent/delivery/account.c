// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/account.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TRIES 16 /* a writer that is quicker than a copy, so often in a row, is not ours */

int account_page_new(struct account_page **ret)
{
	void *p = mmap(NULL, sizeof(struct account_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	return 0;
}

void account_page_free(struct account_page *p)
{
	if (p)
		(void)munmap(p, sizeof *p);
}

static void put(uint64_t *n, void *places, const void *value, size_t size)
{
	const uint64_t next = __atomic_load_n(n, __ATOMIC_RELAXED) + 1;

	memcpy((char *)places + (next & 1) * size, value, size);
	__atomic_store_n(n, next, __ATOMIC_RELEASE);
}

static bool get(const uint64_t *n, const void *places, void *ret, size_t size)
{
	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = __atomic_load_n(n, __ATOMIC_ACQUIRE);

		if (!before)
			return false;
		memcpy(ret, (const char *)places + (before & 1) * size, size);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(n, __ATOMIC_RELAXED) == before)
			return true;
	}
	return false;
}

void account_put_exports(struct account_page *p, const struct otlp_exporter_stats *now)
{
	put(&p->n_exports, p->exports, now, sizeof *now);
}

void account_put_http(struct account_page *p, const struct http_server_stats *now)
{
	put(&p->n_http, p->http, now, sizeof *now);
}

void account_put_pulls(struct account_page *p, const struct pull_stats *now)
{
	put(&p->n_pulls, p->pulls, now, sizeof *now);
}

bool account_get_exports(const struct account_page *p, struct otlp_exporter_stats *ret)
{
	struct otlp_exporter_stats s;
	unsigned char away;

	if (!get(&p->n_exports, p->exports, &s, sizeof s))
		return false;
	memcpy(&away, &s.away, sizeof away); /* any byte, but a bool is 0 or 1 */
	s.away = away != 0;
	memcpy(ret->last.text, s.last.text, sizeof ret->last.text - 1);
	memset(&s.last, 0, sizeof s.last);
	memcpy(s.last.text, ret->last.text, sizeof s.last.text - 1);
	*ret = s;
	return true;
}

bool account_get_http(const struct account_page *p, struct http_server_stats *ret)
{
	struct http_server_stats s;

	if (!get(&p->n_http, p->http, &s, sizeof s))
		return false;
	*ret = s;
	return true;
}

bool account_get_pulls(const struct account_page *p, struct pull_stats *ret)
{
	struct pull_stats s;

	if (!get(&p->n_pulls, p->pulls, &s, sizeof s))
		return false;
	*ret = s;
	return true;
}

static void count_sum(const struct otlp_count *before, const struct otlp_count *now, struct otlp_count *ret)
{
	const uint64_t left = before->spooled, lost = now->recovered < left ? left - now->recovered : 0;

	*ret = (struct otlp_count){
		.submitted = before->submitted + now->submitted,
		.exported = before->exported + now->exported,
		.queued = now->queued,
		.recovered = before->recovered + now->recovered + lost - left,
		.spooled = now->spooled,
	};
	for (int i = 0; i < OTLP_N_DROP_REASONS; i++)
		ret->dropped[i] = before->dropped[i] + now->dropped[i];
	ret->dropped[OTLP_DROP_SPOOL_DAMAGED] += lost;
}

void account_sum(const struct otlp_exporter_stats *before, const struct otlp_exporter_stats *now,
		 struct otlp_exporter_stats *ret)
{
	struct otlp_exporter_stats s = *now;

	count_sum(&before->samples, &now->samples, &s.samples);
	count_sum(&before->requests, &now->requests, &s.requests);
	s.spool_failures += before->spool_failures;
	s.exported_raw_bytes += before->exported_raw_bytes;
	s.exported_wire_bytes += before->exported_wire_bytes;
	s.attempts += before->attempts;
	s.retries += before->retries;
	for (int i = 0; i < OTLP_N_FAILURES; i++)
		s.failures[i] += before->failures[i];
	s.unanswered_samples += before->unanswered_samples;
	s.splits += before->splits;
	s.events_lost += before->events_lost;
	s.cpu_ns += before->cpu_ns;
	*ret = s;
}

void account_lose_queue(struct otlp_exporter_stats *s)
{
	s->samples.dropped[OTLP_DROP_NO_SENDER] += s->samples.queued;
	s->requests.dropped[OTLP_DROP_NO_SENDER] += s->requests.queued;
	s->samples.queued = s->requests.queued = 0;
	s->queued_bytes = 0;
	s->away = false;
}
