// SPDX-License-Identifier: Apache-2.0
/*
 * A walk with an outdated mapping list is right up to the first frame that lies where a mapping has changed.
 * If the sample brought its registers and stack from its start, it is walked again with the mappings of its
 * time. If not, it is cut at that frame, and says so.
 *
 * A workload (control group) may fill no more of the waiting room than it leaves free: one that maps new code
 * all the time gets half of it at most, and the samples of the others still find room.
 */
#include "agent/unwind/completion.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/unwind/outdated_frames.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"

#define RETRY_PAUSE 8u /* the pause between retries, in durations of the last one */

/* What the samples of a workload take of the waiting room. */
struct share {
	struct map_node node;
	const void *workload; /* its identity only, never followed */
	size_t bytes;
};

struct waiting {
	struct waiting *next;
	uint64_t deadline_ns;
	struct share *share;
	struct sampled_task task; /* one reference each: the process may end before its tables are there */
	uint32_t *held;		  /* the binaries that its frames are of, one reference each; owned */
	size_t n_held;
	size_t len;
	uint64_t record[]; /* len bytes */
};

struct completion {
	struct completion_options options;
	struct finisher *finisher;
	struct waiting *first, **tail; /* in the order of arrival */
	struct map shares;
	size_t n, bytes;
	bool rules_came;
	uint64_t epoch;		   /* of the last try */
	uint64_t next_deadline_ns; /* no sample that waits has an earlier deadline */
	uint64_t pause_until_ns;   /* no retry before then: retries take a bounded part of our time */
	struct completion_stats stats;
};

static void on_rules(void *data)
{
	struct completion *c = data;

	c->rules_came = true;
}

int completion_new(struct completion **ret, const struct completion_options *options)
{
	struct completion *c = calloc(1, sizeof *c);
	struct finisher_options finish = {
		.arena = options->arena,
		.binaries = options->tables ? unwind_tables_binaries(options->tables) : NULL,
		.worker = options->worker,
		.user_frames = options->user_frames,
		.ready = on_rules,
		.data = c,
	};
	int r;

	if (!c)
		return -ENOMEM;
	c->options = *options;
	if (!c->options.now)
		c->options.now = clock_mono_ns;
	c->tail = &c->first;
	map_init(&c->shares, SIZE_MAX); /* no more than samples that wait */
	r = finisher_new(&c->finisher, &finish);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

/* --- one stack */

/*
 * A list that describes these mappings: the published one if it is up to date, or one of our own. 0: there
 * are no mappings.
 */
static uint32_t list_for(struct completion *c, const struct sample_view *v, const struct proc_maps *maps)
{
	uint32_t published = c->options.publisher ? publisher_list(c->options.publisher, maps) : 0;

	return published ?: finisher_list(c->finisher, v, maps, c->options.tables);
}

static bool is_outdated(const struct process *p, const struct sample_view *v,
			const struct proc_maps **ret_used)
{
	return v->generation && proc_history_outdated(p, v->time_ns, v->generation, ret_used);
}

static void take_as_is(const struct sample_view *v, struct sample_view *ret)
{
	*ret = *v;
	ret->saved = NULL;
	ret->stack = NULL;
}

/* Cuts a stack after its last valid frame. False: all of its frames are valid. */
static bool cut(struct completion *c, const struct sample_view *v, const struct proc_maps *used,
		const struct proc_maps *right, struct sample_view *ret)
{
	uint64_t next = 0;
	int n = 0;

	if (used && right)
		n = unwind_frames_valid(c->options.tables, used, right, v->frames + v->n_kernel, v->n_user,
					&next);
	if (n == v->n_user)
		return false;
	finisher_cut(c->finisher, v, n < 0 ? 0 : (uint16_t)n, next, ret);
	c->stats.cut++;
	return true;
}

static bool walk_again(struct completion *c, const struct process *p, const struct sample_view *v,
		       const struct proc_maps *right, struct sample_view *ret)
{
	struct sample_view start = *v;
	uint32_t list = list_for(c, v, right);

	if (!list)
		return right != p->maps; /* the mappings of that time are known: there were none */
	start.n_user = 0;
	start.ending = ENDING_NO_PROCESS;
	return finisher_walk(c->finisher, &start, list, ret);
}

static bool is_completable(enum unwind_ending e)
{
	return e == ENDING_NO_PROCESS || e == ENDING_NO_MAPPING || e == ENDING_NO_TABLE ||
	       e == ENDING_UNSUPPORTED_RULE;
}

/* Whether the stack is final as the program has sent it. */
static bool is_final(const struct process *p, const struct sample_view *v)
{
	const struct proc_maps *used;

	return !is_outdated(p, v, &used) && (!v->saved || (v->from_start && !is_completable(v->ending)));
}

/*
 * Continues the walk as far as that is possible now; *ret is borrowed until the next call. True when the
 * result is final; false when a table, mapping or rule may still come that takes it further.
 */
static bool complete(struct completion *c, const struct process *p, const struct sample_view *v,
		     struct sample_view *ret)
{
	const struct proc_maps *right = proc_history_at(p, v->time_ns), *used = NULL;
	bool outdated = is_outdated(p, v, &used), final;
	uint32_t list;

	take_as_is(v, ret);
	if (outdated && !(right && v->saved && v->from_start)) {
		if (cut(c, v, used, right, ret) || !v->saved)
			return true;
	}
	if (!right || !v->saved) /* the mappings of that time are forgotten */
		return true;
	if (v->from_start) {
		final = walk_again(c, p, v, right, ret);
		/* the stack that came along may be shorter than the one that the program walked */
		if (!outdated && ret->n_user <= v->n_user && !unwind_ending_complete(ret->ending))
			take_as_is(v, ret);
		c->stats.walked_again += outdated && final;
		return final;
	}
	list = list_for(c, v, right);
	return list ? finisher_walk(c->finisher, v, list, ret) : right != p->maps;
}

/* The tables of these frames are in use, and where they are missing they are built next. */
static void touch(struct completion *c, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame frame;
	uint32_t last = 0;

	while (stack_frames_next(&frames, &frame)) {
		uint32_t file = frame_file(frame.word);

		if (frame.kind != STACK_FRAME_NATIVE)
			continue;
		if (file != last) /* the frames of a binary come in runs */
			unwind_tables_touch(c->options.tables, file, v->time_ns);
		last = file;
	}
}

static void send(struct completion *c, const struct sampled_task *task, const struct sample_view *v)
{
	touch(c, v);
	c->options.final(task, v, c->options.data);
}

/* --- samples that wait */

static bool share_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct share, node)->workload == key;
}

