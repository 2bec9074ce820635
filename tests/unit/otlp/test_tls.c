// SPDX-License-Identifier: Apache-2.0
/*
 * Tests TLS against a loopback server: verification, names, mTLS, rotation of files, ALPN. Makes its
 * own certificates.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "agent/base/clock.h"
#include "mock_collector.h"
#include "otlp/client.h"

#define CALL_TIMEOUT (30 * NS_PER_SEC) /* longer than any call takes unless it fails */

struct identity {
	EVP_PKEY *key;
	X509 *cert;
	char cert_file[64], key_file[64];
};

static char dir[] = "/tmp/test-otlp-tls-XXXXXX";
static struct identity ca, server, client, stranger;

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	cr_assert_not_null(e);
	X509_add_ext(cert, e, -1);
	X509_EXTENSION_free(e);
}

static void make(struct identity *id, const char *name, const struct identity *issuer, const char *names)
{
	X509_NAME *subject;
	FILE *f;

	id->key = EVP_EC_gen("P-256");
	id->cert = X509_new();
	cr_assert(id->key && id->cert);
	X509_set_version(id->cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(id->cert), rand());
	X509_gmtime_adj(X509_getm_notBefore(id->cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(id->cert), 3600);
	X509_set_pubkey(id->cert, id->key);
	subject = X509_get_subject_name(id->cert);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(id->cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
	add_extension(id->cert, issuer ? issuer->cert : id->cert, NID_basic_constraints,
		      issuer ? "CA:FALSE" : "critical,CA:TRUE");
	if (names)
		add_extension(id->cert, issuer->cert, NID_subject_alt_name, names);
	cr_assert_gt(X509_sign(id->cert, issuer ? issuer->key : id->key, EVP_sha256()), 0);
	snprintf(id->cert_file, sizeof id->cert_file, "%s/%s.pem", dir, name);
	snprintf(id->key_file, sizeof id->key_file, "%s/%s.key", dir, name);
	f = fopen(id->cert_file, "w");
	PEM_write_X509(f, id->cert);
	fclose(f);
	f = fopen(id->key_file, "w");
	PEM_write_PrivateKey(f, id->key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
}

static void discard(struct identity *id)
{
	EVP_PKEY_free(id->key);
	X509_free(id->cert);
	unlink(id->cert_file);
	unlink(id->key_file);
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(dir));
	make(&ca, "ca", NULL, NULL);
	make(&server, "server", &ca, "DNS:collector.test,IP:127.0.0.1");
	make(&client, "client", &ca, NULL);
	make(&stranger, "stranger", NULL, NULL);
}

static void teardown(void)
{
	discard(&ca);
	discard(&server);
	discard(&client);
	discard(&stranger);
	rmdir(dir);
}

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

static SSL_CTX *server_context(bool mtls, int max_version)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	cr_assert_not_null(ctx);
	SSL_CTX_use_certificate(ctx, server.cert);
	SSL_CTX_use_PrivateKey(ctx, server.key);
	if (max_version) {
		SSL_CTX_set_security_level(ctx, 0);
		SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
		SSL_CTX_set_max_proto_version(ctx, max_version);
	}
	if (mtls) {
		X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca.cert);
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return ctx;
}

static struct otlp_outcome probe(uint16_t port, const char *host, const struct otlp_tls_options *tls)
{
	struct otlp_client_options opt = {.tls = *tls, .timeout_ns = CALL_TIMEOUT};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o;
	char url[64];

	snprintf(url, sizeof url, "https://%s:%u", host, port);
	opt.endpoint = url;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	return o;
}

Test(tls, verification, .init = setup, .fini = teardown)
{
	const struct {
		const char *host;
		struct otlp_tls_options tls;
		const char *text; /* NULL: the connection succeeds */
	} cases[] = {
		{"127.0.0.1", {.ca = ca.cert_file}, NULL},
		{"localhost", {.ca = ca.cert_file, .server_name = "collector.test"}, NULL},
		{"localhost", {.ca = ca.cert_file}, "hostname mismatch"},
		{"127.0.0.1", {.ca = ca.cert_file, .server_name = "other.test"}, "hostname mismatch"},
		{"127.0.0.1", {.ca = ca.cert_file, .server_name = "127.0.0.2"}, "IP address mismatch"},
		{"127.0.0.1", {.ca = stranger.cert_file}, "certificate is refused"},
		{"127.0.0.1", {0}, "certificate is refused"},
		{"localhost", {.insecure = true}, NULL},
		{"127.0.0.1", {.ca = "/no/such/file"}, "cannot use tls.ca /no/such/file"},
		{"127.0.0.1",
		 {.ca = ca.cert_file, .cert = client.cert_file, .key = ca.key_file},
		 "TLS: cannot use tls.key"},
	};
	struct mock_collector m = {.decide = accept_all, .tls = server_context(false, 0)};

	mock_collector_start(&m);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct otlp_outcome o = probe(m.port, cases[i].host, &cases[i].tls);

		if (!cases[i].text)
			cr_expect_eq(o.verdict, OTLP_ACCEPTED, "case %zu: %s", i, o.text);
		else
			cr_expect(o.verdict == OTLP_RETRY && strstr(o.text, cases[i].text), "case %zu: %s", i,
				  o.text);
	}
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
}

