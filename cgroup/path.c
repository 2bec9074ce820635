// SPDX-License-Identifier: Apache-2.0
/*
 * A path is read component by component from the root to the leaf. Where our own group is below the same
 * components, these were made by who runs us, and deeper ones override what was found before: on a node that
 * is itself a container (kind), the path goes through the node's container first. Below that, the first pod
 * and the first container count: what follows is in groups that the container may have made. No particular
 * component is required around an id: drivers, QoS classes, nested nodes and private cgroup namespaces
 * ("/../..") all change those.
 *
 * A pod component discards an id found above it: that id belongs to the node, and a process that is in the
 * pod but in none of its containers (conmon) has no container, on a nested node as on a plain one.
 *
 * In a cgroup namespace of our own, paths start at our own cgroup: "/" is ours, "/../x" a sibling. `base` has
 * the omitted part; as many of its components are removed as the path goes up.
 */
#include "cgroup/path.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/map.h"

struct span {
	const char *p;
	size_t n;
};

/* The parts of a unit's name, as they are found from root to leaf. */
struct units {
	struct span manager; /* outermost */
	struct span inner;   /* innermost other than init.scope */
};

static bool span_is(struct span s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static bool span_starts(struct span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && memcmp(s.p, prefix, n) == 0;
}

static bool span_ends(struct span s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.n >= n && memcmp(s.p + s.n - n, suffix, n) == 0;
}

static bool span_has(struct span s, const char *text)
{
	return s.n && memmem(s.p, s.n, text, strlen(text));
}

/* Removes the part of *s up to `sep`, and the separator. False at the end of *s. */
static bool span_next(struct span *s, char sep, struct span *ret)
{
	const char *end;

	if (!s->n)
		return false;
	end = memchr(s->p, sep, s->n);
	*ret = (struct span){s->p, end ? (size_t)(end - s->p) : s->n};
	s->n -= ret->n + (end ? 1 : 0);
	s->p += ret->n + (end ? 1 : 0);
	return true;
}

/* Runtimes and the kubelet use lower case. */
static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_run(struct span s)
{
	size_t n = 0;

	while (n < s.n && is_hex(s.p[n]))
		n++;
	return n;
}

/*
 * Parses a UUID with `sep` between its groups at the start of s, and writes it to `ret` with dashes. Returns
 * the bytes read, or 0.
 */
static size_t read_uuid(struct span s, char sep, char ret[37])
{
	static const unsigned char groups[] = {8, 4, 4, 4, 12};
	size_t at = 0;

	if (s.n < 36)
		return 0;
	for (size_t g = 0; g < sizeof groups; g++) {
		if (g > 0 && s.p[at++] != sep)
			return 0;
		if (hex_run((struct span){s.p + at, groups[g]}) != groups[g])
			return 0;
		at += groups[g];
	}
	memcpy(ret, s.p, at);
	ret[8] = ret[13] = ret[18] = ret[23] = '-';
	ret[at] = '\0';
	return at;
}

/* Static pods carry the hash of their manifest, 32 digits without separators. */
static size_t read_pod_uid(struct span s, char ret[37])
{
	size_t n = read_uuid(s, '-', ret);

	if (!n)
		n = read_uuid(s, '_', ret);
	if (!n && hex_run(s) == 32) {
		n = 32;
		memcpy(ret, s.p, n);
		ret[n] = '\0';
	}
	return n;
}

/*
 * "pod<uid>" as a whole word: `pod<uid>`, `kubepods-burstable-pod<uid>.slice`, also followed by
 * ":cri-containerd:…".
 */
static bool find_pod_uid(struct span s, char ret[37])
{
	char uid[37];

	for (size_t at = 0; at + 3 < s.n; at++) {
		struct span rest = {s.p + at + 3, s.n - at - 3};
		size_t n;

		if (memcmp(s.p + at, "pod", 3) != 0 || (at > 0 && s.p[at - 1] != '-'))
			continue;
		n = read_pod_uid(rest, uid);
		if (n && (n == rest.n || rest.p[n] == '.' || rest.p[n] == ':')) {
			memcpy(ret, uid, sizeof uid);
			return true;
		}
	}
	return false;
}

/*
 * Exactly 64 digits at the end of a directory or scope name. A slice contains containers but is none
 * (podman's pods are slices named by 64 digits, or directories below libpod_parent), a service named by an id
 * is podman's health check, and conmon watches from outside.
 */
static bool find_container_id(struct span s, struct span parent, struct span *ret_prefix,
			      char ret[CGROUP_ID_LEN + 1])
{
	struct span prefix;

	if (span_ends(s, ".scope"))
		s.n -= strlen(".scope");
	if (s.n < CGROUP_ID_LEN)
		return false;
	prefix = (struct span){s.p, s.n - CGROUP_ID_LEN};
	if (hex_run((struct span){s.p + prefix.n, CGROUP_ID_LEN}) != CGROUP_ID_LEN)
		return false;
	if (prefix.n && isalnum((unsigned char)prefix.p[prefix.n - 1]))
		return false;
	if (span_has(prefix, "conmon") || span_has(prefix, "libpod_pod") ||
	    (!prefix.n && span_is(parent, "libpod_parent")))
		return false;
	memcpy(ret, s.p + prefix.n, CGROUP_ID_LEN);
	ret[CGROUP_ID_LEN] = '\0';
	*ret_prefix = prefix;
	return true;
}

static enum cgroup_runtime find_runtime(struct span prefix, struct span parent, struct span grandparent)
{
	static const struct {
		const char *text;
		enum cgroup_runtime runtime;
	} prefixes[] =
		{
			{"docker-", CGROUP_RUNTIME_DOCKER}, {"cri-containerd", CGROUP_RUNTIME_CONTAINERD},
			{"crio-", CGROUP_RUNTIME_CRIO},	    {"nerdctl-", CGROUP_RUNTIME_CONTAINERD},
			{"libpod-", CGROUP_RUNTIME_PODMAN},
		},
	  parents[] = {
		  {"docker", CGROUP_RUNTIME_DOCKER},
		  {"k8s.io", CGROUP_RUNTIME_CONTAINERD},
		  {"default", CGROUP_RUNTIME_CONTAINERD},
	  };

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (span_has(prefix, prefixes[i].text))
			return prefixes[i].runtime;
	for (size_t i = 0; !prefix.n && i < sizeof parents / sizeof *parents; i++)
		if (span_is(parent, parents[i].text))
			return parents[i].runtime;
	return span_is(grandparent, "ecs") ? CGROUP_RUNTIME_DOCKER : CGROUP_RUNTIME_UNKNOWN;
}

/* systemd's own alphabet for unit names, systemd.unit(5); anything else would not be safe to print. */
static bool is_unit_name(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!isalnum((unsigned char)s.p[i]) && (!s.p[i] || !strchr(":-_.\\@", s.p[i])))
			return false;
	return s.n > 0 && s.n < CGROUP_UNIT_MAX;
}

