// SPDX-License-Identifier: Apache-2.0
/*
 * A shadow stack for arm64: executes a program one instruction at a time, keeps the stack of calls that the
 * executed calls and returns make, and compares it, at every instruction, with what the rows of
 * `proflet tables` say of the innermost frame. It shares no code with the agent: it reads the rows as text
 * and computes their rules itself.
 *
 *	steps STEPS ROWS PROGRAM [ARGUMENT...]
 *
 * ROWS is a folder: the rows of /usr/lib/x are in the file usr%lib%x. Prints places whose rows were wrong, or
 * that had none, and a last line with the counts.
 *
 * A frame counts from the call; tail calls stay in it. A stack pointer above that of a call ends the frames
 * below (longjmp, exceptions). Return addresses may be signed: XPACLRI says what belongs to an address.
 */
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES_MAX 65536
#define MAPPINGS_MAX 1024
#define PLACES_MAX 4096
#define PLACES_SHOWN 12
#define CODE_SLOTS 65536
#define X29 29
#define X30 30

/* struct user_pt_regs */
struct registers {
	uint64_t x[31], sp, pc, pstate;
};

struct frame {
	uint64_t ra, sp, fp; /* of the caller after the return */
};

enum place_kind { IN_REGISTER, AT_CFA, UNDEFINED, OTHER };

struct place {
	enum place_kind kind;
	int64_t off;
};

struct row {
	uint64_t start, end;
	int base; /* register of the CFA, 31: sp; -1: the outermost frame; -2: another rule */
	int64_t off;
	struct place fp, ra;
};

struct mapping {
	uint64_t start, end, bias;
	char path[256];
	struct row *rows;
	size_t n;
};

enum verdict { RIGHT, WRONG, UNCOVERED, UNKNOWN, VERDICTS };

struct spot {
	uint64_t pc;
	enum verdict verdict;
	uint64_t n;
};

static pid_t pid;
static struct registers regs;
static struct frame frames[FRAMES_MAX];
static size_t n_frames;
static bool rooted = true; /* below the first frame there is nothing */
static struct mapping mappings[MAPPINGS_MAX];
static size_t n_mappings;
static struct spot spots[PLACES_MAX];
static size_t n_spots;
static uint64_t counts[VERDICTS], signature;
static const char *rows_folder;

static struct {
	uint64_t pc;
	uint32_t word;
} code[CODE_SLOTS];

static void fail(const char *what)
{
	fprintf(stderr, "steps: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool read_memory(uint64_t address, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)address, len};

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static void read_registers(void)
{
	struct iovec v = {&regs, sizeof regs};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &v) < 0)
		fail("registers");
}

static uint64_t plain(uint64_t address)
{
	return address & ~signature;
}

/* A stop then costs two context switches, and no interrupt of another CPU. */
static void share_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void read_signature(void)
{
	register uint64_t x30 __asm__("x30") = (1ull << 55) - 1;

	__asm__ volatile("hint #7" : "+r"(x30));
	signature = ((1ull << 55) - 1) & ~x30;
}

/* --- rows */

static struct place parse_place(const char *text)
{
	if (strncmp(text, "cfa", 3) == 0)
		return (struct place){AT_CFA, strtoll(text + 3, NULL, 10)};
	if (strcmp(text, "same") == 0 || strcmp(text, "x30") == 0)
		return (struct place){IN_REGISTER, 0};
	return (struct place){strcmp(text, "undef") == 0 ? UNDEFINED : OTHER, 0};
}

static void parse_cfa(struct row *row, const char *text)
{
	char *end;

	row->base = -2;
	if (strcmp(text, "undef") == 0) {
		row->base = -1;
	} else if (strncmp(text, "sp+", 3) == 0 || strncmp(text, "sp-", 3) == 0) {
		row->base = 31;
		row->off = strtoll(text + 2, NULL, 10);
	} else if (text[0] == 'x') {
		long reg = strtol(text + 1, &end, 10);

		if (reg >= 0 && reg < 31 && (*end == '+' || *end == '-')) {
			row->base = (int)reg;
			row->off = strtoll(end, NULL, 10);
		}
	}
}

