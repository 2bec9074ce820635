// SPDX-License-Identifier: Apache-2.0
/* The files that a recording writes. */
#ifndef PROFLET_RECORD_FILES_H
#define PROFLET_RECORD_FILES_H

#include <stdbool.h>

struct config_list;
struct otlp_request;
struct output_profile;

/* What to write; `formats` are some of html, folded, pprof, otlp. */
struct record_files {
	const char *path;		   /* without extension */
	const struct config_list *formats; /* empty: all */
	bool by_container;
};

/*
 * Checks before a recording whether its files can be written. 0, or -errno of the file or directory that
 * *ret_failed (owned) names (-EEXIST: it exists and must not be overwritten); -ENOMEM leaves it NULL.
 */
int record_files_check(const struct record_files *files, bool overwrite, char **ret_failed);
/*
 * Writes PATH.html, PATH.folded, PATH.pb.gz and PATH.otlp, each whole or not at all, and prints the name of
 * each. `request` may be NULL (no samples: the .otlp file is empty). 0, or the first error: -errno of the
 * file that *ret_failed (owned) names; the others are written all the same.
 */
int record_files_write(const struct record_files *files, const struct output_profile *profile,
		       const struct otlp_request *request, char **ret_failed);

#endif
