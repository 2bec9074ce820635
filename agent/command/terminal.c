// SPDX-License-Identifier: Apache-2.0
/*
 * Output goes through a file description of our own: O_NONBLOCK on the inherited one would affect the shell,
 * too. The terminal still turns Ctrl-C and Ctrl-Z into signals (ISIG), which the event loop handles.
 */
#include "agent/command/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/output/keyboard.h"
#include "agent/command/stderr_capture.h"

#define ESCAPE_NS (200 * NS_PER_MS) /* after this time, an ESC is a key and not the start of a sequence */
#define FINAL_OUTPUT_MS 1000	    /* how long to wait for a slow terminal when leaving the screen */
#define DEFAULT_COLUMNS 80
#define DEFAULT_LINES 24

/* Alternate screen, no cursor, no line wrapping; and back. */
#define ALTERNATE "\033[?1049h"
#define ENTER "\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

struct terminal {
	struct terminal_options options;
	int out; /* owned unless it is stdout */
	struct termios before;
	bool taken, cleared;
	struct loop_source *input, *output, *escape;
	struct output_keys keys;
	struct stderr_capture *stderr_capture;
	struct buf frame; /* the bytes from `sent` on still have to be written */
	size_t sent;
};

/* Signals of a crash, and their handlers before ours. */
static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static struct sigaction fatal_before[ARRAY_SIZE(fatal)];
static struct terminal *shown; /* the terminal to restore on a crash; NULL: none */

/* Restores the terminal, then lets the crash proceed. Async-signal-safe. */
static void on_fatal(int signo)
{
	if (shown && write(shown->out, LEAVE, sizeof LEAVE - 1) >= 0)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &shown->before);
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		if (fatal[i] == signo)
			(void)sigaction(signo, &fatal_before[i], NULL);
	(void)raise(signo); /* delivered when this handler returns */
}

static void watch_crashes(struct terminal *t)
{
	const struct sigaction action = {.sa_handler = on_fatal};

	shown = t;
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		(void)sigaction(fatal[i], &action, &fatal_before[i]);
}

static void unwatch_crashes(void)
{
	shown = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		(void)sigaction(fatal[i], &fatal_before[i], NULL);
}

bool terminal_usable(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static int open_output(void)
{
	char name[128];
	int fd = -1;

	if (ttyname_r(STDOUT_FILENO, name, sizeof name) == 0)
		fd = open(name, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? STDOUT_FILENO : fd;
}

/* Writes as much as the terminal takes now; the remainder waits for EPOLLOUT. A terminal that is gone
 * discards it. */
static void frame_send(struct terminal *t)
{
	while (t->sent < t->frame.len) {
		ssize_t n = write(t->out, t->frame.data + t->sent, t->frame.len - t->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		t->sent = n < 0 ? t->frame.len : t->sent + (size_t)n;
	}
	buf_clear(&t->frame);
	t->sent = 0;
}

static int on_output(int fd, uint32_t events, void *data)
{
	struct terminal *t = data;

	(void)fd;
	(void)events;
	frame_send(t);
	return t->frame.len ? 0 : loop_set_events(t->output, 0);
}

/* Writes the end of a frame and `text`. Gives up on a terminal that does not take them in time. */
static void send_last(struct terminal *t, const char *text)
{
	uint64_t deadline = clock_mono_ns() + FINAL_OUTPUT_MS * NS_PER_MS, now;

	(void)buf_puts(&t->frame, text);
	while (frame_send(t), t->frame.len && (now = clock_mono_ns()) < deadline) {
		struct pollfd p = {.fd = t->out, .events = POLLOUT};

		(void)poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1);
	}
	buf_clear(&t->frame);
	t->sent = 0;
}

static int take(struct terminal *t)
{
	struct termios raw;

	if (!t->taken && tcgetattr(STDIN_FILENO, &t->before) < 0)
		return -errno;
	raw = t->before;
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | ISTRIP);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
		return -errno;
	stderr_capture_resume(t->stderr_capture);
	send_last(t,
		  t->taken ? ENTER : ALTERNATE ENTER); /* repeating ALTERNATE would lose the saved cursor */
	if (!t->taken)
		watch_crashes(t);
	t->taken = true;
	return 0;
}

static void give_back(struct terminal *t)
{
	if (!t->taken)
		return;
	t->taken = false;
	send_last(t, LEAVE);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
	unwatch_crashes();
	stderr_capture_release(t->stderr_capture);
}

static int on_escape(uint64_t expirations, void *data)
{
	struct terminal *t = data;
	struct output_key key;

	(void)expirations;
	return output_keys_timeout(&t->keys, &key) ? t->options.key(&key, t->options.data) : 0;
}

static int on_input(int fd, uint32_t events, void *data)
{
	struct terminal *t = data;
	struct output_key key;
	char bytes[256];
	ssize_t n = read(fd, bytes, sizeof bytes);
	int r = 0;

	(void)events;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		loop_remove(t->input);
		t->input = NULL;
		return t->options.ended(t->options.data);
	}
	for (ssize_t i = 0; i < n && r == 0; i++)
		if (output_keys_byte(&t->keys, bytes[i], &key))
			r = t->options.key(&key, t->options.data);
	if (r == 0 && output_keys_pending(&t->keys))
		r = loop_set_timer(t->escape, ESCAPE_NS, 0);
	return r;
}

