// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/code_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "bpf/abi.h"

/* A walk that began before a publication is over by then. Samples bear the time when their walk ended. */
#define WALK_NS (10 * NS_PER_MS)

#define GONE_MAX 1024u
#define EMPTY_MAX 256u
#define CHANGING_LOOKS 64u

struct span {
	struct code_span of;
	uint64_t published_ns; /* 0: not yet */
};

/* What was there and is not any more; the newest ones are known. */
struct gone {
	uint64_t start, end;
	uint64_t found_ns, same_ns; /* as in struct code_span */
	uint32_t compile_id;
};

struct empty {
	uint64_t address, began_ns;
};

struct code_times {
	struct span *spans; /* owned */
	size_t n;
	uint64_t looks;
	uint64_t placed; /* number of the look whose table is the one to be published */
	struct gone gone[GONE_MAX];
	struct empty empty[EMPTY_MAX];
	uint64_t n_gone, n_empty; /* that there have ever been */
	uint64_t gone_at;	  /* the value of `looks` when something was gone */
};

int code_times_new(struct code_times **ret)
{
	*ret = calloc(1, sizeof **ret);
	return *ret ? 0 : -ENOMEM;
}

void code_times_free(struct code_times *t)
{
	if (!t)
		return;
	free(t->spans);
	free(t);
}

static void note_gone(struct code_times *t, const struct code_span *s)
{
	if (!s->same_ns)
		return;
	t->gone[t->n_gone++ % GONE_MAX] =
		(struct gone){s->start, s->end, s->found_ns, s->same_ns, s->compile_id};
	t->gone_at = t->looks;
}

/*
 * Since when the rows of the span have been published, as far as that is known. *i moves forward over the
 * spans that were known before; those that are no more are noted.
 */
static uint64_t published_ns(struct code_times *t, const struct code_span *s, size_t *i)
{
	const struct span *was;

	for (; *i < t->n && t->spans[*i].of.start < s->start; ++*i)
		note_gone(t, &t->spans[*i].of);
	was = *i < t->n ? &t->spans[*i] : NULL;
	if (!was || was->of.start != s->start || was->of.look != s->look)
		return 0;
	++*i;
	return was->published_ns;
}

int code_times_set(struct code_times *t, const struct code_span *spans, size_t n)
{
	struct span *made = n ? calloc(n, sizeof *made) : NULL;
	size_t at = 0;

	t->looks++;
	for (size_t i = 0; made && i < n; i++)
		made[i] = (struct span){spans[i], published_ns(t, &spans[i], &at)};
	for (; made && at < t->n; at++)
		note_gone(t, &t->spans[at].of);
	free(t->spans);
	t->spans = made;
	t->n = made ? n : 0;
	return made || !n ? 0 : -ENOMEM;
}

void code_times_add_empty(struct code_times *t, uint64_t address, uint64_t began_ns)
{
	t->empty[t->n_empty++ % EMPTY_MAX] = (struct empty){address, began_ns};
}

bool code_times_is_empty(const struct code_times *t, uint64_t address, uint64_t time_ns)
{
	for (size_t i = 0; i < t->n_empty && i < EMPTY_MAX; i++)
		if (t->empty[i].address == address && t->empty[i].began_ns > time_ns)
			return true;
	return false;
}

void code_times_placed(struct code_times *t, uint64_t look)
{
	t->placed = look;
}

void code_times_published(struct code_times *t, uint64_t now_ns)
{
	for (size_t i = 0; i < t->n; i++) {
		struct span *s = &t->spans[i];

		if (!s->published_ns && s->of.look <= t->placed)
			s->published_ns = now_ns;
	}
}

uint64_t code_times_looks(const struct code_times *t)
{
	return t->looks + t->placed;
}

static const struct span *span_at(const struct code_times *t, uint64_t address)
{
	const size_t i = array_first(t->n, k, t->spans[k].of.end > address);

	return i < t->n && t->spans[i].of.start <= address ? &t->spans[i] : NULL;
}

