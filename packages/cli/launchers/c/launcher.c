/* The functions of LIB.h with symbols, for hosts that bind to them: cc -O2 -c LIB.c, or -shared -fPIC -o libLIB.so. */
#define LIB_LINKAGE
#include "LIB.h"
