// SPDX-License-Identifier: Apache-2.0
/* `proflet record`: one recording of the host, of some processes, or of a command, into files. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/check/check.h"
#include "agent/command/cmd.h"
#include "agent/config/config.h"
#include "agent/output/profile.h"
#include "agent/output/top.h"
#include "agent/load.h"
#include "agent/memory.h"
#include "agent/base/priority.h"
#include "agent/command/record_child.h"
#include "agent/command/record_files.h"
#include "agent/config/secrets.h"
#include "agent/symbol/dwarf.h"
#include "agent/command/targets.h"
#include "otlp/request.h"
#include "version.h"

#define DEFAULT_HZ 99u
#define DEFAULT_NS (10 * NS_PER_SEC)
#define SETTLE_NS (5 * NS_PER_SEC)
#define NAMES_NS (60 * NS_PER_SEC)
#define PROGRESS_NS (250 * NS_PER_MS)
#define COMMAND_NS (365 * 86400 * NS_PER_SEC) /* a command ends by itself */

struct record {
	struct config *config;
	uint64_t duration_ns;
	uint32_t hz;
	struct targets targets;
	struct config_list formats;
	char *path, *by;
	bool overwrite, lines;
	char **command; /* argv of the command, NULL: none */
	struct selection selection;
	struct agent *agent;
	struct output_profile *profile;
	struct otlp_request *request;
	uint64_t otlp_extra; /* samples in requests after the first: not written */
	struct record_child child;
	bool child_ended; /* by itself */
	uint64_t begin_ns, begin_unix_ns;
	bool terminal;
};

static const char *check_by(const char *text)
{
	return strcmp(text, "container") == 0 ? NULL : "is not a way to group";
}

static void emit(struct otlp_request *request, void *data)
{
	struct record *rec = data;

	if (!rec->request) {
		rec->request = request;
		return;
	}
	rec->otlp_extra += request->n_samples;
	otlp_request_free(request);
}

/* Past its maximum the profile counts it as [other]. */
static void add_stack(const struct output_stack *stack, void *data)
{
	(void)output_profile_add(data, stack);
}

static int on_stop(int signo, void *data)
{
	struct record *rec = data;

	(void)signo;
	loop_stop(agent_loop(rec->agent));
	return 0;
}

static int on_time(uint64_t expirations, void *data)
{
	(void)expirations;
	return on_stop(0, data);
}

static int on_child(int fd, uint32_t events, void *data)
{
	struct record *rec = data;

	(void)fd;
	(void)events;
	rec->child_ended = true;
	return on_stop(0, data);
}

static int on_progress(uint64_t expirations, void *data)
{
	struct record *rec = data;
	struct agent_stats s;

	(void)expirations;
	agent_stats(rec->agent, &s);
	fprintf(stderr, "\rrecording %.1f s%s, %lu samples, %lu processes ",
		(double)(clock_mono_ns() - rec->begin_ns) / 1e9, rec->command ? "" : " (Ctrl-C ends it)",
		(unsigned long)s.received, (unsigned long)s.track.processes);
	fflush(stderr);
	return 0;
}

static int add_sources(struct record *rec)
{
	struct loop *loop = agent_loop(rec->agent);
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	r = loop_add_signals(loop, &set, on_stop, rec);
	if (r == 0 && rec->child.pid)
		r = loop_add_fd(loop, rec->child.pid_fd, EPOLLIN, on_child, rec, NULL);
	if (r == 0 && rec->terminal)
		r = loop_add_timer(loop, PROGRESS_NS, PROGRESS_NS, on_progress, rec, NULL);
	return r;
}

static int profile_info(struct record *rec, const struct agent_stats *s)
{
	/* of processes that nobody asked for: not a loss */
	uint64_t others = s->probe.counters[COUNTER_NOT_SELECTED] + s->refused[SAMPLE_DROP_NOT_SELECTED];
	_cleanup_buf_ struct buf command = {0};
	struct utsname name;
	struct output_info info = {
		.start_unix_ns = rec->begin_unix_ns,
		.duration_ns = clock_mono_ns() - rec->begin_ns,
		.frequency_hz = rec->config->sampling.frequency,
		.hostname = uname(&name) == 0 ? name.nodename : NULL,
		.version = PROFLET_VERSION,
		.n_taken = s->taken - others,
		.n_dropped = s->dropped - others,
	};

	for (char **a = rec->command; a && *a; a++)
		(void)buf_printf(&command, "%s%s", a == rec->command ? "" : " ", *a);
	info.command = rec->command ? buf_str(&command) : NULL;
	return output_profile_set_info(rec->profile, &info);
}

static struct record_files files_of(const struct record *rec)
{
	return (struct record_files){rec->path ? rec->path : "proflet", &rec->formats,
				     rec->by && strcmp(rec->by, "container") == 0};
}

