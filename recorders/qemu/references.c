/* A plugin for QEMU's user mode that records every memory reference of every process of a command.

   Copyright (C) 2026 the Ropewalk developers. This program is free software: you can redistribute
   it and/or modify it under the terms of the GNU General Public License as published by the Free
   Software Foundation, either version 2 of the License, or (at your option) any later version.

   What it is: a record for each block of instructions that runs and for each load and store, for
   system calls, atomic operations and futexes, in the order in which each thread does them, and
   where memory is mapped from. What it is not: a simulator, a filter or a compressor. Threads run
   at the same time, so each writes into a slice of its own of a file that is mapped into memory:
   nothing is lost whichever way a process ends. QEMU would run what a process executes without
   QEMU; this starts QEMU for it anew.

   For each process image (a fork and an exec both begin one) there are, in the folder given by
   --directory, `PID-N.log`, lines of text as the recorder for Valgrind writes them; `PID-N.0`,
   `PID-N.1`, ...: its records, where zeroes are the rest of a slice; and `PID-N.blocks`: the
   instructions of each block. The command line must be `qemu -plugin THIS,OPTIONS -0 NAME --
   PROGRAM ARGUMENTS`. */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugin.h"

EXPORT int qemu_plugin_version = 1;

/* ------------------------------------------------------------------------------------ records */

/* A record: the kind in 4 bits, 12 bits more, an address or a number in 48. The numbers are known
   to simulator/tracer, too: 5 to 7 and 14 to chunk.rs, the others to blocks.rs. Of the 12 bits of an access
   3 are the size, as a power of two, and 9 which instruction of its block it is of. */
enum {
   SystemCall = 5,
   Synchronise = 6,   /* a futex system call */
   Thread = 7,        /* all that follows is this thread's */
   BlockRuns = 9,     /* the value is a number of a block */
   LoadBy = 10,
   StoreBy = 11,
   AtomicLoadBy = 12,
   AtomicStoreBy = 13, /* and a load of the same bytes, if none went before */
   Moved = 14         /* so many bytes, by a system call; its number is in the 12 bits */
};
#define INSTRUCTIONS_MAX 512 /* QEMU's own limit of a block */

typedef struct {
   uint64_t record;
   uint64_t more; /* references that this record stands for, less one */
} Block;

#define FIRST_CHUNK_BYTES (1UL << 20)
#define CHUNK_BYTES (8UL << 20)
#define SLICE_BYTES 4096UL
#define SLICE_RECORDS (SLICE_BYTES / sizeof(uint64_t))
/* Where records go that are not kept. */
#define SCRAP_RECORDS 8192UL
/* More references than that cannot be in it. */
#define SCRAP_REFERENCES (SCRAP_RECORDS * INSTRUCTIONS_MAX)

typedef struct {
   uint64_t* start;
   size_t bytes;
   size_t slices_taken;
   size_t slices_open;
} Chunk;

typedef struct {
   uint64_t* cursor; /* the next record */
   uint64_t* limit;  /* from here on there is no room */
   uint64_t* start;
   int64_t more;     /* references in the slice, less the records in it */
   Chunk* chunk;     /* none when what is written is not kept */
   uint64_t* scrap;
   uint64_t taken;   /* what slices_taken was when the slice was */
   bool skipping;
   unsigned number;
   uint64_t arguments[6]; /* of the system call that runs */
} Recorder;

/* Of a thread that has not run yet. It has no room, so that the thread asks for some. */
static Recorder no_recorder;
static __thread Recorder* mine __attribute__((tls_model("initial-exec"))) = &no_recorder;

/* ---------------------------------------------------------------------------------- all threads */

/* Held for all below, and while a process forks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
   int fd;
   dev_t device;
   ino_t inode;
   char path[4096];
} File;

static char directory[2048];
static uint64_t references_max; /* 0: no limit */
static uint64_t references_to_skip;

