//===- Tensors.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The values of a pair are read once, in pieces of 4 Mi elements that any
// thread may take; the sums of the pieces are put together in order. The
// tolerance wants the size of the values beforehand and takes it from a sample
// of 4,096. A search for the kind of a difference follows for the first pairs
// that differ.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Support/Parallel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

/// Elements of a piece of work: 16 MiB of float32.
static constexpr int64_t Piece = int64_t(1) << 22;
/// Differing pairs whose kind is searched for.
static constexpr size_t MostSearches = 128;

namespace {
/// Two tensors to be walked through.
struct Walk {
  const TensorView *A, *B;
  ElementTolerance Tolerance;
  DifferenceSums Sums;
};
} // namespace

/// Fills the sums of all \p Walks.
static void walkAll(std::vector<Walk> &Walks, unsigned Threads) {
  struct Part {
    size_t Walk;
    int64_t Begin, End;
    DifferenceSums Sums;
  };
  std::vector<Part> Parts;
  for (auto [I, W] : enumerate(Walks)) {
    const int64_t Numel = W.A->numel();
    for (int64_t At = 0; At < Numel; At += Piece)
      Parts.push_back({I, At, std::min(Numel, At + Piece), {}});
  }
  inParallel(Parts.size(), Threads, [&](size_t I) {
    Part &P = Parts[I];
    const Walk &W = Walks[P.Walk];
    P.Sums = differenceOf(*W.A, *W.B, P.Begin, P.End, W.Tolerance);
  });
  for (const Part &P : Parts)
    Walks[P.Walk].Sums.append(P.Sums);
}

/// Root mean square of the finite values of a sample of \p V.
static double sampledRms(const TensorView &V) {
  const int64_t Numel = V.numel();
  const int64_t Step = std::max<int64_t>(1, Numel / 4096);
  double Largest = 0;
  for (int64_t I = 0; I < Numel; I += Step)
    if (const double X = std::fabs(V.at(I)); std::isfinite(X))
      Largest = std::max(Largest, X);
  if (Largest == 0)
    return 0;
  // Relative to the largest, whose square may be no double.
  double Sum = 0;
  int64_t Count = 0;
  for (int64_t I = 0; I < Numel; I += Step) {
    const double X = V.at(I) / Largest;
    if (!std::isfinite(X))
      continue;
    Sum += X * X;
    ++Count;
  }
  return Largest * std::sqrt(Sum / double(Count));
}

namespace {
/// What the reference's dump says around a tensor.
struct Surroundings {
  using Key = std::tuple<std::string, std::optional<int64_t>,
                         std::optional<int64_t>, std::optional<int64_t>>;
  std::vector<TensorEntry> Entries;
  std::map<Key, std::vector<size_t>> ByPlace;
  StringMap<int64_t> FanIn; ///< Of a layer whose weight was dumped.

  static Key keyOf(const TensorEntry &E) {
    return {E.Variant, E.Step, E.Rank, E.Token};
  }

  explicit Surroundings(const Case &C) : Entries(tensorEntries(C)) {
    for (auto [I, E] : enumerate(Entries)) {
      ByPlace[keyOf(E)].push_back(I);
      if (E.Role == "weight" && E.View->Shape.size() >= 2 &&
          E.View->Shape[0] > 0)
        FanIn.try_emplace(E.Layer, E.View->numel() / E.View->Shape[0]);
    }
  }

