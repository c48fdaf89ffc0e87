//===- CheckpointSteps.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CheckpointSteps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace llvm;

namespace culprit {

namespace {
/// A name whose last number is taken out of it.
struct Numbered {
  std::string Name; ///< "net_g_#.pth"
  std::optional<int64_t> Number;
  size_t Digits = 0;
};

/// One file of tensors without a step.
struct Undated {
  Source *From;
  int64_t Number; ///< Of the file or of its folder.
  size_t Digits;
};

/// Files that differ in their number alone, by what they hold.
using Series = std::map<std::string, std::vector<Undated>>;
} // namespace

static Numbered numbered(StringRef Name) {
  Numbered Out;
  size_t End = Name.find_last_of("0123456789");
  if (End == StringRef::npos)
    return {Name.str(), std::nullopt, 0};
  size_t Begin = End + 1;
  while (Begin && isDigit(Name[Begin - 1]))
    --Begin;
  int64_t Number;
  StringRef Digits = Name.slice(Begin, End + 1);
  if (Digits.size() > 12 || Digits.getAsInteger(10, Number))
    return {Name.str(), std::nullopt, 0};
  return {(Name.take_front(Begin) + "#" + Name.drop_front(End + 1)).str(),
          Number, Digits.size()};
}

/// Whether the word before the number says what is no time: a file a fold, a
/// seed, a layer.
static bool numbersParts(StringRef Name) {
  StringRef Word = Name.take_front(Name.find('#')).rtrim("_-=.");
  for (StringRef Part : {"fold", "seed", "rank", "worker", "part", "shard",
                         "split", "layer", "expert", "gpu", "device", "block",
                         "version", "stage", "of", "v"})
    if (Word.ends_with_insensitive(Part))
      return true;
  return false;
}

static bool numbersEpochs(StringRef Name) {
  StringRef Word = Name.take_front(Name.find('#')).rtrim("_-=.");
  return Word.ends_with_insensitive("epoch") ||
         Word.ends_with_insensitive("ep") ||
         StringRef(Name).substr(Name.find('#') + 1).starts_with("epoch");
}

/// What the tensors are called and how large they are.
static std::string contentOf(Source &S) {
  std::string Out;
  for (const TensorRecord &T : S.tensors()) {
    Out += T.Name;
    for (int64_t Size : T.Data.Shape)
      Out += "," + itostr(Size);
    Out += ";";
  }
  return Out;
}

static bool isUndated(Source &S) {
  return !S.tensors().empty() && none_of(S.tensors(), [](const auto &T) {
    return T.Step.has_value();
  });
}

static Series seriesOf(ArrayRef<std::unique_ptr<Source>> Sources) {
  Series Out;
  for (const std::unique_ptr<Source> &S : Sources) {
    if (!S || !isUndated(*S))
      continue;
    StringRef Folder = sys::path::parent_path(S->path());
    StringRef File = sys::path::filename(S->path());
    Numbered Is = numbered(sys::path::stem(File));
    std::string Key = (Folder + "/" + Is.Name).str();
    if (!Is.Number) {
      Is = numbered(sys::path::filename(Folder));
      Key = (sys::path::parent_path(Folder) + "/" + Is.Name + "/" + File).str();
    }
    if (!Is.Number || numbersParts(Is.Name))
      continue;
    Key += sys::path::extension(File);
    Key += numbersEpochs(Is.Name) ? "\nepochs\n" : "\n\n";
    Out[Key + contentOf(*S)].push_back({S.get(), *Is.Number, Is.Digits});
  }
  return Out;
}

/// The updates that each number stands for, by files that know them; empty
/// where they are not in proportion: then the optimizer began anew.
static std::map<int64_t, int64_t> updatesOf(ArrayRef<Undated> Files) {
  for (int64_t First : {0, 1}) { // the number of the first epoch, which is done
    std::map<int64_t, int64_t> Out;
    bool Holds = true;
    const Undated &A = Files.front();
    for (const Undated &F : Files) {
      const auto &Updates = F.From->Updates;
      if (!Updates || *Updates <= 0 || *Updates > INT32_MAX ||
          F.Number > INT32_MAX || !A.From->Updates)
        return {};
      Holds &= *Updates * (A.Number + First) ==
               *A.From->Updates * (F.Number + First);
      Out[F.Number] = *Updates;
    }
    if (Holds && Out.size() == Files.size())
      return Out;
  }
  return {};
}

void tellCheckpointSteps(ArrayRef<std::unique_ptr<Source>> Sources) {
  const Series All = seriesOf(Sources);
  // By run: what one file of a step knows holds for the others.
  std::map<std::string, std::map<int64_t, int64_t>> Known;
  for (const auto &[Key, Files] : All)
    if (Files.size() > 1)
      for (auto [Number, Updates] : updatesOf(Files))
        Known[Files.front().From->Run].try_emplace(Number, Updates);
  for (const auto &[Key, Files] : All) {
    if (Files.size() < 2)
      continue;
    const auto &Updates = Known[Files.front().From->Run];
    const bool Counted = all_of(
        Files, [&](const Undated &F) { return Updates.count(F.Number) > 0; });
    // Numbers of one or two digits alone may be of anything.
    const bool Sure =
        StringRef(Key).contains("\nepochs\n") ||
        all_of(Files, [](const Undated &F) { return F.From->Epoch; }) ||
        any_of(Files, [](const Undated &F) { return F.Digits > 2; });
    if (!Counted && !Sure)
      continue;
    for (const Undated &F : Files)
      F.From->setStep(Counted ? Updates.at(F.Number) : F.Number);
  }
}

} // namespace culprit
