// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/stall.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

#define STAT_BYTES 1024 /* of /proc/stat: its first line */
#define SAMPLES_MIN \
	20 /* expected for the busy time; that none is taken by chance happens once in 10^8 times */

int stall_parse_busy(const char *stat, uint64_t *ret_ns)
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

int stall_read_busy(uint64_t *ret_ns)
{
	_cleanup_close_ int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	char text[STAT_BYTES];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return stall_parse_busy(text, ret_ns);
}

void stall_look(struct stall *s, uint64_t taken, uint64_t busy_ns, uint32_t frequency_hz)
{
	if (s->looked && taken == s->taken) {
		s->lost_busy_ns += busy_ns > s->busy_ns ? busy_ns - s->busy_ns : 0;
		s->lost_looks++;
	} else {
		s->lost_busy_ns = s->lost_looks = 0;
	}
	s->stalled = s->lost_looks >= STALL_PERIODS &&
		     (double)s->lost_busy_ns / NS_PER_SEC * frequency_hz >= SAMPLES_MIN;
	s->taken = taken;
	s->busy_ns = busy_ns;
	s->looked = true;
}
