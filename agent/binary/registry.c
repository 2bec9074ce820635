// SPDX-License-Identifier: Apache-2.0
/*
 * Unreferenced binaries are in a list; the one that has been unreferenced for longest is first. A look-up
 * that finds one of them moves it to the end, because the caller is about to take a reference.
 */
#include "agent/binary/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/root.h"
#include "agent/proc/tenant.h"
#include "bpf/abi.h"

/* By which the quarantine knows it. */
#define QUARANTINE_FILE(b) ((struct quarantine_file){(b)->dev, (b)->inode, (b)->version.ctime})

struct file_share {
	struct tenant_share share; /* its references are the binaries */
	uint32_t n_used;	   /* of these, referenced */
	uint32_t rooted;	   /* the index of one that had a root folder; 0: none */
};

struct binary_registry {
	struct binary **binaries; /* [1 .. max] */
	uint32_t max, n, n_unused, n_open, next_index;
	struct map by_file, by_inode, shares;
	struct quarantine quarantine;
	uint64_t (*now_ns)(void);
	struct binary *oldest, *newest; /* of the unreferenced */
	void (*forget)(uint32_t index, void *data);
	void *forget_data;
	struct binary_stats stats;
};

int binary_registry_new(struct binary_registry **ret, uint32_t max_binaries, uint64_t (*now_ns)(void))
{
	struct binary_registry *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->now_ns = now_ns ?: clock_mono_ns;
	r->max = max_binaries < FRAME_FILE_MAX ? max_binaries : FRAME_FILE_MAX;
	r->binaries = calloc((size_t)r->max + 1, sizeof *r->binaries);
	if (!r->binaries) {
		free(r);
		return -ENOMEM;
	}
	map_init(&r->by_file, r->max);
	map_init(&r->by_inode, r->max);
	map_init(&r->shares, r->max);
	quarantine_init(&r->quarantine);
	*ret = r;
	return 0;
}

static void share_put(struct binary_registry *r, struct file_share *s)
{
	if (!s || --s->share.refs)
		return;
	tenant_share_remove(&r->shares, &s->share);
	free(s);
}

void binary_registry_free(struct binary_registry *r)
{
	if (!r)
		return;
	map_fini(&r->by_file);
	map_fini(&r->by_inode);
	for (uint32_t i = 1; i <= r->max; i++) {
		if (r->binaries[i])
			share_put(r, r->binaries[i]->share);
		binary_free(r->binaries[i]);
	}
	map_fini(&r->shares);
	quarantine_fini(&r->quarantine);
	free(r->binaries);
	free(r);
}

void binary_registry_on_forget(struct binary_registry *r, void (*forget)(uint32_t index, void *data),
			       void *data)
{
	r->forget = forget;
	r->forget_data = data;
}

/* --- look-up */

struct inode {
	dev_t dev;
	uint64_t number;
};

static uint64_t inode_hash(const struct inode *i)
{
	return hash_u64(i->number ^ hash_u64(i->dev));
}

static bool inode_is(const struct map_node *node, const void *key)
{
	const struct binary *b = container_of(node, struct binary, by_inode);
	const struct inode *i = key;

	return b->inode == i->number && b->dev == i->dev;
}

static struct binary *find_inode(const struct binary_registry *r, const struct inode *i)
{
	struct map_node *n = map_find(&r->by_inode, inode_hash(i), inode_is, i);

	return n ? container_of(n, struct binary, by_inode) : NULL;
}

static uint64_t file_hash(dev_t dev, uint64_t inode, uint64_t size, const struct timespec *ctime)
{
	return inode_hash(&(struct inode){dev, inode}) ^
	       hash_u64(size ^ (uint64_t)ctime->tv_nsec ^ hash_u64((uint64_t)ctime->tv_sec));
}

