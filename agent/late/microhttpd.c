// SPDX-License-Identifier: Apache-2.0
/* Those functions of libmicrohttpd that the project uses. */
#include <microhttpd.h>
#include <stdarg.h>
#include <stddef.h>

#include "agent/late/library.h"

static struct late_library microhttpd = LATE_LIBRARY("libmicrohttpd.so.12");

#define MHD_FUNCTION(type, name, parameters, arguments, failure) \
	LATE_FUNCTION(microhttpd, type, name, parameters, arguments, failure)

MHD_FUNCTION(struct MHD_Response *, MHD_create_response_from_buffer,
	     (size_t size, void *buffer, enum MHD_ResponseMemoryMode mode), (size, buffer, mode), NULL)
MHD_FUNCTION(enum MHD_Result, MHD_add_response_header,
	     (struct MHD_Response * response, const char *header, const char *content),
	     (response, header, content), MHD_NO)
MHD_FUNCTION(enum MHD_Result, MHD_queue_response,
	     (struct MHD_Connection * connection, unsigned status, struct MHD_Response *response),
	     (connection, status, response), MHD_NO)
MHD_FUNCTION(const char *, MHD_lookup_connection_value,
	     (struct MHD_Connection * connection, enum MHD_ValueKind kind, const char *key),
	     (connection, kind, key), NULL)
MHD_FUNCTION(int, MHD_get_connection_values,
	     (struct MHD_Connection * connection, enum MHD_ValueKind kind, MHD_KeyValueIterator fn,
	      void *data),
	     (connection, kind, fn, data), 0)
MHD_FUNCTION(enum MHD_Result, MHD_add_connection,
	     (struct MHD_Daemon * daemon, int fd, const struct sockaddr *address, socklen_t len),
	     (daemon, fd, address, len), MHD_NO)
MHD_FUNCTION(enum MHD_Result, MHD_run, (struct MHD_Daemon * daemon), (daemon), MHD_NO)

LATE_VOID(microhttpd, MHD_suspend_connection, struct MHD_Connection)
LATE_VOID(microhttpd, MHD_resume_connection, struct MHD_Connection)
LATE_VOID(microhttpd, MHD_destroy_response, struct MHD_Response)
LATE_VOID(microhttpd, MHD_stop_daemon, struct MHD_Daemon)

/* The one form of the call that is used: the rest of the options in an array. */
struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept,
				    void *accept_data, MHD_AccessHandlerCallback handler, void *handler_data,
				    ...)
{
	struct MHD_Daemon *(*f)(unsigned, uint16_t, MHD_AcceptPolicyCallback, void *,
				MHD_AccessHandlerCallback, void *, ...) =
		late_function(&microhttpd, "MHD_start_daemon");
	struct MHD_OptionItem *options = NULL;
	va_list arguments;

	va_start(arguments, handler_data);
	if (va_arg(arguments, int) == MHD_OPTION_ARRAY)
		options = va_arg(arguments, struct MHD_OptionItem *);
	va_end(arguments);
	return f && options ? f(flags, port, accept, accept_data, handler, handler_data, MHD_OPTION_ARRAY,
				options, MHD_OPTION_END)
			    : NULL;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
							enum MHD_ConnectionInfoType type, ...)
{
	const union MHD_ConnectionInfo *(*f)(struct MHD_Connection *, enum MHD_ConnectionInfoType, ...) =
		late_function(&microhttpd, "MHD_get_connection_info");

	return f ? f(connection, type) : NULL;
}

const union MHD_DaemonInfo *MHD_get_daemon_info(struct MHD_Daemon *daemon, enum MHD_DaemonInfoType type, ...)
{
	const union MHD_DaemonInfo *(*f)(struct MHD_Daemon *, enum MHD_DaemonInfoType, ...) =
		late_function(&microhttpd, "MHD_get_daemon_info");

	return f ? f(daemon, type) : NULL;
}
