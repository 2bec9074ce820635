// SPDX-License-Identifier: Apache-2.0
#include "fake_machine.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/output/profile.h"
#include "otlp/messages.h"
#include "otlp/request.h"

#define BINARIES_MAX 16
#define SPILLED_MAX (64u << 20)

uint64_t machine_now_ns;
int64_t machine_real_offset_ns;

static const char symbols[] = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n"
			      "ffffffffc0001000 t module_function\t[mod]\n";
static char *attributes[] = {(char *)"process.pid", (char *)"process.executable.name", (char *)"thread.name"};

/*
 * Functions that frames are in: the program is linked without PIE, so that addresses are those of its file.
 */
__attribute__((noinline, used)) static int machine_alpha(int x)
{
	return x * 3 + 1;
}

__attribute__((noinline, used)) static int machine_beta(int x)
{
	return x * 5 + 1;
}

static uint64_t fake_mono_ns(void)
{
	return machine_now_ns;
}

static int64_t fake_real_offset_ns(void)
{
	return machine_real_offset_ns;
}

/* --- what was sent */

static void join(char *text, size_t size, const char *separator, const char *more)
{
	size_t n = strlen(text);

	snprintf(text + n, size - n, "%s%s", n ? separator : "", more);
}

static void join_attribute(char *text, size_t size, const char *key, const otlp_any_value *v)
{
	char one[512];

	if (v->value_case == OTLP_ANY_VALUE_INT)
		snprintf(one, sizeof one, "%s=%lld", key, (long long)v->int_value);
	else
		snprintf(one, sizeof one, "%s=%s", key, v->string_value);
	join(text, size, ";", one);
}

static void keep_location(const otlp_dictionary *d, const otlp_location *l, struct sent *s)
{
	const otlp_mapping *m = d->mapping_table[l->mapping_index];
	char names[512] = "";

	for (size_t i = 0; i < l->n_lines; i++)
		join(names, sizeof names, "<",
		     d->string_table[d->function_table[l->lines[i]->function_index]->name_strindex]);
	join(s->frames, sizeof s->frames, ";", names);
	join(s->kinds, sizeof s->kinds, ";",
	     d->attribute_table[l->attribute_indices[0]]->value->string_value);
	join(s->mappings, sizeof s->mappings, ";", d->string_table[m->filename_strindex]);
}

static void keep_events(const otlp_sample *from, struct sent *s)
{
	s->n_times = from->n_timestamps_unix_nano;
	s->n_values = from->n_values;
	cr_assert(s->n_times <= SENT_TIMES_MAX && s->n_values <= SENT_TIMES_MAX);
	if (s->n_times)
		memcpy(s->times_ns, from->timestamps_unix_nano, s->n_times * sizeof *s->times_ns);
	if (s->n_values)
		memcpy(s->values, from->values, s->n_values * sizeof *s->values);
	s->n = s->n_times;
	for (size_t i = 0; !s->n_times && i < s->n_values; i++)
		s->n += (size_t)s->values[i];
}

static void keep_sample(struct machine *m, const otlp_dictionary *d, const otlp_resource *resource,
			const otlp_profile *p, const otlp_sample *from)
{
	const otlp_stack *stack = d->stack_table[from->stack_index];
	struct sent *s = &m->sent[m->n_sent++];

	cr_assert_leq(m->n_sent, SENT_MAX);
	*s = (struct sent){.request = m->n_requests,
			   .period = p->period,
			   .start_ns = p->time_unix_nano,
			   .duration_ns = p->duration_nano};
	snprintf(s->type, sizeof s->type, "%s", d->string_table[p->sample_type->type_strindex]);
	snprintf(s->unit, sizeof s->unit, "%s", d->string_table[p->sample_type->unit_strindex]);
	for (size_t i = 0; i < resource->n_attributes; i++)
		join_attribute(s->resource, sizeof s->resource, resource->attributes[i]->key,
			       resource->attributes[i]->value);
	for (size_t i = 0; i < from->n_attribute_indices; i++) {
		const otlp_key_value_and_unit *a = d->attribute_table[from->attribute_indices[i]];

		join_attribute(s->attributes, sizeof s->attributes, d->string_table[a->key_strindex],
			       a->value);
	}
	for (size_t i = 0; i < stack->n_location_indices; i++)
		keep_location(d, d->location_table[stack->location_indices[i]], s);
	keep_events(from, s);
}

