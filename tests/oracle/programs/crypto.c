// SPDX-License-Identifier: Apache-2.0
/*
 * Runs all algorithms of libcrypto on little data, for the shadow-stack oracle: many are hand-written
 * assembly with handwritten call-frame information. OPENSSL_ia32cap in the environment selects other
 * variants. Arguments: any of digests, ciphers, keys; without arguments, all.
 */
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <string.h>

#define DATA_BYTES 1536

static unsigned char data[DATA_BYTES], out[DATA_BYTES + 4096];
static unsigned done;

static void digest(EVP_MD *md, void *arg)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char result[EVP_MAX_MD_SIZE];
	unsigned n;

	(void)arg;
	if (ctx && EVP_DigestInit_ex(ctx, md, NULL) > 0 && EVP_DigestUpdate(ctx, data, sizeof data) > 0)
		done += EVP_DigestFinal_ex(ctx, result, &n) > 0;
	EVP_MD_CTX_free(ctx);
}

static void run_cipher(const EVP_CIPHER *cipher, int encrypt)
{
	static const unsigned char key[64] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int n;

	if (ctx && EVP_CipherInit_ex(ctx, cipher, NULL, key, key + 7, encrypt) > 0)
		done += EVP_CipherUpdate(ctx, out, &n, data, sizeof data) > 0;
	EVP_CIPHER_CTX_free(ctx);
}

static void cipher(EVP_CIPHER *c, void *arg)
{
	(void)arg;
	run_cipher(c, 1);
	run_cipher(c, 0);
}

static void sign(EVP_PKEY *key, const EVP_MD *md)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = sizeof out;

	if (key && ctx && EVP_DigestSignInit(ctx, NULL, md, NULL, key) > 0 &&
	    EVP_DigestSign(ctx, out, &len, data, 100) > 0) {
		EVP_MD_CTX_reset(ctx);
		if (EVP_DigestVerifyInit(ctx, NULL, md, NULL, key) > 0)
			done += EVP_DigestVerify(ctx, out, len, data, 100) > 0;
	}
	EVP_MD_CTX_free(ctx);
}

static void derive(EVP_PKEY *key)
{
	EVP_PKEY_CTX *ctx = key ? EVP_PKEY_CTX_new(key, NULL) : NULL;
	size_t len = sizeof out;

	if (ctx && EVP_PKEY_derive_init(ctx) > 0 && EVP_PKEY_derive_set_peer(ctx, key) > 0)
		done += EVP_PKEY_derive(ctx, out, &len) > 0;
	EVP_PKEY_CTX_free(ctx);
}

static void keys(void)
{
	static const char *const curves[] = {"P-256", "P-224", "P-384", "P-521", "secp256k1"};
	static const char *const others[] = {"ED25519", "ED448"};
	static const char *const exchanges[] = {"X25519", "X448"};
	EVP_PKEY *key;

	for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
		key = EVP_EC_gen(curves[i]);
		sign(key, EVP_sha256());
		derive(key);
		EVP_PKEY_free(key);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		key = EVP_PKEY_Q_keygen(NULL, NULL, others[i]);
		sign(key, NULL);
		EVP_PKEY_free(key);
	}
	for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
		key = EVP_PKEY_Q_keygen(NULL, NULL, exchanges[i]);
		derive(key);
		EVP_PKEY_free(key);
	}
	for (unsigned bits = 512; bits <= 2048; bits += 512) {
		key = EVP_RSA_gen(bits);
		sign(key, EVP_sha1());
		EVP_PKEY_free(key);
	}
}

static int wanted(int argc, char **argv, const char *what)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], what) == 0)
			return 1;
	return argc == 1;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)(i * 7);
	if (wanted(argc, argv, "digests"))
		EVP_MD_do_all_provided(NULL, digest, NULL);
	if (wanted(argc, argv, "ciphers"))
		EVP_CIPHER_do_all_provided(NULL, cipher, NULL);
	if (wanted(argc, argv, "keys"))
		keys();
	printf("%u\n", done);
	return 0;
}
