/* A Valgrind tool that records every memory reference of every process of a command.

   Copyright (C) 2026 the Ropewalk developers. This program is free software: you can redistribute
   it and/or modify it under the terms of the GNU General Public License as published by the Free
   Software Foundation, either version 2 of the License, or (at your option) any later version.

   It records instruction fetches, loads and stores as Cachegrind counts them, system calls,
   atomic operations and futexes, changes of thread, where memory is mapped from, and what allocates
   it. It does not simulate, filter or compress. It appends eight bytes for each event to a file that
   is mapped into memory, so that nothing is lost whichever way a process ends, and leaves all else
   to the program that started it.

   For each process image (a fork and an exec both begin one) there are, in the folder given by
   --directory, `PID-N.log`, lines of text that say what it is, what was mapped, and how many
   references are in each file of records; `PID-N.0`, `PID-N.1`, ...: its records in order, where
   a record of all zeroes ends a file; and `PID-N.messages`: what Valgrind has to say. */

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums_asm.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_execontext.h"
#include "pub_tool_guest.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

/* Parts of Valgrind's core that its tools may link but that its headers for tools omit. */
extern Addr VG_(brk_base), VG_(brk_limit);
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern Int VG_(safe_fd)(Int oldfd);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord,
                              RegWord, RegWord);
extern struct { Int fd; Bool is_socket; } VG_(log_output_sink);
#define SYSCALL(number, a, b, c, d) VG_(do_syscall)(number, a, b, c, d, 0, 0, 0, 0)

/* ------------------------------------------------------------------------------------ records */

/* A record: the kind in 4 bits, a length in bytes in 12, an address or a number in 48. The
   numbers are known to simulator/tracer/src/chunk.rs, too. */
typedef enum {
   Fetch = 1,
   Load = 2,
   Store = 3,
   Modify = 4,      /* a load and a store of the same bytes by one instruction */
   SystemCall = 5,
   Synchronise = 6, /* an atomic operation, or a futex system call */
   Thread = 7,      /* all that follows is this thread's */
   Nothing = 8,     /* a conditional access that did not happen */
   Allocated = 9,   /* memory from this address on; `Bytes` and `Site` follow */
   Bytes = 10,      /* so many */
   Site = 11,       /* by whom: a number that the log explains */
   Freed = 12,      /* what was allocated at this address */
   Moved = 14       /* so many bytes, by a system call; the length is its number */
} Kind;

static ULong tag(Kind kind, Int bytes)
{
   return (bytes > 4095 ? 4095 : (ULong)bytes) << 4 | kind;
}

static ULong record_of(Kind kind, Int bytes, ULong value)
{
   return value << 16 | tag(kind, bytes);
}

#define CHUNK_BYTES (8UL << 20)
/* Translated code looks for room once for so many records at most. */
#define ROOM_RECORDS 2048

/* Where recording goes once it is over; never read. */
static ULong scrap[2 * ROOM_RECORDS];

static ULong* cursor = scrap; /* the next record, known to translated code */
static ULong* limit = scrap;  /* from here on there is not enough room */
static ULong* chunk = NULL;   /* the mapped file, none when not recording */

/* ------------------------------------------------------------------- options, and what is told */

static const HChar* directory = NULL;
static ULong references_max = 0; /* 0: no limit */
static ULong references_to_skip = 0;

static HChar stem[4096]; /* directory/PID-N */
static Int chunks = 0;   /* how many this process image has begun */
static Int log_fd = -1;
static ULong references = 0; /* in chunks that are full, skipped ones included */
static ThreadId current_thread = VG_INVALID_THREADID;

/* Valgrind gives the number of a thread that has ended to another; a trace does not. */
#define THREADS_MAX 4096
static UInt thread_numbers[THREADS_MAX];
static UInt threads_begun = 0;
static Bool begun = False; /* whether the client has run */

static HChar said[16384];
static Int said_length = 0;

static void write_log(void)
{
   if (log_fd >= 0 && said_length > 0) VG_(write)(log_fd, said, said_length);
   said_length = 0;
}

