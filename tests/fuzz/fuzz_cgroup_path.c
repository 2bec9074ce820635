// SPDX-License-Identifier: Apache-2.0
/* Parses any bytes as /proc/<pid>/cgroup: the results must be well formed. */
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

/* Reads all of it. */
static bool is_roots(void *data, const struct cgroup_folder *f)
{
	require(!data && f->len >= f->own_len);
	return !memchr(f->path, '!', f->len) && !memchr(f->controllers, '!', f->controllers_len);
}

static void check(const char *text, size_t len, const char *base)
{
	const struct cgroup_observer from = {.base = base, .own = base, .is_roots = is_roots};
	struct cgroup_identity id;

	memset(&id, 0xaa, sizeof id);
	cgroup_path_parse(text, len, &from, &id);
	require(strspn(id.container_id, "0123456789abcdef") == strlen(id.container_id));
	require(!id.container_id[0] || strlen(id.container_id) == CGROUP_ID_LEN);
	require(strspn(id.pod_uid, "0123456789abcdef-") == strlen(id.pod_uid));
	require(!id.pod_uid[0] || strlen(id.pod_uid) == 36 || strlen(id.pod_uid) == 32);
	require(strnlen(id.unit, sizeof id.unit) < sizeof id.unit);
	require(!id.unit[0] || !id.container_id[0]);
}

/* Also uses the first line as the base of a namespace for the others, and as our own file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	char *base;

	check((const char *)data, size, "");
	if (!end)
		return 0;
	base = strndup((const char *)data, (size_t)(end - data));
	require(base != NULL);
	check((const char *)end + 1, size - (size_t)(end + 1 - data), base);
	free(base);
	return 0;
}
