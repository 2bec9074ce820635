// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the records of perf.data back by their layout in perf_event_open(2). tests/e2e/perf_data.py has perf
 * itself read them.
 */
#include "agent/output/perf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>

#include "tests/unit/agent/output/recording.h"

#define HEADER_WORDS 13
#define CHAIN_MAX 16

/* What one record says; of a sample, its stack. */
struct record {
	uint32_t type;
	uint16_t misc;
	uint32_t pid, tid;
	uint64_t start, len, file_offset, time;
	const char *name;
	size_t n_chain;
	uint64_t ip, period, chain[CHAIN_MAX];
	uint32_t cpu;
};

struct decoded {
	char *bytes; /* owned */
	size_t len;
	uint64_t head[HEADER_WORDS];
	struct record records[32];
	size_t n;
};

static uint64_t word(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof value);
	return value;
}

static uint32_t half(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof value);
	return value;
}

static void decode_sample(const char *at, size_t len, bool chains, struct record *r)
{
	r->ip = word(at);
	r->pid = half(at + 8);
	r->tid = half(at + 12);
	r->time = word(at + 16);
	r->cpu = half(at + 24);
	r->period = word(at + 32);
	cr_assert_eq(len, chains ? 48 + 8 * word(at + 40) : 40);
	r->n_chain = chains ? word(at + 40) : 0;
	cr_assert_leq(r->n_chain, CHAIN_MAX);
	memcpy(r->chain, at + 48, 8 * r->n_chain);
}

static void decode_record(const char *at, size_t len, bool chains, struct record *r)
{
	const bool mmap2 = r->type == PERF_RECORD_MMAP2;

	if (r->type == PERF_RECORD_SAMPLE) {
		decode_sample(at, len, chains, r);
		return;
	}
	r->pid = half(at);
	r->tid = half(at + 4);
	if (r->type == PERF_RECORD_COMM)
		r->name = at + 8;
	if (r->type == PERF_RECORD_MMAP || mmap2) {
		r->start = word(at + 8);
		r->len = word(at + 16);
		r->file_offset = word(at + 24);
		r->name = at + (mmap2 ? 64 : 32);
	}
	if (len)
		r->time = word(at + len - 16); /* sample_id: pid and tid, time, CPU */
}

/* The file that is written, and its records. */
static void decode(struct output_perf *p, const struct output_info *info, bool chains, struct decoded *ret)
{
	uint64_t at, end;

	*ret = (struct decoded){0};
	ret->bytes = WRITTEN(&ret->len, output_perf_write(p, info, chains, f));
	cr_assert_geq(ret->len, sizeof ret->head);
	memcpy(ret->head, ret->bytes, sizeof ret->head);
	cr_assert_eq(memcmp(ret->bytes, "PERFILE2", 8), 0);
	at = ret->head[5];
	end = at + ret->head[6];
	cr_assert(end <= ret->len && ret->head[3] + ret->head[4] == at, "the attributes, then the records");
	while (at < end) {
		struct perf_event_header h;
		struct record *r = &ret->records[ret->n++];

		memcpy(&h, ret->bytes + at, sizeof h);
		cr_assert(h.size >= sizeof h && h.size % 8 == 0 && at + h.size <= end);
		cr_assert_leq(ret->n, ARRAY_SIZE(ret->records));
		r->type = h.type;
		r->misc = h.misc;
		decode_record(ret->bytes + at + sizeof h, h.size - sizeof h, chains, r);
		at += h.size;
	}
	cr_expect_eq(ret->records[ret->n - 1].type, 68, "FINISHED_ROUND");
}

/* Record number `i` of the type; NULL: there are fewer. */
static const struct record *record_of(const struct decoded *d, uint32_t type, size_t i)
{
	for (size_t k = 0; k < d->n; k++)
		if (d->records[k].type == type && i-- == 0)
			return &d->records[k];
	return NULL;
}

static const struct record *mapping_of(const struct decoded *d, uint32_t pid, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->records[i].name && d->records[i].pid == pid && strcmp(d->records[i].name, name) == 0)
			return &d->records[i];
	return NULL;
}

