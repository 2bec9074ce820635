// SPDX-License-Identifier: Apache-2.0
/* Reads the file with a decoder written here: gunzip, then the protobuf wire format. */
#include "recording.h"

#include <inttypes.h>
#include <zlib.h>

#include "agent/output/pprof.h"

struct field {
	unsigned number;
	uint64_t value; /* varint */
	const uint8_t *data;
	size_t len;
};

struct cursor {
	const uint8_t *at, *end;
};

static uint64_t read_varint(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		cr_assert_lt(c->at, c->end);
		value |= (uint64_t)(*c->at & 0x7f) << shift;
		if (!(*c->at++ & 0x80))
			return value;
	}
	cr_assert_fail("varint too long");
	return 0;
}

static bool read_field(struct cursor *c, struct field *f)
{
	uint64_t key;

	if (c->at == c->end)
		return false;
	key = read_varint(c);
	*f = (struct field){.number = (unsigned)(key >> 3)};
	if ((key & 7) == 0) {
		f->value = read_varint(c);
	} else {
		cr_assert_eq(key & 7, 2, "wire type %d", (int)(key & 7));
		f->len = read_varint(c);
		cr_assert_leq(f->len, (size_t)(c->end - c->at));
		f->data = c->at;
		c->at += f->len;
	}
	return true;
}

static struct cursor inside(const struct field *f)
{
	return (struct cursor){f->data, f->data + f->len};
}

/* The value of the varint field `number` in the message `f`; 0 if it is absent. */
static uint64_t number_in(const struct field *f, unsigned number)
{
	struct cursor c = inside(f);
	struct field inner;

	while (read_field(&c, &inner))
		if (inner.number == number)
			return inner.value;
	return 0;
}

static uint8_t unzipped[1 << 20];

static struct cursor unzip(const char *data, size_t len)
{
	z_stream z = {.next_in = (Bytef *)data,
		      .avail_in = (uInt)len,
		      .next_out = unzipped,
		      .avail_out = sizeof unzipped};

	cr_assert_eq(inflateInit2(&z, 15 + 16), Z_OK);
	cr_assert_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return (struct cursor){unzipped, unzipped + z.total_out};
}

#define MAX 256
struct decoded {
	struct field samples[MAX], mappings[MAX], locations[MAX], functions[MAX], types[MAX], strings[MAX],
		comments[MAX];
	size_t n_samples, n_mappings, n_locations, n_functions, n_types, n_strings, n_comments;
	uint64_t time, duration, period;
	struct field period_type;
};

static void decode(struct cursor c, struct decoded *d)
{
	struct field f;

	while (read_field(&c, &f)) {
		cr_assert_lt(d->n_strings, MAX);
		switch (f.number) {
		case 1:
			d->types[d->n_types++] = f;
			break;
		case 2:
			d->samples[d->n_samples++] = f;
			break;
		case 3:
			d->mappings[d->n_mappings++] = f;
			break;
		case 4:
			d->locations[d->n_locations++] = f;
			break;
		case 5:
			d->functions[d->n_functions++] = f;
			break;
		case 6:
			d->strings[d->n_strings++] = f;
			break;
		case 9:
			d->time = f.value;
			break;
		case 10:
			d->duration = f.value;
			break;
		case 11:
			d->period_type = f;
			break;
		case 12:
			d->period = f.value;
			break;
		case 13:
			d->comments[d->n_comments++] = f;
			break;
		default:
			cr_assert_fail("unknown field %u", f.number);
		}
	}
}

static const char *text_of(const struct decoded *d, uint64_t index)
{
	static char texts[4][128];
	static unsigned turn;
	char *text = texts[turn++ % 4];

	cr_assert_lt(index, d->n_strings);
	snprintf(text, sizeof texts[0], "%.*s", (int)d->strings[index].len,
		 (const char *)d->strings[index].data);
	return text;
}

static const struct field *by_id(const struct field *list, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (number_in(&list[i], 1) == id)
			return &list[i];
	cr_assert_fail("no message with id %" PRIu64, id);
	return NULL;
}

