// SPDX-License-Identifier: Apache-2.0
/*
 * Prints what the running kernel's verifier says about the BPF object.
 *
 *	verify OBJECT	loads every program of the object unchanged and prints, for each, the number of
 *			instructions that the verifier processed (the last line of its log, on every kernel)
 *	verify --loaded	prints the same for the perf_event programs that are loaded now, as the agent
 *			configured them, from bpf_prog_info (since Linux 5.16; "-" before)
 *
 * One line per program: NAME VERIFIED XLATED_BYTES JITED_BYTES LOAD_MS. LOAD_MS is that of the whole object,
 * "-" with --loaded.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_STATS 4 /* BPF_LOG_STATS of the kernel's verifier: no trace, only the summary */
#define LOG_BYTES 65536
#define PROGRAMS_MAX 64

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int program_info(int fd, struct bpf_prog_info *info)
{
	__u32 size = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return bpf_obj_get_info_by_fd(fd, info, &size);
}

/* The log ends with "processed N insns (limit …)", one line even for a program with global functions. */
static unsigned long processed(const char *log)
{
	const char *at = log, *last = NULL;

	while ((at = strstr(at, "processed ")) != NULL)
		last = at++;
	return last ? strtoul(last + strlen("processed "), NULL, 10) : 0;
}

static int verify_object(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_program *program;
	char *logs[PROGRAMS_MAX];
	unsigned n = 0;
	double start;
	int r;

	if (object == NULL) {
		fprintf(stderr, "verify: %s: %s\n", path, strerror(errno));
		return 1;
	}
	bpf_object__for_each_program(program, object)
	{
		if (n == PROGRAMS_MAX || (logs[n] = calloc(1, LOG_BYTES)) == NULL)
			abort();
		bpf_program__set_autoload(program, true);
		bpf_program__set_log_level(program, LOG_STATS);
		bpf_program__set_log_buf(program, logs[n++], LOG_BYTES);
	}
	start = now_ms();
	r = bpf_object__load(object);
	start = now_ms() - start;
	n = 0;
	bpf_object__for_each_program(program, object)
	{
		struct bpf_prog_info info;

		if (r == 0 && program_info(bpf_program__fd(program), &info) == 0)
			printf("%s %lu %u %u %.1f\n", bpf_program__name(program), processed(logs[n]),
			       info.xlated_prog_len, info.jited_prog_len, start);
		else if (logs[n][0] != '\0') /* the last line of the verifier */
			fprintf(stderr, "verify: %s:\n%s\n", bpf_program__name(program), logs[n]);
		free(logs[n++]);
	}
	if (r < 0)
		fprintf(stderr, "verify: %s does not load: %s\n", path, strerror(-r));
	bpf_object__close(object);
	return r < 0;
}

static int show_loaded(void)
{
	__u32 id = 0;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		struct bpf_prog_info info;
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue; /* unloaded meanwhile */
		if (program_info(fd, &info) == 0 && info.type == BPF_PROG_TYPE_PERF_EVENT) {
			char verified[16] = "-";

			if (info.verified_insns > 0)
				snprintf(verified, sizeof(verified), "%u", info.verified_insns);
			printf("%s %s %u %u -\n", info.name, verified, info.xlated_prog_len,
			       info.jited_prog_len);
		}
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: verify OBJECT | --loaded\n");
		return 2;
	}
	if (strcmp(argv[1], "--loaded") == 0)
		return show_loaded();
	return verify_object(argv[1]);
}
