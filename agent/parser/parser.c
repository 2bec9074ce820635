// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/log.h"
#include "agent/base/packet.h"
#include "agent/base/priority.h"
#include "agent/base/sanitized.h"
#include "agent/base/urgency.h"
#include "agent/base/worker.h"
#include "agent/parser/nursery.h"
#include "agent/parser/idle.h"
#include "agent/parser/progress.h"
#include "agent/parser/room.h"
#include "agent/parser/sandbox.h"
#include "agent/parser/wire.h"

enum nursery_kind { PARSES, OPENS, NURSERIES };

struct kept_nursery {
	pid_t keeper; /* 0: there is none */
	int control;  /* a socket: packets are whole, so threads need no lock */
	struct nursery_counts *counts;
};

/* What is not atomic is set before there are threads. */
static struct {
	const struct parser_operation *const *operations;
	size_t n_operations;
	struct kept_nursery nurseries[NURSERIES];
	bool cancelled;				       /* atomic */
	pid_t urgent;				       /* the nursery that has SCHED_DEADLINE; atomic */
	uint64_t memory_bytes;			       /* atomic */
	uint64_t jobs, again, failed[PARSER_FAILURES]; /* atomic */
	uint64_t wasted_ns;			       /* atomic */
} state;

/* A call on its way. */
struct exchange {
	struct parser_call *call;
	struct parser_session *session;
	struct buf *answer;
	int socket, memfd;
	uint8_t *packet;
	pid_t pid;			 /* of the process; 0: not known yet */
	bool answered;			 /* it waits for a further job, and not for a word about this one */
	uint64_t begin_ns, cpu_begin_ns; /* CLOCK_MONOTONIC; the process's CPU clock */
	uint64_t budget_ns;		 /* of its CPU time; 0: PARSER_CPU_MAX_S alone */
	struct room room;
};

#define IDLE_TIME_NS NS_PER_SEC /* for which a process waits for a further job */
#define LOOK_MS 100u		/* between looks at a process that does not answer */
#define ERRNO_MAX 4095		/* callers take the result for an error number, and negate it */
#define PACKET_MAX (sizeof(struct wire_reply) + WIRE_INLINE_MAX)

/* --- start and stop */

/*
 * A job that becomes urgent while it is being done. What is a real-time policy, the nursery may give its
 * children; SCHED_DEADLINE only the agent, which keeps CAP_SYS_NICE then.
 */
static void on_urge(pid_t pid)
{
	const struct wire_command c = {.wish = WIRE_URGE, .pid = pid};
	const struct packet p = {.head = &c, .head_len = sizeof c};

	if (urgency_needs_nice())
		urgency_give_process(pid);
	else if (pid != parser_pid())
		(void)packet_send(state.nurseries[PARSES].control, &p);
}

/* Under SCHED_DEADLINE, nobody inherits it. */
static void urge_nursery(void)
{
	const pid_t pid = parser_pid();

	if (!urgency_needs_nice() || !urgency_is_on() ||
	    __atomic_exchange_n(&state.urgent, pid, __ATOMIC_RELAXED) == pid)
		return;
	(void)priority_set_deadline(pid, NURSERY_RUNTIME_NS, NURSERY_PERIOD_NS);
}

/* Keeps `control` only. */
static void close_others(int control)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3 && null >= 0; fd++)
		if (fd != STDERR_FILENO || !SANITIZED) /* what a sanitizer reports is to be seen */
			(void)dup2(null, fd);
	if (control != 3)
		(void)dup2(control, 3);
	(void)close_range(4, ~0u, 0);
}

/* For parser_be_urgent, while it is permitted. */
static void allow_urgency(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_RTPRIO, &l) < 0 || l.rlim_cur >= NURSERY_URGENT_LEVEL)
		return;
	l.rlim_cur = NURSERY_URGENT_LEVEL;
	l.rlim_max = l.rlim_max < NURSERY_URGENT_LEVEL ? NURSERY_URGENT_LEVEL : l.rlim_max;
	(void)setrlimit(RLIMIT_RTPRIO, &l);
}