/* Before anybody waits for a recording that could not be kept. */
static int check_files(const struct record *rec, char **ret_why)
{
	const struct record_files files = files_of(rec);
	_cleanup_free_ char *failed = NULL;
	int r = record_files_check(&files, rec->overwrite, &failed);

	if (r < 0 && failed &&
	    asprintf(ret_why, r == -EEXIST ? "%s is there already: -f overwrites it" : "%s: %s", failed,
		     strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

static int check_lines(const struct record *rec, char **ret_why)
{
	int r = rec->lines ? symbol_dwarf_load() : 0;

	if (r < 0)
		*ret_why = strdup(
			"--lines reads debug information with libdw.so.1, which is missing here: apt-get "
			"install libdw1");
	return r;
}

/* As a shell tells of a command. */
static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Table of functions, the account, the files. Returns the exit code: the command's, where that ended. */
static int results(struct record *rec)
{
	const struct record_files files = files_of(rec);
	_cleanup_buf_ struct buf drops = {0};
	_cleanup_free_ char *failed = NULL;
	struct agent_stats s;
	int r;

	agent_stats(rec->agent, &s);
	(void)agent_format_drops(&s, &drops);
	r = profile_info(rec, &s);
	if (r == 0)
		r = output_top_write(rec->profile, &(struct output_top_options){0}, stdout);
	printf("\nsamples: taken=%lu exported=%lu dropped=%lu in_flight=%lu%s (%s, %u Hz)\n",
	       (unsigned long)s.taken, (unsigned long)s.report.emitted, (unsigned long)s.dropped,
	       (unsigned long)s.in_flight, buf_str(&drops), s.event, rec->config->sampling.frequency);
	if (s.report.lines_left)
		fprintf(stderr,
			"proflet: %lu addresses have no source lines: reading their debug information would "
			"have taken longer\n",
			(unsigned long)s.report.lines_left);
	if (rec->otlp_extra)
		fprintf(stderr,
			"proflet: %lu samples did not fit one OTLP request and are in the other files only\n",
			(unsigned long)rec->otlp_extra);
	if (r == 0)
		r = record_files_write(&files, rec->profile, rec->request, &failed);
	if (r < 0)
		fprintf(stderr, "proflet: %s: %s\n", failed ? failed : "the results cannot be written",
			strerror(-r));
	if (r < 0)
		return EXIT_FAILED;
	return rec->child_ended ? exit_code(record_child_end(&rec->child)) : EXIT_DONE;
}

/* Samples until time, command or user say stop. 0 or -errno. */
static int sample(struct record *rec, char **ret_why)
{
	int r = add_sources(rec);

	if (r == 0)
		r = agent_start(rec->agent, ret_why);
	if (r == 0) /* not before: a busy host may take its time to start */
		r = loop_add_timer(agent_loop(rec->agent), rec->duration_ns, 0, on_time, rec, NULL);
	if (r < 0)
		return r;
	rec->begin_ns = clock_mono_ns();
	rec->begin_unix_ns = clock_real_ns();
	if (rec->child.pid) {
		r = record_child_go(&rec->child);
		if (r < 0 && asprintf(ret_why, "%s: %s", rec->command[0], strerror(-r)) < 0)
			*ret_why = NULL;
		if (r < 0)
			return r;
	}
	r = agent_run(rec->agent);
	if (rec->terminal && rec->lines)
		fputs("\r\033[Kreading names and source lines", stderr);
	agent_stop(rec->agent);
	if (rec->terminal)
		fputs("\r\033[K", stderr);
	return r;
}

static int record_run(struct record *rec)
{
	_cleanup_free_ char *why = NULL;
	struct agent_options o = {
		.config = rec->config,
		.select = selection_ask,
		.select_data = &rec->selection,
		.select_moves = selection_by_cgroup(&rec->selection),
		.max_request_bytes = 1u << 30, /* a file, one request */
		.emit = emit,
		.emit_data = rec,
		.stack = add_stack,
		.settle_ns = SETTLE_NS,
		.flush_ns = NAMES_NS,
		.source_lines = rec->lines,
	};
	int r = output_profile_new(&rec->profile, &(struct output_info){0});

	o.stack_data = rec->profile;
	if (r == 0)
		r = agent_new(&rec->agent, &o, &why);
	if (r == 0)
		r = sample(rec, &why);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ? why : strerror(-r));
		return r == -EPERM || r == -EACCES ? EXIT_NOT_PERMITTED : EXIT_FAILED;
	}
	return results(rec);
}

/* What the options say about whom to record. As targets_select. */
static int select_targets(struct record *rec, char **ret_why)
{
	int r = targets_select(&rec->targets, rec->config, &rec->selection, ret_why);

	if (r == 0 && rec->command) {
		r = record_child_fork(&rec->child, rec->command);
		if (r == 0)
			r = selection_add_pid(&rec->selection, (uint32_t)rec->child.pid);
	}
	return r;
}

static int start(struct record *rec)
{
	_cleanup_free_ char *why = NULL;
	int r = check_kernel_supported(&why), nice;

	if (r == 0)
		r = check_permissions(&why);
	if (r == 0)
		r = check_lines(rec, &why);
	if (r == 0)
		r = check_files(rec, &why);
	if (r == 0)
		r = select_targets(rec, &why);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ? why : strerror(-r));
		return r == -EPERM ? EXIT_NOT_PERMITTED : EXIT_FAILED;
	}
	memory_fit(rec->config);
	load_fit_frequency(rec->config);
	if (rec->command) /* is in the same session */
		return record_run(rec);
	nice = priority_session_raise();
	r = record_run(rec);
	priority_session_restore(nice);
	return r;
}

