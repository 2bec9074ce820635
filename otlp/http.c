// SPDX-License-Identifier: Apache-2.0
#include "otlp/http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

#include "agent/base/clock.h"
#include "otlp/compress.h"

#define POLL_MS 1000		 /* maximum wait between calls of curl_multi_perform */
#define HEADERS_MAX (256u << 10) /* bytes of the headers and trailers of an answer, with those of 1xx */

static const char large_text[] = "response is larger than 4 MiB",
		  endless_text[] = "response has headers without end";

struct otlp_http {
	struct otlp_http_options opt;
	CURL *easy;
	CURLM *multi;
	char *host; /* the header "host", when the URL has tls.server_name instead of the host */
	struct curl_slist *connect_to; /* the real address when tls.server_name differs from it */
	char curl_error[CURL_ERROR_SIZE];
	struct http_result result; /* of the running request */
	/*
	 * How often curl has sent the request: a second time when the idle connection turned out to be dead.
	 */
	unsigned n_issued;
	size_t header_bytes; /* of the running request's answer */
};

static void slist_append(struct curl_slist **list, const char *text, int *r)
{
	struct curl_slist *longer = curl_slist_append(*list, text);

	if (longer)
		*list = longer;
	else
		*r = -ENOMEM;
}

/* Header values are secrets. */
static void slist_wipe(struct curl_slist *list)
{
	for (struct curl_slist *l = list; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(list);
}

static int user_headers(const struct otlp_http *h, struct curl_slist **ret)
{
	const struct otlp_headers *from = h->opt.headers;
	int r = 0;

	for (size_t i = 0; from && i < from->n && r >= 0; i++) {
		const struct otlp_header *item = &from->items[i];
		_cleanup_buf_ struct buf line = {0};

		/* curl sends a header without a value only if it is written with a semicolon */
		r = buf_printf(&line, *item->value ? "%s: %s" : "%s;%s", item->name, item->value);
		if (r >= 0)
			slist_append(ret, buf_str(&line), &r);
		if (line.data)
			explicit_bzero(line.data, line.len);
	}
	return r;
}

static int set_url(struct otlp_http *h)
{
	const struct otlp_endpoint *e = h->opt.endpoint;
	const char *name = e->tls ? h->opt.tls->server_name : NULL, *path = e->path;
	_cleanup_buf_ struct buf url = {0}, text = {0};
	size_t len = strlen(path);
	int r = 0;

	while (!h->opt.whole_url && len && path[len - 1] == '/')
		len--;
	r = buf_printf(&url, "%s://", e->tls ? "https" : "http");
	if (r >= 0)
		r = name ? buf_printf(&url, "%s:%u", name, e->port) : buf_puts(&url, e->authority);
	if (r >= 0)
		r = buf_printf(&url, "%.*s%s", (int)len, path, h->opt.whole_url ? "" : OTLP_HTTP_PATH);
	if (r < 0)
		return r;
	if (name) { /* curl uses the URL's name for SNI and verification */
		if ((r = buf_printf(&text, "%s:%u:%s", name, e->port, e->authority)) < 0)
			return r;
		slist_append(&h->connect_to, buf_str(&text), &r);
		if (r < 0)
			return r;
		if (asprintf(&h->host, "host: %s", e->authority) < 0) {
			h->host = NULL;
			return -ENOMEM;
		}
	}
	return curl_easy_setopt(h->easy, CURLOPT_URL, buf_str(&url)) == CURLE_OK ? r : -ENOMEM;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct http_result *result = user;

	return buf_append(&result->response, data, size * n) < 0 ? 0 : size * n;
}

static bool header_value(const char *line, size_t len, const char *name, const char **ret, size_t *ret_len)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n))
		return false;
	for (line += n + 1, len -= n + 1; len && (*line == ' ' || *line == '\t'); len--)
		line++;
	while (len && (unsigned char)line[len - 1] <= ' ')
		len--;
	*ret = line;
	*ret_len = len;
	return true;
}

static bool starts_with(const char *value, size_t len, const char *start)
{
	return len >= strlen(start) && !strncasecmp(value, start, strlen(start));
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
	struct otlp_http *h = user;
	struct http_result *result = &h->result;
	const char *value;
	size_t len;

	h->header_bytes += size * n;
	if (h->header_bytes > HEADERS_MAX)
		return 0;

	if (header_value(line, size * n, "retry-after", &value, &len))
		result->has_delay = otlp_retry_after_parse(value, len, time(NULL), &result->delay_ns);
	else if (header_value(line, size * n, "accept-encoding", &value, &len))
		result->codings |= otlp_codings_parse(value, len);
	else if (header_value(line, size * n, "content-type", &value, &len)) {
		result->is_protobuf = starts_with(value, len, "application/x-protobuf");
		result->is_html = starts_with(value, len, "text/html");
	}
	return size * n;
}

