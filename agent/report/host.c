// SPDX-License-Identifier: Apache-2.0
#include "agent/report/host.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/proc/beneath.h"

#define TEXT_MAX 4096
#define ID_DIGITS 32

void host_first_word(const char *text, char *ret, unsigned long size)
{
	size_t n;

	*ret = '\0';
	text += strspn(text, " \t\r\n");
	while (*text == '#') {
		text += strcspn(text, "\n");
		text += strspn(text, " \t\r\n");
	}
	n = strcspn(text, " \t\r\n");
	if (n < size)
		snprintf(ret, size, "%.*s", (int)n, text);
}

/* Reads a file as a process with that root sees it: followed by us, its links could lead elsewhere. */
static void read_word(int root, const char *path, char *ret, size_t size)
{
	_cleanup_buf_ struct buf text = {0};
	struct stat st;
	_cleanup_close_ int fd = proc_beneath_open(root, path, &st);

	*ret = '\0';
	if (fd >= 0 && fs_read_fd(fd, TEXT_MAX, &text) == 0)
		host_first_word(buf_str(&text), ret, size);
}

/* Whether PID 1 has the same namespace as the agent; `if_hidden` when that cannot be read. */
static bool same_namespace(const char *proc, const char *kind, bool if_hidden)
{
	char path[128], own[64], first[64];
	ssize_t n, m;

	snprintf(path, sizeof path, "%s/self/ns/%s", proc, kind);
	n = readlink(path, own, sizeof own);
	snprintf(path, sizeof path, "%s/1/ns/%s", proc, kind);
	m = readlink(path, first, sizeof first);
	return n < 0 || m < 0 ? if_hidden : n == m && memcmp(own, first, (size_t)n) == 0;
}

/* Images of systems have the text "uninitialized" instead (machine-id(5)). */
static bool is_machine_id(const char *text)
{
	return strspn(text, "0123456789abcdef") == ID_DIGITS && strlen(text) == ID_DIGITS;
}

static void read_id(int root, char ret[ID_DIGITS + 1])
{
	static const char *const paths[] = {"/etc/machine-id", "/var/lib/dbus/machine-id"};

	for (size_t i = 0; i < ARRAY_SIZE(paths) && root >= 0; i++) {
		read_word(root, paths[i], ret, ID_DIGITS + 1);
		if (is_machine_id(ret))
			return;
	}
	*ret = '\0';
}

/*
 * uname(2) gives the name of the agent's UTS namespace, `own`. That is the pod's, unless the pod uses the
 * host's network.
 */
static void read_name(int root, const char *proc, const char *node, const char *own, char *ret, size_t size)
{
	*ret = '\0';
	if (same_namespace(proc, "uts", node == NULL))
		snprintf(ret, size, "%s", own);
	else if (root >= 0)
		read_word(root, "/etc/hostname", ret, size);
	if (!*ret)
		snprintf(ret, size, "%s", node ?: own);
}

static int open_root(const char *proc, const char *pid)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s/root", proc, pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void host_identity_read(struct host_identity *ret, const char *node, const char *proc)
{
	_cleanup_close_ int root = open_root(proc ?: "/proc", "1");
	struct utsname name = {0};

	*ret = (struct host_identity){0};
	(void)uname(&name);
	proc = proc ?: "/proc";
	if (root < 0 && same_namespace(proc, "mnt", node == NULL))
		root = open_root(proc, "self");
	snprintf(ret->machine, sizeof ret->machine, "%s", name.machine);
	ret->arch = strcmp(ret->machine, "x86_64") == 0	   ? "amd64"
		    : strcmp(ret->machine, "aarch64") == 0 ? "arm64"
							   : ret->machine;
	read_id(root, ret->id);
	read_name(root, proc, node, name.nodename, ret->name, sizeof ret->name);
}
