// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/sanitized.h"

#define DESCRIPTORS_MAX 96u /* queries bring some */

#define REFUSE (SANITIZED ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS)

static void cap_free_p(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
}

/* --- the nursery */

/* Without CAP_SETUID the process keeps its user, and has no capabilities any more. */
static void leave_user(void)
{
	static const uid_t ids[] = {SANDBOX_UID, SANDBOX_NOBODY};

	(void)setgroups(0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (setresgid(ids[i], ids[i], ids[i]) == 0 && setresuid(ids[i], ids[i], ids[i]) == 0)
			return;
}

static void bound_capabilities(void)
{
	for (int i = 0; i < cap_max_bits(); i++)
		(void)cap_drop_bound(i); /* fails without SETPCAP */
}

static int keep_one(cap_t caps)
{
	static const cap_value_t search = CAP_DAC_READ_SEARCH;

	if (cap_set_flag(caps, CAP_PERMITTED, 1, &search, CAP_SET) < 0 ||
	    cap_set_flag(caps, CAP_EFFECTIVE, 1, &search, CAP_SET) < 0)
		return -errno;
	return cap_set_proc(caps) == 0 ? 0 : -errno;
}

static int drop_capabilities(bool opens)
{
	_cleanup_(cap_free_p) cap_t none = cap_init(), one = cap_init();

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (opens && one && keep_one(one) == 0)
		return 0;
	return none && cap_set_proc(none) == 0 ? 0 : -errno;
}

/* Nothing of any file system can be opened, made or removed; with `opens`, nothing made or removed. */
static void forbid_files(bool opens)
{
	/* those of the first version; later ones restrict what also needs one of these, or a descriptor */
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				     LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
				     LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
				     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
				     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
				     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
				     LANDLOCK_ACCESS_FS_MAKE_SYM,
	};
	_cleanup_close_ int rules = -1;

	if (opens)
		attr.handled_access_fs &=
			~(__u64)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR);
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (rules >= 0)
		(void)syscall(SYS_landlock_restrict_self, rules, 0);
}

static int set_limit(__rlimit_resource_t which, rlim_t value)
{
	const struct rlimit l = {value, value};

	return setrlimit(which, &l) < 0 ? -errno : 0;
}

/* Before these files belong to someone else. */
static void offer_memory(void)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)fs_write_fd(fd, "1000", 4);
}

int sandbox_enter(bool opens)
{
	int r;

	offer_memory();
	bound_capabilities();
	if (opens && prctl(PR_SET_KEEPCAPS, 1) < 0)
		return -errno;
	leave_user();
	r = drop_capabilities(opens);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) /* setresuid undoes the latter two */
		return -errno;
	forbid_files(opens);
	return set_limit(RLIMIT_CORE, 0);
}

/* --- system calls */

/* Of parser processes: what they were given, the agent, memory, themselves. */
static const int common[] = {
	/* newfstatat is how the C library calls fstat */
	SCMP_SYS(read),		SCMP_SYS(pread64),	SCMP_SYS(fstat),	   SCMP_SYS(newfstatat),
	SCMP_SYS(lseek),	SCMP_SYS(write),	SCMP_SYS(close),	   SCMP_SYS(fcntl),
	SCMP_SYS(recvmsg),	SCMP_SYS(sendmsg),	SCMP_SYS(munmap),	   SCMP_SYS(mremap),
	SCMP_SYS(brk),		SCMP_SYS(madvise),	SCMP_SYS(futex),	   SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday), SCMP_SYS(getrandom),	SCMP_SYS(gettid),	   SCMP_SYS(getpid),
	SCMP_SYS(sysinfo),	SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall), SCMP_SYS(sched_yield),
	SCMP_SYS(exit),		SCMP_SYS(exit_group),
};

/* Of the nursery, and of its children until they read foreign bytes. */
static const int nursery_only[] = {
	SCMP_SYS(clone),	   SCMP_SYS(clone3),	SCMP_SYS(wait4),	SCMP_SYS(poll),
	SCMP_SYS(ppoll),	   SCMP_SYS(kill),	SCMP_SYS(prctl),	SCMP_SYS(seccomp),
	SCMP_SYS(prlimit64),	   SCMP_SYS(setrlimit), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(set_robust_list), SCMP_SYS(rseq),	SCMP_SYS(getppid),
};

