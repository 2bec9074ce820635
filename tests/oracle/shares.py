# SPDX-License-Identifier: Apache-2.0
"""Compares the shares of functions that two profilers found in the same processes."""
import math

TOLERANCE = 0.03  # of all samples: a difference that counts is more than this, and more than ERRORS standard errors
ERRORS = 4
SHARE = 0.01  # functions that are compared have it by one of the two


def compare(ours, theirs):
    """Both: {function: samples}. Yields (function, our share, theirs, whether they differ), by our share."""
    n, m = sum(ours.values()), sum(theirs.values())
    if not n or not m:
        return
    for f in sorted(set(ours) | set(theirs), key=lambda f: -ours.get(f, 0)):
        a, b = ours.get(f, 0) / n, theirs.get(f, 0) / m
        if max(a, b) >= SHARE:
            p = (ours.get(f, 0) + theirs.get(f, 0)) / (n + m)
            error = math.sqrt(p * (1 - p) * (1 / n + 1 / m))
            yield f, a, b, abs(a - b) > max(TOLERANCE, ERRORS * error)
