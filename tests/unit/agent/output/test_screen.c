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
		      "> 80.0    80.0  f8                                   app           0123456789ab+\n"
		      "  15.0    15.0  vfs_read                             [kernel]      host\n"
		      "   5.0     5.0  [no name in libc.so.6]               libc.so.6     host\n"
		      "q quit  h help  Enter open  Tab view  / filter  w write  p pause  s by total  c ",
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

Test(output_screen, the_cursor_stays_within_the_rows)
{
	struct output_live *l = live_new(NULL);
	struct output_screen s = {0};

	for (int i = 0; i < 100; i++) {
		char name[8];

		snprintf(name, sizeof name, "f%02d", i);
		LIVE(l, "p", 1, NULL, (uint64_t)(200 - i), APP(name, 1));
	}
	static const struct {
		const char *keys, *first, *last, *selected;
	} steps[] = {
		{"", "f00", "f09", "f00"},
		{"\033[A", "f00", "f09", "f00"},
		{"\033[B", "f00", "f09", "f01"},
		{"\033[6~", "f01", "f10", "f10"},
		{"\033[5~", "f01", "f10", "f01"},
		{"\033[F", "f90", "f99", "f99"},
		{"\033[B\033[B", "f90", "f99", "f99"},
		{"\033[A", "f90", "f99", "f98"},
		{"\033[H", "f00", "f09", "f00"},
		{"jjk", "f00", "f09", "f01"},
		{"/f99\r", "f99", "f99", "f99"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		char first[8] = "", last[8] = "", selected[8] = "", *rows;

		press(&s, steps[i].keys);
		_cleanup_free_ char *text =
			drawn(l, &s, &head, (struct output_screen_size){80, 15, false, false});

		rows = strstr(text, "MODULE\n");
		cr_assert_not_null(rows);
		for (char *line = rows; (line = strchr(line, '\n')) && line[1] && line[1] != 'q'; line++) {
			sscanf(line + 2, "%*f %*f %7s", *first ? last : first);
			if (line[1] == '>')
				sscanf(line + 2, "%*f %*f %7s", selected);
		}
		cr_expect_str_eq(first, steps[i].first, "step %zu:\n%s", i, text);
		cr_expect_str_eq(*last ? last : first, steps[i].last, "step %zu:\n%s", i, text);
		cr_expect_str_eq(selected, steps[i].selected, "step %zu:\n%s", i, text);
		cr_expect_str_eq(s.selected.name, steps[i].selected);
	}
	output_live_free(l);
}

/* Presses keys of one byte, each on a screen that is drawn: then the cursor has a row. */
static void press_on(struct output_live *l, struct output_screen *s, const char *keys)
{
	for (; *keys; keys++) {
		const char key[] = {*keys, '\0'};

		free(drawn(l, s, &head, (struct output_screen_size){80, 24, false, false}));
		press(s, key);
	}
}

Test(output_screen, enter_opens_a_function)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {0};

	press_on(l, &s, "\r");
	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (cpu-clock)   running 1:23\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incomplete 5.0%  3 of 40 processes ran\n"
		      "functions \xe2\x80\xba f8  80.0%  last 2 s   1-3 of 3\n"
		      "SHARE%  TOTAL%             FUNCTION                                MODULE\n"
		      "> 75.0    60.0  called by  f7                                      app\n"
		      "  25.0    20.0  called by  main                                    app\n"
		      " 100.0    80.0  itself     f8                                      app\n"
		      "q quit  h help  Enter open  Esc back  / filter  w write  p pause  ",
		      .columns = 80, .lines = 8);
	press_on(l, &s, "\r");
	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incom\n"
		      "functions \xe2\x80\xba f8 \xe2\x80\xba f7  60.0%  last 2 s   1-\n"
		      "SHARE%  TOTAL%     FUNCTION\n"
		      ">100.0    60.0  \xe2\x86\x91  main\n"
		      " 100.0    60.0  \xe2\x86\x93  f8\n",
		      .columns = 41, .lines = 6);
	press_on(l, &s, "j\r");
	cr_expect_eq(s.n_levels, 3);
	cr_expect_str_eq(s.levels[2].place.name, "f8");
	press_on(l, &s, "\033\033\177");
	cr_expect_eq(s.n_levels, 0);
	output_live_free(l);
}

