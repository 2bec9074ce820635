// SPDX-License-Identifier: Apache-2.0
/*
 * One loop: messages of the agent, the HTTP server, answers of the kubelet, events of the exporter, which
 * has a thread of its own. Pages are requested from the agent. On a busy node it may answer late; meanwhile
 * the loop goes on, and a page that the agent has not made in time is answered here, by status 503.
 */
#include "agent/delivery/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/flat.h"
#include "agent/base/fs.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/packet.h"
#include "agent/base/priority.h"
#include "agent/base/resources.h"
#include "agent/base/urgency.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "agent/delivery/collector.h"
#include "agent/delivery/confine.h"
#include "agent/delivery/kubelet_query.h"
#include "agent/delivery/messages.h"
#include "agent/delivery/pods_answer.h"
#include "agent/delivery/pull_access.h"
#include "agent/delivery/pull_request.h"

/* Before it is forked again, doubling. */
#define WAIT_US 10000u
#define WAIT_MAX_US 10000000u
#define STEADY_NS (60 * NS_PER_SEC) /* one that has lived for so long is forked again soon */
/* The agent has so long for a page. Whoever probes health waits for a second, scrapers for ten and more. */
#define PROBE_WAIT_NS (800 * NS_PER_MS)
#define PAGE_WAIT_NS (8 * NS_PER_SEC)
#define PAGES_AT_ONCE 2u /* that the agent is to make, beside probes: these wait for few others */
#define SEND_WAIT_MS 1000
#define KUBELET_TIMEOUT_NS (10 * NS_PER_SEC)
#define SOCKET_FD 3

#define PULL_WAIT_NS (90 * NS_PER_SEC) /* beyond the seconds of a pull, for names */

enum {
	HTTP_OK = 200,
	HTTP_BAD_REQUEST = 400,
	HTTP_UNAUTHORIZED = 401,
	HTTP_FORBIDDEN = 403,
	HTTP_TOO_MANY = 429,
	HTTP_ERROR = 500,
	HTTP_UNAVAILABLE = 503
};

struct process {
	const struct delivery_options *options;
	struct account_page *account;
	struct otlp_exporter_stats before; /* of the processes before this one */
	int socket;
	struct loop *loop;
	struct otlp_exporter *exporter;
	struct http_server *http;
	struct {
		struct worker *worker; /* NULL: the kubelet was never called */
		struct worker_job job;
		struct kubelet_query *query;
		struct pod_list list;
		char why[KUBELET_WHY_MAX];
		int result, memfd; /* memfd: where the answer goes; -1: it is not being called */
	} kubelet;
	struct {
		struct awaited_page {
			uint64_t id, until_ns; /* id: of the server's request; 0: the slot is free */
			bool is_probe;
			struct buf request; /* not sent to the agent yet; empty: sent */
		} awaited[HTTP_SERVER_REQUESTS_MAX];
		struct loop_source *timer; /* expires at the earliest until_ns */
	} pages;
	struct {
		struct running_pull {
			uint64_t id;   /* of the server's request; 0: the slot is free */
			bool answered; /* the client is taking the answer */
		} running[HTTP_SERVER_HELD_MAX];
		struct pull_stats stats;
	} pulls;
	bool stop;
	uint64_t stop_deadline_ns;
	uint8_t packet[sizeof(struct delivery_head) + DELIVERY_PACKET_MAX];
};

/* --- messages to the agent */

static int send_now(struct process *p, const struct delivery_head *head, const struct buf *bytes)
{
	const struct packet packet = {
		.head = head, .head_len = sizeof *head, .body = bytes->data, .body_len = bytes->len};

	return packet_send(p->socket, &packet);
}

static int send_message(struct process *p, enum delivery_message message, int result, const struct buf *bytes)
{
	const struct delivery_head head = {.message = message, .result = result};
	struct pollfd wait = {.fd = p->socket, .events = POLLOUT};
	int r = send_now(p, &head, bytes);

	if (r == -EAGAIN && poll(&wait, 1, SEND_WAIT_MS) > 0)
		r = send_now(p, &head, bytes);
	return r;
}

