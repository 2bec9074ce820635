// SPDX-License-Identifier: Apache-2.0
/* Each row takes one thing away from a healthy system and expects the lines that then differ. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/check.h"
#include "agent/base/exit_code.h"
#include "agent/config/config.h"
#include "agent/delivery/collector.h"
#include "tests/unit/agent/check/fake_system.h"
#include "version.h"

static const struct {
	struct fake fake;
	int exit_code;
	const char *line; /* one whole line of the report */
	const char *event;
} rows[] = {
	/* the kernel */
	{{0},
	 0,
	 "ok        kernel                  Linux 6.12.9, " PROFLET_MACHINE " (5.10 or newer is needed)",
	 NULL},
	{{.release = "5.4.0-150-generic"},
	 1,
	 "fails     kernel                  Linux 5.4.0 is older than 5.10 → boot Linux 5.10 or newer",
	 NULL},
	{{.release = "odd"},
	 0,
	 "degraded  kernel                  the version is unknown → 5.10 or newer is needed",
	 NULL},
	{{.release = "5.10.0-33-amd64", .version = "#1 SMP Debian 5.10.226-1 (2024-10-03)"},
	 0,
	 "ok        kernel                  Linux 5.10.226, " PROFLET_MACHINE " (5.10 or newer is needed)",
	 NULL},
	{{.release = "6.1.0-18-amd64",
	  .version = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)",
	  .hardened = 1},
	 0,
	 "ok        usercopy                not a kernel with the HARDENED_USERCOPY deadlock",
	 NULL},
	{{.release = "6.1.0-9-amd64",
	  .version = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)",
	  .hardened = 1},
	 1,
	 "fails     usercopy                Linux 6.1.27 has HARDENED_USERCOPY and can deadlock when a perf "
	 "event's program "
	 "reads user memory → update to 6.1.36, 6.3.10, 6.4 or newer, or boot with hardened_usercopy=off",
	 NULL},
	{{.release = "6.2.0-39-generic",
	  .path = "/proc/version_signature",
	  .content = "Ubuntu 6.2.0-39.40-generic 6.2.16\n",
	  .hardened = -ENOENT},
	 1,
	 "fails     usercopy                Linux 6.2.16 probably has HARDENED_USERCOPY and can deadlock "
	 "when a perf event's "
	 "program reads user memory → update to 6.1.36, 6.3.10, 6.4 or newer, or boot with "
	 "hardened_usercopy=off",
	 NULL},
	{{.release = "5.19.0", .hardened = 0},
	 0,
	 "ok        usercopy                this kernel runs without HARDENED_USERCOPY",
	 NULL},
	{{.release = "6.3.9", .hardened = 1, .path = "/proc/cmdline", .content = "hardened_usercopy=off"},
	 0,
	 "ok        usercopy                this kernel runs without HARDENED_USERCOPY",
	 NULL},
	{{.release = "6.1.36", .hardened = 1},
	 0,
	 "ok        usercopy                not a kernel with the HARDENED_USERCOPY deadlock",
	 NULL},
	{{.release = "6.3.10", .hardened = 1},
	 0,
	 "ok        usercopy                not a kernel with the HARDENED_USERCOPY deadlock",
	 NULL},
	{{.path = "/sys/kernel/btf/vmlinux"},
	 1,
	 "fails     btf                     /sys/kernel/btf/vmlinux: No such file or directory; the BPF "
	 "program cannot be adapted to this kernel → boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, or "
	 "mount /sys read-only in the "
	 "container",
	 NULL},
	{{.path = "/sys/kernel/security/lockdown", .content = "none integrity [confidentiality]\n"},
	 1,
	 "fails     lockdown                confidentiality: the kernel refuses BPF programs that read "
	 "memory → boot with "
	 "lockdown=integrity or without lockdown",
	 NULL},
	{{.path = "/sys/kernel/security/lockdown", .content = "none [integrity] confidentiality\n"},
	 0,
	 "ok        lockdown                integrity",
	 NULL},
	/* capabilities, one taken away at a time */
	{{.without = CAP(N_BPF), .bpf = -EPERM},
	 3,
	 "fails     CAP_BPF                 missing: no BPF program can be loaded → add BPF to the "
	 "container's "
	 "securityContext.capabilities.add, or run as root",
	 NULL},
	{{.without = CAP(N_BPF), .bpf = -EPERM},
	 3,
	 "fails     bpf                     the bpf system call fails: Operation not permitted → add BPF to "
	 "the container's "
	 "capabilities, or run as root",
	 NULL},
	{{.without = CAP(N_BPF), .with = CAP(CAP_SYS_ADMIN)},
	 0,
	 "ok        CAP_BPF                 covered by CAP_SYS_ADMIN",
	 NULL},
	{{.without = CAP(N_PERFMON), .perf = -EACCES, .pmu = -EACCES},
	 3,
	 "fails     perf_event_open         denied without CAP_PERFMON: Permission denied → add PERFMON to "
	 "the container's "
	 "capabilities, or run as root",
	 NULL},
	{{.without = CAP(CAP_SYS_PTRACE), .path = "/proc/1/maps", .error = -EACCES},
	 0,
	 "degraded  CAP_SYS_PTRACE          missing: binaries of other processes cannot be read: their "
	 "stacks end early and "
	 "have no names → add SYS_PTRACE to the container's securityContext.capabilities.add, or run as root",
	 NULL},
	{{.without = CAP(CAP_SYS_PTRACE), .path = "/proc/1/maps", .error = -EACCES},
	 0,
	 "degraded  binaries                /proc/1/map_files: Permission denied; stacks of other processes "
	 "end early and have "
	 "no names → add SYS_PTRACE to the container's capabilities",
	 NULL},
	{{.without = CAP(N_RESTORE), .path = "/proc/1/map_files/55d000-55e000", .error = -EPERM},
	 0,
	 "degraded  binaries                /proc/1/map_files: Operation not permitted; binaries are read "
	 "through "
	 "/proc/PID/root, deleted ones are not → add CHECKPOINT_RESTORE to the container's capabilities",
	 NULL},
	{{.without = CAP(CAP_DAC_READ_SEARCH), .path = "/proc/1/map_files/55d000-55e000", .error = -EACCES},
	 0,
	 "degraded  binaries                /proc/1/map_files: Permission denied; binaries are read through "
	 "/proc/PID/root, "
	 "deleted ones are not → add DAC_READ_SEARCH to the container's capabilities",
	 NULL},
	{{.path = "/proc/1/maps", .error = -EACCES},
	 0,
	 "degraded  binaries                /proc/1/map_files: Permission denied; process 1 is protected, "
	 "others may be "
	 "readable → the capabilities are there: see the log of the security module (SELinux, AppArmor, "
	 "Yama)",
	 NULL},
	{{.without = CAP(CAP_SYSLOG),
	  .path = "/proc/kallsyms",
	  .content = "0000000000000000 T _text\n0000000000000000 T x\n"},
	 0,
	 "degraded  kallsyms                all addresses are zero: kernel functions have no names → add "
	 "SYSLOG to the "
	 "container's capabilities",
	 NULL},
	{{.without = CAP(CAP_IPC_LOCK)},
	 0,
	 "degraded  CAP_IPC_LOCK            missing: event buffers stay within kernel.perf_event_mlock_kb: "
	 "more process events "
	 "are lost under load → add IPC_LOCK to the container's securityContext.capabilities.add, or run as "
	 "root",
	 NULL},
	{{.release = "5.10.1", .memlock = 65536},
	 3,
	 "fails     CAP_SYS_RESOURCE        missing: the limit on locked memory cannot be raised for BPF "
	 "maps (needed before "
	 "Linux 5.11) → add SYS_RESOURCE to the container's securityContext.capabilities.add, or run as root",
	 NULL},
	{{.release = "5.10.1", .memlock = 65536, .bpf = -EPERM},
	 3,
	 "fails     bpf                     the bpf system call fails: Operation not permitted → raise the "
	 "limit on locked "
	 "memory (ulimit -l unlimited) or add SYS_RESOURCE",
	 NULL},
	{{.release = "5.10.1", .memlock = 65536, .with = CAP(CAP_SYS_RESOURCE)},
	 0,
	 "ok        memlock                 the limit does not affect BPF maps",
	 NULL},
	{{.path = "/proc/self/uid_map", .content = "0 1000 1\n"},
	 3,
	 "fails     user namespace          not the initial one: its capabilities do not count for BPF and "
	 "perf events → set "
	 "hostUsers: true in the pod, or run outside of rootless containers",
	 NULL},
	/* denied although the capability is there */
	{{.bpf = -EPERM, .path = "/proc/self/status", .content = "Name:\tx\nNSpid:\t77\nSeccomp:\t2\n"},
	 3,
	 "fails     bpf                     the bpf system call fails: Operation not permitted → a seccomp "
	 "filter is active: use "
	 "the profile in deploy/ or seccompProfile: {type: Unconfined}",
	 NULL},
	{{.bpf = -EPERM},
	 3,
	 "fails     bpf                     the bpf system call fails: Operation not permitted → a security "
	 "module (SELinux, "
	 "AppArmor) or the kernel's lockdown refuses it: see its log",
	 NULL},
	{{.bpf = -ENOSYS},
	 1,
	 "fails     bpf                     the bpf system call fails: Function not implemented → boot a "
	 "kernel built with "
	 "CONFIG_BPF_SYSCALL=y, or allow bpf in the seccomp profile",
	 NULL},
	{{.perf = -EACCES, .pmu = -EACCES, .path = "/proc/sys/kernel/perf_event_paranoid", .content = "3\n"},
	 3,
	 "fails     perf_event_open         kernel.perf_event_paranoid is 3: Debian's patch of the kernel (3 "
	 "or higher) refuses every event without CAP_SYS_ADMIN, even with CAP_PERFMON → sysctl -w "
	 "kernel.perf_event_paranoid=2 on the node, or add SYS_ADMIN to the capabilities",
	 "cpu-clock"},
	{{.perf = -EACCES, .pmu = -EACCES, .path = "/proc/sys/kernel/perf_event_paranoid", .content = "3\n"},
	 0,
	 "degraded  perf_event_open         kernel.perf_event_paranoid is 3: Debian's patch of the kernel (3 "
	 "or higher) refuses every event without CAP_SYS_ADMIN, even with CAP_PERFMON: the timer tick is "
	 "used instead → sysctl -w kernel.perf_event_paranoid=2 on the node, or add SYS_ADMIN to the "
	 "capabilities",
	 NULL},
	{{.perf = -EACCES, .pmu = -EACCES, .path = "/proc/sys/kernel/perf_event_paranoid", .content = "4\n"},
	 0,
	 "degraded  perf_event_open         kernel.perf_event_paranoid is 4: Ubuntu's patch of the kernel "
	 "(4) refuses every event without CAP_SYS_ADMIN, even with CAP_PERFMON: the timer tick is used "
	 "instead → "
	 "sysctl -w kernel.perf_event_paranoid=2 on the node, or add SYS_ADMIN to the capabilities",
	 NULL},
	{{.perf = -EPERM, .path = "/proc/self/status", .content = "Name:\tx\nNSpid:\t77\nSeccomp:\t2\n"},
	 0,
	 "degraded  perf_event_open         denied: Operation not permitted: the timer tick is used instead "
	 "→ a "
	 "seccomp filter is active: use the profile in deploy/ or seccompProfile: {type: Unconfined}",
	 NULL},
	{{.perf = -ENOSYS},
	 1,
	 "fails     perf_event_open         the system call does not exist → boot a kernel built with "
	 "CONFIG_PERF_EVENTS=y, or "
	 "allow perf_event_open in the seccomp profile",
	 NULL},
	/* the sampling event */
	{{0}, 0, "ok        sampling event          hardware cycles", NULL},
	{{.pmu = -ENOENT},
	 0,
	 "ok        sampling event          no hardware cycles here (No such file or directory, usual in a "
	 "virtual machine): "
	 "cpu-clock is used",
	 NULL},
	{{.pmu = -ENOENT},
	 1,
	 "fails     sampling event          no hardware cycles here (No such file or directory, usual in a "
	 "virtual machine) → "
	 "set sampling.event to auto or cpu-clock",
	 "cycles"},
	/* names, groups, PIDs */
	{{.path = "/proc/kallsyms"},
	 0,
	 "degraded  kallsyms                /proc/kallsyms: No such file or directory: kernel functions have "
	 "no "
	 "names → boot a kernel built with CONFIG_KALLSYMS=y",
	 NULL},
	{{.path = "/proc/1/cgroup", .content = "0::/init.scope\n"},
	 0,
	 "ok        cgroup                  v2",
	 NULL},
	{{.path = "/proc/1/cgroup", .content = "9:name=systemd:/\n8:pids:/\n"},
	 0,
	 "ok        cgroup                  v1",
	 NULL},
	{{.path = "/proc/1/cgroup", .content = "9:name=systemd:/\n0::/\n"},
	 0,
	 "ok        cgroup                  hybrid v1 and v2",
	 NULL},
	{{.path = "/proc/1/cgroup", .content = "0::/../../../../init.scope\n"},
	 0,
	 "ok        cgroup                  v2, paths are relative to the agent's own group but still "
	 "contain container ids",
	 NULL},
	{{.path = "/proc/1/cgroup"},
	 0,
	 "degraded  cgroup                  /proc/1/cgroup: No such file or directory; samples get no "
	 "container.id → make process 1 readable in /proc, see the lines proc and CAP_SYS_PTRACE",
	 NULL},
	{{.path = "/proc/self/ns/pid", .content = "pid:[4026532201]"},
	 0,
	 "ok        pid namespace           a nested one (a node in a container, or hostPID is missing): its "
	 "processes are seen",
	 NULL},
	{{.pid = 1},
	 0,
	 "degraded  pid namespace           only the agent's own container is seen → set hostPID: true in "
	 "the pod (docker run "
	 "--pid=host)",
	 NULL},
	{{.path = "/proc/self/status", .content = "Name:\tx\nNSpid:\t4711\t12\nSeccomp:\t0\n"},
	 1,
	 "fails     pid namespace           /proc belongs to another PID namespace than the agent: its PIDs "
	 "are not those of the "
	 "samples → set hostPID: true and do not mount the host's /proc elsewhere",
	 NULL},
	{{0}, 0, "ok        binaries                can be read through /proc/PID/map_files", NULL},
	/* what is hidden, and limits */
	{{.path = "/proc/1/status"},
	 0,
	 "degraded  proc                    /proc/1/status: No such file or directory: processes of other "
	 "users are hidden: their stacks end early → mount the whole of /proc, see the log of the security "
	 "module "
	 "(SELinux, AppArmor)",
	 NULL},
	{{.path = "/proc/kallsyms", .error = -EACCES},
	 0,
	 "degraded  kallsyms                /proc/kallsyms: Permission denied: kernel functions have no "
	 "names "
	 "→ remove what hides /proc/kallsyms: a mount over it (masked paths of the container runtime), or "
	 "a rule of the security module",
	 NULL},
	{{.path = "/proc/kallsyms", .content = "", .perf = -EACCES},
	 3,
	 "fails     kallsyms                /proc/kallsyms is empty: the timer tick, the only event left to "
	 "sample, cannot be found → remove what hides /proc/kallsyms: a mount over it (masked "
	 "paths of the container runtime), or a rule of the security module",
	 NULL},
	{{.path = "/proc/kallsyms"},
	 1,
	 "fails     kallsyms                /proc/kallsyms: No such file or directory: the timer tick, the "
	 "only event left to sample, cannot be found → boot a kernel built with CONFIG_KALLSYMS=y",
	 "tick"},
	{{.path = "/proc/self/mountinfo", .content = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"},
	 0,
	 "degraded  cgroup                  not mounted here: memory.total does not follow the control "
	 "group's limit, and the kernel may kill the agent → mount it at /sys/fs/cgroup, read-only is "
	 "enough, or set memory.total",
	 NULL},
	{{.open_files = 100},
	 1,
	 "fails     open files              at most 100: the BPF program, its maps and the events of each "
	 "CPU "
	 "need more → raise the hard limit: ulimit -Hn 65536, LimitNOFILE= of a systemd unit, or the "
	 "container "
	 "runtime's",
	 NULL},
	{{.open_files = 1024},
	 0,
	 "degraded  open files              at most 1024: further binaries cannot be read: their stacks end "
	 "early and have no names → raise the hard limit: ulimit -Hn 65536, LimitNOFILE= of a systemd unit, "
	 "or the container runtime's",
	 NULL},
	{{0},
	 0,
	 "ok        process: parsers        user 4294770000; capabilities none; no new privileges; seccomp "
	 "filter; "
	 "namespaces of its own: not visible",
	 NULL},
	{{0},
	 0,
	 "ok        process: openers        user 4294770000; capabilities DAC_READ_SEARCH; no new "
	 "privileges; "
	 "seccomp filter; namespaces of its own: not visible",
	 NULL},
	{{.no_parsers = true},
	 0,
	 "degraded  process: parsers        there is none: threads of the agent read the binaries of all "
	 "tenants → "
	 "let the agent fork processes: a limit of processes or memory may forbid it",
	 NULL},
	{{.path = "/proc/78/status",
	  .content = "Name:\tx\nUid:\t0\nCapEff:\t0000000000000004\nSeccomp:\t0\n"},
	 0,
	 "degraded  process: parsers        user 0; capabilities DAC_READ_SEARCH; may gain privileges; no "
	 "seccomp "
	 "filter; namespaces of its own: not visible → use a kernel with seccomp filters "
	 "(CONFIG_SECCOMP_FILTER), and let the agent load them",
	 NULL},
	{{0},
	 0,
	 "ok        cpu weight              cpu.shares is 102, a CPU request of 100m; programs of this "
	 "machine "
	 "waited for a CPU in 2 % of the last minute",
	 NULL},
	/* the collector */
	{{0}, 0, "ok        collector               http://localhost:4317 takes profiles", NULL},
	{{.collector = COLLECTOR_NOBODY},
	 1,
	 "fails     collector               endpoint http://localhost:4317: nobody there → "
	 "start a collector there, or correct endpoint (--endpoint, OTEL_EXPORTER_OTLP_ENDPOINT)",
	 NULL},
	{{.collector = COLLECTOR_CREDENTIALS},
	 1,
	 "fails     collector               endpoint http://localhost:4317: nobody there → "
	 "put the header that it requires into headers_file",
	 NULL},
	{{.collector = -EINVAL},
	 1,
	 "fails     collector               endpoint http://localhost:4317: nobody there → "
	 "correct the setting that is named",
	 NULL},
	{{.collector = COLLECTOR_NO_PROFILES},
	 1,
	 "fails     collector               endpoint http://localhost:4317: nobody there → "
	 "start it with --feature-gates=+service.profilesSupport, version 0.148 or later, and a profiles "
	 "pipeline with the otlp receiver",
	 NULL},
};

