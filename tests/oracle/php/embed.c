// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a PHP script as servers do. Needs PHP built for threads.
 *
 *	embed threads SCRIPT TRUTH
 *
 * In several threads of one process at once, each with an interpreter of its own (Apache, FrankenPHP).
 * Each thread but the first runs a link to the script, SCRIPT.2 and so on, so that the names of its files
 * say whose functions they are, and writes TRUTH.2 and so on. The first one begins when these are there.
 *
 *	embed requests SCRIPT TRUTH KIND
 *
 * In one request after another, each of which frees all that it has compiled, with TRUTH, KIND and a number.
 */
#define _GNU_SOURCE
#include <sapi/embed/php_embed.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 3
#define FIRST_REQUEST 100000000

struct worker {
	char script[4096], truth[4096], tid[16];
};

static int set(const char *key, const char *value)
{
	zend_string *k = zend_string_init(key, strlen(key), 0);
	int r = zend_alter_ini_entry_chars(k, value, strlen(value), PHP_INI_SYSTEM, PHP_INI_STAGE_RUNTIME);

	zend_string_release(k);
	return r;
}

/* In a request, which the script ends only with the process. */
static void run_script(struct worker *w)
{
	zend_file_handle file;

	set("memory_limit", "-1");
	set("zend.enable_gc", "0");
	set("html_errors", "0");
	zend_stream_init_filename(&file, w->script);
	php_execute_script(&file);
	fprintf(stderr, "%s has ended\n", w->script);
	_exit(1);
}

static void request_begin(char **argv, int n)
{
	SG(request_info).argc = n;
	SG(request_info).argv = argv;
	if (php_request_startup() != SUCCESS)
		exit(1);
	SG(headers_sent) = 1;
	SG(request_info).no_headers = 1;
}

static void *run(void *data)
{
	struct worker *w = data;
	char *argv[] = {w->script, w->truth, w->tid, NULL};

	snprintf(w->tid, sizeof w->tid, "%d", gettid());
	ts_resource(0);
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	request_begin(argv, 3);
	run_script(w);
	return NULL;
}

static void start(struct worker *w, const char *script, const char *truth, int number)
{
	pthread_t thread;

	snprintf(w->script, sizeof w->script, "%s.%d", script, number);
	snprintf(w->truth, sizeof w->truth, "%s.%d", truth, number);
	if (link(script, w->script) || pthread_create(&thread, NULL, run, w))
		exit(1);
	while (access(w->truth, R_OK))
		usleep(10000);
}

static void threads(struct worker *workers, const char *script, const char *truth)
{
	for (int i = 1; i < THREADS; i++)
		start(&workers[i], script, truth, i + 1);
	run_script(&workers[0]);
}

/* Ends by a signal. The request that php_embed_init began is the first to end. */
static void requests(const char *script, char *truth, char *kind)
{
	char number[16];
	char *argv[] = {(char *)script, truth, kind, number, NULL};
	zend_file_handle file;

	printf("%d\n", getpid());
	fflush(stdout);
	for (int n = FIRST_REQUEST;; n++) {
		php_request_shutdown(NULL);
		snprintf(number, sizeof number, "%d", n);
		request_begin(argv, 4);
		zend_stream_init_filename(&file, script);
		php_execute_script(&file);
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];
	struct worker *first = &workers[0];
	char *script_argv[] = {first->script, first->truth, first->tid, NULL};

	if (argc < 4)
		return 2;
	snprintf(first->script, sizeof first->script, "%s", argv[2]);
	snprintf(first->truth, sizeof first->truth, "%s", argv[3]);
	snprintf(first->tid, sizeof first->tid, "%d", getpid());
	if (php_embed_init(3, script_argv) != SUCCESS)
		return 1;
	if (strcmp(argv[1], "threads") == 0)
		threads(workers, argv[2], argv[3]);
	if (strcmp(argv[1], "requests") == 0 && argc == 5)
		requests(argv[2], argv[3], argv[4]);
	return 2;
}