/* "leaf<caller<... count=C ns=N process=P pid=I container.id=X", by following every reference. */
static void describe(const struct decoded *d, const struct field *sample, char *out, size_t size)
{
	struct cursor c = inside(sample), inner;
	const char *separator = "";
	struct field f;
	size_t n = 0;

	while (read_field(&c, &f)) {
		inner = inside(&f);
		if (f.number == 1) {
			while (inner.at < inner.end) {
				const struct field *location =
					by_id(d->locations, d->n_locations, read_varint(&inner));
				struct cursor lc = inside(location);
				struct field line = {0};

				while (read_field(&lc, &line) && line.number != 4)
					;
				const struct field *function =
					by_id(d->functions, d->n_functions, number_in(&line, 1));

				n += (size_t)snprintf(out + n, size - n, "%s%s@%" PRIx64, separator,
						      text_of(d, number_in(function, 2)),
						      number_in(location, 3));
				separator = "<";
			}
		} else if (f.number == 2) {
			uint64_t count = read_varint(&inner);

			n += (size_t)snprintf(out + n, size - n, " %" PRIu64 " %" PRIu64, count,
					      read_varint(&inner));
		} else if (number_in(&f, 3)) {
			n += (size_t)snprintf(out + n, size - n, " %s=%" PRIu64, text_of(d, number_in(&f, 1)),
					      number_in(&f, 3));
		} else {
			n += (size_t)snprintf(out + n, size - n, " %s=%s", text_of(d, number_in(&f, 1)),
					      text_of(d, number_in(&f, 2)));
		}
	}
}

Test(output_pprof, reads_back)
{
	static const char *const expected[] = {
		"work@1010<main@1100 5 50000000 process=app pid=10 thread=worker container.id=" CONTAINER,
		"work@1014<main@1100 7 70000000 process=app pid=11 thread=worker container.id=" CONTAINER,
		"vfs_read@ffffffff81000100<read@26100<work@1020<work@1018<main@1100 40 400000000 process=app "
		"pid=11 "
		"thread=worker container.id=" CONTAINER,
		"libc.so.6+0x27abc@27abc<[truncated: no table]@0 3 30000000 process=app pid=11 thread=worker "
		"container.id=" CONTAINER,
		"0x7f0000001234@7f0000001234<read@26100 60 600000000 process=cron pid=12 thread=worker",
		"main@1100 2 20000000 process=cron pid=12 thread=worker",
	};
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	static struct decoded d;
	size_t len;
	_cleanup_free_ char *file = WRITTEN(&len, output_pprof_write(p, f));

	decode(unzip(file, len), &d);
	cr_expect_eq(d.n_samples, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		bool found = false;
		char text[1024];

		for (size_t j = 0; j < d.n_samples; j++) {
			describe(&d, &d.samples[j], text, sizeof text);
			found |= !strcmp(text, expected[i]);
		}
		cr_expect(found, "missing: %s\nlast: %s", expected[i], text);
	}
}

Test(output_pprof, head_and_mappings)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	static struct decoded d;
	size_t len;
	_cleanup_free_ char *file = WRITTEN(&len, output_pprof_write(p, f));

	decode(unzip(file, len), &d);
	cr_expect_eq(d.strings[0].len, 0);
	cr_assert_eq(d.n_types, 2);
	cr_expect_str_eq(text_of(&d, number_in(&d.types[0], 1)), "samples");
	cr_expect_str_eq(text_of(&d, number_in(&d.types[0], 2)), "count");
	cr_expect_str_eq(text_of(&d, number_in(&d.types[1], 1)), "cpu");
	cr_expect_str_eq(text_of(&d, number_in(&d.types[1], 2)), "nanoseconds");
	cr_expect_str_eq(text_of(&d, number_in(&d.period_type, 1)), "cpu");
	cr_expect_eq(d.period, 10000000);
	cr_expect_eq(d.time, 1700000000123456789);
	cr_expect_eq(d.duration, 2000000000);
	cr_assert_eq(d.n_comments, 3);
	cr_expect_str_eq(text_of(&d, d.comments[0].value), "host: node-1");
	cr_expect_str_eq(text_of(&d, d.comments[1].value), "command: app --fast");
	for (size_t i = 0; i < d.n_mappings; i++) {
		const struct field *m = &d.mappings[i];
		const char *path = text_of(&d, number_in(m, 5));

		if (!strcmp(path, "/usr/bin/app")) {
			cr_expect_eq(number_in(m, 2), 0x1000);
			cr_expect_eq(number_in(m, 3), 0x9000);
			cr_expect_eq(number_in(m, 4), 0x1000);
			cr_expect_str_eq(text_of(&d, number_in(m, 6)), "c0ffee");
			cr_expect_eq(number_in(m, 7), 1, "all its frames have names");
		} else if (!strcmp(path, "/lib/libc.so.6")) {
			cr_expect_str_eq(text_of(&d, number_in(m, 6)), "00112233445566778899aabbccddeeff");
			cr_expect_eq(number_in(m, 7), 0, "one of its frames has none");
		}
	}
	cr_expect_eq(d.n_mappings, 4, "three modules and the empty first");
}

