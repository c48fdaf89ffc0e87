//===- TensorNames.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/TensorNames.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <utility>

using namespace llvm;

namespace culprit {

using Parts = SmallVector<StringRef, 16>;

static bool isNumber(StringRef Text) {
  return !Text.empty() && all_of(Text, isDigit);
}

/// Whether a parameter of PyTorch's own recurrent layers and attention is
/// called so: weight_ih_l0, bias_hh_l1_reverse, in_proj_weight.
static bool isOfBuiltIn(StringRef Part) {
  if (Part.consume_front("weight_") || Part.consume_front("bias_"))
    return Part == "ih" || Part == "hh" || Part.starts_with("ih_l") ||
           Part.starts_with("hh_l") || Part.starts_with("hr_l");
  return Part == "in_proj_weight" || Part == "in_proj_bias" ||
         Part == "q_proj_weight" || Part == "k_proj_weight" ||
         Part == "v_proj_weight";
}

/// Role of a name that ends in \p Part; empty when it names none.
static StringRef roleOf(StringRef Part) {
  if (isOfBuiltIn(Part))
    return "weight";
  return StringSwitch<StringRef>(Part)
      .Cases("input", "inputs", "in", "input_args", "input_kwargs", "input")
      .Cases("output", "outputs", "out", "act", "acts", "output")
      .Cases("activation", "activations", "output")
      .Cases("weight", "weights", "bias", "param", "params", "weight")
      .Cases("parameter", "parameters", "weight")
      .Cases("grad", "grads", "gradient", "gradients", "grad_output", "grad")
      .Cases("grad_input", "grad_outputs", "grad_inputs", "main_grad",
             "parameters_grad", "grad")
      .Cases("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf",
             "momentum_buffer", "state")
      .Cases("square_avg", "grad_avg", "acc_delta", "master_weight", "state")
      .Default("");
}

/// Drops what wrappers add: these at the beginning only, since a model may
/// have a child of that name; those anywhere, nobody else uses them.
static void dropWrappers(Parts &Path) {
  erase_if(Path, [](StringRef Part) {
    return Part == "_orig_mod" || Part == "_fsdp_wrapped_module" ||
           Part == "_checkpoint_wrapped_module";
  });
  while (Path.size() > 1 && Path.front() == "module")
    Path.erase(Path.begin());
}

/// The path as text; that of \p Whole, if nothing is left.
static std::string joined(const Parts &Path, StringRef Whole) {
  return Path.empty() ? Whole.str() : join(Path, ".");
}

/// msprobe: Module.conv1.Conv2d.forward.0.input.0,
/// Functional.linear.5.backward.output.0, Module.fc.Linear.parameters_grad.w.
static std::optional<TensorName> splitMsprobe(StringRef Name,
                                              const Parts &All) {
  static constexpr StringLiteral Kinds[] = {
      "Module", "Cell",           "Functional", "Tensor",      "Torch",
      "NPU",    "Aten",           "VF",         "Distributed", "Jit",
      "Mint",   "MintFunctional", "Ops",        "Triton"};
  if (All.size() < 3 || !is_contained(Kinds, All.front()))
    return std::nullopt;
  const StringRef *Pass = find_if(All, [](StringRef Part) {
    return Part == "forward" || Part == "backward" || Part == "parameters_grad";
  });
  if (Pass == All.end())
    return std::nullopt;
  Parts Path(All.begin() + 1, Pass);
  // The class of a module follows its path; a function has a call number.
  if ((All.front() == "Module" || All.front() == "Cell") && Path.size() > 1)
    Path.pop_back();
  dropWrappers(Path);
  StringRef Role = *Pass == "forward" ? "value" : "grad";
  if (*Pass == "forward")
    for (const StringRef *Part = Pass + 1; Part != All.end(); ++Part)
      if (StringRef Told = roleOf(*Part); !Told.empty()) {
        Role = Told;
        break;
      }
  return TensorName{joined(Path, Name), Role.str()};
}

/// A variable of Keras, dense_1/kernel:0, or of Flax, params/Dense_1/kernel: the
/// path stands between slashes, and weights have names of their own.
static std::optional<TensorName> splitVariable(StringRef Name) {
  auto [Path, Number] = Name.split(':');
  size_t Slash = Path.rfind('/');
  if (Slash == StringRef::npos || Slash == 0 ||
      (!Number.empty() && !isNumber(Number)))
    return std::nullopt;
  const bool IsWeight =
      StringSwitch<bool>(Path.substr(Slash + 1))
          .Cases("kernel", "bias", "gamma", "beta", "embeddings", true)
          .Cases("recurrent_kernel", "depthwise_kernel", "pointwise_kernel",
                 true)
          .Cases("embedding", "scale", true)
          .Default(false);
  if (!IsWeight)
    return std::nullopt;
  // An optimizer keeps its moments under the names of the weights.
  const auto IsOptimizer = [](StringRef Part) {
    return Part.starts_with_insensitive("optimizer") ||
           StringSwitch<bool>(Part.lower())
               .Cases("opt_state", "opt", "mu", "nu", "m", "v", true)
               .Cases("adam", "adamw", "rmsprop", "sgd", "momentum", true)
               .Cases("velocity", "slots", true)
               .Default(false);
  };
  for (StringRef Part : split(Path, '/'))
    if (IsOptimizer(Part))
      return std::nullopt;
  std::string Layer = Path.take_front(Slash).str();
  std::replace(Layer.begin(), Layer.end(), '/', '.');
  return TensorName{std::move(Layer), "weight"};
}

TensorName splitTensorName(StringRef Name) {
  if (std::optional<TensorName> Variable = splitVariable(Name))
    return *Variable;
  Parts Path;
  Name.split(Path, '.');
  if (std::optional<TensorName> Msprobe = splitMsprobe(Name, Path))
    return *Msprobe;
  dropWrappers(Path);

  // "attn.input.0" is the first of several inputs.
  Parts Short = Path;
  while (Short.size() > 1 && isNumber(Short.back()))
    Short.pop_back();
  StringRef Role = roleOf(Short.back());
  // What a batch calls its weight is how much each row or frame of it counts.
  if (Role == "weight" && Short.size() == 2 && Short.front() == "batch")
    Role = "";
  if (Role.empty())
    return {joined(Path, Name), "value"};
  Short.pop_back();
  // "fc.weight.grad" is a gradient of fc.
  if ((Role == "grad" || Role == "state") && !Short.empty() &&
      roleOf(Short.back()) == "weight")
    Short.pop_back();
  return {joined(Short, Name), Role.str()};
}

/// The number of up to 12 digits that follows the first word of \p Words in
/// \p Text: 311 for "step000311_b", "step" and for "global-step=311". The word
/// must not be the tail of another (timestep) and, with \p Whole, must
/// begin the text and the number end it.
static std::optional<int64_t>
numberAfter(StringRef Text, ArrayRef<StringLiteral> Words, bool Whole) {
  for (StringRef Word : Words)
    for (size_t At = Text.find(Word); At != StringRef::npos;
         At = Text.find(Word, At + 1)) {
      if (At != 0 && (Whole || isAlpha(Text[At - 1])))
        continue;
      StringRef Rest = Text.drop_front(At + Word.size());
      if (!Rest.empty() && StringRef("_-=").contains(Rest.front()))
        Rest = Rest.drop_front();
      StringRef Digits = Rest.take_while(isDigit);
      int64_t Value;
      if (Digits.empty() || Digits.size() > 12 ||
          Digits.getAsInteger(10, Value) ||
          (Whole && Digits.size() != Rest.size()))
        continue;
      return Value;
    }
  return std::nullopt;
}

/// A date in front of a name, 20260102, is not a step.
static bool looksLikeDate(StringRef Digits) {
  unsigned Month, Day;
  return Digits.size() == 8 &&
         (Digits.starts_with("19") || Digits.starts_with("20")) &&
         !Digits.substr(4, 2).getAsInteger(10, Month) &&
         !Digits.substr(6, 2).getAsInteger(10, Day) && Month >= 1 &&
         Month <= 12 && Day >= 1 && Day <= 31;
}

static StringRef variantIn(StringRef Text) {
  static constexpr StringLiteral Words[] = {
      "cached", "uncached", "nocache",   "full",  "reference",
      "ref",    "golden",   "candidate", "eager", "compiled"};
  for (StringRef Word : Words)
    if (Text.equals_insensitive(Word))
      return Word;
  return "";
}

/// The name of the file at \p Path without the extensions of a dump.
static StringRef stemOf(StringRef Path) {
  StringRef Stem = sys::path::filename(Path);
  for (StringRef Suffix : {".gz", ".zst", ".tar", ".safetensors", ".npy",
                           ".npz", ".pt", ".pth"})
    if (Stem.size() > Suffix.size())
      Stem.consume_back_insensitive(Suffix);
  return Stem;
}

bool isCheckpointNumber(StringRef Name, StringRef Parent) {
  return Name.size() >= 3 && Name.size() <= 12 && all_of(Name, isDigit) &&
         !looksLikeDate(Name) && sys::path::filename(Parent) == "checkpoints";
}

DumpPath splitDumpPath(StringRef Path) {
  static constexpr StringLiteral StepWords[] = {
      "global_step", "global-step", "iteration", "checkpoint",
      "step",        "iter",        "ckpt"};
  static constexpr StringLiteral RankWords[] = {"rank", "mp_rank"};
  static constexpr StringLiteral TokenWords[] = {"token", "pos"};
  DumpPath Out;
  StringRef Stem = stemOf(Path);

  // 000311_blocks.1.mlp.output, 000311.npz
  StringRef Digits = Stem.take_while(isDigit);
  StringRef Rest = Stem.drop_front(Digits.size());
  int64_t Leading;
  if (!Digits.empty() && Digits.size() <= 12 && !looksLikeDate(Digits) &&
      (Rest.empty() || (Rest.size() > 1 && Rest.front() == '_')) &&
      !Digits.getAsInteger(10, Leading)) {
    Out.Step = Leading;
    if (!Rest.empty())
      Stem = Rest.drop_front();
  }
  Out.Name = Stem.str();
  // A module path is not searched for words: "step1.proj" may be a layer.
  StringRef File = sys::path::filename(Path);
  const bool HoldsOne = File.contains(".npy") || File.contains(".pt");
  if (!HoldsOne || !Stem.contains('.')) {
    if (!Out.Step)
      Out.Step = numberAfter(Stem, StepWords, /*Whole=*/false);
    Out.Rank = numberAfter(Stem, RankWords, /*Whole=*/false);
    Out.Token = numberAfter(Stem, TokenWords, /*Whole=*/false);
    SmallVector<StringRef, 4> Words;
    SplitString(Stem, Words, "_-");
    for (StringRef Word : Words)
      if (Out.Variant.empty())
        Out.Variant = variantIn(Word).str();
  } else if (!Out.Step) {
    // step000311_blocks.1.mlp.output: the word and its number stand alone.
    auto [First, Name] = Stem.split('_');
    if (!Name.empty())
      if ((Out.Step = numberAfter(First, StepWords, /*Whole=*/true)))
        Out.Name = Name.str();
  }

  // The folders, innermost first. Only whole names count, and only near ones:
  // "step3-experiments/run/x.npy" is no step.
  StringRef Folder = sys::path::parent_path(Path);
  for (unsigned Level = 0; Level != 4 && !Folder.empty(); ++Level) {
    StringRef Part = sys::path::filename(Folder);
    if (!Out.Step)
      Out.Step = numberAfter(Part, StepWords, /*Whole=*/true);
    if (!Out.Rank)
      Out.Rank = numberAfter(Part, RankWords, /*Whole=*/true);
    if (!Out.Token)
      Out.Token = numberAfter(Part, TokenWords, /*Whole=*/true);
    if (Out.Variant.empty())
      Out.Variant = variantIn(Part).str();
    Folder = sys::path::parent_path(Folder);
    if (int64_t Step; !Out.Step && isCheckpointNumber(Part, Folder) &&
                      !Part.getAsInteger(10, Step))
      Out.Step = Step;
  }
  return Out;
}

void completeTensorRecord(TensorRecord &Record, StringRef Path) {
  DumpPath Told = splitDumpPath(Path);
  if (Record.Name.empty())
    Record.Name = Told.Name;
  if (!Record.Step)
    Record.Step = Told.Step;
  if (!Record.Rank)
    Record.Rank = Told.Rank;
  if (!Record.Token)
    Record.Token = Told.Token;
  if (Record.Variant.empty())
    Record.Variant = Told.Variant;
  if (!Record.Layer.empty() && !Record.Role.empty())
    return;
  TensorName Split = splitTensorName(Record.Name);
  if (Record.Layer.empty())
    Record.Layer = Split.Layer;
  if (Record.Role.empty())
    Record.Role = Split.Role;
}

} // namespace culprit
