//===- KinetoTraceNames.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceNames.h"
#include "Readers/KernelRoles.h"
#include "Readers/KinetoTraceLexer.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit::kineto {

const NameInfo &NameBook::kernel(StringRef Raw) {
  NameInfo &Info = Kernels[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    StringRef Role = kernelRole(Name);
    Info.Id = Pool.intern(Name);
    Info.Role = Pool.intern(Role);
    Info.Collective = Role == "communication";
    if (Info.Collective)
      Info.Op = intern(collectiveOp(Name));
    Info.Ready = true;
  }
  return Info;
}

const NameInfo &NameBook::copy(StringRef Raw) {
  NameInfo &Info = Copies[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    CopyKinds Kinds = copyKinds(Name);
    Info.Id = Pool.intern(Name);
    Info.Kind = intern(Kinds.Kind);
    Info.Source = intern(Kinds.Source);
    Info.Target = intern(Kinds.Target);
    Info.Ready = true;
  }
  return Info;
}

const NameInfo &NameBook::call(StringRef Raw) {
  NameInfo &Info = Calls[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    Info.Id = Pool.intern(callName(Name));
    Info.Role = Pool.intern(callRole(callName(Name)));
    Info.Ready = true;
  }
  return Info;
}

const NameInfo &NameBook::host(StringRef Raw) {
  NameInfo &Info = Hosts[Raw];
  if (!Info.Ready) {
    std::string Name = decodeString(Raw);
    StringRef Category = rangeCategory(Name);
    Info.Id = Pool.intern(Name);
    // An operator is a range only if its name makes it one; what is left of
    // these is an operator as well when it did the work itself.
    if (Category != "annotation")
      Info.Category = Pool.intern(Category);
    Info.RangeOnly = Info.Category != NullString &&
                     !StringRef(Name).contains("c10d::") &&
                     !StringRef(Name).contains("c10d_functional::");
    Info.OnHost = StringRef(Name).starts_with("gloo:") ||
                  StringRef(Name).starts_with("mpi:");
    if (Info.OnHost)
      Info.Op = intern(collectiveOp(Name));
    if (Category == "step")
      Info.Step = stepNumber(Name).value_or(NullInt);
    Info.Loader = StringRef(Name).contains("utils/data/dataloader.py(") &&
                  StringRef(Name).ends_with(": __next__");
    Info.Ready = true;
  }
  return Info;
}

StringId NameBook::text(StringRef Raw) {
  auto [It, New] = Texts.try_emplace(Raw, NullString);
  if (New)
    It->second = Pool.intern(decodeString(Raw));
  return It->second;
}

/// \p Raw on one line as Python prints it: [[1, 512], []].
static std::string oneLine(StringRef Raw) {
  std::string Out;
  bool InString = false;
  for (size_t I = 0; I != Raw.size(); ++I) {
    char C = Raw[I];
    if (C == '"' && (I == 0 || Raw[I - 1] != '\\'))
      InString = !InString;
    if (!InString && static_cast<unsigned char>(C) <= ' ')
      continue;
    Out += C;
    if (!InString && C == ',')
      Out += ' ';
  }
  return Out;
}

StringId NameBook::list(StringRef Raw) {
  auto [It, New] = Lists.try_emplace(Raw, NullString);
  if (New) {
    std::string Line = oneLine(Raw);
    It->second = Pool.intern(json::isUTF8(Line) ? Line : json::fixUTF8(Line));
  }
  return It->second;
}

} // namespace culprit::kineto
