/* Ends a period of the measurement and begins another, whose number is its argument; 0: none.

   Copyright (C) 2026 the Ropewalk developers; GPL-2.0-or-later, see LICENSE. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char** argv) {
   (void)argc;
   int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
   volatile long* page = mmap((void*)0x123450000, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
   page[atoi(argv[1])] = 1; /* places.c sees it */
   return 0;
}