static void set_tls(CURL *c, const struct otlp_tls_options *tls)
{
	curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (tls->ca) { /* without CURLOPT_CAPATH, curl would also trust the system's folder */
		curl_easy_setopt(c, CURLOPT_CAINFO, tls->ca);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	}
	curl_easy_setopt(c, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_SESSIONID_CACHE,
			 0L); /* a resumed session would use the old certificates */
	if (tls->cert)
		curl_easy_setopt(c, CURLOPT_SSLCERT, tls->cert);
	if (tls->key)
		curl_easy_setopt(c, CURLOPT_SSLKEY, tls->key);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, tls->insecure ? 0L : 1L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, tls->insecure ? 0L : 2L);
}

/* The environment was already considered, so curl must not read it again. */
static void set_proxy(CURL *c, const struct otlp_proxy *proxy)
{
	const char *colon = proxy ? strchr(proxy->credentials, ':') : NULL;

	curl_easy_setopt(c, CURLOPT_NOPROXY, "");
	curl_easy_setopt(c, CURLOPT_PROXY, proxy ? proxy->address.authority : "");
	if (proxy && proxy->credentials[0]) {
		char user[sizeof proxy->credentials];

		snprintf(user, sizeof user, "%.*s", colon ? (int)(colon - proxy->credentials) : -1,
			 proxy->credentials);
		curl_easy_setopt(c, CURLOPT_PROXYUSERNAME, user);
		curl_easy_setopt(c, CURLOPT_PROXYPASSWORD, colon ? colon + 1 : "");
	}
}

static int on_issue(void *data, char *address, char *local, int port, int local_port)
{
	struct otlp_http *h = data;

	(void)address;
	(void)local;
	(void)port;
	(void)local_port;
	h->n_issued++;
	return CURL_PREREQFUNC_OK;
}

static int set_options(struct otlp_http *h)
{
	CURL *c = h->easy;

	set_proxy(c, h->opt.proxy);

	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	/* Otherwise curl waits for its thread that resolves a name, even when the request has timed out. */
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, h->opt.user_agent);
	curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "");
	curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->curl_error);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &h->result);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_issue);
	curl_easy_setopt(c, CURLOPT_PREREQDATA, h);
	if (h->opt.endpoint->socket[0])
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->opt.endpoint->socket);
	if (h->connect_to)
		curl_easy_setopt(c, CURLOPT_CONNECT_TO, h->connect_to);
	if (h->opt.endpoint->tls)
		set_tls(c, h->opt.tls);
	return 0;
}

static void curl_start(void)
{
	curl_global_init(CURL_GLOBAL_ALL);
}

int otlp_http_new(struct otlp_http **ret, const struct otlp_http_options *opt)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_cleanup_http_ struct otlp_http *h = calloc(1, sizeof *h);
	int r;

	pthread_once(&once, curl_start);
	if (!h)
		return -ENOMEM;
	h->opt = *opt;
	h->easy = curl_easy_init();
	h->multi = curl_multi_init();
	if (!h->easy || !h->multi)
		return -ENOMEM;
	r = set_url(h);
	if (r >= 0)
		r = set_options(h);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(h);
	return 0;
}

void otlp_http_free(struct otlp_http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->easy);
	curl_multi_cleanup(h->multi);
	free(h->host);
	curl_slist_free_all(h->connect_to);
	buf_fini(&h->result.response);
	free(h);
}

int otlp_http_disconnect(struct otlp_http *h)
{
	CURLM *multi = curl_multi_init(); /* owns the connections */

	if (!multi)
		return -ENOMEM;
	curl_multi_cleanup(h->multi);
	h->multi = multi;
	return 0;
}

/* The headers of one request: the user's, then those of this module. */
static int request_headers(const struct otlp_http *h, enum otlp_coding coding, struct curl_slist **ret)
{
	char text[64];
	int r = user_headers(h, ret);

	if (h->host)
		slist_append(ret, h->host, &r);
	slist_append(ret, "content-type: application/x-protobuf", &r);
	slist_append(ret, "expect:", &r); /* saves a round trip in which the server would accept the body */
	if (coding != OTLP_IDENTITY) {
		snprintf(text, sizeof text, "content-encoding: %s", otlp_coding_name(coding));
		slist_append(ret, text, &r);
	}
	return r;
}

