// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/checks.h"
#include "agent/config/config.h"
#include "agent/delivery/collector.h"

static const char *const fixes[] = {
	[COLLECTOR_NOBODY] =
		"start a collector there, or correct endpoint (--endpoint, OTEL_EXPORTER_OTLP_ENDPOINT)",
	[COLLECTOR_NAME] = "correct the name in endpoint, or /etc/resolv.conf (a pod with hostNetwork: "
			   "dnsPolicy: ClusterFirstWithHostNet)",
	[COLLECTOR_TLS] =
		"use https:// in endpoint only for a collector that speaks TLS; then correct tls.ca "
		"(who signed its certificate), tls.server_name (its name), tls.cert and tls.key (if "
		"it requires them)",
	[COLLECTOR_NO_ANSWER] =
		"a server that is no OTLP receiver listens there: correct the port and scheme of endpoint, "
		"or protocol (usually grpc at 4317, http/protobuf at 4318; https:// if it speaks TLS)",
	[COLLECTOR_CREDENTIALS] = "put the header that it requires into headers_file",
	[COLLECTOR_NO_PROFILES] =
		"start it with --feature-gates=+service.profilesSupport, version 0.148 or later, "
		"and a profiles pipeline with the otlp receiver",
	[COLLECTOR_NOT_NOW] = "see the collector's own log",
};

void check_collector(const struct check_view *view, const struct config *config, struct check_report *report)
{
	_cleanup_free_ char *why = NULL;
	char detail[320];
	int r = view->collector(view->ctx, config, &why);

	if (r == 0) {
		snprintf(detail, sizeof detail, "%.200s takes profiles", config->endpoint);
		check_add(report, CHECK_OK, "collector", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%s", why ? why : r < 0 ? strerror(-r) : "no answer");
	check_add(report, CHECK_FAILS, "collector", detail,
		  r > 0 && (size_t)r < ARRAY_SIZE(fixes) ? fixes[r] : "correct the setting that is named");
}

/* Without the kubelet, samples have no names of pods; nothing else changes. */
void check_kubelet(const struct check_view *view, const struct config *config, struct check_report *report)
{
	_cleanup_free_ char *why = NULL;
	char detail[320];
	size_t n = 0;
	int r;

	if (!config->kubernetes.metadata)
		return;
	r = view->kubelet(view->ctx, config, &n, &why);
	if (r == 0) {
		snprintf(detail, sizeof detail, "it lists %zu pods", n);
		check_add(report, CHECK_OK, "kubelet", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%s; pods have no names", why ? why : strerror(-r));
	check_add(report, CHECK_DEGRADED, "kubelet", detail,
		  r == -EACCES
			  ? "bind a cluster role that may get nodes/pods (the chart's rbac.create) to the "
			    "pod's service account"
			  : "correct kubernetes.kubelet, kubernetes.token_file, kubernetes.ca or "
			    "kubernetes.insecure, or turn kubernetes.metadata off");
}

#define SPOOL_LEAST (8ull << 20) /* room for two of the largest requests */

/* `run` creates the directory if its parent exists, so a missing directory is judged by its parent. */
static int probe_spool(const struct check_view *view, const char *path, uint64_t *ret_free)
{
	_cleanup_free_ char *parent = NULL;
	int r = view->folder(view->ctx, path, ret_free);
	char *slash;

	if (r != -ENOENT)
		return r;
	parent = strdup(path);
	if (!parent)
		return -ENOMEM;
	for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
		parent[n - 1] = '\0';
	slash = strrchr(parent, '/');
	slash[slash == parent] = '\0';
	return view->folder(view->ctx, parent, ret_free);
}

/* Without a spool, requests wait in memory only. */
void check_spool(const struct check_view *view, const struct config *config, struct check_report *report)
{
	const char *path = config->queue.spool, *fix = "correct queue.spool: its parent directory must exist";
	uint64_t free_bytes = 0;
	char detail[320];
	int r;

	if (!path)
		return;
	r = probe_spool(view, path, &free_bytes);
	if (r == 0 && free_bytes >= SPOOL_LEAST) {
		snprintf(detail, sizeof detail, "%.200s is writable, %" PRIu64 " MiB are free", path,
			 free_bytes >> 20);
		check_add(report, CHECK_OK, "spool", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%.180s: %s; requests wait in memory only", path,
		 strerror(r < 0 ? -r : ENOSPC));
	if (r == -EROFS)
		fix = "mount a writable volume there (the chart's spool.type), or correct "
		      "queue.spool";
	else if (r == -EACCES || r == -EPERM)
		fix = "let the agent's user write there (chown), or correct queue.spool";
	else if (r == 0)
		fix = "make room on that file system, or correct queue.spool";
	check_add(report, CHECK_DEGRADED, "spool", detail, fix);
}

/* `run` goes on without a server if the address that is taken was only the default. */
void check_listen(const struct check_view *view, const struct config *config, struct check_report *report)
{
	bool configured = config_origin(config, "listen")->source != CONFIG_FROM_DEFAULT;
	const char *fix = "set listen to another address, or to off";
	char detail[320];
	int r;

	if (!config->listen)
		return;
	r = view->listen(view->ctx, config->listen);
	if (r < 0)
		snprintf(detail, sizeof detail, "%.200s: %s%s", config->listen, strerror(-r),
			 configured ? "" : "; no metrics and no health");
	else
		snprintf(detail, sizeof detail, "%.200s %s", config->listen,
			 r ? "is in use by an agent that runs already" : "is free");
	if (r == -EACCES)
		fix = "set listen to a port from 1024 on, or add NET_BIND_SERVICE to the capabilities";
	check_add(report,
		  r >= 0       ? CHECK_OK
		  : configured ? CHECK_FAILS
			       : CHECK_DEGRADED,
		  "listen", detail, r < 0 ? fix : "");
}
