// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/hotspot_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/hotspot_code.h"
#include "agent/elf/runtime/vm_memory.h"
#include "agent/elf/runtime/hotspot_names.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"

#define ANSWER_MAX (64u << 20)

/* The wishes follow. */
struct wish {
	struct hotspot_vm vm;
	struct hotspot_layout layout;
	uint64_t n;
};

/* --- in a parser process */

struct look {
	struct vm_memory memory;
	struct hotspot_layout layout;
	struct hotspot_scopes scopes;
	struct hotspot_blob blob;
	struct hotspot_method method;
	struct vm_records records;
	bool unloads; /* classes are unloaded, so that their memory is given to others */
};

static int put_method(struct look *k, uint64_t address, const char *name, const char *file)
{
	int r = flat_put_u64(&k->records.names, address);

	if (r == 0)
		r = flat_put_string(&k->records.names, name);
	return r == 0 ? flat_put_string(&k->records.names, file) : r;
}

static int put_counts(struct look *k, uint64_t methods, uint64_t scopes, uint64_t places)
{
	int r = flat_put_u64(&k->records.names, methods);

	if (r == 0)
		r = flat_put_u64(&k->records.names, scopes);
	return r == 0 ? flat_put_u64(&k->records.names, places) : r;
}

/* One name for all of it. */
static int put_one(struct look *k, uint64_t address, const char *name, const char *file)
{
	int r = put_counts(k, 1, 0, 0);

	return r == 0 ? put_method(k, address, name, file) : r;
}

/* Methods, scopes and places. */
static int put_scopes(struct look *k)
{
	struct hotspot_scopes *s = &k->scopes;
	int r = put_counts(k, s->n_methods, s->n_scopes, s->n_places);

	for (uint32_t i = 0; i < s->n_methods && r == 0; i++) {
		if (hotspot_method_read(&k->memory, &k->layout, s->methods[i], &k->method) < 0)
			k->method.name[0] = k->method.file[0] = '\0';
		r = put_method(k, s->methods[i], k->method.name, k->method.file);
	}
	if (r == 0)
		r = buf_append(&k->records.names, s->scopes, s->n_scopes * sizeof s->scopes[0]);
	return r == 0 ? buf_append(&k->records.names, s->places, s->n_places * sizeof s->places[0]) : r;
}

static int put_compiled(struct look *k)
{
	int r = hotspot_scopes_read(&k->memory, &k->layout, &k->blob, &k->scopes);

	if (r == 0)
		return put_scopes(k);
	return r == -ENOTSUP || r == -EFAULT ? put_one(k, 0, k->blob.name, "") : r;
}

/* 0; -ENOTSUP: there are no rows for it. */
static int make_rows(struct look *k, struct memory_rows *ret)
{
	const struct hotspot_blob *b = &k->blob;
	struct memory_code code = {.va = b->start, .n = (uint32_t)(b->end - b->start), .function = true};
	struct hotspot_entry entries[HOTSPOT_ENTRIES_MAX];
	_cleanup_free_ uint8_t *bytes = NULL;
	int r;

	if (b->end - b->start > MEMORY_CODE_MAX)
		return -ENOTSUP;
	bytes = malloc(code.n);
	if (!bytes)
		return -ENOMEM;
	r = vm_read(&k->memory, bytes, b->start, code.n);
	code.code = bytes;
	if (r == 0 && b->kind == HOTSPOT_CODE_INTERPRETER)
		return hotspot_interpreter_rows(
			ret, &code, b->frame_bytes, entries,
			hotspot_entries_read(&k->memory, &k->layout, b, entries, HOTSPOT_ENTRIES_MAX));
	return r == 0 ? hotspot_rows_make(ret, &code, b->kind, b->frame_bytes) : r;
}

/* By its name, the BPF program knows such code. */
static void note_name(struct look *k)
{
	struct code_heaps *c = &k->layout.code;

	if (k->blob.kind == HOTSPOT_CODE_METHOD && c->bytes)
		c->method = k->blob.name_at;
	else if (k->blob.kind == HOTSPOT_CODE_NATIVE && c->bytes)
		c->native = k->blob.name_at;
}

/* Whether the code that was found at the address is there still: what was read meanwhile is of it. */
static bool is_there_still(struct look *k, uint64_t address)
{
	struct hotspot_blob now;

	vm_memory_forget(&k->memory);
	return hotspot_blob_find(&k->memory, &k->layout, address, &now) == 0 && now.start == k->blob.start &&
	       now.end == k->blob.end && now.compile_id == k->blob.compile_id;
}

/* 0; -ENODATA: other code has its memory by now, or is about to. */
static int look_at_code(struct look *k, struct vm_found *f)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	const struct hotspot_blob *b = &k->blob;
	int r = make_rows(k, &rows);

	if (r == 0)
		r = b->method ? put_compiled(k) : put_one(k, 0, b->name, "");
	if (r < 0)
		return r;
	if (k->unloads && b->method && !is_there_still(k, f->address))
		return -ENODATA;
	f->answer = VM_CODE;
	f->start = b->start;
	f->end = b->end;
	f->kind = b->kind;
	f->compile_id = b->compile_id;
	note_name(k);
	return vm_records_put(&k->records, f, &rows);
}

