// SPDX-License-Identifier: Apache-2.0
/*
 * A worker thread finds the file and, if it is not known, reads it; the main loop enters it into the
 * registry.
 *
 * What map_files gives is only named (O_PATH), not opened: most files are known by their stat(2), and a file
 * system cannot delay the closing of a file that nobody has opened, nor our exit.
 *
 * The file of a process that is gone already is looked for through its ancestors, which are mostly in the
 * same mount namespace, and among the binaries that are known. Both by what the kernel said when the file was
 * mapped: device, inode and inode generation, which the process cannot choose. (A build id is chosen by
 * whoever made the file: it proves nothing, so we do not request it from the kernel.) A host may start
 * thousands of short-lived processes a second, nearly all of known binaries: for these we do not try the
 * ancestors.
 *
 * A file may have been written anew, under the same inode number, after it was mapped. One that changed
 * after the mapping is refused: its bytes are not those that ran (elf_version_was_mapped).
 */
#include "agent/track/openings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/binary/registry.h"
#include "agent/probe/sideband.h"
#include "agent/proc/history.h"
#include "agent/proc/root.h"
#include "agent/proc/table.h"
#include "agent/proc/tenant.h"
#include "agent/track/publication.h"
#include "agent/unwind/tables.h"

#define VDSO_NAME "[vdso]"
#define VDSO_MAX_BYTES 16384u /* no kernel has a larger one; the part that is mapped is copied */
#define ANCESTORS_MAX 4u      /* whose root is tried when the process is gone */
#define MEMFD "/memfd:"
#define OPENING_SHARE 3u	       /* a tenant's openings that wait, for each place that is free */
#define EVENT_LAG_NS (60 * NS_PER_SEC) /* events are never later than that */

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

struct openings {
	struct openings_options options;
	struct map shares; /* of tenants: their references are the openings that wait */
	unsigned n;	   /* of all of them */
	uint32_t vdso;
	uint32_t ticket; /* number of the last one given */
	void (*resolved)(uint32_t ticket, uint32_t to, void *data);
	void *resolved_data;
	struct openings_stats stats;
};

/* The opening of one mapping's file. */
struct opening {
	struct request request;
	struct openings *owner;
	struct process *process;    /* one reference */
	struct tenant_share *share; /* one reference; NULL: of no tenant */
	uint32_t ticket;	    /* its number; 0: none */
	uint32_t n_forks;	    /* of the process when this was made */
	struct proc_open_request find;
	char *path;			 /* owned */
	struct binary_evidence evidence; /* inode 0: there is none */
	uint32_t candidate; /* the known binary that it may be if its process is gone, held; 0: none */
	int candidate_fd;   /* borrowed from it */
	struct elf_version candidate_version;
	uint32_t ancestors[ANCESTORS_MAX];
	bool read, with_root; /* what `run` has to do */
	bool changed;	      /* what was found is refused: it was written after it was mapped */
	bool stuck;	      /* its file system does not answer */
	/* what it found */
	bool tried;
	int error;
	bool candidate_is;	   /* it is the candidate's file */
	uint64_t opened_real_ns;   /* CLOCK_REALTIME_COARSE, then */
	struct proc_opened opened; /* fd: owned, O_PATH; -1 */
	struct binary *binary;	   /* owned; NULL: not read */
	struct proc_root *root;	   /* one reference; NULL */
	uint32_t index;		   /* of a binary that is known */
};

/*
 * The vDSO is the same memory in every process of an architecture and has no file: we copy our own. Page by
 * page, since a write from an address that is not mapped fails, where a read would kill us.
 */
static int vdso_add(struct openings *o)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t n = 0;
	int r;

	if (!vdso)
		return 0;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n < VDSO_MAX_BYTES && write(fd, vdso + n, 4096) == 4096)
		n += 4096;
	if (fstat(fd, &st) < 0)
		return -errno;
	r = binary_registry_add(o->options.binaries, TAKE_FD(fd), &st, VDSO_NAME, &o->vdso);
	if (r < 0)
		return r;
	(void)binary_registry_hold(o->options.binaries, o->vdso); /* as long as there are processes */
	unwind_tables_add(o->options.tables, o->vdso);
	return 0;
}

