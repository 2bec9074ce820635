/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the agent gets about language runtimes beside samples: code objects, which are read here, while the
 * thread that runs them is interrupted, and where a thread's state was found. A read never waits for a page,
 * and what is read is the object that was running. A report is assembled in the CPU's deep area.
 */
#ifndef PROFLET_BPF_REPORTS_H
#define PROFLET_BPF_REPORTS_H

#include "bpf/env.h"
#include "bpf/kernel.h"
#include "bpf/maps.h"
#include "bpf/report_area.h"

__u32 reports_epoch; /* the agent changes it to have all code objects sent again */

#define REPORT_ATTEMPTS 3
#define LINES_CHUNK 2048u

/*
 * Reads the beginning of the string object at `object` to bytes[at], and its type. Characters take up to four
 * bytes each, but the memory behind the object may not be there. Returns the bytes, 0: unreadable.
 */
UNWIND_FN __u64 report_text(__u64 object, __u64 at)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	__u64 length, bytes, type;

	if (!a || !d || !object || env_read_user(&type, sizeof type, object + a->runtime.walk.type) ||
	    env_read_user(&length, sizeof length, object + a->runtime.walk.text_length))
		return 0;
	if (at)
		d->head.file_type = type;
	else
		d->head.name_type = type;
	if (length > RUNTIME_TEXT_MAX)
		length = RUNTIME_TEXT_MAX;
	BOUND(at, 2047);
	ROLLED
	for (int i = 0; i < REPORT_ATTEMPTS; i++) {
		bytes = i == 0 ? 80 + 4 * length : i == 1 ? 56 + length : 40 + length;
		if (bytes > RUNTIME_TEXT_MAX)
			bytes = RUNTIME_TEXT_MAX;
		BOUND(bytes, 1023);
		if (!env_read_user(d->bytes + at, bytes, object))
			return bytes;
	}
	return 0;
}

/* Reads the bytes object with the line table to bytes[at], as far as it can be read. Returns the bytes. */
static __always_inline __u64 lines_read(const struct runtime_walk *walk, struct report_area *d, __u64 at,
					__u64 object)
{
	__u64 length, got = 0;

	d->head.lines_length = 1; /* more than nothing: unknown */
	if (!object || env_read_user(&length, sizeof length, object + walk->bytes_length))
		return 0;
	d->head.lines_length = length < ~0u ? length : ~0u;
	if (length > RUNTIME_LINES_MAX)
		length = RUNTIME_LINES_MAX;
	ROLLED
	for (__u32 i = 0; i < RUNTIME_LINES_MAX / LINES_CHUNK && got < length; i++) {
		__u64 bytes = length - got, to = at + got;

		if (bytes > LINES_CHUNK)
			bytes = LINES_CHUNK;
		BOUND(bytes, 4095);
		BOUND(to, 0x7fff);
		if (to > sizeof d->bytes - 4096 ||
		    env_read_user(d->bytes + to, bytes, object + walk->bytes + got))
			break;
		got += bytes;
	}
	return got;
}

static __always_inline __u64 pointer_at(__u64 address)
{
	__u64 pointer;

	return env_read_user(&pointer, sizeof pointer, address) ? 0 : pointer;
}

/* Reads the string object at *(`place`) to bytes[at]. Returns the bytes, 0: there is none; -1: unreadable. */
static __always_inline int text_of(__u64 place, __u64 at)
{
	__u64 object;

	if (env_read_user(&object, sizeof object, place))
		return -1;
	return object ? (int)report_text(object, at) ?: -1 : 0;
}

/* The name of the class that a code object belongs to. As text_of. */
static __always_inline int class_of(const struct runtime_walk *walk, __u64 code, __u64 at)
{
	__u64 scope;

	if (env_read_user(&scope, sizeof scope, code + walk->scope))
		return -1;
	return scope ? text_of(scope + walk->scope_name, at) : 0;
}

/* The texts of a code object (RUNTIME_WALK_LINES). Returns their bytes; -1: one is unreadable. */
static __always_inline int report_texts(struct unwind_area *a, struct report_area *d, __u64 code)
{
	__u64 at = 0;
	int bytes;

	bytes = text_of(code + a->runtime.walk.name, at);
	if (bytes < 0)
		return -1;
	d->head.name_bytes = bytes;
	at = (bytes + 7) & ~7u;
	d->head.first_line = 0;
	if (code_has_lines(&a->runtime.walk, code)) {
		bytes = text_of(code + a->runtime.walk.file, at);
		if (bytes <= 0 || env_read_user(&d->head.first_line, sizeof d->head.first_line,
						code + a->runtime.walk.first_line))
			return -1;
		d->head.file_bytes = bytes;
		at += (bytes + 7) & ~7u;
	}
	bytes = class_of(&a->runtime.walk, code, at);
	if (bytes < 0)
		return -1;
	d->head.class_bytes = bytes;
	return at + ((bytes + 7) & ~7u);
}

