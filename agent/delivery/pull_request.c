// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/pull_request.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/parse.h"
#include "agent/delivery/http_server.h"

#define ACCEPTED "accepted are seconds=, pid=, container=, pod= and namespace="

static const char *const paths[PULL_FORMS_N] = {
#define X(name, path) [PULL_##name] = path,
	PULL_FORMS(X)
#undef X
};

bool pull_path(const char *path, enum pull_form *ret)
{
	for (int i = 0; i < PULL_FORMS_N; i++)
		if (strcmp(path, paths[i]) == 0) {
			*ret = (enum pull_form)i;
			return true;
		}
	return false;
}

const char *pull_form_path(enum pull_form form)
{
	return paths[form];
}

static int parse_number(const char *value, uint32_t max, uint32_t *ret)
{
	uint32_t n;

	if (parse_u32(value, &n) < 0 || !n || n > max)
		return -EINVAL;
	*ret = n;
	return 0;
}

/* A name as Kubernetes and container runtimes have them. */
static int parse_name(const char *value, size_t len, char ret[static PULL_NAME_MAX])
{
	if (!len || len >= PULL_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		const char c = value[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !strchr("-._", c))
			return -EINVAL;
	}
	memcpy(ret, value, len);
	ret[len] = '\0';
	return 0;
}

/* NAME or NAMESPACE/NAME */
static int parse_pod(const char *value, struct pull_request *ret)
{
	const char *slash = strchr(value, '/');

	if (slash && (ret->namespace[0] || parse_name(value, (size_t)(slash - value), ret->namespace) < 0))
		return -EINVAL;
	value = slash ? slash + 1 : value;
	return parse_name(value, strlen(value), ret->pod);
}

/* What is accepted; NULL: there is no such parameter. *ret_r: as pull_request_parse. */
static const char *parse_one(const struct http_parameter *p, struct pull_request *ret, int *ret_r)
{
	if (strcmp(p->name, "seconds") == 0) {
		*ret_r = parse_number(p->value, PULL_SECONDS_MAX, &ret->seconds);
		return "a whole number from 1 to 300";
	}
	if (strcmp(p->name, "pid") == 0) {
		*ret_r = parse_number(p->value, INT32_MAX, &ret->pid);
		return "a process id";
	}
	if (strcmp(p->name, "container") == 0) {
		*ret_r = parse_name(p->value, strlen(p->value), ret->container);
		return "a container's name, or 12 to 64 hex digits of its id";
	}
	if (strcmp(p->name, "namespace") == 0) {
		*ret_r = ret->namespace[0] ? -EINVAL : parse_name(p->value, strlen(p->value), ret->namespace);
		return "the name of one namespace";
	}
	if (strcmp(p->name, "pod") == 0) {
		*ret_r = parse_pod(p->value, ret);
		return "NAME or NAMESPACE/NAME, with one namespace";
	}
	return NULL;
}

static bool is_repeated(const struct http_request *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(r->parameters[k].name, r->parameters[i].name) == 0)
			return true;
	return false;
}

int pull_request_parse(const struct http_request *r, struct pull_request *ret, struct buf *why)
{
	struct pull_request q = {.seconds = PULL_SECONDS};

	if (!pull_path(r->path, &q.form))
		return -EINVAL;
	for (size_t i = 0; i < r->n_parameters; i++) {
		const struct http_parameter *p = &r->parameters[i];
		int e = 0;
		const char *accepted = parse_one(p, &q, &e);

		if (!accepted)
			(void)buf_printf(why, "there is no such parameter; %s\n", ACCEPTED);
		else if (e < 0)
			(void)buf_printf(why, "%s= is not valid; accepted is %s\n", p->name, accepted);
		else if (is_repeated(r, i))
			(void)buf_printf(why, "%s= is there twice\n", p->name);
		else
			continue;
		return -EINVAL;
	}
	if (r->has_more) {
		(void)buf_printf(why, "too many parameters; %s\n", ACCEPTED);
		return -EINVAL;
	}
	*ret = q;
	return 0;
}

int pull_request_put(const struct pull_request *r, struct buf *b)
{
	int e = flat_put_u64(b, r->form);

	if (e == 0)
		e = flat_put_u64(b, r->seconds);
	if (e == 0)
		e = flat_put_u64(b, r->pid);
	if (e == 0)
		e = flat_put_string(b, r->container);
	if (e == 0)
		e = flat_put_string(b, r->pod);
	return e < 0 ? e : flat_put_string(b, r->namespace);
}

static int get_name(struct flat_reader *bytes, char ret[static PULL_NAME_MAX])
{
	const char *name = flat_string(bytes);

	if (bytes->bad)
		return -EBADMSG;
	return !*name ? 0 : parse_name(name, strlen(name), ret) < 0 ? -EBADMSG : 0;
}

int pull_request_get(struct flat_reader *bytes, struct pull_request *ret)
{
	struct pull_request q = {0};
	const uint64_t form = flat_u64(bytes), seconds = flat_u64(bytes), pid = flat_u64(bytes);

	if (form >= PULL_FORMS_N || !seconds || seconds > PULL_SECONDS_MAX || pid > INT32_MAX)
		return -EBADMSG;
	if (get_name(bytes, q.container) < 0 || get_name(bytes, q.pod) < 0 ||
	    get_name(bytes, q.namespace) < 0)
		return -EBADMSG;
	if (!flat_done(bytes))
		return -EBADMSG;
	q.form = (enum pull_form)form;
	q.seconds = (uint32_t)seconds;
	q.pid = (uint32_t)pid;
	*ret = q;
	return 0;
}
