// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/rule_job.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/version.h"
#include "agent/elf/rule_lookup.h"
#include "agent/base/flat.h"
#include "agent/parser/parser.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

/* What the process needs to know beside the descriptor and the addresses. */
struct wish {
	struct elf_version version;
	uint64_t n;
	bool any_version;
};

static int find(const struct wish *wish, int fd, struct frame_query *query)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct elf_version *version = wish->any_version ? NULL : &wish->version;
	int r = elf_version_open(&img, fd, version);

	if (r == 0)
		r = frame_rules_find(img, query, wish->n);
	return r < 0 ? r : elf_version_still(version, img);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	struct frame_query query[RULE_JOB_MAX];
	struct wish wish;
	int r;

	memset(query, 0, sizeof query);
	flat_get(&request, &wish, sizeof wish);
	if (job->n_fds != 1 || wish.n > RULE_JOB_MAX || !flat_is_bool(&wish.any_version) ||
	    !elf_version_valid(&wish.version))
		return -EINVAL;
	for (size_t i = 0; i < wish.n; i++)
		query[i] = (struct frame_query){.va = flat_u64(&request), .error = -ENOENT};
	r = flat_done(&request) ? find(&wish, job->fds[0], query) : -EINVAL;
	return r < 0 ? r : buf_append(job->answer, query, wish.n * sizeof *query);
}

const struct parser_operation rule_operation = {.name = "rules of single addresses",
						.answer_max = RULE_JOB_MAX * sizeof(struct frame_query),
						.run = run};

int rule_answer_read(struct frame_query *query, size_t n, const void *bytes, size_t len)
{
	struct flat_reader r = flat_read(bytes, len);

	for (size_t i = 0; i < n; i++) {
		struct frame_query answer;

		flat_get(&r, &answer, sizeof answer);
		if (r.bad || answer.va != query[i].va || answer.error > 0 ||
		    (answer.error == 0 && !frame_rule_valid(&answer.rule, answer.va)))
			return -EBADMSG;
		query[i] = answer;
	}
	return flat_done(&r) ? 0 : -EBADMSG;
}

static int write_request(struct buf *request, const struct elf_version *version,
			 const struct frame_query *query, size_t n)
{
	struct wish wish;
	int r;

	memset(&wish, 0, sizeof wish); /* with its padding */
	wish.any_version = !version;
	if (version)
		wish.version = *version;
	wish.n = n;
	r = buf_append(request, &wish, sizeof wish);
	for (size_t i = 0; i < n && r == 0; i++)
		r = flat_put_u64(request, query[i].va);
	return r;
}

int rule_job_run(int fd, const struct elf_version *version, bool of_system, struct frame_query *query,
		 size_t n)
{
	_cleanup_close_ int file = fs_reopen_parts(fd);
	struct parser_call call = {.operation = &rule_operation,
				   .fds = {file},
				   .n_fds = 1,
				   .of_system = of_system,
				   .in_proportion = true};
	_cleanup_buf_ struct buf answer = {0};
	int r;

	if (file < 0)
		return file;
	if (n > RULE_JOB_MAX)
		return -E2BIG;
	r = write_request(&call.request, version, query, n);
	if (r == 0)
		r = parser_call(&call, &answer);
	buf_fini(&call.request);
	return r < 0 ? r : parser_judge(&call, rule_answer_read(query, n, answer.data, answer.len));
}
