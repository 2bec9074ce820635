// SPDX-License-Identifier: Apache-2.0
#include "agent/command/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/base/confinement.h"
#include "agent/base/sanitized.h"

static const int refused[] = {
	/* files */
	SCMP_SYS(creat),
	SCMP_SYS(truncate),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(symlink),
	SCMP_SYS(symlinkat),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr),
	SCMP_SYS(fremovexattr),
	SCMP_SYS(
		openat2), /* its flags are in memory; who wants it does the lookup without it (proc/beneath.c) */
	/* users and namespaces */
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setgroups),
	/* connections: those to its own processes are there */
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
};

/* Refuses a call whose argument `arg` has one of the bits. */
static int refuse_bits(scmp_filter_ctx filter, int call, unsigned arg, uint64_t bits)
{
	int r = 0;

	for (; bits && r == 0; bits &= bits - 1) {
		const uint64_t bit = bits & -bits;
		const struct scmp_arg_cmp has = {
			.arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = bit, .datum_b = bit};

		r = seccomp_rule_add(filter, CONFINEMENT_REFUSE, call, 1, has);
	}
	return r;
}

/* Refuses a call whose first argument, an int, is `value`: the kernel ignores what is above its 32 bits. */
static int refuse_int(scmp_filter_ctx filter, int call, unsigned value)
{
	const struct scmp_arg_cmp is = {
		.arg = 0, .op = SCMP_CMP_MASKED_EQ, .datum_a = UINT32_MAX, .datum_b = value};

	return seccomp_rule_add(filter, CONFINEMENT_REFUSE, call, 1, is);
}

/* Calls that are refused for what they are to do. */
static int refuse_arguments(scmp_filter_ctx filter)
{
	/* the two bits of an access mode: write, read and write */
	const uint64_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
	int r = refuse_bits(filter, SCMP_SYS(open), 1, writes);

	if (r == 0)
		r = refuse_bits(filter, SCMP_SYS(openat), 2, writes);
	if (r == 0)
		r = refuse_int(filter, SCMP_SYS(bpf), BPF_PROG_LOAD);
	if (r == 0)
		r = refuse_int(filter, SCMP_SYS(bpf), BPF_OBJ_PIN);
	if (r == 0 && !SANITIZED) /* LeakSanitizer stops the threads at the end */
		r = seccomp_rule_add(filter, CONFINEMENT_REFUSE, SCMP_SYS(ptrace), 0);
	return r;
}

int confine_agent(void)
{
	scmp_filter_ctx filter = NULL;
	int r = confinement_new(&filter);

	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = confinement_refuse(filter, refused, ARRAY_SIZE(refused));
	if (r == 0)
		r = refuse_arguments(filter);
	return confinement_load(filter, r);
}
