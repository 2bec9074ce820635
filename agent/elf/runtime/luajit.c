// SPDX-License-Identifier: Apache-2.0
/*
 * The block is recognised by its instructions. It keeps the table of its entries, which is behind the global
 * state, in r14, and the place of the innermost frame in rdx (vm_x64.dasc):
 *
 *	add $TABLE, %r14             global state → table
 *	mov %rdx, BASE(%r14)         enters compiled code: jit_base
 *	movq $0, BASE(%r14)          leaves it
 *	mov %rbp, BASE-8(%r14)       cur_L, the state that runs
 *	mov %rdi, 16(%rsp)           the frame's state
 *	mov %rbx, 24(%rsp)           the next bytecode
 *	call *%rcx; test %rax, %rax  cpcall
 */
#include "agent/elf/runtime/luajit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/lua.h"

#define BLOCK_BYTES_MIN (8u << 10)
#define BLOCK_BYTES_MAX (256u << 10)
#define GLOBAL_BYTES_MAX (16u << 10)
#define TEXT_BYTES_MAX (4u << 20)
#define IDENT "LuaJIT 2."
#define SP_REGISTER 7u /* DWARF number */

/* An instruction with a 32-bit operand. */
struct pattern {
	uint8_t bytes[3];
};

static const struct pattern add_table = {{0x49, 0x81, 0xc6}}, enter = {{0x49, 0x89, 0x96}},
			    leave = {{0x49, 0xc7, 0x86}}, set_state = {{0x49, 0x89, 0xae}};
static const uint8_t keep_state[] = {0x48, 0x89, 0x7c, 0x24, 0x10},
		     keep_next[] = {0x48, 0x89, 0x5c, 0x24, 0x18},
		     protected_call[] = {0xff, 0xd1, 0x48, 0x85, 0xc0};

struct code {
	const uint8_t *bytes;
	size_t len;
};

/* The operand of all instructions of the pattern; 0: there is none, or they differ. */
static int32_t operand_of(struct code c, const struct pattern *p)
{
	int32_t found = 0;

	for (size_t i = 0; i + 7 <= c.len; i++) {
		int32_t operand;

		if (memcmp(c.bytes + i, p->bytes, sizeof p->bytes) != 0)
			continue;
		memcpy(&operand, c.bytes + i + 3, sizeof operand);
		if (found && operand != found)
			return 0;
		found = operand;
	}
	return found;
}

/* Whether an instruction of the pattern has that operand. */
static bool has_operand(struct code c, const struct pattern *p, int32_t operand)
{
	uint8_t bytes[7];

	memcpy(bytes, p->bytes, 3);
	memcpy(bytes + 3, &operand, 4);
	return memmem(c.bytes, c.len, bytes, sizeof bytes) != NULL;
}

/* Whether it is the block; then what is known of it by its code is filled in. */
static bool is_block(struct luajit_facts *f, struct code c)
{
	const uint8_t *call = memmem(c.bytes, c.len, protected_call, sizeof protected_call);
	int32_t table = operand_of(c, &add_table), base = operand_of(c, &enter);

	if (!call || !memmem(c.bytes, c.len, keep_state, sizeof keep_state) ||
	    !memmem(c.bytes, c.len, keep_next, sizeof keep_next) || table <= 0 ||
	    table > (int32_t)GLOBAL_BYTES_MAX)
		return false;
	f->protected_return = (uint32_t)(call - c.bytes) + 2;
	f->jit_base = 0;
	if (!base) /* built without the compiler */
		return true;
	if (!has_operand(c, &leave, base) || !has_operand(c, &set_state, base - 8) || base >= 0 ||
	    base <= -table || base % 8)
		return false;
	f->jit_base = (uint32_t)(table + base);
	return true;
}

/* Whether the address has the row of the block's frame: CFA = rsp + LUAJIT_FRAME_BYTES. -ENOMEM. */
static int has_row(const struct cfi_section *section, uint64_t va)
{
	_cleanup_free_ struct frame_query *q = calloc(1, sizeof *q);
	int r;

	if (!q)
		return -ENOMEM;
	q->va = va;
	q->error = -ENOENT;
	r = frame_rules_in_section(section, q, 1);
	if (r < 0)
		return r;
	return !q->error && q->rule.cfa.kind == LOCATION_REGISTER && q->rule.cfa.reg == SP_REGISTER &&
	       q->rule.cfa.off == LUAJIT_FRAME_BYTES;
}

