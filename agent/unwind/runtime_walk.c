// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/runtime_walk.h"

#include <errno.h>
#include <string.h>

#include "agent/elf/runtime/facts.h"
#include "agent/proc/mapping.h"
#include "agent/proc/table.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/tables.h"
#include "bpf/arch.h"

_Static_assert(CPYTHON_NO_OFFSET == RUNTIME_NO_OFFSET && RUBY_NO_OFFSET == RUNTIME_NO_OFFSET &&
		       LUA_NO_OFFSET == RUNTIME_NO_OFFSET,
	       "offsets are copied");

static bool cpython_walk(struct runtime_walk *ret, const struct cpython_facts *facts, uint32_t file,
			 uint64_t bias, uint64_t secret)
{
	const struct cpython_layout *l = &facts->layout;
	bool has_key = l->key != CPYTHON_NO_OFFSET;
	/* A thread-local variable follows the thread into another interpreter; a key has its first state. */
	bool search = !has_key || l->has_thread_local || TSD_GLIBC == RUNTIME_NO_OFFSET;

	if (!facts->known || !facts->runtime)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.key = has_key ? facts->runtime + bias + l->key : 0,
		.bias = bias,
		.code_type = facts->code_type ? facts->code_type + bias : 0,
		.flags = (uint16_t)(l->flags | (search ? RUNTIME_WALK_SEARCH : 0)),
		.runtime = RUNTIME_CPYTHON,
		.layout = (uint16_t)file,
		.tsd = TSD_GLIBC,
		.tsd_pointer = TSD_MUSL,
		.thread = l->thread,
		.first = l->first,
		.first_of = l->first_of,
		.marker_first = l->marker_first,
		.marker_next = l->marker_next,
		.frame_bytes = l->frame_bytes,
		.next = l->next,
		.code = l->code,
		.instruction = l->instruction,
		.kind = l->kind,
		.entry_mask = 0xff,
		.code_tag = l->code_tag,
		.hidden_kind = l->hidden_kind,
		.content = l->content,
		.content_bytes = l->content_bytes,
		.type = l->type,
		.first_line = l->first_line,
		.name = l->name,
		.file = l->file,
		.lines = l->lines,
		.text_length = l->text_length,
		.bytes_length = l->bytes_length,
		.bytes = l->bytes,
		.instructions = l->copies,
		.n_instructions = l->copy,
		.scope = l->task,
		.scope_name = l->task_name,
	};
	if (l->task)
		ret->flags |= RUNTIME_WALK_TASKS;
	return true;
}

static bool php_walk(struct runtime_walk *ret, const struct php_facts *facts, uint32_t file, uint64_t bias,
		     uint64_t secret)
{
	const struct php_layout *l = &facts->layout;
	const uint16_t own = facts->threads ? RUNTIME_WALK_BLOCK | RUNTIME_WALK_SEARCH : 0;

	if (!facts->known)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.start = facts->globals + bias + (facts->threads ? 0 : l->current_frame),
		.bias = bias,
		.flags = (uint16_t)(RUNTIME_WALK_ENTRY | RUNTIME_WALK_SKIP | RUNTIME_WALK_LINES | own),
		.runtime = RUNTIME_PHP,
		.layout = (uint16_t)file,
		.thread = PHP_BLOCK_THREAD,
		.first = l->current_frame,
		.frame_bytes = PHP_FRAME_BYTES,
		.next = PHP_FRAME_NEXT,
		.code = PHP_FRAME_CODE,
		.instruction = PHP_FRAME_INSTRUCTION,
		.kind = PHP_FRAME_CALL_INFO + 2, /* of the bits, little-endian, the byte with the one */
		.entry_mask = PHP_CALL_TOP >> 16,
		.kinds = 1u << PHP_FUNCTION_USER | 1u << PHP_FUNCTION_EVAL,
		.leaf_register = REGISTER_PHP_INSTRUCTION,
		.content_bytes = PHP_FUNCTION_SCOPE + 8,
		.first_line = l->first_line,
		.name = PHP_FUNCTION_NAME,
		.scope = PHP_FUNCTION_SCOPE,
		.scope_name = PHP_CLASS_NAME,
		.file = l->file,
		.text_length = PHP_TEXT_LENGTH,
		.instructions = l->instructions,
		.n_instructions = l->n_instructions,
		.instruction_bytes = PHP_INSTRUCTION_BYTES,
		.line = PHP_INSTRUCTION_LINE,
	};
	return true;
}