static int nursery_start(enum nursery_kind kind, const struct parser_operation *const *operations, size_t n)
{
	struct nursery_counts *counts =
		mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int sockets[2];
	pid_t pid;

	if (counts == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		allow_urgency();
		close_others(sockets[1]);
		nursery_keep(3, operations, n, counts, kind == OPENS);
	}
	close(sockets[1]);
	state.nurseries[kind] = (struct kept_nursery){.keeper = pid, .control = sockets[0], .counts = counts};
	return 0;
}

int parser_start(const struct parser_operation *const *operations, size_t n)
{
	bool opens = false;
	int r;

	idle_init();
	r = nursery_start(PARSES, operations, n);

	for (size_t i = 0; i < n; i++)
		opens |= operations[i]->opens;
	if (r == 0 && opens)
		r = nursery_start(OPENS, operations, n);
	if (r < 0) {
		parser_stop();
		return r;
	}
	state.operations = operations;
	state.n_operations = n;
	worker_on_urge(on_urge);
	return 0;
}

void parser_cancel(void)
{
	__atomic_store_n(&state.cancelled, true, __ATOMIC_RELEASE);
	room_cancel();
	for (int i = 0; i < NURSERIES; i++)
		if (state.nurseries[i].keeper)
			(void)shutdown(state.nurseries[i].control, SHUT_RDWR);
}

void parser_trim(bool all)
{
	if (state.nurseries[PARSES].keeper)
		idle_trim(all ? UINT64_MAX : clock_mono_ns() - IDLE_TIME_NS);
}

void parser_stop(void)
{
	parser_trim(true);
	for (int i = 0; i < NURSERIES; i++) {
		struct kept_nursery *k = &state.nurseries[i];

		if (!k->keeper)
			continue;
		close(k->control);
		(void)waitpid(k->keeper, NULL, 0);
		munmap(k->counts, sizeof *k->counts);
		k->keeper = 0;
	}
	state.cancelled = false;
}

void parser_be_urgent(void)
{
	const struct sched_param urgent = {.sched_priority = NURSERY_URGENT_LEVEL};
	const struct kept_nursery *k = &state.nurseries[PARSES];

	if (!k->keeper || !urgency_is_on())
		return;
	if (urgency_needs_nice()) {
		(void)priority_set_deadline(k->keeper, NURSERY_RUNTIME_NS, NURSERY_PERIOD_NS);
		return;
	}
	/* what they fork inherits it, until it knows better */
	(void)sched_setscheduler(k->keeper, SCHED_RR, &urgent);
	if (parser_pid())
		(void)sched_setscheduler(parser_pid(), SCHED_RR, &urgent);
}

void parser_limit_memory(uint64_t each, uint64_t together)
{
	__atomic_store_n(&state.memory_bytes, each, __ATOMIC_RELAXED);
	room_limit(together);
}

static int nursery_pid(enum nursery_kind kind)
{
	const struct kept_nursery *k = &state.nurseries[kind];

	return k->keeper ? __atomic_load_n(&k->counts->pid, __ATOMIC_RELAXED) : 0;
}

int parser_pid(void)
{
	return nursery_pid(PARSES);
}

int parser_opener_pid(void)
{
	return nursery_pid(OPENS);
}

void parser_stats(struct parser_stats *ret)
{
	*ret = (struct parser_stats){.jobs = __atomic_load_n(&state.jobs, __ATOMIC_RELAXED),
				     .again = __atomic_load_n(&state.again, __ATOMIC_RELAXED)};
	for (int i = 0; i < PARSER_FAILURES; i++)
		ret->failed[i] = __atomic_load_n(&state.failed[i], __ATOMIC_RELAXED);
	ret->wasted_ns = __atomic_load_n(&state.wasted_ns, __ATOMIC_RELAXED);
	room_count(&ret->large, &ret->waiting);
	for (int i = 0; i < NURSERIES; i++) {
		const struct kept_nursery *k = &state.nurseries[i];

		if (!k->keeper)
			continue;
		ret->cpu_ns += __atomic_load_n(&k->counts->cpu_ns, __ATOMIC_RELAXED);
		ret->replaced += __atomic_load_n(&k->counts->replaced, __ATOMIC_RELAXED);
	}
}

