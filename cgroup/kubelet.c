// SPDX-License-Identifier: Apache-2.0
#include "cgroup/kubelet.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"

#define TOKEN_MAX (64u << 10)
#define HTTP_OK 200
#define HTTP_UNAUTHORIZED 401
#define HTTP_FORBIDDEN 403

DEFINE_CLEANUP(CURL *, curl_easy_cleanup)

/* The state of a request. */
struct exchange {
	const struct kubelet_request *q;
	struct buf answer;
	struct curl_slist *headers; /* one of them contains the token */
	char error[CURL_ERROR_SIZE];
};

static void exchange_fini(struct exchange *x)
{
	for (struct curl_slist *l = x->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(x->headers);
	buf_fini(&x->answer);
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct exchange *x = user;

	return buf_append(&x->answer, data, size * n) < 0 ? 0 : size * n;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
	const struct exchange *x = user;

	(void)total;
	(void)now;
	(void)up_total;
	(void)up_now;
	return x->q->cancel && atomic_load(x->q->cancel);
}

static bool is_https(const char *url)
{
	return strncasecmp(url, "https:", 6) == 0;
}

/* The name of the file for messages, unless the token itself was given in place of the name. */
static const char *token_name(const struct kubelet_request *q)
{
	return *q->token_file == '/' && strlen(q->token_file) < KUBELET_WHY_MAX / 2 ? q->token_file
										    : "the token file";
}

/* Reads the token and makes a header of it. No message may contain any of it, even if it is no token. */
static int add_token(struct exchange *x, char *why)
{
	_cleanup_buf_ struct buf text = {0};
	struct curl_slist *more;
	char *token;
	size_t n;
	int r;

	buf_init(&text, 2 * TOKEN_MAX);
	r = buf_puts(&text, "authorization: Bearer ");
	n = text.len;
	if (r == 0)
		r = fs_read_file(x->q->token_file, TOKEN_MAX, &text);
	if (r == 0)
		r = buf_putc(&text, '\0');
	if (r < 0) {
		snprintf(why, KUBELET_WHY_MAX, "%s: %s", token_name(x->q), strerror(-r));
		return r;
	}
	token = (char *)text.data + n;
	token[strcspn(token, "\r\n")] = '\0';
	for (n = 0; token[n] > ' ' && token[n] < 0x7f; n++)
		;
	if (!n || token[n])
		snprintf(why, KUBELET_WHY_MAX, "%s: %s", token_name(x->q),
			 n ? "has characters that no token has" : "is empty");
	more = n && !token[n] ? curl_slist_append(x->headers, (char *)text.data) : NULL;
	r = more ? 0 : !n || token[n] ? -EINVAL : -ENOMEM;
	if (more)
		x->headers = more;
	explicit_bzero(text.data, text.len);
	return r;
}

static void set_tls(CURL *c, const struct kubelet_request *q)
{
	curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (q->ca && !q->insecure) {
		curl_easy_setopt(c, CURLOPT_CAINFO, q->ca);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	}
	curl_easy_setopt(c, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, q->insecure ? 0L : 1L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, q->insecure ? 0L : 2L);
}

static int set_options(CURL *c, struct exchange *x)
{
	_cleanup_buf_ struct buf url = {0};
	size_t n = strlen(x->q->url);

	while (n && x->q->url[n - 1] == '/')
		n--;
	if (buf_printf(&url, "%.*s/pods", (int)n, x->q->url) < 0 ||
	    curl_easy_setopt(c, CURLOPT_URL, buf_str(&url)) != CURLE_OK)
		return -ENOMEM;
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, ""); /* the kubelet is on this node */
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(x->q->timeout_ns / NS_PER_MS));
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "proflet");
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->error);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
	if (is_https(x->q->url))
		set_tls(c, x->q);
	return 0;
}

/* Messages that are equal for equal failures; curl's own contain times. */
static int no_answer(CURL *c, const struct exchange *x, CURLcode code, char *why)
{
	const char *hint = "";
	long number = 0;

	switch (code) {
	case CURLE_ABORTED_BY_CALLBACK:
		snprintf(why, KUBELET_WHY_MAX, "given up");
		return -ECANCELED;
	case CURLE_OUT_OF_MEMORY:
		snprintf(why, KUBELET_WHY_MAX, "out of memory");
		return -ENOMEM;
	case CURLE_WRITE_ERROR:
		snprintf(why, KUBELET_WHY_MAX, "the answer is larger than %u MiB", KUBELET_ANSWER_MAX >> 20);
		return -EFBIG;
	case CURLE_OPERATION_TIMEDOUT:
		snprintf(why, KUBELET_WHY_MAX, "no answer within %u s",
			 (unsigned)(x->q->timeout_ns / NS_PER_SEC));
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(c, CURLINFO_OS_ERRNO, &number);
		snprintf(why, KUBELET_WHY_MAX, "no connection: %s",
			 number ? strerror((int)number) : curl_easy_strerror(code));
		return -ECONNREFUSED;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		hint = "; kubernetes.ca names the authority of the kubelet's certificate, "
		       "kubernetes.insecure "
		       "takes any";
		break;
	default:
		break;
	}
	snprintf(why, KUBELET_WHY_MAX, "%.200s%s", x->error[0] ? x->error : curl_easy_strerror(code), hint);
	return -ECONNREFUSED;
}

/* What the status means. The body is not shown, because it may echo the request. */
static int refused(const struct exchange *x, long status, char *why)
{
	const char *what = status == HTTP_UNAUTHORIZED && x->headers ? "it does not know the token"
			   : status == HTTP_UNAUTHORIZED
				   ? "it wants a token, and kubernetes.token_file names none"
			   : status == HTTP_FORBIDDEN
				   ? "the token may not get nodes/pods (Kubernetes before 1.33: nodes/proxy)"
				   : "no list of pods";

	snprintf(why, KUBELET_WHY_MAX, "HTTP %ld: %s", status, what);
	return status == HTTP_UNAUTHORIZED || status == HTTP_FORBIDDEN ? -EACCES : -EPROTO;
}

static int perform(CURL *c, struct exchange *x, struct pod_list *ret, char *why)
{
	CURLcode code = curl_easy_perform(c);
	const char *wrong = NULL;
	long status = 0;
	int r;

	if (code != CURLE_OK)
		return no_answer(c, x, code, why);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	if (status != HTTP_OK)
		return refused(x, status, why);
	r = pod_list_parse(x->answer.data, x->answer.len, ret, &wrong);
	if (r < 0)
		snprintf(why, KUBELET_WHY_MAX, "the answer is no list of pods: %s",
			 r == -ENOMEM ? strerror(ENOMEM) : wrong);
	return r == -EBADMSG ? -EPROTO : r;
}

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_ALL);
}

int kubelet_fetch(const struct kubelet_request *q, struct pod_list *ret, char ret_why[KUBELET_WHY_MAX])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_cleanup_(exchange_fini) struct exchange x = {.q = q, .answer.max = KUBELET_ANSWER_MAX};
	_cleanup_(curl_easy_cleanup_p) CURL *c = NULL;
	int r = 0;

	pthread_once(&once, start_curl);
	snprintf(ret_why, KUBELET_WHY_MAX, "out of memory");
	c = curl_easy_init();
	if (!c)
		return -ENOMEM;
	if (q->token_file && is_https(q->url))
		r = add_token(&x, ret_why);
	if (r == 0)
		r = set_options(c, &x);
	return r < 0 ? r : perform(c, &x, ret, ret_why);
}
