/*
 * Kernel library LIB, made by tilewright @VERSION@. Generated: do not edit.
 *
 *   LIB_library lib;
 *   LIB_args args;
 *   LIB_open(&lib, "folder of this file", 0);
 *   LIB_@FIRST@_defaults(&args@SIZES@);
 *   Operands are addresses in args, or tensors, whose dtype, GPU, shape and strides are checked:
 *   LIB_@FIRST@_take(&lib, &args, @TAKEN@);
 *   if (LIB_@FIRST@(&lib, &args, stream) != LIB_OK) puts(LIB_last_error(&lib));
 *   LIB_close(&lib);
 *
 * C99 or C++11 (LIB.hpp is made for C++); link with -ldl where dlopen is not in libc. No CUDA header or library is needed.
 * All functions are static, unless LIB_LINKAGE is defined (as nothing): LIB.c does so for hosts that want symbols.
 */
#ifndef LIB_TILEWRIGHT_H
#define LIB_TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifndef LIB_LINKAGE
#define LIB_LINKAGE static inline
#endif

/* @LIMITS@ */

#include "types.h"
#include "open.h"
#include "extents.h"
#include "operands.h"
#include "plan.h"

/* @TABLES@ */

/* @WEIGHTS@ */

#include "run.h"
#include "dispatch.h"

/* @OPERATIONS@ */

#ifdef __cplusplus
}
#endif
#endif
