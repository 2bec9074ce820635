// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/v8_code_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/base/map.h"
#include "agent/elf/runtime/v8_inlined.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"
#include "bpf/unwind.h"
#include "bpf/v8_reports.h"

#define PATIENCE_MS 1000u /* memory of a process may be such that a read of it is never answered */
#define ANSWER_MAX (32u << 20)
#define REPORTS_MAX (16u << 20) /* bytes of them; the records have the remainder */
#define RECORDS_MAX (ANSWER_MAX - REPORTS_MAX - 64u)
#define REPORTED_MAX 4096u /* functions that a job has reported; power of two */

/* The wishes follow. */
struct head {
	struct v8_process process;
	uint64_t n;
};

/* --- in a parser process */

struct look {
	struct vm_memory memory;
	struct head head;
	struct env env;
	struct unwind_area area;
	struct deep_area deep;
	struct v8_compiled code;
	struct v8_inlined inlined;
	uint64_t numbers[HOTSPOT_METHODS_MAX];
	uint64_t reported[REPORTED_MAX]; /* numbers, by their low bits */
	struct buf reports, records;
	struct vm_records names;
};

/* struct env */
static int read_user(void *data, void *to, __u32 bytes, __u64 address)
{
	struct look *k = data;

	return vm_read(&k->memory, to, address, bytes);
}

/* Reports a function, unless the job has done so. 0; -ENOENT: it cannot be read; -ENOMEM; -E2BIG. */
static int report(struct look *k, uint64_t number, uint64_t shared)
{
	uint64_t *reported = &k->reported[number >> 8 & (REPORTED_MAX - 1)];
	uint64_t bytes;
	int r;

	if (*reported == number)
		return 0;
	bytes = (uint64_t)report_v8(number, shared);
	if (!bytes)
		return -ENOENT;
	if (k->reports.len + sizeof bytes + bytes > REPORTS_MAX)
		return -E2BIG;
	r = buf_append(&k->reports, &bytes, sizeof bytes);
	if (r == 0)
		r = buf_append(&k->reports, &k->deep, bytes);
	if (r == 0)
		*reported = number;
	return r;
}

/* The numbers of all functions, and their reports. 0; -ENOENT: of one, it is not known; -ENOMEM; -E2BIG. */
static int number_functions(struct look *k)
{
	const struct v8_inlined *x = &k->inlined;
	int r = 0;

	for (uint32_t i = 0; i < x->n_functions && r == 0; i++) {
		k->numbers[i] = x->functions[i] ? v8_shared_number(&k->area, x->functions[i]) : 0;
		if (!i)
			continue;
		r = k->numbers[i] ? report(k, k->numbers[i], x->functions[i]) : -ENOENT;
	}
	return r;
}

/* The names of the record that is being made. */
static int put_names(struct look *k)
{
	const struct v8_inlined *x = &k->inlined;
	struct buf *to = &k->names.names;
	int r = flat_put_u64(to, x->n_functions);

	if (r == 0)
		r = flat_put_u64(to, x->n_scopes);
	if (r == 0)
		r = flat_put_u64(to, x->n_places);
	for (uint32_t i = 0; i < x->n_functions && r == 0; i++) {
		r = flat_put_u64(to, k->numbers[i]);
		if (r == 0)
			r = flat_put_string(to, "");
		if (r == 0)
			r = flat_put_string(to, "");
	}
	if (r == 0)
		r = buf_append(to, x->scopes, x->n_scopes * sizeof x->scopes[0]);
	return r == 0 ? buf_append(to, x->places, x->n_places * sizeof x->places[0]) : r;
}

/* Puts a whole record. 0; -ENOMEM; -E2BIG: there is no room for it. */
static int put_record(struct look *k, struct vm_found *f)
{
	if (k->records.len + sizeof *f + k->names.names.len > RECORDS_MAX)
		return -E2BIG;
	return vm_records_put(&k->names, f, NULL);
}

/*
 * A number that is another one when the code is, or when the number of its function is: objects move, and
 * have another number then.
 */
static uint32_t id_of(struct look *k)
{
	uint64_t shared = 0;
	int r = v8_compiled_function(&k->memory, &k->head.process.layout, &k->code, &shared);

	return (uint32_t)(hash_bytes(&k->code, sizeof k->code) ^
			  (r == 0 ? hash_u64(v8_shared_number(&k->area, shared)) : 0));
}

