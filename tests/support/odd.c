// SPDX-License-Identifier: Apache-2.0
/*
 * Programs that are odd to look at, and computing all the time. usage:
 *
 *	odd cycle	a chain of frames that leads back to itself
 *	odd still	a frame that is its own caller
 *	odd signals	a signal frame that says it interrupted its own handler
 *	odd stacks	signals, one within the other, each on another alternate stack
 *	odd threads N	keeps so many threads, and starts new ones all the time
 *	odd pages	a stack and arguments in memory that nobody provides (userfaultfd)
 *	odd memfd FILE	runs code of a memfd that has FILE's bytes, is cut, grows, and is sealed at last
 *
 * Prints "ready".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define CODE_AT 0x1000
#define STACKS 16
#define STACK_BYTES (64ul << 10)
#define THREAD_STACK_BYTES (16ul << 10) /* PTHREAD_STACK_MIN */
#define CUT_US 300
#define CUTS 20000ul

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void compute(void)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

/*
 * Spins with rbp at `frame`. Its call-frame information says that the frame pointer leads on: the caller's is
 * at *rbp, its return address behind it.
 */
void spin_at(void *frame);
__asm__(".text\n"
	".type spin_at, @function\n"
	"spin_at:\n"
	".cfi_startproc\n"
	".cfi_def_cfa rbp, 16\n"
	".cfi_offset rbp, -16\n"
	".cfi_offset rip, -8\n"
	"	mov %rdi, %rbp\n"
	"	lea -256(%rdi), %rsp\n"
	"1:	pause\n"
	"	jmp 1b\n"
	".cfi_endproc\n"
	".size spin_at, . - spin_at\n");

/* Spins in a frame whose CFA is its own stack pointer: the caller's is the same. */
void spin_still(void *frame);
__asm__(".text\n"
	".type spin_still, @function\n"
	"spin_still:\n"
	".cfi_startproc\n"
	".cfi_def_cfa rsp, 0\n"
	".cfi_offset rip, 0\n"
	"	mov %rdi, %rsp\n"
	"1:	pause\n"
	"	jmp 1b\n"
	".cfi_endproc\n"
	".size spin_still, . - spin_still\n");

static uint64_t frames[4096]; /* the frames are in the middle */

/* Three frames; the third leads back to the first. Each is in the same code. */
static void cycle(void)
{
	uint64_t *at[3] = {frames + 2048, frames + 2304, frames + 2560};

	for (int i = 0; i < 3; i++) {
		at[i][0] = (uint64_t)at[(i + 1) % 3];
		at[i][1] = (uint64_t)spin_at + 8;
	}
	ready();
	spin_at(at[0]);
}

static void still(void)
{
	frames[2048] = (uint64_t)spin_still + 4;
	ready();
	spin_still(frames + 2048);
}

static void own_handler(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)number;
	(void)info;
	c->uc_mcontext.gregs[REG_RSP] = (greg_t)((uint64_t)c - 8);
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)(uint64_t)own_handler;
	c->uc_mcontext.gregs[REG_RBP] = (greg_t)((uint64_t)c - 8);
	ready();
	compute();
}

