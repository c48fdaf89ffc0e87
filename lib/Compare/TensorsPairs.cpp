//===- TensorsPairs.cpp - What is compared with what ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace culprit {

std::string shapeText(ArrayRef<int64_t> Shape) {
  std::string Out = "[";
  for (auto [I, Size] : enumerate(Shape))
    Out += (I ? ", " : "") + std::to_string(Size);
  return Out + "]";
}

std::string placeOf(const TensorEntry &E) {
  std::string Out;
  const auto Add = [&](StringRef What, std::optional<int64_t> Value) {
    if (Value)
      Out += (Out.empty() ? "" : ", ") + What.str() + " " +
             std::to_string(*Value);
  };
  Add("step", E.Step);
  Add("token", E.Token);
  Add("rank", E.Rank);
  return Out;
}

bool runsBefore(const TensorEntry &A, const TensorEntry &B) {
  const auto Key = [](const TensorEntry &E) {
    return std::tuple(E.Step.value_or(0), E.Token.value_or(0),
                      E.Order.value_or(INT64_MAX), E.Rank.value_or(0), E.Row);
  };
  return Key(A) < Key(B);
}

bool samePlace(const TensorEntry &A, const TensorEntry &B) {
  return A.Step == B.Step && A.Rank == B.Rank && A.Token == B.Token &&
         A.Variant == B.Variant;
}

std::vector<TensorEntry> tensorEntries(const Case &C) {
  const Table &T = C.table(TableId::tensors);
  ArrayRef<ColumnView> Columns = T.columns();
  const auto Text = [&](size_t Row, unsigned Column) {
    const ColumnView &V = Columns[Column];
    return V.isNull(Row) ? std::string()
                         : C.pool()->text(V.getString(Row)).str();
  };
  const auto Int = [&](size_t Row, unsigned Column) -> std::optional<int64_t> {
    const ColumnView &V = Columns[Column];
    if (V.isNull(Row))
      return std::nullopt;
    return V.getInt(Row);
  };
  std::vector<TensorEntry> Out(T.rows());
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    TensorEntry &E = Out[Row];
    E.Row = Row;
    E.Name = Text(Row, tensors::name);
    E.Layer = Text(Row, tensors::layer);
    E.Role = Text(Row, tensors::role);
    E.Variant = Text(Row, tensors::variant);
    E.Step = Int(Row, tensors::step);
    E.Rank = Int(Row, tensors::rank);
    E.Order = Int(Row, tensors::order);
    E.Token = Int(Row, tensors::token);
    E.View = &C.tensor(Row);
  }
  return Out;
}

namespace {
/// Where in a run a tensor was dumped.
using Place = std::tuple<std::string, int64_t, int64_t, int64_t>;

/// The tensors of a side by name and place. A coordinate that all tensors of a
/// side share says nothing and is left out, so that step 311 of one run can be
/// compared with step 0 of another.
struct Side {
  std::vector<TensorEntry> Entries;
  std::vector<NamedShape> Names; ///< Distinct, in order.
  std::map<std::pair<std::string, Place>, size_t> Index;
  std::vector<std::string> Repeated; ///< The same name and place again.
  bool Steps = false, Ranks = false, Tokens = false, Variants = false;

  Place placeOf(const TensorEntry &E, const Side &Other) const {
    // A coordinate counts if both sides have several.
    return {Variants && Other.Variants ? E.Variant : std::string(),
            Steps || Other.Steps ? E.Step.value_or(0) : 0,
            Ranks || Other.Ranks ? E.Rank.value_or(0) : 0,
            Tokens || Other.Tokens ? E.Token.value_or(0) : 0};
  }
};
} // namespace

static Side sideOf(const Case &C) {
  Side Out;
  Out.Entries = tensorEntries(C);
  std::set<std::string> Variants, Seen;
  std::set<int64_t> Steps, Ranks, Tokens;
  for (const TensorEntry &E : Out.Entries) {
    Steps.insert(E.Step.value_or(0));
    Ranks.insert(E.Rank.value_or(0));
    Tokens.insert(E.Token.value_or(0));
    Variants.insert(E.Variant);
    if (Seen.insert(E.Name).second)
      Out.Names.push_back({E.Name, E.View->Shape});
  }
  Out.Steps = Steps.size() > 1;
  Out.Ranks = Ranks.size() > 1;
  Out.Tokens = Tokens.size() > 1;
  Out.Variants = Variants.size() > 1;
  return Out;
}

static void indexSide(Side &S, const Side &Other) {
  for (auto [I, E] : enumerate(S.Entries))
    if (!S.Index.try_emplace({E.Name, S.placeOf(E, Other)}, I).second)
      S.Repeated.push_back(E.Name);
}

