// SPDX-License-Identifier: Apache-2.0
#include "agent/track/seen_files.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/mapping.h"

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

/* False: the line does not say enough to tell its file from others. */
static bool key_of(struct seen_files *s, uint32_t pid, const struct proc_maps_line *line,
		   struct seen_key *ret)
{
	if (!s->proc || !line->inode || line->deleted || !line->path)
		return false;
	if (s->pid != pid) {
		s->pid = pid;
		if (s->proc->ops->mount_namespace(s->proc->data, pid, &s->namespace) < 0)
			s->namespace = 0;
	}
	*ret = (struct seen_key){.namespace = s->namespace,
				 .inode = line->inode,
				 .dev_major = line->dev_major,
				 .dev_minor = line->dev_minor,
				 .path = line->path};
	return s->namespace != 0;
}

void seen_files_begin(struct seen_files *s, const struct proc_view *proc)
{
	*s = (struct seen_files){.proc = proc};
	map_init(&s->files, SEEN_MAX);
}

static void seen_free(struct seen_file *f)
{
	free((char *)f->key.path);
	free(f);
}

void seen_files_end(struct seen_files *s)
{
	struct map_node *n;

	if (!s->proc)
		return;
	map_for_each (&s->files, n, i) {
		struct seen_file *f = container_of(n, struct seen_file, node);

		if (s->holder)
			s->holder->release(f->file, s->holder->data);
		seen_free(f);
	}
	map_fini(&s->files);
	*s = (struct seen_files){.proc = NULL};
}

bool seen_files_find(struct seen_files *s, uint32_t pid, const struct proc_maps_line *line,
		     uint32_t *ret_file)
{
	struct map_node *n = NULL;
	struct seen_key key;

	if (key_of(s, pid, line, &key))
		n = map_find(&s->files, hash(&key), is, &key);
	if (n)
		*ret_file = container_of(n, struct seen_file, node)->file;
	return n;
}

static void forget(struct seen_files *s, const struct seen_key *key)
{
	struct map_node *n = map_find(&s->files, hash(key), is, key);

	if (!n)
		return;
	map_remove(&s->files, n);
	if (s->holder)
		s->holder->release(container_of(n, struct seen_file, node)->file, s->holder->data);
	seen_free(container_of(n, struct seen_file, node));
}

/* Without memory or room the file is opened again. */
void seen_files_add(struct seen_files *s, uint32_t pid, const struct proc_maps_line *line, uint32_t file,
		    const struct proc_files *holder)
{
	struct seen_file *f;
	struct seen_key key;

	if (file == PROC_FILE_NONE || (file & PROC_FILE_OPENING) || !key_of(s, pid, line, &key))
		return;
	forget(s, &key); /* what it was before it was written anew */
	f = calloc(1, sizeof *f);
	if (!f)
		return;
	f->file = file;
	f->key = key;
	f->key.path = strdup(key.path);
	if (!f->key.path || map_insert(&s->files, &f->node, hash(&key)) < 0) {
		seen_free(f);
		return;
	}
	s->holder = holder;
	if (holder)
		holder->hold(file, holder->data);
}
