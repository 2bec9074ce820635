// SPDX-License-Identifier: Apache-2.0
/*
 * Turns the skeleton into a program that the kernel has verified. One thread loads it, which takes a tenth of
 * a second (libbpf reads the kernel's types, the verifier checks the program); another one fills the maps of
 * maps, which blocks in the kernel. Meanwhile the caller reads /proc.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/urgency.h"
#include "agent/probe/perf.h"
#include "agent/probe/probe_private.h"
#include "agent/probe/tick.h"
#include "bpf/area.h"
#include "bpf/profiler.skel.h"

#define PROC_PID_INIT_INO 0xeffffffcu /* the initial namespace, include/linux/proc_ns.h */
#define RING_BYTES_A_SAMPLE 4096u     /* a deep stack; most need 200 bytes */
#define RING_SECONDS 1u		      /* of samples at the full frequency that fit into the ring */
#define RING_MIN (4u << 20)	      /* before there are tables, a sample carries 16 KiB of stack or more */
#define RING_MAX (32u << 20)

static _Thread_local char libbpf_message[4096];

/* Saves libbpf's last warning for the caller: it says more than the error number. */
static int __attribute__((format(printf, 2, 0))) keep_message(enum libbpf_print_level level,
							      const char *format, va_list ap)
{
	size_t n = strlen(libbpf_message);

	if (level != LIBBPF_WARN)
		return 0;
	if (n > sizeof libbpf_message / 2)
		n = 0;
	return vsnprintf(libbpf_message + n, sizeof libbpf_message - n, format, ap);
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

/* Configures the program of the timer tick, or excludes it from loading if it is not used. */
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
	skel->rodata->config_tick_period_ns = clock_tick_ns();
	skel->rodata->config_entry_text = s.entry_text;
	skel->rodata->config_entry_text_bytes = s.entry_end - s.entry_text;
	skel->bss->tick_ns = NS_PER_SEC / p->options.frequency_hz;
	return 0;
}

int probe_pid_namespace(uint32_t *ret)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	*ret = st.st_ino == PROC_PID_INIT_INO ? 0 : (uint32_t)st.st_ino;
	return 0;
}

/* Sets everything that must be known before the program is verified. */
static int configure(struct probe *p)
{
	struct profiler_bpf *skel = p->skel;
	uint32_t pidns;
	int r = probe_pid_namespace(&pidns);

	if (r < 0)
		return r;
	skel->rodata->config_task_pt_regs =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
	skel->rodata->config_pid_inum = pidns;
	skel->rodata->config_page_bytes = (uint32_t)perf_page_bytes();
	skel->rodata->config_ip_signature = arch_ip_signature();
	skel->rodata->config_frames = p->options.user_frames;
	skel->rodata->config_wake_bytes = (uint32_t)(p->ring_bytes / 4 / p->n_cpus);
	skel->rodata->config_ring_pressure_bytes = (uint32_t)(p->ring_bytes / 4 * 3);
	r = configure_tick(p);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.deep_areas, p->n_cpus);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.code_caches, p->n_cpus);
	if (r == 0)
		r = bpf_map__set_max_entries(skel->maps.ring, (uint32_t)p->ring_bytes);
	return r;
}

int segment_make(struct probe *p, uint32_t index, int *ret_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd =
		bpf_map_create(BPF_MAP_TYPE_ARRAY, "proflet_segment", 4, SEGMENT_VALUE, 1, &opts);
	void *mem;

	if (fd < 0)
		return -errno;
	mem = mmap(NULL, SEGMENT_VALUE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		return -errno;
	p->segments[index] = mem; /* the outer map keeps the inner one alive */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Creates one area per possible CPU, each an array of its own. */
static int make_areas(struct probe *p)
{
	for (uint32_t cpu = 0; cpu < p->n_cpus; cpu++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "proflet_area", 4, sizeof(struct unwind_area), 1,
					NULL);

		if (fd < 0)
			return -errno;
		p->area_fds[cpu] = fd;
	}
	return 0;
}

/* Creates a map of `n` maps like `inner_fd`, for libbpf to use instead of creating one. */
static int make_outer(struct bpf_map *map, const char *name, int inner_fd, uint32_t n, int *ret_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t)inner_fd);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, name, 4, 4, n, &opts);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return bpf_map__reuse_fd(map, fd);
}

