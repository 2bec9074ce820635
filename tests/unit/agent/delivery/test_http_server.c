// SPDX-License-Identifier: Apache-2.0
/* Tests that the server answers every peer, whatever others do with their connections. */
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/delivery/http_server.h"

#define REQUEST "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#define SLOW_REQUEST "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
#define ANSWER_MS 20000

static struct loop *loop;
static struct http_server *server;
static uint16_t port;
static uint64_t slow;	/* the last request for /slow, which waits for its answer */
static uint64_t closed; /* the last request whose connection was closed */
static size_t n_parameters;
static bool has_more;
static char parameters[64], authorization[64];

static void answer(uint64_t id, const char *text)
{
	_cleanup_buf_ struct buf body = {0};

	cr_assert_eq(buf_puts(&body, text), 0);
	http_server_answer(server, id, 200, &body, HTTP_SERVER_TEXT);
}

static void on_request(const struct http_request *r, void *data)
{
	(void)data;
	cr_expect_neq(r->id, 0);
	cr_expect_str_eq(r->accept, "");
	cr_expect_str_eq(r->host, "x");
	cr_expect(r->from_loopback);
	if (strcmp(r->path, "/slow") == 0) {
		slow = r->id;
		return;
	}
	if (strcmp(r->path, "/parameters") == 0) {
		n_parameters = r->n_parameters;
		has_more = r->has_more;
		if (n_parameters)
			snprintf(parameters, sizeof parameters, "%s=%s %s=%s", r->parameters[0].name,
				 r->parameters[0].value, r->parameters[1].name, r->parameters[1].value);
		snprintf(authorization, sizeof authorization, "%s", r->authorization ? r->authorization : "");
	} else {
		cr_expect_str_eq(r->path, "/page");
	}
	answer(r->id, "hello");
}

static void on_closed(uint64_t id, void *data)
{
	(void)data;
	closed = id;
}

static int wake(uint64_t expirations, void *data)
{
	(void)expirations;
	loop_stop(data);
	return 0;
}

static void setup(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	const struct http_server_callbacks callbacks = {.request = on_request, .closed = on_closed};
	char listen[32], *why = NULL;

	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	port = ntohs(a.sin_port);
	snprintf(listen, sizeof listen, "0.0.0.0:%u", port);
	slow = closed = 0;
	cr_assert_eq(loop_new(&loop), 0);
	cr_assert_eq(http_server_new(&server, loop, listen, &callbacks, &why), 0, "%s", why);
	cr_assert_eq(loop_add_timer(loop, NS_PER_MS, NS_PER_MS, wake, loop, NULL), 0);
}

static void teardown(void)
{
	http_server_free(server);
	loop_free(loop);
}

TestSuite(http_server, .init = setup, .fini = teardown, .timeout = 120);

/* A connection from 127.0.0.N. */
static int connection(unsigned n)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000000 + n)}};
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Runs the server until there is something to read; false: there is nothing within the time. */
static bool serve_until_readable(int fd, uint64_t ms)
{
	const uint64_t end = clock_mono_ns() + ms * NS_PER_MS;

	while (!is_readable(fd) && clock_mono_ns() < end)
		cr_assert_eq(loop_run(loop), 0);
	return is_readable(fd);
}

static void serve(uint64_t ms)
{
	(void)serve_until_readable(-1, ms);
}

