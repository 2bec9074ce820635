// SPDX-License-Identifier: Apache-2.0
/*
 * Pages of recordings that nobody can make in two seconds, written by the writer of `proflet record`. usage:
 *
 *	pages many STACKS FILE    so many different stacks of a host: 40 processes with 4 threads, half in
 *				  containers; in a minute
 *	pages untimed STACKS FILE the same without the times of samples
 *	pages shapes FILE         one process with 2,000 callees beside each other, one with a stack 500 deep
 *	pages languages FILE      a process with functions of all language runtimes between native ones, and
 *				  one with native ones alone
 *
 * Prints what is in the page: stacks=N frames=N (of the trees), merged=N (samples that there was no room
 * for). Everything follows from a fixed seed. It is linked with build/release/libproflet_{output,base}.a.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/html.h"
#include "agent/output/profile.h"
#include "agent/output/profile_private.h"
#include "agent/output/walk.h"

#define PROCESSES 40u
#define THREADS 4u
#define FUNCTIONS 30000u
#define MODULES 120u
#define CALLEES 9u /* that one function has */
#define DEPTH_MIN 6u
#define DEPTH_MAX 96u
#define STEP 4u /* frames that a stack leaves, and enters, on average, before the next one */
#define WIDE 2000u
#define DEEP 500u
#define COUNT_MAX 9u /* samples of a stack at one time */
#define BEGIN_NS 1700000000000000000u
#define DURATION_NS 60000000000u

struct place {
	struct frame_module module;
	char path[64], build_id[41];
};

struct function {
	struct frame frame;
	char name[160];
};

static struct place places[MODULES];
static struct function functions[FUNCTIONS];

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
	return x ^ x >> 33;
}

static uint64_t draw(void)
{
	static uint64_t state;

	return mix(++state);
}

/* Small numbers more often: how a few callees take most of the time. */
static uint32_t skewed(uint32_t n)
{
	uint64_t a = draw() % n, b = draw() % n;

	return (uint32_t)(a * b / n);
}

static void make_modules(void)
{
	for (uint32_t i = 0; i < MODULES; i++) {
		struct place *m = &places[i];

		snprintf(m->path, sizeof m->path,
			 i % 10 ? "/usr/lib/x86_64-linux-gnu/libpart%u.so.%u" : "/opt/shop/bin/service%u", i,
			 i % 7);
		snprintf(m->build_id, sizeof m->build_id, "%016" PRIx64 "%016" PRIx64 "01234567", mix(i),
			 mix(~(uint64_t)i));
		m->module = (struct frame_module){.id = i + 1,
						  .path = m->path,
						  .name = strrchr(m->path, '/') + 1,
						  .build_id_gnu = m->build_id,
						  .start = 0x1000,
						  .limit = 1u << 24,
						  .file_offset = 0x1000,
						  .go = i % 10 == 3};
	}
}

static void make_name(char *name, size_t size, uint32_t i, bool go)
{
	static const char *const words[] = {"order",  "index", "buffer", "session", "cursor", "packet",
					    "region", "queue", "parser", "shard",   "token",  "matrix",
					    "stream", "lease", "bucket", "page"};
	const char *a = words[i % 16], *b = words[i / 16 % 16], *c = words[i / 256 % 16];

	if (go)
		snprintf(name, size, "example.com/shop/%s/%s.(*%s).step%u", a, b, c, i);
	else if (i % 3 == 0)
		snprintf(name, size,
			 "shop::%s::%s_impl<shop::%s, std::allocator<shop::%s> >::advance%u(int, shop::%s "
			 "const&)",
			 a, b, c, c, i, b);
	else
		snprintf(name, size, "%s_%s_%s%u", a, b, c, i);
}