/* Appends a line to the log; write_log must follow. */
static void say(const HChar* format, ...)
{
   va_list arguments;
   if (said_length > sizeof said / 2) write_log();
   va_start(arguments, format);
   SizeT room = sizeof said - said_length - 1;
   UInt length = VG_(vsnprintf)(said + said_length, room, format, arguments);
   va_end(arguments);
   said_length += length < room ? length : room - 1;
   said[said_length++] = '\n';
}

static ULong thread_record(void)
{
   ThreadId thread = current_thread;
   UInt number = thread < THREADS_MAX ? thread_numbers[thread] : THREADS_MAX + thread;
   return record_of(Thread, 0, number);
}

static void stop_recording(const HChar* why, ULong number)
{
   say("stopped %s %llu", why, number);
   write_log();
   chunk = NULL;
   cursor = scrap;
   limit = scrap + ROOM_RECORDS;
}

/* -------------------------------------------------------------------------------------- chunks */

/* Maps a new file. Its blocks are allocated first: a full disk must be an error here and not a
   bus error at some store. */
static SysRes map_new_file(const HChar* path)
{
   SysRes file = VG_(open)(path, VKI_O_RDWR | VKI_O_CREAT | VKI_O_EXCL, 0600);
   if (sr_isError(file)) return file;
   SysRes result = SYSCALL(__NR_fallocate, sr_Res(file), 0, 0, CHUNK_BYTES);
   if (!sr_isError(result))
      result = VG_(am_shared_mmap_file_float_valgrind)(
         CHUNK_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, sr_Res(file), 0);
   VG_(close)(sr_Res(file));
   return result;
}

static void begin_chunk(void)
{
   HChar path[sizeof stem + 16];
   VG_(snprintf)(path, sizeof path, "%s.%d", stem, chunks);
   SysRes mapped = map_new_file(path);
   if (sr_isError(mapped)) {
      stop_recording("error", sr_Err(mapped));
      return;
   }
   chunks++;
   chunk = cursor = (ULong*)sr_Res(mapped);
   limit = chunk + CHUNK_BYTES / sizeof(ULong) - ROOM_RECORDS;
   /* Populating all pages at once (MADV_POPULATE_WRITE) costs less than faults; old kernels
      refuse it, which does no harm. */
   SYSCALL(__NR_madvise, (RegWord)chunk, CHUNK_BYTES, 23, 0);
}

/* The mapping only: the file stays, and the kernel keeps what was written to it. */
static void end_chunk(void)
{
   if (chunk != NULL) VG_(am_munmap_valgrind)((Addr)chunk, CHUNK_BYTES);
   chunk = NULL;
}

static ULong references_in_chunk(void)
{
   ULong count = 0;
   for (const ULong* record = chunk; record < cursor; record++) {
      Kind kind = *record & 15;
      count += (kind >= Fetch && kind <= Modify) + (kind == Modify);
   }
   return count;
}

/* Once a chunk gets no more records: readers of the log need not count them. */
static void say_count(ULong count)
{
   say("chunk %d %llu", chunks - 1, count);
   write_log();
}

/* Goes on in the same chunk if all of it is to be skipped, or else in a new one. */
static void chunk_is_full(void)
{
   if (chunk == NULL) {
      cursor = scrap;
      return;
   }
   ULong count = references_in_chunk();
   references += count;
   if (references <= references_to_skip) {
      say("skipped %llu", references);
      write_log();
      VG_(memset)(chunk, 0, CHUNK_BYTES);
      cursor = chunk;
      *cursor++ = thread_record();
   } else {
      say_count(count);
      end_chunk();
      if (references_max > 0 && references - references_to_skip >= references_max)
         stop_recording("limit", references);
      else
         begin_chunk();
   }
}

/* For records that are not written by translated code. */
static void append(ULong record)
{
   if (cursor >= limit) chunk_is_full();
   *cursor++ = record;
}

/* ----------------------------------------------------------------------------- memory's regions */

