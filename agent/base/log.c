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

/* The text of one line, in JSON string escapes (RFC 8259); logfmt quotes the same way. */
static size_t escape(char *out, size_t size, const char *in)
{
	size_t n = 0;

	for (; *in && n + 7 < size; in++) {
		unsigned char c = (unsigned char)*in;

		if (c == '"' || c == '\\') {
			out[n++] = '\\';
			out[n++] = (char)c;
		} else if (c < 0x20) {
			n += (size_t)snprintf(out + n, size - n, "\\u%04x", c);
		} else {
			out[n++] = (char)c;
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

/* "a=1 b=x" as logfmt (itself) or as JSON members, each with its leading separator. */
static void fields_format(char *out, size_t size, char *fields)
{
	char *save = NULL;
	size_t n = 0;

	out[0] = '\0';
	for (char *f = strtok_r(fields, " ", &save); f && n + 1 < size; f = strtok_r(NULL, " ", &save)) {
		char *value = strchr(f, '=');

		if (log_style == LOG_FORMAT_JSON && value) {
			bool number = is_json_number(value + 1);

			*value++ = '\0';
			n += (size_t)snprintf(out + n, size - n, number ? ",\"%s\":%s" : ",\"%s\":\"%s\"", f,
					      value);
		} else {
			n += (size_t)snprintf(out + n, size - n, " %s", f);
		}
	}
}

static void line_write(enum log_level level, const char *text, const char *fields, uint32_t suppressed)
{
	char line[4096], stamp[40], extra[40] = "";
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
	if (n >= (int)sizeof line) {
		n = sizeof line - 1;
		line[n - 1] = '\n';
	}
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr cannot be written, so this cannot be reported either */
}

static void emit(struct log_site *site, enum log_level level, const char *raw, const char *fields)
{
	char text[2048];
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
	char raw[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(raw, sizeof raw, format, ap);
	va_end(ap);
	emit(site, level, raw, "");
}

void log_write_fields(struct log_site *site, enum log_level level, const char *text, const char *fields, ...)
{
	char raw[1024], formatted[1800];
	va_list ap;

	va_start(ap, fields);
	vsnprintf(raw, sizeof raw, fields, ap);
	va_end(ap);
	fields_format(formatted, sizeof formatted, raw);
	emit(site, level, text, formatted);
}
