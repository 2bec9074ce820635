// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/delivery.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/flat.h"
#include "agent/base/fs.h"
#include "agent/base/loop.h"
#include "agent/base/packet.h"
#include "agent/base/urgency.h"
#include "agent/delivery/account.h"
#include "agent/delivery/messages.h"
#include "agent/delivery/pods_answer.h"
#include "agent/delivery/process.h"
#include "agent/delivery/pull_request.h"
#include "cgroup/pods.h"

#define END_WAIT_NS (2 * NS_PER_SEC) /* beyond the deadline, for writing the spool */
#define END_STEP_MS 10
#define GONE "the process that delivers has ended"

struct delivery {
	pid_t keeper; /* 0: it has ended */
	int socket;
	struct account_page *account;
	struct otlp_exporter_stats last;	/* of what was read */
	uint64_t n_samples, n_requests;		/* handed over */
	uint64_t n_refused, n_refused_requests; /* not handed over */
	bool stopped;				/* what is still on its way will not arrive */
	int ready;				/* as delivery_wait */
	char *why;				/* if ready < 0 */
	struct delivery_callbacks callbacks;
	struct loop_source *source;
	bool listens; /* delivery_listen was called */
	struct {
		void (*done)(int result, struct pod_list *pods, const char *why, void *data);
		void *data;
		int memfd; /* -1: none was requested */
	} pods;
	uint8_t packet[sizeof(struct delivery_head) + DELIVERY_PACKET_MAX];
};

/* --- start */

int delivery_start(struct delivery **ret, const struct delivery_options *options)
{
	_cleanup_(delivery_free_p) struct delivery *d = calloc(1, sizeof *d);
	int sockets[2], r;

	if (!d)
		return -ENOMEM;
	d->socket = d->pods.memfd = -1;
	d->ready = 1;
	r = account_page_new(&d->account);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) < 0)
		return -errno;
	d->socket = sockets[0];
	d->keeper = fork();
	if (d->keeper == 0) {
		close(sockets[0]);
		process_keep(sockets[1], options, d->account);
	}
	r = d->keeper < 0 ? -errno : 0;
	close(sockets[1]);
	if (r < 0) {
		d->keeper = 0;
		return r;
	}
	*ret = TAKE_PTR(d);
	return 0;
}

/* --- messages */

static int send_message(struct delivery *d, enum delivery_message message, const struct delivery_head *more,
			const struct buf *bytes, int fd)
{
	struct delivery_head head = more ? *more : (struct delivery_head){0};
	struct packet packet = {.head = &head, .head_len = sizeof head};

	head.message = message;
	if (bytes) {
		packet.body = bytes->data;
		packet.body_len = bytes->len;
	}
	if (fd >= 0)
		packet.fds[packet.n_fds++] = fd;
	return packet_send(d->socket, &packet);
}

/* A descriptor of these bytes, read from their beginning; or -errno. */
static int bytes_fd(const char *name, const void *bytes, size_t len)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fs_write_fd(fd, bytes, len);

	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

void delivery_answer(struct delivery *d, uint64_t number, unsigned status, const struct buf *body,
		     const char *content_type)
{
	_cleanup_buf_ struct buf bytes = {.max = DELIVERY_PACKET_MAX};
	_cleanup_close_ int fd = -1;
	const struct delivery_head head = {.number = number, .result = (int32_t)status};
	int r = flat_put_string(&bytes, content_type);

	if (r == 0 && body->len <= DELIVERY_INLINE_MAX)
		r = buf_append(&bytes, body->data, body->len);
	else if (r == 0)
		fd = r = bytes_fd("page", body->data, body->len);
	if (r >= 0)
		(void)send_message(d, DELIVERY_PAGE_ANSWER, &head, &bytes,
				   fd); /* else it is not waited for */
}

