// SPDX-License-Identifier: Apache-2.0
/* The delivery process: what it is handed, what it gives up, and what is left when it is killed. */
#include "agent/delivery/delivery.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/fs.h"
#include "agent/base/loop.h"
#include "agent/base/parse.h"
#include "agent/config/config.h"
#include "agent/delivery/pull_request.h"
#include "tests/unit/agent/check/fake_system.h"
#include "tests/unit/otlp/exporter_support.h"

#define STEP_MS 5

static uint16_t free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static struct delivery *started(const struct config *config)
{
	const struct delivery_options o = {.config = config, .exports = true};
	struct delivery *d = NULL;
	char *why;

	cr_assert_eq(delivery_start(&d, &o), 0);
	cr_assert_eq(delivery_wait(d, LONG, &why), 0, "%s", why);
	return d;
}

/* Where nobody listens. */
static struct config *config_away(void)
{
	char url[64];

	snprintf(url, sizeof url, "http://127.0.0.1:%u", free_port());
	return config_with("--endpoint", url);
}

static bool is_tried(const struct otlp_exporter_stats *s, uint64_t n)
{
	return s->attempts >= n;
}

static bool is_spooled(const struct otlp_exporter_stats *s, uint64_t n)
{
	return s->samples.spooled >= n;
}

static bool is_lost(const struct otlp_exporter_stats *s, uint64_t n)
{
	return s->samples.dropped[OTLP_DROP_NO_SENDER] >= n;
}

static struct otlp_exporter_stats
await(struct delivery *d, bool (*is_so)(const struct otlp_exporter_stats *s, uint64_t n), uint64_t n)
{
	const uint64_t until = clock_mono_ns() + LONG;
	struct otlp_exporter_stats s;

	do {
		(void)poll(NULL, 0, STEP_MS);
		delivery_stats(d, &s);
		check_identity(&s.samples);
		check_identity(&s.requests);
	} while (!is_so(&s, n) && clock_mono_ns() < until);
	cr_assert(is_so(&s, n));
	return s;
}

static void kill_it(struct delivery *d)
{
	const uint64_t before = delivery_restarts(d), until = clock_mono_ns() + LONG;
	const int pid = delivery_pid(d);

	cr_assert_gt(pid, 1);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	while (delivery_restarts(d) == before && clock_mono_ns() < until)
		(void)poll(NULL, 0, STEP_MS);
	cr_assert_gt(delivery_restarts(d), before);
}

Test(delivery, what_is_handed_over_is_counted_until_the_end)
{
	_cleanup_config_ struct config *config = config_away();
	struct delivery *d = started(config);
	struct otlp_exporter_stats s;

	delivery_submit(d, a_request('a', 1000, 5));
	s = await(d, is_tried, 1);
	cr_expect_eq(s.samples.submitted, 5);
	cr_expect_eq(s.samples.queued, 5);
	cr_expect(s.away);
	cr_expect_gt(s.cpu_ns, 0);
	cr_expect_eq(delivery_stop(d, clock_mono_ns()), -ETIMEDOUT);
	delivery_stats(d, &s);
	check_identity(&s.samples);
	cr_expect_eq(s.samples.dropped[OTLP_DROP_SHUTDOWN], 5);
	cr_expect_eq(s.samples.queued, 0);
	delivery_submit(d, a_request('b', 10, 2));
	delivery_stats(d, &s);
	check_identity(&s.samples);
	cr_expect_eq(s.samples.dropped[OTLP_DROP_NO_SENDER], 2, "nobody is there");
	delivery_free(d);
}

Test(delivery, one_that_is_killed_is_forked_again)
{
	_cleanup_config_ struct config *config = config_away();
	struct delivery *d = started(config);
	struct otlp_exporter_stats s;

	delivery_submit(d, a_request('a', 1000, 5));
	(void)await(d, is_tried, 1);
	kill_it(d);
	s = await(d, is_lost, 5);
	cr_expect_eq(s.samples.queued, 0);
	delivery_submit(d, a_request('b', 1000, 3));
	s = await(d, is_tried, 2);
	cr_expect_eq(s.samples.submitted, 8);
	cr_expect_eq(s.samples.queued, 3);
	(void)delivery_stop(d, clock_mono_ns());
	delivery_stats(d, &s);
	check_identity(&s.samples);
	cr_expect_eq(sum(s.samples.dropped), 8);
	delivery_free(d);
}

