// SPDX-License-Identifier: Apache-2.0
/*
 * Hand-written assembly changes its stack pointer in few ways: by push and pop, by additions, and, where it
 * aligns the stack, with a copy of the old stack pointer in a register or in a word of the new frame (x86inc
 * of x264 and others, libjpeg-turbo, OpenSSL). The state is a set of facts of the forms "CFA = register + n"
 * and "CFA = *(register + n) + m". Each instruction transforms these facts.
 */
#include "agent/elf/code/flow.h"

#include <string.h>

#include "agent/elf/file/arch.h"

#define BIT(n) ((uint16_t)(1u << (n)))
#define SP_ENTRY 8	      /* CFA - rsp at entry */
#define RECORD_BYTES 16	      /* the caller's rbp and the return address */
#define FRAME_MAX (1 << 24)   /* bytes; no function has a larger frame, and sums stay within 32 bits */
#define CALL_CLOBBERS 0x0fc7u /* rax rcx rdx rsi rdi r8-r11: registers that a called function may change */

struct flow_state flow_entry(void)
{
	struct flow_state s;

	memset(&s, 0, sizeof s);
	s.reg[X86_SP] = SP_ENTRY;
	s.known = BIT(X86_SP);
	return s;
}

struct flow_state flow_entry_inside(void)
{
	struct flow_state s;

	memset(&s, 0, sizeof s);
	s.reg[X86_BP] = RECORD_BYTES;
	s.known = BIT(X86_BP);
	s.fp_at = -RECORD_BYTES;
	return s;
}

bool flow_gives_up_others(const struct flow_state *s, const struct x86_insn *insn)
{
	const bool gives_up = insn->op == X86_LEAVE ||
			      (insn->op == X86_MOVE && insn->reg == X86_SP && insn->base == X86_BP);

	return gives_up && !s->taken && !s->fp_at && !(s->known & BIT(X86_BP)) && !s->bp.valid && !s->linked;
}

bool flow_at_entry(const struct flow_state *s)
{
	return s->known & BIT(X86_SP) && s->reg[X86_SP] == SP_ENTRY &&
	       (!s->fp_at || s->fp_at == FLOW_FP_LOST);
}

static struct flow_slot *slot_of(struct flow_state *s, uint8_t reg)
{
	return reg == X86_SP ? &s->sp : reg == X86_BP ? &s->bp : NULL;
}

static bool is_known(const struct flow_state *s, uint8_t reg)
{
	return reg < X86_REGS && s->known & BIT(reg);
}

static void forget(struct flow_state *s, uint8_t reg)
{
	struct flow_slot *slot = slot_of(s, reg);

	s->known &= (uint16_t)~BIT(reg);
	s->reg[reg] = 0;
	if (!slot)
		return;
	*slot = (struct flow_slot){0};
	*(reg == X86_SP ? &s->fp_sp : &s->fp_bp) = (struct flow_saved){0};
	s->linked = 0;
	s->apart = 0;
}

static void learn(struct flow_state *s, uint8_t reg, int32_t below)
{
	s->known |= BIT(reg);
	s->reg[reg] = below;
}

/* Keeps the distance between rsp and rbp, one of which has become `from` + disp. */
static void link_pair(struct flow_state *s, const struct flow_state *before, uint8_t to, uint8_t from,
		      int32_t disp)
{
	if (to == from && !before->linked)
		return;
	s->linked = 1;
	if (to == from)
		s->apart = before->apart + (to == X86_SP ? disp : -disp);
	else
		s->apart = to == X86_SP ? disp : -disp;
}

/* to = from + disp; both may be the same register. */
static void copy(struct flow_state *s, uint8_t to, uint8_t from, int32_t disp)
{
	const struct flow_state before = *s;
	const struct flow_slot *source = from == X86_SP ? &before.sp : from == X86_BP ? &before.bp : NULL;
	const struct flow_saved *saved = from == X86_SP ? &before.fp_sp : &before.fp_bp;
	struct flow_slot *target = slot_of(s, to);

	forget(s, to);
	if (is_known(&before, from))
		learn(s, to, before.reg[from] - disp);
	if (!target || !source)
		return;
	if (source->valid)
		*target = (struct flow_slot){.valid = 1, .at = source->at - disp, .add = source->add};
	if (saved->valid)
		*(to == X86_SP ? &s->fp_sp : &s->fp_bp) = (struct flow_saved){1, saved->at - disp};
	link_pair(s, &before, to, from, disp);
}

/*
 * rbp changes before it was saved, as in functions that are called by their neighbours only. With the return
 * address in a register, a function makes its caller's frame for it (V8).
 */
