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
#include "agent/track/track_private.h"

#define LINES_MAX 65536u
#define CHUNKS_MAX (LINES_MAX / TRACK_LINES_CHUNK)

struct lines_ask {
	struct ask ask;
	bool all;
	track_lines_fn then;
	struct process *process;  /* one reference */
	struct proc_image *image; /* whose mappings they are; one reference */
	uint64_t last_end;	  /* of the line before, which was that */
	enum { LINE_OTHER, LINE_OF_FILE, LINE_BARE_CODE } last;
	bool beside_file;
	size_t n;
	struct proc_maps_line *chunks[CHUNKS_MAX]; /* owned, as their paths are */
};

const struct proc_maps_line *track_line(const struct track_lines *l, size_t i)
{
	return &l->chunks[i / TRACK_LINES_CHUNK][i % TRACK_LINES_CHUNK];
}

/* Room for one more. */
static struct proc_maps_line *line_slot(struct lines_ask *l)
{
	struct proc_maps_line **chunk = &l->chunks[l->n / TRACK_LINES_CHUNK];

	if (!*chunk)
		*chunk = malloc(TRACK_LINES_CHUNK * sizeof **chunk);
	return *chunk ? &(*chunk)[l->n % TRACK_LINES_CHUNK] : NULL;
}

/* Does code without a file stand beside a file? */
static void note_neighbour(struct lines_ask *l, const struct proc_maps_line *line)
{
	int kind = line->inode ? LINE_OF_FILE : line->executable ? LINE_BARE_CODE : LINE_OTHER;

	l->beside_file |= line->start == l->last_end && kind + l->last == LINE_OF_FILE + LINE_BARE_CODE;
	l->last_end = line->end;
	l->last = kind;
}

static int line_add(const struct proc_maps_line *line, void *data)
{
	struct lines_ask *l = data;
	struct proc_maps_line *copy;
	char *path = NULL;

	note_neighbour(l, line);
	if (!line->executable && !l->all)
		return 0;
	if (l->n == LINES_MAX)
		return -E2BIG;
	copy = line_slot(l);
	if (!copy)
		return -ENOMEM;
	if (line->path && proc_maps_path(line, &path) < 0)
		return -ENOMEM;
	*copy = *line;
	copy->path = path;
	copy->path_len = path ? strlen(path) : 0;
	copy->escaped = false;
	l->n++;
	return 0;
}

static void lines_run(struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);

	/* what was read before an error, such as the end of the process, holds */
	(void)proc_maps_read_all(a->proc_fd, a->pid, line_add, l);
}

static void lines_free(struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);

	for (size_t i = 0; i < l->n; i++)
		free((char *)l->chunks[i / TRACK_LINES_CHUNK][i % TRACK_LINES_CHUNK].path);
	for (size_t i = 0; i < CHUNKS_MAX && l->chunks[i]; i++)
		free(l->chunks[i]);
	process_unref(l->process);
	proc_image_unref(l->image);
	free(l);
}

static int lines_tell(struct track *t, struct lines_ask *l)
{
	const struct track_lines lines = {l->n, l->chunks, l->beside_file};

	return l->then(t, l->process, &lines);
}

static void lines_late(struct track *t, struct ask *a)
{
	struct lines_ask *l = container_of(a, struct lines_ask, ask);

	if (!l->process->end_ns && l->process->image->program == l->image->program)
		(void)lines_tell(t, l);
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
		r = lines_tell(t, l);
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
