// SPDX-License-Identifier: Apache-2.0
/*
 * Log lines on stderr, as logfmt or JSON. Only the two flows, agent/ *.c and the commands log; other modules
 * return errors. Each call site may emit LOG_BURST lines per LOG_INTERVAL_NS; its next line reports how many
 * were suppressed. Thread safe.
 */
#ifndef PROFLET_BASE_LOG_H
#define PROFLET_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

#define LOG_BURST 10
#define LOG_INTERVAL_NS 10000000000ull

/* State of one call site, zeroed at start. */
struct log_site {
	uint64_t window_start_ns;
	uint32_t emitted, suppressed;
};

void log_setup(enum log_level max_level, enum log_format format);
bool log_enabled(enum log_level level);
void log_write(struct log_site *site, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A line with fields after its text: `fields` gives "key=value key=value", values without spaces, quotes or
 * control characters (numbers, enum names, ids). In JSON they become members of the object.
 */
void log_write_fields(struct log_site *site, enum log_level level, const char *text, const char *fields, ...)
	__attribute__((format(printf, 4, 5)));

#define log_at(level, ...)                                     \
	do {                                                   \
		static struct log_site _site;                  \
		if (log_enabled(level))                        \
			log_write(&_site, level, __VA_ARGS__); \
	} while (0)
#define log_fields(level, text, ...)                                        \
	do {                                                                \
		static struct log_site _site;                               \
		if (log_enabled(level))                                     \
			log_write_fields(&_site, level, text, __VA_ARGS__); \
	} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