/* Reads until the server closes the connection. */
static void expect_answer_on(int fd, const char *text)
{
	char answer[1024] = "";
	size_t len = 0;
	ssize_t n;

	while (serve_until_readable(fd, ANSWER_MS)) {
		n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	cr_expect(strstr(answer, "200 OK") && strstr(answer, "\r\n\r\n") &&
			  strcmp(strstr(answer, "\r\n\r\n") + 4, text) == 0,
		  "%s", answer);
	cr_expect(strstr(answer, "Connection: close"), "%s", answer);
}

static int request(unsigned from, const char *text)
{
	int fd = connection(from);

	cr_assert_eq(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	return fd;
}

static void expect_answer(unsigned from)
{
	expect_answer_on(request(from, REQUEST), "hello");
}

/* Requests /slow and serves until the request has arrived. */
static int request_slow(unsigned from)
{
	const uint64_t before = slow;
	int fd = request(from, SLOW_REQUEST);

	for (uint64_t end = clock_mono_ns() + ANSWER_MS * NS_PER_MS; slow == before;) {
		cr_assert_lt(clock_mono_ns(), end);
		serve(1);
	}
	return fd;
}

static struct http_server_stats stats(void)
{
	struct http_server_stats ret;

	http_server_stats(server, &ret);
	return ret;
}

Test(http_server, idle_connections_of_one_address)
{
	int fds[48];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = connection(1);
	while (stats().accepted < ARRAY_SIZE(fds))
		serve(1);
	cr_expect_eq(stats().evicted, ARRAY_SIZE(fds) - HTTP_SERVER_PER_ADDRESS_MAX);
	expect_answer(1);
	expect_answer(2);
	cr_expect(is_readable(fds[0]), "the oldest is closed");
	cr_expect_not(is_readable(fds[47]), "the newest is open");
	cr_expect_eq(stats().evicted, ARRAY_SIZE(fds) - HTTP_SERVER_PER_ADDRESS_MAX + 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

/* The one with most connections pays for a new one, not who has waited longest. */
Test(http_server, idle_connections_of_many_addresses)
{
	int first = connection(9), fds[3 * HTTP_SERVER_PER_ADDRESS_MAX];

	serve(20);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = connection(1 + i % 3);
		while (stats().accepted < i + 2)
			serve(1);
	}
	cr_expect_eq(stats().evicted, 1 + ARRAY_SIZE(fds) - HTTP_SERVER_CONNECTIONS_MAX);
	cr_expect_not(is_readable(first));
	expect_answer(4);
	cr_expect_not(is_readable(first));
	close(first);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

Test(http_server, a_request_one_byte_at_a_time)
{
	const uint64_t begin = clock_mono_ns();
	int fd = connection(1);
	uint64_t took;

	for (size_t i = 0; !is_readable(fd); i++) {
		(void)!send(fd, &REQUEST[i % (strlen(REQUEST) - 3)], 1, MSG_NOSIGNAL);
		serve(300);
		cr_assert_lt(i, 200);
	}
	took = clock_mono_ns() - begin;
	cr_expect_geq(took, HTTP_SERVER_DEADLINE_NS - NS_PER_SEC / 2);
	cr_expect_eq(stats().late, 1);
	expect_answer(1);
	close(fd);
}

Test(http_server, a_flood_of_connections_waits)
{
	for (unsigned i = 0; !stats().paused; i++) {
		close(connection(1));
		if (i % 8 == 0)
			serve(1);
		cr_assert_lt(i, 100 * HTTP_SERVER_PER_SECOND_MAX);
	}
	expect_answer(2);
}

Test(http_server, a_late_answer_delays_nobody_else)
{
	int first = request_slow(1), second;
	const uint64_t first_id = slow;

	expect_answer(1);
	expect_answer(2);
	second = request_slow(1);
	answer(slow, "second");
	expect_answer_on(second, "second");
	cr_expect_not(is_readable(first));
	answer(first_id, "first");
	answer(first_id, "once more");
	expect_answer_on(first, "first");
	expect_answer(1);
}

Test(http_server, a_request_without_an_answer)
{
	int fd = request_slow(1);
	const uint64_t begin = clock_mono_ns();
	char byte;

	cr_assert(serve_until_readable(fd, ANSWER_MS + HTTP_SERVER_ANSWER_NS / NS_PER_MS));
	cr_expect_geq(clock_mono_ns() - begin, HTTP_SERVER_ANSWER_NS - NS_PER_SEC);
	cr_expect_leq(recv(fd, &byte, 1, 0), 0);
	cr_expect_eq(stats().late, 1);
	answer(slow, "too late");
	expect_answer(1);
	close(fd);
}

/* One that waits for its answer is closed for a new connection like any other. */
Test(http_server, a_request_that_is_evicted)
{
	int fd = request_slow(1), others[HTTP_SERVER_PER_ADDRESS_MAX];
	const unsigned accepted = (unsigned)stats().accepted;

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = connection(1);
		while (stats().accepted < accepted + i + 1)
			serve(1);
	}
	cr_expect_eq(stats().evicted, 1);
	cr_expect(serve_until_readable(fd, ANSWER_MS));
	answer(slow, "too late");
	expect_answer(2);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		close(others[i]);
}

Test(http_server, a_peer_that_leaves_before_its_answer)
{
	for (int i = 0; i < 40; i++) {
		close(request_slow(1));
		answer(slow, "nobody reads this");
	}
	serve(20);
	expect_answer(1);
}

Test(http_server, parameters_and_the_authorization)
{
	expect_answer_on(request(1, "GET /parameters?a=1%2F2&b HTTP/1.1\r\nHost: x\r\n"
				    "Authorization: Bearer t\r\n\r\n"),
			 "hello");
	cr_expect_eq(n_parameters, 2);
	cr_expect_str_eq(parameters, "a=1/2 b=");
	cr_expect_str_eq(authorization, "Bearer t");
	cr_expect_not(has_more);
	expect_answer_on(
		request(1, "GET /parameters?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a HTTP/1.1\r\nHost: x\r\n\r\n"),
		"hello");
	cr_expect_eq(n_parameters, HTTP_SERVER_PARAMETERS_MAX);
	cr_expect_not(has_more);
	expect_answer_on(
		request(1, "GET /parameters?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a HTTP/1.1\r\nHost: x\r\n\r\n"),
		"hello");
	cr_expect(has_more);
}

/* A held request is not closed for new connections, and has its own time. */
Test(http_server, a_request_that_is_held)
{
	int fd = request_slow(1), others[3 * HTTP_SERVER_PER_ADDRESS_MAX];
	const uint64_t id = slow, begin = clock_mono_ns();

	cr_expect(http_server_hold(server, id, 2 * HTTP_SERVER_ANSWER_NS));
	cr_expect_not(http_server_hold(server, id + 1, NS_PER_SEC), "there is no such request");
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = connection(1);
		while (stats().accepted < 2 + i)
			serve(1);
	}
	while (clock_mono_ns() - begin < HTTP_SERVER_ANSWER_NS + NS_PER_SEC)
		serve(100);
	cr_expect_not(is_readable(fd));
	answer(id, "at last");
	expect_answer_on(fd, "at last");
	expect_answer(1);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		close(others[i]);
}

Test(http_server, few_requests_are_held)
{
	int fds[HTTP_SERVER_HELD_MAX + 1];
	uint64_t first = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = request_slow(1 + i);
		first = first ? first : slow;
		cr_expect_eq(http_server_hold(server, slow, NS_PER_SEC), i < HTTP_SERVER_HELD_MAX);
	}
	answer(first, "first");
	expect_answer_on(fds[0], "first");
	serve(20);
	cr_expect(http_server_hold(server, slow, NS_PER_SEC), "its place is free");
	for (unsigned i = 1; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

/* Whoever has left is noticed although the library does not look at the connection. */
Test(http_server, a_peer_that_leaves_is_reported)
{
	int fd = request_slow(1);
	const uint64_t begin = clock_mono_ns();

	cr_expect_eq(closed, 0);
	close(fd);
	while (!closed && clock_mono_ns() - begin < ANSWER_MS * NS_PER_MS)
		serve(10);
	cr_expect_eq(closed, slow);
	cr_expect_eq(stats().late, 0);
	expect_answer(1);
	serve(20);
	cr_expect_eq(closed, slow + 1, "after its answer, too");
}

/* teardown frees a server with requests that wait. */
Test(http_server, ends_while_requests_wait)
{
	close(request_slow(1));
	(void)request_slow(2);
}