int openings_new(struct openings **ret, const struct openings_options *options)
{
	struct openings *o = calloc(1, sizeof *o);
	int r;

	if (!o)
		return -ENOMEM;
	o->options = *options;
	map_init(&o->shares, REQUEST_QUEUE_MAX);
	o->vdso = PROC_FILE_NONE;
	r = vdso_add(o);
	if (r < 0) {
		openings_free(o);
		return r;
	}
	*ret = o;
	return 0;
}

void openings_on_resolved(struct openings *o, void (*fn)(uint32_t ticket, uint32_t to, void *data),
			  void *data)
{
	o->resolved = fn;
	o->resolved_data = data;
}

void openings_free(struct openings *o)
{
	if (!o)
		return;
	map_fini(&o->shares);
	free(o);
}

uint32_t openings_vdso(const struct openings *o)
{
	return o->vdso;
}

/* --- on a thread */

static bool is_gone(int error)
{
	return error == -ESRCH || error == -ENOENT;
}

/*
 * When the file was mapped, CLOCK_REALTIME. A mapping that was read from /proc was there when we made the
 * request.
 */
static uint64_t mapped_ns(const struct opening *g)
{
	uint64_t mono_ns = g->evidence.inode ? g->evidence.time_ns : g->request.made_ns;

	return mono_ns + (uint64_t)g->request.clock.real_offset_ns();
}

/* Whether the candidate's file has its content still, and has not changed since it was mapped. */
static bool is_candidate(const struct opening *g)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	enum elf_version_change change;
	struct elf_version version;
	struct stat now;

	if (!g->candidate)
		return false;
	change = elf_version_look(&g->candidate_version, g->candidate_fd, &now);
	if (change == ELF_VERSION_OTHER)
		return false;
	elf_version_of_stat(&version, &now, 0);
	if (!elf_version_was_mapped(&version, mapped_ns(g), 0, false, false))
		return false;
	return change == ELF_VERSION_SAME ||
	       elf_version_open(&img, g->candidate_fd, &g->candidate_version) == 0;
}

static void find(struct opening *g, const struct proc_view *proc)
{
	g->tried = true;
	g->error = proc->ops->open_mapping(proc->data, &g->find, &g->opened);
	g->opened_real_ns = elf_version_clock_ns();
	g->candidate_is = is_gone(g->error) && is_candidate(g);
	if (g->candidate_is)
		return;
	for (unsigned i = 0; i < ANCESTORS_MAX && is_gone(g->error) && g->ancestors[i]; i++) {
		int r = proc->ops->open_other(proc->data, g->ancestors[i], &g->find, &g->opened);

		if (r == 0 || r == -ETIMEDOUT)
			g->error = r;
	}
}

static void opening_run(struct request *q)
{
	struct opening *g = container_of(q, struct opening, request);

	g->find.watch = &q->watch;
	if (g->error == -ETIMEDOUT) { /* refused before */
		g->tried = g->opened.fd >= 0;
		g->error = 0;
	}
	if (!g->tried)
		find(g, &q->proc);
	if (!g->read || g->error < 0 || g->binary)
		return;
	if (!request_enters(q, g->opened.st.st_dev)) {
		g->error = -ETIMEDOUT;
		return;
	}
	g->error = binary_new(&g->binary, g->opened.fd, &g->opened.st, g->path);
	g->changed = g->error == -ESTALE;
	if (g->error < 0)
		return;
	g->opened.fd = -1; /* the binary has taken it */
	if (g->with_root && g->binary->n_segments)
		(void)q->proc.ops->open_root(q->proc.data, q->pid, &g->root);
}

/* --- on the main loop */

/* A file in memory never had a name. */
static bool is_deleted(const struct opening *g)
{
	return g->opened.st.st_nlink == 0 && strncmp(g->path, MEMFD, sizeof MEMFD - 1) != 0;
}

/*
 * Whether the file that was found has the content that it had when it was mapped. Files that are not ELF grow
 * while they are mapped: lists of generated code.
 */
static bool has_mapped_content(const struct opening *g, const struct binary *b)
{
	bool mapping = g->opened.way == PROC_OPEN_MAP_FILES;

	if (!b->n_segments && (mapping || !g->evidence.inode))
		return true;
	if (mapping && !g->evidence.inode)
		return true; /* the mapping was read from /proc just now */
	return elf_version_was_mapped(&b->version, mapped_ns(g), g->opened_real_ns, mapping, is_deleted(g));
}