/// \p Parts joined along the first axis where that makes \p Whole, else along
/// the last. Null if their types differ.
static std::shared_ptr<std::vector<uint8_t>>
joinParts(ArrayRef<const TensorEntry *> Parts, const TensorView &Whole) {
  int64_t Rows = 0;
  for (const TensorEntry *P : Parts) {
    if (!P->hasValues() || P->View->Type != Parts[0]->View->Type ||
        P->View->Shape.size() != Whole.Shape.size() || Whole.Shape.empty())
      return nullptr;
    Rows += P->View->Shape[0];
  }
  auto Out = std::make_shared<std::vector<uint8_t>>();
  if (Rows == Whole.Shape[0]) {
    for (const TensorEntry *P : Parts)
      Out->insert(Out->end(), P->View->Bytes.begin(), P->View->Bytes.end());
    return Out;
  }
  int64_t Lines = 1;
  for (size_t I = 0; I + 1 < Whole.Shape.size(); ++I)
    Lines *= Whole.Shape[I];
  for (int64_t L = 0; L != Lines; ++L)
    for (const TensorEntry *P : Parts) {
      const size_t Line = P->View->Bytes.size() / size_t(Lines);
      Out->insert(Out->end(), P->View->Bytes.begin() + size_t(L) * Line,
                  P->View->Bytes.begin() + size_t(L + 1) * Line);
    }
  return Out;
}

/// The entry that stands for the parts of a fused tensor.
static TensorEntry joinedEntry(ArrayRef<const TensorEntry *> Parts,
                               const TensorEntry &Whole, TensorPair &Into) {
  Into.Joined = joinParts(Parts, *Whole.View);
  TensorEntry Out = *Parts[0];
  for (const TensorEntry *P : Parts.drop_front())
    Out.Name += " + " + P->Name;
  if (!Into.Joined)
    return Out;
  Into.JoinedView = std::make_shared<TensorView>();
  Into.JoinedView->Type = Parts[0]->View->Type;
  Into.JoinedView->Shape = Whole.View->Shape;
  Into.JoinedView->Bytes = *Into.Joined;
  Out.View = Into.JoinedView.get();
  return Out;
}

/// What the two shapes say, and whether values can be compared all the same.
static bool checkShapes(const TensorPair &P, NameReport &Names,
                        std::set<std::string> &Told) {
  const TensorView &R = *P.Ref.View, &O = *P.Ours.View;
  if (R.Shape == O.Shape)
    return true;
  const bool Known = !Told.insert(P.Ref.Name).second;
  std::string Detail = shapeText(R.Shape) + " -> " + shapeText(O.Shape);
  SmallVector<int64_t, 4> A = R.Shape, B = O.Shape;
  if (A.size() == 2 && B.size() == 2 && A[0] == B[1] && A[1] == B[0])
    Detail += ", transposed";
  else if (llvm::sort(A), llvm::sort(B), A == B)
    Detail += ", axes in another order";
  else if (R.numel() == O.numel())
    Detail += ", as many elements";
  if (!Known)
    Names.Shapes.push_back({P.Ref.Name, P.Ours.Name, Detail});
  if (R.numel() == O.numel())
    return true;
  if (!Known)
    Names.NotCompared.push_back(
        {P.Ref.Name, P.Ours.Name,
         formatv("{0} elements in ref, {1} in ours", R.numel(), O.numel())
             .str()});
  return false;
}

static void addPair(TensorPair Pair, TensorComparison &Into,
                    std::vector<TensorPair> &Out,
                    std::set<std::string> &ShapesTold,
                    std::set<std::string> &TypesTold) {
  const TensorView R = *Pair.Ref.View, O = *Pair.Ours.View;
  if (!Pair.Ref.hasValues() || !Pair.Ours.hasValues())
    return Into.Names.NotCompared.push_back(
        {Pair.Ref.Name, Pair.Ours.Name,
         formatv("{0} has no values of it, only statistics",
                 !Pair.Ref.hasValues() ? "ref" : "ours")
             .str()});
  if (R.Type != O.Type && TypesTold.insert(Pair.Ref.Name).second)
    Into.Names.DTypes.push_back(
        {Pair.Ref.Name, Pair.Ours.Name,
         (toString(R.Type) + " -> " + toString(O.Type)).str()});
  if (!cutPadding(Pair, Into.Names, ShapesTold) &&
      !checkShapes(Pair, Into.Names, ShapesTold))
    return;
  if (R.numel() == 0)
    return Into.Names.NotCompared.push_back(
        {Pair.Ref.Name, Pair.Ours.Name, "it is empty on both sides"});
  Out.push_back(std::move(Pair));
}

/// Names and places that only one side has, told once a name.
static void tellUnpaired(const Side &S, const Side &Other,
                         const std::set<std::pair<std::string, Place>> &Used,
                         const std::set<std::string> &PairedNames,
                         StringRef Which, NameReport &Names) {
  std::map<std::string, size_t> Left;
  for (const TensorEntry &E : S.Entries)
    if (PairedNames.count(E.Name) &&
        !Used.count({E.Name, S.placeOf(E, Other)}))
      ++Left[E.Name];
  for (const auto &[Name, Count] : Left)
    Names.NotCompared.push_back(
        {Which == "ref" ? Name : "", Which == "ref" ? "" : Name,
         formatv("{0} of its steps, ranks or tokens only {1} has", Count,
                 Which)
             .str()});
}

