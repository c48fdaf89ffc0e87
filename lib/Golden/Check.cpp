//===- Check.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Golden/LockFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

using Outcome = GoldenFinding::Outcome;

size_t GoldenReport::count(Outcome O) const {
  return count_if(Findings,
                  [O](const GoldenFinding &F) { return F.Is == O; });
}

bool GoldenReport::holds() const {
  return none_of(Findings, [](const GoldenFinding &F) { return F.broken(); });
}

/// So many missing items are looked at closely.
static constexpr size_t MostExplained = 50;

static void checkItem(const GoldenItem &Locked, const Observation &Seen,
                      const GoldenRun &Run, GoldenFinding &F) {
  F.Where = Seen.Where;
  if (Locked.Of != Seen.Item.Of) {
    F.Is = Outcome::Failed;
    F.What = "it was " + toString(Locked.Of).str() + " and is " +
             toString(Seen.Item.Of).str() + " now";
    F.Next = "a tensor that was of integers may be of floats now: see the item "
             "of layout";
    return;
  }
  switch (Locked.Of) {
  case GoldenSubject::Answer:
  case GoldenSubject::Prompt:
    checkText(Locked, Seen, F);
    break;
  case GoldenSubject::Ids:
    checkIds(Locked, Seen, Run, F);
    break;
  case GoldenSubject::Sample:
    checkSample(Locked, Seen, F);
    break;
  case GoldenSubject::Shares:
    checkShares(Locked, Seen, F);
    break;
  case GoldenSubject::Level:
    checkLevel(Locked, Seen, F);
    break;
  case GoldenSubject::Tensor:
    checkTensor(Locked, Seen, F);
    break;
  case GoldenSubject::Schema:
  case GoldenSubject::Layout:
  case GoldenSubject::Settings:
  case GoldenSubject::Counts:
    checkFields(Locked, Seen, F);
    break;
  }
  if (F.broken())
    return;
  F.Expected.clear();
  F.Found.clear();
  F.First.clear();
}

/// Why the run has no \p Id, as far as the others that it has tell: its file
/// is not there, or something else is in its place.
static void describeMissing(StringRef Id, const GoldenRun &Run,
                            const StringSet<> &Locked, GoldenFinding &F) {
  // The file of an item is what lies between the first and the last slash.
  const auto FileOf = [](StringRef Name) {
    return Name.substr(Name.find('/') + 1);
  };
  const StringRef Kind = Id.take_front(Id.find('/'));
  StringRef File = FileOf(Id).rsplit('/').first;
  bool SameFile = false;
  std::vector<StringRef> Others;
  for (const Observation &O : Run.Items) {
    const StringRef Own = O.Item.Id;
    SameFile |= FileOf(Own).starts_with(File);
    if (!Locked.contains(Own) && Own.take_front(Own.find('/')) == Kind &&
        FileOf(Own).rsplit('/').first == File)
      Others.push_back(Own);
  }
  if (Kind == "answers" && SameFile) {
    F.What += Others.size() == 1
                  ? "; the run has '" + Others[0].str() +
                        "', which the lock has not: the prompt may have been "
                        "changed"
                  : "; the request failed, its prompt was changed, or it was "
                    "sampled this time";
    return;
  }
  if (!SameFile)
    F.What += "; nothing was read from its file";
}

GoldenReport checkGolden(ArrayRef<GoldenItem> Locked, const GoldenRun &Run) {
  GoldenReport Out;
  StringMap<const Observation *> Seen;
  for (const Observation &O : Run.Items)
    Seen[O.Item.Id] = &O;
  StringSet<> Known;
  for (const GoldenItem &I : Locked)
    Known.insert(I.Id);
  size_t Explained = 0;
  for (const GoldenItem &I : Locked) {
    GoldenFinding F;
    F.Id = I.Id;
    F.Kind = I.Kind;
    F.Of = I.Of;
    if (const Observation *O = Seen.lookup(I.Id)) {
      checkItem(I, *O, Run, F);
    } else {
      F.Is = Outcome::Missing;
      F.What = "the run has no such item";
      F.Next = "record the same files and requests again, or drop the item: "
               "accept it";
      if (Explained++ < MostExplained)
        describeMissing(I.Id, Run, Known, F);
    }
    Out.Findings.push_back(std::move(F));
  }
  for (const Observation &O : Run.Items) {
    if (Known.contains(O.Item.Id))
      continue;
    GoldenFinding F;
    F.Is = Outcome::New;
    F.Id = O.Item.Id;
    F.Kind = O.Item.Kind;
    F.Of = O.Item.Of;
    F.Where = O.Where;
    Out.Findings.push_back(std::move(F));
  }
  Out.Notes = Run.Notes;
  return Out;
}

GoldenItem acceptedItem(const GoldenItem *Old, const Observation &Seen) {
  GoldenItem Out = Seen.Item;
  if (!Old || Old->Of != Out.Of)
    return Out;
  Out.Kind = Old->Kind;
  Out.Tolerance = Old->Tolerance;
  Out.Why = Old->Why;
  return Out;
}

} // namespace culprit
