// SPDX-License-Identifier: Apache-2.0
/* Any bytes as /proc/<pid>/cgroup: fields stay well formed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/path.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cgroup_identity id;

	memset(&id, 0xaa, sizeof id);
	cgroup_path_parse((const char *)data, size, &id);
	require(strspn(id.container_id, "0123456789abcdef") == strlen(id.container_id));
	require(!id.container_id[0] || strlen(id.container_id) == CGROUP_ID_LEN);
	require(strspn(id.pod_uid, "0123456789abcdef-") == strlen(id.pod_uid));
	require(!id.pod_uid[0] || strlen(id.pod_uid) == 36 || strlen(id.pod_uid) == 32);
	require(strnlen(id.unit, sizeof id.unit) < sizeof id.unit);
	require(!id.unit[0] || !id.container_id[0]);
	return 0;
}