/* The share of a workload, made when it has none; NULL: no memory. */
static struct share *share_of(struct completion *c, const void *workload)
{
	uint64_t hash = hash_u64((uintptr_t)workload);
	struct map_node *n = map_find(&c->shares, hash, share_is, workload);
	struct share *s;

	if (n)
		return container_of(n, struct share, node);
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->workload = workload;
	if (map_insert(&c->shares, &s->node, hash) == 0)
		return s;
	free(s);
	return NULL;
}

/* Accounts for bytes of the waiting room that are taken or returned, and frees an empty share. */
static void charge(struct completion *c, struct share *s, size_t taken, size_t returned)
{
	c->bytes += taken - returned;
	s->bytes += taken - returned;
	if (s->bytes)
		return;
	map_remove(&c->shares, &s->node);
	free(s);
}

static size_t waiting_bytes(const struct waiting *w)
{
	return sizeof *w + w->len + w->n_held * sizeof *w->held;
}

static struct binary_registry *binaries_of(const struct completion *c)
{
	return unwind_tables_binaries(c->options.tables);
}

/* Takes a reference to the binary of each frame. Without memory it takes none: names may be lost. */
static void hold_binaries(struct completion *c, struct waiting *w, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;
	uint32_t last = 0;

	if (v->n_user)
		w->held = calloc(v->n_user, sizeof *w->held);
	while (w->held && stack_frames_next(&frames, &f)) {
		if (f.kind != STACK_FRAME_NATIVE || frame_file(f.word) == last)
			continue;
		last = frame_file(f.word);
		if (binary_registry_hold(binaries_of(c), last))
			w->held[w->n_held++] = last;
	}
}

static void drop(struct completion *c, struct waiting *w)
{
	charge(c, w->share, 0, waiting_bytes(w));
	for (size_t i = 0; i < w->n_held; i++)
		binary_registry_release(binaries_of(c), w->held[i]);
	free(w->held);
	process_unref(w->task.process);
	proc_image_unref(w->task.image);
	free(w);
}

