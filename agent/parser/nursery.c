// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/packet.h"
#include "agent/base/priority.h"
#include "agent/base/resources.h"
#include "agent/parser/operation.h"
#include "agent/parser/progress.h"
#include "agent/parser/sandbox.h"
#include "agent/parser/wire.h"

/* Before the nursery is replaced, doubling; from the beginning after one that lived for long. */
#define WAIT_US 1000u
#define WAIT_MAX_US 1000000u
#define LOOK_MS 100 /* between looks at processes with a maximum of their own */
#define LONG_LIFE_NS (10 * NS_PER_SEC)

struct child {
	pid_t pid;
	int socket;	     /* -1: the agent has closed its end */
	uint64_t cpu_max_ns; /* 0: the kernel's limit alone */
};

struct nursery {
	pid_t pid;
	int control, signals;
	const struct parser_operation *const *operations;
	size_t n_operations;
	struct nursery_counts *counts;
	struct sock_fprog filter;
	uint64_t address_space;
	struct child children[NURSERY_CHILDREN_MAX];
	unsigned n;
};

/* --- a parser process */

struct side {
	int socket, answer; /* answer: a memfd */
	unsigned queries;
};

static int query(const struct parser_job *job, const void *query, size_t len)
{
	struct side *side = job->side;
	struct wire_reply head = {.kind = WIRE_QUERY, .len = len};
	struct wire_answer answer = {0};
	struct packet p = {.head = &head, .head_len = sizeof head, .body = (void *)query, .body_len = len};
	int r;

	if (len > PARSER_QUERY_BYTES_MAX || side->queries++ == PARSER_QUERIES_MAX)
		return -E2BIG;
	r = packet_send(side->socket, &p);
	if (r < 0)
		return r;
	p = (struct packet){.body = &answer, .body_len = sizeof answer};
	r = packet_receive(side->socket, &p);
	if (r < 0)
		return r;
	if (p.body_len == sizeof answer && answer.result == 0 && p.n_fds == 1)
		return p.fds[0];
	packet_close_fds(&p);
	return answer.result < 0 ? answer.result : -EPROTO;
}

