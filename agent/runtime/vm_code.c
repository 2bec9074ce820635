// SPDX-License-Identifier: Apache-2.0
/*
 * The pieces of a machine are in ascending order and do not overlap: a new one takes the place of those
 * whose memory it uses. Methods are kept as long as the machine is, since their objects are as long as
 * their class: one whose memory is used for another method afterwards is replaced when a record says so. A
 * frame has the name of the one that was found there before its sample and found again after it; where no
 * class was unloaded meanwhile, one look is enough. Of code that may be freed at any time, frames
 * have the name only between two looks that have found the same.
 */
#include "agent/runtime/vm_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/flat.h"
#include "agent/base/map.h"
#include "agent/elf/runtime/hotspot_unloads.h"
#include "agent/elf/runtime/vm_answer.h"
#include "agent/runtime/code_names.h"
#include "bpf/abi.h"

#define MACHINES_MAX 1024u
#define METHODS_MAX 262144u	    /* of a machine */
#define PIECES_MAX 65536u	    /* of a machine */
#define LOOK_NS (NS_PER_SEC / 4)    /* between looks at code of V8 that is another function's */
#define LOOKS 32u		    /* at a machine that are kept */
#define NOTHING_MAX 64u		    /* addresses without a method that are kept */
#define V8_LOOK_NS (2 * NS_PER_SEC) /* between looks at code of V8 */
#define FULL_NS (10 * NS_PER_SEC)   /* until there may be room again */

struct method {
	struct map_node node;
	uint64_t address; /* 0: a stub, by its name */
	uint64_t number;
	uint64_t since_ns, same_ns; /* it had its object from then on; until then, at least */
	uint64_t sure_ns;	    /* no class was unloaded from then to the last look that has found it */
	uint64_t unloaded;	    /* classes by that look (struct look); 0: not known */
	/*
	 * It was there at that look: a sample has met it, and no class was unloaded meanwhile. Else it
	 * may have been found in memory that was free already, and would be given to another one.
	 */
	bool alive;
	bool replaced;	/* its object is another method's */
	size_t file_at; /* in data */
	char data[];	/* name and file, each with its NUL */
};

/* A compiled method, or a stub. */
struct piece {
	uint64_t start, end;
	size_t bytes; /* of the allocation */
	bool freed;   /* it may be freed at any time, and another piece have its place */
	uint32_t compile_id;
	uint64_t since_ns; /* of such a one, when it was found; of one of V8, when it was looked at */
	uint64_t sure_ns;  /* of one of Java's: it was there from then on */
	uint64_t pending;  /* number of its frames since the last look that has found it the same; 0: none */
	uint64_t pending_ns; /* when the last of these frames was taken */
	uint32_t n_methods, n_scopes, n_places;
	struct method **methods; /* the following are parts of the allocation */
	const struct hotspot_scope *scopes;
	const struct hotspot_place *places;
	uint64_t data[];
};

/* A look at a machine. */
struct look {
	uint64_t began_ns, taken_ns;
	uint64_t unloaded; /* classes unloaded, and one more; 0: not known, or it has changed meanwhile */
	bool changed;	   /* it has */
};

struct nothing {
	uint64_t address, began_ns;
};

struct machine {
	struct map_node node;
	uint32_t index;
	enum frame_runtime runtime;
	uint64_t full_ns; /* when there was no room for a record; 0: never */
	bool wants;	  /* frames of methods without a name have occurred since the last record */
	uint64_t tenant, secret;
	struct look looks[LOOKS];
	struct nothing nothing[NOTHING_MAX];
	unsigned n_looks, n_nothing;
	bool replaces;	       /* a method was found in the place of another one */
	struct map methods;    /* owned */
	struct piece **pieces; /* owned */
	size_t n, cap;
};

struct vm_code {
	struct code_names *names;
	struct map machines;
	size_t max_bytes;
	uint64_t (*mono_ns)(void);
	uint64_t next_secret;
	struct vm_code_stats stats;
};

int vm_code_new(struct vm_code **ret, struct code_names *names, size_t max_bytes, uint64_t (*mono_ns)(void))
{
	struct vm_code *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	j->names = names;
	j->max_bytes = max_bytes;
	j->mono_ns = mono_ns;
	if (getrandom(&j->next_secret, sizeof j->next_secret, GRND_NONBLOCK) < 0)
		j->next_secret = (uintptr_t)j;
	map_init(&j->machines, MACHINES_MAX);
	*ret = j;
	return 0;
}