/* --- a call without a nursery */

static int query_caller(const struct parser_job *job, const void *query, size_t len)
{
	const struct parser_call *call = job->side;

	return call->query ? call->query(query, len, call->data) : -EOPNOTSUPP;
}

static int run_here(struct parser_call *call, struct buf *answer)
{
	struct parser_job job = {
		.request = call->request.data,
		.request_len = call->request.len,
		.fds = call->fds,
		.n_fds = call->n_fds,
		.answer = answer,
		.query = query_caller,
		.side = call,
	};

	return call->operation->run(&job);
}

/* --- the CPU time of a call */

/* What a sparse file leaves out is not worth anything. Some file systems have no number of blocks. */
static uint64_t budget_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	return PARSER_CPU_OF(!st.st_blocks || st.st_size < st.st_blocks * 512 ? st.st_size
									      : st.st_blocks * 512);
}

static void budget_make(struct exchange *x)
{
	const struct parser_call *call = x->call;

	for (unsigned i = 0; call->in_proportion && !call->of_system && i < call->n_fds; i++)
		x->budget_ns += budget_of(call->fds[i]);
}

/* The process gets one more file. */
static void budget_raise(struct exchange *x, int fd)
{
	const struct kept_nursery *k = &state.nurseries[PARSES];
	struct wire_command c = {.wish = WIRE_ALLOW, .pid = x->pid};
	const struct packet p = {.head = &c, .head_len = sizeof c};

	if (!x->budget_ns)
		return;
	c.cpu_max_ns = x->budget_ns += budget_of(fd);
	(void)packet_send(k->control, &p);
}

static void budget_begin(struct exchange *x)
{
	x->begin_ns = clock_mono_ns();
	x->cpu_begin_ns = x->pid ? progress_cpu_ns(x->pid) : 0;
}

/*
 * Of the process that did the job, by the kernel's word. When it has ended there is only a message, which may
 * be the process's own: it has one thread, and computed for no longer than this took.
 */
static void budget_end(struct exchange *x, bool unsuccessful)
{
	const uint64_t now_ns = x->pid ? progress_cpu_ns(x->pid) : 0,
		       passed_ns = clock_mono_ns() - x->begin_ns,
		       end_ns = now_ns ? now_ns : x->session->cpu_ns,
		       cpu_ns = end_ns > x->cpu_begin_ns ? end_ns - x->cpu_begin_ns : 0;

	x->call->cpu_ns = cpu_ns < passed_ns ? cpu_ns : passed_ns;
	if (unsuccessful)
		__atomic_add_fetch(&state.wasted_ns, x->call->cpu_ns, __ATOMIC_RELAXED);
}

int parser_judge(const struct parser_call *call, int r)
{
	if (r == -EBADMSG)
		__atomic_add_fetch(&state.wasted_ns, call->cpu_ns, __ATOMIC_RELAXED);
	return r;
}

/* --- a call */

static int failed(enum parser_failure why)
{
	static const int errors[PARSER_FAILURES] = {
		[PARSER_CRASHED] = -ENOTRECOVERABLE, [PARSER_OUT_OF_TIME] = -ETIME,
		[PARSER_KILLED] = -EAGAIN,	     [PARSER_REFUSED] = -ENOTRECOVERABLE,
		[PARSER_NOT_STARTED] = -EAGAIN,	     [PARSER_NO_ANSWER] = -ETIMEDOUT};

	__atomic_add_fetch(&state.failed[why], 1, __ATOMIC_RELAXED);
	return errors[why];
}

static int operation_number(const struct parser_operation *operation)
{
	for (size_t i = 0; i < state.n_operations; i++)
		if (state.operations[i] == operation)
			return (int)i;
	return -ENOSYS;
}

