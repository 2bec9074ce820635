// SPDX-License-Identifier: Apache-2.0
/*
 * Reading maps takes the lock of the process's memory. A task of the process may hold it for as long as a
 * file system does not answer.
 */
#include "agent/track/map_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/image.h"
#include "agent/proc/process.h"

#define LINES_MAX 65536u
#define CHUNKS_MAX (LINES_MAX / MAP_LINES_CHUNK)

struct map_lines_request {
	struct request request;
	bool all;
	map_lines_fn fn;
	void *data;
	struct process *process;  /* one reference */
	struct proc_image *image; /* that ran when the request was made; one reference */
	uint64_t last_end;	  /* of the previous line, of which `last` says what it was */
	enum { LINE_OTHER, LINE_OF_FILE, LINE_BARE_CODE } last;
	bool beside_file;
	bool incomplete;
	size_t n;
	struct proc_maps_line *chunks[CHUNKS_MAX]; /* owned, as their paths are */
};

/* Where the next line goes. */
static struct proc_maps_line *line_slot(struct map_lines_request *l)
{
	struct proc_maps_line **chunk = &l->chunks[l->n / MAP_LINES_CHUNK];

	if (!*chunk)
		*chunk = malloc(MAP_LINES_CHUNK * sizeof **chunk);
	return *chunk ? &(*chunk)[l->n % MAP_LINES_CHUNK] : NULL;
}

/* Notes whether code without a file is adjacent to a file's mapping. */
static void note_neighbour(struct map_lines_request *l, const struct proc_maps_line *line)
{
	int kind = line->inode ? LINE_OF_FILE : line->executable ? LINE_BARE_CODE : LINE_OTHER;

	l->beside_file |= line->start == l->last_end && kind + l->last == LINE_OF_FILE + LINE_BARE_CODE;
	l->last_end = line->end;
	l->last = kind;
}

static int line_add(const struct proc_maps_line *line, void *data)
{
	struct map_lines_request *l = data;
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

/* Lines that were read before an error, such as the end of the process, are valid. */
static void lines_run(struct request *q)
{
	struct map_lines_request *l = container_of(q, struct map_lines_request, request);

	l->incomplete = q->proc.ops->maps(q->proc.data, q->pid, line_add, l) == -ENOMEM;
}

static void lines_free(struct request *q)
{
	struct map_lines_request *l = container_of(q, struct map_lines_request, request);

	for (size_t i = 0; i < l->n; i++)
		free((char *)l->chunks[i / MAP_LINES_CHUNK][i % MAP_LINES_CHUNK].path);
	for (size_t i = 0; i < CHUNKS_MAX && l->chunks[i]; i++)
		free(l->chunks[i]);
	process_read_end(l->process);
	process_unref(l->process);
	proc_image_unref(l->image);
	free(l);
}

static int hand_over(struct map_lines_request *l)
{
	const struct map_lines lines = {l->n, l->chunks, l->beside_file, l->incomplete};

	return l->fn(l->process, &lines, l->data);
}

static void lines_late(struct request *q)
{
	struct map_lines_request *l = container_of(q, struct map_lines_request, request);

	if (!l->process->end_ns && l->process->image->program == l->image->program)
		(void)hand_over(l);
}

static const struct request_kind lines_kind = {
	.what = "reading its mappings",
	.run = lines_run,
	.late = lines_late,
	.free = lines_free,
};

static struct map_lines_request *lines_new(struct process *p, bool all, map_lines_fn fn, void *data)
{
	struct map_lines_request *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->all = all;
	l->fn = fn;
	l->data = data;
	l->process = process_ref(p);
	process_read_begin(p);
	l->image = proc_image_ref(p->image);
	return l;
}

static int lines_answer(struct map_lines_request *l, enum request_result result)
{
	int r = -ETIMEDOUT;

	if (result == REQUEST_LATER)
		return -EAGAIN;
	if (result == REQUEST_DONE)
		r = hand_over(l);
	lines_free(&l->request);
	return r;
}

int map_lines_read(struct requests *r, struct process *p, bool all, map_lines_fn fn, void *data)
{
	struct map_lines_request *l = lines_new(p, all, fn, data);

	return l ? lines_answer(l, requests_make(r, &l->request, &lines_kind, p->pid)) : -ENOMEM;
}

struct map_lines_request *map_lines_begin(struct requests *r, struct process *p, map_lines_fn fn, void *data,
					  int *ret_error)
{
	struct map_lines_request *l = lines_new(p, false, fn, data);

	if (l && requests_begin(r, &l->request, &lines_kind, p->pid))
		return l;
	*ret_error = l ? -ETIMEDOUT : -ENOMEM;
	if (l)
		lines_free(&l->request);
	return NULL;
}

int map_lines_wait(struct requests *r, struct map_lines_request *l)
{
	return lines_answer(l, requests_wait(r, &l->request));
}
