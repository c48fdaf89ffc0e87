//===- SettingSide.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingSide.h"
#include "Case/SettingValue.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace culprit {

/// The library that reads a configuration with key \p Plain; empty where the
/// key does not tell.
static StringRef libraryOf(StringRef Plain) {
  const StringRef Leaf = Plain.substr(Plain.rfind('.') + 1);
  static constexpr StringRef Trainer[] = {
      "per_device_train_batch_size", "num_train_epochs", "lr_scheduler_type",
      "per_device_eval_batch_size",  "save_total_limit"};
  static constexpr StringRef Vllm[] = {
      "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens",
      "enforce_eager", "enable_prefix_caching", "served_model_name"};
  static constexpr StringRef Megatron[] = {
      "tensor_model_parallel_size", "pipeline_model_parallel_size",
      "ffn_hidden_size", "lr_warmup_iters", "clip_grad"};
  static constexpr StringRef Peft[] = {"peft_type", "fan_in_fan_out",
                                       "init_lora_weights"};
  static constexpr StringRef OpenAi[] = {"max_completion_tokens", "messages",
                                         "reasoning_effort",
                                         "parallel_tool_calls"};
  if (Plain.starts_with("generation."))
    return "hf-generation";
  if (is_contained(Trainer, Leaf))
    return "hf";
  if (is_contained(Vllm, Leaf))
    return "vllm";
  if (is_contained(Megatron, Leaf))
    return "megatron";
  if (is_contained(Peft, Leaf))
    return "peft";
  if (is_contained(OpenAi, Leaf) || Plain.starts_with("messages."))
    return "openai";
  return "";
}

/// gpt-4o, o3-mini: served by OpenAI alone, and so with its defaults.
static bool isOpenAiModel(StringRef Name) {
  Name = Name.trim("\"' ");
  return (Name.starts_with("gpt-") && Name.size() > 4 && isDigit(Name[4])) ||
         Name.starts_with("chatgpt-") ||
         (Name.size() > 1 && Name[0] == 'o' && isDigit(Name[1]));
}

Side::Side(const Settings &S) {
  for (const auto &[Key, Value] : S) {
    Entry E{&Key, &Value, plainKey(Key), aboutKey(Key)};
    if (StringRef Library = libraryOf(E.Plain); !Library.empty())
      Libraries.insert(Library);
    if (E.Facts.Row && E.Facts.Row->name() == "model" &&
        llvm::any_of(Value.Values, isOpenAiModel))
      Libraries.insert("openai");
    Entries.push_back(std::move(E));
  }
}

/// What counts where the key is absent; empty where nobody knows.
std::string Side::defaultOf(const KeyFacts &Facts) const {
  if (!Facts.Row)
    return "";
  SmallVector<StringRef, 4> Parts;
  Facts.Row->Default.split(Parts, ';', -1, false);
  for (StringRef Part : Parts) {
    auto [Library, Value] = Part.split('=');
    if (!Part.contains('='))
      return Part.str();
    if (Library.empty() || Libraries.count(Library))
      return Value.str();
  }
  return "";
}

std::optional<double> Side::numberOf(StringRef Plain) const {
  for (const Entry &E : Entries)
    if (E.Plain == Plain && E.Value->Values.size() == 1)
      return settingNumber(*E.Value->Values.begin());
  return std::nullopt;
}

/// What Transformers computes where a config.json lacks key \p Plain: the size
/// of a head, and as many heads of keys as of queries. Empty for other keys.
std::string Side::derived(StringRef Plain) const {
  const size_t Dot = Plain.rfind('.');
  const StringRef Leaf = Plain.substr(Dot + 1);
  if (Leaf != "num_key_value_heads" && Leaf != "head_dim")
    return "";
  const std::string Prefix =
      Dot == StringRef::npos ? "" : Plain.take_front(Dot + 1).str();
  const auto Heads = numberOf(Prefix + "num_attention_heads");
  if (!Heads || *Heads <= 0)
    return "";
  if (Leaf == "num_key_value_heads")
    return formatNumber(*Heads, 9);
  const auto Width = numberOf(Prefix + "hidden_size");
  return Width ? formatNumber(*Width / *Heads, 9) : "";
}

} // namespace culprit
