// SPDX-License-Identifier: Apache-2.0
/*
 * A process may have 130,000 mappings, about 10 MB of text, so the file is never in memory as a whole: it is
 * read through a window of PROC_MAPS_LINE_MAX bytes. The kernel returns whole lines in pieces of about a page
 * and takes the list's lock for each piece, so after a change in between a mapping may be missing or occur
 * twice, but a line is never torn.
 */
#include "agent/proc/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/entry.h"
#include "agent/proc/scan.h"

#define DELETED " (deleted)"
#define ESCAPE "\\012" /* seq_path(…, "\n") escapes only the newline here */

/* The bytes that are not parsed yet. */
struct text {
	const char *p, *end;
};

/* Consumes 1–16 hexadecimal or 1–20 decimal digits; false if the number does not fit. */
static bool take_number(struct text *t, unsigned base, uint64_t max, uint64_t *ret)
{
	const char *start = t->p;
	uint64_t v = 0;

	for (; t->p < t->end; t->p++) {
		char c = *t->p;
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else
			break;
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v))
			return false;
	}
	*ret = v;
	return t->p > start && v <= max;
}

static bool take_char(struct text *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

/* Consumes one permission: the letter sets the flag, `otherwise` clears it. */
static bool take_flag(struct text *t, char letter, char otherwise, bool *ret)
{
	*ret = t->p < t->end && *t->p == letter;
	return take_char(t, *ret ? letter : otherwise);
}

static bool take_fields(struct text *t, struct proc_maps_line *line)
{
	uint64_t major, minor;

	if (!take_number(t, 16, UINT64_MAX, &line->start) || !take_char(t, '-') ||
	    !take_number(t, 16, UINT64_MAX, &line->end) || !take_char(t, ' '))
		return false;
	if (!take_flag(t, 'r', '-', &line->readable) || !take_flag(t, 'w', '-', &line->writable) ||
	    !take_flag(t, 'x', '-', &line->executable) || !take_flag(t, 's', 'p', &line->shared) ||
	    !take_char(t, ' '))
		return false;
	if (!take_number(t, 16, UINT64_MAX, &line->offset) || !take_char(t, ' ') ||
	    !take_number(t, 16, UINT32_MAX, &major) || !take_char(t, ':') ||
	    !take_number(t, 16, UINT32_MAX, &minor) || !take_char(t, ' ') ||
	    !take_number(t, 10, UINT64_MAX, &line->inode))
		return false;
	line->dev_major = (uint32_t)major;
	line->dev_minor = (uint32_t)minor;
	return line->start < line->end;
}

static void take_path(struct text *t, struct proc_maps_line *line)
{
	const size_t deleted = sizeof DELETED - 1;
	size_t len;

	while (take_char(t, ' '))
		;
	len = (size_t)(t->end - t->p);
	if (!len)
		return;
	if (len > deleted && memcmp(t->end - deleted, DELETED, deleted) == 0) {
		line->deleted = true;
		len -= deleted;
	}
	line->path = t->p;
	line->path_len = len;
	line->escaped = memmem(t->p, len, ESCAPE, sizeof ESCAPE - 1) != NULL;
}

int proc_maps_parse_line(const char *line, size_t len, struct proc_maps_line *ret)
{
	struct text t = {line, line + len};
	struct proc_maps_line parsed = {0};

	if (!len || memchr(line, '\n', len) || memchr(line, '\0', len))
		return -EINVAL;
	if (!take_fields(&t, &parsed))
		return -EINVAL;
	if (t.p < t.end && *t.p != ' ')
		return -EINVAL;
	take_path(&t, &parsed);
	*ret = parsed;
	return 0;
}

int proc_maps_path(const struct proc_maps_line *line, char **ret)
{
	const char *p = line->path, *end;
	char *path, *out;

	if (!p)
		return -ENOENT;
	path = malloc(line->path_len + 1);
	if (!path)
		return -ENOMEM;
	end = p + line->path_len;
	out = path;
	while (p < end) {
		if ((size_t)(end - p) >= sizeof ESCAPE - 1 && memcmp(p, ESCAPE, sizeof ESCAPE - 1) == 0) {
			*out++ = '\n';
			p += sizeof ESCAPE - 1;
		} else {
			*out++ = *p++;
		}
	}
	*out = '\0';
	*ret = path;
	return 0;
}

/* The window over the file. */
struct window {
	char *text; /* PROC_MAPS_LINE_MAX bytes, owned */
	size_t len;
	bool skipping; /* inside a line that was too long, until its newline */
	bool any;      /* the file was not empty */
	bool all;      /* all mappings, not only executable ones */
	int stopped;   /* fn's negative result, stored apart from read errors */
	int n_dropped;
	proc_maps_fn fn;
	void *data;
};

static int line_report(struct window *w, const char *line, size_t len)
{
	struct proc_maps_line parsed;
	int r;

	if (w->skipping) {
		w->skipping = false; /* the line was counted at its beginning */
		return 0;
	}
	if (proc_maps_parse_line(line, len, &parsed) < 0) {
		w->n_dropped++;
		return 0;
	}
	if (!parsed.executable && !w->all)
		return 0;
	r = w->fn(&parsed, w->data);
	if (r < 0)
		w->stopped = r;
	return w->stopped;
}

/* Reports the complete lines in the window and moves the remaining bytes to its front. */
static int window_consume(struct window *w)
{
	char *p = w->text, *end = w->text + w->len, *newline;

	while ((newline = memchr(p, '\n', (size_t)(end - p)))) {
		int r = line_report(w, p, (size_t)(newline - p));

		if (r < 0)
			return r;
		p = newline + 1;
	}
	w->len = (size_t)(end - p);
	memmove(w->text, p, w->len);
	if (w->len == PROC_MAPS_LINE_MAX) {
		w->n_dropped += !w->skipping;
		w->skipping = true;
		w->len = 0;
	}
	return 0;
}

static int maps_stream(int fd, struct window *w)
{
	for (;;) {
		ssize_t n = proc_read(fd, w->text + w->len, PROC_MAPS_LINE_MAX - w->len);
		int r;

		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		w->any = true;
		w->len += (size_t)n;
		r = window_consume(w);
		if (r < 0)
			return r;
	}
	/* The kernel ends every line with a newline; the last line of a copy may lack it. */
	return w->len || w->skipping ? line_report(w, w->text, w->len) : 0;
}

static int maps_read_file(int proc_fd, uint32_t pid, const char *name, struct window *w)
{
	_cleanup_close_ int fd = proc_entry_open(proc_fd, pid, name, O_RDONLY);

	int r;

	if (fd < 0)
		return fd;
	r = maps_stream(fd, w);
	return r == -ESRCH && !w->stopped ? proc_entry_error(proc_fd, pid, ESRCH) : r;
}

struct thread_try {
	int proc_fd;
	uint32_t pid;
	struct window *window;
	int result;
};

static int thread_maps_try(uint32_t tid, void *data)
{
	struct thread_try *t = data;
	char name[32];

	if (tid == t->pid)
		return 0;
	snprintf(name, sizeof name, "task/%u/maps", tid);
	t->result = maps_read_file(t->proc_fd, t->pid, name, t->window);
	if (t->result == -ENOENT && !t->window->stopped)
		t->result = 0; /* that thread has ended or has no mappings either */
	return t->result < 0 || t->window->any ? -ECANCELED : 0;
}

static int maps_read(int proc_fd, uint32_t pid, bool all, proc_maps_fn fn, void *data)
{
	_cleanup_free_ char *text = malloc(PROC_MAPS_LINE_MAX);
	struct window w = {.text = text, .all = all, .fn = fn, .data = data};
	struct thread_try t = {.proc_fd = proc_fd, .pid = pid, .window = &w};
	int r;

	if (!text)
		return -ENOMEM;
	r = maps_read_file(proc_fd, pid, "maps", &w);
	/* No mappings: depending on its version, the kernel returns an error or an empty file. */
	if (!w.stopped && (r == -ENOENT || (r == 0 && !w.any))) {
		r = proc_scan_threads(proc_fd, pid, thread_maps_try, &t);
		r = r == -ECANCELED ? t.result : r == -ENOENT ? 0 : r;
	}
	if (w.stopped)
		return w.stopped;
	return r < 0 ? r : w.n_dropped;
}

int proc_maps_read(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data)
{
	return maps_read(proc_fd, pid, false, fn, data);
}

int proc_maps_read_all(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data)
{
	return maps_read(proc_fd, pid, true, fn, data);
}
