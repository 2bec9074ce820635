// SPDX-License-Identifier: Apache-2.0
/*
 * Who a process is: /proc/<pid>/stat, comm, exe, environ (proc_pid_stat(5) and its neighbours). Rank 1; may
 * include base. Results are copies. Every reader returns -ESRCH when the process is gone, -EACCES or -EPERM
 * where it may not be read, or another -errno; *ret is written on success only.
 */
#ifndef PROFLET_PROC_STAT_H
#define PROFLET_PROC_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_STAT_COMM_LEN 64 /* with the NUL: kernel workers show more than their 15 bytes here */
#define PROC_TASK_COMM_LEN 16 /* with the NUL: the kernel's TASK_COMM_LEN */
#define PROC_ENVIRON_MAX (128u << 10)

struct proc_stat {
	uint32_t ppid; /* 0: none, or outside of this PID namespace */
	uint32_t num_threads;
	uint32_t flags;		       /* PF_* of the kernel's sched.h */
	char state;		       /* R S D T t Z X I */
	bool kernel_thread;	       /* PF_KTHREAD */
	uint64_t start_time_ticks;     /* since boot (CLOCK_BOOTTIME), in sysconf(_SC_CLK_TCK): 10 ms */
	char comm[PROC_STAT_COMM_LEN]; /* any bytes but NUL; cut when longer */
};

/* The content of a stat file, pure. 0, or -EINVAL. */
int proc_stat_parse(const char *text, size_t len, struct proc_stat *ret);
int proc_stat_read(int proc_fd, uint32_t pid, struct proc_stat *ret);

/* Name of one thread (tid == pid: the main one), NUL terminated, any bytes; longer kernel names are cut. */
int proc_comm_read(int proc_fd, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN]);

/*
 * Path of the executable as seen from the process's mount namespace, without " (deleted)"; *ret is the
 * caller's to free. -ENOENT for kernel threads and zombies.
 */
int proc_exe_read(int proc_fd, uint32_t pid, char **ret);
/* The path of a file as the kernel names it, without " (deleted)"; the caller's to free, NULL: no memory. */
char *proc_exe_path(const char *name, size_t len);

/*
 * Value of the variable in the environment the process was started with, *ret the caller's to free; the first
 * one counts, as for getenv(3). Only the first PROC_ENVIRON_MAX bytes are looked at. -ENOENT: not there;
 * -EINVAL: `name` is empty or holds '='.
 */
int proc_environ_find(int proc_fd, uint32_t pid, const char *name, char **ret);
/* The same over the bytes of an environ file, pure; `complete`: the last variable may lack its NUL. */
int proc_environ_parse(const char *text, size_t len, bool complete, const char *name, char **ret);

/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC, now, in ns: the time this machine was suspended. */
uint64_t proc_boot_offset_ns(void);

/*
 * A start time in CLOCK_MONOTONIC ns, rounded down to a tick: the process started at most 10 ms later. The
 * offset is today's, so for a process older than a suspend the result is too early by that suspend; 0 at the
 * least.
 */
uint64_t proc_start_mono_ns(uint64_t start_time_ticks, uint64_t boot_offset_ns);

#endif
