// SPDX-License-Identifier: Apache-2.0
/*
 * Linked with the agent, this gives its parser processes a bug that no real one should have: a file can
 * write any value to any address of the process that reads it. With that, the file takes the process over,
 * and has it run one of the functions below: attempts to get out, and lies to the agent.
 * tests/hostile/owned_parser.py writes such files.
 *
 * The file's last bytes are `struct order`. What came of an attempt is written to memory that the test
 * shares (PROFLET_OWNED_EVIDENCE: its path): an attempt that the kernel answers with SIGSYS has begun and
 * not ended. With PROFLET_OWNED_CONTROL the program makes all attempts, each in a process with all rights,
 * and ends: they succeed there, which shows that they are attempts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/packet.h"
#include "agent/parser/operation.h"
#include "agent/parser/wire.h"

#define MAGIC "OWNED PARSER\1\2\3"
#define WRITES_MAX 4u
#define DESCRIPTORS 64

struct order {
	uint8_t magic[16];
	uint64_t n_writes;
	struct {
		int64_t offset, value; /* both from owned_base */
	} writes[WRITES_MAX];
	uint64_t attempt, seed;
	uint64_t agent; /* its pid */
	uint64_t port;	/* of a TCP server on 127.0.0.1 */
};

/* One for each attempt, in memory shared with the test. */
struct evidence {
	uint32_t begun, ended;
	int64_t result; /* >= 0: it has succeeded */
};

int __real_parser_operation_run(const struct parser_operation *operation, struct parser_job *job);

static struct evidence *evidence;
static const struct order *given;
static const struct parser_operation *wanted;

/* --- attempts: >= 0, or -errno */

static int64_t outcome(int64_t r)
{
	return r < 0 ? -errno : r;
}

static int64_t try_open(void)
{
	return outcome(syscall(SYS_open, "/etc/passwd", O_RDONLY));
}

static int64_t try_openat(void)
{
	return outcome(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
}

static int64_t try_create(void)
{
	char path[64];

	snprintf(path, sizeof path, "/tmp/owned-%d", (int)getpid());
	int64_t r = outcome(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT, 0600));

	(void)syscall(SYS_unlinkat, AT_FDCWD, r >= 0 ? path : "", 0);
	return r;
}

static int64_t try_memory_of_agent(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/mem", (int)given->agent);
	return outcome(syscall(SYS_openat, AT_FDCWD, path, O_RDWR));
}

static int64_t try_connect(void)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)given->port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return s < 0 ? -errno : outcome(connect(s, (const struct sockaddr *)&to, sizeof to));
}

static int64_t try_unix_socket(void)
{
	return outcome(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int64_t try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? -errno : outcome(waitpid(pid, NULL, 0));
}

/* In a child, so that the one that has the evidence can say that it worked. */
static int64_t try_exec(void)
{
	static char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 42", NULL},
			   *const env[] = {NULL};
	int status = 0;
	pid_t pid = (int)given->seed ? fork() : 0; /* seed 0: without forking */

	if (pid == 0) {
		int64_t r = outcome(execve(argv[0], argv, env));

		if ((int)given->seed)
			_exit(1);
		return r;
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 42 ? 0 : -EPERM;
}

static int64_t try_ptrace(void)
{
	return outcome(ptrace(PTRACE_SEIZE, (pid_t)given->agent, NULL, NULL));
}

static int64_t try_read_agent(void)
{
	char here[16];
	const struct iovec to = {here, sizeof here}, from = {(void *)__builtin_frame_address(0), sizeof here};

	/* without ASLR of its own the agent has nothing there; EFAULT says that it was allowed */
	int64_t r = outcome(process_vm_readv((pid_t)given->agent, &to, 1, &from, 1, 0));

	return r == -EFAULT ? 0 : r;
}

static int64_t try_signal(void)
{
	return outcome(kill((pid_t)given->agent, 0));
}

static int64_t try_signal_thread(void)
{
	return outcome(syscall(SYS_tgkill, (int)given->agent, (int)given->agent, 0));
}

static int64_t try_limit_agent(void)
{
	struct rlimit now;

	return outcome(prlimit((pid_t)given->agent, RLIMIT_NOFILE, NULL, &now));
}

static int64_t try_slow_agent(void)
{
	const struct sched_param none = {0};

	return outcome(sched_setscheduler((pid_t)given->agent, SCHED_OTHER, &none));
}

static int64_t try_pidfd(void)
{
	return outcome(syscall(SYS_pidfd_open, (pid_t)given->agent, 0));
}

static int64_t try_bpf(void)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};

	return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}

