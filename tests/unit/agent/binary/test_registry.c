// SPDX-License-Identifier: Apache-2.0
/* References decide how long a binary lives, budgets which unreferenced one goes. */
#include <errno.h>
#include <fcntl.h>

#include "agent/proc/root.h"
#include "tests/unit/agent/binary/binary_files.h"

Test(registry, indices)
{
	_cleanup_files_ struct files f;

	files_init(&f, 16);
	cr_expect_eq(binary_registry_max(f.registry), 16);
	cr_expect_null(binary_registry_get(f.registry, 0));
	cr_expect_null(binary_registry_get(f.registry, 1));
	cr_expect_null(binary_registry_get(f.registry, 17));
	cr_expect_null(binary_registry_get(f.registry, UINT32_MAX));
	cr_expect_not(binary_registry_hold(f.registry, 0));
	cr_expect_not(binary_registry_hold(f.registry, 1));
	cr_expect_not(binary_registry_hold(f.registry, 1u << 31));
	binary_registry_release(f.registry, 0);
	binary_registry_release(f.registry, 1);
	cr_expect_eq(files_add_text(&f, "a"), 1);
}

/* With all places taken by referenced ones, a new binary is refused, and counted. */
Test(registry, full_of_referenced)
{
	_cleanup_files_ struct files f;
	uint32_t index = 99;

	files_init(&f, 2);
	cr_expect(binary_registry_hold(f.registry, files_add_text(&f, "a")));
	cr_expect(binary_registry_hold(f.registry, files_add_text(&f, "b")));
	cr_assert_eq(fs_write_file(files_path(&f, "c"), "c", 1), 0);
	cr_expect_eq(files_try(&f, "c", &index), -ENFILE);
	cr_expect_eq(index, 99);
	cr_expect_eq(files_stats(&f).full, 1);
	cr_expect_eq(files_stats(&f).known, 2);
	cr_expect_eq(files_stats(&f).unused, 0);
	cr_expect_eq(f.n_forgotten, 0);
}

/*
 * The binary unreferenced for longest goes first. Its index is given out again only after `forget` was
 * called.
 */
Test(registry, oldest_goes_first)
{
	_cleanup_files_ struct files f;
	uint32_t a, b, c, d;

	files_init(&f, 3);
	a = files_add_text(&f, "a");
	b = files_add_text(&f, "b");
	c = files_add_text(&f, "c");
	cr_expect_eq(files_stats(&f).unused, 3);
	cr_expect(binary_registry_hold(f.registry, a));
	binary_registry_release(f.registry, a); /* now b is the oldest */
	d = files_add_text(&f, "d");
	cr_assert_eq(f.n_forgotten, 1);
	cr_expect_eq(f.forgotten[0], b);
	cr_expect_eq(d, b);
	cr_expect_eq(files_add(&f, "c"), c, "looked up: about to be used");
	(void)files_add_text(&f, "e");
	cr_assert_eq(f.n_forgotten, 2);
	cr_expect_eq(f.forgotten[1], a);
	cr_expect_eq(files_stats(&f).evicted, 2);
	cr_expect_eq(files_stats(&f).known, 3);
	cr_expect_eq(files_stats(&f).full, 0);
}

