// SPDX-License-Identifier: Apache-2.0
/*
 * The files of a scan of /proc. Hundreds of processes have the same few libraries mapped; opening one costs a
 * question to another thread. Within the moment of a scan a file is the same where mount namespace, device,
 * inode and path are: paths, since subvolumes (btrfs) share the device that maps shows and count their inodes
 * each for itself; namespaces, since paths are those that a process sees.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/proc/entry.h"
#include "agent/proc/maps.h"
#include "agent/track/track_private.h"

#define SEEN_MAX 16384u

struct seen_key {
	uint64_t namespace, inode;
	uint32_t dev_major, dev_minor;
	const char *path;
};

struct seen_file {
	struct map_node node;
	struct seen_key key; /* its path is owned */
	uint32_t file;
};

struct track_seen {
	struct map files;
	uint32_t pid; /* whose namespace is known */
	uint64_t namespace;
};

static bool is(const struct map_node *node, const void *key)
{
	const struct seen_key *a = &container_of(node, struct seen_file, node)->key, *b = key;

	return a->namespace == b->namespace && a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

static uint64_t hash(const struct seen_key *k)
{
	return hash_u64(k->inode ^ hash_u64(k->namespace ^ hash_bytes(k->path, strlen(k->path))));
}

/* 0: not known. */
static uint64_t namespace_of(struct track *t, uint32_t pid)
{
	_cleanup_close_ int fd = proc_entry_open(t->proc_fd, pid, "ns/mnt", O_PATH);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* False: not a file that is known by that. */
static bool key_of(struct track *t, uint32_t pid, const struct proc_maps_line *line, struct seen_key *ret)
{
	struct track_seen *s = t->seen;

	if (!s || !line->inode || line->deleted || !line->path)
		return false;
	if (s->pid != pid) {
		s->pid = pid;
		s->namespace = namespace_of(t, pid);
	}
	*ret = (struct seen_key){.namespace = s->namespace,
				 .inode = line->inode,
				 .dev_major = line->dev_major,
				 .dev_minor = line->dev_minor,
				 .path = line->path};
	return s->namespace != 0;
}

void track_seen_begin(struct track *t)
{
	t->seen = calloc(1, sizeof *t->seen);
	if (t->seen) /* NULL: every file is opened */
		map_init(&t->seen->files, SEEN_MAX);
}

void track_seen_end(struct track *t)
{
	struct map_node *n;

	if (!t->seen)
		return;
	map_for_each (&t->seen->files, n, i) {
		struct seen_file *f = container_of(n, struct seen_file, node);

		free((char *)f->key.path);
		free(f);
	}
	map_fini(&t->seen->files);
	free(TAKE_PTR(t->seen));
}

bool track_seen_find(struct track *t, uint32_t pid, const struct proc_maps_line *line, uint32_t *ret_file)
{
	struct map_node *n = NULL;
	struct seen_key key;

	if (key_of(t, pid, line, &key))
		n = map_find(&t->seen->files, hash(&key), is, &key);
	if (n)
		*ret_file = container_of(n, struct seen_file, node)->file;
	return n;
}

void track_seen_add(struct track *t, uint32_t pid, const struct proc_maps_line *line, uint32_t file)
{
	struct seen_file *f;
	struct seen_key key;

	if (file == PROC_FILE_NONE || (file & PROC_FILE_OPENING) || !key_of(t, pid, line, &key))
		return;
	f = calloc(1, sizeof *f);
	if (!f)
		return;
	f->file = file;
	f->key = key;
	f->key.path = strdup(key.path);
	if (f->key.path && map_insert(&t->seen->files, &f->node, hash(&key)) == 0)
		return;
	free((char *)f->key.path);
	free(f);
}
