//===- ConfigKeys.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ConfigKeys.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

static constexpr KeyEffect Results = KeyEffect::Results;
static constexpr KeyEffect Cost = KeyEffect::Cost;
static constexpr KeyEffect None = KeyEffect::None;

static constexpr ConfigKey Rows[] = {
#define CONFIG_KEY(NAMES, KIND, EFFECT, CAUSES, DEFAULT)                       \
  {NAMES, KIND, EFFECT, CAUSES, DEFAULT, true, false},
#define CONFIG_KEYS(NAMES, KIND, EFFECT, CAUSES, DEFAULT)                      \
  {NAMES, KIND, EFFECT, CAUSES, DEFAULT, false, false},
#define CONFIG_SET(NAMES, KIND, EFFECT, CAUSES, DEFAULT)                       \
  {NAMES, KIND, EFFECT, CAUSES, DEFAULT, false, true},
#include "Case/ConfigKeys.def"
};

ArrayRef<ConfigKey> configKeys() { return Rows; }

StringRef toString(KeyEffect E) {
  switch (E) {
  case KeyEffect::Results:
    return "results";
  case KeyEffect::Cost:
    return "cost";
  case KeyEffect::None:
    break;
  }
  return "none";
}

std::string plainKey(StringRef Path) {
  Path = Path.ltrim('-');
  Path.consume_back(".value"); // W&B has optimizer.lr.value
  std::string Out;
  for (size_t I = 0; I != Path.size(); ++I) {
    const char C = Path[I];
    if (isUpper(C) && I != 0 && (isLower(Path[I - 1]) || isDigit(Path[I - 1])))
      Out += '_';
    Out += C == '-' ? '_' : toLower(C);
  }
  return Out;
}

namespace {
/// The names of the list, taken apart.
struct Names {
  StringMap<const ConfigKey *> Exact;
  std::vector<std::pair<StringRef, const ConfigKey *>> Globs;

  Names() {
    for (const ConfigKey &Row : Rows) {
      SmallVector<StringRef, 32> Each;
      Row.Names.split(Each, '|');
      for (StringRef Name : Each)
        if (Name.contains('*'))
          Globs.push_back({Name, &Row});
        else
          Exact.try_emplace(Name, &Row);
    }
  }
};
} // namespace

static const ConfigKey *findKey(StringRef Plain) {
  static const Names Known;
  for (StringRef Rest = Plain; !Rest.empty(); Rest = Rest.split('.').second)
    if (auto It = Known.Exact.find(Rest); It != Known.Exact.end())
      return It->second;
  const StringRef Leaf = Plain.substr(Plain.rfind('.') + 1);
  for (const auto &[Glob, Row] : Known.Globs) {
    if (!Glob.contains('.') ? globMatch(Glob, Leaf)
                            : globMatch(Glob, Plain) ||
                                  globMatch(("*." + Glob).str(), Plain))
      return Row;
  }
  return nullptr;
}

static bool containsAny(StringRef Text, ArrayRef<StringRef> Parts) {
  return any_of(Parts, [&](StringRef P) { return Text.contains(P); });
}

/// optimizer.name is what is used; run.name is a name. Empty for neither.
static StringRef kindOfName(StringRef Plain) {
  if (containsAny(Plain, {"optim"}))
    return "optimizer";
  if (containsAny(Plain, {"sched"}))
    return "schedule";
  if (containsAny(Plain, {"token"}))
    return "tokenizer";
  if (containsAny(Plain, {"data"}))
    return "data";
  if (containsAny(Plain, {"model", "arch"}))
    return "model";
  return "";
}

