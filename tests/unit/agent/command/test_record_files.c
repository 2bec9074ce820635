// SPDX-License-Identifier: Apache-2.0
#include "agent/command/record_files.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/config/config_types.h"
#include "agent/output/profile.h"
#include "otlp/request.h"

static const struct record_growing none;

struct fixture {
	char dir[32], path[64];
	struct config_list formats;
	struct output_profile *profile;
};

static void set_up(struct fixture *f)
{
	*f = (struct fixture){.dir = "/tmp/proflet-test-XXXXXX"};
	cr_assert_not_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof f->path, "%s/out", f->dir);
	cr_assert_eq(output_profile_new(&f->profile, &(struct output_info){0}), 0);
}

static bool take_file(const struct fixture *f, const char *extension)
{
	char name[96];

	snprintf(name, sizeof name, "%s.%s", f->path, extension);
	return unlink(name) == 0;
}

static void tear_down(struct fixture *f)
{
	output_profile_free(f->profile);
	config_list_free(&f->formats);
	cr_expect_eq(rmdir(f->dir), 0, "a file is left behind");
}

Test(record_files, writes_every_format, .init = cr_redirect_stdout)
{
	static const char *const extensions[] = {"html", "folded", "pb.gz", "otlp"};
	struct record_growing growing = {0};
	_cleanup_free_ char *failed = NULL;
	struct record_files files;
	struct fixture f;

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	cr_assert_eq(record_files_check(&files, false, &failed), 0);
	cr_assert_eq(record_otlp_new(&growing.otlp, &files, &failed), 0);
	cr_assert_eq(record_files_write(&files, f.profile, &growing, &failed), 0);
	record_otlp_free(growing.otlp);
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
		cr_expect(take_file(&f, extensions[i]), "%s", extensions[i]);
	tear_down(&f);
}

Test(record_files, existing_files_are_kept, .init = cr_redirect_stdout)
{
	_cleanup_free_ char *failed = NULL, *ignored = NULL;
	struct record_files files;
	char expected[96];
	struct fixture f;

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	cr_assert_eq(config_list_append(&f.formats, "folded"), 0);
	cr_assert_eq(record_files_write(&files, f.profile, &none, &failed), 0);
	cr_expect_eq(record_files_check(&files, false, &failed), -EEXIST);
	snprintf(expected, sizeof expected, "%s.folded", f.path);
	cr_expect_str_eq(failed, expected);
	cr_expect_eq(record_files_check(&files, true, &ignored), 0);
	cr_expect(take_file(&f, "folded"));
	tear_down(&f);
}

Test(record_files, a_missing_directory_is_named)
{
	_cleanup_free_ char *failed = NULL;
	const struct config_list all = {0};
	const struct record_files files = {"/nonexistent/out", &all, false, false, NULL};

	cr_expect_eq(record_files_check(&files, false, &failed), -ENOENT);
	cr_expect_str_eq(failed, "/nonexistent");
}

/* A file that cannot be written does not keep the others from being written. */
Test(record_files, one_failure_leaves_the_others, .init = cr_redirect_stdout)
{
	_cleanup_free_ char *failed = NULL;
	struct record_files files;
	char blocked[96];
	struct fixture f;

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	snprintf(blocked, sizeof blocked, "%s.folded.part", f.path);
	cr_assert_eq(symlink("/nonexistent/target", blocked), 0);
	cr_expect_eq(record_files_write(&files, f.profile, &none, &failed), -ENOENT);
	snprintf(blocked, sizeof blocked, "%s.folded", f.path);
	cr_expect_str_eq(failed, blocked);
	cr_expect_not(take_file(&f, "folded"));
	cr_expect(take_file(&f, "html") && take_file(&f, "pb.gz") && take_file(&f, "otlp"));
	snprintf(blocked, sizeof blocked, "%s.folded.part", f.path);
	(void)unlink(blocked);
	tear_down(&f);
}

static struct otlp_request *request_of(const char *bytes, uint64_t n_samples)
{
	struct otlp_request *r = calloc(1, sizeof *r);

	cr_assert_eq(buf_append(&r->data, bytes, strlen(bytes)), 0);
	r->n_samples = n_samples;
	return r;
}

Test(record_files, the_otlp_file_grows_while_recording, .init = cr_redirect_stdout)
{
	_cleanup_buf_ struct buf written = {0};
	_cleanup_free_ char *failed = NULL;
	struct record_growing growing = {0};
	struct record_files files;
	struct fixture f;
	char name[96];

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	cr_assert_eq(config_list_append(&f.formats, "otlp"), 0);
	cr_assert_eq(record_otlp_new(&growing.otlp, &files, &failed), 0);
	record_otlp_append(growing.otlp, "first ", 6);
	record_otlp_append(growing.otlp, "second ", 7);
	record_otlp_finish(growing.otlp, request_of("dictionary", 3));
	record_otlp_append(growing.otlp, "of another request", 18);
	record_otlp_finish(growing.otlp, request_of("another", 5));
	cr_expect_eq(record_otlp_left_out(growing.otlp), 5);
	snprintf(name, sizeof name, "%s.otlp", f.path);
	cr_expect_neq(access(name, F_OK), 0, "it is not there before it is complete");
	cr_assert_eq(record_files_write(&files, f.profile, &growing, &failed), 0);
	record_otlp_free(growing.otlp);
	cr_assert_eq(fs_read_file(name, 4096, &written), 0);
	cr_expect_str_eq(buf_str(&written), "first second dictionary");
	cr_expect(take_file(&f, "otlp"));
	tear_down(&f);
}

