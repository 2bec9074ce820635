// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/buf.h"
#include "agent/base/fs.h"

/* Byte offset of the interrupted registers in the frame that the kernel makes for a handler (struct
 * rt_sigframe: return address, ucontext; gregs r8.. at 40 in it). */
#define SIGFRAME_RBP 128
#define SIGFRAME_RSP 168
#define SIGFRAME_RIP 176
#define SYSCALL_BYTES 2

int watch_init(struct watch *w, const struct watch_options *options, char *const argv[])
{
	int r;

	*w = (struct watch){.options = options, .stopped = "ended"};
	judge_init(&w->judge);
	shadow_init(&w->shadow, judge_frame_end, &w->judge);
	w->shadow.now.rooted = true;
	r = code_init(&w->code);
	if (r == 0)
		r = tracee_start(&w->tracee, argv, options->output);
	if (r == 0)
		r = tables_new(&w->tables, &w->tracee, options->corrupt);
	if (r < 0)
		return r;
	w->judge.tables = w->tables;
	tables_set_part(w->tables, options->part_low, options->part_high);
	return tables_refresh(w->tables);
}

void watch_fini(struct watch *w)
{
	tracee_end(&w->tracee);
	shadow_fini(&w->shadow);
	judge_fini(&w->judge);
	tables_free(w->tables);
	code_fini(&w->code);
}

static int refresh(struct watch *w)
{
	code_forget(&w->code);
	return tables_refresh(w->tables);
}

/* --- what an instruction did */

static int entered_handler(struct watch *w, const struct user_regs_struct *from)
{
	const struct user_regs_struct *to = &w->tracee.regs;
	struct user_regs_struct context = *from;
	uint64_t restorer, rip;

	if (tracee_read(&w->tracee, to->rsp, &restorer, 8) != 8 ||
	    tracee_read(&w->tracee, to->rsp + SIGFRAME_RIP, &rip, 8) != 8)
		return -EFAULT;
	if (rip == from->rip - SYSCALL_BYTES) /* a system call that will be made again */
		context.rip = rip;
	return shadow_signal(&w->shadow, &context, to, restorer);
}

static bool changes_text(const struct watch *w, const struct user_regs_struct *from)
{
	switch (from->rax) {
	case SYS_mmap:
		return from->rdx & PROT_EXEC || tables_covers(w->tables, w->tracee.regs.rax, from->rsi);
	case SYS_mprotect:
		return from->rdx & PROT_EXEC || tables_covers(w->tables, from->rdi, from->rsi);
	case SYS_munmap:
	case SYS_mremap:
		return tables_covers(w->tables, from->rdi, from->rsi);
	default:
		return false;
	}
}

static int did_syscall(struct watch *w, const struct user_regs_struct *from)
{
	const struct user_regs_struct *to = &w->tracee.regs;

	switch (from->rax) {
	case SYS_rt_sigreturn:
		shadow_sigreturn(&w->shadow, to);
		return 0;
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
		w->not_followed += (int64_t)to->rax > 0;
		return 0;
	default:
		return changes_text(w, from) ? refresh(w) : 0;
	}
}

static int stepped(struct watch *w, enum insn_kind kind, const struct user_regs_struct *from)
{
	const struct user_regs_struct *to = &w->tracee.regs;
	const bool reads = kind == INSN_CALL || (kind == INSN_JUMP && w->shadow.leaving.id);
	uint64_t top = 0;
	int r;

	if (w->tracee.caught)
		return entered_handler(w, from);
	if (w->tracee.signal && to->rip == from->rip && to->rsp == from->rsp)
		return 0; /* not yet */
	if (reads && tracee_read(&w->tracee, to->rsp, &top, 8) != 8)
		return -EFAULT;
	r = shadow_step(&w->shadow, kind, from, to, top);
	return r == 0 && kind == INSN_SYSCALL ? did_syscall(w, from) : r;
}

static int restarted(struct watch *w, bool rooted)
{
	shadow_reset(&w->shadow, rooted);
	return refresh(w);
}

/* --- the loop */

/*
 * The same frame at the same place for the n-th time: what was read from the stack before need not be read
 * again. A return address does not move, and neither does a saved frame pointer while its frame lives.
 */
#define FULL_VISITS 64

