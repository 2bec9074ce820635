// SPDX-License-Identifier: Apache-2.0
/*
 * parts[] is in ascending order and without overlaps. A new part replaces those that it overlaps: the memory
 * was used again. Where no function is listed, a window around the address is analysed, and each run of code
 * that was understood in it becomes a part, as does the gap with the address.
 */
#include "agent/unwind/generated.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/page.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/cfi/ruleset.h"
#include "agent/elf/code/hotspot_kind.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/parser/parser.h"
#include "agent/unwind/code_job.h"
#include "agent/unwind/block.h"

#define WINDOW_BEFORE (32u << 10)
#define WINDOW_BEHIND (16u << 10)
#define WAIT_MIN_NS (1 * NS_PER_SEC)
#define WAIT_MAX_NS (64 * NS_PER_SEC)
#define OVER_NS (1 * NS_PER_SEC) /* for which the rows of freed code stay */
#define HOTSPOT_CHECKS 64u	 /* in one job */
#define READ_BYTES 4096u	 /* memory is read in such pieces, as some of it may be missing */
#define NOT_READY_NS (100 * NS_PER_MS)
#define NOT_READY_MAX 6u /* times in a row that a virtual machine is waited for, each twice as long */

struct part_row {
	uint32_t off, rule; /* from the part's start; index in generated.rules */
};

/*
 * A part whose code was not understood, or not known to the virtual machine, is looked at again after a
 * while: the runtime may list it meanwhile, or more of it may be there.
 */
struct part {
	uint64_t start, end, hash;  /* of its bytes */
	uint64_t wait_ns, again_ns; /* how long it waits, and until when; 0: it is known */
	bool open;		    /* it has waited long enough */
	bool refused;		    /* not understood */
	bool vm;		    /* a piece of a virtual machine's code, which knows when it has changed */
	bool freed; /* of these, one that may be freed at any time: somebody waits for checks */
	bool stays; /* of a HotSpot's, one that is never freed */
	bool plain; /* as in struct code_span */
	bool over;  /* it was freed: its rows are for samples from before */
	uint32_t compile_id;
	uint64_t look, found_ns, same_ns; /* as in struct code_span */
	uint32_t n;
	struct part_row rows[];
};

struct generated {
	struct parser_session parser; /* while it is built */
	uint32_t pid;
	int mem; /* /proc/PID/mem: of this program of the process, even if its pid is used again; -1: not open yet */
	struct generated_request requests[GENERATED_REQUESTS_MAX], taken[GENERATED_REQUESTS_MAX];
	size_t n_requests, n_taken;
	struct v8_line_wish lines[GENERATED_LINES_MAX], lines_taken[GENERATED_LINES_MAX];
	size_t n_lines, n_lines_taken;
	struct v8_layout v8; /* of the objects that lines[] are about */
	struct vm_wanted v8_code[V8_CODE_WISHES_MAX], v8_code_taken[V8_CODE_WISHES_MAX];
	size_t n_v8_code, n_v8_code_taken;
	struct v8_process v8_process; /* of which v8_code[] are */
	struct buf v8_records, v8_reports;
	bool v8_refused; /* its memory cannot be read in time */
	bool check;
	uint64_t now_ns;     /* of the job */
	bool changed;	     /* the table is not that of the last job any more */
	struct part **parts; /* owned */
	size_t n, cap, bytes, next_check;
	size_t next_vm_check;
	uint64_t look;
	uint64_t unloads_ns; /* of the last job before or during which a HotSpot has unloaded classes */
	struct buf spans;    /* of struct code_span */
	uint64_t empty[GENERATED_REQUESTS_MAX], later[GENERATED_REQUESTS_MAX];
	size_t n_empty, n_later; /* without code; not looked at yet */
	struct ruleset rules;
	struct vm_process vm;
	unsigned n_not_ready;	/* answers in a row that it is not ready */
	uint64_t wait_until_ns; /* until it is queried again; 0: it is ready, or not waited for */
	struct buf found;
	struct generated_stats stats;
};

int generated_new(struct generated **ret, uint32_t pid)
{
	struct generated *g = calloc(1, sizeof *g);

	if (!g)
		return -ENOMEM;
	g->pid = pid;
	g->mem = -1;
	if (ruleset_init(&g->rules) < 0) {
		generated_free(g);
		return -ENOMEM;
	}
	*ret = g;
	return 0;
}

