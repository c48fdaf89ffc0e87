//===- Dumps.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Dumps.h"
#include "Readers/Reader.h"
#include "Support/Error.h"
#include "Table/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace llvm;

namespace culprit {

std::optional<int64_t> DumpBisection::lastGood() const {
  if (!Search.First || *Search.First == 0)
    return std::nullopt;
  return Steps[*Search.First - 1];
}

namespace {

/// Which files hold the tensors of a step.
struct StepFiles {
  std::map<int64_t, std::vector<std::string>> ByStep;
  bool Shared = false; ///< Some file holds several steps.
  size_t Files = 0;
};

} // namespace

static Expected<StepFiles> stepFiles(const std::string &Path,
                                     unsigned Threads) {
  Expected<Case> C = readCase({Path}, Threads, TensorDetail::Values);
  if (!C)
    return C.takeError();
  StepFiles Out;
  const Table &T = C->table(TableId::tensors);
  const ColumnView &Step = T.columns()[tensors::step];
  std::map<std::string, std::set<int64_t>> ByFile;
  std::map<int64_t, std::set<std::string>> Files;
  for (size_t I = 0; I != T.rows(); ++I) {
    if (Step.isNull(I))
      continue;
    const std::string File = C->cite(TableId::tensors, I).Path;
    ByFile[File].insert(Step.getInt(I));
    Files[Step.getInt(I)].insert(File);
  }
  if (Files.empty())
    return failure(Path + ": there are no tensors with a step",
                   T.empty() ? "give a folder of dumps, as "
                               "culprit_recorder.py writes them"
                             : "the step is taken from the file's metadata or "
                               "its name, such as step000120.safetensors");
  for (const auto &[File, Steps] : ByFile)
    Out.Shared |= Steps.size() > 1;
  Out.Files = ByFile.size();
  for (auto &[At, Names] : Files)
    Out.ByStep[At].assign(Names.begin(), Names.end());
  return Out;
}

/// \p Compared with nothing but the pairs of \p Step.
static bool differsAt(const TensorComparison &Compared, int64_t Step) {
  return any_of(Compared.Differences, [&](const TensorDifference &D) {
    return D.Verdict == CompareVerdict::Different && D.Pair.Ref.Step == Step;
  });
}

namespace {
/// The two sides of a pair, read and compared in part.
struct Sides {
  const std::string &Ref, &Ours;
  unsigned Threads;
  std::set<std::string> Read; ///< Files, so far.

