// SPDX-License-Identifier: Apache-2.0
#include "agent/late/library.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <math.h>
#include <microhttpd.h>
#include <string.h>

static struct late_library none = LATE_LIBRARY("libproflet-none.so.1");
static struct late_library zlib = LATE_LIBRARY("libz.so.1");

int proflet_nothing(int a);
unsigned long crc32(unsigned long crc, const unsigned char *bytes, unsigned n);

LATE_FUNCTION(none, int, proflet_nothing, (int a), (a), -7)
LATE_FUNCTION(zlib, unsigned long, crc32, (unsigned long crc, const unsigned char *bytes, unsigned n),
	      (crc, bytes, n), 0)

Test(library, no_such_library)
{
	cr_expect_null(late_function(&none, "a"));
	cr_expect(none.failed);
	cr_expect_eq(proflet_nothing(1), -7);
}

Test(library, no_such_function)
{
	cr_expect_null(late_function(&zlib, "proflet_none"));
	cr_expect_not(zlib.failed);
}

Test(library, arguments_and_result)
{
	cr_expect_eq(crc32(0, (const unsigned char *)"123456789", 9), 0xcbf43926);
}

/* The last argument as a pointer, a long, an offset of 64 bits. */
Test(library, options_of_curl)
{
	CURL *c = curl_easy_init();
	char *url = NULL;
	long status = -1;
	curl_off_t size = -1;

	cr_assert_not_null(c);
	cr_expect_eq(curl_easy_setopt(c, CURLOPT_URL, "http://localhost/a"), CURLE_OK);
	cr_expect_eq(curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 1000L), CURLE_OK);
	cr_expect_eq(curl_easy_setopt(c, CURLOPT_LOCALPORT, 70000L), CURLE_BAD_FUNCTION_ARGUMENT);
	cr_expect_eq(curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)1 << 40), CURLE_OK);
	cr_expect_eq(curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)-2),
		     CURLE_BAD_FUNCTION_ARGUMENT);
	cr_expect_eq(curl_easy_getinfo(c, CURLINFO_EFFECTIVE_URL, &url), CURLE_OK);
	cr_expect_str_eq(url, "http://localhost/a");
	cr_expect_eq(curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status), CURLE_OK);
	cr_expect_eq(status, 0);
	cr_expect_eq(curl_easy_getinfo(c, CURLINFO_SIZE_UPLOAD_T, &size), CURLE_OK);
	cr_expect_eq(size, 0);
	curl_easy_cleanup(c);
}

Test(library, nothing_to_free)
{
	void *before = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_NOLOAD);

	MHD_stop_daemon(NULL);
	cr_expect_eq(dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_NOLOAD), before,
		     "it is not loaded for that");
}

/* Of numbers that no compiler knows. */
Test(library, functions_of_libm)
{
	volatile double two = 2, quarter = 0.25, half_turn = M_PI;

	cr_expect_float_eq(log2(two * two * two), 3, 1e-12);
	cr_expect_float_eq(log(two), M_LN2, 1e-12);
	cr_expect_float_eq(pow(two, -two), 0.25, 1e-12);
	cr_expect_float_eq(sqrt(quarter), 0.5, 1e-12);
	cr_expect_float_eq(cos(half_turn), -1, 1e-12);
	cr_expect_float_eq(erfc(two - 2), 1, 1e-12);
	cr_expect_float_eq(ceil(quarter + two), 3, 1e-12);
}
