// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/cleanup.h"
#include "agent/proc/process.h"

static struct proc_program *program_new(void)
{
	struct proc_program *g = calloc(1, sizeof *g);

	if (!g)
		return NULL;
	(void)!getrandom(&g->secret, sizeof g->secret, GRND_NONBLOCK);
	g->refs = 1;
	return g;
}

static struct proc_program *program_ref(struct proc_program *g)
{
	g->refs++;
	return g;
}

static void program_unref(struct proc_program *g)
{
	if (!g || --g->refs)
		return;
	free(g->exe);
	free(g->service_name);
	free(g);
}

static struct proc_context context_ref(struct proc_context c)
{
	if (c.data)
		c.ref(c.data);
	return c;
}

static void context_unref(struct proc_context *c)
{
	if (c->data)
		c->unref(c->data);
	c->data = NULL;
}

struct proc_image *proc_image_ref(struct proc_image *i)
{
	(void)process_ref(i->process);
	i->refs++;
	return i;
}

/* Drops a reference, which may be the process's own. */
static void image_put(struct proc_image *i)
{
	if (--i->refs)
		return;
	program_unref(i->program);
	context_unref(&i->context);
	context_unref(&i->guess);
	free(i);
}

void proc_image_unref(struct proc_image *i)
{
	struct process *p = i ? i->process : NULL;

	if (i)
		image_put(i);
	process_unref(p);
}

/* Copies the names of `from`; times and identity remain those of the image. */
static void names_copy(struct proc_image *to, const struct proc_image *from)
{
	memcpy(to->comm, from->comm, sizeof to->comm);
	to->selected = from->selected;
	to->program = program_ref(from->program);
	to->context = context_ref(from->context);
	to->context_ns = from->context_ns;
}

static void count(struct process *p, int n)
{
	p->n_images += (uint32_t)n;
	if (p->n_images_all)
		*p->n_images_all += (size_t)n;
}

static struct proc_image *image_new(struct process *p, uint64_t since_ns)
{
	struct proc_image *i = calloc(1, sizeof *i);

	if (!i)
		return NULL;
	i->refs = 1;
	i->process = p;
	i->pid = p->pid;
	i->start_ns = p->start_ns;
	i->since_ns = since_ns;
	return i;
}

/* Drops the images before `i`. */
static void forget_before(struct process *p, struct proc_image *i)
{
	struct proc_image *old = TAKE_PTR(i->before);

	while (old) {
		struct proc_image *before = TAKE_PTR(old->before);

		image_put(old);
		count(p, -1);
		old = before;
	}
}

/* A sample from before the oldest image must not get the names of a later one. */
static void forget_unknown(struct process *p, struct proc_image *i)
{
	struct proc_image *unknown;

	if (!i->before)
		return;
	forget_before(p, i);
	unknown = image_new(p, p->start_ns);
	if (!unknown)
		return;
	strcpy(unknown->comm, "[unknown]");
	unknown->selected = i->selected;
	unknown->program = program_new();
	if (!unknown->program) {
		free(unknown);
		return;
	}
	unknown->context = context_ref(i->context);
	i->before = unknown;
	count(p, 1);
}

static void bound(struct process *p)
{
	struct proc_image *i = p->image;

	if (p->n_images < PROC_IMAGES_MAX && (!p->n_images_all || *p->n_images_all < PROC_IMAGES_ALL_MAX))
		return;
	if (p->n_images < PROC_IMAGES_MAX) {
		forget_unknown(p, i);
		return;
	}
	while (i->before && i->before->before && i->before->before->before)
		i = i->before;
	forget_unknown(p, i);
}

int proc_image_first(struct process *p)
{
	struct proc_image *i = image_new(p, p->start_ns);

	if (!i)
		return -ENOMEM;
	i->program = program_new();
	if (!i->program) {
		free(i);
		return -ENOMEM;
	}
	p->image = i;
	count(p, 1);
	return 0;
}

int proc_image_begin(struct process *p, uint64_t since_ns, struct proc_image **ret)
{
	struct proc_image *i = image_new(p, since_ns > p->image->since_ns ? since_ns : p->image->since_ns);

	if (!i)
		return -ENOMEM;
	bound(p);
	names_copy(i, p->image);
	i->guess = context_ref(p->image->guess);
	i->before = p->image;
	p->image = i;
	count(p, 1);
	*ret = i;
	return 0;
}

