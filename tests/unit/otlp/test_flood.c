// SPDX-License-Identifier: Apache-2.0
/* Tests that an attempt ends at its deadline, and at once when cancelled, whatever the server sends. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "exporter_support.h"
#include "flood_server.h"

#define TIMEOUT (500 * NS_PER_MS)
#define LATE (4 * NS_PER_SEC) /* that much more on a busy machine; a flood without limit lasts longer */
#define FRAME(length, type, flags, stream) "\0\0" length type flags "\0\0\0" stream
#define SETTINGS FRAME("\0", "\4", "\0", "\0")
#define INFORMATIONAL                 \
	FRAME("\5", "\1", "\4", "\1") \
	"\x08\x03"                    \
	"100"
#define OK_HEADERS FRAME("\1", "\1", "\4", "\1") "\x88"
#define OK_TRAILERS_ONLY                \
	FRAME("\x23", "\1", "\5", "\1") \
	"\x88\x0f\x10\x10"              \
	"application/grpc"              \
	"\0\x0b"                        \
	"grpc-status"                   \
	"\x01"                          \
	"0"
#define HTTP_OK "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static const struct {
	const char *name;
	enum otlp_protocol protocol;
	struct flood_server server;
} cases[] = {
	{"1xx", OTLP_GRPC, {BYTES(SETTINGS), BYTES(""), BYTES(INFORMATIONAL), .reads = true}},
	{"1xx, not read", OTLP_GRPC, {BYTES(SETTINGS), BYTES(""), BYTES(INFORMATIONAL), .reads = false}},
	{"SETTINGS", OTLP_GRPC, {BYTES(SETTINGS), BYTES(""), BYTES(SETTINGS), .reads = true}},
	{"SETTINGS, not read", OTLP_GRPC, {BYTES(SETTINGS), BYTES(""), BYTES(SETTINGS), .reads = false}},
	{"PING",
	 OTLP_GRPC,
	 {BYTES(SETTINGS), BYTES(""), BYTES(FRAME("\x08", "\6", "\0", "\0") "8 bytes."), .reads = true}},
	{"empty DATA",
	 OTLP_GRPC,
	 {BYTES(SETTINGS), BYTES(OK_HEADERS), BYTES(FRAME("\0", "\0", "\0", "\1")), .reads = true}},
	{"WINDOW_UPDATE",
	 OTLP_GRPC,
	 {BYTES(SETTINGS), BYTES(""), BYTES(FRAME("\4", "\x08", "\0", "\1") "\0\0\0\1"), .reads = true}},
	{"CONTINUATION",
	 OTLP_GRPC,
	 {BYTES(SETTINGS), BYTES(FRAME("\1", "\1", "\0", "\1") "\x88"),
	  BYTES(FRAME("\5", "\x09", "\0", "\1") "\0\1a\1a"), .reads = true}},
	{"a byte at a time",
	 OTLP_GRPC,
	 {BYTES(SETTINGS), BYTES(""), BYTES(INFORMATIONAL), .reads = true, .drip = true}},
	{"silence", OTLP_GRPC, {BYTES(SETTINGS), BYTES(""), BYTES(""), .reads = false}},
	{"HTTP 1xx",
	 OTLP_HTTP,
	 {BYTES(""), BYTES(""), BYTES("HTTP/1.1 100 Continue\r\n\r\n"), .reads = true}},
	{"HTTP header, a byte at a time",
	 OTLP_HTTP,
	 {BYTES(""), BYTES("HTTP/1.1 200 OK\r\n"), BYTES("a: b\r\n"), .reads = true, .drip = true}},
	{"HTTP headers",
	 OTLP_HTTP,
	 {BYTES(""), BYTES("HTTP/1.1 200 OK\r\n"), BYTES("a: b\r\n"), .reads = true}},
	{"HTTP trailers", OTLP_HTTP, {BYTES(""), BYTES(HTTP_OK "0\r\n"), BYTES("a: b\r\n"), .reads = true}},
	{"HTTP body", OTLP_HTTP, {BYTES(""), BYTES(HTTP_OK), BYTES("1\r\nx\r\n"), .reads = true}},
};

static struct otlp_client *client_of(const struct flood_server *s, enum otlp_protocol protocol,
				     uint64_t timeout_ns)
{
	struct otlp_client_options opt = {.protocol = protocol, .timeout_ns = timeout_ns};
	struct otlp_client *c;
	char url[64];

	snprintf(url, sizeof url, "http://127.0.0.1:%u", s->port);
	opt.endpoint = url;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	return c;
}

Test(flood, an_attempt_ends_at_its_deadline)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct flood_server s = cases[i].server;
		_cleanup_client_ struct otlp_client *c = NULL;
		struct otlp_outcome o = {0};
		uint64_t begin, took;

		flood_server_start(&s);
		c = client_of(&s, cases[i].protocol, TIMEOUT);
		begin = clock_mono_ns();
		cr_expect_eq(otlp_client_probe(c, -1, &o), 0, "%s", cases[i].name);
		took = clock_mono_ns() - begin;
		cr_expect_lt(took, TIMEOUT + LATE, "%s: %.2f s", cases[i].name, (double)took / NS_PER_SEC);
		cr_expect_eq(o.verdict, OTLP_RETRY, "%s: %s", cases[i].name, o.text);
		cr_expect_neq(o.text[0], '\0', "%s", cases[i].name);
		flood_server_stop(&s);
	}
}

static void *cancel_soon(void *data)
{
	usleep(200000);
	cr_assert_eq(eventfd_write(*(int *)data, 1), 0);
	return NULL;
}

/* A flood may also end by itself, before it is cancelled: its bytes are limited. */
Test(flood, an_attempt_is_cancelled_at_once)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct flood_server s = cases[i].server;
		_cleanup_client_ struct otlp_client *c = NULL;
		struct otlp_outcome o = {0};
		uint64_t begin, took;
		pthread_t thread;
		int fd = eventfd(0, EFD_CLOEXEC), r;

		flood_server_start(&s);
		c = client_of(&s, cases[i].protocol, LONG);
		begin = clock_mono_ns();
		cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, &fd), 0);
		r = otlp_client_probe(c, fd, &o);
		took = clock_mono_ns() - begin;
		cr_expect(r == -ECANCELED || (r == 0 && o.verdict == OTLP_RETRY), "%s: %d, %s", cases[i].name,
			  r, o.text);
		cr_expect_lt(took, LATE, "%s: %.2f s", cases[i].name, (double)took / NS_PER_SEC);
		pthread_join(thread, NULL);
		flood_server_stop(&s);
		close(fd);
	}
}

/* Between calls nobody waits for an answer: a connection that is flooded then is closed. */
Test(flood, an_idle_connection_is_closed)
{
	struct flood_server s = {BYTES(SETTINGS), BYTES(OK_TRAILERS_ONLY), BYTES(SETTINGS), .reads = true};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o = {0};
	short events;
	int fd;

	flood_server_start(&s);
	c = client_of(&s, OTLP_GRPC, LONG);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	for (unsigned i = 0; (fd = otlp_client_fd(c, &events)) >= 0; i++) {
		struct pollfd p = {.fd = fd, .events = events};

		cr_assert_lt(i, 1000);
		cr_assert_gt(poll(&p, 1, 60000), 0);
		otlp_client_idle(c);
	}
	flood_server_stop(&s);
}
