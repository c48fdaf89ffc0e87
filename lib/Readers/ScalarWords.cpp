//===- ScalarWords.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarWords.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

namespace {
enum class Word {
  Data,   ///< What a batch comes from.
  Step,   ///< What is timed.
  Batch,  ///< Either: one waits for it, and trains on it.
  Time,
  Wait,
  Unit,
  Per,
  Filler, ///< Says nothing of what is measured.
  Grad,
  Norm,
  Before, ///< The norm that clipping met.
  Clip,
  Other
};
} // namespace

static Word kindOf(StringRef W) {
  return StringSwitch<Word>(W)
      .Cases("data", "dataloader", "dataloading", "loader", "loading",
             Word::Data)
      .Cases("load", "fetch", "fetching", "prefetch", "input", Word::Data)
      .Cases("reader", "dataload", "datapipe", Word::Data)
      .Cases("step", "iter", "iteration", "update", "loop", Word::Step)
      .Case("batch", Word::Batch)
      .Cases("time", "dt", "t", "duration", "latency", "cost", Word::Time)
      .Cases("elapsed", "wall", "timing", "timings", "timer", "timers", "clock",
             Word::Time)
      .Cases("wait", "waiting", "waited", "stall", "stalled", "blocked",
             Word::Wait)
      .Cases("s", "sec", "secs", "second", "seconds", Word::Unit)
      .Cases("ms", "msec", "msecs", "millis", "milliseconds", Word::Unit)
      .Cases("us", "usec", "microseconds", Word::Unit)
      .Case("per", Word::Per)
      .Cases("avg", "mean", "average", "median", "current", "cur", "curr",
             "interval", Word::Filler)
      .Cases("full", "whole", "this", "last", "in", "next", "get", "for", "of",
             Word::Filler)
      .Cases("train", "training", "global", "total", Word::Filler)
      .Cases("grad", "grads", "gradient", "gradients", Word::Grad)
      .Cases("norm", "norms", "l2", "l2norm", Word::Norm)
      .Case("gnorm", Word::Norm)
      .Cases("pre", "before", "raw", "unclipped", "preclip", Word::Before)
      .Cases("clip", "clipping", "clipped", Word::Clip)
      .Default(Word::Other);
}

static double secondsOf(StringRef Unit) {
  return Unit.starts_with("m") && Unit != "microseconds" ? 1e-3
         : Unit == "microseconds" || Unit.starts_with("u") ? 1e-6
                                                           : 1;
}

/// The norm of all gradients: both words, and none that says which part, or
/// that it was taken behind the clipping.
static bool isGradientNorm(StringRef Normal, ArrayRef<Word> Kinds) {
  const bool Grad = is_contained(Kinds, Word::Grad) ||
                    Normal.starts_with("gnorm") || Normal.ends_with("gnorm");
  if (!Grad || !is_contained(Kinds, Word::Norm) ||
      (is_contained(Kinds, Word::Clip) && !is_contained(Kinds, Word::Before)))
    return false;
  return all_of(Kinds, [](Word W) {
    return W == Word::Grad || W == Word::Norm || W == Word::Before ||
           W == Word::Clip || W == Word::Filler || W == Word::Batch;
  });
}

/// step_time or data_time; empty for neither.
static StringLiteral timeOf(ArrayRef<Word> Kinds) {
  const auto Has = [&](Word W) { return is_contained(Kinds, W); };
  if (any_of(Kinds, [](Word W) { return W >= Word::Grad; }) ||
      !(Has(Word::Time) || Has(Word::Wait) || Has(Word::Unit)))
    return "";
  // "samples per second" counts, "seconds per step" measures.
  for (size_t I = 0; I + 1 < Kinds.size(); ++I)
    if (Kinds[I] == Word::Per && Kinds[I + 1] == Word::Unit)
      return "";
  // Whoever waits for a batch waits for data; in a step one may wait for the
  // other ranks.
  if (Has(Word::Data) || (Has(Word::Wait) && Has(Word::Batch)))
    return "data_time";
  if (!Has(Word::Wait) && (Has(Word::Step) || Has(Word::Batch)))
    return "step_time";
  return "";
}

