// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/perf.h"
#include "agent/probe/probe_private.h"
#include "agent/probe/tasks.h"
#include "bpf/area.h"
#include "bpf/profiler.skel.h"

static int on_record(void *data, void *record, size_t len)
{
	struct probe *p = data;

	p->fn(record, len, p->fn_data);
	return 0;
}

static int on_report(void *data, void *report, size_t len)
{
	struct probe *p = data;

	p->report_fn(report, len, p->report_data);
	return 0;
}

/*
 * Whether the error means that perf events are refused: by Debian's and Ubuntu's perf_event_paranoid, by
 * seccomp, or by a security module.
 */
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
	p->segments_fd = -1;
	p->areas_fd = -1;
	p->first_segment_fd = -1;
	p->area_fds = calloc(p->n_cpus, sizeof *p->area_fds);
	p->segments = calloc(options->max_segments, sizeof *p->segments);
	r = p->area_fds && p->segments ? loading_begin(p, ret_log) : -ENOMEM;
	if (r < 0) {
		probe_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

bool probe_is_loading(const struct probe *p)
{
	return atomic_load(&p->n_at_work) != 0;
}

int probe_loaded(struct probe *p, char **ret_log)
{
	int r = loading_end(p);

	*ret_log = r < 0 ? TAKE_PTR(p->message) : NULL;
	if (r < 0)
		return r;
	p->ring = ring_buffer__new(bpf_map__fd(p->skel->maps.ring), on_record, p, NULL);
	if (!p->ring)
		return -errno;
	p->reports = ring_buffer__new(bpf_map__fd(p->skel->maps.reports), on_report, p, NULL);
	return p->reports ? 0 : -errno;
}

void probe_free(struct probe *p)
{
	if (!p)
		return;
	(void)loading_end(p);
	probe_detach(p);
	for (int i = 0; i < TASK_PROGRAMS; i++)
		bpf_link__destroy(p->task_links[i]);
	ring_buffer__free(p->ring);
	ring_buffer__free(p->reports);
	for (uint32_t i = 0; p->segments && i < p->options.max_segments; i++)
		if (p->segments[i])
			munmap(p->segments[i], SEGMENT_VALUE);
	for (uint32_t i = 0; p->area_fds && i < p->n_cpus; i++)
		if (p->area_fds[i] > 0)
			close(p->area_fds[i]);
	profiler_bpf__destroy(p->skel);
	if (p->segments_fd >= 0)
		close(p->segments_fd);
	if (p->areas_fd >= 0)
		close(p->areas_fd);
	free(p->message);
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
		.exclude_idle = !cycles, /* hardware counters stop anyway when a CPU is idle */
	};

	return perf_open(&attr, cpu);
}

/* Makes room for the descriptor of a CPU. */
static int reserve_event(struct probe *p, int cpu)
{
	if (cpu < p->n_event_fds)
		return 0;
	if (array_resize(&p->event_fds, (size_t)cpu + 1, sizeof *p->event_fds) < 0)
		return -ENOMEM;
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

/* Whether a hardware counter can be used. Tried on the first CPU only, as the others have the same. */
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
	return r == -ENODEV ? -EAGAIN : r; /* the CPU went offline again */
}

/* Every CPU has a timer tick, so no CPU has to be added. */
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

/* At the timer tick there are no events. */
static int set_events(const struct probe *p, uint32_t hz)
{
	/* The CPU clock's frequency becomes a period when the kernel opens the event. */
	uint64_t value = p->cycles ? hz : NS_PER_SEC / hz;

	for (int cpu = 0; cpu < p->n_event_fds; cpu++)
		if (p->event_fds[cpu] >= 0 && ioctl(p->event_fds[cpu], PERF_EVENT_IOC_PERIOD, &value) < 0)
			return -errno;
	return 0;
}

int probe_set_frequency(struct probe *p, uint32_t frequency_hz)
{
	int r = set_events(p, frequency_hz);

	if (r < 0) {
		(void)set_events(p, p->options.frequency_hz);
		return r;
	}
	if (p->tick)
		__atomic_store_n(&p->skel->bss->tick_ns, NS_PER_SEC / frequency_hz, __ATOMIC_RELAXED);
	p->options.frequency_hz = frequency_hz;
	return 0;
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
	_cleanup_close_ int fd = -1;
	int r;

	if (index >= p->options.max_segments)
		return -ENOSPC;
	if (!p->segments[index]) {
		r = segment_make(p, index, &fd);
		if (r < 0)
			return r;
		if (bpf_map_update_elem(p->segments_fd, &index, &fd, BPF_ANY) < 0) {
			r = -errno;
			munmap(TAKE_PTR(p->segments[index]), SEGMENT_VALUE);
			return r;
		}
	}
	p->n_segments++;
	*ret = p->segments[index];
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

void probe_ring_wake_early(struct probe *p)
{
	__atomic_store_n(&p->skel->bss->wake_early, 1, __ATOMIC_RELAXED);
}

int probe_reports_drain(struct probe *p, probe_sample_fn fn, void *data)
{
	p->report_fn = fn;
	p->report_data = data;
	return ring_buffer__consume(p->reports);
}

void probe_reports_again(struct probe *p)
{
	__atomic_add_fetch(&p->skel->bss->reports_epoch, 1, __ATOMIC_RELAXED);
}

int probe_sums(struct probe *p, struct probe_sums *ret)
{
	_cleanup_free_ struct unwind_area *area = malloc(sizeof *area);
	struct probe_sums sums = {0};
	uint32_t zero = 0;

	*ret = sums;
	if (!area)
		return -ENOMEM;
	for (uint32_t cpu = 0; cpu < p->n_cpus; cpu++) {
		if (bpf_map_lookup_elem(p->area_fds[cpu], &zero, area) < 0)
			return -errno;
		for (int i = 0; i < PROBE_COUNTERS_N; i++)
			sums.counters[i] += area->counters[i];
		sums.cpu_ns += area->timed_ns * TIMED_EVERY;
		sums.ring_pressure += area->n_ring_pressure;
		sums.reports_lost += area->n_reports_lost;
	}
	*ret = sums;
	return 0;
}

int probe_run_time(const struct probe *p, uint64_t *ret_ns, uint64_t *ret_runs)
{
	const struct bpf_program *program = p->tick ? p->skel->progs.tick : p->skel->progs.profile;
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof info;
	int r = bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len) < 0 ? -errno : 0;

	*ret_ns = r < 0 ? 0 : info.run_time_ns;
	*ret_runs = r < 0 ? 0 : info.run_cnt;
	return r;
}

size_t probe_map_bytes(const struct probe *p)
{
	return (size_t)p->n_segments * SEGMENT_VALUE + bpf_map__max_entries(p->skel->maps.reports) +
	       bpf_map__max_entries(p->skel->maps.sent) * sizeof(uint64_t) +
	       p->n_cpus * (sizeof(struct unwind_area) + sizeof(struct deep_area)) + p->ring_bytes +
	       (size_t)p->options.max_segments * sizeof(void *);
}
