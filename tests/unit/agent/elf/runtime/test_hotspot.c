// SPDX-License-Identifier: Apache-2.0
/*
 * A HotSpot in a file, and in memory: those that are installed and one that is made by hand
 * (hotspot_machine.h).
 */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include "agent/elf/runtime/facts.h"
#include "agent/elf/runtime/hotspot_code.h"
#include "agent/elf/runtime/hotspot_layout.h"
#include "agent/elf/runtime/hotspot_names.h"
#include "tests/support/hotspot_machine.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

static const struct runtime_symbol symbols[] = {
	{"gHotSpotVMStructs", 0x3000, 8, OBJECT},
	{"gHotSpotVMTypes", 0x3008, 8, OBJECT},
};

static int read_file(size_t n_symbols, struct runtime_facts *ret)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	const struct runtime_file f = {.symbols = symbols, .n_symbols = n_symbols};
	int r;

	runtime_file_write(&b, &f);
	img = file_open(&b);
	r = runtime_facts_read(ret, img);
	cr_expect(runtime_facts_valid(ret));
	return r;
}

Test(hotspot, files)
{
	char text[RUNTIME_VERSION_TEXT];
	struct runtime_facts f;

	cr_assert_eq(read_file(2, &f), 0);
	cr_expect_eq(f.kind, RUNTIME_FILE_HOTSPOT);
	cr_expect_eq(f.hotspot.structs, 0x3000);
	cr_expect_eq(f.hotspot.types, 0x3008);
	cr_expect(runtime_facts_known(&f));
	cr_expect_str_eq(runtime_facts_version(&f, text), "HotSpot");
	f.hotspot.types = f.hotspot.structs;
	cr_expect_not(runtime_facts_valid(&f));
	f.hotspot.types = 0;
	cr_expect_not(runtime_facts_valid(&f));
	cr_expect_eq(read_file(1, &f), -ENOENT);
	cr_expect_eq(f.kind, RUNTIME_FILE_NONE);
}

static void read_layout(struct hotspot_machine *m, struct hotspot_layout *ret)
{
	cr_assert_eq(hotspot_layout_read(ret, m->memory, HM_STRUCTS, HM_TYPES), 0);
	cr_assert(hotspot_layout_valid(ret));
}

Test(hotspot, layout)
{
	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;

		hm_init(&m, outside);
		read_layout(&m, &l);
		cr_expect_eq(l.version, outside ? 25 : 17);
		cr_expect_eq(l.heaps, HM_BASE + HM_HEAPS);
		cr_expect_not(l.single);
		cr_expect_eq(l.block_bytes, outside ? 8 : 16);
		cr_expect_eq(l.fields[HOTSPOT_BLOCK_LENGTH].bytes, outside ? 4 : 8);
		cr_expect_eq(l.fields[HOTSPOT_CONST_NAME].off, 34);
		cr_expect_eq(l.fields[HOTSPOT_CONST_NAME].bytes, 2);
		cr_expect_eq(hotspot_has(&l, HOTSPOT_NMETHOD_IMMUTABLE), outside);
		cr_expect_eq(hotspot_has(&l, HOTSPOT_BLOB_CODE_BEGIN), !outside);
	}
}

Test(hotspot, layouts_that_are_none)
{
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l, good;

	hm_init(&m, false);
	read_layout(&m, &good);
	hm_put(&m, HM_VERSION, 0, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_layout_read(&l, m.memory, HM_STRUCTS, HM_TYPES), -EAGAIN,
		     "the machine has not begun");
	hm_put(&m, HM_VERSION, 17, 4);
	m.faults = HM_BASE + HM_STRINGS_AT;
	hm_changed(&m);
	cr_expect_eq(hotspot_layout_read(&l, m.memory, HM_STRUCTS, HM_TYPES), -EFAULT);
	m.faults = 0;
	/* a table that does not end */
	for (uint32_t at = HM_FIELDS_AT; at < HM_STRINGS_AT; at += 48)
		hm_put(&m, at, HM_BASE + HM_STRINGS_AT, 8);
	hm_changed(&m);
	cr_expect_lt(hotspot_layout_read(&l, m.memory, HM_STRUCTS, HM_TYPES), 0);
	for (int i = 0; i < HOTSPOT_FIELDS_N; i++) {
		l = good;
		l.fields[i].bytes = 3;
		cr_expect_not(hotspot_layout_valid(&l), "field %d", i);
		l = good;
		l.fields[i].off = 5000;
		cr_expect_not(hotspot_layout_valid(&l), "field %d", i);
	}
	l = good;
	memset(&l.fields[HOTSPOT_BLOB_NAME], 0, sizeof l.fields[0]);
	cr_expect_not(hotspot_layout_valid(&l));
}