int proc_image_exec(struct process *p, uint64_t since_ns, struct proc_image **ret)
{
	struct proc_program *g = program_new();
	int r;

	if (!g)
		return -ENOMEM;
	proc_program_leave(p->image->program, p->pid, since_ns);
	r = proc_image_begin(p, since_ns, ret);
	if (r < 0) {
		program_unref(g);
		return r;
	}
	program_unref((*ret)->program);
	(*ret)->program = g;
	return 0;
}

void proc_image_inherit(struct process *p, const struct process *parent)
{
	program_unref(p->image->program);
	context_unref(&p->image->context);
	context_unref(&p->image->guess);
	names_copy(p->image, parent->image);
	p->image->context_ns = 0; /* the child may be in another control group from its beginning */
}

struct proc_image *proc_image_at(const struct process *p, uint64_t time_ns)
{
	struct proc_image *i = p->image;

	while (i->before && i->since_ns > time_ns)
		i = i->before;
	return i;
}

void proc_image_set_context(struct proc_image *i, struct proc_context context, uint64_t read_ns)
{
	context_unref(&i->guess);
	i->guess = i->context;
	i->context = context;
	i->context_ns = read_ns;
}

void proc_image_disown(struct proc_image *i, uint64_t time_ns)
{
	if (i->context_ns <= time_ns || !i->guess.data)
		return;
	context_unref(&i->context);
	i->context = i->guess;
	i->guess = (struct proc_context){.data = NULL};
}

void proc_images_forget(struct process *p, uint64_t time_ns)
{
	struct proc_image *i = p->image;

	while (i->before && i->since_ns > time_ns)
		i = i->before;
	forget_before(p, i);
}

void proc_images_fini(struct process *p)
{
	if (!p->image)
		return;
	forget_before(p, p->image);
	image_put(TAKE_PTR(p->image));
	count(p, -1);
}

void proc_program_set_service(struct proc_program *g, char *name, uint32_t pid, uint64_t read_ns)
{
	free(g->service_name);
	g->service_name = name;
	g->environ_pid = pid;
	g->environ_ns = read_ns;
}

void proc_program_leave(struct proc_program *g, uint32_t pid, uint64_t time_ns)
{
	if (g->environ_pid == pid && g->environ_ns > time_ns)
		proc_program_set_service(g, NULL, pid, g->environ_ns);
}

const char *proc_image_executable(const struct proc_image *i)
{
	const char *exe = i->program->exe, *slash = exe ? strrchr(exe, '/') : NULL;

	if (!exe)
		return i->comm;
	return slash && slash[1] ? slash + 1 : exe;
}

/*
 * Whether s is a name that any program's main thread could have. Letter case, spaces and punctuation make no
 * difference: "Main Thread", "main_thread".
 */
static bool is_general(const char *s)
{
	static const char *const names[] = {"main", "mainthread", "mainthrd", "mainloop"};
	char letters[PROC_TASK_COMM_LEN];
	size_t n = 0;

	for (; *s && n + 1 < sizeof letters; s++) {
		if (*s >= 'A' && *s <= 'Z')
			letters[n++] = (char)(*s - 'A' + 'a');
		else if (!strchr(" -_.:", *s))
			letters[n++] = *s;
	}
	letters[n] = '\0';
	for (size_t k = 0; k < ARRAY_SIZE(names); k++)
		if (strcmp(letters, names[k]) == 0)
			return true;
	return false;
}

const char *proc_image_name(const struct proc_image *i)
{
	const char *exe = proc_image_executable(i);
	size_t same = 0; /* bytes with which both names begin */

	if (strcmp(i->comm, i->program->comm) == 0)
		return i->comm;
	while (exe[same] && exe[same] == i->comm[same])
		same++;
	/* "node-MainThread" of node */
	if (!exe[same] && i->comm[same] && strchr("-_:", i->comm[same]))
		return is_general(i->comm + same + 1) ? exe : i->comm;
	return is_general(i->comm) ? exe : i->comm;
}
