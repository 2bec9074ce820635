// SPDX-License-Identifier: Apache-2.0
/* Decodes records with the layout of perf_event_open(2), followed by the sample_id (pid, tid, time). */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/probe/sideband.h"

#define MISC_BUILD_ID (1u << 14) /* PERF_RECORD_MISC_MMAP_BUILD_ID, since Linux 5.12 */
#define TIME 0x1122334455667788ull
#define HEADER sizeof(struct perf_event_header)
#define TRAILER 16

static void put(struct buf *b, uint64_t value, size_t bytes)
{
	cr_assert_eq(buf_append(b, &value, bytes), 0);
}

/* Appends a name with its NUL, padded to eight bytes as the kernel does. */
static void put_name(struct buf *b, const char *name)
{
	static const char zeros[8];
	size_t len = strlen(name) + 1;

	cr_assert_eq(buf_append(b, name, len), 0);
	cr_assert_eq(buf_append(b, zeros, (8 - len % 8) % 8), 0);
}

static void begin(struct buf *b, uint32_t type, uint16_t misc)
{
	const struct perf_event_header h = {.type = type, .misc = misc};

	buf_clear(b);
	cr_assert_eq(buf_append(b, &h, sizeof h), 0);
}

static void end(struct buf *b)
{
	uint16_t size;

	put(b, 77, 4);
	put(b, 78, 4);
	put(b, TIME, 8);
	size = (uint16_t)b->len;
	memcpy(b->data + offsetof(struct perf_event_header, size), &size, sizeof size);
}

static void mmap_begin(struct buf *b, uint16_t misc)
{
	begin(b, PERF_RECORD_MMAP2, misc);
	put(b, 1001, 4);
	put(b, 1002, 4);
	put(b, 0x7f0012340000, 8);
	put(b, 0x5000, 8);
	put(b, 0x2000, 8);
}

static void mmap_end(struct buf *b, uint32_t prot, const char *name)
{
	put(b, prot, 4);
	put(b, MAP_PRIVATE, 4);
	put_name(b, name);
	end(b);
}

static void make_mmap_inode(struct buf *b)
{
	mmap_begin(b, PERF_RECORD_MISC_USER);
	put(b, 8, 4);
	put(b, 1, 4);
	put(b, 0xabcdef0123, 8);
	put(b, 5, 8);
	mmap_end(b, PROT_READ | PROT_EXEC, "/usr/lib/libfoo.so.1");
}

static void make_mmap_anonymous(struct buf *b)
{
	mmap_begin(b, PERF_RECORD_MISC_USER);
	put(b, 0, 8);
	put(b, 0, 8);
	put(b, 0, 8);
	mmap_end(b, PROT_READ | PROT_WRITE | PROT_EXEC, "//anon");
}

/* `len` bytes of build id: 1, 2, 3 … */
static void make_mmap_build_id(struct buf *b, uint8_t len)
{
	mmap_begin(b, PERF_RECORD_MISC_USER | MISC_BUILD_ID);
	put(b, len, 4); /* and three reserved bytes */
	for (uint8_t i = 1; i <= 20; i++)
		put(b, i <= len ? i : 0, 1);
	mmap_end(b, PROT_READ | PROT_EXEC, "/usr/lib/libfoo.so.1");
}

static void make_mmap_build_id_20(struct buf *b)
{
	make_mmap_build_id(b, 20);
}

static void make_mmap_data(struct buf *b)
{
	mmap_begin(b, PERF_RECORD_MISC_USER);
	put(b, 8, 4);
	put(b, 1, 4);
	put(b, 99, 8);
	put(b, 0, 8);
	mmap_end(b, PROT_READ, "");
}

static void make_comm(struct buf *b)
{
	begin(b, PERF_RECORD_COMM, PERF_RECORD_MISC_USER);
	put(b, 1001, 4);
	put(b, 1002, 4);
	put_name(b, "worker/3");
	end(b);
}

static void make_comm_exec(struct buf *b)
{
	begin(b, PERF_RECORD_COMM, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_COMM_EXEC);
	put(b, 1001, 4);
	put(b, 1001, 4);
	put_name(b, "exactly-fifteen");
	end(b);
}