static void parts_clear(struct generated *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->parts[i]);
	g->n = g->bytes = g->next_check = g->next_vm_check = 0;
}

void generated_free(struct generated *g)
{
	if (!g)
		return;
	parts_clear(g);
	free(g->parts);
	ruleset_fini(&g->rules);
	buf_fini(&g->found);
	buf_fini(&g->spans);
	buf_fini(&g->v8_records);
	buf_fini(&g->v8_reports);
	if (g->mem >= 0)
		close(g->mem);
	free(g);
}

bool generated_requested(const struct generated *g)
{
	return g->n_requests > 0 || g->n_lines > 0 || g->n_v8_code > 0;
}

bool generated_request(struct generated *g, const struct generated_request *request)
{
	for (size_t i = 0; i < g->n_requests; i++)
		if (g->requests[i].address == request->address)
			return true;
	if (g->n_requests == GENERATED_REQUESTS_MAX)
		return false;
	g->requests[g->n_requests++] = *request;
	return true;
}

bool generated_request_line(struct generated *g, const struct v8_layout *layout,
			    const struct v8_line_wish *wish)
{
	for (size_t i = 0; i < g->n_lines; i++)
		if (g->lines[i].number == wish->number)
			return true;
	if (g->n_lines == GENERATED_LINES_MAX)
		return false;
	g->v8 = *layout;
	g->lines[g->n_lines++] = *wish;
	return true;
}

bool generated_request_v8_code(struct generated *g, const struct v8_process *process,
			       const struct vm_wanted *wanted)
{
	for (size_t i = 0; i < g->n_v8_code; i++)
		if (g->v8_code[i].address == wanted->address && g->v8_code[i].wish == wanted->wish)
			return true;
	if (g->n_v8_code == V8_CODE_WISHES_MAX)
		return false;
	g->v8_process = *process;
	g->v8_code[g->n_v8_code++] = *wanted;
	return true;
}

size_t generated_begin(struct generated *g, bool check)
{
	memcpy(g->taken, g->requests, g->n_requests * sizeof g->requests[0]);
	g->n_taken = g->n_requests;
	g->n_requests = 0;
	memcpy(g->lines_taken, g->lines, g->n_lines * sizeof g->lines[0]);
	g->n_lines_taken = g->n_lines;
	g->n_lines = 0;
	memcpy(g->v8_code_taken, g->v8_code, g->n_v8_code * sizeof g->v8_code[0]);
	g->n_v8_code_taken = g->n_v8_code;
	g->n_v8_code = 0;
	g->check = check;
	g->n_empty = g->n_later = 0;
	buf_clear(&g->found);
	buf_clear(&g->v8_records);
	buf_clear(&g->v8_reports);
	return g->n_taken;
}

enum vm_kind generated_vm(const struct generated *g)
{
	return g->vm.vm.kind;
}

uint64_t generated_began_ns(const struct generated *g)
{
	return g->now_ns;
}

uint32_t generated_pid(const struct generated *g)
{
	return g->pid;
}

const struct buf *generated_found(const struct generated *g)
{
	return g->found.len ? &g->found : NULL;
}

size_t generated_lines(const struct generated *g, const struct v8_line_wish **ret)
{
	*ret = g->lines_taken;
	return g->n_lines_taken;
}

void generated_v8_code(const struct generated *g, const struct buf **records, const struct buf **reports)
{
	*records = &g->v8_records;
	*reports = &g->v8_reports;
}

const struct code_span *generated_spans(const struct generated *g, size_t *ret_n)
{
	*ret_n = g->spans.len / sizeof(struct code_span);
	return (const struct code_span *)g->spans.data;
}

const uint64_t *generated_empty(const struct generated *g, size_t *ret_n)
{
	*ret_n = g->n_empty;
	return g->empty;
}

const struct code_heaps *generated_heaps(const struct generated *g)
{
	return vm_process_heaps(&g->vm);
}

void generated_unloaded(const struct generated *g, uint64_t *ret_before, uint64_t *ret_after)
{
	vm_process_unloaded(&g->vm, ret_before, ret_after);
}

uint64_t generated_look(const struct generated *g)
{
	return g->look;
}

void generated_stats(const struct generated *g, struct generated_stats *ret)
{
	*ret = g->stats;
	ret->vm = g->vm.vm.kind;
	ret->vm_known = g->vm.known;
	ret->vm_refused = g->vm.refused;
	ret->java_version = vm_process_java_version(&g->vm);
	ret->wait_until_ns = g->wait_until_ns;
}