Test(delivery, what_is_in_the_spool_survives_it)
{
	char folder[] = "/tmp/proflet-delivery-XXXXXX", command[64];
	_cleanup_config_ struct config *config = config_away();
	struct otlp_exporter_stats s;
	struct delivery *d;

	cr_assert_not_null(mkdtemp(folder));
	config->queue.spool = strdup(folder);
	config->queue.spool_max_bytes = 1 << 20;
	d = started(config);
	delivery_submit(d, a_request('a', 1000, 5));
	(void)await(d, is_spooled, 5);
	kill_it(d);
	s = await(d, is_tried, 2);
	cr_expect_eq(s.samples.spooled, 5);
	cr_expect_eq(s.samples.recovered, 0, "it is of this run");
	cr_expect_eq(sum(s.samples.dropped), 0);
	(void)delivery_stop(d, clock_mono_ns());
	delivery_stats(d, &s);
	check_identity(&s.samples);
	cr_expect_eq(s.samples.spooled, 5);
	delivery_free(d);
	snprintf(command, sizeof command, "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

Test(delivery, a_wrong_setting_is_reported)
{
	_cleanup_config_ struct config *config = config_away();
	const struct delivery_options o = {.config = config, .exports = true};
	_cleanup_free_ char *why = NULL;
	struct delivery *d;

	free(config->endpoint);
	config->endpoint = strdup("http://[x");
	cr_assert_eq(delivery_start(&d, &o), 0);
	cr_expect_eq(delivery_wait(d, LONG, &why), -EINVAL);
	cr_expect(why && strstr(why, "http://[x"), "%s", why);
	delivery_free(d);
}

/* --- pages */

struct served {
	struct loop *loop;
	size_t bytes;
	int listens;
	uint64_t pull, pull_end;
	struct pull_request request;
};

static unsigned page(const char *path, const char *accept, struct buf *body, const char **content_type,
		     void *data)
{
	struct served *s = data;

	*content_type = "text/x-test";
	cr_expect_str_eq(accept, "something");
	if (strcmp(path, "/page") != 0)
		return 404;
	for (size_t i = 0; i < s->bytes; i++)
		cr_assert_eq(buf_putc(body, 'x'), 0);
	return 200;
}

static void on_listens(int result, const char *why, void *data)
{
	struct served *s = data;

	cr_expect_eq(result, 0, "%s", why);
	s->listens = 1;
	loop_stop(s->loop);
}

static int on_peer(int fd, uint32_t events, void *data)
{
	(void)fd;
	(void)events;
	loop_stop(((struct served *)data)->loop);
	return 0;
}

/* The whole answer; the loop runs meanwhile, which answers the process's question. */
static void get(struct served *s, uint16_t port, const char *path, struct buf *ret)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM, 0);
	char text[16384];
	struct loop_source *source;
	ssize_t n;
	int len =
		snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: something\r\n\r\n", path);

	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	cr_assert_eq(write(fd, text, (size_t)len), len);
	cr_assert_eq(loop_add_fd(s->loop, fd, 1 /* EPOLLIN */, on_peer, s, &source), 0);
	cr_assert_eq(loop_run(s->loop), 0);
	loop_remove(source);
	while ((n = read(fd, text, sizeof text)) > 0)
		cr_assert_eq(buf_append(ret, text, (size_t)n), 0);
}

static void check_page(struct served *s, uint16_t port, size_t bytes)
{
	_cleanup_buf_ struct buf answer = {.max = 16 << 20};
	char *body;

	s->bytes = bytes;
	get(s, port, "/page", &answer);
	cr_assert_eq(strncmp(buf_str(&answer), "HTTP/1.1 200", 12), 0, "%.200s", buf_str(&answer));
	cr_expect(strstr(buf_str(&answer), "text/x-test"));
	body = strstr(buf_str(&answer), "\r\n\r\n");
	cr_assert_not_null(body);
	cr_expect_eq(strspn(body + 4, "x"), bytes);
	cr_expect_eq(strlen(body + 4), bytes);
}