static void tell(struct process *p, enum delivery_message message, int result, const char *why)
{
	_cleanup_buf_ struct buf bytes = {0};

	if (flat_put_string(&bytes, why ? why : "") == 0)
		(void)send_message(p, message, result, &bytes);
}

/* --- numbers */

static void publish(const struct otlp_exporter_stats *now, void *data)
{
	struct process *p = data;
	struct otlp_exporter_stats all = *now;
	struct timespec cpu;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
		all.cpu_ns = (uint64_t)cpu.tv_sec * NS_PER_SEC + (uint64_t)cpu.tv_nsec;
	account_sum(&p->before, &all, &all);
	account_put_exports(p->account, &all);
}

static void publish_http(const struct process *p)
{
	struct http_server_stats stats;

	http_server_stats(p->http, &stats);
	account_put_http(p->account, &stats);
	account_put_pulls(p->account, &p->pulls.stats);
}

/* After each wakeup of the loop. */
static void on_wakeup(void *data)
{
	const struct process *p = data;

	if (p->http)
		publish_http(p);
}

/* --- the kubelet */

static void kubelet_run(struct worker_job *job)
{
	struct process *p = container_of(job, struct process, kubelet.job);

	p->kubelet.result = kubelet_query_run(p->kubelet.query, &p->kubelet.list, p->kubelet.why);
}

static void kubelet_done(struct worker_job *job, bool cancelled)
{
	struct process *p = container_of(job, struct process, kubelet.job);
	_cleanup_buf_ struct buf list = {.max = DELIVERY_PODS_MAX}, bytes = {0};
	int r = p->kubelet.result;

	if (cancelled)
		r = -ECANCELED;
	else if (r == 0)
		r = pods_answer_put(&p->kubelet.list, &list);
	if (r == 0)
		r = fs_write_fd(p->kubelet.memfd, list.data, list.len);
	if (r < 0 && p->kubelet.result == 0)
		snprintf(p->kubelet.why, sizeof p->kubelet.why, "its answer: %s", strerror(-r));
	pod_list_fini(&p->kubelet.list);
	close(TAKE_FD(p->kubelet.memfd));
	if (flat_put_string(&bytes, r < 0 ? p->kubelet.why : "") == 0 && flat_put_u64(&bytes, list.len) == 0)
		(void)send_message(p, DELIVERY_PODS, r, &bytes);
}

static int on_kubelet(int fd, uint32_t events, void *data)
{
	struct process *p = data;

	(void)fd;
	(void)events;
	worker_collect(p->kubelet.worker);
	return 0;
}

static int kubelet_open(struct process *p)
{
	int r = 0;

	if (p->kubelet.worker)
		return 0;
	if (!p->kubelet.query)
		r = kubelet_query_new(&p->kubelet.query, p->options->config, KUBELET_TIMEOUT_NS);
	if (r == 0)
		r = worker_new(&p->kubelet.worker, 1, 1, "kubelet");
	if (r == 0)
		r = loop_add_fd(p->loop, worker_fd(p->kubelet.worker), EPOLLIN, on_kubelet, p, NULL);
	p->kubelet.job = (struct worker_job){.run = kubelet_run, .done = kubelet_done};
	return r;
}

/* `memfd` is owned. */
static void list_pods(struct process *p, int memfd)
{
	_cleanup_close_ int fd = memfd;
	_cleanup_buf_ struct buf bytes = {0};
	int r = p->kubelet.memfd >= 0 ? -EBUSY : kubelet_open(p);

	if (r == 0)
		r = worker_submit(p->kubelet.worker, &p->kubelet.job, WORKER_HIGH);
	if (r == 0)
		p->kubelet.memfd = TAKE_FD(fd);
	else if (flat_put_string(&bytes, strerror(-r)) == 0 && flat_put_u64(&bytes, 0) == 0)
		(void)send_message(p, DELIVERY_PODS, r, &bytes);
}

/* --- pages */

static struct awaited_page *awaited_by(struct process *p, uint64_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++)
		if (p->pages.awaited[i].id == id)
			return &p->pages.awaited[i];
	return NULL;
}

/* Frees the slot. */
static void page_forget(struct awaited_page *a)
{
	buf_fini(&a->request);
	*a = (struct awaited_page){0};
}