/* What the BPF program gets to know. */
Test(hotspot, heaps)
{
	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct code_heaps h;

		hm_init(&m, outside);
		hm_put(&m, HM_HEAP + 8 + 32, HM_BASE + HM_CODE + 0x8000, 8); /* more is reserved */
		hm_changed(&m);
		read_layout(&m, &l);
		cr_assert_eq(hotspot_heaps_read(&h, m.memory, &l), 0);
		cr_expect_eq(h.heaps[0].low, HM_BASE + HM_CODE);
		cr_expect_eq(h.heaps[0].bytes, outside ? 0x8000 : 0x1000);
		cr_expect_eq(h.heaps[0].segments, HM_BASE + HM_SEGMAP);
		cr_expect_eq(h.heaps[1].bytes, 0);
		cr_expect_eq(h.shift, 7);
		cr_expect_eq(h.compile_id, l.block_bytes + 128);
		cr_expect_eq(h.bytes, l.block_bytes + 128 + 8);
		cr_expect_eq(h.used, l.fields[HOTSPOT_BLOCK_USED].off);
		cr_expect_eq(h.name, l.block_bytes + 96);
		cr_expect_eq(h.frame_words, l.block_bytes + 28);
		cr_expect_eq(h.begin, l.block_bytes + 32);
		cr_expect_eq(h.origin, outside ? l.block_bytes : 0);
		cr_expect_eq(h.complete, l.block_bytes + (outside ? CODE_SHORT | 26u : 20u));
		cr_expect(!h.method && !h.native, "not before they were found");
		l.code = h;
		cr_expect(hotspot_layout_valid(&l));
		l.code.name = h.bytes;
		cr_expect_not(hotspot_layout_valid(&l));
		l.code = h;
		l.code.bytes = CODE_HEADER_BYTES;
		cr_expect_not(hotspot_layout_valid(&l));
		l.code = h;
		l.code.begin = 2;
		cr_expect_not(hotspot_layout_valid(&l));
		hm_put(&m, HM_HEAPS, 0, 8);
		hm_changed(&m);
		cr_expect_eq(hotspot_heaps_read(&h, m.memory, &l), -EAGAIN, "no heaps yet");
	}
}

Test(hotspot, code)
{
	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct hotspot_blob b;

		hm_init(&m, outside);
		read_layout(&m, &l);
		cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD_CODE + 10, &b), 0);
		cr_expect_eq(b.kind, HOTSPOT_CODE_METHOD);
		cr_expect_eq(b.start, HM_BASE + HM_NMETHOD_CODE);
		cr_expect_eq(b.end, HM_BASE + HM_NMETHOD_CODE + 23);
		cr_expect_eq(b.frame_bytes, 32);
		cr_expect_eq(b.compile_id, 77);
		cr_expect_eq(b.method, HM_BASE + HM_METHOD);
		cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_INTERPRETER + 0x2ff, &b), 0);
		cr_expect_eq(b.kind, HOTSPOT_CODE_INTERPRETER);
		cr_expect_eq(b.method, 0);
		/* its header; what is free; what is no heap */
		cr_expect_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD + 40, &b), -ENODATA);
		cr_expect_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_CODE, &b), -ENODATA);
		cr_expect_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_CODE - 1, &b), -ENOENT);
		cr_expect_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_CODE + 0x1000, &b), -ENOENT);
	}
}

