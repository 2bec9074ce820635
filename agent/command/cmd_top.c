// SPDX-License-Identifier: Apache-2.0
/*
 * `proflet top`: what runs now, on the terminal. A window of the agent closes each interval and brings its
 * stacks; a little later they are drawn. Where there is no terminal, or one that only prints lines, it is a
 * table for each interval.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/check/check.h"
#include "agent/command/cmd.h"
#include "agent/config/config.h"
#include "agent/load.h"
#include "agent/memory.h"
#include "agent/output/keys.h"
#include "agent/output/live.h"
#include "agent/output/screen.h"
#include "agent/base/priority.h"
#include "agent/config/secrets.h"
#include "agent/command/targets.h"
#include "agent/command/terminal.h"
#include "agent/command/top_account.h"

#define DEFAULT_HZ 99u
#define SETTLE_NS (1 * NS_PER_SEC)
#define NAMES_NS (50 * NS_PER_MS) /* that those of a window may take before it is drawn */
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define DURATION_MAX_NS (365 * 86400 * NS_PER_SEC)
#define PLAIN_COLUMNS 120u

enum by { BY_FUNCTIONS, BY_PROCESSES, BY_CONTAINERS };

struct top {
	struct config *config;
	uint64_t duration_ns, interval_ns, window_ns;
	uint32_t hz, rows;
	enum by by;
	struct targets targets;
	struct selection selection;
	struct agent *agent;
	struct output_live *live;
	struct terminal *terminal; /* NULL: plain tables */
	struct output_screen screen;
	struct top_account account;
	struct loop_source *draw;
	bool in_step; /* with the agent's windows */
	bool full_screen, colour;
};

static int stop(struct top *top)
{
	loop_stop(agent_loop(top->agent));
	return 0;
}

static void add_stack(const struct output_stack *stack, void *data)
{
	struct top *top = data;

	if (!top->in_step) { /* the first window: the others come at the same time of each interval */
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

/* What is known, as it is now. A frame that memory is too short for is left out. */
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
	uint64_t arrived, interval_ns = top_account_update(&top->account, top->agent, &arrived);

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

static int on_key(const struct output_key *key, void *data)
{
	struct top *top = data;

	switch (output_screen_key(&top->screen, key)) {
	case OUTPUT_SCREEN_QUIT:
		return stop(top);
	case OUTPUT_SCREEN_CLEARED:
		terminal_clear(top->terminal);
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
	struct loop *loop = agent_loop(top->agent);
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
	const struct terminal_options o = {agent_loop(top->agent), on_key, on_input_ended, top};
	int r;

	if (!top->full_screen)
		return 0;
	r = terminal_open(&top->terminal, &o);
	if (r < 0 && asprintf(ret_why, "the terminal cannot be had: %s", strerror(-r)) < 0)
		*ret_why = NULL;
	return r < 0 ? r : draw(top);
}

/* The last interval is cut short, and told of all the same. */
static int finish(struct top *top, int r)
{
	terminal_close(TAKE_PTR(top->terminal));
	agent_stop(top->agent);
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
		r = agent_start(top->agent, ret_why);
	if (r == 0) /* a busy host may take its time to start */
		r = loop_set_timer(top->draw, top->interval_ns, top->interval_ns);
	if (r == 0 && top->duration_ns)
		r = loop_add_timer(agent_loop(top->agent), top->duration_ns, 0, on_time, top, NULL);
	if (r < 0)
		return r;
	top_account_begin(&top->account, top->agent, top->config);
	r = open_terminal(top, ret_why);
	if (r == 0)
		r = agent_run(top->agent);
	return finish(top, r);
}

static int top_run(struct top *top)
{
	const struct output_live_options live = {.window_ns = top->window_ns};
	_cleanup_free_ char *why = NULL;
	struct agent_options o = {
		.config = top->config,
		.select = selection_ask,
		.select_data = &top->selection,
		.select_moves = selection_by_cgroup(&top->selection),
		.window_ns = top->interval_ns,
		.stack = add_stack,
		.stack_data = top,
		.settle_ns = SETTLE_NS,
		.flush_ns = top->full_screen ? 0 : NS_PER_SEC, /* who quits does not want to wait */
	};
	int r = output_live_new(&top->live, &live);

	if (r == 0)
		r = agent_new(&top->agent, &o, &why);
	if (r == 0)
		r = watch(top, &why);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ? why : strerror(-r));
		return r == -EPERM || r == -EACCES ? EXIT_NOT_PERMITTED : EXIT_FAILED;
	}
	return EXIT_DONE;
}

static int start(struct top *top)
{
	_cleanup_free_ char *why = NULL;
	int r = check_kernel_supported(&why), nice;

	if (r == 0)
		r = check_permissions(&why);
	if (r == 0)
		r = targets_select(&top->targets, top->config, &top->selection, &why);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ? why : strerror(-r));
		return r == -EPERM ? EXIT_NOT_PERMITTED : EXIT_FAILED;
	}
	memory_fit(top->config);
	load_fit_frequency(top->config);
	nice = priority_session_raise();
	r = top_run(top);
	priority_session_restore(nice);
	return r;
}