static void refuse_page(struct process *p, uint64_t id)
{
	_cleanup_buf_ struct buf body = {0};

	(void)buf_puts(&body, "the agent does not answer\n");
	http_server_answer(p->http, id, HTTP_UNAVAILABLE, &body, HTTP_SERVER_TEXT);
}

static void set_pages_timer(struct process *p, uint64_t now_ns)
{
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++)
		if (p->pages.awaited[i].id && p->pages.awaited[i].until_ns < first_ns)
			first_ns = p->pages.awaited[i].until_ns;
	if (first_ns != UINT64_MAX)
		(void)loop_set_timer(p->pages.timer, first_ns > now_ns ? first_ns - now_ns : 1, 0);
}

static int send_page(struct process *p, struct awaited_page *a)
{
	const struct delivery_head head = {.message = DELIVERY_PAGE, .number = a->id};
	int r = send_now(p, &head, &a->request);

	buf_fini(&a->request);
	return r;
}

/* The page that has waited longest for its request to be sent, of probes only or of all. NULL: none waits. */
static struct awaited_page *unsent_page(struct process *p, bool probes_only)
{
	struct awaited_page *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++) {
		struct awaited_page *a = &p->pages.awaited[i];

		if (a->request.len && (a->is_probe || !probes_only) && (!found || a->id < found->id))
			found = a;
	}
	return found;
}

/* How many pages the agent is making, beside probes. */
static unsigned n_sent(const struct process *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++) {
		const struct awaited_page *a = &p->pages.awaited[i];

		n += a->id && !a->is_probe && !a->request.len;
	}
	return n;
}

static void send_pages(struct process *p)
{
	struct awaited_page *a;

	while ((a = unsent_page(p, n_sent(p) >= PAGES_AT_ONCE)))
		if (send_page(p, a) < 0) {
			refuse_page(p, a->id);
			page_forget(a);
		}
}

/* A probe gets the slot of another page if all are taken: peers that have gone by now may have them. */
static struct awaited_page *free_page(struct process *p, bool is_probe)
{
	struct awaited_page *a = awaited_by(p, 0);

	if (a || !is_probe)
		return a;
	a = unsent_page(p, false);
	if (a) {
		refuse_page(p, a->id);
		page_forget(a);
	}
	return a;
}

static int on_pages_timer(uint64_t expirations, void *data)
{
	const uint64_t now = clock_mono_ns();
	struct process *p = data;

	(void)expirations;
	for (size_t i = 0; i < ARRAY_SIZE(p->pages.awaited); i++) {
		struct awaited_page *a = &p->pages.awaited[i];

		if (!a->id || now < a->until_ns)
			continue;
		refuse_page(p, a->id);
		page_forget(a);
	}
	send_pages(p);
	set_pages_timer(p, now);
	return 0;
}

/* Takes a request for a page. */
static void on_page(struct process *p, uint64_t id, const char *path, const char *accept)
{
	const bool is_probe = strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
	const uint64_t now = clock_mono_ns();
	struct awaited_page *a = free_page(p, is_probe);

	publish_http(p); /* one of the pages shows them */
	if (!a) {
		refuse_page(p, id);
		return;
	}
	*a = (struct awaited_page){.id = id,
				   .until_ns = now + (is_probe ? PROBE_WAIT_NS : PAGE_WAIT_NS),
				   .is_probe = is_probe,
				   .request = {.max = DELIVERY_INLINE_MAX}};
	if (flat_put_string(&a->request, path) < 0 || flat_put_string(&a->request, accept) < 0) {
		refuse_page(p, id);
		page_forget(a);
		return;
	}
	send_pages(p);
	set_pages_timer(p, now);
}

/* --- pulls */

static struct running_pull *pull_by(struct process *p, uint64_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->pulls.running); i++)
		if (p->pulls.running[i].id == id)
			return &p->pulls.running[i];
	return NULL;
}

