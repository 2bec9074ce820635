// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration: one table of keys (config_keys.c) gives the YAML keys, the long options, the
 * environment, the defaults, the help text and the dump. Precedence: option > environment > file > default.
 * Rank 3.
 *
 * A struct config is heap memory, owned by the caller of config_load, immutable afterwards; everything that
 * it points to lives as long as it does. Strings that were not given are NULL. Nothing here logs, and no
 * error line or dump carries the value of a secret (headers).
 */
#ifndef PROFLET_CONFIG_H
#define PROFLET_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/log.h"

struct config_pair {
	char *key, *value;
};

struct config_pairs {
	struct config_pair *items; /* owned */
	size_t n;
};

struct config_list {
	char **items; /* owned */
	size_t n;
};

/* The order of each enum is the order of the accepted names in config_keys.c. */
enum config_protocol { CONFIG_PROTOCOL_GRPC, CONFIG_PROTOCOL_HTTP };
enum config_compression { CONFIG_COMPRESSION_GZIP, CONFIG_COMPRESSION_ZSTD, CONFIG_COMPRESSION_NONE };
enum config_event { CONFIG_EVENT_AUTO, CONFIG_EVENT_CYCLES, CONFIG_EVENT_CPU_CLOCK, CONFIG_EVENT_TICK };
enum config_samples { CONFIG_SAMPLES_TIMESTAMPS, CONFIG_SAMPLES_AGGREGATE };
enum config_resource { CONFIG_RESOURCE_CONTAINER, CONFIG_RESOURCE_PROCESS };
enum config_unresolved { CONFIG_UNRESOLVED_OFFSET, CONFIG_UNRESOLVED_BARE };

/* Where a key's value came from. */
enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_OPTION };

struct config_origin {
	enum config_source source;
	unsigned line, column; /* of the value in the file, from 1 */
	char name[64];	       /* environment variable or option that set it */
};

#define CONFIG_MAX_KEYS 48

struct config {
	char *endpoint;		     /* always http[s]://HOST[:PORT][/PATH], checked */
	bool endpoint_is_signal_url; /* http/protobuf: use the path as it is, append no
					/v1development/profiles */
	enum config_protocol protocol;
	struct config_pairs headers; /* secret; config_headers_read() adds those of headers_file */
	char *headers_file;
	enum config_compression compression;
	uint64_t timeout_ns; /* of one export attempt */
	struct {
		char *ca, *cert, *key; /* PEM files; ca NULL: the system's roots */
		char *server_name;     /* NULL: the endpoint's host */
		bool insecure;	       /* accept any server certificate (https only; http never uses TLS) */
	} tls;
	struct {
		uint32_t frequency; /* Hz per CPU */
		enum config_event event;
	} sampling;
	uint64_t window_ns;
	enum config_samples samples;
	enum config_resource resource;
	struct {
		struct config_list sample; /* attribute names, each one of those accepted; no duplicates */
	} attributes;
	struct {
		struct config_list include, exclude; /* selectors, each passes config_selector_parse() */
	} select;
	struct {
		uint32_t depth; /* frames */
	} stack;
	struct {
		uint64_t tables_bytes, total_bytes;
	} memory;
	struct {
		double max; /* fraction of one core: 0.05 is 5 % */
	} cpu;
	struct {
		uint64_t memory_bytes;
		char *spool; /* directory, NULL: off */
		uint64_t spool_max_bytes;
	} queue;
	struct {
		bool kernel, native, debug_files;
		enum config_unresolved unresolved;
	} symbols;
	struct {
		bool metadata;
		char *kubelet;	  /* https://HOST:PORT, NULL: from the node's address */
		char *node;	  /* default: $K8S_NODE_NAME; NULL: unknown */
		char *token_file; /* NULL: the service account's, where there is one */
		char *ca;	  /* NULL: the service account's, where there is one, else the system's */
		bool insecure;	  /* accept any certificate of the kubelet's */
	} kubernetes;
	char *listen; /* HOST:PORT, NULL: off */
	struct {
		enum log_level level;
		enum log_format format;
	} log;
	struct {
		struct config_pairs resource_attributes; /* OTEL_RESOURCE_ATTRIBUTES, percent-decoded */
	} otel;

	char *file;				       /* --config, NULL: none */
	struct config_origin origins[CONFIG_MAX_KEYS]; /* by position in the table of keys */
};

