// SPDX-License-Identifier: Apache-2.0
/* A tree like that of sysfs, in which CPUs come and go. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/probe/online.h"

static char tree[] = "/tmp/proflet-online-XXXXXX";
static char calls[256];	 /* "+1-2…" */
static int refused = -1; /* a CPU that cannot be used */

static const char *path(const char *name)
{
	static char text[PATH_MAX];

	snprintf(text, sizeof text, "%s/%s", tree, name);
	return text;
}

static void cpu_make(int cpu)
{
	char name[64];

	snprintf(name, sizeof name, "cpu%d", cpu);
	(void)mkdir(path(name), 0700);
	snprintf(name, sizeof name, "cpu%d/topology", cpu);
	cr_assert_eq(mkdir(path(name), 0700), 0);
}

static void cpu_remove(int cpu)
{
	char name[64];

	snprintf(name, sizeof name, "cpu%d/topology", cpu);
	(void)rmdir(path(name));
	snprintf(name, sizeof name, "cpu%d", cpu);
	(void)rmdir(path(name));
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(tree));
	for (int cpu = 0; cpu < 4; cpu++)
		cpu_make(cpu);
}

static void teardown(void)
{
	for (int cpu = 0; cpu < 4; cpu++)
		cpu_remove(cpu);
	(void)unlink(path("online"));
	(void)rmdir(tree);
}

TestSuite(online, .init = setup, .fini = teardown);

static int on_cpu(int cpu, bool came, void *data)
{
	size_t n = strlen(calls);

	(void)data;
	snprintf(calls + n, sizeof calls - n, "%c%d", came ? '+' : '-', cpu);
	return came && cpu == refused ? -EMFILE : 0;
}

static int follow(struct online *o, const char *list)
{
	calls[0] = '\0';
	cr_assert_eq(fs_write_file(path("online"), list, strlen(list)), 0);
	return online_follow(o, tree, on_cpu, NULL);
}

Test(online, come_and_go)
{
	_cleanup_(online_fini) struct online o = {0};

	cr_expect_eq(follow(&o, "0-1,3\n"), 3);
	cr_expect_str_eq(calls, "+0+1+3");
	cr_expect_eq(follow(&o, "0-1,3\n"), 0);
	cr_expect_eq(follow(&o, "0,2-3\n"), 2);
	cr_expect_str_eq(calls, "-1+2");
	cr_expect_eq(follow(&o, "0-3\n"), 1);
	cr_expect_str_eq(calls, "+1");
	cr_expect_eq(follow(&o, "3"), 3);
	cr_expect_str_eq(calls, "-0-1-2");
}

/* Off and on again between two looks: its events have ended although the list says nothing. */
Test(online, away_in_between)
{
	_cleanup_(online_fini) struct online o = {0};

	cr_expect_eq(follow(&o, "0-3\n"), 4);
	cpu_remove(1);
	cpu_make(2 + 2); /* takes the inode that was freed, on file systems that use them again */
	cpu_make(1);
	cpu_remove(4);
	cr_expect_eq(follow(&o, "0-3\n"), 2);
	cr_expect_str_eq(calls, "-1+1");
}

Test(online, refused_cpus_are_tried_again)
{
	_cleanup_(online_fini) struct online o = {0};

	refused = 2;
	cr_expect_eq(follow(&o, "0-2\n"), -EMFILE);
	cr_expect_str_eq(calls, "+0+1+2");
	cr_expect_eq(follow(&o, "0-2\n"), -EMFILE);
	cr_expect_str_eq(calls, "+2");
	refused = -1;
	cr_expect_eq(follow(&o, "0-2\n"), 1);
	cr_expect_str_eq(calls, "+2");
	cr_expect_eq(follow(&o, "0-2\n"), 0);
}

Test(online, broken_lists)
{
	static const char *const lists[] = {"",	     "x\n",   "1-0\n",	 "0-\n",      "-1\n",
					    "1,1\n", "3,0\n", "0-3,2\n", "0-70000\n", "0--1\n"};
	_cleanup_(online_fini) struct online o = {0};

	cr_expect_eq(follow(&o, "0\n"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		cr_expect_eq(follow(&o, lists[i]), -EBADMSG, "%s", lists[i]);
		cr_expect_str_eq(calls, "");
	}
	cr_expect_eq(unlink(path("online")), 0);
	cr_expect_eq(online_follow(&o, tree, on_cpu, NULL), -ENOENT);
	cr_expect_eq(follow(&o, "0\n"), 0, "what was known stays known");
}

Test(online, this_machine)
{
	_cleanup_(online_fini) struct online o = {0};

	calls[0] = '\0';
	cr_expect_eq(online_follow(&o, ONLINE_SYSFS, on_cpu, NULL), sysconf(_SC_NPROCESSORS_ONLN));
	cr_expect_eq(online_follow(&o, ONLINE_SYSFS, on_cpu, NULL), 0);
	for (size_t i = 0; i < o.n; i++)
		cr_expect_neq(o.v[i].life, 0, "cpu %d has a topology folder", o.v[i].cpu);
}
