// SPDX-License-Identifier: Apache-2.0
/* Those functions of libcurl that the project uses. */
#define CURL_DISABLE_TYPECHECK /* the header's macros would replace the definitions */
#include <curl/curl.h>
#include <stdarg.h>

#include "agent/late/library.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo

static struct late_library curl = LATE_LIBRARY("libcurl.so.4");

#define CURL_FUNCTION(type, name, parameters, arguments, failure) \
	LATE_FUNCTION(curl, type, name, parameters, arguments, failure)

CURL_FUNCTION(CURLcode, curl_global_init, (long flags), (flags), CURLE_FAILED_INIT)
CURL_FUNCTION(CURL *, curl_easy_init, (void), (), NULL)
CURL_FUNCTION(CURLcode, curl_easy_perform, (CURL * c), (c), CURLE_FAILED_INIT)
CURL_FUNCTION(const char *, curl_easy_strerror, (CURLcode code), (code), "libcurl is missing")
CURL_FUNCTION(CURLM *, curl_multi_init, (void), (), NULL)
CURL_FUNCTION(CURLMcode, curl_multi_add_handle, (CURLM * m, CURL *c), (m, c), CURLM_INTERNAL_ERROR)
CURL_FUNCTION(CURLMcode, curl_multi_remove_handle, (CURLM * m, CURL *c), (m, c), CURLM_INTERNAL_ERROR)
CURL_FUNCTION(CURLMcode, curl_multi_perform, (CURLM * m, int *running), (m, running), CURLM_INTERNAL_ERROR)
CURL_FUNCTION(CURLMcode, curl_multi_poll,
	      (CURLM * m, struct curl_waitfd fds[], unsigned n, int timeout_ms, int *ret),
	      (m, fds, n, timeout_ms, ret), CURLM_INTERNAL_ERROR)
CURL_FUNCTION(CURLMsg *, curl_multi_info_read, (CURLM * m, int *left), (m, left), NULL)
CURL_FUNCTION(CURLMcode, curl_multi_cleanup, (CURLM * m), (m), CURLM_INTERNAL_ERROR)
CURL_FUNCTION(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),
	      (list, text), NULL)

LATE_VOID(curl, curl_easy_cleanup, CURL)
LATE_VOID(curl, curl_slist_free_all, struct curl_slist)

/*
 * The last argument is a long, a pointer, a pointer to a function or a curl_off_t: calls pass all of these
 * alike in the ABIs of x86-64 and AArch64.
 */
_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *), "LP64");

CURLcode curl_easy_setopt(CURL *c, CURLoption option, ...)
{
	CURLcode (*f)(CURL *c, CURLoption option, ...) = late_function(&curl, "curl_easy_setopt");
	va_list arguments;
	void *value;

	va_start(arguments, option);
	value = va_arg(arguments, void *);
	va_end(arguments);
	return f ? f(c, option, value) : CURLE_FAILED_INIT;
}

CURLcode curl_easy_getinfo(CURL *c, CURLINFO info, ...)
{
	CURLcode (*f)(CURL *c, CURLINFO info, ...) = late_function(&curl, "curl_easy_getinfo");
	va_list arguments;
	void *ret;

	va_start(arguments, info);
	ret = va_arg(arguments, void *);
	va_end(arguments);
	return f ? f(c, info, ret) : CURLE_FAILED_INIT;
}
