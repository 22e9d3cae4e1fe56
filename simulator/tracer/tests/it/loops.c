/* Loops whose references are known: 10,000 loads and stores of 4 bytes, 250 of 16, and 100
   atomic additions. */
static volatile int known_data[4096] __attribute__((aligned(64)));

__attribute__((noinline)) void known_loops(void)
{
   for (int i = 0; i < 10000; i++) known_data[i & 1023] = known_data[i * 7 & 1023] + i;
   for (int i = 0; i < 250; i++)
      __asm__ volatile("movups (%0), %%xmm1\n\tmovups %%xmm1, 16(%0)" ::"r"(&known_data[1024 + i])
                       : "xmm1", "memory");
   for (int i = 0; i < 100; i++) __atomic_fetch_add(&known_data[2048 + i], i, __ATOMIC_SEQ_CST);
}

int main(void)
{
   known_loops();
   return 0;
}
