// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/pull_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "agent/agent.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/delivery/delivery.h"
#include "agent/delivery/pull_request.h"
#include "agent/output/html.h"
#include "agent/output/pprof.h"
#include "agent/output/profile.h"
#include "agent/output/top.h"
#include "agent/report/pulls.h"
#include "version.h"

#define PAGE_MAX (4u << 20)

enum { HTTP_OK = 200, HTTP_TOO_MANY = 429, HTTP_ERROR = 500, HTTP_UNAVAILABLE = 503 };

struct pull_page {
	uint64_t number; /* 0: the slot is free */
	struct pull_request request;
	uint64_t begin_unix_ns, taken, dropped; /* when it began */
};

struct pull_pages {
	struct agent *agent;
	struct delivery *delivery;
	struct pull_page pages[DELIVERY_PULLS_MAX];
};

int pull_pages_new(struct pull_pages **ret, struct agent *agent, struct delivery *delivery)
{
	struct pull_pages *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->agent = agent;
	p->delivery = delivery;
	*ret = p;
	return 0;
}

void pull_pages_free(struct pull_pages *p)
{
	free(p);
}

static struct pull_page *page_by(struct pull_pages *p, uint64_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->pages); i++)
		if (p->pages[i].number == number)
			return &p->pages[i];
	return NULL;
}

static void refuse(struct pull_pages *p, uint64_t number, unsigned status, const char *why)
{
	_cleanup_buf_ struct buf body = {0};

	(void)buf_printf(&body, "%s\n", why);
	delivery_answer(p->delivery, number, status, &body, HTTP_SERVER_TEXT);
}

static ssize_t append(void *cookie, const char *bytes, size_t len)
{
	return buf_append(cookie, bytes, len) < 0 ? 0 : (ssize_t)len;
}

static int write_profile(const struct output_profile *profile, enum pull_form form, FILE *f)
{
	const struct output_top_options top = {.columns = 100, .colour = OUTPUT_COLOUR_NEVER};

	if (form == PULL_PPROF)
		return output_pprof_write(profile, f);
	if (form == PULL_FLAMEGRAPH)
		return output_html_write(profile, NULL, f);
	return output_top_write(profile, &top, f);
}

/* 0; -EOVERFLOW: the page is larger than `ret` may be; -ENOMEM. */
static int format(const struct output_profile *profile, enum pull_form form, struct buf *ret)
{
	FILE *f = fopencookie(ret, "w", (cookie_io_functions_t){.write = append});
	int r;

	if (!f)
		return -ENOMEM;
	r = write_profile(profile, form, f);
	if (fclose(f) != 0 && r == 0)
		r = -EIO;
	return r == -EIO ? -EOVERFLOW : r;
}

static bool names_any(const struct pull_request *r)
{
	return r->pid || r->container[0] || r->pod[0] || r->namespace[0];
}

static int set_info(struct pull_pages *p, const struct pull_page *page, struct output_profile *profile)
{
	struct agent_stats now;
	struct utsname name;
	struct output_info info = {
		.start_unix_ns = page->begin_unix_ns,
		.duration_ns = page->request.seconds * NS_PER_SEC,
		.frequency_hz = output_profile_frequency(profile),
		.hostname = uname(&name) == 0 ? name.nodename : NULL,
		.version = PROFLET_VERSION,
		.n_taken = output_profile_samples(profile),
	};

	agent_stats(p->agent, &now);
	info.n_dropped = now.dropped - page->dropped;
	if (!names_any(&page->request) && now.taken_ever - page->taken > info.n_taken)
		info.n_taken = now.taken_ever - page->taken;
	return output_profile_set_info(profile, &info);
}

static void on_done(uint64_t number, struct output_profile *profile, void *data)
{
	static const char *const types[PULL_FORMS_N] = {[PULL_PPROF] = "application/octet-stream",
							[PULL_FLAMEGRAPH] = "text/html; charset=utf-8",
							[PULL_TOP] = HTTP_SERVER_TEXT};
	_cleanup_buf_ struct buf body = {.max = PAGE_MAX};
	struct pull_pages *p = data;
	struct pull_page *page = page_by(p, number);
	int r;

	if (!page)
		return;
	r = set_info(p, page, profile);
	if (r == 0)
		r = format(profile, page->request.form, &body);
	if (r == 0)
		delivery_answer(p->delivery, number, HTTP_OK, &body, types[page->request.form]);
	else
		refuse(p, number, r == -EOVERFLOW ? HTTP_UNAVAILABLE : HTTP_ERROR,
		       r == -EOVERFLOW
			       ? "the profile is larger than 4 MiB: name a container=, a pod= or a pid=, or "
				 "fewer seconds="
			       : "no memory for the profile");
	*page = (struct pull_page){0};
}

void pull_pages_begin(struct pull_pages *p, uint64_t number, const struct pull_request *request)
{
	struct pull_page *page = page_by(p, 0);
	struct pull_options o = {
		.number = number,
		.selector = {.pid = request->pid,
			     .container = request->container[0] ? request->container : NULL,
			     .pod = request->pod[0] ? request->pod : NULL,
			     .namespace = request->namespace[0] ? request->namespace : NULL},
		.done = on_done,
		.data = p,
	};
	struct agent_stats now;
	int r;

	if (page_by(p, number))
		return; /* it is being made */
	r = page ? agent_pull(p->agent, &o, request->seconds * NS_PER_SEC) : -EBUSY;
	if (r < 0) {
		refuse(p, number, r == -EBUSY ? HTTP_TOO_MANY : HTTP_UNAVAILABLE,
		       r == -EBUSY    ? "too many profiles are being made already; try again later"
		       : r == -EAGAIN ? "sampling has not begun"
				      : "no memory for a profile");
		return;
	}
	agent_stats(p->agent, &now);
	*page = (struct pull_page){.number = number,
				   .request = *request,
				   .begin_unix_ns = clock_real_ns(),
				   .taken = now.taken_ever,
				   .dropped = now.dropped};
}

void pull_pages_end(struct pull_pages *p, uint64_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->pages); i++) {
		struct pull_page *page = &p->pages[i];

		if (!page->number || (number && page->number != number))
			continue;
		agent_pull_cancel(p->agent, page->number);
		*page = (struct pull_page){0};
	}
}
