// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitopen.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/proc/beneath.h"

/* The kernel takes the times of files from the last tick. */
#define STARTED_SLACK_NS (1 * NS_PER_SEC)

/* A file that is renamed into /tmp may be anyone's: each user of the process must be its owner. */
static bool is_own(const struct stat *st, const struct jit_owner *owner)
{
	for (size_t i = 0; i < ARRAY_SIZE(owner->status.uids); i++)
		if (st->st_uid != owner->status.uids[i])
			return false;
	return true;
}

static int refuse(enum jit_refusal *ret_why, enum jit_refusal why)
{
	*ret_why = why;
	return -EPERM;
}

static int check(int fd, const struct jit_owner *owner, enum jit_refusal *ret_why)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return refuse(ret_why, JIT_NOT_REGULAR);
	if (!is_own(&st, owner))
		return refuse(ret_why, JIT_FOREIGN);
	if (st.st_nlink > 1)
		return refuse(ret_why, JIT_LINKED);
	if ((uint64_t)st.st_mtim.tv_sec * NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec + STARTED_SLACK_NS <
	    owner->started_unix_ns)
		return refuse(ret_why, JIT_OLD);
	return 0;
}

int jit_open_perfmap(int root_fd, const struct jit_owner *owner, enum jit_refusal *ret_why)
{
	_cleanup_close_ int folder = proc_beneath_find(root_fd, "/tmp"), path_fd = -1;
	char name[32];
	struct stat st;
	int r;

	if (folder < 0)
		return folder;
	snprintf(name, sizeof name, "perf-%u.map", owner->status.ns_pid);
	path_fd = proc_beneath_entry(folder, name);
	if (path_fd < 0)
		return path_fd == -EXDEV ? refuse(ret_why, JIT_MOUNTED) : path_fd;
	r = check(path_fd, owner, ret_why);
	return r < 0 ? r : proc_beneath_reopen(path_fd, &st);
}

int jit_open_dump(int mapped_fd, const struct jit_owner *owner, enum jit_refusal *ret_why)
{
	int r = check(mapped_fd, owner, ret_why);

	return r < 0 ? r : fs_reopen(mapped_fd);
}

const char *jit_refusal_name(enum jit_refusal r)
{
	static const char *const names[] = {
#define X(name, label, text) [name] = (label),
		JIT_REFUSALS(X)
#undef X
	};

	return names[r];
}

const char *jit_refusal_text(enum jit_refusal r)
{
	static const char *const texts[] = {
#define X(name, label, text) [name] = (text),
		JIT_REFUSALS(X)
#undef X
	};

	return texts[r];
}
