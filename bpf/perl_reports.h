/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reports about frames of Perl, see reports.h, of which this is a part. */
#ifndef PROFLET_BPF_PERL_REPORTS_H
#define PROFLET_BPF_PERL_REPORTS_H

/* Reads a HEK to bytes[at]. Returns the bytes; 0: there is none; -1: unreadable. */
static __always_inline int report_hek(struct report_area *d, __u64 at, __u64 hek)
{
	__u64 word, bytes;

	if (!hek)
		return 0;
	if (env_read_user(&word, sizeof word, hek))
		return -1;
	bytes = word >> 32;
	if (bytes > RUNTIME_TEXT_MAX - 8)
		bytes = RUNTIME_TEXT_MAX - 8;
	bytes += 8;
	BOUND(bytes, 1023);
	BOUND(at, 2047);
	return env_read_user(d->bytes + at, bytes, hek) ? -1 : (int)bytes;
}

/*
 * The report of a frame of Perl, as perl_number() found it. Returns its bytes; 0: a text is unreadable. A
 * function of its own, for what it has on the stack: Linux 5.10 counts that of all callers together.
 */
UNWIND_FN int report_perl(void)
{
	struct unwind_area *a = env_area();
	struct report_area *d = report_area();
	const struct runtime_perl *p;
	__u64 at = 0;
	int bytes;

	if (!a || !d)
		return 0;
	p = &a->runtime.perl;
	bytes = report_hek(d, at, p->name);
	if (bytes < 0)
		return 0;
	d->head.type = p->code;
	d->head.name_bytes = bytes;
	at = (bytes + 7) & ~7u;
	if (p->file) {
		BOUND(at, 2047);
		bytes = env_read_user_text(d->bytes + at, RUNTIME_TEXT_MAX, p->file);
		if (bytes <= 0)
			return 0;
		d->head.file_bytes = bytes;
		at += (bytes + 7) & ~7u;
	}
	bytes = report_hek(d, at, p->package);
	if (bytes < 0)
		return 0;
	d->head.class_bytes = bytes;
	at += (bytes + 7) & ~7u;
	return sizeof d->head + at;
}

#endif
