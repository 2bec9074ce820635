// SPDX-License-Identifier: Apache-2.0
/* Applies a YAML document to the configuration. Private to agent/config*.c. Rank 3. */
#ifndef PROFLET_CONFIG_DOCUMENT_H
#define PROFLET_CONFIG_DOCUMENT_H

#include <yaml.h>

#include "agent/config/config_source.h"

/* 0, -ENOMEM, or -EINVAL with the line in *ret_error. The document stays the caller's. */
int config_document_apply(struct config *c, yaml_document_t *document, char **ret_error);

#endif
