// SPDX-License-Identifier: Apache-2.0
/*
 * What the delivery process sends to the agent; a server may have taken it over. The packets lie in the
 * socket before the agent looks, and behind them the process ends. The input:
 *
 *	u8   1: the list of pods was requested; 2: the agent still waits for the settings to be checked; 4: it
 *	     has called delivery_listen
 *	u8   what the page of the process's numbers is filled with
 *	u16  bytes of the list of pods in its memfd, which follow
 *	packets (packets.h)
 */
#include "agent/delivery/delivery.c"

#include "tests/fuzz/packets.h"

enum { WANTS_PODS = 1, WAITS = 2, LISTENS = 4 };

struct input {
	uint8_t flags, number;
	uint16_t pods;
};

static void check_result(int result, const char *why)
{
	require(result <= 0 && result >= -4095 && strlen(why) < DELIVERY_PACKET_MAX);
}

static void on_failed(int error, const char *why, void *data)
{
	require(data == NULL && error < 0);
	check_result(error, why);
}

static void on_listens(int result, const char *why, void *data)
{
	require(data == NULL);
	check_result(result, why);
}

/* Paths that begin with L are of a page that does not fit into a packet. */
static unsigned make_page(const char *path, const char *accept, struct buf *body, const char **type,
			  void *data)
{
	require(data == NULL && strlen(path) + strlen(accept) < DELIVERY_PACKET_MAX);
	if (*accept)
		*type = "text/html";
	require(buf_puts(body, path) == 0);
	while (*path == 'L' && body->len <= DELIVERY_INLINE_MAX)
		require(buf_puts(body,
				 "a line of this page is as long as this one, and the others are, too\n") ==
			0);
	return 200;
}

static void on_pull(uint64_t number, const struct pull_request *r, void *data)
{
	require(data == NULL && number && r->form < PULL_FORMS_N);
	require(r->seconds && r->seconds <= PULL_SECONDS_MAX && strlen(r->container) < PULL_NAME_MAX);
	require(strlen(r->pod) < PULL_NAME_MAX && strlen(r->namespace) < PULL_NAME_MAX);
}

static void on_pull_end(uint64_t number, void *data)
{
	(void)number;
	require(data == NULL);
}

static void on_pods(int result, struct pod_list *pods, const char *why, void *data)
{
	require(data == NULL && (result == 0 ? pods != NULL : !pods || !pods->n));
	check_result(result, why);
}

static void init(struct delivery *d, int socket, struct account_page *account, const struct input *input)
{
	*d = (struct delivery){.socket = socket,
			       .account = account,
			       .ready = input->flags & WAITS ? 1 : 0,
			       .listens = input->flags & LISTENS,
			       .callbacks = {.failed = on_failed,
					     .listens = on_listens,
					     .page = make_page,
					     .pull = on_pull,
					     .pull_end = on_pull_end}};
	d->pods.memfd = -1;
	memset(account, input->number, sizeof *account);
}

static void request_pods(struct delivery *d, struct packets *packets, size_t len)
{
	len = len < packets->left ? len : packets->left;
	require(delivery_request_pods(d, on_pods, NULL) == 0);
	require(pwrite(d->pods.memfd, packets->at, len, 0) == (ssize_t)len);
	packets->at += len;
	packets->left -= len;
}

static void wait_for_settings(struct delivery *d)
{
	char *why = NULL;
	const int r = delivery_wait(d, 10 * NS_PER_SEC, &why); /* the end of the stream comes at once */

	require(r <= 0 && (r < 0) == (why != NULL));
	free(why);
}

static void read_numbers(struct delivery *d)
{
	struct http_server_stats http;
	struct otlp_exporter_stats exports;

	delivery_stats(d, &exports);
	delivery_http_stats(d, &http);
	require(strlen(exports.last.text) < sizeof exports.last.text);
	require((int)exports.away + 1 <= 2); /* UBSan looks whether it is a bool */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct account_page *account;
	static struct delivery d;
	struct packets packets = {data, size};
	unsigned n_open = packets_n_open();
	struct input input;
	int sockets[2], r = 0;

	require(account || account_page_new(&account) == 0);
	packets_open(sockets);
	packets_take(&packets, &input, sizeof input);
	init(&d, sockets[0], account, &input);
	if (input.flags & WANTS_PODS)
		request_pods(&d, &packets, input.pods);
	packets_send_all(&packets, sockets[1], sockets[1]);
	if (input.flags & WAITS)
		wait_for_settings(&d);
	while (r == 0)
		r = take_message(&d);
	require(r == -EPIPE);
	read_numbers(&d);
	on_end(&d);
	require(d.pods.memfd < 0 && d.ready < 0);
	read_numbers(&d);
	free(d.why);
	close(sockets[0]);
	close(sockets[1]);
	require(packets_n_open() == n_open);
	return 0;
}
