// SPDX-License-Identifier: Apache-2.0
/*
 * A walk with an outdated mapping list is right up to the first frame that lies where a mapping has changed.
 * If the sample brought its registers and stack from its start, it is walked again with the mappings of its
 * time. If not, it is cut at that frame, and says so; but while the file of the new mapping there is being
 * opened it may turn out to be the same file, and the sample waits.
 *
 * Code of a virtual machine that gives the memory of code to other code is judged alike: a sample waits until
 * its code was looked at after it was taken. If a step was made with rows of other code, the sample is walked
 * again if it brought its stack, or cut there.
 *
 * When the room for waiting samples is full, the tenant (control group) that has the most of it gives way:
 * its oldest samples are sent as they are. So one that maps new code all the time leaves room for the others.
 *
 * Samples may wait for minutes. While much of the room is taken, the records that come are compressed: a
 * saved stack is mostly zeros and repeated addresses. A retry walks only the samples for which the mappings,
 * the table or the rules that they lacked have changed.
 */
#include "agent/unwind/completion.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/urgency.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/proc/tenant.h"
#include "agent/unwind/code_times.h"
#include "agent/unwind/outdated_frames.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"

#define RETRY_PAUSE 8u /* the pause between retries, in durations of the last one */
/* The longest pause: a retry takes long where others have the CPU. */
#define RETRY_PAUSE_MAX_NS (NS_PER_SEC / 2)
#define RETRIES_MAX 256u /* walks in one call: the rings have to be drained, too */
#define PACK_PART 4u	 /* records are compressed while more than 1/4 of the room is taken */
#define PACK_LEVEL 1
#define PACK_BYTES_MIN 1024u
#define CALLERS_MAX 64u /* words of a stack that may be of code which is not known */

struct link {
	struct link *prev, *next;
};

/* What the samples of a tenant take of the room. */
struct share {
	struct tenant_share share;
	size_t bytes;
	struct link samples; /* in the order of arrival */
};

enum missing_what {
	MISSING_MAPPING, /* or the process */
	MISSING_TABLE,
	MISSING_RULES,
	MISSING_LOOK, /* at its code, whether it is still the same */
};

/* What a stack lacks, and the state of it when the stack was tried. */
struct missing {
	enum missing_what what;
	uint32_t file;		/* of the mapping where the walk ended: PROC_FILE_NONE without one */
	uint64_t maps, version; /* the mappings that were used */
	uint32_t table_change;	/* binary_table.change of the file */
	bool generated;		/* the file stands for generated code; 0: for none yet */
	uint64_t address;	/* where the walk ended */
	uint64_t rules_answers; /* completion.rules_answers */
	uint64_t looks;		/* code_times_looks() */
};

struct waiting {
	struct link link, in_share;
	uint64_t time_ns; /* of the sample */
	uint64_t deadline_ns;
	struct missing missing;
	struct share *share;
	struct sampled_task task; /* one reference each: the process may end before its tables are there */
	uint32_t *held;		  /* the binaries that its frames are of, one reference each; owned */
	size_t n_held;
	size_t record_len, len;
	uint64_t record[]; /* len bytes: the record, or compressed if len < record_len */
};

struct completion {
	struct completion_options options;
	struct finisher *finisher;
	struct link waiting; /* in the order of arrival */
	struct link *resume; /* where the next retry goes on; NULL: at the first sample */
	struct map shares;
	size_t n, bytes;
	uint64_t rules_answers, rules_seen; /* times that rules came; of these, before the last retry */
	uint64_t epoch;			    /* of the last retry */
	uint64_t next_deadline_ns;	    /* no sample that waits has an earlier deadline */
	uint64_t pause_until_ns; /* no retry before then: retries take a bounded part of our time */
	ZSTD_CCtx *pack;	 /* NULL until the first record is compressed */
	ZSTD_DCtx *unpack;
	struct buf packed, unpacked; /* a record at a time */
	struct completion_stats stats;
};

static void link_init(struct link *head)
{
	head->prev = head->next = head;
}

static void link_append(struct link *head, struct link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static void link_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
}

