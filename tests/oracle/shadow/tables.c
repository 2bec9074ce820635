// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/elf/names/symtab.h"
#include "agent/elf/runtime/facts.h"
#include "agent/proc/maps.h"
#include "agent/proc/open.h"
#include "agent/proc/table.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/runtime_walk.h"
#include "agent/unwind/tables.h"
#include "bpf/unwind.h"

#define N_SEGMENTS 512u
#define N_FILES 4096u
#define BUILD_WAIT_NS (120 * NS_PER_SEC)
#define REGISTERS_X86 16
#define RULE_UNSEEN (~0ull)

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

struct tables {
	const struct tracee *tracee;
	const char *corrupt;
	uint8_t *corrupted; /* by file index */
	int proc_fd;
	struct segment *segments[N_SEGMENTS]; /* owned */
	struct arena *arena;
	struct worker *worker;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct publisher *publisher;
	struct proc_table *processes;
	struct proc_files files;
	struct process *process; /* borrowed */
	uint32_t vdso;
	uint64_t analysed[64]; /* addresses that were tried last */
	size_t n_analysed;
	uint64_t n_in_code; /* frames that were unwound first, of code in no file */
	uint32_t code;	    /* the binary that stands for code in memory without a file */
	uint32_t program;   /* the program's own file: what was mapped first */
	uint64_t part_low, part_high;
	bool ready;
	struct unwind_area area;
	struct env env;
	struct user_regs_struct regs;
};

static int segment_new(void *data, uint32_t index, void **ret)
{
	struct tables *t = data;

	if (index >= N_SEGMENTS)
		return -ENOSPC;
	t->segments[index] = calloc(1, sizeof *t->segments[index]);
	if (!t->segments[index])
		return -ENOMEM;
	*ret = t->segments[index];
	return 0;
}

static struct segment *segment_at(void *data, __u32 index)
{
	struct tables *t = data;

	return index < N_SEGMENTS ? t->segments[index] : NULL;
}

static int read_user(void *data, void *to, __u32 bytes, __u64 address)
{
	struct tables *t = data;

	return tracee_read(t->tracee, address, to, bytes) == bytes ? 0 : -1;
}

static void tables_ready(void *data)
{
	struct tables *t = data;

	t->ready = true;
}

static void file_hold(uint32_t file, void *data)
{
	const struct tables *t = data;

	(void)binary_registry_hold(t->binaries, file);
}

static void file_release(uint32_t file, void *data)
{
	const struct tables *t = data;

	binary_registry_release(t->binaries, file);
}