Test(output_pprof, functions_of_a_language_runtime)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static struct decoded d;
	unsigned n_run = 0, n_lines = 0;
	size_t len;

	recording_add_python(p);
	_cleanup_free_ char *file = WRITTEN(&len, output_pprof_write(p, f));

	decode(unzip(file, len), &d);
	for (size_t i = 0; i < d.n_functions; i++) {
		if (strcmp(text_of(&d, number_in(&d.functions[i], 2)), "Shop.run"))
			continue;
		n_run++;
		cr_expect_str_eq(text_of(&d, number_in(&d.functions[i], 3)), "Shop.run");
		cr_expect_str_eq(text_of(&d, number_in(&d.functions[i], 4)), "/srv/shop/__init__.py");
		cr_expect_eq(number_in(&d.functions[i], 5), 10, "the first line");
		for (size_t j = 0; j < d.n_locations; j++) {
			struct cursor c = inside(&d.locations[j]);
			struct field line = {0};

			while (read_field(&c, &line) && line.number != 4)
				;
			if (number_in(&line, 1) != number_in(&d.functions[i], 1))
				continue;
			cr_expect_eq(number_in(&d.locations[j], 2), 0, "no mapping");
			cr_expect_eq(number_in(&d.locations[j], 3), 0, "no address");
			n_lines += number_in(&line, 2) == 12 || number_in(&line, 2) == 14;
		}
	}
	cr_expect_eq(n_run, 1);
	cr_expect_eq(n_lines, 2, "each line is a location of its own");
}

/* What compilers know about a function may come with a later frame. */
Test(output_pprof, native_functions_have_a_first_line)
{
	static const struct frame_line none = {"handle", "/src/handle.c", 12, 0},
				       line = {"handle", "/src/handle.c", 14, 10};
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static struct decoded d;
	unsigned n_found = 0;
	size_t len;

	ADD(p, "app", 7, NULL, 1, APP("handle", 0x1100));
	ADD(p, "app", 7, NULL, 1,
	    {.module = &app, .function = "handle", .address = 0x1102, .lines = &none, .n_lines = 1});
	ADD(p, "app", 7, NULL, 1,
	    {.module = &app,
	     .function = "handle",
	     .address = 0x1104,
	     .lines = &line,
	     .n_lines = 1,
	     .start_line = 10});
	_cleanup_free_ char *file = WRITTEN(&len, output_pprof_write(p, f));

	decode(unzip(file, len), &d);
	for (size_t i = 0; i < d.n_functions; i++) {
		if (strcmp(text_of(&d, number_in(&d.functions[i], 2)), "handle"))
			continue;
		n_found++;
		cr_expect_str_eq(text_of(&d, number_in(&d.functions[i], 4)), "/src/handle.c");
		cr_expect_eq(number_in(&d.functions[i], 5), 10);
	}
	cr_expect_eq(n_found, 1);
}

Test(output_pprof, without_a_frequency_there_is_no_cpu_time)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	const struct output_info info = {0};
	static struct decoded d;
	size_t len;

	cr_assert_eq(output_profile_set_info(p, &info), 0);
	_cleanup_free_ char *file = WRITTEN(&len, output_pprof_write(p, f));

	decode(unzip(file, len), &d);
	cr_expect_eq(d.n_types, 1);
	cr_expect_eq(d.period, 0);
	cr_expect_eq(d.n_comments, 0);
}

Test(output_pprof, a_full_disk_is_reported)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	_cleanup_fclose_ FILE *f = fopen("/dev/full", "w");

	cr_assert_not_null(f);
	cr_expect_eq(output_pprof_write(p, f), -EIO);
}
