//===- Detector.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Detector.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

std::string toString(const Scalar &Value) {
  if (const bool *Truth = std::get_if<bool>(&Value))
    return *Truth ? "true" : "false";
  if (const int64_t *Whole = std::get_if<int64_t>(&Value))
    return std::to_string(*Whole);
  if (const double *Number = std::get_if<double>(&Value))
    return formatNumber(*Number, 10);
  return std::get<std::string>(Value);
}

Detector::~Detector() = default;

/// Where \p Id stands or belongs in \p List, which is sorted by it.
template <typename ListT, typename IdOf>
static auto position(ListT &List, StringRef Id, IdOf Of) {
  return std::lower_bound(
      List.begin(), List.end(), Id,
      [&](const auto &Item, StringRef Wanted) { return Of(Item) < Wanted; });
}

static StringRef idOf(const std::unique_ptr<Detector> &D) { return D->id(); }
static StringRef idOf(const BrokenDetector &D) { return D.Id; }

void DetectorSet::remove(StringRef Id) {
  llvm::erase_if(Detectors, [&](const auto &D) { return D->id() == Id; });
  llvm::erase_if(Broken, [&](const auto &D) { return D.Id == Id; });
}

void DetectorSet::add(std::unique_ptr<Detector> D) {
  remove(D->id());
  auto At =
      position(Detectors, D->id(), [](const auto &Item) { return idOf(Item); });
  Detectors.insert(At, std::move(D));
}

void DetectorSet::add(BrokenDetector D) {
  remove(D.Id);
  auto At = position(Broken, D.Id, [](const auto &Item) { return idOf(Item); });
  Broken.insert(At, std::move(D));
}

const Detector *DetectorSet::find(StringRef Id) const {
  auto At = position(Detectors, Id, [](const auto &D) { return idOf(D); });
  return At != Detectors.end() && (*At)->id() == Id ? At->get() : nullptr;
}

Expected<const Detector *> DetectorSet::get(StringRef Id) const {
  if (const Detector *Found = find(Id))
    return Found;
  for (const BrokenDetector &B : Broken)
    if (B.Id == Id)
      return failure("detector '" + Id + "' did not load: " + B.Error.Message,
                     B.Error.Hint);
  std::vector<std::string> Known = ids();
  std::string Close = closestName(Id, Known);
  if (Close.empty()) // the group left out: 'idle' for 'gpu/idle'
    for (const std::string &Name : Known)
      if (StringRef(Name).ends_with(("/" + Id).str()))
        Close = Name;
  return failure("unknown detector '" + Id + "'",
                 Close.empty() ? Twine("`culprit list` names all of them")
                               : "did you mean '" + Twine(Close) + "'?");
}

std::vector<std::string> DetectorSet::ids() const {
  std::vector<std::string> Out;
  for (const std::unique_ptr<Detector> &D : Detectors)
    Out.push_back(D->id());
  return Out;
}

} // namespace culprit
