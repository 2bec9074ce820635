// SPDX-License-Identifier: Apache-2.0
/* Names of code made at run time, from the perf maps of this process and of one that it forks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/base/fs.h"
#include "agent/proc/mapping.h"
#include "agent/report/jit_names.h"
#include "fake_machine.h"
#include "tests/unit/agent/symbol/jit_support.h"

#define CODE 0x7f0000001000ull

struct scene {
	struct machine m;
	struct jit_names *names;
	struct process *process; /* this one */
};

static struct stack_frame frame_of(uint64_t word)
{
	return (struct stack_frame){.kind = frame_file(word) == FILE_ANONYMOUS ? STACK_FRAME_ANONYMOUS
									       : STACK_FRAME_NATIVE,
				    .word = word};
}

static const char *map_path(uint32_t pid)
{
	static char path[64];

	snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
	return path;
}

static void write_map(uint32_t pid, const char *text)
{
	cr_assert_eq(fs_write_file(map_path(pid), text, strlen(text)), 0);
}

/* A process that exists; when it started says the kernel. */
static struct process *real_process(struct machine *m, uint32_t pid)
{
	struct process *p = machine_process(m, pid);

	p->start_ns = 0;
	return p;
}

static void scene_init(struct scene *s)
{
	machine_init(&s->m, 1);
	cr_assert_eq(jit_names_new(&s->names, s->m.binaries), 0);
	s->process = real_process(&s->m, (uint32_t)getpid());
}

static void scene_fini(struct scene *s)
{
	unlink(map_path((uint32_t)getpid()));
	jit_names_free(s->names);
	machine_fini(&s->m);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static void map(struct process *p, uint64_t start, uint64_t end, uint64_t offset, uint32_t file)
{
	cr_assert_eq(proc_maps_own(p), 0);
	cr_assert_eq(proc_maps_insert(p->maps, (struct proc_mapping){start, end, offset, file}), 0);
}

static void run(struct worker_job *job)
{
	job->run(job);
	job->done(job, false);
}

/* Reads the process's files. */
static void look(struct scene *s, struct process *p)
{
	struct worker_job *job = jit_names_note(s->names, p, machine_now_ns);

	if (!job)
		job = jit_names_job(s->names, p);
	cr_assert_not_null(job);
	run(job);
}

/* The frame that a word of p's stack stands for; .function NULL: it has no name here. */
static struct frame named(struct scene *s, const struct process *p, uint64_t word)
{
	struct stack_frame f = frame_of(word);
	uint64_t id = jit_names_id(s->names, p, &f);
	struct frame ret = {0};

	cr_expect_eq(jit_names_frame(s->names, id, &ret), id != word);
	return ret;
}

static size_t jit_bytes(const struct scene *s)
{
	struct symbol_jit_stats stats;

	jit_names_stats(s->names, &stats);
	return stats.bytes;
}

Test(jit_names, the_first_sample_has_the_map_read)
{
	_cleanup_scene_ struct scene s;
	struct worker_job *job;
	struct frame f;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 generated\n");
	cr_expect_null(named(&s, s.process, CODE).function, "nothing is known of the process");
	cr_expect_null(jit_names_job(s.names, s.process));
	job = jit_names_note(s.names, s.process, machine_now_ns);
	cr_assert_not_null(job);
	cr_expect_null(jit_names_note(s.names, s.process, machine_now_ns), "it is known");
	cr_expect_null(jit_names_job(s.names, s.process), "one job at a time");
	run(job);
	f = named(&s, s.process, CODE + 0x10);
	cr_assert_not_null(f.function);
	cr_expect_str_eq(f.function, "generated");
	cr_expect_eq(f.address, CODE + 0x10);
	cr_expect_eq(f.kind, FRAME_NATIVE);
	cr_expect_null(f.module);
	cr_expect_null(f.runtime, "no library tells it");
	cr_expect_null(named(&s, s.process, CODE + 0x100).function, "behind the function");
	cr_expect_gt(jit_bytes(&s), 0);
}

Test(jit_names, the_map_is_read_on)
{
	_cleanup_scene_ struct scene s;
	struct worker_job *job;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 first\n");
	look(&s, s.process);
	write_map(s.process->pid, "7f0000001000 100 first\n7f0000002000 100 second\n");
	job = jit_names_job(s.names, s.process);
	cr_assert_not_null(job);
	run(job);
	cr_expect_str_eq(named(&s, s.process, CODE).function, "first");
	cr_expect_str_eq(named(&s, s.process, CODE + 0x1000).function, "second");
}

Test(jit_names, a_name_may_tell_its_language)
{
	_cleanup_scene_ struct scene s;
	struct frame f;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 JS:*work a.js:1:2\n7f0000002000 100 py::main:app.py\n"
				  "7f0000003000 100 stub\n");
	look(&s, s.process);
	f = named(&s, s.process, CODE);
	cr_expect_str_eq(f.function, "work a.js:1:2");
	cr_expect_null(f.system_name, "it would be another function in each tier");
	cr_expect_str_eq(f.tier, "turbofan");
	cr_expect_str_eq(f.runtime, "v8js");
	f = named(&s, s.process, CODE + 0x1000);
	cr_expect_str_eq(f.function, "main:app.py");
	cr_expect_str_eq(f.runtime, "cpython");
	cr_expect_str_eq(f.system_name, "py::main:app.py");
	cr_expect_null(f.tier);
	f = named(&s, s.process, CODE + 0x2000);
	cr_expect_str_eq(f.function, "stub");
	cr_expect_null(f.system_name);
}

