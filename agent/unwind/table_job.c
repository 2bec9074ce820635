// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/table_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/facts.h"
#include "agent/base/flat.h"
#include "agent/parser/parser.h"
#include "agent/unwind/debug_search.h"
#include "agent/unwind/debugfile.h"
#include "agent/unwind/row_repair.h"

#define NAMES ".symtab"
#define ANSWER_MAX (256u << 20)

DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

/* What the process needs to know beside the descriptors. */
struct wish {
	struct elf_version version;
	bool any_version, has_debug, may_search;
};

/* The head of an answer; the blocks follow, each as struct block_head and its bytes. */
struct answer_head {
	uint64_t n_rows, n_skipped, build_ns, n_blocks;
	struct table_debug debug, names;
	struct runtime_facts runtime;
};

struct block_head {
	uint64_t va, end, len;
};

/* --- in the parser process */

struct making {
	const struct parser_job *job;
	struct wish wish;
	struct elf_image *img;
	struct debug_place place;
	struct debug_file debug, names;
	struct answer_head head;
	struct unwind_blocks blocks;
};

static int query(const char *path, void *data)
{
	const struct parser_job *job = data;

	return job->query(job, path, strlen(path));
}

/* Finds the debug file that has the names, which are wanted later. */
static void find_names(struct making *m)
{
	if (!m->wish.may_search || elf_image_has(m->img, NAMES))
		return;
	if (m->debug.img && elf_image_has(m->debug.img, NAMES))
		m->head.names = m->head.debug;
	else if (debug_file_find(&m->names, m->img, &m->place, NAMES) == 0)
		m->head.names = (struct table_debug){true, m->names.number, m->names.delta, m->names.version};
}

/*
 * A runtime's functions are found without its file's rows, which take longer: says what is known of it before
 * these are made. The query begins with NUL, as no path does, and gets no descriptor.
 */
static void tell_early(struct making *m)
{
	uint8_t text[1 + sizeof m->head.runtime] = {0};
	int fd;

	if (m->head.runtime.kind == RUNTIME_FILE_NONE)
		return;
	memcpy(text + 1, &m->head.runtime, sizeof m->head.runtime);
	fd = m->job->query(m->job, text, sizeof text);
	if (fd >= 0)
		close(fd);
}

static int make_rows(struct making *m)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	int r;

	if (m->wish.has_debug)
		(void)debug_file_reopen(&m->debug, m->img, m->job->fds[1]); /* on failure, search anew */
	r = debug_file_rows(&rows, m->img, &m->place, &m->debug);
	if (m->debug.img)
		m->head.debug = (struct table_debug){true, m->debug.number, m->debug.delta, m->debug.version};
	if (r < 0)
		return r == -ENOTSUP ? -ENODATA : r;
	r = unwind_rows_repair(rows, m->img);
	if (r < 0)
		return r;
	m->head.n_rows = rows->n_rows;
	m->head.n_skipped = rows->n_skipped;
	m->head.build_ns = rows->build_ns;
	return unwind_blocks_encode(&m->blocks, rows, elf_image_machine(m->img));
}

static int make(struct making *m)
{
	const struct elf_version *version = m->wish.any_version ? NULL : &m->wish.version;
	int r = elf_version_open(&m->img, m->job->fds[0], version), still;

	if (r < 0)
		return r == -ENOEXEC ? -ENODATA : r;
	(void)runtime_facts_read(&m->head.runtime, m->img); /* on failure, there are none */
	tell_early(m);
	r = make_rows(m);
	if (r == 0 && m->debug.img)
		r = elf_version_still(&m->debug.version, m->debug.img);
	find_names(m);
	still = elf_version_still(version, m->img);
	return still < 0 ? still : r;
}

static int write_answer(struct making *m, struct buf *answer, int result)
{
	int r;

	m->head.n_blocks = result == 0 ? m->blocks.n : 0;
	r = buf_append(answer, &m->head, sizeof m->head);
	for (size_t i = 0; i < m->head.n_blocks && r == 0; i++) {
		const struct unwind_block *b = &m->blocks.blocks[i];
		const struct block_head head = {b->va, b->end, b->len};

		r = buf_append(answer, &head, sizeof head);
		if (r == 0)
			r = buf_append(answer, b->bytes, b->len);
	}
	return r < 0 ? r : result;
}

static bool wish_valid(const struct wish *w)
{
	return elf_version_valid(&w->version) && flat_is_bool(&w->any_version) &&
	       flat_is_bool(&w->has_debug) && flat_is_bool(&w->may_search);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	struct making m = {.job = job, .debug = DEBUG_FILE_NONE, .names = DEBUG_FILE_NONE};
	int r;

	flat_get(&request, &m.wish, sizeof m.wish);
	if (!wish_valid(&m.wish))
		return -EINVAL;
	m.place = (struct debug_place){
		.open = m.wish.may_search ? query : NULL, .data = job, .path = flat_string(&request)};
	if (!flat_done(&request) || job->n_fds != 1u + m.wish.has_debug)
		return -EINVAL;
	r = write_answer(&m, job->answer, make(&m));
	unwind_blocks_fini(&m.blocks);
	debug_file_fini(&m.debug);
	debug_file_fini(&m.names);
	elf_image_free(m.img);
	return r;
}

