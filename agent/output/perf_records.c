// SPDX-License-Identifier: Apache-2.0
#include "agent/output/perf_records.h"

#include <errno.h>
#include <string.h>

#include "agent/base/clock.h"

/* Numbers of tools/perf/util/event.h, which the kernel does not define. */
#define RECORD_FINISHED_ROUND 68
#define RECORD_HEADER_BUILD_ID 67
#define MISC_BUILD_ID_SIZE (1u << 15)

#define PROTECTION 5 /* PROT_READ | PROT_EXEC */
#define FLAGS 2	     /* MAP_PRIVATE */
#define NAME_MAX_BYTES 4096u

/* Behind each record but samples: whose it is, and from when on it holds; at 0, before all samples. */
struct record_id {
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, reserved;
};

struct mmap_body {
	uint32_t pid, tid;
	uint64_t start, len, file_offset;
};

struct mmap2_rest {
	uint8_t build_id_bytes, reserved[3];
	uint8_t build_id[OUTPUT_PERF_BUILD_ID_MAX];
	uint32_t protection, flags;
};

struct task_body {
	uint32_t pid, parent_pid, tid, parent_tid;
	uint64_t time_ns;
};

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* A name of a record with its NUL, padded to words. */
static size_t name_bytes(const char *name)
{
	return padded(strnlen(name, NAME_MAX_BYTES - 1) + 1);
}

static int put_name(struct buf *b, const char *name)
{
	static const char zeros[8];
	const size_t len = strnlen(name, NAME_MAX_BYTES - 1);
	int r = buf_append(b, name, len);

	return r < 0 ? r : buf_append(b, zeros, name_bytes(name) - len);
}

/* Reserves room for the whole record, so that it is there or not. */
static int put_header(struct buf *b, uint32_t type, uint16_t misc, size_t body)
{
	const struct perf_event_header h = {.type = type, .misc = misc, .size = (uint16_t)(sizeof h + body)};
	int r = body > UINT16_MAX - sizeof h ? -EOVERFLOW : buf_reserve(b, sizeof h + body);

	return r < 0 ? r : buf_append(b, &h, sizeof h);
}

static int put_record_id(struct buf *b, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	const struct record_id id = {.pid = pid, .tid = tid, .time_ns = time_ns};

	return buf_append(b, &id, sizeof id);
}

int output_perf_put_mapping(struct buf *b, const struct output_perf_mapping *m)
{
	const bool kernel = m->pid == OUTPUT_PERF_KERNEL, known = !kernel && m->build_id && m->build_id->n;
	const uint32_t tid = kernel ? 0 : m->pid;
	const struct mmap_body body = {m->pid, tid, m->start, m->len, m->file_offset};
	struct mmap2_rest rest = {.protection = PROTECTION, .flags = FLAGS};
	uint16_t misc = kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
	size_t bytes =
		sizeof body + (kernel ? 0 : sizeof rest) + name_bytes(m->path) + sizeof(struct record_id);
	int r;

	if (known) {
		misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
		rest.build_id_bytes = m->build_id->n;
		memcpy(rest.build_id, m->build_id->bytes, sizeof rest.build_id);
	}
	r = put_header(b, kernel ? PERF_RECORD_MMAP : PERF_RECORD_MMAP2, misc, bytes);
	if (r == 0)
		r = buf_append(b, &body, sizeof body);
	if (r == 0 && !kernel)
		r = buf_append(b, &rest, sizeof rest);
	if (r == 0)
		r = put_name(b, m->path);
	return r < 0 ? r : put_record_id(b, m->pid, tid, m->time_ns);
}

int output_perf_put_fork(struct buf *b, uint32_t pid, uint32_t tid)
{
	const struct task_body body = {.pid = pid, .parent_pid = pid, .tid = tid, .parent_tid = pid};
	int r = put_header(b, PERF_RECORD_FORK, 0, sizeof body + sizeof(struct record_id));

	if (r == 0)
		r = buf_append(b, &body, sizeof body);
	return r < 0 ? r : put_record_id(b, pid, pid, 0);
}

int output_perf_put_comm(struct buf *b, uint32_t pid, uint32_t tid, uint64_t time_ns, const char *name)
{
	const uint32_t body[2] = {pid, tid};
	int r = put_header(b, PERF_RECORD_COMM, 0, sizeof body + name_bytes(name) + sizeof(struct record_id));

	if (r == 0)
		r = buf_append(b, body, sizeof body);
	if (r == 0)
		r = put_name(b, name);
	return r < 0 ? r : put_record_id(b, pid, tid, time_ns);
}

/* The context of the leaf, by the mark in front of it. */
static uint16_t context_of(const uint64_t *chain, size_t n)
{
	return n && chain[0] == PERF_CONTEXT_KERNEL ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
}

int output_perf_put_sample(struct buf *b, const struct output_perf_sample *s, const uint64_t *chain, size_t n)
{
	const uint64_t words = n;
	int r = put_header(b, PERF_RECORD_SAMPLE, context_of(chain, n),
			   sizeof *s + sizeof words + n * sizeof *chain);

	if (r == 0)
		r = buf_append(b, s, sizeof *s);
	if (r == 0)
		r = buf_append(b, &words, sizeof words);
	return r < 0 ? r : buf_append(b, chain, n * sizeof *chain);
}

int output_perf_put_end(struct buf *b)
{
	return put_header(b, RECORD_FINISHED_ROUND, 0, 0);
}

int output_perf_put_build_id(struct buf *b, const char *path, bool kernel,
			     const struct output_perf_build_id *id)
{
	struct {
		int32_t pid;
		uint8_t bytes[OUTPUT_PERF_BUILD_ID_MAX];
		uint8_t n, reserved[3];
	} body = {.pid = -1, .n = id->n};
	const uint16_t context = kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
	int r;

	memcpy(body.bytes, id->bytes, sizeof body.bytes);
	r = put_header(b, RECORD_HEADER_BUILD_ID, context | MISC_BUILD_ID_SIZE,
		       sizeof body + name_bytes(path));
	if (r == 0)
		r = buf_append(b, &body, sizeof body);
	return r < 0 ? r : put_name(b, path);
}
