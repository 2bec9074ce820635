// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "tests/unit/agent/config/config_load.h"

Test(config, defaults_are_those_of_the_table_in_the_manual)
{
	struct load l;
	struct config *c;

	unsetenv("K8S_NODE_NAME");
	load(&l, NULL, NULL, NULL, 0);
	cr_assert_eq(l.r, 0, "%s", l.error);
	c = l.config;
	cr_assert_str_eq(c->endpoint, "http://localhost:4317");
	cr_assert_eq(c->protocol, CONFIG_PROTOCOL_GRPC);
	cr_assert_eq(c->headers.n, 0u);
	cr_assert_null(c->headers_file);
	cr_assert_eq(c->compression, CONFIG_COMPRESSION_GZIP);
	cr_assert_eq(c->timeout_ns, 10000000000ull);
	cr_assert(!c->tls.ca && !c->tls.cert && !c->tls.key && !c->tls.server_name && !c->tls.insecure);
	cr_assert_eq(c->sampling.frequency, 19u);
	cr_assert_eq(c->sampling.event, CONFIG_EVENT_AUTO);
	cr_assert_eq(c->window_ns, 10000000000ull);
	cr_assert_eq(c->samples, CONFIG_SAMPLES_TIMESTAMPS);
	cr_assert_eq(c->resource, CONFIG_RESOURCE_CONTAINER);
	cr_assert_eq(c->attributes.sample.n, 3u);
	cr_assert_str_eq(c->attributes.sample.items[0], "process.pid");
	cr_assert_str_eq(c->attributes.sample.items[1], "process.executable.name");
	cr_assert_str_eq(c->attributes.sample.items[2], "thread.name");
	cr_assert(c->select.include.n == 0 && c->select.exclude.n == 0);
	cr_assert_eq(c->stack.depth, 512u);
	cr_assert_eq(c->memory.tables_bytes, 64ull << 20);
	cr_assert_eq(c->memory.total_bytes, 256ull << 20);
	cr_assert_float_eq(c->cpu.max, 0.05, 1e-9);
	cr_assert_eq(c->queue.memory_bytes, 32ull << 20);
	cr_assert_null(c->queue.spool);
	cr_assert_eq(c->queue.spool_max_bytes, 1ull << 30);
	cr_assert(c->symbols.kernel && c->symbols.native && c->symbols.debug_files);
	cr_assert_eq(c->symbols.unresolved, CONFIG_UNRESOLVED_OFFSET);
	cr_assert(c->runtimes.python && c->runtimes.php && c->runtimes.ruby && c->runtimes.perl &&
		  c->runtimes.lua && c->runtimes.node && !c->runtimes.loop_frames &&
		  !c->runtimes.python_tasks);
	cr_assert(!c->kubernetes.metadata && !c->kubernetes.kubelet && !c->kubernetes.node);
	cr_assert_str_eq(c->listen, "127.0.0.1:9464");
	cr_assert_eq(c->log.level, LOG_INFO);
	cr_assert_eq(c->log.format, LOG_FORMAT_LOGFMT);
	load_fini(&l);
}