/* --- the memory */

static int mem_open(struct generated *g)
{
	char path[32];

	if (g->mem >= 0)
		return 0;
	snprintf(path, sizeof path, "/proc/%u/mem", g->pid);
	g->mem = open(path, O_RDONLY | O_CLOEXEC);
	return g->mem < 0 ? -ESRCH : 0;
}

/* 0; -EFAULT: not all of it is there; -ESRCH: the process has ended, or runs another program. */
static int read_all(const struct generated *g, uint8_t *to, uint64_t start, uint64_t n)
{
	while (n) {
		ssize_t got = pread(g->mem, to, n, (off_t)start);

		if (got <= 0)
			return got < 0 ? -EFAULT : -ESRCH;
		to += got;
		start += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return 0;
}

/*
 * Reads what there is around `address` in [*start, *end), and narrows these. 0; -EFAULT: not even that;
 * -ESRCH as above.
 */
static int read_around(const struct generated *g, uint8_t *to, uint64_t address, uint64_t *start,
		       uint64_t *end)
{
	uint64_t low = address & ~(uint64_t)(READ_BYTES - 1), high = low;
	const uint64_t first = *start, last = *end;
	int r = 0;

	if (low < first)
		low = high = first;
	while (high < last) {
		uint64_t n = READ_BYTES - high % READ_BYTES;

		n = n < last - high ? n : last - high;
		r = read_all(g, to + (high - first), high, n);
		if (r < 0)
			break;
		high += n;
	}
	if (high <= address)
		return r == -ESRCH ? r : -EFAULT;
	while (low > first) {
		uint64_t n = low - first < READ_BYTES ? low - first : READ_BYTES;

		if (read_all(g, to + (low - n - first), low - n, n) < 0)
			break;
		low -= n;
	}
	*start = low;
	*end = high;
	return 0;
}

/* --- parts */

/* The index of the first part that ends behind `address`. */
static size_t parts_from(const struct generated *g, uint64_t address)
{
	return array_first(g->n, i, g->parts[i]->end > address);
}

static size_t part_bytes(const struct part *p)
{
	return sizeof *p + p->n * sizeof p->rows[0];
}

static bool is_refused(const struct memory_row *r)
{
	return r->rule.cfa_kind == CFA_NONE && r->rule.cfa_off == NO_RULE_REFUSED;
}

static void part_drop(struct generated *g, size_t i)
{
	g->changed = true;
	g->bytes -= part_bytes(g->parts[i]);
	free(g->parts[i]);
	memmove(&g->parts[i], &g->parts[i + 1], (--g->n - i) * sizeof(struct part *));
}

/*
 * Whether a virtual machine may have rows and names for what it does not know now: it may be about to make
 * the code, or the parser process had no time. V8 has no rows of its own.
 */
static bool is_guess(const struct generated *g)
{
	return g->vm.vm.kind != VM_NONE && g->vm.vm.kind != VM_V8 && !g->vm.refused;
}

/*
 * Adds a part of the rows [first, end) of `from`; `code` are its bytes, which are not needed for a part
 * that is not compared with the memory.
 */
static int part_add(struct generated *g, const struct memory_code *code, const struct memory_rows *from,
		    size_t first, size_t end)
{
	const uint32_t off = from->v[first].off, limit = end < from->n ? from->v[end].off : code->n;
	const size_t n = end - first;
	uint64_t wait_ns = 0;
	struct part *p;
	size_t at;

	if (g->n == GENERATED_PARTS_MAX || g->bytes + sizeof *p + n * sizeof p->rows[0] > GENERATED_BYTES_MAX)
		parts_clear(g);
	p = malloc(sizeof *p + n * sizeof p->rows[0]);
	if (!p || array_reserve(&g->parts, &g->cap, g->n + 1, sizeof(struct part *)) < 0) {
		free(p);
		return -ENOMEM;
	}
	*p = (struct part){.start = code->va + off,
			   .end = code->va + limit,
			   .hash = code->code ? hash_bytes(code->code + off, limit - off) : 0,
			   .look = g->look,
			   .found_ns = g->now_ns,
			   .n = (uint32_t)n};
	for (size_t i = 0; i < n; i++) {
		const int64_t rule = ruleset_intern(&g->rules, &from->v[first + i].rule);

		if (rule < 0) {
			free(p);
			return (int)rule;
		}
		p->rows[i] = (struct part_row){from->v[first + i].off - off, (uint32_t)rule};
	}
	at = parts_from(g, p->start);
	while (at < g->n && g->parts[at]->start < p->end) {
		wait_ns = g->parts[at]->wait_ns > wait_ns ? g->parts[at]->wait_ns : wait_ns;
		part_drop(g, at);
	}
	p->refused = n == 1 && is_refused(&from->v[first]);
	if (p->refused || is_guess(g)) {
		p->wait_ns = wait_ns ? wait_ns * 2 : WAIT_MIN_NS;
		p->wait_ns = p->wait_ns < WAIT_MAX_NS ? p->wait_ns : WAIT_MAX_NS;
		p->again_ns = g->now_ns + p->wait_ns;
	}
	memmove(&g->parts[at + 1], &g->parts[at], (g->n++ - at) * sizeof(struct part *));
	g->parts[at] = p;
	g->bytes += part_bytes(p);
	g->stats.analysed++;
	g->changed = true;
	return 0;
}

static bool is_pending(const struct memory_row *r)
{
	return r->rule.cfa_kind == CFA_NONE && r->rule.cfa_off == NO_RULE_PENDING;
}

/* Adds the rows of [from, to), an offset each, as a part. `all`: rows from before `from` on. */
static int range_add(struct generated *g, const struct memory_code *code, const struct memory_rows *all,
		     uint32_t from, uint32_t to)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	struct memory_code piece = *code;
	int r = 0;

	for (size_t i = 0; i < all->n && all->v[i].off < to && r == 0; i++) {
		const uint32_t off = all->v[i].off, next = i + 1 < all->n ? all->v[i + 1].off : to;

		if (next > from)
			r = memory_rows_add(&rows, off > from ? off : from, &all->v[i].rule);
	}
	piece.n = to;
	return r == 0 && rows.n ? part_add(g, &piece, &rows, 0, rows.n) : r;
}

