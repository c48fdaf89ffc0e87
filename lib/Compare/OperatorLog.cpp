//===- OperatorLog.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/OperatorLog.h"
#include "Compare/Tensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

static constexpr double Infinite = std::numeric_limits<double>::infinity();

size_t OperatorComparison::count(CompareVerdict V) const {
  return size_t(
      count_if(Pairs, [V](const LoggedPair &P) { return P.Verdict == V; }));
}

bool isOperatorLog(const Case &C) {
  std::vector<TensorEntry> Entries = tensorEntries(C);
  return !Entries.empty() && none_of(Entries, [](const TensorEntry &E) {
    return E.hasValues() && E.View->numel() != 0;
  });
}

/// "fc/op_3_aten::mm.input.0" as "fc/aten::mm.input.0".
static std::string withoutCounter(StringRef Name) {
  const size_t At = Name.rfind("/op_");
  if (At == StringRef::npos)
    return Name.str();
  StringRef Rest = Name.drop_front(At + 4);
  StringRef Digits = Rest.take_while(isDigit);
  Rest = Rest.drop_front(Digits.size());
  if (Digits.empty() || !Rest.consume_front("_"))
    return Name.str();
  return (Name.take_front(At + 1) + Rest).str();
}

/// The norms as they stand in a log, 812.5 or (3.5, 5.0) where an operator
/// gives several; none for checksums, which are whole numbers.
static SmallVector<double, 1> normsIn(StringRef Hash) {
  SmallVector<double, 1> Out;
  SmallVector<StringRef, 4> Parts;
  Hash.trim("()").split(Parts, ',', -1, false);
  for (StringRef Part : Parts) {
    double Value;
    Part = Part.trim();
    if (Part.empty() || all_of(Part, isDigit) || Part.getAsDouble(Value))
      return {};
    Out.push_back(Value);
  }
  return Out;
}

static std::vector<LoggedTensor> loggedTensors(const Case &C) {
  const Table &T = C.table(TableId::tensors);
  ArrayRef<ColumnView> Columns = T.columns();
  const auto Number = [&](size_t Row,
                          unsigned Column) -> std::optional<double> {
    const ColumnView &V = Columns[Column];
    if (V.isNull(Row))
      return std::nullopt;
    return V.number(Row);
  };
  std::vector<TensorEntry> Entries = tensorEntries(C);
  stable_sort(Entries, runsBefore);
  std::vector<LoggedTensor> Out;
  Out.reserve(Entries.size());
  for (const TensorEntry &E : Entries) {
    const auto Text = [&](unsigned Column) {
      const ColumnView &V = Columns[Column];
      return V.isNull(E.Row) ? std::string()
                             : C.pool()->text(V.getString(E.Row)).str();
    };
    LoggedTensor L;
    L.Row = E.Row;
    L.Name = E.Name;
    L.Layer = E.Layer;
    L.Role = E.Role;
    L.Operator = withoutCounter(E.Name);
    L.Shape = E.View->Shape.empty() ? "" : shapeText(E.View->Shape);
    L.Step = E.Step.value_or(0);
    L.Rank = E.Rank.value_or(0);
    L.DType = Text(tensors::dtype);
    L.Hash = Text(tensors::hash);
    L.Norms = normsIn(L.Hash);
    L.Mean = Number(E.Row, tensors::mean);
    L.Min = Number(E.Row, tensors::min);
    L.Max = Number(E.Row, tensors::max);
    L.L2 = Number(E.Row, tensors::l2);
    L.NonFinite = Number(E.Row, tensors::nonfinite).value_or(0) > 0 ||
                  any_of(L.Norms, [](double N) { return !std::isfinite(N); });
    Out.push_back(std::move(L));
  }
  return Out;
}

/// Unit roundoff of the coarser of two formats; that of float32 where the log
/// does not tell.
static double unitOf(const LoggedPair &P) {
  const auto Of = [](StringRef Type) {
    return StringSwitch<double>(Type)
        .Case("float64", 0x1p-53)
        .Case("float16", 0x1p-11)
        .Case("bfloat16", 0x1p-8)
        .Cases("float8_e4m3", "float8_e4m3fnuz", 0x1p-4)
        .Cases("float8_e5m2", "float8_e5m2fnuz", 0x1p-3)
        .Default(0x1p-24);
  };
  return std::max(Of(P.Ref.DType), Of(P.Ours.DType));
}