static bool ruby_walk(struct runtime_walk *ret, const struct ruby_facts *facts, uint32_t file, uint64_t bias,
		      uint64_t secret)
{
	const struct ruby_layout *l = &facts->layout;

	if (!facts->known)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.start = facts->context ? facts->context + bias : 0,
		.bias = bias,
		.flags = (uint16_t)((facts->context ? 0 : RUNTIME_WALK_SEARCH) |
				    (l->hides_handlers ? RUNTIME_WALK_HANDLERS : 0)),
		.runtime = RUNTIME_RUBY,
		.layout = (uint16_t)file,
		.thread = l->context_thread,
		.first = RUBY_CONTEXT_FRAME,
		.frame_bytes = l->frame_bytes,
		.code = RUBY_FRAME_ISEQ,
		.instruction = RUBY_FRAME_PC,
		.kind = RUBY_FRAME_EP,
		.leaf_register = REGISTER_RUBY_INSTRUCTION,
		.shape = RUNTIME_SHAPE_ARRAY,
		.lines = l->lines_index,
		.text_length = l->text_length,
		.bytes = l->text,
		.scope = RUBY_METHOD_OWNER,
		.scope_name = l->class_path,
		.instructions = l->lines,
		.n_instructions = l->n_lines,
		.instruction_bytes = l->line_bytes,
		.symbols = facts->symbols ? facts->symbols + bias : 0,
		.back = l->thread_back,
		.local = l->local,
		.attached = l->attached,
		.single_flag = l->single_flag,
	};
	return true;
}

static bool perl_walk(struct runtime_walk *ret, const struct perl_facts *facts, uint32_t file, uint64_t bias,
		      uint64_t secret)
{
	const struct perl_layout *l = &facts->layout;
	const uint64_t start = perl_facts_start(facts);

	if (!facts->known || (!facts->key && !start))
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.key = facts->key ? facts->key + bias : 0,
		.start = start ? start + bias : 0,
		.bias = bias,
		.flags = (uint16_t)((l->body_names ? RUNTIME_WALK_BODY_NAMES : 0) |
				    (TSD_GLIBC == RUNTIME_NO_OFFSET ? RUNTIME_WALK_SEARCH : 0) |
				    (start ? RUNTIME_WALK_GLOB_FILES : 0)),
		.runtime = RUNTIME_PERL,
		.layout = (uint16_t)file,
		.tsd = TSD_GLIBC,
		.tsd_pointer = TSD_MUSL,
		.shape = RUNTIME_SHAPE_PAIRED,
		.first = start ? (uint16_t)(facts->stack - start) : l->stack,
		.statement = start ? (uint16_t)(facts->statement - start) : l->statement,
		.environment = start ? (uint16_t)(facts->environment - start) : l->environment,
		.stack_kind = l->stack_kind,
		.frame_bytes = l->context_bytes,
		.code = l->function,
	};
	return true;
}

static bool lua_walk(struct runtime_walk *ret, const struct lua_facts *facts, uint32_t file, uint64_t bias,
		     uint64_t secret)
{
	const struct lua_layout *l = &facts->layout;

	if (!facts->known)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.bias = bias,
		.runtime = RUNTIME_LUA,
		.layout = (uint16_t)file,
		.shape = RUNTIME_SHAPE_STATES,
		.leaf_register = (uint8_t)facts->leaf_register,
		.first = l->calls,
		.thread = l->outermost,
		.line = l->state_instruction,
		.stack = l->stack,
		.stack_end = l->stack_end,
		.frame_bytes = l->call_bytes,
		.next = l->previous,
		.code = l->function,
		.scope = l->closure_code,
		.scope_name = l->closure_native,
		.instruction = l->instruction,
		.kind = l->status,
		.entry_mask = (uint8_t)l->fresh,
		.entry_value = (uint8_t)l->fresh_value,
		.base = l->base,
		.content = l->content,
		.content_bytes = l->content_bytes,
		.first_line = l->first_line,
		.file = l->source,
		.bytes = LUA_TEXT,
		.lines = l->lines,
		.steps = l->n_steps,
		.instructions = l->code,
		.n_instructions = l->n_code,
		.instruction_bytes = LUA_INSTRUCTION_BYTES,
		.call = l->call,
		.call_shift = l->call_shift,
		.loop_start = facts->loop_start + bias,
		.loop_bytes = facts->loop_end - facts->loop_start,
		.loop_body = (uint16_t)(facts->loop_body - facts->loop_start),
	};
	for (uint32_t i = 0; i < facts->n_sites && i < RUNTIME_SITES_MAX; i++)
		ret->sites[i] = (struct runtime_site){
			.distance = (int32_t)(facts->sites[i].va - facts->loop_start),
			.offset = (int16_t)facts->sites[i].offset,
			.resumes = (uint16_t)facts->sites[i].resumes,
		};
	return true;
}

