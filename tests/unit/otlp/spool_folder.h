// SPDX-License-Identifier: Apache-2.0
/* A folder for a spool, and functions that change the files in it. */
#ifndef TEST_SPOOL_FOLDER_H
#define TEST_SPOOL_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

struct spool_folder {
	char path[64]; /* of the spool */
	char parent[48];
};

static inline void spool_folder_make(struct spool_folder *f)
{
	strcpy(f->parent, "/tmp/test-spool-XXXXXX");
	cr_assert_not_null(mkdtemp(f->parent));
	snprintf(f->path, sizeof f->path, "%s/spool", f->parent);
}

/* The name of the n-th request file, in order; false: there are fewer, or there is no folder yet. */
static inline bool spool_folder_name(const struct spool_folder *f, size_t n, char ret[512])
{
	struct dirent **all;
	int count = scandir(f->path, &all, NULL, alphasort);
	bool found = false;

	if (count < 0)
		return false;
	for (int i = 0; i < count; i++) {
		if (strstr(all[i]->d_name, ".otlp") && n-- == 0) {
			snprintf(ret, 512, "%s/%s", f->path, all[i]->d_name);
			found = true;
		}
		free(all[i]);
	}
	free(all);
	return found;
}

static inline size_t spool_folder_count(const struct spool_folder *f)
{
	char name[512];
	size_t n = 0;

	while (spool_folder_name(f, n, name))
		n++;
	return n;
}

static inline void spool_folder_remove(const struct spool_folder *f)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf '%s'", f->parent);
	cr_assert_eq(system(command), 0);
}

#endif
