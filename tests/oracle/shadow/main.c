// SPDX-License-Identifier: Apache-2.0
/*
 * shadow_stack: single-steps a program and compares, at every instruction, the unwind tables with a shadow
 * stack that is built without call-frame information.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/clock.h"
#include "agent/base/parse.h"
#include "tests/oracle/shadow/report.h"
#include "tests/oracle/shadow/selftest.h"
#include "tests/oracle/shadow/watch.h"

static const char usage[] =
	"usage: shadow_stack [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"\n"
	"Steps the first process's main thread; other threads and children run free.\n"
	"\n"
	"  --steps N       stop after N steps; 20k, 3M (default 20M)\n"
	"  --seconds N     stop after N seconds (default 600)\n"
	"  --from start    from the first instruction (default)\n"
	"  --from main     run free to main()\n"
	"  --from 30ms     run free for that time\n"
	"  --burst N       after every N steps run free for --gap\n"
	"  --gap 200us     (default 10ms)\n"
	"  --every N       unwind at every N-th step only (default 1)\n"
	"  --walk N        unwind the whole stack at every N-th step (default 1000; 0: never)\n"
	"  --full          read the stack at every step, also where it was read before in the same frame\n"
	"  --places N      print at most N places of each kind (default 20)\n"
	"  --part LOW-HIGH count these ELF addresses of the program's own file apart (hexadecimal)\n"
	"  --corrupt NAME  make the table of module NAME wrong, to see that it is found out\n"
	"  --self-test     check the parts of this program, and end\n"
	"  --output        do not send the program's output to /dev/null\n"
	"\n"
	"Exit: 0 nothing wrong; 1 something wrong; 2 usage; 3 the program could not be watched.\n";

static int parse_count(const char *s, uint64_t *ret)
{
	char copy[32];
	size_t n = strlen(s);
	uint64_t unit = 1;
	int r;

	if (!n || n >= sizeof copy)
		return -EINVAL;
	memcpy(copy, s, n + 1);
	if (copy[n - 1] == 'k' || copy[n - 1] == 'M') {
		unit = copy[n - 1] == 'k' ? 1000 : 1000000;
		copy[n - 1] = '\0';
	}
	r = parse_u64(copy, 10, ret);
	*ret *= r < 0 ? 1 : unit;
	return r;
}

enum {
	OPT_STEPS = 256,
	OPT_SECONDS,
	OPT_FROM,
	OPT_BURST,
	OPT_GAP,
	OPT_EVERY,
	OPT_WALK,
	OPT_PLACES,
	OPT_CORRUPT,
	OPT_PART,
	OPT_FULL,
	OPT_OUTPUT,
	OPT_SELF_TEST,
	OPT_HELP
};

static int parse_option(struct watch_options *o, int option, const char *value)
{
	switch (option) {
	case OPT_STEPS:
		return parse_count(value, &o->steps);
	case OPT_SECONDS:
		return parse_count(value, &o->seconds);
	case OPT_FROM:
		o->from_main = strcmp(value, "main") == 0;
		return o->from_main || strcmp(value, "start") == 0 ? 0
								   : parse_duration_ns(value, &o->from_ns);
	case OPT_BURST:
		return parse_count(value, &o->burst);
	case OPT_GAP:
		return parse_duration_ns(value, &o->gap_ns);
	case OPT_EVERY:
		return parse_count(value, &o->every) < 0 || !o->every ? -EINVAL : 0;
	case OPT_WALK:
		return parse_count(value, &o->walk);
	case OPT_PLACES:
		return parse_count(value, &o->places);
	case OPT_CORRUPT:
		o->corrupt = value;
		return 0;
	case OPT_PART:
		return sscanf(value, "%" SCNx64 "-%" SCNx64, &o->part_low, &o->part_high) == 2 ? 0 : -EINVAL;
	case OPT_FULL:
		o->full = true;
		return 0;
	case OPT_OUTPUT:
		o->output = true;
		return 0;
	default:
		return -ENOENT;
	}
}

static const struct option options[] = {
	{"steps", required_argument, NULL, OPT_STEPS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"from", required_argument, NULL, OPT_FROM},
	{"burst", required_argument, NULL, OPT_BURST},
	{"gap", required_argument, NULL, OPT_GAP},
	{"every", required_argument, NULL, OPT_EVERY},
	{"walk", required_argument, NULL, OPT_WALK},
	{"places", required_argument, NULL, OPT_PLACES},
	{"corrupt", required_argument, NULL, OPT_CORRUPT},
	{"part", required_argument, NULL, OPT_PART},
	{"output", no_argument, NULL, OPT_OUTPUT},
	{"full", no_argument, NULL, OPT_FULL},
	{"self-test", no_argument, NULL, OPT_SELF_TEST},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

int main(int argc, char **argv)
{
	struct watch_options o = {.steps = 20000000,
				  .seconds = 600,
				  .gap_ns = 10 * NS_PER_MS,
				  .every = 1,
				  .walk = 1000,
				  .places = 20};
	struct watch w;
	uint64_t begin_ns = clock_mono_ns();
	int option, r;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		r = parse_option(&o, option, optarg);
		if (option == OPT_SELF_TEST)
			return selftest_run() ? 1 : 0;
		if (option == OPT_HELP) {
			fputs(usage, stdout);
			return 0;
		}
		if (r < 0) {
			if (r != -ENOENT)
				fprintf(stderr, "shadow_stack: not accepted: %s\n", optarg);
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind == argc) {
		fputs(usage, stderr);
		return 2;
	}
	r = watch_init(&w, &o, argv + optind);
	if (r == 0)
		r = watch_run(&w);
	if (r < 0) {
		fprintf(stderr, "shadow_stack: %s: %s after %" PRIu64 " steps\n", argv[optind], strerror(-r),
			w.steps);
		watch_fini(&w);
		return 3;
	}
	judge_finish(&w.judge, w.tables);
	printf("%s: %s, %" PRIu64 " instructions, %" PRIu64
	       " processes or threads not followed, %.1f s, %.2f us/step\n",
	       argv[optind], w.stopped, w.steps, w.not_followed, (double)(clock_mono_ns() - begin_ns) / 1e9,
	       (double)(clock_mono_ns() - begin_ns) / 1e3 / (double)(w.steps ? w.steps : 1));
	if (tables_in_code(w.tables))
		printf("%" PRIu64 " frames read in code that is in no file\n", tables_in_code(w.tables));
	report_print(stdout, &w.judge, &w.shadow, w.tables, o.places);
	r = w.judge.n[VERDICT_WRONG] || w.judge.walk.wrong;
	watch_fini(&w);
	return r;
}
