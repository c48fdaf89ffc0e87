//===- LayerShape.cpp - The shape of what layers logged ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunFigures.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {

/// The curves of one metric, layer by layer.
class Layers {
public:
  Layers(const RunCurves &Of, StringRef Metric) {
    for (const auto &[Layer, C] : Of.layers(Metric)) {
      Named.push_back(Layer);
      Rows.push_back(C);
      Each.push_back(finite(*C));
    }
  }

  bool empty() const { return Each.empty(); }

  /// The finite values of all layers.
  Values all() const {
    Values Out;
    for (const Values &V : Each)
      Out.insert(Out.end(), V.begin(), V.end());
    return Out;
  }
  /// The first value that each layer logged, where it is finite.
  Values starts() const {
    Values Out;
    for (const Curve *C : Rows)
      if (double V = C->Rows.front().second; std::isfinite(V))
        Out.push_back(V);
    return Out;
  }
  /// What \p Of says of the finite values of each layer that has some.
  template <typename Fn> Values of(Fn Of) const {
    Values Out;
    for (const Values &V : Each)
      if (!V.empty())
        Out.push_back(*Of(V));
    return Out;
  }
  Values firsts() const { return of(culprit::first); }
  Values lasts() const { return of(culprit::last); }
  Values medians() const {
    return of([](const Values &V) { return culprit::median(V); });
  }
  /// The last value of each layer over its first, as a logarithm.
  Values growths() const {
    Values Out;
    for (const Values &V : Each)
      if (Number Growth = ratio(last(V), first(V)))
        Out.push_back(*Growth);
    return Out;
  }
  /// The share of layers whose every row is 0.
  Number still() const {
    return shareOf(Rows, [](const Curve *C) {
      return all_of(C->Rows, [](const auto &R) { return R.second == 0; });
    });
  }

  std::vector<StringId> Named;
  std::vector<Values> Each;

private:
  std::vector<const Curve *> Rows;
};

/// How far the layers with the most and the least lie from the middle one.
struct Spread {
  Number Above, Below;

  explicit Spread(const Layers &Of) {
    Values Medians = Of.medians();
    erase_if(Medians, [](double V) { return !(V > 0); });
    if (Medians.size() < 2)
      return;
    Above = ratio(highest(Medians), median(Medians));
    Below = ratio(lowest(Medians), median(Medians));
  }
};

} // namespace

static bool isZero(double V) { return V == 0; }

static void addUpdates(const RunCurves &Of, RunFigures &To) {
  const Layers Updates(Of, "update_ratio");
  const Values All = Updates.all(), Medians = Updates.medians();
  const Spread Apart(Updates);
  To.set(Figure::update_median, logOf(median(All)));
  To.set(Figure::update_high, logOf(highest(All)));
  To.set(Figure::update_zero, shareOf(All, isZero));
  To.set(Figure::layers_still, Updates.still());
  To.set(Figure::update_first, logOf(median(Updates.firsts())));
  To.set(Figure::update_last, ratio(median(Updates.lasts()), median(Medians)));
  To.set(Figure::update_low, logOf(lowest(Medians)));
  To.set(Figure::update_per_lr,
         ratio(median(Medians), median(finite(Of.whole("lr")))));
  To.set(Figure::updates_above, Apart.Above);
  To.set(Figure::updates_below, Apart.Below);
}

static void addLayerGradients(const RunCurves &Of, RunFigures &To) {
  const Layers Norms(Of, "grad_norm"), Cosines(Of, "grad_cosine");
  const Spread Apart(Norms);
  const Values Growths = Norms.growths();
  To.set(Figure::layers_cut, Norms.still());
  To.set(Figure::grads_zero, shareOf(Norms.all(), isZero));
  To.set(Figure::grads_above, Apart.Above);
  To.set(Figure::grads_below, Apart.Below);
  double Most = 0, Sum = 0;
  for (double Norm : Norms.medians()) {
    Most = std::max(Most, Norm * Norm);
    Sum += Norm * Norm;
  }
  if (Sum > 0)
    To.set(Figure::grads_in_one, Most / Sum);
  To.set(Figure::grads_growth, median(Growths));
  To.set(Figure::grads_growth_high, highest(Growths));
  To.set(Figure::grads_growth_low, lowest(Growths));
  To.set(Figure::cosine, median(Cosines.all()));
  To.set(Figure::cosine_first, median(Cosines.firsts()));
  To.set(Figure::cosine_last, median(Cosines.lasts()));
  To.set(Figure::cosine_high, highest(Cosines.medians()));
  To.set(Figure::cosine_low, lowest(Cosines.medians()));
  To.set(Figure::square_growth,
         median(Layers(Of, "exp_avg_sq_rms").growths()));
}