/* Names as JDK 17, 21 and 25 have them. */
Test(hotspot, stubs)
{
	static const struct {
		const char *name;
		enum hotspot_code_kind kind;
	} cases[] = {
		{"resolve_static_call", HOTSPOT_CODE_PLAIN_STUB},
		{"Shared Runtime resolve_static_call_blob", HOTSPOT_CODE_PLAIN_STUB},
		{"new_instance Runtime1 stub", HOTSPOT_CODE_PLAIN_STUB},
		{"C1 Runtime counter_overflow_blob", HOTSPOT_CODE_PLAIN_STUB},
		{"slow_subtype_check Runtime1 stub", HOTSPOT_CODE_STUB},
		{"C1 Runtime slow_subtype_check_blob", HOTSPOT_CODE_STUB},
		{"another stub", HOTSPOT_CODE_STUB},
		{"DeoptimizationBlob", HOTSPOT_CODE_CALLS},
		{"I2C/C2I adapters", HOTSPOT_CODE_ADAPTERS},
	};
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l;
	struct hotspot_blob b;

	hm_init(&m, false);
	read_layout(&m, &l);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		hm_blob(&m, HM_NMETHOD, cases[i].name, 4, HM_NMETHOD_CODE, HM_NMETHOD_CODE + 20);
		hm_changed(&m);
		cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD_CODE + 10, &b), 0);
		cr_expect_eq(b.kind, cases[i].kind, "%s: %d", cases[i].name, b.kind);
		cr_expect_eq(b.frame_bytes, 32);
	}
	hm_blob(&m, HM_NMETHOD, "new_instance", 0, HM_NMETHOD_CODE, HM_NMETHOD_CODE + 20);
	hm_changed(&m);
	cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD_CODE + 10, &b), 0);
	cr_expect_eq(b.kind, HOTSPOT_CODE_STUBS, "without a frame");
}

Test(hotspot, entries_of_the_interpreter)
{
	struct hotspot_entry entries[4];
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l;
	struct hotspot_blob b;

	hm_init(&m, false);
	read_layout(&m, &l);
	cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_INTERPRETER, &b), 0);
	cr_assert_eq(hotspot_entries_read(m.memory, &l, &b, entries, ARRAY_SIZE(entries)), 1);
	cr_expect_eq(entries[0].start, 0xa0, "its code is aligned");
	cr_expect_eq(entries[0].end, 0xe0);
	cr_expect_eq(hotspot_entries_read(m.memory, &l, &b, entries, 0), 0);
	hm_put(&m, HM_INTERPRETER + 0x88, 0x1000, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_entries_read(m.memory, &l, &b, entries, 4), 0, "it ends behind the interpreter");
	hm_put(&m, HM_INTERPRETER + 0x88, 0x20, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_entries_read(m.memory, &l, &b, entries, 4), 0, "it has no code");
	hm_put(&m, HM_CODELETS, HM_BASE + HM_BYTES, 8);
	hm_changed(&m);
	cr_expect_eq(hotspot_entries_read(m.memory, &l, &b, entries, 4), 0, "there is no queue");
	l.codelets = 0;
	cr_expect_eq(hotspot_entries_read(m.memory, &l, &b, entries, 4), 0, "nor is it known");
}

Test(hotspot, places_without_code)
{
	const uint64_t free = HM_BASE + HM_CODE, method = HM_BASE + HM_NMETHOD_CODE;
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l;

	hm_init(&m, false);
	read_layout(&m, &l);
	cr_expect(hotspot_is_empty(m.memory, &l, free, free + 0x80));
	cr_expect_not(hotspot_is_empty(m.memory, &l, free, free + 0x81), "a method is behind it");
	cr_expect_not(hotspot_is_empty(m.memory, &l, method, method + 23));
	cr_expect_not(hotspot_is_empty(m.memory, &l, free - 1, free + 0x80), "not all of it is in the heap");
	cr_expect_not(hotspot_is_empty(m.memory, &l, free, free + (16u << 20)), "too much to look at");
	hm_put(&m, HM_NMETHOD + 8, 0, 1);
	hm_changed(&m);
	cr_expect(hotspot_is_empty(m.memory, &l, method, method + 23), "it was freed");
}