static void lose_fp(struct flow_state *s)
{
	if (!s->fp_at && !s->taken_to)
		s->fp_at = FLOW_FP_LOST;
}

/* The word at base + at has become the CFA - add. */
static void hold_cfa(struct flow_state *s, uint8_t base, int32_t at, int32_t add)
{
	*slot_of(s, base) = (struct flow_slot){.valid = 1, .at = at, .add = add};
	if (s->linked)
		*slot_of(s, base == X86_SP ? X86_BP : X86_SP) = (struct flow_slot){
			.valid = 1, .at = base == X86_SP ? at + s->apart : at - s->apart, .add = add};
}

/*
 * Whether the return address is where it belongs behind a push: one that was popped has been put back there.
 * Behind others, words may be between the CFA and it: a function that others call puts arguments of its own
 * there, and jumps to one that has nothing else to do with its frame (V8).
 */
static bool put_back(struct flow_state *s, uint8_t reg)
{
	if (!s->taken)
		return true;
	if (reg >= X86_REGS || !(s->taken_to & BIT(reg)) || !is_known(s, X86_SP) || s->reg[X86_SP] != 0)
		return false;
	s->taken = s->taken_to = 0;
	return true;
}

/* A register changes in a way that is not tracked. */
static void overwrite(struct flow_state *s, uint16_t writes)
{
	if (writes & BIT(X86_BP))
		lose_fp(s);
	for (unsigned r = 0; r < X86_REGS; r++)
		if (writes & BIT(r))
			forget(s, r);
}

/*
 * With the return address in a register, the stack pointer moves over arguments that the function drops, or
 * below others that it adds: what it leaves is what its caller goes on with, so the CFA moves along (V8's
 * functions; alloca).
 */
static bool move_arguments(struct flow_state *s, const struct x86_insn *i)
{
	const bool moves = i->op == X86_PUSH  ? i->reg >= X86_REGS || !(s->taken_to & BIT(i->reg))
			   : i->op == X86_POP ? i->reg != X86_SP
			   : i->op == X86_ADD || i->op == X86_LEA || i->op == X86_MOVE
				   ? i->reg == X86_SP
				   : i->writes & BIT(X86_SP);

	if (!s->taken_to || s->fp_at < 0 || !moves)
		return false;
	overwrite(s, i->writes);
	for (uint8_t r = 0; r < X86_REGS; r++)
		forget(s, r);
	learn(s, X86_SP, 0);
	return true;
}

static void push(struct flow_state *s, uint8_t reg)
{
	copy(s, X86_SP, X86_SP, -8);
	if (is_known(s, reg) && reg != X86_SP && !is_known(s, X86_SP))
		hold_cfa(s, X86_SP, 0, s->reg[reg]);
	else if (s->sp.valid && s->sp.at < 8)
		s->sp = (struct flow_slot){0}; /* the push overwrites it */
	if (reg != X86_BP || s->fp_at)
		return;
	if (is_known(s, X86_SP)) {
		s->fp_at = -s->reg[X86_SP];
	} else {
		s->fp_at = FLOW_FP_SAVED;
		s->fp_sp = (struct flow_saved){1, 0};
	}
}

static void restore_fp(struct flow_state *s)
{
	s->fp_at = 0;
	s->fp_sp = s->fp_bp = (struct flow_saved){0};
}

static bool pop(struct flow_state *s, uint8_t reg)
{
	const bool holds_fp = (is_known(s, X86_SP) && s->fp_at && s->fp_at == -s->reg[X86_SP]) ||
			      (s->fp_at == FLOW_FP_SAVED && s->fp_sp.valid && !s->fp_sp.at);

	const struct flow_slot slot = s->sp;

	if (reg == X86_SP) {
		forget(s, X86_SP);
		if (!slot.valid || slot.at != 0)
			return false;
		learn(s, X86_SP, slot.add);
		return true;
	}
	if (is_known(s, X86_SP) && s->reg[X86_SP] == SP_ENTRY) {
		s->taken = 1;
		s->taken_to = reg == X86_NO_REG ? 0 : BIT(reg);
	}
	copy(s, X86_SP, X86_SP, 8);
	if (reg == X86_NO_REG)
		return true;
	forget(s, reg);
	if (slot.valid && slot.at == 0)
		learn(s, reg, slot.add);
	if (reg == X86_BP) {
		if (holds_fp)
			restore_fp(s);
		else
			lose_fp(s);
	}
	return true;
}