static bool time_is(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool file_is(const struct map_node *node, const void *key)
{
	const struct binary *b = container_of(node, struct binary, by_file);
	const struct stat *st = key;

	return b->inode == st->st_ino && b->dev == st->st_dev && b->version.size == (uint64_t)st->st_size &&
	       time_is(&b->version.mtime, &st->st_mtim) && time_is(&b->version.ctime, &st->st_ctim);
}

static struct binary *find_file(const struct binary_registry *r, const struct stat *st)
{
	uint64_t hash = file_hash(st->st_dev, st->st_ino, (uint64_t)st->st_size, &st->st_ctim);
	struct map_node *n = map_find(&r->by_file, hash, file_is, st);

	return n ? container_of(n, struct binary, by_file) : NULL;
}

static int file_add(struct binary_registry *r, struct binary *b)
{
	uint64_t hash = file_hash(b->dev, b->inode, b->version.size, &b->version.ctime);
	int e = map_insert(&r->by_file, &b->by_file, hash);

	b->findable = e == 0;
	return e;
}

static void file_remove(struct binary_registry *r, struct binary *b)
{
	if (b->findable)
		map_remove(&r->by_file, &b->by_file);
	b->findable = false;
}

/* Makes the binary known to look-ups. 0 or -ENOMEM. */
static int keys_add(struct binary_registry *r, struct binary *b)
{
	const struct inode inode = {b->dev, b->inode};
	const struct stat st = {.st_dev = b->dev,
				.st_ino = b->inode,
				.st_size = (off_t)b->version.size,
				.st_mtim = b->version.mtime,
				.st_ctim = b->version.ctime};
	struct binary *before = find_inode(r, &inode), *same = find_file(r, &st);
	int e = file_add(r, b);

	if (e < 0)
		return e;
	if (same) /* its content was replaced within one tick of the clock of file times */
		file_remove(r, same);
	if (before) {
		map_remove(&r->by_inode, &before->by_inode);
		before->latest = false;
	}
	b->latest = map_insert(&r->by_inode, &b->by_inode, inode_hash(&inode)) == 0;
	return 0;
}

static void keys_remove(struct binary_registry *r, struct binary *b)
{
	file_remove(r, b);
	if (b->latest)
		map_remove(&r->by_inode, &b->by_inode);
}

/* --- references */

static void unused_append(struct binary_registry *r, struct binary *b)
{
	b->unused_ns = r->now_ns();
	b->newer = NULL;
	b->older = r->newest;
	if (r->newest)
		r->newest->newer = b;
	else
		r->oldest = b;
	r->newest = b;
	r->n_unused++;
}

static void unused_remove(struct binary_registry *r, struct binary *b)
{
	if (b->older)
		b->older->newer = b->newer;
	else
		r->oldest = b->newer;
	if (b->newer)
		b->newer->older = b->older;
	else
		r->newest = b->older;
	r->n_unused--;
}

/* The index of a binary that a look-up has found; 0 for NULL. */
static uint32_t looked_up(struct binary_registry *r, struct binary *b)
{
	if (b && !b->refs) {
		unused_remove(r, b);
		unused_append(r, b);
	}
	return b ? b->index : 0;
}

bool binary_registry_hold(struct binary_registry *r, uint32_t index)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b)
		return false;
	if (!b->refs++) {
		unused_remove(r, b);
		if (b->share)
			b->share->n_used++;
	}
	return true;
}

void binary_registry_release(struct binary_registry *r, uint32_t index)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b || !b->refs || --b->refs)
		return;
	unused_append(r, b);
	if (b->share)
		b->share->n_used--;
}

/* Removes an unreferenced binary. */
static void drop(struct binary_registry *r, struct binary *b)
{
	if (r->forget)
		r->forget(b->index, r->forget_data);
	unused_remove(r, b);
	keys_remove(r, b);
	r->binaries[b->index] = NULL;
	r->n--;
	r->n_open -= b->fd >= 0;
	share_put(r, TAKE_PTR(b->share));
	binary_free(b);
}

static bool share_is_full(const struct binary_registry *r, const struct file_share *s)
{
	return s->n_used >= BINARY_SHARE * (r->max - (r->n - r->n_unused));
}

/* One reference on *ret. 0; -EDQUOT: the tenant may have no more; -ENOMEM. */
static int share_get(struct binary_registry *r, uint64_t tenant, struct file_share **ret)
{
	struct tenant_share *found = tenant_share_find(&r->shares, tenant);
	struct file_share *s = found ? container_of(found, struct file_share, share) : calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	if (found && share_is_full(r, s))
		return -EDQUOT;
	if (!found && tenant_share_add(&r->shares, &s->share, tenant) < 0) {
		free(s);
		return -ENOMEM;
	}
	s->share.refs++;
	*ret = s;
	return 0;
}

static uint32_t free_index(struct binary_registry *r)
{
	if (r->n >= r->max && r->oldest) {
		drop(r, r->oldest);
		r->stats.evicted++;
	}
	for (uint32_t i = 0; r->n < r->max && i < r->max; i++) {
		r->next_index = r->next_index % r->max + 1;
		if (!r->binaries[r->next_index])
			return r->next_index;
	}
	return 0;
}