/* Says of each mapping of the client between two addresses where it comes from. */
static void say_segments(Addr from, Addr to)
{
   static Addr starts[4096];
   Int count = VG_(am_get_segment_starts)(SkFileC | SkAnonC | SkShmC, starts, 4096);
   if (count < 0) say("lost regions %d", -count);
   for (Int i = 0; i < count; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      if (segment->end < from || segment->start >= to) continue;
      const HChar* name = segment->kind == SkFileC ? VG_(am_get_filename)(segment) : NULL;
      say("map %lx %lx %c%c %llx %llu %lld %s", segment->start, segment->end + 1,
          segment->hasW ? 'w' : '-', segment->kind == SkShmC ? 's' : 'p', segment->dev,
          segment->ino, (Long)segment->offset, name == NULL ? "" : name);
   }
}

/* One line of /proc/self/maps; Valgrind does not remember which mappings are shared. */
static void say_if_shared(HChar* line)
{
   HChar* rest;
   Addr start = VG_(strtoull16)(line, &rest);
   if (*rest != '-') return;
   Addr end = VG_(strtoull16)(rest + 1, &rest);
   const NSegment* segment = VG_(am_find_nsegment)(start);
   Bool of_client = segment != NULL && (segment->kind & (SkFileC | SkAnonC | SkShmC));
   if (of_client && VG_(strlen)(rest) > 5 && rest[4] == 's') say("shared %lx %lx%s", start, end, rest);
}

static void say_shared(void)
{
   static HChar text[8192];
   SizeT held = 0;
   Int count;
   SysRes file = VG_(open)("/proc/self/maps", VKI_O_RDONLY, 0);
   if (sr_isError(file)) {
      say("lost maps %lu", sr_Err(file));
      return;
   }
   while ((count = VG_(read)(sr_Res(file), text + held, sizeof text - 1 - held)) > 0) {
      HChar* line = text;
      HChar* end;
      text[held + count] = 0;
      for (; (end = VG_(strchr)(line, '\n')) != NULL; line = end + 1) {
         *end = 0;
         say_if_shared(line);
      }
      held = VG_(strlen)(line);
      VG_(memmove)(text, line, held);
   }
   VG_(close)(sr_Res(file));
}

static void say_all_regions(void)
{
   SizeT stack_bytes = VG_(thread_get_stack_size)(1);
   Addr stack_end = VG_(thread_get_stack_max)(1) + 1;
   say_segments(0, ~0UL);
   say_shared();
   if (VG_(brk_limit) > VG_(brk_base))
      say("anonymous %lx %lx [heap]", VG_(brk_base), VG_(brk_limit));
   say("anonymous %lx %lx [stack]", stack_end - stack_bytes, stack_end);
   write_log();
}

static void heap_grew(Addr start, SizeT bytes, ThreadId thread)
{
   say("anonymous %lx %lx [heap]", start, start + bytes);
   write_log();
}

#define MAP_STACK 0x20000 /* the kernel's, which Valgrind's headers omit */

/* Libraries of threads say which mapping is a stack. Allocators reserve more than they need. */
static const HChar* what_for(UWord flags)
{
   if (flags & MAP_STACK) return " [stack]";
   return flags & VKI_MAP_NORESERVE ? " [heap]" : "";
}

static void memory_was_mapped(UInt number, const UWord* arguments, Addr start)
{
   const UWord private = VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS;
   SizeT bytes = number == __NR_mmap ? VG_PGROUNDUP(arguments[1]) : 0;
   if (bytes == 0 || !(arguments[3] & VKI_MAP_PRIVATE)) {
      say_all_regions(); /* mremap, shmat and shared mappings are rare */
      return;
   }
   if ((arguments[3] & private) == private)
      say("anonymous %lx %lx%s", start, start + bytes, what_for(arguments[3]));
   else
      say_segments(start, start + bytes);
   write_log();
}

/* ------------------------------------------------------------------------------------ the heap */

/* The client's own allocator is watched, not replaced: where it puts what is part of what is to be
   recorded. A call is seen where its function begins, its result where something of the same
   object returns with the stack pointer that the caller had. */
typedef enum { Malloc, Calloc, Realloc, Aligned, AlignedAt, Free, NoAllocator } Allocator;

