// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel's own frame-pointer unwinder sees: samples threads by perf_event_open(2) with
 * PERF_SAMPLE_CALLCHAIN. usage: callchain SECONDS TID...; prints a line for each:
 *
 *	TID SAMPLES DEEPEST	frames in user space, the interrupted one included; of the depths that
 *				at least a tenth of the samples have (a runtime's signal handlers come and go)
 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DATA_PAGES 16
#define TIDS_MAX 256

#define DEPTH_MAX 512

struct watched {
	int tid;
	const struct perf_event_mmap_page *ring;
	unsigned long samples, of_depth[DEPTH_MAX];
};

static int watch(struct watched *w, size_t page)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 199,
		.sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_kernel = 1,
		.exclude_callchain_kernel = 1,
		.sample_max_stack = 127,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, w->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -1;
	w->ring = mmap(NULL, (1 + DATA_PAGES) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return w->ring == MAP_FAILED ? -1 : 0;
}

static void count(struct watched *w, const unsigned char *record)
{
	unsigned long long n, address;
	unsigned long depth = 0;

	memcpy(&n, record, sizeof(n));
	for (unsigned long long i = 0; i < n; i++) {
		memcpy(&address, record + sizeof(n) + i * sizeof(address), sizeof(address));
		depth += address < PERF_CONTEXT_MAX; /* the others are marks between kernel and user */
	}
	w->samples++;
	w->of_depth[depth < DEPTH_MAX ? depth : DEPTH_MAX - 1]++;
}

static unsigned long deepest(const struct watched *w)
{
	unsigned long depth = DEPTH_MAX - 1;

	while (depth > 0 && w->of_depth[depth] * 10 < w->samples)
		depth--;
	return w->samples ? depth : 0;
}

/* The ring is never full in the time that this runs, so it is read from its start, once. */
static void read_ring(struct watched *w, size_t page)
{
	const unsigned char *data = (const unsigned char *)w->ring + page;
	unsigned long long head = __atomic_load_n(&w->ring->data_head, __ATOMIC_ACQUIRE);
	unsigned char record[4096];

	if (head > DATA_PAGES * page)
		head = DATA_PAGES * page;
	for (unsigned long long at = 0; at + sizeof(struct perf_event_header) <= head;) {
		struct perf_event_header header;

		memcpy(&header, data + at, sizeof(header));
		if (header.size < sizeof(header) || at + header.size > head)
			break;
		if (header.type == PERF_RECORD_SAMPLE && header.size <= sizeof(record)) {
			memcpy(record, data + at + sizeof(header), header.size - sizeof(header));
			count(w, record);
		}
		at += header.size;
	}
}

int main(int argc, char **argv)
{
	static struct watched watched[TIDS_MAX];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int n = argc - 2;

	if (n < 1 || n > TIDS_MAX) {
		fprintf(stderr, "usage: callchain SECONDS TID...\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		watched[i].tid = atoi(argv[2 + i]);
		if (watch(&watched[i], page) < 0) {
			perror(argv[2 + i]);
			return 1;
		}
	}
	sleep((unsigned)atoi(argv[1]));
	for (int i = 0; i < n; i++) {
		read_ring(&watched[i], page);
		printf("%d %lu %lu\n", watched[i].tid, watched[i].samples, deepest(&watched[i]));
	}
	return 0;
}
