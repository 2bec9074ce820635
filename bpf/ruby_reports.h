/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reports about Ruby's code (RUNTIME_SHAPE_ARRAY). Part of reports.h; ruby.h says what the objects are. */
#ifndef PROFLET_BPF_RUBY_REPORTS_H
#define PROFLET_BPF_RUBY_REPORTS_H

#define RUBY_NAMES_A_PART 512u /* symbols whose names one array has, each with its symbol */
#define RUBY_OPERATORS 256u    /* IDs below are those of operators, and their own numbers */
#define RUBY_ID_SHIFT 4u
#define RUBY_ISEQ_METHOD 1u

/*
 * Writes a string to bytes[at]: its length, u64, and as much of it as may be sent. Returns the bytes; 0: it
 * is unreadable, or no string. `type`: its flags go into name_type.
 */
UNWIND_FN __u64 ruby_text(__u64 string, __u64 at, __u32 type)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	__u64 flags = 0, length = 0, from = 0, bytes;
	int r;

	if (!a || !d)
		return 0;
	r = ruby_text_at(&a->runtime.walk, string, &flags, &from, &length);
	if (type && flags)
		d->head.name_type = flags;
	if (r)
		return 0;
	BOUND(at, 2047);
	*(__u64 *)(d->bytes + (at & ~7ull)) = length;
	bytes = length > RUNTIME_TEXT_MAX - 8 ? RUNTIME_TEXT_MAX - 8 : length;
	BOUND(bytes, 511);
	if (bytes && env_read_user(d->bytes + at + 8, bytes, from))
		return 0;
	return 8 + bytes;
}

/* The string with the name of an ID; 0: it cannot be read. */
UNWIND_FN __u64 ruby_symbol(__u64 id)
{
	struct unwind_area *a = env_area();
	__u64 names, number = id < RUBY_OPERATORS ? id : (__u32)id >> RUBY_ID_SHIFT, part, name;

	if (!a || user_word(a->runtime.walk.symbols, &names))
		return 0;
	part = ruby_element(names, number / RUBY_NAMES_A_PART);
	if (!part || user_word(part, &names))
		return 0;
	name = ruby_element(names, number % RUBY_NAMES_A_PART * 2);
	return name ? pointer_at(name) : 0;
}

/* The class of the frame's method to bytes[at]. Returns the bytes; 0: it has no name; -1: unreadable. */
static __always_inline int ruby_class(struct unwind_area *a, struct report_area *d, __u64 at)
{
	__u64 path = 0, class;

	if (a->runtime.method && !user_word(a->runtime.method + a->runtime.walk.scope, &class))
		path = ruby_class_path(class);
	if (!path)
		return 0;
	d->head.form |= path & 1 ? RUNTIME_FORM_SINGLE : 0;
	return (int)ruby_text(path & ~7ull, at, 0) ?: -1;
}

/* Whether the code of this body is in a method, as a part of it. */
static __always_inline int ruby_in_method(const struct runtime_walk *walk, __u64 body)
{
	__u64 local = pointer_at(body + walk->local);
	__u32 type;

	body = local ? pointer_at(local + RUBY_BODY) : 0;
	return body && !env_read_user(&type, sizeof type, body) && type == RUBY_ISEQ_METHOD;
}

/* The texts of an iseq. Returns their bytes; -1: one is unreadable. */
static __always_inline int ruby_iseq_texts(struct unwind_area *a, struct report_area *d, __u64 iseq)
{
	__u64 body = pointer_at(iseq + RUBY_BODY), bytes;
	__u32 type;

	if (!body || env_read_user(&type, sizeof type, body) ||
	    env_read_user(&d->head.first_line, sizeof d->head.first_line, body + RUBY_FIRST_LINE))
		return -1;
	d->head.form = (type & RUNTIME_FORM_TYPE) |
		       (ruby_in_method(&a->runtime.walk, body) ? RUNTIME_FORM_METHOD : 0);
	bytes = ruby_text(pointer_at(ruby_labelled(body) + RUBY_LABEL), 0, 1);
	d->head.name_bytes = bytes;
	bytes = (bytes + 7) & ~7ull;
	d->head.file_bytes = ruby_text(ruby_file(pointer_at(body + RUBY_LOCATION)), bytes, 0);
	return d->head.name_bytes && d->head.file_bytes ? (int)(bytes + ((d->head.file_bytes + 7) & ~7u))
							: -1;
}

static __always_inline int ruby_native_texts(struct report_area *d, __u64 method)
{
	__u64 definition = pointer_at(method + RUBY_DEFINITION), bytes;

	d->head.form = RUNTIME_FORM_NATIVE | RUNTIME_FORM_METHOD;
	bytes = definition ? ruby_text(ruby_symbol(pointer_at(definition + RUBY_ORIGINAL_ID)), 0, 1) : 0;
	d->head.name_bytes = bytes;
	return bytes ? (int)((bytes + 7) & ~7ull) : -1;
}

/* The report of an iseq or a method entry. Returns its bytes; 0: a part of it cannot be read now. */
static __always_inline int ruby_report(struct unwind_area *a, struct report_area *d, __u64 code)
{
	int at, bytes;

	d->head.type = pointer_at(code);
	if (ruby_is_internal(d->head.type, RUBY_INTERNAL_METHOD))
		at = ruby_native_texts(d, code);
	else
		at = ruby_iseq_texts(a, d, code);
	if (at < 0)
		return 0;
	bytes = ruby_class(a, d, at);
	if (bytes < 0)
		return 0;
	d->head.class_bytes = bytes;
	return sizeof d->head + at + ((bytes + 7) & ~7);
}

#endif