static const struct {
   const HChar* name;
   Allocator allocator;
} allocators[] = {
   { "malloc", Malloc },           { "__libc_malloc", Malloc },
   { "calloc", Calloc },           { "__libc_calloc", Calloc },
   { "realloc", Realloc },         { "__libc_realloc", Realloc },
   { "memalign", Aligned },        { "__libc_memalign", Aligned },
   { "aligned_alloc", Aligned },   { "posix_memalign", AlignedAt },
   { "free", Free },               { "__libc_free", Free },
   { "cfree", Free },
};

/* A call of the allocator that has not returned. */
typedef struct {
   Addr stack; /* the stack pointer after its return; 0: there is none */
   SizeT bytes;
   Addr old;    /* what realloc was given */
   Addr result; /* where posix_memalign puts it; 0: it is returned */
   UInt site;
} Call;

static Call calls[THREADS_MAX];
static ULong calls_open = 0; /* known to translated code */

/* Sites that this process's log has explained; ECUs are multiples of four. */
#define SITES_MAX 65536
static UChar explained[SITES_MAX];
static HChar site_line[1024];
static Int site_length;

static void say_caller(UInt n, DiEpoch epoch, Addr address, void* unused)
{
   if (site_length < sizeof site_line - 24)
      site_length += VG_(sprintf)(site_line + site_length, " %lx", address);
}

/* A number for the chain of calls that leads here, 0 if there are too many. */
static UInt site_here(ThreadId thread)
{
   ExeContext* context = VG_(record_ExeContext)(thread, 0);
   UInt site = VG_(get_ECU_from_ExeContext)(context) / 4;
   if (site >= SITES_MAX) return 0;
   if (!explained[site]) {
      explained[site] = True;
      site_length = 0;
      VG_(apply_ExeContext)(say_caller, NULL, context);
      say("site %u%s", site, site_line);
      write_log();
   }
   return site;
}

static void allocator_begins(ULong allocator, ULong first, ULong second, ULong third, ULong stack)
{
   ThreadId thread = VG_(get_running_tid)();
   if (thread >= THREADS_MAX || chunk == NULL) return;
   Call* call = &calls[thread];
   /* What the allocator calls itself; a frame that was left by a jump lies below. */
   if (call->stack != 0 && stack < call->stack) return;
   if (call->stack == 0) calls_open += allocator != Free;
   call->old = call->result = 0;
   call->bytes = allocator == Malloc ? first : second;
   switch (allocator) {
   case Free:
      if (first != 0) append(record_of(Freed, 0, first));
      return;
   case Calloc: call->bytes = first * second; break;
   case Realloc: call->old = first; break;
   case AlignedAt: call->bytes = third; call->result = first; break;
   default: break;
   }
   call->site = site_here(thread);
   call->stack = stack + sizeof(Addr);
}

static void something_returns(ULong stack, ULong value)
{
   ThreadId thread = VG_(get_running_tid)();
   Call* call = thread < THREADS_MAX ? &calls[thread] : NULL;
   if (call == NULL || call->stack == 0 || stack < call->stack) return;
   Bool its_own = stack == call->stack;
   call->stack = 0;
   calls_open--;
   if (!its_own) return;
   if (call->result != 0) value = value == 0 ? *(Addr*)call->result : 0;
   if (value == 0) return;
   if (call->old != 0) append(record_of(Freed, 0, call->old));
   append(record_of(Allocated, 0, value));
   append(record_of(Bytes, 0, call->bytes));
   append(record_of(Site, 0, call->site));
}

/* ------------------------------------------------------------------------ processes and threads */

static void say_command(void)
{
   static HChar command[4096];
   VG_(client_cmd_and_args)(command, sizeof command);
   for (HChar* c = command; *c; c++)
      if (*c == '\n') *c = ' ';
   say("command %s", command);
}

/* Valgrind's own option would name a file by the process alone, and after an exec open it again:
   which loses what is in it, and fails where the process has become another user. */