static void make_task(struct buf *b, uint32_t type)
{
	begin(b, type, PERF_RECORD_MISC_USER);
	put(b, 1003, 4);
	put(b, 1001, 4);
	put(b, 1004, 4);
	put(b, 1002, 4);
	put(b, TIME, 8);
	end(b);
}

static void make_fork(struct buf *b)
{
	make_task(b, PERF_RECORD_FORK);
}

static void make_exit(struct buf *b)
{
	make_task(b, PERF_RECORD_EXIT);
}

static void make_lost(struct buf *b)
{
	begin(b, PERF_RECORD_LOST, 0);
	put(b, 12, 8);
	put(b, 345, 8);
	end(b);
}

static void make_throttle(struct buf *b)
{
	begin(b, PERF_RECORD_THROTTLE, 0);
	put(b, TIME, 8);
	put(b, 1, 8);
	put(b, 2, 8);
	end(b);
}

#define WHO .time_ns = TIME, .pid = 1001, .tid = 1002
#define WHERE .start = 0x7f0012340000, .len = 0x5000, .offset = 0x2000

static const struct {
	const char *what;
	void (*make)(struct buf *b);
	struct sideband_event event;
	size_t fixed; /* minimum bytes of the body, including a name's NUL */
} cases[] = {
	{"mmap, inode",
	 make_mmap_inode,
	 {.kind = SIDEBAND_MMAP,
	  WHO,
	  .name = "/usr/lib/libfoo.so.1",
	  .mmap = {WHERE, .executable = true, .dev_major = 8, .dev_minor = 1, .inode = 0xabcdef0123,
		   .generation = 5}},
	 64 + 21},
	{"mmap, anonymous",
	 make_mmap_anonymous,
	 {.kind = SIDEBAND_MMAP, WHO, .name = "//anon", .mmap = {WHERE, .executable = true}},
	 64 + 7},
	{"mmap, build id",
	 make_mmap_build_id_20,
	 {.kind = SIDEBAND_MMAP,
	  WHO,
	  .name = "/usr/lib/libfoo.so.1",
	  .mmap = {WHERE, .executable = true, .has_build_id = true, .build_id_len = 20,
		   .build_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}}},
	 64 + 21},
	{"mmap, data",
	 make_mmap_data,
	 {.kind = SIDEBAND_MMAP,
	  WHO,
	  .name = "",
	  .mmap = {WHERE, .dev_major = 8, .dev_minor = 1, .inode = 99}},
	 64 + 1},
	{"comm", make_comm, {.kind = SIDEBAND_COMM, WHO, .name = "worker/3"}, 8 + 9},
	{"comm by exec",
	 make_comm_exec,
	 {.kind = SIDEBAND_COMM,
	  .time_ns = TIME,
	  .pid = 1001,
	  .tid = 1001,
	  .exec = true,
	  .name = "exactly-fifteen"},
	 8 + 16},
	{"fork",
	 make_fork,
	 {.kind = SIDEBAND_FORK,
	  .time_ns = TIME,
	  .pid = 1003,
	  .ppid = 1001,
	  .tid = 1004,
	  .ptid = 1002,
	  .name = ""},
	 16},
	{"exit",
	 make_exit,
	 {.kind = SIDEBAND_EXIT,
	  .time_ns = TIME,
	  .pid = 1003,
	  .ppid = 1001,
	  .tid = 1004,
	  .ptid = 1002,
	  .name = ""},
	 16},
	{"lost", make_lost, {.kind = SIDEBAND_LOST, .time_ns = TIME, .n_lost = 345, .name = ""}, 16},
	{"throttle", make_throttle, {.kind = SIDEBAND_OTHER, .time_ns = TIME, .name = ""}, 0},
};