void completion_free(struct completion *c)
{
	if (!c)
		return;
	for (struct waiting *w = c->first, *next; w; w = next) {
		next = w->next;
		drop(c, w);
	}
	map_fini(&c->shares);
	finisher_free(c->finisher);
	free(c);
}

static bool needs_worker(enum unwind_ending ending)
{
	return ending == ENDING_NO_TABLE || ending == ENDING_UNSUPPORTED_RULE;
}

/* 0, -ENOSPC: there is no room for it, -ENOMEM. */
static int keep(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		enum unwind_ending ending, const void *record, size_t len)
{
	struct share *share = share_of(c, task->image->context.data);
	size_t bytes = sizeof(struct waiting) + len + v->n_user * sizeof(uint32_t); /* at most */
	struct waiting *w = NULL;
	int r = -ENOMEM;

	if (!share)
		return r;
	if (c->bytes + bytes > c->options.max_bytes ||
	    share->bytes + bytes > c->options.max_bytes - (c->bytes + bytes))
		r = -ENOSPC;
	else
		w = malloc(bytes);
	if (!w) {
		charge(c, share, 0, 0); /* it may be new */
		return r;
	}
	*w = (struct waiting){.deadline_ns =
				      c->options.now() +
				      (needs_worker(ending) ? COMPLETION_TABLE_NS : COMPLETION_PROCESS_NS),
			      .share = share,
			      .task = *task,
			      .len = len};
	process_ref(task->process);
	proc_image_ref(task->image);
	memcpy(w->record, record, len);
	if (c->options.tables)
		hold_binaries(c, w, v);
	if (!c->n || w->deadline_ns < c->next_deadline_ns)
		c->next_deadline_ns = w->deadline_ns;
	charge(c, share, waiting_bytes(w), 0);
	*c->tail = w;
	c->tail = &w->next;
	c->n++;
	return 0;
}

void completion_take(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		     const void *record, size_t len)
{
	struct sample_view done;

	if (is_final(task->process, v)) {
		send(c, task, v);
		return;
	}
	if (complete(c, task->process, v, &done)) {
		c->stats.completed += unwind_ending_complete(done.ending);
		send(c, task, &done);
		return;
	}
	if (keep(c, task, v, done.ending, record, len) == 0) {
		touch(c, &done);
		return;
	}
	c->stats.no_room++;
	send(c, task, &done);
}

/* True when the sample is sent. */
static bool settle(struct completion *c, struct waiting *w, bool out_of_time)
{
	struct sample_view v, done;
	bool final;

	(void)sample_decode(w->record, w->len, &v); /* it did decode when it came */
	final = complete(c, w->task.process, &v, &done);
	if (!final && needs_worker(done.ending) && w->deadline_ns < v.time_ns + COMPLETION_TABLE_NS)
		w->deadline_ns = v.time_ns + COMPLETION_TABLE_NS; /* now it waits for a worker */
	if (!final && !out_of_time)
		return false;
	c->stats.completed += unwind_ending_complete(done.ending);
	c->stats.late += !final;
	send(c, &w->task, &done);
	return true;
}

static void try_all(struct completion *c, uint64_t now, bool last)
{
	struct waiting **at = &c->first;

	c->next_deadline_ns = UINT64_MAX;
	while (*at) {
		struct waiting *w = *at;

		if (settle(c, w, last || now >= w->deadline_ns)) {
			*at = w->next;
			c->n--;
			drop(c, w);
			continue;
		}
		if (w->deadline_ns < c->next_deadline_ns)
			c->next_deadline_ns = w->deadline_ns;
		at = &w->next;
	}
	c->tail = at;
}

void completion_retry(struct completion *c, uint64_t epoch)
{
	uint64_t now;

	if (!c->n)
		return;
	now = c->options.now();
	if (now < c->pause_until_ns || (epoch == c->epoch && !c->rules_came && now < c->next_deadline_ns))
		return;
	c->epoch = epoch;
	c->rules_came = false;
	try_all(c, now, false);
	c->pause_until_ns = c->options.now() + RETRY_PAUSE * (c->options.now() - now);
}

void completion_finish(struct completion *c)
{
	try_all(c, c->options.now(), true);
}

void completion_forget(struct completion *c, uint32_t file)
{
	finisher_forget(c->finisher, file);
}

void completion_stats(const struct completion *c, struct completion_stats *ret)
{
	*ret = c->stats;
	ret->waiting = c->n;
	ret->waiting_bytes = c->bytes;
	finisher_stats(c->finisher, &ret->finisher);
}