static void on_rules(void *data)
{
	struct completion *c = data;

	c->rules_answers++;
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
	link_init(&c->waiting);
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

/* --- code whose memory a virtual machine gives to other code */

static const struct binary_table *code_table(const struct completion *c, const struct proc_maps *maps)
{
	return maps && maps->code ? unwind_tables_get(c->options.tables, maps->code) : NULL;
}

/* What is known of such code of the process with these mappings; NULL: it has none. */
static const struct code_times *times_of(const struct completion *c, const struct proc_maps *maps)
{
	const struct binary_table *t = code_table(c, maps);

	return t ? t->times : NULL;
}

/* Whether it may be looked at again: the process has not ended. */
static bool may_look(const struct completion *c, const struct proc_maps *maps)
{
	const struct binary_table *t = code_table(c, maps);

	return t && t->times && binary_table_may_grow(t);
}

/* The process of a sample, its mappings at that time, and what is known of the code there. */
struct known_code {
	struct process *process;
	const struct proc_maps *maps;
	const struct code_times *times;
	bool looks; /* the sample can wait for others; else a step that is not known to be right counts as wrong */
};

static struct known_code known_code(const struct completion *c, struct process *p,
				    const struct sample_view *v)
{
	const struct proc_maps *maps = proc_history_at(p, v->time_ns);

	return (struct known_code){
		.process = p, .maps = maps, .times = times_of(c, maps), .looks = may_look(c, maps)};
}

/* Frames of a sample, and which steps from them are judged: those from the frames [first, end). */
struct judged_frames {
	const struct sample_view *v;
	const struct sample_view *sent; /* as it came, if it was walked again; else NULL */
	uint16_t first, end;
	bool published; /* as in code_times_at */
};

static void want(const struct completion *c, const struct known_code *k, uint64_t address,
		 enum generated_wish wish)
{
	if (c->options.generated)
		c->options.generated(k->process, address, wish, c->options.data);
}

/* What a sample that was walked again says of a frame that it had as it came, too; 0: nothing. */
static uint64_t sent_code(const struct sample_view *sent, uint64_t word)
{
	struct stack_frames frames = {sent->frames + sent->n_kernel, 0, 0, sent->n_user};
	struct stack_frame f;

	while (stack_frames_next(&frames, &f)) {
		const uint64_t code = stack_frame_code(&f, frames.words, frames.n);

		if (f.word == word && code)
			return code;
	}
	return 0;
}

/*
 * Whether the rule of the row is the one by which the BPF program has stepped: it has taken the frame of a
 * method to stand, or so much to be left of it.
 */
static enum code_state judge_size(struct completion *c, const struct known_code *k,
				  const struct sample_view *v, uint64_t address, uint64_t code)
{
	const bool saved = frame_code_words(code) > 1; /* else nothing of the frame is left */
	const uint8_t kind = UNWIND_CFA_SP_CHECKED | (saved ? UNWIND_FP_CFA << UNWIND_FP_SHIFT : 0);
	const uint32_t list = list_for(c, v, k->maps);
	struct unwind_rule rule;

	if (!list || !finisher_rule(c->finisher, list, address, &rule))
		return CODE_UNSEEN;
	return rule.kind == kind && (!saved || rule.fp == HOTSPOT_SAVED_FP) && rule.ra == HOTSPOT_SAVED_RA &&
			       (rule.cfa & ~UNWIND_CHECKED_MASK) == (int32_t)frame_code_words(code) * 8
		       ? CODE_SAME
		       : CODE_OTHER;
}

/*
 * Whether the frame had the size of its header: it called a method, or a stub for which nothing is pushed.
 * `callee`: the frame before.
 */
static bool is_sure(const struct known_code *k, const struct judged_frames *j,
		    const struct stack_frame *callee, uint64_t code)
{
	return code & FRAME_CODE_SURE ||
	       (callee->kind == STACK_FRAME_NATIVE && frame_file(callee->word) == k->maps->code &&
		!stack_frame_code(callee, j->v->frames + j->v->n_kernel, j->v->n_user) &&
		code_times_is_plain(k->times, frame_va(callee->word)));
}

/* The step from a frame of which the sample says which code it was. */
static enum code_state judge_known(struct completion *c, const struct known_code *k,
				   const struct judged_frames *j, const struct stack_frame *f,
				   const struct stack_frame *callee, uint64_t code)
{
	const uint64_t address = frame_va(f->word);
	enum code_state s = code_times_of(k->times, address, j->v->time_ns, code);

	if (s == CODE_UNSEEN && k->looks)
		want(c, k, address, GENERATED_OTHER);
	else if (s == CODE_UNSEEN)
		s = code & FRAME_CODE_BY_SIZE ? CODE_GONE : CODE_OTHER;
	if (s == CODE_GONE)
		return is_sure(k, j, callee, code) ? CODE_SAME : CODE_OTHER;
	if (s == CODE_SAME && code & FRAME_CODE_BY_SIZE && (!f->index || !is_sure(k, j, callee, code)))
		return judge_size(c, k, j->v, address, code);
	return s;
}

static enum code_state judge_frame(struct completion *c, const struct known_code *k,
				   const struct judged_frames *j, const struct stack_frame *f,
				   const struct stack_frame *callee)
{
	const uint64_t *words = j->v->frames + j->v->n_kernel, address = frame_va(f->word);
	uint64_t code = stack_frame_code(f, words, j->v->n_user);
	enum code_state s;

	if (code)
		return judge_known(c, k, j, f, callee, code);
	code = j->sent ? sent_code(j->sent, f->word) : 0;
	s = code ? code_times_is(k->times, address, frame_code_id(code))
		 : code_times_at(k->times, address, j->v->time_ns, j->published);
	if (s == CODE_UNSEEN && k->looks)
		want(c, k, address, GENERATED_LOOK);
	return s == CODE_UNSEEN && !k->looks ? CODE_OTHER : s;
}

/* *ret_n and *ret_address are those of the first frame that is not as it should be; not with CODE_UNSEEN. */
static enum code_state judge(struct completion *c, const struct known_code *k, const struct judged_frames *j,
			     uint16_t *ret_n, uint64_t *ret_address)
{
	struct stack_frames frames = {j->v->frames + j->v->n_kernel, 0, 0, j->v->n_user};
	enum code_state state = CODE_SAME;
	struct stack_frame f = {.kind = STACK_FRAME_OMITTED}, callee;

	for (callee = f; stack_frames_next(&frames, &f) && f.index < j->end; callee = f) {
		enum code_state s;

		if (f.index < j->first || f.kind != STACK_FRAME_NATIVE || frame_file(f.word) != k->maps->code)
			continue;
		s = judge_frame(c, k, j, &f, &callee);
		if (s == CODE_OTHER || s == CODE_OVER) {
			*ret_n = (uint16_t)f.index;
			*ret_address = frame_va(f.word);
			return s;
		}
		if (s == CODE_UNSURE && state == CODE_SAME) {
			*ret_n = (uint16_t)f.index;
			*ret_address = frame_va(f.word);
		}
		if (s == CODE_UNSEEN || (s == CODE_UNSURE && state == CODE_SAME))
			state = s;
	}
	return state;
}

/* From how many of its frames the walk has made a step, or tried to, with rows. */
static uint16_t steps_of(const struct sample_view *v)
{
	return v->ending == ENDING_NO_TABLE && v->n_user ? v->n_user - 1 : v->n_user;
}

/* Judges the steps of the BPF program. */
static enum code_state judge_sent(struct completion *c, const struct known_code *k,
				  const struct sample_view *v, uint16_t *ret_n, uint64_t *ret_address)
{
	const struct judged_frames j = {.v = v, .end = steps_of(v), .published = true};

	return judge(c, k, &j, ret_n, ret_address);
}

static void note_look(const struct code_times *times, const struct proc_maps *maps, struct missing *ret)
{
	*ret = (struct missing){.what = MISSING_LOOK,
				.file = maps->code,
				.maps = maps->id,
				.version = maps->version,
				.looks = code_times_looks(times)};
}

static bool is_opening(const struct proc_maps *maps, uint64_t address)
{
	const struct proc_mapping *m = maps && address ? proc_maps_find(maps, address) : NULL;

	return m && (m->file & (PROC_FILE_OPENING | PROC_FILE_STUCK)) == PROC_FILE_OPENING;
}

/*
 * Cuts a stack after its last valid frame. False: all of its frames are valid, or all before the one that the
 * saved stack is of: a valid step has led to it, so the walk goes on from there. *ret_opening: where the
 * stack is cut lies in a file that is being opened, and it may be valid after all; 0: not so.
 */
static bool cut(struct completion *c, const struct sample_view *v, const struct proc_maps *used,
		const struct proc_maps *right, struct sample_view *ret, uint64_t *ret_opening)
{
	struct outdated_frame next = {0};
	int n = 0;

	if (used && right)
		n = unwind_frames_valid(c->options.tables, used, right, v->frames + v->n_kernel, v->n_user,
					&next);
	if (n == v->n_user || (used && right && v->saved && n >= finisher_kept(v)))
		return false;
	finisher_cut(c->finisher, v, n < 0 ? 0 : (uint16_t)n, next.frame, ret);
	*ret_opening = is_opening(right, next.address) ? next.address : 0;
	c->stats.cut += !*ret_opening;
	return true;
}

/*
 * The binary whose table has the code of the mapping: where that is in no ELF file, *ret_generated is true.
 */
static uint32_t file_of(const struct completion *c, const struct proc_maps *maps,
			const struct proc_mapping *m, bool *ret_generated)
{
	const struct binary_table *t = m ? unwind_tables_get(c->options.tables, m->file) : NULL;

	*ret_generated = m && (t ? !t->binary->n_segments : m->file == PROC_FILE_NONE);
	if (*ret_generated)
		return maps->code;
	return m ? m->file : PROC_FILE_NONE;
}

/* What a walk lacks that ended at `address`. */
static void note_missing(const struct completion *c, const struct proc_maps *maps, uint64_t address,
			 enum unwind_ending ending, struct missing *ret)
{
	const struct proc_mapping *m = proc_maps_find(maps, address);
	const struct binary_table *table = NULL;
	bool generated;

	ret->what = ending == ENDING_NO_TABLE		? MISSING_TABLE
		    : ending == ENDING_UNSUPPORTED_RULE ? MISSING_RULES
							: MISSING_MAPPING;
	ret->file = file_of(c, maps, m, &generated);
	ret->generated = generated && ret->what == MISSING_TABLE;
	ret->address = address;
	if (ret->what == MISSING_TABLE &&
	    ret->file & PROC_FILE_OPENING) /* which table, the mapping will say */
		ret->what = MISSING_MAPPING;
	ret->maps = maps->id;
	ret->version = maps->version;
	if (ret->what == MISSING_TABLE)
		table = unwind_tables_get(c->options.tables, ret->file);
	ret->table_change = table ? table->change : 0;
}

/*
 * Walks from the saved registers with these mappings. True when the result is final; else *missing is what a
 * further walk needs.
 */
static bool walk(struct completion *c, const struct process *p, const struct sample_view *v,
		 const struct proc_maps *right, struct sample_view *ret, struct missing *missing)
{
	uint32_t list = list_for(c, v, right);
	struct sample_view from = *v;

	missing->rules_answers = c->rules_answers; /* those that come during the walk count as later ones */
	if (!list) {
		note_missing(c, right, v->saved->ip, ENDING_NO_MAPPING, missing);
		/* of an earlier time, all mappings are known; the files of some may still be opened */
		return right != p->maps && !(missing->file & PROC_FILE_OPENING);
	}
	if (v->from_start) {
		from.n_user = 0;
		from.ending = ENDING_NO_PROCESS;
	}
	if (finisher_walk(c->finisher, &from, list, ret))
		return true;
	note_missing(c, right, finisher_address(c->finisher), ret->ending, missing);
	return false;
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
 * Code is missing where a walk has ended. Of code that may not be there for long, what its callers may be is
 * wanted at once, not one after the other: the words of the stack that may be return addresses to such code.
 */
static void want_code(struct completion *c, struct process *p, const struct sample_view *v,
		      const struct code_times *times, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(p->maps, address);
	unsigned n = 0;

	if (!c->options.generated)
		return;
	c->options.generated(p, address, GENERATED_CODE, c->options.data);
	if (!times || !m || !v->saved || !code_times_changes(times))
		return;
	for (uint32_t at = 0; at + sizeof(uint64_t) <= v->saved->stack_bytes && n < CALLERS_MAX;
	     at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, v->stack + at, sizeof word);
		if (word - 1 < m->start || word - 1 >= m->end || code_times_has(times, word - 1) ||
		    code_times_is_empty(times, word - 1, v->time_ns))
			continue;
		c->options.generated(p, word - 1, GENERATED_CODE, c->options.data);
		n++;
	}
}

/*
 * Continues the walk as far as that is possible now, with the right mappings. `anew`: nothing of the stack as
 * it came can be used.
 */
static bool walk_on(struct completion *c, struct process *p, const struct sample_view *v, bool anew,
		    struct sample_view *ret, struct missing *missing)
{
	const struct proc_maps *right = proc_history_at(p, v->time_ns), *used = NULL;
	bool outdated = is_outdated(p, v, &used), final;
	uint64_t opening = 0;

	take_as_is(v, ret);
	if (outdated && !(right && v->saved && v->from_start)) {
		const bool is_cut = cut(c, v, used, right, ret, &opening);

		if (opening)
			note_missing(c, right, opening, ENDING_NO_MAPPING, missing);
		if (is_cut || !v->saved)
			return !opening;
		ret->n_user = finisher_kept(v); /* the frame to go on from is that of the outdated list */
	}
	if (!right || !v->saved) /* the mappings of that time are forgotten */
		return true;
	final = walk(c, p, v, right, ret, missing);
	if (!final && missing->generated)
		want_code(c, p, v, times_of(c, right), missing->address);
	if (v->from_start) {
		/* the stack that came along may be shorter than the one that the program walked */
		if (!outdated && !anew && ret->n_user <= v->n_user && !unwind_ending_complete(ret->ending))
			take_as_is(v, ret);
		c->stats.walked_again += outdated && final;
	}
	return final;
}

/* Cuts a stack before the code of which it is not known what it was. */
static void cut_at_code(struct completion *c, const struct sample_view *v, uint16_t n,
			struct sample_view *ret)
{
	finisher_cut(c->finisher, v, n, 0, ret);
	c->stats.code_cut++;
}

/*
 * Judges the steps of the walk that has given *ret: *ret_n and *ret_address as judge() gives them. The frames
 * that are in the sample as it came are not looked at again.
 */
static enum code_state judge_walked(struct completion *c, const struct known_code *k,
				    const struct sample_view *v, const struct sample_view *ret,
				    uint16_t *ret_n, uint64_t *ret_address)
{
	const struct judged_frames j = {
		.v = ret, .sent = v, .first = v->from_start ? 0 : finisher_kept(v), .end = steps_of(ret)};

	return ret->frames == v->frames ? CODE_SAME : judge(c, k, &j, ret_n, ret_address);
}

/*
 * Whether nothing will come of what the walk lacks: there is no code any more, or a step from code has led to
 * where nothing is mapped. Code is never called from what was mapped just now.
 */
static bool is_hopeless(const struct code_times *times, const struct proc_maps *maps,
			const struct sample_view *v, const struct sample_view *ret,
			const struct missing *missing)
{
	struct stack_frames frames = STACK_USER_FRAMES(ret);
	struct stack_frame f;
	bool code = false;

	if (missing->what == MISSING_TABLE)
		return missing->generated && code_times_is_empty(times, missing->address, v->time_ns);
	if (missing->what != MISSING_MAPPING || ret->ending != ENDING_NO_MAPPING ||
	    proc_maps_find(maps, missing->address))
		return false;
	while (stack_frames_next(&frames, &f))
		code = f.kind == STACK_FRAME_NATIVE && frame_file(f.word) == maps->code;
	return code;
}

/*
 * Whether a stack ends at code of which it is not known what it was: no step was made from there. *ret_n: the
 * words before that frame.
 */
static bool is_last_unknown(const struct known_code *k, const struct sample_view *v,
			    const struct sample_view *ret, uint16_t *ret_n)
{
	struct stack_frames frames = {ret->frames + ret->n_kernel, 0, 0, ret->n_user};
	struct stack_frame f, last = {0};

	if (unwind_ending_complete(ret->ending) || !ret->n_user)
		return false;
	while (stack_frames_next(&frames, &f))
		last = f;
	if (stack_frame_code(&last, frames.words, frames.n) ||
	    (last.kind != STACK_FRAME_ANONYMOUS &&
	     (last.kind != STACK_FRAME_NATIVE || frame_file(last.word) != k->maps->code)))
		return false;
	*ret_n = (uint16_t)last.index;
	return !code_times_has(k->times, frame_va(last.word)) ||
	       code_times_at(k->times, frame_va(last.word), v->time_ns, ret->frames == v->frames) !=
		       CODE_SAME;
}

static bool is_named(const struct completion *c, const struct sampled_task *task, const struct sample_view *v)
{
	return !c->options.named || c->options.named(task, v, c->options.data);
}

/*
 * Judges *ret, walked through code whose memory is given to other code; `anew` and `final` are as walk_on has
 * them. Cuts it where it was wrong. True when it is final; else *missing.
 */
static bool accept(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		   const struct known_code *k, bool final, struct sample_view *ret, struct missing *missing)
{
	const bool named = !k->looks || is_named(c, task, ret);
	uint64_t address = 0;
	uint16_t n = 0;
	enum code_state walked = judge_walked(c, k, v, ret, &n, &address);

	if (k->looks && walked == CODE_OVER && !code_times_is_empty(k->times, address, v->time_ns)) {
		want_code(c, task->process, v, k->times, address);
		walked = CODE_UNSEEN;
	}
	if (walked == CODE_UNSEEN || !named) {
		note_look(k->times, k->maps, missing);
		return false;
	}
	if (!final && walked != CODE_OTHER && !is_hopeless(k->times, k->maps, v, ret, missing))
		return false;
	if (walked == CODE_SAME && is_last_unknown(k, v, ret, &n))
		cut_at_code(c, ret, n, ret);
	/* that code found later was there already, its rows say: they, and no others, lead to the root */
	if (walked == CODE_OTHER || walked == CODE_OVER ||
	    (walked == CODE_UNSURE &&
	     (!unwind_ending_complete(ret->ending) || unwind_ending_complete(v->ending))))
		cut_at_code(c, ret, n, ret);
	return true;
}

/*
 * Continues the walk as far as that is possible now; *ret is borrowed until the next call. True when the
 * result is final; false when a table, mapping or rule may still come that takes it further, or it is not
 * known whether the code is still that which the walk has met: *missing.
 */
static bool complete(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		     struct sample_view *ret, struct missing *missing)
{
	struct process *p = task->process;
	const struct known_code k = known_code(c, p, v);
	enum code_state state;
	bool anew, final = true;
	uint64_t address;
	uint16_t n;

	take_as_is(v, ret);
	if (!k.times)
		return is_final(p, v) || walk_on(c, p, v, false, ret, missing);
	state = judge_sent(c, &k, v, &n, &address);
	anew = state == CODE_OTHER || state == CODE_OVER;
	if (anew && !(v->saved && v->from_start)) {
		cut_at_code(c, v, n, ret);
		return true;
	}
	if (anew || !is_final(p, v)) /* also if that is too early: it says which code is wanted */
		final = walk_on(c, p, v, anew, ret, missing);
	if (state == CODE_UNSEEN) {
		(void)is_named(c, task, ret);
		note_look(k.times, k.maps, missing);
		return false;
	}
	if (!accept(c, task, v, &k, final, ret, missing))
		return false;
	c->stats.code_walked_again += anew;
	return true;
}

/* Of a stack that is sent before complete() was done with it, what is not known to be right is left out. */
static void give_up(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		    struct sample_view *ret)
{
	struct known_code k = known_code(c, task->process, v);
	enum code_state state;
	uint64_t address;
	uint16_t n = 0;

	if (!k.times)
		return;
	k.looks = false;
	state = ret->frames == v->frames ? judge_sent(c, &k, v, &n, &address)
					 : judge_walked(c, &k, v, ret, &n, &address);
	if (state == CODE_SAME && !is_last_unknown(&k, v, ret, &n))
		return;
	cut_at_code(c, ret, n, ret);
}

/* The tables of these frames are in use, and where they are missing they are built next. */
static void touch(struct completion *c, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame frame;
	uint64_t now = c->options.now(); /* the sample may be minutes old */
	uint32_t last = 0;

	while (stack_frames_next(&frames, &frame)) {
		uint32_t file = frame_file(frame.word);

		if (frame.kind != STACK_FRAME_NATIVE)
			continue;
		if (file != last) /* the frames of a binary come in runs */
			unwind_tables_touch(c->options.tables, file, now);
		last = file;
	}
}

static void send(struct completion *c, const struct sampled_task *task, const struct sample_view *v)
{
	touch(c, v);
	c->options.final(task, v, c->options.data);
}

/* --- samples that wait */

/* The share of a tenant, made when it has none; NULL: no memory. */
static struct share *share_of(struct completion *c, uint64_t tenant)
{
	struct tenant_share *found = tenant_share_find(&c->shares, tenant);
	struct share *s;

	if (found)
		return container_of(found, struct share, share);
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	link_init(&s->samples);
	if (tenant_share_add(&c->shares, &s->share, tenant) == 0)
		return s;
	free(s);
	return NULL;
}

/* Accounts for bytes of the room that are taken or returned, and frees an empty share. */
static void charge(struct completion *c, struct share *s, size_t taken, size_t returned)
{
	c->bytes += taken - returned;
	s->bytes += taken - returned;
	if (s->bytes)
		return;
	tenant_share_remove(&c->shares, &s->share);
	free(s);
}

static struct share *fullest_share(const struct completion *c)
{
	struct share *fullest = NULL;
	struct map_node *n;

	map_for_each (&c->shares, n, i) {
		struct share *s =
			container_of(container_of(n, struct tenant_share, node), struct share, share);

		if (!fullest || s->bytes > fullest->bytes)
			fullest = s;
	}
	return fullest;
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
	if (c->resume == &w->link)
		c->resume = w->link.next;
	link_remove(&w->link);
	link_remove(&w->in_share);
	c->n--;
	charge(c, w->share, 0, waiting_bytes(w));
	for (size_t i = 0; i < w->n_held; i++)
		binary_registry_release(binaries_of(c), w->held[i]);
	free(w->held);
	process_unref(w->task.process);
	proc_image_unref(w->task.image);
	free(w);
}

static struct waiting *first_waiting(const struct completion *c)
{
	return c->waiting.next == &c->waiting ? NULL : container_of(c->waiting.next, struct waiting, link);
}

void completion_free(struct completion *c)
{
	struct waiting *w;

	if (!c)
		return;
	while ((w = first_waiting(c)))
		drop(c, w);
	map_fini(&c->shares);
	finisher_free(c->finisher);
	ZSTD_freeCCtx(c->pack);
	ZSTD_freeDCtx(c->unpack);
	buf_fini(&c->packed);
	buf_fini(&c->unpacked);
	free(c);
}

/* --- records that wait, compressed or not */

/* Whatever unpacking needs is allocated here, so that unpacking cannot fail. */
static bool pack_prepare(struct completion *c, size_t len)
{
	if (!c->pack)
		c->pack = ZSTD_createCCtx();
	if (!c->unpack)
		c->unpack = ZSTD_createDCtx();
	buf_clear(&c->packed);
	buf_clear(&c->unpacked);
	return c->pack && c->unpack && buf_reserve(&c->packed, len) == 0 &&
	       buf_reserve(&c->unpacked, len) == 0;
}

/* Compresses a record if there is little room. Returns the bytes to keep, *ret_len of them; borrowed. */
static const void *pack(struct completion *c, const void *record, size_t len, size_t *ret_len)
{
	size_t n;

	*ret_len = len;
	if (len < PACK_BYTES_MIN || c->bytes < c->options.max_bytes / PACK_PART || !pack_prepare(c, len))
		return record;
	n = ZSTD_compressCCtx(c->pack, c->packed.data, len - 1, record, len, PACK_LEVEL);
	if (ZSTD_isError(n)) /* it does not become smaller */
		return record;
	c->stats.packed++;
	*ret_len = n;
	return c->packed.data;
}

/* Its record, decoded; borrowed until the next call. */
static void view_of(struct completion *c, const struct waiting *w, struct sample_view *ret)
{
	const void *record = w->record;

	if (w->len < w->record_len) {
		(void)ZSTD_decompressDCtx(c->unpack, c->unpacked.data, w->record_len, w->record, w->len);
		record = c->unpacked.data;
	}
	(void)sample_decode(record, w->record_len, ret); /* it did decode when it came */
}

/* --- how long a sample waits */

/* Whether another walk may lead further than the last one did. */
static bool has_changed(const struct completion *c, const struct waiting *w)
{
	const struct proc_maps *maps = proc_history_at(w->task.process, w->time_ns);
	const struct missing *m = &w->missing;
	const struct binary_table *table;

	if (!maps || maps->id != m->maps || maps->version != m->version)
		return true;
	if (m->what == MISSING_RULES)
		return c->rules_answers != m->rules_answers;
	if (m->what == MISSING_LOOK)
		return !may_look(c, maps) || code_times_looks(times_of(c, maps)) != m->looks;
	if (m->what == MISSING_MAPPING)
		return false;
	table = unwind_tables_get(c->options.tables, m->file);
	if (m->generated)
		return table && (table->change != m->table_change || !binary_table_may_grow(table));
	return !table || !binary_table_pending(table) || table->change != m->table_change;
}

/* Whether what the sample lacks is on its way, so that it comes if only we wait. */
static bool is_pending(const struct completion *c, const struct waiting *w)
{
	const struct missing *m = &w->missing;
	const struct binary_table *table;

	if (m->what == MISSING_RULES)
		return true;
	if (m->what == MISSING_LOOK)
		return may_look(c, proc_history_at(w->task.process, w->time_ns));
	if (m->what == MISSING_MAPPING)
		return m->file & PROC_FILE_OPENING ||
		       (c->options.reading && c->options.reading(w->task.process, c->options.data));
	table = unwind_tables_get(c->options.tables, m->file);
	if (m->generated && (unwind_tables_requested(c->options.tables, m->file) ||
			     (c->options.reading && c->options.reading(w->task.process, c->options.data))))
		return true;
	return table && (table->state == TABLE_WAITING || table->state == TABLE_BUILDING);
}

static uint64_t timeout_ns(const struct missing *m)
{
	return m->what == MISSING_MAPPING ? COMPLETION_PROCESS_NS : COMPLETION_TABLE_NS;
}

/* Whether a sample that cannot be completed now goes on waiting; its deadline may be put off. */
static bool may_wait(const struct completion *c, struct waiting *w, uint64_t now)
{
	uint64_t timeout = timeout_ns(&w->missing);

	if (w->deadline_ns < w->time_ns + timeout) /* it lacked a mapping before, and now lacks a table */
		w->deadline_ns = w->time_ns + timeout;
	if (now < w->deadline_ns)
		return true;
	if (now >= w->time_ns + COMPLETION_PENDING_NS || !is_pending(c, w))
		return false;
	w->deadline_ns = now + timeout;
	return true;
}

/*
 * Tries to complete the sample. True when it is sent and dropped: it is final, out of time, or given up,
 * which is then counted in *given_up (NULL: it is not given up).
 */
static bool settle(struct completion *c, struct waiting *w, uint64_t now, uint64_t *given_up)
{
	struct sample_view v, done;
	bool was_final, final;

	urgency_check(URGENCY_EVENTS);
	view_of(c, w, &v);
	was_final = is_final(w->task.process, &v);
	final = complete(c, &w->task, &v, &done, &w->missing);
	c->stats.tried++;
	if (!final && !given_up && may_wait(c, w, now))
		return false;
	c->stats.completed += !was_final && unwind_ending_complete(done.ending);
	if (!final) {
		give_up(c, &w->task, &v, &done);
		++*(given_up ?: &c->stats.late);
	}
	send(c, &w->task, &done);
	drop(c, w);
	return true;
}

/*
 * Takes bytes for a sample of the tenant, from the shares that have the most. False: the sample itself is
 * the largest share, and the room is full.
 */
static bool take_room(struct completion *c, struct share *share, size_t bytes)
{
	charge(c, share, bytes, 0); /* keeps the share while its samples are sent */
	while (c->bytes > c->options.max_bytes) {
		struct share *fullest = fullest_share(c);

		if (fullest->samples.next == &fullest->samples) {
			charge(c, share, 0, bytes);
			return false;
		}
		(void)settle(c, container_of(fullest->samples.next, struct waiting, in_share),
			     c->options.now(), &c->stats.no_room);
	}
	return true;
}

/* False: there is no room for it, or no memory. What complete() gave before is not valid any more. */
static bool keep(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		 const struct missing *missing, const void *record, size_t record_len)
{
	struct share *share = share_of(c, task->image->context.tenant);
	size_t len, bytes;
	const void *kept = pack(c, record, record_len, &len);
	struct waiting *w;

	bytes = sizeof *w + len + v->n_user * sizeof *w->held; /* at most */
	if (!share || !take_room(c, share, bytes))
		return false;
	w = malloc(sizeof *w + len);
	if (!w) {
		charge(c, share, 0, bytes);
		return false;
	}
	*w = (struct waiting){.time_ns = v->time_ns,
			      .deadline_ns = c->options.now() + timeout_ns(missing),
			      .missing = *missing,
			      .share = share,
			      .task = *task,
			      .record_len = record_len,
			      .len = len};
	process_ref(task->process);
	proc_image_ref(task->image);
	memcpy(w->record, kept, len);
	if (c->options.tables)
		hold_binaries(c, w, v);
	if (!c->n || w->deadline_ns < c->next_deadline_ns)
		c->next_deadline_ns = w->deadline_ns;
	charge(c, share, 0, bytes - waiting_bytes(w));
	link_append(&c->waiting, &w->link);
	link_append(&share->samples, &w->in_share);
	c->n++;
	return true;
}

void completion_take(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		     const void *record, size_t len)
{
	const bool final = is_final(task->process, v);
	struct missing missing = {0};
	struct sample_view done;

	if (complete(c, task, v, &done, &missing)) {
		c->stats.completed += !final && unwind_ending_complete(done.ending);
		send(c, task, &done);
		return;
	}
	touch(c, &done);
	if (keep(c, task, v, &missing, record, len))
		return;
	c->stats.no_room++;
	if (!complete(c, task, v, &done, &missing))
		give_up(c, task, v, &done);
	send(c, task, &done);
}

/* Tries the samples from c->resume on for which it can make a difference. */
static void retry_some(struct completion *c, uint64_t now)
{
	struct link *next, *l = c->resume ?: c->waiting.next;
	unsigned n = 0;

	c->resume = NULL;
	for (; l != &c->waiting; l = next) {
		struct waiting *w = container_of(l, struct waiting, link);
		bool due = now >= w->deadline_ns || has_changed(c, w);

		next = l->next;
		if (due && n++ == RETRIES_MAX) {
			c->resume = l;
			return;
		}
		if (!(due && settle(c, w, now, NULL)) && w->deadline_ns < c->next_deadline_ns)
			c->next_deadline_ns = w->deadline_ns;
	}
}

void completion_retry(struct completion *c, uint64_t epoch)
{
	uint64_t now, took;

	if (!c->n)
		return;
	now = c->options.now();
	if (now < c->pause_until_ns)
		return;
	if (!c->resume) {
		if (epoch == c->epoch && c->rules_answers == c->rules_seen && now < c->next_deadline_ns)
			return;
		c->epoch = epoch;
		c->rules_seen = c->rules_answers;
		c->next_deadline_ns = UINT64_MAX;
	}
	retry_some(c, now);
	took = c->options.now() - now;
	c->pause_until_ns =
		now + took +
		(took < RETRY_PAUSE_MAX_NS / RETRY_PAUSE ? RETRY_PAUSE * took : RETRY_PAUSE_MAX_NS);
}

bool completion_waiting(const struct completion *c)
{
	return c->waiting.next != &c->waiting;
}

bool completion_expects(const struct completion *c)
{
	for (const struct link *l = c->waiting.next; l != &c->waiting; l = l->next)
		if (is_pending(c, container_of(l, struct waiting, link)))
			return true;
	return false;
}

void completion_finish(struct completion *c)
{
	struct waiting *w;

	while ((w = first_waiting(c)))
		(void)settle(c, w, c->options.now(), &c->stats.late);
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
