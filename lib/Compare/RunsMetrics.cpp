//===- RunsMetrics.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/RunsMetrics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

static constexpr MetricKind Input = {MetricRole::Setting, MetricBetter::Unknown,
                                     MetricPhase::Input};
static constexpr MetricKind Schedule = {
    MetricRole::Setting, MetricBetter::Unknown, MetricPhase::Schedule};
static constexpr MetricKind Counted = {
    MetricRole::Setting, MetricBetter::Unknown, MetricPhase::None};
static constexpr MetricKind LowerLoss = {
    MetricRole::Quality, MetricBetter::Lower, MetricPhase::Forward};
static constexpr MetricKind HigherScore = {
    MetricRole::Quality, MetricBetter::Higher, MetricPhase::Forward};
static constexpr MetricKind LowerEval = {
    MetricRole::Quality, MetricBetter::Lower, MetricPhase::Evaluation};
static constexpr MetricKind HigherEval = {
    MetricRole::Quality, MetricBetter::Higher, MetricPhase::Evaluation};
static constexpr MetricKind LowerCost = {
    MetricRole::Cost, MetricBetter::Lower, MetricPhase::None};
static constexpr MetricKind HigherCost = {
    MetricRole::Cost, MetricBetter::Higher, MetricPhase::None};
static constexpr MetricKind Forward = {
    MetricRole::Signal, MetricBetter::Unknown, MetricPhase::Forward};
static constexpr MetricKind Backward = {
    MetricRole::Signal, MetricBetter::Unknown, MetricPhase::Backward};
static constexpr MetricKind Update = {
    MetricRole::Signal, MetricBetter::Unknown, MetricPhase::Update};
static constexpr MetricKind Unknown = {
    MetricRole::Quality, MetricBetter::Unknown, MetricPhase::None};

/// The words of \p Name: "eval/acc_norm,none" has eval, acc, norm, none.
static SmallVector<StringRef, 8> wordsOf(StringRef Name) {
  SmallVector<StringRef, 8> Out;
  while (!Name.empty()) {
    const size_t End = Name.find_first_of("/_-. ,@:()");
    if (End != 0)
      Out.push_back(Name.take_front(End));
    Name = End == StringRef::npos ? StringRef() : Name.drop_front(End + 1);
  }
  return Out;
}

/// By the words of a name that is not in the list.
static MetricKind byWords(StringRef Name) {
  const SmallVector<StringRef, 8> Words = wordsOf(Name);
  const auto Has = [&](std::initializer_list<StringRef> Any) {
    return any_of(Words, [&](StringRef W) { return is_contained(Any, W); });
  };
  if (Has({"memory", "mem", "gib", "vram", "rss", "time", "latency", "seconds",
           "secs", "duration", "elapsed", "timing", "runtime", "ms", "sec"})) {
    // tokens_per_sec is a throughput.
    if (Has({"per", "throughput"}))
      return HigherCost;
    return Has({"wall", "stamp"}) ? Counted : LowerCost;
  }
  if (Has({"throughput", "mfu", "hfu", "tflops", "tps", "fps"}))
    return HigherCost;
  if (Has({"lr", "epoch", "step", "steps", "tokens", "samples", "seed"}))
    return Counted;
  if (Has({"grad", "gradient", "gradients", "weight", "weights", "param",
           "params", "norm"}) &&
      !Has({"acc", "accuracy", "loss"}))
    return {MetricRole::Signal, MetricBetter::Unknown, MetricPhase::None};
  const bool Held = Has({"val", "valid", "validation", "eval", "test", "dev"});
  if (Has({"loss", "ppl", "perplexity", "error", "errors", "err", "nll", "bpb",
           "bpc", "wer", "cer", "mse", "mae", "rmse", "fid", "crossentropy",
           "hallucination"}))
    return Held ? LowerEval : LowerLoss;
  if (Has({"acc", "accuracy", "f1", "bleu", "rouge", "rougel", "meteor", "auc",
           "auroc", "map", "miou", "iou", "precision", "recall", "em", "mcc",
           "exact", "pass", "score", "reward", "return", "psnr", "ssim",
           "success", "win", "winrate", "acc1", "acc5", "top1", "top5", "ndcg",
           "mrr", "core", "elo"}))
    return Held ? HigherEval : HigherScore;
  return Unknown;
}

MetricKind metricKind(StringRef Name) {
  std::optional<MetricKind> Known =
      StringSwitch<std::optional<MetricKind>>(Name)
          .Cases("loss", "perplexity", LowerLoss)
          .Cases("val_loss", "val_perplexity", LowerEval)
          .Case("accuracy", HigherScore)
          .Case("val_accuracy", HigherEval)
          .Cases("reward", "score", "rewards_accuracy", "rewards_margin",
                 HigherScore)
          .Cases("policy_loss", "value_loss", "rl_loss", "kl", "policy_kl",
                 Forward)
          .Cases("entropy", "clip_ratio", "response_length", "advantage",
                 Forward)
          .Cases("batch_hash", "distinct_tokens", "loss_tokens", Input)
          .Cases("lr", "batch_size", Schedule)
          .Cases("tokens", "samples", "epoch", "skipped_iterations",
                 "nan_iterations", Counted)
          .Cases("step_time", "data_time", "memory_allocated",
                 "memory_reserved", LowerCost)
          .Cases("throughput", "mfu", HigherCost)
          .Cases("grad_norm", "grad_cosine", "num_zeros", "loss_scale",
                 "nonfinite", Backward)
          .Cases("weight_norm", "weight_rms", "update_ratio", "update_rms",
                 "update_norm", "unchanged_share", Update)
          .Cases("exp_avg_rms", "exp_avg_sq_rms", "optimizer_state_step",
                 Update)
          .Cases("activation_rms", "activation_max", "activation_mean",
                 "activation_norm", "zero_share", "saturated_share", Forward)
          .Cases("attention_entropy_share", "max_attention_logit", Forward)
          .Default(std::nullopt);
  if (Known)
    return *Known;
  return byWords(Name.lower());
}

StringRef toString(MetricRole Role) {
  switch (Role) {
  case MetricRole::Quality:
    return "quality";
  case MetricRole::Cost:
    return "cost";
  case MetricRole::Signal:
    return "signal";
  case MetricRole::Setting:
    break;
  }
  return "setting";
}

StringRef toString(MetricBetter Better) {
  switch (Better) {
  case MetricBetter::Lower:
    return "lower";
  case MetricBetter::Higher:
    return "higher";
  case MetricBetter::Unknown:
    break;
  }
  return "unknown";
}

} // namespace culprit
