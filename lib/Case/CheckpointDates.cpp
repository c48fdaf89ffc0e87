//===- CheckpointDates.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/CheckpointDates.h"
#include "Case/Schema.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

using namespace llvm;

namespace culprit {

/// Whether a file is called the last: `latest.pt`, `model_final.pth`.
static bool isLast(StringRef Path) {
  StringRef Rest = sys::path::stem(Path);
  while (!Rest.empty()) {
    StringRef Word = Rest.take_until(
        [](char C) { return C == '_' || C == '-' || C == '.'; });
    if (Word.equals_insensitive("last") || Word.equals_insensitive("latest") ||
        Word.equals_insensitive("final"))
      return true;
    Rest = Rest.drop_front(std::min(Word.size() + 1, Rest.size()));
  }
  return false;
}

/// The last step at which each run logs a loss.
static std::map<StringId, int64_t> lastSteps(const Table &Scalars,
                                             const StringPool &Pool) {
  std::map<StringId, int64_t> Out;
  ArrayRef<ColumnView> Columns = Scalars.columns();
  const ColumnView &Run = Columns[scalars::run], &Name = Columns[scalars::name],
                   &Step = Columns[scalars::step];
  for (size_t I = 0; I != Scalars.rows(); ++I) {
    if (Step.isNull(I) || Name.isNull(I) ||
        Pool.text(Name.getString(I)) != "loss")
      continue;
    const StringId Of = Run.isNull(I) ? NullString : Run.getString(I);
    auto [It, New] = Out.try_emplace(Of, Step.getInt(I));
    It->second = std::max(It->second, Step.getInt(I));
  }
  return Out;
}

/// The updates that an optimizer's state counts in some rows, if it does.
static std::optional<int64_t> countedIn(const Table &Tensors, size_t From,
                                        size_t To, const StringPool &Pool) {
  ArrayRef<ColumnView> Columns = Tensors.columns();
  const ColumnView &Name = Columns[tensors::name],
                   &Role = Columns[tensors::role],
                   &Numel = Columns[tensors::numel],
                   &Mean = Columns[tensors::mean];
  std::optional<int64_t> Out;
  for (size_t I = From; I != To; ++I) {
    if (Name.isNull(I) || Role.isNull(I) || Numel.isNull(I) || Mean.isNull(I) ||
        Numel.getInt(I) != 1 || Pool.text(Role.getString(I)) != "state" ||
        !Pool.text(Name.getString(I)).ends_with(".step"))
      continue;
    const double Count = Mean.getDouble(I);
    if (Count >= 1 && Count < 1e12 && Count == std::floor(Count))
      Out = std::max(Out.value_or(0), int64_t(Count));
  }
  return Out;
}

/// The row behind the last one of a segment.
static size_t endOf(size_t Segment,
                    ArrayRef<std::pair<size_t, size_t>> Segments,
                    const Table &Tensors) {
  return Segment + 1 == Segments.size() ? Tensors.rows()
                                        : Segments[Segment + 1].first;
}

/// The rows of a segment that are weights.
static std::vector<size_t>
weightsOf(size_t Segment, const Table &Tensors,
          ArrayRef<std::pair<size_t, size_t>> Segments,
          const StringPool &Pool) {
  const ColumnView &Role = Tensors.columns()[tensors::role];
  std::vector<size_t> Out;
  const size_t To = endOf(Segment, Segments, Tensors);
  for (size_t I = Segments[Segment].first; I != To; ++I)
    if (!Role.isNull(I) && Pool.text(Role.getString(I)) == "weight")
      Out.push_back(I);
  return Out;
}

/// Whether some rows are those of others once more, as in a checkpoint that
/// was written under a second name: latest.pt, best.pt.
static bool isCopy(ArrayRef<size_t> Left, ArrayRef<size_t> Right,
                   const Table &Tensors) {
  ArrayRef<ColumnView> Columns = Tensors.columns();
  const ColumnView &Name = Columns[tensors::name],
                   &Mean = Columns[tensors::mean], &L2 = Columns[tensors::l2];
  const auto Same = [](const ColumnView &C, size_t A, size_t B) {
    return C.isNull(A) == C.isNull(B) &&
           (C.isNull(A) || C.getDouble(A) == C.getDouble(B));
  };
  if (Left.size() != Right.size())
    return false;
  for (size_t I = 0; I != Left.size(); ++I) {
    const size_t A = Left[I], B = Right[I];
    if (Name.isNull(A) || Name.isNull(B) ||
        Name.getString(A) != Name.getString(B) || L2.isNull(A) ||
        !Same(Mean, A, B) || !Same(L2, A, B))
      return false;
  }
  return true;
}

/// Weights of one step in two files are of two runs, or of one that was written
/// twice. Of copies the first is dated; else nothing is to be compared, and
/// what looks like a step may be none.
static void dropEqual(std::map<size_t, int64_t> &Set, const Table &Tensors,
                      ArrayRef<std::pair<size_t, size_t>> Segments,
                      const StringPool &Pool) {
  const ColumnView &Run = Tensors.columns()[tensors::run];
  std::map<std::pair<StringId, int64_t>, std::vector<size_t>> Of;
  for (auto [S, Step] : Set) {
    const size_t From = Segments[S].first;
    if (!weightsOf(S, Tensors, Segments, Pool).empty())
      Of[{Run.isNull(From) ? NullString : Run.getString(From), Step}]
          .push_back(S);
  }
  for (const auto &[Key, Files] : Of) {
    if (Files.size() == 1)
      continue;
    const std::vector<size_t> First =
        weightsOf(Files.front(), Tensors, Segments, Pool);
    bool Copies = true;
    for (size_t S : Files)
      Copies = Copies &&
               isCopy(First, weightsOf(S, Tensors, Segments, Pool), Tensors);
    for (size_t S : Files)
      if (!Copies || S != Files.front())
        Set.erase(S);
  }
}

bool dateCheckpoints(Table &Tensors, const Table &Scalars,
                     ArrayRef<std::pair<size_t, size_t>> Segments,
                     ArrayRef<InputSummary> Inputs, const StringPool &Pool) {
  ArrayRef<ColumnView> Columns = Tensors.columns();
  if (Tensors.empty())
    return false;
  const ColumnView &Run = Columns[tensors::run], &Step = Columns[tensors::step];
  std::optional<std::map<StringId, int64_t>> Ends;
  std::map<size_t, int64_t> Set; // by segment
  for (size_t S = 0; S != Segments.size(); ++S) {
    const size_t From = Segments[S].first;
    const size_t To = endOf(S, Segments, Tensors);
    bool Known = From == To;
    for (size_t I = From; I != To && !Known; ++I)
      Known = !Step.isNull(I);
    if (Known)
      continue;
    if (std::optional<int64_t> Count = countedIn(Tensors, From, To, Pool)) {
      Set[S] = *Count;
      continue;
    }
    if (!isLast(Inputs[Segments[S].second].Path))
      continue;
    if (!Ends)
      Ends = lastSteps(Scalars, Pool);
    auto It = Ends->find(Run.isNull(From) ? NullString : Run.getString(From));
    if (It != Ends->end())
      Set[S] = It->second;
  }
  dropEqual(Set, Tensors, Segments, Pool);
  if (Set.empty())
    return false;
  auto Data = std::make_shared<Column>(ColumnType::Int);
  for (size_t S = 0; S != Segments.size(); ++S) {
    auto It = Set.find(S);
    const size_t To = endOf(S, Segments, Tensors);
    for (size_t I = Segments[S].first; I != To; ++I)
      Data->addInt(It != Set.end()  ? It->second
                   : Step.isNull(I) ? NullInt
                                    : Step.getInt(I));
  }
  Tensors = Tensors.with("step", std::move(Data));
  return true;
}

} // namespace culprit