uint32_t binary_registry_known(struct binary_registry *r, const struct stat *st)
{
	return looked_up(r, find_file(r, st));
}

static int enter(struct binary_registry *r, struct binary *b, uint64_t tenant, uint32_t *ret)
{
	struct file_share *share = NULL;
	int e = tenant ? share_get(r, tenant, &share) : 0;

	if (e < 0)
		return e;
	*ret = free_index(r);
	e = *ret ? keys_add(r, b) : -ENFILE;
	if (e < 0)
		share_put(r, share);
	else
		b->share = share;
	b->tenant = tenant;
	return e;
}

int binary_registry_enter(struct binary_registry *r, struct binary *b, uint64_t tenant, uint32_t *ret)
{
	uint32_t index;
	int e = enter(r, b, tenant, &index);

	if (e < 0) {
		r->stats.full += e == -ENFILE;
		r->stats.full_share += e == -EDQUOT;
		binary_free(b);
		return e;
	}
	b->index = b->module.id = index;
	b->opened_ns = r->now_ns();
	if (!b->generated)
		b->quarantined = quarantine_find(&r->quarantine, &QUARANTINE_FILE(b));
	r->binaries[index] = b;
	r->n++;
	r->n_open += b->fd >= 0;
	unused_append(r, b);
	*ret = index;
	return 0;
}

bool binary_registry_admits(struct binary_registry *r, uint32_t index)
{
	const struct binary *b = binary_registry_get(r, index);
	bool refused = b && !b->refs && b->share && share_is_full(r, b->share);

	r->stats.full_share += refused;
	return !refused;
}

int binary_registry_add(struct binary_registry *r, int fd, const struct stat *st, const char *path,
			uint32_t *ret)
{
	uint32_t index = binary_registry_known(r, st);
	struct binary *b;
	int e;

	if (index) {
		(void)binary_registry_adopt(r, index, &fd);
		if (fd >= 0)
			close(fd);
		*ret = index;
		return 0;
	}
	e = binary_new(&b, fd, st, path);
	if (e < 0) {
		close(fd);
		return e;
	}
	return binary_registry_enter(r, b, 0, ret);
}

bool binary_registry_adopt(struct binary_registry *r, uint32_t index, int *fd)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b || b->fd >= 0 || *fd < 0)
		return false;
	b->fd = TAKE_FD(*fd);
	b->opened_ns = r->now_ns();
	r->n_open++;
	return true;
}

uint32_t binary_registry_find_gone(struct binary_registry *r, const struct binary_evidence *e)
{
	struct binary *b = find_inode(r, &(struct inode){e->dev, e->inode});
	bool proven;

	if (!b || b->fd < 0 || b->changed)
		return 0;
	if (b->has_generation && e->has_generation)
		proven = b->generation == e->generation;
	else
		proven = e->time_ns >= b->opened_ns;
	return proven ? looked_up(r, b) : 0;
}

bool binary_registry_unchanged(const struct binary_registry *r, uint32_t index)
{
	const struct binary *b = binary_registry_get(r, index);
	struct stat now;

	return b && !b->changed && b->fd >= 0 &&
	       (!b->n_segments || elf_version_look(&b->version, b->fd, &now) == ELF_VERSION_SAME);
}

static void doubt(struct binary *b, uint64_t until_ns)
{
	b->doubt_from_ns = b->unchanged_ns;
	b->doubt_to_ns = until_ns;
}

void binary_registry_confirmed(struct binary_registry *r, uint32_t index, const struct elf_version *now,
			       bool written, uint64_t time_ns)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b || b->changed)
		return;
	if (written)
		doubt(b, time_ns);
	if (time_ns > b->unchanged_ns)
		b->unchanged_ns = time_ns;
	if (!now || !b->findable)
		return;
	file_remove(r, b);
	b->version = *now;
	(void)file_add(r, b); /* without memory it is not found again, and its file gets another index */
}

bool binary_registry_changed(struct binary_registry *r, uint32_t index)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b || b->changed)
		return false;
	b->changed = true;
	doubt(b, UINT64_MAX);
	r->stats.changed++;
	return true;
}

