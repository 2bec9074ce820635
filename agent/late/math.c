// SPDX-License-Identifier: Apache-2.0
/* Those functions of libm that the project calls. */
#include <math.h>

#include "agent/late/library.h"

static struct late_library libm = LATE_LIBRARY("libm.so.6");

LATE_FUNCTION(libm, double, ceil, (double x), (x), NAN)
LATE_FUNCTION(libm, double, cos, (double x), (x), NAN)
LATE_FUNCTION(libm, double, erfc, (double x), (x), NAN)
LATE_FUNCTION(libm, double, log, (double x), (x), NAN)
LATE_FUNCTION(libm, double, log2, (double x), (x), NAN)
LATE_FUNCTION(libm, double, pow, (double x, double y), (x, y), NAN)
LATE_FUNCTION(libm, double, sqrt, (double x), (x), NAN)