/* LXC containers have no id; their name serves as the manager of the units inside. */
static void note_unit(struct units *u, struct span s, struct span parent)
{
	bool lxc = span_starts(s, "lxc.payload.") || span_starts(s, "lxc.monitor.") || span_is(parent, "lxc");

	if (!is_unit_name(s) || (!lxc && !span_ends(s, ".service") && !span_ends(s, ".scope")))
		return;
	if (!u->manager.n)
		u->manager = s;
	if (!span_is(s, "init.scope"))
		u->inner = s;
}

static void write_unit(const struct units *u, char ret[CGROUP_UNIT_MAX])
{
	struct span inner = u->inner.n ? u->inner : u->manager;
	int manager_n = u->manager.p != inner.p ? (int)u->manager.n : 0;

	if (manager_n + 1 + inner.n >= CGROUP_UNIT_MAX)
		manager_n = 0;
	snprintf(ret, CGROUP_UNIT_MAX, "%.*s%s%.*s", manager_n, manager_n ? u->manager.p : "",
		 manager_n ? "/" : "", (int)inner.n, inner.n ? inner.p : "");
}

/* What was found so far. */
struct walk {
	struct cgroup_identity *id;
	struct cgroup_identity own; /* what the components that are also ours say */
	struct span parent, grandparent;
	struct units units;
	size_t own_len;	       /* of the path: components that are also ours */
	size_t folder;	       /* length of the path that the name was found in */
	bool has_pod, is_done; /* found below our own components: a pod, a container */
};

