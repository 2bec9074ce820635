// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_keys.h"

#include <errno.h>
#include <string.h>

#include "agent/config/config_check.h"
#include "agent/config/config_error.h"

#define KEY(key_name, member, key_type) \
	.name = key_name, .offset = offsetof(struct config, member), .spec.type = key_type
#define RANGE(low, high) .spec.min = (low), .spec.max = (high)
#define NAMES(names) .spec.accepted = names
#define TEXT(text_form, text_check) .spec.form = text_form, .spec.check = text_check

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define MS 1000000ull
#define HOUR (3600000ull * MS)
#define PERCENT 10000ull /* in the unit of CONFIG_FRACTION */

#define ENDPOINT_FORM "http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"
#define KUBELET_FORM "https://HOST[:PORT] or http://HOST[:PORT]"
#define SELECTOR_FORM                                                                                    \
	"pid=N, comm=NAME, exe=PATH, cgroup=/PATH, container=ID, namespace=NAME, pod=[NAMESPACE/]NAME, " \
	"label=KEY=VALUE or container_name=NAME"

/* clang-format off */
const struct config_key config_keys[] = {
	{KEY("endpoint", endpoint, CONFIG_STRING), TEXT(ENDPOINT_FORM, config_check_endpoint),
	 .spec.flags = CONFIG_URL | CONFIG_REQUIRED, .default_text = "http://localhost:4317", .otel = "ENDPOINT",
	 .group = "Export", .value_name = "URL", .help = "URL of the OTLP collector (http/protobuf: default port 4318)"},
	{KEY("protocol", protocol, CONFIG_ENUM), NAMES("grpc,http/protobuf"), .default_text = "grpc", .otel = "PROTOCOL",
	 .help = "protocol of the export"},
	{KEY("headers", headers, CONFIG_PAIRS), .spec.flags = CONFIG_SECRET | CONFIG_HEADERS, .otel = "HEADERS",
	 .value_name = "NAME=VALUE,...", .help = "headers to send with every request; visible in the process list, so prefer headers_file"},
	{KEY("headers_file", headers_file, CONFIG_STRING), TEXT("the name of a file", config_check_headers_file),
	 .spec.flags = CONFIG_FILE, .value_name = "FILE",
	 .help = "file with more headers, one \"name: value\" per line; read again for every connection"},
	{KEY("compression", compression, CONFIG_ENUM), NAMES("gzip,zstd,none"), .default_text = "gzip",
	 .otel = "COMPRESSION", .help = "compression of export requests"},
	{KEY("timeout", timeout_ns, CONFIG_DURATION), RANGE(1 * MS, HOUR), .default_text = "10s", .otel = "TIMEOUT",
	 .help = "how long one export attempt may take"},
	{KEY("tls.ca", tls.ca, CONFIG_STRING), TEXT("the name of a file", config_check_pem_file),
	 .spec.flags = CONFIG_FILE, .otel = "CERTIFICATE", .value_name = "FILE",
	 .help = "PEM file with the trusted root certificates, instead of the system's"},
	{KEY("tls.cert", tls.cert, CONFIG_STRING), TEXT("the name of a file", config_check_pem_file),
	 .spec.flags = CONFIG_FILE, .otel = "CLIENT_CERTIFICATE", .value_name = "FILE",
	 .help = "PEM file with the client certificate chain, for mutual TLS"},
	{KEY("tls.key", tls.key, CONFIG_STRING), TEXT("the name of a file", config_check_pem_file),
	 .spec.flags = CONFIG_FILE, .otel = "CLIENT_KEY", .value_name = "FILE",
	 .help = "PEM file with the private key of tls.cert"},
	{KEY("tls.server_name", tls.server_name, CONFIG_STRING), .value_name = "NAME",
	 .help = "name expected in the server's certificate, instead of the endpoint's host"},
	{KEY("tls.insecure", tls.insecure, CONFIG_BOOL), .default_text = "off",
	 .help = "accept any server certificate (https only)"},

	{KEY("sampling.frequency", sampling.frequency, CONFIG_U32), RANGE(1, 10000), .default_text = "19",
	 .group = "Sampling", .value_name = "HZ", .help = "samples per second on each CPU"},
	{KEY("sampling.event", sampling.event, CONFIG_ENUM), NAMES("auto,cycles,cpu-clock,tick"), .default_text = "auto",
	 .help = "event that triggers samples; auto chooses the best that this node has"},
	{KEY("window", window_ns, CONFIG_DURATION), RANGE(100 * MS, HOUR), .default_text = "10s",
	 .help = "time covered by one request; the first is sent as soon as there are samples"},
	{KEY("samples", samples, CONFIG_ENUM), NAMES("timestamps,aggregate"), .default_text = "timestamps",
	 .help = "export a timestamp for each sample, or a count for each stack and window"},
	{KEY("resource", resource, CONFIG_ENUM), NAMES("container,process"), .default_text = "container",
	 .help = "group samples into one OTLP resource per container, or per process"},
	{KEY("service_name", service_name, CONFIG_ENUM), NAMES("auto,off,always"), .default_text = "auto",
	 .help = "give resources a service.name also where it can only be that of a unit or an executable; auto: not in pods, whose Collector knows better"},
	{KEY("attributes.sample", attributes.sample, CONFIG_LIST),
	 NAMES("process.pid,process.executable.name,thread.name,process.executable.path,thread.id,cpu.logical_number"),
	 .default_text = "process.pid,process.executable.name,thread.name", .value_name = "NAME,...",
	 .help = "attributes that are attached to each sample"},
	{KEY("select.include", select.include, CONFIG_LIST), TEXT(SELECTOR_FORM, config_check_selector),
	 .value_name = "SELECTOR,...", .help = "sample only matching processes: pid=N, comm=NAME, exe=PATH, cgroup=/PATH, container=ID, namespace=NAME, ..."},
	{KEY("select.exclude", select.exclude, CONFIG_LIST), TEXT(SELECTOR_FORM, config_check_selector),
	 .value_name = "SELECTOR,...", .help = "never sample matching processes; overrides select.include"},
	{KEY("stack.depth", stack.depth, CONFIG_U32), RANGE(16, 1024), .default_text = "512", .value_name = "FRAMES",
	 .help = "maximum number of user-space frames per stack; of a deeper one, frames in the middle are omitted"},

	{KEY("memory.tables", memory.tables_bytes, CONFIG_SIZE), RANGE(4 * MIB, 64 * GIB), .default_text = "64MiB",
	 .group = "Limits", .help = "maximum memory for unwind tables"},
	{KEY("memory.total", memory.total_bytes, CONFIG_SIZE), RANGE(32 * MIB, 1024 * GIB), .default_text = "256MiB",
	 .help = "maximum memory of the agent"},
	{KEY("cpu.max", cpu.max, CONFIG_FRACTION), RANGE(PERCENT / 10, 6400 * PERCENT), .default_text = "5%",
	 .help = "maximum CPU time, in percent of one core; the sampling frequency is lowered to keep it"},
	{KEY("queue.memory", queue.memory_bytes, CONFIG_SIZE), RANGE(64 * KIB, 64 * GIB), .default_text = "32MiB",
	 .help = "maximum memory for requests that wait for the collector"},
	{KEY("queue.spool", queue.spool, CONFIG_STRING), TEXT("an absolute path or off", config_check_directory),
	 .spec.flags = CONFIG_OFF_IS_NULL, .default_text = "off", .value_name = "DIRECTORY",
	 .help = "directory where requests wait while the collector is unreachable, also across restarts; or off"},
	{KEY("queue.spool_max", queue.spool_max_bytes, CONFIG_SIZE), RANGE(MIB, 1024 * GIB), .default_text = "1GiB",
	 .help = "maximum disk space for requests in queue.spool"},

	{KEY("symbols.kernel", symbols.kernel, CONFIG_BOOL), .default_text = "on", .group = "Names",
	 .help = "resolve the names of kernel functions"},
	{KEY("symbols.native", symbols.native, CONFIG_BOOL), .default_text = "on",
	 .help = "resolve function names from the symbol tables of binaries"},
	{KEY("symbols.debug_files", symbols.debug_files, CONFIG_BOOL), .default_text = "on",
	 .help = "also use separate debug files: for names, and for unwind tables that a binary lacks"},
	{KEY("symbols.unresolved", symbols.unresolved, CONFIG_ENUM), NAMES("offset,bare"), .default_text = "offset",
	 .help = "what a frame without a name shows: module+0xoffset, or nothing, for backends with their own symbols"},

	{KEY("runtimes.python", runtimes.python, CONFIG_BOOL), .default_text = "on", .group = "Language runtimes",
	 .help = "show the functions of Python programs (CPython) in their stacks"},
	{KEY("runtimes.php", runtimes.php, CONFIG_BOOL), .default_text = "on",
	 .help = "show the functions of PHP programs in their stacks"},
	{KEY("runtimes.ruby", runtimes.ruby, CONFIG_BOOL), .default_text = "on",
	 .help = "show the methods of Ruby programs in their stacks"},
	{KEY("runtimes.perl", runtimes.perl, CONFIG_BOOL), .default_text = "on",
	 .help = "show the functions of Perl programs in their stacks"},
	{KEY("runtimes.lua", runtimes.lua, CONFIG_BOOL), .default_text = "on",
	 .help = "show the functions of Lua programs in their stacks"},
	{KEY("runtimes.python_tasks", runtimes.python_tasks, CONFIG_BOOL), .default_text = "off",
	 .help = "samples of Python programs have the name of the asyncio task that ran, as asyncio.task.name (CPython 3.14 and later)"},
	{KEY("runtimes.java", runtimes.java, CONFIG_BOOL), .default_text = "on",
	 .help = "show the methods of Java programs (HotSpot) in their stacks"},
	{KEY("runtimes.node", runtimes.node, CONFIG_BOOL), .default_text = "on",
	 .help = "show the functions of JavaScript programs (Node.js) in their stacks"},
	{KEY("runtimes.beam", runtimes.beam, CONFIG_BOOL), .default_text = "on",
	 .help = "show the functions of Erlang and Elixir programs (BEAM) in their stacks"},
	{KEY("runtimes.dotnet", runtimes.dotnet, CONFIG_BOOL), .default_text = "on",
	 .help = "show the methods of .NET programs in their stacks"},
	{KEY("runtimes.loop_frames", runtimes.loop_frames, CONFIG_BOOL), .default_text = "off",
	 .help = "also show the native frames of an interpreter's own loop, which the language's functions stand for"},

	{KEY("kubernetes.metadata", kubernetes.metadata, CONFIG_BOOL), .default_text = "off", .group = "Kubernetes",
	 .help = "ask the kubelet for names of pods and containers"},
	{KEY("kubernetes.kubelet", kubernetes.kubelet, CONFIG_STRING), TEXT(KUBELET_FORM, config_check_url),
	 .spec.flags = CONFIG_URL, .value_name = "URL",
	 .help = "URL of the kubelet (default: port 10250 of $K8S_NODE_IP, else of kubernetes.node, else of this machine)"},
	{KEY("kubernetes.token_file", kubernetes.token_file, CONFIG_STRING),
	 TEXT("the name of a file", config_check_pem_file), .spec.flags = CONFIG_FILE, .value_name = "FILE",
	 .help = "file with the token for the kubelet, sent over https only (default: the service account's)"},
	{KEY("kubernetes.ca", kubernetes.ca, CONFIG_STRING), TEXT("the name of a file", config_check_pem_file),
	 .spec.flags = CONFIG_FILE, .value_name = "FILE",
	 .help = "PEM file with the root certificates trusted for the kubelet (default: the service account's)"},
	{KEY("kubernetes.insecure", kubernetes.insecure, CONFIG_BOOL), .default_text = "off",
	 .help = "accept any certificate from the kubelet"},
	{KEY("kubernetes.node", kubernetes.node, CONFIG_STRING), .default_text = "$K8S_NODE_NAME", .value_name = "NAME",
	 .help = "name of this node"},

	{KEY("listen", listen, CONFIG_STRING), TEXT("HOST:PORT, :PORT or off", config_check_listen),
	 .spec.flags = CONFIG_OFF_IS_NULL, .default_text = "127.0.0.1:9464", .group = "The agent itself",
	 .value_name = "HOST:PORT", .help = "address that serves /metrics, /healthz and profiles, or off"},
	{KEY("listen_token_file", listen_token_file, CONFIG_STRING), TEXT("the name of a file", config_check_pem_file),
	 .spec.flags = CONFIG_FILE, .value_name = "FILE",
	 .help = "file with the token (16 bytes or more) that requests for profiles need; without it, only clients on this machine get one"},
	{KEY("log.level", log.level, CONFIG_ENUM), NAMES("error,warn,info,debug"), .default_text = "info",
	 .help = "lowest level of messages to log"},
	{KEY("log.format", log.format, CONFIG_ENUM), NAMES("logfmt,json"), .default_text = "logfmt",
	 .help = "format of log lines"},
};
/* clang-format on */