/// Compares one figure and keeps the largest difference.
static void weigh(LoggedPair &P, StringRef Figure, std::optional<double> Ref,
                  std::optional<double> Ours, double Scale) {
  if (!Ref || !Ours)
    return;
  const bool Sound = std::isfinite(*Ref), OursSound = std::isfinite(*Ours);
  double Relative = 0;
  if (Sound != OursSound)
    Relative = Infinite;
  else if (Sound && *Ref != *Ours)
    Relative = std::fabs(*Ref - *Ours) / Scale;
  if (Relative > P.Relative) {
    P.Relative = Relative;
    P.Figure = Figure.str();
    P.RefValue = *Ref;
    P.OursValue = *Ours;
  }
}

/// \p Depth: layers up to this one.
static void judge(LoggedPair &P, size_t Depth) {
  // What is not finite measures nothing.
  const auto Larger = [](std::optional<double> A, std::optional<double> B) {
    double Out = 0;
    for (std::optional<double> X : {A, B})
      if (X && std::isfinite(*X))
        Out = std::max(Out, std::fabs(*X));
    return Out;
  };
  if (P.Ref.Norms.size() == P.Ours.Norms.size())
    for (auto [A, B] : zip(P.Ref.Norms, P.Ours.Norms))
      weigh(P, "norm", A, B, Larger(A, B));
  weigh(P, "l2", P.Ref.L2, P.Ours.L2, Larger(P.Ref.L2, P.Ours.L2));
  // A mean may be near nought and an extreme is one element: both are measured
  // by the largest magnitude.
  const double Extent = std::max(Larger(P.Ref.Min, P.Ours.Min),
                                 Larger(P.Ref.Max, P.Ours.Max));
  weigh(P, "min", P.Ref.Min, P.Ours.Min, Extent);
  weigh(P, "max", P.Ref.Max, P.Ours.Max, Extent);
  if (Extent > 0)
    weigh(P, "mean", P.Ref.Mean, P.Ours.Mean, Extent);
  else if (P.Ref.Norms.empty() && !P.Ref.L2) // nothing else was logged
    weigh(P, "mean", P.Ref.Mean, P.Ours.Mean,
          Larger(P.Ref.Mean, P.Ours.Mean));
  const bool Told = !P.Ref.Norms.empty() || P.Ref.L2 || P.Ref.Max || P.Ref.Mean;
  if (P.Ref.NonFinite != P.Ours.NonFinite && P.Relative < Infinite) {
    P.Relative = Infinite;
    P.Figure = "nonfinite";
  } else if (P.Relative == 0 && P.Ref.Hash != P.Ours.Hash &&
             !P.Ref.Hash.empty() && !P.Ours.Hash.empty()) {
    // Figures are printed with few digits, a checksum sees the last bit. By
    // itself it cannot tell rounding from a fault.
    P.Figure = "checksum";
    P.Relative = Told ? std::numeric_limits<double>::min() : Infinite;
  }
  P.Allowed = unitOf(P) * std::sqrt(double(std::max<size_t>(1, Depth)));
  P.Verdict = P.Relative == 0            ? CompareVerdict::Same
              : P.Relative <= P.Allowed ? CompareVerdict::WithinNoise
                                        : CompareVerdict::Different;
}

/// What two runs have in common of each row, as numbers.
static std::vector<uint32_t> keysOf(ArrayRef<LoggedTensor> Rows, bool Steps,
                                    bool Ranks, StringMap<uint32_t> &Known) {
  std::vector<uint32_t> Out;
  for (const LoggedTensor &L : Rows) {
    std::string Key =
        formatv("{0}|{1}|{2}|{3}|{4}", L.Operator, L.Shape, L.DType,
                Steps ? L.Step : 0, Ranks ? L.Rank : 0);
    Out.push_back(Known.try_emplace(Key, uint32_t(Known.size())).first->second);
  }
  return Out;
}

static bool hasSeveral(ArrayRef<LoggedTensor> Rows, int64_t LoggedTensor::*Of) {
  return any_of(Rows, [&](const LoggedTensor &L) {
    return L.*Of != Rows.front().*Of;
  });
}

