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

/// Names of the weights, one a parameter of the optimizer number \p Number,
/// or none when they cannot be told.
static std::vector<std::string> weightsOf(int Number,
                                          const OptimizerNames &Optimizer,
                                          ArrayRef<FoundTensor> Found) {
  if (!Optimizer.Names.empty())
    return Optimizer.Names;
  std::vector<const FoundTensor *> Weights;
  for (const FoundTensor &T : Found)
    if (T.Optimizer < 0 && T.Record.Variant.empty() && !isBuffer(T) &&
        splitTensorName(T.Path).Role == "weight")
      Weights.push_back(&T);
  if (Weights.size() != Optimizer.Parameters)
    return {};
  if (Optimizer.Groups.size() == 2) {
    // Matrices decay and vectors do not: each group in the model's order.
    auto Vectors = std::stable_partition(
        Weights.begin(), Weights.end(), [](const FoundTensor *T) {
          return T->Record.Data.Shape.size() > 1;
        });
    if (size_t(Vectors - Weights.begin()) != Optimizer.Groups.front())
      return {};
  } else if (Optimizer.Groups.size() != 1) {
    return {};
  }
  for (const FoundTensor &T : Found) {
    if (T.Optimizer != Number || T.Record.Data.Shape.empty())
      continue; // the count of steps has no dimension
    if (T.Parameter < 0 || size_t(T.Parameter) >= Weights.size() ||
        Weights[T.Parameter]->Record.Data.Shape != T.Record.Data.Shape)
      return {};
  }
  std::vector<std::string> Out;
  for (const FoundTensor *T : Weights)
    Out.push_back(T->Path);
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
    if (T.Parameter >= 0 && size_t(T.Parameter) < Known.size())
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
