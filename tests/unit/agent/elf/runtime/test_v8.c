// SPDX-License-Identifier: Apache-2.0
/*
 * V8's constants in a file: those of Node.js 18 and 24, and such as are changed; and those that are
 * installed.
 */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

#define CONSTANTS_MAX 64

struct constant {
	const char *name;
	int32_t value;
};

static const struct constant node_18[] = {
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", 24},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", 16},
	{"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", 32},
	{"v8dbg_class_SharedFunctionInfo__flags__int", 48},
	{"v8dbg_class_Script__source__Object", 8},
	{"v8dbg_class_Script__name__Object", 16},
	{"v8dbg_class_Script__line_ends__Object", 56},
	{"v8dbg_class_Map__instance_type__uint16_t", 12},
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 257},
	{"v8dbg_type_Script__SCRIPT_TYPE", 170},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", 256},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", 195},
	{"v8dbg_scopeinfo_idx_first_vars", 3},
	{"v8dbg_class_BytecodeArray__data__uintptr_t", 56},
	{"v8dbg_off_fp_context_or_frame_type", -8},
	{"v8dbg_off_fp_function", -16},
	{"v8dbg_off_fp_bytecode_array", -32},
	{"v8dbg_off_fp_bytecode_offset", -40},
	{"v8dbg_SmiTag", 0},
	{"v8dbg_SmiShiftSize", 31},
	{"v8dbg_HeapObjectTag", 1},
	{"v8dbg_HeapObjectTagMask", 3},
	{"v8dbg_scopeinfo_idx_ncontextlocals", 2},
	{"v8dbg_StringRepresentationMask", 7},
	{"v8dbg_StringEncodingMask", 8},
	{"v8dbg_OneByteStringTag", 8},
	{"v8dbg_SeqStringTag", 0},
	{"v8dbg_ConsStringTag", 1},
	{"v8dbg_SlicedStringTag", 3},
	{"v8dbg_ThinStringTag", 5},
	{"v8dbg_class_String__length__int32_t", 12},
	{"v8dbg_class_SeqOneByteString__chars__char", 16},
	{"v8dbg_class_SeqTwoByteString__chars__char", 16},
	{"v8dbg_class_ConsString__first__String", 16},
	{"v8dbg_class_ConsString__second__String", 24},
	{"v8dbg_class_SlicedString__parent__String", 16},
	{"v8dbg_class_SlicedString__offset__SMI", 24},
	{"v8dbg_class_ThinString__actual__String", 16},
	{"_ZN2v88internal7Version6major_E", 10},
	{"_ZN2v88internal7Version6minor_E", 2},
	{"_ZN2v88internal7Version6build_E", 154},
};

static const struct constant node_24[] = {
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", 32},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_", 24},
	{"v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_", 40},
	{"v8dbg_class_SharedFunctionInfo__flags__int", 56},
	{"v8dbg_class_Script__source__Object", 8},
	{"v8dbg_class_Script__name__Object", 16},
	{"v8dbg_class_Script__line_ends__Object", 56},
	{"v8dbg_class_Map__instance_type__uint16_t", 12},
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 282},
	{"v8dbg_type_Script__SCRIPT_TYPE", 167},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", 280},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", 186},
	{"v8dbg_scopeinfo_idx_first_vars", 5},
	{"v8dbg_class_BytecodeArray__data__uintptr_t", 64},
	{"v8dbg_off_fp_context_or_frame_type", -8},
	{"v8dbg_off_fp_function", -16},
	{"v8dbg_off_fp_bytecode_array", -32},
	{"v8dbg_off_fp_bytecode_offset", -40},
	{"v8dbg_SmiTag", 0},
	{"v8dbg_SmiShiftSize", 31},
	{"v8dbg_HeapObjectTag", 1},
	{"v8dbg_HeapObjectTagMask", 3},
	{"v8dbg_scopeinfo_idx_ncontextlocals", 2},
	{"v8dbg_StringRepresentationMask", 7},
	{"v8dbg_StringEncodingMask", 8},
	{"v8dbg_OneByteStringTag", 8},
	{"v8dbg_SeqStringTag", 0},
	{"v8dbg_ConsStringTag", 1},
	{"v8dbg_SlicedStringTag", 3},
	{"v8dbg_ThinStringTag", 5},
	{"v8dbg_class_String__length__int32_t", 12},
	{"v8dbg_class_SeqOneByteString__chars__char", 16},
	{"v8dbg_class_SeqTwoByteString__chars__char", 16},
	{"v8dbg_class_ConsString__first__String", 16},
	{"v8dbg_class_ConsString__second__String", 24},
	{"v8dbg_class_SlicedString__parent__String", 16},
	{"v8dbg_class_SlicedString__offset__SMI", 24},
	{"v8dbg_class_ThinString__actual__String", 16},
	{"_ZN2v88internal7Version6major_E", 13},
	{"_ZN2v88internal7Version6minor_E", 6},
	{"_ZN2v88internal7Version6build_E", 233},
};