std::vector<TensorPair> pairTensors(const Case &RefCase, const Case &OursCase,
                                    const Case *NoiseCase,
                                    TensorComparison &Into) {
  Side Ref = sideOf(RefCase), Ours = sideOf(OursCase);
  indexSide(Ref, Ours);
  indexSide(Ours, Ref);
  Side Noise;
  if (NoiseCase) {
    Noise = sideOf(*NoiseCase);
    indexSide(Noise, Ref);
  }
  Into.RefTensors = Ref.Entries.size();
  Into.OursTensors = Ours.Entries.size();

  NameMatching Matching = matchNames(Ref.Names, Ours.Names);
  NameReport &Names = Into.Names;
  for (size_t I : Matching.Missing)
    Names.Missing.push_back(Ref.Names[I].Name);
  for (size_t I : Matching.Unexpected)
    Names.Unexpected.push_back(Ours.Names[I].Name);
  Names.Matched = Matching.Matches.size();

  std::map<std::string, const NameMatch *> ByRef;
  for (const NameMatch &M : Matching.Matches) {
    ByRef[Ref.Names[M.Ref[0]].Name] = &M;
    const auto Joined = [](ArrayRef<size_t> At, ArrayRef<NamedShape> In) {
      std::string Out;
      for (size_t I : At)
        Out += (Out.empty() ? "" : " + ") + In[I].Name;
      return Out;
    };
    NamePair Told = {Joined(M.Ref, Ref.Names), Joined(M.Ours, Ours.Names),
                     M.Detail};
    if (M.Rule == NameRule::Fused)
      Names.Fused.push_back(std::move(Told));
    else if (M.Rule != NameRule::Exact)
      Names.Renamed.push_back(std::move(Told));
  }

  std::vector<TensorPair> Out;
  std::set<std::pair<std::string, Place>> RefDone, OursDone;
  std::set<std::string> RefPaired, OursPaired, ShapesTold, TypesTold;
  for (const TensorEntry &E : Ref.Entries) {
    auto Found = ByRef.find(E.Name);
    if (Found == ByRef.end())
      continue;
    const NameMatch &M = *Found->second;
    const Place At = Ref.placeOf(E, Ours);
    if (RefDone.count({E.Name, At}))
      continue;
    const auto Gather = [&](const Side &S, ArrayRef<size_t> Wanted) {
      std::vector<const TensorEntry *> Entries;
      for (size_t I : Wanted) {
        auto It = S.Index.find({S.Names[I].Name, At});
        if (It != S.Index.end())
          Entries.push_back(&S.Entries[It->second]);
      }
      return Entries;
    };
    for (size_t I : M.Ref)
      RefPaired.insert(Ref.Names[I].Name);
    for (size_t I : M.Ours)
      OursPaired.insert(Ours.Names[I].Name);
    std::vector<const TensorEntry *> R = Gather(Ref, M.Ref),
                                     O = Gather(Ours, M.Ours);
    if (R.size() != M.Ref.size() || O.size() != M.Ours.size())
      continue;
    for (const TensorEntry *Each : R)
      RefDone.insert({Each->Name, At});
    for (const TensorEntry *Each : O)
      OursDone.insert({Each->Name, At});
    TensorPair Pair;
    Pair.Rule = M.Rule;
    Pair.Ref = R.size() > 1 ? joinedEntry(R, *O[0], Pair) : *R[0];
    Pair.Ours = O.size() > 1 ? joinedEntry(O, *R[0], Pair) : *O[0];
    if (M.Rule == NameRule::Fused && !Pair.Joined) {
      Names.NotCompared.push_back(
          {Pair.Ref.Name, Pair.Ours.Name,
           "the parts have several dtypes, or no values"});
      continue;
    }
    if (NoiseCase && R.size() == 1)
      if (auto It = Noise.Index.find({E.Name, Noise.placeOf(E, Ref)});
          It != Noise.Index.end() &&
          Noise.Entries[It->second].hasValues() &&
          Noise.Entries[It->second].View->numel() == E.View->numel())
        Pair.Noise = Noise.Entries[It->second];
    addPair(std::move(Pair), Into, Out, ShapesTold, TypesTold);
  }
  tellUnpaired(Ref, Ours, RefDone, RefPaired, "ref", Names);
  tellUnpaired(Ours, Ref, OursDone, OursPaired, "ours", Names);
  if (!Ref.Repeated.empty() || !Ours.Repeated.empty())
    Into.Remarks.push_back(formatv(
        "{0} tensors have the name, step, rank and token of an earlier one, "
        "'{1}' first; the earlier ones were compared",
        Ref.Repeated.size() + Ours.Repeated.size(),
        Ref.Repeated.empty() ? Ours.Repeated[0] : Ref.Repeated[0]));
  stable_sort(Out, [](const TensorPair &A, const TensorPair &B) {
    return runsBefore(A.Ref, B.Ref);
  });
  return Out;
}

} // namespace culprit