static void keep_resource(struct machine *m, const otlp_dictionary *d, const otlp_resource_profiles *r)
{
	for (size_t i = 0; i < r->n_scope_profiles; i++)
		for (size_t k = 0; k < r->scope_profiles[i]->n_profiles; k++) {
			const otlp_profile *p = r->scope_profiles[i]->profiles[k];

			for (size_t j = 0; j < p->n_samples; j++)
				keep_sample(m, d, r->resource, p, p->samples[j]);
		}
}

static void on_spill(const void *bytes, size_t len, void *data)
{
	struct machine *m = data;

	cr_assert_eq(buf_append(&m->spilled, bytes, len), 0);
}

/* A request is what was spilled before, then its own bytes. */
static void on_emit(struct otlp_request *request, void *data)
{
	struct machine *m = data;
	otlp_export_request *message;

	cr_assert_eq(buf_append(&m->spilled, request->data.data, request->data.len), 0);
	message =
		opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
			NULL, m->spilled.len, m->spilled.data);
	cr_assert_not_null(message);
	for (size_t i = 0; i < message->n_resource_profiles; i++)
		keep_resource(m, message->dictionary, message->resource_profiles[i]);
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
		message, NULL);
	m->n_events += request->n_samples;
	m->n_requests++;
	buf_clear(&m->spilled);
	otlp_request_free(request);
}

static void on_stack(const struct output_stack *stack, void *data)
{
	struct machine *m = data;
	struct kept_stack *k = &m->stacks[m->n_stacks++];

	cr_assert_leq(m->n_stacks, SENT_MAX);
	*k = (struct kept_stack){.pid = stack->pid, .count = stack->count, .complete = stack->complete};
	snprintf(k->process, sizeof k->process, "%s", stack->process);
	snprintf(k->thread, sizeof k->thread, "%s", stack->thread);
	snprintf(k->container, sizeof k->container, "%s", stack->container ?: "");
	snprintf(k->container_name, sizeof k->container_name, "%s", stack->container_name ?: "");
	for (size_t i = 0; i < stack->n_frames; i++)
		join(k->frames, sizeof k->frames, ";", stack->frames[i].function ?: "?");
}

/* --- the machine */

static void on_forget(uint32_t index, void *data)
{
	const struct machine *m = data;

	if (m->report)
		report_forget_file(m->report, index);
}

static void set_config(struct config *c)
{
	c->sampling.frequency = 100;
	c->symbols.kernel = c->symbols.native = true;
	c->attributes.sample = (struct config_list){.items = attributes, .n = ARRAY_SIZE(attributes)};
}

void machine_init(struct machine *m, unsigned threads)
{
	*m = (struct machine){.dir = "/tmp/proflet-test-XXXXXX", .spilled = {.max = SPILLED_MAX}};
	machine_now_ns = MACHINE_START_NS;
	machine_real_offset_ns = MACHINE_UNIX_NS - (int64_t)MACHINE_START_NS;
	cr_assert_not_null(mkdtemp(m->dir));
	set_config(&m->config);
	m->sent = calloc(SENT_MAX, sizeof *m->sent);
	m->stacks = calloc(SENT_MAX, sizeof *m->stacks);
	cr_assert(m->sent && m->stacks);
	snprintf(m->kallsyms, sizeof m->kallsyms, "%s/kallsyms", m->dir);
	cr_assert_eq(fs_write_file(m->kallsyms, symbols, strlen(symbols)), 0);
	cr_assert_eq(worker_new(&m->worker, threads, 64, "test"), 0);
	cr_assert_eq(binary_registry_new(&m->binaries, BINARIES_MAX, fake_mono_ns), 0);
	binary_registry_on_forget(m->binaries, on_forget, m);
	cr_assert_eq(proc_table_new(&m->processes, 64, NULL), 0);
	cr_assert_eq(cgroup_meta_cache_new(&m->workloads, 16), 0);
	m->program = machine_binary(m, "/proc/self/exe");
	cr_assert(binary_registry_hold(m->binaries, m->program));
	m->options = (struct report_options){
		.config = &m->config,
		.binaries = m->binaries,
		.worker = m->worker,
		.window_bytes = 1u << 20,
		.kallsyms = m->kallsyms,
		.clock = {fake_mono_ns, fake_real_offset_ns},
		.emit = on_emit,
		.emit_data = m,
		.stack = on_stack,
		.stack_data = m,
	};
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st, (void)flag, (void)at;
	return remove(path);
}

