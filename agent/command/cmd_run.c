// SPDX-License-Identifier: Apache-2.0
/* `proflet run`: the agent and an exporter, until SIGTERM or SIGINT. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/priority.h"
#include "agent/base/resources.h"
#include "agent/base/thread.h"
#include "agent/base/urgency.h"
#include "agent/check/check.h"
#include "agent/check/check_view.h"
#include "agent/check/privileges.h"
#include "agent/command/cmd.h"
#include "agent/command/command.h"
#include "agent/command/confine.h"
#include "agent/command/parsers.h"
#include "agent/config/secrets.h"
#include "agent/delivery/delivery.h"
#include "agent/load.h"
#include "agent/memory.h"
#include "agent/telemetry/cpu_limit.h"
#include "agent/telemetry/cpu_wait.h"
#include "agent/telemetry/pull_pages.h"
#include "agent/telemetry/status_pages.h"
#include "agent/track/select.h"
#include "version.h"

#define NAMES_FLUSH_NS (5 * NS_PER_SEC)
#define DELIVERY_WAIT_NS (100 * NS_PER_MS)
#define FINAL_FLUSH_NS (10 * NS_PER_SEC)
#define SUMMARY_NS (60 * NS_PER_SEC)

struct run {
	struct config *config;
	struct agent *agent;
	struct delivery *delivery;
	struct status_pages *status_pages;
	struct pull_pages *pull_pages;
	struct selection selection;
	struct privileges privileges;
	struct cpu_limit limit;
	struct cpu_wait cpu_wait;
	int urgent; /* what command_urgent has returned */
	int code;   /* exit code of a run that the delivery process has ended */
};

static void emit(struct otlp_request *request, void *data)
{
	struct run *run = data;

	delivery_submit(run->delivery, request);
}

static uint32_t frequency(uint32_t hz, void *data)
{
	struct run *run = data;

	return cpu_limit_update(&run->limit, hz, run->agent, run->delivery);
}

static int on_signal(int signo, void *data)
{
	struct run *run = data;

	log_info("%s: stopping", strsignal(signo));
	loop_stop(agent_loop(run->agent));
	return 0;
}

/*
 * Logs where all samples are, in the agent and in the delivery process:
 * taken + recovered (from disk) = exported + dropped + in flight + spooled.
 */
static void log_account(struct run *run, const char *text)
{
	_cleanup_buf_ struct buf drops = {0};
	struct otlp_exporter_stats x;
	struct agent_stats s;
	uint64_t dropped;

	delivery_stats(run->delivery, &x);
	agent_stats(run->agent, &s);
	dropped = s.dropped;
	(void)agent_format_drops(&s, &drops);
	for (int i = 0; i < OTLP_N_DROP_REASONS; i++) {
		dropped += x.samples.dropped[i];
		if (x.samples.dropped[i])
			(void)buf_printf(&drops, " dropped_%s=%lu", otlp_drop_name((enum otlp_drop)i),
					 (unsigned long)x.samples.dropped[i]);
	}
	log_fields(
		LOG_INFO, text,
		"taken=%lu exported=%lu dropped=%lu in_flight=%lu recovered=%lu spooled=%lu%s requests=%lu "
		"retries=%lu unanswered=%lu",
		(unsigned long)s.taken, (unsigned long)x.samples.exported, (unsigned long)dropped,
		(unsigned long)(s.in_flight + x.samples.queued), (unsigned long)x.samples.recovered,
		(unsigned long)x.samples.spooled, buf_str(&drops), (unsigned long)x.requests.exported,
		(unsigned long)x.retries, (unsigned long)x.unanswered_samples);
}

static int on_summary(uint64_t expirations, void *data)
{
	(void)expirations;
	log_account(data, "account");
	return 0;
}

static int on_cpu_wait(uint64_t expirations, void *data)
{
	struct run *run = data;

	(void)expirations;
	cpu_wait_update(&run->cpu_wait);
	return 0;
}

static sigset_t stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

