// SPDX-License-Identifier: Apache-2.0
/*
 * The types of a configuration: struct config, which the agent's modules read, and the options that a command
 * declares in addition to the configuration keys. To load one, include config.h.
 *
 * A loaded configuration never changes; everything that it points to lives as long as it does. Strings that
 * were not given are NULL.
 */
#ifndef PROFLET_CONFIG_TYPES_H
#define PROFLET_CONFIG_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"

struct config_pair {
	char *key, *value;
};

struct config_pairs {
	struct config_pair *items; /* owned */
	size_t n, cap;
};

struct config_list {
	char **items; /* owned */
	size_t n, cap;
};

/* The order of each enum is the order of the accepted names in config_keys.c. */
enum config_protocol { CONFIG_PROTOCOL_GRPC, CONFIG_PROTOCOL_HTTP };
enum config_compression { CONFIG_COMPRESSION_GZIP, CONFIG_COMPRESSION_ZSTD, CONFIG_COMPRESSION_NONE };
enum config_event { CONFIG_EVENT_AUTO, CONFIG_EVENT_CYCLES, CONFIG_EVENT_CPU_CLOCK, CONFIG_EVENT_TICK };
enum config_samples { CONFIG_SAMPLES_TIMESTAMPS, CONFIG_SAMPLES_AGGREGATE };
enum config_resource { CONFIG_RESOURCE_CONTAINER, CONFIG_RESOURCE_PROCESS };
enum config_service_name { CONFIG_SERVICE_NAME_AUTO, CONFIG_SERVICE_NAME_OFF, CONFIG_SERVICE_NAME_ALWAYS };
enum config_unresolved { CONFIG_UNRESOLVED_OFFSET, CONFIG_UNRESOLVED_BARE };

/* Where the value of a key came from, in order of precedence: a later source overrides an earlier one. */
enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_OPTION };

struct config_origin {
	enum config_source source;
	unsigned line, column; /* of the value in the file, from 1 */
	char name[64];	       /* environment variable or option that set it */
};

#define CONFIG_MAX_KEYS 64

struct config {
	char *endpoint; /* always http[s]://HOST[:PORT][/PATH] or unix:/PATH, checked */
	/* http/protobuf: the URL is complete, append no /v1development/profiles. */
	bool endpoint_is_signal_url;
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
	enum config_service_name service_name; /* which resources have one */
	struct {
		struct config_list sample; /* attribute names, each one of those accepted; no duplicates */
	} attributes;
	struct {
		struct config_list include, exclude; /* each item is accepted by config_selector_parse() */
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
		bool python;	   /* functions of CPython are found */
		bool php;	   /* functions of PHP are found */
		bool ruby;	   /* functions of Ruby are found */
		bool perl;	   /* functions of Perl are found */
		bool lua;	   /* functions of Lua are found */
		bool java;	   /* methods of Java are found */
		bool node;	   /* functions of JavaScript are found */
		bool beam;	   /* functions of Erlang are found */
		bool dotnet;	   /* methods of .NET are found */
		bool python_tasks; /* samples have the name of asyncio's task */
		bool loop_frames;  /* stacks keep the native frames of interpreters' loops */
	} runtimes;
	struct {
		bool metadata;
		char *kubelet;	  /* https://HOST:PORT, NULL: derived from the node's address */
		char *node;	  /* default: $K8S_NODE_NAME; NULL: unknown */
		char *token_file; /* NULL: the service account's token, if there is one */
		char *ca; /* NULL: the service account's CA file if there is one, else the system's roots */
		bool insecure; /* accept any certificate from the kubelet */
	} kubernetes;
	char *listen;		 /* HOST:PORT, NULL: off */
	char *listen_token_file; /* whose token requests for profiles need; NULL: none */
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

/* Types of values. The comment names the type of the storage. */
enum config_type {
	CONFIG_BOOL,	 /* bool */
	CONFIG_U32,	 /* uint32_t */
	CONFIG_DURATION, /* uint64_t, ns */
	CONFIG_SECONDS,	 /* as CONFIG_DURATION, but a number without a unit means seconds */
	CONFIG_SIZE,	 /* uint64_t, bytes */
	CONFIG_FRACTION, /* double, written as a percentage */
	CONFIG_ENUM,	 /* an enum whose values are 0, 1, 2 … in the order of `accepted` */
	CONFIG_STRING,	 /* char *, owned */
	CONFIG_LIST,	 /* struct config_list; "a,b" or repeated */
	CONFIG_PAIRS,	 /* struct config_pairs; "k=v,k=v", percent-decoded */
	CONFIG_FLAG,	 /* bool, extra options only: takes no value, stores true */
	CONFIG_ALIAS,	 /* extra options only: another name of the key in `alias` */
};

/* Returns NULL when the text is valid, else what is wrong with it: a constant such as "has no host". */
typedef const char *(*config_check_fn)(const char *text);

/* An option of one command. Every command accepts the configuration keys in addition. A command declares a
 * table of them. */
struct config_extra_option {
	char short_name;  /* 'd' for -d; 0: none */
	const char *name; /* "duration" for --duration; NULL: short only */
	enum config_type type;
	/*
	 * Storage as named above; unused for CONFIG_ALIAS. Numbers and flags are preset with the default. A
	 * STRING is NULL or heap memory, a LIST empty (options append to it); the caller frees both, also
	 * after errors.
	 */
	void *target;
	const char *alias;	/* CONFIG_ALIAS: the dotted key */
	uint64_t min, max;	/* U32, DURATION (ns), SIZE (bytes); 0, 0: any */
	const char *accepted;	/* ENUM and LIST: "html,folded,pprof"; NULL: any text */
	config_check_fn check;	/* STRING, and each item of a LIST; NULL: any text */
	const char *form;	/* what `check` accepts, for the error message: "a process id" */
	const char *value_name; /* for the help: "SECONDS" */
	const char *help;	/* for the help, with the default */
};

/* Appends a copy of the text. 0 or -ENOMEM. */
int config_list_append(struct config_list *l, const char *text);
/* Appends copies; a key that is there already gets the new value. 0 or -ENOMEM. */
int config_pairs_put(struct config_pairs *p, const char *key, const char *value);
/* The pair with this key, or NULL. Borrowed. */
struct config_pair *config_pairs_find(const struct config_pairs *p, const char *key);
/* Free the items and zero the struct; twice is fine. */
void config_list_free(struct config_list *l);
void config_pairs_free(struct config_pairs *p);
#define _cleanup_list_ _cleanup_(config_list_free)
#define _cleanup_pairs_ _cleanup_(config_pairs_free)

#endif
