// SPDX-License-Identifier: Apache-2.0
/*
 * A sample is written at once, since a recording may have more of them than fit into memory. What readers
 * must know before the first sample, names of threads and places of files, is kept and written in front of
 * them.
 */
#include "agent/output/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/base/parse.h"
#include "agent/output/perf_records.h"
#include "agent/output/profile.h"

#define FILES_MAX 65536u
#define MAPPINGS_MAX (1u << 18)
#define NAMES_MAX (1u << 18)
#define CHAIN_MAX (OUTPUT_MAX_DEPTH + 8) /* words; with marks of contexts */
#define THREAD_NAME_BYTES 64u

#define PLACES_START 0x100000000000ull /* no process has code of its own there */
#define PLACES_STEP (2ull << 20)
#define CODE_BLOCK (2ull << 20) /* code without a file is mapped in blocks */

/* A file that frames are in, or the kernel, or one of its modules. */
struct perf_file {
	struct map_node node;
	uint64_t start, limit, file_offset; /* as struct frame_module */
	uint64_t place;			    /* added to its addresses */
	struct output_perf_build_id build_id;
	bool kernel;
	char path[];
};

/* A file in a process, or a block of code that is in no file. */
struct perf_mapping {
	struct map_node node;
	uint32_t pid;
	const struct perf_file *file; /* NULL: `block` is its address */
	uint64_t block;
	uint64_t first_ns; /* the earliest sample in it */
};

/* A name that a thread had. */
struct perf_name {
	struct map_node node;
	uint32_t pid, tid;
	uint64_t first_ns; /* the earliest sample with it */
	char text[THREAD_NAME_BYTES];
};

struct output_perf {
	FILE *samples; /* borrowed */
	uint64_t n_samples, sample_bytes, first_ns, last_ns, n_unmapped;
	struct map files, mappings, names; /* the entries are owned */
	uint64_t next_place, page;	   /* page: its size in bytes */
	uint64_t *chain;		   /* CHAIN_MAX words, of the stack that is being added; owned */
	struct buf record;		   /* the one that is being written */
	int error;			   /* the first */
};

int output_perf_new(struct output_perf **ret, FILE *samples)
{
	_cleanup_output_perf_ struct output_perf *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->samples = samples;
	p->next_place = PLACES_START;
	p->page = (uint64_t)sysconf(_SC_PAGESIZE);
	p->first_ns = UINT64_MAX;
	map_init(&p->files, FILES_MAX);
	map_init(&p->mappings, MAPPINGS_MAX);
	map_init(&p->names, NAMES_MAX);
	p->chain = malloc(CHAIN_MAX * sizeof *p->chain);
	if (!p->chain)
		return -ENOMEM;
	*ret = TAKE_PTR(p);
	return 0;
}

void output_perf_free(struct output_perf *p)
{
	struct map_node *n;

	if (!p)
		return;
	map_for_each (&p->files, n, it)
		free(container_of(n, struct perf_file, node));
	map_for_each (&p->mappings, n, it)
		free(container_of(n, struct perf_mapping, node));
	map_for_each (&p->names, n, it)
		free(container_of(n, struct perf_name, node));
	map_fini(&p->files);
	map_fini(&p->mappings);
	map_fini(&p->names);
	buf_fini(&p->record);
	free(p->chain);
	free(p);
}

uint64_t output_perf_unmapped(const struct output_perf *p)
{
	return p->n_unmapped;
}

/* --- files and mappings */

/* Recordings of others may have any text for one. */
static struct output_perf_build_id build_id_of(const struct frame_module *m)
{
	struct output_perf_build_id id = {.n = 0};

	for (const char *s = m->build_id_gnu; s && *s && id.n < sizeof id.bytes; s += 2) {
		const int high = parse_hex_digit(s[0]), low = parse_hex_digit(s[1]);

		if (high < 0 || low < 0)
			return (struct output_perf_build_id){.n = 0};
		id.bytes[id.n++] = (uint8_t)(high * 16 + low);
	}
	return id;
}

struct file_key {
	const struct frame_module *module;
	struct output_perf_build_id build_id;
};