static void answer_page(struct delivery *d, uint64_t number, const char *path, const char *accept)
{
	_cleanup_buf_ struct buf body = {.max = DELIVERY_PAGE_MAX};
	const char *type = HTTP_SERVER_TEXT;
	unsigned status = d->callbacks.page(path, accept, &body, &type, d->callbacks.data);

	delivery_answer(d, number, status, &body, type);
}

static void take_pull(struct delivery *d, uint64_t number, struct flat_reader *bytes)
{
	struct pull_request r;

	if (number && d->callbacks.pull && pull_request_get(bytes, &r) == 0)
		d->callbacks.pull(number, &r, d->callbacks.data);
}

static void end_pull(struct delivery *d, uint64_t number)
{
	if (d->callbacks.pull_end)
		d->callbacks.pull_end(number, d->callbacks.data);
}

static void pods_done(struct delivery *d, int result, struct pod_list *pods, const char *why)
{
	if (d->pods.memfd < 0)
		return;
	close(TAKE_FD(d->pods.memfd));
	if (d->pods.done)
		d->pods.done(result, pods, why, d->pods.data);
}

static void take_pods(struct delivery *d, int result, const char *why, uint64_t len)
{
	_cleanup_buf_ struct buf bytes = {.max = DELIVERY_PODS_MAX};
	_cleanup_(pod_list_fini) struct pod_list pods = {0};

	if (d->pods.memfd < 0)
		return;
	if (result == 0 && lseek(d->pods.memfd, 0, SEEK_SET) < 0)
		result = -errno;
	if (result == 0)
		result = fs_read_fd(d->pods.memfd, DELIVERY_PODS_MAX, &bytes);
	if (result == 0)
		result = bytes.len == len ? pods_answer_get(bytes.data, len, &pods) : -EBADMSG;
	pods_done(d, result, &pods, result < 0 && !*why ? strerror(-result) : why);
}

/* It is there, for the first time or again. */
static void take_ready(struct delivery *d, int result, const char *why)
{
	const bool again = d->ready == 0;

	if (result < 0 && !again && !d->why)
		d->why = strdup(why);
	if (result == 0 || !again)
		d->ready = result;
	if (result < 0 && !again && d->callbacks.failed)
		d->callbacks.failed(result, why, d->callbacks.data);
	if (result < 0 || !again)
		return;
	if (d->listens)
		(void)delivery_listen(d);
	pods_done(d, -ECONNREFUSED, NULL, GONE);
	end_pull(d, 0);
}

/* Whatever it sends may be wrong: a server may have taken it over. */
static void handle(struct delivery *d, const struct delivery_head *head, struct flat_reader *bytes)
{
	const int result = head->result < 0 && head->result > -4096 ? head->result
			   : head->result			    ? -EPROTO
								    : 0;
	const char *text;

	if (head->message == DELIVERY_PULL)
		take_pull(d, head->number, bytes);
	else if (head->message == DELIVERY_PULL_END && head->number)
		end_pull(d, head->number);
	if (head->message == DELIVERY_PULL || head->message == DELIVERY_PULL_END)
		return;
	text = flat_string(bytes);
	if (bytes->bad)
		return;
	if (head->message == DELIVERY_READY) {
		take_ready(d, result, text);
	} else if (head->message == DELIVERY_LISTENS && d->callbacks.listens) {
		d->callbacks.listens(result, text, d->callbacks.data);
	} else if (head->message == DELIVERY_PAGE && d->callbacks.page) {
		const char *accept = flat_string(bytes);

		if (flat_done(bytes))
			answer_page(d, head->number, text, accept);
	} else if (head->message == DELIVERY_PODS) {
		take_pods(d, result, text, flat_u64(bytes));
	}
}

/* 0; -EAGAIN: there is none; -EPIPE: it has ended. */
static int take_message(struct delivery *d)
{
	struct packet packet = {.body = d->packet, .body_len = sizeof d->packet};
	struct delivery_head head;
	struct flat_reader bytes;
	int r = packet_poll(d->socket, &packet);

	if (r == -EMSGSIZE)
		return 0;
	if (r < 0)
		return r;
	packet_close_fds(&packet);
	bytes = flat_read(d->packet, packet.body_len);
	flat_get(&bytes, &head, sizeof head);
	if (!bytes.bad)
		handle(d, &head, &bytes);
	return 0;
}

