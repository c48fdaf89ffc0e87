//===- Recording.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Recording.h"

using namespace llvm;

namespace culprit {

StringRef recordingOf(StringRef Needs) {
  StringRef Table = Needs.take_front(Needs.find_first_of(". ,"));
  // Some detectors say in words what they need.
  if (!findTable(Table))
    return Needs;
  if (Table == "log_lines" || Table == "errors")
    return "a text log";
  if (Table == "tensors")
    return "tensor dumps";
  if (Table == "scalars")
    return "logged metrics";
  if (Table == "config" || Table == "packages")
    return "a config file";
  if (Table == "requests" || Table == "tokens")
    return "generation traces";
  if (Table == "process_groups")
    return "flight-recorder dumps";
  if (Table == "stacks")
    return "stacks of every rank";
  if (Table == "collectives" || Table == "matched_collectives")
    return "collectives on record, of several ranks or as flight-recorder "
           "dumps";
  if (Table == "memory_events" || Table == "memory_blocks")
    return "allocations on record: profile_memory=True or a memory snapshot";
  if (Table == "counters")
    return "counters: nvidia-smi, DCGM or nsys --gpu-metrics-devices";
  if (Table == "ranges" || Table == "steps")
    return "steps or loader ranges marked in the profile";
  if (Table == "thread_states")
    return "scheduling on record: nsys profile --sample=none "
           "--cpuctxsw=system-wide";
  if (Table == "host_calls" || Table == "host_ops" || Table == "launches")
    return "host activity on record beside the device's";
  if (Table == "profiler_events" || Table == "devices" || Table == "ranks")
    return "the profiler's own notes";
  return "a GPU profile";
}

bool isOfProfile(TableId Id) {
  switch (Id) {
  case TableId::gpu_work:
  case TableId::host_calls:
  case TableId::host_ops:
  case TableId::syncs:
  case TableId::ranges:
  case TableId::steps:
  case TableId::windows:
  case TableId::gaps:
  case TableId::launches:
  case TableId::critical_path:
  case TableId::capture_quality:
  case TableId::devices:
  case TableId::memory_events:
  case TableId::profiler_events:
  case TableId::thread_states:
    return true;
  default:
    return false;
  }
}

} // namespace culprit
