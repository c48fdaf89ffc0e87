//===- ObserveTensors.cpp - Layout and values of tensors --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A lock cannot hold a gigabyte of values, and mean and norm miss a permuted
// tensor. So each of 16 equal parts of a tensor is held as the sum of its
// values with signs that a hash of the index gives. Of two tensors that differ
// by d the sums differ by the same signed sums of d, whose squares are |d|^2
// in the mean (Alon, Matias, Szegedy, 1996): the lock tells how far a new
// tensor is off, and in which part. A tensor of 16 elements is held whole.
//
// The tolerance is that of a correct run on other kernels. With the unit
// roundoff u of the format, sums over n terms and a depth of L layers leave
// (u + u32 sqrt(n)) sqrt(L) of the norm; n = 4,096 and L = 64 are those of a
// large model: 3.1e-5 for float32, 0.004 for float16, 0.031 for bfloat16.
//
//===----------------------------------------------------------------------===//

#include "Golden/Observe.h"
#include "Support/Parallel.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr int64_t Parts = 16;

static double toleranceFor(DType Type) {
  const double U = isFloating(Type) ? unitRoundoff(Type) : 0.5;
  const double Carried = std::min(U, 0x1p-24);
  // Two digits are all there is to say.
  double Out = 0;
  StringRef(formatNumber((U + Carried * 64) * 8, 2)).getAsDouble(Out);
  return std::min(Out, 1.0);
}

/// 1 or -1 by a hash of \p Index (splitmix64).
static double signOf(uint64_t Index) {
  uint64_t X = Index + 0x9e3779b97f4a7c15;
  X = (X ^ (X >> 30)) * 0xbf58476d1ce4e5b9;
  X = (X ^ (X >> 27)) * 0x94d049bb133111eb;
  return (X ^ (X >> 31)) & 1 ? 1 : -1;
}

/// The signed sums of the parts; values themselves where there are no more
/// than parts.
static std::vector<double> sketchOf(const TensorView &T) {
  const int64_t Count = T.numel();
  std::vector<double> Out;
  if (Count <= Parts) {
    for (int64_t I = 0; I < Count; ++I)
      Out.push_back(T.at(I));
    return Out;
  }
  for (int64_t Part = 0; Part != Parts; ++Part) {
    double Sum = 0;
    for (int64_t I = Count * Part / Parts; I < Count * (Part + 1) / Parts; ++I)
      if (const double V = T.at(I); std::isfinite(V))
        Sum += signOf(uint64_t(I)) * V;
    Out.push_back(Sum);
  }
  return Out;
}

namespace {
class TensorItems {
public:
  TensorItems(const Case &C, const InputNames &Names, GoldenRun &Run)
      : C(C), T(C.table(TableId::tensors)), Names(Names), Run(Run) {}

  void add(unsigned Threads);

private:
  std::string nameOf(size_t Row, StringRef File) const;
  Observation values(size_t Row, const std::string &Id) const;
  std::string text(size_t Row, unsigned Column) const {
    const ColumnView &V = T.columns()[Column];
    return V.isNull(Row) ? std::string() : T.cell(Row, V).text();
  }
  double number(size_t Row, unsigned Column) const {
    return T.columns()[Column].number(Row);
  }
  bool has(size_t Row, unsigned Column) const {
    return !T.columns()[Column].isNull(Row);
  }

  const Case &C;
  const Table &T;
  const InputNames &Names;
  GoldenRun &Run;
};
} // namespace

/// The name with what else tells tensors of one file apart and is not in the
/// file's name already.
std::string TensorItems::nameOf(size_t Row, StringRef File) const {
  std::string Out = text(Row, tensors::name);
  const auto Add = [&](StringRef Label, unsigned Column) {
    if (!has(Row, Column))
      return;
    const std::string Value = text(Row, Column);
    if (!File.contains(Value))
      Out += ("@" + Label + Value).str();
  };
  Add("step", tensors::step);
  if (has(Row, tensors::rank) && number(Row, tensors::rank) > 0)
    Add("rank", tensors::rank);
  Add("token", tensors::token);
  return Out;
}