static void on_end(struct delivery *d)
{
	d->stopped = true;
	loop_remove(TAKE_PTR(d->source));
	pods_done(d, -ECONNREFUSED, NULL, GONE);
	if (d->ready < 0)
		return; /* it was reported */
	d->ready = -EPIPE;
	if (d->callbacks.failed)
		d->callbacks.failed(-EPIPE, GONE, d->callbacks.data);
}

static int on_message(int fd, uint32_t events, void *data)
{
	struct delivery *d = data;
	int r = take_message(d); /* one at a time: the loop has more to do */

	(void)fd;
	(void)events;
	if (r == -EPIPE)
		on_end(d);
	return 0;
}

/* Waits for a message and takes it. 0; 1: none came in time; -EPIPE. */
static int await_message(struct delivery *d, uint64_t until_ns)
{
	const uint64_t now = clock_mono_ns();
	struct pollfd wait = {.fd = d->socket, .events = POLLIN};
	int r;

	if (now >= until_ns || poll(&wait, 1, (int)((until_ns - now) / NS_PER_MS) + 1) <= 0)
		return clock_mono_ns() >= until_ns ? 1 : 0;
	r = take_message(d);
	return r == -EAGAIN ? 0 : r;
}

int delivery_wait(struct delivery *d, uint64_t timeout_ns, char **ret_why)
{
	const uint64_t until = clock_mono_ns() + timeout_ns;
	int r = 0;

	*ret_why = NULL;
	while (d->ready == 1 && r == 0)
		r = await_message(d, until);
	if (r < 0)
		d->ready = r;
	if (d->ready < 0)
		*ret_why = strdup(d->why ? d->why : GONE);
	return d->ready;
}

int delivery_watch(struct delivery *d, struct loop *loop, const struct delivery_callbacks *callbacks)
{
	d->callbacks = *callbacks;
	return loop_add_fd(loop, d->socket, EPOLLIN, on_message, d, &d->source);
}

/* --- requests */

static int hand_over(struct delivery *d, const struct otlp_request *request)
{
	_cleanup_close_ int fd = bytes_fd("request", request->data.data, request->data.len);
	_cleanup_buf_ struct buf bytes = {0};
	int r = fd < 0 ? fd : d->stopped ? -EPIPE : 0;

	if (r == 0)
		r = flat_put_u64(&bytes, request->n_samples);
	if (r == 0)
		r = flat_put_u64(&bytes, request->n_profiles);
	if (r == 0)
		r = flat_put_u64(&bytes, request->start_unix_ns);
	if (r == 0)
		r = flat_put_u64(&bytes, request->end_unix_ns);
	return r < 0 ? r : send_message(d, DELIVERY_SUBMIT, NULL, &bytes, fd);
}

void delivery_submit(struct delivery *d, struct otlp_request *request)
{
	if (hand_over(d, request) < 0) {
		d->n_refused += request->n_samples;
		d->n_refused_requests++;
	} else {
		d->n_samples += request->n_samples;
		d->n_requests++;
	}
	otlp_request_free(request);
}

int delivery_listen(struct delivery *d)
{
	d->listens = true;
	return send_message(d, DELIVERY_LISTEN, NULL, NULL, -1);
}

int delivery_request_pods(struct delivery *d,
			  void (*done)(int result, struct pod_list *pods, const char *why, void *data),
			  void *data)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (d->pods.memfd >= 0)
		return -EBUSY;
	fd = bytes_fd("pods", NULL, 0);
	if (fd < 0)
		return fd;
	r = send_message(d, DELIVERY_LIST_PODS, NULL, NULL, fd);
	if (r < 0)
		return r;
	d->pods.memfd = TAKE_FD(fd);
	d->pods.done = done;
	d->pods.data = data;
	return 0;
}