static void count_pull(struct process *p, unsigned status)
{
	p->pulls.stats.results[status == HTTP_OK	    ? PULL_RESULT_OK
			       : status == HTTP_BAD_REQUEST ? PULL_RESULT_BAD_REQUEST
			       : status == HTTP_UNAUTHORIZED || status == HTTP_FORBIDDEN ? PULL_RESULT_REFUSED
			       : status == HTTP_TOO_MANY ? PULL_RESULT_TOO_MANY
							 : PULL_RESULT_UNAVAILABLE]++;
}

/* Whether its parameters can be used here. 0, or an HTTP status. */
static unsigned check_pull(const struct process *p, const struct http_request *r, struct pull_request *ret,
			   struct buf *why)
{
	if (pull_request_parse(r, ret, why) < 0)
		return HTTP_BAD_REQUEST;
	if ((ret->pod[0] || ret->namespace[0]) && !p->options->config->kubernetes.metadata) {
		(void)buf_puts(why,
			       "pod= and namespace= need the names of pods: kubernetes.metadata is off\n");
		return HTTP_BAD_REQUEST;
	}
	return 0;
}

/* Hands a pull to the agent. 0, or an HTTP status. */
static unsigned begin_pull(struct process *p, uint64_t id, const struct pull_request *request,
			   struct buf *why)
{
	const struct delivery_head head = {.message = DELIVERY_PULL, .number = id};
	struct running_pull *slot = pull_by(p, 0);
	_cleanup_buf_ struct buf bytes = {0};

	if (!slot || !http_server_hold(p->http, id, request->seconds * NS_PER_SEC + PULL_WAIT_NS)) {
		(void)buf_printf(why, "%u profiles are being made already; try again later\n",
				 HTTP_SERVER_HELD_MAX);
		return HTTP_TOO_MANY;
	}
	if (pull_request_put(request, &bytes) < 0 || send_now(p, &head, &bytes) < 0) {
		(void)buf_puts(why, "the agent does not answer\n");
		return HTTP_UNAVAILABLE;
	}
	*slot = (struct running_pull){.id = id};
	p->pulls.stats.running++;
	return 0;
}

static void on_pull(struct process *p, const struct http_request *r)
{
	_cleanup_buf_ struct buf why = {0};
	struct pull_request request;
	unsigned status = pull_access(r, p->options->config->listen_token_file, &why);

	if (!status)
		status = check_pull(p, r, &request, &why);
	if (!status)
		status = begin_pull(p, r->id, &request, &why);
	if (!status)
		return;
	count_pull(p, status);
	http_server_answer(p->http, r->id, status, &why, HTTP_SERVER_TEXT);
}

static void pull_answered(struct process *p, struct running_pull *pull, unsigned status)
{
	if (!pull->answered)
		count_pull(p, status);
	pull->answered = true;
}

/* The agent need not go on if the client has left. */
static void on_closed(uint64_t id, void *data)
{
	const struct delivery_head head = {.message = DELIVERY_PULL_END, .number = id};
	static const struct buf none;
	struct process *p = data;
	struct running_pull *pull = pull_by(p, id);

	if (!pull)
		return;
	if (!pull->answered) {
		p->pulls.stats.results[PULL_RESULT_CANCELLED]++;
		(void)send_now(p, &head, &none);
	}
	*pull = (struct running_pull){0};
	p->pulls.stats.running--;
}

static void on_request(const struct http_request *r, void *data)
{
	struct process *p = data;
	enum pull_form form;

	if (pull_path(r->path, &form))
		on_pull(p, r);
	else
		on_page(p, r->id, r->path, r->accept);
}

/* The bytes follow in the packet, or are in its memfd. */
static void take_page(struct process *p, const struct delivery_head *head, struct flat_reader *bytes,
		      const struct packet *packet)
{
	_cleanup_buf_ struct buf body = {.max = DELIVERY_PAGE_MAX};
	const char *type = flat_string(bytes);
	struct awaited_page *a = head->number ? awaited_by(p, head->number) : NULL;
	struct running_pull *pull = head->number ? pull_by(p, head->number) : NULL;
	int r = 0;

	if (bytes->bad || (!a && !pull))
		return;
	if (a) {
		page_forget(a);
		send_pages(p);
	} else {
		pull_answered(p, pull, (unsigned)head->result);
	}
	if (packet->n_fds)
		r = fs_read_fd(packet->fds[0], DELIVERY_PAGE_MAX, &body);
	else
		r = buf_append(&body, bytes->at, (size_t)(bytes->end - bytes->at));
	http_server_answer(p->http, head->number, r < 0 ? HTTP_ERROR : (unsigned)head->result, &body, type);
}

