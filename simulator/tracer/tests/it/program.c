/* What the tests of the recorder trace: shared memory, a fork, threads, an atomic operation, and an
   end that no process sees coming. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int counter;
static volatile int written_by_child[4096];
static volatile int* shared;

__attribute__((noinline)) static void count_in_a_loop(int times)
{
   for (int i = 0; i < times; i++) __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
}

static void* thread(void* unused)
{
   count_in_a_loop(1000);
   return unused;
}

int main(void)
{
   shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
   pthread_t other;
   pthread_create(&other, 0, thread, 0);
   pthread_join(other, 0);
   pid_t child = fork();
   if (child == 0) {
      for (int i = 0; i < 4096; i++) written_by_child[i] = i;
      *shared = 7;
      for (;;) pause();
   }
   while (*shared != 7) usleep(1000);
   kill(child, SIGKILL);
   wait(0);
   return 0;
}