/* The index of the first part from the index `i` on with rows that are known; g->n: there is none. */
static size_t known_from(const struct generated *g, size_t i)
{
	while (i < g->n && (g->parts[i]->open || g->parts[i]->refused))
		i++;
	return i;
}

/*
 * Adds the rows [first, end), which belong together. Parts that are known stay: the bytes around another
 * address end elsewhere, and what they do not cover would have to be looked at anew.
 */
static int run_add(struct generated *g, const struct memory_code *code, const struct memory_rows *all,
		   size_t first, size_t end)
{
	const uint64_t limit = code->va + (end < all->n ? all->v[end].off : code->n);
	uint64_t at = code->va + all->v[first].off;
	int r = 0;

	while (at < limit && r == 0) {
		const size_t i = known_from(g, parts_from(g, at));
		const uint64_t start = i < g->n ? g->parts[i]->start : limit;
		const uint64_t behind = i < g->n ? g->parts[i]->end : limit;

		if (start > at)
			r = range_add(g, code, all, (uint32_t)(at - code->va),
				      (uint32_t)((start < limit ? start : limit) - code->va));
		at = behind;
	}
	return r;
}

static int parts_add(struct generated *g, const struct memory_code *code)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	int r = code_job_run(&g->parser, &rows, code);

	for (size_t i = 0; i < rows.n && r == 0;) {
		size_t end = i + 1;

		if (is_pending(&rows.v[i])) {
			i++;
			continue;
		}
		while (end < rows.n && !is_pending(&rows.v[end]) && !is_refused(&rows.v[i]) &&
		       !is_refused(&rows.v[end]))
			end++;
		r = run_add(g, code, &rows, i, end);
		i = end;
	}
	return r;
}

/* Declares the instruction at an address unknown, and so ends what would be requested for ever. */
static int refuse(struct generated *g, uint64_t address)
{
	struct memory_row row = {0, {.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED}};
	const struct memory_rows rows = {&row, 1, 1};
	const struct memory_code code = {.va = address, .code = (const uint8_t *)"", .n = 1};

	g->stats.refused++;
	return part_add(g, &code, &rows, 0, 1);
}

static bool is_known(const struct generated *g, uint64_t address)
{
	const size_t i = parts_from(g, address);

	return i < g->n && g->parts[i]->start <= address && !g->parts[i]->open && !g->parts[i]->over;
}

/* --- the job */