#include "bpf/lua_reports.h"
#include "bpf/perl_reports.h"
#include "bpf/ruby_reports.h"
#include "bpf/v8_reports.h"

/* Assembles the report of a code object. Returns its bytes; 0: its name or its file cannot be read now. */
UNWIND_FN int report_assemble(__u64 number, __u64 code)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	const struct runtime_walk *walk;
	__u64 at = 0, bytes;

	if (!a || !d)
		return 0;
	walk = &a->runtime.walk;
	report_begin(d, walk, number);
	if (walk->shape == RUNTIME_SHAPE_ARRAY)
		return ruby_report(a, d, code);
	if (walk->shape == RUNTIME_SHAPE_PAIRED)
		return report_perl();
	if (walk->shape == RUNTIME_SHAPE_STATES || walk->shape == RUNTIME_SHAPE_VALUES)
		return report_lua(code);
	if (walk->flags & RUNTIME_WALK_LINES) {
		int texts = report_texts(a, d, code);

		return texts < 0 ? 0 : sizeof d->head + texts;
	}
	d->head.type = pointer_at(code + walk->type);
	if (env_read_user(&d->head.first_line, sizeof d->head.first_line, code + walk->first_line))
		return 0;
	bytes = report_text(pointer_at(code + walk->name), 0);
	if (!bytes)
		return 0;
	d->head.name_bytes = bytes;
	at = (bytes + 7) & ~7ull;
	bytes = report_text(pointer_at(code + walk->file), at);
	if (!bytes)
		return 0;
	d->head.file_bytes = bytes;
	at += (bytes + 7) & ~7ull;
	bytes = lines_read(walk, d, at, pointer_at(code + walk->lines));
	d->head.lines_bytes = bytes;
	at += (bytes + 7) & ~7ull;
	return sizeof d->head + at;
}

static __always_inline __u32 report_pid(void)
{
	__u64 pids = bpf_get_current_pid_tgid();

	if (config_pid_inum)
		pids = pids_translate();
	return pids >> 32;
}

/* Reports a code object that was not sent before. */
UNWIND_FN int env_report_code(__u64 number, __u64 code)
{
	struct unwind_area *a = env_area();
	__u32 slot = number >> 8 & (SENT_SLOTS - 1);
	__u64 *was_sent = bpf_map_lookup_elem(&sent, &slot), mark, bytes;
	struct report_area *d;

	if (!a || !was_sent)
		return 0;
	mark = number + reports_epoch * 0x9e3779b97f4a7c15ull;
	if (*was_sent == mark || a->runtime.n_sent >= RUNTIME_NAMES_A_SAMPLE ||
	    a->runtime.sent_bytes >= RUNTIME_NAMES_BYTES)
		return 0;
	a->runtime.n_sent++;
	/* not in there: eight functions can call each other */
	bytes = a->runtime.walk.shape == RUNTIME_SHAPE_NATIVE ? report_v8(number, code)
							      : report_assemble(number, code);
	d = report_area();
	if (!bytes || !d)
		return 0;
	d->head.pid = report_pid();
	a->runtime.sent_bytes += bytes;
	BOUND(bytes, 0x7fff);
	if (bytes > sizeof *d)
		return 0;
	if (bpf_ringbuf_output(&reports, d, bytes, BPF_RB_NO_WAKEUP))
		a->n_reports_lost++;
	else
		*was_sent = mark;
	return 0;
}

/* Reports which thread-local variable has the thread's state; 0: none. */
UNWIND_FN int env_report_slot(__s32 slot)
{
	struct unwind_area *a = env_area();
	struct runtime_slot report = {.kind = RUNTIME_REPORT_SLOT, .slot = slot};

	if (!a)
		return 0;
	report.pid = report_pid();
	report.list = a->record.generation;
	return bpf_ringbuf_output(&reports, &report, sizeof report, BPF_RB_NO_WAKEUP);
}

#endif
