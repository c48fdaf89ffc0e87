//===- TorchNames.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TorchNames.h"
#include "Case/TensorNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

static bool isOneOf(StringRef Text, ArrayRef<StringLiteral> Words) {
  return is_contained(Words, Text);
}

bool isModelKey(StringRef Key) {
  return isOneOf(Key, {"model", "state_dict", "model_state_dict", "model_state",
                       "module", "net", "network", "weights", "params",
                       "network_weights", "model_weights"});
}

bool isAverageKey(StringRef Key) {
  return isOneOf(Key, {"ema", "model_ema", "ema_model", "state_dict_ema",
                       "ema_state_dict", "model_ema_state_dict",
                       "ema_model_state_dict", "params_ema"});
}

bool isStepKey(StringRef Key) {
  return isOneOf(Key, {"step", "global_step", "global_steps", "iteration",
                       "iter", "it", "iter_num", "current_step", "num_updates",
                       "train_step", "train_steps", "completed_steps",
                       "steps_run"});
}

std::optional<OptimizerNames> optimizerNames(const DataTree &Tree,
                                             DataValue Dict) {
  DataValue Groups = Tree.find(Dict, "param_groups");
  if (!Tree.is(Groups, Kind::List) ||
      !Tree.is(Tree.find(Dict, "state"), Kind::Dict))
    return std::nullopt;
  OptimizerNames Out;
  bool AllNamed = true;
  for (DataValue Group : Tree.items(Groups)) {
    size_t Parameters = Tree.items(Tree.find(Group, "params")).size();
    Out.Groups.push_back(Parameters);
    Out.Parameters += Parameters;
    ArrayRef<DataValue> Names = Tree.items(Tree.find(Group, "param_names"));
    AllNamed &= Names.size() == Parameters;
    for (DataValue Name : Names)
      Out.Names.push_back(Tree.text(Name).str());
  }
  if (!AllNamed)
    Out.Names.clear();
  return Out;
}

/// Whether the optimizer does not see the tensor \p T of a state_dict. A
/// "bias" of GPT-2's attention with more than one dimension is a causal mask.
static bool isBuffer(const FoundTensor &T) {
  StringRef Last = StringRef(T.Path).substr(T.Path.rfind('.') + 1);
  return isOneOf(Last, {"running_mean", "running_var", "num_batches_tracked",
                        "inv_freq", "position_ids", "attn_bias", "masked_bias",
                        "causal_mask"}) ||
         (Last == "bias" && T.Record.Data.Shape.size() > 1);
}

namespace {

using Weights = std::vector<const FoundTensor *>;

/// Of each of an optimizer's parameters the weight that it is, or null.
using Owners = std::vector<const FoundTensor *>;

/// Of each of an optimizer's parameters the shape of its moments; null for one
/// without any.
using Shapes = std::vector<const FoundTensor *>;

} // namespace

/// Whether recipes keep decay away from \p T: from vectors and, if \p ByName,
/// from what stands for a place or a token.
static bool isUndecayed(const FoundTensor &T, bool ByName) {
  StringRef Last = StringRef(T.Path).substr(T.Path.rfind('.') + 1);
  return T.Record.Data.Shape.size() <= 1 ||
         (ByName && (Last.contains("pos_embed") || Last.contains("bias") ||
                     Last.ends_with("_token")));
}

/// The shapes of the moments of optimizer \p Number, which has \p Count
/// parameters; nothing where those of one parameter differ.
static std::optional<Shapes> shapesOf(int Number, size_t Count,
                                      ArrayRef<FoundTensor> Found) {
  Shapes Out(Count);
  for (const FoundTensor &T : Found) {
    if (T.Optimizer != Number || T.Record.Data.Shape.empty())
      continue; // the count of steps has no dimension
    if (T.Parameter < 0 || size_t(T.Parameter) >= Count)
      return std::nullopt;
    const FoundTensor *&Known = Out[T.Parameter];
    if (Known && Known->Record.Data.Shape != T.Record.Data.Shape)
      return std::nullopt;
    Known = &T;
  }
  return Out;
}

static bool fits(const FoundTensor *Moment, const FoundTensor *Weight) {
  return !Moment || Moment->Record.Data.Shape == Weight->Record.Data.Shape;
}

/// Appends to \p Out which of \p Of the parameters with moments \p Moments
/// are, in the order of both: all of them or, if they are fewer, those that can
/// be no other. Returns whether there is any way.
static bool appendOwners(ArrayRef<const FoundTensor *> Of,
                         ArrayRef<const FoundTensor *> Moments, Owners &Out) {
  // As far to the front as can be, and as far to the back.
  std::vector<size_t> First, Last;
  for (size_t W = 0; W != Of.size() && First.size() != Moments.size(); ++W)
    if (fits(Moments[First.size()], Of[W]))
      First.push_back(W);
  if (First.size() != Moments.size())
    return false;
  for (size_t W = Of.size(); W != 0 && Last.size() != Moments.size(); --W)
    if (fits(Moments[Moments.size() - 1 - Last.size()], Of[W - 1]))
      Last.push_back(W - 1);
  for (size_t I = 0; I != Moments.size(); ++I)
    Out.push_back(First[I] == Last[Moments.size() - 1 - I] ? Of[First[I]]
                                                           : nullptr);
  return true;
}

/// Keeps in \p Known what \p Other says too; takes that if it is the first.
static void agree(std::optional<Owners> &Known, const Owners &Other) {
  if (!Known)
    Known = Other;
  else
    for (size_t I = 0; I != Other.size(); ++I)
      if ((*Known)[I] != Other[I])
        (*Known)[I] = nullptr;
}

