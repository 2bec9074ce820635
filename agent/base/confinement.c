// SPDX-License-Identifier: Apache-2.0
#include "agent/base/confinement.h"

#include <errno.h>

#include "agent/base/cleanup.h"

static const int nobody_needs[] = {
	/* other processes */
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	/* the kernel */
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	/* namespaces and file systems */
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(chroot),
	SCMP_SYS(pivot_root),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(open_by_handle_at),
};

int confinement_refuse(scmp_filter_ctx filter, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = seccomp_rule_add(filter, CONFINEMENT_REFUSE, calls[i], 0);
	return r;
}

int confinement_new(scmp_filter_ctx *ret)
{
	const struct scmp_arg_cmp another = {.arg = 0, .op = SCMP_CMP_NE, .datum_a = 0};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = filter ? confinement_refuse(filter, nobody_needs, ARRAY_SIZE(nobody_needs)) : -ENOMEM;

	if (r == 0) /* limits of others */
		r = seccomp_rule_add(filter, CONFINEMENT_REFUSE, SCMP_SYS(prlimit64), 1, another);
	if (r == 0)
		*ret = filter;
	else if (filter)
		seccomp_release(filter);
	return r;
}

int confinement_load(scmp_filter_ctx filter, int r)
{
	if (r == 0)
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
	if (r == 0)
		r = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	return r;
}
