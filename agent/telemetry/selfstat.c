// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/selfstat.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/parser/parser.h"

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
	return n > 3 ? n - 3 : 0; /* ".", "..", and the directory itself */
}

void selfstat_read(struct selfstat *ret)
{
	struct parser_stats parser;
	struct rusage u = {0};

	(void)getrusage(RUSAGE_SELF, &u);
	parser_stats(&parser);
	*ret = (struct selfstat){.cpu_ns = timeval_ns(u.ru_utime) + timeval_ns(u.ru_stime) + parser.cpu_ns,
				 .wasted_ns = parser.wasted_ns,
				 .resident_bytes = resident_bytes(),
				 .open_files = open_files()};
}