/* Of processes that open files, for reading. */
static const int opener_only[] = {SCMP_SYS(openat2), SCMP_SYS(statx), SCMP_SYS(readlinkat)};

static int add(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = seccomp_rule_add(filter, action, calls[i], 0);
	return r;
}

/* The bytes of a filter, which libseccomp writes to a file. */
static int export_filter(scmp_filter_ctx filter, struct sock_fprog *prog)
{
	_cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
	_cleanup_free_ struct sock_filter *code = NULL;
	off_t len;
	int r;

	if (fd < 0)
		return -errno;
	r = seccomp_export_bpf(filter, fd);
	if (r < 0)
		return r;
	len = lseek(fd, 0, SEEK_END);
	if (len <= 0 || len % (off_t)sizeof *code || len / (off_t)sizeof *code > UINT16_MAX)
		return -EINVAL;
	code = malloc((size_t)len);
	if (!code)
		return -ENOMEM;
	if (pread(fd, code, (size_t)len, 0) != len)
		return -EIO;
	prog->len = (unsigned short)(len / (off_t)sizeof *code);
	prog->filter = TAKE_PTR(code);
	return 0;
}

/* What is not listed is refused. No page is made that can be executed. */
static int load_filter(scmp_filter_ctx filter, bool opens)
{
	const struct scmp_arg_cmp for_reading = {
		.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = O_ACCMODE | O_CREAT | O_TRUNC, .datum_b = 0};
	const struct scmp_arg_cmp no_exec = {
		.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = PROT_EXEC, .datum_b = 0};
	int r = add(filter, SCMP_ACT_ALLOW, common, ARRAY_SIZE(common));

	if (r == 0)
		r = add(filter, SCMP_ACT_ALLOW, nursery_only, ARRAY_SIZE(nursery_only));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_exec);
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_exec);
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 0);
	if (r == 0 && opens)
		r = add(filter, SCMP_ACT_ALLOW, opener_only, ARRAY_SIZE(opener_only));
	if (r == 0 && opens)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, for_reading);
	if (r == 0 && SANITIZED) /* after a fork */
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sigaltstack), 0);
	if (r == 0)
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
	return r < 0 ? r : seccomp_load(filter);
}

/* What is listed is refused. A process may still make itself ordinary. */
static int make_rest(scmp_filter_ctx filter, struct sock_fprog *ret)
{
	const struct scmp_arg_cmp another = {.arg = 0, .op = SCMP_CMP_NE, .datum_a = 0};
	int r = add(filter, REFUSE, nursery_only, ARRAY_SIZE(nursery_only));

	if (r == 0)
		r = seccomp_rule_add(filter, REFUSE, SCMP_SYS(sched_setscheduler), 1, another);
	return r < 0 ? r : export_filter(filter, ret);
}

int sandbox_filter(struct sock_fprog *ret_rest, bool opens)
{
	scmp_filter_ctx all = seccomp_init(REFUSE), rest = seccomp_init(SCMP_ACT_ALLOW);
	int r = all && rest ? make_rest(rest, ret_rest) : -ENOMEM;

	if (r == 0)
		r = load_filter(all, opens);
	if (all)
		seccomp_release(all);
	if (rest)
		seccomp_release(rest);
	return r;
}

/* --- limits */

/* Of its own address space, in bytes; 0: not known. */
static uint64_t own_bytes(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages;

	return f && fscanf(f, "%lu", &pages) == 1 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t sandbox_address_space(void)
{
	return SANITIZED ? 0 : own_bytes();
}

int sandbox_close(const struct sock_fprog *rest, const struct sandbox_limits *limits)
{
	int r = limits->memory_bytes ? set_limit(RLIMIT_AS, limits->memory_bytes) : 0;

	if (r == 0)
		r = set_limit(RLIMIT_FSIZE, limits->file_bytes);
	if (r == 0)
		r = set_limit(RLIMIT_CPU, limits->cpu_s);
	if (r == 0)
		r = set_limit(RLIMIT_NOFILE, DESCRIPTORS_MAX);
	if (r == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, rest) < 0)
		r = -errno;
	return r;
}
