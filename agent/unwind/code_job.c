// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/code_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/parser/parser.h"

/* The code follows. */
struct wish {
	uint64_t va;
	uint32_t n, wanted;
	bool function, frame_pointer;
};

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	struct memory_code code;
	struct wish wish;
	int r;

	flat_get(&request, &wish, sizeof wish);
	if (!flat_is_bool(&wish.function) || !flat_is_bool(&wish.frame_pointer))
		return -EINVAL;
	code = (struct memory_code){.va = wish.va,
				    .code = flat_bytes(&request, wish.n),
				    .n = wish.n,
				    .function = wish.function,
				    .frame_pointer = wish.frame_pointer,
				    .wanted = wish.wanted};
	r = flat_done(&request) ? memory_rows_make(&rows, &code) : -EINVAL;
	return r < 0 ? r : buf_append(job->answer, rows.v, rows.n * sizeof *rows.v);
}

const struct parser_operation code_operation = {
	.name = "generated code", .answer_max = MEMORY_CODE_MAX * sizeof(struct memory_row), .run = run};

static bool row_valid(const struct memory_row *row, const struct memory_row *before, uint32_t n)
{
	return row->off < n && (before ? row->off > before->off : row->off == 0) &&
	       row->rule.cfa_kind <= CFA_ENTERED && row->rule.fp.kind <= REG_UNSUPPORTED &&
	       row->rule.ra.kind <= REG_UNSUPPORTED;
}

int code_answer_read(struct memory_rows *ret, uint32_t n, const void *bytes, size_t len)
{
	const size_t n_rows = len / sizeof(struct memory_row);
	_cleanup_free_ struct memory_row *rows = malloc(len + 1);

	if (!rows)
		return -ENOMEM;
	if (!n_rows || len % sizeof *rows)
		return -EBADMSG;
	memcpy(rows, bytes, len);
	for (size_t i = 0; i < n_rows; i++)
		if (!row_valid(&rows[i], i ? &rows[i - 1] : NULL, n))
			return -EBADMSG;
	*ret = (struct memory_rows){.v = TAKE_PTR(rows), .n = n_rows, .cap = n_rows};
	return 0;
}

int code_job_run(struct parser_session *session, struct memory_rows *ret, const struct memory_code *code)
{
	struct parser_call call = {.operation = &code_operation};
	_cleanup_buf_ struct buf answer = {0};
	struct wish wish;
	int r;

	memset(&wish, 0, sizeof wish); /* with its padding */
	wish.va = code->va;
	wish.n = code->n;
	wish.wanted = code->wanted;
	wish.function = code->function;
	wish.frame_pointer = code->frame_pointer;
	r = buf_append(&call.request, &wish, sizeof wish);
	if (r == 0)
		r = buf_append(&call.request, code->code, code->n);
	if (r == 0)
		r = parser_session_call(session, &call, &answer);
	buf_fini(&call.request);
	return r < 0 ? r : code_answer_read(ret, code->n, answer.data, answer.len);
}