static void load(struct flow_state *s, const struct x86_insn *i)
{
	const struct flow_slot *slot = slot_of(s, i->base);
	const bool cfa = slot && slot->valid && slot->at == i->disp;
	const int32_t add = cfa ? slot->add : 0;

	const struct flow_saved *saved = i->base == X86_BP ? &s->fp_bp : &s->fp_sp;
	const bool holds_fp = (is_known(s, i->base) && s->fp_at && s->fp_at == i->disp - s->reg[i->base]) ||
			      (slot && s->fp_at == FLOW_FP_SAVED && saved->valid && saved->at == i->disp);

	forget(s, i->reg);
	if (i->reg == X86_BP) {
		if (holds_fp)
			restore_fp(s);
		else
			lose_fp(s);
	}
	if (cfa)
		learn(s, i->reg, add);
}

static void store(struct flow_state *s, const struct x86_insn *i)
{
	struct flow_slot *slot = slot_of(s, i->base);
	int64_t apart = slot ? (int64_t)i->disp - slot->at : 0;

	if (slot && is_known(s, i->reg) && !is_known(s, i->base))
		hold_cfa(s, i->base, i->disp, s->reg[i->reg]);
	else if (slot && slot->valid && apart > -8 && apart < 8)
		*slot = (struct flow_slot){0};
	if (i->reg == X86_BP && !s->fp_at && is_known(s, i->base) && !is_known(s, X86_BP))
		s->fp_at = i->disp - s->reg[i->base];
}

/* Distances in a frame. Sums of two of them do not overflow. */
static bool is_near(int32_t distance)
{
	return distance >= -FRAME_MAX && distance <= FRAME_MAX;
}

static bool apply(struct flow_state *s, const struct x86_insn *i)
{
	const bool is_operand =
		i->op == X86_ADD || i->op == X86_LEA || i->op == X86_LOAD || i->op == X86_STORE;

	if (is_operand && !is_near(i->disp)) { /* of no frame */
		overwrite(s, i->writes);
		return true;
	}
	if (move_arguments(s, i))
		return true;
	switch (i->op) {
	case X86_PUSH:
		if (!put_back(s, i->reg))
			return false;
		push(s, i->reg);
		return true;
	case X86_POP:
		return pop(s, i->reg);
	case X86_ADD:
	case X86_LEA:
	case X86_MOVE:
		if (i->reg == X86_BP)
			lose_fp(s);
		copy(s, i->reg, i->op == X86_ADD ? i->reg : i->base, i->op == X86_MOVE ? 0 : i->disp);
		return true;
	case X86_LOAD:
		load(s, i);
		return true;
	case X86_STORE: /* over the return address: it is elsewhere, or there is another */
		if (is_known(s, i->base) && i->disp - s->reg[i->base] == FLOW_RETURN_AT)
			return false;
		store(s, i);
		return true;
	case X86_LEAVE:
		copy(s, X86_SP, X86_BP, 0);
		return pop(s, X86_BP);
	case X86_CALL: /* what a function of the same file preserves is known to its author only */
		return true;
	case X86_CALL_FAR_AWAY:
		overwrite(s, CALL_CLOBBERS);
		return true;
	default:
		overwrite(s, i->writes);
		return true;
	}
}

/* Words below rsp belong to nobody: a signal handler may overwrite them. */
static void forget_below(struct flow_state *s)
{
	if (s->sp.valid && s->sp.at < 0)
		s->sp = (struct flow_slot){0};
	if (s->linked && s->bp.valid && s->bp.at - s->apart < 0)
		s->bp = (struct flow_slot){0};
}

static void forget_far(struct flow_state *s)
{
	if (!is_near(s->sp.at))
		s->sp = (struct flow_slot){0};
	if (!is_near(s->bp.at))
		s->bp = (struct flow_slot){0};
	if (!is_near(s->fp_sp.at))
		s->fp_sp = (struct flow_saved){0};
	if (!is_near(s->fp_bp.at))
		s->fp_bp = (struct flow_saved){0};
	if (!is_near(s->apart))
		s->linked = 0, s->apart = 0;
}

bool flow_step(struct flow_state *s, const struct x86_insn *insn)
{
	s->taken_to &= (uint16_t)~insn->writes;
	if (!apply(s, insn))
		return false;
	forget_far(s);
	forget_below(s);
	for (unsigned r = 0; r < X86_REGS; r++)
		if (s->reg[r] > FRAME_MAX || s->reg[r] < -FRAME_MAX)
			return false;
	/* words above the CFA belong to the caller, words below rsp to nobody */
	return (s->known || s->sp.valid || s->bp.valid) && (!is_known(s, X86_SP) || s->reg[X86_SP] >= 0);
}

static void meet_saved(struct flow_saved *a, const struct flow_saved *b)
{
	if (memcmp(a, b, sizeof *a) != 0)
		*a = (struct flow_saved){0};
}