/* Whether a known binary, found by the times of its file, has the content that was read. */
static bool has_content_of(const struct binary *b, const struct binary *read)
{
	return b->version.kind != read->version.kind || b->version.mark == read->version.mark;
}

/* Whether the file has to be read. */
static bool opening_again(struct request *q)
{
	struct opening *g = container_of(q, struct opening, request);
	struct binary_registry *binaries = g->owner->options.binaries;
	struct binary *b;

	if (g->error < 0)
		return false;
	g->index = binary_registry_known(binaries, &g->opened.st);
	b = g->index ? binary_registry_get(binaries, g->index) : g->binary;
	if (!b || (!g->binary && b->n_segments && b->version.recent)) {
		g->read = true;
		return true;
	}
	if (g->index && g->binary && !has_content_of(b, g->binary)) {
		g->index = 0;
		b = g->binary;
	}
	if (g->evidence.inode && !binary_accept_evidence(b, &g->evidence)) {
		g->error = -ESTALE; /* another file has its inode number */
	} else if (!has_mapped_content(g, b)) {
		g->error = -ESTALE;
		g->changed = true;
	}
	return false;
}

/* Its file system does not answer: the request comes back when it does. */
static bool opening_refused(struct request *q)
{
	return container_of(q, struct opening, request)->error == -ETIMEDOUT;
}

static void count(struct openings_stats *s, const struct opening *g, uint32_t known)
{
	if (g->error == 0) {
		s->opened++;
		s->other += g->opened.way == PROC_OPEN_OTHER;
	} else if (known) {
		s->known++;
	} else if (is_gone(g->error)) {
		s->gone++;
	} else if (g->changed) {
		s->changed++;
	} else {
		s->failed++;
	}
}

/* A known binary was opened: its descriptor may have been closed while nothing referred to it. */
static void adopt(struct opening *g)
{
	const struct openings_options *o = &g->owner->options;
	int *fd = g->binary ? &g->binary->fd : &g->opened.fd;

	if (g->binary && g->binary->n_segments && !g->binary->version.recent)
		binary_registry_confirmed(o->binaries, g->index, &g->binary->version, false,
					  g->request.made_ns);
	if (!binary_registry_adopt(o->binaries, g->index, fd))
		return;
	if (g->root)
		binary_registry_set_root(o->binaries, g->index, g->root);
	unwind_tables_reopened(o->tables, g->index);
}

/* At the maximum of binaries, or its tenant is: counted there. */
static uint32_t refused(const struct opening *g)
{
	g->owner->stats.refused_pid = g->process->pid;
	return PROC_FILE_NONE;
}

/*
 * The index of the binary that was found, to be held at once; PROC_FILE_NONE where there is none (counted).
 * Once.
 */
static uint32_t settle(struct opening *g)
{
	struct openings *o = g->owner;
	uint32_t index = g->index;

	if (g->error < 0)
		index = g->candidate_is ? g->candidate : 0;
	if (fs_is_short(g->error))
		gap_note(o->options.gaps, g->error == -ENOMEM ? GAP_NO_MEMORY : GAP_NOT_OPENED);
	count(&o->stats, g, index);
	if (g->error < 0)
		return index ?: PROC_FILE_NONE;
	if (index && !binary_registry_admits(o->options.binaries, index))
		return refused(g);
	if (index) {
		adopt(g);
		return index;
	}
	if (binary_registry_enter(o->options.binaries, TAKE_PTR(g->binary), g->process->image->context.tenant,
				  &index) < 0)
		return refused(g);
	binary_registry_confirmed(o->options.binaries, index, NULL, false, g->request.made_ns);
	if (g->root)
		binary_registry_set_root(o->options.binaries, index, g->root);
	unwind_tables_add(o->options.tables, index);
	return index;
}

struct resolving {
	const struct opening *opening;
	uint32_t from, to; /* ticket; binary, or another ticket */
};

static void resolve_process(struct process *p, void *data)
{
	struct resolving *r = data;
	const struct opening *g = r->opening;

	if (p != g->process && p->start_ns + EVENT_LAG_NS < g->request.made_ns)
		return; /* too old to be forked since */
	proc_history_opened(p, r->from, r->to);
	if (proc_maps_opened(p->maps, r->from, r->to))
		publication_resolved(g->owner->options.publication, p);
}