Test(jit_names, else_a_library_of_the_process_does)
{
	_cleanup_scene_ struct scene s;
	uint32_t jvm;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 Interpreter\n");
	jvm = machine_binary(&s.m, machine_write(&s.m, "libjvm.so", "text", 4));
	map(s.process, 0x10000, 0x20000, 0, s.m.program);
	map(s.process, 0x20000, 0x30000, 0, jvm);
	look(&s, s.process);
	cr_expect_str_eq(named(&s, s.process, CODE).runtime, "jvm");
	cr_expect_str_eq(named(&s, s.process, CODE).runtime, "jvm", "and is remembered");
}

/* Memory that is mapped twice, to write code and to run it, is a file without ELF content. */
Test(jit_names, code_in_a_file_that_it_was_written_to)
{
	_cleanup_scene_ struct scene s;
	struct stack_frame in_memory, in_program;
	uint32_t memory;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 1000 generated\n");
	memory = machine_binary(&s.m, machine_write(&s.m, "memfd:code", "text", 4));
	in_memory = frame_of(frame_native(memory, 0x5010));
	in_program = frame_of(machine_alpha_frame(&s.m));
	cr_expect(jit_names_wants(s.names, &in_memory));
	cr_expect(jit_names_wants(s.names, &in_memory), "and is remembered");
	cr_expect_not(jit_names_wants(s.names, &in_program));
	cr_expect_eq(jit_names_id(s.names, s.process, &in_program), in_program.word);
	map(s.process, 0x10000, 0x11000, 0x9000, memory);
	look(&s, s.process);
	cr_expect_null(named(&s, s.process, in_memory.word).function, "that part is mapped nowhere");
	map(s.process, CODE, CODE + 0x1000, 0x5000, memory);
	cr_expect_str_eq(named(&s, s.process, in_memory.word).function, "generated");
	cr_expect_eq(named(&s, s.process, in_memory.word).address, CODE + 0x10);
}

Test(jit_names, a_jitdump_file_is_found_among_the_mappings)
{
	_cleanup_scene_ struct scene s;
	struct dump d = {0};
	uint32_t dump;

	scene_init(&s);
	dump_header(&d, 0);
	dump_load(&d, CODE, 0x100, "dumped");
	dump = machine_binary(&s.m, machine_write(&s.m, "jit-4711.dump", d.b.data, d.b.len));
	buf_fini(&d.b);
	map(s.process, 0x10000, 0x20000, 0, s.m.program);
	map(s.process, 0x20000, 0x21000, 0, dump);
	look(&s, s.process);
	cr_expect_str_eq(named(&s, s.process, CODE + 0x10).function, "dumped");
}