/* A setting, and the line that the dump has for its key. */
static const struct {
	const char *yaml, *environment, *options, *dump;
} good[] = {
	{"", NULL, NULL, "window: 10s # default"},
	{"---\n", NULL, NULL, "window: 10s # default"},
	{"# nothing\n", NULL, NULL, "window: 10s # default"},
	{"sampling: {frequency: 97}", NULL, NULL, "sampling.frequency: 97 # FILE:1"},
	{"sampling:\n  frequency: 97\n  event: tick\n", NULL, NULL, "sampling.event: tick # FILE:3"},
	{"sampling.frequency: 97", NULL, NULL, "sampling.frequency: 97 # FILE:1"},
	{"sampling:\nwindow: 1m\n", NULL, NULL, "window: 1m # FILE:2"},
	{"sampling: {frequency: }", NULL, NULL, "sampling.frequency: 19 # default"},
	{"sampling: {frequency: ~}", NULL, NULL, "sampling.frequency: 19 # default"},
	{"sampling: {frequency: \"97\"}", NULL, NULL, "sampling.frequency: 97 # FILE:1"},
	{"queue: {spool: off}", NULL, NULL, "queue.spool: off # FILE:1"},
	{"queue: {spool: /var/spool/p}", NULL, NULL, "queue.spool: \"/var/spool/p\" # FILE:1"},
	{"cpu: {max: 12.5%}", NULL, NULL, "cpu.max: 12.5% # FILE:1"},
	{"memory: {tables: 8MiB, total: 1GiB}", NULL, NULL, "memory.total: 1GiB # FILE:1"},
	{"attributes: {sample: [thread.id, process.pid]}", NULL, NULL,
	 "attributes.sample: [\"thread.id\", \"process.pid\"] # FILE:1"},
	{"attributes: {sample: []}", NULL, NULL, "attributes.sample: [] # FILE:1"},
	{"attributes:\n  sample: thread.id, process.pid\n", NULL, NULL,
	 "attributes.sample: [\"thread.id\", \"process.pid\"] # FILE:2"},
	{"select: {include: [pid=1, comm=nginx, cgroup=/a/b, container=0123456789ab]}", NULL, NULL,
	 "select.include: [\"pid=1\", \"comm=nginx\", \"cgroup=/a/b\", \"container=0123456789ab\"] # FILE:1"},
	{"headers: {Authorization: Bearer x, a: b}", NULL, NULL,
	 "headers: {\"authorization\": \"***\", \"a\": \"***\"} # FILE:1"},
	{"listen: off", NULL, NULL, "listen: off # FILE:1"},
	{"listen: ':9464'", NULL, NULL, "listen: \":9464\" # FILE:1"},
	{"tls: {cert: /a b/c.pem, key: \"/k\\\\\\\"\"}", NULL, NULL, "tls.key: \"/k\\\\\\\"\" # FILE:1"},
	{NULL, NULL, "--sampling.frequency 97", "sampling.frequency: 97 # --sampling.frequency"},
	{NULL, NULL, "--sampling.frequency=97", "sampling.frequency: 97 # --sampling.frequency"},
	{NULL, NULL, "--window 1s --window 2s", "window: 2s # --window"},
	{NULL, NULL, "--select.exclude pid=1 --select.exclude=pid=2,pid=3",
	 "select.exclude: [\"pid=1\", \"pid=2\", \"pid=3\"] # --select.exclude"},
	{NULL, NULL, "--protocol http/protobuf", "endpoint: \"http://localhost:4318\" # default"},
	{NULL, NULL, "--endpoint https://[::1]:4317", "endpoint: \"https://[::1]:4317\" # --endpoint"},
	{NULL, NULL, "--protocol http/protobuf --endpoint http://h/x",
	 "endpoint: \"http://h/x\" # --endpoint"},
	{NULL, NULL, "--tls.insecure yes", "tls.insecure: on # --tls.insecure"},
	{NULL, "PROFLET_SAMPLING_FREQUENCY=49", NULL, "sampling.frequency: 49 # PROFLET_SAMPLING_FREQUENCY"},
	{NULL, "PROFLET_QUEUE_SPOOL_MAX=2GiB", NULL, "queue.spool_max: 2GiB # PROFLET_QUEUE_SPOOL_MAX"},
	{NULL, "PROFLET_WINDOW=", NULL, "window: 10s # default"},
	{NULL, "PROFLET_PORT=tcp://10.0.0.1:80", NULL,
	 "window: 10s # default"}, /* a Kubernetes service variable */
	{NULL, "OTEL_EXPORTER_OTLP_TIMEOUT=1500", NULL, "timeout: 1500ms # OTEL_EXPORTER_OTLP_TIMEOUT"},
	{NULL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=grpc", NULL,
	 "protocol: grpc # OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL"},
	{NULL, "OTEL_EXPORTER_OTLP_COMPRESSION=none", NULL,
	 "compression: none # OTEL_EXPORTER_OTLP_COMPRESSION"},
	{NULL, "OTEL_EXPORTER_OTLP_CERTIFICATE=/ca", NULL,
	 "tls.ca: \"/ca\" # OTEL_EXPORTER_OTLP_CERTIFICATE"},
	{NULL, "OTEL_EXPORTER_OTLP_CLIENT_KEY=/k OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/c", NULL,
	 "tls.cert: \"/c\" # OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
	{NULL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%2Cb,x=", NULL,
	 "headers: {\"api-key\": \"***\", \"x\": \"***\"} # OTEL_EXPORTER_OTLP_HEADERS"},
	{NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=c:4317", NULL,
	 "endpoint: \"https://c:4317\" # OTEL_EXPORTER_OTLP_ENDPOINT"},
	{NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=c:4317 OTEL_EXPORTER_OTLP_INSECURE=true", NULL,
	 "endpoint: \"http://c:4317\" # OTEL_EXPORTER_OTLP_ENDPOINT"},
	{NULL, "OTEL_EXPORTER_OTLP_ENDPOINT=https://c OTEL_EXPORTER_OTLP_INSECURE=true", NULL,
	 "endpoint: \"https://c\" # OTEL_EXPORTER_OTLP_ENDPOINT"},
	{NULL,
	 "OTEL_EXPORTER_OTLP_ENDPOINT=c:1 OTEL_EXPORTER_OTLP_PROFILES_INSECURE=true "
	 "OTEL_EXPORTER_OTLP_INSECURE=false",
	 NULL, "endpoint: \"http://c:1\" # OTEL_EXPORTER_OTLP_ENDPOINT"},
	{NULL, "K8S_NODE_NAME=n1", NULL, "kubernetes.node: \"n1\" # K8S_NODE_NAME"},
	{"kubernetes: {node: n2}", "K8S_NODE_NAME=n1", NULL, "kubernetes.node: \"n2\" # FILE:1"},
	/* option > environment > file > default, and our variable > the profiles form > the general one */
	{"window: 1s", "PROFLET_WINDOW=2s", "--window 3s", "window: 3s # --window"},
	{"window: 1s", "PROFLET_WINDOW=2s", NULL, "window: 2s # PROFLET_WINDOW"},
	{"timeout: 1s", "OTEL_EXPORTER_OTLP_TIMEOUT=2000", NULL, "timeout: 2s # OTEL_EXPORTER_OTLP_TIMEOUT"},
	{NULL, "OTEL_EXPORTER_OTLP_TIMEOUT=2000 OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT=3000", NULL,
	 "timeout: 3s # OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT"},
	{NULL, "OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT=3000 PROFLET_TIMEOUT=4s", NULL,
	 "timeout: 4s # PROFLET_TIMEOUT"},
	{"attributes: {sample: [thread.id]}", NULL, "--attributes.sample process.pid",
	 "attributes.sample: [\"process.pid\"] # --attributes.sample"},
};

Test(config, good_settings)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_buf_ struct buf dump = {0};
		char text[512], path[80];
		struct load l;
		char *at;

		set_environment(good[i].environment);
		load(&l, good[i].yaml, good[i].options, NULL, 0);
		clear_environment(good[i].environment);
		cr_assert_eq(l.r, 0, "row %zu: %s", i, l.error);
		cr_assert_eq(config_dump(l.config, &dump), 0);
		/* the dump names the temporary file */
		snprintf(text, sizeof text, "%s", good[i].dump);
		at = strstr(text, "FILE:");
		if (at) {
			snprintf(path, sizeof path, "%s:%s\n", l.path, at + 5);
			snprintf(at, sizeof text - (size_t)(at - text), "%s", path);
		} else {
			strcat(text, "\n");
		}
		cr_assert(strstr(buf_str(&dump), text), "row %zu: no line %s in\n%s", i, text,
			  buf_str(&dump));
		load_fini(&l);
	}
}