static bool luajit_walk(struct runtime_walk *ret, const struct luajit_facts *facts, uint32_t file,
			uint64_t bias, uint64_t secret)
{
	if (!facts->known)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.bias = bias,
		.runtime = RUNTIME_LUAJIT,
		.layout = (uint16_t)file,
		.shape = RUNTIME_SHAPE_VALUES,
		.leaf_register = LUAJIT_NEXT_REGISTER,
		.leaf_base = LUAJIT_BASE_REGISTER,
		.leaf_callee = LUAJIT_CALLEE_REGISTER,
		.first = LUAJIT_STATE_BASE,
		.first_of = facts->jit_base ? (uint16_t)facts->jit_base : RUNTIME_NO_OFFSET,
		.thread = LUAJIT_STATE_GLOBAL,
		.stack = LUAJIT_STATE_STACK,
		.stack_end = LUAJIT_STATE_STACK_END,
		.marker_first = LUAJIT_STATE_FRAME,
		.frame_bytes = LUAJIT_FRAME_BYTES,
		.scope = LUAJIT_FUNCTION_CODE,
		.content = LUAJIT_PROTO_SOURCE,
		.content_bytes = LUAJIT_PROTO_BYTES,
		.first_line = LUAJIT_PROTO_FIRST_LINE,
		.file = LUAJIT_PROTO_SOURCE,
		.bytes = LUAJIT_TEXT,
		.lines = LUAJIT_PROTO_LINES,
		.instructions = LUAJIT_PROTO_CODE,
		.n_instructions = LUAJIT_PROTO_N,
		.instruction_bytes = LUAJIT_INSTRUCTION_BYTES,
		.loop_start = facts->loop_start + bias,
		.loop_bytes = facts->loop_end - facts->loop_start,
		.sites = {{.offset = LUAJIT_FRAME_STATE},
			  {.offset = LUAJIT_FRAME_NEXT},
			  {.distance = (int32_t)facts->protected_return}},
	};
	return true;
}

static bool v8_walk(struct runtime_walk *ret, const struct v8_facts *facts, uint32_t file, uint64_t bias,
		    uint64_t secret)
{
	const struct v8_layout *l = &facts->layout;

	if (!facts->known)
		return false;
	*ret = (struct runtime_walk){
		.salt = secret,
		.bias = bias,
		.runtime = RUNTIME_V8,
		.layout = (uint16_t)file,
		.shape = RUNTIME_SHAPE_NATIVE,
		.v8 =
			{
				.function_shared = l->function_shared,
				.shared_name = l->shared_name,
				.shared_script = l->shared_script,
				.shared_literal = (uint16_t)(l->shared_flags + sizeof(uint32_t)),
				.script_source = l->script_source,
				.script_name = l->script_name,
				.script_id = l->script_id,
				.script_line_ends = l->script_line_ends,
				.map_type = l->map_type,
				.shared_type = l->shared_type,
				.script_type = l->script_type,
				.scope_type = l->scope_type,
				.bytecode_type = l->bytecode_type,
				.scope_first = l->scope_first,
				.scope_is_packed = l->scope_is_packed,
				.scope_function = l->scope_function,
				.bytecode_data = l->bytecode_data,
			},
	};
	return true;
}

bool runtime_walk_make(struct runtime_walk *ret, const struct runtime_facts *facts, uint32_t file,
		       uint64_t bias, uint64_t secret)
{
	switch (facts->kind) {
	case RUNTIME_FILE_CPYTHON:
		return cpython_walk(ret, &facts->cpython, file, bias, secret);
	case RUNTIME_FILE_PHP:
		return php_walk(ret, &facts->php, file, bias, secret);
	case RUNTIME_FILE_RUBY:
		return ruby_walk(ret, &facts->ruby, file, bias, secret);
	case RUNTIME_FILE_PERL:
		return perl_walk(ret, &facts->perl, file, bias, secret);
	case RUNTIME_FILE_LUA:
		return lua_walk(ret, &facts->lua, file, bias, secret);
	case RUNTIME_FILE_LUAJIT:
		return luajit_walk(ret, &facts->luajit, file, bias, secret);
	case RUNTIME_FILE_V8:
		return v8_walk(ret, &facts->v8, file, bias, secret);
	default:
		return false;
	}
}