/* Each reference keeps it, whoever has it; without one it is still known. */
Test(registry, references)
{
	_cleanup_files_ struct files f;
	struct binary_set window, waiting;
	uint32_t a, b;

	files_init(&f, 2);
	cr_assert_eq(binary_set_init(&window, f.registry), 0);
	cr_assert_eq(binary_set_init(&waiting, f.registry), 0);
	a = files_add_text(&f, "a");
	b = files_add_text(&f, "b");
	cr_expect(binary_registry_hold(f.registry, a)); /* a mapping */
	cr_expect(binary_registry_hold(f.registry, b));
	binary_set_add(&window, a);
	binary_set_add(&window, a);
	binary_set_add(&window, 0);
	binary_set_add(&window, 3);
	binary_set_add(&window, UINT32_MAX);
	binary_set_add(&waiting, a);
	cr_expect_eq(files_get(&f, a)->refs, 3);
	binary_registry_release(f.registry, a);
	binary_set_clear(&waiting);
	cr_expect_eq(files_stats(&f).unused, 0, "the window has it");
	binary_registry_close_unused(f.registry, UINT64_MAX, files_always, NULL);
	cr_expect_geq(files_get(&f, a)->fd, 0);
	binary_set_clear(&window);
	binary_set_clear(&window);
	cr_expect_eq(files_stats(&f).unused, 1);
	cr_expect_eq(files_add(&f, "a"), a, "nobody needs its place");
	binary_set_add(&window, a);
	binary_set_fini(&window);
	binary_set_fini(&waiting);
	cr_expect_eq(files_get(&f, a)->refs, 0);
	cr_expect_eq(files_get(&f, b)->refs, 1);
}

/* Many binaries in few places, some of them held all the time: indices never stand for two, nothing leaks. */
Test(registry, held_indices_are_not_reused)
{
	enum { ROUNDS = 300, MAX = 8, HELD = 4 };
	_cleanup_files_ struct files f;
	uint32_t held[HELD] = {0};

	files_init(&f, MAX);
	binary_registry_on_forget(f.registry, NULL, NULL);
	for (unsigned i = 0; i < ROUNDS; i++) {
		char name[16];
		uint32_t index, *slot = &held[i % HELD];

		snprintf(name, sizeof name, "%u", i);
		index = files_add_text(&f, name);
		for (unsigned k = 0; k < HELD; k++)
			cr_assert_neq(index, held[k], "round %u", i);
		if (i % 3)
			continue;
		binary_registry_release(f.registry, *slot);
		*slot = index;
		cr_assert(binary_registry_hold(f.registry, index));
	}
	cr_expect_eq(files_stats(&f).known, MAX);
	cr_expect_eq(files_stats(&f).unused, MAX - HELD);
	cr_expect_eq(files_stats(&f).open, MAX);
	cr_expect_eq(files_stats(&f).evicted, ROUNDS - MAX);
}

/* ---- descriptors of unreferenced binaries */

static bool never(uint32_t index, void *data)
{
	(void)index, (void)data;
	return false;
}

/* As if /tmp were on a disk, or had a device number of its own kind. */
static uint32_t add_on(struct files *f, const char *name, dev_t dev)
{
	uint32_t index = 0;
	struct stat st;
	int fd;

	cr_assert_eq(fs_write_file(files_path(f, name), name, strlen(name)), 0);
	fd = files_open(f, name, &st);
	st.st_dev = dev;
	cr_assert_eq(binary_registry_add(f->registry, fd, &st, name, &index), 0);
	return index;
}

#define DISK 0x801   /* major 8 */
#define OVERLAY 0x2a /* major 0 */

Test(registry, descriptors_are_closed_and_adopted)
{
	_cleanup_files_ struct files f;
	uint32_t index, held;
	int fd = open("/dev/null", O_PATH | O_CLOEXEC), second;

	files_init(&f, 4);
	index = add_on(&f, "a", DISK);
	held = add_on(&f, "b", DISK);
	cr_expect(binary_registry_hold(f.registry, held));
	binary_registry_close_unused(f.registry, files_get(&f, index)->unused_ns, files_always, NULL);
	cr_expect_geq(files_get(&f, index)->fd, 0, "not for so long");
	binary_registry_close_unused(f.registry, UINT64_MAX, files_always, NULL);
	cr_expect_eq(files_get(&f, index)->fd, -1);
	cr_expect_geq(files_get(&f, held)->fd, 0);
	cr_expect_eq(files_stats(&f).known, 2, "it stays known");
	cr_expect_eq(files_stats(&f).open, 1);
	cr_expect_eq(files_stats(&f).closed, 1);
	cr_expect_eq(add_on(&f, "a", DISK), index + 2, "written anew: another file");
	cr_expect(binary_registry_adopt(f.registry, index, &fd));
	cr_expect_eq(fd, -1, "taken");
	second = open("/dev/null", O_PATH | O_CLOEXEC);
	cr_expect_not(binary_registry_adopt(f.registry, index, &second), "it has one");
	cr_expect_geq(second, 0);
	close(second);
	cr_expect_eq(files_stats(&f).open, 3);
}

