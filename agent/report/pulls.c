// SPDX-License-Identifier: Apache-2.0
#include "agent/report/pulls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

#define ID_DIGITS_MIN 12u
#define NODE_BYTES 128u	 /* of a node of the profile, with its share of locations and functions */
#define STRINGS_SHARE 4u /* of the memory is for names */

struct pull {
	struct pull *next;
	struct pull_options options; /* texts owned */
	struct output_profile *profile;
	uint64_t n_selected; /* of the entry that is being sent */
	uint64_t cpu_ns;     /* that its samples stand for */
};

struct pulls {
	struct pull *first;
	unsigned n, max;
};

int pulls_new(struct pulls **ret, unsigned max)
{
	struct pulls *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->max = max;
	*ret = p;
	return 0;
}

static void pull_free(struct pull *pull)
{
	if (!pull)
		return;
	free((char *)pull->options.selector.container);
	free((char *)pull->options.selector.pod);
	free((char *)pull->options.selector.namespace);
	output_profile_free(pull->profile);
	free(pull);
}

DEFINE_CLEANUP(struct pull *, pull_free)

void pulls_free(struct pulls *p)
{
	if (p)
		pulls_cancel(p, 0);
	free(p);
}

static int copy(const char **text)
{
	const char *original = *text;

	*text = original ? strdup(original) : NULL;
	return original && !*text ? -ENOMEM : 0;
}

int pulls_begin(struct pulls *p, const struct pull_options *options)
{
	const struct output_info info = {.max_nodes = options->max_bytes / NODE_BYTES,
					 .max_string_bytes = options->max_bytes / STRINGS_SHARE};
	_cleanup_(pull_free_p) struct pull *pull = NULL;
	int r;

	if (p->n >= p->max)
		return -EBUSY;
	pull = calloc(1, sizeof *pull);
	if (!pull)
		return -ENOMEM;
	pull->options = *options;
	r = copy(&pull->options.selector.container) | copy(&pull->options.selector.pod) |
	    copy(&pull->options.selector.namespace);
	if (r == 0)
		r = output_profile_new(&pull->profile, &info);
	if (r < 0)
		return -ENOMEM;
	pull->next = p->first;
	p->first = TAKE_PTR(pull);
	p->n++;
	return 0;
}

/* Takes it out of the list. */
static struct pull *take(struct pulls *p, struct pull **at)
{
	struct pull *pull = *at;

	*at = pull->next;
	p->n--;
	return pull;
}

void pulls_cancel(struct pulls *p, uint64_t number)
{
	struct pull **at = &p->first;

	while (*at)
		if (!number || (*at)->options.number == number)
			pull_free(take(p, at));
		else
			at = &(*at)->next;
}

bool pulls_any(const struct pulls *p)
{
	return p->first != NULL;
}

uint64_t pulls_next_ns(const struct pulls *p)
{
	uint64_t next = 0;

	for (const struct pull *pull = p->first; pull; pull = pull->next)
		if (!next || pull->options.until_ns < next)
			next = pull->options.until_ns;
	return next;
}

static bool is_text(const char *wanted, const char *text)
{
	return !wanted || (text && strcmp(wanted, text) == 0);
}

static bool is_container(const char *wanted, const struct pull_identity *who)
{
	const size_t len = wanted ? strlen(wanted) : 0;

	return is_text(wanted, who->container_name) ||
	       (len >= ID_DIGITS_MIN && who->container_id && strncmp(wanted, who->container_id, len) == 0);
}

bool pull_selects(const struct pull_selector *s, const struct pull_identity *who)
{
	return (!s->pid || s->pid == who->pid) && is_container(s->container, who) &&
	       is_text(s->pod, who->pod) && is_text(s->namespace, who->namespace);
}

static uint64_t count_within(const struct pull_options *o, const uint64_t *times_ns, size_t n)
{
	uint64_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += times_ns[i] >= o->from_ns && times_ns[i] < o->until_ns;
	return count;
}

bool pulls_select(struct pulls *p, const struct pull_identity *who, const uint64_t *times_ns, size_t n)
{
	bool any = false;

	for (struct pull *pull = p->first; pull; pull = pull->next) {
		pull->n_selected = pull_selects(&pull->options.selector, who)
					   ? count_within(&pull->options, times_ns, n)
					   : 0;
		any |= pull->n_selected != 0;
	}
	return any;
}

void pulls_add(struct pulls *p, const struct output_stack *stack, uint32_t frequency_hz)
{
	for (struct pull *pull = p->first; pull; pull = pull->next) {
		struct output_stack s = *stack;

		s.count = pull->n_selected;
		s.times = s.mono_ns = NULL; /* those of all samples: a page within max_bytes has none */
		if (!s.count)
			continue;
		(void)output_profile_add(pull->profile, &s); /* beyond a maximum it is [other] */
		pull->cpu_ns += frequency_hz ? s.count * NS_PER_SEC / frequency_hz : 0;
	}
}

/* At which as many samples stand for the same CPU time: cpu.max may have changed it meanwhile. */
static uint32_t mean_frequency(const struct pull *pull)
{
	const uint64_t n = output_profile_samples(pull->profile);

	return pull->cpu_ns ? (uint32_t)((n * NS_PER_SEC + pull->cpu_ns / 2) / pull->cpu_ns) : 0;
}

void pulls_sent(struct pulls *p, uint64_t until_ns)
{
	struct pull **at = &p->first, *over = NULL;

	while (*at) {
		if ((*at)->options.until_ns <= until_ns) {
			struct pull *pull = take(p, at);

			pull->next = over;
			over = pull;
		} else {
			at = &(*at)->next;
		}
	}
	while (over) { /* may begin another one */
		_cleanup_(pull_free_p) struct pull *pull = over;

		over = pull->next;
		output_profile_set_frequency(pull->profile, mean_frequency(pull));
		pull->options.done(pull->options.number, pull->profile, pull->options.data);
	}
}