static int look_at_code(struct look *k, struct vm_found *f)
{
	struct v8_inlined *x = &k->inlined;
	int r = v8_inlined_read(&k->memory, &k->head.process.layout, &k->code, x);

	if (r == 0)
		r = number_functions(k);
	if (r == -ENOENT || x->n_functions == 1) { /* the code itself is what there is */
		x->n_functions = 1;
		x->n_scopes = x->n_places = 0;
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		r = put_names(k);
	if (r < 0)
		return r;
	f->answer = VM_CODE;
	f->start = k->code.start;
	f->end = k->code.end;
	f->compile_id = id_of(k);
	return put_record(k, f);
}

/* No code of V8's is there: that is known of this address for a while. */
static int put_nothing(struct look *k, const struct vm_wanted *w, struct vm_found *f)
{
	int r;

	k->inlined.n_functions = 1;
	k->inlined.n_scopes = k->inlined.n_places = 0;
	k->numbers[0] = 0;
	r = put_names(k);
	if (r < 0)
		return r;
	f->answer = VM_CODE;
	f->start = w->address;
	f->end = w->address + 1;
	return put_record(k, f);
}

/* As vm_records_make wants it. */
static int look(const struct vm_wanted *w, struct vm_found *f, void *data)
{
	struct look *k = data;
	int r = v8_compiled_find(&k->memory, &k->head.process.layout, w->address, &k->code);

	if (w->wish == VM_WANT_CODE)
		return r == 0 ? look_at_code(k, f) : r == -E2BIG ? r : put_nothing(k, w, f);
	if (r == 0 && k->code.start == w->address && k->code.end == w->end && id_of(k) == w->compile_id)
		f->answer = VM_SAME;
	return put_record(k, f);
}

/* The reports with their bytes in front, then the records. */
static int put_answer(const struct look *k, struct buf *answer)
{
	int r = flat_put_u64(answer, k->reports.len);

	if (r == 0)
		r = buf_append(answer, k->reports.data, k->reports.len);
	return r == 0 ? buf_append(answer, k->records.data, k->records.len) : r;
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_free_ struct look *k = calloc(1, sizeof *k);
	int fd = job->n_fds ? job->fds[0] : -1, r;
	const struct env *before = env_current;

	if (!k)
		return -ENOMEM;
	flat_get(&request, &k->head, sizeof k->head);
	if (request.bad || fd < 0 || k->head.n > V8_CODE_WISHES_MAX ||
	    k->head.process.walk.shape != RUNTIME_SHAPE_NATIVE)
		return -EINVAL;
	k->memory.read = vm_memory_pread;
	k->memory.data = &fd;
	k->area.runtime.walk = k->head.process.walk;
	k->env = (struct env){.area = &k->area, .deep = &k->deep, .read_user = read_user, .data = k};
	env_current = &k->env;
	k->names.to = &k->records;
	r = vm_records_make(&k->names, &request, k->head.n, look, k);
	env_current = before;
	if (r == 0 || r == -E2BIG) /* the others will be requested again */
		r = put_answer(k, job->answer);
	vm_records_fini(&k->names);
	buf_fini(&k->reports);
	buf_fini(&k->records);
	return r;
}

const struct parser_operation v8_code_operation = {.name = "V8's code", .answer_max = ANSWER_MAX, .run = run};

/* --- in the agent */

/* What the process has sent may be anything: what we know ourselves takes the place of that. */
static int take_report(const struct v8_process *process, const uint8_t *bytes, size_t len,
		       struct buf *reports)
{
	struct runtime_code head;
	int r;

	if (len < sizeof head)
		return -EBADMSG;
	memcpy(&head, bytes, sizeof head);
	head.kind = RUNTIME_REPORT_CODE;
	head.pid = 0;
	head.bias = process->walk.bias;
	head.runtime = RUNTIME_V8;
	head.layout = process->walk.layout;
	r = flat_put_u64(reports, len);
	if (r == 0)
		r = buf_append(reports, &head, sizeof head);
	return r == 0 ? buf_append(reports, bytes + sizeof head, len - sizeof head) : r;
}

static int take_answer(const struct v8_process *process, const struct buf *answer, struct buf *records,
		       struct buf *reports)
{
	struct flat_reader from = flat_read(answer->data, answer->len), in;
	const uint64_t n = flat_u64(&from);
	const uint8_t *bytes = flat_bytes(&from, n);
	int r = bytes ? 0 : -EBADMSG;

	in = flat_read(bytes, bytes ? n : 0);
	while (r == 0 && in.at < in.end) {
		const uint64_t len = flat_u64(&in);
		const uint8_t *report = flat_bytes(&in, len);

		r = report ? take_report(process, report, len, reports) : -EBADMSG;
	}
	return r == 0 ? buf_append(records, from.at, (size_t)(from.end - from.at)) : r;
}

int v8_code_job_run(struct parser_session *session, int mem, const struct v8_process *process,
		    const struct vm_wanted *wanted, size_t n, struct buf *records, struct buf *reports)
{
	struct parser_call call = {
		.operation = &v8_code_operation, .fds = {mem}, .n_fds = 1, .patience_ms = PATIENCE_MS};
	_cleanup_buf_ struct buf answer = {0};
	struct head head;
	int r;

	if (n > V8_CODE_WISHES_MAX)
		return -EINVAL;
	memset(&head, 0, sizeof head);
	head.process = *process;
	head.n = n;
	r = buf_append(&call.request, &head, sizeof head);
	if (r == 0)
		r = buf_append(&call.request, wanted, n * sizeof *wanted);
	if (r == 0)
		r = parser_session_call(session, &call, &answer);
	buf_fini(&call.request);
	return r < 0 ? r : take_answer(process, &answer, records, reports);
}
