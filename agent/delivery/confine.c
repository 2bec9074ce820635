// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/confinement.h"
#include "otlp/spool_folder.h"

DEFINE_CLEANUP(cap_t, cap_free)

/* --- capabilities */

static int keep_capabilities(uint64_t kept)
{
	_cleanup_(cap_free_p) cap_t now = cap_get_proc(), next = cap_init();
	int r = now && next ? 0 : -1;

	for (int i = 0; i < cap_max_bits() && r == 0; i++) {
		const cap_value_t value = i;
		cap_flag_value_t has = CAP_CLEAR;

		if (!(kept & 1ull << i)) {
			(void)cap_drop_bound(value); /* fails without SETPCAP */
			continue;
		}
		r = cap_get_flag(now, value, CAP_PERMITTED, &has);
		if (r == 0 && has == CAP_SET)
			r = cap_set_flag(next, CAP_PERMITTED, 1, &value, CAP_SET);
		if (r == 0 && has == CAP_SET)
			r = cap_set_flag(next, CAP_EFFECTIVE, 1, &value, CAP_SET);
	}
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r == 0)
		r = cap_set_proc(next);
	return r < 0 ? -errno : 0;
}

/* --- files */

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* those of the first version; later ones restrict what also needs one of these */
#define WRITE                                                                                             \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |       \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |    \
	 LANDLOCK_ACCESS_FS_MAKE_SYM)

static int allow(int rules, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr a = {.allowed_access = access, .parent_fd = fd};
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		a.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0 ? -errno : 0;
}

/* Whatever lies in the root folder: a rule for the root itself would include /proc. */
static int allow_reading(int rules)
{
	_cleanup_(closedir_p) DIR *root = opendir("/");
	const struct dirent *d;
	int r = root ? 0 : -errno;

	while (r == 0 && (d = readdir(root))) {
		_cleanup_close_ int fd = -1;

		if (d->d_name[0] == '.' && (!d->d_name[1] || strcmp(d->d_name, "..") == 0))
			continue;
		if (strcmp(d->d_name, "proc") == 0 || strcmp(d->d_name, "sys") == 0)
			continue;
		fd = openat(dirfd(root), d->d_name, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			r = allow(rules, fd, READ);
	}
	return r;
}

/* 0, also where the kernel has no Landlock; or -errno: nothing is restricted. */
static int confine_files(int spool)
{
	const struct landlock_ruleset_attr attr = {.handled_access_fs =
							   READ | WRITE | LANDLOCK_ACCESS_FS_EXECUTE};
	_cleanup_close_ int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);

	int r;

	if (rules < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	r = allow_reading(rules);
	if (r == 0 && spool >= 0)
		r = allow(rules, spool, READ | WRITE);
	if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		r = -errno;
	return r;
}

/* --- system calls */

static const int refused[] = {
	/* other processes */
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(kill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	/* the kernel */
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(syslog),
	/* namespaces and file systems */
	SCMP_SYS(name_to_handle_at),
};

static int confine_calls(void)
{
	scmp_filter_ctx filter = NULL;
	int r = confinement_new(&filter);

	if (r == 0)
		r = confinement_refuse(filter, refused, ARRAY_SIZE(refused));
	return confinement_load(filter, r);
}

int delivery_confine(const char *spool, uint64_t capabilities)
{
	static const struct rlimit none = {0, 0};
	_cleanup_close_ int folder = -1;
	int r, files;

	if (spool && spool_folder_open(spool, true, &folder) < 0)
		folder = -1; /* who opens the spool reports it */
	r = keep_capabilities(capabilities);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
		return -errno;
	files = confine_files(folder);
	r = confine_calls();
	return r < 0 ? r : files;
}
