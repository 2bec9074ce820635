// SPDX-License-Identifier: Apache-2.0
/*
 * The life cycle of the BPF program (open → configure → load → attach), the segments of its arena, its ring
 * of samples and its counters.
 */
#ifndef PROFLET_PROBE_PROBE_H
#define PROFLET_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

/* AUTO: cycles, else cpu-clock, else, where perf_event_open is refused, the tick. */
enum probe_event { PROBE_EVENT_AUTO, PROBE_EVENT_CYCLES, PROBE_EVENT_CPU_CLOCK, PROBE_EVENT_TICK };

struct probe_options {
	enum probe_event event;
	uint32_t frequency_hz; /* samples per second on each CPU */
	uint32_t user_frames;  /* maximum per stack, up to USER_FRAMES_MAX */
	uint32_t max_segments; /* of the arena, up to SEGMENTS_MAX */
	size_t ring_bytes;     /* rounded up to a power of two of pages; 0: by frequency and CPUs */
};

struct probe;

/*
 * Opens and configures the program, and begins to load it on another thread, which takes a tenth of a second.
 * Meanwhile the caller may call probe_is_tick, probe_segment_new and probe_free; then it calls probe_loaded.
 * 0, -EPERM (capability or policy), -errno; on failure *ret_log gets the last message of the verifier or
 * libbpf (owned, may be NULL). With the tick, -ENOTSUP when the kernel's symbols do not contain its timer
 * function, -EKEYREJECTED when their addresses are hidden.
 */
int probe_new(struct probe **ret, const struct probe_options *options, char **ret_log);
/* Whether it is still being loaded: probe_loaded would wait. */
bool probe_is_loading(const struct probe *p);
/* Waits until the program is loaded. Call once, before the functions below. As probe_new; on failure the
 * caller still owns `p`. */
int probe_loaded(struct probe *p, char **ret_log);
void probe_free(struct probe *p);
/* Opens the sampling event on every online CPU and attaches the program. */
int probe_attach(struct probe *p);
/*
 * To be called periodically once attached: samples CPUs that came online, and closes the events of those that
 * went offline. Returns the number of CPUs that changed, or -errno of one that cannot be sampled, which is
 * tried again the next time.
 */
int probe_follow(struct probe *p);
/*
 * Changes the sampling frequency, also for CPUs that come online later. 0; -errno: the frequency
 * is unchanged.
 */
int probe_set_frequency(struct probe *p, uint32_t frequency_hz);
/* Closes the events; the ring keeps its records. */
void probe_detach(struct probe *p);
/* Whether a probe for this event would sample at the timer tick. */
bool probe_takes_tick(enum probe_event event);
/*
 * Whether it samples at the timer tick. Perf events, and so the perf side-band, are then refused or unwanted.
 */
bool probe_is_tick(const struct probe *p);
/* 0 when a perf event for all processes can be opened, else -errno. */
int probe_perf_allowed(void);
/*
 * At the timer tick only: attaches the programs that report events of tasks. *ret is owned by the caller. 0
 * or -errno.
 */
struct tasks;
int probe_tasks_open(struct probe *p, struct tasks **ret);
/* The event in use: "cycles", "cpu-clock" or "tick". Static string. */
const char *probe_event_name(const struct probe *p);
uint32_t probe_cpus(const struct probe *p);

/*
 * Creates segment `index` of the arena: SEGMENT_VALUE zeroed bytes shared with the program, mapped until
 * probe_free. 0, -ENOMEM, -ENOSPC beyond max_segments.
 */
int probe_segment_new(struct probe *p, uint32_t index, void **ret);

/* A descriptor that becomes readable when the ring fills up; otherwise drain the ring by timer. Borrowed. */
int probe_ring_fd(struct probe *p);
/* Passes every waiting record to fn; the bytes are valid only during the call. Returns their number, or
 * -errno. */
typedef void (*probe_sample_fn)(const void *record, size_t len, void *data);
int probe_ring_drain(struct probe *p, probe_sample_fn fn, void *data);
/*
 * From now on, the first sample whose stack is to be completed or has frames of a language runtime makes the
 * descriptor readable at once. Once: call it again to have it again.
 */
void probe_ring_wake_early(struct probe *p);

/* The same for what the program reports of language runtimes (enum runtime_report_kind). */
int probe_reports_drain(struct probe *p, probe_sample_fn fn, void *data);
/* Has the program report all code objects again that it comes across. */
void probe_reports_again(struct probe *p);

/* Sums since the start, over all CPUs. */
struct probe_sums {
	uint64_t counters[PROBE_COUNTERS_N];
	uint64_t cpu_ns; /* kernel CPU time of samples, measured on every TIMED_EVERYth (bpf/area.h) */
	/* Samples sent without their saved stack because more than half of the ring was used. */
	uint64_t ring_pressure;
	uint64_t reports_lost; /* of code objects, because their ring was full; they are sent again */
};
/* 0 or -errno, with zeros. */
int probe_sums(struct probe *p, struct probe_sums *ret);
/*
 * The kernel's own accounting of the sampling program: its run time and number of runs since the start. Both
 * count only while kernel.bpf_stats_enabled is 1; the default is 0. 0, or -errno with zeros.
 */
int probe_run_time(const struct probe *p, uint64_t *ret_ns, uint64_t *ret_runs);
/* Kernel memory for the maps (arena, areas, ring), in bytes. */
size_t probe_map_bytes(const struct probe *p);

#endif