/* Kinds of values. The comment names the type of the storage. */
enum config_type {
	CONFIG_BOOL,	 /* bool */
	CONFIG_U32,	 /* uint32_t */
	CONFIG_DURATION, /* uint64_t, ns */
	CONFIG_SECONDS,	 /* the same; a number without a unit is one of seconds */
	CONFIG_SIZE,	 /* uint64_t, bytes */
	CONFIG_FRACTION, /* double, written as a percentage */
	CONFIG_ENUM,	 /* an enum whose values are 0, 1, 2 … in the order of `accepted` */
	CONFIG_STRING,	 /* char *, owned */
	CONFIG_LIST,	 /* struct config_list; "a,b" or repeated */
	CONFIG_PAIRS,	 /* struct config_pairs; "k=v,k=v", percent-decoded */
	CONFIG_FLAG,	 /* bool, extra options only: takes no value, stores true */
	CONFIG_ALIAS,	 /* extra options only: another name of the key in `alias` */
};

/* NULL when the text is fine, else what is wrong with it, a constant such as "has no host". */
typedef const char *(*config_check_fn)(const char *text);

/* An option of one command, beside the keys that every command takes. A command declares a static table of
 * them. */
struct config_extra_option {
	char short_name;  /* 'd' for -d; 0: none */
	const char *name; /* "duration" for --duration; NULL: short only */
	enum config_type type;
	void *target; /* storage as named above; unused for CONFIG_ALIAS. Numbers and flags are preset with
			 the default; a STRING is NULL or heap memory, a LIST empty (options add to it), and
			 the caller frees both, also after errors */
	const char *alias;	/* CONFIG_ALIAS: the dotted key */
	uint64_t min, max;	/* U32, DURATION (ns), SIZE (bytes); 0, 0: any */
	const char *accepted;	/* ENUM and LIST: "html,folded,pprof"; NULL: any text */
	config_check_fn check;	/* STRING, and each item of a LIST; NULL: any text */
	const char *form;	/* what `check` accepts, for the error line: "a process id" */
	const char *value_name; /* for the help: "SECONDS" */
	const char *help;	/* for the help, with the default */
};

/*
 * Reads file, environment and options. argv[0] is the subcommand; options end at "--" or at the first
 * argument that is none. --config FILE is always understood. *ret_first_positional is the index in argv of
 * the first argument after the options (argc: none); where the pointer is NULL such arguments are errors.
 *
 * Returns 0; CONFIG_HELP_ASKED (1) when --help or -h was given (*ret stays unset; print config_help); -EINVAL
 * with *ret_error = one whole line without newline, owned by the caller ("proflet: FILE:3:1: KEY: what was
 * found; what is accepted") for anything the user wrote wrong: exit code 2; -ENOMEM (*ret_error may be
 * unset).
 */
enum { CONFIG_HELP_ASKED = 1 };
int config_load(struct config **ret, int argc, char **argv, const struct config_extra_option *extra,
		size_t n_extra, int *ret_first_positional, char **ret_error);
void config_free(struct config *c);
DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(config_free_p)

/* Prints the options of a command: first `extra`, then every key with its default, grouped. */
void config_help(FILE *out, const struct config_extra_option *extra, size_t n_extra);
/* Appends the effective configuration as YAML with each value's origin as a comment; secrets are masked. */
int config_dump(const struct config *c, struct buf *b);
/* Where the value of a dotted key came from; NULL: no such key. Borrowed from `c`. */
const struct config_origin *config_origin(const struct config *c, const char *key);

/*
 * `headers` plus those of `headers_file` as the file is now (lines "name: value" or "name=value", #
 * comments). Names are lower case. 0, -EINVAL or an open/read error with *ret_error set (it shows no value),
 * -ENOMEM.
 */
int config_headers_read(const struct config *c, struct config_pairs *ret, char **ret_error);

enum config_selector_kind {
	CONFIG_SELECT_PID,
	CONFIG_SELECT_COMM,
	CONFIG_SELECT_CGROUP,
	CONFIG_SELECT_CONTAINER,
	CONFIG_SELECT_EXE,
	CONFIG_SELECT_NAMESPACE, /* this and those below: of a pod, by the kubelet's metadata */
	CONFIG_SELECT_LABEL,
	CONFIG_SELECT_CONTAINER_NAME,
};

struct config_selector {
	enum config_selector_kind kind;
	const char *value; /* text after '=', borrowed from the string that was parsed */
	uint32_t pid;	   /* CONFIG_SELECT_PID */
};

/*
 * "pid=1", "comm=nginx" (15 bytes as the kernel keeps them), "cgroup=/path", "container=ID" (12 to 64 hex
 * digits), "exe=PATH", "namespace=NAME", "label=KEY=VALUE", "container_name=NAME"; the last four are patterns
 * as the shell has them (fnmatch(3)). 0 or -EINVAL.
 */
int config_selector_parse(const char *s, struct config_selector *ret);

void config_pairs_free(struct config_pairs *p); /* frees the items and zeroes; twice is fine */
void config_list_free(struct config_list *l);
#define _cleanup_pairs_ _cleanup_(config_pairs_free)
#define _cleanup_list_ _cleanup_(config_list_free)

#endif
