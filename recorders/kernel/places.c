/* A plugin for QEMU's system emulation that counts which places a Linux kernel for x86-64 refers to.

   Copyright (C) 2026 the Ropewalk developers. This program is free software: you can redistribute
   it and/or modify it under the terms of the GNU General Public License as published by the Free
   Software Foundation, either version 2 of the License, or (at your option) any later version.

   What it is: counts of the kernel's instructions by places of 32 bytes, and of its references to
   its own data by places of 192 bytes, with what direct-mapped caches of several sizes would have
   missed and what a visit to a place consists of, for periods that the guest marks. What it is not:
   a recorder; nothing else of the order is kept. User mode is only counted.

   The guest ends a period and begins number N by a store from user mode to MARK + 8 N (mark.c).
   After each period the folder of the option `directory=` has a file `N`: lines of a word and
   numbers, which tables.py reads. It relies on how Linux lays out addresses when they are not
   randomised (`nokaslr`; Documentation/arch/x86/x86_64/mm.rst), and on one thread of QEMU for all
   processors (`thread=single`). */

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../qemu/plugin.h"

EXPORT int qemu_plugin_version = 1;

/* ------------------------------------------------------------------------------------ addresses */

#define MARK 0x123450000ULL /* the page that mark.c maps */
#define PERIODS 4

/* All stacks of tasks are mapped there, each in 16 KiB of its own. */
#define STACKS_START 0xffffc90000000000ULL
#define STACKS_END 0xffffe90000000000ULL
#define STACK_BYTES (16 * 1024)
/* The stacks on which each processor enters the kernel. */
#define ENTRY_STACKS_START 0xfffffe0000000000ULL
#define ENTRY_STACKS_END 0xfffffe8000000000ULL

static bool is_kernel(uint64_t address) { return address >> 63; }

static bool is_between(uint64_t address, uint64_t start, uint64_t end) {
   return address >= start && address < end;
}

/* --------------------------------------------------------------------------------------- caches */

#define CPUS 8
#define CACHES 8 /* of 8 KiB and more, each twice as large as the one before */
#define LEAST_BYTES 8192
#define LINE_BYTES 32

enum { Code, Data, Kinds }; /* data but for stacks */
static const char* const kind_names[Kinds] = {"code", "data"};

/* Direct-mapped, a set of them for each processor and kind: the number of the line in each place,
   plus one. */
static uint64_t* lines[Kinds][CPUS][CACHES];
static uint64_t looks[Kinds], misses[Kinds][CACHES];

static void look(int kind, unsigned cpu, uint64_t address) {
   uint64_t line = address / LINE_BYTES;
   looks[kind]++;
   for (int i = 0; i < CACHES; i++) {
      size_t sets = ((size_t)LEAST_BYTES << i) / LINE_BYTES;
      uint64_t* cache = lines[kind][cpu % CPUS][i];
      if (!cache) cache = lines[kind][cpu % CPUS][i] = calloc(sets, sizeof *cache);
      uint64_t* place = &cache[line % sets];
      misses[kind][i] += *place != line + 1;
      *place = line + 1;
   }
}

/* --------------------------------------------------------------------------------------- places */

#define CODE_BYTES LINE_BYTES
/* The median object of the kernel's own allocator (/proc/slabinfo) is about as large. */
#define DATA_BYTES 192

typedef struct {
   uint64_t number; /* address / size, plus one; 0: nothing is here */
   uint64_t count;
   uint32_t task;   /* the only one that has referred to it */
   bool is_shared;  /* there are several */
} Place;

typedef struct {
   Place* places;
   size_t mask;
   size_t used;
} Table;

static Table code = {.mask = (1 << 20) - 1}, data = {.mask = (1 << 23) - 1};

static Place* place(Table* table, uint64_t number) {
   size_t i = number * 0x9E3779B97F4A7C15ULL >> 32;
   for (; table->places[i &= table->mask].number; i++)
      if (table->places[i].number == number + 1) return &table->places[i];
   if (++table->used > table->mask / 10 * 9) {
      fputs("places: the kernel refers to more places than there is room for\n", stderr);
      exit(1);
   }
   table->places[i].number = number + 1;
   return &table->places[i];
}

/* -------------------------------------------------------------------------------------- visits */

/* A visit to a place that several tasks use: references to it of one processor, until that has
   referred to as many other places since as there are visits at a time. */
#define WORD_BYTES 4
#define VISITS_MAX 32
static const int visits_at_a_time[] = {4, 8, VISITS_MAX};
enum { Windows = sizeof visits_at_a_time / sizeof visits_at_a_time[0] };

typedef struct {
   Place* place; /* none: nothing yet */
   uint64_t words; /* a bit for each that was referred to */
   uint8_t lines;  /* the same */
   uint32_t references, writes;
   bool begins_with_write;
} Visit;

static Visit visits[Windows][CPUS][VISITS_MAX]; /* the last one that was referred to comes first */

typedef struct {
   uint64_t visits, references, words, lines, writing, begin_with_write, writes;
} Visited;

static Visited visited[Windows];

