// SPDX-License-Identifier: Apache-2.0
/* Which mappings the registers and words of a stack lead to. */
#include "agent/unwind/stack_mappings.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/table.h"
#include "agent/sample/decode.h"

#define MAPPINGS 100u
#define AT(i) (0x10000ull * (1 + (i)))
#define LENGTH 0x8000u

struct scene {
	struct proc_maps *maps;
	struct saved_stack saved;
	uint64_t stack[64];
	struct sample_view view;
};

static void scene_init(struct scene *s)
{
	*s = (struct scene){.saved = {.stack_address = 0x7ffe0000, .stack_bytes = sizeof s->stack}};
	s->view = (struct sample_view){.saved = &s->saved, .stack = (const uint8_t *)s->stack};
	cr_assert_eq(proc_maps_new(&s->maps, NULL), 0);
	for (uint64_t i = 0; i < MAPPINGS; i++)
		cr_assert_eq(proc_maps_insert(s->maps, (struct proc_mapping){AT(i), AT(i) + LENGTH, 0,
									     PROC_FILE_NONE}),
			     0);
}

static void expect(struct scene *s, const uint32_t *want, size_t n)
{
	_cleanup_free_ const struct proc_mapping **got = NULL;
	size_t n_got;

	cr_assert_eq(stack_mappings_find(s->maps, &s->view, &got, &n_got), 0);
	cr_assert_eq(n_got, n, "%zu", n_got);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(got[i]->start, AT(want[i]), "%zu: %lx", i, (unsigned long)got[i]->start);
	proc_maps_unref(s->maps);
}

Test(stack_mappings, ascending_and_once)
{
	struct scene s;

	scene_init(&s);
	s.saved.ip = AT(50) + 4;
	s.saved.regs[3] = AT(99) + LENGTH - 1;
	s.stack[0] = AT(7);
	s.stack[1] = AT(50);
	s.stack[5] = AT(3) + 9;
	s.stack[63] = AT(7) + 1;
	expect(&s, (const uint32_t[]){3, 7, 50, 99}, 4);
}

Test(stack_mappings, nothing_outside)
{
	struct scene s;

	scene_init(&s);
	s.saved.ip = AT(0) - 1;
	s.stack[0] = AT(7) + LENGTH + 1;
	s.stack[1] = AT(MAPPINGS);
	s.stack[2] = UINT64_MAX;
	expect(&s, NULL, 0);
}

/* A call in a mapping's last place returns behind it. */
Test(stack_mappings, behind_the_last_byte)
{
	struct scene s;

	scene_init(&s);
	s.stack[0] = AT(7) + LENGTH;
	s.stack[1] = AT(99) + LENGTH;
	expect(&s, (const uint32_t[]){7, 99}, 2);
}

/* Return addresses are at multiples of eight; the stack that was read may begin anywhere. */
Test(stack_mappings, alignment)
{
	struct scene s;

	scene_init(&s);
	s.saved.stack_address = 0x7ffe0003;
	memcpy((uint8_t *)s.stack + 5, &(uint64_t){AT(7)}, 8);
	memcpy((uint8_t *)s.stack + 8 + 13, &(uint64_t){AT(8)}, 8);
	memcpy((uint8_t *)s.stack + 32, &(uint64_t){AT(9)}, 8); /* not where one can be */
	expect(&s, (const uint32_t[]){7, 8}, 2);
}
