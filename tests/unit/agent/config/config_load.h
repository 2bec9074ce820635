// SPDX-License-Identifier: Apache-2.0
/*
 * What the tests of the configuration share: one load from a file, the environment and options given as text.
 */
#ifndef PROFLET_TEST_CONFIG_LOAD_H
#define PROFLET_TEST_CONFIG_LOAD_H

#include <criterion/criterion.h>
#include <string.h>

#include "agent/config/config.h"

#define MAX_ARGS 24

/* Runs config_load on blank-separated options; the file, if any, is written to a temporary place first. */
struct load {
	struct config *config;
	char *error;
	char path[64];
	int r, first;
};

static inline void load_fini(struct load *l)
{
	config_free(l->config);
	free(l->error);
	if (l->path[0])
		unlink(l->path);
}

static inline void load(struct load *l, const char *yaml, const char *options,
			const struct config_extra_option *extra, size_t n_extra)
{
	char *argv[MAX_ARGS] = {(char *)"run"}, text[512];
	int argc = 1, fd;

	*l = (struct load){0};
	if (yaml) {
		strcpy(l->path, "/tmp/proflet-test-XXXXXX");
		fd = mkstemp(l->path);
		cr_assert(fd >= 0);
		cr_assert_eq(write(fd, yaml, strlen(yaml)), (ssize_t)strlen(yaml));
		close(fd);
		argv[argc++] = (char *)"--config";
		argv[argc++] = l->path;
	}
	snprintf(text, sizeof text, "%s", options ? options : "");
	for (char *rest = text, *word; argc < MAX_ARGS && (word = strsep(&rest, " "));)
		if (*word)
			argv[argc++] = word;
	l->r = config_load(&l->config, argc, argv, extra, n_extra, extra ? &l->first : NULL, &l->error);
}

static inline void set_environment(const char *assignments)
{
	char text[512];

	snprintf(text, sizeof text, "%s", assignments ? assignments : "");
	for (char *rest = text, *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');

		if (value) {
			*value = '\0';
			setenv(word, value + 1, 1);
		}
	}
}

static inline void clear_environment(const char *assignments)
{
	char text[512];

	snprintf(text, sizeof text, "%s", assignments ? assignments : "");
	for (char *rest = text, *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');

		if (value) {
			*value = '\0';
			unsetenv(word);
		}
	}
}

#endif