static void ends(const Visit* visit, Visited* into) {
   if (!visit->place || !visit->place->is_shared) return;
   into->visits++;
   into->references += visit->references;
   into->words += __builtin_popcountll(visit->words);
   into->lines += __builtin_popcount(visit->lines);
   into->writes += visit->writes;
   into->writing += visit->writes > 0;
   into->begin_with_write += visit->begins_with_write;
}

static void visit(Visit* all, int count, Visited* into, Place* place, uint64_t words, uint8_t lines,
                  bool writes) {
   int i = 0;
   while (i < count - 1 && all[i].place != place) i++;
   Visit it = all[i];
   if (it.place != place) {
      ends(&it, into);
      it = (Visit){.place = place, .begins_with_write = writes};
   }
   it.words |= words;
   it.lines |= lines;
   it.references++;
   it.writes += writes;
   memmove(all + 1, all, i * sizeof *all);
   all[0] = it;
}

static void visits_place(unsigned cpu, Place* place, uint64_t address, uint32_t info) {
   unsigned first = address % DATA_BYTES / WORD_BYTES;
   uint64_t bytes = 1ULL << qemu_plugin_mem_size_shift(info);
   uint64_t words = (1ULL << (bytes + WORD_BYTES - 1) / WORD_BYTES) - 1;
   bool writes = qemu_plugin_mem_is_store(info);
   words = words << first & ((1ULL << DATA_BYTES / WORD_BYTES) - 1);
   uint8_t lines = 1 << address % DATA_BYTES / LINE_BYTES;
   for (int i = 0; i < Windows; i++)
      visit(visits[i][cpu], visits_at_a_time[i], &visited[i], place, words, lines, writes);
}

/* -------------------------------------------------------------------------------------- counting */

/* How often the kernel was entered from user mode at an address, and what it did until it was back
   there. */
typedef struct {
   uint64_t address, count, instructions;
} Entry;

#define ENTRIES 64
static Entry entries[ENTRIES]; /* the last one is for all that find no room */
static Entry* entered[CPUS];   /* none: in user mode, or the processor has not been there yet */
static bool was_user[CPUS];

static unsigned period; /* 0: none, nothing is counted */
static uint64_t user_instructions, kernel_instructions, runs;
static uint64_t expected[CPUS]; /* where the next instruction is unless the kernel jumps */
static uint64_t last[CPUS];     /* the last instruction */
static uint32_t task[CPUS];
static const char* directory = ".";

typedef struct {
   uint64_t start, end, last;
   uint32_t instructions, pieces;
   bool is_kernel, repeats;
   struct {
      Place* place;
      uint32_t instructions;
   } piece[]; /* of different places */
} Block;

static Entry* entry(uint64_t address) {
   int i = 0;
   while (i < ENTRIES - 1 && entries[i].address && entries[i].address != address) i++;
   entries[i].address = i < ENTRIES - 1 ? address : 0;
   return &entries[i];
}

static void runs_block(unsigned vcpu, void* argument) {
   Block* block = argument;
   unsigned cpu = vcpu % CPUS;
   if (!period) return;
   if (!block->is_kernel) {
      user_instructions += block->instructions;
      was_user[cpu] = true;
      entered[cpu] = NULL;
      expected[cpu] = last[cpu] = 0;
      return;
   }
   if (was_user[cpu]) {
      was_user[cpu] = false;
      entered[cpu] = entry(block->start);
      entered[cpu]->count++;
   }
   /* A string instruction is fetched once, however often it repeats. */
   if (block->repeats && last[cpu] == block->start) {
      expected[cpu] = block->end;
      return;
   }
   last[cpu] = block->last;
   kernel_instructions += block->instructions;
   if (entered[cpu]) entered[cpu]->instructions += block->instructions;
   runs += block->start != expected[cpu];
   expected[cpu] = block->end;
   for (uint32_t i = 0; i < block->pieces; i++) {
      block->piece[i].place->count += block->piece[i].instructions;
      look(Code, cpu, (block->piece[i].place->number - 1) * CODE_BYTES);
   }
}

static void refers(unsigned vcpu, uint32_t info, uint64_t address, void* is_from_kernel) {
   unsigned cpu = vcpu % CPUS;
   if (!period || !is_from_kernel || !is_kernel(address)) return;
   if (is_between(address, STACKS_START, STACKS_END)) {
      task[cpu] = (uint32_t)((address - STACKS_START) / STACK_BYTES) + 1;
      return;
   }
   look(Data, cpu, address);
   if (is_between(address, ENTRY_STACKS_START, ENTRY_STACKS_END)) return;
   Place* it = place(&data, address / DATA_BYTES);
   uint32_t by = task[cpu] ? task[cpu] : UINT32_MAX - cpu;
   it->is_shared |= it->task && it->task != by;
   it->task = by;
   it->count++;
   visits_place(cpu, it, address, info);
}

/* -------------------------------------------------------------------------------------- periods */

static void write_places(FILE* file, const char* name, const Table* table, bool only_shared) {
   for (size_t i = 0; i <= table->mask; i++) {
      const Place* it = &table->places[i];
      if (it->count && (it->is_shared || !only_shared))
         fprintf(file, "%s %" PRIu64 "\n", name, it->count);
   }
}

