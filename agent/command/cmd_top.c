// SPDX-License-Identifier: Apache-2.0
/*
 * `proflet top`: what runs now, on the terminal. The agent's window closes at each interval and delivers its
 * stacks; a little later they are drawn. Without a terminal, or on one without cursor control, a table is
 * printed for each interval.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/priority.h"
#include "agent/command/cmd.h"
#include "agent/command/session.h"
#include "agent/command/terminal.h"
#include "agent/command/top_account.h"
#include "agent/command/top_recording.h"
#include "agent/output/keyboard.h"
#include "agent/output/live.h"
#include "agent/output/screen.h"

#define SETTLE_NS (1 * NS_PER_SEC)
#define NAMES_NS (50 * NS_PER_MS) /* from the end of a window until it is drawn: time to find its names */
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define DURATION_MAX_NS (365 * 86400 * NS_PER_SEC)
#define PLAIN_COLUMNS 120u

enum by { BY_FUNCTIONS, BY_PROCESSES, BY_CONTAINERS };

struct top {
	struct session session;
	uint64_t duration_ns, interval_ns, window_ns;
	uint32_t rows;
	enum by by;
	struct output_live *live;
	struct terminal *terminal; /* NULL: plain tables */
	struct output_screen screen;
	struct top_account account;
	struct loop_source *draw;
	bool in_step; /* drawing follows the agent's windows */
	bool full_screen, colour;
	struct buf written; /* names of files, for when the screen is gone */
};

static int stop(struct top *top)
{
	loop_stop(agent_loop(top->session.agent));
	return 0;
}

static void add_stack(const struct output_stack *stack, void *data)
{
	struct top *top = data;

	if (!top->in_step) { /* the first window: the others follow at fixed intervals */
		top->in_step = true;
		(void)loop_set_timer(top->draw, NAMES_NS + (top->terminal ? 0 : top->interval_ns),
				     top->interval_ns);
	}
	if (top->screen.paused)
		top->account.head.left_out += stack->count;
	else
		output_live_add(top->live, stack);
}

static struct output_screen_size size_of(const struct top *top)
{
	struct output_screen_size size = {.columns = PLAIN_COLUMNS, .lines = top->rows, .plain = true};

	if (!top->terminal)
		return size;
	terminal_size(top->terminal, &size.columns, &size.lines);
	size.plain = false;
	size.colour = top->colour;
	return size;
}

/* Draws the current state. Skips the frame when out of memory. */
static int draw(struct top *top)
{
	const struct output_screen_size size = size_of(top);
	_cleanup_buf_ struct buf text = {0};

	top->account.head.message = top->terminal ? terminal_message(top->terminal) : NULL;
	if (output_screen_draw(top->live, &top->account.head, &top->screen, &size, &text) < 0)
		return 0;
	if (top->terminal) {
		terminal_show(top->terminal, buf_str(&text));
		return 0;
	}
	if (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
		return -errno;
	return 0;
}

static void tick(struct top *top)
{
	uint64_t arrived, interval_ns = top_account_update(&top->account, top->session.agent, &arrived);

	if (!top->screen.paused)
		output_live_tick(top->live, interval_ns, arrived);
}

static int on_draw(uint64_t expirations, void *data)
{
	struct top *top = data;

	(void)expirations;
	tick(top);
	return draw(top);
}

/* Writes the recording, and says in the screen what became of it. */
static void write_recording(struct top *top)
{
	struct output_live_scope scope;
	const struct output_live_query query = output_screen_query(&top->screen, &scope);
	const struct top_recording recording = {.live = top->live,
						.query = &query,
						.frequency_hz = top->session.config->sampling.frequency,
						.hostname = top->account.head.host};
	_cleanup_free_ char *names = NULL;
	int r = top_recording_write(&recording, top->screen.path, top->screen.notice,
				    sizeof top->screen.notice, &names);

	if (r == 0 || r == -ENODATA)
		top->screen.naming = false;
	if (names)
		(void)buf_puts(&top->written, names);
}

static int on_key(const struct output_key *key, void *data)
{
	struct top *top = data;

	switch (output_screen_key(&top->screen, key)) {
	case OUTPUT_SCREEN_QUIT:
		return stop(top);
	case OUTPUT_SCREEN_CLEARED:
		terminal_clear(top->terminal);
		return draw(top);
	case OUTPUT_SCREEN_NAME:
		top_recording_propose(top->screen.path, sizeof top->screen.path);
		return draw(top);
	case OUTPUT_SCREEN_WRITE:
		write_recording(top);
		return draw(top);
	case OUTPUT_SCREEN_CHANGED:
		return draw(top);
	case OUTPUT_SCREEN_NOTHING:
		break;
	}
	return 0;
}

static int on_input_ended(void *data)
{
	return stop(data);
}

static int on_time(uint64_t expirations, void *data)
{
	(void)expirations;
	return stop(data);
}

static int on_signal(int signo, void *data)
{
	struct top *top = data;

	if (signo == SIGTSTP && top->terminal)
		terminal_suspend(top->terminal);
	else if (signo == SIGCONT && top->terminal)
		terminal_resumed(top->terminal);
	else if (signo == SIGWINCH && top->terminal)
		terminal_clear(top->terminal);
	else
		return stop(top);
	return draw(top);
}

static int add_sources(struct top *top)
{
	static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT},
			 of_terminal[] = {SIGTSTP, SIGCONT, SIGWINCH};
	struct loop *loop = agent_loop(top->session.agent);
	sigset_t set;
	int r;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaddset(&set, ends[i]);
	for (size_t i = 0; i < ARRAY_SIZE(of_terminal) && top->full_screen; i++)
		sigaddset(&set, of_terminal[i]);
	r = loop_add_signals(loop, &set, on_signal, top);
	if (r == 0)
		r = loop_add_timer(loop, top->interval_ns, top->interval_ns, on_draw, top, &top->draw);
	return r;
}