Test(output_screen, enter_opens_processes_and_containers)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {.view = OUTPUT_LIVE_PROCESSES};

	press_on(l, &s, "j\r");
	EXPECT_SCREEN(l, &s,
		      "proflet top   node-1   12:34:56   50 Hz (cpu-clock)   running 1:23\n"
		      "CPU 50% of 2  50 samples/s  lost 0  incomplete 5.0%  3 of 40 processes ran\n"
		      "processes \xe2\x80\xba app 11  20.0%  last 2 s   1-2 of 2\n"
		      ">SELF%  TOTAL%  FUNCTION                                        MODULE\n"
		      ">100.0   100.0  f8                                              app\n"
		      "   0.0   100.0  main                                            app\n"
		      "\n"
		      "q quit  h help  Enter open  Esc back  / filter  w write  p pause  s by total  ",
		      .columns = 80, .lines = 8);
	press_on(l, &s, "\r");
	cr_expect_str_eq(s.levels[1].place.name, "f8");
	press_on(l, &s, "\033\033");
	cr_expect(s.n_levels == 0 && s.cursor == 1 && s.view == OUTPUT_LIVE_PROCESSES);
	press_on(l, &s, "3");
	press_on(l, &s, "j\r");
	_cleanup_free_ char *text = drawn(l, &s, &head, (struct output_screen_size){80, 24, false, false});

	cr_expect_not_null(strstr(text, "containers \xe2\x80\xba host  40.0%"), "%s", text);
	cr_expect_not_null(strstr(text, "\n> 50.0    50.0  f8 "), "%s", text);
	output_live_free(l);
}

/* The deepest path fits, and its end is what is seen. */
Test(output_screen, a_long_path_shows_its_end)
{
	struct output_live *l = live_new(NULL);
	struct output_screen s = {0};
	char name[] = "f_which_has_a_rather_long_name_indeed_0";

	LIVE(l, "app", 1, NULL, 5, APP(name, 1), APP("main", 2));
	output_live_tick(l, NS_PER_SEC, 0);
	for (int i = 0; i < 2 * OUTPUT_SCREEN_LEVELS_MAX; i++)
		press_on(l, &s, "\r"); /* f → main → f … */
	cr_expect_eq(s.n_levels, OUTPUT_SCREEN_LEVELS_MAX);
	for (unsigned columns = 20; columns < 120; columns += 7) {
		_cleanup_free_ char *text =
			drawn(l, &s, &head, (struct output_screen_size){columns, 24, false, false});
		char *save = NULL;

		for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			cr_assert_leq(output_text_width(line), columns);
	}
	output_live_free(l);
}

Test(output_screen, a_recording_gets_a_name)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {.path = "proflet-top"};
	_cleanup_free_ char *text = NULL;

	cr_expect_eq(press(&s, "w"), OUTPUT_SCREEN_NAME);
	press(&s, "-1q");
	text = drawn(l, &s, &head, (struct output_screen_size){80, 4, false, false});
	cr_expect_not_null(strstr(text, "write to: proflet-top-1q_   (Enter writes"), "%s", text);
	cr_expect_eq(press(&s, "\r"), OUTPUT_SCREEN_WRITE);
	cr_expect(s.naming);
	press(&s, "\033");
	cr_expect_not(s.naming);
	snprintf(s.notice, sizeof s.notice, "wrote it");
	free(text);
	text = drawn(l, &s, &head, (struct output_screen_size){80, 4, false, false});
	cr_expect_not_null(strstr(text, "\nwrote it"), "%s", text);
	cr_expect_eq(press(&s, "x"), OUTPUT_SCREEN_CHANGED);
	cr_expect_str_eq(s.notice, "");
	press(&s, "w\025");
	cr_expect_eq(press(&s, "\r"), OUTPUT_SCREEN_NOTHING);
	output_live_free(l);
}

Test(output_screen, help_scrolls_on_a_small_screen)
{
	struct output_live *l = two_seconds();
	struct output_screen s = {0};
	_cleanup_free_ char *text = NULL;

	press(&s, "?\033[F");
	text = drawn(l, &s, &head, (struct output_screen_size){40, 10, false, false});
	cr_expect(s.help && strstr(text, "Arrows scroll, any other key goes back"), "%s", text);
	press(&s, "x");
	cr_expect_not(s.help);
	output_live_free(l);
}
