// SPDX-License-Identifier: Apache-2.0
/*
 * The names of a process, by time. When the agent handles a sample, the process may already have called
 * execve, have been renamed or have ended. So each sample gets the image that was valid when it was taken,
 * and holds a reference on it; none of a sample's names is read from the process later. Rank 1; owned by the
 * process and by the samples.
 *
 * An image is valid until the next one begins. What belongs to its program is filled in once, when it
 * becomes known.
 */
#ifndef PROFLET_PROC_IMAGE_H
#define PROFLET_PROC_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/stat.h"

#define PROC_IMAGES_MAX 512u	    /* per process; before the oldest of them it is called "[unknown]" */
#define PROC_IMAGES_ALL_MAX 131072u /* of all processes; from then on each process has only its last one */

struct process;

/* What one execve set; shared by the images of the process and of its forks. */
struct proc_program {
	unsigned refs;
	bool runtime_refused; /* its language runtime is not what its file was taken for */
	/* Reports about its code objects that are such objects, and that are none. */
	uint32_t runtime_good, runtime_bad;
	uint64_t secret;	       /* random: nobody outside knows the numbers that it goes into */
	char *exe;		       /* path, owned; NULL while unknown */
	char comm[PROC_TASK_COMM_LEN]; /* that execve set: name of the file, or script; "": unknown */
	char *service_name; /* value of OTEL_SERVICE_NAME, owned; NULL: it has none, or it was not read yet */
	uint64_t environ_ns; /* CLOCK_MONOTONIC, after the environment was read; 0: it was not read */
	uint32_t environ_pid;
};

/* What the table's owner knows about a process (its workload), with a reference count. */
struct proc_context {
	void *data; /* NULL: unknown */
	void (*ref)(void *data);
	void (*unref)(void *data);
	uint64_t
		tenant; /* a number of whoever is responsible for it, to count shares (tenant.h); 0: not known */
};

struct proc_image {
	unsigned refs;
	struct proc_image *before; /* the previous image of the process, private */
	struct process *process;   /* the process; a reference on an image is one on its process, too */
	uint32_t pid;
	uint64_t start_ns; /* start of the process, which with the pid is its identity */
	uint64_t since_ns; /* CLOCK_MONOTONIC, begin of the image */
	char comm[PROC_TASK_COMM_LEN];
	bool selected;		      /* the process is to be sampled */
	struct proc_program *program; /* one reference */
	struct proc_context context;  /* the workload; one reference */
	uint64_t context_ns;	      /* when `context` had been read; 0: it is inherited */
	struct proc_context guess;    /* the inherited context, until its own is read; one reference */
};

/* Creates the first image of a process, without names. 0 or -ENOMEM. */
int proc_image_first(struct process *p);
/*
 * Begins another image at `since_ns`: *ret is a copy of the previous one, for the caller to change. Borrowed.
 * 0; -ENOMEM: the previous image continues.
 */
int proc_image_begin(struct process *p, uint64_t since_ns, struct proc_image **ret);
/* The same, with a new program. */
int proc_image_exec(struct process *p, uint64_t since_ns, struct proc_image **ret);
/* After a fork: gives the new process the present names of `parent`. */
void proc_image_inherit(struct process *p, const struct process *parent);
/* The image that was valid at that time; the first one for earlier times. Borrowed; never NULL. */
struct proc_image *proc_image_at(const struct process *p, uint64_t time_ns);
/* Sets the context; takes over one reference. `read_ns`: when it had been read. */
void proc_image_set_context(struct proc_image *i, struct proc_context context, uint64_t read_ns);
/* The pid went to another process at `time_ns`: discards what was read by the pid later. */
void proc_image_disown(struct proc_image *i, uint64_t time_ns);
/* Forgets images that ended before `time_ns`. */
void proc_images_forget(struct process *p, uint64_t time_ns);
void proc_images_fini(struct process *p);

struct proc_image *proc_image_ref(struct proc_image *i);
void proc_image_unref(struct proc_image *i); /* NULL is fine */

/*
 * Stores the value of OTEL_SERVICE_NAME (ownership moves; NULL: it has none), which was read by the pid
 * until `read_ns`.
 */
void proc_program_set_service(struct proc_program *g, char *name, uint32_t pid, uint64_t read_ns);
/*
 * The process ended the program at `time_ns`: discards what was read by its pid later, because it belongs to
 * another program.
 */
void proc_program_leave(struct proc_program *g, uint32_t pid, uint64_t time_ns);

/* The file name of the executable, or the comm if that is unknown. Borrowed from the image. */
const char *proc_image_executable(const struct proc_image *i);
/*
 * What a person calls the process: its comm, which is that of its main thread, or the file name of the
 * executable if the main thread was renamed to something that says only what it is ("MainThread",
 * "node-MainThread"). A program or script that is called so keeps its name. Borrowed.
 */
const char *proc_image_name(const struct proc_image *i);

/*
 * The task that ran when a sample was taken, with the names it had then. Borrowed until process events are
 * drained again; take references to hold it longer.
 */
struct sampled_task {
	struct process *process;
	struct proc_image *image; /* the names that the process had at that time */
	char thread[PROC_TASK_COMM_LEN];
};

#endif