void machine_fini(struct machine *m)
{
	worker_free(m->worker); /* before those whose jobs it has */
	report_free(TAKE_PTR(m->report));
	proc_table_free(m->processes);
	binary_registry_free(m->binaries);
	cgroup_meta_cache_free(m->workloads);
	buf_fini(&m->spilled);
	free(m->sent);
	free(m->stacks);
	cr_expect_eq(nftw(m->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void machine_report(struct machine *m)
{
	if (m->options.one_request)
		m->options.spill = on_spill;
	cr_assert_eq(report_new(&m->report, &m->options), 0);
}

void machine_work(struct machine *m)
{
	while (worker_pending(m->worker)) {
		worker_drain(m->worker, MACHINE_WAIT_NS);
		if (m->report)
			report_progress(m->report);
	}
}

void machine_flush(struct machine *m)
{
	report_close_window(m->report);
	machine_work(m);
	report_send(m->report);
}

static void block_run(struct worker_job *job)
{
	sem_wait(&container_of(job, struct machine, block)->unblock);
}

static void block_done(struct worker_job *job, bool cancelled)
{
	(void)job, (void)cancelled;
}

void machine_block(struct machine *m)
{
	m->block = (struct worker_job){.run = block_run, .done = block_done};
	cr_assert_eq(sem_init(&m->unblock, 0, 0), 0);
	cr_assert_eq(worker_submit(m->worker, &m->block, WORKER_HIGH), 0);
}

void machine_unblock(struct machine *m)
{
	sem_post(&m->unblock);
}

const char *machine_write(const struct machine *m, const char *name, const void *bytes, size_t len)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", m->dir, name);
	cr_assert_eq(fs_write_file(path, bytes, len), 0);
	return path;
}

/* --- processes, binaries, samples */

struct process *machine_process(struct machine *m, uint32_t pid)
{
	struct process *p;

	cr_assert_eq(proc_table_add(m->processes, pid, machine_now_ns, &p), 0);
	snprintf(p->image->comm, sizeof p->image->comm, "app");
	p->image->program->exe = strdup("/usr/bin/app");
	cr_assert_not_null(p->image->program->exe);
	return p;
}

static void meta_ref(void *data)
{
	cgroup_meta_ref(data);
}

static void meta_unref(void *data)
{
	cgroup_meta_unref(data);
}

void machine_workload(struct machine *m, struct process *p, const char *container, const char *pod,
		      const char *unit)
{
	struct cgroup_identity id = {0};
	struct cgroup_meta *meta;

	snprintf(id.container_id, sizeof id.container_id, "%s", container);
	snprintf(id.pod_uid, sizeof id.pod_uid, "%s", pod);
	snprintf(id.unit, sizeof id.unit, "%s", unit);
	cr_assert_eq(cgroup_meta_get(m->workloads, &id, &meta), 0);
	proc_image_set_context(p->image, (struct proc_context){meta, meta_ref, meta_unref, 0}, 0);
}

uint32_t machine_binary(struct machine *m, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t index = 0;
	struct stat st;

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(binary_registry_add(m->binaries, fd, &st, path, &index), 0);
	return index;
}

uint64_t machine_alpha_frame(const struct machine *m)
{
	return frame_native(m->program, (uint64_t)(uintptr_t)machine_alpha + 1);
}

uint64_t machine_beta_frame(const struct machine *m)
{
	return frame_native(m->program, (uint64_t)(uintptr_t)machine_beta + 1);
}

struct sample_view machine_sample(const struct process *p, const uint64_t *words, uint16_t n_kernel,
				  uint16_t n_user)
{
	return (struct sample_view){.time_ns = machine_now_ns,
				    .value = 1,
				    .pid = p->pid,
				    .tid = p->pid,
				    .ending = ENDING_ROOT,
				    .n_kernel = n_kernel,
				    .n_user = n_user,
				    .frames = words};
}

void machine_add(struct machine *m, struct process *p, const struct sample_view *v)
{
	struct sampled_task task = {.process = p, .image = proc_image_at(p, v->time_ns), .thread = "worker"};

	report_add(m->report, &task, v);
}

void machine_add_alpha(struct machine *m, struct process *p, uint64_t caller)
{
	const uint64_t words[] = {machine_alpha_frame(m), caller};
	struct sample_view v = machine_sample(p, words, 0, 2);

	machine_add(m, p, &v);
}

struct report_stats machine_stats(const struct machine *m)
{
	struct report_stats s;

	report_stats(m->report, &s);
	return s;
}

size_t machine_sent(const struct machine *m, const char *frames)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_sent; i++)
		if (strcmp(m->sent[i].frames, frames) == 0)
			n += m->sent[i].n;
	return n;
}