static bool same(const struct sideband_event *a, const struct sideband_event *b)
{
	return a->kind == b->kind && a->time_ns == b->time_ns && a->pid == b->pid && a->tid == b->tid &&
	       a->ppid == b->ppid && a->ptid == b->ptid && a->exec == b->exec && a->n_lost == b->n_lost &&
	       a->mmap.start == b->mmap.start && a->mmap.len == b->mmap.len &&
	       a->mmap.offset == b->mmap.offset && a->mmap.executable == b->mmap.executable &&
	       a->mmap.has_build_id == b->mmap.has_build_id && a->mmap.build_id_len == b->mmap.build_id_len &&
	       memcmp(a->mmap.build_id, b->mmap.build_id, sizeof a->mmap.build_id) == 0 &&
	       a->mmap.dev_major == b->mmap.dev_major && a->mmap.dev_minor == b->mmap.dev_minor &&
	       a->mmap.inode == b->mmap.inode && a->mmap.generation == b->mmap.generation &&
	       strcmp(a->name, b->name) == 0;
}

Test(sideband_decode, records)
{
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sideband_event e;

		cases[i].make(&b);
		cr_assert_eq(sideband_decode(b.data, b.len, &e), 0, "%s", cases[i].what);
		cr_expect(same(&e, &cases[i].event), "%s", cases[i].what);
	}
}

/*
 * The first `len` bytes of a record, with that length in its header. The memory ends where the record does,
 * so that a sanitizer sees a read past it.
 */
static int decode_cut(const struct buf *b, size_t len, struct sideband_event *e, uint8_t **ret_copy)
{
	uint8_t *copy = malloc(len ?: 1);
	uint16_t size = (uint16_t)len;

	cr_assert_not_null(copy);
	memcpy(copy, b->data, len);
	if (len >= HEADER)
		memcpy(copy + offsetof(struct perf_event_header, size), &size, sizeof size);
	*ret_copy = copy;
	return sideband_decode(copy, len, e);
}

/* A record that is cut anywhere gives an error, or the values of a valid shorter record. */
Test(sideband_decode, truncated)
{
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cases[i].make(&b);
		for (size_t len = 0; len < b.len; len++) {
			_cleanup_free_ uint8_t *copy = NULL;
			struct sideband_event e = {.kind = SIDEBAND_OTHER, .time_ns = 5};
			int r = decode_cut(&b, len, &e, &copy);

			if (len < HEADER + cases[i].fixed + TRAILER) {
				cr_expect_eq(r, -EBADMSG, "%s cut to %zu", cases[i].what, len);
				cr_expect_eq(e.time_ns, 5, "written on success only");
			} else {
				cr_expect_eq(r, 0, "%s cut to %zu", cases[i].what, len);
				cr_expect_eq(e.kind, cases[i].event.kind);
			}
		}
	}
}

Test(sideband_decode, size_differs_from_header)
{
	_cleanup_buf_ struct buf b = {0};
	struct sideband_event e;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cases[i].make(&b);
		for (size_t len = 0; len < b.len; len++)
			cr_expect_eq(sideband_decode(b.data, len, &e), -EBADMSG, "%s, %zu bytes",
				     cases[i].what, len);
	}
}

/* A name without NUL is refused: the time after it must not be read as text. */
Test(sideband_decode, unterminated_names)
{
	static void (*const makers[])(struct buf *b) = {make_comm, make_comm_exec, make_mmap_inode,
							make_mmap_build_id_20};
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		struct sideband_event e;

		makers[i](&b);
		for (size_t at = b.len - TRAILER; at-- > 0 && b.data[at] == '\0';)
			b.data[at] = 'x';
		cr_expect_eq(sideband_decode(b.data, b.len, &e), -EBADMSG, "record %zu", i);
	}
}

Test(sideband_decode, build_ids)
{
	static const struct {
		uint8_t len;
		bool has;
	} ids[] = {{0, false}, {1, true}, {8, true}, {16, true}, {20, true}, {21, false}, {255, false}};
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct sideband_event e;

		make_mmap_build_id(&b, ids[i].len);
		cr_assert_eq(sideband_decode(b.data, b.len, &e), 0);
		cr_expect_eq(e.mmap.has_build_id, ids[i].has, "%u bytes", ids[i].len);
		cr_expect_eq(e.mmap.build_id_len, ids[i].has ? ids[i].len : 0);
		cr_expect_eq(e.mmap.inode, 0, "the same bytes are not an inode, too");
	}
}
