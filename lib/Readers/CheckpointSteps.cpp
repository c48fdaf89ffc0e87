//===- CheckpointSteps.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CheckpointSteps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

namespace {
/// A name whose last number is taken out of it.
struct Numbered {
  std::string Name; ///< "net_g_#"
  int64_t Number = 0;
  StringRef Word; ///< In front of the number: "g"; empty where there is none.
};

/// One file of tensors without a step.
struct Undated {
  Source *From;
  int64_t Number; ///< Of the file or of its folder.
};

/// Files that hold the same tensors and differ in their number alone.
struct Series {
  std::vector<Undated> Files;
  StringRef Word;
};

using AllSeries = std::map<std::pair<std::string, std::string>, Series>;
using Steps = std::map<int64_t, int64_t>; ///< By number.
} // namespace

/// Beyond these a number is a date or a time: 20240131, 1704067200.
static bool mayCount(StringRef Digits) {
  return Digits.size() < 8 || (Digits.size() < 10 && Digits[0] == '0');
}

static std::optional<Numbered> numbered(StringRef Name) {
  size_t End = Name.find_last_of("0123456789") + 1;
  size_t Begin = End;
  while (Begin && isDigit(Name[Begin - 1]))
    --Begin;
  StringRef Digits = Name.slice(Begin, End), Before = Name.take_front(Begin);
  // best_0.912 has no number that counts.
  if (Digits.empty() || !mayCount(Digits) ||
      (Before.size() > 1 && Before.back() == '.' &&
       isDigit(Before[Before.size() - 2])))
    return std::nullopt;
  Numbered Out;
  if (Digits.getAsInteger(10, Out.Number))
    return std::nullopt;
  Out.Name = (Before + "#" + Name.drop_front(End)).str();
  // "ema_0.9999_000500": the average's rate stands between.
  Out.Word = Before.rtrim("_-=.0123456789");
  Out.Word = Out.Word.drop_front(Out.Word.find_last_of("_-=./ ") + 1);
  if (Before.empty() && Name.drop_front(End).starts_with("epoch"))
    Out.Word = "epoch";
  return Out;
}

static bool isOneOfInsensitive(StringRef Word, ArrayRef<StringLiteral> Words) {
  return any_of(Words, [&](StringRef W) {
    return Word.equals_insensitive(W);
  });
}

static bool countsEpochs(StringRef Word) {
  return isOneOfInsensitive(Word, {"epoch", "epochs", "ep"});
}

/// Whether a number behind \p Word, or alone, counts steps or epochs. That of a
/// fold, a seed, a client, a resolution or a depth does not.
static bool countsTime(StringRef Word) {
  return Word.empty() || countsEpochs(Word) ||
         isOneOfInsensitive(
             Word,
             {"iter",    "iters",     "iteration", "it",        "step",
              "steps",   "ba",        "update",    "ckpt",      "checkpoint",
              "chkpt",   "save",      "snapshot",  "ema",       "opt",
              "optim",   "optimizer", "model",     "net",       "g",
              "d",       "netg",      "netd",      "generator", "discriminator",
              "unet",    "weights",   "params",    "state",     "train",
              "training", "round"});
}

