// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitopen.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/flat.h"
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

static int open_perfmap(int root_fd, const struct jit_owner *owner, enum jit_refusal *ret_why)
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

static int open_dump(int mapped_fd, const struct jit_owner *owner, enum jit_refusal *ret_why)
{
	int r = check(mapped_fd, owner, ret_why);

	return r < 0 ? r : fs_reopen(mapped_fd); /* it may have O_PATH */
}

/* --- the operation */

struct wish {
	struct jit_owner owner;
	uint64_t dump;
};

struct reply {
	struct jit_file file;
	uint64_t refusal;
};

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS_PER_SEC + (uint64_t)t->tv_nsec;
}

static int hand_over(int fd, int to, struct jit_file *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = (struct jit_file){.dev = st.st_dev,
				 .ino = st.st_ino,
				 .bytes = (uint64_t)st.st_size,
				 .mtime_ns = ns_of(&st.st_mtim),
				 .ctime_ns = ns_of(&st.st_ctim)};
	return parser_fd_send(to, fd);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	enum jit_refusal why = JIT_NOT_REGULAR;
	_cleanup_close_ int fd = -1;
	struct reply reply = {0};
	struct wish wish;
	int r;

	flat_get(&request, &wish, sizeof wish);
	if (!flat_done(&request) || job->n_fds != 2)
		return -EINVAL;
	fd = wish.dump ? open_dump(job->fds[0], &wish.owner, &why)
		       : open_perfmap(job->fds[0], &wish.owner, &why);
	r = fd < 0 ? fd : hand_over(fd, job->fds[1], &reply.file);
	reply.refusal = why;
	return buf_append(job->answer, &reply, sizeof reply) < 0 ? -ENOMEM : r;
}

const struct parser_operation jit_open_operation = {
	.name = "list of generated code", .answer_max = sizeof(struct reply), .run = run, .opens = true};

static int call(struct parser_session *session, struct parser_call *call, struct jit_file *ret,
		enum jit_refusal *ret_why)
{
	_cleanup_buf_ struct buf answer = {0};
	struct reply reply;
	int r = parser_session_call(session, call, &answer);
	struct flat_reader bytes = flat_read(answer.data, answer.len);

	buf_fini(&call->request);
	if (r < 0 && r != -EPERM)
		return r;
	flat_get(&bytes, &reply, sizeof reply);
	if (!flat_done(&bytes) || reply.refusal >= JIT_REFUSALS_N)
		return -EBADMSG;
	*ret_why = (enum jit_refusal)reply.refusal;
	*ret = reply.file;
	return r;
}

static int open_list(struct parser_session *session, int fd, const struct jit_owner *owner, bool dump, int to,
		     struct jit_file *ret, enum jit_refusal *ret_why)
{
	struct parser_call c = {.operation = &jit_open_operation,
				.fds = {fd, to},
				.n_fds = 2,
				.patience_ms = JIT_PATIENCE_MS};
	const struct wish wish = {.owner = *owner, .dump = dump};
	int r = buf_append(&c.request, &wish, sizeof wish);

	return r < 0 ? r : call(session, &c, ret, ret_why);
}

int jit_open_perfmap(struct parser_session *session, int root_fd, const struct jit_owner *owner, int to,
		     struct jit_file *ret, enum jit_refusal *ret_why)
{
	return open_list(session, root_fd, owner, false, to, ret, ret_why);
}

int jit_open_dump(struct parser_session *session, int mapped_fd, const struct jit_owner *owner, int to,
		  struct jit_file *ret, enum jit_refusal *ret_why)
{
	return open_list(session, mapped_fd, owner, true, to, ret, ret_why);
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
