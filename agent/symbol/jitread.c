// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/symbol/jitdump.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/perfmap.h"

#define WINDOW_BYTES (64u << 10)

_Static_assert(WINDOW_BYTES >= PERFMAP_LINE_MAX && WINDOW_BYTES >= JITDUMP_BYTES_NEEDED, "window");
_Static_assert(sizeof(struct jit_position) == 24 + JIT_TAIL_BYTES, "no padding");

struct wish {
	struct jit_position at;
	uint64_t max_bytes, dump;
};

/* The changes follow (jit_builder_write), if `changes` is 1. */
struct reply {
	struct jit_position at;
	uint64_t bytes, n_bad, n_cut;
	uint8_t rewritten, refused, more, restarted, changes, reserved[3];
};

/* --- in the parser process */

struct reading {
	int fd;		 /* owned */
	uint8_t *window; /* owned */
	bool is_dump;
	struct jit_builder b;
	struct jit_position *at;
	struct perfmap map;
	struct jitdump dump;
};

static void reading_fini(struct reading *x)
{
	jit_builder_fini(&x->b);
	free(x->window);
	if (x->fd >= 0)
		close(x->fd);
}

/* End of the bytes whose last part `tail` holds. */
static uint64_t tail_end(const struct jit_position *at)
{
	return at->offset < at->seen ? at->offset : at->seen;
}

/* False when the file was rewritten since the last read. */
static bool tail_same(const struct reading *x)
{
	size_t n = x->at->tail_bytes;
	uint8_t now[JIT_TAIL_BYTES];

	return pread(x->fd, now, n, (off_t)(tail_end(x->at) - n)) == (ssize_t)n &&
	       memcmp(now, x->at->tail, n) == 0;
}

static void tail_keep(const struct reading *x)
{
	uint64_t end = tail_end(x->at);
	size_t want = end < JIT_TAIL_BYTES ? end : JIT_TAIL_BYTES;
	ssize_t n;

	memset(x->at->tail, 0, sizeof x->at->tail);
	n = pread(x->fd, x->at->tail, want, (off_t)(end - want));
	x->at->tail_bytes = n == (ssize_t)want ? (uint32_t)want : 0;
}

static int parse(struct reading *x, size_t len, uint64_t *ret_used)
{
	size_t used;
	int r;

	if (x->is_dump)
		return jitdump_parse(&x->dump, &x->b, x->window, len, ret_used);
	r = perfmap_parse(&x->map, &x->b, (const char *)x->window, len, &used);
	*ret_used = used;
	return r;
}

/* 0 at the end of the file or of what may be read; -ENOSPC: the builder is full; -EBADMSG: it is no list. */
static int read_on(struct reading *x, uint64_t max_bytes, uint64_t *bytes)
{
	uint64_t used;

	while (*bytes < max_bytes && x->at->offset < JIT_FILE_MAX && !x->dump.ended) {
		ssize_t n = pread(x->fd, x->window, WINDOW_BYTES, (off_t)x->at->offset);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = parse(x, (size_t)n, &used);
		x->at->offset += used;
		*bytes += (uint64_t)n;
		if (r < 0 || !used)
			return r;
	}
	return 0;
}

static void load_state(struct reading *x)
{
	const struct jit_position *at = x->at;

	x->map = (struct perfmap){.skipping = at->skipping};
	x->dump = (struct jitdump){.begun = at->begun, .swapped = at->swapped, .ended = at->ended};
}

static void save_state(struct reading *x)
{
	x->at->skipping = x->map.skipping;
	x->at->begun = x->dump.begun;
	x->at->swapped = x->dump.swapped;
	x->at->ended = x->dump.ended;
}

/* Reads from the position on, or from the beginning if what was before it has changed. */
static int advance(struct reading *x, uint64_t max_bytes, struct reply *reply)
{
	struct stat st;
	int r;

	if (fstat(x->fd, &st) < 0)
		return -errno;
	reply->rewritten = (uint64_t)st.st_size < x->at->seen || !tail_same(x);
	if (reply->rewritten)
		*x->at = (struct jit_position){0};
	reply->restarted = x->at->offset == 0;
	x->at->seen = (uint64_t)st.st_size;
	load_state(x);
	r = read_on(x, max_bytes, &reply->bytes);
	reply->more = r == -ENOSPC || (r == 0 && reply->bytes >= max_bytes);
	reply->refused = r == -EBADMSG;
	reply->n_bad = x->map.n_bad + x->dump.n_bad;
	reply->n_cut = x->at->offset >= JIT_FILE_MAX;
	save_state(x);
	tail_keep(x);
	return r == -ENOSPC || r == -EBADMSG ? 0 : r;
}

