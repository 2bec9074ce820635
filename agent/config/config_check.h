// SPDX-License-Identifier: Apache-2.0
/* Validity checks of single text values in the table of keys. Each is a config_check_fn. Private to
 * agent/config. */
#ifndef PROFLET_CONFIG_CHECK_H
#define PROFLET_CONFIG_CHECK_H

const char *config_check_endpoint(const char *text);
const char *config_check_url(const char *text);
const char *config_check_listen(const char *text);
const char *config_check_selector(const char *text);
const char *config_check_directory(const char *text);
const char *config_check_pem_file(const char *text);
const char *config_check_headers_file(const char *text);

#endif