static void take_pod(struct walk *w, struct span s, size_t at, bool is_own)
{
	if (w->has_pod || !find_pod_uid(s, w->id->pod_uid))
		return;
	w->id->container_id[0] = '\0';
	w->id->runtime = CGROUP_RUNTIME_UNKNOWN;
	w->folder = at;
	w->has_pod = !is_own;
}

static void take_container(struct walk *w, struct span s, size_t at, bool is_own)
{
	struct span prefix;

	if (!find_container_id(s, w->parent, &prefix, w->id->container_id))
		return;
	w->id->runtime = find_runtime(prefix, w->parent, w->grandparent);
	w->folder = at;
	w->is_done = !is_own;
}

static void walk(struct walk *w, struct span path)
{
	const char *begin = path.p;
	struct span s;

	while (span_next(&path, '/', &s)) {
		size_t at = (size_t)(s.p - begin);
		bool is_own = at + s.n <= w->own_len;

		if (!s.n || span_is(s, ".."))
			continue;
		if (!w->is_done) {
			take_pod(w, s, at, is_own);
			take_container(w, s, at, is_own);
		}
		if (is_own)
			w->own = *w->id;
		note_unit(&w->units, s, w->parent);
		w->grandparent = w->parent;
		w->parent = s;
	}
}

/* --- paths in a namespace of ours */

/* From the root of the hierarchy, as far as that is known. */
struct full_path {
	char text[2 * PATH_MAX];
	size_t n;
	bool is_part; /* it begins somewhere below the root */
};

/* Appends what remains of `base` after the leading ".." components of `path`, and the rest of the path. */
static bool path_make(struct span base, struct span path, struct full_path *ret)
{
	ret->is_part = false;
	while (span_starts(path, "/..") && (path.n == 3 || path.p[3] == '/')) {
		ret->is_part |= !base.n;
		while (base.n && base.p[--base.n] != '/')
			;
		path.p += 3;
		path.n -= 3;
	}
	if (span_is(path, "/"))
		path.n = 0;
	ret->n = base.n + path.n;
	if (ret->n > sizeof ret->text)
		return false;
	memcpy(ret->text, base.p, base.n);
	memcpy(ret->text + base.n, path.p, path.n);
	return true;
}

/* Bytes of whole components that both paths begin with. */
static size_t common(const struct full_path *a, const struct full_path *b)
{
	size_t n = 0, whole = 0, least = a->n < b->n ? a->n : b->n;

	while (n < least && a->text[n] == b->text[n]) {
		if (a->text[n] == '/')
			whole = n;
		n++;
	}
	return n == least && (n == a->n || a->text[n] == '/') && (n == b->n || b->text[n] == '/') ? n : whole;
}

/* --- lines */

/* hierarchy-ID:controller-list:cgroup-path, and the path may have colons of its own. */
struct line {
	struct span number, controllers, path;
};

static bool line_next(struct span *text, struct line *ret)
{
	struct span line;

	while (span_next(text, '\n', &line)) {
		if (!span_next(&line, ':', &ret->number) || !span_next(&line, ':', &ret->controllers) ||
		    !span_starts(line, "/"))
			continue;
		if (span_ends(line, " (deleted)"))
			line.n -= strlen(" (deleted)");
		ret->path = line;
		return true;
	}
	return false;
}

static bool is_unified(struct span number, struct span controllers)
{
	return span_is(number, "0") && !controllers.n;
}

static struct span base_of(const struct cgroup_observer *from, const struct line *l)
{
	return is_unified(l->number, l->controllers) && from->base
		       ? (struct span){from->base, strlen(from->base)}
		       : (struct span){"", 0};
}

/* How much of the path is also that of our own group in this hierarchy. */
static size_t own_part(const struct cgroup_observer *from, const struct line *l, const struct full_path *path)
{
	struct span text = {from->own, from->own ? strlen(from->own) : 0};
	struct full_path own;
	struct line mine;

	while (line_next(&text, &mine))
		if (mine.controllers.n == l->controllers.n &&
		    memcmp(mine.controllers.p, l->controllers.p, l->controllers.n) == 0)
			return path_make(base_of(from, &mine), mine.path, &own) ? common(path, &own) : 0;
	return 0;
}

