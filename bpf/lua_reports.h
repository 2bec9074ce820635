/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reports about functions of Lua, see reports.h, of which this is a part. */
#ifndef PROFLET_BPF_LUA_REPORTS_H
#define PROFLET_BPF_LUA_REPORTS_H

/*
 * The report of a code object: its first line, and its source as a file name. Returns its bytes; 0: it cannot
 * be read. A function of its own, as report_perl().
 */
UNWIND_FN int report_lua(__u64 code)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	__u64 source;
	int bytes;

	if (!a || !d)
		return 0;
	if (env_read_user(&d->head.first_line, sizeof d->head.first_line,
			  code + a->runtime.walk.first_line) ||
	    env_read_user(&source, sizeof source, code + a->runtime.walk.file))
		return 0;
	if (!source)
		return sizeof d->head;
	bytes = env_read_user_text(d->bytes, RUNTIME_TEXT_MAX, source + a->runtime.walk.bytes);
	if (bytes <= 0)
		return 0;
	d->head.file_bytes = bytes;
	return sizeof d->head + ((bytes + 7) & ~7);
}

#endif