/* Hands the nursery one end of a new socket. */
static int request_process(struct exchange *x)
{
	const struct kept_nursery *k = &state.nurseries[x->call->operation->opens ? OPENS : PARSES];
	const struct wire_command c = {
		.wish = WIRE_SPAWN,
		.memory_bytes = __atomic_load_n(&state.memory_bytes, __ATOMIC_RELAXED),
		.room_small = room_small(),
		.cpu_max_ns = x->budget_ns,
		.urgent_us = urgency_allowance_us(),
	};
	struct packet p = {.head = &c, .head_len = sizeof c, .n_fds = 1};
	int sockets[2], r;

	urge_nursery();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	x->socket = sockets[0];
	p.fds[0] = sockets[1];
	r = packet_send(k->control, &p);
	close(sockets[1]);
	return r == -EPIPE ? failed(PARSER_NOT_STARTED) : r;
}

/*
 * Waits for the next packet. A process that computes or waits for a CPU is waited for, however long that
 * takes. 0, or -ETIMEDOUT: it has slept for too long, without using a CPU in between.
 */
static int await_packet(struct exchange *x)
{
	struct pollfd p = {.fd = x->socket, .events = POLLIN};
	uint64_t cpu_ns = 0;
	unsigned slept_ms = 0;

	if (!x->call->patience_ms || !x->pid)
		return 0;
	while (poll(&p, 1, LOOK_MS) == 0) {
		uint64_t now_ns = progress_cpu_ns(x->pid);

		slept_ms = now_ns == cpu_ns && progress_is_asleep(x->pid) ? slept_ms + LOOK_MS : 0;
		cpu_ns = now_ns;
		if (slept_ms >= x->call->patience_ms)
			return failed(PARSER_NO_ANSWER);
	}
	return 0;
}

/* Receives a reply and what follows it. A process may send anything. */
static int receive(struct exchange *x, struct wire_reply *ret, size_t *ret_len)
{
	struct packet p = {.body = x->packet, .body_len = PACKET_MAX};
	int r = await_packet(x);

	if (r < 0)
		return r;
	r = packet_receive(x->socket, &p);
	while (r == 0 && p.n_fds)
		close(p.fds[--p.n_fds]);
	if (r < 0 || p.body_len < sizeof *ret)
		return r == -EPIPE ? failed(PARSER_KILLED)
				   : failed(PARSER_REFUSED); /* by the nursery's end */
	memcpy(ret, x->packet, sizeof *ret);
	*ret_len = p.body_len - sizeof *ret;
	return 0;
}

/* The pid of the process, or -errno. */
static int await_process(struct exchange *x)
{
	struct wire_reply reply;
	size_t len;
	int r = receive(x, &reply, &len);

	if (r < 0)
		return r;
	if (reply.kind != WIRE_SPAWNED || reply.result <= 0)
		return failed(PARSER_NOT_STARTED);
	worker_delegate(reply.result);
	if (urgency_needs_nice())
		urgency_give_process(reply.result);
	return reply.result;
}