Test(delivery, pages_come_from_the_agent)
{
	_cleanup_config_ struct config *config = config_away();
	struct served s = {0};
	const struct delivery_callbacks callbacks = {.listens = on_listens, .page = page, .data = &s};
	_cleanup_buf_ struct buf answer = {0};
	struct http_server_stats stats;
	struct delivery *d;
	uint16_t port = free_port();
	char listen[32];

	snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
	free(config->listen);
	config->listen = strdup(listen);
	d = started(config);
	cr_assert_eq(loop_new(&s.loop), 0);
	cr_assert_eq(delivery_watch(d, s.loop, &callbacks), 0);
	cr_assert_eq(delivery_listen(d), 0);
	cr_assert_eq(loop_run(s.loop), 0);
	cr_assert(s.listens);
	check_page(&s, port, 5);
	check_page(&s, port, 300000); /* more than a packet has room for */
	get(&s, port, "/other", &answer);
	cr_expect_eq(strncmp(buf_str(&answer), "HTTP/1.1 404", 12), 0, "%.200s", buf_str(&answer));
	delivery_http_stats(d, &stats);
	cr_expect_geq(stats.accepted, 3);

	kill_it(d); /* it listens again, without another call */
	s.listens = 0;
	cr_assert_eq(loop_run(s.loop), 0);
	cr_assert(s.listens);
	check_page(&s, port, 7);
	delivery_free(d);
	loop_free(s.loop);
}

Test(delivery, an_agent_that_does_not_answer)
{
	_cleanup_config_ struct config *config = config_away();
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct delivery *d;
	uint16_t port = free_port();
	char text[512] = {0};
	int fd;

	a.sin_port = htons(port);
	snprintf(text, sizeof text, "127.0.0.1:%u", port);
	free(config->listen);
	config->listen = strdup(text);
	d = started(config);
	cr_assert_eq(delivery_listen(d), 0);
	do {
		(void)poll(NULL, 0, STEP_MS);
		fd = socket(AF_INET, SOCK_STREAM, 0);
	} while (connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && close(fd) == 0);
	cr_assert_eq(write(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 28), 28);
	cr_assert_gt(read(fd, text, sizeof text - 1), 0);
	cr_expect_eq(strncmp(text, "HTTP/1.1 503", 12), 0, "%s", text);
	close(fd);
	delivery_free(d);
}

/* --- pulls */

static void on_pull(uint64_t number, const struct pull_request *request, void *data)
{
	struct served *s = data;

	s->pull = number;
	s->request = *request;
	loop_stop(s->loop);
}

static void on_pull_end(uint64_t number, void *data)
{
	struct served *s = data;

	s->pull_end = number;
	loop_stop(s->loop);
}

static int request_pull(uint16_t port, const char *path)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	cr_assert_gt(dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path), 0);
	return fd;
}

static void expect_status(int fd, const char *status, const char *text)
{
	_cleanup_buf_ struct buf answer = {0};
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		cr_assert_eq(buf_append(&answer, bytes, (size_t)n), 0);
	close(fd);
	cr_expect_eq(strncmp(buf_str(&answer) + 9, status, 3), 0, "%.500s", buf_str(&answer));
	cr_expect(strstr(buf_str(&answer), text), "%.500s", buf_str(&answer));
}

static struct pull_stats await_pulls(struct delivery *d, enum pull_result result, uint64_t n)
{
	const uint64_t until = clock_mono_ns() + LONG;
	struct pull_stats stats;

	do {
		(void)poll(NULL, 0, STEP_MS);
		delivery_pull_stats(d, &stats);
	} while (stats.results[result] < n && clock_mono_ns() < until);
	cr_assert_eq(stats.results[result], n);
	return stats;
}

static struct delivery *listening(struct served *s, struct config *config, uint16_t port)
{
	const struct delivery_callbacks callbacks = {
		.listens = on_listens, .page = page, .pull = on_pull, .pull_end = on_pull_end, .data = s};
	struct delivery *d;
	char listen[32];

	snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
	free(config->listen);
	config->listen = strdup(listen);
	d = started(config);
	cr_assert_eq(loop_new(&s->loop), 0);
	cr_assert_eq(delivery_watch(d, s->loop, &callbacks), 0);
	cr_assert_eq(delivery_listen(d), 0);
	cr_assert_eq(loop_run(s->loop), 0);
	cr_assert(s->listens);
	return d;
}

static uint64_t next_pull(struct served *s)
{
	cr_assert_eq(loop_run(s->loop), 0);
	return s->pull;
}