  /// Summands of an element of \p E.
  int64_t termsOf(const TensorEntry &E) const {
    int64_t Terms = E.View->Shape.empty() ? 1 : E.View->Shape.back();
    if (auto It = FanIn.find(E.Layer); It != FanIn.end())
      Terms = std::max(Terms, It->second);
    if (E.View->numel() == 1 || E.Role == "grad")
      Terms = 65'536; // over batch and positions, which are not known
    return std::clamp<int64_t>(Terms, 1, 65'536);
  }
};
} // namespace

/// Layers of the same place that ran before each pair, and the steps or tokens
/// before its own: a process that goes on from its own results adds up what is
/// rounded.
static std::vector<int64_t> depthsOf(ArrayRef<TensorPair> Pairs) {
  std::vector<int64_t> Out;
  std::set<std::string> Layers;
  std::set<std::pair<int64_t, int64_t>> Steps;
  const TensorEntry *Before = nullptr;
  for (const TensorPair &P : Pairs) {
    // Weights that belong to no step may lie between the tensors of the first.
    if (P.Ref.Role != "weight") {
      if (!Before || Surroundings::keyOf(*Before) != Surroundings::keyOf(P.Ref))
        Layers.clear();
      Before = &P.Ref;
      Layers.insert(P.Ref.Layer);
    }
    Steps.insert({P.Ref.Step.value_or(0), P.Ref.Token.value_or(0)});
    Out.push_back(
        int64_t(std::max<size_t>(1, Layers.size()) + Steps.size() - 1));
  }
  return Out;
}

static CompareVerdict verdictOf(const TensorDifference &D) {
  const DifferenceSums &S = D.Sums;
  if (S.Different == 0)
    return CompareVerdict::Same;
  const bool Apart = S.Above > 0 || S.relL2() > D.Tolerance.RelL2;
  return Apart ? CompareVerdict::Different : CompareVerdict::WithinNoise;
}

static int64_t worldSizeOf(const Case &C) {
  const Table &T = C.table(TableId::ranks);
  const ColumnView &World = T.columns()[ranks::world_size];
  int64_t Out = 0;
  for (size_t I = 0; I != T.rows(); ++I)
    if (!World.isNull(I))
      Out = std::max(Out, World.getInt(I));
  return Out;
}

/// What the search for a kind may use beside the pair itself.
static KindQuery queryFor(const TensorDifference &D, const Surroundings &Around,
                          int64_t WorldSize, unsigned Threads) {
  KindQuery Q;
  const TensorEntry &E = D.Pair.Ref;
  Q.Ref = *D.Pair.Ref.View;
  Q.Ours = *D.Pair.Ours.View;
  Q.Name = E.Name;
  Q.Role = E.Role;
  Q.Tolerance = D.Tolerance;
  Q.Sums = D.Sums;
  Q.WorldSize = WorldSize;
  Q.Threads = Threads;
  std::set<int64_t> Seen;
  const auto AddDims = [&](ArrayRef<int64_t> Shape) {
    for (int64_t Size : Shape)
      if (Size > 1 && Seen.insert(Size).second)
        Q.Dims.push_back(Size);
  };
  AddDims(Q.Ref.Shape);
  auto It = Around.ByPlace.find(Surroundings::keyOf(E));
  if (It == Around.ByPlace.end())
    return Q;
  std::vector<size_t> Near = It->second;
  // Weights are dumped once, not at each step or token.
  if (E.Step || E.Token)
    if (auto Once = Around.ByPlace.find(
            {E.Variant, std::nullopt, E.Rank, std::nullopt});
        Once != Around.ByPlace.end())
      copy_if(Once->second, std::back_inserter(Near), [&](size_t I) {
        return Around.Entries[I].Role == "weight";
      });
  const StringRef Parent = StringRef(E.Layer).rsplit('.').first;
  for (size_t I : Near) {
    const TensorEntry &Other = Around.Entries[I];
    const StringRef Name = Other.Name;
    if (Other.View->numel() == 1 && Other.hasValues() &&
        StringRef(Name.rsplit('.').second.empty() ? Name
                                                  : Name.rsplit('.').second)
            .starts_with_insensitive("sigma"))
      Q.Sigma = Other.View->at(0);
    if (Other.Layer == E.Layer || (!Parent.empty() &&
                                   StringRef(Other.Layer).starts_with(Parent)))
      AddDims(Other.View->Shape);
    if (I == E.Row || !isFloating(Other.View->Type) || !Other.hasValues())
      continue;
    if (Other.Layer == E.Layer && Other.Role == "input" && !Q.Input)
      Q.Input = *Other.View;
    const ArrayRef<int64_t> Shape = Other.View->Shape;
    if (Other.Role == "weight" && Shape.size() == 2 && !Q.Ref.Shape.empty() &&
        Shape[1] == Q.Ref.Shape.back() && Q.Tables.size() < 64)
      Q.Tables.push_back({Other.Name, *Other.View});
    const int64_t Numel = Other.View->numel();
    if ((Numel == Q.Ref.numel() && Numel > 1) ||
        (Numel > 1 && is_contained(Q.Ref.Shape, Numel)))
      if (Q.Others.size() < 512)
        Q.Others.push_back({Other.Name, *Other.View});
  }
  // The nearest first: what the layer itself reads and holds.
  stable_sort(Q.Others, [&](const NamedTensor &A, const NamedTensor &B) {
    return StringRef(A.Name).starts_with(E.Layer) >
           StringRef(B.Name).starts_with(E.Layer);
  });
  return Q;
}

static void findKinds(TensorComparison &C, const Surroundings &Around,
                      int64_t WorldSize, unsigned Threads) {
  std::vector<size_t> Small, Large;
  size_t Left = 0;
  for (auto [I, D] : enumerate(C.Differences)) {
    if (D.Verdict != CompareVerdict::Different)
      continue;
    if (Small.size() + Large.size() == MostSearches)
      ++Left;
    else
      (D.Pair.Ref.View->numel() > 1'000'000 ? Large : Small).push_back(I);
  }
  const auto Search = [&](size_t I, unsigned Helpers) {
    TensorDifference &D = C.Differences[I];
    D.Kind = findKind(queryFor(D, Around, WorldSize, Helpers));
    if (D.Kind->Benign)
      D.Verdict = CompareVerdict::WithinNoise;
  };
  inParallel(Small.size(), Threads, [&](size_t I) { Search(Small[I], 1); });
  for (size_t I : Large)
    Search(I, Threads);
  if (Left)
    C.Remarks.push_back(formatv("the kind of the difference was searched for "
                                "in the first {0} tensors that differ; {1} "
                                "more differ",
                                MostSearches, Left));
}

/// Names that one side lacks and that hold what a model has learned.
static bool lacksWeights(const NameReport &Names, const Case &Ref,
                         const Case &Ours) {
  const auto Some = [](ArrayRef<std::string> List, const Case &C) {
    StringMap<std::string> Roles;
    for (const TensorEntry &E : tensorEntries(C))
      Roles.try_emplace(E.Name, E.Role);
    return any_of(List, [&](const std::string &Name) {
      return Roles.lookup(Name) == "weight" && !isDerivedBuffer(Name);
    });
  };
  return Some(Names.Missing, Ref) || Some(Names.Unexpected, Ours);
}

size_t TensorComparison::count(CompareVerdict V) const {
  return size_t(count_if(Differences, [V](const TensorDifference &D) {
    return D.Verdict == V;
  }));
}

Expected<TensorComparison> compareTensors(const Case &Ref, StringRef RefPath,
                                          const Case &Ours, StringRef OursPath,
                                          const TensorOptions &Options) {
  for (auto [C, Path] : {std::pair(&Ref, RefPath), std::pair(&Ours, OursPath)})
    if (!C->has(TableId::tensors))
      return failure(Path + ": there are no tensors to compare",
                     "give dumps or checkpoints on both sides; 'culprit "
                     "inspect " + Path + "' lists what it has");
  TensorComparison Out;
  Out.RefPath = RefPath.str();
  Out.OursPath = OursPath.str();
  std::vector<TensorPair> Pairs =
      pairTensors(Ref, Ours, Options.Noise, Out);
  const Surroundings Around(Ref);
  const std::vector<int64_t> Depths = depthsOf(Pairs);

  std::vector<Walk> NoiseWalks;
  std::vector<size_t> NoiseOf;
  for (auto [I, P] : enumerate(Pairs)) {
    TensorDifference D;
    D.Pair = std::move(P);
    D.Tolerance = toleranceOf(D.Pair, Around.termsOf(D.Pair.Ref), Depths[I]);
    if (D.Pair.Noise) {
      NoiseWalks.push_back({D.Pair.Ref.View, D.Pair.Noise->View, {}, {}});
      NoiseOf.push_back(I);
    }
    Out.Differences.push_back(std::move(D));
  }
  // Run-to-run spread widens the tolerance. Three times it, as one pair of
  // runs is a small sample of what runs differ by.
  walkAll(NoiseWalks, Options.Threads);
  for (auto [W, I] : zip(NoiseWalks, NoiseOf)) {
    TensorDifference &D = Out.Differences[I];
    D.NoiseRelL2 = W.Sums.relL2();
    if (W.Sums.Different == 0 || !std::isfinite(*D.NoiseRelL2))
      continue;
    D.Tolerance.Floor = std::max(D.Tolerance.Floor, 3 * W.Sums.MaxAbs);
    D.Tolerance.RelL2 = std::max(D.Tolerance.RelL2, 3 * *D.NoiseRelL2);
    D.Tolerance.Basis +=
        ", and 3 times what two runs of the reference differ by";
  }

  std::vector<Walk> Walks(Out.Differences.size());
  inParallel(Walks.size(), Options.Threads, [&](size_t I) {
    TensorDifference &D = Out.Differences[I];
    const double Rms = sampledRms(*D.Pair.Ref.View);
    Walks[I] = {D.Pair.Ref.View, D.Pair.Ours.View, D.Tolerance.elements(Rms),
                {}};
    D.Allowed = Walks[I].Tolerance.Absolute + D.Tolerance.Relative * Rms;
  });
  walkAll(Walks, Options.Threads);
  for (auto [D, W] : zip(Out.Differences, Walks)) {
    D.Sums = W.Sums;
    D.Verdict = verdictOf(D);
  }
  findKinds(Out, Around, worldSizeOf(Ours), Options.Threads);
  findDivergence(Out);
  findStepPattern(Out);
  concludeDivergence(Out);

  if (Out.Differences.empty())
    Out.Remarks.push_back("no tensor of one side has a partner on the other");
  if (Out.count(CompareVerdict::Different) || Out.Differences.empty() ||
      lacksWeights(Out.Names, Ref, Ours) ||
      any_of(Out.Names.NotCompared, [](const NamePair &N) {
        return StringRef(N.Detail).contains("elements in ref");
      }))
    Out.Verdict = CompareVerdict::Different;
  else if (Out.count(CompareVerdict::WithinNoise))
    Out.Verdict = CompareVerdict::WithinNoise;
  return Out;
}

} // namespace culprit
