// SPDX-License-Identifier: Apache-2.0
#include "agent/command/record_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/output/folded.h"
#include "agent/output/html.h"
#include "agent/output/perf.h"
#include "agent/output/pprof.h"
#include "agent/output/profile.h"
#include "otlp/request.h"

struct content {
	const struct record_files *files;
	const struct output_profile *profile;
	const struct record_growing *growing;
};

struct record_otlp {
	FILE *file;
	char *part;	   /* its name while it grows; owned */
	bool complete;	   /* it has its request */
	int error;	   /* the first */
	uint64_t left_out; /* samples */
};

struct record_perf {
	FILE *samples; /* owned, without a name */
	struct output_perf *perf;
};

DEFINE_CLEANUP(struct record_perf *, record_perf_free)

static int write_html(const struct content *c, FILE *f)
{
	return output_html_write(c->profile, NULL, f);
}

static int write_folded(const struct content *c, FILE *f)
{
	struct output_folded_options o = {.by_container = c->files->by_container,
					  .by_thread = c->files->by_thread};

	return output_folded_write(c->profile, &o, f);
}

static int write_pprof(const struct content *c, FILE *f)
{
	return output_pprof_write(c->profile, f);
}

static int write_perf(const struct content *c, FILE *f)
{
	return output_perf_write(c->growing->perf->perf, output_profile_info(c->profile), true, f);
}

static int write_perf_flat(const struct content *c, FILE *f)
{
	return output_perf_write(c->growing->perf->perf, output_profile_info(c->profile), false, f);
}

static const struct format {
	const char *name, *extension;
	int (*write)(const struct content *c, FILE *f); /* NULL: that has been done */
	bool by_name;					/* only where it is named */
} formats[] = {
	{"html", "html", write_html, false},	 {"folded", "folded", write_folded, false},
	{"pprof", "pb.gz", write_pprof, false},	 {"otlp", "otlp", NULL, false},
	{"perf", "perf.data", write_perf, true}, {"perf-flat", "flat.perf.data", write_perf_flat, true},
};

static bool is_named(const struct config_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i], name) == 0)
			return true;
	return false;
}

static bool wanted(const struct config_list *list, const struct format *format)
{
	return is_named(list, format->name) || (list->n == 0 && !format->by_name);
}

const char *record_files_format(const char *path, size_t *ret_len)
{
	size_t n = strlen(path), longest = 0;
	const char *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		size_t len = strlen(formats[i].extension) + 1;

		if (n <= len || len <= longest || path[n - len] != '.' ||
		    strcmp(path + n - len + 1, formats[i].extension) != 0)
			continue;
		longest = len;
		found = formats[i].name;
	}
	*ret_len = n - longest;
	return found;
}

/* Closes PATH.part and renames it, so that readers never see an incomplete file. */
static int put_in_place(FILE *f, int error, const char *part, const char *path)
{
	if (fclose(f) != 0 && error == 0)
		error = -errno;
	if (error == 0 && rename(part, path) < 0)
		error = -errno;
	if (error < 0)
		remove(part);
	return error;
}

static bool to_stdout(const struct record_files *files)
{
	return strcmp(files->path, RECORD_STDOUT) == 0;
}

const char *record_files_refusal(const struct record_files *files)
{
	if (!to_stdout(files))
		return NULL;
	if (files->formats->n != 1)
		return "it takes one --format";
	if (record_perf_wanted(files))
		return "perf.data has its sizes at the beginning, so it needs a file: -o PATH";
	if (isatty(STDOUT_FILENO) && !is_named(files->formats, "folded"))
		return "it would go to the terminal: redirect it to a file, or give -o PATH";
	return NULL;
}

/* What is written to standard output is not renamed, and nothing removes a part of it. */
static int finish_stdout(FILE *f, int error)
{
	if (fflush(f) != 0 && error == 0)
		error = -errno;
	return error;
}

static int open_part(const char *path, char **ret_part, FILE **ret)
{
	_cleanup_free_ char *part = NULL;

	if (asprintf(&part, "%s.part", path) < 0) {
		part = NULL;
		return -ENOMEM;
	}
	*ret = fopen(part, "we");
	if (!*ret)
		return -errno;
	*ret_part = TAKE_PTR(part);
	return 0;
}

static int write_one(const struct format *format, const struct content *c, const char *path)
{
	_cleanup_free_ char *part = NULL;
	FILE *f;
	int r;

	struct record_otlp *otlp = c->growing->otlp;

	if (to_stdout(c->files))
		return finish_stdout(stdout, format->write ? format->write(c, stdout) : otlp->error);
	if (!format->write && otlp)
		return put_in_place(TAKE_PTR(otlp->file), otlp->error, otlp->part, path);
	r = open_part(path, &part, &f);
	return r < 0 ? r : put_in_place(f, format->write ? format->write(c, f) : 0, part, path);
}

