//===- RunShape.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunShape.h"
#include "Case/Schema.h"
#include "Support/Units.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

using namespace llvm;

namespace culprit {

namespace {

using Values = std::vector<double>;
using Number = std::optional<double>;

/// Rows of a loss below which a run has no shape.
constexpr size_t LeastRows = 4;
/// The logarithm of 0: below that of anything that is logged in earnest.
constexpr double LogOfZero = -12;

enum class Figure {
#define SHAPE(NAME, WHAT, UNIT) NAME,
#include "Case/RunShape.def"
};

struct Description {
  StringLiteral Name, Text;
};

constexpr Description Descriptions[] = {
#define SHAPE(NAME, WHAT, UNIT) {#NAME, WHAT ", " UNIT},
#include "Case/RunShape.def"
};

/// The metrics that figures are made of.
constexpr StringLiteral Metrics[] = {"loss",
                                     "val_loss",
                                     "grad_norm",
                                     "lr",
                                     "step_time",
                                     "data_time",
                                     "unchanged_share",
                                     "update_ratio",
                                     "activation_rms",
                                     "zero_share",
                                     "saturated_share",
                                     "activation_max",
                                     "grad_cosine",
                                     "max_attention_logit",
                                     "attention_entropy_share",
                                     "nonfinite"};

/// What was logged of one metric, of one layer or of the whole model.
struct Curve {
  std::vector<std::pair<int64_t, double>> Rows; ///< Steps rising; no NaN.
  size_t Logged = 0;                            ///< Rows, those of NaN too.

  bool isZero() const {
    return all_of(Rows, [](const auto &R) { return R.second == 0; });
  }
};

/// The curves of the first run.
class Curves {
public:
  explicit Curves(const Case &C);

  /// That of the whole model; without rows where there is none.
  const Curve &whole(StringRef Metric) const;
  /// Those of the layers, of which each has a row.
  std::vector<const Curve *> layers(StringRef Metric) const;

private:
  const StringPool &Pool;
  Curve None;
  /// By metric and layer, NullString for the whole model.
  MapVector<std::pair<StringId, StringId>, Curve> All;
};

} // namespace

static bool isPrimary(ArrayRef<ColumnView> V, size_t Row) {
  const ColumnView &Primary = V[scalars::primary];
  return Primary.Data->bools()[Primary.row(Row)] == 1;
}

/// The first run by name among primary rows; one without a name before all.
static StringId firstRun(const Table &T, const StringPool &Pool) {
  ArrayRef<ColumnView> V = T.columns();
  std::optional<StringId> First;
  for (size_t I = 0; I != T.rows(); ++I) {
    const StringId Run = V[scalars::run].getString(I);
    if (Run == First || !isPrimary(V, I))
      continue;
    if (!First || Run == NullString ||
        (*First != NullString && Pool.text(Run) < Pool.text(*First)))
      First = Run;
  }
  return First.value_or(NullString);
}

Curves::Curves(const Case &C) : Pool(*C.pool()) {
  const Table &T = C.table(TableId::scalars);
  if (T.empty())
    return;
  ArrayRef<ColumnView> V = T.columns();
  DenseSet<StringId> Wanted;
  for (StringRef Metric : Metrics)
    if (StringId Id = Pool.lookup(Metric))
      Wanted.insert(Id);
  const StringId Run = firstRun(T, Pool);
  for (size_t I = 0; I != T.rows(); ++I) {
    const StringId Metric = V[scalars::metric].getString(I);
    if (V[scalars::run].getString(I) != Run || !Wanted.contains(Metric) ||
        !isPrimary(V, I) || V[scalars::step].isNull(I) ||
        V[scalars::value].isNull(I))
      continue;
    Curve &To = All[{Metric, V[scalars::layer].getString(I)}];
    ++To.Logged;
    if (double Value = V[scalars::value].getDouble(I); !std::isnan(Value))
      To.Rows.push_back({V[scalars::step].getInt(I), Value});
  }
  for (auto &[Key, One] : All)
    if (!is_sorted(One.Rows, less_first()))
      stable_sort(One.Rows, less_first());
}

const Curve &Curves::whole(StringRef Metric) const {
  auto It = All.find({Pool.lookup(Metric), NullString});
  return It == All.end() ? None : It->second;
}

std::vector<const Curve *> Curves::layers(StringRef Metric) const {
  const StringId Id = Pool.lookup(Metric);
  std::vector<const Curve *> Out;
  for (const auto &[Key, One] : All)
    if (Key.first == Id && Key.second != NullString && !One.Rows.empty())
      Out.push_back(&One);
  return Out;
}

//===-- Numbers, of which there may be none -------------------------------===//

static Number logOf(Number V) {
  if (!V || *V < 0 || !std::isfinite(*V))
    return std::nullopt;
  return *V > 0 ? std::log10(*V) : LogOfZero;
}

/// The logarithm of \p A over \p B.
static Number ratio(Number A, Number B) {
  if (!A || !B || *A < 0 || *B <= 0)
    return std::nullopt;
  return logOf(*A / *B);
}

/// The upper of two in the middle.
static Number median(Values V) {
  if (V.empty())
    return std::nullopt;
  auto Middle = V.begin() + ptrdiff_t(V.size() / 2);
  std::nth_element(V.begin(), Middle, V.end());
  return *Middle;
}

static Number highest(ArrayRef<double> V) {
  return V.empty() ? Number() : *llvm::max_element(V);
}

static Number lowest(ArrayRef<double> V) {
  return V.empty() ? Number() : *llvm::min_element(V);
}

static Number last(ArrayRef<double> V) {
  return V.empty() ? Number() : V.back();
}

template <typename Range, typename Fn>
static Number shareOf(const Range &All, Fn Is) {
  const size_t Size = All.size();
  return Size ? double(count_if(All, Is)) / double(Size) : Number();
}

static bool isZero(double V) { return V == 0; }

/// The last tenth, and one value at least.
static ArrayRef<double> endOf(ArrayRef<double> V) {
  return V.take_back(std::max<size_t>(1, V.size() / 10));
}

static void addFinite(const Curve &C, Values &Into) {
  for (const auto &[Step, Value] : C.Rows)
    if (std::isfinite(Value))
      Into.push_back(Value);
}

static Values finite(const Curve &C) {
  Values Out;
  addFinite(C, Out);
  return Out;
}

/// The finite values of all layers.
static Values finite(ArrayRef<const Curve *> Layers) {
  Values Out;
  for (const Curve *C : Layers)
    addFinite(*C, Out);
  return Out;
}

/// The first value of each layer, where it is finite.
static Values firsts(ArrayRef<const Curve *> Layers) {
  Values Out;
  for (const Curve *C : Layers)
    if (std::isfinite(C->Rows.front().second))
      Out.push_back(C->Rows.front().second);
  return Out;
}

//===-- The figures -------------------------------------------------------===//

namespace {

class Shape {
public:
  explicit Shape(const Curves &Of) : Of(Of) {}