static int code_of(int error)
{
	return error == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

static void on_delivery_failed(int error, const char *why, void *data)
{
	struct run *run = data;

	log_error("%s", why);
	run->code = code_of(error);
	loop_stop(agent_loop(run->agent));
}

/* Without the server the agent runs on, unless its address was configured explicitly. */
static void on_listens(int result, const char *why, void *data)
{
	struct run *run = data;

	if (result == 0)
		return;
	if (result == -ENOMEM || config_origin(run->config, "listen")->source != CONFIG_FROM_DEFAULT) {
		on_delivery_failed(-EIO, why, run);
		return;
	}
	log_warn("%s: no metrics and no health; set listen to another address, or to off", why);
}

static unsigned on_page(const char *path, const char *accept, struct buf *body, const char **content_type,
			void *data)
{
	struct run *run = data;

	return status_pages_answer(path, accept, body, content_type, run->status_pages);
}

static void on_pull(uint64_t number, const struct pull_request *request, void *data)
{
	struct run *run = data;

	pull_pages_begin(run->pull_pages, number, request);
}

static void on_pull_end(uint64_t number, void *data)
{
	struct run *run = data;

	pull_pages_end(run->pull_pages, number);
}

static int add_sources(struct run *run)
{
	const struct delivery_callbacks callbacks = {.failed = on_delivery_failed,
						     .listens = on_listens,
						     .page = on_page,
						     .pull = on_pull,
						     .pull_end = on_pull_end,
						     .data = run};
	struct loop *loop = agent_loop(run->agent);
	const sigset_t set = stop_signals();
	int r;

	r = loop_add_signals(loop, &set, on_signal, run);
	if (r == 0)
		r = delivery_watch(run->delivery, loop, &callbacks);
	if (r == 0)
		r = loop_add_timer(loop, SUMMARY_NS, SUMMARY_NS, on_summary, run, NULL);
	if (r == 0)
		r = loop_add_timer(loop, CPU_WAIT_READ_NS, CPU_WAIT_READ_NS, on_cpu_wait, run, NULL);
	return r;
}

static void log_started(struct run *run)
{
	struct agent_stats s;

	agent_stats(run->agent, &s);
	log_fields(
		LOG_INFO, "sampling",
		"version=%s event=%s hz=%u processes=%lu binaries=%lu tables=%lu map_bytes=%lu start_ms=%lu",
		PROFLET_VERSION, s.event, run->config->sampling.frequency, (unsigned long)s.track.processes,
		(unsigned long)s.track.binaries.known, (unsigned long)s.track.tables.ready,
		(unsigned long)s.map_bytes, (unsigned long)((s.attached_ns - s.start_ns) / NS_PER_MS));
}

static void log_stopped(struct run *run)
{
	_cleanup_buf_ struct buf endings = {0};
	struct agent_stats s;

	agent_stats(run->agent, &s);
	(void)agent_format_endings(&s, &endings);
	log_fields(
		LOG_INFO, "stopped",
		"windows=%lu first_sample_ms=%lu execs=%lu forks=%lu events_lost=%lu opened=%lu "
		"open_failed=%lu open_gone=%lu open_known=%lu open_other=%lu open_stuck=%lu "
		"process_requests=%lu process_requests_late=%lu process_requests_unanswered=%lu "
		"process_request_wait_max_us=%lu tables_overdue=%lu tables_built=%lu tables_evicted=%lu "
		"table_bytes=%lu arena_bytes=%lu maps_reread=%lu completed=%lu completed_late=%lu "
		"completion_full=%lu ring_pressure=%lu rules_followed=%lu rules_not_followed=%lu "
		"rules_disagreed=%lu "
		"rules_failed=%lu rules_refused=%lu rules_costly=%lu%s",
		(unsigned long)s.report.windows,
		(unsigned long)(s.report.first_sample_ns ? (s.report.first_sample_ns - s.start_ns) / NS_PER_MS
							 : 0),
		(unsigned long)s.track.events.execs, (unsigned long)s.track.events.forks,
		(unsigned long)track_events_lost(&s.track), (unsigned long)s.track.openings.opened,
		(unsigned long)s.track.openings.failed, (unsigned long)s.track.openings.gone,
		(unsigned long)s.track.openings.known, (unsigned long)s.track.openings.other,
		(unsigned long)s.track.openings.stuck, (unsigned long)s.track.requests.made,
		(unsigned long)s.track.requests.late,
		(unsigned long)(s.track.requests.given_up + s.track.requests.refused),
		(unsigned long)(s.track.requests.waited_max_ns / 1000), (unsigned long)s.track.tables.overdue,
		(unsigned long)s.track.tables.built, (unsigned long)s.track.tables.evicted,
		(unsigned long)s.track.tables.table_bytes, (unsigned long)s.track.arena.segment_bytes,
		(unsigned long)s.track.reader.rereads, (unsigned long)s.completion.completed,
		(unsigned long)s.completion.late, (unsigned long)s.completion.no_room,
		(unsigned long)s.probe.ring_pressure, (unsigned long)s.completion.finisher.followed,
		(unsigned long)s.completion.finisher.not_followed,
		(unsigned long)s.completion.finisher.disagreed,
		(unsigned long)s.completion.finisher.rules_failed,
		(unsigned long)s.completion.finisher.rules_refused,
		(unsigned long)s.completion.finisher.rules_costly, buf_str(&endings));
}

/* Gives up the capabilities and the system calls that only the start needed. */
static void settle_privileges(struct run *run)
{
	_cleanup_buf_ struct buf kept = {0}, dropped = {0};
	const struct privileges *p = &run->privileges;
	int held = privileges_settle(p), confined = confine_agent();

	if (confined < 0)
		log_warn("the agent could still write files, start programs and connect: its system calls "
			 "cannot be restricted: %s",
			 strerror(-confined));
	if (held < 0)
		log_warn("capabilities could not be given up: %s", strerror(-held));
	else if (privileges_format(p->kept, &kept) == 0 &&
		 privileges_format(p->held & ~p->kept, &dropped) == 0)
		log_info("capabilities kept: %s; given up: %s", buf_str(&kept), buf_str(&dropped));
}

/* From the loaded configuration to the last flush. Returns the exit code. */
static int run_agent(struct run *run)
{
	_cleanup_free_ char *why = NULL;
	struct agent_options o = {
		.config = run->config,
		.select = selection_of_process,
		.select_data = &run->selection,
		.select_moves = selection_by_cgroup(&run->selection),
		.emit = emit,
		.emit_data = run,
		.window_ns = run->config->window_ns,
		.frequency = frequency,
		.frequency_data = run,
		.delivery = run->delivery,
		.max_pulls = DELIVERY_PULLS_MAX,
		.flush_ns = NAMES_FLUSH_NS,
	};
	int r = agent_new(&run->agent, &o, &why);

	if (r == 0)
		r = status_pages_new(&run->status_pages, run->agent, run->delivery, &run->cpu_wait,
				     run->config);
	if (r == 0)
		r = pull_pages_new(&run->pull_pages, run->agent, run->delivery);
	if (r == 0)
		r = add_sources(run);
	if (r == 0) { /* usually known by now; else, sampling does not wait for it */
		r = delivery_wait(run->delivery, DELIVERY_WAIT_NS, &why);
		if (r < 0)
			return run->code;
	}
	if (r >= 0)
		r = agent_start(run->agent, &why);
	if (r == 0 && run->config->listen)
		r = delivery_listen(run->delivery);
	if (r < 0) {
		log_error("%s", why ? why : strerror(-r));
		return r == -EPERM || r == -EACCES ? EXIT_NOT_PERMITTED : EXIT_FAILED;
	}
	settle_privileges(run);
	log_started(run);
	resources_release_code(); /* what only the start needed */
	r = agent_run(run->agent);
	agent_stop(run->agent);
	/* The final account reports what is left. */
	(void)delivery_stop(run->delivery, clock_mono_ns() + FINAL_FLUSH_NS);
	log_stopped(run);
	log_account(run, "final");
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	return r < 0 ? EXIT_FAILED : run->code;
}

static int warn_lost(const char *name, const char *lost, void *data)
{
	(void)data;
	log_warn("%s is missing: %s", name, lost);
	return 0;
}

/* The secrets are known to that process only, then. */
static int start_delivery(struct run *run)
{
	const struct delivery_options o = {.config = run->config,
					   .exports = true,
					   .capabilities = run->privileges.of_thread[THREAD_NETWORK]};
	int r = delivery_start(&run->delivery, &o);

	secrets_forget(run->config);
	return r;
}

static int start(struct run *run)
{
	_cleanup_free_ char *why = NULL;
	const sigset_t set = stop_signals();
	int r = command_check_system(&why);

	if (r < 0)
		return command_failed(r, why);
	(void)check_lost(warn_lost, NULL);
	command_urgent_within(run->config, run->urgent);
	privileges_of(&check_view_real, run->config, &run->privileges);
	if (urgency_needs_nice())
		privileges_keep_nice(&run->privileges);
	r = privileges_limit(&run->privileges);
	if (r < 0)
		log_warn("capabilities could not be given up: %s", strerror(-r));
	memory_fit(run->config);
	parsers_limit(run->config);
	load_fit_frequency(run->config);
	run->limit =
		(struct cpu_limit){.max = run->config->cpu.max, .wanted_hz = run->config->sampling.frequency};
	/* From here on there may be samples to deliver: signals wait for the event loop, which flushes. */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	r = selection_init(&run->selection, run->config);
	if (r == 0 && selection_by_pod(&run->selection) && !run->config->kubernetes.metadata)
		log_warn("select: selectors by pod match nothing, because kubernetes.metadata is off");
	if (r == 0)
		r = start_delivery(run);
	return r < 0 ? command_failed(r, why) : run_agent(run);
}

static const char usage[] = "Usage: proflet run [OPTION]...\n\n"
			    "Profiles this node and sends OTLP profiles to a collector, until SIGTERM.\n\n";

int cmd_run(int argc, char **argv)
{
	const struct command_line line = {.argc = argc, .argv = argv, .usage = usage};
	struct run run = {.urgent = command_urgent(), .code = EXIT_DONE};
	int session_nice, code = command_load(&run.config, &line, NULL);

	if (code != COMMAND_GOES_ON)
		return code;
	log_setup(run.config->log.level, run.config->log.format);
	session_nice = priority_session_raise();
	cpu_wait_init(&run.cpu_wait, getpid(), clock_mono_ns());
	code = start(&run);
	priority_session_restore(session_nice);
	status_pages_free(run.status_pages);
	cpu_wait_fini(&run.cpu_wait);
	agent_free(run.agent);
	pull_pages_free(run.pull_pages);
	delivery_free(run.delivery);
	selection_fini(&run.selection);
	config_free(run.config);
	return code;
}