Test(delivery, a_pull_is_answered_later, .timeout = 60)
{
	_cleanup_config_ struct config *config = config_away();
	_cleanup_buf_ struct buf body = {0};
	const uint16_t port = free_port();
	struct served s = {0};
	struct delivery *d = listening(&s, config, port);
	struct pull_stats stats;
	int fd = request_pull(port, "/flamegraph?seconds=2&container=web");

	cr_expect_neq(next_pull(&s), 0);
	cr_expect_eq(s.request.form, PULL_FLAMEGRAPH);
	cr_expect_eq(s.request.seconds, 2);
	cr_expect_str_eq(s.request.container, "web");
	stats = await_pulls(d, PULL_RESULT_OK, 0);
	cr_assert_eq(buf_puts(&body, "the profile"), 0);
	delivery_answer(d, s.pull, 200, &body, "text/html");
	expect_status(fd, "200", "\r\n\r\nthe profile");
	stats = await_pulls(d, PULL_RESULT_OK, 1);
	delivery_answer(d, s.pull, 200, &body, "text/html"); /* nobody waits */
	expect_status(request_pull(port, "/top?seconds=0"), "400", "1 to 300");
	expect_status(request_pull(port, "/top?pod=a"), "400", "kubernetes.metadata");
	stats = await_pulls(d, PULL_RESULT_BAD_REQUEST, 2);
	cr_expect_eq(stats.results[PULL_RESULT_OK], 1);
	delivery_free(d);
	loop_free(s.loop);
}

Test(delivery, pulls_are_few, .timeout = 60)
{
	_cleanup_config_ struct config *config = config_away();
	const uint16_t port = free_port();
	struct served s = {0};
	struct delivery *d = listening(&s, config, port);
	int fds[DELIVERY_PULLS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = request_pull(port, "/top");
		(void)next_pull(&s);
	}
	expect_status(request_pull(port, "/top"), "429", "4 profiles are being made");
	(void)await_pulls(d, PULL_RESULT_TOO_MANY, 1);
	close(fds[0]); /* whose place is free then */
	cr_assert_eq(loop_run(s.loop), 0);
	cr_expect_neq(s.pull_end, 0);
	cr_expect_eq(await_pulls(d, PULL_RESULT_CANCELLED, 1).running, DELIVERY_PULLS_MAX - 1);
	fds[0] = request_pull(port, "/top");
	cr_expect_gt(next_pull(&s), s.pull_end);
	kill_it(d);
	s.pull_end = s.listens = 0;
	while (!s.listens)
		cr_assert_eq(loop_run(s.loop), 0);
	cr_expect_eq(s.pull_end, 0, "none of them is waited for");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	delivery_free(d);
	loop_free(s.loop);
}

Test(delivery, pulls_need_the_token, .timeout = 60)
{
	_cleanup_config_ struct config *config = config_away();
	const uint16_t port = free_port();
	struct served s = {0};
	struct delivery *d;

	config->listen_token_file = strdup("/dev/null");
	d = listening(&s, config, port);
	expect_status(request_pull(port, "/top"), "503", "listen_token_file");
	(void)await_pulls(d, PULL_RESULT_UNAVAILABLE, 1);
	delivery_free(d);
	loop_free(s.loop);
}

/* --- what it may do */

static uint64_t status_field(int pid, const char *name, int base)
{
	_cleanup_buf_ struct buf status = {0};
	char path[48];
	const char *at;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	cr_assert_eq(fs_read_file(path, 65536, &status), 0);
	at = strstr(buf_str(&status), name);
	cr_assert_not_null(at);
	return strtoull(at + strlen(name), NULL, base);
}

Test(delivery, it_has_no_rights_but_its_users)
{
	_cleanup_config_ struct config *config = config_away();
	struct delivery *d = started(config);
	const int pid = delivery_pid(d);

	cr_assert_gt(pid, 1);
	cr_expect_eq(status_field(pid, "\nCapEff:\t", 16), 0);
	cr_expect_eq(status_field(pid, "\nCapPrm:\t", 16), 0);
	cr_expect_eq(status_field(pid, "\nNoNewPrivs:\t", 10), 1);
	cr_expect_eq(status_field(pid, "\nSeccomp:\t", 10), 2);
	delivery_free(d);
}