static bool file_is(const struct map_node *node, const void *key)
{
	const struct perf_file *f = container_of(node, struct perf_file, node);
	const struct file_key *k = key;

	return f->start == k->module->start && f->file_offset == k->module->file_offset &&
	       memcmp(&f->build_id, &k->build_id, sizeof f->build_id) == 0 &&
	       strcmp(f->path, k->module->path) == 0;
}

/* Gives the file a place behind those of the others. */
static uint64_t new_place(struct output_perf *p, const struct perf_file *f)
{
	const uint64_t first = f->start & ~(p->page - 1), place = p->next_place - first;

	p->next_place += (f->limit - first + 2 * PLACES_STEP - 1) & ~(PLACES_STEP - 1);
	return place;
}

static const struct perf_file *file_of(struct output_perf *p, const struct frame_module *m, bool kernel)
{
	const struct file_key key = {m, build_id_of(m)};
	const size_t len = strlen(m->path) + 1;
	const uint64_t hash = hash_u64(hash_bytes(m->path, len) ^ m->start);
	struct map_node *node = map_find(&p->files, hash, file_is, &key);
	struct perf_file *f;

	if (node)
		return container_of(node, struct perf_file, node);
	f = calloc(1, sizeof *f + len);
	if (!f || map_insert(&p->files, &f->node, hash) < 0) {
		free(f);
		return NULL;
	}
	f->start = m->start;
	f->limit = m->limit > m->start ? m->limit : m->start;
	f->file_offset = m->file_offset;
	f->build_id = key.build_id;
	f->kernel = kernel;
	memcpy(f->path, m->path, len);
	f->place = kernel || m->fixed ? 0 : new_place(p, f);
	return f;
}

/* The kernel itself, not one of its modules. */
static bool is_kernel(const struct perf_file *f)
{
	return f->kernel && strcmp(f->path, "[kernel]") == 0;
}

static bool mapping_is(const struct map_node *node, const void *key)
{
	const struct perf_mapping *a = container_of(node, struct perf_mapping, node), *b = key;

	return a->pid == b->pid && a->file == b->file && a->block == b->block;
}

/* Notes that a process has samples in a file, or in a block of code without one. */
static bool note_mapping(struct output_perf *p, const struct perf_mapping *key)
{
	const uint64_t hash = hash_u64((uintptr_t)key->file ^ hash_u64(key->block ^ key->pid));
	struct map_node *node = map_find(&p->mappings, hash, mapping_is, key);
	struct perf_mapping *m = node ? container_of(node, struct perf_mapping, node) : malloc(sizeof *m);

	if (m && !node) {
		*m = *key;
		if (map_insert(&p->mappings, &m->node, hash) < 0) {
			free(m);
			return false;
		}
	}
	if (m && key->first_ns < m->first_ns)
		m->first_ns = key->first_ns;
	return m;
}

/* The address that stands for the frame in the made address space. */
static uint64_t address_of(struct output_perf *p, const struct frame *frame, uint32_t pid, uint64_t first_ns)
{
	const bool kernel = frame->kind == FRAME_KERNEL;
	const struct perf_file *f = frame->module ? file_of(p, frame->module, kernel) : NULL;
	const struct perf_mapping m = {.pid = pid,
				       .file = f,
				       .block = f ? 0 : frame->address & ~(CODE_BLOCK - 1),
				       .first_ns = first_ns};

	if (kernel) /* its mappings are those of its files */
		return frame->address;
	if ((frame->module && !f) || !note_mapping(p, &m))
		p->n_unmapped++;
	return frame->address + (f ? f->place : 0);
}

/* --- threads */

static bool name_is(const struct map_node *node, const void *key)
{
	const struct perf_name *a = container_of(node, struct perf_name, node), *b = key;

	return a->pid == b->pid && a->tid == b->tid && strcmp(a->text, b->text) == 0;
}

/* Without memory, or beyond the maximum, readers show the thread's number. */
static void note_name(struct output_perf *p, const struct output_stack *s, uint32_t tid, uint64_t first_ns)
{
	struct perf_name key = {.pid = s->pid, .tid = tid, .first_ns = first_ns}, *n;
	struct map_node *node;
	uint64_t hash;

	snprintf(key.text, sizeof key.text, "%s", s->thread && *s->thread ? s->thread : s->process);
	hash = hash_u64(hash_bytes(key.text, strlen(key.text)) ^ ((uint64_t)key.pid << 32 | tid));
	node = map_find(&p->names, hash, name_is, &key);
	n = node ? container_of(node, struct perf_name, node) : malloc(sizeof *n);
	if (n && !node) {
		*n = key;
		if (map_insert(&p->names, &n->node, hash) < 0) {
			free(n);
			return;
		}
	}
	if (n && first_ns < n->first_ns)
		n->first_ns = first_ns;
}

