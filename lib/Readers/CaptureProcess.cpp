//===- CaptureProcess.cpp - The process and its devices ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

/// \p Low and \p High are the 16 bytes in the order of memory.
static std::string uuidText(uint64_t Low, uint64_t High) {
  if (!Low && !High)
    return "";
  std::string Out = "GPU";
  for (unsigned I = 0; I != 16; ++I) {
    if (I == 0 || I == 4 || I == 6 || I == 8 || I == 10)
      Out += '-';
    uint64_t Half = I < 8 ? Low : High;
    Out += formatv("{0:x-2}", unsigned(Half >> I % 8 * 8 & 0xff)).str();
  }
  return Out;
}

static void addDevice(Part &P, const DeviceRecord &R, StringRef Model,
                      int64_t Place) {
  TableBuilder &Row = P.Into.table(TableId::devices);
  Row.addRow();
  Row.set(devices::rank, P.Rank);
  Row.set(devices::device, int64_t(R.id));
  if (!Model.empty())
    Row.set(devices::model, Model);
  Row.set(devices::vendor, "nvidia"); // as whoever has CUPTI
  if (R.multiprocessors)
    Row.set(devices::multiprocessors, int64_t(R.multiprocessors));
  if (R.capability_major) {
    Row.set(devices::compute_major, int64_t(R.capability_major));
    Row.set(devices::compute_minor, int64_t(R.capability_minor));
  }
  if (R.memory && R.memory <= INT64_MAX)
    Row.set(devices::memory, static_cast<int64_t>(R.memory));
  if (R.bandwidth) // in kB/s
    Row.set(devices::bandwidth, static_cast<double>(R.bandwidth) / 1e6);
  if (R.core_clock) // in kHz
    Row.set(devices::clock, int64_t(R.core_clock) * 1000);
  if (std::string Uuid = uuidText(R.uuid_low, R.uuid_high); !Uuid.empty())
    Row.set(devices::uuid, StringRef(Uuid));
  Row.set(devices::place, Place);
}

static std::set<int64_t> usedDevices(Source &Into) {
  std::set<int64_t> Used;
  TableBuilder *Work = Into.existing(TableId::gpu_work);
  if (!Work || !Work->touched(gpu_work::device))
    return Used;
  int64_t Last = NullInt;
  for (int64_t Device : Work->finished(gpu_work::device).ints())
    if (Device != Last) {
      Last = Device;
      if (Device != NullInt)
        Used.insert(Device);
    }
  return Used;
}

void readProcess(Part &P) {
  TableBuilder &Row = P.Into.table(TableId::ranks);
  const Superblock &Head = P.File.head();
  Row.addRow();
  Row.set(ranks::rank, P.Rank);
  if (P.File.isHeadGood()) {
    if (Head.Host[0])
      Row.set(ranks::host, StringRef(cleanText(Head.Host)));
    Row.set(ranks::pid, int64_t(Head.Pid));
  }
  Row.set(ranks::place, int64_t(0));

  // Of the devices those that were used, or all when none was. A ring tells
  // them anew in each round.
  std::set<int64_t> Used = usedDevices(P.Into), Told;
  int64_t Place = 0;
  P.File.each<DeviceRecord>([&](const DeviceRecord &R, uint32_t Epoch,
                                uint64_t) {
    int64_t Number = Place++;
    if ((Used.empty() || Used.count(R.id)) && Told.insert(R.id).second)
      addDevice(P, R, cleanText(P.File.text(Epoch, R.name)), Number);
  });
}

} // namespace culprit::cprt