static void begin_messages(void)
{
   static Int messages_fd = -1;
   HChar path[sizeof stem + 16];
   VG_(snprintf)(path, sizeof path, "%s.messages", stem);
   SysRes file = VG_(open)(path, VKI_O_WRONLY | VKI_O_APPEND | VKI_O_CREAT | VKI_O_EXCL, 0600);
   if (messages_fd >= 0) VG_(close)(messages_fd);
   messages_fd = sr_isError(file) ? -1 : VG_(safe_fd)(sr_Res(file));
   if (messages_fd >= 0)
      VG_(log_output_sink).fd = messages_fd;
   else
      say("lost messages of Valgrind, which go to its standard error output: error %lu", sr_Err(file));
}

/* Opens the first log whose name is free: a process that executes another program keeps its PID. */
static void begin_process(const HChar* parent)
{
   HChar path[sizeof stem + 16];
   struct vki_timeval now;
   SysRes file;
   Int n = 0;
   do {
      VG_(snprintf)(stem, sizeof stem, "%s/%d-%d", directory, VG_(getpid)(), n++);
      VG_(snprintf)(path, sizeof path, "%s.log", stem);
      file = VG_(open)(path, VKI_O_WRONLY | VKI_O_APPEND | VKI_O_CREAT | VKI_O_EXCL, 0600);
   } while (sr_isError(file) && sr_Err(file) == VKI_EEXIST);
   if (sr_isError(file)) {
      VG_(umsg)("references: cannot write %s: error %lu\n", path, sr_Err(file));
      VG_(exit)(1);
   }
   log_fd = VG_(safe_fd)(sr_Res(file));
   chunks = 0;
   references = 0;
   VG_(gettimeofday)(&now, NULL);
   say("process %d %d %s %llu", VG_(getpid)(), VG_(getppid)(), parent,
       now.tv_sec * 1000000ULL + now.tv_usec);
   say_command();
   begin_messages();
   write_log();
   begin_chunk();
}

/* The child has its parent's chunk mapped, which it must not write to. */
static void after_fork_in_child(ThreadId thread)
{
   HChar parent[64];
   VG_(strncpy)(parent, VG_(basename)(stem), sizeof parent - 1);
   parent[sizeof parent - 1] = 0;
   end_chunk();
   VG_(close)(log_fd);
   VG_(memset)(explained, 0, sizeof explained);
   begin_process(parent);
   current_thread = thread;
   append(thread_record());
   say_all_regions();
   say("inherited");
   write_log();
}

static void thread_begins(ThreadId parent, ThreadId thread)
{
   if (thread < THREADS_MAX) thread_numbers[thread] = ++threads_begun;
}

static void thread_runs(ThreadId thread, ULong blocks)
{
   if (!begun) {
      begun = True;
      say_all_regions();
   }
   if (thread == current_thread) return;
   current_thread = thread;
   append(thread_record());
}

static void before_system_call(ThreadId thread, UInt number, UWord* arguments, UInt count)
{
   append(record_of(SystemCall, 0, number));
   if (number == __NR_futex) append(record_of(Synchronise, 4, arguments[0]));
}

/* Whether the result of a system call is how many bytes it has moved. */
static Bool moves_bytes(UInt number)
{
   switch (number) {
      case __NR_read: case __NR_write: case __NR_readv: case __NR_writev:
      case __NR_pread64: case __NR_pwrite64: case __NR_preadv: case __NR_pwritev:
      case __NR_preadv2: case __NR_pwritev2: case __NR_sendfile: case __NR_splice:
      case __NR_tee: case __NR_vmsplice: case __NR_copy_file_range: case __NR_sendto:
      case __NR_recvfrom: case __NR_sendmsg: case __NR_recvmsg: case __NR_getrandom:
      case __NR_getdents: case __NR_getdents64:
         return True;
      default:
         return False;
   }
}

static void after_system_call(ThreadId thread, UInt number, UWord* arguments, UInt count,
                              SysRes result)
{
   if (moves_bytes(number) && !sr_isError(result)) {
      /* Others may have run while it waited. */
      thread_runs(thread, 0);
      append(record_of(Moved, number, sr_Res(result)));
   }
   Bool maps = number == __NR_mmap || number == __NR_mremap || number == __NR_shmat;
   if (maps && !sr_isError(result)) memory_was_mapped(number, arguments, sr_Res(result));
}

