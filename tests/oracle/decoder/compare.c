// SPDX-License-Identifier: Apache-2.0
/*
 * From what Zydis says of an instruction, the operation is derived that proflet's decoder should name. Where
 * it names none (X86_OTHER and the like), the registers that change must be in its set.
 */
#include "tests/oracle/decoder/compare.h"

#include <stdbool.h>

#define BIT(n) ((uint16_t)(1u << (n)))
#define EXPECTED_ANY 0xff /* an operation about which the decoder need not say more than what it changes */

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

void compare_init(ZydisDecoder *decoder)
{
	ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* The number of the 64-bit register that has this one; X86_NO_REG: it is no general one. */
static uint8_t number_of(ZydisRegister reg)
{
	const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64 ? (uint8_t)ZydisRegisterGetId(whole)
								    : X86_NO_REG;
}

static uint16_t written(const struct decoded *d)
{
	uint16_t mask = 0;

	for (unsigned i = 0; i < d->insn.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->ops[i];

		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE && number_of(op->reg.value) != X86_NO_REG)
			mask |= BIT(number_of(op->reg.value));
	}
	return mask;
}

static bool is_register(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(op->reg.value) == ZYDIS_REGCLASS_GPR64;
}

/* Memory at a 64-bit register and a number, of the data segment. */
static bool is_simple(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       is_register(&(ZydisDecodedOperand){.type = ZYDIS_OPERAND_TYPE_REGISTER,
						  .reg.value = op->mem.base}) &&
	       op->mem.index == ZYDIS_REGISTER_NONE;
}

static bool is_number(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static struct x86_insn op_of(uint8_t op, uint8_t reg, uint8_t base, int64_t disp)
{
	return (struct x86_insn){.op = op, .reg = reg, .base = base, .disp = (int32_t)disp};
}

static const struct x86_insn any = {.op = EXPECTED_ANY};

/* mov, lea */
static struct x86_insn expected_move(const struct decoded *d)
{
	const ZydisDecodedOperand *to = &d->ops[0], *from = &d->ops[1];

	if (d->insn.operand_width != 64)
		return any;
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_LEA)
		return is_simple(from) && d->insn.address_width == 64
			       ? op_of(X86_LEA, number_of(to->reg.value), number_of(from->mem.base),
				       from->mem.disp.value)
			       : any;
	if (is_register(to) && is_register(from))
		return op_of(X86_MOVE, number_of(to->reg.value), number_of(from->reg.value), 0);
	if (is_register(to) && is_simple(from))
		return op_of(X86_LOAD, number_of(to->reg.value), number_of(from->mem.base),
			     from->mem.disp.value);
	if (is_simple(to) && is_register(from))
		return op_of(X86_STORE, number_of(from->reg.value), number_of(to->mem.base),
			     to->mem.disp.value);
	return any;
}

/* add, sub, and: a number to a whole register */
static struct x86_insn expected_sum(const struct decoded *d)
{
	const ZydisDecodedOperand *to = &d->ops[0], *by = &d->ops[1];
	const bool and = d->insn.mnemonic == ZYDIS_MNEMONIC_AND;

	if (!is_register(to) || !is_number(by) || by->imm.value.s == INT32_MIN ||
	    (d->insn.raw.modrm.offset == 0))
		return any;
	return op_of(and? X86_AND : X86_ADD, number_of(to->reg.value), X86_NO_REG,
		     d->insn.mnemonic == ZYDIS_MNEMONIC_SUB ? -by->imm.value.s : by->imm.value.s);
}

static struct x86_insn expected_branch(const struct decoded *d)
{
	const ZydisDecodedOperand *to = &d->ops[0];
	const bool call = d->insn.mnemonic == ZYDIS_MNEMONIC_CALL,
		   jump = d->insn.mnemonic == ZYDIS_MNEMONIC_JMP;