/* --- the OTLP file */

int record_otlp_new(struct record_otlp **ret, const struct record_files *files, char **ret_failed)
{
	_cleanup_free_ struct record_otlp *o = NULL;
	_cleanup_free_ char *path = NULL;
	int r;

	*ret = NULL;
	*ret_failed = NULL;
	if (files->formats->n && !is_named(files->formats, "otlp"))
		return 0;
	o = calloc(1, sizeof *o);
	if (o && to_stdout(files)) {
		o->file = stdout;
		*ret = TAKE_PTR(o);
		return 0;
	}
	if (!o || asprintf(&path, "%s.otlp", files->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = open_part(path, &o->part, &o->file);
	if (r < 0)
		*ret_failed = TAKE_PTR(path);
	else
		*ret = TAKE_PTR(o);
	return r;
}

void record_otlp_free(struct record_otlp *o)
{
	if (!o)
		return;
	if (o->file && o->part) {
		fclose(o->file);
		remove(o->part);
	}
	free(o->part);
	free(o);
}

void record_otlp_append(struct record_otlp *o, const void *bytes, size_t len)
{
	if (!o->complete && o->error == 0 && fwrite(bytes, 1, len, o->file) != len)
		o->error = errno ? -errno : -EIO;
}

void record_otlp_finish(struct record_otlp *o, struct otlp_request *request)
{
	record_otlp_append(o, request->data.data, request->data.len);
	o->left_out += o->complete ? request->n_samples : 0;
	o->complete = true;
	otlp_request_free(request);
}

uint64_t record_otlp_left_out(const struct record_otlp *o)
{
	return o ? o->left_out : 0;
}

/* --- the samples of perf.data */

int record_perf_new(struct record_perf **ret, const struct record_files *files, char **ret_failed)
{
	_cleanup_(record_perf_free_p) struct record_perf *p = NULL;
	_cleanup_free_ char *path = NULL;

	*ret = NULL;
	*ret_failed = NULL;
	if (!record_perf_wanted(files))
		return 0;
	p = calloc(1, sizeof *p);
	if (!p || asprintf(&path, "%s.perf.part", files->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	p->samples = fopen(path, "w+e");
	if (!p->samples || remove(path) < 0) {
		int r = -errno;

		*ret_failed = TAKE_PTR(path);
		return r;
	}
	*ret = TAKE_PTR(p);
	return output_perf_new(&(*ret)->perf, (*ret)->samples);
}

bool record_perf_wanted(const struct record_files *files)
{
	return is_named(files->formats, "perf") || is_named(files->formats, "perf-flat");
}

void record_perf_free(struct record_perf *p)
{
	if (!p)
		return;
	output_perf_free(p->perf);
	if (p->samples)
		fclose(p->samples);
	free(p);
}

void record_perf_add(struct record_perf *p, const struct output_stack *stack, uint32_t frequency_hz)
{
	if (p)
		(void)output_perf_add(p->perf, stack, frequency_hz);
}

uint64_t record_perf_unmapped(const struct record_perf *p)
{
	return p ? output_perf_unmapped(p->perf) : 0;
}

/* The directory of a file; owned, NULL: out of memory. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int record_files_check(const struct record_files *files, bool overwrite, char **ret_failed)
{
	_cleanup_free_ char *folder = folder_of(files->path);

	*ret_failed = NULL;
	if (to_stdout(files))
		return 0;
	if (!folder)
		return -ENOMEM;
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0) {
		int r = -errno;

		*ret_failed = TAKE_PTR(folder);
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats) && !overwrite; i++) {
		_cleanup_free_ char *path = NULL;

		if (!wanted(files->formats, &formats[i]))
			continue;
		if (asprintf(&path, "%s.%s", files->path, formats[i].extension) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			*ret_failed = TAKE_PTR(path);
			return -EEXIST;
		}
	}
	return 0;
}

int record_files_write(const struct record_files *files, const struct output_profile *profile,
		       const struct record_growing *growing, char **ret_failed)
{
	const struct content c = {files, profile, growing};
	int first = 0;

	*ret_failed = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		_cleanup_free_ char *path = NULL;
		int r;

		if (!wanted(files->formats, &formats[i]))
			continue;
		if (asprintf(&path, "%s.%s", files->path, formats[i].extension) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		r = write_one(&formats[i], &c, path);
		if (r == 0 && !to_stdout(files)) {
			fprintf(files->names ? files->names : stdout, "%s\n", path);
		} else if (r < 0 && first == 0) {
			first = r;
			*ret_failed = TAKE_PTR(path);
		}
	}
	return first;
}