/* 1: the FDE is the block's; 0; -ENOMEM. */
static int try_fde(struct luajit_facts *f, struct elf_image *img, const struct cfi_section *section,
		   const struct cfi_fde *fde)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t len = fde->end - fde->start;
	int r;

	if (len < BLOCK_BYTES_MIN || len > BLOCK_BYTES_MAX)
		return 0;
	r = has_row(section, fde->start + len / 2);
	if (r <= 0)
		return r;
	bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	if (elf_image_read_code(img, fde->start, bytes, len) < 0 || !is_block(f, (struct code){bytes, len}))
		return 0;
	f->loop_start = fde->start;
	f->loop_end = fde->end;
	return 1;
}

/* 0; -ENOENT; -ENOMEM. */
static int find_block(struct luajit_facts *f, struct elf_image *img)
{
	struct cfi_section section;
	struct cfi_entry entry;
	uint64_t offset = 0;
	int found = 0;

	if (elf_arch(elf_image_machine(img)) != &elf_arch_x86_64 || frame_section_eh(img, &section) < 0)
		return -ENOENT;
	while (!found && entry_next(&section, &offset, &entry) == 1) {
		struct cfi_cie cie;
		struct cfi_fde fde;

		if (entry.is_cie)
			continue;
		entry_cie(&section, entry.cie, &cie);
		if (!cie.error && !entry_fde(&section, &cie, &entry, &fde))
			found = try_fde(f, img, &section, &fde);
	}
	return found > 0 ? 0 : found < 0 ? found : -ENOENT;
}

/* The minor version by the text "LuaJIT 2.1…" in the file's constants. -ENOENT; -ENOMEM. */
static int find_version(const struct elf_image *img, uint32_t *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	const struct elf_segment *s = elf_image_segments(img, &n);

	text = malloc(TEXT_BYTES_MAX);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const size_t len = s[i].file_bytes < TEXT_BYTES_MAX ? s[i].file_bytes : TEXT_BYTES_MAX;
		const char *at;

		if (s[i].writable || elf_image_pread(img, s[i].offset, text, len) < 0)
			continue;
		at = memmem(text, len, IDENT, strlen(IDENT));
		if (!at || at + strlen(IDENT) >= text + len)
			continue;
		at += strlen(IDENT);
		if (*at < '0' || *at > '9')
			continue;
		*ret = LUA_VERSION(2, *at - '0');
		return 0;
	}
	return -ENOENT;
}

int luajit_facts_read(struct luajit_facts *ret, struct elf_image *img)
{
	struct elf_definition d = {.name = "luaJIT_setmode"};
	struct luajit_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	r = elf_definitions_find_dynamic(img, &d, 1);
	if (r == 0)
		r = d.found ? find_version(img, &f.version) : -ENOENT;
	if (r < 0)
		return r;
	if (f.version >= LUA_VERSION(2, 1)) {
		r = find_block(&f, img);
		if (r == -ENOMEM)
			return r;
		f.known = r == 0;
	}
	*ret = f.known ? f : (struct luajit_facts){.version = f.version};
	return 0;
}

bool luajit_facts_valid(const struct luajit_facts *f)
{
	static const struct luajit_facts none;
	struct luajit_facts g = none;

	g.version = f->version;
	if (!f->known)
		return memcmp(f, &g, sizeof g) == 0 && (!f->version || f->version >> 24 == 2);
	return f->known == 1 && f->protected_return < f->loop_end - f->loop_start &&
	       f->version >= LUA_VERSION(2, 1) && f->version <= LUA_VERSION(2, 9) &&
	       f->loop_end > f->loop_start && f->loop_end - f->loop_start >= BLOCK_BYTES_MIN &&
	       f->loop_end - f->loop_start <= BLOCK_BYTES_MAX && f->jit_base % 8 == 0 &&
	       f->jit_base < GLOBAL_BYTES_MAX;
}
