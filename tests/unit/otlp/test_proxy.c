// SPDX-License-Identifier: Apache-2.0
/*
 * Tests HTTP proxies: their addresses, hosts that are excluded, answers cut anywhere, and an export through
 * a tunnel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "exporter_support.h"
#include "mock_collector.h"
#include "otlp/proxy.h"

Test(proxy, addresses)
{
	static const struct {
		const char *url, *authority, *credentials;
	} cases[] = {
		{"http://proxy:3128", "proxy:3128", ""},
		{"proxy:3128/", "proxy:3128", ""},
		{"proxy", "proxy:80", ""},
		{"HTTP://[::1]:8080", "[::1]:8080", ""},
		{"http://[::1]", "[::1]:80", ""},
		{"http://user:pa%3ass@proxy:1", "proxy:1", "user:pa:ss"},
		{"user@proxy:1", "proxy:1", "user"},
		{"http://a%40b:p@ss@proxy:1", "proxy:1", "a@b:p@ss"},
		{"https://proxy:1", NULL, NULL},
		{"http://", NULL, NULL},
		{"http://user%zz@proxy", NULL, NULL},
		{"http://user%00@proxy", NULL, NULL},
		{"http://proxy:99999", NULL, NULL},
		{"socks5://proxy:1", NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct otlp_proxy p;
		const char *why = NULL;
		int r = otlp_proxy_parse(cases[i].url, &p, &why);

		cr_assert_eq(r, cases[i].authority ? 0 : -EINVAL, "%s", cases[i].url);
		if (r < 0) {
			cr_expect(why && !strstr(why, "user%"), "%s", why);
			continue;
		}
		cr_expect_str_eq(p.address.authority, cases[i].authority);
		cr_expect_str_eq(p.credentials, cases[i].credentials);
	}
}

Test(proxy, excluded_hosts)
{
	static const struct {
		const char *url, *no_proxy;
		bool bypassed;
	} cases[] = {
		{"http://collector:4317", NULL, false},
		{"http://collector:4317", "", false},
		{"http://localhost:4317", NULL, true},
		{"http://127.3.4.5:4317", NULL, true},
		{"http://[::1]:4317", NULL, true},
		{"unix:/run/x", NULL, true},
		{"http://collector:4317", "*", true},
		{"http://collector:4317", "other, collector ,third", true},
		{"http://COLLECTOR:4317", "collector", true},
		{"http://collector:4317", "collector:4317", true},
		{"http://collector:4317", "collector:80", false},
		{"http://otel.svc.cluster.local", ".cluster.local", true},
		{"http://otel.svc.cluster.local", "*.svc.cluster.local", true},
		{"http://otel.svc.cluster.local", "cluster.local", true},
		{"http://otel.notcluster.local", "cluster.local", false},
		{"http://cluster.local", ".cluster.local", true},
		{"http://10.2.3.4", "10.0.0.0/8", true},
		{"http://11.2.3.4", "10.0.0.0/8", false},
		{"http://10.2.3.4", "10.2.3.4", true},
		{"http://10.2.3.4", "10.2.3.4:4317", true},
		{"http://10.2.3.4", "10.2.3.4/33", false},
		{"http://10.2.3.4", "10.2.3.4/", false},
		{"http://10.2.3.4", "2.3.4", false},
		{"http://[fd00::5]", "fd00::/8", true},
		{"http://[fd00::5]", "fd00::5", true},
		{"http://[fd00::5]:99", "[fd00::5]:99", true},
		{"http://[fd00::5]:99", "[fd00::5]:98", false},
		{"http://[fd00::5]", "10.0.0.0/8,fe80::/10", false},
		{"http://collector", "10.0.0.0/8", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct otlp_endpoint e;
		const char *why;

		cr_assert_eq(otlp_endpoint_parse(cases[i].url, OTLP_GRPC, &e, &why), 0);
		cr_expect_eq(otlp_proxy_bypassed(&e, cases[i].no_proxy), cases[i].bypassed, "%s, \"%s\"",
			     cases[i].url, cases[i].no_proxy);
	}
}

Test(proxy, answers)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nbehind it";
	char why[200] = "";
	size_t used = 0;

	for (size_t len = 0; len < sizeof ok - 10; len++)
		cr_expect_eq(otlp_proxy_answer(ok, len, &used, why, sizeof why), -EAGAIN, "%zu bytes", len);
	cr_expect_eq(otlp_proxy_answer(ok, sizeof ok - 1, &used, why, sizeof why), 0);
	cr_expect_str_eq(ok + used, "behind it");
	cr_expect_eq(otlp_proxy_answer("HTTP/1.1 407 Who are you\r\n\r\n", 28, &used, why, sizeof why),
		     -EPROTO);
	cr_expect(strstr(why, "407 Who are you"), "%s", why);
	cr_expect_eq(otlp_proxy_answer("SSH-2.0", 7, &used, why, sizeof why), -EPROTO);
	cr_expect_eq(otlp_proxy_answer("HTTP/1.\r\n\r\n", 11, &used, why, sizeof why), -EPROTO);
	cr_expect_eq(otlp_proxy_answer("HTTP/1.1 200 ok", 15, &used, why, sizeof why), -EAGAIN);
}

/* A proxy for one connection: reads the request, answers in small pieces, then forwards bytes. */
struct test_proxy {
	uint16_t port, target;
	const char *answer;
	pthread_t thread;
	int fd;
	char request[2000];
};

