// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/probe/sideband.h"
#include "agent/probe/sideband_layout.h"

#ifndef PERF_RECORD_MISC_MMAP_BUILD_ID
#define PERF_RECORD_MISC_MMAP_BUILD_ID (1 << 14)
#endif

/* A cursor over the record's body; `bad` sticks. */
struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static const void *take(struct reader *r, size_t n)
{
	static const uint8_t zeros[64];
	const void *p = r->at;

	if (n > (size_t)(r->end - r->at)) {
		r->bad = true;
		return zeros;
	}
	r->at += n;
	return p;
}

static uint32_t take_u32(struct reader *r)
{
	uint32_t v;

	memcpy(&v, take(r, sizeof v), sizeof v);
	return v;
}

static uint64_t take_u64(struct reader *r)
{
	uint64_t v;

	memcpy(&v, take(r, sizeof v), sizeof v);
	return v;
}

/* A NUL terminated string that fills the remaining bytes of the body. */
static const char *take_name(struct reader *r)
{
	const char *name = (const char *)r->at;

	if (!memchr(name, '\0', (size_t)(r->end - r->at))) {
		r->bad = true;
		return "";
	}
	return name;
}

static void decode_mmap(struct reader *r, uint16_t misc, struct sideband_event *e)
{
	const uint8_t *id;

	e->kind = SIDEBAND_MMAP;
	e->pid = take_u32(r);
	e->tid = take_u32(r);
	e->mmap.start = take_u64(r);
	e->mmap.len = take_u64(r);
	e->mmap.offset = take_u64(r);
	id = take(r, 24);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		e->mmap.has_build_id = id[0] > 0 && id[0] <= SIDEBAND_BUILD_ID_MAX;
		e->mmap.build_id_len = e->mmap.has_build_id ? id[0] : 0;
		memcpy(e->mmap.build_id, id + 4, SIDEBAND_BUILD_ID_MAX);
	} else {
		memcpy(&e->mmap.dev_major, id, 4);
		memcpy(&e->mmap.dev_minor, id + 4, 4);
		memcpy(&e->mmap.inode, id + 8, 8);
		memcpy(&e->mmap.generation, id + 16, 8);
	}
	e->mmap.executable = take_u32(r) & PROT_EXEC;
	take_u32(r); /* flags */
	e->name = take_name(r);
}

int sideband_decode(const uint8_t *record, size_t len, struct sideband_event *ret)
{
	struct sideband_event e = {.kind = SIDEBAND_OTHER, .name = ""};
	struct perf_event_header header;
	struct reader r;

	if (len < sizeof header + SIDEBAND_TRAILER_BYTES)
		return -EBADMSG;
	memcpy(&header, record, sizeof header);
	if (header.size != len)
		return -EBADMSG;
	r = (struct reader){record + sizeof header, record + len - SIDEBAND_TRAILER_BYTES, false};
	memcpy(&e.time_ns, r.end + SIDEBAND_TRAILER_TIME, sizeof e.time_ns);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		decode_mmap(&r, header.misc, &e);
		break;
	case PERF_RECORD_COMM:
		e.kind = SIDEBAND_COMM;
		e.exec = header.misc & PERF_RECORD_MISC_COMM_EXEC;
		e.pid = take_u32(&r);
		e.tid = take_u32(&r);
		e.name = take_name(&r);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		e.kind = header.type == PERF_RECORD_FORK ? SIDEBAND_FORK : SIDEBAND_EXIT;
		e.pid = take_u32(&r);
		e.ppid = take_u32(&r);
		e.tid = take_u32(&r);
		e.ptid = take_u32(&r);
		break;
	case PERF_RECORD_LOST:
		e.kind = SIDEBAND_LOST;
		take_u64(&r);
		e.n_lost = take_u64(&r);
		break;
	default:
		break;
	}
	if (r.bad)
		return -EBADMSG;
	*ret = e;
	return 0;
}
