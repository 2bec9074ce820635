// SPDX-License-Identifier: Apache-2.0
/*
 * Attributes of a process: /proc/<pid>/stat, comm, exe, environ (proc_pid_stat(5) and others). Rank 1; may
 * include base. Results are copies. Every reader returns -ESRCH when the process is gone, -EACCES or -EPERM
 * without permission, or another -errno; *ret is written on success only.
 */
#ifndef PROFLET_PROC_STAT_H
#define PROFLET_PROC_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_STAT_COMM_LEN 64 /* with the NUL; names of kernel workers have more than 15 bytes here */
#define PROC_TASK_COMM_LEN 16 /* with the NUL: the kernel's TASK_COMM_LEN */
#define PROC_ENVIRON_MAX (128u << 10)

struct proc_stat {
	uint32_t ppid; /* 0: none, or outside of this PID namespace */
	uint32_t num_threads;
	uint32_t flags;		       /* PF_* of the kernel's sched.h */
	char state;		       /* R S D T t Z X I */
	bool kernel_thread;	       /* PF_KTHREAD */
	uint64_t start_time_ticks;     /* since boot (CLOCK_BOOTTIME), in sysconf(_SC_CLK_TCK): 10 ms */
	char comm[PROC_STAT_COMM_LEN]; /* any bytes but NUL; longer names are cut */
};

/* Parses the content of a stat file. Pure. 0 or -EINVAL. */
int proc_stat_parse(const char *text, size_t len, struct proc_stat *ret);
int proc_stat_read(int proc_fd, uint32_t pid, struct proc_stat *ret);

/*
 * Reads the name of one thread (tid == pid: the main thread), NUL terminated, any bytes; longer names of
 * kernel threads are cut.
 */
int proc_comm_read(int proc_fd, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN]);

/*
 * Reads the path of the executable in the process's mount namespace, without " (deleted)". *ret is owned by
 * the caller. -ENOENT for kernel threads and zombies, and where !proc_exe_names_program().
 */
int proc_exe_read(int proc_fd, uint32_t pid, char **ret);

/* Whether the path of an executable says which program it is. */
bool proc_exe_names_program(const char *path);

/*
 * The path of an open file as the kernel names it, without " (deleted)". Owned by the caller; NULL: out
 * of memory.
 */
char *proc_exe_path(const char *name, size_t len);

/*
 * Reads a variable of the environment with which the process was started. *ret is owned by the caller. The
 * first one of that name counts, as with getenv(3). Only the first PROC_ENVIRON_MAX bytes are read. -ENOENT:
 * it is not set; -EINVAL: `name` is empty or has a '='.
 */
int proc_environ_find(int proc_fd, uint32_t pid, const char *name, char **ret);
/*
 * Finds the variable in the bytes of an environ file. Pure. `complete`: the last variable may lack its NUL.
 */
int proc_environ_parse(const char *text, size_t len, bool complete, const char *name, char **ret);

/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC in ns: the time for which this machine was suspended until now. */
uint64_t proc_boot_offset_ns(void);

/*
 * Converts a start time to CLOCK_MONOTONIC ns, rounded down to a tick: the process started at most 10 ms
 * later. Uses today's offset, so for a process older than a suspend the result is too early by its length; at
 * least 0.
 */
uint64_t proc_start_mono_ns(uint64_t start_time_ticks, uint64_t boot_offset_ns);

#endif