	if (is_number(to))
		return op_of(call   ? X86_CALL
			     : jump ? X86_JUMP
				    : X86_BRANCH,
			     X86_NO_REG, X86_NO_REG, to->imm.value.s);
	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY && to->mem.base == ZYDIS_REGISTER_RIP)
		return op_of(call ? X86_CALL_FAR_AWAY : X86_JUMP_FAR_AWAY, X86_NO_REG, X86_IP,
			     to->mem.disp.value);
	if (is_simple(to))
		return op_of(call ? X86_CALL_FAR_AWAY : X86_JUMP_FAR_AWAY, X86_NO_REG,
			     number_of(to->mem.base), to->mem.disp.value);
	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY && to->mem.base == ZYDIS_REGISTER_NONE &&
	    to->mem.scale == 8)
		return op_of(call ? X86_CALL_FAR_AWAY : X86_JUMP_FAR_AWAY, number_of(to->mem.index),
			     X86_NO_REG, to->mem.disp.value);
	return op_of(call ? X86_CALL_FAR_AWAY : X86_JUMP_FAR_AWAY, X86_NO_REG, X86_NO_REG, 0);
}

static struct x86_insn expected_stack(const struct decoded *d)
{
	const ZydisDecodedOperand *op = &d->ops[0];
	const bool push =
		d->insn.mnemonic == ZYDIS_MNEMONIC_PUSH || d->insn.mnemonic == ZYDIS_MNEMONIC_PUSHFQ;

	return op_of(push ? X86_PUSH : X86_POP,
		     is_register(op) && op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT
			     ? number_of(op->reg.value)
			     : X86_NO_REG,
		     X86_NO_REG, 0);
}

static struct x86_insn expected(const struct decoded *d)
{
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		return expected_stack(d);
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_LEA:
		return expected_move(d);
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_AND:
		return expected_sum(d);
	case ZYDIS_MNEMONIC_LEAVE:
		return op_of(X86_LEAVE, X86_NO_REG, X86_NO_REG, 0);
	case ZYDIS_MNEMONIC_RET:
		return op_of(X86_RETURN, X86_NO_REG, X86_NO_REG, 0);
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		return op_of(X86_TRAP, X86_NO_REG, X86_NO_REG, 0);
	case ZYDIS_MNEMONIC_XABORT: /* transactions: where one fails, the code goes on as if it had not begun */
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XEND:
		return any;
	case ZYDIS_MNEMONIC_SYSCALL:
		return op_of(X86_CALL_FAR_AWAY, X86_NO_REG, X86_NO_REG, 0);
	default:
		break;
	}
	switch (d->insn.meta.category) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_COND_BR:
		return expected_branch(d);
	default:
		return any;
	}
}

/* Whether the decoder says of these operations what comes of the stack and control flow. */
static bool is_told(uint8_t op)
{
	return op != X86_OTHER && op != X86_NOP && op != X86_ADDRESS && op != X86_CONSTANT &&
	       op != X86_COMPARE && op != X86_TABLE_ENTRY;
}

/* What an operation changes besides the set `writes`. */
static uint16_t changed_by(const struct x86_insn *i)
{
	switch (i->op) {
	case X86_ADD:
	case X86_AND:
	case X86_MOVE:
	case X86_LEA:
	case X86_LOAD:
		return BIT(i->reg);
	case X86_POP:
		return i->reg == X86_NO_REG ? BIT(X86_SP) : (uint16_t)(BIT(i->reg) | BIT(X86_SP));
	case X86_LEAVE:
		return BIT(X86_SP) | BIT(X86_BP);
	case X86_PUSH:
	case X86_RETURN:
	case X86_CALL:
		return BIT(X86_SP);
	case X86_CALL_FAR_AWAY:
		return UINT16_MAX; /* whatever the called function may change */
	default:
		return 0;
	}
}

