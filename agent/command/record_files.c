// SPDX-License-Identifier: Apache-2.0
#include "agent/command/record_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/output/folded.h"
#include "agent/output/html.h"
#include "agent/output/pprof.h"
#include "otlp/request.h"

struct content {
	const struct record_files *files;
	const struct output_profile *profile;
	const struct otlp_request *request;
};

static int write_html(const struct content *c, FILE *f)
{
	return output_html_write(c->profile, f);
}

static int write_folded(const struct content *c, FILE *f)
{
	struct output_folded_options o = {.by_container = c->files->by_container};

	return output_folded_write(c->profile, &o, f);
}

static int write_pprof(const struct content *c, FILE *f)
{
	return output_pprof_write(c->profile, f);
}

static int write_otlp(const struct content *c, FILE *f)
{
	if (c->request && fwrite(c->request->data.data, 1, c->request->data.len, f) != c->request->data.len)
		return -EIO;
	return 0;
}

static const struct format {
	const char *name, *extension;
	int (*write)(const struct content *c, FILE *f);
} formats[] = {
	{"html", "html", write_html},
	{"folded", "folded", write_folded},
	{"pprof", "pb.gz", write_pprof},
	{"otlp", "otlp", write_otlp},
};

static bool wanted(const struct config_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i], name) == 0)
			return true;
	return list->n == 0;
}

/* Writes PATH.part and renames it, so that readers never see an incomplete file. */
static int write_one(const struct format *format, const struct content *c, const char *path)
{
	_cleanup_free_ char *part = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	int r;

	if (asprintf(&part, "%s.part", path) < 0) {
		part = NULL;
		return -ENOMEM;
	}
	f = fopen(part, "we");
	if (!f)
		return -errno;
	r = format->write(c, f);
	if (r == 0 && fclose(TAKE_PTR(f)) != 0)
		r = -errno;
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		remove(part);
	return r;
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
	if (!folder)
		return -ENOMEM;
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0) {
		int r = -errno;

		*ret_failed = TAKE_PTR(folder);
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats) && !overwrite; i++) {
		_cleanup_free_ char *path = NULL;

		if (!wanted(files->formats, formats[i].name))
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
		       const struct otlp_request *request, char **ret_failed)
{
	const struct content c = {files, profile, request};
	int first = 0;

	*ret_failed = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		_cleanup_free_ char *path = NULL;
		int r;

		if (!wanted(files->formats, formats[i].name))
			continue;
		if (asprintf(&path, "%s.%s", files->path, formats[i].extension) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		r = write_one(&formats[i], &c, path);
		if (r == 0) {
			printf("%s\n", path);
		} else if (first == 0) {
			first = r;
			*ret_failed = TAKE_PTR(path);
		}
	}
	return first;
}
