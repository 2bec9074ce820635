// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/dotnet_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/elf/code/dotnet_rows.h"
#include "agent/elf/runtime/dotnet_lines.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"

#define ANSWER_MAX (64u << 20)
#define THUNK_MAX 256u /* bytes */
#define STUB_NAME "stub"
#define NO_NAME "[unnamed method]"

/* The wishes follow. */
struct wish {
	struct dotnet_vm vm;
	uint64_t n;
};

/* --- in a parser process */

struct look {
	struct dotnet_reader reader;
	struct dotnet_place place;
	struct dotnet_lines lines;
	struct dotnet_lines_files files;
	struct hotspot_scope scopes[DOTNET_IL_PLACES_MAX + 1];
	struct hotspot_place places[DOTNET_IL_PLACES_MAX + 1];
	struct vm_records records;
	uint8_t bytes[MEMORY_CODE_MAX];
};

/*
 * Code that the runtime does not describe may be a few instructions that jump on: to a delegate's function.
 */
static int find_thunk(struct look *k, uint64_t address)
{
	const uint64_t left = VM_PIECE_BYTES - address % VM_PIECE_BYTES;
	const uint32_t n = left < THUNK_MAX ? (uint32_t)left : THUNK_MAX;
	uint32_t bytes;
	int r = vm_read(&k->reader.memory, k->bytes, address, n);

	if (r < 0)
		return r;
	bytes = dotnet_rows_leaves(k->bytes, n);
	k->place = (struct dotnet_place){.kind = DOTNET_STUB, .start = address, .end = address + bytes};
	return bytes ? 0 : -ENOENT;
}

/* Which function the address is in, and its bytes. 0; -errno. */
static int find(struct look *k, uint64_t address)
{
	const struct dotnet_place *p = &k->place;
	int r = dotnet_place_find(&k->place, &k->reader, address);

	if (r == -ENOENT)
		r = find_thunk(k, address);
	if (r < 0)
		return r;
	if (p->end - p->start > MEMORY_CODE_MAX)
		return -ENOTSUP;
	return vm_read(&k->reader.memory, k->bytes, p->start, p->end - p->start);
}

/*
 * A number that is another one when the code is, or the method. Of stubs, only how long they are matters. A
 * method without metadata may have the memory of one before it, its object and its name included.
 */
static int id_of(struct look *k, uint32_t *ret)
{
	const struct dotnet_place *p = &k->place;
	char name[VM_TEXT_MAX] = "";
	int r = 0;

	if (p->kind == DOTNET_STUB) {
		*ret = (uint32_t)hash_u64(p->end - p->start);
		return 0;
	}
	if (p->dynamic)
		r = vm_read_string(&k->reader.memory, name, sizeof name, p->dynamic);
	*ret = (uint32_t)(hash_bytes(k->bytes, p->end - p->start) ^ hash_u64(p->method) ^
			  hash_bytes(name, strlen(name)));
	return r;
}

static int make_rows(struct look *k, struct memory_rows *ret)
{
	const struct dotnet_place *p = &k->place;
	const struct memory_code code = {
		.va = p->start, .code = k->bytes, .n = (uint32_t)(p->end - p->start), .function = true};
	uint8_t unwind[DOTNET_UNWIND_MAX];
	size_t n;
	int r;

	if (p->kind == DOTNET_STUB)
		return dotnet_rows_make_stub(ret);
	r = vm_read(&k->reader.memory, unwind, p->unwind, 4);
	n = r == 0 ? 4 + 2u * unwind[2] : 0;
	if (r == 0)
		r = vm_read(&k->reader.memory, unwind, p->unwind, n);
	return r == 0 ? dotnet_rows_make(ret, &code, p->freed, unwind, n) : r;
}

/* Has the agent find the file of an assembly's lines (pdb_search.h), for struct dotnet_lines_files. */
static int open_lines(uint64_t base, const char *name, void *data)
{
	const struct parser_job *job = data;
	const struct pdb_query q = {.base = base};
	_cleanup_buf_ struct buf query = {0};
	_cleanup_close_ int from = -1;
	int r = buf_append(&query, &q, sizeof q);

	if (r == 0)
		r = buf_puts(&query, name);
	if (r < 0)
		return r;
	from = job->query(job, query.data, query.len);
	return from < 0 ? from : parser_fd_receive(from);
}

