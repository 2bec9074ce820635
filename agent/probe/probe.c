// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/online.h"
#include "agent/probe/perf.h"
#include "agent/probe/pidns.h"
#include "agent/probe/tasks.h"
#include "agent/probe/tick.h"
#include "bpf/area.h"
#include "bpf/profiler.skel.h"

#define RING_BYTES_A_SAMPLE 4096u /* a deep stack; most need 200 bytes */
#define RING_SECONDS 1u		  /* of samples at full rate that the ring holds */
#define RING_MIN (256u << 10)
#define RING_MAX (32u << 20)

#define TASK_PROGRAMS 4

struct probe {
	struct profiler_bpf *skel;
	struct ring_buffer *ring;
	struct probe_options options;
	size_t ring_bytes;
	uint32_t n_cpus;      /* possible ones: areas */
	int *area_fds;	      /* n_cpus of them */
	struct online online; /* CPUs that have an event */
	int *event_fds;	      /* n_event_fds of them, by CPU, -1: none */
	int n_event_fds;
	bool cycles, tick;
	const char *event_name;
	struct bpf_link *tick_link, *task_links[TASK_PROGRAMS];
	void **segments; /* max_segments of them, NULL where not made */
	uint32_t n_segments;
	probe_sample_fn fn;
	void *fn_data;
};

static _Thread_local char libbpf_words[4096];

/* libbpf's warnings say more than its error numbers: keep the last of them for the caller. */
static int __attribute__((format(printf, 2, 0))) keep_words(enum libbpf_print_level level, const char *format,
							    va_list ap)
{
	size_t n = strlen(libbpf_words);

	if (level != LIBBPF_WARN)
		return 0;
	if (n > sizeof libbpf_words / 2)
		n = 0;
	return vsnprintf(libbpf_words + n, sizeof libbpf_words - n, format, ap);
}

static size_t ring_size(const struct probe_options *o, uint32_t n_cpus)
{
	uint64_t want = o->ring_bytes, size = RING_MIN;

	if (!want)
		want = (uint64_t)o->frequency_hz * n_cpus * RING_BYTES_A_SAMPLE * RING_SECONDS;
	while (size < want && size < RING_MAX)
		size *= 2;
	return size;
}

/* What the tick's program must know; where it is not used, nothing of it is loaded. */
static int configure_tick(struct probe *p)
{
	struct profiler_bpf *skel = p->skel;
	struct bpf_program *of_tick[] = {skel->progs.tick, skel->progs.task_fork, skel->progs.task_exec,
					 skel->progs.task_name, skel->progs.task_exit};
	struct tick_symbols s;
	FILE *kallsyms;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(of_tick) && r == 0; i++)
		r = bpf_program__set_autoload(of_tick[i], p->tick);
	if (r == 0)
		r = bpf_program__set_autoload(skel->progs.profile, !p->tick);
	if (r == 0 && !p->tick)
		r = bpf_map__set_max_entries(skel->maps.tasks, (uint32_t)perf_page_bytes());
	if (r < 0 || !p->tick)
		return r;
	kallsyms = fopen("/proc/kallsyms", "re");
	r = kallsyms ? tick_symbols_read(kallsyms, &s) : -EPERM;
	if (kallsyms)
		fclose(kallsyms);
	if (r < 0)
		return r == -ENOENT ? -ENOTSUP : -EKEYREJECTED;
	skel->rodata->config_tick_function = s.function;
	skel->rodata->config_entry_text = s.entry_text;
	skel->rodata->config_entry_text_bytes = s.entry_end - s.entry_text;
	skel->rodata->config_tick_ns = NS_PER_SEC / p->options.frequency_hz;
	return 0;
}

/* Everything that must be known before the program is verified. */
static int configure(struct probe *p)
{
	struct profiler_bpf *skel = p->skel;
	uint32_t pidns;
	int r = pidns_inode(&pidns);

	if (r < 0)
		return r;
	skel->rodata->config_task_pt_regs =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
	skel->rodata->config_pid_inum = pidns;
	skel->rodata->config_frames = p->options.user_frames;
	skel->rodata->config_wake_bytes = (uint32_t)(p->ring_bytes / 4 / p->n_cpus);
	r = configure_tick(p);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.segments, p->options.max_segments);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.areas, p->n_cpus);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.deep_areas, p->n_cpus);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.ring, (uint32_t)p->ring_bytes);
	return r;
}