static void top_fini(struct top *top)
{
	terminal_close(top->terminal);
	agent_free(top->agent);
	output_live_free(top->live);
	top_account_fini(&top->account);
	selection_fini(&top->selection);
	targets_fini(&top->targets);
	config_free(top->config);
}

static void help(const struct config_extra_option *options, size_t n)
{
	printf("Usage: proflet top [OPTION]...\n\n"
	       "Shows what runs on this host now: the functions, processes and containers that the CPUs "
	       "spend\n"
	       "their time in. h tells of the keys, q ends it. Where the output is no terminal it prints a "
	       "table\n"
	       "for each interval.\n\n");
	config_help(stdout, options, n);
}

static void settle(struct top *top)
{
	(void)secrets_settle(top->config);
	if (top->hz || config_origin(top->config, "sampling.frequency")->source == CONFIG_FROM_DEFAULT)
		top->config->sampling.frequency = top->hz ? top->hz : DEFAULT_HZ;
	log_setup(top->config->log.level, top->config->log.format);
	top->screen.view = (enum output_live_view)top->by;
	top->full_screen = terminal_usable();
	top->colour = !getenv("NO_COLOR") || !*getenv("NO_COLOR");
}

int cmd_top(int argc, char **argv)
{
	struct top top = {.interval_ns = NS_PER_SEC, .window_ns = 5 * NS_PER_SEC, .rows = 20};
	const struct config_extra_option options[] = {
		{.short_name = 'F',
		 .name = "frequency",
		 .type = CONFIG_U32,
		 .target = &top.hz,
		 .min = 1,
		 .max = 10000,
		 .value_name = "HZ",
		 .help = "samples per second and CPU (default 99)"},
		TARGETS_OPTIONS(top.targets),
		{.name = "by",
		 .type = CONFIG_ENUM,
		 .target = &top.by,
		 .accepted = "functions,processes,containers",
		 .value_name = "VIEW",
		 .help = "functions, processes or containers at first (default functions)"},
		{.short_name = 'd',
		 .name = "duration",
		 .type = CONFIG_SECONDS,
		 .target = &top.duration_ns,
		 .min = NS_PER_MS,
		 .max = DURATION_MAX_NS,
		 .value_name = "TIME",
		 .help = "end after this time (default: when told to)"},
		{.name = "interval",
		 .type = CONFIG_SECONDS,
		 .target = &top.interval_ns,
		 .min = INTERVAL_MIN_NS,
		 .max = 60 * NS_PER_SEC,
		 .value_name = "TIME",
		 .help = "draw so often (default 1s)"},
		{.name = "span",
		 .type = CONFIG_SECONDS,
		 .target = &top.window_ns,
		 .min = INTERVAL_MIN_NS,
		 .max = 600 * NS_PER_SEC,
		 .value_name = "TIME",
		 .help = "what counts as now: the last so many seconds (default 5s)"},
		{.short_name = 'n',
		 .name = "rows",
		 .type = CONFIG_U32,
		 .target = &top.rows,
		 .min = 1,
		 .max = 100000,
		 .value_name = "N",
		 .help = "rows of a table that is printed where there is no terminal (default 20)"},
	};
	_cleanup_free_ char *error = NULL;
	int r, code = EXIT_DONE;

	r = config_load(&top.config, argc, argv, options, ARRAY_SIZE(options), NULL, &error);
	if (r == CONFIG_HELP_ASKED) {
		help(options, ARRAY_SIZE(options));
	} else if (r < 0) {
		fprintf(stderr, "%s\n", error ? error : "proflet: out of memory");
		code = EXIT_USAGE;
	} else {
		settle(&top);
		code = start(&top);
	}
	top_fini(&top);
	return code;
}