/* The lines of a method whose code stays where it is. 0; -ENOENT: none are known; -ENOMEM; -E2BIG. */
static int put_lines(struct look *k, const char *name)
{
	struct dotnet_lines *l = &k->lines;
	int r = k->place.freed ? -ENOENT : dotnet_lines_read(l, &k->place, &k->reader, &k->files);

	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	for (uint32_t i = 0; i < l->n; i++) {
		k->scopes[i] = (struct hotspot_scope){.outer = HOTSPOT_NO_SCOPE, .line = l->v[i].line};
		k->places[i] = (struct hotspot_place){.end = l->v[i].end - 1, .scope = i};
	}
	return vm_records_lines(&k->records, name, l->document, k->scopes, k->places, l->n);
}

static int put_name(struct look *k)
{
	char name[VM_TEXT_MAX] = STUB_NAME;
	int r = 0;

	if (k->place.kind == DOTNET_METHOD)
		r = dotnet_place_name(&k->place, &k->reader, name, sizeof name);
	if (r == -ENOMEM || r == -E2BIG)
		return r;
	if (r < 0 || !name[0])
		memcpy(name, NO_NAME, sizeof NO_NAME);
	r = k->place.kind == DOTNET_METHOD ? put_lines(k, name) : -ENOENT;
	return r == -ENOENT ? vm_records_name(&k->records, name) : r;
}

static int look_at_code(struct look *k, struct vm_found *f)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	int r = make_rows(k, &rows);

	if (r == 0)
		r = put_name(k);
	if (r == 0)
		r = id_of(k, &f->compile_id);
	if (r < 0)
		return r;
	f->answer = VM_CODE;
	f->start = k->place.start;
	f->end = k->place.end;
	f->freed = k->place.freed;
	return vm_records_put(&k->records, f, &rows);
}

/* As vm_records_make wants it. */
static int look(const struct vm_wanted *w, struct vm_found *f, void *data)
{
	struct look *k = data;
	uint32_t id;
	int r = find(k, w->address);

	if (r < 0)
		return r;
	if (w->wish == VM_WANT_CODE)
		return look_at_code(k, f);
	if (k->place.start == w->address && k->place.end == w->end && id_of(k, &id) == 0 &&
	    id == w->compile_id)
		f->answer = VM_SAME;
	return vm_records_put(&k->records, f, NULL);
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
	k->reader.memory.read = vm_memory_pread;
	k->reader.memory.data = &fd;
	k->reader.vm = wish.vm;
	k->files.open = job->query ? open_lines : NULL;
	k->files.data = job;
	k->records.to = job->answer;
	r = dotnet_reader_init(&k->reader);
	if (r == 0)
		r = vm_records_make(&k->records, &request, wish.n, look, k);
	vm_records_fini(&k->records);
	dotnet_lines_files_fini(&k->files);
	dotnet_reader_fini(&k->reader);
	return r;
}

const struct parser_operation dotnet_operation = {
	.name = ".NET's code", .answer_max = ANSWER_MAX, .run = run};

/* --- in the agent */

/* Errors of a process that a file of lines may have caused. */
static bool is_of_file(int r)
{
	return r == -ENOTRECOVERABLE || r == -ETIMEDOUT || r == -ETIME;
}

int dotnet_job_run(struct parser_session *session, struct dotnet_process *p, const struct vm_wanted *wanted,
		   size_t n, struct buf *answer)
{
	struct pdb_search search = {.pid = p->pid, .mem = p->mem, .absent = &p->absent};
	struct wish wish;
	int r;

	memset(&wish, 0, sizeof wish);
	wish.vm = p->vm;
	wish.n = n;
	r = vm_job_call(session,
			&(struct vm_job){.operation = &dotnet_operation,
					 .mem = p->mem,
					 .head = &wish,
					 .head_bytes = sizeof wish,
					 .query = pdb_search_answer,
					 .data = &search,
					 .wanted = wanted,
					 .n = n},
			answer);
	pdb_search_fini(&search);
	if (!search.opened || !is_of_file(r))
		return r;
	p->absent.n = PDB_ABSENT_MAX; /* names do without lines */
	return -EAGAIN;
}