static int connected_to(uint16_t port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static bool pass_on(int from, int to)
{
	char data[4096];
	ssize_t n = recv(from, data, sizeof data, 0);

	return n > 0 && send(to, data, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *proxy_run(void *data)
{
	struct test_proxy *p = data;
	int client = accept(p->fd, NULL, NULL), server;
	size_t n = 0;

	while (n < sizeof p->request - 1 && !strstr(p->request, "\r\n\r\n") &&
	       recv(client, p->request + n, 1, 0) == 1)
		n++;
	for (const char *c = p->answer; *c; c++) {
		send(client, c, 1, MSG_NOSIGNAL);
		usleep(200);
	}
	if (strstr(p->answer, " 200 ")) {
		struct pollfd fds[2];

		server = connected_to(p->target);
		fds[0] = (struct pollfd){.fd = client, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = server, .events = POLLIN};
		while (poll(fds, 2, -1) > 0)
			if ((fds[0].revents && !pass_on(client, server)) ||
			    (fds[1].revents && !pass_on(server, client)))
				break;
		close(server);
	}
	close(client);
	return NULL;
}

static void proxy_start(struct test_proxy *p)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof a;

	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(p->fd, (struct sockaddr *)&a, sizeof a), 0);
	cr_assert_eq(listen(p->fd, 1), 0);
	cr_assert_eq(getsockname(p->fd, (struct sockaddr *)&a, &len), 0);
	p->port = ntohs(a.sin_port);
	cr_assert_eq(pthread_create(&p->thread, NULL, proxy_run, p), 0);
}

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

/* Only the proxy can resolve the Collector's name, so no byte can have bypassed it. */
static void probe_through(struct test_proxy *p, enum otlp_protocol protocol, struct otlp_outcome *ret)
{
	struct otlp_client_options opt = {.endpoint = "http://collector.invalid:4711",
					  .protocol = protocol,
					  .timeout_ns = 60 * NS_PER_SEC};
	_cleanup_client_ struct otlp_client *c = NULL;
	char proxy[100];

	proxy_start(p);
	snprintf(proxy, sizeof proxy, "http://me:s3cret@127.0.0.1:%u", p->port);
	opt.proxy = proxy;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, ret), 0);
	otlp_client_free(TAKE_PTR(c));
	pthread_join(p->thread, NULL);
	close(p->fd);
	cr_expect_not(strstr(ret->text, "s3cret"));
}

Test(proxy, a_tunnel_for_grpc)
{
	struct mock_collector m = {.decide = accept_all};
	struct test_proxy p = {.answer = "HTTP/1.0 200 fine\r\nX: y\r\n\r\n"};
	struct otlp_outcome o;

	mock_collector_start(&m);
	p.target = m.port;
	probe_through(&p, OTLP_GRPC, &o);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	cr_expect_eq(strncmp(p.request, "CONNECT collector.invalid:4711 HTTP/1.1\r\n", 41), 0, "%s",
		     p.request);
	cr_expect(strstr(p.request, "\r\nHost: collector.invalid:4711\r\n"));
	cr_expect(strstr(p.request, "\r\nProxy-Authorization: Basic bWU6czNjcmV0\r\n"), "%s", p.request);
	mock_collector_stop(&m);
}

Test(proxy, a_proxy_that_refuses)
{
	struct test_proxy closes = {.answer = "HTTP/1."},
			  refuses = {.answer = "HTTP/1.1 403 not there\r\n\r\n"};
	struct otlp_outcome o;

	probe_through(&refuses, OTLP_GRPC, &o);
	cr_expect_eq(o.verdict, OTLP_RETRY);
	cr_expect(strstr(o.text, "the proxy refuses a tunnel: 403 not there"), "%s", o.text);
	probe_through(&closes, OTLP_GRPC, &o);
	cr_expect_eq(o.verdict, OTLP_RETRY);
	cr_expect(strstr(o.text, "the proxy closed the connection"), "%s", o.text);
}

Test(proxy, http_goes_through_it_too)
{
	struct test_proxy p = {.answer =
				       "HTTP/1.1 503 busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"};
	struct otlp_outcome o;

	probe_through(&p, OTLP_HTTP, &o);
	cr_expect_eq(o.verdict, OTLP_RETRY);
	cr_expect_eq(strncmp(p.request,
			     "POST http://collector.invalid:4711/v1development/profiles HTTP/1.1\r\n", 68),
		     0, "%s", p.request);
	cr_expect(strstr(p.request, "Proxy-Authorization: Basic bWU6czNjcmV0\r\n"), "%s", p.request);
}