static size_t method_bytes(const struct method *m)
{
	return sizeof *m + m->file_at + strlen(m->data + m->file_at) + 1;
}

static void machine_free(struct vm_code *j, struct machine *x)
{
	struct map_node *node;

	for (size_t i = 0; i < x->n; i++) {
		j->stats.bytes -= x->pieces[i]->bytes;
		j->stats.pieces--;
		free(x->pieces[i]);
	}
	free(x->pieces);
	map_for_each (&x->methods, node, it) {
		struct method *m = container_of(node, struct method, node);

		j->stats.bytes -= method_bytes(m);
		j->stats.methods--;
		free(m);
	}
	map_fini(&x->methods);
	map_remove(&j->machines, &x->node);
	free(x);
}

void vm_code_free(struct vm_code *j)
{
	struct map_node *node;

	if (!j)
		return;
	map_for_each (&j->machines, node, it)
		machine_free(j, container_of(node, struct machine, node));
	map_fini(&j->machines);
	free(j);
}

static bool machine_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct machine, node)->index == *(const uint32_t *)key;
}

static struct machine *machine_find(const struct vm_code *j, uint32_t index)
{
	struct map_node *node = map_find(&j->machines, hash_u64(index), machine_is, &index);

	return node ? container_of(node, struct machine, node) : NULL;
}

/* NULL: no memory, or no room. */
static struct machine *machine_get(struct vm_code *j, uint32_t index, uint64_t tenant)
{
	struct machine *x = machine_find(j, index);

	if (x)
		return x;
	x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	x->index = index;
	x->tenant = tenant;
	x->secret = hash_u64(j->next_secret++);
	map_init(&x->methods, METHODS_MAX);
	if (map_insert(&j->machines, &x->node, hash_u64(index)) < 0) {
		map_fini(&x->methods);
		free(x);
		return NULL;
	}
	return x;
}

void vm_code_forget(struct vm_code *j, uint32_t machine)
{
	struct machine *x = machine_find(j, machine);

	if (x)
		machine_free(j, x);
}

/* --- methods */

/* The number of a method's code object. A machine's methods have others than those of another one. */
static uint64_t number_of(const struct machine *x, uint64_t address)
{
	return hash_u64(x->secret ^ hash_u64(address)) & FRAME_VA_MASK;
}

struct method_key {
	uint64_t address;
	const char *name; /* NULL: whatever the name of the present method is */
	uint64_t time_ns; /* not 0: of the method that had the object then */
};

static bool method_is(const struct map_node *node, const void *key)
{
	const struct method *m = container_of(node, struct method, node);
	const struct method_key *k = key;

	if (m->address != k->address)
		return false;
	if (k->time_ns)
		return k->time_ns >= m->since_ns && k->time_ns < m->same_ns;
	return k->name ? strcmp(m->data, k->name) == 0 : !m->replaced;
}

static uint64_t method_hash(const struct machine *x, const struct method_key *k)
{
	return hash_u64(x->secret ^ (k->address ?: hash_bytes(k->name, strlen(k->name))));
}

static struct method *method_find(const struct machine *x, const struct method_key *k)
{
	struct map_node *node =
		k->address || k->name ? map_find(&x->methods, method_hash(x, k), method_is, k) : NULL;

	return node ? container_of(node, struct method, node) : NULL;
}

/* NULL: no memory, or no room. */
static struct method *method_add(struct vm_code *j, struct machine *x, const struct method_key *key,
				 const char *file)
{
	const size_t name_len = strlen(key->name) + 1, file_len = strlen(file) + 1;
	const bool first = key->address && !method_find(x, &(struct method_key){.address = key->address});
	struct method *m;

	if (j->stats.bytes + sizeof *m + name_len + file_len > j->max_bytes) {
		j->stats.full++;
		return NULL;
	}
	m = calloc(1, sizeof *m + name_len + file_len);
	if (!m)
		return NULL;
	m->address = key->address;
	m->number =
		x->runtime == RUNTIME_V8
			? key->address & FRAME_VA_MASK
			: number_of(x, first ? key->address : key->address ^ hash_bytes(key->name, name_len));
	m->file_at = name_len;
	memcpy(m->data, key->name, name_len);
	memcpy(m->data + name_len, file, file_len);
	if (map_insert(&x->methods, &m->node, method_hash(x, key)) < 0) {
		free(m);
		j->stats.full++;
		return NULL;
	}
	j->stats.bytes += method_bytes(m);
	j->stats.methods++;
	return m;
}