/* Narrows what is around an address to what no virtual machine knows: its own rows are better. */
static void leave_vm_out(const struct generated *g, uint64_t address, uint64_t *start, uint64_t *end)
{
	const size_t at = parts_from(g, address);

	for (size_t i = at; i > 0 && g->parts[i - 1]->end > *start; i--)
		if (g->parts[i - 1]->vm) {
			*start = g->parts[i - 1]->end;
			break;
		}
	for (size_t i = at; i < g->n && g->parts[i]->start < *end; i++)
		if (g->parts[i]->vm && g->parts[i]->start > address) {
			*end = g->parts[i]->start;
			break;
		}
}

static int answer(struct generated *g, const struct generated_request *q)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	const bool listed = q->end > q->start && q->end - q->start <= MEMORY_CODE_MAX;
	uint64_t start = q->start, end = q->end, first;
	struct memory_code code;
	int r = 0;

	if (is_known(g, q->address))
		return 0;
	if (!listed) {
		start = q->address - q->low > WINDOW_BEFORE ? q->address - WINDOW_BEFORE : q->low;
		end = q->high - q->address > WINDOW_BEHIND ? q->address + WINDOW_BEHIND : q->high;
		leave_vm_out(g, q->address, &start, &end);
	}
	first = start;
	bytes = malloc(end - start);
	if (!bytes)
		return -ENOMEM;
	r = read_around(g, bytes, q->address, &start, &end);
	if (r < 0)
		return r == -ESRCH ? r : refuse(g, q->address);
	code = (struct memory_code){.va = start,
				    .code = bytes + (start - first),
				    .n = (uint32_t)(end - start),
				    .function = listed && start == q->start,
				    .frame_pointer = q->frame_pointer,
				    .wanted = (uint32_t)(q->address - start)};
	r = parts_add(g, &code);
	if (r == 0 && !is_known(g, q->address))
		r = refuse(g, q->address);
	return r;
}

/*
 * Drops the parts whose bytes have changed, of those whose turn it is. HotSpot patches its code all the
 * time.
 */
static int check_parts(struct generated *g)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t left = GENERATED_CHECK_BYTES;

	for (size_t n = g->n; n > 0 && g->n > 0; n--) {
		const struct part *p;
		uint64_t len;
		int r;

		g->next_check %= g->n;
		p = g->parts[g->next_check];
		if (p->vm) {
			g->next_check++;
			continue;
		}
		len = p->end - p->start;
		if (len > left)
			return 0;
		left -= len;
		if (!bytes)
			bytes = malloc(GENERATED_CHECK_BYTES);
		if (!bytes)
			return -ENOMEM;
		r = read_all(g, bytes, p->start, len);
		if (r == -ESRCH)
			return r;
		if (r == 0 && hash_bytes(bytes, len) == p->hash) {
			g->next_check++;
			continue;
		}
		part_drop(g, g->next_check);
		g->stats.replaced++;
	}
	return 0;
}

/* --- virtual machines' code */

static struct vm_wanted check_of(const struct part *p)
{
	return (struct vm_wanted){
		.address = p->start, .end = p->end, .wish = VM_WANT_CHECK, .compile_id = p->compile_id};
}

/* Those whose turn it is. A HotSpot's code is known by samples to have changed; what none hits goes late. */
static void checks_add(struct generated *g, struct vm_wanted *wanted, size_t *n)
{
	const size_t first = g->n ? g->next_vm_check % g->n : 0;
	const size_t most = g->vm.vm.kind == VM_HOTSPOT && *n + HOTSPOT_CHECKS < VM_WANTED_MAX
				    ? *n + HOTSPOT_CHECKS
				    : VM_WANTED_MAX;

	for (size_t i = 0; i < g->n && *n < most; i++) {
		const size_t at = (first + i) % g->n;

		if (g->parts[at]->vm && !g->parts[at]->stays)
			wanted[(*n)++] = check_of(g->parts[at]);
		g->next_vm_check = at + 1;
	}
}

/* The wish of a request. False: there is none. */
static bool wish_of(const struct generated *g, const struct generated_request *q, struct vm_wanted *ret)
{
	const size_t i = q->wish == GENERATED_LOOK ? parts_from(g, q->address) : 0;

	if (q->wish == GENERATED_LOOK) {
		if (i == g->n || g->parts[i]->start > q->address || !g->parts[i]->vm)
			return false;
		*ret = check_of(g->parts[i]);
		return true;
	}
	*ret = (struct vm_wanted){.address = q->address,
				  .wish = q->wish == GENERATED_METHOD ? VM_WANT_METHOD : VM_WANT_CODE};
	return q->wish != GENERATED_CODE || !is_known(g, q->address);
}

