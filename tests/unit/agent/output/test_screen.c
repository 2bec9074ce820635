// SPDX-License-Identifier: Apache-2.0
#include "live_support.h"

#include "agent/base/buf.h"
#include "agent/output/keyboard.h"
#include "agent/output/screen.h"
#include "agent/output/display_text.h"

static const struct output_screen_head head = {
	.host = "node-1",
	.time = "12:34:56",
	.event = "cpu-clock",
	.frequency_hz = 50,
	.n_cpus = 2,
	.running_ns = 83 * NS_PER_SEC,
	.busy = 0.5,
	.samples_per_second = 50,
	.n_processes = 40,
};

static char *drawn(struct output_live *l, struct output_screen *s, const struct output_screen_head *h,
		   struct output_screen_size size)
{
	_cleanup_buf_ struct buf b = {0};

	cr_assert_eq(output_screen_draw(l, h, s, &size, &b), 0);
	return strdup(buf_str(&b));
}

#define EXPECT_SCREEN(l, s, expected, ...)                                                      \
	do {                                                                                    \
		char *_text = drawn((l), (s), &head, (struct output_screen_size){__VA_ARGS__}); \
		cr_expect_str_eq(_text, expected, "got:\n%s", _text);                           \
		free(_text);                                                                    \
	} while (0)

static struct output_live *two_seconds(void)
{
	struct output_live *l = live_new(NULL);

	live_sample(l);
	output_live_tick(l, 2 * NS_PER_SEC, 0);
	return l;
}

Test(output_screen, functions)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {0};

	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (cpu-clock)   running 1:23\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incomplete 5.0%  3 of 40 processes ran\n"
		      "[1 functions] 2 processes  3 containers    last 2 s   1-3 of 6\n"
		      ">SELF%  TOTAL%  FUNCTION                             MODULE        CONTAINER\n"
		      "  80.0    80.0  f8                                   app           0123456789ab+\n"
		      "  15.0    15.0  vfs_read                             [kernel]      host\n"
		      "   5.0     5.0  [no name in libc.so.6]               libc.so.6     host\n"
		      "q quit  h help  Tab view  s by total  c since start  / filter  p pause  "
		      "\xe2\x86\x91\xe2\x86\x93 scrol",
		      .columns = 80, .lines = 8);
	output_live_free(l);
}

Test(output_screen, processes_and_containers)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {.view = OUTPUT_LIVE_PROCESSES};

	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (cpu-clock)   running 1:23\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incomplete 5.0%  3 of 40 processes ran\n"
		      "last 2 s\n"
		      "SHARE%    CPU%      PID  PROCESS          CONTAINER      TOP FUNCTION\n"
		      "  60.0    60.0       10  app              0123456789ab   100% f8\n"
		      "  20.0    20.0       11  app              host           100% f8\n"
		      "\n",
		      .columns = 80, .lines = 2, .plain = true);
	s.view = OUTPUT_LIVE_CONTAINERS;
	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (cpu-clock)   running 1:23\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incomplete 5.0%  3 of 40 processes ran\n"
		      "last 2 s\n"
		      "SHARE%    CPU%    PROCS  CONTAINER     TOP FUNCTION\n"
		      "  60.0    60.0        1  0123456789ab  100% f8\n"
		      "  40.0    40.0        2  host           50% f8\n"
		      "\n",
		      .columns = 80, .lines = 9, .plain = true);
	output_live_free(l);
}

/* Half of the samples wait for names. The shares of a CPU are right for the others. */
Test(output_screen, shares_of_a_cpu_do_not_wait_for_names)
{
	struct output_live *l = live_new(NULL);
	struct output_screen s = {.view = OUTPUT_LIVE_PROCESSES};
	char *text;

	LIVE(l, "app", 10, NULL, 50, APP("f8", 1));
	output_live_tick(l, 2 * NS_PER_SEC, 100);
	text = drawn(l, &s, &head, (struct output_screen_size){80, 1, false, true});
	cr_expect_not_null(strstr(text, "\n 100.0   100.0       10  app"), "%s", text);
	free(text);
	output_live_free(l);
}

/*
 * For every size of the terminal, no line is too long, there are not too many lines, and rows are the last to
 * be omitted.
 */