static int memfd_of(const struct buf *bytes)
{
	_cleanup_close_ int fd = memfd_create("parser request", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = fs_write_fd(fd, bytes->data, bytes->len);
	return r < 0 ? r : TAKE_FD(fd);
}

static int send_request(struct exchange *x, int operation)
{
	const struct buf *request = &x->call->request;
	const bool in_memfd = request->len > WIRE_INLINE_MAX;
	const struct wire_request head = {
		.operation = (uint32_t)operation, .in_memfd = in_memfd, .len = request->len};
	struct packet p = {.head = &head, .head_len = sizeof head};
	_cleanup_close_ int bytes = in_memfd ? memfd_of(request) : -1;

	if (in_memfd && bytes < 0)
		return bytes;
	p.fds[p.n_fds++] = x->memfd;
	if (in_memfd)
		p.fds[p.n_fds++] = bytes;
	for (unsigned i = 0; i < x->call->n_fds; i++)
		p.fds[p.n_fds++] = x->call->fds[i];
	if (!in_memfd) {
		p.body = request->data;
		p.body_len = request->len;
	}
	return packet_send(x->socket, &p);
}

static int answer_query(struct exchange *x, size_t len)
{
	struct parser_call *call = x->call;
	_cleanup_close_ int fd = call->query && len <= PARSER_QUERY_BYTES_MAX
					 ? call->query(x->packet + sizeof(struct wire_reply), len, call->data)
					 : -EOPNOTSUPP;
	const struct wire_answer head = {.result = fd < 0 ? fd : 0};
	struct packet p = {.head = &head, .head_len = sizeof head};

	worker_delegate(x->pid); /* the answer may have been the work of another process */
	if (fd >= 0) {
		p.fds[p.n_fds++] = fd;
		x->session->spent = true;
		budget_raise(x, fd);
	}
	return packet_send(x->socket, &p);
}

/* The thread's work is now what the other process does; what is urgent waits for it. */
static void wait_for_room(pid_t holder)
{
	worker_delegate(holder);
	if (urgency_allowance_us())
		on_urge(holder);
}

static int give_room(struct exchange *x, uint64_t bytes)
{
	const uint64_t most = __atomic_load_n(&state.memory_bytes, __ATOMIC_RELAXED);
	const struct wire_answer head = {0};
	const struct packet p = {.head = &head, .head_len = sizeof head};

	if (x->room.bytes || !bytes)
		return failed(PARSER_REFUSED);
	x->session->spent = true; /* the memory does not all go back */
	room_take(&x->room, x->pid, most && bytes > most ? most : bytes, wait_for_room);
	worker_delegate(x->pid);
	return packet_send(x->socket, &p);
}

static int take_answer(struct exchange *x, const struct wire_reply *reply, size_t len)
{
	struct buf *to = x->answer;
	size_t done = 0;
	int r;

	if (reply->result > 0 || reply->result < -ERRNO_MAX || reply->len > x->call->operation->answer_max)
		return failed(PARSER_REFUSED);
	if (reply->len <= WIRE_INLINE_MAX) {
		if (reply->len != len)
			return failed(PARSER_REFUSED);
		r = buf_append(to, x->packet + sizeof *reply, len);
		return r < 0 ? r : reply->result;
	}
	r = buf_reserve(to, reply->len);
	if (r < 0)
		return r;
	while (done < reply->len) { /* a copy, which the process can no longer change */
		ssize_t n = pread(x->memfd, to->data + to->len + done, reply->len - done, (off_t)done);

		if (n <= 0)
			return n < 0 ? -errno : failed(PARSER_REFUSED);
		done += (size_t)n;
	}
	to->len += done;
	return reply->result;
}

/* What the process says that it has used since its last word: it may say anything. */
static void charge(struct parser_session *s, uint64_t cpu_ns)
{
	if (cpu_ns <= s->cpu_ns)
		return;
	urgency_charge(cpu_ns - s->cpu_ns);
	s->cpu_ns = cpu_ns;
}

/* Why a process has ended without an answer; `status` as of wait(2). */
static int ended(const struct exchange *x, const struct wire_reply *reply)
{
	const int status = reply->result;
	const char *name = x->call->operation->name;

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	    (reply->cpu_ns / 1000000000u + 1 >= PARSER_CPU_MAX_S ||
	     (x->budget_ns && reply->cpu_ns > x->budget_ns)))
		return failed(PARSER_OUT_OF_TIME);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return failed(PARSER_KILLED);
	if (WIFSIGNALED(status))
		log_debug("parser process, %s: ended by signal %d", name, WTERMSIG(status));
	else
		log_debug("parser process, %s: ended with %d", name, WEXITSTATUS(status));
	return failed(PARSER_CRASHED);
}

