// SPDX-License-Identifier: Apache-2.0
/* What is known of a runtime comes before its table, and once; nothing comes early of other files. */
#include "agent/unwind/table_job.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/facts.h"
#include "agent/unwind/debug_search.h"
#include "tests/unit/agent/elf/runtime/runtime_file.h"

static const int32_t version[] = {9, 8, 7}; /* whose layout is not known */
static const struct runtime_symbol of_v8[] = {
	{"_ZN2v88internal7Version6major_E", RUNTIME_VA, 4, OBJECT},
	{"_ZN2v88internal7Version6minor_E", RUNTIME_VA + 4, 4, OBJECT},
	{"_ZN2v88internal7Version6build_E", RUNTIME_VA + 8, 4, OBJECT},
};
static const struct runtime_symbol of_python[] = {
	{"_PyRuntime", RUNTIME_VA, 656, OBJECT},
	{"PyCode_NewWithPosOnlyArgs", LOOP_VA + 200, 16, FUNCTION},
};

struct early {
	struct runtime_facts facts;
	unsigned times;
};

static void on_early(const struct runtime_facts *facts, void *data)
{
	struct early *e = data;

	e->facts = *facts;
	e->times++;
}

/* The facts of the result. */
static uint32_t run(const struct runtime_file *f, struct early *early)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_close_ int fd = memfd_create("file", MFD_CLOEXEC);
	struct debug_search search;
	const struct table_request request = {
		.fd = fd, .debug_fd = -1, .search = &search, .early = on_early, .data = early};
	struct table_result result;
	uint32_t kind;

	runtime_file_write(&b, f);
	cr_assert_eq(write(fd, b.data, b.len), (ssize_t)b.len);
	debug_search_init(&search, NULL, fd, "/file");
	(void)table_job_run(&request, &result);
	kind = result.runtime ? result.runtime->kind : RUNTIME_FILE_NONE;
	if (early->times)
		cr_expect_arr_eq(&early->facts, result.runtime, sizeof early->facts);
	table_result_fini(&result);
	debug_search_fini(&search);
	return kind;
}

Test(table_job, what_is_known_early)
{
	struct early early = {.times = 0};

	cr_expect_eq(run(&(struct runtime_file){.symbols = of_v8,
						.n_symbols = 3,
						.runtime = version,
						.runtime_bytes = sizeof version},
			 &early),
		     RUNTIME_FILE_V8);
	cr_expect_eq(early.times, 1);
	cr_expect_eq(early.facts.v8.build, 7);
	early.times = 0;
	cr_expect_eq(run(&(struct runtime_file){.symbols = of_python, .n_symbols = 2}, &early),
		     RUNTIME_FILE_CPYTHON);
	cr_expect_eq(early.times, 1);
	early.times = 0;
	cr_expect_eq(run(&(struct runtime_file){.symbols = of_python + 1, .n_symbols = 1}, &early),
		     RUNTIME_FILE_NONE);
	cr_expect_eq(early.times, 0);
}