static void process_ends(Int status)
{
   Bool recording = chunk != NULL;
   if (recording) say_count(references_in_chunk());
   SizeT used = (HChar*)cursor - (HChar*)chunk;
   HChar path[sizeof stem + 16];
   end_chunk();
   if (recording) {
      VG_(snprintf)(path, sizeof path, "%s.%d", stem, chunks - 1);
      SYSCALL(__NR_truncate, (RegWord)path, used, 0, 0);
   }
   say("end %d", status);
   write_log();
}

/* ------------------------------------------------------------------------------ instrumentation */

/* The code that is being translated. */
typedef struct {
   IRSB* out;
   IRTemp cursor;   /* what `cursor` was when room was last looked for */
   Int pending;     /* how many records have been written from there on */
   IRExpr* loaded;  /* the tag of the last record if it is a load, or else none */
   IRExpr* address; /* from where, and how many bytes */
   Int bytes;
} Block;

static IRExpr* number(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

static IRExpr* computed(Block* block, IRType type, IRExpr* expression)
{
   IRTemp result = newIRTemp(block->out->tyenv, type);
   addStmtToIRSB(block->out, IRStmt_WrTmp(result, expression));
   return IRExpr_RdTmp(result);
}

static IRExpr* variable(Block* block, const void* address)
{
   return computed(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, number((HWord)address)));
}

static IRExpr* place_of_next(Block* block)
{
   IRExpr* start = IRExpr_RdTmp(block->cursor);
   return computed(block, Ity_I64,
                   IRExpr_Binop(Iop_Add64, start, number(block->pending * sizeof(ULong))));
}

/* Makes what has been written known; before every way out of the translation. */
static void commit(Block* block)
{
   if (block->pending > 0)
      addStmtToIRSB(block->out,
                    IRStmt_Store(Iend_LE, number((HWord)&cursor), place_of_next(block)));
}

/* Ensures that ROOM_RECORDS more can be written. */
static void look_for_room(Block* block)
{
   commit(block);
   IRExpr* full = computed(
      block, Ity_I1,
      IRExpr_Binop(Iop_CmpLE64U, variable(block, &limit), variable(block, &cursor)));
   IRDirty* call = unsafeIRDirty_0_N(0, "chunk_is_full", VG_(fnptr_to_fnentry)(chunk_is_full),
                                     mkIRExprVec_0());
   call->guard = full;
   addStmtToIRSB(block->out, IRStmt_Dirty(call));
   block->cursor = variable(block, &cursor)->Iex.RdTmp.tmp;
   block->pending = 0;
}

static void write_record(Block* block, IRExpr* record)
{
   if (block->pending == ROOM_RECORDS) look_for_room(block);
   addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, place_of_next(block), record));
   block->pending++;
}

static void write_access(Block* block, IRExpr* tag_of_it, IRExpr* address)
{
   IRExpr* shifted =
      computed(block, Ity_I64, IRExpr_Binop(Iop_Shl64, address, IRExpr_Const(IRConst_U8(16))));
   write_record(block,
                computed(block, Ity_I64, IRExpr_Binop(Iop_Or64, shifted, tag_of_it)));
}

static void fetch(Block* block, Addr address, Int bytes)
{
   /* What cannot be decoded has no length; Cachegrind counts it as one byte, too. */
   write_record(block, number(record_of(Fetch, bytes > 0 ? bytes : VG_MIN_INSTR_SZB, address)));
   block->loaded = NULL;
}

static void load(Block* block, IRExpr* address, Int bytes)
{
   block->loaded = number(tag(Load, bytes));
   block->address = address;
   block->bytes = bytes;
   write_access(block, block->loaded, address);
}

/* A store to where the same instruction has just loaded from makes that a modify. */
static void store(Block* block, IRExpr* address, Int bytes)
{
   if (block->loaded != NULL && block->bytes == bytes && eqIRAtom(block->address, address))
      block->loaded->Iex.Const.con->Ico.U64 = tag(Modify, bytes);
   else
      write_access(block, number(tag(Store, bytes)), address);
   block->loaded = NULL;
}

