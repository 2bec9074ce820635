// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/beam_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/elf/code/beam_rows.h"
#include "agent/elf/code/prologue.h"
#include "agent/elf/runtime/vm_memory.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"

#define ANSWER_MAX (64u << 20)
#define EXIT_BYTES 2u	    /* the byte before, in which a return address minus 1 lies, and the first one */
#define PROCESS_REGISTER 13 /* r13 */
#define EXIT_NAME "normal_exit"
#define SHARED_NAME "shared code"
#define SHARED_PIECE (4u << 10) /* bytes of shared code that are looked at at once */

/* The wishes follow. */
struct wish {
	struct beam_vm vm;
	struct beam_layout layout;
	uint64_t n;
};

/* --- in a parser process */

struct look {
	struct vm_memory memory;
	struct beam_vm vm;
	struct beam_layout layout;
	struct beam_function function;
	enum beam_code kind;
	uint32_t before; /* of the bytes, those before the function's */
	uint8_t bytes[MEMORY_CODE_MAX + SHARED_PIECE];
	struct vm_records records;
};

/* The outermost code, or what functions share, which is in no module: there all is known of it is where. */
static void find_shared(struct look *k, uint64_t address)
{
	const uint64_t exit = k->layout.exit - 1;
	struct beam_function *f = &k->function;

	if (address - exit < EXIT_BYTES) {
		k->kind = BEAM_EXIT;
		f->start = exit;
		f->end = exit + EXIT_BYTES;
		memcpy(f->name, EXIT_NAME, sizeof EXIT_NAME);
		return;
	}
	k->kind = BEAM_SHARED;
	f->start = address & ~(uint64_t)(SHARED_PIECE - 1);
	f->end = f->start + SHARED_PIECE;
	if (exit >= f->start && exit < f->end && address < exit)
		f->end = exit;
	else if (exit + EXIT_BYTES > f->start && exit < f->end)
		f->start = exit + EXIT_BYTES;
	memcpy(f->name, SHARED_NAME, sizeof SHARED_NAME);
}

/* The code's bytes; of shared code, what comes before, too, as a piece of it may have begun there. */
static int read_code(struct look *k)
{
	const struct beam_function *f = &k->function;

	k->before = k->kind == BEAM_SHARED ? SHARED_PIECE : 0;
	if (k->before && vm_read(&k->memory, k->bytes, f->start - k->before, k->before) < 0)
		k->before = 0;
	return vm_read(&k->memory, k->bytes + k->before, f->start, f->end - f->start);
}

/* Which code the address is in, and its bytes. 0; -errno. */
static int find(struct look *k, uint64_t address)
{
	struct beam_function *f = &k->function;
	int r = beam_function_find(f, &k->memory, &k->vm, &k->layout, address);

	k->kind = BEAM_FUNCTION;
	if (r == -ENOENT) {
		find_shared(k, address);
		r = 0;
	}
	if (r == 0 && f->end - f->start > MEMORY_CODE_MAX)
		r = -ENOTSUP;
	return r == 0 ? read_code(k) : r;
}

/* A number that is another one when the code is: of all that it is. */
static uint32_t id_of(const struct look *k)
{
	const struct beam_function *f = &k->function;

	return (uint32_t)(hash_bytes(k->bytes, k->before + f->end - f->start) ^
			  hash_bytes(f->name, strlen(f->name)));
}

/* struct beam_callees */
static int32_t saved_by(void *data, uint64_t address, bool pointer)
{
	struct look *k = data;
	uint8_t code[PROLOGUE_BYTES];

	if (pointer && vm_read(&k->memory, &address, address, sizeof address) < 0)
		return 0;
	return vm_read(&k->memory, code, address, sizeof code) < 0
		       ? 0
		       : prologue_saves(code, sizeof code, PROCESS_REGISTER);
}

static int make_rows(struct look *k, struct memory_rows *ret)
{
	const struct beam_function *f = &k->function;
	const struct memory_code code = {.va = f->start - k->before,
					 .code = k->bytes,
					 .n = (uint32_t)(k->before + f->end - f->start),
					 .frame_pointer = k->layout.records};

	return beam_rows_make(ret, &code, k->kind, k->kind == BEAM_FUNCTION ? BEAM_INFO_BYTES : k->before,
			      &(struct beam_callees){.saved = saved_by, .data = k});
}

static int look_at_code(struct look *k, struct vm_found *f)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	int r = make_rows(k, &rows);

	if (r == 0)
		r = vm_records_name(&k->records, k->function.name);
	if (r < 0)
		return r;
	f->answer = VM_CODE;
	f->start = k->function.start;
	f->end = k->function.end;
	f->compile_id = id_of(k);
	return vm_records_put(&k->records, f, &rows);
}

/* As vm_records_make wants it. */
static int look(const struct vm_wanted *w, struct vm_found *f, void *data)
{
	struct look *k = data;
	int r = find(k, w->address);

	if (r < 0)
		return r;
	if (w->wish == VM_WANT_CODE)
		return look_at_code(k, f);
	if (k->function.start == w->address && k->function.end == w->end && id_of(k) == w->compile_id)
		f->answer = VM_SAME;
	return vm_records_put(&k->records, f, NULL);
}

static int run_wishes(struct look *k, struct flat_reader *request, uint64_t n)
{
	int r = 0;

	if (k->layout.ranges ? !beam_layout_valid(&k->layout) : 0)
		return -EINVAL;
	if (!k->layout.ranges)
		r = beam_layout_read(&k->layout, &k->memory, &k->vm);
	if (r == 0)
		r = buf_append(k->records.to, &k->layout, sizeof k->layout);
	return r == 0 ? vm_records_make(&k->records, request, n, look, k) : r;
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
	k->vm = wish.vm;
	k->layout = wish.layout;
	k->records.to = job->answer;
	r = run_wishes(k, &request, wish.n);
	vm_records_fini(&k->records);
	return r;
}

const struct parser_operation beam_operation = {
	.name = "Erlang's code", .answer_max = ANSWER_MAX, .run = run};

/* --- in the agent */

static bool is_valid(const void *layout)
{
	return beam_layout_valid(layout);
}

int beam_job_run(struct parser_session *session, struct beam_process *p, const struct vm_wanted *wanted,
		 size_t n, struct buf *answer)
{
	struct wish wish;

	memset(&wish, 0, sizeof wish);
	wish.vm = p->vm;
	wish.layout = p->layout;
	wish.n = n;
	return vm_job_call(session,
			   &(struct vm_job){.operation = &beam_operation,
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