/* What was made of code by its bytes, before it was known that a virtual machine knows it. */
static void drop_guessed(struct generated *g)
{
	for (size_t i = g->n; i > 0; i--)
		if (!g->parts[i - 1]->vm)
			part_drop(g, i - 1);
}

/* The wishes of the requests that the virtual machine may answer, then the checks. */
static size_t wishes(struct generated *g, struct vm_wanted *wanted)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n_taken; i++) {
		const struct generated_request *q = &g->taken[i];

		if (q->vm.kind == VM_NONE)
			continue;
		if (g->vm.vm.kind == VM_NONE) {
			g->vm.vm = q->vm;
			drop_guessed(g);
		}
		if (q->vm.kind == g->vm.vm.kind && wish_of(g, q, &wanted[n]))
			n++;
	}
	if (g->check && g->vm.vm.kind != VM_NONE)
		checks_add(g, wanted, &n);
	return n;
}

/*
 * The code was freed. Until other code is found in its place, samples from before need its rows. While
 * no class was unloaded, no other code was there and is freed again.
 */
static void be_over(struct generated *g, struct part *p)
{
	if (!p->over && p->same_ns > g->unloads_ns)
		p->same_ns = g->now_ns;
	p->over = true;
}

/* Takes whether a piece is still the same. True: somebody waits for that. */
static bool take_check(struct generated *g, const struct vm_wanted *w, const struct vm_found *f)
{
	const size_t i = parts_from(g, w->address);
	struct part *p = i < g->n ? g->parts[i] : NULL;
	bool freed;

	if (!p || p->start != w->address || p->end != w->end || p->compile_id != w->compile_id)
		return false; /* the same look has found what is in its place */
	freed = p->freed;
	if (f->answer == VM_SAME) {
		p->same_ns = g->now_ns;
		return freed;
	}
	g->stats.replaced += !p->over;
	if (f->answer == VM_EMPTY && (!p->over || g->now_ns - p->same_ns < OVER_NS))
		be_over(g, p);
	else if (!p->over)
		p->over = true; /* its rows are for the samples that have waited for this look */
	else
		part_drop(g, i);
	return freed;
}

/* The known code at the address. NULL: there is none, or it is no virtual machine's. */
static struct part *known_code(const struct generated *g, uint64_t address)
{
	const size_t i = parts_from(g, address);

	return is_known(g, address) && g->parts[i]->vm ? g->parts[i] : NULL;
}

/* Takes a piece of code. */
static int take_code(struct generated *g, const struct vm_record *x)
{
	const struct vm_found *f = &x->found;
	const struct memory_code code = {.va = f->start, .n = (uint32_t)(f->end - f->start)};
	struct part *p = known_code(g, f->address);
	int r;

	if (p && p->start == f->start && p->end == f->end && p->compile_id == f->compile_id) {
		p->same_ns = g->now_ns;
		return 0;
	}
	if (is_known(g, f->address) && !p)
		return 0;
	g->stats.replaced += p != NULL;
	r = part_add(g, &code, &x->rows, 0, x->rows.n);
	if (r < 0)
		return r;
	p = g->parts[parts_from(g, f->address)];
	p->vm = true;
	p->wait_ns = 0;
	p->freed = f->freed;
	p->stays = g->vm.vm.kind == VM_HOTSPOT && !hotspot_is_freed((enum hotspot_code_kind)f->kind);
	p->plain = g->vm.vm.kind == VM_HOTSPOT && f->kind == HOTSPOT_CODE_PLAIN_STUB;
	p->compile_id = f->compile_id;
	p->same_ns = g->now_ns;
	return 0;
}

