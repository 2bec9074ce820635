// SPDX-License-Identifier: Apache-2.0
#include "otlp/request.h"

void otlp_request_free(struct otlp_request *r)
{
	if (!r)
		return;
	buf_fini(&r->data);
	free(r);
}