/// The kind of a key that the list lacks, by words in it.
static StringRef guessKind(StringRef Plain) {
  const StringRef L = Plain.substr(Plain.rfind('.') + 1);
  if (L.ends_with("_dir") || L == "dir" || L.ends_with("_folder"))
    return containsAny(L, {"data"}) ? "data" : "bookkeeping";
  if (containsAny(L, {"tensorboard", "mlflow", "wandb", "run_name",
                      "experiment_name"}))
    return "bookkeeping";
  if (containsAny(L, {"eval", "valid", "val_", "test_"}))
    return "eval";
  if (containsAny(L, {"tokenizer", "vocab", "bpe", "pad_token", "eos_token",
                      "bos_token", "template"}))
    return "tokenizer";
  if (containsAny(L, {"batch", "accumulation", "accum", "grad_acc"}))
    return "batch-size";
  if (containsAny(L, {"timeout", "retries", "retry", "endpoint", "_url"}))
    return "serving";
  if (containsAny(L, {"temperature", "top_p", "top_k", "penalty", "sampling",
                      "decod", "beam"}))
    return "decoding";
  if (containsAny(L, {"max_steps", "total_steps", "train_steps", "num_steps",
                      "max_iters", "max_tokens", "total_tokens", "epochs",
                      "train_iters", "num_iterations", "max_epochs"}) ||
      L == "steps" || L == "iterations")
    return "tokens";
  if (containsAny(L, {"gpu", "device", "world_size", "nproc", "num_nodes",
                      "nnodes", "accelerator", "cuda", "hardware", "n_rank",
                      "parallel", "fsdp", "zero_stage"}))
    return "hardware";
  if (containsAny(L, {"warmup", "sched", "decay_steps", "decay_iters",
                      "min_lr", "cooldown", "anneal"}) ||
      L.starts_with("lr_"))
    return "schedule";
  if (containsAny(L, {"precision", "dtype", "bf16", "fp16", "tf32", "fp8",
                      "amp", "autocast"}))
    return "precision";
  if (containsAny(L, {"optim", "weight_decay", "beta", "eps", "momentum",
                      "clip", "max_grad_norm", "nesterov"}))
    return "optimizer";
  if (containsAny(L, {"data", "mix", "corpus", "shuffle", "train_file",
                      "shard", "packing", "context", "seq_len", "seq_length",
                      "max_length", "block_size"}))
    return "data";
  if (containsAny(L, {"layer", "head", "embd", "hidden", "d_model", "width",
                      "dim", "dropout", "activation", "norm", "rope", "expert",
                      "model", "arch", "init", "freeze", "depth"}))
    return "model";
  return "other";
}

KeyFacts aboutKey(StringRef Path) {
  const std::string Plain = plainKey(Path);
  const StringRef Leaf = StringRef(Plain).substr(Plain.rfind('.') + 1);
  KeyFacts Out;
  Out.Row = findKey(Plain);
  // A name below a component is what that component is.
  if ((Leaf == "name" || Leaf == "type" || Leaf == "id" || Leaf == "version") &&
      (!Out.Row || Out.Row->Kind == "bookkeeping"))
    if (StringRef Kind = kindOfName(Plain); !Kind.empty())
      return {nullptr, Kind, KeyEffect::Results};
  if (Out.Row) {
    Out.Kind = Out.Row->Kind;
    Out.Effect = Out.Row->Effect;
    return Out;
  }
  Out.Kind = guessKind(Plain);
  if (Out.Kind == "bookkeeping")
    Out.Effect = KeyEffect::None;
  return Out;
}

StringRef groupOfKind(StringRef Kind) {
  return StringSwitch<StringRef>(Kind)
      .Cases("seed", "lr", "batch-size", "tokens", "optimisation")
      .Cases("schedule", "optimizer", "loss", "checkpoint", "optimisation")
      .Cases("data", "eval", "data")
      .Case("precision", "numerics")
      .Cases("hardware", "systems", "systems")
      .Default(Kind);
}

bool isNumericalPackage(StringRef Name) {
  static constexpr StringRef Parts[] = {
      "torch",       "nvidia",   "cuda",    "cudnn",      "triton",
      "numpy",       "jax",      "flax",    "flash",      "xformers",
      "apex",        "transformer", "accelerate", "deepspeed", "megatron",
      "datasets",    "tokenizers", "sentencepiece", "tiktoken", "bitsandbytes",
      "peft",        "trl",      "lightning", "tensorflow", "keras",
      "optax",       "diffusers", "vllm",   "rocm",       "liger",
      "safetensors", "mosaic",   "fairscale", "timm",      "evaluate",
      "sglang",      "llama",    "gguf",    "openai",     "litellm",
      "onnx",        "tensorrt", "ctranslate", "unsloth",  "verl"};
  return containsAny(Name.lower(), Parts);
}

} // namespace culprit