static int open_terminal(struct top *top, char **ret_why)
{
	const struct terminal_options o = {agent_loop(top->session.agent), on_key, on_input_ended, top};
	int r;

	if (!top->full_screen)
		return 0;
	r = terminal_open(&top->terminal, &o);
	if (r < 0 && asprintf(ret_why, "the terminal cannot be used: %s", strerror(-r)) < 0)
		*ret_why = NULL;
	return r < 0 ? r : draw(top);
}

/* Prints the last interval, too, although it was cut short. */
static int finish(struct top *top, int r)
{
	terminal_close(TAKE_PTR(top->terminal));
	fputs(buf_str(&top->written), stdout);
	agent_stop(top->session.agent);
	if (r == 0 && !top->full_screen) {
		tick(top);
		r = draw(top);
	}
	return r == -EPIPE ? 0 : r;
}

static int watch(struct top *top, char **ret_why)
{
	int r = add_sources(top);

	if (r == 0)
		r = agent_start(top->session.agent, ret_why);
	if (r == 0) /* the interval counts from here: starting may take long on a busy host */
		r = loop_set_timer(top->draw, top->interval_ns, top->interval_ns);
	if (r == 0 && top->duration_ns)
		r = loop_add_timer(agent_loop(top->session.agent), top->duration_ns, 0, on_time, top, NULL);
	if (r < 0)
		return r;
	top_account_begin(&top->account, top->session.agent, top->session.config);
	r = open_terminal(top, ret_why);
	if (r == 0)
		r = agent_run(top->session.agent);
	return finish(top, r);
}

static int top_run(struct top *top)
{
	const struct output_live_options live = {.window_ns = top->window_ns};
	_cleanup_free_ char *why = NULL;
	struct agent_options o = {
		.window_ns = top->interval_ns,
		.stack = add_stack,
		.stack_data = top,
		.settle_ns = SETTLE_NS,
		.by_cpu = top->full_screen,		       /* for a recording */
		.flush_ns = top->full_screen ? 0 : NS_PER_SEC, /* q must quit at once */
	};
	int r = output_live_new(&top->live, &live);

	if (r == 0)
		r = session_open(&top->session, &o, &why);
	if (r == 0)
		r = watch(top, &why);
	return r < 0 ? command_failed(r, why) : EXIT_DONE;
}

static int start(struct top *top)
{
	_cleanup_free_ char *why = NULL;
	int r = session_prepare(&top->session, &why), nice;

	if (r < 0)
		return command_failed(r, why);
	top->screen.view = (enum output_live_view)top->by;
	top->full_screen = terminal_usable();
	top->colour = !getenv("NO_COLOR") || !*getenv("NO_COLOR");
	command_urgent_within(top->session.config, command_urgent());
	nice = priority_session_raise();
	r = top_run(top);
	priority_session_restore(nice);
	return r;
}

static void top_fini(struct top *top)
{
	terminal_close(top->terminal);
	session_fini(&top->session);
	output_live_free(top->live);
	top_account_fini(&top->account);
	buf_fini(&top->written);
}

static const char usage[] =
	"Usage: proflet top [OPTION]...\n\n"
	"Shows which functions, processes and containers use the CPUs of this host now. Press h for help,\n"
	"Enter to see the callers and callees of a function or the functions of a process, w to write what "
	"is\n"
	"shown as a recording, q to quit. If the output is not a terminal, it prints a table per "
	"interval.\n\n";

int cmd_top(int argc, char **argv)
{
	struct top top = {.interval_ns = NS_PER_SEC, .window_ns = 5 * NS_PER_SEC, .rows = 20};
	const struct config_extra_option options[] = {
		SESSION_OPTIONS(top.session),
		{.name = "by",
		 .type = CONFIG_ENUM,
		 .target = &top.by,
		 .accepted = "functions,processes,containers",
		 .value_name = "VIEW",
		 .help = "the table to start with: functions, processes or containers (default functions)"},
		{.short_name = 'd',
		 .name = "duration",
		 .type = CONFIG_SECONDS,
		 .target = &top.duration_ns,
		 .min = NS_PER_MS,
		 .max = DURATION_MAX_NS,
		 .value_name = "TIME",
		 .help = "end after this time (default: run until stopped)"},
		{.name = "interval",
		 .type = CONFIG_SECONDS,
		 .target = &top.interval_ns,
		 .min = INTERVAL_MIN_NS,
		 .max = 60 * NS_PER_SEC,
		 .value_name = "TIME",
		 .help = "time between two updates (default 1s)"},
		{.name = "span",
		 .type = CONFIG_SECONDS,
		 .target = &top.window_ns,
		 .min = INTERVAL_MIN_NS,
		 .max = 600 * NS_PER_SEC,
		 .value_name = "TIME",
		 .help = "time that each update covers (default 5s)"},
		{.short_name = 'n',
		 .name = "rows",
		 .type = CONFIG_U32,
		 .target = &top.rows,
		 .min = 1,
		 .max = 100000,
		 .value_name = "N",
		 .help = "rows per table when the output is not a terminal (default 20)"},
	};
	const struct command_line line = {argc, argv, options, ARRAY_SIZE(options), usage, false};
	int code = session_load(&top.session, &line, NULL);

	if (code == COMMAND_GOES_ON)
		code = start(&top);
	top_fini(&top);
	return code;
}
