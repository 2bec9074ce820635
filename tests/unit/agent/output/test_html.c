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
	_cleanup_free_ char *page = WRITTEN(&len, output_html_write(p, f));
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
	_cleanup_free_ char *page = WRITTEN(&len, output_html_write(p, f));

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		cr_expect_null(strstr(page, never[i]), "%s", never[i]);
	cr_expect_not_null(strstr(page, "default-src 'none'; script-src 'nonce-"));
}

Test(output_html, every_page_has_its_own_nonce)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	size_t len;
	_cleanup_free_ char *a = WRITTEN(&len, output_html_write(p, f));
	_cleanup_free_ char *b = WRITTEN(&len, output_html_write(p, f));
	const char *nonce = strstr(a, "'nonce-");
	char attribute[64];

	cr_assert_not_null(nonce);
	snprintf(attribute, sizeof attribute, "nonce=\"%.32s\"", nonce + strlen("'nonce-"));
	cr_expect_eq(count(a, attribute), 3, "%s", attribute);
	cr_expect_eq(count(b, attribute), 0);
}

/* Runs a script with node on the page. */
static void run_script(const struct output_profile *p, const char *script)
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
	cr_assert_eq(output_html_write(p, f), 0);
	fclose(f);
	snprintf(command, sizeof command, "node %s/%s %s", TESTS_DIR "/unit/agent/output", script, path);
	cr_expect_eq(system(command), 0);
	remove(path);
}

Test(output_html, the_program_reads_the_data)
{
	_cleanup_output_profile_ struct output_profile *p = hostile_recording();

	run_script(p, "page.mjs");
}

Test(output_html, languages)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);

	recording_add_python(p);
	run_script(p, "languages.mjs");
}

Test(output_html, a_full_disk_is_reported)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	_cleanup_fclose_ FILE *f = fopen("/dev/full", "w");

	cr_assert_not_null(f);
	cr_expect_eq(output_html_write(p, f), -EIO);
}