/* Takes an answer. What others may want to know of it goes to `found`. */
static int take_record(struct generated *g, const struct vm_wanted *w, const struct vm_record *x)
{
	struct vm_found f = x->found;
	bool wanted = (f.answer == VM_CODE || f.answer == VM_METHOD) && g->vm.vm.kind != VM_V8;
	int r = 0;

	if (w->wish == VM_WANT_CHECK)
		wanted |= take_check(g, w, &f); /* of code that V8 has freed, nobody waits for that */
	if (w->wish == VM_WANT_METHOD && f.answer == VM_NOTHING) {
		f.answer = VM_NO_METHOD;
		wanted = true;
	}
	if (f.answer == VM_CODE)
		r = take_code(g, x);
	if (f.answer == VM_EMPTY && w->wish == VM_WANT_CODE && g->n_empty < ARRAY_SIZE(g->empty))
		g->empty[g->n_empty++] = f.address;
	if (r < 0 || !wanted)
		return r;
	f.n_rows = 0;
	r = buf_append(&g->found, &f, sizeof f);
	return r == 0 ? buf_append(&g->found, x->names, f.name_bytes) : r;
}

static int take_answer(struct generated *g, const struct vm_wanted *wanted, size_t n,
		       const struct buf *answer)
{
	struct flat_reader from = flat_read(answer->data, answer->len);
	size_t i;
	int r = 1;

	for (i = 0; i < n && r > 0; i++) {
		struct vm_record x = {0};

		r = vm_record_next(&from, &x);
		if (r > 0 && x.found.address != wanted[i].address)
			r = -EBADMSG;
		if (r > 0) {
			const int e = take_record(g, &wanted[i], &x);

			r = e < 0 ? e : r;
		}
		memory_rows_fini(&x.rows);
	}
	/* the job ends with its time: the last record that was read is none */
	for (i -= r == 0 && i > 0; i < n; i++)
		if (wanted[i].wish == VM_WANT_CODE && g->n_later < ARRAY_SIZE(g->later))
			g->later[g->n_later++] = wanted[i].address;
	return r < 0 ? r : 0;
}

/*
 * A virtual machine that starts, or a parser process that the kernel has killed: what samples hit stays
 * unknown, and is requested again.
 */
static void wait_for_vm(struct generated *g, int r)
{
	if (r != -EAGAIN) {
		g->n_not_ready = 0;
	} else if (g->n_not_ready < NOT_READY_MAX) {
		g->wait_until_ns = g->now_ns + (NOT_READY_NS << g->n_not_ready);
		g->n_not_ready++;
	}
}

/* Whether the process has no memory any more: whatever was said of it since, nothing is meant by it. */
static bool memory_is_gone(const struct generated *g, uint64_t address)
{
	uint8_t byte;

	return pread(g->mem, &byte, 1, (off_t)address) == 0;
}

/*
 * Has the virtual machine's code looked at. What it does not know is analysed like other code. 0; -ENOMEM;
 * -ESRCH.
 */
static int ask_vm(struct generated *g)
{
	_cleanup_free_ struct vm_wanted *wanted = NULL;
	_cleanup_buf_ struct buf answer = {0};
	uint64_t before, was, is;
	size_t n;
	int r;

	if (g->vm.refused)
		return 0;
	wanted = calloc(VM_WANTED_MAX, sizeof *wanted);
	if (!wanted)
		return -ENOMEM;
	n = wishes(g, wanted);
	if (!n)
		return 0;
	vm_process_unloaded(&g->vm, &before, &was);
	r = vm_process_run(&g->vm, &g->parser, &(struct vm_target){g->pid, g->mem}, wanted, n, &answer);
	vm_process_unloaded(&g->vm, &before, &is);
	g->stats.unloads += is != was;
	if (is != was || before != is)
		g->unloads_ns = g->now_ns;
	if (memory_is_gone(g, wanted[0].address))
		return -ESRCH;
	if (r == 0)
		r = take_answer(g, wanted, n, &answer);
	if (r == -ENOMEM)
		return r;
	if (r == -EBADMSG)
		g->vm.refused = r;
	wait_for_vm(g, r);
	return 0;
}

/* --- V8's functions */

/* Without an answer in time, nothing more is looked for. 0; -ENOMEM. */
static int answered_by_v8(struct generated *g, int r)
{
	g->v8_refused = r == -EBADMSG || r == -ENOTRECOVERABLE || r == -ETIMEDOUT || r == -ETIME;
	return r == -ENOMEM ? r : 0;
}

/* Has lines found, and what is inlined where. 0; -ENOMEM. */
static int ask_v8(struct generated *g)
{
	int r = 0;

	if (g->n_lines_taken && !g->v8_refused)
		r = answered_by_v8(g,
				   v8_job_run(&g->parser, g->mem, &g->v8, g->lines_taken, g->n_lines_taken));
	if (r == 0 && g->n_v8_code_taken && !g->v8_refused)
		r = answered_by_v8(g, v8_code_job_run(&g->parser, g->mem, &g->v8_process, g->v8_code_taken,
						      g->n_v8_code_taken, &g->v8_records, &g->v8_reports));
	return r;
}