static char stem[3072]; /* directory/PID-N */
static File log_file, blocks_file;
static unsigned chunks; /* how many this process image has begun */
static Chunk* chunk;    /* none when not recording */
static uint64_t slices_taken;
static uint64_t references; /* of slices that are full, skipped ones included */
static enum { Skipping, Recording, Over } state;
static unsigned threads;
static uint64_t blocks; /* how many have been translated, by the parents, too */

static bool begun;          /* whether the program has been loaded */
static uint64_t guest_base; /* what is at this address is at 0 for the program */
static uint64_t heap_start, heap_end, stack_start, stack_end;

static char qemu[4096];
static char *words, *words_end;  /* the command line */
static char* plugin_option;      /* what follows -plugin there */
static const char* name;         /* what follows -0 there */
static const char* program_path; /* what follows -- there */

/* ------------------------------------------------------------------------------------- files */

/* The program may close all files that it does not know. Far from its own they stay longest. */
static bool hold(File* file, int fd)
{
   struct stat is;
   struct rlimit files;
   if (fd < 0) return false;
   int from = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 64 && files.rlim_cur < 65536
                 ? (int)files.rlim_cur - 32 : 1000;
   file->fd = fcntl(fd, F_DUPFD_CLOEXEC, from);
   if (file->fd < 0) file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
   close(fd);
   if (file->fd < 0 || fstat(file->fd, &is) != 0) return false;
   file->device = is.st_dev;
   file->inode = is.st_ino;
   return true;
}

/* What the program has closed is opened again; its own file of the same number is left alone. */
static void write_file(File* file, const void* bytes, size_t count)
{
   struct stat is;
   bool same = fstat(file->fd, &is) == 0 && is.st_dev == file->device && is.st_ino == file->inode;
   if (!same && !hold(file, open(file->path, O_WRONLY | O_APPEND | O_CLOEXEC))) return;
   while (write(file->fd, bytes, count) < 0 && errno == EINTR) {}
}

