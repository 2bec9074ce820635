// SPDX-License-Identifier: Apache-2.0
/* `proflet record`: one recording of the host, of selected processes, or of a command, written to files. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/priority.h"
#include "agent/command/cmd.h"
#include "agent/command/record_child.h"
#include "agent/command/record_files.h"
#include "agent/command/session.h"
#include "agent/output/profile.h"
#include "agent/output/top.h"
#include "agent/symbol/dwarf.h"
#include "version.h"

#define DEFAULT_NS (10 * NS_PER_SEC)
#define SETTLE_NS (5 * NS_PER_SEC)
#define NAMES_NS (60 * NS_PER_SEC)
#define WINDOW_NS (15 * NS_PER_SEC) /* a recording of the default length is one window */
#define PROGRESS_NS (250 * NS_PER_MS)
#define COMMAND_NS (365 * 86400 * NS_PER_SEC) /* a command ends by itself */

struct record {
	struct session session;
	uint64_t duration_ns;
	struct config_list formats, by;
	char *path;
	bool overwrite, lines;
	char **command; /* argv of the command, NULL: none */
	struct output_profile *profile;
	struct record_growing growing;
	struct record_child child;
	bool child_ended;			  /* by itself, before the recording was stopped */
	uint64_t begin_ns, begin_unix_ns, end_ns; /* of sampling */
	bool terminal;
};

static void spill(const void *bytes, size_t len, void *data)
{
	const struct record *rec = data;

	record_otlp_append(rec->growing.otlp, bytes, len);
}

static void emit(struct otlp_request *request, void *data)
{
	const struct record *rec = data;

	record_otlp_finish(rec->growing.otlp, request);
}

/* A profile that has reached its maximum counts the stack as [other]. */
static void add_stack(const struct output_stack *stack, void *data)
{
	struct record *rec = data;

	(void)output_profile_add(rec->profile, stack);
	record_perf_add(rec->growing.perf, stack, rec->session.config->sampling.frequency);
}

static int on_stop(int signo, void *data)
{
	struct record *rec = data;

	(void)signo;
	loop_stop(agent_loop(rec->session.agent));
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
	agent_stats(rec->session.agent, &s);
	fprintf(stderr, "\r\033[Krecording %.1f s%s, %lu samples, %lu processes ",
		(double)(clock_mono_ns() - rec->begin_ns) / 1e9, rec->command ? "" : " (Ctrl-C ends it)",
		(unsigned long)s.received, (unsigned long)s.track.processes);
	fflush(stderr);
	return 0;
}

static void stop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
}

/* Whether the user has stopped it before there were samples. 0 or -EINTR. */
static int check_stopped(char **ret_why)
{
	sigset_t pending;

	if (sigpending(&pending) < 0 || (!sigismember(&pending, SIGTERM) && !sigismember(&pending, SIGINT)))
		return 0;
	*ret_why = strdup("stopped before sampling began: nothing is written");
	return -EINTR;
}

/* What takes until sampling begins; on a busy host, seconds. */
static void show_start(const struct record *rec, const char *text)
{
	if (rec->terminal)
		fprintf(stderr, "\r\033[K%s", text);
}

static int add_sources(struct record *rec)
{
	struct loop *loop = agent_loop(rec->session.agent);
	sigset_t set;
	int r;

	stop_signals(&set);
	r = loop_add_signals(loop, &set, on_stop, rec);
	if (r == 0 && rec->child.pid)
		r = loop_add_fd(loop, rec->child.pid_fd, EPOLLIN, on_child, rec, NULL);
	if (r == 0 && rec->terminal)
		r = loop_add_timer(loop, PROGRESS_NS, PROGRESS_NS, on_progress, rec, NULL);
	return r;
}

static int profile_info(struct record *rec, const struct agent_stats *s)
{
	_cleanup_buf_ struct buf command = {0};
	struct utsname name;
	struct output_info info = {
		.start_unix_ns = rec->begin_unix_ns,
		.duration_ns = rec->end_ns - rec->begin_ns,
		.frequency_hz = rec->session.config->sampling.frequency,
		.hostname = uname(&name) == 0 ? name.nodename : NULL,
		.version = PROFLET_VERSION,
		.n_taken = s->taken,
		.n_dropped = s->dropped,
	};

	for (char **a = rec->command; a && *a; a++)
		(void)buf_printf(&command, "%s%s", a == rec->command ? "" : " ", *a);
	info.command = rec->command ? buf_str(&command) : NULL;
	return output_profile_set_info(rec->profile, &info);
}

static bool has_item(const struct config_list *list, const char *text)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->items[i], text) == 0)
			return true;
	return false;
}

static struct record_files files_of(const struct record *rec)
{
	return (struct record_files){rec->path ? rec->path : "proflet", &rec->formats,
				     has_item(&rec->by, "container"), has_item(&rec->by, "thread"), NULL};
}

