// SPDX-License-Identifier: Apache-2.0
/* Those functions of OpenSSL that the project uses. */
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "agent/late/library.h"

static struct late_library crypto = LATE_LIBRARY("libcrypto.so.3");
static struct late_library ssl = LATE_LIBRARY("libssl.so.3");

#define CRYPTO_FUNCTION(type, name, parameters, arguments, failure) \
	LATE_FUNCTION(crypto, type, name, parameters, arguments, failure)
#define CRYPTO_PROCEDURE(name, parameters, arguments) LATE_PROCEDURE(crypto, name, parameters, arguments)
#define SSL_FUNCTION(type, name, parameters, arguments, failure) \
	LATE_FUNCTION(ssl, type, name, parameters, arguments, failure)
#define SSL_PROCEDURE(name, parameters, arguments) LATE_PROCEDURE(ssl, name, parameters, arguments)

/* --- base 64 */

CRYPTO_FUNCTION(int, EVP_EncodeBlock, (unsigned char *ret, const unsigned char *data, int len),
		(ret, data, len), 0)

/* --- errors */

CRYPTO_FUNCTION(unsigned long, ERR_get_error, (void), (), 0)
CRYPTO_FUNCTION(unsigned long, ERR_peek_error, (void), (), 0)
CRYPTO_FUNCTION(const char *, ERR_reason_error_string, (unsigned long error), (error), NULL)
CRYPTO_PROCEDURE(ERR_clear_error, (void), ())

/* --- BIO */

CRYPTO_FUNCTION(int, BIO_get_new_index, (void), (), -1)
CRYPTO_FUNCTION(BIO_METHOD *, BIO_meth_new, (int type, const char *name), (type, name), NULL)
CRYPTO_FUNCTION(int, BIO_meth_set_write, (BIO_METHOD * m, int (*fn)(BIO *, const char *, int)), (m, fn), 0)
CRYPTO_FUNCTION(int, BIO_meth_set_read, (BIO_METHOD * m, int (*fn)(BIO *, char *, int)), (m, fn), 0)
CRYPTO_FUNCTION(int, BIO_meth_set_ctrl, (BIO_METHOD * m, long (*fn)(BIO *, int, long, void *)), (m, fn), 0)
CRYPTO_FUNCTION(BIO *, BIO_new, (const BIO_METHOD *m), (m), NULL)
CRYPTO_FUNCTION(void *, BIO_get_data, (BIO * b), (b), NULL)
CRYPTO_PROCEDURE(BIO_set_data, (BIO * b, void *data), (b, data))
CRYPTO_PROCEDURE(BIO_set_init, (BIO * b, int init), (b, init))
CRYPTO_PROCEDURE(BIO_set_flags, (BIO * b, int flags), (b, flags))
CRYPTO_PROCEDURE(BIO_clear_flags, (BIO * b, int flags), (b, flags))

/* --- certificates */

CRYPTO_FUNCTION(int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM * p, const char *text), (p, text), 0)
CRYPTO_FUNCTION(const char *, X509_verify_cert_error_string, (long error), (error), "OpenSSL is missing")

/* --- TLS */

SSL_FUNCTION(const SSL_METHOD *, TLS_client_method, (void), (), NULL)
SSL_FUNCTION(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *m), (m), NULL)
LATE_VOID(ssl, SSL_CTX_free, SSL_CTX)
SSL_FUNCTION(long, SSL_CTX_ctrl, (SSL_CTX * c, int command, long number, void *data),
	     (c, command, number, data), 0)
SSL_FUNCTION(int, SSL_CTX_check_private_key, (const SSL_CTX *c), (c), 0)
SSL_FUNCTION(int, SSL_CTX_load_verify_file, (SSL_CTX * c, const char *path), (c, path), 0)
SSL_FUNCTION(int, SSL_CTX_set_default_verify_paths, (SSL_CTX * c), (c), 0)
SSL_FUNCTION(int, SSL_CTX_set_alpn_protos, (SSL_CTX * c, const unsigned char *names, unsigned len),
	     (c, names, len), 1)
SSL_FUNCTION(int, SSL_CTX_use_certificate_chain_file, (SSL_CTX * c, const char *path), (c, path), 0)
SSL_FUNCTION(int, SSL_CTX_use_PrivateKey_file, (SSL_CTX * c, const char *path, int type), (c, path, type), 0)
SSL_PROCEDURE(SSL_CTX_set_verify, (SSL_CTX * c, int mode, SSL_verify_cb fn), (c, mode, fn))
SSL_PROCEDURE(SSL_CTX_set_default_passwd_cb, (SSL_CTX * c, pem_password_cb *fn), (c, fn))
SSL_PROCEDURE(SSL_CTX_set_client_cert_cb, (SSL_CTX * c, int (*fn)(SSL *, X509 **, EVP_PKEY **)), (c, fn))
SSL_FUNCTION(SSL *, SSL_new, (SSL_CTX * c), (c), NULL)
LATE_VOID(ssl, SSL_free, SSL)
SSL_FUNCTION(long, SSL_ctrl, (SSL * s, int command, long number, void *data), (s, command, number, data), 0)
SSL_FUNCTION(int, SSL_set1_host, (SSL * s, const char *name), (s, name), 0)
SSL_FUNCTION(X509_VERIFY_PARAM *, SSL_get0_param, (SSL * s), (s), NULL)
SSL_FUNCTION(int, SSL_set_ex_data, (SSL * s, int index, void *data), (s, index, data), 0)
SSL_FUNCTION(void *, SSL_get_ex_data, (const SSL *s, int index), (s, index), NULL)
SSL_FUNCTION(int, SSL_do_handshake, (SSL * s), (s), 0)
SSL_FUNCTION(int, SSL_read_ex, (SSL * s, void *data, size_t len, size_t *ret), (s, data, len, ret), 0)
SSL_FUNCTION(int, SSL_write_ex, (SSL * s, const void *data, size_t len, size_t *ret), (s, data, len, ret), 0)
SSL_FUNCTION(int, SSL_get_error, (const SSL *s, int result), (s, result), SSL_ERROR_SSL)
SSL_FUNCTION(long, SSL_get_verify_result, (const SSL *s), (s), X509_V_ERR_UNSPECIFIED)
SSL_PROCEDURE(SSL_set_bio, (SSL * s, BIO *reading, BIO *writing), (s, reading, writing))
SSL_PROCEDURE(SSL_set_connect_state, (SSL * s), (s))
SSL_PROCEDURE(SSL_set_hostflags, (SSL * s, unsigned flags), (s, flags))
SSL_PROCEDURE(SSL_get0_alpn_selected, (const SSL *s, const unsigned char **ret, unsigned *ret_len),
	      (s, ret, ret_len))