Test(hotspot, code_that_is_not_as_it_should_be)
{
	const uint64_t at = HM_BASE + HM_NMETHOD_CODE + 10;
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l;
	struct hotspot_blob b;

	hm_init(&m, false);
	read_layout(&m, &l);
	hm_put(&m, HM_NMETHOD + 16 + 148, 0xff, 1);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -EAGAIN, "it is being written");
	hm_put(&m, HM_NMETHOD + 16 + 148, 1, 1);
	hm_put(&m, HM_NMETHOD + 16 + 40, HM_BASE + HM_NMETHOD + 0x10000, 8);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENOTSUP, "code behind its block");
	hm_put(&m, HM_NMETHOD + 16 + 40, HM_BASE + HM_NMETHOD_CODE + 23, 8);
	hm_put(&m, HM_NMETHOD + 16 + 28, 0, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENOTSUP, "a method without a frame");
	hm_put(&m, HM_NMETHOD + 8, 0, 1);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENODATA, "a block that is free");
	m.bytes[HM_SEGMAP + 5] = 6;
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENODATA, "back beyond the heap");
	hm_put(&m, HM_HEAP + 248, 40, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENOTSUP, "segments of a tebibyte");
	hm_put(&m, HM_ARRAY, 1u << 30, 4);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -ENOTSUP, "a thousand million heaps");
	hm_put(&m, HM_HEAPS, 0, 8);
	hm_changed(&m);
	cr_expect_eq(hotspot_blob_find(m.memory, &l, at, &b), -EAGAIN, "no heaps yet");
}

Test(hotspot, names_and_lines)
{
	static const struct {
		uint32_t bci, line;
	} lines[] = {{0, 2}, {4, 2}, {5, 4}, {8, 4}, {9, 292}, {19, 292}};
	struct hotspot_scopes *s = calloc(1, sizeof *s);

	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct hotspot_method method;

		hm_init(&m, outside);
		read_layout(&m, &l);
		cr_assert_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method), 0);
		cr_expect_str_eq(method.name, "org.example.Work.run");
		cr_expect_str_eq(method.file, "Work.java");
		for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
			cr_expect_eq(hotspot_line(m.memory, &l, method.constant, lines[i].bci), lines[i].line,
				     "%d: bytecode %u: line %u", outside, lines[i].bci,
				     hotspot_line(m.memory, &l, method.constant, lines[i].bci));
		cr_expect_eq(method.start, HM_BASE + HM_CONST + 48);
		cr_expect_eq(method.end, method.start + 20);
		cr_assert_eq(hotspot_lines_read(m.memory, &l, &method, HM_BASE + HM_METHOD, s), 0);
		cr_assert_eq(s->n_places, 3);
		for (uint32_t i = 0; i < 3; i++) {
			cr_expect_eq(s->places[i].end, ((uint32_t[]){4, 8, 20})[i]);
			cr_expect_eq(s->scopes[s->places[i].scope].line, ((uint32_t[]){2, 4, 292})[i]);
		}
		hm_put(&m, HM_CONST + 28, 0, 2);
		hm_changed(&m);
		cr_expect_eq(hotspot_line(m.memory, &l, method.constant, 0), 0);
		cr_assert_eq(hotspot_lines_read(m.memory, &l, &method, HM_BASE + HM_METHOD, s), 0);
		cr_expect_eq(s->n_places, 1);
		cr_expect_eq(s->scopes[0].line, 0);
	}
	free(s);
}

Test(hotspot, names_of_classes)
{
	static const struct {
		const char *symbol, *name;
	} cases[] = {
		{"Work", "Work.run"},
		{"a/b/C$D", "a.b.C$D.run"},
		{"a/b/C$$Lambda+0x00007f0012345678", "a.b.C$$Lambda.run"},
		{"a/b/C$$Lambda$14/0x0000000800c03000", "a.b.C$$Lambda$14.run"},
		{"a/b/0x12", "a.b.0x12.run"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct hotspot_method method;

		hm_init(&m, true);
		(void)hm_symbol(&m, HM_SYMBOLS + 0xc0, cases[i].symbol);
		read_layout(&m, &l);
		cr_assert_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method), 0);
		cr_expect_str_eq(method.name, cases[i].name, "%s", method.name);
	}
}