static bool same_operation(const struct x86_insn *ours, const struct x86_insn *e)
{
	if (e->op == EXPECTED_ANY)
		return !is_told(ours->op);
	if (ours->op != e->op)
		return false;
	switch (ours->op) {
	case X86_PUSH:
	case X86_POP:
		return ours->reg == e->reg;
	case X86_ADD:
	case X86_AND:
		return ours->reg == e->reg && ours->disp == e->disp;
	case X86_JUMP:
	case X86_BRANCH:
	case X86_CALL:
		return ours->disp == e->disp;
	case X86_MOVE:
		return ours->reg == e->reg && ours->base == e->base;
	case X86_JUMP_FAR_AWAY:
	case X86_CALL_FAR_AWAY:
		return ours->reg == e->reg && ours->base == e->base &&
		       (ours->disp == e->disp || (e->base == X86_NO_REG && e->reg == X86_NO_REG));
	case X86_LEA:
	case X86_LOAD:
	case X86_STORE:
		return ours->reg == e->reg && ours->base == e->base && ours->disp == e->disp;
	default:
		return true;
	}
}

/* Of the operations that are not about the stack: what they load, and with what they compare. */
static bool same_numbers(const struct x86_insn *ours, const struct decoded *d)
{
	const ZydisDecodedOperand *to = &d->ops[0], *from = &d->ops[1];

	switch (ours->op) {
	case X86_ADDRESS:
		return d->insn.mnemonic == ZYDIS_MNEMONIC_LEA && from->mem.base == ZYDIS_REGISTER_RIP &&
		       number_of(to->reg.value) == ours->reg && from->mem.disp.value == ours->disp;
	case X86_CONSTANT:
		return d->insn.mnemonic == ZYDIS_MNEMONIC_MOV && is_number(from) &&
		       number_of(to->reg.value) == ours->reg && from->imm.value.s == ours->disp;
	case X86_COMPARE:
		return d->insn.mnemonic == ZYDIS_MNEMONIC_CMP && is_number(from) &&
		       (int32_t)from->imm.value.s == ours->disp;
	case X86_TABLE_ENTRY:
		return d->insn.mnemonic == ZYDIS_MNEMONIC_MOVSXD && number_of(to->reg.value) == ours->reg &&
		       number_of(from->mem.base) == ours->base && from->mem.scale == 4;
	default:
		return true;
	}
}

/* Xeon Phi as a coprocessor has VEX opcodes of its own. */
static bool is_of_coprocessor(const ZydisDecodedInstruction *insn)
{
	return insn->meta.isa_ext == ZYDIS_ISA_EXT_KNC || insn->meta.isa_ext == ZYDIS_ISA_EXT_KNCE ||
	       insn->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

struct compared compare(const ZydisDecoder *decoder, const uint8_t *code, size_t n)
{
	struct decoded d;
	struct compared c = {.ours = x86_decode(code, n), .mnemonic = "-"};
	struct x86_insn e;
	uint16_t ours;

	if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, n, &d.insn, d.ops)) &&
	    !is_of_coprocessor(&d.insn)) {
		c.len = d.insn.length;
		c.mnemonic = ZydisMnemonicGetString(d.insn.mnemonic);
		c.written = written(&d);
	}
	if (!c.len || !c.ours.len) {
		c.outcome = c.ours.len ? COMPARE_ACCEPTED : c.len ? COMPARE_REFUSED : COMPARE_NEITHER;
		return c;
	}
	e = expected(&d);
	ours = c.ours.writes | changed_by(&c.ours);
	if (c.len != c.ours.len)
		c.outcome = COMPARE_LENGTH;
	else if (!same_operation(&c.ours, &e) || !same_numbers(&c.ours, &d))
		c.outcome = COMPARE_OPERATION;
	else if (c.written & ~ours)
		c.outcome = COMPARE_WRITES;
	else
		c.outcome = ours & ~c.written && c.ours.op != X86_CALL_FAR_AWAY ? COMPARE_MORE : COMPARE_SAME;
	return c;
}
