// SPDX-License-Identifier: Apache-2.0
#include "agent/check/check_view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/delivery/collector.h"
#include "agent/delivery/delivery.h"
#include "agent/delivery/kubelet_query.h"
#include "agent/parser/parser.h"
#include "cgroup/limit.h"

#define CONNECT_TIMEOUT_NS (2 * NS_PER_SEC)

DEFINE_CLEANUP(cap_t, cap_free)
DEFINE_CLEANUP(gzFile, gzclose)

static int view_uname(void *ctx, char release[65], char version[65])
{
	struct utsname u;

	(void)ctx;
	if (uname(&u) < 0)
		return -errno;
	snprintf(release, 65, "%s", u.release);
	snprintf(version, 65, "%s", u.version);
	return 0;
}

static ssize_t view_read_file(void *ctx, const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	(void)ctx;
	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read(fd, buf + len, size - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return (ssize_t)len;
}

static ssize_t view_read_link(void *ctx, const char *path, char *buf, size_t size)
{
	ssize_t n = readlink(path, buf, size - 1);

	(void)ctx;
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

static int view_open_file(void *ctx, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	(void)ctx;
	return fd < 0 ? -errno : 0;
}

/* gzopen reads both compressed and plain files. */
static int option_in(const char *path, const char *name)
{
	_cleanup_(gzclose_p) gzFile f = gzopen(path, "re");
	size_t len = strlen(name);
	char line[512];

	if (!f)
		return -ENOENT;
	while (gzgets(f, line, sizeof line))
		if (strncmp(line, name, len) == 0 && line[len] == '=')
			return line[len + 1] == 'y' || line[len + 1] == 'm';
	return 0;
}

static int view_kernel_option(void *ctx, const char *release, const char *name)
{
	static const char *const places[] = {"/boot/config-", "/proc/1/root/boot/config-"};
	int r = option_in("/proc/config.gz", name);

	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(places) && r < 0; i++) {
		char path[128];

		snprintf(path, sizeof path, "%s%s", places[i], release);
		r = option_in(path, name);
	}
	return r;
}

static int view_capabilities(void *ctx, uint64_t *ret_effective)
{
	_cleanup_(cap_free_p) cap_t caps = cap_get_proc();
	uint64_t mask = 0;

	(void)ctx;
	if (!caps)
		return -errno;
	for (int i = 0; i < 64; i++) {
		cap_flag_value_t value;

		if (cap_get_flag(caps, i, CAP_EFFECTIVE, &value) < 0)
			break; /* the kernel knows no more */
		if (value == CAP_SET)
			mask |= 1ull << i;
	}
	*ret_effective = mask;
	return 0;
}

static int view_memlock(void *ctx, uint64_t *ret_bytes)
{
	struct rlimit limit;

	(void)ctx;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return -errno;
	*ret_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	return 0;
}

static int view_open_files(void *ctx, uint64_t *ret_max)
{
	struct rlimit limit;

	(void)ctx;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	*ret_max = limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
	return 0;
}

static int view_folder(void *ctx, const char *path, uint64_t *ret_free_bytes)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statvfs st;

	(void)ctx;
	if (fd < 0 || access(path, W_OK | X_OK) < 0 || fstatvfs(fd, &st) < 0)
		return -errno;
	*ret_free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}

static int view_cpu_group(void *ctx, struct cgroup_cpu *ret)
{
	(void)ctx;
	return cgroup_cpu_weight("", ret);
}

static int view_perf_open(void *ctx, uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {.type = type, .size = sizeof attr, .config = config, .disabled = 1};
	_cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	(void)ctx;
	return fd < 0 ? -errno : 0;
}

static int view_bpf_map_create(void *ctx)
{
	union bpf_attr attr;
	_cleanup_close_ int fd = -1;

	(void)ctx;
	memset(&attr, 0, sizeof attr);
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 4;
	attr.max_entries = 1;
	fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
	return fd < 0 ? -errno : 0;
}

static pid_t view_parsers(void *ctx, bool openers)
{
	(void)ctx;
	return openers ? parser_opener_pid() : parser_pid();
}

static pid_t view_delivery(void *ctx, const struct config *config, uint64_t capabilities)
{
	static struct delivery *delivery; /* ends with this process */
	const struct delivery_options o = {.config = config, .capabilities = capabilities};

	(void)ctx;
	if (!delivery && delivery_start(&delivery, &o) < 0)
		return 0;
	return delivery_pid(delivery);
}

static pid_t view_getpid(void *ctx)
{
	(void)ctx;
	return getpid();
}

static int view_collector(void *ctx, const struct config *config, char **ret_why)
{
	(void)ctx;
	return collector_probe(config, CONNECT_TIMEOUT_NS, ret_why);
}

static int view_kubelet(void *ctx, const struct config *config, size_t *ret_pods, char **ret_why)
{
	(void)ctx;
	return kubelet_query_probe(config, CONNECT_TIMEOUT_NS, ret_pods, ret_why);
}

static int view_listen(void *ctx, const char *address)
{
	(void)ctx;
	return http_server_probe(address);
}

const struct check_view check_view_real = {
	.uname = view_uname,
	.read_file = view_read_file,
	.read_link = view_read_link,
	.open_file = view_open_file,
	.kernel_option = view_kernel_option,
	.capabilities = view_capabilities,
	.memlock = view_memlock,
	.open_files = view_open_files,
	.folder = view_folder,
	.cpu_group = view_cpu_group,
	.perf_open = view_perf_open,
	.bpf_map_create = view_bpf_map_create,
	.getpid = view_getpid,
	.parsers = view_parsers,
	.delivery = view_delivery,
	.collector = view_collector,
	.kubelet = view_kubelet,
	.listen = view_listen,
};