static int converse(struct exchange *x)
{
	unsigned queries = 0;

	for (;;) {
		struct wire_reply reply;
		size_t len;
		int r = receive(x, &reply, &len);

		if (r < 0)
			return r;
		charge(x->session, reply.cpu_ns);
		switch (reply.kind) {
		case WIRE_QUERY:
			if (queries++ == PARSER_QUERIES_MAX)
				return failed(PARSER_REFUSED);
			r = answer_query(x, len);
			if (r < 0 && r != -EPIPE)
				return r;
			break;
		case WIRE_ROOM:
			r = give_room(x, reply.len);
			if (r < 0 && r != -EPIPE)
				return r;
			break;
		case WIRE_ANSWER:
			x->answered = true;
			return take_answer(x, &reply, len);
		case WIRE_ENDED:
			return ended(x, &reply);
		default:
			return failed(PARSER_REFUSED);
		}
	}
}

/* Whatever went wrong with the process, and not with its job. */
static bool is_broken(int r)
{
	return r == -ENOTRECOVERABLE || r == -ETIME || r == -ETIMEDOUT || r == -EAGAIN || r == -EPIPE;
}

/* The process was made for another thread, or has used up what it had. */
static void be_urgent(struct parser_session *s)
{
	if (!urgency_allowance_us())
		return;
	on_urge(s->pid);
	s->urgent = true;
}

static int exchange(struct exchange *x, struct parser_session *s, int operation)
{
	int r = 0;

	x->session = s;
	budget_make(x);
	if (s->socket) {
		x->socket = s->socket - 1;
		worker_delegate(s->pid);
		be_urgent(s);
	} else {
		worker_delegate(nursery_pid(x->call->operation->opens ? OPENS : PARSES));
		r = request_process(x);
		if (r == 0)
			r = await_process(x);
		s->pid = r < 0 ? 0 : r;
		s->urgent = urgency_allowance_us() > 0;
	}
	s->jobs++;
	x->pid = s->pid;
	budget_begin(x);
	if (r >= 0)
		r = send_request(x, operation);
	if (r >= 0 || r == -EPIPE)
		r = converse(x);
	budget_end(x, r == -ENOTRECOVERABLE || r == -ETIME);
	room_give(&x->room);
	worker_delegate(0);
	s->socket = x->socket + 1;
	if (is_broken(r) || !x->answered)
		parser_session_end(s);
	return r;
}

int parser_session_call(struct parser_session *s, struct parser_call *call, struct buf *answer)
{
	_cleanup_close_ int memfd = -1;
	_cleanup_free_ uint8_t *packet = NULL;
	struct exchange x = {.call = call, .answer = answer, .socket = -1};
	int operation;

	if (!state.nurseries[PARSES].keeper)
		return run_here(call, answer);
	if (__atomic_load_n(&state.cancelled, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	operation = operation_number(call->operation);
	if (operation < 0)
		return operation;
	if (call->request.len > PARSER_REQUEST_MAX || call->n_fds > PARSER_FDS_MAX)
		return -E2BIG;
	x.packet = packet = malloc(PACKET_MAX);
	if (!packet)
		return -ENOMEM;
	x.memfd = memfd = memfd_create("parser answer", MFD_CLOEXEC);
	if (memfd < 0)
		return -errno;
	__atomic_add_fetch(&state.jobs, 1, __ATOMIC_RELAXED);
	return exchange(&x, s, operation);
}

/* What a job before this one has done to the process is not this one's fault: it is done once more, alone. */
static int call_of_system(struct parser_call *call, struct buf *answer)
{
	struct parser_session s = {0};
	const bool again = idle_take(&s, call->operation, urgency_allowance_us() > 0);
	const size_t before = answer->len;
	int r = parser_session_call(&s, call, answer);

	if (again)
		__atomic_add_fetch(&state.again, 1, __ATOMIC_RELAXED);
	if (again && (is_broken(r) || r == -ENOMEM)) {
		parser_session_end(&s); /* short of memory: earlier jobs have taken some */
		answer->len = before;
		r = parser_session_call(&s, call, answer);
	}
	idle_give(&s, call->operation);
	return r;
}

int parser_call(struct parser_call *call, struct buf *answer)
{
	struct parser_session s = {0};
	int r;

	if (call->of_system && state.nurseries[PARSES].keeper)
		return call_of_system(call, answer);
	r = parser_session_call(&s, call, answer);
	parser_session_end(&s);
	return r;
}
