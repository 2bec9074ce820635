// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/kubelet_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/config/config.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
#define HTTPS_PORT 10250u
#define HTTP_PORT 10255u

struct kubelet_query {
	struct kubelet_request request;
	char *url, *token_file, *ca; /* owned */
};

static const char *node_address(const struct config *config)
{
	const char *ip = getenv("K8S_NODE_IP");

	return ip && *ip ? ip : config->kubernetes.node ? config->kubernetes.node : "127.0.0.1";
}

int kubelet_query_url(const struct config *config, struct buf *b)
{
	const char *url = config->kubernetes.kubelet, *host, *bracket;
	size_t n;
	int r;

	if (!url) {
		host = node_address(config);
		return buf_printf(b, strchr(host, ':') && *host != '[' ? "https://[%s]:%u" : "https://%s:%u",
				  host, HTTPS_PORT);
	}
	n = strlen(url);
	while (n && url[n - 1] == '/')
		n--;
	r = buf_printf(b, "%.*s", (int)n, url);
	host = strstr(url, "//");
	bracket = host ? strrchr(host, ']') : NULL;
	if (r < 0 || !host || strchr(bracket ?: host, ':'))
		return r;
	return buf_printf(b, ":%u", strncmp(url, "https", 5) ? HTTP_PORT : HTTPS_PORT);
}

void kubelet_query_free(struct kubelet_query *q)
{
	if (!q)
		return;
	free(q->url);
	free(q->token_file);
	free(q->ca);
	free(q);
}

DEFINE_CLEANUP(struct kubelet_query *, kubelet_query_free)

/* The configured file, else that of the service account if it exists. */
static const char *file_or(const char *configured, const char *usual)
{
	return configured || access(usual, F_OK) < 0 ? configured : usual;
}

static char *copy(const char *text, int *r)
{
	char *c = text ? strdup(text) : NULL;

	if (text && !c)
		*r = -ENOMEM;
	return c;
}

int kubelet_query_new(struct kubelet_query **ret, const struct config *config, uint64_t timeout_ns)
{
	_cleanup_(kubelet_query_free_p) struct kubelet_query *q = calloc(1, sizeof *q);
	_cleanup_buf_ struct buf url = {0};
	int r;

	if (!q)
		return -ENOMEM;
	r = kubelet_query_url(config, &url);
	q->url = copy(buf_str(&url), &r);
	q->token_file = copy(file_or(config->kubernetes.token_file, SERVICE_ACCOUNT "token"), &r);
	q->ca = copy(file_or(config->kubernetes.ca, SERVICE_ACCOUNT "ca.crt"), &r);
	q->request = (struct kubelet_request){.url = q->url,
					      .token_file = q->token_file,
					      .ca = q->ca,
					      .insecure = config->kubernetes.insecure,
					      .timeout_ns = timeout_ns};
	if (r == 0)
		*ret = TAKE_PTR(q);
	return r;
}

int kubelet_query_run(struct kubelet_query *q, struct pod_list *ret, char ret_why[KUBELET_WHY_MAX])
{
	return kubelet_fetch(&q->request, ret, ret_why);
}

int kubelet_query_probe(const struct config *config, uint64_t timeout_ns, size_t *ret_pods, char **ret_why)
{
	_cleanup_(kubelet_query_free_p) struct kubelet_query *q = NULL;
	_cleanup_(pod_list_fini) struct pod_list list = {0};
	char why[KUBELET_WHY_MAX];
	int r = kubelet_query_new(&q, config, timeout_ns);

	*ret_why = NULL;
	if (r < 0)
		return r;
	r = kubelet_query_run(q, &list, why);
	if (r == 0)
		*ret_pods = list.n;
	else if (asprintf(ret_why, "%s: %s", q->url, why) < 0)
		*ret_why = NULL;
	return r;
}