/* --- samples */

static bool has_address(const struct frame *f)
{
	return f->kind != FRAME_ENDING && (f->module || f->address);
}

/* Fills p->chain: addresses, and a mark in front of each run of one context. Returns how many words. */
static size_t make_chain(struct output_perf *p, const struct output_stack *s, uint64_t first_ns)
{
	uint64_t context = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_frames && n + 2 <= CHAIN_MAX; i++) {
		const struct frame *f = &s->frames[i];
		const uint64_t own = f->kind == FRAME_KERNEL ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER;

		if (f->inlined || !has_address(f)) /* the frame behind it has the same address */
			continue;
		if (own != context)
			p->chain[n++] = context = own;
		p->chain[n++] = address_of(p, f, s->pid, first_ns);
	}
	return n;
}

static int write_samples(struct output_perf *p, const struct output_stack *s,
			 struct output_perf_sample *sample, size_t n_chain)
{
	for (uint64_t i = 0; i < s->count; i++) {
		int r;

		sample->time_ns = s->mono_ns[i];
		buf_clear(&p->record);
		r = output_perf_put_sample(&p->record, sample, p->chain, n_chain);
		if (r < 0)
			return r;
		if (fwrite(p->record.data, 1, p->record.len, p->samples) != p->record.len)
			return errno ? -errno : -EIO;
		p->n_samples++;
		p->sample_bytes += p->record.len;
		p->first_ns = sample->time_ns < p->first_ns ? sample->time_ns : p->first_ns;
		p->last_ns = sample->time_ns > p->last_ns ? sample->time_ns : p->last_ns;
	}
	return 0;
}

int output_perf_add(struct output_perf *p, const struct output_stack *s, uint32_t frequency_hz)
{
	struct output_perf_sample sample = {.pid = s->pid,
					    .tid = s->tid ?: s->pid,
					    .cpu = s->cpu,
					    .period_ns = NS_PER_SEC / (frequency_hz ?: 1)};
	uint64_t first_ns = UINT64_MAX;
	size_t n;

	if (p->error < 0)
		return p->error;
	for (uint64_t i = 0; i < s->count; i++)
		first_ns = s->mono_ns[i] < first_ns ? s->mono_ns[i] : first_ns;
	note_name(p, s, sample.tid, first_ns);
	n = make_chain(p, s, first_ns);
	sample.ip = n ? p->chain[1] : 0;
	p->error = write_samples(p, s, &sample, n);
	return p->error;
}

/* --- the file */

/* Bits of the header, by which the features behind the data are in order (tools/perf/util/header.h). */
enum feature {
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
	FEATURE_SAMPLE_TIME = 21,
};

#define FEATURES_MAX 16
#define EVENT_ID 1ull
#define STRING_STEP 64u /* strings of features are padded to it */

struct section {
	uint64_t offset, size;
};

struct file_header {
	char magic[8];
	uint64_t size, attr_size;
	struct section attrs, data, event_types;
	uint64_t features[4];
};

/* The oldest layout that has all we set, so that older versions of perf read it as well. */
struct file_attr {
	uint8_t attr[PERF_ATTR_SIZE_VER5];
	struct section ids;
};

struct writer {
	struct output_perf *p;
	const struct output_info *info;
	bool chains;
	FILE *f;
	struct buf tables;   /* records in front of the samples */
	struct buf features; /* their content */
	struct section sections[FEATURES_MAX];
	unsigned n_sections;
	uint64_t bits;
	int r; /* the first error */
};

static void writer_fini(struct writer *w)
{
	buf_fini(&w->tables);
	buf_fini(&w->features);
}

static void keep(struct writer *w, int r)
{
	if (w->r == 0)
		w->r = r;
}

static void put(struct writer *w, const void *bytes, size_t n)
{
	if (w->r == 0 && n && fwrite(bytes, 1, n, w->f) != n)
		w->r = errno ? -errno : -EIO;
}