static void listen_now(struct process *p)
{
	const struct http_server_callbacks callbacks = {on_request, on_closed, p};
	_cleanup_free_ char *why = NULL;
	const char *address = p->options->config->listen;
	int r = 0;

	if (!p->http && address)
		r = http_server_new(&p->http, p->loop, address, &callbacks, &why);
	tell(p, DELIVERY_LISTENS, r, why);
	resources_release_code(); /* what only the start needed, most of it of the server's libraries */
}

/* --- messages of the agent */

static void submit(struct process *p, struct flat_reader *bytes, const struct packet *packet)
{
	_cleanup_request_ struct otlp_request *request = calloc(1, sizeof *request);
	int r = request && p->exporter && packet->n_fds ? 0 : -EPROTO;

	if (r == 0) {
		request->n_samples = flat_u64(bytes);
		request->n_profiles = flat_u64(bytes);
		request->start_unix_ns = flat_u64(bytes);
		request->end_unix_ns = flat_u64(bytes);
		buf_init(&request->data, DELIVERY_REQUEST_MAX);
		r = fs_read_fd(packet->fds[0], DELIVERY_REQUEST_MAX, &request->data);
		request->raw_bytes = request->data.len;
	}
	if (r == 0 && flat_done(bytes))
		otlp_exporter_submit(p->exporter, TAKE_PTR(request));
	else if (r < 0)
		log_error("a request of %lu samples could not be taken: %s",
			  (unsigned long)(request ? request->n_samples : 0), strerror(-r));
}

static void handle(struct process *p, const struct delivery_head *head, struct flat_reader *bytes,
		   struct packet *packet)
{
	switch ((enum delivery_message)head->message) {
	case DELIVERY_SUBMIT:
		submit(p, bytes, packet);
		break;
	case DELIVERY_LISTEN:
		listen_now(p);
		break;
	case DELIVERY_PAGE_ANSWER:
		take_page(p, head, bytes, packet);
		break;
	case DELIVERY_LIST_PODS:
		if (packet->n_fds)
			list_pods(p, packet->fds[--packet->n_fds]);
		break;
	case DELIVERY_STOP:
		p->stop = true;
		p->stop_deadline_ns = flat_u64(bytes);
		loop_stop(p->loop);
		break;
	case DELIVERY_READY:
	case DELIVERY_LISTENS:
	case DELIVERY_PAGE:
	case DELIVERY_PODS:
	case DELIVERY_PULL:
	case DELIVERY_PULL_END:
		break;
	}
}

/* Takes one message. 0; -EAGAIN: there is none; -EPIPE: the agent has ended. */
static int take_message(struct process *p)
{
	struct packet packet = {.body = p->packet, .body_len = sizeof p->packet};
	struct delivery_head head;
	struct flat_reader bytes;
	int r = packet_poll(p->socket, &packet);

	if (r < 0)
		return r;
	bytes = flat_read(p->packet, packet.body_len);
	flat_get(&bytes, &head, sizeof head);
	if (!bytes.bad)
		handle(p, &head, &bytes, &packet);
	packet_close_fds(&packet);
	return 0;
}

static int on_message(int fd, uint32_t events, void *data)
{
	struct process *p = data;
	int r = 0;

	(void)fd;
	(void)events;
	while (r == 0 && !p->stop)
		r = take_message(p);
	return r == -EAGAIN || p->stop ? 0 : r;
}

static int on_event(int fd, uint32_t events, void *data)
{
	(void)fd;
	(void)events;
	collector_log_events(data);
	return 0;
}

/* --- the process */

