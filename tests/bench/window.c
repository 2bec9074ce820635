// SPDX-License-Identifier: Apache-2.0
/*
 * Closes windows of samples through the report as it is in the agent, and times the parts. usage:
 *
 *	bench_window SAMPLES WINDOWS timestamps|aggregate gzip|zstd|none < PATHS
 *
 * The paths are ELF files, the first two the libraries of every program; see window_host.h. One line a
 * window, NAME=VALUE: milliseconds of CPU to take the samples in (over the window's whole length), to request
 * names, in the threads that find them, to build the requests, to compress them; then counts, bytes, and the
 * most memory above what was there when the first window began. The first window finds its names in the
 * files, the others in the cache.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "agent/report/report.h"
#include "otlp/compress.h"
#include "window_host.h"

#define PATHS_MAX 64
#define NAMES_WAIT_NS (60 * NS_PER_SEC)

struct bench {
	struct config *config;
	struct host *host;
	struct worker *worker;
	struct report *report;
	struct otlp_request *first, **tail; /* of the window at work */
	enum otlp_coding coding;
	size_t n_samples;
	char record[HOST_RECORD_MAX] __attribute__((aligned(8)));
};

static void emit(struct otlp_request *request, void *data)
{
	struct bench *b = data;

	*b->tail = request;
	b->tail = &request->next;
}

static uint64_t process_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* A figure of /proc/self/status in KiB. */
static uint64_t status_kib(const char *name)
{
	_cleanup_buf_ struct buf text = {0};
	const char *at;

	if (fs_read_file("/proc/self/status", 65536, &text) < 0)
		return 0;
	at = strstr(buf_str(&text), name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* The most resident memory counts from here. */
static void reset_peak(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/clear_refs", "we");

	if (f)
		fputs("5", f);
}

static void take_in(struct bench *b)
{
	uint64_t now = clock_mono_ns(), cpu = 0, before;

	for (size_t i = 0; i < b->n_samples; i++) {
		size_t len = host_sample(b->host, now + i * 1000, b->record);

		before = clock_thread_cpu_ns();
		host_report(b->host, b->report, b->record, len);
		cpu += clock_thread_cpu_ns() - before;
	}
	printf("take_ms=%.1f", (double)cpu / 1e6);
}

/* Compresses what was emitted, one at a time, as the export thread does. */
static int compress_all(struct bench *b)
{
	uint64_t raw = 0, coded = 0, n = 0, samples = 0, cpu = clock_thread_cpu_ns();
	int r = 0;

	while (b->first && r == 0) {
		_cleanup_request_ struct otlp_request *request = b->first;
		_cleanup_buf_ struct buf out = {0};

		b->first = request->next;
		r = b->coding == OTLP_IDENTITY
			    ? 0
			    : otlp_compress(b->coding, request->data.data, request->data.len, &out);
		raw += request->data.len;
		coded += b->coding == OTLP_IDENTITY ? request->data.len : out.len;
		samples += request->n_samples;
		n++;
	}
	b->tail = &b->first;
	printf(" compress_ms=%.1f requests=%" PRIu64 " emitted=%" PRIu64 " raw_bytes=%" PRIu64
	       " coded_bytes=%" PRIu64,
	       (double)(clock_thread_cpu_ns() - cpu) / 1e6, n, samples, raw, coded);
	return r;
}

static int window(struct bench *b)
{
	uint64_t main_ns, all_ns;
	int r;

	take_in(b);
	main_ns = clock_thread_cpu_ns();
	all_ns = process_cpu_ns();
	report_close_window(b->report);
	printf(" ask_ms=%.1f", (double)(clock_thread_cpu_ns() - main_ns) / 1e6);
	if (report_closing(b->report)) {
		printf(" samples=%zu", b->n_samples);
		worker_drain(b->worker, NAMES_WAIT_NS);
		printf(" names_ms=%.1f",
		       (double)(process_cpu_ns() - all_ns - (clock_thread_cpu_ns() - main_ns)) / 1e6);
		main_ns = clock_thread_cpu_ns();
		report_send(b->report);
		printf(" build_ms=%.1f", (double)(clock_thread_cpu_ns() - main_ns) / 1e6);
	}
	r = compress_all(b);
	return r;
}

static int setup(struct bench *b, char **argv)
{
	char *options[] = {(char *)"bench", (char *)"--samples", argv[3], (char *)"--sampling.frequency",
			   (char *)"97"};
	_cleanup_free_ char *error = NULL;
	struct report_options o = {.window_bytes = 256u << 20, .emit = emit, .emit_data = b};
	char paths[PATHS_MAX][256];
	const char *names[PATHS_MAX];
	size_t n = 0;
	int r = config_load(&b->config, ARRAY_SIZE(options), options, NULL, 0, NULL, &error);

	if (r < 0)
		return r;
	while (n < PATHS_MAX && fgets(paths[n], sizeof paths[n], stdin)) {
		paths[n][strcspn(paths[n], "\n")] = '\0';
		names[n] = paths[n];
		n++;
	}
	r = host_new(&b->host, names, n);
	if (r == 0)
		r = worker_new(&b->worker, 1, 4096, "names");
	o.config = b->config;
	o.binaries = b->host ? host_binaries(b->host) : NULL;
	o.worker = b->worker;
	return r < 0 ? r : report_new(&b->report, &o);
}

static void fini(struct bench *b)
{
	worker_free(b->worker);
	report_free(b->report);
	host_free(b->host);
	config_free(b->config);
}

int main(int argc, char **argv)
{
	size_t windows = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
	_cleanup_(fini) struct bench b = {.n_samples = argc == 5 ? strtoul(argv[1], NULL, 10) : 0};
	uint64_t base;
	int r;

	b.tail = &b.first;
	if (!windows || !b.n_samples ||
	    (strcmp(argv[4], "none") != 0 && otlp_coding_parse(argv[4], strlen(argv[4]), &b.coding) < 0)) {
		fprintf(stderr,
			"usage: bench_window SAMPLES WINDOWS timestamps|aggregate gzip|zstd|none < PATHS\n");
		return 2;
	}
	r = setup(&b, argv);
	base = status_kib("VmRSS:");
	for (size_t i = 0; i < windows && r == 0; i++) {
		reset_peak();
		r = window(&b);
		printf(" memory_mib=%.1f\n", ((double)status_kib("VmHWM:") - (double)base) / 1024);
	}
	if (r < 0)
		fprintf(stderr, "bench_window: %s\n", strerror(-r));
	return r < 0;
}
