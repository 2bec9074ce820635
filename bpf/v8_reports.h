/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reports about functions of V8 (RUNTIME_SHAPE_NATIVE); v8.h says what the objects are. Part of reports.h,
 * and compiled for the host, for functions that V8 has compiled into their callers.
 */
#ifndef PROFLET_BPF_V8_REPORTS_H
#define PROFLET_BPF_V8_REPORTS_H

#include "bpf/report_area.h"
#include "bpf/v8.h"

#define V8_TEXT_HOPS 3	      /* strings that stand for another one */
#define V8_STRING_TYPES 0x80u /* types below are those of strings */
#define V8_STRING_FORM 7u     /* bits of them */
#define V8_STRING_ONE_BYTE 8u
#define V8_SEQUENTIAL 0u
#define V8_CONS 1u
#define V8_SLICED 3u
#define V8_THIN 5u
#define V8_CHARACTERS 16u   /* of a sequential string; other ones have two words there */
#define V8_NAMES_INLINE 75u /* names of variables that a ScopeInfo can have itself */
#define V8_VARIABLES_MAX 65536u
/* Bits of a ScopeInfo's flags. */
#define V8_SCOPE_KIND 15u
#define V8_SCOPE_CLASS_VARIABLE 10
#define V8_SCOPE_NAME 12 /* two bits */
#define V8_SCOPE_GUESSED_NAME 14

struct v8_string {
	__u64 map;
	__u32 hash, length;
	__u64 first, second;
};

/* Writes a string to bytes[at]. Returns the bytes; 0: it is unreadable, or no string. */
UNWIND_FN __u64 v8_text(__u64 string, __u64 at)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	struct v8_string s = {0};
	__u64 offset = 0, length = 0, bytes, width, empty;
	__u16 type = 0;

	if (!a || !d)
		return 0;
	ROLLED
	for (int i = 0; i < V8_TEXT_HOPS; i++) {
		if (!v8_is_pointer(string) || env_read_user(&s, sizeof s, string - 1) ||
		    env_read_user(&type, sizeof type, s.map - 1 + a->runtime.walk.v8.map_type) ||
		    type >= V8_STRING_TYPES)
			return 0;
		if (!i)
			length = s.length;
		type &= V8_STRING_FORM | V8_STRING_ONE_BYTE;
		if ((type & V8_STRING_FORM) == V8_SEQUENTIAL)
			break;
		if ((type & V8_STRING_FORM) == V8_SLICED)
			offset += s.second >> 32;
		else if ((type & V8_STRING_FORM) == V8_CONS ? user_word(s.second + 7, &empty) || empty >> 32
							    : (type & V8_STRING_FORM) != V8_THIN)
			return 0;
		string = s.first;
	}
	if ((type & V8_STRING_FORM) != V8_SEQUENTIAL || offset + length > s.length)
		return 0;
	width = type & V8_STRING_ONE_BYTE ? 1 : 2;
	BOUND(at, 2040);
	*(__u64 *)(d->bytes + at) = length | width << 32;
	bytes = length * width;
	if (bytes > RUNTIME_TEXT_MAX - 8)
		bytes = RUNTIME_TEXT_MAX - 8;
	BOUND(bytes, 511);
	if (bytes && env_read_user(d->bytes + at + 8, bytes, string - 1 + V8_CHARACTERS + offset * width))
		return 0;
	return 8 + bytes;
}

/*
 * Of a function: its name, the name that V8 has guessed, 0: none; where it begins in its script, a Smi, or
 * V8_NOWHERE.
 */
#define V8_NOWHERE 1ull
struct v8_scope {
	__u64 name, guessed, start;
};

/* Reads a ScopeInfo. 0; -1: it is none, or cannot be read. */
static __always_inline int v8_scope_read(struct unwind_area *a, __u64 scope, struct v8_scope *ret)
{
	const struct runtime_v8 *v8 = &a->runtime.walk.v8;
	__u64 head[4], flags, n, at = scope - 1 + 8 + 8ull * v8->scope_first, slot;

	*ret = (struct v8_scope){.start = V8_NOWHERE};
	if (env_read_user(head, sizeof head, scope - 1))
		return -1;
	flags = v8->scope_is_packed ? (__u32)head[1] : head[1] >> 32;
	n = head[3] >> 32;
	if ((__u32)head[3] || n > V8_VARIABLES_MAX)
		return -1;
	if ((flags & V8_SCOPE_KIND) != v8->scope_function)
		return 0;
	at += 8 * ((n < V8_NAMES_INLINE ? n : 1) + n + (flags >> V8_SCOPE_CLASS_VARIABLE & 1));
	if (flags >> V8_SCOPE_NAME & 3) {
		/* behind the name is a number */
		if (user_word(at, &ret->name) || user_word(at + 8, &slot) || (__u32)slot)
			return -1;
		at += 16;
	}
	if (flags >> V8_SCOPE_GUESSED_NAME & 1) {
		if (user_word(at, &ret->guessed))
			return -1;
		at += 8;
	}
	if (v8->scope_is_packed)
		at = scope - 1 + 32;
	return user_word(at, &ret->start) || (__u32)ret->start ? -1 : 0;
}

/* Finds the names of a function: `name` is what its SharedFunctionInfo has. 0; -1: it cannot be read. */
static __always_inline int v8_names(struct unwind_area *a, __u64 name, struct v8_scope *ret)
{
	const struct runtime_v8 *v8 = &a->runtime.walk.v8;
	__u64 map;
	__u16 type;

	*ret = (struct v8_scope){.name = name, .start = V8_NOWHERE};
	if (!v8_is_pointer(name) || user_word(name - 1, &map) ||
	    env_read_user(&type, sizeof type, map - 1 + v8->map_type))
		return -1;
	if (type == v8->scope_type)
		return v8_scope_read(a, name, ret);
	return type < V8_STRING_TYPES ? 0 : -1;
}

/*
 * Assembles the report of a SharedFunctionInfo: its names and its script's. Returns its bytes; 0: a part of
 * it cannot be read now.
 */
UNWIND_FN int report_v8(__u64 number, __u64 shared)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	struct v8_scope scope;
	__u64 name, script, file, at;

	if (!a || !d)
		return 0;
	report_begin(d, &a->runtime.walk, number);
	if (user_word(shared - 1 + a->runtime.walk.v8.shared_name, &name) ||
	    user_word(shared - 1 + a->runtime.walk.v8.shared_script, &script) ||
	    user_word(script - 1 + a->runtime.walk.v8.script_name, &file) ||
	    user_word(script - 1 + a->runtime.walk.v8.script_id, &d->head.type) || v8_names(a, name, &scope))
		return 0;
	d->head.name_type = script;
	if (scope.start != V8_NOWHERE)
		d->head.first_line = (__u32)(scope.start >> 32) + 1;
	if (v8_is_pointer(scope.name)) {
		d->head.name_bytes = v8_text(scope.name, 0);
		if (!d->head.name_bytes)
			return 0;
	}
	at = (d->head.name_bytes + 7) & ~7ull;
	d->head.file_bytes = v8_text(file, at); /* code that was evaluated has none */
	at += (d->head.file_bytes + 7) & ~7u;
	d->head.class_bytes = v8_text(scope.guessed, at); /* it need not have one */
	return sizeof d->head + at + ((d->head.class_bytes + 7) & ~7u);
}

#endif
