// SPDX-License-Identifier: Apache-2.0
/*
 * Makes one export, from records to the server's answer, with every allocation failing in turn; see
 * README.md. Prints one PASS or FAIL line each for gRPC and HTTP; leaks are reported at the end of
 * the process.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <curl/curl.h>
#include <openssl/evp.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "agent/delivery/collector.h"
#include "agent/report/report.h"
#include "tests/oom/failing_malloc.h"
#include "tests/unit/otlp/mock_collector.h"
#include "tests/bench/window_host.h"

#define SAMPLES 40
#define BURST 10
#define DEADLINE_NS (10 * NS_PER_SEC)
#define HURRY_NS (2 * NS_PER_MS) /* between attempts: each flush ends the back-off */

struct run {
	struct config *config;
	struct host *host;
	struct worker *worker;
	struct report *report;
	struct otlp_exporter *exporter;
	char record[HOST_RECORD_MAX] __attribute__((aligned(8)));
};

struct totals {
	unsigned long runs, most, failures, without_exporter;
	uint64_t taken, exported, dropped;
};

static void emit(struct otlp_request *request, void *data)
{
	struct run *r = data;

	otlp_exporter_submit(r->exporter, request);
}

/* State that exists before, and that a failed allocation must not damage. */
static void prepare(struct run *r, uint16_t port, bool http)
{
	char endpoint[64];
	char *options[] = {(char *)"oom",
			   (char *)"--endpoint",
			   endpoint,
			   (char *)"--protocol",
			   (char *)(http ? "http/protobuf" : "grpc"),
			   (char *)"--symbols.native",
			   (char *)"off",
			   (char *)"--symbols.kernel",
			   (char *)"off",
			   (char *)"--headers",
			   (char *)"authorization=Bearer secret"};
	const char *files[] = {"/proc/self/exe", "/proc/self/exe", "/proc/self/exe"};
	_cleanup_free_ char *error = NULL;

	snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", port);
	if (config_load(&r->config, ARRAY_SIZE(options), options, NULL, 0, NULL, &error) != 0 ||
	    host_new(&r->host, files, ARRAY_SIZE(files)) < 0 || worker_new(&r->worker, 1, 64, "names") < 0) {
		fprintf(stderr, "out_of_memory: %s\n", error ? error : "not prepared");
		exit(1);
	}
}

static void finish(struct run *r)
{
	worker_free(r->worker);
	host_free(r->host);
	config_free(r->config);
}

static int start(struct run *r)
{
	_cleanup_free_ char *why = NULL;
	struct report_options o = {.config = r->config,
				   .binaries = host_binaries(r->host),
				   .worker = r->worker,
				   .window_bytes = 1u << 20,
				   .emit = emit,
				   .emit_data = r};
	int result = collector_new(&r->exporter, r->config, NULL, NULL, &why);

	if (result == 0)
		result = report_new(&r->report, &o);
	return result;
}

static void end(struct run *r)
{
	report_free(r->report);
	otlp_exporter_free(r->exporter);
	r->report = NULL;
	r->exporter = NULL;
}

static void send_window(struct run *r)
{
	uint64_t now = clock_mono_ns(), deadline = now + DEADLINE_NS;

	for (size_t i = 0; i < SAMPLES; i++) {
		size_t len = host_sample(r->host, now + i, r->record);

		host_report(r->host, r->report, r->record, len);
	}
	report_close_window(r->report);
	while (report_closing(r->report) && clock_mono_ns() < deadline) {
		if (report_sendable(r->report))
			report_send(r->report);
		worker_drain(r->worker, HURRY_NS);
	}
	report_send(r->report);
	while (otlp_exporter_flush(r->exporter, clock_mono_ns() + HURRY_NS) < 0 && clock_mono_ns() < deadline)
		;
}