static struct perf_event_attr attr_of(const struct writer *w)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = PERF_ATTR_SIZE_VER5,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = w->info->frequency_hz,
		.freq = 1,
		.sample_type = OUTPUT_PERF_SAMPLE_TYPE | (w->chains ? PERF_SAMPLE_CALLCHAIN : 0),
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

static void put_mappings(struct writer *w)
{
	struct map_node *n;

	map_for_each (&w->p->files, n, it) {
		const struct perf_file *f = container_of(n, struct perf_file, node);
		const struct output_perf_mapping m = {.pid = OUTPUT_PERF_KERNEL,
						      .start = f->start,
						      .len = f->limit - f->start,
						      .file_offset = f->start,
						      .path = is_kernel(f) ? "[kernel.kallsyms]_text"
									   : f->path};

		if (f->kernel && f->start && m.len)
			keep(w, output_perf_put_mapping(&w->tables, &m));
	}
	map_for_each (&w->p->mappings, n, it2) {
		const struct perf_mapping *x = container_of(n, struct perf_mapping, node);
		const struct perf_file *f = x->file;
		const uint64_t page = w->p->page, before = f ? f->start & (page - 1) : 0;
		struct output_perf_mapping m = {.pid = x->pid, .time_ns = x->first_ns};

		if (f) {
			m.start = f->start - before + f->place;
			m.len = ((f->limit - f->start + before) | (page - 1)) + 1;
			m.file_offset = f->file_offset - before;
			m.path = f->path;
			m.build_id = &f->build_id;
		} else {
			m.start = x->block;
			m.len = CODE_BLOCK;
			m.path = "//anon";
		}
		keep(w, output_perf_put_mapping(&w->tables, &m));
	}
}

static void put_threads(struct writer *w)
{
	struct map_node *n;

	map_for_each (&w->p->names, n, it) {
		const struct perf_name *x = container_of(n, struct perf_name, node);

		if (x->tid != x->pid)
			keep(w, output_perf_put_fork(&w->tables, x->pid, x->tid));
	}
	map_for_each (&w->p->names, n, it2) {
		const struct perf_name *x = container_of(n, struct perf_name, node);

		keep(w, output_perf_put_comm(&w->tables, x->pid, x->tid, x->first_ns, x->text));
	}
}

/* --- features */

static void put_word(struct writer *w, uint32_t value)
{
	keep(w, buf_append(&w->features, &value, sizeof value));
}

static void put_string(struct writer *w, const char *s)
{
	static const char zeros[STRING_STEP];
	const uint32_t len = (uint32_t)strlen(s), bytes = (len / STRING_STEP + 1) * STRING_STEP;

	put_word(w, bytes);
	keep(w, buf_append(&w->features, s, len));
	keep(w, buf_append(&w->features, zeros, bytes - len));
}

/* What was appended to the features since the last call is this one. Call it in the order of the bits. */
static void end_feature(struct writer *w, enum feature bit)
{
	const struct section *last = w->n_sections ? &w->sections[w->n_sections - 1] : NULL;
	const uint64_t from = last ? last->offset + last->size : 0;

	if (w->r < 0 || w->features.len == from)
		return;
	w->sections[w->n_sections++] = (struct section){from, w->features.len - from};
	w->bits |= 1ull << bit;
}

static void put_build_ids(struct writer *w)
{
	struct map_node *n;

	map_for_each (&w->p->files, n, it) {
		const struct perf_file *f = container_of(n, struct perf_file, node);

		if (f->build_id.n)
			keep(w, output_perf_put_build_id(&w->features,
							 is_kernel(f) ? "[kernel.kallsyms]" : f->path,
							 f->kernel, &f->build_id));
	}
	end_feature(w, FEATURE_BUILD_ID);
}

