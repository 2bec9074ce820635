// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/output/keyboard.h"
#include "agent/command/terminal.h"

struct fixture {
	int master;
	struct loop *loop;
	struct terminal *terminal;
	char keys[64];
	size_t n_keys;
	bool ended;
};

static int on_key(const struct output_key *key, void *data)
{
	struct fixture *f = data;

	f->keys[f->n_keys++] = key->code == OUTPUT_KEY_TEXT ? key->text[0] : (char)('A' + key->code);
	return 0;
}

static int on_end(void *data)
{
	((struct fixture *)data)->ended = true;
	return 0;
}

static int on_time(uint64_t expirations, void *data)
{
	(void)expirations;
	loop_stop(data);
	return 0;
}

static void go_on(struct fixture *f, uint64_t ms)
{
	cr_assert_eq(loop_add_timer(f->loop, ms * NS_PER_MS, 0, on_time, f->loop, NULL), 0);
	cr_assert_eq(loop_run(f->loop), 0);
}

/* The process's three descriptors are a terminal; criterion gives each test a process. */
static void set_up(struct fixture *f)
{
	const struct winsize size = {.ws_col = 90, .ws_row = 33};
	int slave;

	*f = (struct fixture){0};
	cr_assert_eq(openpty(&f->master, &slave, NULL, NULL, &size), 0);
	for (int fd = 0; fd < 3; fd++)
		cr_assert_eq(dup2(slave, fd), fd);
	cr_assert_eq(loop_new(&f->loop), 0);
}

static void take_over(struct fixture *f)
{
	const struct terminal_options o = {f->loop, on_key, on_end, f};

	cr_assert_eq(terminal_open(&f->terminal, &o), 0);
}

/* What the terminal has got, once it has got `expected` (NULL: by now). The kernel hands it on later. */
static const char *shown(struct fixture *f, const char *expected)
{
	static char text[65536];
	struct pollfd p = {.fd = f->master, .events = POLLIN};
	size_t len = 0;

	text[0] = '\0';
	fcntl(f->master, F_SETFL, O_NONBLOCK);
	while (poll(&p, 1, expected && !strstr(text, expected) ? 10000 : 0) > 0) {
		ssize_t n = read(f->master, text + len, sizeof text - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
	}
	return text;
}

static void type(struct fixture *f, const char *keys)
{
	cr_assert_eq(write(f->master, keys, strlen(keys)), (ssize_t)strlen(keys));
	go_on(f, 20);
}

Test(terminal, is_given_back_as_it_was)
{
	struct termios before, now;
	unsigned columns, lines;
	struct fixture f;

	set_up(&f);
	setenv("TERM", "xterm", 1);
	cr_expect(terminal_usable());
	setenv("TERM", "dumb", 1);
	cr_expect_not(terminal_usable());
	cr_assert_eq(tcgetattr(0, &before), 0);
	take_over(&f);
	terminal_size(f.terminal, &columns, &lines);
	cr_expect(columns == 90 && lines == 33);
	cr_assert_eq(tcgetattr(0, &now), 0);
	cr_expect_not(now.c_lflag & (ICANON | ECHO));
	cr_expect(now.c_lflag & ISIG);
	terminal_show(f.terminal, "one\ntwo");
	cr_expect_not_null(strstr(shown(&f, "\033[?1049h"), "\033[?1049h"));
	terminal_close(f.terminal);
	cr_expect_not_null(strstr(shown(&f, "\033[?1049l"), "\033[?25h\033[?1049l"));
	cr_assert_eq(tcgetattr(0, &now), 0);
	cr_expect(now.c_iflag == before.c_iflag && now.c_oflag == before.c_oflag &&
		  now.c_cflag == before.c_cflag && now.c_lflag == before.c_lflag &&
		  memcmp(now.c_cc, before.c_cc, sizeof now.c_cc) == 0);
	cr_expect_not(fcntl(1, F_GETFL) & O_NONBLOCK);
	loop_free(f.loop);
}

Test(terminal, keys_come_in_pieces_and_input_ends)
{
	struct fixture f;

	set_up(&f);
	take_over(&f);
	type(&f, "q\033");
	type(&f, "[");
	type(&f, "Ax\033");
	cr_expect_eq(f.n_keys, 3); /* q, Up, x; Escape is not decided */
	cr_expect_eq(f.keys[1], 'A' + OUTPUT_KEY_UP);
	go_on(&f, 300);
	cr_expect_eq(f.n_keys, 4);
	cr_expect_eq(f.keys[3], 'A' + OUTPUT_KEY_ESCAPE);
	signal(SIGHUP, SIG_IGN);
	close(f.master);
	go_on(&f, 20);
	cr_expect(f.ended);
	terminal_close(f.terminal);
	loop_free(f.loop);
}

Test(terminal, stderr_is_kept_beside_the_screen)
{
	struct fixture f;
	const char *text;

	set_up(&f);
	take_over(&f);
	cr_expect_null(terminal_message(f.terminal));
	cr_assert_eq(write(2, "first\nsecond\nthi", 16), 16);
	go_on(&f, 20);
	cr_expect_str_eq(terminal_message(f.terminal), "second");
	cr_assert_eq(write(2, "rd\n", 3), 3);
	cr_expect_null(strstr(shown(&f, NULL), "first"));
	terminal_close(f.terminal);
	text = strstr(shown(&f, "third\r\n"), "\033[?1049l");
	cr_assert_not_null(text);
	cr_expect_not_null(strstr(text, "first\r\nsecond\r\nthird\r\n"));
	loop_free(f.loop);
}

/* A terminal that takes nothing: frames are left out, and the next that there is room for is a whole one. */
Test(terminal, a_slow_terminal_holds_nobody_up)
{
	char line[4000];
	uint64_t begin = clock_mono_ns();
	const char *text, *last = NULL;
	struct fixture f;

	set_up(&f);
	take_over(&f);
	memset(line, 'x', sizeof line - 1);
	line[sizeof line - 1] = '\0';
	for (int i = 0; i < 1000; i++)
		terminal_show(f.terminal, line);
	cr_expect_lt(clock_mono_ns() - begin, 100 * NS_PER_SEC,
		     "no frame waits, not even for a tenth of a second");
	for (int i = 0; i < 20; i++) {
		(void)shown(&f, NULL);
		go_on(&f, 5);
	}
	terminal_show(f.terminal, "whole");
	text = shown(&f, "whole");
	for (const char *p = text; (p = strstr(p, "\033[H")); p++)
		last = p;
	cr_assert_not_null(last);
	cr_expect_str_eq(last, "\033[H\033[Kwhole");
	terminal_close(f.terminal);
	loop_free(f.loop);
}
