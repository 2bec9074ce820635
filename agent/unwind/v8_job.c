// SPDX-License-Identifier: Apache-2.0
/*
 * The wishes are sorted by script and place, so that each script's text is read once, up to the last place.
 */
#include "agent/unwind/v8_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/elf/runtime/v8.h"
#include "agent/parser/parser.h"

#define PATIENCE_MS 1000u /* memory of a process may be such that a read of it is never answered */

/* The wishes follow. */
struct head {
	struct v8_layout layout;
	uint64_t n;
};

/* What is answered of a wish. */
struct answer {
	uint64_t line;
	struct v8_member member;
};

/* --- in a parser process */

static int memory_read(void *to, uint64_t address, size_t n, void *data)
{
	const int *fd = data;

	return pread(*fd, to, n, (off_t)address) == (ssize_t)n ? 0 : -EFAULT;
}

static int compare(const void *a, const void *b)
{
	const struct v8_line_wish *const *x = a, *const *y = b;

	if ((*x)->script.address != (*y)->script.address)
		return (*x)->script.address < (*y)->script.address ? -1 : 1;
	if ((*x)->script.id != (*y)->script.id)
		return (*x)->script.id < (*y)->script.id ? -1 : 1;
	return (*x)->place<(*y)->place ? -1 : (*x)->place>(*y)->place;
}

static bool is_same_script(const struct v8_script *a, const struct v8_script *b)
{
	return a->address == b->address && a->id == b->id;
}

struct look {
	struct v8_memory memory;
	struct head head;
	struct v8_line_wish wishes[V8_WISHES_MAX];
	struct v8_line_wish *sorted[V8_WISHES_MAX];
	uint32_t places[V8_WISHES_MAX], lines[V8_WISHES_MAX];
	struct v8_member members[V8_WISHES_MAX];
};

/* The places of one script: from sorted[i] on. Returns where the next script's begin. */
static size_t look_at(struct look *k, size_t i)
{
	const struct v8_script *script = &k->sorted[i]->script;
	size_t n = 0;

	while (i + n < k->head.n && is_same_script(&k->sorted[i + n]->script, script)) {
		k->places[n] = k->sorted[i + n]->place;
		n++;
	}
	/* what cannot be known has no line */
	(void)v8_lines_read(&k->memory, &k->head.layout, script, k->places, k->lines, k->members, n);
	for (size_t at = 0; at < n; at++) {
		k->sorted[i + at]->line = k->lines[at];
		k->sorted[i + at]->member = k->members[at];
	}
	return i + n;
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_free_ struct look *k = calloc(1, sizeof *k);
	int fd = job->n_fds ? job->fds[0] : -1, r = 0;

	if (!k)
		return -ENOMEM;
	flat_get(&request, &k->head, sizeof k->head);
	if (request.bad || fd < 0 || k->head.n > V8_WISHES_MAX)
		return -EINVAL;
	flat_get(&request, k->wishes, k->head.n * sizeof k->wishes[0]);
	if (!flat_done(&request))
		return -EINVAL;
	k->memory = (struct v8_memory){.read = memory_read, .data = &fd, .left = V8_LINES_BYTES_MAX};
	for (size_t i = 0; i < k->head.n; i++)
		k->sorted[i] = &k->wishes[i];
	qsort(k->sorted, k->head.n, sizeof k->sorted[0], compare);
	for (size_t i = 0; i < k->head.n;)
		i = look_at(k, i);
	for (size_t i = 0; i < k->head.n && r == 0; i++) {
		const struct answer a = {k->wishes[i].line, k->wishes[i].member};

		r = buf_append(job->answer, &a, sizeof a);
	}
	return r;
}

const struct parser_operation v8_operation = {
	.name = "V8's lines", .answer_max = V8_WISHES_MAX * sizeof(struct answer), .run = run};

/* --- in the agent */

int v8_job_run(struct parser_session *session, int mem, const struct v8_layout *layout,
	       struct v8_line_wish *wishes, size_t n)
{
	struct parser_call call = {
		.operation = &v8_operation, .fds = {mem}, .n_fds = 1, .patience_ms = PATIENCE_MS};
	_cleanup_buf_ struct buf answer = {0};
	struct flat_reader from;
	struct head head;
	int r;

	if (n > V8_WISHES_MAX)
		return -EINVAL;
	memset(&head, 0, sizeof head);
	head.layout = *layout;
	head.n = n;
	r = buf_append(&call.request, &head, sizeof head);
	if (r == 0)
		r = buf_append(&call.request, wishes, n * sizeof *wishes);
	if (r == 0)
		r = parser_session_call(session, &call, &answer);
	buf_fini(&call.request);
	if (r < 0)
		return r;
	if (answer.len != n * sizeof(struct answer))
		return -EBADMSG;
	from = flat_read(answer.data, answer.len);
	for (size_t i = 0; i < n; i++) {
		struct answer a;

		flat_get(&from, &a, sizeof a);
		wishes[i].line = a.line <= INT32_MAX ? (uint32_t)a.line : 0;
		if (v8_member_valid(&a.member))
			wishes[i].member = a.member;
	}
	return 0;
}