/// Of each layer that logged both as often, its last mean over its last rms.
static Values meanShares(const RunCurves &Of, const Layers &Sizes) {
  const Layers Means(Of, "activation_mean");
  DenseMap<StringId, size_t> Place;
  for (size_t I = 0; I != Sizes.Named.size(); ++I)
    Place[Sizes.Named[I]] = I;
  Values Out;
  for (size_t I = 0; I != Means.Named.size(); ++I) {
    auto At = Place.find(Means.Named[I]);
    if (At == Place.end())
      continue;
    const Values &Mean = Means.Each[I], &Size = Sizes.Each[At->second];
    if (!Mean.empty() && Mean.size() == Size.size() && Size.back() > 0)
      Out.push_back(std::abs(Mean.back()) / Size.back());
  }
  return Out;
}

static void addActivations(const RunCurves &Of, RunFigures &To) {
  const Layers Sizes(Of, "activation_rms"), Zeros(Of, "zero_share");
  const Spread Apart(Sizes);
  const Values Starts = Sizes.starts(), Growths = Sizes.growths(),
               Shares = meanShares(Of, Sizes);
  To.set(Figure::start_high, logOf(highest(Starts)));
  To.set(Figure::start_low, logOf(lowest(Starts)));
  To.set(Figure::act_high, logOf(highest(Layers(Of, "activation_max").all())));
  To.set(Figure::acts_above, Apart.Above);
  To.set(Figure::acts_below, Apart.Below);
  To.set(Figure::acts_growth, median(Growths));
  To.set(Figure::acts_growth_high, highest(Growths));
  To.set(Figure::acts_growth_low, lowest(Growths));
  To.set(Figure::mean_share, median(Shares));
  To.set(Figure::mean_share_high, highest(Shares));
  To.set(Figure::zeros_high, highest(Zeros.all()));
  To.set(Figure::zeros_first, highest(Zeros.firsts()));
  To.set(Figure::zeros_growth, highest(Zeros.of([](const Values &V) {
    return Number(V.back() - V.front());
  })));
  To.set(Figure::saturated, highest(Layers(Of, "saturated_share").all()));
}

static void addWeights(const RunCurves &Of, RunFigures &To) {
  const Values Growths = Layers(Of, "weight_norm").growths();
  const Values Unchanged = Layers(Of, "unchanged_share").medians();
  To.set(Figure::weights_growth, median(Growths));
  To.set(Figure::weights_growth_high, highest(Growths));
  To.set(Figure::weights_growth_low, lowest(Growths));
  To.set(Figure::unchanged_high, highest(Unchanged));
  To.set(Figure::unchanged_layers, median(Unchanged));
}

static void addAttention(const RunCurves &Of, RunFigures &To) {
  const Layers Logits(Of, "max_attention_logit"),
      Entropies(Of, "attention_entropy_share");
  To.set(Figure::logit, logOf(highest(Logits.all())));
  To.set(Figure::logit_growth, highest(Logits.growths()));
  To.set(Figure::entropy, lowest(Entropies.all()));
  To.set(Figure::entropy_first, lowest(Entropies.firsts()));
  To.set(Figure::entropy_last, median(Entropies.lasts()));
}

void addLayerFigures(const RunCurves &Of, RunFigures &To) {
  addUpdates(Of, To);
  addLayerGradients(Of, To);
  addActivations(Of, To);
  addWeights(Of, To);
  addAttention(Of, To);
  const Values Counts = Layers(Of, "nonfinite").all();
  if (!Counts.empty())
    To.set(Figure::nonfinite, any_of(Counts, [](double V) { return V > 0; }));
}

} // namespace culprit
