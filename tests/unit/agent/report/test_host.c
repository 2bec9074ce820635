// SPDX-License-Identifier: Apache-2.0
/* What this machine is called, with a folder in place of /proc. */
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/report/host.h"
#include "fake_machine.h"

#define ID "0123456789abcdef0123456789abcdef"

/* A /proc whose PID 1 is in other namespaces than we are, or in the same, and has a root of its own. */
struct fake_proc {
	struct machine m; /* for its folder */
	struct utsname own;
};

static const char *path_of(const struct fake_proc *f, const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", f->m.dir, name);
	return path;
}

static void put_folder(const struct fake_proc *f, const char *name)
{
	cr_assert_eq(mkdir(path_of(f, name), 0700), 0);
}

static void put_link(const struct fake_proc *f, const char *target, const char *name)
{
	cr_assert_eq(symlink(target, path_of(f, name)), 0);
}

static void put_file(const struct fake_proc *f, const char *name, const char *text)
{
	cr_assert_eq(fs_write_file(path_of(f, name), text, strlen(text)), 0);
}

static void fake_proc_init(struct fake_proc *f, bool own_uts)
{
	static const char *const folders[] = {"1",	  "1/ns",	  "self",
					      "self/ns",  "root",	  "root/etc",
					      "root/var", "root/var/lib", "root/var/lib/dbus",
					      "pod",	  "pod/etc"};

	machine_init(&f->m, 0);
	cr_assert_eq(uname(&f->own), 0);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		put_folder(f, folders[i]);
	put_link(f, "uts:[4026531838]", "1/ns/uts");
	put_link(f, own_uts ? "uts:[4026531838]" : "uts:[4026532000]", "self/ns/uts");
	put_link(f, "mnt:[4026531841]", "1/ns/mnt");
	put_link(f, "mnt:[4026532001]", "self/ns/mnt");
	put_link(f, "../root", "1/root");
	put_link(f, "../pod", "self/root");
	put_file(f, "root/etc/hostname", "# the machine\nmachine-1\n");
	put_file(f, "root/etc/machine-id", ID "\n");
	put_file(f, "pod/etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
}

static void fake_proc_fini(struct fake_proc *f)
{
	machine_fini(&f->m);
}

#define _cleanup_proc_ _cleanup_(fake_proc_fini)

Test(host, first_word)
{
	static const struct {
		const char *text, *word;
	} rows[] = {
		{"node-1\n", "node-1"},
		{"", ""},
		{"\n\n", ""},
		{"# a comment\n", ""},
		{"# a\n# b\n node-1 # c\n", "node-1"},
		{"0123456789abcdef", "0123456789abcdef"},
		{"0123456789abcdefg", ""},
		{"two words", "two"},
	};
	char word[17];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		host_first_word(rows[i].text, word, sizeof word);
		cr_expect_str_eq(word, rows[i].word, "%s", rows[i].text);
	}
}

Test(host, of_this_machine)
{
	struct host_identity h;

	memset(&h, 0xaa, sizeof h);
	host_identity_read(&h, NULL, NULL);
	cr_expect_gt(strlen(h.name), 0);
	cr_expect(!h.id[0] || strspn(h.id, "0123456789abcdef") == 32, "%s", h.id);
	cr_expect_gt(strlen(h.arch), 0);
}

Test(host, in_a_pod_the_files_of_the_first_process_count)
{
	_cleanup_proc_ struct fake_proc f;
	struct host_identity h;

	fake_proc_init(&f, false);
	host_identity_read(&h, "node-1", f.m.dir);
	cr_expect_str_eq(h.name, "machine-1", "rather than what the cluster, or the pod, is called");
	cr_expect_str_eq(h.id, ID);
}

Test(host, with_the_hosts_network_the_kernel_knows_its_name)
{
	_cleanup_proc_ struct fake_proc f;
	struct host_identity h;

	fake_proc_init(&f, true);
	host_identity_read(&h, "node-1", f.m.dir);
	cr_expect_str_eq(h.name, f.own.nodename);
}

Test(host, a_machine_without_a_name_has_that_of_the_node)
{
	_cleanup_proc_ struct fake_proc f;
	struct host_identity h;

	fake_proc_init(&f, false);
	put_file(&f, "root/etc/hostname", "# none\n");
	host_identity_read(&h, "node-1", f.m.dir);
	cr_expect_str_eq(h.name, "node-1");
	host_identity_read(&h, NULL, f.m.dir);
	cr_expect_str_eq(h.name, f.own.nodename);
}

Test(host, the_id_of_an_image_is_none)
{
	_cleanup_proc_ struct fake_proc f;
	struct host_identity h;

	fake_proc_init(&f, false);
	put_file(&f, "root/etc/machine-id", "uninitialized\n");
	host_identity_read(&h, NULL, f.m.dir);
	cr_expect_str_eq(h.id, "");
	put_file(&f, "root/var/lib/dbus/machine-id", ID "\n");
	host_identity_read(&h, NULL, f.m.dir);
	cr_expect_str_eq(h.id, ID, "the other place for it");
}

/* Without the right to look at PID 1: a pod's own files are not the machine's. */
Test(host, a_first_process_that_is_hidden)
{
	_cleanup_proc_ struct fake_proc f;
	struct host_identity h;

	fake_proc_init(&f, false);
	cr_assert_eq(unlink(path_of(&f, "1/root")), 0);
	host_identity_read(&h, "node-1", f.m.dir);
	cr_expect_str_eq(h.id, "", "PID 1 has another mount namespace");
	cr_expect_str_eq(h.name, "node-1");
	cr_assert_eq(unlink(path_of(&f, "1/ns/mnt")), 0);
	cr_assert_eq(unlink(path_of(&f, "1/ns/uts")), 0);
	host_identity_read(&h, "node-1", f.m.dir);
	cr_expect_str_eq(h.id, "", "in a cluster we are taken to be in a pod");
	cr_expect_str_eq(h.name, "node-1");
	host_identity_read(&h, NULL, f.m.dir);
	cr_expect_str_eq(h.id, "ffffffffffffffffffffffffffffffff", "outside of one, on the machine itself");
	cr_expect_str_eq(h.name, f.own.nodename);
}
