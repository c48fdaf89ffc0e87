//===- KernelRoles.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

/// \p Name in lower case without underscores, which makers of kernels put as
/// they please: oneShotAllReduce, one_shot_all_reduce.
static std::string withoutUnderscores(StringRef Name) {
  std::string Plain;
  for (char C : Name)
    if (C != '_')
      Plain += toLower(C);
  return Plain;
}

StringRef kernelRole(StringRef Name) {
  static constexpr StringLiteral No[] = {
#define NO_COMMUNICATION(GLOB) GLOB,
#include "Readers/KernelRoles.def"
  };
  static constexpr StringLiteral Yes[] = {
#define COMMUNICATION(GLOB) GLOB,
#include "Readers/KernelRoles.def"
  };
  std::string Plain = withoutUnderscores(Name);
  auto Matches = [&](StringRef Glob) { return globMatch(Glob, Plain); };
  return any_of(Yes, Matches) && none_of(No, Matches) ? "communication"
                                                      : "compute";
}

StringRef callRole(StringRef Name) {
  static constexpr struct {
    StringLiteral Role, Glob;
  } Rules[] = {
#define CALL(ROLE, GLOB) {ROLE, GLOB},
#include "Readers/KernelRoles.def"
  };
  for (const auto &Rule : Rules)
    if (globMatch(Rule.Glob, Name))
      return Rule.Role;
  return "other";
}

StringRef callName(StringRef Name) {
  size_t Digits = Name.find_last_not_of("0123456789");
  if (Digits == StringRef::npos || Digits + 1 == Name.size())
    return Name;
  StringRef Stem = Name.take_front(Digits + 1);
  return Stem.consume_back("_v") ? Stem : Name;
}

StringRef collectiveOp(StringRef Name) {
  static constexpr struct {
    StringLiteral Op, Text;
  } Rules[] = {
#define COLLECTIVE(OP, TEXT) {OP, TEXT},
#include "Readers/KernelRoles.def"
  };
  std::string Plain = withoutUnderscores(Name);
  for (const auto &Rule : Rules)
    if (StringRef(Plain).contains(Rule.Text))
      return Rule.Op;
  return {};
}

StringRef canonicalDtype(StringRef Name) {
  return StringSwitch<StringRef>(Name)
#define DTYPE(NAME, DTYPE) .CaseLower(NAME, DTYPE)
#include "Readers/KernelRoles.def"
      .Default(Name);
}

unsigned dtypeBytes(StringRef Dtype) {
  return StringSwitch<unsigned>(Dtype)
      .Cases("float64", "int64", 8)
      .Cases("float32", "int32", 4)
      .Cases("float16", "bfloat16", "int16", 2)
      .Cases("float8_e4m3", "float8_e5m2", "int8", "uint8", "bool", 1)
      .Default(0);
}

StringRef memoryKind(StringRef Name) {
  return StringSwitch<StringRef>(Name.trim())
      .CaseLower("pageable", "pageable")
      .CaseLower("pinned", "pinned")
      .CaseLower("device", "device")
      .CaseLower("device static", "device")
      .CaseLower("array", "array")
      .CaseLower("managed", "managed")
      .CaseLower("managed static", "managed")
      .Default({});
}

/// HtoD and its like from anywhere in \p Label; roctracer spells them out.
static StringRef copyDirection(StringRef Label) {
  static constexpr struct {
    StringLiteral Text, Kind;
  } Spellings[] = {
      {"HtoD", "HtoD"},
      {"DtoH", "DtoH"},
      {"DtoD", "DtoD"},
      {"HtoH", "HtoH"},
      {"PtoP", "PtoP"},
      {"HostToDevice", "HtoD"},
      {"DeviceToHost", "DtoH"},
      {"DeviceToDevice", "DtoD"},
      {"HostToHost", "HtoH"},
      {"PeerToPeer", "PtoP"},
      {"H2D", "HtoD"},
      {"D2H", "DtoH"},
      {"D2D", "DtoD"},
      {"P2P", "PtoP"},
      {"Host-to-Device", "HtoD"},
      {"Device-to-Host", "DtoH"},
      {"Device-to-Device", "DtoD"},
      {"Peer-to-Peer", "PtoP"},
  };
  for (const auto &Spelling : Spellings)
    if (Label.contains(Spelling.Text))
      return Spelling.Kind;
  return {};
}

CopyKinds copyKinds(StringRef Label) {
  CopyKinds Out;
  Out.Kind = copyDirection(Label);
  StringRef Inside = Label.rsplit('(').second.rtrim(')');
  if (Inside.contains("->")) {
    auto [From, To] = Inside.split("->");
    Out.Source = memoryKind(From);
    Out.Target = memoryKind(To);
    return Out;
  }
  Out.Target = memoryKind(Inside);
  // Without a label the device side is still known; the host side may be
  // pageable or pinned and stays open.
  if (Out.Kind == "DtoH" || Out.Kind == "DtoD" || Out.Kind == "PtoP")
    Out.Source = "device";
  if (Out.Kind == "HtoD" || Out.Kind == "DtoD" || Out.Kind == "PtoP")
    Out.Target = "device";
  return Out;
}

std::optional<int64_t> stepNumber(StringRef Name) {
  static constexpr StringLiteral Words[] = {
      "profilerstep", "training_step", "training step",
      "train_step",   "train step",    "global_step",
      "iteration",    "step",          "iter"};
  for (StringRef Word : Words) {
    StringRef Rest = Name;
    if (!Rest.consume_front_insensitive(Word))
      continue;
    int64_t Number;
    Rest = Rest.ltrim(" _:#=-");
    if (Rest.empty() || Rest.getAsInteger(10, Number) || Number < 0)
      return std::nullopt;
    return Number;
  }
  return std::nullopt;
}

StringRef rangeCategory(StringRef Name) {
  static constexpr struct {
    StringLiteral Category, Glob;
  } Rules[] = {
#define RANGE(CATEGORY, GLOB) {CATEGORY, GLOB},
#include "Readers/KernelRoles.def"
  };
  for (const auto &Rule : Rules)
    if (globMatch(Rule.Glob, Name))
      return Rule.Category;
  // NCCL's own NVTX ranges: ncclAllReduce, but not ncclCommInitRank.
  if (Name.starts_with("nccl") && !collectiveOp(Name).empty())
    return "collective";
  return "annotation";
}

StringRef deviceVendor(StringRef Model) {
  for (StringRef Word :
       {"NVIDIA", "Tesla", "GeForce", "Quadro", "TITAN", "RTX"})
    if (Model.contains_insensitive(Word))
      return "nvidia";
  for (StringRef Word : {"AMD", "Instinct", "Radeon", "gfx"})
    if (Model.contains_insensitive(Word))
      return "amd";
  // "H100 80GB HBM3" and the like: a letter and digits.
  if (Model.size() > 2 && StringRef("ABGHLPTV").contains(Model[0]) &&
      isDigit(Model[1]) && isDigit(Model[2]))
    return "nvidia";
  if (Model.starts_with("MI") && Model.size() > 2 && isDigit(Model[2]))
    return "amd";
  return {};
}

} // namespace culprit
