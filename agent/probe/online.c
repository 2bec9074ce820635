// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/online.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/parse.h"

#define CPU_MAX 65535u

static uint64_t life_of(const char *sysfs, int cpu)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "%s/cpu%d/topology", sysfs, cpu);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

static int add_range(struct online *o, const char *sysfs, uint32_t first, uint32_t last)
{
	if (array_resize(&o->v, o->n + last - first + 1, sizeof *o->v) < 0)
		return -ENOMEM;
	for (uint32_t cpu = first; cpu <= last; cpu++)
		o->v[o->n++] = (struct online_cpu){(int)cpu, life_of(sysfs, (int)cpu)};
	return 0;
}

/* Parses a list of CPUs such as "0-3,8". */
static int parse_list(struct online *o, const char *sysfs, char *list)
{
	uint32_t next = 0;
	char *save = NULL;
	int r = 0;

	list[strcspn(list, "\n")] = '\0';
	for (char *range = strtok_r(list, ",", &save); range && r == 0; range = strtok_r(NULL, ",", &save)) {
		char *dash = strchr(range, '-');
		uint32_t first, last;

		if (dash)
			*dash = '\0';
		if (parse_u32(range, &first) < 0 || parse_u32(dash ? dash + 1 : range, &last) < 0 ||
		    first < next || last < first || last > CPU_MAX)
			return -EBADMSG;
		r = add_range(o, sysfs, first, last);
		next = last + 1;
	}
	return r;
}

static int read_online(struct online *o, const char *sysfs)
{
	_cleanup_buf_ struct buf text = {0};
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof path, "%s/online", sysfs);
	r = fs_read_file(path, 65536, &text);
	if (r < 0)
		return r;
	buf_str(&text);
	return text.len ? parse_list(o, sysfs, (char *)text.data) : -EBADMSG;
}

static bool has(const struct online *o, struct online_cpu x)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].cpu == x.cpu)
			return o->v[i].life == x.life;
	return false;
}

int online_follow(struct online *o, const char *sysfs, online_fn fn, void *data)
{
	_cleanup_(online_fini) struct online now = {0};
	int changes = 0, error = 0, r = read_online(&now, sysfs);
	size_t n = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < o->n; i++)
		if (!has(&now, o->v[i])) {
			(void)fn(o->v[i].cpu, false, data);
			changes++;
		}
	for (size_t i = 0; i < now.n; i++) {
		if (!has(o, now.v[i])) {
			r = fn(now.v[i].cpu, true, data);
			changes++;
			if (r < 0) {
				error = r;
				continue;
			}
		}
		now.v[n++] = now.v[i];
	}
	online_fini(o);
	*o = (struct online){TAKE_PTR(now.v), n};
	return error ?: changes;
}

void online_fini(struct online *o)
{
	free(o->v);
	*o = (struct online){0};
}
