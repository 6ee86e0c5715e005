/* Marks for callgrind: which instructions of a program count, and for what. A library, for ctypes. */
#include <valgrind/callgrind.h>

void mark_begin(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void mark_end(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
