// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/selfstat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"

#define STAT_BYTES 1024 /* of /proc/stat: its first line */
#define SAMPLES_MIN 20	/* that the CPUs' work should have given: by chance, none come once in 10^8 times */

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_usec * 1000;
}

static uint64_t resident_bytes(void)
{
	_cleanup_buf_ struct buf b = {0};
	uint64_t pages;

	if (fs_read_file("/proc/self/statm", 256, &b) < 0 || sscanf(buf_str(&b), "%*u %" SCNu64, &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_files(void)
{
	_cleanup_(closedir_p) DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (d && readdir(d))
		n++;
	return n > 3 ? n - 3 : 0; /* ".", "..", and the folder itself */
}

void selfstat_read(struct selfstat *ret)
{
	struct rusage u = {0};

	(void)getrusage(RUSAGE_SELF, &u);
	*ret = (struct selfstat){.cpu_ns = timeval_ns(u.ru_utime) + timeval_ns(u.ru_stime),
				 .resident_bytes = resident_bytes(),
				 .open_files = open_files()};
}

int watch_parse_busy(const char *stat, uint64_t *ret_ns)
{
	uint64_t user, nice, system, idle, iowait, irq, softirq;
	uint64_t tick_ns = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);

	if (sscanf(stat,
		   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		   &user, &nice, &system, &idle, &iowait, &irq, &softirq) != 7)
		return -EBADMSG;
	*ret_ns = (user + nice + system + irq + softirq) * tick_ns;
	return 0;
}

int watch_read_busy(uint64_t *ret_ns)
{
	_cleanup_close_ int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	char text[STAT_BYTES];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return watch_parse_busy(text, ret_ns);
}

void watch_look(struct watch *w, uint64_t taken, uint64_t busy_ns, uint32_t frequency_hz)
{
	if (w->looked && taken == w->taken) {
		w->lost_busy_ns += busy_ns > w->busy_ns ? busy_ns - w->busy_ns : 0;
		w->lost_looks++;
	} else {
		w->lost_busy_ns = w->lost_looks = 0;
	}
	w->stalled = w->lost_looks >= WATCH_PERIODS &&
		     (double)w->lost_busy_ns / NS_PER_SEC * frequency_hz >= SAMPLES_MIN;
	w->taken = taken;
	w->busy_ns = busy_ns;
	w->looked = true;
}