/* The start of its page. */
static uint64_t place_of(uint64_t address)
{
	return address & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

struct fixture {
	FILE *samples;
	struct output_perf *perf;
	struct decoded d;
};

static void set_up(struct fixture *x)
{
	*x = (struct fixture){.samples = tmpfile()};
	cr_assert_not_null(x->samples);
	cr_assert_eq(output_perf_new(&x->perf, x->samples), 0);
}

static void tear_down(struct fixture *x)
{
	output_perf_free(x->perf);
	fclose(x->samples);
	free(x->d.bytes);
}

#define STACK(pid_, tid_, thread_, times_, ...)                                          \
	(&(struct output_stack){.process = "app",                                        \
				.pid = (pid_),                                           \
				.tid = (tid_),                                           \
				.cpu = 1,                                                \
				.thread = (thread_),                                     \
				.frames = (struct frame[]){__VA_ARGS__},                 \
				.n_frames = ARRAY_SIZE(((struct frame[]){__VA_ARGS__})), \
				.mono_ns = (times_),                                     \
				.count = ARRAY_SIZE(times_)})

static const struct output_info info = {.frequency_hz = 100, .hostname = "node-1", .version = "1.2.3"};

Test(output_perf, each_sample_is_a_record_with_its_stack)
{
	static const uint64_t times[] = {7000, 5000}, later[] = {9000};
	struct fixture x;
	const struct record *s, *own, *other;

	set_up(&x);
	cr_assert_eq(output_perf_add(x.perf,
				     STACK(7, 8, "worker", times, KERNEL("read", 0xffffffff81000100),
					   LIBC("read", 0x26100), APP("main", 0x1100)),
				     100),
		     0);
	cr_assert_eq(output_perf_add(x.perf, STACK(9, 9, NULL, later, APP("main", 0x1100)), 100), 0);
	decode(x.perf, &info, true, &x.d);
	own = mapping_of(&x.d, 7, app.path);
	other = mapping_of(&x.d, 9, app.path);
	cr_assert(own && other && mapping_of(&x.d, 7, libc.path));
	cr_expect_eq(own->start, other->start, "a file has one place in all processes");
	cr_expect_eq(own->start, place_of(own->start));
	cr_expect_eq(own->file_offset, place_of(app.file_offset));
	cr_expect_eq(own->time, 5000, "before its first sample");
	s = record_of(&x.d, PERF_RECORD_SAMPLE, 0);
	cr_assert(s && record_of(&x.d, PERF_RECORD_SAMPLE, 2) && !record_of(&x.d, PERF_RECORD_SAMPLE, 3));
	cr_expect(s->pid == 7 && s->tid == 8 && s->cpu == 1 && s->time == 7000 && s->period == 10000000);
	cr_expect_eq(s->misc, PERF_RECORD_MISC_KERNEL);
	cr_expect_eq(s->ip, 0xffffffff81000100);
	cr_assert_eq(s->n_chain, 5);
	cr_expect_eq(s->chain[0], PERF_CONTEXT_KERNEL);
	cr_expect_eq(s->chain[1], s->ip);
	cr_expect_eq(s->chain[2], PERF_CONTEXT_USER);
	cr_expect_eq(s->chain[4] - own->start, 0x1100 - (place_of(app.start)));
	cr_expect_eq(record_of(&x.d, PERF_RECORD_SAMPLE, 2)->misc, PERF_RECORD_MISC_USER);
	tear_down(&x);
}

Test(output_perf, threads_have_names_from_their_first_sample_on)
{
	static const uint64_t times[] = {7000, 5000}, earlier[] = {4000}, later[] = {9000};
	struct fixture x;
	const struct record *a, *b;

	set_up(&x);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 8, "new", later, APP("main", 0x1100)), 100), 0);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 8, "old", times, APP("main", 0x1100)), 100), 0);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 8, "old", earlier, APP("work", 0x1200)), 100), 0);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 7, "", later, APP("work", 0x1200)), 100), 0);
	decode(x.perf, &info, true, &x.d);
	a = mapping_of(&x.d, 7, "old");
	b = mapping_of(&x.d, 7, "new");
	cr_assert(a && b && mapping_of(&x.d, 7, "app"));
	cr_expect(a->tid == 8 && a->time == 4000);
	cr_expect(b->tid == 8 && b->time == 9000);
	cr_expect_eq(record_of(&x.d, PERF_RECORD_FORK, 0)->pid, 7);
	tear_down(&x);
}

/* Of frames without an address, and of calls that were inlined, perf would make frames of their own. */
Test(output_perf, only_frames_with_an_address_are_in_it)
{
	static const uint64_t times[] = {5000};
	static const struct frame_line run = {"Shop.run", "/srv/shop.py", 12, 10};
	struct fixture x;
	const struct record *s, *code;

	set_up(&x);
	cr_assert_eq(output_perf_add(
			     x.perf,
			     STACK(7, 7, NULL, times, LANGUAGE("cpython", &run, 10),
				   {.module = &app, .function = "tiny", .address = 0x1104, .inlined = true},
				   APP("work", 0x1104), {.function = "jit", .address = 0x7f0000201000},
				   ENDING("[truncated]")),
			     100),
		     0);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 7, NULL, times, LANGUAGE("cpython", &run, 10)), 100),
		     0);
	decode(x.perf, &info, true, &x.d);
	s = record_of(&x.d, PERF_RECORD_SAMPLE, 0);
	cr_assert(s && s->n_chain == 3);
	cr_expect_eq(s->chain[2], 0x7f0000201000, "code without a file is where it is");
	code = mapping_of(&x.d, 7, "//anon");
	cr_assert(code && s->chain[2] >= code->start && s->chain[2] - code->start < code->len);
	s = record_of(&x.d, PERF_RECORD_SAMPLE, 1);
	cr_assert(s && s->n_chain == 0 && s->ip == 0);
	tear_down(&x);
}