static void record_fini(struct record *rec)
{
	record_child_end(&rec->child);
	agent_free(rec->agent);
	selection_fini(&rec->selection);
	output_profile_free(rec->profile);
	otlp_request_free(rec->request);
	targets_fini(&rec->targets);
	config_list_free(&rec->formats);
	free(rec->path);
	free(rec->by);
	config_free(rec->config);
}

static void help(const struct config_extra_option *options, size_t n)
{
	printf("Usage: proflet record [OPTION]... [-- COMMAND [ARGUMENT]...]\n\n"
	       "Profiles this host, or the command and what it starts, prints the top functions and writes\n"
	       "PATH.html (flamegraph), PATH.folded, PATH.pb.gz (pprof) and PATH.otlp. Ctrl-C ends it early\n"
	       "and keeps what is there. A command that ended gives its exit code to record.\n\n");
	config_help(stdout, options, n);
}

int cmd_record(int argc, char **argv)
{
	struct record rec = {.child = RECORD_CHILD_NONE, .terminal = isatty(STDERR_FILENO)};
	const struct config_extra_option options[] = {
		{.short_name = 'd',
		 .name = "duration",
		 .type = CONFIG_SECONDS,
		 .target = &rec.duration_ns,
		 .min = NS_PER_MS,
		 .max = COMMAND_NS,
		 .value_name = "TIME",
		 .help = "how long to record: 10s, 1m, or seconds (default 10s; with a command, until it "
			 "ends)"},
		{.short_name = 'F',
		 .name = "frequency",
		 .type = CONFIG_U32,
		 .target = &rec.hz,
		 .min = 1,
		 .max = 10000,
		 .value_name = "HZ",
		 .help = "samples per second and CPU (default 99)"},
		TARGETS_OPTIONS(rec.targets),
		{.short_name = 'o',
		 .name = "output",
		 .type = CONFIG_STRING,
		 .target = &rec.path,
		 .value_name = "PATH",
		 .help = "files to write, without extension (default proflet)"},
		{.short_name = 'f',
		 .name = "force",
		 .type = CONFIG_FLAG,
		 .target = &rec.overwrite,
		 .help = "overwrite files that are there"},
		{.name = "format",
		 .type = CONFIG_LIST,
		 .target = &rec.formats,
		 .accepted = "html,folded,pprof,otlp",
		 .value_name = "FORMAT,...",
		 .help = "which files to write (default all)"},
		{.name = "lines",
		 .type = CONFIG_FLAG,
		 .target = &rec.lines,
		 .help = "also source lines and inlined calls, where debug information (DWARF) is there; for "
			 "programs that you trust"},
		{.name = "by",
		 .type = CONFIG_STRING,
		 .target = &rec.by,
		 .check = check_by,
		 .form = "container",
		 .value_name = "container",
		 .help = "folded: put the container before the process"},
	};
	_cleanup_free_ char *error = NULL;
	int first = argc, r, code = EXIT_DONE;

	r = config_load(&rec.config, argc, argv, options, ARRAY_SIZE(options), &first, &error);
	if (r == CONFIG_HELP_ASKED) {
		help(options, ARRAY_SIZE(options));
	} else if (r < 0) {
		fprintf(stderr, "%s\n", error ? error : "proflet: out of memory");
		code = EXIT_USAGE;
	} else {
		(void)secrets_settle(rec.config);
		if (first < argc)
			rec.command = argv + first;
		if (!rec.duration_ns)
			rec.duration_ns = rec.command ? COMMAND_NS : DEFAULT_NS;
		if (rec.hz || config_origin(rec.config, "sampling.frequency")->source == CONFIG_FROM_DEFAULT)
			rec.config->sampling.frequency = rec.hz ? rec.hz : DEFAULT_HZ;
		log_setup(rec.config->log.level, rec.config->log.format);
		code = start(&rec);
	}
	record_fini(&rec);
	return code;
}
