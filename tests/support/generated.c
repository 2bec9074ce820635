// SPDX-License-Identifier: Apache-2.0
/*
 * Runs generated code that is in no file, as a user of its own:
 *
 *	generated UID [bind SOURCE | tmp FOLDER]
 *
 * With `bind`, it has a user and a mount namespace of its own in which SOURCE is mounted on the name of its
 * perf map. With `tmp`, it has a mount namespace, made as root, in which FOLDER is mounted on /tmp. The code
 * is at CODE; "ready" is printed when it runs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CODE ((void *)0x500000000000ull)

/* Counts to 2^24 and returns. */
#if defined(__x86_64__)
static const uint8_t code[] = {
	0x55, 0x48, 0x89, 0xe5,	      /* push rbp; mov rbp, rsp */
	0xb9, 0x00, 0x00, 0x00, 0x01, /* mov ecx, 1 << 24 */
	0xff, 0xc9, 0x75, 0xfc,	      /* dec ecx; jnz */
	0x5d, 0xc3,		      /* pop rbp; ret */
};
#elif defined(__aarch64__)
static const uint32_t code[] = {
	0xa9bf7bfd, 0x910003fd, /* stp x29, x30, [sp, -16]!; mov x29, sp */
	0x52a02000,		/* mov w0, 1 << 24 */
	0x71000400, 0x54ffffe1, /* subs w0, w0, 1; b.ne */
	0xa8c17bfd, 0xd65f03c0, /* ldp x29, x30, [sp], 16; ret */
};
#endif

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void mount_map(const char *source)
{
	char name[64];
	int fd;

	snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		fail(name);
	close(fd);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		fail("unshare");
	if (mount(source, name, NULL, MS_BIND, NULL) < 0)
		fail("mount");
}

static void mount_tmp(const char *folder)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(folder, "/tmp", NULL, MS_BIND, NULL) < 0)
		fail("mount");
}

int main(int argc, char **argv)
{
	bool is_bind = argc == 4 && strcmp(argv[2], "bind") == 0;
	bool is_tmp = argc == 4 && strcmp(argv[2], "tmp") == 0;
	uid_t uid = argc > 1 ? (uid_t)atoi(argv[1]) : 0;
	void (*run)(void);
	void *p;

	if (argc != 2 && !is_bind && !is_tmp)
		return 2;
	if (is_tmp)
		mount_tmp(argv[3]);
	if (uid && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
		fail("setresuid");
	if (is_bind)
		mount_map(argv[3]);
	p = mmap(CODE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	memcpy(p, code, sizeof code);
	if (mprotect(p, 4096, PROT_READ | PROT_EXEC) < 0)
		fail("mprotect");
	__builtin___clear_cache(p, (char *)p + sizeof code);
	memcpy(&run, &p, sizeof run);
	puts("ready");
	fflush(stdout);
	for (;;)
		run();
}