/* The file with these constants, of which `name` has another value; NULL: none has. */
static int read_file(const struct constant *c, size_t n, const char *name, int32_t value,
		     struct runtime_facts *ret)
{
	struct runtime_symbol symbols[CONSTANTS_MAX];
	int32_t values[CONSTANTS_MAX];
	const struct runtime_file f = {
		.symbols = symbols, .n_symbols = n, .runtime = values, .runtime_bytes = n * sizeof values[0]};
	_cleanup_image_ struct elf_image *img = NULL;
	int r;

	cr_assert_leq(n, CONSTANTS_MAX);
	for (size_t i = 0; i < n; i++) {
		values[i] = name && strcmp(name, c[i].name) == 0 ? value : c[i].value;
		/* constants that are 0 have no bytes in the file */
		symbols[i] = (struct runtime_symbol){
			c[i].name, values[i] ? RUNTIME_VA + i * sizeof values[0] : 0x1000000, 4, OBJECT};
	}
	img = runtime_file_image(&f);
	r = runtime_facts_read(ret, img);
	cr_expect(runtime_facts_valid(ret));
	return r;
}

Test(v8, versions)
{
	char text[RUNTIME_VERSION_TEXT];
	struct runtime_facts f;

	cr_assert_eq(read_file(node_18, ARRAY_SIZE(node_18), NULL, 0, &f), 0);
	cr_expect_eq(f.kind, RUNTIME_FILE_V8);
	cr_expect(runtime_facts_known(&f));
	cr_expect_str_eq(runtime_facts_version(&f, text), "V8 10.2.154");
	cr_expect_eq(f.v8.layout.function_shared, 24);
	cr_expect_eq(f.v8.layout.shared_script, 32);
	cr_expect_eq(f.v8.layout.bytecode_data, 56);
	cr_expect_not(f.v8.layout.scope_is_packed);
	cr_assert_eq(read_file(node_24, ARRAY_SIZE(node_24), NULL, 0, &f), 0);
	cr_expect_str_eq(runtime_facts_version(&f, text), "V8 13.6.233");
	cr_expect(runtime_facts_known(&f));
	cr_expect_eq(f.v8.layout.shared_name, 24);
	cr_expect(f.v8.layout.scope_is_packed);
	cr_expect_eq(f.v8.layout.scope_first, 5);
}

static void expect_unknown(const char *name, int32_t value)
{
	struct runtime_facts f;

	cr_assert_eq(read_file(node_24, ARRAY_SIZE(node_24), name, value, &f), 0, "%s", name);
	cr_expect_not(runtime_facts_known(&f), "%s", name);
	cr_expect_eq(f.v8.layout.function_shared, 0);
}

Test(v8, what_is_not_known)
{
	static const struct constant few[] = {{"_ZN2v88internal7Version6major_E", 13}};
	struct runtime_facts f;

	expect_unknown("_ZN2v88internal7Version6minor_E", 7);
	expect_unknown("v8dbg_off_fp_function", -24);
	expect_unknown("v8dbg_SmiShiftSize", 0);
	expect_unknown("v8dbg_scopeinfo_idx_first_vars", 3);
	expect_unknown("v8dbg_class_JSFunction__shared__SharedFunctionInfo", 33);
	expect_unknown("v8dbg_class_SharedFunctionInfo__flags__int", 64);
	expect_unknown("v8dbg_class_Script__name__Object", 72);
	expect_unknown("v8dbg_type_Script__SCRIPT_TYPE", -1);
	cr_expect_eq(read_file(few, 1, NULL, 0, &f), -ENOENT);
	cr_expect_eq(f.kind, RUNTIME_FILE_NONE);
}

Test(v8, validity)
{
	struct runtime_facts f, g;

	cr_assert_eq(read_file(node_18, ARRAY_SIZE(node_18), NULL, 0, &f), 0);
#define REFUSED(change) \
	g = f;          \
	change;         \
	cr_expect_not(runtime_facts_valid(&g), #change)
	REFUSED(g.v8.version = 0);
	REFUSED(g.v8.version = V8_VERSION(12, 3));
	REFUSED(g.v8.build = 1u << 16);
	REFUSED(g.v8.known = 0);
	REFUSED(g.v8.known = 2);
	REFUSED(g.v8.layout.shared_script = 64);
	REFUSED(g.v8.layout.shared_flags = 64);
	REFUSED(g.v8.layout.script_source = 12);
	REFUSED(g.v8.layout.script_id = 72);
	REFUSED(g.v8.layout.scope_function = 4);
	REFUSED(g.v8.layout.map_type = 0);
#undef REFUSED
}

static void check_installed(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;
	struct runtime_facts f;

	if (fd < 0 || elf_image_open(&img, fd) < 0 || runtime_facts_read(&f, img) == -ENOENT)
		return;
	cr_expect(runtime_facts_valid(&f));
	cr_expect_eq(f.kind, RUNTIME_FILE_V8);
	cr_expect(runtime_facts_known(&f), "%s", path);
}

Test(v8, installed)
{
	check_installed("/usr/bin/node");
	check_installed("/usr/lib/x86_64-linux-gnu/libnode.so.108");
}