static void put_machine(struct writer *w)
{
	const uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	struct utsname name;
	const bool known = uname(&name) == 0;

	if (w->info->hostname)
		put_string(w, w->info->hostname);
	end_feature(w, FEATURE_HOSTNAME);
	if (known)
		put_string(w, name.release);
	end_feature(w, FEATURE_OSRELEASE);
	put_string(w, w->info->version ?: "");
	end_feature(w, FEATURE_VERSION);
	if (known)
		put_string(w, name.machine);
	end_feature(w, FEATURE_ARCH);
	put_word(w, cpus);
	put_word(w, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
	end_feature(w, FEATURE_NRCPUS);
}

static void put_event(struct writer *w)
{
	const struct perf_event_attr attr = attr_of(w);
	const uint64_t id = EVENT_ID;

	put_word(w, 1); /* event, and the size of its attributes */
	put_word(w, PERF_ATTR_SIZE_VER5);
	keep(w, buf_append(&w->features, &attr, PERF_ATTR_SIZE_VER5));
	put_word(w, 1); /* id */
	put_string(w, "cpu-clock");
	keep(w, buf_append(&w->features, &id, sizeof id));
	end_feature(w, FEATURE_EVENT_DESC);
}

static void put_features(struct writer *w)
{
	const uint64_t times[2] = {w->p->n_samples ? w->p->first_ns : 0, w->p->last_ns};

	put_build_ids(w);
	put_machine(w);
	put_word(w, w->info->command ? 2 : 1);
	put_string(w, "proflet record");
	if (w->info->command)
		put_string(w, w->info->command);
	end_feature(w, FEATURE_CMDLINE);
	put_event(w);
	keep(w, buf_append(&w->features, times, sizeof times));
	end_feature(w, FEATURE_SAMPLE_TIME);
}

/* --- its parts, in their order */

static uint64_t sample_bytes(const struct writer *w)
{
	return w->chains ? w->p->sample_bytes : w->p->n_samples * OUTPUT_PERF_SAMPLE_BYTES;
}

static void put_head(struct writer *w)
{
	const uint64_t id = EVENT_ID;
	const struct perf_event_attr attr = attr_of(w);
	struct file_attr file_attr = {.ids = {sizeof(struct file_header), sizeof id}};
	struct file_header h = {
		.magic = {'P', 'E', 'R', 'F', 'I', 'L', 'E', '2'},
		.size = sizeof h,
		.attr_size = sizeof file_attr,
		.attrs = {sizeof h + sizeof id, sizeof file_attr},
		.features = {w->bits},
	};

	memcpy(file_attr.attr, &attr, sizeof file_attr.attr);
	h.data.offset = h.attrs.offset + h.attrs.size;
	h.data.size = w->tables.len + sample_bytes(w) + sizeof(struct perf_event_header);
	put(w, &h, sizeof h);
	put(w, &id, sizeof id);
	put(w, &file_attr, sizeof file_attr);
	for (unsigned i = 0; i < w->n_sections; i++)
		w->sections[i].offset += h.data.offset + h.data.size + w->n_sections * sizeof(struct section);
}

/* Copies one sample, without its stack if that is not wanted. */
static int copy_sample(struct writer *w)
{
	uint8_t bytes[UINT16_MAX + 1];
	struct perf_event_header *h = (struct perf_event_header *)bytes;

	if (fread(h, sizeof *h, 1, w->p->samples) != 1 || h->size < OUTPUT_PERF_SAMPLE_BYTES ||
	    fread(bytes + sizeof *h, h->size - sizeof *h, 1, w->p->samples) != 1)
		return -EIO;
	if (!w->chains)
		h->size = OUTPUT_PERF_SAMPLE_BYTES;
	put(w, bytes, h->size);
	return w->r;
}

static void put_data(struct writer *w)
{
	put(w, w->tables.data, w->tables.len);
	if (w->r == 0 && (fflush(w->p->samples) != 0 || fseeko(w->p->samples, 0, SEEK_SET) != 0))
		w->r = -errno;
	for (uint64_t i = 0; i < w->p->n_samples && w->r == 0; i++)
		keep(w, copy_sample(w));
	buf_clear(&w->tables);
	keep(w, output_perf_put_end(&w->tables));
	put(w, w->tables.data, w->tables.len);
}

int output_perf_write(struct output_perf *p, const struct output_info *info, bool chains, FILE *f)
{
	_cleanup_(writer_fini) struct writer w = {
		.p = p, .info = info, .chains = chains, .f = f, .r = p->error};

	put_mappings(&w);
	put_threads(&w);
	put_features(&w);
	put_head(&w);
	put_data(&w);
	put(&w, w.sections, w.n_sections * sizeof *w.sections);
	put(&w, w.features.data, w.features.len);
	if (w.r == 0 && (fflush(f) != 0 || ferror(f)))
		w.r = -EIO;
	return w.r;
}