static struct look *last_look(struct machine *x)
{
	return &x->looks[(x->n_looks + LOOKS - 1) % LOOKS];
}

/* Whether, as far as is known, no method has ever lost its object. */
static bool keeps_methods(struct machine *x)
{
	const struct look *last = last_look(x);

	return last->unloaded == HOTSPOT_UNLOADS_NONE || (!last->unloaded && !last->changed && !x->replaces);
}

/*
 * Since when what the last look has found was there: no class was unloaded since. Where that is not
 * known, as long as nothing was ever found in the place of something else, nothing is taken to be.
 */
static uint64_t there_since(const struct vm_code *j, struct machine *x)
{
	const struct look *last = last_look(x);
	uint64_t since_ns = j->mono_ns();

	if (keeps_methods(x))
		return 0;
	for (unsigned i = 2; last->unloaded && i <= LOOKS && i <= x->n_looks; i++) {
		const struct look *k = &x->looks[(x->n_looks - i) % LOOKS];

		if (k->unloaded != last->unloaded)
			break;
		since_ns = k->taken_ns;
	}
	return since_ns;
}

/* Finds or adds a method, in place of what its object was before. NULL: no memory, or no room. */
static struct method *method_get(struct vm_code *j, struct machine *x, uint64_t address, const char *name,
				 const char *file)
{
	const struct method_key key = {.address = address, .name = name};
	struct method *present = address ? method_find(x, &(struct method_key){.address = address}) : NULL;
	struct method *m = method_find(x, &key);
	const struct look *last = last_look(x);

	if (!m)
		m = method_add(j, x, &key, file);
	if (m && present && present != m) {
		present->replaced = true;
		x->replaces = true;
		j->stats.replaced++;
	}
	if (!m)
		return NULL;
	m->sure_ns = there_since(j, x);
	if (present != m)
		m->since_ns = m->sure_ns;
	m->alive = !last->changed &&
		   (!last->unloaded || (present == m && m->alive && m->unloaded == last->unloaded));
	m->replaced = false;
	m->same_ns = last->began_ns;
	m->unloaded = last->unloaded;
	return m;
}

/* --- pieces */

static size_t pieces_from(const struct machine *x, uint64_t address)
{
	return array_first(x->n, i, x->pieces[i]->end > address);
}

static void piece_drop(struct vm_code *j, struct machine *x, size_t i)
{
	j->stats.bytes -= x->pieces[i]->bytes;
	j->stats.pieces--;
	free(x->pieces[i]);
	memmove(&x->pieces[i], &x->pieces[i + 1], (--x->n - i) * sizeof(struct piece *));
}

/* Puts the piece in place of those that it overlaps. Takes it if it succeeds. 0 or -ENOMEM. */
static int piece_put(struct vm_code *j, struct machine *x, struct piece *p)
{
	size_t at = pieces_from(x, p->start);

	while (at < x->n && x->pieces[at]->start < p->end)
		piece_drop(j, x, at);
	if (x->n == PIECES_MAX || j->stats.bytes + p->bytes > j->max_bytes) {
		j->stats.full++;
		return -ENOMEM;
	}
	if (array_reserve(&x->pieces, &x->cap, x->n + 1, sizeof(struct piece *)) < 0)
		return -ENOMEM;
	memmove(&x->pieces[at + 1], &x->pieces[at], (x->n++ - at) * sizeof(struct piece *));
	x->pieces[at] = p;
	j->stats.bytes += p->bytes;
	j->stats.pieces++;
	return 0;
}

static bool scopes_valid(const struct piece *p)
{
	for (uint32_t i = 0; i < p->n_scopes; i++) {
		const struct hotspot_scope *s = &p->scopes[i];

		if (s->method >= p->n_methods || (s->outer != HOTSPOT_NO_SCOPE && s->outer >= i))
			return false;
	}
	for (uint32_t i = 0; i < p->n_places; i++)
		if (p->places[i].scope >= p->n_scopes || (i && p->places[i].end < p->places[i - 1].end))
			return false;
	return true;
}

/* The size of an array, padded. */
static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* An allocation with room for so many. NULL: no memory. */
static struct piece *piece_new(uint64_t methods, uint64_t scopes, uint64_t places)
{
	const size_t bytes = sizeof(struct piece) + methods * sizeof(struct method *) +
			     padded(scopes * sizeof(struct hotspot_scope)) +
			     places * sizeof(struct hotspot_place);
	struct piece *p = calloc(1, bytes);

