// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/vm_job.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/hotspot_rows.h"
#include "agent/parser/parser.h"
#include "agent/unwind/code_job.h"

#define PATIENCE_MS 1000u /* memory of a process may be such that a read of it is never answered */

int vm_records_put(struct vm_records *v, struct vm_found *f, const struct memory_rows *rows)
{
	int r;

	f->n_rows = rows ? (uint32_t)rows->n : 0;
	f->name_bytes = v->names.len;
	r = buf_append(v->to, f, sizeof *f);
	if (r == 0 && rows)
		r = buf_append(v->to, rows->v, rows->n * sizeof rows->v[0]);
	return r == 0 ? buf_append(v->to, v->names.data, v->names.len) : r;
}

static void begin(struct vm_records *v, struct vm_found *f, uint64_t address)
{
	buf_clear(&v->names);
	memset(f, 0, sizeof *f);
	f->address = address;
}

int vm_records_make(struct vm_records *v, struct flat_reader *wishes, uint64_t n,
		    int (*look)(const struct vm_wanted *w, struct vm_found *f, void *data), void *data)
{
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		struct vm_wanted w;
		struct vm_found f;

		flat_get(wishes, &w, sizeof w);
		if (wishes->bad)
			return -EINVAL;
		begin(v, &f, w.address);
		r = look(&w, &f, data);
		if (r == -E2BIG && i)
			return 0; /* the others another time */
		if (r == 0 || r == -ENOMEM)
			continue;
		begin(v, &f, w.address);
		r = vm_records_put(v, &f, NULL);
	}
	return r;
}

int vm_records_name(struct vm_records *v, const char *name)
{
	return vm_records_lines(v, name, "", NULL, NULL, 0);
}

int vm_records_lines(struct vm_records *v, const char *name, const char *file,
		     const struct hotspot_scope *scopes, const struct hotspot_place *places, size_t n)
{
	const uint64_t numbers[] = {1, n, n, 0}; /* methods, scopes, places; the address of the method */
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == 0; i++)
		r = flat_put_u64(&v->names, numbers[i]);
	if (r == 0)
		r = flat_put_string(&v->names, name);
	if (r == 0)
		r = flat_put_string(&v->names, file);
	if (r == 0)
		r = buf_append(&v->names, scopes, n * sizeof scopes[0]);
	return r == 0 ? buf_append(&v->names, places, n * sizeof places[0]) : r;
}

void vm_records_fini(struct vm_records *v)
{
	buf_fini(&v->names);
}

/* The process may have answered anything. */
static int take_layout(const struct vm_job *job, const struct buf *got, struct buf *answer)
{
	struct flat_reader from = flat_read(got->data, got->len);
	const uint8_t *layout = flat_bytes(&from, job->layout_bytes);

	if (!layout || !job->valid(layout))
		return -EBADMSG;
	memcpy(job->layout, layout, job->layout_bytes);
	return buf_append(answer, from.at, (size_t)(from.end - from.at));
}

int vm_job_call(struct parser_session *session, const struct vm_job *job, struct buf *answer)
{
	_cleanup_buf_ struct buf got = {0};
	struct parser_call call = {.operation = job->operation,
				   .fds = {job->mem},
				   .n_fds = 1,
				   .patience_ms = PATIENCE_MS,
				   .query = job->query,
				   .data = job->data};
	int r = buf_append(&call.request, job->head, job->head_bytes);

	if (r == 0)
		r = buf_append(&call.request, job->wanted, job->n * sizeof *job->wanted);
	if (r == 0)
		r = parser_session_call(session, &call, job->layout ? &got : answer);
	buf_fini(&call.request);
	return r < 0 || !job->layout ? r : take_layout(job, &got, answer);
}

int vm_record_next(struct flat_reader *from, struct vm_record *ret)
{
	struct vm_record x = {0};
	const uint8_t *rows;
	int r = 0;

	if (from->at == from->end)
		return 0;
	flat_get(from, &x.found, sizeof x.found);
	if (from->bad || x.found.answer >= VM_ANSWERS || x.found.kind >= HOTSPOT_CODE_KINDS ||
	    x.found.n_rows > MEMORY_CODE_MAX || x.found.freed > 1 || x.found.zero)
		return -EBADMSG;
	rows = flat_bytes(from, x.found.n_rows * sizeof(struct memory_row));
	x.names = flat_bytes(from, x.found.name_bytes);
	if (from->bad)
		return -EBADMSG;
	if (x.found.answer == VM_CODE) {
		if (x.found.end <= x.found.start || x.found.end - x.found.start > MEMORY_CODE_MAX ||
		    x.found.address < x.found.start || x.found.address >= x.found.end)
			return -EBADMSG;
		r = code_answer_read(&x.rows, (uint32_t)(x.found.end - x.found.start), rows,
				     x.found.n_rows * sizeof(struct memory_row));
	}
	if (r < 0)
		return r;
	*ret = x;
	return 1;
}