const struct parser_operation table_operation = {
	.name = "unwind table", .answer_max = ANSWER_MAX, .run = run};

/* --- in the agent */

static int read_block(struct unwind_blocks *to, struct flat_reader *from)
{
	struct unwind_block b = {0};
	struct block_head head;
	const uint8_t *bytes;

	flat_get(from, &head, sizeof head);
	bytes = flat_bytes(from, head.len);
	if (!bytes || head.len > UINT32_MAX || (to->n && head.va < to->blocks[to->n - 1].end))
		return -EBADMSG;
	if (array_resize(&to->blocks, to->n + 1, sizeof *to->blocks) < 0)
		return -ENOMEM;
	b = (struct unwind_block){
		.va = head.va, .end = head.end, .bytes = malloc(head.len + 1), .len = (uint32_t)head.len};
	if (!b.bytes)
		return -ENOMEM;
	memcpy(b.bytes, bytes, head.len);
	to->blocks[to->n++] = b;
	to->bytes += b.len;
	return unwind_block_valid(&b) ? 0 : -EBADMSG;
}

static int read_blocks(struct unwind_blocks *ret, struct flat_reader *from, uint64_t n)
{
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = read_block(ret, from);
	return r == 0 && !flat_done(from) ? -EBADMSG : r;
}

static bool debug_valid(const struct table_debug *d)
{
	return flat_is_bool(&d->found) && elf_version_valid(&d->version);
}

static bool head_valid(const struct answer_head *h)
{
	return debug_valid(&h->debug) && debug_valid(&h->names) && runtime_facts_valid(&h->runtime);
}

static int take_runtime(struct table_result *ret, const struct runtime_facts *f)
{
	if (!f->kind)
		return 0;
	ret->runtime = malloc(sizeof *f);
	if (!ret->runtime)
		return -ENOMEM;
	*ret->runtime = *f;
	return 0;
}

int table_answer_read(struct table_result *ret, const void *bytes, size_t len, int result)
{
	struct flat_reader r = flat_read(bytes, len);
	struct unwind_blocks blocks = {0};
	struct answer_head head;
	int e;

	*ret = (struct table_result){0};
	if (!len)
		return result < 0 ? result : -EBADMSG;
	flat_get(&r, &head, sizeof head);
	e = head_valid(&head) ? read_blocks(&blocks, &r, head.n_blocks) : -EBADMSG;
	if (e == 0 && result != -ESTALE)
		e = take_runtime(ret, &head.runtime);
	if (e < 0 || result < 0)
		unwind_blocks_fini(&blocks);
	if (e < 0)
		return e;
	ret->blocks = blocks;
	ret->n_rows = head.n_rows;
	ret->n_skipped = head.n_skipped;
	ret->build_ns = head.build_ns;
	ret->debug = head.debug;
	ret->names = head.names;
	return result;
}

/* A query of the process, which may say anything: for a debug file, or what is known early. */
static int answer_query(const void *query, size_t len, void *data)
{
	const struct table_request *request = data;
	const uint8_t *bytes = query;
	struct runtime_facts facts;

	if (!len || bytes[0])
		return debug_search_answer(query, len, request->search);
	if (len != 1 + sizeof facts)
		return -EINVAL;
	memcpy(&facts, bytes + 1, sizeof facts);
	if (facts.kind == RUNTIME_FILE_NONE || !runtime_facts_valid(&facts))
		return -EINVAL;
	if (request->early)
		request->early(&facts, request->data);
	return -ENODATA;
}

static int write_request(const struct table_request *request, struct parser_call *call)
{
	struct wish wish;
	int r;

	memset(&wish, 0, sizeof wish); /* with its padding */
	wish.any_version = !request->version;
	if (request->version)
		wish.version = *request->version;
	wish.has_debug = request->debug_fd >= 0;
	wish.may_search = request->search->root != NULL;
	call->fds[call->n_fds++] = request->fd;
	if (wish.has_debug)
		call->fds[call->n_fds++] = request->debug_fd;
	r = buf_append(&call->request, &wish, sizeof wish);
	return r < 0 ? r : flat_put_string(&call->request, request->search->binary);
}

int table_job_run(const struct table_request *request, struct table_result *ret)
{
	struct parser_call call = {.operation = &table_operation,
				   .query = answer_query,
				   .data = (void *)request,
				   .of_system = request->of_system && request->debug_fd < 0,
				   .in_proportion = true};
	_cleanup_buf_ struct buf answer = {0};
	int r;

	*ret = (struct table_result){0};
	r = write_request(request, &call);
	if (r == 0)
		r = parser_call(&call, &answer);
	r = parser_judge(&call, table_answer_read(ret, answer.data, answer.len, r));
	buf_fini(&call.request);
	return r;
}

void table_result_fini(struct table_result *r)
{
	unwind_blocks_fini(&r->blocks);
	free(r->runtime);
	r->runtime = NULL;
}