Test(config, dump_can_be_read_back)
{
	_cleanup_buf_ struct buf first = {0}, second = {0};
	struct load l, again;

	load(&l, NULL,
	     "--window 1500ms --cpu.max 2.5% --queue.spool /s --select.include pid=7 --symbols.kernel off "
	     "--listen :1",
	     NULL, 0);
	cr_assert_eq(l.r, 0);
	cr_assert_eq(config_dump(l.config, &first), 0);
	load(&again, buf_str(&first), NULL, NULL, 0);
	cr_assert_eq(again.r, 0, "%s", again.error);
	cr_assert_eq(config_dump(again.config, &second), 0);
	for (const char *a = buf_str(&first), *b = buf_str(&second); *a && *b; a += strcspn(a, "\n") + 1) {
		size_t n = strstr(a, " # ") - a;

		cr_assert_eq(strncmp(a, b, n), 0, "%.60s / %.60s", a, b);
		b += strcspn(b, "\n") + 1;
		cr_assert_eq(!a[strcspn(a, "\n") + 1], !*b, "the second dump has another number of lines");
	}
	load_fini(&l);
	load_fini(&again);
}

Test(config, resource_attributes)
{
	struct load l;

	setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=a%20b, service.name=s1 ,k%2C=v%3D", 1);
	load(&l, NULL, NULL, NULL, 0);
	cr_assert_eq(l.r, 0, "%s", l.error);
	cr_assert_eq(l.config->otel.resource_attributes.n, 3u);
	cr_assert_str_eq(l.config->otel.resource_attributes.items[0].value, "a b");
	cr_assert_str_eq(l.config->otel.resource_attributes.items[2].key, "k,");
	cr_assert_str_eq(l.config->otel.resource_attributes.items[2].value, "v=");
	load_fini(&l);
}