int tables_new(struct tables **ret, const struct tracee *tracee, const char *corrupt)
{
	struct tables *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->tracee = tracee;
	t->corrupt = corrupt;
	t->corrupted = calloc(N_FILES + 1, 1);
	t->files = (struct proc_files){file_hold, file_release, t}; /* what nobody has mapped gets no table */
	t->env = (struct env){.area = &t->area, .segment = segment_at, .read_user = read_user, .data = t};
	env_current = &t->env;
	t->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = t->proc_fd < 0 || !t->corrupted
		    ? -errno
		    : arena_new(&t->arena, (size_t)N_SEGMENTS * SEGMENT_BYTES, segment_new, t);
	if (r == 0)
		r = worker_new(&t->worker, 1, 64, "tables");
	if (r == 0)
		r = binary_registry_new(&t->binaries, N_FILES, NULL);
	if (r == 0)
		r = unwind_tables_new(&t->tables, t->binaries, t->arena, t->worker, tables_ready, t);
	if (r == 0)
		unwind_tables_follow_generated(t->tables);
	if (r == 0)
		r = publisher_new(&t->publisher, t->arena, t->tables);
	if (r == 0) /* the walk is never begun, but says which code is V8's */
		publisher_want_runtimes(t->publisher, 1u << RUNTIME_FILE_V8);
	if (r == 0)
		r = proc_table_new(&t->processes, 4, &t->files);
	if (r < 0) {
		tables_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tables_free(struct tables *t)
{
	if (!t)
		return;
	env_current = NULL;
	proc_table_free(t->processes);
	publisher_free(t->publisher);
	if (t->worker)
		worker_free(t->worker);
	unwind_tables_free(t->tables);
	binary_registry_free(t->binaries);
	if (t->arena)
		arena_free(t->arena);
	for (unsigned i = 0; i < N_SEGMENTS; i++)
		free(t->segments[i]);
	if (t->proc_fd >= 0)
		close(t->proc_fd);
	free(t->corrupted);
	free(t);
}

/* The vDSO is memory without a file: a copy of it, as the agent makes one. */
static uint32_t vdso_file(struct tables *t, const struct proc_maps_line *line)
{
	_cleanup_close_ int fd = -1;
	uint8_t page[4096];
	struct stat st;

	if (t->vdso)
		return t->vdso;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	for (uint64_t at = line->start; fd >= 0 && at < line->end; at += sizeof page)
		if (tracee_read(t->tracee, at, page, sizeof page) != sizeof page ||
		    write(fd, page, sizeof page) != sizeof page)
			return PROC_FILE_NONE;
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    binary_registry_add(t->binaries, TAKE_FD(fd), &st, "[vdso]", &t->vdso) < 0)
		return PROC_FILE_NONE;
	unwind_tables_add(t->tables, t->vdso);
	return t->vdso;
}

static uint32_t file_of(struct tables *t, const struct proc_maps_line *line, const char *path)
{
	struct proc_open_request req = {
		.pid = (uint32_t)t->tracee->pid,
		.start = line->start,
		.end = line->end,
		.path = path,
		.deleted = line->deleted,
		.has_inode = line->inode != 0,
		.inode = line->inode,
		.dev_major = line->dev_major,
		.dev_minor = line->dev_minor,
	};
	struct proc_opened opened;
	uint32_t index;

	if (strcmp(path, "[vdso]") == 0)
		return vdso_file(t, line);
	if (path[0] != '/' || proc_open_mapping(t->proc_fd, &req, &opened) < 0 ||
	    binary_registry_add(t->binaries, opened.fd, &opened.st, path, &index) < 0)
		return PROC_FILE_NONE;
	unwind_tables_add(t->tables, index);
	t->program = t->program ?: index;
	return index;
}

static int add_mapping(const struct proc_maps_line *line, void *data)
{
	struct tables *t = data;
	_cleanup_free_ char *path = NULL;
	struct proc_mapping m = {.start = line->start, .end = line->end, .offset = line->offset};
	int r = line->path ? proc_maps_path(line, &path) : 0;

	if (r < 0)
		return r;
	if (path)
		m.file = file_of(t, line, path);
	return proc_maps_insert(t->process->maps, m);
}

/* Makes the table of one module wrong, to see that it is found out: rules of a plain sp + n, 8 bytes off. */
static void corrupt_tables(struct tables *t)
{
	for (uint32_t i = 1; i <= N_FILES && t->corrupt; i++) {
		const struct binary_table *f = unwind_tables_get(t->tables, i);

		if (!f || !f->n_placed || t->corrupted[i] || strcmp(f->binary->module.name, t->corrupt) != 0)
			continue;
		t->corrupted[i] = 1;
		for (size_t k = 0; k < f->n_placed; k++) {
			struct unwind_table *table = arena_at(t->arena, f->placed[k].block.ref);
			struct unwind_rule *rules = (struct unwind_rule *)(table + 1);

			for (unsigned n = 1; n < 4 && n < table->n_rules; n++)
				if ((rules[n].kind & UNWIND_CFA_MASK) == UNWIND_CFA_SP)
					rules[n].cfa += 8;
		}
	}
}

static int build_missing(struct tables *t)
{
	uint64_t end = clock_mono_ns() + BUILD_WAIT_NS;

	while (unwind_tables_pending(t->tables)) {
		if (clock_mono_ns() > end)
			return -ETIMEDOUT;
		unwind_tables_pump(t->tables);
		worker_drain(t->worker, NS_PER_SEC);
	}
	return 0;
}

/* As agent/track/generated_code.c does. */
static int add_code(struct tables *t)
{
	struct binary *b;
	int r;

	if (t->code)
		return 0;
	r = binary_new_generated(&b, (uint32_t)t->tracee->pid);
	if (r == 0)
		r = binary_registry_enter(t->binaries, b, 0, &t->code);
	if (r < 0)
		return r;
	(void)binary_registry_hold(t->binaries, t->code);
	return unwind_tables_add_generated(t->tables, t->code, (uint32_t)t->tracee->pid);
}

/* An offset in the list's segment that the list's header has as one from the list. */
static uint32_t in_list(struct tables *t, uint32_t member)
{
	const uint32_t list = t->area.state.list;
	struct segment *s = segment_at(t, ref_segment(list));
	const uint32_t at = s ? segment_u32(s, ref_offset(list) + member) : 0;

	return at ? (uint32_t)ref_offset(list) + at : 0;
}

/* As bpf/profiler.bpf.c does when a sample begins. */
static void use_list(struct tables *t)
{
	struct unwind_state *s = &t->area.state;

	s->list = publisher_list(t->publisher, t->process->maps);
	s->length = 0;
	s->runtime_at = in_list(t, LIST_RUNTIME);
	s->heaps_at = in_list(t, LIST_HEAPS);
	if (s->runtime_at)
		(void)runtime_begin();
}

static int publish(struct tables *t)
{
	int r = publisher_put(t->publisher, t->process);

	if (r < 0)
		return r;
	if (arena_grace_begin(t->arena))
		arena_grace_end(t->arena);
	use_list(t);
	return 0;
}

/* Has the code at an address analysed that is in no file. False: it is, or nothing came of it. */
static bool analyse(struct tables *t, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(t->process->maps, address);
	struct generated_request q = {.address = address};
	const uint64_t end = clock_mono_ns() + BUILD_WAIT_NS;
	bool asked = false;

	if (!t->code || !m || m->file != PROC_FILE_NONE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(t->analysed); i++)
		asked |= t->analysed[i] == address;
	if (asked)
		return false;
	t->analysed[t->n_analysed++ % ARRAY_SIZE(t->analysed)] = address;
	q.low = m->start;
	q.high = m->end;
	(void)runtime_walk_find_vm(&q, t->process->maps, t->tables,
				   1u << RUNTIME_FILE_HOTSPOT | 1u << RUNTIME_FILE_BEAM |
					   1u << RUNTIME_FILE_DOTNET | 1u << RUNTIME_FILE_V8);
	unwind_tables_request(t->tables, t->code, &q);
	while (unwind_tables_requested(t->tables, t->code) && clock_mono_ns() < end) {
		unwind_tables_pump(t->tables);
		worker_drain(t->worker, NS_PER_MS);
	}
	return publish(t) == 0;
}

int tables_refresh(struct tables *t)
{
	struct proc_maps *empty;
	int r = t->process ? 0 : proc_table_add(t->processes, (uint32_t)t->tracee->pid, 0, &t->process);

	if (r < 0)
		return r;
	r = proc_maps_new(&empty, t->process->maps->files);
	if (r < 0)
		return r;
	proc_maps_unref(t->process->maps);
	t->process->maps = empty;
	t->process->image->selected = true;
	r = proc_maps_read(t->proc_fd, (uint32_t)t->tracee->pid, add_mapping, t);
	if (r < 0)
		return r;
	r = build_missing(t);
	if (r == 0)
		r = add_code(t);
	if (r < 0)
		return r;
	proc_maps_set_code(t->process->maps, t->code);
	corrupt_tables(t);
	return publish(t);
}

bool tables_covers(const struct tables *t, uint64_t start, uint64_t len)
{
	struct proc_maps_cursor c = proc_maps_from(t->process->maps, start);
	const struct proc_mapping *m = proc_maps_next(&c);

	return m && m->start < start + len;
}

bool tables_is_file(const struct tables *t, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(t->process->maps, address);

	return m && m->file != PROC_FILE_NONE;
}

/* By DWARF number, as bpf/profiler.bpf.c fills them in. */
static void fill_registers(struct tables *t)
{
	const struct user_regs_struct *r = &t->regs;
	const uint64_t regs[REGISTERS_X86] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp,
					      r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	memcpy(t->area.state.regs, regs, sizeof regs);
	t->area.state.have_regs = 1;
}

/* The rule that covered the frame, where the hot path did not keep it. */
static uint64_t rule_of(struct tables *t, uint64_t ip)
{
	struct unwind_state *s = &t->area.state;
	uint64_t o = ip - s->bias - s->table_va;

	return o >> PAGE_SHIFT_ROWS < s->n_pages ? table_rule(segment_at(t, s->segment), s, o)
						 : (uint64_t)UNWIND_CFA_NONE << 48;
}

bool tables_agree(struct tables *t, const struct user_regs_struct *regs, uint64_t sp, uint64_t fp,
		  uint64_t fp_slot)
{
	struct unwind_state *s = &t->area.state;
	struct unwind_rule rule;
	uint64_t bits, cfa;

	if (regs->rip - s->start >= s->length)
		return false;
	bits = rule_of(t, regs->rip);
	memcpy(&rule, &bits, sizeof rule);
	cfa = ((rule.kind & 1) ? regs->rbp : regs->rsp) + (uint64_t)(int64_t)rule.cfa;
	if (cfa != sp || cfa <= regs->rsp)
		return false;
	if ((rule.kind & ~1u) == 0)
		return regs->rbp == fp;
	return (rule.kind & ~1u) == UNWIND_FP_CFA << UNWIND_FP_SHIFT &&
	       cfa + (uint64_t)(int64_t)rule.fp * 8 == fp_slot;
}

uint64_t tables_fp_slot(const struct unwound *u)
{
	struct unwind_rule rule;

	memcpy(&rule, &u->rule, sizeof rule);
	return (rule.kind & ~1u) == UNWIND_FP_CFA << UNWIND_FP_SHIFT ? u->sp + (uint64_t)(int64_t)rule.fp * 8
								     : 0;
}

/* One frame by the loop of bpf/profiler.bpf.c. */
static void unwind_once(struct tables *t, struct unwound *ret)
{
	struct unwind_state *s = &t->area.state;
	uint64_t ip = s->ip;
	uint32_t n = s->n;
	int next = NEXT_FRAMES;

	env_current = &t->env;
	s->rule_bits = RULE_UNSEEN;
	s->limit = n + 1;
	t->area.frames[n] = ip;
	while (s->n == n && next >= ENDINGS) {
		next = unwind_frames();
		if (s->n == n && next == NEXT_MAPPING)
			next = unwind_mapping();
		if (next == NEXT_REGISTERS)
			fill_registers(t);
	}
	ret->frame = t->area.frames[n];
	ret->ending = s->n > n && (next >= ENDINGS || next == ENDING_DEPTH_LIMIT) ? -1 : next;
	ret->rule = s->rule_bits != RULE_UNSEEN ? s->rule_bits : rule_of(t, ip);
	ret->reason = (int)s->fallback;
	ret->sp = s->sp;
	ret->fp = s->fp;
	/* the interrupted instruction itself is kept; return addresses are kept minus 1 */
	ret->ra = (ret->rule >> 48 & UNWIND_CFA_MASK) == UNWIND_CFA_SIGNAL ? s->ip : s->ip + 1;
}

/* The same. Code that is not known yet is analysed first, which the agent does while samples wait. */
static void unwind_one(struct tables *t, struct unwound *ret)
{
	const struct unwind_state before = t->area.state;
	struct unwind_state *s = &t->area.state;

	unwind_once(t, ret);
	if (ret->ending != ENDING_NO_TABLE && ret->reason != ENDING_NO_TABLE)
		return;
	if (!analyse(t, before.ip))
		return;
	*s = before;
	use_list(t);
	unwind_once(t, ret);
}

void tables_unwind(struct tables *t, const struct user_regs_struct *regs, struct unwound *ret)
{
	struct unwind_state *s = &t->area.state;

	t->regs = *regs;
	s->ip = regs->rip;
	s->sp = regs->rsp;
	s->fp = regs->rbp;
	s->n = s->have_regs = s->fallback = s->switches = s->signals = s->window_len = 0;
	s->innermost = 1;
	unwind_one(t, ret);
	t->n_in_code += frame_file(ret->frame) == t->code || frame_file(ret->frame) >= FRAME_TAG_RUNTIME;
}

uint64_t tables_in_code(const struct tables *t)
{
	return t->n_in_code;
}

void tables_unwind_on(struct tables *t, struct unwound *ret)
{
	unwind_one(t, ret);
}

static const struct binary *file_at(const struct tables *t, uint64_t frame)
{
	uint64_t index = frame >> FRAME_VA_BITS;

	return index && index <= N_FILES ? binary_registry_get(t->binaries, (uint32_t)index) : NULL;
}

bool tables_read(const struct tables *t, uint64_t address, void *to, uint32_t len)
{
	return tracee_read(t->tracee, address, to, len) == len;
}

void tables_set_part(struct tables *t, uint64_t low, uint64_t high)
{
	t->part_low = low;
	t->part_high = high;
}

enum tables_place tables_place(const struct tables *t, uint64_t frame)
{
	const uint32_t file = frame_file(frame);
	const uint64_t va = frame_va(frame);

	if (file == t->code || !file || file >= FRAME_TAG_RUNTIME)
		return PLACE_NO_FILE;
	return file == t->program && va >= t->part_low && va < t->part_high ? PLACE_PART : PLACE_FILES;
}

uint64_t tables_frame(const struct tables *t, uint64_t ip)
{
	return t->area.state.tag | ((ip - t->area.state.bias) & FRAME_VA_MASK);
}

const char *tables_build_id(const struct tables *t, uint64_t frame)
{
	const struct binary *f = file_at(t, frame);

	return f ? f->module.build_id_gnu : NULL;
}

const char *tables_module(const struct tables *t, uint64_t frame)
{
	const struct binary *f = file_at(t, frame);

	return f ? f->module.name : NULL;
}

int tables_symbol(const struct tables *t, uint64_t frame, struct elf_symbol *ret)
{
	const struct binary *f = file_at(t, frame);
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	uint64_t va = frame & FRAME_VA_MASK;
	int r;

	if (!f || f->fd < 0)
		return -ENOENT;
	r = elf_image_open(&img, f->fd);
	return r < 0 ? r : elf_symtab_resolve(img, &va, 1, ret);
}