/* All parts as one table, with what is between them as not known yet. Borrows the rules. 0 or -ENOMEM. */
static int lay_out(const struct generated *g, uint32_t pending, struct elf_rows *ret)
{
	size_t n = 1;

	for (size_t i = 0; i < g->n; i++)
		n += g->parts[i]->n + 1u;
	ret->rows = calloc(n, sizeof *ret->rows);
	if (!ret->rows)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		const struct part *p = g->parts[i];

		for (uint32_t k = 0; k < p->n; k++)
			ret->rows[ret->n_rows++] = (struct elf_row){p->start + p->rows[k].off,
								    p->open ? pending : p->rows[k].rule};
		if (i + 1 == g->n || g->parts[i + 1]->start > p->end)
			ret->rows[ret->n_rows++] = (struct elf_row){p->end, pending};
	}
	ret->rules = g->rules.rules;
	ret->n_rules = g->rules.n;
	return 0;
}

static int encode(struct generated *g, struct unwind_blocks *ret, uint64_t *ret_rows)
{
	const struct elf_rule rule = {.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_PENDING};
	const int64_t pending = ruleset_intern(&g->rules, &rule);
	struct elf_rows rows = {0};
	int r;

	if (!g->n)
		return -ENODATA;
	if (pending < 0)
		return (int)pending;
	r = lay_out(g, (uint32_t)pending, &rows);
	if (r == 0)
		r = unwind_blocks_encode(ret, &rows, memory_rows_machine());
	*ret_rows = rows.n_rows;
	free(rows.rows);
	return r;
}

/* Lets the parts be analysed again that have waited long enough. */
static void open_parts(struct generated *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct part *p = g->parts[i];

		if (!p->wait_ns || p->open || g->now_ns < p->again_ns)
			continue;
		p->open = true;
		g->changed = true;
	}
}

static bool is_among(const uint64_t *addresses, size_t n, uint64_t address)
{
	for (size_t i = 0; i < n; i++)
		if (addresses[i] == address)
			return true;
	return false;
}

/*
 * Whether the virtual machine may know code at the address of a request: then it is not analysed by its
 * bytes.
 */
static bool is_of_vm(const struct generated *g, const struct generated_request *q)
{
	return q->wish == GENERATED_METHOD || q->wish == GENERATED_LOOK ||
	       is_among(g->empty, g->n_empty, q->address) || is_among(g->later, g->n_later, q->address);
}

/* 0 or -ENOMEM. */
static int spans_make(struct generated *g)
{
	int r = 0;

	buf_clear(&g->spans);
	for (size_t i = 0; i < g->n && r == 0 && g->vm.vm.kind == VM_HOTSPOT; i++) {
		const struct part *p = g->parts[i];

		r = buf_append(&g->spans,
			       &(struct code_span){.start = p->start,
						   .end = p->end,
						   .found_ns = p->found_ns,
						   .same_ns = p->stays ? 0 : p->same_ns,
						   .look = p->look,
						   .compile_id = p->compile_id,
						   .plain = p->plain,
						   .over = p->over},
			       sizeof(struct code_span));
	}
	return r;
}

int generated_build(struct generated *g, struct unwind_blocks *ret, uint64_t *ret_rows)
{
	int r = mem_open(g);

	g->look++;
	g->now_ns = clock_mono_ns();
	g->wait_until_ns = 0;
	g->changed |= !g->check; /* the table that there was may have been evicted */
	open_parts(g);
	if (r == 0 && g->check)
		r = check_parts(g);
	if (r == 0)
		r = ask_vm(g);
	if (r == 0)
		r = ask_v8(g);
	for (size_t i = 0; i < g->n_taken && r == 0 && !g->wait_until_ns; i++)
		if (!is_of_vm(g, &g->taken[i]))
			r = answer(g, &g->taken[i]);
	g->n_taken = 0;
	parser_session_end(&g->parser);
	if (r == 0)
		r = spans_make(g);
	if (r < 0)
		return r;
	if (!g->changed)
		return -EALREADY;
	g->changed = false;
	return encode(g, ret, ret_rows);
}