Test(check, each_lack_has_its_line_and_fix)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *config = config_of(rows[i].event ? rows[i].event : "auto");
		_cleanup_buf_ struct buf text = {0};
		struct fake fake = rows[i].fake;
		struct check_view view = view_of(&fake);
		struct check_report report;
		char line[700];

		check_run(&view, config, &report);
		cr_assert_eq(check_format_text(&report, &text), 0);
		snprintf(line, sizeof line, "%s\n", rows[i].line);
		cr_expect(strstr(buf_str(&text), line), "row %zu: no line\n%sin\n%s", i, line,
			  buf_str(&text));
		cr_expect_eq(check_exit_code(&report), rows[i].exit_code, "row %zu: exit %d\n%s", i,
			     check_exit_code(&report), buf_str(&text));
	}
}

Test(check, the_spool)
{
	static const struct {
		struct fake fake;
		const char *line;
	} table[] = {
		{{0}, "ok        spool                   /var/spool/proflet/ is writable, 100 MiB are free"},
		{{.folder = -ENOENT},
		 "ok        spool                   /var/spool/proflet/ is writable, 100 MiB are free"},
		{{.folder = -ENOENT, .parent = -ENOENT},
		 "degraded  spool                   /var/spool/proflet/: No such file or directory; requests "
		 "wait in "
		 "memory only → correct queue.spool: its parent directory must exist"},
		{{.folder = -EROFS},
		 "degraded  spool                   /var/spool/proflet/: Read-only file system; requests "
		 "wait in "
		 "memory only → mount a writable volume there (the chart's spool.type), or "
		 "correct "
		 "queue.spool"},
		{{.folder = -EACCES},
		 "degraded  spool                   /var/spool/proflet/: Permission denied; requests wait in "
		 "memory "
		 "only → let the agent's user write there (chown), or correct queue.spool"},
		{{.used_up = 1},
		 "degraded  spool                   /var/spool/proflet/: No space left on device; requests "
		 "wait in "
		 "memory only → make room on that file system, or correct queue.spool"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_config_ struct config *config = config_with("--queue.spool", "/var/spool/proflet/");
		_cleanup_buf_ struct buf text = {0};
		struct fake fake = table[i].fake;
		struct check_view view = view_of(&fake);
		struct check_report report;

		check_run(&view, config, &report);
		cr_assert_eq(check_format_text(&report, &text), 0);
		cr_expect(strstr(buf_str(&text), table[i].line), "row %zu: no line\n%sin\n%s", i,
			  table[i].line, buf_str(&text));
		cr_expect_eq(check_exit_code(&report), 0);
	}
}

Test(check, where_it_listens)
{
	static const struct {
		int found;
		const char *value; /* NULL: the default */
		int exit_code;
		const char *line;
	} table[] = {
		{0, NULL, 0, "ok        listen                  127.0.0.1:9464 is free"},
		{1, NULL, 0,
		 "ok        listen                  127.0.0.1:9464 is in use by an agent that runs already"},
		{-EADDRINUSE, NULL, 0,
		 "degraded  listen                  127.0.0.1:9464: Address already in use; no metrics and "
		 "no "
		 "health → set listen to another address, or to off"},
		{-EADDRINUSE, ":8080", 1,
		 "fails     listen                  :8080: Address already in use → set listen to another "
		 "address, or to off"},
		{-EACCES, ":80", 1,
		 "fails     listen                  :80: Permission denied → set listen to a port from 1024 "
		 "on, or add NET_BIND_SERVICE to the capabilities"},
		{-EADDRINUSE, "off", 0, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_config_ struct config *config = table[i].value
								 ? config_with("--listen", table[i].value)
								 : config_with("--sampling.event", "auto");
		_cleanup_buf_ struct buf text = {0};
		struct fake fake = {.listen = table[i].found};
		struct check_view view = view_of(&fake);
		struct check_report report;

		check_run(&view, config, &report);
		cr_assert_eq(check_format_text(&report, &text), 0);
		if (table[i].line)
			cr_expect(strstr(buf_str(&text), table[i].line), "row %zu: no line\n%sin\n%s", i,
				  table[i].line, buf_str(&text));
		else
			cr_expect_null(strstr(buf_str(&text), "listen"));
		cr_expect_eq(check_exit_code(&report), table[i].exit_code, "row %zu", i);
	}
}

Test(check, hidepid_by_either_name)
{
	static const char *const mounts[] = {
		"none / tmpfs rw 0 0\nproc /proc proc rw,relatime,hidepid=2 0 0\n",
		"proc /proc proc rw,hidepid=invisible,gid=4 0 0\n"};

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		struct fake fake = {
			.path = "/proc/1/status", .without = CAP(CAP_SYS_PTRACE), .mounts = mounts[i]};
		struct check_view view = view_of(&fake);
		struct check_report report = {0};

		check_proc(&view, &report);
		cr_assert_eq(report.n, 1u);
		cr_expect_eq(report.results[0].status, CHECK_DEGRADED);
		cr_expect(strstr(report.results[0].detail, i ? "with hidepid=invisible:" : "with hidepid=2:"),
			  "%s", report.results[0].detail);
		cr_expect(strstr(report.results[0].fix, "SYS_PTRACE"));
	}
}
