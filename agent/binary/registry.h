// SPDX-License-Identifier: Apache-2.0
/*
 * The binaries that are known, by index. The index is what mappings and frames carry; other rooms keep
 * their own state about a binary (tables in agent/unwind, names in agent/symbol) under it. Main loop only.
 *
 * Life. Whoever keeps an index across events holds a reference: lists of mappings, windows, samples that
 * wait, jobs. A binary without references stays known until the registry is full and a new one needs its
 * place; the one that has been unreferenced for longest goes first. Before its index is given to another
 * binary, `forget` is called, so that the other rooms drop what they keep under it. No timer ends a life,
 * but one closes descriptors of unreferenced binaries: a descriptor keeps a file system from being
 * unmounted.
 *
 * Identity. A tenant of the machine chooses names, build ids, modification times and contents of its own
 * files, but it must not be able to have its file taken for another's. Two mappings are of the same binary
 * when their files have the same device, inode, size, mtime and ctime, and, where times are too coarse or
 * have changed, the same content (agent/elf/file/version.h). A tenant cannot set a ctime, and an inode number
 * is not used again while we hold a descriptor of it. Without a descriptor, a reused inode has a later ctime,
 * but a device number may stand for another file system: numbers of file systems without a device of their
 * own (overlayfs, tmpfs, FUSE: major 0) are given out again after unmounting, and a FUSE server may return
 * any inode and time. When a descriptor is closed, such a file is not found any more.
 *
 * Content. A file may be written anew while its binary is known. Whoever reads it compares its version before
 * and after; once it has other content, the binary is `changed`, and nothing more is read for it.
 *
 * Shares. A tenant can map as many files as it likes. Each binary is charged to the tenant whose process
 * had it mapped first, for as long as it is referenced. A tenant gets another index while it has fewer than
 * BINARY_SHARE times those that are not referenced at all: one tenant may have three quarters of all, two
 * may have three sevenths each, and there is always room for one that has few.
 *
 * Build id and size say nothing about whose file it is: a copy under another inode is another binary.
 *
 * The file of a process that is gone cannot be opened any more. We look for it among the known binaries by
 * what the kernel's mapping event says: device, inode and inode generation (binary_registry_find_gone).
 */
#ifndef PROFLET_BINARY_REGISTRY_H
#define PROFLET_BINARY_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/binary/binary.h"
#include "agent/binary/quarantine.h"

struct binary_registry;

#define BINARY_SHARE 3u

/* What a search for the separate debug file of a binary has found. Descriptors are -1 where there is none. */
struct binary_debug {
	int debug_fd, names_fd;
	uint64_t names_delta;
	struct elf_version names_version; /* of names_fd */
	bool of_system;			  /* the binary is a file of the system's own */
};

/* What the kernel says about the file of a mapping. */
struct binary_evidence {
	dev_t dev;
	uint64_t inode;
	bool has_generation;
	uint32_t generation;
	uint64_t time_ns; /* when it was mapped, CLOCK_MONOTONIC */
};

struct binary_stats {
	uint64_t known;	      /* now */
	uint64_t unused;      /* of these, without references */
	uint64_t open;	      /* of these, with an open descriptor */
	uint64_t full;	      /* refused, because all indices were taken by referenced binaries */
	uint64_t full_share;  /* refused, because the tenant had its share */
	uint64_t evicted;     /* unreferenced binaries removed to make room for another */
	uint64_t closed;      /* descriptors closed of unreferenced binaries */
	uint64_t debug_files; /* binaries whose table needs a separate debug file, and has it */
	uint64_t changed;     /* binaries whose files got other content while they were known */
	uint64_t names_files; /* binaries whose separate debug file has names that they lack */
	uint64_t quarantined[QUARANTINE_REASONS]; /* uses of files that were forbidden, by reason */
	uint64_t in_quarantine;			  /* files, now */
	/* the last use that was forbidden: of which binary, and why */
	uint32_t quarantined_file;
	enum binary_use quarantined_use;
	enum quarantine_reason quarantined_reason;
};

/* `now_ns`: CLOCK_MONOTONIC, NULL: clock_mono_ns. 0 or -ENOMEM. */
int binary_registry_new(struct binary_registry **ret, uint32_t max_binaries, uint64_t (*now_ns)(void));
void binary_registry_free(struct binary_registry *r);
/* Registers the function that is called before a binary is removed. It must not take a reference to it. */
void binary_registry_on_forget(struct binary_registry *r, void (*forget)(uint32_t index, void *data),
			       void *data);

/*
 * The index of the binary behind an open file that can be read without delay; takes the fd. 0, -ENFILE at
 * the maximum (counted), -ENOMEM. A caller that keeps the index holds it at once: the next call may evict it.
 */