static bool create(File* file, const char* suffix)
{
   snprintf(file->path, sizeof file->path, "%s.%s", stem, suffix);
   return hold(file, open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

/* Appends a line to the log. */
static void say(const char* format, ...)
{
   static char line[8192];
   va_list arguments;
   va_start(arguments, format);
   int length = vsnprintf(line, sizeof line - 1, format, arguments);
   va_end(arguments);
   if (length < 0) return;
   if (length > (int)sizeof line - 2) length = sizeof line - 2;
   line[length] = '\n';
   write_file(&log_file, line, length + 1);
}

/* -------------------------------------------------------------------------------------- chunks */

/* Maps a new file. Its blocks are allocated first: a full disk must be an error here and not a
   bus error at some store. */
static void* map_new_file(const char* path, size_t bytes)
{
   int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
   if (file < 0) return MAP_FAILED;
   void* mapped = MAP_FAILED;
   if (fallocate(file, 0, 0, bytes) == 0)
      mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
   int error = errno;
   close(file);
   errno = error;
   return mapped;
}

static void begin_chunk(void)
{
   char path[sizeof stem + 16];
   snprintf(path, sizeof path, "%s.%u", stem, chunks);
   size_t bytes = chunks == 0 ? FIRST_CHUNK_BYTES : CHUNK_BYTES;
   chunk = calloc(1, sizeof *chunk);
   void* mapped = chunk == NULL ? MAP_FAILED : map_new_file(path, bytes);
   if (mapped == MAP_FAILED) {
      say("stopped error %d", errno);
      free(chunk);
      chunk = NULL;
      state = Over;
      return;
   }
   *chunk = (Chunk) { .start = mapped, .bytes = bytes };
   chunks++;
   /* Populating all pages at once (MADV_POPULATE_WRITE) costs less than faults; old kernels
      refuse it, which does no harm. */
   madvise(mapped, bytes, 23);
}

/* Unmaps a file that no thread writes to any more, nor will. The file stays. */
static void let_go(Chunk* of)
{
   if (of->slices_open > 0 || of == chunk) return;
   munmap(of->start, of->bytes);
   free(of);
}

static void give_back_slice(Recorder* recorder)
{
   Chunk* of = recorder->chunk;
   recorder->chunk = NULL;
   if (of == NULL) return;
   of->slices_open--;
   let_go(of);
}

static void take_slice(Recorder* recorder)
{
   if (chunk != NULL && (chunk->slices_taken + 1) * SLICE_BYTES > chunk->bytes) {
      Chunk* full = chunk;
      chunk = NULL;
      let_go(full);
   }
   if (chunk == NULL) begin_chunk();
   if (chunk == NULL) return;
   recorder->start = recorder->cursor = chunk->start + SLICE_RECORDS * chunk->slices_taken++;
   recorder->limit = recorder->start + SLICE_RECORDS;
   recorder->chunk = chunk;
   chunk->slices_open++;
   recorder->taken = ++slices_taken;
   recorder->skipping = false;
   *recorder->cursor++ = (uint64_t)recorder->number << 16 | Thread;
   recorder->more = -1;
}

static void take_scrap(Recorder* recorder)
{
   if (recorder->scrap == NULL) recorder->scrap = malloc(SCRAP_RECORDS * sizeof(uint64_t));
   if (recorder->scrap == NULL) abort();
   recorder->start = recorder->cursor = recorder->scrap;
   recorder->limit = recorder->scrap + SCRAP_RECORDS / 2;
   recorder->more = 0;
   recorder->skipping = state == Skipping;
}

/* What is not kept is thrown away between two blocks only, so that what is kept begins with one. */
static bool goes_on_in_scrap(Recorder* recorder, bool between_blocks)
{
   uint64_t* end = recorder->scrap + SCRAP_RECORDS;
   if (!recorder->skipping || between_blocks) return false;
   if (recorder->limit == end) {
      recorder->cursor -= SCRAP_RECORDS / 4;
      recorder->more += SCRAP_RECORDS / 4;
   }
   recorder->limit = end;
   return true;
}

static Recorder* new_recorder(void)
{
   Recorder* recorder = calloc(1, sizeof *recorder);
   if (recorder == NULL) abort();
   recorder->number = ++threads;
   return recorder;
}

/* Counts what has been written, and decides where the thread goes on. */
static void change_slice(bool between_blocks)
{
   Recorder* recorder = mine;
   if (recorder == &no_recorder) recorder = mine = new_recorder();
   if (recorder->start == recorder->scrap && recorder->scrap != NULL
       && goes_on_in_scrap(recorder, between_blocks))
      return;
   bool was_skipping = recorder->skipping;
   if (state != Over) references += recorder->cursor - recorder->start + recorder->more;
   give_back_slice(recorder);
   if (state == Skipping && references + SCRAP_REFERENCES > references_to_skip) state = Recording;
   if (was_skipping && state == Recording) say("skipped %llu", (unsigned long long)references);
   if (state == Recording && references_max > 0
       && references >= references_max + references_to_skip) {
      say("stopped limit %llu", (unsigned long long)references);
      state = Over;
   }
   if (state == Recording) take_slice(recorder);
   if (state != Recording) take_scrap(recorder);
}

static __attribute__((noinline)) void make_room(bool between_blocks)
{
   pthread_mutex_lock(&lock);
   change_slice(between_blocks);
   pthread_mutex_unlock(&lock);
}

static inline void append(uint64_t record)
{
   if (__builtin_expect(mine->cursor >= mine->limit, 0)) make_room(false);
   *mine->cursor++ = record;
}

/* For a record that is no reference. */
static void mark(uint64_t record)
{
   append(record);
   mine->more--;
}

/* ----------------------------------------------------------------------------- memory's regions */

/* Mappings of QEMU's own, which were there before the program was loaded. */
static uint64_t own[1024];
static size_t owns;

typedef struct {
   uint64_t start, end, offset, inode;
   unsigned major, minor;
   char flags[8];
   const char* rest; /* from the flags on */
   const char* name;
} Mapping;

static bool is_own(uint64_t start)
{
   for (size_t i = 0; i < owns; i++)
      if (own[i] == start) return true;
   return false;
}

/* Calls `each` for all lines of /proc/self/maps. */
static void each_mapping(void (*each)(const Mapping*, void*), void* data)
{
   static char line[4096 + 256];
   FILE* maps = fopen("/proc/self/maps", "re");
   if (maps == NULL) {
      say("lost maps %d", errno);
      return;
   }
   while (fgets(line, sizeof line, maps) != NULL) {
      Mapping mapping;
      int flags = 0, name_at = 0;
      line[strcspn(line, "\n")] = 0;
      int fields = sscanf(line, "%lx-%lx %n%7s %lx %x:%x %lu %n", &mapping.start, &mapping.end,
                          &flags, mapping.flags, &mapping.offset, &mapping.major, &mapping.minor,
                          &mapping.inode, &name_at);
      if (fields != 7) continue;
      mapping.rest = line + flags;
      mapping.name = line + name_at;
      each(&mapping, data);
   }
   fclose(maps);
}

static void remember_own(const Mapping* mapping, void* unused)
{
   if (owns < sizeof own / sizeof *own) own[owns++] = mapping->start;
}

/* A mapping as far as it is in a range of the program's addresses. */
static void say_mapping(const Mapping* mapping, void* range)
{
   uint64_t from = ((uint64_t*)range)[0], to = ((uint64_t*)range)[1];
   if (is_own(mapping->start) || mapping->start < guest_base) return;
   uint64_t start = mapping->start - guest_base, end = mapping->end - guest_base;
   if (end <= from || start >= to || mapping->name[0] == '[') return;
   if (mapping->flags[3] == 's') {
      if (strstr(mapping->name, directory) == NULL)
         say("shared %lx %lx %s", start, end, mapping->rest);
      return;
   }
   uint64_t device = (mapping->minor & 0xff) | (uint64_t)mapping->major << 8
                     | (uint64_t)(mapping->minor & ~0xffU) << 12;
   say("map %lx %lx %c%c %lx %lu %lu %s", start, end, mapping->flags[1] == 'w' ? 'w' : '-', 'p',
       device, mapping->inode, mapping->offset, mapping->name);
}

static void say_regions(uint64_t from, uint64_t to)
{
   uint64_t range[] = { from, to };
   each_mapping(say_mapping, range);
}

static void say_named(uint64_t start, uint64_t end, const char* what)
{
   if (end > start) say("anonymous %lx %lx %s", start, end, what);
}

static void say_all_regions(void)
{
   say_regions(0, ~0UL);
   say_named(heap_start, heap_end, "[heap]");
   say_named(stack_start, stack_end, "[stack]");
}

static void memory_was_mapped(int64_t number, const uint64_t* arguments, uint64_t start)
{
   uint64_t bytes = (arguments[1] + 4095) & ~4095UL;
   if (number != SYS_mmap)
      say_all_regions(); /* mremap and shmat are rare */
   else if ((arguments[3] & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS))
      say_named(start, start + bytes, "");
   else
      say_regions(start, start + bytes);
}

static void heap_ends(uint64_t at)
{
   if (heap_start == 0) heap_start = heap_end = at;
   if (at > heap_end) {
      heap_end = at;
      say_named(heap_start, heap_end, "[heap]");
   }
}

static void find_stack(const Mapping* mapping, void* data)
{
   uint64_t address = *(uint64_t*)data + guest_base;
   if (mapping->start > address || mapping->end <= address) return;
   stack_start = mapping->start - guest_base;
   stack_end = mapping->end - guest_base;
}

/* Whatever starts a program, it refers to the stack before all else. */
static __attribute__((noinline)) void first_access(uint64_t address)
{
   pthread_mutex_lock(&lock);
   stack_end = address; /* in case of doubt there is none, and it is not looked for again */
   each_mapping(find_stack, &address);
   if (stack_end > address) say_named(stack_start, stack_end, "[stack]");
   pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------ processes and threads */

static void say_command(void)
{
   static char command[4096];
   size_t length = snprintf(command, sizeof command, "%s", name);
   const char* word = program_path + strlen(program_path) + 1;
   for (; word < words_end && length < sizeof command; word += strlen(word) + 1)
      length += snprintf(command + length, sizeof command - length, " %s", word);
   for (char* c = command; *c; c++)
      if (*c == '\n') *c = ' ';
   say("command %s", command);
}

/* The table of blocks: the number of its first, where those before are, then for each block
   address and count of its instructions in 8 bytes, and the length of each in one. */
static void begin_blocks(const char* parent)
{
   uint64_t head[] = { blocks, strlen(parent) };
   if (!create(&blocks_file, "blocks")) {
      say("stopped error %d", errno);
      state = Over;
      return;
   }
   write_file(&blocks_file, head, sizeof head);
   write_file(&blocks_file, parent, strlen(parent));
}

/* Opens the first log whose name is free: a process that executes another program keeps its PID. */
static void begin_process(const char* parent)
{
   struct timeval now;
   int n = 0;
   do
      snprintf(stem, sizeof stem, "%s/%d-%d", directory, getpid(), n++);
   while (!create(&log_file, "log") && errno == EEXIST);
   if (log_file.fd < 0) {
      fprintf(stderr, "references: cannot write %s: %s\n", log_file.path, strerror(errno));
      _exit(1);
   }
   chunk = NULL;
   chunks = 0;
   references = 0;
   state = references_to_skip > SCRAP_REFERENCES ? Skipping : Recording;
   gettimeofday(&now, NULL);
   say("process %d %d %s %llu", getpid(), getppid(), parent,
       now.tv_sec * 1000000ULL + now.tv_usec);
   say_command();
   begin_blocks(parent);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* The child has its parent's chunks mapped, which it must not write to; those of other threads
   stay mapped and belong to none. */
static void after_fork_in_child(void)
{
   char parent[64];
   snprintf(parent, sizeof parent, "%s", strrchr(stem, '/') + 1);
   chunk = NULL;
   give_back_slice(mine);
   close(log_file.fd);
   close(blocks_file.fd);
   begin_process(parent);
   mine->start = mine->cursor = mine->limit = mine->scrap;
   mine->more = 0;
   mine->skipping = false;
   change_slice(true);
   say_all_regions();
   say("inherited");
   pthread_mutex_unlock(&lock);
}

/* What was mapped and not used is given back. Another thread may still run and write there, so
   that the file may not be made shorter. */
static void process_ends(PluginId id, void* unused)
{
   pthread_mutex_lock(&lock);
   if (chunk != NULL) {
      size_t used = chunk->slices_taken * SLICE_BYTES;
      madvise((char*)chunk->start + used, chunk->bytes - used, MADV_REMOVE);
   }
   say("end 0");
   pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------------ executing */

/* The program's list of pointers, as our own, behind some room. None if it cannot be read. */
static char** copied(uint64_t list, size_t room, size_t* count)
{
   char** all = NULL;
   uint64_t one = 1;
   for (*count = 0; one != 0; (*count)++) {
      struct iovec to = { &one, sizeof one };
      struct iovec from = { (void*)(list + guest_base + *count * sizeof one), sizeof one };
      if (list == 0) one = 0;
      else if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof one) goto failed;
      char** grown = realloc(all, (room + *count + 1) * sizeof *all);
      if (grown == NULL) goto failed;
      all = grown;
      all[room + *count] = one == 0 ? NULL : (char*)(one + guest_base);
   }
   return all;
failed:
   free(all);
   return NULL;
}

/* Why a program cannot be run by QEMU; none if it can. A script's first line is in `head`. */
static const char* obstacle(const char* program, char* head, size_t bytes, bool* is_script)
{
   struct stat is;
   const Elf64_Ehdr* elf = (const void*)head;
   *is_script = false;
   int file = open(program, O_RDONLY | O_CLOEXEC);
   if (file < 0) return "it cannot be read";
   memset(head, 0, bytes);
   ssize_t length = read(file, head, bytes - 1);
   int failed = fstat(file, &is);
   close(file);
   if (failed || length < 3) return "it is no program";
   if (head[0] == '#' && head[1] == '!') {
      *is_script = true;
      return NULL;
   }
   if (memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64
       || elf->e_machine != EM_X86_64)
      return "it is no program for x86-64";
   bool other_user = (is.st_mode & S_ISUID) && is.st_uid != geteuid();
   bool other_group = (is.st_mode & S_ISGID) && is.st_gid != getegid();
   return other_user || other_group ? "it runs as another user" : NULL;
}

/* The interpreter in a script's first line, and its argument, empty if there is none. */
static const char* interpreter(char* head, char** argument)
{
   char* word = head + 2 + strspn(head + 2, " \t");
   word[strcspn(word, "\n")] = 0;
   for (size_t end = strlen(word); end > 0 && strchr(" \t", word[end - 1]); end--)
      word[end - 1] = 0;
   size_t length = strcspn(word, " \t");
   *argument = word + length + strspn(word + length, " \t");
   word[length] = 0;
   return word;
}

/* Starts QEMU for a program; says why not if it returns. */
static const char* start(const char* program, char** all, size_t room, size_t count,
                         char** variables)
{
   char head[3][512];
   bool is_script = true;
   char* called = count > 1 ? all[room] : (char*)program;
   char** arguments = all + room + (count > 1 ? 1 : 0);
   for (int depth = 0; is_script; depth++) {
      if (depth == 3) return "it is a script of a script of a script";
      const char* why = obstacle(program, head[depth], sizeof head[0], &is_script);
      if (why != NULL) return why;
      if (is_script) {
         char* argument;
         *--arguments = (char*)program;
         program = called = (char*)interpreter(head[depth], &argument);
         if (*argument) *--arguments = argument;
      }
   }
   char* first[] = { qemu, "-plugin", plugin_option, "-0", called, "--", (char*)program };
   arguments -= sizeof first / sizeof *first;
   memcpy(arguments, first, sizeof first);
   execve(qemu, arguments, variables);
   return strerror(errno);
}

/* QEMU starts what is executed without QEMU. Here it is started with it, if that is possible: this
   does not return then. What cannot be executed is left to QEMU, which knows the error. */
static void execute(uint64_t path, uint64_t arguments, uint64_t environment)
{
   enum { ROOM = 16 };
   size_t count, unused;
   const char* program = (const char*)(path + guest_base);
   if (path == 0 || faccessat(AT_FDCWD, program, X_OK, AT_EACCESS) != 0) return;
   if (strcmp(program, "/proc/self/exe") == 0) program = program_path;
   char** all = copied(arguments, ROOM, &count);
   char** variables = copied(environment, 0, &unused);
   const char* why = all == NULL || variables == NULL
                        ? "its arguments cannot be read"
                        : start(program, all, ROOM, count, variables);
   pthread_mutex_lock(&lock);
   say("unrecorded %s: %s", program, why);
   pthread_mutex_unlock(&lock);
   free(all);
   free(variables);
}

/* -------------------------------------------------------------------------------- system calls */

static void call_begins(PluginId id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                        uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                        uint64_t a8)
{
   mark((uint64_t)number << 16 | SystemCall);
   if (number == SYS_futex) mark(a1 << 16 | 4 << 4 | Synchronise);
   memcpy(mine->arguments, (uint64_t[]) { a1, a2, a3, a4, a5, a6 }, sizeof mine->arguments);
   if (number == SYS_execve) execute(a1, a2, a3);
   if (number == SYS_execveat) {
      pthread_mutex_lock(&lock);
      say("unrecorded a file without a name: execveat is not followed");
      pthread_mutex_unlock(&lock);
   }
}

/* Whether the result of a system call is how many bytes it has moved. */
static bool moves_bytes(int64_t number)
{
   switch (number) {
      case SYS_read: case SYS_write: case SYS_readv: case SYS_writev:
      case SYS_pread64: case SYS_pwrite64: case SYS_preadv: case SYS_pwritev:
      case SYS_preadv2: case SYS_pwritev2: case SYS_sendfile: case SYS_splice:
      case SYS_tee: case SYS_vmsplice: case SYS_copy_file_range: case SYS_sendto:
      case SYS_recvfrom: case SYS_sendmsg: case SYS_recvmsg: case SYS_getrandom:
      case SYS_getdents: case SYS_getdents64:
         return true;
      default:
         return false;
   }
}

static void call_ends(PluginId id, unsigned vcpu, int64_t number, int64_t result)
{
   bool failed = result < 0 && result >= -4095;
   /* Others may have gone on for long, which is not to come after what follows. */
   if (mine->chunk != NULL && mine->taken != __atomic_load_n(&slices_taken, __ATOMIC_RELAXED))
      make_room(false);
   if (!failed && moves_bytes(number))
      mark((uint64_t)result << 16 | (uint64_t)number << 4 | Moved);
   pthread_mutex_lock(&lock);
   if (failed && (number == SYS_execve || number == SYS_execveat)) say("resumed");
   if (!failed && number == SYS_brk) heap_ends(result);
   if (!failed && (number == SYS_mmap || number == SYS_mremap || number == SYS_shmat))
      memory_was_mapped(number, mine->arguments, result);
   pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------ instrumentation */

/* The bits of a record by what QEMU tells of an access: asking it takes longer. 0: unknown yet. */
#define KNOWN 128
static uint8_t bits_of[1 << 18];

static uint64_t asked(uint32_t info)
{
   return qemu_plugin_mem_size_shift(info) << 4 | (qemu_plugin_mem_is_store(info) ? 1 : 0);
}

static inline uint64_t bits(uint32_t info)
{
   if (info >= sizeof bits_of) return asked(info);
   if (__builtin_expect(bits_of[info] == 0, 0)) bits_of[info] = KNOWN | asked(info);
   return bits_of[info] & ~KNOWN;
}

static void block_runs(unsigned vcpu, void* data)
{
   const Block* block = data;
   if (__builtin_expect(mine->cursor >= mine->limit, 0)) make_room(true);
   *mine->cursor++ = block->record;
   mine->more += block->more;
}

static void accesses(unsigned vcpu, uint32_t info, uint64_t address, void* tag)
{
   if (__builtin_expect(stack_end == 0, 0)) first_access(address);
   append(address << 16 | bits(info) | (uint64_t)tag);
}

/* Whether an instruction refers to memory atomically, if it does: it is locked, or is xchg. */
static bool is_atomic(const Insn* insn)
{
   const uint8_t* byte = qemu_plugin_insn_data(insn);
   const uint8_t* end = byte + qemu_plugin_insn_size(insn);
   for (; byte < end; byte++) {
      bool is_rex = (*byte & 0xf0) == 0x40;
      bool is_prefix = is_rex || *byte == 0x66 || *byte == 0x67 || *byte == 0xf2 || *byte == 0xf3
                       || *byte == 0x64 || *byte == 0x65 || *byte == 0x2e || *byte == 0x36
                       || *byte == 0x3e || *byte == 0x26;
      if (*byte == 0xf0) return true;
      if (!is_prefix) return *byte == 0x86 || *byte == 0x87;
   }
   return false;
}

static void watch(Insn* insn, size_t index)
{
   uint64_t tag = index << 7 | (is_atomic(insn) ? AtomicLoadBy : LoadBy);
   qemu_plugin_register_vcpu_mem_cb(insn, accesses, NO_REGISTERS, READS_AND_WRITES, (void*)tag);
}

static void begin(const Tb* tb)
{
   begun = true;
   guest_base = (uint64_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0))
                - qemu_plugin_tb_vaddr(tb);
   say_all_regions();
}

static void block_is_translated(PluginId id, Tb* tb)
{
   struct {
      uint64_t head;
      uint8_t lengths[INSTRUCTIONS_MAX];
   } told;
   size_t count = qemu_plugin_tb_n_insns(tb);
   Block* block = malloc(sizeof *block);
   if (block == NULL || count == 0 || count > INSTRUCTIONS_MAX) abort();
   for (size_t i = 0; i < count; i++) {
      Insn* insn = qemu_plugin_tb_get_insn(tb, i);
      told.lengths[i] = qemu_plugin_insn_size(insn);
      watch(insn, i);
   }
   told.head = qemu_plugin_tb_vaddr(tb) << 16 | count;
   pthread_mutex_lock(&lock);
   if (!begun) begin(tb);
   *block = (Block) { .record = blocks++ << 16 | BlockRuns, .more = count - 1 };
   write_file(&blocks_file, &told, sizeof told.head + count);
   pthread_mutex_unlock(&lock);
   qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs, NO_REGISTERS, block);
}

/* ----------------------------------------------------------------------------------- the plugin */

/* Finds in our own command line what those that are executed need again. */
static bool read_words(void)
{
   FILE* file = fopen("/proc/self/cmdline", "re");
   size_t length = 0, room = 0;
   if (file == NULL) return false;
   for (int c; (c = getc(file)) != EOF; words[length++] = c) {
      if (length + 2 >= room) words = realloc(words, room = 2 * room + 4096);
      if (words == NULL) return false;
   }
   fclose(file);
   if (length == 0) return false;
   words[length] = words[length + 1] = 0;
   words_end = words + length;
   char* word[6] = { words };
   for (int i = 1; i < 6; i++) {
      word[i] = word[i - 1] + strlen(word[i - 1]) + 1;
      if (word[i] >= words_end) return false;
   }
   plugin_option = word[2];
   name = word[4];
   program_path = word[5] + strlen(word[5]) + 1;
   return strcmp(word[1], "-plugin") == 0 && strcmp(word[3], "-0") == 0 && program_path < words_end;
}

static void read_option(const char* option)
{
   const char* value = strchr(option, '=');
   if (value++ == NULL) return;
   if (strncmp(option, "--directory=", 12) == 0)
      snprintf(directory, sizeof directory, "%s", value);
   if (strncmp(option, "--references-max=", 17) == 0) references_max = strtoull(value, NULL, 10);
   if (strncmp(option, "--skip=", 7) == 0) references_to_skip = strtoull(value, NULL, 10);
}

EXPORT int qemu_plugin_install(PluginId id, const void* info, int count, char** options)
{
   for (int i = 0; i < count; i++) read_option(options[i]);
   ssize_t length = readlink("/proc/self/exe", qemu, sizeof qemu - 1);
   if (directory[0] == 0 || length <= 0 || !read_words()) {
      fprintf(stderr, "references: --directory=DIR is needed, and the words -plugin, -0 and --\n");
      return 1;
   }
   each_mapping(remember_own, NULL);
   begin_process("-");
   pthread_atfork(before_fork, after_fork, after_fork_in_child);
   qemu_plugin_register_vcpu_tb_trans_cb(id, block_is_translated);
   qemu_plugin_register_vcpu_syscall_cb(id, call_begins);
   qemu_plugin_register_vcpu_syscall_ret_cb(id, call_ends);
   qemu_plugin_register_atexit_cb(id, process_ends, NULL);
   return 0;
}