Test(tls, mutual_and_rotated, .init = setup, .fini = teardown)
{
	struct mock_collector m = {.decide = accept_all, .tls = server_context(true, 0)};
	struct otlp_tls_options tls = {.ca = ca.cert_file, .cert = client.cert_file, .key = client.key_file};
	struct otlp_tls_options none = {.ca = ca.cert_file};
	struct otlp_client_options opt = {.timeout_ns = CALL_TIMEOUT};
	char url[64], cert[64], key[64];
	struct otlp_client *c;
	struct otlp_outcome o;

	mock_collector_start(&m);
	cr_expect_eq(probe(m.port, "127.0.0.1", &tls).verdict, OTLP_ACCEPTED);
	o = probe(m.port, "127.0.0.1", &none);
	cr_expect(o.verdict == OTLP_RETRY && strstr(o.text, "certificate"), "%s", o.text);

	/* A secret whose links are swapped: the next connection uses the new files. */
	snprintf(cert, sizeof cert, "%s/current.pem", dir);
	snprintf(key, sizeof key, "%s/current.key", dir);
	cr_assert_eq(symlink(stranger.cert_file, cert), 0);
	cr_assert_eq(symlink(stranger.key_file, key), 0);
	snprintf(url, sizeof url, "https://127.0.0.1:%u", m.port);
	opt.endpoint = url;
	opt.tls = (struct otlp_tls_options){.ca = ca.cert_file, .cert = cert, .key = key};
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_RETRY);
	unlink(cert);
	unlink(key);
	cr_assert_eq(symlink(client.cert_file, cert), 0);
	cr_assert_eq(symlink(client.key_file, key), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	unlink(cert);
	unlink(key);
	otlp_client_free(c);
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
}

Test(tls, refuses_old_versions, .init = setup, .fini = teardown)
{
	struct mock_collector m = {.decide = accept_all, .tls = server_context(false, TLS1_1_VERSION)};
	struct otlp_tls_options tls = {.ca = ca.cert_file};
	struct otlp_outcome o;

	mock_collector_start(&m);
	o = probe(m.port, "127.0.0.1", &tls);
	cr_expect_eq(o.verdict, OTLP_RETRY);
	cr_expect(strstr(o.text, "TLS: "), "%s", o.text);
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
}

Test(tls, needs_alpn_h2, .init = setup, .fini = teardown)
{
	struct mock_collector m = {.http_reply = "HTTP/1.1 200 OK\r\n\r\n", .tls = server_context(false, 0)};
	struct otlp_tls_options tls = {.ca = ca.cert_file};

	mock_collector_start(&m);
	cr_expect(strstr(probe(m.port, "127.0.0.1", &tls).text, "ALPN h2"));
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
}

Test(tls, http_with_a_name, .init = setup, .fini = teardown)
{
	struct mock_collector m = {.http_reply = "HTTP/1.1 200 OK\r\nContent-Type: "
						 "application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
				   .tls = server_context(true, 0)};
	struct otlp_client_options opt = {.protocol = OTLP_HTTP,
					  .timeout_ns = CALL_TIMEOUT,
					  .tls = {.ca = ca.cert_file,
						  .cert = client.cert_file,
						  .key = client.key_file,
						  .server_name = "collector.test"}};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o;
	char url[64];

	mock_collector_start(&m);
	snprintf(url, sizeof url, "https://127.0.0.1:%u", m.port);
	opt.endpoint = url;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	cr_expect(strcasestr(buf_str(&m.headers), "\r\nhost: 127.0.0.1:"), "%s", buf_str(&m.headers));
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
}

static const char http_ok[] =
	"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

