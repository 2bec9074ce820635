// SPDX-License-Identifier: Apache-2.0
/*
 * What a process is called, by time. A sample is looked at when the process may have called execve, have been
 * renamed or be over: it is given the image that held when it was taken, and keeps that by reference; nothing
 * of a sample's names is read from the process later. Rank 1; owned by the process and by the samples.
 *
 * An image holds until the next one begins. What its program is, is filled in as it becomes known, once.
 */
#ifndef PROFLET_PROC_IMAGE_H
#define PROFLET_PROC_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/stat.h"

#define PROC_IMAGES_MAX 512u	    /* kept of one process; before that it is called "[unknown]" */
#define PROC_IMAGES_ALL_MAX 131072u /* of all; from then on each process keeps its last */

struct process;

/* What one execve has made; shared by the images and the forks that run it. */
struct proc_program {
	unsigned refs;
	char *exe;	     /* path, NULL while unknown; owned */
	char *service_name;  /* its OTEL_SERVICE_NAME, NULL: none, or not read yet; owned */
	uint64_t environ_ns; /* CLOCK_MONOTONIC, after that was read; 0: it was not */
	uint32_t environ_pid;
};

/* Something that the owner of the table knows of a process, with a reference count of its own. */
struct proc_context {
	void *data; /* NULL: not known */
	void (*ref)(void *data);
	void (*unref)(void *data);
};

struct proc_image {
	unsigned refs;
	struct proc_image *before; /* the process's, for its own use */
	struct process *process;   /* whose it is; a reference on an image is one on this, too */
	uint32_t pid;
	uint64_t start_ns; /* of the process: with the pid its identity */
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	char comm[PROC_TASK_COMM_LEN];
	bool selected;		      /* it is to be sampled */
	struct proc_program *program; /* one reference */
	struct proc_context context;  /* the workload; one reference */
	uint64_t context_ns;	      /* after it was read; 0: it is inherited */
	struct proc_context guess;    /* the one before it was read; one reference */
};

/* The first image of a process, with nothing known. 0 or -ENOMEM. */
int proc_image_first(struct process *p);
/*
 * From `since_ns` on the process is called otherwise: *ret is the new image, as the one before, for the
 * caller to change. Borrowed. 0, or -ENOMEM: the one before goes on.
 */
int proc_image_begin(struct process *p, uint64_t since_ns, struct proc_image **ret);
/* The same with a program of its own. */
int proc_image_exec(struct process *p, uint64_t since_ns, struct proc_image **ret);
/* A fork: the process, new, is called as `parent` is now. */
void proc_image_inherit(struct process *p, const struct process *parent);
/* The image that held then; for times before all that are kept the first of them. Borrowed; never NULL. */
struct proc_image *proc_image_at(const struct process *p, uint64_t time_ns);
/* Sets the context; the image takes over one reference. `read_ns`: when it had been read. */
void proc_image_set_context(struct proc_image *i, struct proc_context context, uint64_t read_ns);
/* At `time_ns` the pid went to another process: what was read by the pid after that is not ours. */
void proc_image_disown(struct proc_image *i, uint64_t time_ns);
/* Forgets images that ended before `time_ns`. */
void proc_images_forget(struct process *p, uint64_t time_ns);
void proc_images_fini(struct process *p);

struct proc_image *proc_image_ref(struct proc_image *i);
void proc_image_unref(struct proc_image *i); /* NULL is fine */

/* Notes the value of OTEL_SERVICE_NAME (owned; NULL: it has none), read by that pid up to `read_ns`. */
void proc_program_set_service(struct proc_program *g, char *name, uint32_t pid, uint64_t read_ns);
/* The process left the program at `time_ns`: what was read by its pid after that is another's. */
void proc_program_leave(struct proc_program *g, uint32_t pid, uint64_t time_ns);

/* The file name of the executable, the comm where that is not known. Borrowed from the image. */
const char *proc_image_executable(const struct proc_image *i);

#endif
