// SPDX-License-Identifier: Apache-2.0
/* Which functions are inlined where in code that V8 has compiled (v8_code_memory.h). */
#include "agent/elf/runtime/v8_inlined.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "tests/support/v8_code_memory.h"

static uint8_t bytes[CODE_BYTES];
static struct v8_layout layout;
static struct v8_inlined inlined;

static int find(uint64_t address, struct v8_compiled *code)
{
	_cleanup_free_ struct vm_memory *m = calloc(1, sizeof *m);

	m->read = code_read;
	m->data = bytes;
	return v8_compiled_find(m, &layout, address, code);
}

static void read_inlined(void)
{
	_cleanup_free_ struct vm_memory *m = calloc(1, sizeof *m);
	struct v8_compiled code;

	m->read = code_read;
	m->data = bytes;
	cr_assert_eq(v8_compiled_find(m, &layout, CODE_BASE + CODE_START, &code), 0);
	cr_assert_eq(v8_inlined_read(m, &layout, &code, &inlined), 0);
}

static void init(void)
{
	layout = code_layout;
	code_init(bytes);
}

/* The functions at an offset, the innermost first, as digits: "321". */
static const char *chain(uint32_t offset)
{
	static char text[16];
	size_t n = 0, i = 0;
	uint32_t scope = HOTSPOT_NO_SCOPE;

	while (i < inlined.n_places && inlined.places[i].end < offset)
		i++;
	if (i < inlined.n_places)
		scope = inlined.places[i].scope;
	for (; scope != HOTSPOT_NO_SCOPE && n < sizeof text - 1; scope = inlined.scopes[scope].outer)
		for (uint32_t f = 1; f <= 3; f++)
			if (inlined.functions[inlined.scopes[scope].method] == code_pointer(CODE_SHARED(f)))
				text[n++] = (char)('0' + f);
	text[n] = '\0';
	return text;
}

Test(v8_inlined, code_is_found_by_any_address_in_it, .init = init)
{
	const uint64_t start = CODE_BASE + CODE_START;
	struct v8_compiled code = {0};

	for (uint64_t at = start; at < start + CODE_SIZE; at++) {
		cr_assert_eq(find(at, &code), 0, "%#llx", (unsigned long long)at);
		cr_assert_eq(code.start, start);
		cr_assert_eq(code.end, start + CODE_SIZE);
	}
	cr_expect_eq(code.deopt, code_pointer(CODE_DEOPT));
	cr_expect_eq(code.positions, code_pointer(CODE_POSITIONS));
	cr_expect_eq(find(start - 1, &code), -ENOENT);
	cr_expect_eq(find(start + CODE_SIZE, &code), -ENOENT);
	cr_expect_eq(find(0x100, &code), -ENOENT);
	cr_expect_eq(find(1ull << 50, &code), -ENOENT);
}

Test(v8_inlined, what_is_no_code, .init = init)
{
	const uint64_t start = CODE_BASE + CODE_START;
	struct v8_compiled code;

	code_put(bytes, CODE_OBJECT + 40, start + 64);
	cr_expect_eq(find(start, &code), -ENOENT, "code that begins elsewhere");
	init();
	code_object(bytes, CODE_OBJECT, CODE_SHARED_TYPE);
	cr_expect_eq(find(start, &code), -ENOENT, "an object of another type");
	init();
	code_put(bytes, CODE_OBJECT + 48, code_smi(0xffffffff));
	cr_expect_eq(find(start, &code), -ENOENT, "more than there can be");
	init();
	layout.code.type = 0;
	cr_expect_eq(find(start, &code), -ENOENT, "a layout that is not known");
}

Test(v8_inlined, functions_by_offset, .init = init)
{
	static const struct {
		uint32_t offset;
		const char *chain;
	} expected[] = {{0, "1"},     {0xf, "1"},	    {0x10, "1"},    {0x1f, "1"},  {0x20, "21"},
			{0x2f, "21"}, {0x30, "321"},	    {0x4f, "321"},  {0x50, "21"}, {0x5f, "21"},
			{0x60, "1"},  {CODE_SIZE - 1, "1"}, {CODE_SIZE, ""}};

	read_inlined();
	cr_expect_eq(inlined.n_functions, 3);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		cr_expect_str_eq(chain(expected[i].offset), expected[i].chain, "%#x: %s", expected[i].offset,
				 chain(expected[i].offset));
}

