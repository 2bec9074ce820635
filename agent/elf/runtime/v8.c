// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/v8.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

#define OBJECT_BYTES_MAX 128u /* of a SharedFunctionInfo, of a Script */
#define SMI_SHIFT 31	      /* above the tag */

/* What V8 does not export, by version. */
struct version_layout {
	uint32_t version;
	uint16_t scope_first; /* as it exports it: the check */
	uint16_t script_id, scope_is_packed, scope_function;
	struct v8_code_layout code; /* without type */
};

static const struct version_layout versions[] = {
	{V8_VERSION(10, 2),
	 3,
	 64,
	 0,
	 2,
	 {.header = 128,
	  .size = 40,
	  .deopt = 16,
	  .positions = 24,
	  .literals = 2,
	  .function = 6,
	  .inlined = 7}}, /* Node.js 18 */
	{V8_VERSION(11, 3),
	 3,
	 64,
	 0,
	 2,
	 {.header = 16,
	  .code = 8,
	  .start = 40,
	  .size = 56,
	  .deopt = 16,
	  .positions = 24,
	  .literals = 2,
	  .function = 6,
	  .inlined = 7}}, /* 20 */
	{V8_VERSION(12, 4),
	 3,
	 64,
	 0,
	 2,
	 {.header = 32,
	  .code = 8,
	  .start = 40,
	  .size = 52,
	  .deopt = 8,
	  .positions = 16,
	  .literals = 2,
	  .function = 6,
	  .inlined = 7}}, /* 22 */
	{V8_VERSION(13, 6),
	 5,
	 64,
	 1,
	 4,
	 {.header = 32,
	  .code = 8,
	  .start = 40,
	  .size = 56,
	  .deopt = 8,
	  .positions = 16,
	  .literals = 3,
	  .function = 7,
	  .inlined = 8,
	  .is_wrapped = 1}}, /* 24 */
	{V8_VERSION(14, 6),
	 5,
	 64,
	 1,
	 4,
	 {.header = 32,
	  .code = 8,
	  .start = 40,
	  .size = 56,
	  .deopt = 8,
	  .positions = 16,
	  .literals = 3,
	  .function = 7,
	  .inlined = 8,
	  .is_wrapped = 1,
	  .flag_bits = 2}}, /* 26 */
};

#define FIELD(field) offsetof(struct v8_layout, field)

/* Where each constant is exported. The names end in the C++ type, which has changed over time. */
static const struct {
	const char *name;
	uint16_t field; /* offset of an uint16_t of struct v8_layout */
} exports[] = {
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", FIELD(function_shared)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", FIELD(shared_name)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_", FIELD(shared_name)},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_", FIELD(shared_name)},
	{"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", FIELD(shared_script)},
	{"v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_", FIELD(shared_script)},
	{"v8dbg_class_SharedFunctionInfo__flags__int", FIELD(shared_flags)},
	{"v8dbg_class_Script__source__Object", FIELD(script_source)},
	{"v8dbg_class_Script__name__Object", FIELD(script_name)},
	{"v8dbg_class_Script__line_ends__Object", FIELD(script_line_ends)},
	{"v8dbg_class_Map__instance_type__uint16_t", FIELD(map_type)},
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", FIELD(shared_type)},
	{"v8dbg_type_Script__SCRIPT_TYPE", FIELD(script_type)},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", FIELD(scope_type)},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", FIELD(bytecode_type)},
	{"v8dbg_scopeinfo_idx_first_vars", FIELD(scope_first)},
	{"v8dbg_class_BytecodeArray__data__uintptr_t", FIELD(bytecode_data)},
	{"v8dbg_type_Code__CODE_TYPE", FIELD(code.type)},
};

/* What is the same in all versions, and relied on: frames, tags, strings. */
static const struct {
	const char *name;
	int32_t value;
} expected[] = {
	{"v8dbg_off_fp_context_or_frame_type", -8},
	{"v8dbg_off_fp_function", -16},
	{"v8dbg_off_fp_bytecode_array", -32},
	{"v8dbg_off_fp_bytecode_offset", -40},
	{"v8dbg_SmiTag", 0},
	{"v8dbg_SmiShiftSize", SMI_SHIFT},
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
};

static const char *const version_names[] = {
	"_ZN2v88internal7Version6major_E",
	"_ZN2v88internal7Version6minor_E",
	"_ZN2v88internal7Version6build_E",
};

/* Reads an int. Constants that are 0 have no bytes in the file. False: it cannot be read. */
static bool read_int(const struct elf_image *img, uint64_t va, int32_t *ret)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	*ret = 0;
	if (!s)
		return true;
	return elf_image_pread(img, s->offset + (va - s->va), ret, sizeof *ret) == 0;
}