	if (!p)
		return NULL;
	p->bytes = bytes;
	p->n_methods = (uint32_t)methods;
	p->n_scopes = (uint32_t)scopes;
	p->n_places = (uint32_t)places;
	p->methods = (struct method **)p->data;
	p->scopes = (const struct hotspot_scope *)(p->data + methods);
	p->places =
		(const struct hotspot_place *)((const char *)p->scopes + padded(scopes * sizeof *p->scopes));
	return p;
}

/* Reads the names of a piece of code, or of a method alone, of which nothing but the name is kept. */
static int read_names(struct vm_code *j, struct machine *x, struct flat_reader *from, struct piece **ret)
{
	const uint64_t methods = flat_u64(from), scopes = flat_u64(from), places = flat_u64(from);
	_cleanup_free_ struct piece *p = NULL;

	if (from->bad || !methods || methods > HOTSPOT_METHODS_MAX || scopes > HOTSPOT_SCOPES_MAX ||
	    places > HOTSPOT_PLACES_MAX)
		return -EBADMSG;
	p = piece_new(methods, scopes, places);
	if (!p)
		return -ENOMEM;
	for (uint64_t i = 0; i < methods; i++) {
		const uint64_t address = flat_u64(from);
		const char *name = flat_string(from), *file = flat_string(from);

		if (from->bad)
			return -EBADMSG;
		p->methods[i] = method_get(j, x, address, name, file);
		if (!p->methods[i])
			return -ENOMEM;
	}
	flat_get(from, (void *)p->scopes, scopes * sizeof *p->scopes);
	flat_get(from, (void *)p->places, places * sizeof *p->places);
	if (!flat_done(from) || !scopes_valid(p))
		return -EBADMSG;
	*ret = TAKE_PTR(p);
	return 0;
}

static int name_method(struct vm_code *j, const struct machine *x, const struct method *m)
{
	if (x->runtime == RUNTIME_V8 || code_names_has(j->names, m->number))
		return 0;
	return code_names_add_method(j->names, x->tenant, m->number, m->data, m->data + m->file_at);
}

/*
 * A piece that may be freed was looked at again, by a job that began then. Frames that came before have its
 * name if it is still the same, and never any if it is not.
 */
static int take_look(struct vm_code *j, struct machine *x, const struct vm_found *f, uint64_t began_ns)
{
	const size_t i = pieces_from(x, f->address);
	struct piece *p = i < x->n && x->pieces[i]->start == f->address ? x->pieces[i] : NULL;
	int r = 0;

	if (!p || (!p->freed && x->runtime != RUNTIME_V8))
		return 0;
	if (f->answer != VM_SAME) {
		piece_drop(j, x, i);
		return 0;
	}
	if (!p->freed)
		p->since_ns = began_ns;
	if (p->pending && p->pending_ns < began_ns) {
		const struct method *m = p->methods[0];

		r = code_names_add_method(j->names, x->tenant, p->pending, m->data, m->data + m->file_at);
		p->pending = 0;
	}
	return r;
}

static int take_record(struct vm_code *j, struct machine *x, const struct vm_found *f,
		       struct flat_reader *names, uint64_t began_ns)
{
	_cleanup_free_ struct piece *p = NULL;
	int r;

	if (f->answer == VM_NO_METHOD) {
		x->nothing[x->n_nothing++ % NOTHING_MAX] = (struct nothing){f->address, began_ns};
		return 0;
	}
	if (f->answer == VM_SAME || f->answer == VM_NOTHING || f->answer == VM_EMPTY)
		return take_look(j, x, f, began_ns);
	r = read_names(j, x, names, &p);
	if (r == 0 && f->answer == VM_METHOD)
		(void)name_method(j, x, p->methods[0]); /* frames of it may have occurred already */
	if (r < 0 || (f->answer == VM_METHOD && f->end == f->start)) /* without bytecode */
		return r;
	if (f->end <= f->start)
		return -EBADMSG;
	p->start = f->start;
	p->end = f->end;
	p->freed = f->freed;
	p->compile_id = f->compile_id;
	p->since_ns = began_ns;
	p->sure_ns = x->runtime == RUNTIME_JVM ? there_since(j, x) : 0;
	r = piece_put(j, x, p);
	if (r == 0)
		p = NULL;
	return r;
}

/*
 * There was no room. Functions of V8 get other numbers when their objects move, so what is known of them
 * grows for as long as the process runs: then it begins anew.
 */