static void make_functions(void)
{
	static const struct frame_module kernel = {.id = MODULES + 1,
						   .path = "[kernel]",
						   .name = "[kernel]",
						   .start = 0xffffffff81000000,
						   .limit = 0xffffffff82000000};

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct function *f = &functions[i];
		const struct frame_module *m = &places[i % MODULES].module;
		uint32_t kind = i % 25; /* one is made at run time, two are the kernel's */

		f->frame = (struct frame){.module = kind == 0  ? NULL
						    : kind < 3 ? &kernel
							       : m,
					  .address = 0x1000 + 64u * i,
					  .function = f->name,
					  .kind = kind && kind < 3 ? FRAME_KERNEL : FRAME_NATIVE};
		make_name(f->name, sizeof f->name, i, kind > 2 && m->go);
	}
}

/* `time`: of all of the samples, ns since 1970; 0: unknown. */
static int add(struct output_profile *p, uint32_t process, uint32_t thread, const uint32_t *stack, size_t n,
	       uint64_t count, uint64_t time)
{
	struct frame frames[DEPTH_MAX];
	uint64_t times[COUNT_MAX];
	char name[16], thread_name[16], container[65];
	const struct output_stack s = {.process = name,
				       .pid = 1000 + process,
				       .thread = thread_name,
				       .container = process % 2 ? container : NULL,
				       .frames = frames,
				       .n_frames = n,
				       .count = count,
				       .times = time ? times : NULL,
				       .complete = true};

	for (size_t i = 0; i < count; i++)
		times[i] = time;
	for (size_t i = 0; i < n; i++)
		frames[i] = functions[stack[n - 1 - i]].frame;
	snprintf(name, sizeof name, "service%u", process);
	snprintf(thread_name, sizeof thread_name, "worker%u", thread);
	snprintf(container, sizeof container, "%016" PRIx64 "%048u", mix(process / 2), process / 2);
	return output_profile_add(p, &s);
}

struct count {
	uint64_t stacks, frames;
};

static int enter(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct count *c = data;

	(void)function, (void)depth;
	c->frames++;
	c->stacks += self > 0;
	return 0;
}

static struct count count(const struct output_profile *p)
{
	static const struct output_walk_ops ops = {.enter = enter};
	struct count c = {0};

	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++) {
		const struct output_group *g = output_group_of(p, id);

		(void)output_walk(p, &g, 1, &ops, &c);
	}
	return c;
}

/* A thread goes some frames out and some in, as a program does between two samples. */
static int add_many(struct output_profile *p, uint64_t n_stacks, bool timed)
{
	static struct {
		uint32_t stack[DEPTH_MAX];
		size_t n;
	} threads[PROCESSES * THREADS];
	int r = 0;

	make_modules();
	make_functions();
	for (uint64_t n = 0, at_least = n_stacks; r == 0; n++) {
		uint32_t i = skewed(PROCESSES * THREADS), out = skewed(4 * STEP), in = 1 + skewed(4 * STEP);
		size_t *depth = &threads[i].n;

		*depth = *depth > DEPTH_MIN + out ? *depth - out : *depth < DEPTH_MIN ? *depth : DEPTH_MIN;
		while ((in-- || *depth < DEPTH_MIN) && *depth < DEPTH_MAX) {
			uint32_t caller = *depth ? threads[i].stack[*depth - 1] : i / THREADS;

			threads[i].stack[(*depth)++] =
				(uint32_t)(mix((uint64_t)caller << 8 | skewed(CALLEES)) % FUNCTIONS);
		}
		r = add(p, i / THREADS, i % THREADS, threads[i].stack, *depth, 1 + skewed(COUNT_MAX),
			timed ? BEGIN_NS + n * (DURATION_NS / 2 / n_stacks) % DURATION_NS : 0);
		if (n >= at_least && count(p).stacks >= n_stacks)
			break;
		if (n >= at_least)
			at_least += n_stacks / 50; /* counting takes as long as adding some thousands */
	}
	return r;
}

