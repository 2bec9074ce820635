// SPDX-License-Identifier: Apache-2.0
/*
 * /proc/<pid>/maps and /proc/<pid>/mem for the main loop. Both take the lock of the process's memory, which a
 * task of it may hold for as long as a file system does not answer; reading memory may fault it in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/proc/maps.h"
#include "agent/track_private.h"

#define LINES_MAX 65536u

struct lines_ask {
	struct ask ask;
	bool all;
	track_lines_fn then;
	struct process *process;  /* one reference */
	struct proc_image *image; /* whose mappings they are; one reference */
	size_t n, cap;
	struct proc_maps_line *lines; /* owned, as their paths are */
};

static int line_add(const struct proc_maps_line *line, void *data)
{
	struct lines_ask *l = data;
	struct proc_maps_line *copy;
	char *path = NULL;

	if (l->n == LINES_MAX)
		return -E2BIG;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct proc_maps_line *more = reallocarray(l->lines, cap, sizeof *more);

		if (!more)
			return -ENOMEM;
		l->lines = more;
		l->cap = cap;
	}
	if (line->path && proc_maps_path(line, &path) < 0)
		return -ENOMEM;
	copy = &l->lines[l->n++];
	*copy = *line;
	copy->path = path;
	copy->path_len = path ? strlen(path) : 0;
	copy->escaped = false;
	return 0;
}

static void lines_run(struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);

	/* what was read before an error, such as the end of the process, holds */
	(void)(l->all ? proc_maps_read_all : proc_maps_read)(a->proc_fd, a->pid, line_add, l);
}

static void lines_free(struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);

	for (size_t i = 0; i < l->n; i++)
		free((char *)l->lines[i].path);
	free(l->lines);
	process_unref(l->process);
	proc_image_unref(l->image);
	free(l);
}

static void lines_late(struct track *t, struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);
	const struct track_lines lines = {.n = l->n, .lines = l->lines, .late = true};

	if (!l->process->end_ns && l->process->image->program == l->image->program)
		(void)l->then(t, l->process, &lines);
}

static const struct ask_kind lines_kind = {
	.what = "reading its mappings",
	.run = lines_run,
	.late = lines_late,
	.free = lines_free,
};

static struct lines_ask *lines_new(struct process *p, bool all, track_lines_fn then)
{
	struct lines_ask *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->all = all;
	l->then = then;
	l->process = process_ref(p);
	l->image = proc_image_ref(p->image);
	return l;
}

static int lines_answer(struct track *t, struct lines_ask *l, enum ask_answer answer)
{
	int r = -ETIMEDOUT;

	if (answer == ASK_LATER)
		return -EAGAIN;
	if (answer == ASK_HERE)
		r = l->then(t, l->process, &(struct track_lines){.n = l->n, .lines = l->lines});
	lines_free(&l->ask);
	return r;
}

int track_lines_read(struct track *t, struct process *p, bool all, track_lines_fn then)
{
	struct lines_ask *l = lines_new(p, all, then);

	return l ? lines_answer(t, l, track_ask(t, &l->ask, &lines_kind, p->pid)) : -ENOMEM;
}

struct lines_ask *track_lines_ahead(struct track *t, struct process *p, track_lines_fn then)
{
	struct lines_ask *l = lines_new(p, false, then);

	if (!l || track_ask_ahead(t, &l->ask, &lines_kind, p->pid))
		return l;
	lines_free(&l->ask);
	return NULL;
}

int track_lines_take(struct track *t, struct lines_ask *l)
{
	return lines_answer(t, l, track_ask_take(t, &l->ask));
}

struct text_ask {
	struct ask ask;
	uint64_t start, len, offset;
	int fd; /* owned, names the file */
	enum proc_text result;
};

static void text_run(struct ask *a)
{
	struct text_ask *x = container_of(a, struct text_ask, ask);
	_cleanup_close_ int fd = fs_reopen(x->fd);

	x->result = fd < 0 ? PROC_TEXT_UNKNOWN
			   : proc_text_compare(a->proc_fd, a->pid, x->start, x->len, fd, x->offset);
}

static void text_free(struct ask *a)
{
	struct text_ask *x = container_of(a, struct text_ask, ask);

	if (x->fd >= 0)
		close(x->fd);
	free(x);
}

static const struct ask_kind text_kind = {.what = "reading its memory", .run = text_run, .free = text_free};

enum proc_text track_text_compare(struct track *t, uint32_t pid, uint64_t start, uint64_t len, int fd,
				  uint64_t offset)
{
	struct text_ask *x = calloc(1, sizeof *x);
	enum proc_text result = PROC_TEXT_UNKNOWN;
	enum ask_answer answer;

	if (!x)
		return PROC_TEXT_UNKNOWN;
	x->start = start;
	x->len = len;
	x->offset = offset;
	x->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	answer = track_ask(t, &x->ask, &text_kind, pid);
	if (answer == ASK_LATER)
		return PROC_TEXT_UNKNOWN;
	if (answer == ASK_HERE)
		result = x->result;
	text_free(&x->ask);
	return result;
}