/// The weights that an optimizer of \p Parameters may hold, in the order of the
/// file. Some have names of their own, as pos_embed: these are among them if
/// the others are not as many.
static Weights candidates(size_t Parameters, ArrayRef<FoundTensor> Found) {
  Weights Named, All;
  for (const FoundTensor &T : Found) {
    if (T.Optimizer >= 0 || !T.Record.Variant.empty() || isBuffer(T))
      continue;
    std::string Role = splitTensorName(T.Path).Role;
    if (Role == "weight")
      Named.push_back(&T);
    if (Role == "weight" || (Role == "value" && isFloating(T.Record.Data.Type)))
      All.push_back(&T);
  }
  return Named.size() == Parameters ? Named : All;
}

/// Which of \p All the parameters are whose moments are \p Moments, where two
/// groups share them: one decays and one does not, each in the model's order.
static std::optional<Owners> ownersByDecay(const Weights &All, size_t FirstGroup,
                                           const Shapes &Moments) {
  std::optional<Owners> Known;
  for (bool ByName : {false, true}) {
    for (bool DecayedFirst : {true, false}) {
      Weights Sorted = All;
      auto Second = std::stable_partition(
          Sorted.begin(), Sorted.end(), [=](const FoundTensor *T) {
            return isUndecayed(*T, ByName) != DecayedFirst;
          });
      ArrayRef<const FoundTensor *> Parts(Sorted), Of(Moments);
      size_t Here = Second - Sorted.begin();
      Owners Out;
      if (appendOwners(Parts.take_front(Here), Of.take_front(FirstGroup),
                       Out) &&
          appendOwners(Parts.drop_front(Here), Of.drop_front(FirstGroup), Out))
        agree(Known, Out);
    }
  }
  return Known;
}

/// Whether no other of \p All has the shape of \p T.
static bool isAlone(const Weights &All, const FoundTensor &T) {
  return llvm::count_if(All, [&](const FoundTensor *Other) {
           return Other->Record.Data.Shape == T.Record.Data.Shape;
         }) == 1;
}

/// Names of the weights, one a parameter of the optimizer number \p Number,
/// empty where it cannot be told.
static std::vector<std::string> weightsOf(int Number,
                                          const OptimizerNames &Optimizer,
                                          ArrayRef<FoundTensor> Found) {
  if (!Optimizer.Names.empty())
    return Optimizer.Names;
  Weights All = candidates(Optimizer.Parameters, Found);
  std::optional<Shapes> Moments =
      shapesOf(Number, Optimizer.Parameters, Found);
  if (!Moments || All.size() < Optimizer.Parameters)
    return {};
  std::optional<Owners> Known;
  if (Optimizer.Groups.size() == 2)
    Known = ownersByDecay(All, Optimizer.Groups.front(), *Moments);
  // One group is in the model's order. Of several that are not decay's it is
  // not known which comes first: a shape that no other weight has tells.
  if (Owners Out; !Known && appendOwners(All, *Moments, Out)) {
    if (Optimizer.Groups.size() > 1)
      for (const FoundTensor *&Owner : Out)
        if (Owner && !isAlone(All, *Owner))
          Owner = nullptr;
    Known = Out;
  }
  std::vector<std::string> Out;
  for (const FoundTensor *T : Known.value_or(Owners()))
    Out.push_back(T ? T->Path : std::string());
  return Out;
}

void nameLayers(std::vector<FoundTensor> &Found,
                ArrayRef<OptimizerNames> Optimizers) {
  std::vector<std::vector<std::string>> Weights;
  for (size_t I = 0; I != Optimizers.size(); ++I)
    Weights.push_back(weightsOf(static_cast<int>(I), Optimizers[I], Found));
  for (FoundTensor &T : Found) {
    if (!T.Record.Layer.empty() || T.Path.empty())
      continue; // told already, or by the name of the file
    TensorName Name = splitTensorName(T.Path);
    T.Record.Layer = std::move(Name.Layer);
    T.Record.Role = std::move(Name.Role);
    if (T.Optimizer < 0)
      continue;
    T.Record.Role = "state";
    const std::vector<std::string> &Known = Weights[T.Optimizer];
    if (T.Parameter >= 0 && size_t(T.Parameter) < Known.size() &&
        !Known[T.Parameter].empty())
      T.Record.Layer = splitTensorName(Known[T.Parameter]).Layer;
  }
}

std::optional<EngineName> engineName(StringRef Stem) {
  static constexpr struct {
    StringLiteral Tensor, Role;
  } Tensors[] = {{"activation", "input"}, {"gradient", "grad"},
                 {"weight", "weight"},    {"output", "output"},
                 {"wgrad", "grad"},       {"dgrad", "grad"}};
  auto [Name, Digits] = Stem.rsplit("_iter_");
  EngineName Out;
  if (Digits.empty() || Digits.size() > 12 || !all_of(Digits, isDigit) ||
      Digits.getAsInteger(10, Out.Step))
    return std::nullopt;
  for (const auto &[Tensor, Role] : Tensors) {
    StringRef Layer = Name;
    if (!Layer.consume_back(Tensor) || !Layer.consume_back("_") ||
        Layer.empty())
      continue;
    Out.Layer = Layer;
    Out.Tensor = Tensor;
    Out.Role = Role;
    return Out;
  }
  return std::nullopt;
}

} // namespace culprit