static bool agrees(struct watch *w, uint32_t visits)
{
	const struct shadow_frame *f = shadow_current(&w->shadow);

	return f && visits > FULL_VISITS && !f->signal && !f->popped &&
	       tables_agree(w->tables, &w->tracee.regs, f->sp, f->fp, f->fp_slot);
}

static int look(struct watch *w, uint32_t visits)
{
	const struct watch_options *o = w->options;
	struct unwound got;
	bool walk = o->walk && w->steps % o->walk == 0;
	int r;

	if (w->steps % o->every)
		return 0;
	if (!o->full && !walk && agrees(w, visits)) {
		judge_agreed(&w->judge, w->tables, w->tracee.regs.rip);
		return 0;
	}
	tables_unwind(w->tables, &w->tracee.regs, &got);
	r = judge_step(&w->judge, &w->shadow, w->tables, &w->tracee.regs, &got);
	if (r == 0 && walk) {
		tables_unwind(w->tables, &w->tracee.regs, &got);
		r = judge_walk(&w->judge, &w->shadow, w->tables, got, &w->tracee.regs);
	}
	return r;
}

/* One instruction; TRACEE_STEPPED and TRACEE_EXEC to go on. */
static int one(struct watch *w, bool judge)
{
	struct user_regs_struct from = w->tracee.regs;
	uint32_t visits;
	int kind = code_kind(&w->code, &w->tracee, w->tables, from.rip, &visits), r = 0, event;

	if (kind >= 0 && judge)
		r = look(w, visits);
	if (kind < 0 || r < 0)
		return kind < 0 ? kind : r;
	event = tracee_step(&w->tracee);
	w->steps++;
	if (event == TRACEE_EXEC)
		r = restarted(w, true);
	else if (event == TRACEE_STEPPED)
		r = stepped(w, (enum insn_kind)kind, &from);
	return r < 0 ? r : event;
}

static int free_run(struct watch *w, uint64_t ns)
{
	int event = tracee_run(&w->tracee, ns), r;

	if (event != TRACEE_STEPPED)
		return event;
	r = restarted(w, false);
	return r < 0 ? r : event;
}

static int entry_of(const struct watch *w, uint64_t *ret)
{
	_cleanup_buf_ struct buf b = {0};
	char path[64];
	int r;

	snprintf(path, sizeof path, "/proc/%d/auxv", w->tracee.pid);
	r = fs_read_file(path, 4096, &b);
	for (size_t i = 0; r == 0 && i + 16 <= b.len; i += 16) {
		uint64_t entry[2];

		memcpy(entry, b.data + i, sizeof entry);
		if (entry[0] == AT_ENTRY) {
			*ret = entry[1];
			return 0;
		}
	}
	return r < 0 ? r : -ENOENT;
}

/* _start hands main to its first call, in rdi. */
static int run_to_main(struct watch *w)
{
	uint64_t entry = 0;
	int r = entry_of(w, &entry);

	if (r == 0)
		r = tracee_run_to(&w->tracee, entry);
	if (r == TRACEE_STEPPED)
		r = restarted(w, true);
	while (r == TRACEE_STEPPED && !w->shadow.now.n)
		r = one(w, false);
	if (r == TRACEE_STEPPED)
		r = tracee_run_to(&w->tracee, w->tracee.regs.rdi);
	if (r != TRACEE_STEPPED)
		return r;
	w->steps = 0;
	return restarted(w, false);
}

static int begin(struct watch *w)
{
	const struct watch_options *o = w->options;

	if (o->from_main)
		return run_to_main(w);
	return o->from_ns ? free_run(w, o->from_ns) : TRACEE_STEPPED;
}

int watch_run(struct watch *w)
{
	const struct watch_options *o = w->options;
	int r;

	tracee_deadline((unsigned)o->seconds);
	r = begin(w);
	while (r == TRACEE_STEPPED || r == TRACEE_EXEC) {
		if (w->steps >= o->steps) {
			w->stopped = "stopped at --steps";
			return 0;
		}
		if (o->burst && w->steps && w->steps % o->burst == 0) {
			r = free_run(w, o->gap_ns);
			if (r != TRACEE_STEPPED)
				break;
		}
		r = one(w, true);
	}
	if (r == TRACEE_LATE)
		w->stopped = "stopped at --seconds";
	return r < 0 ? r : 0;
}
