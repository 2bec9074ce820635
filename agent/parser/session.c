// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/session.h"

#include <unistd.h>

void parser_session_end(struct parser_session *s)
{
	if (s->socket)
		close(s->socket - 1);
	*s = (struct parser_session){0};
}
