/* What the test of heap blocks traces: each way to allocate, from functions with names. */
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void* with_malloc(size_t bytes)
{
   return memset(malloc(bytes), 1, bytes);
}

__attribute__((noinline)) static void* with_calloc(size_t bytes)
{
   return memset(calloc(bytes / 8, 8), 1, bytes);
}

__attribute__((noinline)) static void* with_realloc(void* old, size_t bytes)
{
   return memset(realloc(old, bytes), 1, bytes);
}

__attribute__((noinline)) static void* with_posix_memalign(size_t bytes)
{
   void* block;
   return posix_memalign(&block, 64, bytes) == 0 ? memset(block, 1, bytes) : NULL;
}

__attribute__((noinline)) static void* with_strdup(const char* text)
{
   return strdup(text);
}

int main(void)
{
   void* first = with_malloc(1000);
   void* second = with_malloc(200000);
   void* sixth = with_calloc(808);
   void* third = with_realloc(with_realloc(NULL, 4000), 5000);
   void* fourth = with_posix_memalign(640);
   void* fifth = with_strdup("nine hundred and ninety-nine bottles");
   free(first);
   free(second);
   free(third);
   free(fourth);
   free(fifth);
   free(sixth);
   return 0;
}