Observation TensorItems::values(size_t Row, const std::string &Id) const {
  const TensorView &View = C.tensor(Row);
  const bool Whole = !View.Bytes.empty();
  if (Whole && !isFloating(View.Type)) {
    std::vector<int64_t> Ids;
    for (int64_t I = 0; I < View.numel(); ++I)
      Ids.push_back(View.intAt(I));
    Observation O = idsItem(Id, std::move(Ids));
    O.Item.set("shape", ArrayRef<int64_t>(View.Shape));
    O.Item.Why = "integers are exact";
    return O;
  }
  Observation O;
  GoldenItem &I = O.Item;
  I.Id = Id;
  I.Kind = GoldenKind::Statistical;
  I.Of = GoldenSubject::Tensor;
  I.set("dtype", text(Row, tensors::dtype));
  std::vector<int64_t> Shape;
  if (const ColumnView &S = T.columns()[tensors::shape]; !S.isNull(Row))
    Shape = S.Data->list(S.row(Row)).vec();
  I.set("shape", ArrayRef<int64_t>(Shape));
  const int Digits = Whole && View.Type == DType::Float64 ? 17 : 9;
  std::vector<std::pair<std::string, std::string>> Stats;
  const auto Add = [&](StringRef Name, unsigned Column) {
    if (has(Row, Column))
      Stats.push_back(
          {Name.str(), formatNumber(number(Row, Column), Digits)});
  };
  Add("nan", tensors::nan);
  Add("inf", tensors::inf);
  Add("mean", tensors::mean);
  Add("sd", tensors::std);
  Add("l2", tensors::l2);
  Add("absmax", tensors::absmax);
  I.set("stats", std::move(Stats));
  DType Type = Whole ? View.Type : DType::Float32;
  if (!Whole && (text(Row, tensors::dtype) == "bfloat16"))
    Type = DType::BFloat16;
  else if (!Whole && text(Row, tensors::dtype) == "float16")
    Type = DType::Float16;
  if (Whole) {
    I.set("sketch", sketchOf(View), Digits);
    I.set("hash", goldenHash({reinterpret_cast<const char *>(
                                  View.Bytes.data()),
                              View.Bytes.size()}));
  }
  I.Tolerance = {{"rtol", toleranceFor(Type)}};
  I.Why = (Twine("what rounding of ") + toString(Type) +
           " leaves of the norm on other kernels: sums over 4,096 terms, 64 "
           "layers deep")
              .str();
  return O;
}

void TensorItems::add(unsigned Threads) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>>
      Layouts;
  struct Planned {
    size_t Row;
    std::string Id;
  };
  std::vector<Planned> Plan;
  std::map<std::string, unsigned> Taken;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    const std::string File = Names.of(TableId::tensors, Row);
    std::string Name = nameOf(Row, File);
    if (const unsigned Before = Taken[File + "/" + Name]++)
      Name += "#" + std::to_string(Before + 1);
    Layouts[File].push_back(
        {Name, text(Row, tensors::dtype) + " " + text(Row, tensors::shape)});
    // Names without values: an index of shards, a GGUF header.
    if (!C.tensor(Row).Bytes.empty() || has(Row, tensors::l2) ||
        has(Row, tensors::mean))
      Plan.push_back({Row, "tensors/" + File + "/" + Name});
  }
  std::vector<std::optional<Observation>> Made(Plan.size());
  inParallel(Plan.size(), Threads, [&](size_t I) {
    Made[I].emplace(values(Plan[I].Row, Plan[I].Id));
    Made[I]->Where = Names.of(TableId::tensors, Plan[I].Row);
  });
  for (std::optional<Observation> &O : Made)
    Run.Items.push_back(std::move(*O));
  for (auto &[File, Fields] : Layouts) {
    Observation O;
    O.Item.Id = "layout/" + File;
    O.Item.Kind = GoldenKind::Structural;
    O.Item.Of = GoldenSubject::Layout;
    O.Where = File;
    llvm::sort(Fields);
    O.Item.set("fields", std::move(Fields));
    O.Item.Why = "names, types and shapes have no chance in them";
    Run.Items.push_back(std::move(O));
  }
}

void observeTensors(const Case &C, const InputNames &Names, unsigned Threads,
                    GoldenRun &Run) {
  if (C.has(TableId::tensors))
    TensorItems(C, Names, Run).add(Threads);
}

} // namespace culprit