/* One area a possible CPU, each an array of its own. */
static int make_areas(struct probe *p)
{
	for (uint32_t cpu = 0; cpu < p->n_cpus; cpu++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "proflet_area", 4, sizeof(struct unwind_area), 1,
					NULL);

		if (fd < 0)
			return fd;
		p->area_fds[cpu] = fd;
		if (bpf_map_update_elem(bpf_map__fd(p->skel->maps.areas), &cpu, &fd, BPF_ANY) < 0)
			return -errno;
	}
	return 0;
}

static int on_record(void *data, void *record, size_t len)
{
	struct probe *p = data;

	p->fn(record, len, p->fn_data);
	return 0;
}

static int load(struct probe *p)
{
	int r;

	p->skel = profiler_bpf__open();
	if (!p->skel)
		return -errno;
	r = configure(p);
	if (r == 0)
		r = profiler_bpf__load(p->skel);
	if (r == 0)
		r = make_areas(p);
	if (r < 0)
		return r;
	p->ring = ring_buffer__new(bpf_map__fd(p->skel->maps.ring), on_record, p, NULL);
	return p->ring ? 0 : -errno;
}

/* Refused, with or without the capability: Debian's and Ubuntu's perf_event_paranoid, seccomp, LSMs. */
bool probe_takes_tick(enum probe_event event)
{
	int r = event == PROBE_EVENT_AUTO ? probe_perf_allowed() : 0;

	return event == PROBE_EVENT_TICK || r == -EACCES || r == -EPERM;
}

int probe_new(struct probe **ret, const struct probe_options *options, char **ret_log)
{
	struct probe *p = calloc(1, sizeof *p);
	int r, cpus = libbpf_num_possible_cpus();

	*ret_log = NULL;
	if (cpus < 0 || !p) {
		free(p);
		return cpus < 0 ? cpus : -ENOMEM;
	}
	p->options = *options;
	p->tick = probe_takes_tick(options->event);
	p->n_cpus = (uint32_t)cpus;
	p->ring_bytes = ring_size(options, p->n_cpus);
	p->area_fds = calloc(p->n_cpus, sizeof *p->area_fds);
	p->segments = calloc(options->max_segments, sizeof *p->segments);
	libbpf_words[0] = '\0';
	libbpf_set_print(keep_words);
	r = p->area_fds && p->segments ? load(p) : -ENOMEM;
	if (r < 0) {
		*ret_log = strdup(libbpf_words);
		probe_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void probe_free(struct probe *p)
{
	if (!p)
		return;
	probe_detach(p);
	for (int i = 0; i < TASK_PROGRAMS; i++)
		bpf_link__destroy(p->task_links[i]);
	ring_buffer__free(p->ring);
	for (uint32_t i = 0; p->segments && i < p->options.max_segments; i++)
		if (p->segments[i])
			munmap(p->segments[i], SEGMENT_VALUE);
	for (uint32_t i = 0; p->area_fds && i < p->n_cpus; i++)
		if (p->area_fds[i] > 0)
			close(p->area_fds[i]);
	profiler_bpf__destroy(p->skel);
	free(p->segments);
	free(p->area_fds);
	free(p);
}

static int event_open(const struct probe *p, bool cycles, int cpu)
{
	struct perf_event_attr attr = {
		.type = cycles ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.size = sizeof attr,
		.config = cycles ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = p->options.frequency_hz,
		.exclude_idle = !cycles, /* hardware counters stop by themselves when a CPU idles */
	};

	return perf_open(&attr, cpu);
}

/* Room for the descriptor of a CPU. */
static int reserve_event(struct probe *p, int cpu)
{
	int *more;

	if (cpu < p->n_event_fds)
		return 0;
	more = realloc(p->event_fds, ((size_t)cpu + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	p->event_fds = more;
	while (p->n_event_fds <= cpu)
		p->event_fds[p->n_event_fds++] = -1;
	return 0;
}

static int attach_cpu(struct probe *p, int cpu)
{
	_cleanup_close_ int fd = event_open(p, p->cycles, cpu);
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(p->skel->progs.profile)) < 0)
		return -errno;
	r = reserve_event(p, cpu);
	if (r == 0)
		p->event_fds[cpu] = TAKE_FD(fd);
	return r;
}

static void detach_cpu(struct probe *p, int cpu)
{
	if (cpu < p->n_event_fds && p->event_fds[cpu] >= 0)
		close(TAKE_FD(p->event_fds[cpu]));
}

/* Is there a hardware counter that we may use? On the first CPU, others have the same. */
static void choose_event(struct probe *p, int cpu)
{
	_cleanup_close_ int fd = -1;

	p->cycles = p->options.event == PROBE_EVENT_CYCLES;
	if (p->options.event == PROBE_EVENT_AUTO) {
		fd = event_open(p, true, cpu);
		p->cycles = fd >= 0;
	}
	p->event_name = p->cycles ? "cycles" : "cpu-clock";
}

static int on_cpu(int cpu, bool came, void *data)
{
	struct probe *p = data;
	int r;

	if (!came) {
		detach_cpu(p, cpu);
		return 0;
	}
	if (!p->event_name)
		choose_event(p, cpu);
	r = attach_cpu(p, cpu);
	return r == -ENODEV ? -EAGAIN : r; /* it went offline again */
}

/* Every CPU has a tick. */
static int attach_tick(struct probe *p)
{
	p->event_name = "tick";
	if (p->tick_link)
		return 0;
	p->tick_link = bpf_program__attach(p->skel->progs.tick);
	return p->tick_link ? 0 : -errno;
}

int probe_follow(struct probe *p)
{
	int r = p->tick ? attach_tick(p) : online_follow(&p->online, ONLINE_SYSFS, on_cpu, p);

	return r == -EAGAIN ? 1 : r;
}

int probe_attach(struct probe *p)
{
	int r = probe_follow(p);

	if (r < 0)
		probe_detach(p);
	return r < 0 ? r : 0;
}

void probe_detach(struct probe *p)
{
	for (int cpu = 0; cpu < p->n_event_fds; cpu++)
		detach_cpu(p, cpu);
	free(p->event_fds);
	p->event_fds = NULL;
	p->n_event_fds = 0;
	bpf_link__destroy(p->tick_link);
	p->tick_link = NULL;
	online_fini(&p->online);
}

bool probe_is_tick(const struct probe *p)
{
	return p->tick;
}

int probe_perf_allowed(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof attr,
		.config = PERF_COUNT_SW_DUMMY,
	};
	_cleanup_close_ int fd = perf_open(&attr, 0);

	return fd < 0 ? TAKE_FD(fd) : 0;
}

int probe_tasks_open(struct probe *p, struct tasks **ret)
{
	struct bpf_program *programs[TASK_PROGRAMS] = {p->skel->progs.task_fork, p->skel->progs.task_exec,
						       p->skel->progs.task_name, p->skel->progs.task_exit};

	for (int i = 0; i < TASK_PROGRAMS; i++) {
		p->task_links[i] = bpf_program__attach(programs[i]);
		if (!p->task_links[i])
			return -errno;
	}
	return tasks_new(ret, bpf_map__fd(p->skel->maps.tasks), (const uint64_t *)&p->skel->bss->tasks_lost);
}

const char *probe_event_name(const struct probe *p)
{
	return p->event_name ? p->event_name : "none";
}

uint32_t probe_cpus(const struct probe *p)
{
	return p->n_cpus;
}

int probe_segment_new(struct probe *p, uint32_t index, void **ret)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd = -1;
	void *mem;

	if (index >= p->options.max_segments)
		return -ENOSPC;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "proflet_segment", 4, SEGMENT_VALUE, 1, &opts);
	if (fd < 0)
		return -errno;
	mem = mmap(NULL, SEGMENT_VALUE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	if (bpf_map_update_elem(bpf_map__fd(p->skel->maps.segments), &index, &fd, BPF_ANY) < 0) {
		int r = -errno;

		munmap(mem, SEGMENT_VALUE);
		return r;
	}
	p->segments[index] = mem; /* the outer map keeps the inner one alive */
	p->n_segments++;
	*ret = mem;
	return 0;
}