int binary_registry_add(struct binary_registry *r, int fd, const struct stat *st, const char *path,
			uint32_t *ret);
/* The index of the binary whose file has this stat(2) result, 0 when it is not known. */
uint32_t binary_registry_known(struct binary_registry *r, const struct stat *st);
/*
 * Registers a new binary, which must not be known yet, for a tenant (0: nobody's). Takes it, also on
 * failure. 0; -ENFILE at the maximum (counted); -EDQUOT: the tenant has its share (counted); -ENOMEM.
 */
int binary_registry_enter(struct binary_registry *r, struct binary *b, uint64_t tenant, uint32_t *ret);
/*
 * Whether a known binary may be mapped again: if it is not referenced, its tenant may have its share by now
 * (counted).
 */
bool binary_registry_admits(struct binary_registry *r, uint32_t index);
/*
 * The file of a known binary was opened again. If the binary's own descriptor was closed, takes this one,
 * sets *fd to -1 and returns true.
 */
bool binary_registry_adopt(struct binary_registry *r, uint32_t index, int *fd);
/*
 * The index of the known binary whose file a process, gone by now, had mapped; 0 when that cannot be proven.
 * The proof: device and inode are equal, and either both generations are known and equal, or our descriptor
 * was open when the file was mapped, so that the inode cannot have been reused. It proves nothing about the
 * content: the caller has to look whether the file still has its version, and had it then
 * (elf_version_was_mapped).
 */
uint32_t binary_registry_find_gone(struct binary_registry *r, const struct binary_evidence *e);
/*
 * For a file that was opened after the kernel reported its mapping: false when it is not the mapped file, but
 * another with the same inode number. Stores the generation if the file system did not tell it.
 */
bool binary_accept_evidence(struct binary *b, const struct binary_evidence *e);

/*
 * Whether the binary's file has its content still, as far as its times tell; does not block. False when that
 * is not known, or there is no descriptor.
 */
bool binary_registry_unchanged(const struct binary_registry *r, uint32_t index);
/*
 * The file was found to have its content at `time_ns` (CLOCK_MONOTONIC). `now`: its version, if times have
 * changed, with which it is found from now on; NULL: they have not. `written`: it may have had other content
 * since it was confirmed last.
 */
void binary_registry_confirmed(struct binary_registry *r, uint32_t index, const struct elf_version *now,
			       bool written, uint64_t time_ns);
/* The file has other content by now. True when that was not known (counted). */
bool binary_registry_changed(struct binary_registry *r, uint32_t index);

/* The binary with this index, NULL when there is none. Borrowed until it is removed. */
struct binary *binary_registry_get(const struct binary_registry *r, uint32_t index);
uint32_t binary_registry_max(const struct binary_registry *r); /* the highest index there can be */
/* Takes a reference. False for an index without a binary: then there is nothing to release. */
bool binary_registry_hold(struct binary_registry *r, uint32_t index);
void binary_registry_release(struct binary_registry *r, uint32_t index);

/*
 * Reading the binary's file for that use has failed with `error`. If the file is to blame (parser_call:
 * -ENOTRECOVERABLE, -ETIME; -EBADMSG: the answer cannot be used), it is not to be read for it again, under
 * whatever index: `quarantined` of the binary is set, and stays for its file (quarantine.h). True then.
 */
bool binary_registry_quarantine(struct binary_registry *r, uint32_t index, enum binary_use use, int error);
/* When the next job for that tenant may begin: for fair_queue_on_held. `registry`: struct binary_registry. */
uint64_t binary_registry_held_until_ns(uint64_t tenant, const void *registry);

/* True when the binary's debug file was not searched for yet, and no root to search in is set. */
bool binary_registry_wants_root(const struct binary_registry *r, uint32_t index);
/* Sets the root to search in when the binary's table is built. Takes one more reference to it. */
void binary_registry_set_root(struct binary_registry *r, uint32_t index, struct proc_root *root);
/* Stores the result of the search. Takes the descriptors that the binary lacks, and sets them to -1. */
void binary_registry_searched(struct binary_registry *r, uint32_t index, struct binary_debug *found);
/* Sets the attribute process.executable.build_id.htlhash of the binary, unless it is set. Copies the text. */
void binary_registry_set_htlhash(struct binary_registry *r, uint32_t index, const char *htlhash);

/*
 * Closes the descriptors of binaries that have been unreferenced since before `before_ns`. A binary that
 * is of no use without them is removed: `complete` returns false for it (its table is not built), it has a
 * separate debug file, or its identity could not be proven any more. So is one that stands for generated
 * code.
 */
void binary_registry_close_unused(struct binary_registry *r, uint64_t before_ns,
				  bool (*complete)(uint32_t index, void *data), void *data);
void binary_registry_stats(const struct binary_registry *r, struct binary_stats *ret);

#endif