Test(output_screen, fits_every_size)
{
	struct output_live *l = two_seconds();
	char name[300];

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	LIVE(l,
	     "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96"
	     "\x87",
	     9, CONTAINER, 500, APP(name, 1));
	LIVE(l, "wide", 10, CONTAINER, 400,
	     APP("\xe4\xb8\xad\xe6\x96\x87::"
		 "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87"
		 "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6"
		 "\x96\x87",
		 1));
	for (unsigned columns = 1; columns <= 130; columns++)
		for (unsigned i = 0; i < 24 * OUTPUT_LIVE_VIEWS_N; i++) {
			struct output_screen s = {.view = i % OUTPUT_LIVE_VIEWS_N, .help = i % 7 == 0};
			unsigned lines = i / OUTPUT_LIVE_VIEWS_N + 1, n = 0;
			struct output_screen_head h = head;
			char *text, *line, *save = NULL;

			h.message = "something was said";
			text = drawn(l, &s, &h, (struct output_screen_size){columns, lines, false, false});
			for (line = strtok_r(text, "\n", &save); line;
			     line = strtok_r(NULL, "\n", &save), n++)
				cr_assert_leq(output_text_width(line), columns, "%u: %s", columns, line);
			cr_assert_leq(n, lines);
			cr_assert(lines > 1 || columns < 5 || s.help || s.page == 1);
			free(text);
		}
	output_live_free(l);
}

Test(output_screen, colours_only_if_enabled)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {.paused = true, .editing = true};
	char *plain = drawn(l, &s, &head, (struct output_screen_size){80, 24, false, false});
	char *colour = drawn(l, &s, &head, (struct output_screen_size){80, 24, true, false});

	cr_expect_null(strchr(plain, '\033'));
	cr_expect_not_null(strstr(colour, "\033[7m"));
	free(plain);
	free(colour);
	output_live_free(l);
}

Test(output_screen, foreign_texts_cannot_drive_the_terminal)
{
	struct output_live *l = live_new(NULL);
	struct output_screen s = {.filter = "\033[2J"};
	struct output_screen_head h = head;
	char *text;

	h.host = h.message = "\033]0;title\007";
	LIVE(l, "evil\033[2J", 1, "\033]0;t\007", 1, APP("\033[31mred\r\n", 1));
	for (unsigned view = 0; view < 2 * OUTPUT_LIVE_VIEWS_N; view++) {
		s.view = view % OUTPUT_LIVE_VIEWS_N;
		s.filter[0] = view < OUTPUT_LIVE_VIEWS_N ? '\0' : '\033';
		text = drawn(l, &s, &h, (struct output_screen_size){100, 24, false, false});
		cr_expect_null(strpbrk(text, "\033\007\r"));
		free(text);
	}
	output_live_free(l);
}

Test(output_screen, shows_lost_omitted_and_forgotten_samples)
{
	const struct output_live_options o = {
		.window_ns = NS_PER_SEC, .max_functions = 8, .max_processes = 8};
	struct output_screen s = {.paused = true, .since_start = true};
	struct output_live *l = live_new(&o);
	struct output_screen_head h = head;
	char *text;

	for (int i = 0; i < 20; i++) {
		char name[8];

		snprintf(name, sizeof name, "f%d", i);
		LIVE(l, "p", 1, NULL, 1, APP(name, 1));
		output_live_tick(l, NS_PER_SEC, 0);
	}
	h.dropped = 3;
	h.dropped_ever = 12;
	h.drops = "ring_full 12";
	h.left_out = 77;
	text = drawn(l, &s, &h, (struct output_screen_size){160, 24, false, false});
	cr_expect_not_null(strstr(text, "lost 3 (ring_full 12 since start)"), "%s", text);
	cr_expect_not_null(strstr(text, "paused  77 samples left out"), "%s", text);
	cr_expect_not_null(strstr(text, "forgotten "), "%s", text);
	free(text);
	output_live_free(l);
}

static enum output_screen_effect press(struct output_screen *s, const char *bytes)
{
	enum output_screen_effect effect = OUTPUT_SCREEN_NOTHING;
	struct output_keys k = {0};
	struct output_key key;