static void write_period(void) {
   char name[4096];
   snprintf(name, sizeof name, "%s/%u", directory, period);
   FILE* file = fopen(name, "w");
   if (!file) {
      perror(name);
      exit(1);
   }
   fprintf(file, "instructions %" PRIu64 " %" PRIu64 "\n", user_instructions, kernel_instructions);
   fprintf(file, "runs %" PRIu64 "\n", runs);
   for (int kind = 0; kind < Kinds; kind++) {
      fprintf(file, "cache_%s %" PRIu64, kind_names[kind], looks[kind]);
      for (int i = 0; i < CACHES; i++) fprintf(file, " %" PRIu64, misses[kind][i]);
      fputc('\n', file);
   }
   for (int i = 0; i < Windows; i++) {
      const Visited* it = &visited[i];
      const uint64_t counts[] = {it->visits, it->references, it->words, it->lines,
                                 it->writes, it->writing,    it->begin_with_write};
      fprintf(file, "visits_%d", visits_at_a_time[i]);
      for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
         fprintf(file, " %" PRIu64, counts[k]);
      fputc('\n', file);
   }
   for (int i = 0; i < ENTRIES; i++)
      if (entries[i].count)
         fprintf(file, "entry 0x%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", entries[i].address,
                 entries[i].count, entries[i].instructions);
   write_places(file, "code", &code, false);
   write_places(file, "data", &data, true);
   if (fclose(file)) {
      perror(name);
      exit(1);
   }
}

/* Caches keep what they hold: they are not cold when a period begins. */
static void forget(void) {
   user_instructions = kernel_instructions = runs = 0;
   memset(looks, 0, sizeof looks);
   memset(misses, 0, sizeof misses);
   memset(visits, 0, sizeof visits);
   memset(visited, 0, sizeof visited);
   memset(entries, 0, sizeof entries);
   memset(entered, 0, sizeof entered);
   /* Blocks know where the places of code are. */
   for (size_t i = 0; i <= code.mask; i++) code.places[i].count = 0;
   memset(data.places, 0, (data.mask + 1) * sizeof(Place));
   data.used = 0;
}

static void refers_from_user(unsigned vcpu, uint32_t info, uint64_t address, void* nothing) {
   (void)vcpu;
   (void)nothing;
   if ((address & ~0xfffULL) != MARK || !qemu_plugin_mem_is_store(info)) return;
   if (period) write_period();
   forget();
   period = (address & 0xfff) / 8 % PERIODS;
}

/* -------------------------------------------------------------------------------------- blocks */

/* Whether it is one of ins, outs, movs, cmps, stos, lods, scas that repeats. */
static bool repeats(const Insn* insn) {
   const uint8_t* bytes = qemu_plugin_insn_data(insn);
   size_t size = qemu_plugin_insn_size(insn);
   if (size < 2 || (bytes[0] != 0xf3 && bytes[0] != 0xf2)) return false;
   uint8_t operation = bytes[1];
   if ((operation & 0xf0) == 0x40 && size > 2) operation = bytes[2]; /* after a REX prefix */
   return operation >= 0xa4 && operation <= 0xaf;
}

static void translated(PluginId id, Tb* tb) {
   (void)id;
   size_t count = qemu_plugin_tb_n_insns(tb);
   Block* block = calloc(1, sizeof *block + count * sizeof block->piece[0]);
   block->start = qemu_plugin_tb_vaddr(tb);
   block->instructions = count;
   block->is_kernel = is_kernel(block->start);
   block->repeats = repeats(qemu_plugin_tb_get_insn(tb, 0));
   for (size_t i = 0; i < count; i++) {
      Insn* insn = qemu_plugin_tb_get_insn(tb, i);
      uint64_t address = block->last = qemu_plugin_insn_vaddr(insn);
      block->end = address + qemu_plugin_insn_size(insn);
      if (!block->is_kernel) {
         qemu_plugin_register_vcpu_mem_cb(insn, refers_from_user, NO_REGISTERS, READS_AND_WRITES,
                                          NULL);
         continue;
      }
      qemu_plugin_register_vcpu_mem_cb(insn, refers, NO_REGISTERS, READS_AND_WRITES, block);
      Place* it = place(&code, address / CODE_BYTES);
      if (!block->pieces || block->piece[block->pieces - 1].place != it)
         block->piece[block->pieces++].place = it;
      block->piece[block->pieces - 1].instructions++;
   }
   qemu_plugin_register_vcpu_tb_exec_cb(tb, runs_block, NO_REGISTERS, block);
}

EXPORT int qemu_plugin_install(PluginId id, const void* info, int argc, char** argv) {
   (void)info;
   for (int i = 0; i < argc; i++)
      if (!strncmp(argv[i], "directory=", 10)) directory = strdup(argv[i] + 10);
   code.places = calloc(code.mask + 1, sizeof(Place));
   data.places = calloc(data.mask + 1, sizeof(Place));
   if (!code.places || !data.places) return 1;
   qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
   return 0;
}