/* The same address is other code in another process. */
Test(jit_names, processes_have_numbers_of_their_own)
{
	_cleanup_scene_ struct scene s;
	struct stack_frame f = frame_of(CODE);
	struct process *other;
	uint64_t ids[2];
	struct frame ret;
	pid_t child;

	scene_init(&s);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	other = real_process(&s.m, (uint32_t)child);
	write_map(s.process->pid, "7f0000001000 100 ours\n");
	write_map(other->pid, "7f0000001000 100 theirs\n");
	look(&s, s.process);
	look(&s, other);
	ids[0] = jit_names_id(s.names, s.process, &f);
	ids[1] = jit_names_id(s.names, other, &f);
	cr_expect(ids[0] != ids[1] && ids[0] != f.word && ids[1] != f.word);
	cr_expect(jit_names_frame(s.names, ids[0], &ret));
	cr_expect_str_eq(ret.function, "ours");
	cr_expect(jit_names_frame(s.names, ids[1], &ret));
	cr_expect_str_eq(ret.function, "theirs");
	unlink(map_path(other->pid));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(jit_names, a_process_that_has_ended)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 generated\n");
	look(&s, s.process);
	proc_table_end(s.m.processes, s.process, machine_now_ns);
	jit_names_sweep(s.names, machine_now_ns);
	cr_expect_not_null(named(&s, s.process, CODE).function, "its last sample was not before that");
	jit_names_sweep(s.names, machine_now_ns + 1);
	cr_expect_null(named(&s, s.process, CODE).function);
	cr_expect_null(jit_names_note(s.names, s.process, machine_now_ns), "nothing can be read any more");
}

Test(jit_names, a_process_that_does_not_exist)
{
	_cleanup_scene_ struct scene s;
	struct process *p;

	scene_init(&s);
	p = machine_process(&s.m, 0x7fffffff);
	cr_expect_null(jit_names_note(s.names, p, machine_now_ns));
	cr_expect_null(named(&s, p, CODE).function);
}

Test(jit_names, a_number_of_code_that_has_no_name_any_more)
{
	_cleanup_scene_ struct scene s;
	struct stack_frame f = frame_of(CODE);
	struct frame ret;
	uint64_t id;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 generated\n");
	look(&s, s.process);
	id = jit_names_id(s.names, s.process, &f);
	write_map(s.process->pid, "7f0000009000 100 elsewhere\n");
	look(&s, s.process);
	cr_expect(jit_names_frame(s.names, id, &ret));
	cr_expect_null(ret.function);
	cr_expect_eq(ret.address, CODE);
}

/* A map that is not the process's own is not read, and the log says so once. */
Test(jit_names, refused_maps_are_logged)
{
	_cleanup_scene_ struct scene s;
	_cleanup_fclose_ FILE *log = tmpfile();
	_cleanup_buf_ struct buf text = {0};
	const char *at, *said = "is not read: it is a symbolic link";
	int saved = dup(STDERR_FILENO);

	scene_init(&s);
	cr_assert_eq(symlink("/etc/passwd", map_path(s.process->pid)), 0);
	look(&s, s.process);
	cr_assert_eq(dup2(fileno(log), STDERR_FILENO), STDERR_FILENO);
	jit_names_sweep(s.names, 0);
	look(&s, s.process);
	jit_names_sweep(s.names, 0);
	dup2(saved, STDERR_FILENO);
	close(saved);
	cr_assert_eq(lseek(fileno(log), 0, SEEK_SET), 0);
	cr_assert_eq(fs_read_fd(fileno(log), 1 << 16, &text), 0);
	at = strstr(buf_str(&text), said);
	cr_assert_not_null(at, "%s", buf_str(&text));
	cr_expect_null(strstr(at + 1, said));
	cr_expect_null(named(&s, s.process, CODE).function);
}

/* From a sample in such code to the request. */
Test(jit_names, names_in_a_request)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	write_map(s.process->pid, "7f0000001000 100 JS:~work a.js:1:2\n");
	machine_report(&s.m);
	machine_add_alpha(&s.m, s.process, frame_anonymous(CODE + 0x20));
	machine_flush(&s.m);
	cr_assert_eq(s.m.n_sent, 1);
	cr_expect_str_eq(s.m.sent[0].frames, "machine_alpha;work a.js:1:2");
	cr_expect_str_eq(s.m.sent[0].kinds, "native;v8js");
	cr_expect_str_eq(s.m.stacks[0].frames, "machine_alpha;work a.js:1:2");
}