/* Whoever may make folders in the one where the name was found could have chosen any name. */
static bool believed(const struct cgroup_observer *from, const struct line *l, const struct full_path *path,
		     const struct walk *w)
{
	const struct cgroup_folder folder = {.unified = is_unified(l->number, l->controllers),
					     .controllers = l->controllers.p,
					     .controllers_len = l->controllers.n,
					     .path = path->text,
					     .len = w->folder,
					     .own_len = w->own_len};

	return (!w->has_pod && !w->is_done) || path->is_part || !from->is_roots ||
	       from->is_roots(from->data, &folder);
}

#define TENANT_COMPONENTS 2 /* "/user.slice/user-1000.slice": the rest may be the user's */

static uint64_t tenant_of(const struct cgroup_identity *id, const struct walk *w,
			  const struct full_path *path)
{
	size_t n = 0, k = 0;

	if (id->pod_uid[0])
		return hash_bytes(id->pod_uid, strlen(id->pod_uid)) | 1;
	if (id->container_id[0])
		return hash_bytes(id->container_id, strlen(id->container_id)) | 1;
	if (w->units.manager.n)
		return hash_bytes(w->units.manager.p, w->units.manager.n) | 1;
	while (n < path->n && (path->text[n] != '/' || k++ < TENANT_COMPONENTS))
		n++;
	return hash_bytes(path->text, n) | 1;
}

static void parse_line(const struct cgroup_observer *from, const struct line *l, struct cgroup_identity *ret)
{
	struct walk w = {.id = ret, .parent = {"", 0}, .grandparent = {"", 0}};
	struct full_path path;

	*ret = (struct cgroup_identity){0};
	if (!path_make(base_of(from, l), l->path, &path))
		return;
	w.own_len = own_part(from, l, &path);
	walk(&w, (struct span){path.text, path.n});
	if (!believed(from, l, &path, &w)) {
		*ret = w.own;
		ret->suspicious = true;
	}
	if (!ret->container_id[0])
		write_unit(&w.units, ret->unit);
	ret->tenant = tenant_of(ret, &w, &path);
}

/* How specific a line is. For units, systemd's own hierarchy is preferred. */
static int score(const struct cgroup_identity *id, const struct line *l)
{
	bool systemd = span_is(l->controllers, "name=systemd") || is_unified(l->number, l->controllers);

	return (id->container_id[0] ? 8 : 0) + (id->pod_uid[0] ? 4 : 0) + (id->unit[0] ? 2 + systemd : 0);
}

void cgroup_path_parse(const char *text, size_t len, const struct cgroup_observer *from,
		       struct cgroup_identity *ret)
{
	struct span rest = {text, len};
	bool suspicious = false;
	uint64_t tenant = 0;
	struct line line;
	int best = 0;

	*ret = (struct cgroup_identity){0};
	while (line_next(&rest, &line)) {
		struct cgroup_identity id;
		int s;

		parse_line(from, &line, &id);
		suspicious |= id.suspicious;
		s = score(&id, &line);
		if (s > best) {
			best = s;
			*ret = id;
		} else if (!best) {
			tenant ^= hash_u64(id.tenant); /* of several hierarchies, none of which says more */
		}
	}
	if (!best)
		ret->tenant = tenant | 1;
	ret->suspicious = suspicious;
}

bool cgroup_identity_empty(const struct cgroup_identity *id)
{
	return !id->container_id[0] && !id->pod_uid[0] && !id->unit[0];
}

const char *cgroup_runtime_name(enum cgroup_runtime runtime)
{
	static const char *const names[] = {
		[CGROUP_RUNTIME_UNKNOWN] = "unknown",	    [CGROUP_RUNTIME_DOCKER] = "docker",
		[CGROUP_RUNTIME_CONTAINERD] = "containerd", [CGROUP_RUNTIME_CRIO] = "cri-o",
		[CGROUP_RUNTIME_PODMAN] = "podman",
	};

	return (unsigned)runtime < sizeof names / sizeof *names ? names[runtime]
								: names[CGROUP_RUNTIME_UNKNOWN];
}