	for (; *bytes; bytes++)
		if (output_keys_byte(&k, *bytes, &key))
			effect = output_screen_key(s, &key);
	if (output_keys_timeout(&k, &key))
		effect = output_screen_key(s, &key);
	return effect;
}

Test(output_screen, keys_switch_views)
{
	struct output_screen s = {0};

	cr_expect_eq(press(&s, "2"), OUTPUT_SCREEN_CHANGED);
	cr_expect_eq(s.view, OUTPUT_LIVE_PROCESSES);
	press(&s, "\t");
	cr_expect_eq(s.view, OUTPUT_LIVE_CONTAINERS);
	press(&s, "\t");
	cr_expect_eq(s.view, OUTPUT_LIVE_FUNCTIONS);
	press(&s, "\033[Z");
	cr_expect_eq(s.view, OUTPUT_LIVE_CONTAINERS);
	press(&s, "sc p");
	cr_expect(s.by_total && s.since_start && !s.paused);
	cr_expect_eq(press(&s, "x"), OUTPUT_SCREEN_NOTHING);
	cr_expect_eq(press(&s, "\014"), OUTPUT_SCREEN_CLEARED);
}

Test(output_screen, ways_out)
{
	static const char *const ways[] = {"q", "Q", "\033", "\003", "hq", "/x\003", "/x\r\033\033"};
	static const char *const none[] = {"", "h\033", "/q", "/x\033", "/x\r\033", "\033[A", "?x"};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		cr_expect_eq(press(&(struct output_screen){0}, ways[i]), OUTPUT_SCREEN_QUIT, "%zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		cr_expect_neq(press(&(struct output_screen){0}, none[i]), OUTPUT_SCREEN_QUIT, "%zu", i);
}

Test(output_screen, a_filter_is_typed)
{
	struct output_screen s = {0};

	press(&s, "/q1s\303\244x\177\177z");
	cr_expect(s.editing);
	cr_expect_str_eq(s.filter, "q1sz");
	press(&s, "\r");
	cr_expect_not(s.editing);
	cr_expect_str_eq(s.filter, "q1sz");
	press(&s, "/\025");
	cr_expect_str_eq(s.filter, "");
	for (int i = 0; i < 100; i++)
		press(&s, "\342\202\254");
	cr_expect_lt(strlen(s.filter), sizeof s.filter);
	cr_expect_eq(strlen(s.filter) % 3, 0);
	press(&s, "\033");
	cr_expect(!s.editing && !s.filter[0]);
}

Test(output_screen, scrolling_stays_within_the_rows)
{
	struct output_live *l = live_new(NULL);
	struct output_screen s = {0};
	char *text;

	for (int i = 0; i < 100; i++) {
		char name[8];

		snprintf(name, sizeof name, "f%02d", i);
		LIVE(l, "p", 1, NULL, (uint64_t)(200 - i), APP(name, 1));
	}
	static const struct {
		const char *keys, *first, *last;
	} steps[] = {
		{"", "f00", "f09"},
		{"\033[A", "f00", "f09"},
		{"\033[B", "f01", "f10"},
		{"\033[6~", "f10", "f19"},
		{"\033[5~", "f01", "f10"},
		{"\033[F", "f90", "f99"},
		{"\033[B\033[B", "f90", "f99"},
		{"\033[A", "f89", "f98"},
		{"\033[H", "f00", "f09"},
		{"jjk", "f01", "f10"},
		{"/f99\r", "f99", "f99"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		press(&s, steps[i].keys);
		text = drawn(l, &s, &head, (struct output_screen_size){80, 15, false, false});
		char first[8] = "", last[8] = "", *rows = strstr(text, "MODULE\n");

		cr_assert_not_null(rows);
		for (char *line = rows; (line = strchr(line, '\n')) && line[1] == ' '; line++)
			sscanf(line, "%*f %*f %7s", *first ? last : first);
		cr_expect_str_eq(first, steps[i].first, "step %zu:\n%s", i, text);
		cr_expect_str_eq(*last ? last : first, steps[i].last, "step %zu:\n%s", i, text);
		free(text);
	}
	output_live_free(l);
}