Test(hotspot, methods_that_are_none)
{
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_layout l;
	struct hotspot_method method;

	hm_init(&m, false);
	read_layout(&m, &l);
	cr_expect_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD + 4, &method), -ENOTSUP);
	cr_expect_eq(hotspot_method_read(m.memory, &l, 0, &method), -EFAULT);
	cr_expect_lt(hotspot_method_read(m.memory, &l, HM_BASE + HM_STRINGS_AT, &method), 0);
	hm_put(&m, HM_CONST + 34, 8, 2);
	hm_changed(&m);
	cr_expect_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method), -ENOTSUP,
		     "a slot behind the pool");
	hm_put(&m, HM_CONST + 34, 4, 2);
	hm_changed(&m);
	cr_expect_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method), -EFAULT,
		     "an empty slot");
	/* a very long name is cut */
	hm_put(&m, HM_CONST + 34, 1, 2);
	hm_put(&m, HM_SYMBOLS + 4, 0xffff, 2);
	memset(m.bytes + HM_SYMBOLS + 6, 'x', 600);
	hm_put(&m, HM_CLASS + 24, hm_symbol(&m, HM_SYMBOLS + 0x400, "Work"), 8);
	hm_changed(&m);
	cr_assert_eq(hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method), 0);
	cr_expect_eq(strlen(method.name), HOTSPOT_NAME_MAX - 1);
}

Test(hotspot, scopes)
{
	struct hotspot_scopes *s = calloc(1, sizeof *s);

	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct hotspot_blob b;

		hm_init(&m, outside);
		read_layout(&m, &l);
		cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD_CODE, &b), 0);
		cr_assert_eq(hotspot_scopes_read(m.memory, &l, &b, s), 0);
		cr_assert_eq(s->n_places, 2, "%d: %u", outside, s->n_places);
		cr_assert_eq(s->n_scopes, 2);
		cr_assert_eq(s->n_methods, 2);
		cr_expect_eq(s->methods[1], HM_BASE + HM_INLINED);
		cr_expect_eq(s->places[0].end, 9);
		cr_expect_eq(s->scopes[s->places[0].scope].method, 1);
		cr_expect_eq(s->scopes[s->places[0].scope].line, 2);
		cr_expect_eq(s->scopes[s->places[0].scope].outer, s->places[1].scope);
		cr_expect_eq(s->scopes[s->places[1].scope].method, 0);
		cr_expect_eq(s->scopes[s->places[1].scope].line, 4);
		cr_expect_eq(s->scopes[s->places[1].scope].outer, HOTSPOT_NO_SCOPE);
	}
	free(s);
}

/* Scopes that lead to themselves, or to no method: the method alone is known. */
Test(hotspot, scopes_that_are_not_as_they_should_be)
{
	struct hotspot_scopes *s = calloc(1, sizeof *s);
	static const struct {
		uint32_t at;
		uint8_t value;
	} cases[] = {{4, 4}, {4, 5}, {5, 0}, {5, 9}, {2, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		struct hotspot_layout l;
		struct hotspot_blob b;

		hm_init(&m, false);
		m.bytes[HM_NMETHOD + 16 + 0x400 + 0x80 + cases[i].at] = cases[i].value;
		read_layout(&m, &l);
		cr_assert_eq(hotspot_blob_find(m.memory, &l, HM_BASE + HM_NMETHOD_CODE, &b), 0);
		cr_assert_eq(hotspot_scopes_read(m.memory, &l, &b, s), 0, "%zu", i);
		cr_expect_eq(s->n_places, 0, "%zu", i);
		cr_expect_eq(s->n_methods, 1, "%zu", i);
		cr_expect_eq(s->methods[0], HM_BASE + HM_METHOD);
	}
	free(s);
}

Test(hotspot, reads_are_limited)
{
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	uint64_t value;

	hm_init(&m, false);
	m.memory->reads = VM_READS_MAX;
	cr_expect_eq(vm_read_number(m.memory, &value, HM_BASE, 8), -E2BIG);
	m.memory->reads = 0;
	cr_expect_eq(vm_read_number(m.memory, &value, 1ull << 47, 8), -EFAULT);
	cr_expect_eq(vm_read_number(m.memory, &value, UINT64_MAX - 3, 8), -EFAULT);
	cr_expect_eq(vm_read_number(m.memory, &value, HM_BASE + HM_BYTES - 4, 8), -EFAULT);
}