bool binary_registry_quarantine(struct binary_registry *r, uint32_t index, enum binary_use use, int error)
{
	struct binary *b = binary_registry_get(r, index);
	enum quarantine_reason reason = error == -ETIME ? QUARANTINE_OUT_OF_TIME : QUARANTINE_CRASHED;

	if (!b || (error != -ENOTRECOVERABLE && error != -ETIME && error != -EBADMSG))
		return false;
	if (b->quarantined & use)
		return true;
	b->quarantined |= use;
	r->stats.quarantined[reason]++;
	r->stats.quarantined_file = index;
	r->stats.quarantined_use = use;
	r->stats.quarantined_reason = reason;
	if (!b->generated)
		quarantine_add(&r->quarantine, &QUARANTINE_FILE(b), use, b->tenant, r->now_ns());
	return true;
}

uint64_t binary_registry_held_until_ns(uint64_t tenant, const void *registry)
{
	const struct binary_registry *r = registry;

	return quarantine_held_until_ns(&r->quarantine, tenant);
}

bool binary_accept_evidence(struct binary *b, const struct binary_evidence *e)
{
	if (!e->has_generation || b->dev != e->dev || b->inode != e->inode)
		return true;
	if (b->has_generation)
		return b->generation == e->generation;
	b->has_generation = true;
	b->generation = e->generation;
	return true;
}

struct binary *binary_registry_get(const struct binary_registry *r, uint32_t index)
{
	return index && index <= r->max ? r->binaries[index] : NULL;
}

uint32_t binary_registry_max(const struct binary_registry *r)
{
	return r->max;
}

bool binary_registry_wants_root(const struct binary_registry *r, uint32_t index)
{
	const struct binary *b = binary_registry_get(r, index);

	return b && !b->searched && !b->root && b->n_segments;
}

/*
 * The root folder that another binary of the tenant holds, if it is the same one: a process has one, and may
 * map more binaries than there are descriptors for a root of each.
 */
static struct proc_root *shared_root(struct binary_registry *r, struct binary *b, struct proc_root *root)
{
	const struct binary *other = b->share ? binary_registry_get(r, b->share->rooted) : NULL;

	if (other && other->root && proc_root_is_same(other->root, root))
		return other->root;
	if (b->share)
		b->share->rooted = b->index;
	return root;
}

void binary_registry_set_root(struct binary_registry *r, uint32_t index, struct proc_root *root)
{
	struct binary *b = binary_registry_get(r, index);

	if (binary_registry_wants_root(r, index))
		b->root = proc_root_ref(shared_root(r, b, root));
}

/* What is found first stays: the table may be evicted and built again from it. */
void binary_registry_searched(struct binary_registry *r, uint32_t index, struct binary_debug *found)
{
	struct binary *b = binary_registry_get(r, index);

	if (!b)
		return;
	proc_root_unref(TAKE_PTR(b->root));
	b->searched = true;
	b->of_system |= found->of_system;
	if (b->names_fd < 0 && found->names_fd >= 0) {
		b->names_version = found->names_version;
		b->names_fd = TAKE_FD(found->names_fd);
		b->names_delta = found->names_delta;
		r->stats.names_files++;
	}
	if (b->debug_fd < 0 && found->debug_fd >= 0) {
		b->debug_fd = TAKE_FD(found->debug_fd);
		r->stats.debug_files++;
	}
}

void binary_registry_set_htlhash(struct binary_registry *r, uint32_t index, const char *htlhash)
{
	struct binary *b = binary_registry_get(r, index);

	if (b && !b->module.htlhash)
		b->module.htlhash = strdup(htlhash);
}

/* Whether the device number may come to stand for another file system. */
static bool device_is_reusable(const struct binary *b)
{
	return major(b->dev) == 0;
}

void binary_registry_close_unused(struct binary_registry *r, uint64_t before_ns,
				  bool (*complete)(uint32_t index, void *data), void *data)
{
	struct binary *newer;

	for (struct binary *b = r->oldest; b && b->unused_ns < before_ns; b = newer) {
		newer = b->newer;
		if (b->generated) { /* its process is gone */
			drop(r, b);
			continue;
		}
		if (b->fd < 0)
			continue;
		r->stats.closed++;
		if (device_is_reusable(b) || b->debug_fd >= 0 || b->names_fd >= 0 ||
		    !complete(b->index, data)) {
			drop(r, b);
			continue;
		}
		close(TAKE_FD(b->fd));
		proc_root_unref(TAKE_PTR(b->root));
		r->n_open--;
	}
}

void binary_registry_stats(const struct binary_registry *r, struct binary_stats *ret)
{
	*ret = r->stats;
	ret->known = r->n;
	ret->unused = r->n_unused;
	ret->open = r->n_open;
	ret->in_quarantine = r->quarantine.files.len;
}