static void is_full(struct vm_code *j, struct machine *x)
{
	const struct machine was = *x;

	if (x->runtime == RUNTIME_V8) {
		machine_free(j, x);
		x = machine_get(j, was.index, was.tenant);
	}
	if (!x)
		return;
	x->runtime = was.runtime;
	x->full_ns = j->mono_ns();
}

int vm_code_add(struct vm_code *j, const struct vm_code_records *records)
{
	struct flat_reader from = flat_read(records->bytes, records->len);
	struct machine *x = machine_get(j, records->machine, records->tenant);
	int r = x ? 0 : -ENOMEM;

	if (x) {
		x->wants = false;
		x->runtime = records->runtime;
		x->looks[x->n_looks++ % LOOKS] =
			(struct look){.began_ns = records->began_ns,
				      .taken_ns = j->mono_ns(),
				      .changed = records->unloaded_before != records->unloaded_after,
				      .unloaded = records->unloaded_before == records->unloaded_after
							  ? records->unloaded_after
							  : 0};
	}
	while (r == 0 && from.at < from.end) {
		struct flat_reader names;
		struct vm_found f;

		flat_get(&from, &f, sizeof f);
		names.at = flat_bytes(&from, f.name_bytes);
		if (from.bad || f.n_rows) {
			r = -EBADMSG;
			break;
		}
		names = flat_read(names.at, f.name_bytes);
		r = take_record(j, x, &f, &names, records->began_ns);
	}
	j->stats.bad += r == -EBADMSG;
	if (x && r == -ENOMEM)
		is_full(j, x);
	return r;
}

/* --- frames */

static void put_frame(struct vm_code *j, const struct machine *x, const struct method *m, uint32_t line,
		      uint64_t words[2])
{
	(void)name_method(j, x, m);
	words[0] = frame_runtime_head(x->runtime, 1, m->number);
	words[1] = line;
}

/* The frame of a method that will never be known. */
static size_t put_unknown(const struct machine *x, uint64_t words[2])
{
	words[0] = frame_runtime_head(x->runtime, 1, number_of(x, 0));
	words[1] = 0;
	return 2;
}

/*
 * The frame of a piece that may be freed: its number has no name yet. Where the sample is older than what is
 * known of the piece, it never gets one.
 */
static void put_pending(struct vm_code *j, struct machine *x, struct piece *p, struct vm_code_frame *f,
			uint64_t words[2])
{
	const bool known = f->time_ns > p->since_ns;

	if (known && !p->pending)
		p->pending = number_of(x, hash_u64(++j->next_secret));
	words[0] = frame_runtime_head(x->runtime, 1, known ? p->pending : number_of(x, 0));
	words[1] = 0;
	if (!known)
		return;
	p->pending_ns = j->mono_ns();
	f->look = p->start;
	x->wants = true;
}

/*
 * Whether a piece of V8's code is of the function whose frame is there. It is looked at now and then, and
 * sooner if it is not: the code may be another function's, or the function may have another number by now.
 */
static bool is_of_function(struct vm_code *j, const struct piece *p, struct vm_code_frame *f)
{
	const bool is = p->methods[0]->number == f->number;
	const uint64_t now_ns = j->mono_ns();
	/* all pieces at the same time: that is one job */
	const bool due = now_ns / V8_LOOK_NS != p->since_ns / V8_LOOK_NS;

	if (due || (!is && p->methods[0]->number && now_ns - p->since_ns >= LOOK_NS)) {
		f->look = p->start;
		f->look_end = p->end;
		f->look_id = p->compile_id;
	}
	return is;
}

size_t vm_code_frames(struct vm_code *j, struct vm_code_frame *f, uint64_t *words, size_t max)
{
	struct machine *x = machine_find(j, f->machine);
	size_t i = x ? pieces_from(x, f->address) : 0, n = 0, depth = 0;
	struct piece *p;
	uint32_t scope;

	f->look = 0;
	f->known = x && i < x->n && f->address >= x->pieces[i]->start;
	f->full = x && x->full_ns && j->mono_ns() - x->full_ns < FULL_NS;
	if (max < 2 || (!f->known && !(x && f->code)))
		return 0;
	if (!f->known)
		return put_unknown(x, words);
	p = x->pieces[i];
	if (p->freed) {
		put_pending(j, x, p, f, words);
		return 2;
	}
	if (x->runtime == RUNTIME_V8 && !is_of_function(j, p, f))
		return 0;
	if (f->code ? frame_code_id(p->compile_id) != frame_code_id(f->code)
		    : f->time_ns && f->time_ns < p->sure_ns &&
			      f->time_ns < p->since_ns) { /* other code was, or may have been */
		return put_unknown(x, words);
	}
	i = array_first(p->n_places, k, p->places[k].end >= f->address - p->start);
	if (i == p->n_places) {
		put_frame(j, x, p->methods[0], 0, words);
		return 2;
	}
	for (scope = p->places[i].scope; scope != HOTSPOT_NO_SCOPE; scope = p->scopes[scope].outer)
		depth++;
	for (scope = p->places[i].scope; scope != HOTSPOT_NO_SCOPE; scope = p->scopes[scope].outer) {
		const struct hotspot_scope *s = &p->scopes[scope];

		if (depth-- > max / 2)
			continue;
		put_frame(j, x, p->methods[s->method], s->line, words + n);
		n += 2;
	}
	return n;
}