static struct otlp_client *client_to(const struct mock_collector *m, const char *host, bool http,
				     const struct otlp_tls_options *tls)
{
	struct otlp_client_options opt = {
		.tls = *tls, .timeout_ns = CALL_TIMEOUT, .protocol = http ? OTLP_HTTP : OTLP_GRPC};
	struct otlp_client *c;
	char url[64];

	snprintf(url, sizeof url, "https://%s:%u", host, m->port);
	opt.endpoint = url;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	return c;
}

static void expect_refused(struct mock_collector *m, const char *host, const char *authority,
			   const char *grpc, const char *http)
{
	const struct otlp_tls_options tls = {.ca = authority};

	for (int i = 0; i < 2; i++) {
		_cleanup_client_ struct otlp_client *c = NULL;
		struct otlp_outcome o;

		m->http_reply = i ? http_ok : NULL;
		m->tls = server_context(false, 0);
		mock_collector_start(m);
		c = client_to(m, host, i, &tls);
		cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
		cr_expect(o.verdict == OTLP_RETRY && strstr(o.text, i ? http : grpc), "%s", o.text);
		mock_collector_stop(m);
		SSL_CTX_free(m->tls);
	}
}

Test(tls, says_what_is_wrong_with_the_server, .init = setup, .fini = teardown)
{
	struct mock_collector m = {.decide = accept_all};

	expect_refused(&m, "127.0.0.1", stranger.cert_file, "unable to get local issuer certificate",
		       "unable to get local issuer certificate");
	expect_refused(&m, "localhost", ca.cert_file, "hostname mismatch", "certificate subject name");
	X509_gmtime_adj(X509_getm_notAfter(server.cert), -10);
	cr_assert_gt(X509_sign(server.cert, ca.key, EVP_sha256()), 0);
	expect_refused(&m, "127.0.0.1", ca.cert_file, "certificate has expired", "certificate has expired");
}

/* A secret as the kubelet mounts it: NAME → ..data/NAME, ..data → ..VERSION; an update swaps ..data. */
struct secret {
	char cert[96], key[96];
};

static void secret_version(const char *version, const struct identity *id)
{
	char path[96];

	snprintf(path, sizeof path, "%s/..%s", dir, version);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof path, "%s/..%s/tls.crt", dir, version);
	cr_assert_eq(link(id->cert_file, path), 0);
	snprintf(path, sizeof path, "%s/..%s/tls.key", dir, version);
	cr_assert_eq(link(id->key_file, path), 0);
}

static void secret_point(const char *version)
{
	char beside[96], data[96], target[32];

	snprintf(target, sizeof target, "..%s", version);
	snprintf(beside, sizeof beside, "%s/..data_tmp", dir);
	snprintf(data, sizeof data, "%s/..data", dir);
	cr_assert_eq(symlink(target, beside), 0);
	cr_assert_eq(rename(beside, data), 0);
}

static void secret_make(struct secret *s)
{
	snprintf(s->cert, sizeof s->cert, "%s/tls.crt", dir);
	snprintf(s->key, sizeof s->key, "%s/tls.key", dir);
	cr_assert_eq(symlink("..data/tls.crt", s->cert), 0);
	cr_assert_eq(symlink("..data/tls.key", s->key), 0);
	secret_version("first", &client);
	secret_version("second", &stranger);
	secret_point("first");
}

static void secret_discard(void)
{
	static const char *const names[] = {"..first/tls.crt",	"..first/tls.key",  "..first",
					    "..second/tls.crt", "..second/tls.key", "..second",
					    "..data",		"tls.crt",	    "tls.key"};
	char path[96];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		cr_expect_eq(remove(path), 0, "%s", path);
	}
}

/* A connection made with the old certificate is closed when the secret changes, and only then. */
static void swap_under_a_connection(bool http)
{
	struct mock_collector m = {
		.decide = accept_all, .tls = server_context(true, 0), .http_reply = http ? http_ok : NULL};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct secret s;
	struct otlp_outcome o;

	mock_collector_start(&m);
	secret_make(&s);
	c = client_to(&m, "127.0.0.1", http,
		      &(struct otlp_tls_options){.ca = ca.cert_file, .cert = s.cert, .key = s.key});
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
		cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	}
	cr_expect_eq(m.n_connections, 1);
	secret_point("second");
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_RETRY, "the server does not know this one");
	secret_point("first");
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED, "%s", o.text);
	cr_expect_eq(m.n_connections, 3);
	mock_collector_stop(&m);
	SSL_CTX_free(m.tls);
	secret_discard();
}

Test(tls, secret_swapped_under_grpc, .init = setup, .fini = teardown)
{
	swap_under_a_connection(false);
}

Test(tls, secret_swapped_under_http, .init = setup, .fini = teardown)
{
	swap_under_a_connection(true);
}