const size_t config_n_keys = ARRAY_SIZE(config_keys);
_Static_assert(ARRAY_SIZE(config_keys) <= CONFIG_MAX_KEYS, "struct config has an origin for every key");

int config_key_find(const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].name, name) == 0)
			return (int)i;
	return -1;
}

bool config_key_is_section(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < config_n_keys; i++)
		if (strncmp(config_keys[i].name, name, len) == 0 && config_keys[i].name[len] == '.')
			return len > 0;
	return false;
}

int config_key_list_names(const char *section, struct buf *b)
{
	size_t skip = *section ? strlen(section) + 1 : 0, previous_len = 0;
	const char *previous = "";
	bool first = true;
	int r = 0;

	for (size_t i = 0; i < config_n_keys && r == 0; i++) {
		const char *name = config_keys[i].name + skip;
		size_t len;

		if (skip && (strncmp(config_keys[i].name, section, skip - 1) != 0 ||
			     config_keys[i].name[skip - 1] != '.'))
			continue;
		len = strcspn(name, ".");
		if (len == previous_len &&
		    memcmp(name, previous, len) == 0) /* the keys of a section are adjacent */
			continue;
		r = buf_printf(b, "%s%.*s", first ? "" : ", ", (int)len, name);
		first = false;
		previous = name;
		previous_len = len;
	}
	return r;
}

