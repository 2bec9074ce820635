// SPDX-License-Identifier: Apache-2.0
#include "agent/track/event_files.h"

#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/probe/sideband.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"
#include "agent/track/openings.h"

#define SECOND_NS (1 * NS_PER_SEC)

static void file_release(const struct event_file *s)
{
	if (s->known && s->holder)
		s->holder->release(s->file, s->holder->data);
}

static void file_set(struct event_file *s, uint32_t file, const struct proc_files *holder)
{
	if (holder)
		holder->hold(file, holder->data);
	file_release(s);
	s->file = file;
	s->holder = holder;
	s->known = true;
}

void event_files_fini(struct event_files *f)
{
	for (unsigned i = 0; i < EVENT_FILES_SLOTS; i++)
		file_release(&f->slots[i]);
	*f = (struct event_files){.slots = {{.pid = 0}}};
}

void event_files_forget(struct event_files *f, uint64_t before_ns)
{
	for (unsigned i = 0; i < EVENT_FILES_SLOTS; i++) {
		struct event_file *s = &f->slots[i];

		if (!s->known || s->last_ns >= before_ns)
			continue;
		file_release(s);
		*s = (struct event_file){.pid = 0};
	}
}

static bool same_file(const struct event_file *a, const struct event_file *b)
{
	return a->pid == b->pid && a->start_ns == b->start_ns && a->exec_ns == b->exec_ns &&
	       a->dev_major == b->dev_major && a->dev_minor == b->dev_minor && a->inode == b->inode &&
	       a->generation == b->generation && a->path_hash == b->path_hash;
}

/* The slot of the file that the event is about; another file may have had it before. */
static struct event_file *slot_of(struct event_files *f, const struct process *p,
				  const struct sideband_event *v)
{
	const struct event_file key = {
		.pid = p->pid,
		.start_ns = p->start_ns,
		.exec_ns = p->exec_ns,
		.dev_major = v->mmap.dev_major,
		.dev_minor = v->mmap.dev_minor,
		.inode = v->mmap.inode,
		.generation = v->mmap.generation,
		.path_hash = hash_bytes(v->name, strlen(v->name)),
		.since_ns = v->time_ns,
	};
	struct event_file *s =
		&f->slots[hash_u64(key.pid ^ hash_u64(key.inode ^ key.path_hash)) % EVENT_FILES_SLOTS];

	if (same_file(s, &key))
		return s;
	file_release(s);
	*s = key;
	return s;
}

uint32_t event_files_find(struct event_files *f, struct openings *o, const struct process *p,
			  const struct sideband_event *v)
{
	struct event_file *s;
	uint32_t file;

	if (v->name[0] != '/' || v->mmap.has_build_id || !v->mmap.inode)
		return openings_of_event(o, v);
	s = slot_of(f, p, v);
	s->last_ns = v->time_ns;
	if (v->time_ns - s->since_ns > SECOND_NS) {
		s->since_ns = v->time_ns;
		s->n = s->n > EVENT_FILES_OFTEN ? EVENT_FILES_OFTEN - 1 : 0;
	}
	if (++s->n > EVENT_FILES_OFTEN && s->known && openings_current(o, s->file))
		return s->file;
	if (s->n > EVENT_FILES_OFTEN && s->ticket)
		return s->ticket;
	file = openings_of_event(o, v);
	if (file & PROC_FILE_OPENING)
		s->ticket = file;
	else
		file_set(s, file, p->maps->files);
	return file;
}

void event_files_resolved(struct event_files *f, uint32_t ticket, uint32_t to)
{
	for (unsigned i = 0; i < EVENT_FILES_SLOTS; i++)
		if (f->slots[i].ticket == ticket)
			f->slots[i].ticket = to & PROC_FILE_OPENING ? to : 0;
}