/// Finds the first pairs, and what went into the first beyond rounding.
static void findFirst(OperatorComparison &C) {
  double Before = 0, Inputs = 0; // of the last output, of inputs since then
  for (auto [I, P] : enumerate(C.Pairs)) {
    if (P.Verdict != CompareVerdict::Same && !C.FirstInexact)
      C.FirstInexact = I;
    const bool IsInput = P.Ref.Role == "input";
    // An operator that names its inputs tells what went into it; of others it
    // is taken to be what came before.
    const double Into = IsInput ? Before : std::max(Before, Inputs);
    if (P.Verdict == CompareVerdict::Different && !C.First &&
        P.Relative > 10 * Into) {
      C.First = I;
      C.InputRelative = Into;
    }
    if (IsInput) {
      Inputs = std::max(Inputs, P.Relative);
    } else {
      Before = P.Relative;
      Inputs = 0;
    }
  }
  if (C.First)
    return;
  for (auto [I, P] : enumerate(C.Pairs))
    if (P.Verdict == CompareVerdict::Different) {
      C.First = I;
      C.InputRelative = I ? C.Pairs[I - 1].Relative : 0;
      return;
    }
}

Expected<OperatorComparison> compareOperatorLogs(const Case &Ref,
                                                 StringRef RefPath,
                                                 const Case &Ours,
                                                 StringRef OursPath) {
  OperatorComparison Out;
  Out.RefPath = RefPath.str();
  Out.OursPath = OursPath.str();
  std::vector<LoggedTensor> A = loggedTensors(Ref), B = loggedTensors(Ours);
  Out.RefCount = A.size();
  Out.OursCount = B.size();
  // A coordinate counts if both sides have several.
  const bool Steps = hasSeveral(A, &LoggedTensor::Step) &&
                     hasSeveral(B, &LoggedTensor::Step);
  const bool Ranks = hasSeveral(A, &LoggedTensor::Rank) &&
                     hasSeveral(B, &LoggedTensor::Rank);
  StringMap<uint32_t> Known;
  std::vector<uint32_t> KeysA = keysOf(A, Steps, Ranks, Known);
  std::vector<uint32_t> KeysB = keysOf(B, Steps, Ranks, Known);

  StringSet<> Layers;
  size_t I = 0, J = 0;
  const auto SkipTo = [&](size_t ToI, size_t ToJ) {
    for (; I < ToI; ++I)
      Out.OnlyRef.push_back(A[I]);
    for (; J < ToJ; ++J)
      Out.OnlyOurs.push_back(B[J]);
  };
  for (auto [AtA, AtB] : align(KeysA, KeysB)) {
    SkipTo(AtA, AtB);
    LoggedPair P;
    P.Ref = A[I++];
    P.Ours = B[J++];
    Layers.insert(P.Ref.Layer);
    judge(P, Layers.size());
    Out.Pairs.push_back(std::move(P));
  }
  SkipTo(A.size(), B.size());
  if (Out.Pairs.empty())
    return failure("compare: " + Twine(RefPath) + " and " + OursPath +
                       " have no operator of one name, shape and type in "
                       "common",
                   "record both with the same model and the same inputs");
  findFirst(Out);
  Out.Verdict = Out.First ? CompareVerdict::Different
                : Out.FirstInexact ? CompareVerdict::WithinNoise
                                   : CompareVerdict::Same;
  if (!Out.OnlyRef.empty() || !Out.OnlyOurs.empty())
    Out.Verdict = CompareVerdict::Different;
  if (2 * Out.Pairs.size() < std::min(Out.RefCount, Out.OursCount))
    Out.Remarks.push_back(
        formatv("only {0} % of the operators have a partner: the two did not "
                "run the same, and pairs may be chance",
                100 * Out.Pairs.size() / std::min(Out.RefCount, Out.OursCount))
            .str());
  if (any_of(Out.Pairs, [](const LoggedPair &P) {
        return P.Figure == "checksum" && P.Relative == Infinite;
      }))
    Out.Remarks.push_back(
        "checksums tell that values differ, not by how much: log norms to tell "
        "rounding from a fault");
  return Out;
}

} // namespace culprit