bool code_times_changes(const struct code_times *t)
{
	return t->n_gone && t->looks - t->gone_at < CHANGING_LOOKS;
}

bool code_times_has(const struct code_times *t, uint64_t address)
{
	return span_at(t, address) != NULL;
}

bool code_times_is_plain(const struct code_times *t, uint64_t address)
{
	const struct span *s = span_at(t, address);

	return s && s->of.plain;
}

/* Whether other code is known to have been at the address at that time. */
static bool was_other(const struct code_times *t, uint64_t address, uint64_t time_ns)
{
	for (size_t i = 0; i < t->n_gone && i < GONE_MAX; i++) {
		const struct gone *g = &t->gone[i];

		if (address >= g->start && address < g->end && g->found_ns <= time_ns && g->same_ns > time_ns)
			return true;
	}
	return false;
}

/* Whether other code was ever known to be at the address. */
static bool was_code(const struct code_times *t, uint64_t address)
{
	for (size_t i = 0; i < t->n_gone && i < GONE_MAX; i++)
		if (address >= t->gone[i].start && address < t->gone[i].end)
			return true;
	return false;
}

/* Whether a walk of that time may have met the rows that were published before those of the span. */
static bool is_late(const struct span *s, uint64_t time_ns)
{
	return !s->published_ns || s->published_ns + WALK_NS > time_ns;
}

enum code_state code_times_at(const struct code_times *t, uint64_t address, uint64_t time_ns, bool published)
{
	const struct span *s = span_at(t, address);
	const bool stays = s && !s->of.same_ns;

	if (!s)
		return published ? CODE_OTHER : CODE_SAME;
	if (!published && s->of.look > t->placed)
		return CODE_UNSEEN;
	if (s->of.over && s->of.same_ns <= time_ns)
		return CODE_OVER;
	if (published ? is_late(s, time_ns) : s->of.found_ns > time_ns) {
		if (stays && !was_code(t, address))
			return CODE_SAME;
		return published || was_other(t, address, time_ns) ? CODE_OTHER : CODE_UNSURE;
	}
	return stays || s->of.same_ns > time_ns ? CODE_SAME : CODE_UNSEEN;
}

static bool is_id(uint32_t compile_id, uint32_t masked)
{
	return frame_code_id(compile_id) == masked;
}

enum code_state code_times_is(const struct code_times *t, uint64_t address, uint32_t compile_id)
{
	const struct span *s = span_at(t, address);

	if (!s || !is_id(s->of.compile_id, compile_id))
		return CODE_OTHER;
	return s->of.look > t->placed ? CODE_UNSEEN : CODE_SAME;
}

/* Whether that code was known, and is not any more. */
static bool was_known(const struct code_times *t, uint64_t address, uint32_t id)
{
	for (size_t i = 0; i < t->n_gone && i < GONE_MAX; i++) {
		const struct gone *g = &t->gone[i];

		if (address >= g->start && address < g->end && is_id(g->compile_id, id))
			return true;
	}
	return false;
}

enum code_state code_times_of(const struct code_times *t, uint64_t address, uint64_t time_ns, uint64_t code)
{
	const struct span *s = span_at(t, address);
	const uint32_t id = frame_code_id(code);
	const bool by_row = !(code & FRAME_CODE_BY_SIZE);

	if (s && is_id(s->of.compile_id, id)) {
		if (s->of.look > t->placed)
			return CODE_UNSEEN;
		return by_row && is_late(s, time_ns) ? CODE_OTHER : CODE_SAME;
	}
	if (!was_known(t, address, id) && !(s && s->of.found_ns > time_ns) &&
	    !code_times_is_empty(t, address, time_ns))
		return CODE_UNSEEN;
	return by_row ? CODE_OTHER : CODE_GONE;
}
