// SPDX-License-Identifier: Apache-2.0
/*
 * Where the fields of HotSpot's objects are, as the virtual machine's own tables say it (vmStructs): JDK 8
 * and later. Pure but for the memory that it is given. Rank 1.
 */
#ifndef PROFLET_ELF_HOTSPOT_LAYOUT_H
#define PROFLET_ELF_HOTSPOT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/runtime/hotspot_unloads.h"
#include "bpf/abi.h"

struct vm_memory;

/*
 * X(name, type, field): several may have one name, since fields have moved from one class to another; the
 * first one that the tables have counts.
 */
#define HOTSPOT_FIELDS(X)                                          \
	X(ARRAY_LENGTH, "GrowableArrayBase", "_len")               \
	X(ARRAY_LENGTH_OLD, "GenericGrowableArray", "_len")        \
	X(ARRAY_DATA, "GrowableArray<int>", "_data")               \
	X(HEAP_MEMORY, "CodeHeap", "_memory")                      \
	X(HEAP_SEGMAP, "CodeHeap", "_segmap")                      \
	X(HEAP_SHIFT, "CodeHeap", "_log2_segment_size")            \
	X(SPACE_LOW, "VirtualSpace", "_low")                       \
	X(SPACE_HIGH, "VirtualSpace", "_high")                     \
	X(SPACE_BOUNDARY, "VirtualSpace", "_high_boundary")        \
	X(BLOCK_LENGTH, "HeapBlock::Header", "_length")            \
	X(BLOCK_USED, "HeapBlock::Header", "_used")                \
	X(BLOB_NAME, "CodeBlob", "_name")                          \
	X(BLOB_SIZE, "CodeBlob", "_size")                          \
	X(BLOB_FRAME_SIZE, "CodeBlob", "_frame_size")              \
	X(BLOB_COMPLETE, "CodeBlob", "_frame_complete_offset")     \
	X(BLOB_CODE_BEGIN, "CodeBlob", "_code_begin")              \
	X(BLOB_CODE_END, "CodeBlob", "_code_end")                  \
	X(BLOB_CODE_OFFSET, "CodeBlob", "_code_offset")            \
	X(BLOB_DATA_OFFSET, "CodeBlob", "_data_offset")            \
	X(BLOB_MUTABLE_DATA, "CodeBlob", "_mutable_data")          \
	X(BLOB_RELOCATION_SIZE, "CodeBlob", "_relocation_size")    \
	X(NMETHOD_METHOD, "nmethod", "_method")                    \
	X(COMPILED_METHOD, "CompiledMethod", "_method")            \
	X(NMETHOD_COMPILE_ID, "nmethod", "_compile_id")            \
	X(NMETHOD_STATE, "nmethod", "_state")                      \
	X(NMETHOD_METADATA, "nmethod", "_metadata_offset")         \
	X(NMETHOD_PCS, "nmethod", "_scopes_pcs_offset")            \
	X(NMETHOD_DEPENDENCIES, "nmethod", "_dependencies_offset") \
	X(NMETHOD_SCOPES, "nmethod", "_scopes_data_offset")        \
	X(COMPILED_SCOPES, "CompiledMethod", "_scopes_data_begin") \
	X(NMETHOD_IMMUTABLE, "nmethod", "_immutable_data")         \
	X(PC_OFFSET, "PcDesc", "_pc_offset")                       \
	X(PC_SCOPE, "PcDesc", "_scope_decode_offset")              \
	X(METHOD_CONST, "Method", "_constMethod")                  \
	X(CONST_POOL, "ConstMethod", "_constants")                 \
	X(CONST_NAME, "ConstMethod", "_name_index")                \
	X(CONST_CODE_SIZE, "ConstMethod", "_code_size")            \
	X(CONST_FLAGS, "ConstMethod", "_flags")                    \
	X(CONST_FLAGS_NEW, "ConstMethod", "_flags._flags")         \
	X(POOL_HOLDER, "ConstantPool", "_pool_holder")             \
	X(POOL_LENGTH, "ConstantPool", "_length")                  \
	X(POOL_FILE, "ConstantPool", "_source_file_name_index")    \
	X(CLASS_FILE, "InstanceKlass", "_source_file_name_index")  \
	X(CLASS_NAME, "Klass", "_name")                            \
	X(SYMBOL_LENGTH, "Symbol", "_length")                      \
	X(SYMBOL_LENGTH_NEW, "Symbol", "_length_and_refcount")     \
	X(SYMBOL_BODY, "Symbol", "_body[0]")                       \
	X(SYMBOL_BODY_OLD, "Symbol", "_body")                      \
	X(VERSION_MAJOR, "JDK_Version", "_major")                  \
	X(QUEUE_BUFFER, "StubQueue", "_stub_buffer")               \
	X(QUEUE_LIMIT, "StubQueue", "_buffer_limit")               \
	X(QUEUE_STUBS, "StubQueue", "_number_of_stubs")            \
	X(CODELET_SIZE, "InterpreterCodelet", "_size")             \
	X(CODELET_TEXT, "InterpreterCodelet", "_description")

enum hotspot_field_name {
#define X(name, type, field) HOTSPOT_##name,
	HOTSPOT_FIELDS(X)
#undef X
		HOTSPOT_FIELDS_N
};

#define HOTSPOT_SHIFT_MAX 16u /* log2 of the bytes of a segment of a code heap */

struct hotspot_field {
	uint16_t off, bytes; /* of a number or pointer: 1, 2, 4, 8; else 0 */
	uint16_t found;
};

struct hotspot_layout {
	uint64_t heaps;	   /* process address of the pointer to the code heap, or to the array of them */
	uint64_t counters; /* the same of that to the performance counters; 0: there are none */
	uint64_t codelets; /* the same of that to the interpreter's StubQueue; 0: it is not known */
	struct hotspot_unloads unloads;
	struct code_heaps code; /* hotspot_heaps_read(); the names are 0 until such code was found */
	/* hotspot_unloads_read() before and after the last job has looked at anything */
	uint64_t unloaded_before, unloaded_after;
	uint32_t version;					  /* of the JDK, 8 and later */
	uint32_t single;					  /* there is one code heap: JDK 8 */
	uint32_t block_bytes, method_bytes, pool_bytes, pc_bytes; /* sizes of objects */
	uint32_t codelet_bytes;					  /* the same; 0: it is not known */
	struct hotspot_field fields[HOTSPOT_FIELDS_N];
	uint16_t zero;
};

/*
 * Reads the layout, where `structs` and `types` are the process addresses of the pointers to the tables. 0;
 * -ENOTSUP: something is missing; -EAGAIN: the virtual machine is not ready; errors of vm_read.
 */
int hotspot_layout_read(struct hotspot_layout *ret, struct vm_memory *m, uint64_t structs, uint64_t types);
/* Whether a layout, which a parser process has sent, is such as hotspot_layout_read gives. */
bool hotspot_layout_valid(const struct hotspot_layout *l);
/* The same of `code` alone. */
bool hotspot_heaps_valid(const struct code_heaps *c);
/* Reads a field of the object. 0; -ENOTSUP: there is none; errors of vm_read. */
int hotspot_get(struct vm_memory *m, const struct hotspot_layout *l, uint64_t object,
		enum hotspot_field_name field, uint64_t *ret);
static inline bool hotspot_has(const struct hotspot_layout *l, enum hotspot_field_name field)
{
	return l->fields[field].found;
}

#endif