/* Runs the transfer. 0 and curl's result, or -ECANCELED. */
static int run(struct otlp_http *h, int cancel_fd, CURLcode *ret)
{
	struct curl_waitfd cancel = {.fd = cancel_fd, .events = CURL_WAIT_POLLIN};
	int running = 1, left;
	CURLMsg *message;

	if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
		return -ENOMEM;
	while (running) {
		if (curl_multi_perform(h->multi, &running) != CURLM_OK)
			break;
		if (running)
			curl_multi_poll(h->multi, &cancel, cancel_fd >= 0 ? 1 : 0, POLL_MS, NULL);
		if (cancel.revents)
			break;
	}
	*ret = CURLE_FAILED_INIT;
	while ((message = curl_multi_info_read(h->multi, &left)))
		if (message->msg == CURLMSG_DONE)
			*ret = message->data.result;
	curl_multi_remove_handle(h->multi, h->easy);
	return cancel.revents ? -ECANCELED : 0;
}

/* TLS libraries below curl may write to a closed socket; the caller's thread must not get the signal. */
static int run_without_sigpipe(struct otlp_http *h, int cancel_fd, CURLcode *ret)
{
	const struct timespec none = {0};
	sigset_t pipe, old, pending;
	bool was_pending;
	int r;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	r = run(h, cancel_fd, ret);
	while (!was_pending && sigtimedwait(&pipe, NULL, &none) > 0)
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

/* Whether the request was sent at least once without an answer. */
static bool is_unanswered(struct otlp_http *h, CURLcode code, int cancelled, size_t len)
{
	curl_off_t sent = 0;

	if (h->n_issued > 1)
		return true;
	if (code == CURLE_OK && !cancelled)
		return false;
	return curl_easy_getinfo(h->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK && h->n_issued &&
	       (size_t)sent >= len;
}

static enum otlp_failure failure_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return OTLP_FAILURE_TIMEOUT;
	case CURLE_WRITE_ERROR:
		return OTLP_FAILURE_FLOOD;
	case CURLE_OUT_OF_MEMORY:
		return OTLP_FAILURE_MEMORY;
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
		return OTLP_FAILURE_CONNECT;
	default:
		return OTLP_FAILURE_LOST;
	}
}

static void conclude(struct otlp_http *h, CURLcode code)
{
	struct http_result *result = &h->result;
	long status = 0;

	if (code == CURLE_OK && curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK) {
		result->status = (unsigned)status;
		return;
	}
	result->failure = failure_of(code);
	if (code == CURLE_WRITE_ERROR)
		snprintf(result->message, sizeof result->message, "%s",
			 h->header_bytes > HEADERS_MAX ? endless_text : large_text);
	else
		otlp_text_copy(h->curl_error[0] ? h->curl_error : curl_easy_strerror(code),
			       strlen(h->curl_error[0] ? h->curl_error : curl_easy_strerror(code)),
			       result->message);
}

int otlp_http_post(struct otlp_http *h, const void *data, size_t len, enum otlp_coding coding,
		   uint64_t deadline_mono_ns, int cancel_fd, struct http_result *ret)
{
	const uint64_t now = clock_mono_ns(), left = deadline_mono_ns > now ? deadline_mono_ns - now : 0;
	struct curl_slist *headers = NULL;
	CURLcode code = CURLE_OK;
	int r;

	h->result = (struct http_result){0};
	buf_init(&h->result.response, OTLP_HTTP_RESPONSE_MAX);
	h->curl_error[0] = '\0';
	h->n_issued = 0;
	h->header_bytes = 0;
	r = request_headers(h, coding, &headers);
	if (r >= 0) {
		curl_easy_setopt(h->easy, CURLOPT_TIMEOUT_MS, (long)(left / NS_PER_MS) + 1);
		curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, len ? data : "");
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
		r = run_without_sigpipe(h, cancel_fd, &code);
		h->result.unanswered = is_unanswered(h, code, r, len);
		curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, NULL);
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, NULL);
	}
	slist_wipe(headers);
	if (r < 0) {
		buf_fini(&h->result.response);
		*ret = (struct http_result){.unanswered = h->result.unanswered};
		return r;
	}
	conclude(h, code);
	*ret = h->result;
	h->result = (struct http_result){0};
	return 0;
}