/* Without a descriptor these are of no use, or would not be proven to be the same file again. */
Test(registry, forgotten_when_closed)
{
	_cleanup_files_ struct files f;
	struct binary_debug debug = {.names_fd = open("/dev/null", O_PATH | O_CLOEXEC), .debug_fd = -1};
	uint32_t overlay, unfinished, with_names;

	files_init(&f, 8);
	overlay = add_on(&f, "a", OVERLAY);
	binary_registry_close_unused(f.registry, UINT64_MAX, files_always, NULL);
	cr_assert_eq(f.n_forgotten, 1);
	cr_expect_eq(f.forgotten[0], overlay, "the device number may be another file system's");
	unfinished = add_on(&f, "b", DISK);
	binary_registry_close_unused(f.registry, UINT64_MAX, never, NULL);
	cr_assert_eq(f.n_forgotten, 2);
	cr_expect_eq(f.forgotten[1], unfinished);
	with_names = add_on(&f, "c", DISK);
	binary_registry_searched(f.registry, with_names, &debug);
	cr_expect_eq(debug.names_fd, -1, "taken");
	cr_expect_eq(files_stats(&f).names_files, 1);
	binary_registry_close_unused(f.registry, UINT64_MAX, files_always, NULL);
	cr_assert_eq(f.n_forgotten, 3);
	cr_expect_eq(f.forgotten[2], with_names);
	cr_expect_eq(files_stats(&f).known, 0);
	cr_expect_eq(files_stats(&f).open, 0);
	cr_expect_eq(files_stats(&f).unused, 0);
}

/* --- shares */

#define SHARE_MAX 40u

/* A binary of a tenant, held. 0 or -errno. */
static int bring(struct files *f, unsigned number, uint64_t tenant, uint32_t *ret)
{
	char name[16];
	struct binary *b;
	struct stat st;
	int fd, r;

	snprintf(name, sizeof name, "f%u", number);
	cr_assert_eq(fs_write_file(files_path(f, name), name, strlen(name)), 0);
	fd = files_open(f, name, &st);
	cr_assert_eq(binary_new(&b, fd, &st, name), 0);
	r = binary_registry_enter(f->registry, b, tenant, ret);
	if (r == 0)
		cr_expect(binary_registry_hold(f->registry, *ret));
	return r;
}

static struct proc_root *own_root(void)
{
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_root *root = NULL;

	cr_assert_eq(proc_root_open(&root, proc_fd, (uint32_t)getpid()), 0);
	return root;
}