static int open_all(struct process *p, char **ret_why)
{
	int r = loop_new(&p->loop);

	if (r == 0)
		r = loop_add_fd(p->loop, p->socket, EPOLLIN, on_message, p, NULL);
	if (r < 0 || !p->options->exports)
		return r;
	loop_set_after(p->loop, on_wakeup, p);
	r = loop_add_timer(p->loop, 0, 0, on_pages_timer, p, &p->pages.timer);
	if (r < 0)
		return r;
	r = collector_new(&p->exporter, p->options->config, publish, p, ret_why);
	if (r == 0)
		r = loop_add_fd(p->loop, otlp_exporter_event_fd(p->exporter), EPOLLIN, on_event, p->exporter,
				NULL);
	return r;
}

static void close_all(struct process *p)
{
	http_server_free(p->http);
	if (p->kubelet.worker && worker_free(p->kubelet.worker) == 0)
		kubelet_query_free(p->kubelet.query);
	otlp_exporter_free(p->exporter);
	loop_free(p->loop);
}

/* Returns the exit code: not 0 if it is to be forked again. */
static int serve(struct process *p)
{
	_cleanup_free_ char *why = NULL;
	int r = open_all(p, &why);

	tell(p, DELIVERY_READY, r, why ? why : strerror(-r));
	if (r < 0) {
		close_all(p);
		/* the agent is about to end; one that had begun needs another one */
		return __atomic_load_n(&p->account->restarts, __ATOMIC_RELAXED) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	r = loop_run(p->loop);
	urgency_begin(); /* who waits for the end may have made this thread urgent */
	if (p->exporter) {
		(void)otlp_exporter_stop(p->exporter, p->stop ? p->stop_deadline_ns : 0);
		collector_log_events(p->exporter);
	}
	close_all(p);
	return r == 0 || r == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void run(int socket, const struct delivery_options *options, struct account_page *page)
	__attribute__((noreturn));

static void run(int socket, const struct delivery_options *options, struct account_page *page)
{
	struct process *p = calloc(1, sizeof *p);

	if (!p)
		_exit(EXIT_FAILURE);
	p->options = options;
	p->account = page;
	p->socket = socket;
	p->kubelet.memfd = -1;
	(void)account_get_exports(page, &p->before);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(serve(p)); /* what it still has, the kernel frees */
}

/* Logs how it has ended. */
static void report_end(int status)
{
	if (WIFSIGNALED(status))
		log_error("the process that delivers was ended by signal %d (%s); it is started again",
			  WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		log_error("the process that delivers has failed; it is started again");
}

static void settle_account(struct account_page *page)
{
	struct otlp_exporter_stats last = {0};

	if (account_get_exports(page, &last)) {
		account_lose_queue(&last);
		account_put_exports(page, &last);
	}
	__atomic_add_fetch(&page->restarts, 1, __ATOMIC_RELAXED);
}

/* Keeps the socket and standard error; whatever else is open is the agent's. Returns the socket. */
static int keep_only(int socket)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO && null >= 0; fd++)
		(void)dup2(null, fd);
	if (socket != SOCKET_FD)
		(void)dup2(socket, SOCKET_FD);
	(void)close_range(SOCKET_FD + 1, ~0u, 0);
	return SOCKET_FD;
}

void process_keep(int socket, const struct delivery_options *options, struct account_page *page)
{
	sigset_t all;
	int r;

	(void)prctl(PR_SET_NAME, "proflet-deliver");
	socket = keep_only(socket);
	urgency_forked();
	sigfillset(&all);
	sigdelset(&all, SIGXCPU); /* of urgent threads */
	/* those to the process group are for the agent, which then says what to do */
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	r = delivery_confine(options->exports ? options->config->queue.spool : NULL, options->capabilities);
	if (r < 0)
		log_warn("the process that delivers is not confined: %s", strerror(-r));
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* giving up capabilities undoes it */
	for (uint64_t wait_us = WAIT_US;; wait_us = 2 * wait_us < WAIT_MAX_US ? 2 * wait_us : WAIT_MAX_US) {
		const uint64_t began_ns = clock_mono_ns();
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			run(socket, options, page);
		resources_release_code();
		if (pid > 0 && waitpid(pid, &status, 0) == pid) {
			if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
				_exit(EXIT_SUCCESS);
			report_end(status);
		}
		settle_account(page);
		if (clock_mono_ns() - began_ns > STEADY_NS)
			wait_us = WAIT_US;
		(void)usleep((useconds_t)wait_us);
	}
}
