// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include <sys/wait.h>

#include "agent/output/html.h"

#define HOSTILE "</script><script>alert(1)</script><img src=x onerror=alert(2)>"

static struct output_profile *hostile_recording(void)
{
	struct output_profile *p = recording_sample();
	static const struct frame_module m = {.path = "/tmp/" HOSTILE, .name = HOSTILE};
	static const struct frame_module go = {.path = "/usr/bin/gopher", .name = "gopher", .go = true};

	ADD(p, HOSTILE, 66, HOSTILE, 1,
	    {.module = &m, .function = HOSTILE " \xe2\x80\xa8 \" \\ {{data}} \xff", .address = 1},
	    {.module = &m, .address = 2});
	ADD(p, "gopher", 67, NULL, 4, {.module = &go, .function = "main.work", .address = 1},
	    {.module = &go, .function = "helper_of_cgo", .address = 2});
	return p;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

Test(output_html, names_stay_data)
{
	_cleanup_output_profile_ struct output_profile *p = hostile_recording();
	size_t len;
	_cleanup_free_ char *page = WRITTEN(&len, output_html_write(p, NULL, f));
	const char *data = strstr(page, "id=\"profile\">");

	cr_assert_not_null(data);
	cr_expect_eq(len, strlen(page));
	cr_expect_eq(count(page, "</script>"), 2, "the data's and the program's");
	cr_expect_eq(count(page, "<script"), 2);
	cr_expect_null(strstr(page, "<img"));
	cr_expect_null(strstr(page, "\xe2\x80\xa8"));
	cr_expect_not_null(strstr(data, "\\u003c/script\\u003e\\u003cscript\\u003ealert(1)"));
	cr_expect_eq(count(page, "{{"), 1, "only the one that is a function's name");
	cr_expect_eq(strncmp(page, "<!doctype html>", 15), 0);
}

Test(output_html, nothing_is_fetched)
{
	static const char *const never[] = {
		"http://",   "https://",	   " src=",	     "<link", "@import",      "url(",
		"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function("};
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	size_t len;
	_cleanup_free_ char *page = WRITTEN(&len, output_html_write(p, NULL, f));

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		cr_expect_null(strstr(page, never[i]), "%s", never[i]);
	cr_expect_not_null(strstr(page, "default-src 'none'; script-src 'nonce-"));
}

Test(output_html, every_page_has_its_own_nonce)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	size_t len;
	_cleanup_free_ char *a = WRITTEN(&len, output_html_write(p, NULL, f));
	_cleanup_free_ char *b = WRITTEN(&len, output_html_write(p, NULL, f));
	const char *nonce = strstr(a, "'nonce-");
	char attribute[64];

	cr_assert_not_null(nonce);
	snprintf(attribute, sizeof attribute, "nonce=\"%.32s\"", nonce + strlen("'nonce-"));
	cr_expect_eq(count(a, attribute), 3, "%s", attribute);
	cr_expect_eq(count(b, attribute), 0);
}

/* Runs a script with node on the page. */
static void run_script(const struct output_profile *p, const struct output_html_difference *difference,
		       const char *script)
{
	char path[] = "/tmp/proflet-test-XXXXXX.html", command[256];
	int fd;
	FILE *f;

	if (system("command -v node >/dev/null") != 0)
		cr_skip_test("node is not installed");
	fd = mkstemps(path, (int)strlen(".html"));
	cr_assert_geq(fd, 0);
	f = fdopen(fd, "w");
	cr_assert_not_null(f);
	cr_assert_eq(output_html_write(p, difference, f), 0);
	fclose(f);
	snprintf(command, sizeof command, "node %s/%s %s", TESTS_DIR "/unit/agent/output", script, path);
	cr_expect_eq(system(command), 0);
	remove(path);
}

Test(output_html, the_program_reads_the_data)
{
	_cleanup_output_profile_ struct output_profile *p = hostile_recording();

	run_script(p, NULL, "page.mjs");
}

Test(output_html, languages)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);

	recording_add_python(p);
	run_script(p, NULL, "languages.mjs");
}

/* Adds n samples of a function that main calls, the first at that time, the others `step` ns apart. */
static void add_samples(struct output_profile *p, const char *function, bool after, size_t n, uint64_t from,
			uint64_t step)
{
	const struct frame frames[] = {APP(function, 2), APP("main", 1)};
	_cleanup_free_ uint64_t *times = calloc(n, sizeof *times);
	const struct output_stack s = {.process = "app",
				       .pid = after ? 2 : 1,
				       .frames = frames,
				       .n_frames = 2,
				       .count = n,
				       .times = from ? times : NULL,
				       .complete = true,
				       .after = after};

	cr_assert_not_null(times);
	for (size_t i = 0; i < n; i++)
		times[i] = from + i * step;
	cr_assert_eq(output_profile_add(p, &s), 0);
}

Test(output_html, times_of_samples)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	const uint64_t begin = (uint64_t)1700000000 << 30, column = 1 << 20;

	cr_assert_eq(output_profile_set_info(p, &(struct output_info){.start_unix_ns = begin}), 0);
	add_samples(p, "even", false, 50, begin, 2 * column);
	for (int i = 0; i < 3; i++)
		add_samples(p, "odd", false, 50, begin + column + (uint64_t)i, 2 * column);
	add_samples(p, "even", false, 5, 0, 0);
	run_script(p, NULL, "times.mjs");
}

/* The recordings that B might have been have a block with `fresh` more, or one less. */
Test(output_html, two_recordings)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static const uint8_t even[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
			     odd[] = {2, 0, 1, 1, 0, 2, 1, 1, 2, 0, 1, 1};
	const struct output_html_difference d = {
		.sides = {{.file = "a.otlp", .samples = 100, .weights = even},
			  {.file = "b.otlp", .samples = 200, .weights = odd}},
		.n_draws = 3,
		.n_blocks = 4,
		.least = 0.005,
		.limit_self = 1,
		.limit_total = 1,
	};
	const uint64_t block = 1 << 20;

	add_samples(p, "steady", false, 50, 1, 0);
	add_samples(p, "gone", false, 50, 1, 0);
	add_samples(p, "steady", true, 50, block, 0);
	add_samples(p, "steady", true, 50, 3 * block, 0);
	add_samples(p, "fresh", true, 50, 1, 0);
	add_samples(p, "fresh", true, 50, 2 * block, 0);
	run_script(p, &d, "difference.mjs");
}

Test(output_html, a_full_disk_is_reported)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	_cleanup_fclose_ FILE *f = fopen("/dev/full", "w");

	cr_assert_not_null(f);
	cr_expect_eq(output_html_write(p, NULL, f), -EIO);
}