static int make_maps(struct probe *p)
{
	int r = make_areas(p);

	if (r == 0)
		r = segment_make(p, 0, &p->first_segment_fd);
	if (r == 0)
		r = make_outer(p->skel->maps.areas, "areas", p->area_fds[0], p->n_cpus, &p->areas_fd);
	if (r == 0)
		r = make_outer(p->skel->maps.segments, "segments", p->first_segment_fd,
			       p->options.max_segments, &p->segments_fd);
	return r;
}

/*
 * The kernel waits for a grace period of 5 to 20 ms after each update of a map of maps; for a batch, it waits
 * only once (since 5.19).
 */
static int fill_maps(struct probe *p)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	_cleanup_free_ uint32_t *cpus = calloc(p->n_cpus, sizeof *cpus);
	uint32_t n = p->n_cpus, first = 0;

	if (!cpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_cpus; i++)
		cpus[i] = i;
	if (bpf_map_update_elem(p->segments_fd, &first, &p->first_segment_fd, BPF_ANY) < 0)
		return -errno;
	if (bpf_map_update_batch(p->areas_fd, cpus, p->area_fds, &n, &opts) == 0 && n == p->n_cpus)
		return 0;
	for (uint32_t i = 0; i < p->n_cpus; i++)
		if (bpf_map_update_elem(p->areas_fd, &i, &p->area_fds[i], BPF_ANY) < 0)
			return -errno;
	return 0;
}

static void *fill(void *data)
{
	struct probe *p = data;

	urgency_begin();
	p->fill_result = fill_maps(p);
	urgency_check(URGENCY_READING);
	urgency_leave();
	(void)atomic_fetch_sub(&p->n_at_work, 1);
	return NULL;
}

/*
 * On a busy host the scheduler leaves a new thread for tens of milliseconds on the CPU of its creator. Move
 * it to another CPU, so that loading runs in parallel with the caller.
 */
static void leave_cpu(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || sched_getaffinity(0, sizeof set, &set) < 0 || CPU_COUNT(&set) < 2 ||
	    !CPU_ISSET(cpu, &set))
		return;
	CPU_CLR(cpu, &set);
	(void)sched_setaffinity(0, sizeof set, &set);
}

static void *load(void *data)
{
	struct probe *p = data;

	urgency_begin();
	if (!urgency_is_on())
		leave_cpu(p->begin_cpu);
	libbpf_message[0] = '\0';
	p->load_result = profiler_bpf__load(p->skel);
	if (p->load_result < 0)
		p->message = strdup(libbpf_message);
	urgency_check(URGENCY_READING);
	urgency_leave();
	(void)atomic_fetch_sub(&p->n_at_work, 1);
	return NULL;
}

/* The thread keeps all capabilities, which loading needs. Signals are for the main thread. */
static bool start(pthread_t *ret, void *(*fn)(void *data), struct probe *p, const char *name, int *r)
{
	sigset_t all, old;

	if (*r < 0)
		return false;
	sigfillset(&all);
	(void)atomic_fetch_add(&p->n_at_work, 1);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	*r = -pthread_create(ret, NULL, fn, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (*r == 0) {
		urgency_give(*ret);
		pthread_setname_np(*ret, name);
	} else {
		(void)atomic_fetch_sub(&p->n_at_work, 1);
	}
	return *r == 0;
}

int loading_begin(struct probe *p, char **ret_message)
{
	int r;

	p->ring_bytes = ring_size(&p->options, p->n_cpus);
	libbpf_message[0] = '\0';
	libbpf_set_print(keep_message);
	p->skel = profiler_bpf__open();
	r = p->skel ? configure(p) : -errno;
	if (r == 0)
		r = make_maps(p);
	p->begin_cpu = sched_getcpu();
	p->loading = start(&p->loader, load, p, "probe-load", &r);
	p->filling = start(&p->filler, fill, p, "probe-maps", &r);
	if (r < 0)
		*ret_message = strdup(libbpf_message);
	return r;
}

int loading_end(struct probe *p)
{
	if (p->loading)
		(void)pthread_join(p->loader, NULL);
	if (p->filling)
		(void)pthread_join(p->filler, NULL);
	if (p->first_segment_fd >= 0)
		close(TAKE_FD(p->first_segment_fd));
	p->loading = p->filling = false;
	return p->load_result < 0 ? p->load_result : p->fill_result;
}