static void conditional(Block* block, Kind kind, IRExpr* condition, IRExpr* address, Int bytes)
{
   IRExpr* happened = number(tag(kind, bytes));
   IRExpr* choice =
      computed(block, Ity_I64, IRExpr_ITE(condition, happened, number(tag(Nothing, 0))));
   write_access(block, choice, address);
   block->loaded = NULL;
}

static Int bytes_of(Block* block, IRExpr* data)
{
   return sizeofIRType(typeOfIRExpr(block->out->tyenv, data));
}

/* A helper of the translator that does what one complicated instruction does. */
static void helper(Block* block, const IRDirty* call)
{
   if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify) load(block, call->mAddr, call->mSize);
   if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify) store(block, call->mAddr, call->mSize);
}

static void compare_and_swap(Block* block, const IRCAS* cas)
{
   Int bytes = bytes_of(block, cas->dataLo) * (cas->dataHi != NULL ? 2 : 1);
   write_access(block, number(tag(Synchronise, bytes)), cas->addr);
   load(block, cas->addr, bytes);
   store(block, cas->addr, bytes);
}

static void conditional_load(Block* block, const IRLoadG* load)
{
   IRType narrow = Ity_INVALID, wide = Ity_INVALID;
   typeOfIRLoadGOp(load->cvt, &wide, &narrow);
   conditional(block, Load, load->guard, load->addr, sizeofIRType(narrow));
}

static void record_statement(Block* block, const IRStmt* statement)
{
   switch (statement->tag) {
   case Ist_IMark: fetch(block, statement->Ist.IMark.addr, statement->Ist.IMark.len); break;
   case Ist_WrTmp: {
      const IRExpr* data = statement->Ist.WrTmp.data;
      if (data->tag == Iex_Load)
         load(block, data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty));
      break;
   }
   case Ist_Store:
      store(block, statement->Ist.Store.addr, bytes_of(block, statement->Ist.Store.data));
      break;
   case Ist_LoadG: conditional_load(block, statement->Ist.LoadG.details); break;
   case Ist_StoreG: {
      const IRStoreG* details = statement->Ist.StoreG.details;
      Int bytes = bytes_of(block, details->data);
      conditional(block, Store, details->guard, details->addr, bytes);
      break;
   }
   case Ist_Dirty: helper(block, statement->Ist.Dirty.details); break;
   case Ist_CAS: compare_and_swap(block, statement->Ist.CAS.details); break;
   case Ist_Exit: commit(block); break;
   default: break; /* the others touch no memory of the client; LL/SC is not amd64's */
   }
}

/* Objects that have an allocator: only their returns may be an allocator's. */
#define OBJECTS_MAX 8
static const HChar* allocating[OBJECTS_MAX];

static const HChar* object_of(Addr address)
{
   const HChar* name = NULL;
   return VG_(get_objname)(VG_(current_DiEpoch)(), address, &name) ? name : "";
}

static Bool allocates(const HChar* object)
{
   for (Int i = 0; i < OBJECTS_MAX && allocating[i] != NULL; i++)
      if (VG_STREQ(allocating[i], object)) return True;
   return False;
}

static Allocator allocator_at(Addr address)
{
   const HChar* name = NULL;
   if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name)) return NoAllocator;
   for (Int i = 0; i < sizeof allocators / sizeof *allocators; i++) {
      if (!VG_STREQ(allocators[i].name, name)) continue;
      const HChar* object = object_of(address);
      Int free = 0;
      while (free < OBJECTS_MAX && allocating[free] != NULL) free++;
      if (!allocates(object) && free < OBJECTS_MAX)
         allocating[free] = VG_(strdup)("references.object", object);
      return allocators[i].allocator;
   }
   return NoAllocator;
}

static IRExpr* of_guest(Block* block, Int offset)
{
   return computed(block, Ity_I64, IRExpr_Get(offset, Ity_I64));
}

#define GUEST(name) offsetof(VexGuestAMD64State, guest_##name)

