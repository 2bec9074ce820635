// SPDX-License-Identifier: Apache-2.0
#include "agent/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"

static enum log_level log_max = LOG_INFO;
static enum log_format log_style = LOG_FORMAT_LOGFMT;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_setup(enum log_level max_level, enum log_format format)
{
	log_max = max_level;
	log_style = format;
}

bool log_enabled(enum log_level level)
{
	return level <= log_max;
}

#define RAW_MAX 1024u		   /* bytes of a text as it is given */
#define TEXT_MAX 2048u		   /* the same, escaped */
#define FIELDS_MAX 4096u	   /* bytes of the fields, as they are given and as members of the object */
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */
#define ESCAPED_MAX 6		   /* bytes that one character may become */

/*
 * The length of the UTF-8 sequence at `s` (RFC 3629: neither overlong forms nor surrogates); 0: there is
 * none. The NUL at the end is no continuation.
 */
static size_t sequence_len(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return len;
}

/*
 * Makes a text the inside of a JSON string in UTF-8 (RFC 8259), whatever its bytes are: what is no UTF-8
 * becomes U+FFFD, control characters become escapes. logfmt quotes the same way. Cuts between characters.
 */
static size_t escape(char *out, size_t size, const char *in)
{
	const unsigned char *s = (const unsigned char *)in;
	size_t n = 0, len;

	for (; *s && n + ESCAPED_MAX < size; s += len) {
		bool control = *s < 0x20 || *s == 0x7f || (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0);

		len = sequence_len(s);
		if (len == 0) {
			memcpy(out + n, REPLACEMENT, sizeof REPLACEMENT - 1);
			n += sizeof REPLACEMENT - 1;
			len = 1;
		} else if (*s == '"' || *s == '\\') {
			out[n++] = '\\';
			out[n++] = (char)*s;
		} else if (control) {
			n += (size_t)snprintf(out + n, size - n, "\\u%04x", s[len - 1]);
		} else {
			memcpy(out + n, s, len);
			n += len;
		}
	}
	out[n] = '\0';
	return n;
}

/* False when the site has used up its burst. */
static bool site_admit(struct log_site *site, uint32_t *ret_suppressed)
{
	uint64_t now = clock_mono_ns();
	bool admit;

	if (now - site->window_start_ns > LOG_INTERVAL_NS) {
		site->window_start_ns = now;
		site->emitted = 0;
	}
	admit = site->emitted < LOG_BURST;
	*ret_suppressed = site->suppressed;
	if (admit) {
		site->emitted++;
		site->suppressed = 0;
	} else {
		site->suppressed++;
	}
	return admit;
}

/* A number as JSON has them: 7, -1, 0.5, but neither 007 nor 10.0.0.1. */
static bool is_json_number(const char *s)
{
	size_t whole, fraction;

	s += *s == '-';
	whole = strspn(s, "0123456789");
	if (whole == 0 || (s[0] == '0' && whole > 1))
		return false;
	s += whole;
	if (*s != '.')
		return *s == '\0';
	fraction = strspn(s + 1, "0123456789");
	return fraction > 0 && s[1 + fraction] == '\0';
}

/* "a=1 b=x" as logfmt (itself) or as JSON members, each with its leading separator. Cuts between fields. */
static void fields_format(char *out, size_t size, char *fields)
{
	char text[TEXT_MAX];
	char *save = NULL;
	size_t n = 0;

	for (char *f = strtok_r(fields, " ", &save); f; f = strtok_r(NULL, " ", &save)) {
		char *value = strchr(f, '=');
		int added;

		if (log_style == LOG_FORMAT_JSON && value) {
			bool number = is_json_number(value + 1);

			*value++ = '\0';
			escape(text, sizeof text, value);
			added = snprintf(out + n, size - n, number ? ",\"%s\":%s" : ",\"%s\":\"%s\"", f,
					 text);
		} else {
			escape(text, sizeof text, f);
			added = snprintf(out + n, size - n, " %s", text);
		}
		if (added < 0 || (size_t)added >= size - n)
			break;
		n += (size_t)added;
	}
	out[n] = '\0';
}

static void line_write(enum log_level level, const char *text, const char *fields, uint32_t suppressed)
{
	char line[TEXT_MAX + FIELDS_MAX + 256], stamp[40], extra[40] = "";
	bool json = log_style == LOG_FORMAT_JSON;
	struct timespec ts;
	struct tm tm;
	int n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = (int)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp + n, sizeof stamp - (size_t)n, ".%03ldZ", ts.tv_nsec / 1000000);
	if (suppressed)
		snprintf(extra, sizeof extra, json ? ",\"suppressed\":%u" : " suppressed=%u", suppressed);
	n = snprintf(line, sizeof line,
		     json ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":\"%s\"%s%s}\n"
			  : "time=%s level=%s msg=\"%s\"%s%s\n",
		     stamp, level_names[level], text, fields, extra);
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr cannot be written, so this cannot be reported either */
}

static void emit(struct log_site *site, enum log_level level, const char *raw, const char *fields)
{
	char text[TEXT_MAX];
	uint32_t suppressed;

	pthread_mutex_lock(&log_lock);
	if (site_admit(site, &suppressed)) {
		escape(text, sizeof text, raw);
		line_write(level, text, fields, suppressed);
	}
	pthread_mutex_unlock(&log_lock);
}

void log_write(struct log_site *site, enum log_level level, const char *format, ...)
{
	char raw[RAW_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(raw, sizeof raw, format, ap);
	va_end(ap);
	emit(site, level, raw, "");
}

void log_write_fields(struct log_site *site, enum log_level level, const char *text, const char *fields, ...)
{
	char raw[FIELDS_MAX], formatted[FIELDS_MAX];
	va_list ap;

	va_start(ap, fields);
	vsnprintf(raw, sizeof raw, fields, ap);
	va_end(ap);
	fields_format(formatted, sizeof formatted, raw);
	emit(site, level, text, formatted);
}
