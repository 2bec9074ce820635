// SPDX-License-Identifier: Apache-2.0
/* Everything that a user can write wrong, and the one line that says so. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/config/config.h"
#include "tests/unit/agent/config/config_load.h"

/* The error line with the temporary path taken out, so that expected lines can name it FILE. */
static const char *line_of(const struct load *l, char out[512])
{
	const char *at = l->error && l->path[0] ? strstr(l->error, l->path) : NULL;

	if (!l->error)
		return "(none)";
	if (at)
		snprintf(out, 512, "%.*sFILE%s", (int)(at - l->error), l->error, at + strlen(l->path));
	else
		snprintf(out, 512, "%s", l->error);
	return out;
}

static const struct {
	const char *yaml, *environment, *options, *error;
} bad[] = {
	/* unknown keys and options */
	{"sampling:\n  frequncy: 9\n", NULL, NULL,
	 "proflet: FILE:2:3: sampling.frequncy: unknown key; did you mean sampling.frequency?"},
	{"\n\nsampling.frequncy: 9\n", NULL, NULL,
	 "proflet: FILE:3:1: sampling.frequncy: unknown key; did you mean sampling.frequency?"},
	{"frequency: 9", NULL, NULL,
	 "proflet: FILE:1:1: frequency: unknown key; did you mean sampling.frequency?"},
	{"cpu: {quota_of_cores: 1}", NULL, NULL,
	 "proflet: FILE:1:7: cpu.quota_of_cores: unknown key; accepted in cpu are max"},
	{"profiling_interval: 1", NULL, NULL,
	 "proflet: FILE:1:1: profiling_interval: unknown key; accepted keys are endpoint, protocol, headers, "
	 "headers_file, "
	 "compression, timeout, tls, sampling, window, samples, resource, service_name, attributes, select, "
	 "stack, memory, cpu, queue, "
	 "symbols, runtimes, kubernetes, listen, listen_token_file, log"},
	{NULL, NULL, "--sampling.freqency 9",
	 "proflet: option --sampling.freqency: unknown option; did you mean --sampling.frequency?"},
	{NULL, NULL, "--frobnicate",
	 "proflet: option --frobnicate: unknown option; \"proflet help run\" lists the options"},
	{NULL, NULL, "--header=Authorization=secret",
	 "proflet: option --header: unknown option; did you mean --headers?"},
	{NULL, NULL, "-x", "proflet: option -x: unknown option; \"proflet help run\" lists the options"},
	{NULL, NULL, "now", "proflet: unexpected argument \"now\"; run takes options only"},
	{NULL, NULL, "--headers a=Bearer secret",
	 "proflet: unexpected argument number 3 (not shown); run takes options only"},
	{NULL, NULL, "authorization=secret",
	 "proflet: unexpected argument number 1 (not shown); run takes options only"},
	{NULL, NULL, "--tls.key -----BEGIN",
	 "proflet: option --tls.key: the value (not shown) is PEM text; accepted is the name of a file"},
	{"headers_file: 'authorization: secret'", NULL, NULL,
	 "proflet: FILE:1:15: headers_file: the value (not shown) looks like a header; accepted is the name "
	 "of "
	 "a file"},
	{NULL, NULL, "-- now", "proflet: unexpected argument \"now\"; run takes options only"},
	/* wrong type or range */
	{"sampling: {frequency: abc}", NULL, NULL,
	 "proflet: FILE:1:23: sampling.frequency: \"abc\" is not a whole number from 1 to 10000"},
	{NULL, NULL, "--sampling.frequency abc",
	 "proflet: option --sampling.frequency: \"abc\" is not a whole number from 1 to 10000"},
	{NULL, NULL, "--sampling.frequency 0",
	 "proflet: option --sampling.frequency: \"0\" is not a whole number from 1 to 10000"},
	{NULL, NULL, "--sampling.frequency 10001",
	 "proflet: option --sampling.frequency: \"10001\" is not a whole number from 1 to 10000"},
	{NULL, NULL, "--sampling.frequency -5",
	 "proflet: option --sampling.frequency: \"-5\" is not a whole number from 1 to 10000"},
	{NULL, NULL, "--sampling.frequency 99999999999999999999999",
	 "proflet: option --sampling.frequency: \"99999999999999999999999\" is not a whole number from 1 to "
	 "10000"},
	{NULL, NULL, "--sampling.frequency",
	 "proflet: option --sampling.frequency: has no value; accepted is a whole number from 1 to 10000"},
	{NULL, NULL, "--config", "proflet: option --config: has no value; accepted is the name of a file"},
	{NULL, NULL, "--help=1", "proflet: option --help: takes no value"},
	{"sampling: {frequency: [9]}", NULL, NULL,
	 "proflet: FILE:1:23: sampling.frequency: found a list; accepted is a whole number from 1 to 10000"},
	{"window: {a: 1}", NULL, NULL,
	 "proflet: FILE:1:9: window: found a section; accepted is a duration from 100ms to 1h, such as 10s"},
	{"sampling: 19", NULL, NULL,
	 "proflet: FILE:1:11: sampling: found a single value; accepted is a section with the keys frequency, "
	 "event"},
	{"tls: [a]", NULL, NULL,
	 "proflet: FILE:1:6: tls: found a list; accepted is a section with the keys ca, cert, key, "
	 "server_name, insecure"},
	{"window: 10", NULL, NULL,
	 "proflet: FILE:1:9: window: \"10\" is not a duration from 100ms to 1h, such as 10s"},
	{NULL, "PROFLET_WINDOW=2d", NULL,
	 "proflet: environment variable PROFLET_WINDOW: \"2d\" is not a duration from 100ms to 1h, such as "
	 "10s"},
	{"memory: {tables: 1KiB}", NULL, NULL,
	 "proflet: FILE:1:18: memory.tables: \"1KiB\" is not a size from 4MiB to 64GiB, such as 64MiB"},
	{"cpu: {max: 5}", NULL, NULL,
	 "proflet: FILE:1:12: cpu.max: \"5\" is not a percentage from 0.1% to 6400%, such as 5%"},
	{NULL, NULL, "--cpu.max 0%",
	 "proflet: option --cpu.max: \"0%\" is not a percentage from 0.1% to 6400%, such as 5%"},
	{"protocol: http/json", NULL, NULL,
	 "proflet: FILE:1:11: protocol: \"http/json\" is not one of grpc, http/protobuf"},
	{NULL, NULL, "--sampling.event cycle",
	 "proflet: option --sampling.event: \"cycle\" is not one of auto, cycles, cpu-clock, tick"},
	{"symbols: {kernel: maybe}", NULL, NULL,
	 "proflet: FILE:1:19: symbols.kernel: \"maybe\" is not on or off"},
	{"stack: {depth: 15}", NULL, NULL,
	 "proflet: FILE:1:16: stack.depth: \"15\" is not a whole number from 16 to 1024"},
	{"attributes: {sample: [process.pid, process.pd]}", NULL, NULL,
	 "proflet: FILE:1:36: attributes.sample: \"process.pd\" is not one of process.pid, "
	 "process.executable.name, "
	 "thread.name, process.executable.path, thread.id, cpu.logical_number"},
	{NULL, NULL, "--attributes.sample thread.id,thread.id",
	 "proflet: option --attributes.sample: \"thread.id\" is given twice; accepted is one of process.pid, "
	 "process.executable.name, thread.name, process.executable.path, thread.id, cpu.logical_number"},
	{"attributes: {sample: [[thread.id]]}", NULL, NULL,
	 "proflet: FILE:1:23: attributes.sample: found a list; accepted is one of process.pid, "
	 "process.executable.name, "
	 "thread.name, process.executable.path, thread.id, cpu.logical_number"},
	{"select: {include: [nginx]}", NULL, NULL,
	 "proflet: FILE:1:20: select.include: \"nginx\" is no selector; accepted is pid=N, comm=NAME, "
	 "exe=PATH, cgroup=/PATH, container=ID, namespace=NAME, pod=[NAMESPACE/]NAME, label=KEY=VALUE "
	 "or container_name=NAME"},
	{NULL, NULL, "--select.exclude label=app",
	 "proflet: option --select.exclude: \"label=app\" is no selector; accepted is pid=N, comm=NAME, "
	 "exe=PATH, cgroup=/PATH, container=ID, namespace=NAME, pod=[NAMESPACE/]NAME, label=KEY=VALUE "
	 "or container_name=NAME"},
	{NULL, NULL, "--select.include comm=sixteen-bytes-xx",
	 "proflet: option --select.include: \"comm=sixteen-bytes-xx\" is no selector; accepted is pid=N, "
	 "comm=NAME, exe=PATH, cgroup=/PATH, container=ID, namespace=NAME, pod=[NAMESPACE/]NAME, "
	 "label=KEY=VALUE "
	 "or container_name=NAME"},
	{"queue: {spool: var}", NULL, NULL,
	 "proflet: FILE:1:16: queue.spool: \"var\" is not an absolute path; accepted is an absolute path or "
	 "off"},
	{"log:\n  level: \"a\\nb\"\n", NULL, NULL,
	 "proflet: FILE:2:10: log.level: \"a?b\" is not one of error, warn, info, debug"},
	{"log: {level: "
	 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}",
	 NULL, NULL,
	 "proflet: FILE:1:14: log.level: "
	 "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" "
	 "is not one of error, warn, info, debug"},
	/* duplicates */
	{"window: 1s\nlisten: off\nwindow: 2s\n", NULL, NULL,
	 "proflet: FILE:3:1: window: duplicate key; first at line 1"},
	{"sampling: {frequency: 1}\nsampling: {event: tick}\n", NULL, NULL,
	 "proflet: FILE:2:1: sampling: duplicate key; first at line 1"},
	{"sampling: {frequency: 1}\nsampling.frequency: 2\n", NULL, NULL,
	 "proflet: FILE:2:1: sampling.frequency: duplicate key; first at line 1"},
	{"headers: {A: 1, a: 2}", NULL, NULL, "proflet: FILE:1:17: headers: the same name is given twice"},
	/* form of the file */
	{"window: 1s\n---\nwindow: 2s\n", NULL, NULL,
	 "proflet: FILE:3:1: document: found a second document; accepted is one"},
	{"[1, 2]", NULL, NULL,
	 "proflet: FILE:1:1: document: found a list; accepted is a section with the keys endpoint, protocol, "
	 "headers, "
	 "headers_file, compression, timeout, tls, sampling, window, samples, resource, service_name, "
	 "attributes, select, "
	 "stack, memory, "
	 "cpu, queue, symbols, runtimes, kubernetes, listen, listen_token_file, log"},
	{"window: [1", NULL, NULL, "proflet: FILE:2:1: not valid YAML: did not find expected ',' or ']'"},
	{"a: b: c", NULL, NULL,
	 "proflet: FILE:1:5: not valid YAML: mapping values are not allowed in this context"},
	{"window: 1s\nx: \xff\n", NULL, NULL,
	 "proflet: FILE:2:4: not valid YAML: invalid leading UTF-8 octet"},
	{"sampling: &a {frequency: 1, event: *b}", NULL, NULL,
	 "proflet: FILE:1:36: not valid YAML: found undefined alias"},
	{"? [a]\n: b", NULL, NULL, "proflet: FILE:1:3: document: found a key that is no name"},
	{NULL, NULL, "--config /nonexistent/p.yaml",
	 "proflet: /nonexistent/p.yaml: cannot be read: No such file or directory"},
	{NULL, NULL, "--config /", "proflet: /: cannot be read: Is a directory"},
	/* addresses */
	{NULL, NULL, "--endpoint localhost:4317",
	 "proflet: option --endpoint: \"localhost:4317\" has no scheme; accepted: http://HOST:PORT, "
	 "https://HOST:PORT or unix:/PATH"},
	{"endpoint: ftp://x", NULL, NULL,
	 "proflet: FILE:1:11: endpoint: \"ftp://x\" has no scheme; accepted: http://HOST:PORT, "
	 "https://HOST:PORT or unix:/PATH"},
	{NULL, NULL, "--endpoint=",
	 "proflet: option --endpoint: \"\" has no scheme; accepted: http://HOST:PORT, https://HOST:PORT or "
	 "unix:/PATH"},
	{NULL, NULL, "--endpoint http://:4317",
	 "proflet: option --endpoint: \"http://:4317\" has no host or one with characters that no host name "
	 "has; accepted is http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"},
	{NULL, NULL, "--endpoint http://h:70000",
	 "proflet: option --endpoint: \"http://h:70000\" has a port that is no number from 1 to 65535; "
	 "accepted is http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"},
	{"endpoint: 'http://h h'", NULL, NULL,
	 "proflet: FILE:1:11: endpoint: \"http://h h\" has spaces or control characters in it; accepted is "
	 "http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"},
	{NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=https://me:secret@h", NULL,
	 "proflet: environment variable OTEL_EXPORTER_OTLP_ENDPOINT: the value (not shown) has a user name "
	 "in it; give credentials as a header; accepted is http://HOST[:PORT][/PATH], "
	 "https://HOST[:PORT][/PATH] or unix:/PATH"},
	{NULL, NULL, "--endpoint http://[::1",
	 "proflet: option --endpoint: \"http://[::1\" has no IPv6 address between [ and ]; accepted is "
	 "http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"},
	{NULL, NULL, "--endpoint http://h/?k=v",
	 "proflet: option --endpoint: the value (not shown) has a query or fragment, which no OTLP endpoint "
	 "takes; accepted is http://HOST[:PORT][/PATH], https://HOST[:PORT][/PATH] or unix:/PATH"},
	{"endpoint: http://h/path", NULL, NULL,
	 "proflet: FILE:1:11: endpoint: \"http://h/path\" has a path, which gRPC does not take; "
	 "http/protobuf does"},
	{"protocol: http/protobuf\nendpoint: http://h/path", NULL, "--protocol grpc",
	 "proflet: option --protocol: \"http://h/path\" has a path, which gRPC does not take; http/protobuf "
	 "does"},
	{NULL, NULL, "--listen localhost",
	 "proflet: option --listen: \"localhost\" has no port; accepted is HOST:PORT, :PORT or off"},
	{NULL, NULL, "--listen [::1]",
	 "proflet: option --listen: \"[::1]\" has no port; accepted is HOST:PORT, :PORT or off"},
	{NULL, NULL, "--listen h:1/x",
	 "proflet: option --listen: \"h:1/x\" is no address; accepted is HOST:PORT, :PORT or off"},
	{NULL, NULL, "--listen :0",
	 "proflet: option --listen: \":0\" has a port that is no number from 1 to 65535; accepted is "
	 "HOST:PORT, :PORT or off"},
	/* the environment */
	{NULL, "OTEL_EXPORTER_OTLP_TIMEOUT=10s", NULL,
	 "proflet: environment variable OTEL_EXPORTER_OTLP_TIMEOUT: \"10s\" is not a whole number of "
	 "milliseconds from 1 to "
	 "3600000"},
	{NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=h:1 OTEL_EXPORTER_OTLP_INSECURE=maybe", NULL,
	 "proflet: environment variable OTEL_EXPORTER_OTLP_INSECURE: \"maybe\" is not true or false"},
	{NULL, "OTEL_EXPORTER_OTLP_HEADERS=api-key:secret", NULL,
	 "proflet: environment variable OTEL_EXPORTER_OTLP_HEADERS: entry 1 has no \"=\"; accepted is "
	 "NAME=VALUE,NAME=VALUE"},
	{NULL, "OTEL_RESOURCE_ATTRIBUTES=a=1,b=%zz", NULL,
	 "proflet: environment variable OTEL_RESOURCE_ATTRIBUTES: entry 2 has a bad %XX sequence; accepted "
	 "is "
	 "NAME=VALUE,NAME=VALUE"},
	/* secrets */
	{"headers: [secret]", NULL, NULL,
	 "proflet: FILE:1:10: headers: found a list; accepted is NAME=VALUE,NAME=VALUE"},
	{"headers: {a: \"secret\\r\"}", NULL, NULL,
	 "proflet: FILE:1:11: headers: entry 1 has a control character in its value; accepted is "
	 "NAME=VALUE,NAME=VALUE"},
	{NULL, NULL, "--headers se:cret=1",
	 "proflet: option --headers: entry 1 has a name that is no HTTP field name; accepted is "
	 "NAME=VALUE,NAME=VALUE"},
	/* keys against each other */
	{"memory: {tables: 512MiB}", NULL, NULL,
	 "proflet: FILE:1:18: memory.tables: memory.tables (536870912 bytes) is more than memory.total "
	 "(268435456 bytes)"},
	{"memory: {tables: 128MiB}", NULL, "--memory.total 100MiB",
	 "proflet: option --memory.total: memory.tables (134217728 bytes) is more than memory.total "
	 "(104857600 bytes)"},
	{NULL, NULL, "--tls.cert /c",
	 "proflet: option --tls.cert: tls.cert and tls.key are accepted only together"},
};

Test(config_errors, bad_settings_give_one_whole_line)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char line[512];
		struct load l;

		set_environment(bad[i].environment);
		load(&l, bad[i].yaml, bad[i].options, NULL, 0);
		clear_environment(bad[i].environment);
		cr_expect_eq(l.r, -EINVAL, "row %zu: returned %d", i, l.r);
		cr_expect_null(l.config);
		cr_expect_str_eq(line_of(&l, line), bad[i].error, "row %zu: %s", i, line_of(&l, line));
		cr_expect(!l.error || !strchr(l.error, '\n'));
		cr_expect(!l.error || !strstr(l.error, "secret"), "row %zu shows a secret", i);
		load_fini(&l);
	}
}