/* That the call reads what a stack is unwound from: the translator has it written back first. */
static void unwinds(IRDirty* call)
{
   const Int offsets[] = { GUEST(RIP), GUEST(RSP), GUEST(RBP) };
   call->nFxState = 3;
   for (Int i = 0; i < 3; i++) {
      call->fxState[i].fx = Ifx_Read;
      call->fxState[i].offset = offsets[i];
      call->fxState[i].size = sizeof(ULong);
      call->fxState[i].nRepeats = call->fxState[i].repeatLen = 0;
   }
}

/* After the mark of a function's first instruction. What is called may begin another chunk. */
static void watch_entry(Block* block, Addr address)
{
   Allocator allocator = allocator_at(address);
   if (allocator == NoAllocator) return;
   commit(block);
   block->pending = 0;
   addStmtToIRSB(block->out, IRStmt_Put(GUEST(RIP), number(address)));
   IRDirty* call = unsafeIRDirty_0_N(
      0, "allocator_begins", VG_(fnptr_to_fnentry)(allocator_begins),
      mkIRExprVec_5(number(allocator), of_guest(block, GUEST(RDI)), of_guest(block, GUEST(RSI)),
                    of_guest(block, GUEST(RDX)), of_guest(block, GUEST(RSP))));
   unwinds(call);
   addStmtToIRSB(block->out, IRStmt_Dirty(call));
   look_for_room(block);
}

/* At the end of a translation whose last instruction returns; all has been committed. */
static void watch_return(Block* block, Addr address)
{
   if (!allocates(object_of(address))) return;
   IRDirty* call = unsafeIRDirty_0_N(
      0, "something_returns", VG_(fnptr_to_fnentry)(something_returns),
      mkIRExprVec_2(of_guest(block, GUEST(RSP)), of_guest(block, GUEST(RAX))));
   call->guard = computed(block, Ity_I1, IRExpr_Binop(Iop_CmpNE64, variable(block, &calls_open),
                                                      number(0)));
   addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                        IRType host_word)
{
   Block block = { deepCopyIRSBExceptStmts(in), IRTemp_INVALID, 0, NULL, NULL, 0 };
   Int i = 0;
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++)
      addStmtToIRSB(block.out, in->stmts[i]);
   look_for_room(&block);
   Addr address = closure->nraddr;
   for (; i < in->stmts_used; i++) {
      const IRStmt* statement = in->stmts[i];
      record_statement(&block, statement);
      addStmtToIRSB(block.out, in->stmts[i]);
      if (statement->tag != Ist_IMark) continue;
      address = statement->Ist.IMark.addr;
      watch_entry(&block, address);
   }
   commit(&block);
   if (in->jumpkind == Ijk_Ret) watch_return(&block, address);
   return block.out;
}

/* ----------------------------------------------------------------------------------- the tool */

static Bool process_option(const HChar* argument)
{
   if (VG_STR_CLO(argument, "--directory", directory)) return True;
   if (VG_BINT_CLO(argument, "--references-max", references_max, 0, 1LL << 62)) return True;
   if (VG_BINT_CLO(argument, "--skip", references_to_skip, 0, 1LL << 62)) return True;
   return False;
}

static void print_usage(void)
{
   VG_(printf)("    --directory=DIR           where records and logs go\n"
               "    --references-max=N        stop recording a process after so many\n"
               "    --skip=N                  leave out the first N of each process\n");
}

static void print_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static void after_options(void)
{
   if (directory == NULL || VG_(strlen)(directory) > sizeof stem / 2) {
      VG_(umsg)("references: --directory=DIR is needed\n");
      VG_(exit)(1);
   }
   begin_process("-");
}

static void before_options(void)
{
   VG_(details_name)("references");
   VG_(details_description)("records all memory references");
   VG_(details_copyright_author)("GPL-2.0-or-later, by the Ropewalk developers");
   VG_(details_bug_reports_to)("the Ropewalk developers");
   VG_(details_avg_translation_sizeB)(500);
   VG_(basic_tool_funcs)(after_options, instrument, process_ends);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
   VG_(needs_syscall_wrapper)(before_system_call, after_system_call);
   VG_(track_pre_thread_ll_create)(thread_begins);
   VG_(track_start_client_code)(thread_runs);
   VG_(track_new_mem_brk)(heap_grew);
   VG_(atfork)(NULL, NULL, after_fork_in_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