/* A process that maps many binaries holds the descriptor of its root once, not for each of them. */
Test(registry, binaries_of_a_tenant_share_a_root)
{
	static const uint64_t tenants[] = {1, 1, 2};
	struct proc_root *roots[ARRAY_SIZE(tenants)];
	struct binary *b[ARRAY_SIZE(tenants)];
	struct binary_debug found = {.debug_fd = -1, .names_fd = -1};
	_cleanup_files_ struct files f;
	uint32_t index;

	files_init(&f, 8);
	for (unsigned i = 0; i < ARRAY_SIZE(tenants); i++) {
		cr_assert_eq(bring(&f, i, tenants[i], &index), 0);
		b[i] = binary_registry_get(f.registry, index);
		b[i]->n_segments = 1;
		roots[i] = own_root();
		binary_registry_set_root(f.registry, index, roots[i]);
	}
	cr_expect_eq(b[0]->root, roots[0]);
	cr_expect_eq(b[1]->root, roots[0], "it is the same folder");
	cr_expect_eq(b[2]->root, roots[2], "of another tenant");
	binary_registry_searched(f.registry, b[0]->index, &found);
	cr_expect_null(b[0]->root);
	cr_expect_eq(roots[0]->refs, 2);
	for (unsigned i = 0; i < ARRAY_SIZE(tenants); i++)
		proc_root_unref(roots[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(tenants); i++)
		b[i]->n_segments = 0;
}

Test(registry, a_tenant_leaves_room_for_others)
{
	_cleanup_files_ struct files f;
	uint32_t index[SHARE_MAX], other;
	unsigned n = 0, second = 0;

	files_init(&f, SHARE_MAX);
	while (bring(&f, n, 1, &index[n]) == 0)
		n++;
	cr_expect_eq(n, 30, "three quarters: %u", n);
	cr_expect_eq(files_stats(&f).full_share, 1);
	while (second < SHARE_MAX && bring(&f, 100 + second, 2, &other) == 0)
		second++;
	cr_expect_geq(second, 7);
	cr_expect_leq(second, 8, "three quarters of what was left: %u", second);
	cr_expect_eq(bring(&f, 200, 3, &other), 0, "there is always room for one that has none");
	cr_expect_eq(bring(&f, 201, 0, &other), 0, "and for what is nobody's");
	cr_expect_eq(files_stats(&f).full, 0);
	for (unsigned i = 0; i < 10; i++) /* ten are unmapped: others may take their places */
		binary_registry_release(f.registry, index[i]);
	cr_expect_eq(bring(&f, 300, 2, &other), 0);
	cr_expect_eq(files_stats(&f).evicted, 1, "the first of them");
	for (unsigned i = 1; i < 10; i++)
		if (binary_registry_admits(f.registry, index[i]))
			n += binary_registry_hold(f.registry, index[i]);
	cr_expect_leq(n, 30 + 8, "known, and mapped again, but not all: others have more now");
	cr_expect_geq(files_stats(&f).full_share, 2);
}

/* Its index goes to another file, it comes again under another index: it is still not to be read. */
Test(registry, a_file_in_quarantine_stays_there)
{
	_cleanup_files_ struct files f;
	uint32_t bad, good;

	files_init(&f, 2);
	bad = files_add_text(&f, "bad");
	good = files_add_text(&f, "good");
	cr_expect_not(binary_registry_quarantine(f.registry, bad, BINARY_FOR_TABLE, -ENOMEM),
		      "not its fault");
	cr_expect_not(binary_registry_quarantine(f.registry, bad, BINARY_FOR_TABLE, -EAGAIN));
	cr_expect_not(binary_registry_quarantine(f.registry, 99, BINARY_FOR_TABLE, -ETIME), "no such binary");
	cr_expect_eq(binary_registry_get(f.registry, bad)->quarantined, 0);
	cr_expect(binary_registry_quarantine(f.registry, bad, BINARY_FOR_TABLE, -ENOTRECOVERABLE));
	cr_expect(binary_registry_quarantine(f.registry, bad, BINARY_FOR_NAMES, -ETIME));
	cr_expect(binary_registry_quarantine(f.registry, bad, BINARY_FOR_NAMES, -ETIME), "known");
	cr_expect_eq(files_stats(&f).quarantined[QUARANTINE_CRASHED], 1);
	cr_expect_eq(files_stats(&f).quarantined[QUARANTINE_OUT_OF_TIME], 1);
	cr_expect_eq(files_stats(&f).in_quarantine, 1);
	(void)files_add_text(&f, "third");
	(void)files_add_text(&f, "fourth");
	cr_expect_eq(f.n_forgotten, 2, "neither is known any more");
	bad = files_add(&f, "bad");
	good = files_add(&f, "good");
	cr_expect_eq(binary_registry_get(f.registry, bad)->quarantined, BINARY_FOR_TABLE | BINARY_FOR_NAMES);
	cr_expect_eq(binary_registry_get(f.registry, good)->quarantined, 0);
	cr_assert_eq(fs_write_file(files_path(&f, "bad"), "better", 6), 0);
	cr_expect_eq(binary_registry_get(f.registry, files_add(&f, "bad"))->quarantined, 0,
		     "another content");
}