Test(output_perf, a_file_with_fixed_addresses_keeps_them)
{
	static const uint64_t times[] = {5000};
	struct frame_module fixed = app;
	struct fixture x;

	set_up(&x);
	fixed.fixed = true;
	cr_assert_eq(
		output_perf_add(x.perf, STACK(7, 7, NULL, times, {.module = &fixed, .address = 0x1100}), 100),
		0);
	decode(x.perf, &info, true, &x.d);
	cr_expect_eq(record_of(&x.d, PERF_RECORD_SAMPLE, 0)->ip, 0x1100);
	cr_expect_eq(mapping_of(&x.d, 7, app.path)->start, place_of(app.start));
	tear_down(&x);
}

Test(output_perf, without_chains_samples_are_addresses)
{
	static const uint64_t times[] = {7000, 5000};
	struct fixture x;
	uint64_t type;

	set_up(&x);
	cr_assert_eq(output_perf_add(x.perf,
				     STACK(7, 8, "worker", times, LIBC("read", 0x26100), APP("main", 0x1100)),
				     100),
		     0);
	decode(x.perf, &info, false, &x.d);
	memcpy(&type, x.d.bytes + x.d.head[3] + 24, sizeof type);
	cr_expect_eq(type & PERF_SAMPLE_CALLCHAIN, 0);
	cr_expect(record_of(&x.d, PERF_RECORD_SAMPLE, 1) && !record_of(&x.d, PERF_RECORD_SAMPLE, 2));
	cr_expect_eq(record_of(&x.d, PERF_RECORD_SAMPLE, 1)->time, 5000);
	free(x.d.bytes);
	decode(x.perf, &info, true, &x.d); /* it can be written in both forms */
	cr_expect_eq(record_of(&x.d, PERF_RECORD_SAMPLE, 1)->n_chain, 3);
	tear_down(&x);
}

Test(output_perf, the_kernel_and_its_modules_are_mapped_once)
{
	static const uint64_t times[] = {7000};
	static const struct frame_module module = {
		.path = "[xfs]", .name = "[xfs]", .start = 0xffffffffc0000000, .limit = 0xffffffffc0002000};
	struct fixture x;
	const struct record *m;

	set_up(&x);
	for (uint32_t pid = 7; pid < 9; pid++)
		cr_assert_eq(output_perf_add(x.perf,
					     STACK(pid, pid, NULL, times, KERNEL("read", 0xffffffff81000100),
						   {.module = &module,
						    .kind = FRAME_KERNEL,
						    .address = 0xffffffffc0000100}),
					     100),
			     0);
	decode(x.perf, &info, true, &x.d);
	m = mapping_of(&x.d, UINT32_MAX, "[kernel.kallsyms]_text");
	cr_assert(m && m->type == PERF_RECORD_MMAP && m->misc == PERF_RECORD_MISC_KERNEL);
	cr_expect(m->start == kernel.start && m->len == kernel.limit - kernel.start &&
		  m->file_offset == m->start && m->time == 0);
	cr_expect_not_null(mapping_of(&x.d, UINT32_MAX, "[xfs]"));
	cr_expect_null(record_of(&x.d, PERF_RECORD_MMAP, 2));
	tear_down(&x);
}

Test(output_perf, a_full_disk_is_reported)
{
	static const uint64_t times[] = {7000};
	struct fixture x;
	FILE *full = fopen("/dev/full", "w");

	set_up(&x);
	cr_assert_not_null(full);
	cr_assert_eq(output_perf_add(x.perf, STACK(7, 7, NULL, times, APP("main", 0x1100)), 100), 0);
	cr_expect_lt(output_perf_write(x.perf, &info, true, full), 0);
	fclose(full);
	tear_down(&x);
}

Test(output_perf, an_empty_recording_is_a_file)
{
	struct fixture x;

	set_up(&x);
	decode(x.perf, &info, true, &x.d);
	cr_expect_eq(x.d.n, 1);
	cr_expect_eq(output_perf_unmapped(x.perf), 0);
	tear_down(&x);
}