static int add_shapes(struct output_profile *p)
{
	static const struct frame main_frame = {.function = "main", .address = 1};
	struct frame frames[DEEP] = {main_frame};
	struct output_stack s = {.process = "wide",
				 .pid = 1,
				 .thread = "main",
				 .frames = frames,
				 .n_frames = 2,
				 .count = 3,
				 .complete = true};
	int r = 0;

	make_modules();
	frames[1] = (struct frame){.module = &places[0].module, .function = "dispatch", .address = 2};
	for (uint32_t i = 0; i < WIDE && r == 0; i++) {
		char name[32];

		snprintf(name, sizeof name, "handler_%04u", i);
		frames[0] = (struct frame){.module = &places[1].module, .function = name, .address = 16u * i};
		r = output_profile_add(p, &s);
	}
	s.process = "deep";
	s.pid = 2;
	s.n_frames = DEEP;
	s.count = WIDE * 3;
	for (uint32_t i = 0; i < DEEP; i++)
		frames[i] = (struct frame){.module = &places[0].module,
					   .function = i ? "descend" : "bottom",
					   .address = 4096 + 16u * i};
	return r < 0 ? r : output_profile_add(p, &s);
}

/* main → loop → the function of the language → leaf, of equal width. */
static int add_languages(struct output_profile *p)
{
	static const char *const runtimes[] = {"cpython", "v8js", "beam",   "lua", "luajit",
					       "perl",	  "php",  "dotnet", "jvm", "ruby"};
	struct frame frames[] = {{.function = "leaf", .address = 3},
				 {0},
				 {.function = "loop", .address = 2},
				 {.function = "main", .address = 1}};
	struct output_stack s = {.process = "scripts",
				 .pid = 1,
				 .thread = "main",
				 .frames = frames,
				 .n_frames = 4,
				 .count = 100,
				 .complete = true};
	int r = 0;

	make_modules();
	frames[0].module = frames[2].module = frames[3].module = &places[0].module;
	for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes && r == 0; i++) {
		struct frame_line line = {runtimes[i], "/srv/source", 7, 5};

		frames[1] = (struct frame){.runtime = runtimes[i],
					   .function = line.function,
					   .lines = &line,
					   .n_lines = 1,
					   .start_line = 5};
		r = output_profile_add(p, &s);
	}
	s.process = "plain";
	s.pid = 2;
	frames[1] = (struct frame){.module = &places[0].module, .function = "step", .address = 4};
	return r < 0 ? r : output_profile_add(p, &s);
}

static int add_shape(struct output_profile *p, const char *shape)
{
	return strcmp(shape, "languages") == 0 ? add_languages(p) : add_shapes(p);
}

int main(int argc, char **argv)
{
	const struct output_info info = {.start_unix_ns = BEGIN_NS,
					 .duration_ns = DURATION_NS,
					 .frequency_hz = 997,
					 .hostname = "node-1",
					 .version = "test"};
	_cleanup_output_profile_ struct output_profile *p = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	struct count c;
	int r;

	if (argc < 3 || (strcmp(argv[1], "many") == 0 || strcmp(argv[1], "untimed") == 0) != (argc == 4)) {
		fprintf(stderr, "usage: pages many|untimed STACKS FILE | pages shapes|languages FILE\n");
		return 2;
	}
	r = output_profile_new(&p, &info);
	if (r == 0)
		r = argc == 4 ? add_many(p, strtoull(argv[2], NULL, 10), *argv[1] == 'm')
			      : add_shape(p, argv[1]);
	f = fopen(argv[argc - 1], "we");
	if (r == 0)
		r = f ? output_html_write(p, NULL, f) : -errno;
	if (r < 0) {
		fprintf(stderr, "pages: %s\n", strerror(-r));
		return 1;
	}
	c = count(p);
	printf("stacks=%" PRIu64 " frames=%" PRIu64 " merged=%" PRIu64 "\n", c.stacks, c.frames,
	       output_profile_merged(p));
	return 0;
}
