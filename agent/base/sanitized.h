// SPDX-License-Identifier: Apache-2.0
/*
 * Whether this is a build with AddressSanitizer: it reserves terabytes of address space, and makes system
 * calls of its own when it reports or ends.
 */
#ifndef PROFLET_BASE_SANITIZED_H
#define PROFLET_BASE_SANITIZED_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#endif