/* Whether a method was there under the same number of unloaded classes as at the time of the sample. */
static bool is_alive(const struct method *present, const struct vm_code_method *m)
{
	return present && present->alive && m->unloaded && (uint32_t)present->unloaded == m->unloaded;
}

/* The present method at that address; NULL: none that is known. */
static struct method *present_method(const struct machine *x, const struct vm_code_method *m)
{
	return method_find(x, &(struct method_key){.address = m->address});
}

/* The method that had the object then, where `present` is the present one. NULL: none that is known. */
static struct method *method_at(const struct machine *x, struct method *present,
				const struct vm_code_method *m)
{
	if (is_alive(present, m))
		return present;
	return method_find(x, &(struct method_key){.address = m->address, .time_ns = m->time_ns});
}

static bool was_nothing(const struct machine *x, const struct vm_code_method *m)
{
	for (unsigned i = 0; i < x->n_nothing && i < NOTHING_MAX; i++)
		if (x->nothing[i].address == m->address && x->nothing[i].began_ns > m->time_ns)
			return true;
	return false;
}

bool vm_code_settled(struct vm_code *j, const struct vm_code_method *m)
{
	struct machine *x = machine_get(j, m->machine, m->tenant);
	struct method *present = x ? present_method(x, m) : NULL;
	struct method *met = x ? method_at(x, present, m) : NULL;
	const struct look *last = x && x->n_looks ? last_look(x) : NULL;

	if (is_alive(present, m))
		return true;
	if (met)
		met->alive |= m->time_ns >= met->sure_ns;
	if (present && m->unloaded && (uint32_t)present->unloaded == m->unloaded &&
	    present->same_ns > m->time_ns)
		present->alive =
			true; /* a sample has met it, and no class was unloaded before it was found */
	if (!x || !m->address || met || (x->full_ns && j->mono_ns() - x->full_ns < FULL_NS))
		return true;
	if (!present)
		return was_nothing(x, m);
	if (m->time_ns < present->since_ns)
		return true;
	if (!present->alive || !last || !last->unloaded || last->unloaded != present->unloaded ||
	    last->began_ns <= m->time_ns)
		return false;
	present->same_ns = last->began_ns;
	return true;
}

bool vm_code_interpreted(struct vm_code *j, const struct vm_code_method *method, uint64_t bytecode,
			 uint64_t words[2])
{
	struct machine *x = machine_get(j, method->machine, method->tenant);
	struct method *present = x ? present_method(x, method) : NULL;
	struct method *m = x ? method_at(x, present, method) : NULL;
	struct vm_code_frame place = {.machine = method->machine, .address = bytecode};
	bool known;
	uint64_t at[2];

	if (!m && present && method->time_ns >= present->since_ns && keeps_methods(x))
		m = present; /* nobody has looked since */
	known = m != NULL;
	words[0] = frame_runtime_head(RUNTIME_JVM, 1, x ? number_of(x, 0) : 0);
	words[1] = 0;
	if (m)
		put_frame(j, x, m, 0, words);
	if (m && bytecode) {
		known = vm_code_frames(j, &place, at, 2) == 2;
		if (known && at[0] == words[0])
			words[1] = at[1];
	}
	if (!known && x)
		x->wants = true;
	return known;
}

bool vm_code_expects(const struct vm_code *j, bool (*requested)(uint32_t machine, void *data), void *data)
{
	struct map_node *node;

	map_for_each (&j->machines, node, it) {
		const struct machine *x = container_of(node, struct machine, node);

		if (x->wants && requested(x->index, data))
			return true;
	}
	return false;
}

void vm_code_stats(const struct vm_code *j, struct vm_code_stats *ret)
{
	*ret = j->stats;
	ret->machines = j->machines.len;
}