  void addLoss();
  void addWhole();
  void addLayers();

  std::map<std::string, double> Figures;

private:
  void set(Figure F, Number V);
  Values whole(StringRef Metric) const { return finite(Of.whole(Metric)); }
  Values every(StringRef Metric) const { return finite(Of.layers(Metric)); }

  const Curves &Of;
};

} // namespace

void Shape::set(Figure F, Number V) {
  if (!V)
    return;
  // 0.0 makes a zero of -0. What is large was logged as a share by mistake.
  const double Rounded =
      std::abs(*V) < 1e9 ? std::round(*V * 1e6) / 1e6 + 0.0 : *V;
  Figures[Descriptions[static_cast<size_t>(F)].Name.str()] = Rounded;
}

/// The finite value of \p C nearest to \p Step, the earlier of two.
static Number valueAt(const Curve &C, int64_t Step) {
  Number Best;
  double Least = 0;
  for (const auto &[At, Value] : C.Rows) {
    const double Away = std::abs(double(At) - double(Step));
    if (std::isfinite(Value) && (!Best || Away < Least)) {
      Best = Value;
      Least = Away;
    }
  }
  return Best;
}

/// The median of the second third of \p V, or of all where that is empty.
static Number medianOfSecondThird(ArrayRef<double> V) {
  const size_t Third = std::max<size_t>(1, V.size() / 3);
  ArrayRef<double> Second = V.drop_front(Third).take_front(Third);
  return median(Second.empty() ? V.vec() : Second.vec());
}

void Shape::addLoss() {
  const Curve &Loss = Of.whole("loss");
  const Values V = finite(Loss);
  if (V.empty())
    return;
  const ArrayRef<double> Tail = endOf(V);
  const double First = V.front();
  const double End =
      std::accumulate(Tail.begin(), Tail.end(), 0.0) / double(Tail.size());
  set(Figure::loss_end, ratio(End, First));
  set(Figure::loss_at_100, ratio(valueAt(Loss, 100), First));
  set(Figure::loss_start, logOf(First));
  set(Figure::loss_third, ratio(medianOfSecondThird(V), First));
  set(Figure::loss_low, ratio(lowest(V), First));
  set(Figure::loss_high, ratio(highest(V), First));
  set(Figure::loss_back, ratio(End, lowest(V)));
  set(Figure::loss_nonfinite,
      1 - double(V.size()) / double(Loss.Rows.size()));
  const Values Held = whole("val_loss");
  set(Figure::val_to_train, ratio(last(Held), End));
  set(Figure::val_back, ratio(last(Held), lowest(Held)));
}

/// Each rate over the one before, where both are above 0.
static Values jumpsOf(ArrayRef<double> Rates) {
  Values Out;
  for (size_t I = 1; I < Rates.size(); ++I)
    if (Rates[I - 1] > 0 && Rates[I] > 0)
      Out.push_back(Rates[I] / Rates[I - 1]);
  return Out;
}

void Shape::addWhole() {
  const Values Norms = whole("grad_norm"), Rates = whole("lr");
  const Number Usual = median(Norms);
  set(Figure::grad_median, logOf(Usual));
  set(Figure::grad_high, ratio(highest(Norms), Usual));
  if (!Norms.empty())
    set(Figure::grad_end, ratio(median(endOf(Norms).vec()), Usual));
  const Values Jumps = jumpsOf(Rates);
  set(Figure::lr_zero, shareOf(Rates, isZero));
  set(Figure::lr_jump, logOf(highest(Jumps)));
  set(Figure::lr_drop, logOf(lowest(Jumps)));
  set(Figure::lr_high, logOf(highest(Rates)));
  const Values Times = whole("step_time");
  set(Figure::time_high, ratio(highest(Times), median(Times)));
  set(Figure::data_share, ratio(median(whole("data_time")), median(Times)));
  set(Figure::unchanged, median(whole("unchanged_share")));
}

void Shape::addLayers() {
  const Values Updates = every("update_ratio"), Norms = every("grad_norm");
  const auto IsZero = [](const Curve *C) { return C->isZero(); };
  set(Figure::update_median, logOf(median(Updates)));
  set(Figure::update_high, logOf(highest(Updates)));
  set(Figure::update_zero, shareOf(Updates, isZero));
  set(Figure::layers_still, shareOf(Of.layers("update_ratio"), IsZero));
  set(Figure::layers_cut, shareOf(Of.layers("grad_norm"), IsZero));
  set(Figure::grads_zero, shareOf(Norms, isZero));
  set(Figure::zeros_high, highest(every("zero_share")));
  set(Figure::saturated, highest(every("saturated_share")));
  const Values Starts = firsts(Of.layers("activation_rms"));
  set(Figure::start_high, logOf(highest(Starts)));
  set(Figure::start_low, logOf(lowest(Starts)));
  set(Figure::act_high, logOf(highest(every("activation_max"))));
  set(Figure::cosine, median(every("grad_cosine")));
  set(Figure::logit, logOf(highest(every("max_attention_logit"))));
  set(Figure::entropy, lowest(every("attention_entropy_share")));
  const Values Counts = every("nonfinite");
  if (!Counts.empty())
    set(Figure::nonfinite, any_of(Counts, [](double V) { return V > 0; }));
}

std::map<std::string, double> runShape(const Case &C) {
  const Curves Of(C);
  Shape S(Of);
  if (Of.whole("loss").Logged < LeastRows)
    return {};
  S.addLoss();
  S.addWhole();
  S.addLayers();
  return std::move(S.Figures);
}

StringRef describeShape(StringRef Name) {
  for (const Description &D : Descriptions)
    if (D.Name == Name)
      return D.Text;
  return {};
}

std::string shapeText(StringRef Name, double Value) {
  auto [What, Unit] = describeShape(Name).rsplit(", ");
  std::string Told = formatNumber(Value, 2);
  if (Unit == "log10")
    Told = formatNumber(Value <= LogOfZero ? 0 : std::pow(10, Value), 2);
  else if (Unit == "share")
    Told = formatv("{0:F0} %", Value * 100).str();
  return (What + " (" + Told + ")").str();
}

} // namespace culprit