/// Whether \p W is of something that is done to a rate, and not the rate.
static bool isOfSchedule(StringRef W) {
  return StringSwitch<bool>(W)
      .Cases("scale", "factor", "mult", "multiplier", "decay", "ratio", true)
      .Cases("patience", "steps", "schedule", "scheduler", "warmup", true)
      .Cases("init", "initial", "min", "max", "finder", "drop", "gamma", true)
      .Cases("mode", "weight", "coef", "scaling", "norm", "loss", true)
      .Case("momentum", true)
      // Of a part that has no rate, or that learns beside the model.
      .Cases("teacher", "target", "critic", "disc", "discriminator", "d", true)
      .Default(false);
}

/// mockingjay_lr, lr_model, current_lr_0, 2.workers/6.learning_rate.
static bool isRateByWords(ArrayRef<StringRef> Words) {
  if (any_of(Words, isOfSchedule))
    return false;
  const auto IsRate = [](StringRef W) {
    return W.rtrim("0123456789") == "lr" || W == "lrate"; // lr0 of YOLO
  };
  while (Words.size() > 1 && all_of(Words.back(), isDigit))
    Words = Words.drop_back();
  if (IsRate(Words.front()) || IsRate(Words.back()))
    return true;
  for (size_t I = 0; I + 1 < Words.size(); ++I)
    if (Words[I] == "learning" && Words[I + 1] == "rate")
      return I == 0 || I + 2 == Words.size();
  return false;
}

/// total_weighted_loss, gen_loss_total: of all parts, and of no part that
/// learns against the model.
static bool isTotalLoss(ArrayRef<StringRef> Words) {
  bool Loss = false, Total = false;
  for (StringRef W : Words) {
    const bool IsTotal =
        StringSwitch<bool>(W)
            .Cases("total", "sum", "weighted", "overall", "all", true)
            .Cases("full", "joint", "combined", true)
            .Default(false);
    const bool IsLoss = W == "loss" || W == "losses";
    Total |= IsTotal;
    Loss |= IsLoss;
    if (!IsTotal && !IsLoss && kindOf(W) != Word::Filler &&
        !is_contained({"gen", "generator", "g", "model", "metrics", "scalars",
                       "mini", "batch", "step"},
                      W))
      return false;
  }
  return Loss && Total;
}

StringLiteral namedByWordsAlone(StringRef Normal) {
  SmallVector<StringRef, 8> Words;
  for (StringRef Rest = Normal; !Rest.empty();) {
    const size_t End = Rest.find_first_of("_/.()|");
    if (StringRef W = Rest.take_front(End); !W.empty())
      Words.push_back(W);
    Rest = End == StringRef::npos ? "" : Rest.drop_front(End + 1);
  }
  if (Words.size() < 2 || Words[0] == "epoch") // by epochs, and not by steps
    return "";
  const bool HeldOut =
      is_contained({"val", "valid", "validation", "eval", "dev", "test"},
                   Words[0]);
  if (isTotalLoss(ArrayRef(Words).drop_front(HeldOut)))
    return HeldOut ? StringLiteral("val_loss") : StringLiteral("loss");
  const bool Rate = !HeldOut && isRateByWords(Words);
  return Rate ? StringLiteral("lr") : StringLiteral("");
}

std::optional<WordedName> namedByWords(StringRef Normal) {
  // Behind a slash stands what a group holds; time/batch of Composer is a
  // counter of batches.
  if (auto [Group, Rest] = Normal.split('/');
      !Rest.empty() && (Group == "time" || Rest.contains('/')))
    return std::nullopt;
  SmallVector<Word, 8> Kinds;
  double Factor = 1;
  for (StringRef Rest = Normal; !Rest.empty();) {
    const size_t End = Rest.find_first_of("_/.()");
    const StringRef W = Rest.take_front(End);
    Rest = End == StringRef::npos ? "" : Rest.drop_front(End + 1);
    if (W.empty())
      continue;
    Kinds.push_back(kindOf(W));
    if (Kinds.back() == Word::Unit)
      Factor = secondsOf(W);
  }
  if (Kinds.size() < 2)
    return std::nullopt;
  if (isGradientNorm(Normal, Kinds))
    return WordedName{"grad_norm", 1};
  // A sum over the run is no time of a step.
  if (StringLiteral Time = timeOf(Kinds);
      !Time.empty() && !Normal.contains("total"))
    return WordedName{Time, Factor};
  return std::nullopt;
}

} // namespace culprit