/* As Node.js 18 has it: the instructions are in the Code object. */
Test(v8_inlined, code_and_instructions_in_one_object, .init = init)
{
	struct v8_compiled code;

	layout.code = (struct v8_code_layout){.type = CODE_TYPE,
					      .header = 128,
					      .size = 40,
					      .deopt = 16,
					      .positions = 24,
					      .literals = 2,
					      .function = 6,
					      .inlined = 7};
	code_object(bytes, CODE_OBJECT, CODE_TYPE);
	code_put(bytes, CODE_OBJECT + 16, code_pointer(CODE_DEOPT));
	code_put(bytes, CODE_OBJECT + 24, code_pointer(CODE_POSITIONS));
	code_put(bytes, CODE_OBJECT + 40, 0x70);
	cr_assert_eq(find(CODE_BASE + CODE_OBJECT + 128 + 0x6f, &code), 0);
	cr_expect_eq(code.start, CODE_BASE + CODE_OBJECT + 128);
	cr_expect_eq(code.end, code.start + 0x70);
	cr_expect_eq(code.deopt, code_pointer(CODE_DEOPT));
}

/* As Node.js 26 has it: two bits of flags, no signs, and another object leads to the function. */
Test(v8_inlined, other_layouts, .init = init)
{
	static const uint8_t table[] = {0x10 << 2 & 0x7f, 12, (0x10 << 2 | 2) & 0x7f};
	uint8_t *at = bytes + CODE_POSITIONS + 16;

	layout.code.is_wrapped = 1;
	layout.code.flag_bits = 2;
	code_put(bytes, CODE_DEOPT + 16 + 48, code_pointer(0x900));
	code_put(bytes, 0x900 + 8, code_pointer(CODE_SHARED(1)));
	*at++ = table[0];
	at = code_put_number(at, (int64_t)code_position(5, -1));
	*at++ = table[2];
	at = code_put_number(at, (int64_t)(code_position(50, 0) - code_position(5, -1)));
	code_put(bytes, CODE_POSITIONS + 8, code_smi((uint32_t)(at - bytes - CODE_POSITIONS - 16)));
	read_inlined();
	cr_expect_str_eq(chain(0x1f), "1");
	cr_expect_str_eq(chain(0x20), "21");
	cr_expect_str_eq(chain(CODE_SIZE - 1), "21");
}

static void expect_none(const char *why)
{
	read_inlined();
	cr_expect_eq(inlined.n_places, 0, "%s", why);
	cr_expect_eq(inlined.n_scopes, 0, "%s", why);
	cr_expect_eq(inlined.n_functions, 1, "%s", why);
	init();
}

Test(v8_inlined, objects_that_are_not_as_they_should_be, .init = init)
{
	code_put(bytes, CODE_DEOPT + 16 + 48, code_pointer(CODE_SCRIPT));
	expect_none("a function of another type");
	cr_expect_eq(inlined.functions[0], 0);
	code_put(bytes, CODE_DEOPT + 8, code_smi(7));
	expect_none("too few elements");
	code_put(bytes, CODE_DEOPT + 8, code_smi(1u << 30));
	expect_none("too many elements");
	code_put(bytes, CODE_DEOPT + 24, code_smi(5000));
	expect_none("too many functions");
	code_put(bytes, CODE_LITERALS + 16, code_pointer(CODE_SCRIPT));
	expect_none("an inlined function of another type");
	cr_expect_eq(inlined.functions[0], code_pointer(CODE_SHARED(1)), "the code's own is known");
	code_put(bytes, CODE_CALLS + 8, code_smi(1u << 20));
	expect_none("too many calls");
	code_put(bytes, CODE_CALLS + 24, 2);
	expect_none("a call of a function that there is not");
	code_put(bytes, CODE_CALLS + 16, code_position(5, 0));
	expect_none("a call in itself");
	bytes[CODE_POSITIONS + 16] = 0xff;
	expect_none("an offset behind the code");
	code_put(bytes, CODE_POSITIONS + 8, code_smi(1u << 20));
	expect_none("too long a table");
	memset(bytes + CODE_POSITIONS + 16, 0xff, 0x80);
	expect_none("numbers without an end");
}
