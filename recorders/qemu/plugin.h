/* QEMU's plugin API, version 1: what the plugins here use of it. Debian ships no header.

   Copyright (C) 2026 the Ropewalk developers. This program is free software: you can redistribute
   it and/or modify it under the terms of the GNU General Public License as published by the Free
   Software Foundation, either version 2 of the License, or (at your option) any later version. */

#ifndef ROPEWALK_QEMU_PLUGIN_H
#define ROPEWALK_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t PluginId;
typedef struct Tb Tb;
typedef struct Insn Insn;
enum { NO_REGISTERS = 0 };
enum { READS_AND_WRITES = 3 };
typedef void (*TbTranslated)(PluginId id, Tb* tb);
typedef void (*Executed)(unsigned vcpu, void* data);
typedef void (*Accessed)(unsigned vcpu, uint32_t info, uint64_t address, void* data);
typedef void (*CallBegins)(PluginId id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                           uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                           uint64_t a8);
typedef void (*CallEnds)(PluginId id, unsigned vcpu, int64_t number, int64_t result);
typedef void (*Exits)(PluginId id, void* data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(PluginId id, TbTranslated callback);
extern void qemu_plugin_register_vcpu_tb_exec_cb(Tb* tb, Executed callback, int flags, void* data);
extern void qemu_plugin_register_vcpu_mem_cb(Insn* insn, Accessed callback, int flags, int which,
                                             void* data);
extern void qemu_plugin_register_vcpu_syscall_cb(PluginId id, CallBegins callback);
extern void qemu_plugin_register_vcpu_syscall_ret_cb(PluginId id, CallEnds callback);
extern void qemu_plugin_register_atexit_cb(PluginId id, Exits callback, void* data);
extern size_t qemu_plugin_tb_n_insns(const Tb* tb);
extern uint64_t qemu_plugin_tb_vaddr(const Tb* tb);
extern Insn* qemu_plugin_tb_get_insn(const Tb* tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const Insn* insn);
extern const void* qemu_plugin_insn_data(const Insn* insn);
extern size_t qemu_plugin_insn_size(const Insn* insn);
extern void* qemu_plugin_insn_haddr(const Insn* insn);
extern unsigned qemu_plugin_mem_size_shift(uint32_t info);
extern bool qemu_plugin_mem_is_store(uint32_t info);

#define EXPORT __attribute__((visibility("default")))

#endif