static int look_at_method(struct look *k, struct vm_found *f)
{
	int r = hotspot_method_read(&k->memory, &k->layout, f->address, &k->method);

	f->start = k->method.start;
	f->end = k->method.end;
	if (r == 0)
		r = hotspot_lines_read(&k->memory, &k->layout, &k->method, f->address, &k->scopes);
	if (r == 0)
		r = put_scopes(k);
	if (r < 0)
		return r;
	f->answer = VM_METHOD;
	return vm_records_put(&k->records, f, NULL);
}

/* Whether the code is still the one that was meant. */
static int put_check(struct look *k, const struct vm_wanted *w, struct vm_found *f)
{
	if (k->blob.start == w->address && k->blob.end == w->end && k->blob.compile_id == w->compile_id)
		f->answer = VM_SAME;
	return vm_records_put(&k->records, f, NULL);
}

static int put_empty(struct look *k, const struct vm_wanted *w, struct vm_found *f)
{
	if (w->wish == VM_WANT_CODE || hotspot_is_empty(&k->memory, &k->layout, w->address, w->end))
		f->answer = VM_EMPTY;
	buf_clear(&k->records.names);
	return vm_records_put(&k->records, f, NULL);
}

/* As vm_records_make wants it. */
static int look(const struct vm_wanted *w, struct vm_found *f, void *data)
{
	struct look *k = data;
	int r;

	if (w->wish == VM_WANT_METHOD)
		return look_at_method(k, f);
	if (k->unloads && w->wish == VM_WANT_CODE) /* names must not be older than the code */
		vm_memory_forget(&k->memory);
	r = hotspot_blob_find(&k->memory, &k->layout, w->address, &k->blob);
	if (r == 0 && w->wish == VM_WANT_CODE)
		r = look_at_code(k, f);
	else if (r == 0)
		return put_check(k, w, f);
	return r == -ENODATA || r == -EAGAIN ? put_empty(k, w, f) : r;
}

static int run_wishes(struct look *k, struct flat_reader *request, const struct wish *wish)
{
	int r = 0;

	if (k->layout.version ? !hotspot_layout_valid(&k->layout) : 0)
		return -EINVAL;
	if (!k->layout.version)
		r = hotspot_layout_read(&k->layout, &k->memory, wish->vm.structs, wish->vm.types);
	if (r == 0 && !k->layout.code.bytes) /* without them, samples are walked by rows alone */
		(void)hotspot_heaps_read(&k->layout.code, &k->memory, &k->layout);
	if (r == 0 && !k->layout.unloads.own)
		hotspot_unloads_find(&k->layout.unloads, &k->memory, k->layout.counters);
	k->layout.code.unloaded[0] = k->layout.unloads.shared ? k->layout.unloads.own : 0;
	k->layout.code.unloaded[1] = k->layout.unloads.shared;
	k->layout.unloaded_before = hotspot_unloads_read(&k->layout.unloads, &k->memory);
	k->unloads = k->layout.unloaded_before != HOTSPOT_UNLOADS_NONE;
	if (r == 0)
		r = buf_append(k->records.to, &k->layout, sizeof k->layout);
	if (r == 0)
		r = vm_records_make(&k->records, request, wish->n, look, k);
	if (r < 0)
		return r;
	k->layout.unloaded_after = hotspot_unloads_read(&k->layout.unloads, &k->memory);
	if (!k->unloads && k->layout.unloaded_after != HOTSPOT_UNLOADS_NONE)
		return -EAGAIN; /* the first ones, meanwhile */
	memcpy(k->records.to->data, &k->layout, sizeof k->layout);
	return 0;
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_free_ struct look *k = calloc(1, sizeof *k);
	int fd = job->n_fds ? job->fds[0] : -1, r;
	struct wish wish;

	if (!k)
		return -ENOMEM;
	flat_get(&request, &wish, sizeof wish);
	if (request.bad || fd < 0)
		return -EINVAL;
	k->memory.read = vm_memory_pread;
	k->memory.data = &fd;
	k->layout = wish.layout;
	k->records.to = job->answer;
	r = run_wishes(k, &request, &wish);
	vm_records_fini(&k->records);
	return r;
}

const struct parser_operation hotspot_operation = {
	.name = "HotSpot's code", .answer_max = ANSWER_MAX, .run = run};

/* --- in the agent */

static bool is_valid(const void *layout)
{
	return hotspot_layout_valid(layout);
}

int hotspot_job_run(struct parser_session *session, struct hotspot_process *p, const struct vm_wanted *wanted,
		    size_t n, struct buf *answer)
{
	struct wish wish;

	memset(&wish, 0, sizeof wish);
	wish.vm = p->vm;
	wish.layout = p->layout;
	wish.n = n;
	return vm_job_call(session,
			   &(struct vm_job){.operation = &hotspot_operation,
					    .mem = p->mem,
					    .head = &wish,
					    .head_bytes = sizeof wish,
					    .wanted = wanted,
					    .n = n,
					    .layout = &p->layout,
					    .layout_bytes = sizeof p->layout,
					    .valid = is_valid},
			   answer);
}
