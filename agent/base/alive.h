// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a running agent is alive, for `proflet check --alive` and `--ready`: probes of the kubelet, which
 * must work while the node is starved and the address of `listen` is flooded. A Unix socket in the abstract
 * name space, so that no writable folder is needed; its name follows from the mount namespace, which an agent
 * shares with what is executed in its container. Each side checks the other's user. Needs only libc.
 */
#ifndef PROFLET_BASE_ALIVE_H
#define PROFLET_BASE_ALIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ALIVE_TEXT_MAX 256
#define ALIVE_TIMEOUT_S 4

/* The whole conversation: the agent sends this when a peer connects. */
struct alive_message {
	char alive, ready; /* '1' or '0' */
	char text[ALIVE_TEXT_MAX];
};

/* The address of the agent of this mount namespace. 0 or -errno. */
int alive_address(struct sockaddr_un *ret, socklen_t *ret_len);
/* Whether the socket's other end is of root or of the user of this process. */
bool alive_peer_is_trusted(int fd);
/* Whether this is `check --alive` or `check --ready`; argv[1] is the name of the command. */
bool alive_is_called(int argc, char **argv);
/* Runs it: prints one line, and returns the exit code: EXIT_DONE, EXIT_FAILED. */
int alive_check(const char *option);

#endif
