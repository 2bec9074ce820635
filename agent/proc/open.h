// SPDX-License-Identifier: Apache-2.0
/*
 * Opens the file behind a mapping of a process, even if its name has changed or is gone. Rank 1; may include
 * base. The target is not trusted: in its mount namespace, symbolic links may lead anywhere, FIFOs and
 * devices may have the names of libraries, and files may have replaced the mapped ones. Only regular files
 * are opened for reading, none outside of the target's root, and only if they are proven to be the mapped
 * file.
 *
 * The proof is the inode and device of the mapping, from /proc/<pid>/maps or perf's MMAP2, and `check`, which
 * compares a build id. For overlayfs and btrfs, stat(2) reports another st_dev than maps, so an equal inode
 * suffices there. On overlayfs before Linux 6.8, maps has the inode of the layer's file, which for a file
 * that was copied up differs from its st_ino; so on overlayfs any inode is accepted from map_files.
 *
 * A call may block for as long as the target's file system does (a dead NFS server, a FUSE daemon that does
 * not answer).
 */
#ifndef PROFLET_PROC_OPEN_H
#define PROFLET_PROC_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The ways in the order in which they are tried. Append-only: counters are indexed by it. */
enum proc_open_way {
	/*
	 * <pid>/map_files/<start>-<end>: finds deleted files and memfd, too. If other mappings have replaced
	 * a part of the mapping: any part of it that is left, by the inode.
	 */
	PROC_OPEN_MAP_FILES,
	PROC_OPEN_ROOT, /* <pid>/root + path */
	/* <pid>/task/<tid>/root + path: the main thread ended, or a thread has another root. */
	PROC_OPEN_TASK_ROOT,
	PROC_OPEN_OTHER, /* another process's root + path */
	PROC_OPEN_N_WAYS,
};

/* Maximum number of threads whose root is tried. */
#define PROC_OPEN_MAX_THREADS 64
/* Maximum number of lines of maps that are read for what is left of a mapping: about 1 ms. */
#define PROC_OPEN_MAX_LINES 1024

/*
 * Shared with the thread that waits for a call that may never return: the file system that the call accesses,
 * and those that it must not access.
 */
struct proc_open_watch {
	uint64_t dev;		 /* st_dev, set before the file system is accessed; 0: not known yet */
	const uint64_t *refused; /* borrowed */
	unsigned n_refused;
};

struct proc_open_request {
	uint32_t pid;
	uint64_t start, end; /* addresses of the mapping; 0, 0: map_files is not tried */
	/* Decoded, NUL terminated, as from maps or perf; borrowed; NULL: only map_files is tried. */
	const char *path;
	bool deleted;	/* the path is deleted; so is a path that ends in " (deleted)" */
	bool has_inode; /* the following three are known */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	/* Whether it is the right file; must read with pread(2). NULL: not checked. */
	bool (*check)(int fd, void *data);
	void *check_data;
	/*
	 * Return a descriptor with O_PATH, which can be closed without access to the file system. A file from
	 * map_files is then not opened at all, and `check` is not called for it.
	 */
	bool unread;
	struct proc_open_watch *watch; /* NULL: nobody waits for the call */
};

struct proc_opened {
	int fd;		/* for reading (or see `unread`), O_CLOEXEC, at offset 0; owned by the caller */
	struct stat st; /* of fd */
	enum proc_open_way way;
};

const char *proc_open_way_name(enum proc_open_way way);

/*
 * Tries the ways in order. The paths are tried only if the file can be proven (has_inode or check) and the
 * name is absolute and not deleted. *ret is written on success only. If all ways fail, the most informative
 * error is returned, in this order:
 *
 * - -EMFILE, -ENFILE, -ENOMEM, and -ETIMEDOUT (the file is on a refused file system): at once
 * - -ESRCH: the process is gone
 * - -EACCES: no permission: CAP_SYS_PTRACE, or CAP_DAC_READ_SEARCH for the file itself
 * - -EPERM: map_files needs CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before 5.9), and no path gave the file
 * - -ESTALE: another file is in its place
 * - -ENODEV: it is not a regular file
 * - -ENOENT: mapping and file are gone, or there never was a file ("[vdso]", anonymous memory)
 * - another -errno
 */
int proc_open_mapping(int proc_fd, const struct proc_open_request *req, struct proc_opened *ret);

/*
 * Opens the same file by its path through `other_pid`, a live process in the mount namespace of req->pid,
 * which has ended. -EINVAL: the file cannot be proven; -ESRCH: other_pid is gone; else as above.
 */
int proc_open_other(int proc_fd, uint32_t other_pid, const struct proc_open_request *req,
		    struct proc_opened *ret);

/*
 * Identifies the mount namespace of a live process, to find another process in it later. 0 or -errno as
 * of proc_entry_open.
 */
int proc_mount_namespace(int proc_fd, uint32_t pid, uint64_t *ret);

#endif
