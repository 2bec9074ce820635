// SPDX-License-Identifier: Apache-2.0
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "agent/command/cmd.h"
#include "version.h"

int cmd_version(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		puts("Usage: proflet version\n\nPrints version, commit, architecture, the oldest kernel, the "
		     "OTLP "
		     "layout and libbpf's version.");
		return EXIT_DONE;
	}
	if (argc > 1) {
		fprintf(stderr, "proflet: %s takes no arguments\n", argv[0]);
		return EXIT_USAGE;
	}
	printf("proflet %s\n"
	       "commit  %s\n"
	       "machine %s\n"
	       "kernel  Linux 5.10 or newer\n"
	       "otlp    opentelemetry.proto.profiles.v1development, layout of proto 1.10 and newer\n"
	       "libbpf  %u.%u\n",
	       PROFLET_VERSION, PROFLET_COMMIT, PROFLET_MACHINE, libbpf_major_version(),
	       libbpf_minor_version());
	return EXIT_DONE;
}