/* Puts the binary in place of the ticket: for the process, and for those that it has forked since. */
static void resolve(struct resolving *r)
{
	const struct opening *g = r->opening;

	resolve_process(g->process, r);
	if (g->process->n_forks != g->n_forks) /* they have its lists */
		proc_table_each(g->owner->options.processes, resolve_process, r);
	if (g->owner->resolved)
		g->owner->resolved(r->from, r->to, g->owner->resolved_data);
	publication_changed(g->owner->options.publication); /* samples of ended processes wait, too */
}

static uint32_t ticket_of(const struct opening *g)
{
	return g->ticket | PROC_FILE_OPENING | (g->stuck ? PROC_FILE_STUCK : 0);
}

static void opening_late(struct request *q)
{
	struct opening *g = container_of(q, struct opening, request);

	resolve(&(struct resolving){.opening = g, .from = ticket_of(g), .to = settle(g)});
}

/* The mapping gets another ticket, with which samples do not wait for the file. */
static void opening_stuck(struct request *q)
{
	struct opening *g = container_of(q, struct opening, request);
	struct resolving r = {.opening = g, .from = ticket_of(g)};

	if (g->stuck)
		return;
	g->stuck = true;
	g->owner->stats.stuck++;
	r.to = ticket_of(g);
	if (g->ticket)
		resolve(&r);
}

/* --- shares of what waits */

/*
 * Whether others have too little left of the queue: one tenant may take three quarters of it, two of them
 * 3/7 each, and so on.
 */
static bool share_is_full(const struct openings *o, const struct tenant_share *s)
{
	return s && s->refs >= OPENING_SHARE * (o->n < REQUEST_QUEUE_MAX ? REQUEST_QUEUE_MAX - o->n : 0);
}

/* Takes a part of the tenant's share. 0; -EDQUOT: it is full; -ENOMEM. */
static int share_get(struct opening *g)
{
	struct openings *o = g->owner;
	const uint64_t tenant = g->process->image->context.tenant;
	struct tenant_share *s = tenant ? tenant_share_find(&o->shares, tenant) : NULL;
	int r;

	if (!tenant)
		return 0;
	if (share_is_full(o, s))
		return -EDQUOT;
	if (!s) {
		s = calloc(1, sizeof *s);
		r = s ? tenant_share_add(&o->shares, s, tenant) : -ENOMEM;
		if (r < 0) {
			free(s);
			return r;
		}
	}
	s->refs++;
	o->n++;
	g->share = s;
	return 0;
}

static void share_put(struct opening *g)
{
	struct tenant_share *s = TAKE_PTR(g->share);

	if (!s)
		return;
	g->owner->n--;
	if (--s->refs)
		return;
	tenant_share_remove(&g->owner->shares, s);
	free(s);
}

static void opening_free(struct request *q)
{
	struct opening *g = container_of(q, struct opening, request);

	if (g->opened.fd >= 0)
		close(g->opened.fd);
	binary_free(g->binary);
	binary_registry_release(g->owner->options.binaries, g->candidate);
	share_put(g);
	proc_root_unref(g->root);
	process_unref(g->process);
	free(g->path);
	free(g);
}

static const struct request_kind opening_kind = {
	.what = "opening a file that it has mapped",
	.run = opening_run,
	.again = opening_again,
	.refused = opening_refused,
	.late = opening_late,
	.stuck = opening_stuck,
	.free = opening_free,
};

static void set_ancestors(struct opening *g, const struct proc_table *processes)
{
	const struct process *p = g->process;

	for (unsigned i = 0; p && i < ANCESTORS_MAX; i++) {
		g->ancestors[i] = p->parent_pid;
		p = p->parent_pid ? proc_table_get(processes, p->parent_pid) : NULL;
	}
}

static void candidate_set(struct opening *g)
{
	struct binary_registry *binaries = g->owner->options.binaries;
	const struct binary *b;

	g->candidate = g->evidence.inode ? binary_registry_find_gone(binaries, &g->evidence) : 0;
	b = binary_registry_get(binaries, g->candidate);
	if (!b)
		return;
	(void)binary_registry_hold(binaries, g->candidate); /* it keeps its descriptor as long */
	g->candidate_fd = b->fd;
	g->candidate_version = b->version;
}

