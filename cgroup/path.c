// SPDX-License-Identifier: Apache-2.0
/*
 * A path is read component by component from the root to the leaf, and deeper components override what was
 * found before: in a pod of a kind node, the path goes through the node's own container first. No particular
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
#include <stdio.h>
#include <string.h>

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
	struct span parent, grandparent;
	struct units units;
};

static void walk(struct walk *w, struct span path)
{
	struct span s, prefix;

	while (span_next(&path, '/', &s)) {
		if (!s.n || span_is(s, ".."))
			continue;
		if (find_pod_uid(s, w->id->pod_uid)) {
			w->id->container_id[0] = '\0';
			w->id->runtime = CGROUP_RUNTIME_UNKNOWN;
		}
		if (find_container_id(s, w->parent, &prefix, w->id->container_id))
			w->id->runtime = find_runtime(prefix, w->parent, w->grandparent);
		note_unit(&w->units, s, w->parent);
		w->grandparent = w->parent;
		w->parent = s;
	}
}

/* The part of `base` that remains after the leading ".." components of `path`. */
static struct span climb(struct span base, struct span path)
{
	while (span_starts(path, "/..") && (path.n == 3 || path.p[3] == '/')) {
		while (base.n && base.p[--base.n] != '/')
			;
		path.p += 3;
		path.n -= 3;
	}
	return base;
}

static void parse_path(struct span base, struct span path, struct cgroup_identity *ret)
{
	struct walk w = {.id = ret, .parent = {"", 0}, .grandparent = {"", 0}};

	*ret = (struct cgroup_identity){0};
	walk(&w, climb(base, path));
	walk(&w, path);
	if (!ret->container_id[0])
		write_unit(&w.units, ret->unit);
}

static bool is_unified(struct span number, struct span controllers)
{
	return span_is(number, "0") && !controllers.n;
}

/* How specific a line is. For units, systemd's own hierarchy is preferred. */
static int score(const struct cgroup_identity *id, struct span number, struct span controllers)
{
	bool systemd = span_is(controllers, "name=systemd") || is_unified(number, controllers);

	return (id->container_id[0] ? 8 : 0) + (id->pod_uid[0] ? 4 : 0) + (id->unit[0] ? 2 + systemd : 0);
}

void cgroup_path_parse(const char *text, size_t len, const char *base, struct cgroup_identity *ret)
{
	struct span rest = {text, len}, line, number, controllers;
	const struct span unified = {base, strlen(base)}, none = {"", 0};
	int best = 0;

	*ret = (struct cgroup_identity){0};
	while (span_next(&rest, '\n', &line)) {
		struct cgroup_identity id;
		int s;

		/* hierarchy-ID:controller-list:cgroup-path, and the path may have colons of its own */
		if (!span_next(&line, ':', &number) || !span_next(&line, ':', &controllers) ||
		    !span_starts(line, "/"))
			continue;
		if (span_ends(line, " (deleted)"))
			line.n -= strlen(" (deleted)");
		parse_path(is_unified(number, controllers) ? unified : none, line, &id);
		s = score(&id, number, controllers);
		if (s > best) {
			best = s;
			*ret = id;
		}
	}
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