static void meet_slot(struct flow_slot *a, const struct flow_slot *b)
{
	if (memcmp(a, b, sizeof *a) != 0)
		*a = (struct flow_slot){0};
}

/* Whether another register than rsp has the same known distance from the CFA in both. */
static bool shares_base(const struct flow_state *s, const struct flow_state *other)
{
	for (unsigned r = 0; r < X86_REGS; r++)
		if (r != X86_SP && is_known(s, (uint8_t)r) && is_known(other, (uint8_t)r) &&
		    s->reg[r] == other->reg[r])
			return true;
	return false;
}

bool flow_meet(struct flow_state *s, const struct flow_state *other, bool *ret_changed)
{
	const struct flow_state before = *s;

	if (s->fp_at != other->fp_at) {
		if (s->fp_at > 0 || other->fp_at > 0)
			s->fp_at = FLOW_FP_LOST;
		else
			return false;
	}
	/* with a frame pointer, or a copy of the stack pointer, its distance may vary */
	if (is_known(s, X86_SP) && is_known(other, X86_SP) && s->reg[X86_SP] != other->reg[X86_SP] &&
	    !shares_base(s, other))
		return false;
	if (s->taken != other->taken)
		return false;
	s->taken_to &= other->taken_to;
	for (unsigned r = 0; r < X86_REGS; r++) {
		if (is_known(s, r) && (!is_known(other, r) || s->reg[r] != other->reg[r])) {
			s->known &= (uint16_t)~BIT(r);
			s->reg[r] = 0;
		}
	}
	meet_slot(&s->sp, &other->sp);
	meet_slot(&s->bp, &other->bp);
	meet_saved(&s->fp_sp, &other->fp_sp);
	meet_saved(&s->fp_bp, &other->fp_bp);
	if (s->linked != other->linked || s->apart != other->apart)
		s->linked = 0, s->apart = 0;
	if (s->fp_at == FLOW_FP_SAVED && !s->fp_sp.valid && !s->fp_bp.valid)
		s->fp_at = FLOW_FP_LOST;
	if (s->fp_at != FLOW_FP_SAVED)
		s->fp_sp = s->fp_bp = (struct flow_saved){0};
	*ret_changed = memcmp(s, &before, sizeof before) != 0;
	return s->known || s->sp.valid || s->bp.valid;
}

/* Whether rbp points to the frame record of the function: to the caller's rbp, below the return address. */
static bool has_record(const struct flow_state *s)
{
	return is_known(s, X86_BP) && s->reg[X86_BP] == RECORD_BYTES && s->fp_at == -RECORD_BYTES;
}

/*
 * By the frame record rather than by rsp, which is not what it seems where the called function has dropped
 * its arguments (V8). A function that makes a record needs its rbp to return, so all that it calls preserve
 * it.
 */
struct elf_rule flow_rule(const struct flow_state *s)
{
	struct elf_rule r = {.ra = {.kind = REG_CFA_OFF, .off = -8}, .flags = s->guessed ? RULE_CHECKED : 0};
	const struct flow_slot *slot = s->bp.valid ? &s->bp : &s->sp;
	uint8_t base = is_known(s, X86_SP) && !has_record(s) ? X86_SP
		       : is_known(s, X86_BP)		     ? X86_BP
							     : X86_NO_REG;

	if (base == X86_NO_REG && slot->valid) {
		r.cfa_kind = CFA_DEREF_REG;
		r.cfa_reg = x86_dwarf_number(s->bp.valid ? X86_BP : X86_SP);
		r.cfa_off = slot->at;
		r.cfa_add = slot->add;
	} else {
		for (uint8_t i = X86_REGS; base == X86_NO_REG && i-- > 0;)
			base = is_known(s, i) ? i : base;
		r.cfa_kind = CFA_REG_OFF;
		r.cfa_reg = x86_dwarf_number(base);
		r.cfa_off = s->reg[base];
	}
	if (s->taken_to)
		r.ra = (struct elf_reg_rule){.kind = REG_REGISTER,
					     .reg = x86_dwarf_number((uint8_t)__builtin_ctz(s->taken_to))};
	if (s->fp_at == FLOW_FP_SAVED && s->fp_bp.valid)
		r.fp = (struct elf_reg_rule){
			.kind = REG_DEREF_REG, .reg = x86_dwarf_number(X86_BP), .off = s->fp_bp.at};
	else if (s->fp_at > 0)
		r.fp.kind = REG_UNDEFINED;
	else if (s->fp_at)
		r.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = s->fp_at};
	return r;
}