void delivery_forget_pods(struct delivery *d)
{
	d->pods.done = NULL;
}

/* --- numbers */

/* What was handed over and has not arrived; at the end, it never will. */
static void count_rest(struct otlp_count *c, uint64_t handed_over, uint64_t refused, bool stopped)
{
	const uint64_t rest = handed_over > c->submitted ? handed_over - c->submitted : 0;

	c->submitted = handed_over + refused;
	c->dropped[OTLP_DROP_NO_SENDER] += refused + (stopped ? rest : 0);
	c->queued += stopped ? 0 : rest;
}

void delivery_stats(struct delivery *d, struct otlp_exporter_stats *ret)
{
	(void)account_get_exports(d->account, &d->last);
	*ret = d->last;
	if (d->stopped)
		account_lose_queue(ret); /* it had the time to empty it */
	count_rest(&ret->samples, d->n_samples, d->n_refused, d->stopped);
	count_rest(&ret->requests, d->n_requests, d->n_refused_requests, d->stopped);
}

void delivery_http_stats(const struct delivery *d, struct http_server_stats *ret)
{
	*ret = (struct http_server_stats){0};
	(void)account_get_http(d->account, ret);
}

void delivery_pull_stats(const struct delivery *d, struct pull_stats *ret)
{
	*ret = (struct pull_stats){0};
	(void)account_get_pulls(d->account, ret);
}

uint64_t delivery_restarts(const struct delivery *d)
{
	return __atomic_load_n(&d->account->restarts, __ATOMIC_RELAXED);
}

/* --- stop */

int delivery_pid(const struct delivery *d)
{
	_cleanup_buf_ struct buf children = {0};
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)d->keeper, (int)d->keeper);
	return d->keeper && fs_read_file(path, 64, &children) == 0 ? (int)strtol(buf_str(&children), NULL, 10)
								   : 0;
}

/* Until the keeper has ended, or the deadline. */
static void await_end(struct delivery *d, uint64_t until_ns)
{
	while (d->keeper) {
		pid_t r = waitpid(d->keeper, NULL, WNOHANG);

		if (r == d->keeper || (r < 0 && errno != EINTR))
			d->keeper = 0;
		else if (clock_mono_ns() >= until_ns)
			return;
		else
			(void)poll(NULL, 0, END_STEP_MS);
	}
}

int delivery_stop(struct delivery *d, uint64_t deadline_mono_ns)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct otlp_exporter_stats s;
	const int pid = delivery_pid(d);
	int r = d->keeper ? flat_put_u64(&bytes, deadline_mono_ns) : -EPIPE;

	if (r == 0 && pid)
		urgency_give_process(pid);
	if (r == 0)
		r = send_message(d, DELIVERY_STOP, NULL, &bytes, -1);
	if (r == 0)
		await_end(d, deadline_mono_ns + END_WAIT_NS);
	loop_remove(TAKE_PTR(d->source));
	if (d->keeper)
		(void)kill(d->keeper, SIGKILL); /* and with it, the process */
	await_end(d, UINT64_MAX);
	d->stopped = true;
	delivery_stats(d, &s);
	return s.samples.dropped[OTLP_DROP_SHUTDOWN] || s.samples.spooled ? -ETIMEDOUT : 0;
}

void delivery_free(struct delivery *d)
{
	if (!d)
		return;
	if (d->socket >= 0)
		close(d->socket);
	await_end(d, clock_mono_ns() + END_WAIT_NS); /* it ends when the socket is closed */
	if (d->keeper)
		(void)kill(d->keeper, SIGKILL);
	await_end(d, UINT64_MAX);
	if (d->pods.memfd >= 0)
		close(d->pods.memfd);
	account_page_free(d->account);
	free(d->why);
	free(d);
}
