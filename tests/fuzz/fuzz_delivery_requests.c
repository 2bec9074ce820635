// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent sends to the delivery process, between requests of strangers for pages. The server, the
 * exporter and the kubelet's thread are doubles. The input is packets (packets.h). If the first byte of one
 * has 128, it is a stranger's request: path, Accept header and a parameter; if it has 64, the kubelet answers
 * before.
 */
#define otlp_exporter_submit take_submitted
#define http_server_answer take_answer
#define http_server_stats no_stats
#define http_server_hold hold
#define worker_submit take_job

#include "agent/delivery/process.c"

#include "tests/fuzz/packets.h"

enum { STRANGER = 128, KUBELET = 64 };

static bool submitted_job;

void take_submitted(struct otlp_exporter *e, struct otlp_request *request)
{
	require(e != NULL && request != NULL && request->data.len == request->raw_bytes);
	otlp_request_free(request);
}

void take_answer(struct http_server *s, uint64_t id, unsigned status, const struct buf *body,
		 const char *content_type)
{
	require(s != NULL && id != 0 && body->len <= DELIVERY_PAGE_MAX);
	require(strlen(content_type) < DELIVERY_PACKET_MAX && status + 1 != 0);
}

void no_stats(const struct http_server *s, struct http_server_stats *ret)
{
	require(s != NULL);
	*ret = (struct http_server_stats){0};
}

bool hold(struct http_server *s, uint64_t id, uint64_t wait_ns)
{
	require(s != NULL && id != 0 && wait_ns > PULL_WAIT_NS);
	return id % 8 != 7;
}

int take_job(struct worker *w, struct worker_job *job, enum worker_priority priority)
{
	require(w != NULL && job != NULL && !submitted_job && priority == WORKER_HIGH);
	submitted_job = true;
	return 0;
}

static void answer_of_kubelet(struct process *p, unsigned n)
{
	if (!submitted_job)
		return;
	submitted_job = false;
	p->kubelet.result = n % 2 ? -ETIMEDOUT : 0;
	kubelet_done(&p->kubelet.job, n % 3 == 2);
	require(p->kubelet.memfd < 0);
}

/* The bytes of the packet are texts. */
static void ask(struct process *p, struct packets *packets, uint64_t id)
{
	char path[64], accept[16], name[12], value[64];
	struct http_request r = {.id = id,
				 .path = path,
				 .accept = accept,
				 .host = "localhost",
				 .from_loopback = true,
				 .parameters = {{name, value}},
				 .n_parameters = 1};

	packets_take(packets, path, 3); /* the head of the packet */
	packets_take(packets, path, sizeof path - 1);
	packets_take(packets, accept, sizeof accept - 1);
	packets_take(packets, name, sizeof name - 1);
	packets_take(packets, value, sizeof value - 1);
	path[sizeof path - 1] = accept[sizeof accept - 1] = '\0';
	name[sizeof name - 1] = value[sizeof value - 1] = '\0';
	on_request(&r, p);
	if (id % 4 == 3)
		on_closed(id - 2, p);
}

static void converse(struct process *p, struct packets *packets, int agent, int memfd)
{
	uint8_t message[DELIVERY_PACKET_MAX];

	for (unsigned i = 0; i < PACKETS_MAX && packets->left >= 3 && !p->stop; i++) {
		const uint8_t first = packets->at[0];

		if (first & KUBELET)
			answer_of_kubelet(p, i);
		if (first & STRANGER) {
			ask(p, packets, i + 1);
		} else {
			require(lseek(memfd, 0, SEEK_SET) == 0);
			(void)packets_send(packets, agent, memfd);
			(void)take_message(p);
		}
		while (recv(agent, message, sizeof message, 0) > 0)
			;
	}
	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i += 2)
		p->pages.awaited[i].until_ns = 0;
	(void)on_pages_timer(1, p);
}

/* What stays from one input to the next. */
static void init(struct process *p)
{
	static const struct config config;
	static const struct delivery_options options = {.config = &config, .exports = true};
	static char exporter, server, worker;

	p->options = &options;
	p->exporter = (void *)&exporter;
	p->http = (void *)&server;
	p->kubelet.worker = (void *)&worker;
	require(account_page_new(&p->account) == 0 && loop_new(&p->loop) == 0);
	require(loop_add_timer(p->loop, 0, 0, on_pages_timer, p, &p->pages.timer) == 0);
}

static void end(struct process *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++)
		page_forget(&p->pages.awaited[i]);
	for (size_t i = 0; i < ARRAY_SIZE(p->pulls.running); i++)
		if (p->pulls.running[i].id)
			on_closed(p->pulls.running[i].id, p);
	require(p->pulls.stats.running == 0);
	answer_of_kubelet(p, 0);
	p->stop = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct process p;
	struct packets packets = {data, size};
	int sockets[2], memfd;
	unsigned n_open;

	if (!p.loop)
		init(&p);
	n_open = packets_n_open();
	packets_open(sockets);
	memfd = memfd_create("bytes", MFD_CLOEXEC);
	require(memfd >= 0 && pwrite(memfd, "<p>page</p>", 11, 0) == 11);
	p.socket = sockets[0];
	p.kubelet.memfd = -1;
	converse(&p, &packets, sockets[1], memfd);
	end(&p);
	close(sockets[0]);
	close(sockets[1]);
	close(memfd);
	require(packets_n_open() == n_open);
	return 0;
}