/// What the tensors are called and how large they are; empty for what is no
/// model: a single one that has no name of its own.
static std::string contentOf(Source &S) {
  std::string Out;
  if (S.tensors().size() == 1 && !StringRef(S.tensors()[0].Name).contains('.'))
    return Out;
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

/// Leaves those alone that differ in their number.
static void keepDistinct(AllSeries &All) {
  std::erase_if(All, [](const auto &Entry) {
    ArrayRef<Undated> Files = Entry.second.Files;
    return all_of(Files, [&](const Undated &F) {
      return F.Number == Files.front().Number;
    });
  });
}

/// Whether \p Stem is of the best or the last checkpoint of a run.
static bool namesOne(StringRef Stem) {
  for (StringRef Word : {"best", "last", "latest", "final", "newest"})
    if (Stem.contains_insensitive(Word))
      return true;
  return false;
}

/// By the epochs that files of a folder name inside: best.pt and last.pt, beside
/// which no other of the kind has a step.
static AllSeries
seriesByEpoch(ArrayRef<std::unique_ptr<Source>> Sources) {
  AllSeries Out;
  std::set<std::pair<std::string, std::string>> Dated;
  for (const std::unique_ptr<Source> &S : Sources) {
    if (!S || S->tensors().empty())
      continue;
    std::pair Key(sys::path::parent_path(S->path()).str(), contentOf(*S));
    if (!isUndated(*S)) {
      Dated.insert(std::move(Key));
    } else if (S->Epoch && *S->Epoch >= 0 &&
               namesOne(sys::path::stem(S->path()))) {
      Series &To = Out[std::move(Key)];
      To.Files.push_back({S.get(), *S->Epoch});
      To.Word = "epoch";
    }
  }
  std::erase_if(Out, [&](const auto &Entry) {
    return Dated.count(Entry.first) > 0;
  });
  keepDistinct(Out);
  return Out;
}

/// By the numbers of files or, where \p ByFolder, by those of their folders.
static AllSeries seriesOf(ArrayRef<std::unique_ptr<Source>> Sources,
                          bool ByFolder) {
  AllSeries Out;
  for (const std::unique_ptr<Source> &S : Sources) {
    if (!S || !isUndated(*S))
      continue;
    StringRef Folder = sys::path::parent_path(S->path());
    StringRef File = sys::path::filename(S->path());
    std::optional<Numbered> Is = numbered(
        ByFolder ? sys::path::filename(Folder) : sys::path::stem(File));
    std::string Content = contentOf(*S);
    if (!Is || Content.empty())
      continue;
    std::string Path = (Folder + "/" + Is->Name +
                        sys::path::extension(File)).str();
    if (ByFolder)
      Path = (sys::path::parent_path(Folder) + "/" + Is->Name + "/" + File)
                 .str();
    Series &To = Out[{std::move(Path), std::move(Content)}];
    To.Files.push_back({S.get(), Is->Number});
    To.Word = Is->Word;
  }
  keepDistinct(Out);
  return Out;
}

/// The updates that each number stands for, where all files know them and they
/// are in proportion; empty where they are not: then the optimizer began anew.
static Steps updatesOf(ArrayRef<Undated> Files) {
  for (int64_t First : {0, 1}) { // the number of the first epoch, which is done
    Steps Out;
    bool Holds = true;
    const Undated &A = Files.front();
    for (const Undated &F : Files) {
      const auto &Updates = F.From->Updates;
      if (!Updates || *Updates <= 0 || *Updates > INT32_MAX)
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

/// Whether the numbers of \p S are those of a time, and so tell an order.
static bool tellsOrder(const Series &S) {
  const bool Epochs = countsEpochs(S.Word) ||
                      all_of(S.Files, [](const Undated &F) {
                        return F.From->Epoch.has_value();
                      });
  if (Epochs)
    return true;
  // As many updates under several numbers: runs of their own.
  std::set<int64_t> Updates;
  size_t Known = 0;
  for (const Undated &F : S.Files)
    if (F.From->Updates) {
      Updates.insert(*F.From->Updates);
      ++Known;
    }
  return countsTime(S.Word) && Updates.size() == Known;
}

static void tell(const AllSeries &All) {
  // What one file of a run knows holds for those with the same numbers.
  std::map<std::string, std::vector<Steps>> Known;
  for (const auto &[Key, S] : All)
    if (Steps Updates = updatesOf(S.Files); !Updates.empty())
      Known[S.Files.front().From->Run].push_back(std::move(Updates));
  for (const auto &[Key, S] : All) {
    std::set<int64_t> Numbers;
    for (const Undated &F : S.Files)
      Numbers.insert(F.Number);
    const Steps *Counted = nullptr;
    for (const Steps &Of : Known[S.Files.front().From->Run])
      if (!Counted && Of.size() == Numbers.size() &&
          all_of(Numbers, [&](int64_t N) { return Of.count(N) > 0; }))
        Counted = &Of;
    if (!Counted && !tellsOrder(S))
      continue;
    for (const Undated &F : S.Files)
      F.From->setStep(Counted ? Counted->at(F.Number) : F.Number);
  }
}

void tellCheckpointSteps(ArrayRef<std::unique_ptr<Source>> Sources) {
  tell(seriesOf(Sources, /*ByFolder=*/false));
  tell(seriesOf(Sources, /*ByFolder=*/true));
  tell(seriesByEpoch(Sources));
}

} // namespace culprit
