/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Every map, with its typed accessors. The inner maps of `segments` and `areas` are made by the agent. */
#ifndef PROFLET_BPF_MAPS_H
#define PROFLET_BPF_MAPS_H

#include "bpf/area.h"
#include "bpf/kernel.h"

struct segment_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct segment));
};

/* The arena. max_entries is lowered by the agent to what memory.tables allows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SEGMENTS_MAX);
	__type(key, __u32);
	__array(values, struct segment_map);
} segments SEC(".maps");

struct area_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_area));
};

/* One area a CPU; max_entries is set to the number of possible CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct area_map);
} areas SEC(".maps");

/* By CPU; max_entries as of areas. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct deep_area);
} deep_areas SEC(".maps");

/* By CPU; max_entries as of areas. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct code_cache);
} code_caches SEC(".maps");

/* Samples; the size is set by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/*
 * Bytes of saved stacks that the tasks of the same control groups have put into the ring in a round
 * (saved_stack_has_room), by the hash of these groups.
 */
struct saved_share {
	__u32 round, bytes;
};

#define SAVED_SHARES_BITS 8
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SAVED_SHARES_BITS);
	__type(key, __u32);
	__type(value, struct saved_share);
} saved_shares SEC(".maps");

/* Code objects of language runtimes, and where thread states are (enum runtime_report_kind). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} reports SEC(".maps");

/* Code objects that were sent, by their number; an entry that another one replaces is sent again. */
#define SENT_SLOTS 16384
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SENT_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} sent SEC(".maps");

/* Events of tasks (struct task_event), where the perf side-band is refused. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} tasks SEC(".maps");

static __always_inline struct segment *env_segment(__u32 index)
{
	void *inner = bpf_map_lookup_elem(&segments, &index);
	__u32 zero = 0;

	return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

static __always_inline struct unwind_area *env_area(void)
{
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	void *inner = bpf_map_lookup_elem(&areas, &cpu);

	return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

static __always_inline struct deep_area *env_deep_area(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&deep_areas, &cpu);
}

static __always_inline struct code_cache *env_code_cache(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&code_caches, &cpu);
}

#endif