static int64_t try_perf(void)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .size = sizeof a};

	return outcome(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}

static int64_t try_unshare(void)
{
	return outcome(unshare(CLONE_NEWNS));
}

static int64_t try_root(void)
{
	return outcome(syscall(SYS_setresuid, 0, 0, 0));
}

static int64_t try_chroot(void)
{
	return outcome(chroot("/"));
}

static int64_t try_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -errno : 0;
}

static int64_t try_to_make_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -errno : outcome(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int64_t try_memfd(void)
{
	return outcome(memfd_create("owned", 0));
}

static int64_t try_io_uring(void)
{
	uint8_t parameters[120] = {0};

	return outcome(syscall(SYS_io_uring_setup, 4, parameters));
}

static int64_t try_userfaultfd(void)
{
	return outcome(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int64_t try_key(void)
{
	return outcome(syscall(SYS_add_key, "user", "owned", "x", 1, -2 /* of the process */));
}

static int64_t try_to_be_dumped(void)
{
	return outcome(prctl(PR_SET_DUMPABLE, 1));
}

static int64_t try_filter(void)
{
	return outcome(prctl(PR_GET_SECCOMP));
}

static int64_t try_more_files(void)
{
	struct rlimit l = {256, 256};

	return outcome(setrlimit(RLIMIT_NOFILE, &l));
}

static int end_at_once(void *unused)
{
	(void)unused;
	return 0; /* its exit code */
}

/* The child has its own stack: on its parent's it returns to wherever the parent has called from since. */
static int64_t try_vm_of_child(void)
{
	static _Alignas(16) uint8_t stack[65536];
	int64_t r = outcome(clone(end_at_once, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, NULL));

	if (r > 0)
		(void)waitpid((pid_t)r, NULL, 0);
	return r;
}

/*
 * Descriptors that the process has beside its socket, the memfd of the answer and the files that it is to
 * read: of another kind, or that can be written to. Their number; 0 is -ENOENT.
 */
static int64_t try_descriptors(void)
{
	int64_t n_sockets = 0, n = 0;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFL);

		if (flags < 0 || fstat(fd, &st) < 0)
			continue;
		if (S_ISSOCK(st.st_mode))
			n_sockets++;
		else if (fd > 2 && (!S_ISREG(st.st_mode) || ((flags & O_ACCMODE) != O_RDONLY && st.st_nlink)))
			n++;
	}
	n += n_sockets > 1 ? n_sockets - 1 : 0;
	return n ? n : -ENOENT;
}

static const struct {
	const char *name;
	int64_t (*run)(void);
} attempts[] = {
	{"open", try_open},
	{"openat", try_openat},
	{"create a file", try_create},
	{"open the agent's memory", try_memory_of_agent},
	{"connect", try_connect},
	{"make a Unix socket", try_unix_socket},
	{"fork", try_fork},
	{"execve", try_exec},
	{"ptrace the agent", try_ptrace},
	{"process_vm_readv from the agent", try_read_agent},
	{"signal the agent", try_signal},
	{"signal a thread of the agent", try_signal_thread},
	{"read a limit of the agent", try_limit_agent},
	{"set the agent's scheduling", try_slow_agent},
	{"pidfd of the agent", try_pidfd},
	{"bpf", try_bpf},
	{"perf_event_open", try_perf},
	{"unshare", try_unshare},
	{"setresuid 0", try_root},
	{"chroot", try_chroot},
	{"map memory to execute", try_code},
	{"make memory executable", try_to_make_code},
	{"memfd_create", try_memfd},
	{"io_uring_setup", try_io_uring},
	{"userfaultfd", try_userfaultfd},
	{"add_key", try_key},
	{"become dumpable", try_to_be_dumped},
	{"prctl", try_filter},
	{"raise a limit", try_more_files},
	{"clone with shared memory", try_vm_of_child},
	{"use a foreign descriptor", try_descriptors},
};

#define N_ATTEMPTS (sizeof attempts / sizeof attempts[0])
#define EVIDENCE_BYTES ((N_ATTEMPTS + 1) * sizeof *evidence) /* the last one: note_company */

static void make(uint64_t i)
{
	struct evidence *e = &evidence[i];

	e->begun = 1;
	e->result = attempts[i].run();
	e->ended = 1;
}

/* --- what an order can make of `next`; the test finds their addresses in the symbol table */

static uint64_t random_u64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

__attribute__((used)) static int owned_attempt(struct parser_job *job)
{
	(void)job;
	if (given->attempt < N_ATTEMPTS)
		make(given->attempt);
	return -EPERM;
}

/* The true answer, with a few bits that are not. */
__attribute__((used)) static int owned_bits(struct parser_job *job)
{
	uint64_t state = given->seed * 2654435761u + 1;
	int r = __real_parser_operation_run(wanted, job);

	for (uint64_t n = 1 + random_u64(&state) % 64; r == 0 && n && job->answer->len; n--) {
		uint64_t x = random_u64(&state);

		job->answer->data[(x >> 8) % job->answer->len] ^= (uint8_t)(1u << (x & 7));
	}
	return r;
}

/* Its words get values that are near a limit. */
__attribute__((used)) static int owned_words(struct parser_job *job)
{
	static const uint64_t values[] = {0,	      1,	 UINT64_MAX, INT64_MAX,
					  UINT32_MAX, INT32_MAX, 1ull << 47, 4096};
	uint64_t state = given->seed * 2654435761u + 1;
	int r = __real_parser_operation_run(wanted, job);

	for (uint64_t n = 1 + random_u64(&state) % 8; r == 0 && n && job->answer->len >= 8; n--) {
		uint64_t x = random_u64(&state), len = job->answer->len / 8;

		/* heads are at the front */
		memcpy(job->answer->data + 8 * ((x & 1) ? (x >> 8) % len : (x >> 8) % (len < 64 ? len : 64)),
		       &values[(x >> 1) & 7], 8);
	}
	return r;
}

__attribute__((used)) static int owned_random(struct parser_job *job)
{
	uint64_t state = given->seed * 2654435761u + 1;

	for (uint64_t n = random_u64(&state) % 65536; n; n--) {
		uint64_t x = random_u64(&state);

		if (buf_append(job->answer, &x, sizeof x) < 0)
			break;
	}
	return 0;
}

/* Packets of any kind, with any descriptors, to whoever has the other end. */
__attribute__((used)) static int owned_packets(struct parser_job *job)
{
	const int socket = *(const int *)job->side; /* its first member */
	uint64_t state = given->seed * 2654435761u + 1;

	for (unsigned i = 0; i < 200; i++) {
		struct wire_reply head = {.kind = (uint32_t)(random_u64(&state) % 6),
					  .result = (int32_t)random_u64(&state),
					  .len = random_u64(&state) >> (random_u64(&state) & 63),
					  .cpu_ns = random_u64(&state)};
		uint8_t bytes[512];
		struct packet p = {.head = &head,
				   .head_len = sizeof head - (random_u64(&state) % 4 == 0),
				   .body = bytes,
				   .body_len = random_u64(&state) % sizeof bytes};

		for (size_t k = 0; k < sizeof bytes; k++)
			bytes[k] = (uint8_t)random_u64(&state);
		if (random_u64(&state) % 2) {
			p.fds[0] = job->n_fds ? job->fds[0] : socket;
			p.n_fds = 1;
		}
		if (packet_send(socket, &p) < 0)
			break;
	}
	return 0;
}

__attribute__((used)) static int owned_spin(struct parser_job *job)
{
	(void)job;
	for (volatile bool end = false; !end;)
		;
	return 0;
}

/* Writes all over its own memory. */
__attribute__((used)) static int owned_scribble(struct parser_job *job)
{
	uint64_t state = given->seed * 2654435761u + 1;
	int r = __real_parser_operation_run(wanted, job);

	for (unsigned i = 0; i < 10000; i++) {
		uint64_t at = random_u64(&state);

		*(volatile uint8_t *)((uintptr_t)&state - 2048 + at % 8192) = (uint8_t)(at >> 32);
	}
	return r;
}

/* --- the bug */

__attribute__((used)) static uint64_t owned_base;
__attribute__((used)) static int (*volatile owned_next)(struct parser_job *job);

static bool read_order(const struct parser_job *job, struct order *ret)
{
	struct stat st;

	return job->n_fds && fstat(job->fds[0], &st) == 0 && st.st_size > (off_t)sizeof *ret &&
	       pread(job->fds[0], ret, sizeof *ret, st.st_size - (off_t)sizeof *ret) == sizeof *ret &&
	       memcmp(ret->magic, MAGIC, sizeof ret->magic) == 0;
}

/* A file's process has read another one, before or after it: what one of them does would be the other's. */
static void note_company(bool owned)
{
	static unsigned n_jobs, n_owned; /* of this process */

	n_jobs++;
	n_owned += owned;
	if (n_owned && n_jobs > 1)
		__atomic_add_fetch(&evidence[N_ATTEMPTS].begun, 1, __ATOMIC_RELAXED);
}

int __wrap_parser_operation_run(const struct parser_operation *operation, struct parser_job *job)
{
	struct order order;
	const bool owned = evidence && read_order(job, &order);

	if (evidence)
		note_company(owned);
	if (!owned)
		return __real_parser_operation_run(operation, job);
	given = &order;
	wanted = operation;
	for (uint64_t i = 0; i < order.n_writes && i < WRITES_MAX; i++) {
		uint64_t value = (uint64_t)(uintptr_t)&owned_base + (uint64_t)order.writes[i].value;

		memcpy((uint8_t *)&owned_base + order.writes[i].offset, &value, sizeof value);
	}
	return owned_next ? owned_next(job) : __real_parser_operation_run(operation, job);
}

/* --- before main */

static void control(void)
{
	static struct order order = {.seed = 1};

	given = &order;
	order.port = strtoull(getenv("PROFLET_OWNED_CONTROL"), NULL, 10);
	order.agent = (uint64_t)fork(); /* a process that stands for the agent */
	if (order.agent == 0) {
		pause();
		_exit(0);
	}
	for (uint64_t i = 0; i < N_ATTEMPTS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (dup(1) >= 0) /* a foreign descriptor */
				make(i);
			_exit(0);
		}
		(void)waitpid(pid, NULL, 0);
	}
	(void)kill((pid_t)order.agent, SIGKILL);
	for (uint64_t i = 0; i < N_ATTEMPTS; i++)
		puts(attempts[i].name);
	exit(0);
}

__attribute__((constructor)) static void share_evidence(void)
{
	const char *path = getenv("PROFLET_OWNED_EVIDENCE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, EVIDENCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	evidence = p == MAP_FAILED ? NULL : p;
	if (evidence && getenv("PROFLET_OWNED_CONTROL"))
		control();
}