  /// Compares \p OfRef with \p OfOurs, which \p Keep will hold.
  Expected<TensorComparison> compare(ArrayRef<std::string> OfRef,
                                     ArrayRef<std::string> OfOurs,
                                     std::vector<Case> &Keep);
};
} // namespace

Expected<TensorComparison> Sides::compare(ArrayRef<std::string> OfRef,
                                          ArrayRef<std::string> OfOurs,
                                          std::vector<Case> &Keep) {
  Keep.clear();
  for (ArrayRef<std::string> Files : {OfRef, OfOurs}) {
    Expected<Case> C = readCase(Files, Threads, TensorDetail::Values);
    if (!C)
      return C.takeError();
    Keep.push_back(std::move(*C));
    Read.insert(Files.begin(), Files.end());
  }
  TensorOptions How;
  How.Threads = Threads;
  Expected<TensorComparison> C =
      compareTensors(Keep[0], Ref, Keep[1], Ours, How);
  // Dumps of other models differ from the first step on.
  if (C && C->Differences.empty())
    return failure(Ref + " and " + Ours +
                       " have no tensor of one name and shape with values in "
                       "common",
                   "'culprit compare' tells what each side has");
  return C;
}

/// Where files hold several steps they cannot be read in part: everything is
/// compared, once.
static Error searchShared(Sides &Both, PairBisection &Out) {
  Expected<TensorComparison> All =
      Both.compare({Both.Ref}, {Both.Ours}, Out.Cases);
  if (!All)
    return All.takeError();
  Expected<FirstBadSearch> Search = findFirstBad(
      Out.Steps.size(),
      [&](size_t I) -> Expected<bool> { return differsAt(*All, Out.Steps[I]); },
      /*Every=*/true);
  if (!Search)
    return Search.takeError();
  Out.Search = *Search;
  Out.FilesRead = Out.Files;
  if (!Out.Search.First)
    return Error::success();
  const int64_t Step = Out.Steps[*Out.Search.First];
  erase_if(All->Differences, [&](const TensorDifference &D) {
    return D.Pair.Ref.Step != Step;
  });
  All->First.reset();
  All->Steps.reset();
  findDivergence(*All);
  Out.Found = std::move(*All);
  return Error::success();
}

/// Reads the files of the steps that are asked for.
static Error searchFiles(Sides &Both, StepFiles &A, StepFiles &B, bool Every,
                         PairBisection &Out) {
  std::optional<int64_t> Held; ///< Step that Out.Found is of.
  const auto IsBad = [&](size_t I) -> Expected<bool> {
    const int64_t Step = Out.Steps[I];
    // What was found before looks into the cases that go now.
    Out.Found.reset();
    Expected<TensorComparison> C =
        Both.compare(A.ByStep[Step], B.ByStep[Step], Out.Cases);
    if (!C)
      return C.takeError();
    const bool Bad = C->Verdict == CompareVerdict::Different;
    Held = Step;
    Out.Found = std::move(*C);
    return Bad;
  };
  Expected<FirstBadSearch> Search =
      findFirstBad(Out.Steps.size(), IsBad, Every);
  if (!Search)
    return Search.takeError();
  Out.Search = *Search;
  if (!Out.Search.First) {
    Out.Found.reset();
  } else if (Held != Out.Steps[*Out.Search.First]) {
    if (Expected<bool> Again = IsBad(*Out.Search.First); !Again)
      return Again.takeError();
  }
  Out.FilesRead = Both.Read.size();
  return Error::success();
}

Expected<PairBisection> bisectPair(const std::string &Ref,
                                   const std::string &Ours,
                                   const DumpOptions &Options) {
  Expected<StepFiles> A = stepFiles(Ref, Options.Threads);
  if (!A)
    return A.takeError();
  Expected<StepFiles> B = stepFiles(Ours, Options.Threads);
  if (!B)
    return B.takeError();
  PairBisection Out;
  for (const auto &[Step, Files] : A->ByStep)
    if (B->ByStep.count(Step))
      Out.Steps.push_back(Step);
  if (Out.Steps.empty())
    return failure(Ref + " and " + Ours + " have no step in common",
                   "'culprit compare' compares dumps of one step each");
  Out.Files = A->Files + B->Files;
  Sides Both{Ref, Ours, Options.Threads, {}};
  if (Error E = A->Shared || B->Shared
                    ? searchShared(Both, Out)
                    : searchFiles(Both, *A, *B, Options.Every, Out))
    return E;
  return Out;
}

Expected<DumpBisection>
bisectRun(const std::string &Path,
          function_ref<Expected<bool>(ArrayRef<std::string>, int64_t)> IsBad,
          const DumpOptions &Options) {
  Expected<StepFiles> A = stepFiles(Path, Options.Threads);
  if (!A)
    return A.takeError();
  DumpBisection Out;
  for (const auto &[Step, Files] : A->ByStep)
    Out.Steps.push_back(Step);
  Out.Files = A->Files;
  std::set<std::string> Read;
  Expected<FirstBadSearch> Search = findFirstBad(
      Out.Steps.size(),
      [&](size_t I) {
        const std::vector<std::string> &Files = A->ByStep[Out.Steps[I]];
        Read.insert(Files.begin(), Files.end());
        return IsBad(Files, Out.Steps[I]);
      },
      Options.Every);
  if (!Search)
    return Search.takeError();
  Out.Search = *Search;
  Out.FilesRead = Read.size();
  return Out;
}

Expected<Table> rowsWhere(ArrayRef<std::string> Files, int64_t Step,
                          StringRef Where, unsigned Threads,
                          std::optional<Case> &Keep) {
  Expected<Case> C = readCase(Files, Threads);
  if (!C)
    return C.takeError();
  Keep.emplace(std::move(*C));
  Expected<Table> Of =
      where(Keep->table(TableId::tensors), "step == ?", {Step});
  if (!Of)
    return Of.takeError();
  Expected<Table> Rows = where(*Of, Where);
  if (!Rows)
    return Rows.takeError();
  return Rows->sort({{"order", false}});
}

} // namespace culprit