/* Of the files that the job reads: folders, devices and memory of processes have no size. */
static uint64_t size_of_files(const struct parser_job *job)
{
	uint64_t bytes = 0;
	struct stat st;

	for (unsigned i = 0; i < job->n_fds; i++)
		if (fstat(job->fds[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
			bytes += (uint64_t)st.st_size;
	return bytes;
}

/* Waits until the job may take the memory that large files need. */
static int await_room(const struct parser_job *job, uint64_t small)
{
	const struct side *side = job->side;
	const struct wire_reply head = {.kind = WIRE_ROOM, .len = PARSER_ROOM_OF(size_of_files(job))};
	struct wire_answer answer;
	struct packet p = {.head = &head, .head_len = sizeof head};
	int r;

	if (head.len <= small)
		return 0;
	r = packet_send(side->socket, &p);
	if (r < 0)
		return r;
	p = (struct packet){.body = &answer, .body_len = sizeof answer};
	r = packet_receive(side->socket, &p);
	packet_close_fds(&p);
	return r;
}

static int send_answer(const struct side *side, int result, const struct buf *answer)
{
	const bool small = answer->len <= WIRE_INLINE_MAX;
	const struct wire_reply head = {
		.kind = WIRE_ANSWER, .result = result, .len = answer->len, .cpu_ns = clock_thread_cpu_ns()};
	const struct packet p = {.head = &head,
				 .head_len = sizeof head,
				 .body = answer->data,
				 .body_len = small ? answer->len : 0};
	int r = small ? 0 : fs_write_fd(side->answer, answer->data, answer->len);

	return r < 0 ? r : packet_send(side->socket, &p);
}

/* The request from its packet, or from its memfd. `ret` is owned: free(). */
static int take_request(struct packet *p, const struct wire_request *head, uint8_t **ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t done = 0;

	if (head->len > PARSER_REQUEST_MAX || (!head->in_memfd && head->len != p->body_len - sizeof *head))
		return -EPROTO;
	bytes = malloc(head->len + 1);
	if (!bytes)
		return -ENOMEM;
	if (!head->in_memfd)
		memcpy(bytes, (uint8_t *)p->body + sizeof *head, head->len);
	while (head->in_memfd && done < head->len) {
		ssize_t n = pread(p->fds[1], bytes + done, head->len - done, (off_t)done);

		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		done += (uint64_t)n;
	}
	*ret = TAKE_PTR(bytes);
	return 0;
}

struct incoming {
	struct packet packet;
	uint8_t bytes[sizeof(struct wire_request) + WIRE_INLINE_MAX];
	struct wire_request head;
	const struct parser_operation *operation;
};

/* False: there is none, or it is none. */
static bool receive_request(const struct nursery *n, int socket, struct incoming *p)
{
	p->packet = (struct packet){.body = p->bytes, .body_len = sizeof p->bytes};
	if (packet_receive(socket, &p->packet) < 0 || p->packet.body_len < sizeof p->head)
		return false;
	memcpy(&p->head, p->bytes, sizeof p->head);
	if (p->head.operation >= n->n_operations || p->packet.n_fds < 1 + (p->head.in_memfd != 0))
		return false;
	p->operation = n->operations[p->head.operation];
	return true;
}

/* Does one job. 0; -errno: it has not been answered. */
static int do_job(int socket, struct incoming *p, uint64_t small)
{
	const unsigned own = 1 + (p->head.in_memfd != 0);
	_cleanup_free_ uint8_t *request = NULL;
	_cleanup_buf_ struct buf answer = {0};
	struct side side = {.socket = socket, .answer = p->packet.fds[0]};
	struct parser_job job = {.request_len = p->head.len,
				 .fds = p->packet.fds + own,
				 .n_fds = p->packet.n_fds - own,
				 .answer = &answer,
				 .query = query,
				 .side = &side};
	int r = take_request(&p->packet, &p->head, &request);

	buf_init(&answer, p->operation->answer_max);
	job.request = request;
	if (r == 0)
		r = await_room(&job, small);
	if (r == 0)
		r = parser_operation_run(p->operation, &job);
	return send_answer(&side, r, &answer);
}

/* Does all jobs that come. Returns the exit code of the process. */
static int serve(const struct nursery *n, int socket, struct sandbox_limits *limits, uint64_t small)
{
	_cleanup_free_ struct incoming *p = malloc(sizeof *p);
	int r = 0;

	if (!p || !receive_request(n, socket, p))
		return EXIT_FAILURE;
	limits->file_bytes = p->operation->answer_max;
	r = sandbox_close(&n->filter, limits);
	while (r == 0) {
		r = do_job(socket, p, small);
		packet_close_fds(&p->packet);
		if (r == 0 && !receive_request(n, socket, p))
			return EXIT_SUCCESS;
	}
	return EXIT_FAILURE;
}

static void become_ordinary(int signo)
{
	const struct sched_param none = {0};
	int e = errno;

	(void)signo;
	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	errno = e;
}

/* The nursery may be urgent, and so is what it forks. */
static void limit_urgency(uint32_t us)
{
	struct sigaction action = {.sa_handler = become_ordinary, .sa_flags = SA_RESTART};
	const struct rlimit l = {us, RLIM_INFINITY};

	/* after the soft limit the kernel sends the signal once a second */
	if (!us || sigaction(SIGXCPU, &action, NULL) < 0 || setrlimit(RLIMIT_RTTIME, &l) < 0)
		become_ordinary(0);
}

static void child(struct nursery *n, int socket, const struct wire_command *c) __attribute__((noreturn));

static void child(struct nursery *n, int socket, const struct wire_command *c)
{
	struct sandbox_limits limits = {
		.memory_bytes = n->address_space && c->memory_bytes ? n->address_space + c->memory_bytes : 0,
		.cpu_s = PARSER_CPU_MAX_S,
	};
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != n->pid) /* it ended before, and the agent waits for its word */
		_exit(EXIT_FAILURE);
	limit_urgency(c->urgent_us);
	for (unsigned i = 0; i < n->n; i++)
		if (n->children[i].socket >= 0)
			close(n->children[i].socket);
	close(n->control);
	close(n->signals);
	munmap(n->counts, sizeof *n->counts);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(serve(n, socket, &limits, c->room_small));
}

/* --- the nursery */

static void tell(int socket, enum wire_kind kind, int result, uint64_t cpu_ns)
{
	const struct wire_reply reply = {.kind = kind, .result = result, .cpu_ns = cpu_ns};
	const struct packet p = {.head = &reply, .head_len = sizeof reply};

	(void)packet_send(socket, &p); /* the agent may have closed it */
}

static uint64_t cpu_ns_of(const struct rusage *u)
{
	return ((uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000u +
		(uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec)) *
	       1000u;
}

static void ended(struct nursery *n, pid_t pid, int status, uint64_t cpu_ns)
{
	__atomic_add_fetch(&n->counts->cpu_ns, cpu_ns, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n->n; i++) {
		struct child *c = &n->children[i];

		if (c->pid != pid)
			continue;
		if (c->socket >= 0) {
			tell(c->socket, WIRE_ENDED, status, cpu_ns);
			close(c->socket);
		}
		*c = n->children[--n->n];
		return;
	}
}

static void reap(struct nursery *n)
{
	struct signalfd_siginfo ignored[8];
	struct rusage usage;
	int status;
	pid_t pid;

	while (read(n->signals, ignored, sizeof ignored) > 0)
		;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
		ended(n, pid, status, cpu_ns_of(&usage));
}

static void spawn(struct nursery *n, int socket, const struct wire_command *c)
{
	pid_t pid = n->n < NURSERY_CHILDREN_MAX ? fork() : -1;

	if (pid == 0)
		child(n, socket, c);
	tell(socket, WIRE_SPAWNED, pid < 0 ? -EAGAIN : pid, 0);
	if (pid > 0)
		n->children[n->n++] =
			(struct child){.pid = pid, .socket = socket, .cpu_max_ns = c->cpu_max_ns};
	else
		close(socket);
}

/* The job of an ordinary process has become urgent. */
static void urge(const struct nursery *n, const struct wire_command *c)
{
	const struct sched_param urgent = {.sched_priority = NURSERY_URGENT_LEVEL};

	for (unsigned i = 0; i < n->n; i++)
		if (n->children[i].pid == c->pid)
			(void)sched_setscheduler(c->pid, SCHED_RR, &urgent);
}

static void allow(struct nursery *n, const struct wire_command *c)
{
	for (unsigned i = 0; i < n->n; i++)
		if (n->children[i].pid == c->pid)
			n->children[i].cpu_max_ns = c->cpu_max_ns;
}

/* Ends those that have computed for longer than they may. Whether there are some to look at again. */
static bool look(const struct nursery *n)
{
	bool again = false;

	for (unsigned i = 0; i < n->n; i++) {
		const struct child *c = &n->children[i];

		again |= c->cpu_max_ns != 0;
		if (c->cpu_max_ns && progress_cpu_ns(c->pid) > c->cpu_max_ns)
			kill(c->pid, SIGKILL);
	}
	return again;
}

static void command(struct nursery *n)
{
	struct wire_command c;
	struct packet p = {.body = &c, .body_len = sizeof c};
	int r = packet_receive(n->control, &p);

	if (r == -EPIPE) /* the agent has ended; the kernel kills our children */
		_exit(EXIT_SUCCESS);
	if (r == 0 && p.body_len == sizeof c && c.wish == WIRE_SPAWN && p.n_fds == 1)
		spawn(n, p.fds[--p.n_fds], &c);
	else if (r == 0 && p.body_len == sizeof c && c.wish == WIRE_URGE)
		urge(n, &c);
	else if (r == 0 && p.body_len == sizeof c && c.wish == WIRE_ALLOW)
		allow(n, &c);
	while (r == 0 && p.n_fds)
		close(p.fds[--p.n_fds]);
}

/* Kills processes that nobody waits for any longer. */
static void check_sockets(struct nursery *n, const struct pollfd *polled)
{
	for (unsigned i = 0; i < n->n; i++) {
		struct child *c = &n->children[i];

		if (c->socket < 0 || !(polled[i].revents & (POLLHUP | POLLERR)))
			continue;
		(void)kill(c->pid, SIGKILL);
		close(c->socket);
		c->socket = -1;
	}
}

static void turn(struct nursery *n)
{
	struct pollfd polled[NURSERY_CHILDREN_MAX + 2];
	unsigned k = n->n;

	for (unsigned i = 0; i < k; i++)
		polled[i] = (struct pollfd){.fd = n->children[i].socket};
	polled[k] = (struct pollfd){.fd = n->signals, .events = POLLIN};
	polled[k + 1] = (struct pollfd){.fd = n->control, .events = POLLIN};
	if (poll(polled, k + 2, look(n) ? LOOK_MS : -1) < 0)
		return;
	check_sockets(n, polled);
	if (polled[k].revents)
		reap(n);
	if (polled[k + 1].revents)
		command(n);
}

/* The environment may have secrets. */
static void forget_environment(void)
{
	for (char **e = environ; e && *e; e++)
		explicit_bzero(*e, strlen(*e));
	(void)clearenv();
}

/* All signals are blocked. */
static int open_signals(void)
{
	sigset_t ended;

	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	return signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void run(int control, const struct parser_operation *const *operations, size_t n_operations,
		struct nursery_counts *counts, bool opens) __attribute__((noreturn));

static void run(int control, const struct parser_operation *const *operations, size_t n_operations,
		struct nursery_counts *counts, bool opens)
{
	struct nursery n = {.pid = getpid(),
			    .control = control,
			    .operations = operations,
			    .n_operations = n_operations,
			    .counts = counts,
			    .signals = open_signals()};

	/* the keeper does so, too, but it may not run before we have served somebody who wants to know it */
	__atomic_store_n(&counts->pid, n.pid, __ATOMIC_RELAXED);
	n.address_space = sandbox_address_space();
	if (n.signals < 0 || sandbox_enter(opens) < 0 || sandbox_filter(&n.filter, opens) < 0)
		_exit(EXIT_FAILURE);
	resources_release_code();
	for (;;)
		turn(&n);
}

void nursery_keep(int control, const struct parser_operation *const *operations, size_t n,
		  struct nursery_counts *counts, bool opens)
{
	sigset_t all;

	(void)prctl(PR_SET_NAME, opens ? "proflet-opener" : "proflet-parser");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigfillset(&all); /* signals to the process group are for the agent, which then closes `control` */
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	forget_environment();
	priority_raise(); /* as the threads that wait for these processes */
	for (uint64_t wait_us = 0;; wait_us = wait_us < WAIT_MAX_US ? 2 * wait_us + WAIT_US : WAIT_MAX_US) {
		uint64_t begin_ns = clock_mono_ns();
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			run(control, operations, n, counts, opens);
		__atomic_store_n(&counts->pid, pid < 0 ? 0 : pid, __ATOMIC_RELAXED);
		resources_release_code();
		if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		    WEXITSTATUS(status) == EXIT_SUCCESS)
			_exit(EXIT_SUCCESS);
		__atomic_add_fetch(&counts->replaced, 1, __ATOMIC_RELAXED);
		if (clock_mono_ns() - begin_ns > LONG_LIFE_NS)
			wait_us = 0;
		usleep((useconds_t)wait_us);
	}
}
