// SPDX-License-Identifier: Apache-2.0
#include "otlp/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "otlp/endpoint.h"

DEFINE_CLEANUP(SSL_CTX *, SSL_CTX_free)

static pthread_once_t method_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* never freed */

static int bio_fd(BIO *bio)
{
	return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *data, int len)
{
	ssize_t n = send(bio_fd(bio), data, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int bio_read(BIO *bio, char *data, int len)
{
	ssize_t n = recv(bio_fd(bio), data, (size_t)len, 0);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static void method_new(void)
{
	method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket without SIGPIPE");
	if (!method)
		return;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_ctrl);
}

/* Appends OpenSSL's text for the oldest error of this thread to `what`. */
static int tls_error(char *why, size_t size, const char *what, const char *about)
{
	unsigned long error = ERR_get_error();
	const char *reason = ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error))
			     : error		     ? ERR_reason_error_string(error)
						     : NULL;

	snprintf(why, size, "TLS: %s%s%s: %s", what, *about ? " " : "", about,
		 reason ? reason : "unknown error");
	ERR_clear_error();
	return -EINVAL;
}

/* OpenSSL would otherwise prompt for the password of a key on the terminal. */
static int no_password(char *out, int size, int writing, void *data)
{
	(void)out;
	(void)size;
	(void)writing;
	(void)data;
	return 0;
}

/*
 * Called when the server requests a client certificate and none is configured. A server that requires one may
 * close the connection without an error.
 */
static int no_certificate(SSL *ssl, X509 **cert, EVP_PKEY **key)
{
	(void)cert;
	(void)key;
	SSL_set_app_data(ssl, ssl);
	return 0;
}

static int load_files(SSL_CTX *ctx, const struct otlp_tls_options *opt, char *why, size_t size)
{
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	if (opt->insecure)
		SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	else
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (opt->ca && SSL_CTX_load_verify_file(ctx, opt->ca) != 1)
		return tls_error(why, size, "cannot use tls.ca", opt->ca);
	if (!opt->ca && !opt->insecure && SSL_CTX_set_default_verify_paths(ctx) != 1)
		return tls_error(why, size, "cannot use the system's roots", "");
	if (!opt->cert)
		SSL_CTX_set_client_cert_cb(ctx, no_certificate);
	if (opt->cert && SSL_CTX_use_certificate_chain_file(ctx, opt->cert) != 1)
		return tls_error(why, size, "cannot use tls.cert", opt->cert);
	if (opt->key && SSL_CTX_use_PrivateKey_file(ctx, opt->key, SSL_FILETYPE_PEM) != 1)
		return tls_error(why, size, "cannot use tls.key", opt->key);
	if (opt->cert && SSL_CTX_check_private_key(ctx) != 1)
		return tls_error(why, size, "tls.key does not belong to tls.cert", opt->cert);
	return 0;
}

/* Sets SNI and the name to verify. An address is verified as such, and never sent as SNI (RFC 6066). */
static int set_name(SSL *ssl, const char *name)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 ? 0 : -ENOMEM;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1 ? 0 : -ENOMEM;
}

int otlp_tls_new(struct ssl_st **ret, int fd, const struct otlp_endpoint *endpoint,
		 const struct otlp_tls_options *opt, char *why, size_t why_size)
{
	static const unsigned char alpn[] = {2, 'h', '2'};
	_cleanup_(SSL_CTX_free_p) SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	_cleanup_(otlp_tls_free_p) SSL *ssl = NULL;
	BIO *bio;
	int r;

	pthread_once(&method_once, method_new);
	ERR_clear_error();
	if (!ctx || !method)
		return -ENOMEM;
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn))
		return -ENOMEM;
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* Return after each record that carries no data, so that the caller sees its deadline. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	r = load_files(ctx, opt, why, why_size);
	if (r < 0)
		return r;
	ssl = SSL_new(ctx);
	bio = ssl ? BIO_new(method) : NULL;
	if (!bio)
		return -ENOMEM;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	r = set_name(ssl, opt->server_name ? opt->server_name : endpoint->host);
	if (r < 0)
		return r;
	SSL_set_connect_state(ssl);
	*ret = TAKE_PTR(ssl);
	return 0;
}

void otlp_tls_free(struct ssl_st *ssl)
{
	SSL_free(ssl);
}

/* -EAGAIN with the events to wait for, or -ECONNRESET. */
static int io_error(SSL *ssl, int r, short *ret_events)
{
	switch (SSL_get_error(ssl, r)) {
	case SSL_ERROR_WANT_READ:
		*ret_events = POLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*ret_events = POLLOUT;
		return -EAGAIN;
	default:
		return -ECONNRESET;
	}
}

static int check_alpn(SSL *ssl, char *why, size_t size)
{
	const unsigned char *protocol;
	unsigned len;

	SSL_get0_alpn_selected(ssl, &protocol, &len);
	if (len == 2 && !memcmp(protocol, "h2", 2))
		return 0;
	snprintf(why, size, "TLS: the server does not offer HTTP/2 (ALPN h2), which gRPC needs");
	return -EPROTO;
}

int otlp_tls_handshake(struct ssl_st *ssl, short *ret_events, char *why, size_t why_size)
{
	long verified;
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(ssl);
	if (r == 1)
		return check_alpn(ssl, why, why_size);
	if (io_error(ssl, r, ret_events) == -EAGAIN)
		return -EAGAIN;
	verified = SSL_get_verify_result(ssl);
	if (verified != X509_V_OK)
		snprintf(why, why_size, "TLS: the server's certificate is refused: %s",
			 X509_verify_cert_error_string(verified));
	else if (ERR_peek_error())
		tls_error(why, why_size, "handshake failed", "");
	else
		snprintf(why, why_size, "TLS: the server closed the connection during the handshake");
	ERR_clear_error();
	return -EPROTO;
}

int otlp_tls_read(struct ssl_st *ssl, void *data, size_t size, size_t *ret_n, short *ret_events)
{
	int r;

	ERR_clear_error();
	r = SSL_read_ex(ssl, data, size, ret_n);
	return r == 1 ? 0 : io_error(ssl, r, ret_events);
}

int otlp_tls_write(struct ssl_st *ssl, const void *data, size_t size, size_t *ret_n, short *ret_events)
{
	int r;

	ERR_clear_error();
	r = SSL_write_ex(ssl, data, size, ret_n);
	return r == 1 ? 0 : io_error(ssl, r, ret_events);
}

void otlp_tls_reason(struct ssl_st *ssl, char *why, size_t why_size)
{
	const char *alert = ERR_peek_error() ? ERR_reason_error_string(ERR_peek_error()) : NULL;

	snprintf(why, why_size, "the connection was lost%s%s%s", alert ? ": TLS: " : "", alert ? alert : "",
		 SSL_get_app_data(ssl) ? "; the server wants a certificate: tls.cert and tls.key" : "");
	ERR_clear_error();
}