/* Process address minus ELF virtual address, from a mapping of code. False: it is none of the file's. */
static bool bias_of(const struct proc_mapping *m, const struct binary *b, uint64_t *ret)
{
	for (size_t i = 0; i < b->n_segments; i++) {
		const struct elf_segment *s = &b->segments[i];

		if (s->executable && m->offset < s->offset + s->file_bytes &&
		    m->offset + (m->end - m->start) > s->offset) {
			*ret = m->start - m->offset - (s->va - s->offset);
			return true;
		}
	}
	return false;
}

bool runtime_walk_find(struct runtime_walk *ret, const struct proc_maps *maps,
		       const struct unwind_tables *tables, unsigned kinds, uint64_t secret)
{
	struct proc_maps_cursor c = {.maps = maps};
	const struct proc_mapping *m;
	uint64_t bias;

	while ((m = proc_maps_next(&c))) {
		const struct binary_table *t = unwind_tables_get(tables, m->file);

		if (t && t->runtime && kinds >> t->runtime->kind & 1 && bias_of(m, t->binary, &bias) &&
		    runtime_walk_make(ret, t->runtime, t->binary->index, bias, secret)) {
			if (!(kinds & RUNTIME_WANT_TASKS))
				ret->flags &= (uint16_t)~RUNTIME_WALK_TASKS;
			return true;
		}
	}
	return false;
}

static struct beam_vm beam_vm(const struct beam_facts *b, uint64_t bias)
{
	struct beam_vm vm = {.data_start = b->data_start + bias, .data_end = b->data_end + bias};

	if (b->known == BEAM_EXPORTED) {
		vm.code_index = b->code_index + bias;
		vm.atom_table = b->atom_table + bias;
		vm.normal_exit = b->normal_exit + bias;
		vm.frame_layout = b->frame_layout + bias;
	}
	return vm;
}

/* What leads to the tables of a virtual machine in the file that is mapped at `bias`. False: it is none. */
static bool vm_of(struct vm *ret, const struct runtime_facts *f, uint64_t bias, unsigned kinds)
{
	if (!(kinds >> f->kind & 1))
		return false;
	if (f->kind == RUNTIME_FILE_HOTSPOT)
		*ret = (struct vm){.kind = VM_HOTSPOT,
				   .hotspot = {f->hotspot.structs + bias, f->hotspot.types + bias}};
	else if (f->kind == RUNTIME_FILE_BEAM && f->beam.known)
		*ret = (struct vm){.kind = VM_BEAM, .beam = beam_vm(&f->beam, bias)};
	else if (f->kind == RUNTIME_FILE_DOTNET && f->dotnet.known)
		*ret = (struct vm){.kind = VM_DOTNET,
				   .dotnet = {f->dotnet.dac_table + bias, f->dotnet.version >> 24}};
	else if (f->kind == RUNTIME_FILE_V8 && f->v8.known && f->v8.layout.code.type)
		*ret = (struct vm){.kind = VM_V8, .v8 = f->v8.layout};
	return ret->kind != VM_NONE;
}

/* Whether the file has a virtual machine by its name, before more is known of it. */
static bool is_vm_name(const char *name)
{
	return strcmp(name, "libjvm.so") == 0 || strcmp(name, "libcoreclr.so") == 0;
}

int runtime_walk_find_vm(struct generated_request *ret, const struct proc_maps *maps,
			 const struct unwind_tables *tables, unsigned kinds)
{
	struct proc_maps_cursor c = {.maps = maps};
	const struct proc_mapping *m;
	uint64_t bias;
	const struct binary_table *first = NULL; /* mostly the program, which may have the machine in it */
	int r = -ENOENT;

	while ((m = proc_maps_next(&c))) {
		const struct binary_table *t = unwind_tables_get(tables, m->file);

		/* a file that is being opened may be the machine; what is guessed meanwhile would stay */
		if ((m->file & (PROC_FILE_OPENING | PROC_FILE_STUCK)) == PROC_FILE_OPENING)
			r = -EAGAIN;
		if (!t || t->generated)
			continue;
		first = first ?: t;
		if (t->runtime && t->runtime->kind == RUNTIME_FILE_LUAJIT && t->runtime->luajit.known &&
		    kinds >> RUNTIME_FILE_LUAJIT & 1)
			return -ENOTSUP;
		if (t->runtime && bias_of(m, t->binary, &bias) && vm_of(&ret->vm, t->runtime, bias, kinds))
			return 0;
		if (binary_table_pending(t) && !t->runtime &&
		    (t == first || is_vm_name(t->binary->module.name)))
			r = -EAGAIN;
	}
	return r;
}
