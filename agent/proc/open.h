// SPDX-License-Identifier: Apache-2.0
/*
 * Opens the file behind a mapping of a process, whatever became of its name. Rank 1; may include base. The
 * target is not trusted: its mount namespace may hold symbolic links to anywhere, FIFOs and devices under the
 * names of libraries, and files that replaced what is mapped. Only a regular file is ever opened for reading,
 * nothing outside of the target's root is reached, and the file is proven to be the mapped one.
 *
 * How it is proven: by inode and device of the mapping, as /proc/<pid>/maps and perf's MMAP2 give them, and
 * by `check`, which compares a build id. Overlayfs and btrfs report another st_dev to stat(2) than to maps;
 * there an equal inode is enough. On overlayfs before Linux 6.8, maps has the inode of the layer's file, and
 * that of a file copied up differs from its st_ino; what map_files gives is therefore accepted on overlayfs
 * with any inode.
 *
 * It may block for as long as the target's file system does (a dead NFS server, a FUSE daemon that does not
 * answer).
 */
#ifndef PROFLET_PROC_OPEN_H
#define PROFLET_PROC_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Tried in this order. Append-only: counters are indexed by it. */
enum proc_open_way {
	PROC_OPEN_MAP_FILES, /* <pid>/map_files/<start>-<end>: also deleted files and memfd */
	PROC_OPEN_ROOT,	     /* <pid>/root + path */
	PROC_OPEN_TASK_ROOT, /* <pid>/task/<tid>/root + path: the main thread ended, or a thread has a root of
				its own */
	PROC_OPEN_OTHER,     /* another process's root + path */
	PROC_OPEN_N_WAYS,
};

/* At most this many threads are asked for their root. */
#define PROC_OPEN_MAX_THREADS 64

/*
 * For whoever waits for an opening that may not come back: which file system it has got to, and those that
 * are not to be touched.
 */
struct proc_open_watch {
	uint64_t dev; /* st_dev, written before the file system is asked for anything; 0: not known yet */
	const uint64_t *refused; /* borrowed */
	unsigned n_refused;
};

struct proc_open_request {
	uint32_t pid;
	uint64_t start, end; /* the mapping, process addresses; 0, 0: map_files is left out */
	const char
		*path;	/* decoded, NUL terminated, as maps or perf give it; borrowed; NULL: map_files only */
	bool deleted;	/* the path is gone; a path that still ends in " (deleted)" counts as well */
	bool has_inode; /* the three below are known */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	bool (*check)(int fd, void *data); /* is it the file? must read with pread(2); NULL: none */
	void *check_data;
	/* The descriptor has O_PATH: it names the file and keeps it, and is closed without its file system
	 * being asked. The file that map_files gives is then not opened at all, nor is `check` called for it.
	 */
	bool unread;
	struct proc_open_watch *watch; /* NULL: nobody does */
};

struct proc_opened {
	int fd; /* for reading (or see `unread`), regular file, O_CLOEXEC, at offset 0; the caller's to close
		 */
	struct stat st; /* of fd */
	enum proc_open_way way;
};

const char *proc_open_way_name(enum proc_open_way way);

/*
 * Tries the ways in order. The paths are tried only when the file can be proven (has_inode or check) and the
 * name is an absolute one that is not deleted. *ret is written on success only. Of the ways that failed, the
 * most telling error is returned, in this order: -EMFILE, -ENFILE, -ENOMEM, -ETIMEDOUT (it is on a refused
 * file system)  at once -ESRCH   the process is gone -EACCES  it may not be looked into: CAP_SYS_PTRACE, or
 * CAP_DAC_READ_SEARCH for the file itself -EPERM map_files needs CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN
 * before 5.9), and no path gave the file -ESTALE  there is another file in its place -ENODEV  it is not a
 * regular file -ENOENT  mapping and file are gone, or there never was one ("[vdso]", anonymous memory)
 * another -errno
 */
int proc_open_mapping(int proc_fd, const struct proc_open_request *req, struct proc_opened *ret);

/*
 * The same file by its path through `other_pid`, a live process of the mount namespace that req->pid, which
 * has ended, was in. -EINVAL unless the file can be proven; -ESRCH when other_pid is gone; else as above.
 */
int proc_open_other(int proc_fd, uint32_t other_pid, const struct proc_open_request *req,
		    struct proc_opened *ret);

/* Identity of the process's mount namespace while it lives, to find such another one. 0 or as
 * proc_entry_open. */
int proc_mount_namespace(int proc_fd, uint32_t pid, uint64_t *ret);

#endif
