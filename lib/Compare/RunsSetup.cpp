//===- RunsSetup.cpp - What was changed between two runs --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Settings, packages, devices and, where no setting tells of them, what the
// metrics show: another learning rate, other tokens a step. One change that
// matters can be credited with the outcome; of two, neither can.
//
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

/// The last part of a key path, in lower case, - as _.
static std::string leafOf(StringRef Key) {
  // wandb has optimizer.lr.value
  if (Key.ends_with(".value"))
    Key = Key.drop_back(6);
  std::string Out = Key.rsplit('.').second.empty()
                        ? Key.lower()
                        : Key.rsplit('.').second.lower();
  std::replace(Out.begin(), Out.end(), '-', '_');
  return Out;
}

static bool containsAny(StringRef Text, ArrayRef<StringRef> Parts) {
  return any_of(Parts, [&](StringRef P) { return Text.contains(P); });
}

StringRef changeKind(StringRef Key) {
  const std::string Leaf = leafOf(Key);
  const std::string Whole = Key.lower();
  StringRef L = Leaf;
  if (StringRef(Whole).starts_with("_wandb") ||
      StringRef(Whole).starts_with("wandb") || L.starts_with("wandb"))
    return "bookkeeping";
  if (L == "seed" || L.ends_with("_seed") || L.starts_with("seed_"))
    return "seed";
  static constexpr StringRef Lr[] = {"lr",      "learning_rate", "max_lr",
                                     "peak_lr", "base_lr",       "lr_max",
                                     "init_lr", "learningrate"};
  if (is_contained(Lr, L))
    return "lr";
  static constexpr StringRef Names[] = {
      "name",        "run_name",   "run_id",      "id",          "run",
      "experiment",  "exp_name",   "project",     "entity",      "tags",
      "notes",       "comment",    "description", "hostname",    "host",
      "user",        "pid",        "port",        "master_port", "master_addr",
      "job_id",      "timestamp",  "start_time",  "date",        "time",
      "logging_dir", "log_level",  "verbose",     "report_to",   "out",
      "output",      "disable_tqdm", "logger",    "log",         "resume_from",
      "push_to_hub", "hub_model_id", "dashboard", "profile",     "debug"};
  // optimizer.name is what is used; run.name is a name.
  if (L == "name" || L == "type" || L == "id") {
    if (containsAny(Whole, {"optim"}))
      return "optimizer";
    if (containsAny(Whole, {"sched"}))
      return "schedule";
    if (containsAny(Whole, {"model", "arch"}))
      return "model";
    if (containsAny(Whole, {"data"}))
      return "data";
    if (containsAny(Whole, {"token"}))
      return "tokenizer";
  }
  if (is_contained(Names, L) || L.ends_with("_dir") || L.ends_with("dir_") ||
      L == "dir" || L.starts_with("log_") || L.starts_with("logging_") ||
      L.starts_with("save_") || L.starts_with("checkpoint_") ||
      L.starts_with("keep_") || L.ends_with("_folder") ||
      containsAny(L, {"tensorboard", "mlflow", "run_name", "experiment_name"}))
    return containsAny(L, {"data"}) && L.ends_with("_dir")
               ? StringRef("data")
               : StringRef("bookkeeping");
  if (containsAny(L, {"eval", "valid", "val_", "test_"}))
    return "eval";
  if (containsAny(L, {"tokenizer", "vocab", "bpe", "pad_token", "eos_token",
                      "bos_token"}))
    return "tokenizer";
  if (containsAny(L, {"batch", "accumulation", "accum", "grad_acc"}))
    return "batch-size";
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

std::optional<double> settingOf(const RunRecord &R, ArrayRef<StringRef> Keys,
                                std::string *Found) {
  for (StringRef Key : Keys)
    for (const auto &[Path, Value] : R.Config) {
      double Number = 0;
      if ((StringRef(Path) != Key && leafOf(Path) != Key) ||
          StringRef(Value).getAsDouble(Number))
        continue;
      if (Found)
        *Found = Path;
      return Number;
    }
  return std::nullopt;
}

namespace {

/// The values that the runs of a side have for one key; empty for one that
/// lacks it.
using Values = std::set<std::string>;

} // namespace

static Values valuesOf(ArrayRef<const RunRecord *> Runs, const std::string &Key,
                       bool Packages) {
  Values Out;
  for (const RunRecord *R : Runs) {
    const auto &In = Packages ? R->Packages : R->Config;
    auto It = In.find(Key);
    Out.insert(It == In.end() ? std::string() : It->second);
  }
  return Out;
}

static std::string listText(const Values &V) {
  std::string Out;
  for (const std::string &Each : V)
    Out += (Out.empty() ? "" : ", ") + (Each.empty() ? "-" : Each);
  return Out;
}

/// 3e-4 and 0.0003 are one setting, and so are True and true.
static bool sameValue(StringRef A, StringRef B) {
  double X = 0, Y = 0;
  if (!A.getAsDouble(X) && !B.getAsDouble(Y))
    return X == Y;
  return A.equals_insensitive(B);
}

static bool sameValues(const Values &A, const Values &B) {
  if (A.size() != B.size())
    return false;
  return all_of(zip(A, B), [](const auto &P) {
    return sameValue(std::get<0>(P), std::get<1>(P));
  });
}

/// Whether every run of \p Side recorded settings.
static bool isConfigured(ArrayRef<const RunRecord *> Side) {
  return all_of(Side, [](const RunRecord *R) { return !R->Config.empty(); });
}

static void addSettings(ArrayRef<const RunRecord *> A,
                        ArrayRef<const RunRecord *> B,
                        std::vector<RunChange> &Out) {
  // Beside a run that recorded none, every setting would look changed.
  if (!isConfigured(A) || !isConfigured(B))
    return;
  std::set<std::string> Keys;
  for (ArrayRef<const RunRecord *> Side : {A, B})
    for (const RunRecord *R : Side)
      for (const auto &[Key, Value] : R->Config)
        Keys.insert(Key);
  for (const std::string &Key : Keys) {
    const Values InA = valuesOf(A, Key, false), InB = valuesOf(B, Key, false);
    if (sameValues(InA, InB))
      continue;
    const StringRef Kind = changeKind(Key);
    // Several seeds a side are what noise is told by.
    if (Kind == "seed" && (InA.size() > 1 || InB.size() > 1))
      continue;
    Out.push_back({Kind.str(), Key, listText(InA), listText(InB),
                   Kind != "bookkeeping"});
  }
}

/// Whether another version of \p Name may change what is computed.
static bool isNumerical(StringRef Name) {
  const std::string L = Name.lower();
  static constexpr StringRef Parts[] = {
      "torch",       "nvidia",   "cuda",    "cudnn",      "triton",
      "numpy",       "jax",      "flax",    "flash",      "xformers",
      "apex",        "transformer", "accelerate", "deepspeed", "megatron",
      "datasets",    "tokenizers", "sentencepiece", "tiktoken", "bitsandbytes",
      "peft",        "trl",      "lightning", "tensorflow", "keras",
      "optax",       "diffusers", "vllm",   "rocm",       "liger",
      "safetensors", "mosaic",   "fairscale", "timm",      "evaluate"};
  return containsAny(L, Parts);
}

/// Packages are one change, however many there are: nobody bisects them here.
static void addPackages(ArrayRef<const RunRecord *> A,
                        ArrayRef<const RunRecord *> B,
                        std::vector<RunChange> &Out) {
  const auto Any = [](ArrayRef<const RunRecord *> Side) {
    return all_of(Side,
                  [](const RunRecord *R) { return !R->Packages.empty(); });
  };
  if (!Any(A) || !Any(B))
    return;
  std::set<std::string> Names;
  for (ArrayRef<const RunRecord *> Side : {A, B})
    for (const RunRecord *R : Side)
      for (const auto &[Name, Version] : R->Packages)
        Names.insert(Name);
  for (const std::string &Name : Names) {
    const Values InA = valuesOf(A, Name, true), InB = valuesOf(B, Name, true);
    if (InA != InB)
      Out.push_back({"software", Name, listText(InA), listText(InB),
                     isNumerical(Name)});
  }
}

/// What the metrics show and no setting says.
static void addMeasured(const RunRecord &A, const RunRecord &B,
                        std::vector<RunChange> &Out) {
  const auto Told = [&](ArrayRef<StringRef> Kinds) {
    return any_of(Out, [&](const RunChange &C) {
      return is_contained(Kinds, StringRef(C.Kind));
    });
  };
  const auto Differing = [&](StringRef Name) -> std::optional<int64_t> {
    const ScalarSeries *X = A.series(Name), *Y = B.series(Name);
    if (!X || !Y)
      return std::nullopt;
    for (size_t I = 0; I != X->size(); ++I)
      if (std::optional<size_t> J = Y->find(X->Steps[I]))
        if (float(X->Values[I]) != float(Y->Values[*J]) &&
            std::fabs(X->Values[I] - Y->Values[*J]) >
                1e-4 * std::fabs(X->Values[I]))
          return X->Steps[I];
    return std::nullopt;
  };
  const auto Value = [](const RunRecord &R, StringRef Name, int64_t Step) {
    const ScalarSeries *S = R.series(Name);
    return formatNumber(S->Values[*S->find(Step)], 6);
  };
  const auto Add = [&](StringRef Kind, StringRef Metric, int64_t Step) {
    Out.push_back({Kind.str(), formatv("{0} logged at step {1}", Metric, Step),
                   Value(A, Metric, Step), Value(B, Metric, Step), true});
  };
  if (!Told({"lr", "schedule", "tokens"}))
    if (std::optional<int64_t> Step = Differing("lr"))
      Add("lr", "lr", *Step);
  if (!Told({"batch-size", "tokens", "data", "hardware"}))
    if (std::optional<int64_t> Step = Differing("tokens"))
      Add("tokens", "tokens", *Step);
  if (A.Devices != B.Devices && !A.Devices.empty() && !B.Devices.empty())
    Out.push_back({"hardware", "devices", A.Devices, B.Devices, true});
}

std::string changeText(const RunChange &C) {
  return C.Key + " " + (C.A.empty() ? "-" : shortened(C.A, 60)) + " -> " +
         (C.B.empty() ? "-" : shortened(C.B, 60));
}

/// The confounders that most often fool a comparison come first.
static size_t weightOf(StringRef Kind) {
  static constexpr StringRef Order[] = {"lr",   "batch-size", "tokens",
                                        "data", "tokenizer",  "eval",
                                        "hardware"};
  return size_t(llvm::find(Order, Kind) - std::begin(Order));
}

RunSetup compareRunSetups(ArrayRef<const RunRecord *> A,
                          ArrayRef<const RunRecord *> B) {
  RunSetup Out;
  addSettings(A, B, Out.Changes);
  addPackages(A, B, Out.Changes);
  addMeasured(*A[0], *B[0], Out.Changes);
  stable_sort(Out.Changes, [](const RunChange &X, const RunChange &Y) {
    return std::pair(!X.Semantic, weightOf(X.Kind)) <
           std::pair(!Y.Semantic, weightOf(Y.Kind));
  });

  std::vector<const RunChange *> Matter;
  std::string Seed;
  size_t Packages = 0;
  for (const RunChange &C : Out.Changes) {
    if (!C.Semantic)
      continue;
    if (C.Kind == "seed") {
      Seed += (Seed.empty() ? "" : ", ") + changeText(C);
      continue;
    }
    if (C.Kind == "software" && Packages++)
      continue;
    Matter.push_back(&C);
  }
  const bool KnowA = isConfigured(A), KnowB = isConfigured(B);
  const bool Known = KnowA && KnowB;
  const std::string Lacking = KnowA   ? "the settings of B"
                              : KnowB ? "the settings of A"
                                      : "the settings of both sides";
  const size_t Count = Matter.size() + !Seed.empty();
  if (Count == 0) {
    Out.Kind = Known ? "same" : "unknown";
    Out.Says = Known
                   ? "nothing that was recorded differs in the settings"
                   : Lacking + " are not recorded: what was changed is "
                               "unknown; a config.json in the run's folder "
                               "tells it";
    return Out;
  }
  if (Matter.empty()) {
    Out.Kind = "seed";
    Out.Says = "only the seed differs: " + Seed;
    return Out;
  }
  const auto Short = [&](const RunChange &C) {
    if (C.Kind == "software" && Packages > 1)
      return formatv("{0} packages ({1}, ...)", Packages, changeText(C)).str();
    return changeText(C);
  };
  if (Count == 1) {
    Out.Kind = "one";
    Out.Says = "exactly one thing was changed: " + Short(*Matter[0]);
    if (!Known)
      Out.Says = "one recorded thing differs, " + Short(*Matter[0]) +
                 "; " + Lacking + " are not recorded";
    return Out;
  }
  Out.Kind = "confounded";
  std::string List = Short(*Matter[0]);
  for (size_t I = 1; I != std::min<size_t>(Matter.size(), 6); ++I)
    List += "; " + Short(*Matter[I]);
  if (Matter.size() > 6)
    List += formatv("; and {0} more", Matter.size() - 6);
  if (!Seed.empty())
    List += "; " + Seed;
  Out.Says = formatv("confounded: {0} things were changed, and no difference "
                     "can be credited to one of them: {1}",
                     Count, List);
  return Out;
}

} // namespace culprit