Test(record_files, an_otlp_file_that_is_not_completed_is_removed)
{
	_cleanup_free_ char *failed = NULL;
	struct record_growing growing = {0};
	struct record_files files;
	struct fixture f;

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	cr_assert_eq(record_otlp_new(&growing.otlp, &files, &failed), 0);
	record_otlp_append(growing.otlp, "first", 5);
	record_otlp_free(growing.otlp);
	cr_assert_eq(config_list_append(&f.formats, "html"), 0);
	cr_assert_eq(record_otlp_new(&growing.otlp, &files, &failed), 0);
	cr_expect_null(growing.otlp, "no such file is wanted");
	cr_expect_eq(record_otlp_left_out(growing.otlp), 0);
	record_otlp_free(growing.otlp);
	tear_down(&f);
}

Test(record_files, an_otlp_file_that_cannot_be_written_is_named, .init = cr_redirect_stdout)
{
	_cleanup_free_ char *failed = NULL, *name = NULL;
	struct record_growing growing = {0};
	struct record_files files;
	struct fixture f;
	char path[96];

	set_up(&f);
	snprintf(path, sizeof path, "%s/missing/out", f.dir);
	files = (struct record_files){path, &f.formats, false, false, NULL};
	cr_expect_eq(record_otlp_new(&growing.otlp, &files, &failed), -ENOENT);
	cr_assert_not_null(failed);
	cr_expect_not_null(strstr(failed, "missing/out.otlp"));
	cr_expect_null(growing.otlp);
	files.path = f.path;
	cr_assert_eq(config_list_append(&f.formats, "otlp"), 0);
	cr_assert_eq(record_otlp_new(&growing.otlp, &files, &name), 0);
	snprintf(path, sizeof path, "%s.otlp.part", f.path);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(record_files_write(&files, f.profile, &growing, &name), -ENOENT, "it cannot be renamed");
	cr_expect_not_null(name);
	record_otlp_free(growing.otlp);
	tear_down(&f);
}

/* Only where it is named, and without a file of its own while the recording goes on. */
Test(record_files, perf_data_is_written_on_request, .init = cr_redirect_stdout)
{
	static const uint64_t times[] = {1000, 2000};
	const struct output_stack stack = {.process = "app", .pid = 7, .count = 2, .mono_ns = times};
	struct record_growing growing = {0};
	_cleanup_free_ char *failed = NULL;
	struct record_files files;
	struct fixture f;

	set_up(&f);
	files = (struct record_files){f.path, &f.formats, false, false, NULL};
	cr_assert_eq(record_perf_new(&growing.perf, &files, &failed), 0);
	cr_expect_null(growing.perf);
	record_perf_add(growing.perf, &stack, 99);
	cr_assert_eq(config_list_append(&f.formats, "perf"), 0);
	cr_assert_eq(config_list_append(&f.formats, "perf-flat"), 0);
	cr_assert_eq(record_perf_new(&growing.perf, &files, &failed), 0);
	cr_assert_not_null(growing.perf);
	record_perf_add(growing.perf, &stack, 99);
	cr_expect_eq(rmdir(f.dir), 0, "the folder is empty meanwhile");
	cr_assert_eq(mkdir(f.dir, 0700), 0);
	cr_assert_eq(record_files_write(&files, f.profile, &growing, &failed), 0);
	cr_expect_eq(record_perf_unmapped(growing.perf), 0);
	record_perf_free(growing.perf);
	cr_expect(take_file(&f, "perf.data") && take_file(&f, "flat.perf.data"));
	tear_down(&f);
}

Test(record_files, the_format_of_a_path)
{
	static const struct {
		const char *path, *format;
		size_t len;
	} paths[] = {
		{"a.html", "html", 1},	    {"/tmp/x.pb.gz", "pprof", 6},
		{"a.perf.data", "perf", 1}, {"a.flat.perf.data", "perf-flat", 1},
		{"html", NULL, 4},	    {".html", NULL, 5},
		{"a.b", NULL, 3},	    {"", NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		size_t len = 99;
		const char *format = record_files_format(paths[i].path, &len);

		cr_expect_eq(!format, !paths[i].format, "%s", paths[i].path);
		cr_expect(!format || strcmp(format, paths[i].format) == 0, "%s", paths[i].path);
		cr_expect_eq(len, paths[i].len, "%s", paths[i].path);
	}
}