/* Whether each of the samples is exported or counted as dropped; adds to the totals. */
static bool accounted(const struct run *r, uint64_t taken, struct totals *t)
{
	uint64_t dropped = 0, lost = 0;
	struct otlp_exporter_stats x;
	struct report_stats s;

	otlp_exporter_stats(r->exporter, &x);
	report_stats(r->report, &s);
	for (size_t i = 0; i < REPORT_DROPS_N; i++)
		dropped += s.dropped[i];
	for (size_t i = 0; i < OTLP_N_DROP_REASONS; i++)
		lost += x.samples.dropped[i];
	t->taken += s.added;
	t->exported += x.samples.exported;
	t->dropped += dropped + lost;
	if (s.added == taken && s.waiting == 0 && x.samples.queued == 0 && x.samples.submitted == s.emitted &&
	    taken == x.samples.exported + dropped + lost)
		return true;
	printf("  taken=%" PRIu64 " added=%" PRIu64 " waiting=%" PRIu64 " emitted=%" PRIu64
	       " exported=%" PRIu64 " queued=%" PRIu64 " dropped=%" PRIu64 " lost=%" PRIu64 "\n",
	       taken, s.added, s.waiting, s.emitted, x.samples.exported, x.samples.queued, dropped, lost);
	return false;
}

/*
 * Makes one export with allocations [first, first + n) failing, then one with memory. Returns their number.
 */
static unsigned long one(struct run *r, unsigned long first, unsigned long n, struct totals *t, bool *ok)
{
	unsigned long failed, count;
	int result;

	failing_malloc_start(first, n);
	result = start(r);
	if (result == 0)
		send_window(r);
	count = failing_malloc_stop(&failed);
	t->runs++;
	t->failures += failed;
	t->without_exporter += result < 0;
	t->most = count > t->most ? count : t->most;
	if (result == 0) {
		struct totals before = *t;

		*ok = accounted(r, SAMPLES, t);
		*t = before;
		send_window(r);
		*ok = *ok && accounted(r, 2 * SAMPLES, t);
	} else {
		*ok = failed > 0;
	}
	end(r);
	return count;
}

static bool all(const char *name, uint16_t port, bool http)
{
	struct totals t = {0};
	struct run r = {0};
	bool ok = true;

	prepare(&r, port, http);
	one(&r, 0, 0, &t, &ok);
	if (ok && t.exported != 2 * SAMPLES) {
		printf("  with memory %" PRIu64 " samples of %u were exported\n", t.exported, 2 * SAMPLES);
		ok = false;
	}
	for (unsigned long n = 1; n <= BURST && ok; n += BURST - 1)
		for (unsigned long first = 1; ok; first += n) {
			unsigned long count = one(&r, first, n, &t, &ok);

			if (!ok)
				printf("  allocation %lu and %lu more\n", first, n - 1);
			if (count < first)
				break;
		}
	finish(&r);
	printf("%s oom/%s: %lu exports of up to %lu allocations, %lu failed; samples taken %" PRIu64
	       ", exported %" PRIu64 ", dropped %" PRIu64 "; %lu starts refused\n",
	       ok ? "PASS" : "FAIL", name, t.runs, t.most, t.failures, t.taken, t.exported, t.dropped,
	       t.without_exporter);
	fflush(stdout);
	return ok;
}

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

/* The server is another process, so its allocations do not fail. */
static pid_t serve(uint16_t port, const char *http_reply)
{
	struct mock_collector m = {.decide = accept_all, .http_reply = http_reply, .port = port};
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mock_collector_start(&m);
	pause();
	_exit(0);
}

static bool served(const char *name, const char *http_reply)
{
	uint16_t port = mock_free_port();
	pid_t pid = serve(port, http_reply);
	bool ok = pid > 0 && all(name, port, http_reply != NULL);

	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return ok;
}

int main(void)
{
	bool ok;

	curl_easy_cleanup(
		curl_easy_init()); /* loads it: the loader would leak what it has when memory is out */
	(void)EVP_sha256();
	ok = served("grpc", NULL);

	return !served("http", "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n"
			       "content-length: 0\r\n\r\n") ||
	       !ok;
}
