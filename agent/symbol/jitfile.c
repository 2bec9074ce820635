// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/beneath.h"

#define WINDOW_BYTES (64u << 10)
#define STARTED_SLACK_NS (1 * NS_PER_SEC) /* times of files are those of the last tick */

_Static_assert(WINDOW_BYTES >= PERFMAP_LINE_MAX && WINDOW_BYTES >= JITDUMP_BYTES_NEEDED, "window");

void jit_source_init(struct jit_source *s, bool dump)
{
	*s = (struct jit_source){.dump = dump, .fd = -1};
}

void jit_source_fini(struct jit_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

void jit_source_rewind(struct jit_source *s)
{
	s->offset = s->seen = s->tail_bytes = 0;
	s->map = (struct perfmap){0};
	s->jitdump = (struct jitdump){0};
}

static bool owned(const struct stat *st, const struct jit_owner *owner)
{
	for (size_t i = 0; i < ARRAY_SIZE(owner->status.uids); i++)
		if (st->st_uid == owner->status.uids[i])
			return true;
	return st->st_uid == 0;
}

int jit_perfmap_open(int root_fd, const struct jit_owner *owner)
{
	_cleanup_close_ int folder = proc_beneath_find(root_fd, "/tmp"), path_fd = -1;
	char name[32];
	struct stat st;

	if (folder < 0)
		return folder;
	snprintf(name, sizeof name, "perf-%u.map", owner->status.ns_pid);
	path_fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (path_fd < 0 || fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1 || !owned(&st, owner))
		return -EACCES;
	if ((uint64_t)st.st_mtim.tv_sec * NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec + STARTED_SLACK_NS <
	    owner->started_unix_ns)
		return -ESTALE;
	return proc_beneath_reopen(path_fd, &st);
}

/* Takes another file, or the same one. */
static int take_file(struct jit_source *s, int given)
{
	_cleanup_close_ int fd = given;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENODEV;
	if (s->fd >= 0 && st.st_dev == s->dev && st.st_ino == s->ino)
		return 0;
	jit_source_fini(s);
	jit_source_rewind(s);
	s->fd = TAKE_FD(fd);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

/* Up to where what was read can be compared. */
static uint64_t tail_end(const struct jit_source *s)
{
	return s->offset < s->seen ? s->offset : s->seen;
}

/* Is what was read still there? */
static bool tail_same(const struct jit_source *s)
{
	uint8_t now[JIT_TAIL_BYTES];
	size_t n = s->tail_bytes;

	return pread(s->fd, now, n, (off_t)(tail_end(s) - n)) == (ssize_t)n && memcmp(now, s->tail, n) == 0;
}

static void tail_keep(struct jit_source *s)
{
	uint64_t end = tail_end(s);
	size_t want = end < JIT_TAIL_BYTES ? end : JIT_TAIL_BYTES;
	ssize_t n = pread(s->fd, s->tail, want, (off_t)(end - want));

	s->tail_bytes = n == (ssize_t)want ? (unsigned)want : 0;
}

/* What one look has at hand. */
struct reading {
	struct jit_source *s;
	struct jit_builder b;
	const struct jit_table *old; /* borrowed; in use until there is a table */
	struct jit_look *look;
	uint8_t *window; /* owned */
	bool started;	 /* from nothing: there is a table, be it empty */
};

static void reading_fini(struct reading *x)
{
	jit_builder_fini(&x->b);
	free(x->window);
}

/* Makes a table of what has come so far. */
static int settle(struct reading *x)
{
	struct jit_table *table;
	int r;

	if (!x->b.n && !x->started)
		return 0;
	r = jit_table_new(&table, x->look->table ?: x->old, &x->b, &x->look->n_cut);
	if (r < 0)
		return r;
	jit_table_free(x->look->table);
	x->look->table = table;
	x->started = false;
	return 0;
}

static int parse(struct reading *x, size_t len, uint64_t *ret_used)
{
	size_t used;
	int r;

	if (x->s->dump)
		return jitdump_parse(&x->s->jitdump, &x->b, x->window, len, ret_used);
	r = perfmap_parse(&x->s->map, &x->b, (const char *)x->window, len, &used);
	*ret_used = used;
	return r;
}

static int read_on(struct reading *x)
{
	uint64_t used, n_read = 0;
	int r = 0;

	while (n_read < JIT_LOOK_MAX && x->s->offset < JIT_FILE_MAX && !x->s->jitdump.ended) {
		ssize_t n = pread(x->s->fd, x->window, WINDOW_BYTES, (off_t)x->s->offset);

		if (n <= 0)
			return n < 0 && errno != EINTR ? -errno : r;
		r = parse(x, (size_t)n, &used);
		x->s->offset += used;
		n_read += (uint64_t)n;
		if (r == -ENOSPC) {
			r = settle(x);
			if (r == 0)
				continue;
		}
		if (r < 0 || !used)
			return r;
	}
	x->look->over = x->s->offset >= JIT_FILE_MAX;
	return r;
}

int jit_source_look(struct jit_source *s, int fd, const struct jit_table *old, struct jit_look *ret)
{
	_cleanup_(reading_fini) struct reading x = {.s = s, .old = old, .look = ret};
	uint64_t n_bad;
	struct stat st;
	int r = fd >= 0 ? take_file(s, fd) : 0;

	*ret = (struct jit_look){0};
	if (r < 0 || s->fd < 0)
		return r < 0 ? r : -ENOENT;
	if (fstat(s->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < s->seen || !tail_same(s))
		jit_source_rewind(s);
	if (!s->offset) {
		x.started = old != NULL;
		x.old = NULL;
	}
	s->seen = (uint64_t)st.st_size;
	if (s->seen <= s->offset && !x.started)
		return 0;
	jit_builder_init(&x.b);
	x.window = malloc(WINDOW_BYTES);
	if (!x.window)
		return -ENOMEM;
	n_bad = s->map.n_bad + s->jitdump.n_bad;
	r = read_on(&x);
	if (r == 0 || r == -EBADMSG)
		r = settle(&x) ?: r;
	ret->n_bad = s->map.n_bad + s->jitdump.n_bad - n_bad;
	tail_keep(s);
	if (r == -ENOMEM)
		jit_source_rewind(s); /* what was read may be in no table */
	return r;
}
