// SPDX-License-Identifier: Apache-2.0
/* The text of a script of V8, one byte a character: whose member is each function that it may have? */
#include <stdlib.h>

#include "agent/elf/runtime/v8_classes.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct v8_classes c;
	struct v8_member m;

	v8_classes_init(&c);
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '(') {
			v8_classes_member(&c, data[i], &m);
			require(v8_member_valid(&m));
			require(!c.lost || !m.class_name[0]);
		}
		v8_classes_put(&c, data[i]);
		require(c.depth < V8_CLASS_LEVELS);
	}
	return 0;
}