int terminal_open(struct terminal **ret, const struct terminal_options *options)
{
	struct terminal *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->options = *options;
	t->out = open_output();
	r = loop_add_fd(options->loop, STDIN_FILENO, EPOLLIN, on_input, t, &t->input);
	if (r == 0)
		r = loop_add_timer(options->loop, ESCAPE_NS, 0, on_escape, t, &t->escape);
	if (r == 0 && t->out != STDOUT_FILENO)
		r = loop_add_fd(options->loop, t->out, 0, on_output, t, &t->output);
	if (r == 0)
		r = stderr_capture_new(&t->stderr_capture, options->loop);
	if (r == 0)
		r = take(t);
	if (r < 0) {
		terminal_close(t);
		return r;
	}
	*ret = t;
	return 0;
}

void terminal_close(struct terminal *t)
{
	if (!t)
		return;
	give_back(t);
	stderr_capture_free(t->stderr_capture);
	loop_remove(t->input);
	loop_remove(t->output);
	loop_remove(t->escape);
	if (t->out != STDOUT_FILENO)
		close(t->out);
	buf_fini(&t->frame);
	free(t);
}

void terminal_size(const struct terminal *t, unsigned *ret_columns, unsigned *ret_lines)
{
	struct winsize size = {0};

	(void)ioctl(t->out, TIOCGWINSZ, &size);
	*ret_columns = size.ws_col ? size.ws_col : DEFAULT_COLUMNS;
	*ret_lines = size.ws_row ? size.ws_row : DEFAULT_LINES;
}

void terminal_clear(struct terminal *t)
{
	t->cleared = true;
}

/* Erases each line before writing it: after a full line, the cursor is on its last character. */
static int frame_fill(struct terminal *t, const char *text)
{
	int r = buf_puts(&t->frame, t->cleared ? "\033[2J\033[H" : "\033[H");

	while (r == 0 && *text) {
		size_t n = strcspn(text, "\n");

		r = buf_puts(&t->frame, "\033[K");
		if (r == 0)
			r = buf_append(&t->frame, text, n);
		if (r == 0 && text[n] && text[n + 1])
			r = buf_puts(&t->frame, "\r\n");
		text += n + (text[n] == '\n');
	}
	return r;
}

void terminal_show(struct terminal *t, const char *lines)
{
	if (!t->taken || t->frame.len)
		return; /* the previous frame is still being written */
	if (frame_fill(t, lines) < 0)
		buf_clear(&t->frame);
	t->cleared = false;
	frame_send(t);
	if (t->frame.len && t->output)
		(void)loop_set_events(t->output, EPOLLOUT);
}

void terminal_suspend(struct terminal *t)
{
	sigset_t set;

	give_back(t);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* the process stops and continues here */
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	terminal_resumed(t);
}

void terminal_resumed(struct terminal *t)
{
	(void)take(t);
	terminal_clear(t);
}

const char *terminal_message(const struct terminal *t)
{
	return stderr_capture_last(t->stderr_capture);
}
