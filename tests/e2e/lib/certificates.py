# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities of the test's own, and what they sign."""

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
LOCAL = "DNS:localhost,IP:127.0.0.1"


def authority(s, name):
    """A certificate authority; returns its certificate and key."""
    s.need("openssl")
    cert, key = s.path(name + ".pem"), s.path(name + ".key")
    s.run(["openssl", "req", "-x509", *EC, "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert])
    return cert, key


def issue(s, name, ca, ca_key, names=LOCAL, days="2"):
    """A certificate for these names, signed by the authority; returns it and its key. Days 0: it expires at once."""
    cert, key, request, extensions = (s.path(f"{name}.{x}") for x in ("pem", "key", "csr", "ext"))
    with open(extensions, "w") as f:
        f.write(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    s.run(["openssl", "req", *EC, "-subj", f"/CN={name}", "-keyout", key, "-out", request])
    s.run(["openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", days,
           "-extfile", extensions, "-out", cert])
    return cert, key