static void *new_stack(void)
{
	void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

/* Forgotten while its handler runs (SS_AUTODISARM), so that the handler may name another one. */
static void on_other_stack(void *stack)
{
	stack_t s = {.ss_sp = stack, .ss_size = STACK_BYTES, .ss_flags = (int)(1u << 31)};

	if (sigaltstack(&s, NULL) < 0)
		fail("sigaltstack");
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	if (sigaction(number, &a, NULL) < 0)
		fail("sigaction");
}

static void signals(void)
{
	on_other_stack(new_stack());
	handle(SIGUSR1, own_handler, SA_ONSTACK);
	raise(SIGUSR1);
}

static volatile int depth;

/* Each is on another stack, and within the one before. */
static void next_level(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	if (++depth == STACKS) {
		ready();
		compute();
	}
	on_other_stack(new_stack());
	handle(SIGRTMIN + depth, next_level, SA_ONSTACK);
	raise(SIGRTMIN + depth);
}

static void stacks(void)
{
	on_other_stack(new_stack());
	handle(SIGRTMIN, next_level, SA_ONSTACK);
	raise(SIGRTMIN);
}

static void *sleeper(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *short_lived(void *unused)
{
	for (volatile unsigned i = 0; i < 100000; i++)
		;
	return unused;
}

static void threads(unsigned long wanted)
{
	pthread_attr_t a;
	pthread_t t;
	unsigned long n = 0;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, THREAD_STACK_BYTES);
	while (n < wanted && pthread_create(&t, &a, sleeper, NULL) == 0)
		n++;
	printf("ready %lu\n", n);
	fflush(stdout);
	for (;;)
		if (pthread_create(&t, &a, short_lived, NULL) == 0)
			pthread_join(t, NULL);
}

/* Whoever touches it waits, as nobody reads the descriptor. */
static bool never_provided(void *at, size_t len)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uint64_t)at, len}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0;
}

/* The chain of frame pointers leads into such memory, and the arguments of the command line are there. */
static void pages(void)
{
	uint8_t *absent = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (absent == MAP_FAILED || !never_provided(absent, 16 * PAGE))
		fail("userfaultfd");
	/* permitted to who may do it in its user namespace; else they stay where they are */
	prctl(PR_SET_MM, PR_SET_MM_ARG_START, absent, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ARG_END, absent + PAGE, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ENV_START, absent + PAGE, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ENV_END, absent + 2 * PAGE, 0, 0);
	frames[2048] = (uint64_t)(absent + 8 * PAGE);
	frames[2049] = (uint64_t)spin_at + 8;
	ready();
	spin_at(frames + 2048);
}

static int memfd_of(const char *path, size_t *len)
{
	int from = open(path, O_RDONLY), to = memfd_create("odd", MFD_ALLOW_SEALING);
	struct stat st;
	ssize_t n = 0;
	off_t at = 0;

	if (from < 0 || to < 0 || fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		fail(path);
	for (char block[65536]; (n = pread(from, block, sizeof block, at)) > 0; at += n)
		if (pwrite(to, block, (size_t)n, at) != n)
			fail("pwrite");
	*len = (size_t)st.st_size;
	close(from);
	return to;
}

/* Behind the code that runs: so that this program lives. */
static void cut_again_and_again(int fd, size_t len)
{
	for (unsigned long i = 0; i < CUTS; i++) {
		uint8_t byte = (uint8_t)i;
		off_t more = (off_t)(i % 7 << 28);

		if (ftruncate(fd, 2 * CODE_AT) < 0 || ftruncate(fd, (off_t)len + more) < 0 ||
		    pwrite(fd, &byte, 1, 2 * CODE_AT + (off_t)(i % (len - 2 * CODE_AT))) != 1)
			fail("memfd");
		usleep(CUT_US);
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		fail("seals");
	pause();
}

static void memfd(const char *path)
{
	size_t len;
	int fd = memfd_of(path, &len);
	uint8_t *at = mmap(NULL, 2 * CODE_AT, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	pid_t pid;

	if (at == MAP_FAILED || len <= 2 * CODE_AT)
		fail("memfd");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cut_again_and_again(fd, len);
	}
	ready();
	((void (*)(void))(at + CODE_AT))();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"cycle", cycle},
		     {"still", still},
		     {"signals", signals},
		     {"stacks", stacks},
		     {"pages", pages}};
	const char *mode = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (strcmp(mode, modes[i].name) == 0)
			modes[i].run();
	if (argc == 3 && strcmp(mode, "threads") == 0)
		threads(strtoul(argv[2], NULL, 10));
	if (argc == 3 && strcmp(mode, "memfd") == 0)
		memfd(argv[2]);
	return 2;
}