int probe_ring_fd(struct probe *p)
{
	return ring_buffer__epoll_fd(p->ring);
}

int probe_ring_drain(struct probe *p, probe_sample_fn fn, void *data)
{
	p->fn = fn;
	p->fn_data = data;
	return ring_buffer__consume(p->ring);
}

int probe_counters(struct probe *p, uint64_t ret[PROBE_COUNTERS_N])
{
	_cleanup_free_ struct unwind_area *area = malloc(sizeof *area);
	uint64_t sums[PROBE_COUNTERS_N] = {0};
	uint32_t zero = 0;

	if (!area)
		return -ENOMEM;
	for (uint32_t cpu = 0; cpu < p->n_cpus; cpu++) {
		if (bpf_map_lookup_elem(p->area_fds[cpu], &zero, area) < 0)
			return -errno;
		for (int i = 0; i < PROBE_COUNTERS_N; i++)
			sums[i] += area->counters[i];
	}
	memcpy(ret, sums, sizeof sums);
	return 0;
}

size_t probe_map_bytes(const struct probe *p)
{
	return (size_t)p->n_segments * SEGMENT_VALUE +
	       p->n_cpus * (sizeof(struct unwind_area) + sizeof(struct deep_area)) + p->ring_bytes +
	       (size_t)p->options.max_segments * sizeof(void *);
}
