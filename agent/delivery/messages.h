// SPDX-License-Identifier: Apache-2.0
/*
 * Messages between the agent and the delivery process: one is one packet (base/packet.h), a head and flat
 * bytes (base/flat.h). Private to delivery/.
 */
#ifndef PROFLET_DELIVERY_MESSAGES_H
#define PROFLET_DELIVERY_MESSAGES_H

#include <stdint.h>

#define DELIVERY_INLINE_MAX (48u << 10)	  /* bytes of a page in its packet; more are in a memfd */
#define DELIVERY_PACKET_MAX (64u << 10)	  /* of bytes after the head */
#define DELIVERY_REQUEST_MAX (256u << 20) /* bytes of a request; what the agent builds is far less */
#define DELIVERY_PAGE_MAX (4u << 20)
#define DELIVERY_PODS_MAX (32u << 20) /* bytes of the kubelet's list */

enum delivery_message {
	/*
	 * Agent → process. SUBMIT: a request; its numbers, and a memfd with its bytes. LISTEN: open the HTTP
	 * server. PAGE_ANSWER: status, content type, bytes or a memfd. LIST_PODS: with a memfd for the
	 * answer. STOP: the deadline.
	 */
	DELIVERY_SUBMIT,
	DELIVERY_LISTEN,
	DELIVERY_PAGE_ANSWER,
	DELIVERY_LIST_PODS,
	DELIVERY_STOP,
	/*
	 * Process → agent. READY: the settings are right, or what is wrong. LISTENS: whether it does. PAGE:
	 * path and Accept header. PODS: the result, why, and how many bytes the memfd has. PULL: a pull
	 * request, whose answer is a PAGE_ANSWER. PULL_END: nobody waits for that answer.
	 */
	DELIVERY_READY,
	DELIVERY_LISTENS,
	DELIVERY_PAGE,
	DELIVERY_PODS,
	DELIVERY_PULL,
	DELIVERY_PULL_END,
};

struct delivery_head {
	uint32_t message;
	int32_t result;	 /* 0 or -errno; of PAGE_ANSWER, the HTTP status */
	uint64_t number; /* of a page or a pull: its answer has the same */
};

#endif