static void read_rows(struct mapping *m)
{
	char name[512], line[256], cfa[64], fp[64], ra[64];
	size_t cap = 0;
	FILE *f;

	snprintf(name, sizeof name, "%s/%s", rows_folder, m->path + 1);
	for (char *p = name + strlen(rows_folder) + 1; *p; p++)
		*p = *p == '/' ? '%' : *p;
	f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f)) {
		struct row row = {0};

		if (sscanf(line, "%lx %lx %63s %63s %63s", &row.start, &row.end, cfa, fp, ra) != 5)
			continue;
		parse_cfa(&row, cfa);
		row.fp = parse_place(fp);
		row.ra = parse_place(ra);
		if (m->n == cap) {
			cap = cap ? cap * 2 : 1024;
			m->rows = realloc(m->rows, cap * sizeof *m->rows);
			if (!m->rows)
				fail("rows");
		}
		m->rows[m->n++] = row;
	}
	if (f)
		fclose(f);
}

/* Where a file's ELF addresses are, by the program header of the segment with this file offset. */
static uint64_t bias_of(const char *path, uint64_t start, uint64_t offset)
{
	Elf64_Ehdr header;
	Elf64_Phdr p;
	uint64_t bias = 0;
	FILE *f = fopen(path, "r");

	if (!f || fread(&header, sizeof header, 1, f) != 1)
		header.e_phnum = 0;
	for (int i = 0; i < header.e_phnum; i++) {
		if (fseek(f, (long)(header.e_phoff + (uint64_t)i * sizeof p), SEEK_SET) < 0 ||
		    fread(&p, sizeof p, 1, f) != 1)
			break;
		if (p.p_type == PT_LOAD && offset + 4096 > p.p_offset && offset < p.p_offset + p.p_filesz)
			bias = start - (p.p_vaddr - p.p_offset + offset);
	}
	if (f)
		fclose(f);
	return bias;
}

/* The file's rows, if another mapping has read them. */
static bool share_rows(struct mapping *m)
{
	for (size_t i = 0; i < n_mappings; i++)
		if (strcmp(mappings[i].path, m->path) == 0) {
			m->rows = mappings[i].rows;
			m->n = mappings[i].n;
			return true;
		}
	return false;
}

static void read_mappings(void)
{
	char name[64], line[512], rights[8];
	FILE *f;

	snprintf(name, sizeof name, "/proc/%d/maps", pid);
	f = fopen(name, "r");
	if (!f)
		fail(name);
	while (fgets(line, sizeof line, f)) {
		struct mapping m = {0};
		uint64_t offset;
		bool known = false;

		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255s", &m.start, &m.end, rights, &offset, m.path) <
			    4 ||
		    rights[2] != 'x')
			continue;
		for (size_t i = 0; i < n_mappings; i++)
			known = known || (mappings[i].start == m.start && mappings[i].end == m.end);
		if (known || n_mappings == MAPPINGS_MAX)
			continue;
		if (m.path[0] == '/') {
			m.bias = bias_of(m.path, m.start, offset);
			if (!share_rows(&m))
				read_rows(&m);
		}
		mappings[n_mappings++] = m;
	}
	fclose(f);
}

static const struct mapping *mapping_at(uint64_t pc)
{
	for (int again = 0; again < 2; again++) {
		for (size_t i = n_mappings; i-- > 0;)
			if (pc - mappings[i].start < mappings[i].end - mappings[i].start)
				return &mappings[i];
		if (!again)
			read_mappings();
	}
	return NULL;
}

static const struct row *row_at(uint64_t pc)
{
	const struct mapping *m = mapping_at(pc);
	size_t low = 0, high = m ? m->n : 0;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (m->rows[middle].end <= pc - m->bias)
			low = middle + 1;
		else
			high = middle;
	}
	return m && low < m->n && m->rows[low].start <= pc - m->bias ? &m->rows[low] : NULL;
}

/* --- the shadow stack */

static uint32_t word_at(uint64_t pc)
{
	const size_t slot = pc / 4 % CODE_SLOTS;

	if (code[slot].pc != pc) {
		code[slot].pc = pc;
		if (!read_memory(pc, &code[slot].word, sizeof code[slot].word))
			code[slot].word = 0;
	}
	return code[slot].word;
}

static bool is_call(uint32_t word)
{
	return word >> 26 == 0x25 || (word & 0xfefff000) == 0xd63f0000;
}

