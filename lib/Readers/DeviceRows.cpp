//===- DeviceRows.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/DeviceRows.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

WorkColumns::WorkColumns(Source &Into, size_t N, StringRef Kind,
                         StringRef DefaultRole)
    : T(Into.table(TableId::gpu_work)), N(N), Kind(Into.pool().intern(Kind)),
      DefaultRole(Into.pool().intern(DefaultRole)) {}

void KernelName::set(StringPool &Pool, StringRef Text) {
  StringRef Meaning = kernelRole(Text);
  Id = Pool.intern(Text);
  Role = Pool.intern(Meaning);
  Communication = Meaning == "communication";
  if (StringRef Known = collectiveOp(Text); Communication && !Known.empty())
    Op = Pool.intern(Known);
}

void addCollective(Source &Into, const WorkRow &Kernel,
                   const KernelName &Name) {
  TableBuilder &Row = Into.table(TableId::collectives);
  auto Set = [&](unsigned Column, int64_t Value) {
    if (Value != NullInt)
      Row.set(Column, Value);
  };
  Row.addRow();
  if (Name.Op != NullString)
    Row.setId(collectives::op, Name.Op);
  Set(collectives::rank, Kernel.Rank);
  Set(collectives::device, Kernel.Device);
  Set(collectives::stream, Kernel.Stream);
  Row.set(collectives::start, Kernel.Start);
  Row.set(collectives::stop, Kernel.Stop);
  Row.set(collectives::dur, Kernel.Stop - Kernel.Start);
  Row.set(collectives::state, "completed");
  Set(collectives::place, Kernel.Place);
}

static std::string capitalised(StringRef Text) {
  std::string Out = Text.str();
  if (!Out.empty())
    Out[0] = toUpper(Out[0]);
  return Out;
}

std::string copyLabel(StringRef Direction, StringRef From, StringRef To,
                      StringRef Cause) {
  std::string Out = "Memcpy";
  if (!Direction.empty())
    Out += " " + Direction.str();
  if (!From.empty() && !To.empty())
    Out += " (" + capitalised(From) + " -> " + capitalised(To) + ")";
  if (!Cause.empty())
    Out += " (" + Cause.str() + ")";
  return Out;
}

std::string setLabel(StringRef Memory) {
  return Memory.empty() ? "Memset" : "Memset (" + capitalised(Memory) + ")";
}

} // namespace culprit
