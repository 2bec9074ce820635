// SPDX-License-Identifier: Apache-2.0
/* Names of asyncio's tasks, from what the BPF program has read of them. Pure. Rank 3; may include agent/elf. */
#ifndef PROFLET_RUNTIME_CPYTHON_TASK_H
#define PROFLET_RUNTIME_CPYTHON_TASK_H

struct buf;
struct cpython_facts;
struct sample_task;

/*
 * Appends the name, UTF-8 and NUL terminated: the text of a string object as cpython_text_append has it, or
 * "Task-N" of a number, which is what a task without a name of its own has. 0; -ENODATA, -ENOTSUP: it is
 * neither, or not all there; -ENOMEM, -EOVERFLOW. On error, nothing is appended.
 */
int cpython_task_name(struct buf *out, const struct cpython_facts *facts, const struct sample_task *task);

#endif