/* As in the chart's container, for those who run another command in it. */
Test(config, the_file_of_the_environment)
{
	char path[] = "/tmp/proflet-config-XXXXXX";
	int fd = mkstemp(path);
	struct load l;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "window: 7s\n", 11), 11);
	close(fd);
	setenv("PROFLET_CONFIG", path, 1);
	load(&l, NULL, NULL, NULL, 0);
	cr_assert_eq(l.r, 0, "%s", l.error);
	cr_expect_eq(l.config->window_ns, 7000000000ull);
	load_fini(&l);
	load(&l, "window: 8s\n", NULL, NULL, 0);
	cr_assert_eq(l.r, 0, "%s", l.error);
	cr_expect_eq(l.config->window_ns, 8000000000ull, "--config comes first");
	load_fini(&l);
	cr_assert_eq(unlink(path), 0);
	load(&l, NULL, NULL, NULL, 0);
	cr_expect_lt(l.r, 0);
	cr_expect(l.error && strstr(l.error, path), "%s", l.error);
	load_fini(&l);
}

Test(config, endpoint_of_the_profiles_form_is_a_whole_url)
{
	struct load l;

	setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", 1);
	setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318", 1);
	load(&l, NULL, NULL, NULL, 0);
	cr_assert_not(l.config->endpoint_is_signal_url);
	load_fini(&l);
	setenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://b/own/path", 1);
	load(&l, NULL, NULL, NULL, 0);
	cr_assert(l.config->endpoint_is_signal_url);
	cr_assert_str_eq(l.config->endpoint, "http://b/own/path");
	load_fini(&l);
	load(&l, NULL, "--endpoint http://c:4318", NULL, 0);
	cr_assert_not(l.config->endpoint_is_signal_url);
	load_fini(&l);
}
