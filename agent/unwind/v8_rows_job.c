// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/v8_rows_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/base/map.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/elf/runtime/v8_inlined.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"

#define ANSWER_MAX (32u << 20)
#define RECORDS_MAX (ANSWER_MAX - MEMORY_CODE_MAX) /* bytes of answers; then those wait that are left */

/* The wishes follow. */
struct head {
	struct v8_layout layout;
	uint64_t n;
};

struct look {
	struct vm_memory memory;
	struct head head;
	struct v8_compiled code;
	uint8_t bytes[MEMORY_CODE_MAX];
	struct vm_records records;
};

/* A number that is another one when the code is: its pointers lead to what is its own. */
static uint32_t id_of(const struct look *k)
{
	return (uint32_t)hash_bytes(&k->code, sizeof k->code);
}

static int put_code(struct look *k, struct vm_found *f)
{
	const struct memory_code code = {.va = k->code.start,
					 .code = k->bytes,
					 .n = (uint32_t)(k->code.end - k->code.start),
					 .wanted = (uint32_t)(f->address - k->code.start),
					 .function = true,
					 .single = true};
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	int r = vm_read(&k->memory, k->bytes, code.va, code.n);

	if (r == 0)
		r = memory_rows_make(&rows, &code);
	if (r == 0 && k->records.to->len + rows.n * sizeof rows.v[0] > RECORDS_MAX)
		r = -E2BIG;
	if (r < 0)
		return r;
	f->answer = VM_CODE;
	f->start = k->code.start;
	f->end = k->code.end;
	f->compile_id = id_of(k);
	return vm_records_put(&k->records, f, &rows);
}

/* As vm_records_make wants it. */
static int look(const struct vm_wanted *w, struct vm_found *f, void *data)
{
	struct look *k = data;
	int r = v8_compiled_find(&k->memory, &k->head.layout, w->address, &k->code);

	if (r < 0)
		return r;
	if (w->wish == VM_WANT_CODE)
		return put_code(k, f);
	if (k->code.start == w->address && k->code.end == w->end && id_of(k) == w->compile_id)
		f->answer = VM_SAME;
	return vm_records_put(&k->records, f, NULL);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_free_ struct look *k = calloc(1, sizeof *k);
	int fd = job->n_fds ? job->fds[0] : -1, r;

	if (!k)
		return -ENOMEM;
	flat_get(&request, &k->head, sizeof k->head);
	if (request.bad || fd < 0 || k->head.n > VM_WANTED_MAX)
		return -EINVAL;
	k->memory.read = vm_memory_pread;
	k->memory.data = &fd;
	k->records.to = job->answer;
	r = vm_records_make(&k->records, &request, k->head.n, look, k);
	vm_records_fini(&k->records);
	return r == -E2BIG ? 0 : r; /* the others will be requested again */
}

const struct parser_operation v8_rows_operation = {
	.name = "rows of V8's code", .answer_max = ANSWER_MAX, .run = run};

int v8_rows_job_run(struct parser_session *session, int mem, const struct v8_layout *layout,
		    const struct vm_wanted *wanted, size_t n, struct buf *answer)
{
	struct head head;

	memset(&head, 0, sizeof head); /* with its padding */
	head.layout = *layout;
	head.n = n;
	return vm_job_call(session,
			   &(struct vm_job){.operation = &v8_rows_operation,
					    .mem = mem,
					    .head = &head,
					    .head_bytes = sizeof head,
					    .wanted = wanted,
					    .n = n},
			   answer);
}