/* 0; -ENOENT: there is no V8; -ENOMEM. */
static int read_version(struct v8_facts *f, struct elf_image *img)
{
	struct elf_definition d[ARRAY_SIZE(version_names)] = {{0}};
	int32_t v[ARRAY_SIZE(version_names)];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		d[i].name = version_names[i];
	r = elf_definitions_find_dynamic(img, d, ARRAY_SIZE(d));
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		if (!d[i].found || !read_int(img, d[i].va, &v[i]))
			return -ENOENT;
	if (v[0] < 1 || v[0] > 255 || v[1] < 0 || v[1] > 255 || v[2] < 0 || v[2] > 65535)
		return -ENOENT;
	f->version = V8_VERSION(v[0], v[1]);
	f->build = (uint32_t)v[2];
	return 0;
}

/* 0: they are; -ENOTSUP; -ENOMEM. */
static int check_expected(struct elf_image *img)
{
	struct elf_definition d[ARRAY_SIZE(expected)] = {{0}};
	int32_t value;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		d[i].name = expected[i].name;
	r = elf_definitions_find_dynamic(img, d, ARRAY_SIZE(d));
	for (size_t i = 0; i < ARRAY_SIZE(d) && r == 0; i++)
		if (!d[i].found || !read_int(img, d[i].va, &value) || value != expected[i].value)
			r = -ENOTSUP;
	return r;
}

/* Fills in what is exported. 0; -ENOTSUP: a value is none that can be; -ENOMEM. */
static int read_exports(struct v8_layout *l, struct elf_image *img)
{
	struct elf_definition d[ARRAY_SIZE(exports)] = {{0}};
	int32_t value;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		d[i].name = exports[i].name;
	r = elf_definitions_find_dynamic(img, d, ARRAY_SIZE(d));
	for (size_t i = 0; i < ARRAY_SIZE(d) && r == 0; i++) {
		if (!d[i].found)
			continue;
		if (!read_int(img, d[i].va, &value) || value <= 0 || value > UINT16_MAX)
			return -ENOTSUP;
		*(uint16_t *)((char *)l + exports[i].field) = (uint16_t)value;
	}
	return r;
}

static const struct version_layout *version_of(uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i].version == version)
			return &versions[i];
	return NULL;
}

static bool is_word(uint16_t offset)
{
	return offset && !(offset % 8) && offset < OBJECT_BYTES_MAX;
}

/* Without the type, which that version may not export, code is not looked at. */
static bool code_valid(const struct v8_code_layout *l, const struct version_layout *v)
{
	struct v8_code_layout code = v->code;

	code.type = l->type;
	return memcmp(&code, l, sizeof code) == 0;
}

static bool layout_valid(const struct v8_layout *l, const struct version_layout *v)
{
	return is_word(l->function_shared) && is_word(l->shared_name) && is_word(l->shared_script) &&
	       is_word(l->shared_flags) && l->shared_flags < OBJECT_BYTES_MAX / 2 && l->shared_script < 64 &&
	       is_word(l->script_source) && is_word(l->script_name) && is_word(l->script_line_ends) &&
	       l->script_name < l->script_id && l->script_source < l->script_id && l->map_type &&
	       l->map_type < OBJECT_BYTES_MAX && l->shared_type && l->script_type && l->scope_type &&
	       l->bytecode_type && l->bytecode_data && l->bytecode_data < OBJECT_BYTES_MAX &&
	       l->scope_first == v->scope_first && l->script_id == v->script_id &&
	       l->scope_is_packed == v->scope_is_packed && l->scope_function == v->scope_function &&
	       code_valid(&l->code, v);
}

/* 0; -ENOTSUP: it is another layout than is known; -ENOMEM. */
static int read_layout(struct v8_facts *f, struct elf_image *img)
{
	const struct version_layout *v = version_of(f->version);
	int r = v ? check_expected(img) : -ENOTSUP;

	if (r < 0)
		return r;
	f->layout.code = v->code;
	r = read_exports(&f->layout, img);
	if (r < 0)
		return r;
	f->layout.script_id = v->script_id;
	f->layout.scope_is_packed = v->scope_is_packed;
	f->layout.scope_function = v->scope_function;
	return layout_valid(&f->layout, v) ? 0 : -ENOTSUP;
}

int v8_facts_read(struct v8_facts *ret, struct elf_image *img)
{
	struct v8_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	r = read_version(&f, img);
	if (r < 0)
		return r;
	r = read_layout(&f, img);
	if (r == -ENOMEM)
		return r;
	f.known = r == 0;
	if (!f.known)
		memset(&f.layout, 0, sizeof f.layout);
	*ret = f;
	return 0;
}

bool v8_facts_valid(const struct v8_facts *f)
{
	static const struct v8_layout none;
	const struct version_layout *v = version_of(f->version);

	if (f->build > UINT16_MAX || (!f->version && f->build) || f->version & 0xffff)
		return false;
	if (!f->known)
		return memcmp(&f->layout, &none, sizeof none) == 0 && (!f->version || f->version >> 24);
	return f->known == 1 && v && layout_valid(&f->layout, v);
}