static int answer(struct reading *x, struct reply *reply, struct buf *to)
{
	_cleanup_buf_ struct buf changes = {0};
	int r = 0;

	reply->changes = x->b.n || reply->restarted;
	if (reply->changes)
		r = jit_builder_write(&x->b, &changes, &reply->n_cut);
	reply->at = *x->at;
	if (r == 0)
		r = buf_append(to, reply, sizeof *reply);
	return r < 0 ? r : buf_append(to, changes.data, changes.len);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_(reading_fini) struct reading x = {.fd = -1};
	struct reply reply = {.bytes = 0};
	struct wish wish;
	int r;

	jit_builder_init(&x.b);
	flat_get(&request, &wish, sizeof wish);
	if (!flat_done(&request) || job->n_fds != 1 || wish.at.tail_bytes > JIT_TAIL_BYTES)
		return -EINVAL;
	x.is_dump = wish.dump;
	x.at = &wish.at;
	x.window = malloc(WINDOW_BYTES);
	if (!x.window)
		return -ENOMEM;
	x.fd = parser_fd_receive(job->fds[0]);
	if (x.fd < 0)
		return x.fd;
	r = advance(&x, wish.max_bytes, &reply);
	return r < 0 ? r : answer(&x, &reply, job->answer);
}

const struct parser_operation jit_read_operation = {
	.name = "names of generated code", .answer_max = sizeof(struct reply) + JIT_CHANGES_MAX, .run = run};

/* --- in the agent */

static bool position_valid(const struct jit_position *at)
{
	return at->tail_bytes <= JIT_TAIL_BYTES && at->offset <= INT64_MAX && at->seen <= INT64_MAX &&
	       at->tail_bytes <= at->offset && at->tail_bytes <= at->seen && at->skipping <= 1 &&
	       at->begun <= 1 && at->swapped <= 1 && at->ended <= 1;
}

static bool reply_valid(const struct reply *r, uint64_t max_bytes)
{
	return position_valid(&r->at) && r->bytes <= max_bytes + WINDOW_BYTES && r->n_bad <= r->bytes &&
	       r->n_cut <= JIT_PENDING_MAX + 1 && r->rewritten <= 1 && r->refused <= 1 && r->more <= 1 &&
	       r->restarted <= 1 && r->changes <= 1;
}

int jit_read_answer(const void *bytes, size_t len, uint64_t max_bytes, struct jit_position *at,
		    const struct jit_table *table, struct jit_table **ret_table, struct jit_progress *ret)
{
	struct flat_reader answer = flat_read(bytes, len);
	struct jit_table *next = NULL;
	struct reply reply;
	uint64_t n_cut = 0;
	int r = 0;

	flat_get(&answer, &reply, sizeof reply);
	if (answer.bad || !reply_valid(&reply, max_bytes))
		return -EBADMSG;
	if (reply.changes)
		r = jit_table_read(&next, reply.restarted ? NULL : table, answer.at,
				   (size_t)(answer.end - answer.at), &n_cut);
	else if (!flat_done(&answer))
		r = -EBADMSG;
	if (r < 0)
		return r;
	*at = reply.at;
	*ret_table = next;
	*ret = (struct jit_progress){.bytes = reply.bytes,
				     .n_bad = reply.n_bad,
				     .n_cut = reply.n_cut + n_cut,
				     .rewritten = reply.rewritten,
				     .refused = reply.refused,
				     .more = reply.more};
	return 0;
}

int jit_read(struct parser_session *session, int from, bool dump, uint64_t max_bytes, struct jit_position *at,
	     const struct jit_table *table, struct jit_table **ret_table, struct jit_progress *ret)
{
	struct parser_call call = {
		.operation = &jit_read_operation, .fds = {from}, .n_fds = 1, .patience_ms = JIT_PATIENCE_MS};
	const struct wish wish = {
		.at = *at, .max_bytes = max_bytes < JIT_READ_MAX ? max_bytes : JIT_READ_MAX, .dump = dump};
	_cleanup_buf_ struct buf answer = {0};
	int r = buf_append(&call.request, &wish, sizeof wish);

	if (r == 0)
		r = parser_session_call(session, &call, &answer);
	buf_fini(&call.request);
	return r < 0 ? r
		     : jit_read_answer(answer.data, answer.len, wish.max_bytes, at, table, ret_table, ret);
}