static bool is_return(uint32_t word)
{
	return (word & 0xfffffc1f) == 0xd65f0000 || (word & 0xfffffbff) == 0xd65f0bff;
}

static void follow(const struct registers *before, uint32_t word)
{
	if (is_call(word) && regs.pc != before->pc) {
		if (n_frames == FRAMES_MAX) {
			n_frames = 0;
			rooted = false;
		}
		frames[n_frames++] = (struct frame){before->pc + 4, before->sp, before->x[X29]};
		return;
	}
	while (n_frames && frames[n_frames - 1].sp < regs.sp)
		n_frames--; /* left behind */
	if (is_return(word) && n_frames && frames[n_frames - 1].ra == regs.pc &&
	    frames[n_frames - 1].sp == regs.sp)
		n_frames--;
}

/* --- judging */

static bool find(const struct place *place, uint64_t cfa, uint64_t in_register, uint64_t *ret)
{
	*ret = in_register;
	return place->kind == IN_REGISTER ||
	       (place->kind == AT_CFA && read_memory(cfa + (uint64_t)place->off, ret, sizeof *ret));
}

static enum verdict judge(void)
{
	const struct row *row = row_at(regs.pc);
	const struct frame *f = n_frames ? &frames[n_frames - 1] : NULL;
	uint64_t cfa, ra, fp;

	if (!f && !rooted)
		return UNKNOWN;
	if (!row || row->base == -2)
		return UNCOVERED;
	if (row->base == -1)
		return f ? WRONG : RIGHT;
	if (!f)
		return WRONG;
	cfa = (row->base == 31 ? regs.sp : regs.x[row->base]) + (uint64_t)row->off;
	if (cfa != f->sp || !find(&row->ra, cfa, regs.x[X30], &ra) || plain(ra) != f->ra)
		return WRONG;
	if (row->fp.kind == UNDEFINED)
		return RIGHT;
	return find(&row->fp, cfa, regs.x[X29], &fp) && fp == f->fp ? RIGHT : WRONG;
}

static void count(enum verdict v)
{
	size_t i = 0;

	counts[v]++;
	if (v != WRONG && v != UNCOVERED)
		return;
	while (i < n_spots && (spots[i].pc != regs.pc || spots[i].verdict != v))
		i++;
	if (i == PLACES_MAX)
		return;
	if (i == n_spots)
		spots[n_spots++] = (struct spot){regs.pc, v, 0};
	spots[i].n++;
}

static int more(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;

	return (x->n < y->n) - (x->n > y->n);
}

static void report(const char *program)
{
	uint64_t steps = 0;

	qsort(spots, n_spots, sizeof *spots, more);
	for (size_t i = 0; i < n_spots && i < PLACES_SHOWN; i++) {
		const struct mapping *m = mapping_at(spots[i].pc);

		printf("  %s %lu times: %s+0x%lx\n", spots[i].verdict == WRONG ? "wrong" : "no row",
		       spots[i].n, m && m->path[0] ? m->path : "?", m ? spots[i].pc - m->bias : spots[i].pc);
	}
	for (int i = 0; i < VERDICTS; i++)
		steps += counts[i];
	printf("%s: %lu steps, %lu right, %lu wrong, %lu without a row, %lu not judged\n", program, steps,
	       counts[RIGHT], counts[WRONG], counts[UNCOVERED], counts[UNKNOWN]);
}

/* Until so many steps were judged. */
static void run(uint64_t steps)
{
	int status, signal = 0;

	for (uint64_t i = 0; i < steps;) {
		const struct registers before = regs;
		const uint32_t word = word_at(regs.pc);

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)signal) < 0 ||
		    waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
			return; /* it has ended */
		signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		read_registers();
		if (signal || regs.pc == before.pc) { /* what a handler does is not followed */
			rooted = rooted && !signal;
			continue;
		}
		follow(&before, word);
		count(judge());
		i++;
	}
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 4) {
		fprintf(stderr, "usage: steps STEPS ROWS PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	rows_folder = argv[2];
	read_signature();
	share_cpu();
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(127);
		personality(ADDR_NO_RANDOMIZE);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[3], argv + 3);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		fail(argv[3]);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_EXITKILL);
	read_registers();
	run(strtoull(argv[1], NULL, 10));
	report(argv[3]);
	kill(pid, SIGKILL);
	return counts[WRONG] != 0;
}
