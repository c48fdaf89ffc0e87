//===- ScalarNames.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarNames.h"
#include "Readers/ScalarUnits.h"
#include "Readers/ScalarWords.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include <cstring>

using namespace llvm;

namespace culprit {

namespace {
struct ScalarAlias {
  StringRef Canonical;
  double Factor;
  bool Weak = false;
};

struct ScalarAliases {
  StringMap<ScalarAlias> Scalars, Layers;
  StringMap<StringRef> Validation;
  StringMap<FieldKind> Fields;
  StringSet<> Groups;

  ScalarAliases() {
#define SCALAR(CANONICAL, RAW) Scalars[RAW] = {#CANONICAL, 1};
#define KIND(CANONICAL, RAW) Scalars[RAW] = {#CANONICAL, 1, true};
#define GROUP(RAW) Groups.insert(RAW);
#define SCALED(CANONICAL, RAW, FACTOR) Scalars[RAW] = {#CANONICAL, FACTOR};
#define LAYER(METRIC, RAW) Layers[RAW] = {#METRIC, 1};
#define VALIDATION(CANONICAL, OF) Validation[#OF] = #CANONICAL;
#define FIELD(KIND, RAW) Fields[RAW] = FieldKind::KIND;
#include "Readers/ScalarNames.def"
  }
};
} // namespace

static const ScalarAliases &scalarAliases() {
  // On first use: nothing is constructed before main.
  static const ScalarAliases N;
  return N;
}

/// Lower case, blanks and hyphens as underscores: "Grad-Norm" and "grad norm"
/// are one name.
static std::string normalisedScalar(StringRef Raw) {
  std::string Out;
  for (char C : Raw.trim())
    Out += C == ' ' || C == '-' ? '_' : toLower(C);
  return Out;
}

static const ScalarAlias *find(StringRef Normal) {
  const ScalarAliases &N = scalarAliases();
  auto It = N.Scalars.find(Normal);
  return It == N.Scalars.end() ? nullptr : &It->second;
}

/// Removes one of \p Prefixes followed by a separator; a bare prefix stays.
static bool stripPrefix(StringRef &Name, ArrayRef<StringRef> Prefixes) {
  for (StringRef Prefix : Prefixes)
    if (Name.size() > Prefix.size() + 1 && Name.starts_with(Prefix) &&
        StringRef("/_.|").contains(Name[Prefix.size()])) { // | of Lightning
      Name = Name.drop_front(Prefix.size() + 1);
      return true;
    }
  return false;
}

/// The alias of a time or a rate whose unit, or whose word for an average, the
/// list does not have: avg_batch_cost, iter_time_(ms), tokens_per_s. It gives
/// way to a name that the list has.
static std::optional<ScalarAlias> findMeasured(StringRef Normal) {
  if (isWorkRate(Normal))
    return ScalarAlias{"throughput", 1, true};
  std::optional<BareName> Bare = withoutUnit(Normal);
  if (!Bare)
    return std::nullopt;
  // "data_ms" and "data_loading_(s)" leave out the word that the unit implies.
  const ScalarAlias *Is = find(Bare->Name);
  if (!Is && Bare->Unit)
    Is = find(Bare->Name + "_time");
  if (!Is || Is->Factor != 1)
    return std::nullopt;
  bool Time = Is->Canonical == "step_time" || Is->Canonical == "data_time";
  if (!Time && (Is->Canonical != "throughput" || Bare->Unit))
    return std::nullopt;
  return ScalarAlias{Is->Canonical, Bare->Factor, true};
}

static std::optional<ScalarAlias> findOfSplit(StringRef Normal);

/// The alias of what stands behind a group. A word that means one thing alone
/// may mean another of its group: time/epoch is no counter of epochs,
/// data/scale no loss scale and system/memory that of the host.
static std::optional<ScalarAlias> findInGroup(StringRef Normal) {
  size_t End = Normal.find_first_of("/.");
  StringRef Group = Normal.take_front(End);
  if (End == StringRef::npos || !scalarAliases().Groups.contains(Group))
    return std::nullopt;
  StringRef Rest = Normal.drop_front(End + 1);
  bool OfDevice = Group == "gpu" || Group == "cuda" || Group == "device";
  bool OfScaler = Group == "amp" || Group.starts_with("grad");
  bool OfGradient = Group.starts_with("grad") || Group.starts_with("opt");
  if ((Rest == "scale" && !OfScaler) || (Rest == "memory" && !OfDevice) ||
      (Rest == "norm" && !OfGradient))
    return std::nullopt;
  std::optional<ScalarAlias> Inner = findOfSplit(Rest);
  if (Inner && Group.starts_with("tim") && Inner->Canonical != "step_time" &&
      Inner->Canonical != "data_time" && Inner->Canonical != "throughput")
    return std::nullopt;
  return Inner;
}

/// The alias of a name that may stand behind the split it was taken on, or in
/// a group.
static std::optional<ScalarAlias> findOfSplit(StringRef Normal) {
  if (const ScalarAlias *Whole = find(Normal))
    return *Whole;
  if (std::optional<ScalarAlias> Inner = findInGroup(Normal))
    return Inner;
  StringRef Rest = Normal;
  if (stripPrefix(Rest, {"train_inner", "train", "training", "trainer",
                         "trainiterstats", "metrics", "scalars"})) {
    // OpenCLIP's train/scale is that of its logits, and the train_time of
    // modded-nanogpt that of all steps so far.
    if (Rest == "scale" ||
        (Rest.starts_with("time") && Normal.starts_with("train") &&
         !StringRef("/.|").contains(Normal[Normal.size() - Rest.size() - 1])))
      return std::nullopt;
    // train/val_loss exists in the wild and is a validation loss.
    if (std::optional<ScalarAlias> Inner = findOfSplit(Rest))
      return Inner;
    // Lightning logs train_loss_step beside train_loss_epoch, its mean.
    if (Rest.consume_back("_step"))
      if (const ScalarAlias *Inner = find(Rest))
        return *Inner;
    return std::nullopt;
  }
  if (std::optional<ScalarAlias> Measured = findMeasured(Normal))
    return Measured;
  if (std::optional<WordedName> Worded = namedByWords(Normal))
    return ScalarAlias{Worded->Canonical, Worded->Factor, true};
  if (stripPrefix(Rest, {"val", "vali", "valid", "validation", "validate",
                         "eval", "evaluation", "dev", "cv", "heldout",
                         "held_out", "holdout", "evalstats"})) {
    if (Rest.starts_with("_")) // Trainer.evaluate on several sets
      return std::nullopt;
    Rest.consume_back("_epoch"); // Lightning, of what has no other means
    std::optional<ScalarAlias> Inner;
    if (const ScalarAlias *Known = find(Rest))
      Inner = *Known;
    else
      Inner = findInGroup(Rest);
    if (!Inner)
      return std::nullopt;
    auto It = scalarAliases().Validation.find(Inner->Canonical);
    // The speed and memory of an evaluation are not those of training.
    if (It != scalarAliases().Validation.end())
      return ScalarAlias{It->second, Inner->Factor, Inner->Weak};
  }
  return std::nullopt;
}

/// The learning rate as Lightning and Composer name it, after the optimizer's
/// class: lr-AdamW, lr-Ranger/pg1, lr-DecoupledLionW/group0; of several groups
/// the first.
static bool isRateOfOptimizer(StringRef Raw) {
  if (!Raw.consume_front("lr-") || Raw.empty() || !isUpper(Raw[0]))
    return false;
  Raw = Raw.drop_while(isAlnum);
  return Raw.empty() || Raw == "/pg1" || Raw == "/group0";
}

FieldKind fieldKind(StringRef Raw) {
  const ScalarAliases &N = scalarAliases();
  auto It = N.Fields.find(normalisedScalar(Raw));
  return It == N.Fields.end() ? FieldKind::Scalar : It->second;
}

/// Metrics that a layer may be appended to, as in grad_norm/blocks.0.
static bool isPerLayer(StringRef Canonical) {
  for (StringRef Metric :
       {"grad_norm", "weight_norm", "update_ratio", "update_norm", "zero_share",
        "nonfinite", "activation_norm", "activation_rms", "activation_max",
        "max_attention_logit", "entropy", "lr"})
    if (Canonical == Metric)
      return true;
  return false;
}

/// Whether what stands behind a metric says what of it was taken, and no layer:
/// grad_norm/max, weight_norm/std, grad_norm/p90, grad_norm/n_nonfinite.
static bool isStatistic(StringRef Name) {
  if (Name.size() > 1 && Name[0] == 'p' && all_of(Name.drop_front(), isDigit))
    return true;
  return Name.starts_with("n_") || Name.starts_with("num_") ||
         StringSwitch<bool>(Name)
             .Cases("min", "max", "mean", "std", "median", "avg", "sum", true)
             .Cases("var", "count", "clipped", "ratio", "scale", "wd", true)
             .Cases("loss", "grads", "params", "weights", true)
             .Default(false);
}

/// A name without what some trainers put into it: numbers in front of its parts
/// (muzero-general: 3.loss/1.total_loss), an underscore there (train/_loss),
/// the mean of a set of losses behind it (tianshou: update/loss/mean), a dot
/// for a blank (tacotron2: learning.rate).
static std::string asUsual(StringRef Normal) {
  Normal.consume_back("/mean");
  // OpenVLA: VLA Train/Loss.
  if (size_t Slash = Normal.find('/');
      Slash != StringRef::npos && Normal.take_front(Slash).ends_with("_train"))
    Normal = Normal.drop_front(Slash - strlen("train"));
  if (!Normal.contains('/'))
    return join(split(Normal, '.'), "_");
  std::string Out;
  for (StringRef Part : split(Normal, '/')) {
    StringRef Rest = Part.drop_while(isDigit);
    if (Rest.size() < Part.size() && Rest.consume_front(".") &&
        !Rest.empty() && isAlpha(Rest[0]))
      Part = Rest;
    Part.consume_front("_");
    Out += (Out.empty() ? "" : "/") + Part.str();
  }
  return Out;
}

static ScalarName ofLayer(StringRef Metric, StringRef Layer, double Factor,
                          bool Known) {
  return {(Metric + "/" + Layer).str(), Metric.str(), Layer.str(), Factor,
          Known};
}

ScalarName scalarName(StringRef Raw) {
  std::string Normal = normalisedScalar(Raw);
  // Lightning numbers several sets of an evaluation; the first is the set.
  if (StringRef First = Normal; First.consume_back("/dataloader_idx_0"))
    Normal = First.str();
  if (isRateOfOptimizer(Raw.trim()))
    Normal = "lr";
  if (std::optional<ScalarAlias> Found = findOfSplit(Normal))
    return {Found->Canonical.str(), Found->Canonical.str(), "", Found->Factor,
            true, Found->Weak};
  // A metric of the training set, as audiotools calls it: no layer's name.
  if (StringRef Whole = Normal; Whole.consume_back("/train"))
    if (std::optional<ScalarAlias> Found = findOfSplit(Whole);
        Found && !Found->Canonical.starts_with("val_"))
      return {Found->Canonical.str(), Found->Canonical.str(), "", Found->Factor,
              true, Found->Weak};
  // Transformers evaluates several sets as eval_<set>_loss: a series each.
  if (StringRef Set = Normal;
      Set.consume_front("eval_") && Set.consume_back("_loss") &&
      !Set.empty() && !Set.contains('/'))
    return ofLayer("val_loss", Set, 1, true);
  // metric/<layer>: the longest metric in front wins.
  for (size_t Slash = Normal.rfind('/'); Slash != std::string::npos && Slash;
       Slash = Normal.rfind('/', Slash - 1)) {
    std::optional<ScalarAlias> Found =
        findOfSplit(StringRef(Normal).take_front(Slash));
    StringRef Layer = Raw.trim().drop_front(Slash + 1);
    if (Found && isPerLayer(Found->Canonical) && !Layer.empty() &&
        !isStatistic(Layer) && StringRef(Normal).take_front(Slash) != "norm")
      return ofLayer(Found->Canonical, Layer, Found->Factor, true);
  }
  std::string Usual = asUsual(Normal);
  std::optional<ScalarAlias> Last;
  if (Usual != Normal)
    Last = findOfSplit(Usual);
  if (!Last)
    if (StringLiteral Canonical = namedByWordsAlone(Usual); !Canonical.empty())
      Last = ScalarAlias{Canonical, 1};
  if (Last)
    return {Last->Canonical.str(), Last->Canonical.str(), "", Last->Factor,
            true, true};
  StringRef Own = Raw.trim();
  return {Own.str(), Own.str(), "", 1, false};
}

ScalarName layerScalarName(StringRef Raw, StringRef Layer) {
  std::string Normal = normalisedScalar(Raw);
  const ScalarAliases &N = scalarAliases();
  if (auto It = N.Layers.find(Normal); It != N.Layers.end())
    return ofLayer(It->second.Canonical, Layer, It->second.Factor, true);
  if (const ScalarAlias *Found = find(Normal))
    return ofLayer(Found->Canonical, Layer, Found->Factor, true);
  return ofLayer(Raw.trim(), Layer, 1, false);
}

bool isLossLike(StringRef Raw) {
  std::string Metric = scalarName(Raw).Metric;
  for (StringRef Known : {"loss", "val_loss", "accuracy", "val_accuracy",
                          "perplexity", "val_perplexity", "reward"})
    if (Metric == Known)
      return true;
  return Raw.contains_insensitive("loss") && !Raw.contains_insensitive("scale");
}

} // namespace culprit