/* Whether the files can be written, before the recording starts. Opens the one that grows meanwhile. */
static int prepare_files(struct record *rec, char **ret_why)
{
	const struct record_files files = files_of(rec);
	_cleanup_free_ char *failed = NULL;
	int r = record_files_check(&files, rec->overwrite, &failed);

	if (r == 0)
		r = record_otlp_new(&rec->growing.otlp, &files, &failed);
	if (r == 0)
		r = record_perf_new(&rec->growing.perf, &files, &failed);
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

/* The exit code as a shell reports it. */
static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Prints the table of functions and the sample counts, writes the files. Returns the exit code: that of the
 * command, if it ended. */
static int results(struct record *rec)
{
	const struct record_files files = files_of(rec);
	FILE *text = strcmp(files.path, RECORD_STDOUT) == 0 ? stderr : stdout;
	_cleanup_buf_ struct buf drops = {0};
	_cleanup_free_ char *failed = NULL;
	struct agent_stats s;
	int r;

	agent_stats(rec->session.agent, &s);
	if (rec->session.pods.n && !s.taken)
		fprintf(stderr,
			"proflet: no pod of this node that --pod names has run, as far as the kubelet "
			"has told\n");
	(void)agent_format_drops(&s, &drops);
	(void)agent_format_omitted(&s, &drops);
	r = profile_info(rec, &s);
	if (r == 0)
		r = output_top_write(rec->profile, &(struct output_top_options){0}, text);
	fprintf(text, "\nsamples: taken=%lu exported=%lu dropped=%lu in_flight=%lu%s (%s, %u Hz)\n",
		(unsigned long)s.taken, (unsigned long)s.report.emitted, (unsigned long)s.dropped,
		(unsigned long)s.in_flight, buf_str(&drops), s.event,
		rec->session.config->sampling.frequency);
	if (s.report.lines_left)
		fprintf(stderr,
			"proflet: %lu addresses have no source lines: reading their debug information would "
			"have taken longer\n",
			(unsigned long)s.report.lines_left);
	if (record_otlp_left_out(rec->growing.otlp))
		fprintf(stderr,
			"proflet: %lu samples did not fit one OTLP request and are in the other files only\n",
			(unsigned long)record_otlp_left_out(rec->growing.otlp));
	if (record_perf_unmapped(rec->growing.perf))
		fprintf(stderr,
			"proflet: %lu frames have no names in perf.data: too many processes and files\n",
			(unsigned long)record_perf_unmapped(rec->growing.perf));
	if (r == 0)
		r = record_files_write(&files, rec->profile, &rec->growing, &failed);
	if (r < 0)
		fprintf(stderr, "proflet: %s: %s\n", failed ? failed : "the results cannot be written",
			strerror(-r));
	if (r < 0)
		return EXIT_FAILED;
	return rec->child_ended ? exit_code(record_child_end(&rec->child)) : EXIT_DONE;
}

/* Samples until the time is over, the command ends or the user stops it. 0 or -errno. */
static int sample(struct record *rec, char **ret_why)
{
	int r = add_sources(rec);

	if (r == 0)
		r = agent_start(rec->session.agent, ret_why);
	if (r == 0)
		r = check_stopped(ret_why);
	if (r == 0) /* the time counts from here: starting may take long on a busy host */
		r = loop_add_timer(agent_loop(rec->session.agent), rec->duration_ns, 0, on_time, rec, NULL);
	if (r < 0)
		return r;
	rec->begin_ns = clock_mono_ns();
	rec->begin_unix_ns = clock_real_ns();
	if (rec->child.pid) {
		rec->session.command_ns = rec->begin_ns;
		r = record_child_go(&rec->child);
		if (r < 0 && asprintf(ret_why, "%s: %s", rec->command[0], strerror(-r)) < 0)
			*ret_why = NULL;
		if (r < 0)
			return r;
	}
	r = agent_run(rec->session.agent);
	rec->end_ns = clock_mono_ns();
	if (rec->terminal && rec->lines)
		fputs("\r\033[Kreading names and source lines", stderr);
	agent_stop(rec->session.agent);
	if (rec->terminal)
		fputs("\r\033[K", stderr);
	return r;
}

static int record_run(struct record *rec)
{
	_cleanup_free_ char *why = NULL;
	struct agent_options o = {
		.recording = true,
		.window_ns = WINDOW_NS,
		.emit = rec->growing.otlp ? emit : NULL,
		.spill = spill,
		.emit_data = rec,
		.stack = add_stack,
		.settle_ns = SETTLE_NS,
		.flush_ns = NAMES_NS,
		.source_lines = rec->lines,
		.by_cpu = rec->growing.perf != NULL,
	};
	int r = output_profile_new(&rec->profile, &(struct output_info){0});

	o.stack_data = rec;
	show_start(rec, "starting: reading the programs that run (Ctrl-C ends it)");
	if (r == 0)
		r = session_open(&rec->session, &o, &why);
	if (r == 0)
		r = check_stopped(&why);
	if (r == 0)
		r = sample(rec, &why);
	if (r < 0)
		show_start(rec, "");
	return r < 0 ? command_failed(r, why) : results(rec);
}

/* Forks the command, which waits until sampling has begun, and selects it. */
static int prepare_command(struct record *rec)
{
	int r = record_child_fork(&rec->child, rec->command);

	if (r < 0)
		return r;
	rec->session.command_pid = (uint32_t)rec->child.pid;
	rec->session.command_ns = UINT64_MAX;
	return selection_add_pid(&rec->session.selection, rec->session.command_pid);
}

static int start(struct record *rec)
{
	_cleanup_free_ char *why = NULL;
	int r, code, nice;
	sigset_t set;

	stop_signals(&set); /* they wait until there is something to write, or not to write */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	r = session_prepare(&rec->session, &why);
	if (r == 0)
		r = check_lines(rec, &why);
	if (r == 0)
		r = prepare_files(rec, &why);
	if (r == 0 && rec->command)
		r = prepare_command(rec);
	if (r < 0) {
		code = command_failed(r, why);
		return r == -EACCES ? EXIT_FAILED : code; /* a file, not a capability */
	}
	command_urgent_within(rec->session.config, command_urgent());
	if (rec->command) /* it runs in our session, and must not be favoured */
		return record_run(rec);
	nice = priority_session_raise();
	code = record_run(rec);
	priority_session_restore(nice);
	return code;
}

static void record_fini(struct record *rec)
{
	record_child_end(&rec->child);
	session_fini(&rec->session);
	output_profile_free(rec->profile);
	record_otlp_free(rec->growing.otlp);
	record_perf_free(rec->growing.perf);
	config_list_free(&rec->formats);
	config_list_free(&rec->by);
	free(rec->path);
}

/* What `-o -` needs. COMMAND_GOES_ON, or the exit code. */
static int prepare_stdout(struct record *rec, bool has_command)
{
	const char *why = NULL;
	struct record_files files;

	if (!rec->formats.n && config_list_append(&rec->formats, "html") < 0)
		return command_failed(-ENOMEM, NULL);
	files = files_of(rec);
	why = has_command ? "a command would write there, too" : record_files_refusal(&files);
	if (!why)
		return COMMAND_GOES_ON;
	fprintf(stderr, "proflet: record: -o -: %s\n", why);
	return EXIT_USAGE;
}

static const char usage[] =
	"Usage: proflet record [OPTION]... [-- COMMAND [ARGUMENT]...]\n\n"
	"Profiles this host, or the command and what it starts, prints the top functions and writes\n"
	"PATH.html (flamegraph), PATH.folded, PATH.pb.gz (pprof) and PATH.otlp. Ctrl-C ends it early\n"
	"and keeps what was recorded. If the command ends, record exits with its exit code.\n\n";

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
		SESSION_OPTIONS(rec.session),
		{.short_name = 'o',
		 .name = "output",
		 .type = CONFIG_STRING,
		 .target = &rec.path,
		 .value_name = "PATH",
		 .help = "path of the files to write, without extension (default proflet); - writes the one "
			 "--format (default html) to standard output"},
		{.short_name = 'f',
		 .name = "force",
		 .type = CONFIG_FLAG,
		 .target = &rec.overwrite,
		 .help = "overwrite existing files"},
		{.name = "format",
		 .type = CONFIG_LIST,
		 .target = &rec.formats,
		 .accepted = "html,folded,pprof,otlp,perf,perf-flat",
		 .value_name = "FORMAT,...",
		 .help = "files to write: html, folded, pprof, otlp (default these four), perf "
			 "(PATH.perf.data), perf-flat (PATH.flat.perf.data: without callers, for "
			 "perf2bolt -nl)"},
		{.name = "lines",
		 .type = CONFIG_FLAG,
		 .target = &rec.lines,
		 .help = "also resolve source lines and inlined calls from debug information (DWARF); only "
			 "for programs that you trust"},
		{.name = "by",
		 .type = CONFIG_LIST,
		 .target = &rec.by,
		 .accepted = "container,thread",
		 .value_name = "LEVEL,...",
		 .help = "levels to add to the folded file: container, before the process; thread, behind "
			 "it"},
	};
	const struct command_line line = {argc, argv, options, ARRAY_SIZE(options), usage, true};
	int first, code = session_load(&rec.session, &line, &first);

	if (code == COMMAND_GOES_ON && rec.path && strcmp(rec.path, RECORD_STDOUT) == 0)
		code = prepare_stdout(&rec, first < argc);
	if (code == COMMAND_GOES_ON) {
		if (first < argc)
			rec.command = argv + first;
		if (!rec.duration_ns)
			rec.duration_ns = rec.command ? COMMAND_NS : DEFAULT_NS;
		code = start(&rec);
	}
	record_fini(&rec);
	return code;
}