int config_key_set(struct config *c, size_t index, const struct config_origin *origin, const char *text,
		   char **ret_error)
{
	const struct config_key *key = &config_keys[index];
	_cleanup_buf_ struct buf problem = {0};
	bool again = c->origins[index].source == origin->source && origin->source == CONFIG_FROM_OPTION;
	int r = config_value_set(&key->spec, config_key_storage(c, key), text, again, &problem);

	if (r == -EINVAL)
		return config_fail_at(c, origin, key->name, ret_error, "%s", buf_str(&problem));
	if (r == 0)
		c->origins[index] = *origin;
	return r;
}

/* --- "did you mean": the known name with the fewest edits from the one that was given */

#define MAX_NAME 64

/* Edits (insert, delete, replace, swap of neighbours) from a to b. Both at most MAX_NAME bytes. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][MAX_NAME + 1], *two = rows[0], *one = rows[1], *now = rows[2];
	size_t n = strlen(b), m = strlen(a);

	for (size_t j = 0; j <= n; j++)
		one[j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *spare = two;

		now[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);

			best = one[j] + 1 < best ? one[j] + 1 : best;
			best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < best)
				best = two[j - 2] + 1;
			now[j] = best;
		}
		two = one;
		one = now;
		now = spare;
	}
	return one[n];
}

static bool is_last_part(const char *name, const char *known)
{
	const char *dot = strrchr(known, '.');

	return dot && strcmp(dot + 1, name) == 0;
}

struct candidate {
	const char *name;
	size_t edits;
};

static void consider(struct candidate *best, const char *name, const char *known)
{
	size_t edits;

	if (!known || strlen(known) > MAX_NAME)
		return;
	edits = is_last_part(name, known) ? 1 : distance(name, known);
	if (edits < best->edits)
		*best = (struct candidate){known, edits};
}

const char *config_key_suggest(const char *name, const struct config_extra_option *extra, size_t n_extra)
{
	size_t len = strlen(name);
	struct candidate best = {NULL, len < 8 ? 3 : 4}; /* fewer edits than this */

	if (len < 2 || len > MAX_NAME)
		return NULL;
	for (size_t i = 0; i < config_n_keys; i++)
		consider(&best, name, config_keys[i].name);
	for (size_t i = 0; i < n_extra; i++)
		consider(&best, name, extra[i].name);
	return best.name;
}