/* `evidence`: of the mapping's event; NULL: it was read from /proc. NULL: no memory. */
static struct opening *opening_new(struct openings *o, struct process *p,
				   const struct proc_open_request *find,
				   const struct binary_evidence *evidence)
{
	struct opening *g = calloc(1, sizeof *g);

	if (!g)
		return NULL;
	g->owner = o;
	g->process = process_ref(p);
	g->n_forks = p->n_forks;
	g->find = *find;
	g->opened.fd = -1;
	g->with_root = o->options.debug_files;
	g->path = strdup(find->path);
	if (!g->path) {
		opening_free(&g->request);
		return NULL;
	}
	g->find.path = g->request.path = g->path;
	g->find.unread = true;
	if (evidence)
		g->evidence = *evidence;
	candidate_set(g);
	g->read = evidence && !g->candidate;
	set_ancestors(g, o->options.processes);
	return g;
}

static uint32_t ticket_new(struct openings *o)
{
	o->ticket = (o->ticket + 1) & ~(PROC_FILE_OPENING | PROC_FILE_STUCK);
	return o->ticket ?: ticket_new(o);
}

static uint32_t open_file(struct openings *o, const struct proc_open_request *find,
			  const struct binary_evidence *evidence)
{
	struct process *p = proc_table_get(o->options.processes, find->pid);
	struct opening *g = p ? opening_new(o, p, find, evidence) : NULL;
	uint32_t index;

	if (!g) {
		if (p)
			gap_note(o->options.gaps, GAP_NO_MEMORY);
		return PROC_FILE_NONE;
	}
	switch (share_get(g) < 0
			? REQUEST_REFUSED
			: requests_make(o->options.requests, &g->request, &opening_kind, find->pid)) {
	case REQUEST_LATER:
		g->ticket = ticket_new(o);
		return ticket_of(g);
	case REQUEST_DONE:
		break;
	case REQUEST_REFUSED:
		g->error = -EAGAIN;
		break;
	}
	index = settle(g);
	opening_free(&g->request);
	return index;
}

/* Whether the mapping's name is that of a file. */
static bool is_file_name(const char *name)
{
	return name[0] == '/' && strncmp(name, "//anon", 6) != 0 && strncmp(name, "/dev/zero", 9) != 0 &&
	       strncmp(name, "/SYSV", 5) != 0 && strncmp(name, "/anon_hugepage", 14) != 0;
}

bool openings_current(const struct openings *o, uint32_t file)
{
	const struct binary *b = binary_registry_get(o->options.binaries, file);

	return !b || !b->n_segments || file == o->vdso ||
	       binary_registry_unchanged(o->options.binaries, file);
}

uint32_t openings_of_line(struct openings *o, uint32_t pid, const struct proc_maps_line *line,
			  const char *path)
{
	const struct proc_open_request find = {
		.pid = pid,
		.start = line->start,
		.end = line->end,
		.path = path,
		.deleted = line->deleted,
		.has_inode = line->inode != 0,
		.inode = line->inode,
		.dev_major = line->dev_major,
		.dev_minor = line->dev_minor,
	};

	if (strcmp(path, VDSO_NAME) == 0)
		return o->vdso;
	return is_file_name(path) ? open_file(o, &find, NULL) : PROC_FILE_NONE;
}

uint32_t openings_of_event(struct openings *o, const struct sideband_event *e)
{
	const struct proc_open_request find = {
		.pid = e->pid,
		.start = e->mmap.start,
		.end = e->mmap.start + e->mmap.len,
		.path = e->name,
		.has_inode = !e->mmap.has_build_id && e->mmap.inode,
		.inode = e->mmap.inode,
		.dev_major = e->mmap.dev_major,
		.dev_minor = e->mmap.dev_minor,
	};
	const struct binary_evidence evidence = {
		.dev = makedev(find.dev_major, find.dev_minor),
		.inode = find.inode,
		.has_generation = e->mmap.generation != 0, /* file systems without generations say 0 */
		.generation = (uint32_t)e->mmap.generation,
		.time_ns = e->time_ns,
	};

	if (strcmp(e->name, VDSO_NAME) == 0)
		return o->vdso;
	if (!is_file_name(e->name))
		return PROC_FILE_NONE;
	return open_file(o, &find, find.has_inode ? &evidence : NULL);
}

void openings_stats(const struct openings *o, struct openings_stats *ret)
{
	*ret = o->stats;
}
