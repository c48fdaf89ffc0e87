//===- TorchObject.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The walk. What becomes of a tensor is in TorchTensors.cpp. It takes no call
// stack, since a pickle nests as deep as its writer liked, and walks every
// container once, since a small pickle can name the same one a million times.
//
//===----------------------------------------------------------------------===//

#include "Readers/TorchObject.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SaveAndRestore.h"
#include <cmath>

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

/// Keys are joined to paths no longer than this; what lies deeper is no name.
static constexpr size_t MaxPath = 1024;
/// Elements of a list of numbers that its setting shows.
static constexpr size_t MaxShown = 64;

std::string shortestText(double Value) {
  for (int Digits : {15, 16}) {
    SmallString<32> Text;
    raw_svector_ostream(Text) << format("%.*g", Digits, Value);
    double Back;
    if (!std::isfinite(Value) ||
        (!StringRef(Text).getAsDouble(Back) && Back == Value))
      return Text.str().str();
  }
  SmallString<32> Text;
  raw_svector_ostream(Text) << format("%.17g", Value);
  return Text.str().str();
}

/// A number or a text as a setting shows it; empty for anything else.
std::string TorchObject::textOf(DataValue V) const {
  switch (Tree.kind(V)) {
  case Kind::None:
    return "null";
  case Kind::Bool:
    return *Tree.integer(V) ? "true" : "false";
  case Kind::Int:
    return itostr(*Tree.integer(V));
  case Kind::Double:
    return shortestText(*Tree.number(V));
  case Kind::String:
    return json::fixUTF8(Tree.text(V).take_front(1000));
  case Kind::Global:
    return json::fixUTF8(Tree.text(V).take_front(200));
  default:
    return "";
  }
}

void TorchObject::setting(DataValue V, const Frame &Where) {
  // Beside each parameter's state, the old optimizers keep its step as a
  // number: one tells it.
  if (Where.Optimizer >= 0 && Where.Parameter > 0)
    return;
  if (Where.Attributes && (Tree.is(V, Kind::None) ||
                           StringRef(Path).rsplit('.').second.starts_with("_")))
    return;
  Config.add(Path.empty() ? "value" : Path, textOf(V),
             static_cast<int64_t>(++Scalars));
}

/// What \p Key of a dictionary adds to a path; none for what is no name.
static std::optional<std::string> keyText(const DataTree &Tree, DataValue Key) {
  if (Tree.is(Key, Kind::String))
    return json::fixUTF8(Tree.text(Key).take_front(MaxPath));
  if (std::optional<int64_t> Number = Tree.integer(Key))
    return itostr(*Number);
  if (std::optional<double> Number = Tree.number(Key))
    return shortestText(*Number);
  if (Tree.is(Key, Kind::Global))
    return json::fixUTF8(Tree.text(Key).take_front(200));
  if (Tree.is(Key, Kind::Tuple)) {
    std::string Out;
    for (DataValue Part : Tree.items(Key).take_front(8))
      if (Tree.is(Part, Kind::String) || Tree.is(Part, Kind::Int))
        Out += (Out.empty() ? "" : ",") + *keyText(Tree, Part);
    return Out;
  }
  return std::nullopt;
}

/// Goes on with the next item of the innermost container.
void TorchObject::step(Frame &F) {
  Path.resize(F.Path);
  const size_t Width = F.Dict ? 2 : 1;
  if (F.Next + Width > F.Items.size()) {
    Frames.pop_back();
    return;
  }
  std::optional<std::string> Key =
      F.Dict ? keyText(Tree, F.Items[F.Next]) : itostr(int64_t(F.Next));
  DataValue V = F.Items[F.Next + Width - 1];
  Frame Where = F;
  F.Next += Width;
  const bool Top = Frames.size() == 1;
  if (!Key || Path.size() + Key->size() > MaxPath)
    return;
  const bool Container = Tree.is(V, Kind::Dict);
  // What nn.Module keeps its parts in names nothing.
  if (F.Attributes && Container &&
      (*Key == "_parameters" || *Key == "_buffers" || *Key == "_modules"))
    return enter(V, Where);
  if (F.Attributes && *Key == "_local_tensor")
    return enter(V, Where); // of a DTensor
  // OpenMMLab's checkpoints have it in `meta`; those of fairseq have a record
  // of each optimizer there was, the last being the one of now.
  const bool Meta = Frames.size() == 2 && Path == "meta";
  const bool History = Frames.size() == 3 &&
                       StringRef(Path).starts_with("optimizer_history.");
  if (isStepKey(*Key) && Tree.is(V, Kind::Int) && *Tree.integer(V) >= 0) {
    if (Top && !Step)
      Step = Tree.integer(V);
    else if (Meta || History)
      StepBelow = Tree.integer(V);
  }
  // Composer's timestamp counts batches.
  if (*Key == "batch" && Tree.is(V, Kind::Int) &&
      StringRef(Path).contains_insensitive("timestamp"))
    StepBelow = Tree.integer(V);
  // Old optimizers keep the step of a parameter as a plain number.
  if (*Key == "step" && F.Optimizer >= 0 && Tree.is(V, Kind::Int))
    Counted = std::max(Counted, Tree.integer(V).value_or(0));
  if ((*Key == "epoch" || *Key == "current_epoch") &&
      (Top || (Meta && !Epoch)))
    Epoch = Tree.integer(V);
  if (Frames.size() == 2 && *Key == "last_epoch" &&
      StringRef(Path).contains("sched"))
    Scheduled = std::max(Scheduled, Tree.integer(V).value_or(0));

  if (!Path.empty())
    Path += '.';
  Path += *Key;
  const size_t KeyAt = F.Path == 0 ? 0 : F.Path + 1;
  if (Container && F.Strip == KeyAt && isModelKey(*Key))
    Where.Strip = Path.size() + 1;
  if (Container && Top && isAverageKey(*Key)) {
    Where.Strip = Path.size() + 1;
    Where.Average = true;
  }
  if (F.State) {
    Where.Strip = KeyAt; // FSDP has names there, not numbers
    std::optional<int64_t> Number =
        F.Dict ? Tree.integer(F.Items[F.Next - 2]) : std::nullopt;
    Where.Parameter = Number.value_or(-1);
    Where.State = false;
  } else if (F.Optimizer >= 0 && F.Parameter < 0) {
    Where.State = *Key == "state" && Container;
    // Its options are settings, and the numbers of parameters are not; how
    // many there are is one.
    if (*Key == "params") {
      Path.resize(KeyAt);
      Config.add(Path + "num_params",
                 itostr(int64_t(Tree.items(V).size())),
                 static_cast<int64_t>(++Scalars));
    }
    if (*Key == "params" || *Key == "param_names")
      return;
  }
  enter(V, Where);
}

void TorchObject::enter(DataValue V, Frame Where) {
  Where.Path = Path.size();
  switch (Tree.kind(V)) {
  case Kind::Dict: {
    Where.Items = Once.items(V);
    Where.Next = 0;
    Where.Dict = true;
    Where.Attributes = false;
    if (Where.Optimizer < 0)
      if (std::optional<OptimizerNames> Names = optimizerNames(Tree, V)) {
        Where.Optimizer = static_cast<int>(Optimizers.size());
        Where.State = false;
        Optimizers.push_back(std::move(*Names));
      }
    Frames.push_back(Where);
    return;
  }
  case Kind::List:
  case Kind::Tuple:
    return enterList(V, Where);
  case Kind::Object:
    return enterObject(V, Where);
  case Kind::Bytes:
  case Kind::BigInt:
  case Kind::Set:
    return;
  default:
    return setting(V, Where);
  }
}

/// A list of plain values is one setting, under each name that it has (groups
/// of parameters share their betas); any other is walked.
void TorchObject::enterList(DataValue V, Frame Where) {
  ArrayRef<DataValue> Items = Tree.items(V);
  std::string Text;
  for (DataValue Item : Items.take_front(MaxShown)) {
    Kind K = Tree.kind(Item);
    if (K >= Kind::Bytes) {
      Where.Items = Once.items(V);
      Where.Next = 0;
      Where.Dict = Where.Attributes = Where.State = false;
      Frames.push_back(Where);
      return;
    }
    Text += (Text.empty() ? "" : ", ") + textOf(Item);
  }
  if (Items.size() > MaxShown)
    Text += ", ...";
  if (!Items.empty() && !Path.empty())
    Config.add(Path, "[" + Text + "]", static_cast<int64_t>(++Scalars));
}

/// Python objects that hold data and nothing else.
static bool isHarmless(StringRef Name) {
  for (StringRef Known :
       {"argparse.Namespace", "types.SimpleNamespace", "collections.deque",
        "collections.Counter", "datetime.datetime", "datetime.timedelta",
        "numpy.dtype", "torch.serialization._get_layout", "torch.Generator",
        "builtins.complex", "builtins.range", "builtins.slice", "builtins.dict",
        "builtins.list", "builtins.tuple", "builtins.int", "builtins.float",
        "builtins.str"})
    if (Name == Known)
      return true;
  return Name.starts_with("pathlib.");
}

/// The name of what \p Made was made by; the class, where a helper of
/// Python's own makes objects of it.
static StringRef makerOf(const DataTree &Tree, ArrayRef<DataValue> Made) {
  StringRef Name = Tree.text(Made[0]);
  if (Name.ends_with("_reg._reconstructor") ||
      Name.ends_with("copyreg._reconstructor") ||
      Name.ends_with("reg.__newobj__") || Name == "builtins.getattr")
    if (ArrayRef<DataValue> Arguments = Tree.items(Made[1]);
        !Arguments.empty() && Tree.is(Arguments[0], Kind::Global))
      return Tree.text(Arguments[0]);
  return Name;
}

void TorchObject::enterObject(DataValue V, const Frame &Where) {
  ArrayRef<DataValue> Made = Tree.items(V);
  if (Made.size() < 2 || Made[0].isNone())
    return; // a storage that no tensor views
  if (!Tree.is(Made[0], Kind::Global)) {
    // The result of a call is called: a method of a class.
    ArrayRef<DataValue> Inner = Tree.items(Made[0]);
    if (Inner.size() >= 2)
      refuse(makerOf(Tree, Inner));
    return;
  }
  rebuild(Tree.text(Made[0]), Tree.items(Made[1]), V, Where);
}

void TorchObject::attributes(ArrayRef<DataValue> Made, const Frame &Where) {
  // The state may be (attributes, slots).
  for (DataValue Part : Made.drop_front(2)) {
    SmallVector<DataValue, 2> Parts{Part};
    if (Tree.is(Part, Kind::Tuple))
      Parts.assign(Tree.items(Part).begin(),
                   Tree.items(Part).take_front(2).end());
    for (DataValue Each : Parts)
      if (Tree.is(Each, Kind::Dict)) {
        enter(Each, Where);
        Frames.back().Attributes = true;
      } else if (Tree.is(Each, Kind::List)) {
        enter(Each, Where);
      }
  }
}

void TorchObject::refuse(StringRef Name) {
  std::string Shown = printableName(Name.empty() ? "of no name" : Name);
  if (!is_contained(Refused, Shown) && Refused.size() < 1000)
    Refused.push_back(std::move(Shown));
}

void TorchObject::rebuild(StringRef Function, ArrayRef<DataValue> Arguments,
                          DataValue V, const Frame &Where) {
  // A parameter of a parameter of ... would take as much call stack.
  constexpr unsigned MaxNesting = 16;
  if (Nesting == MaxNesting)
    return Skip.tensor(Path, "is wrapped more often than any real one");
  SaveAndRestore Nested(Nesting, Nesting + 1);
  StringRef Name = Function;
  if (Name == "torch._tensor._rebuild_from_type_v2" ||
      Name == "torch._tensor._rebuild_from_type") {
    // (function, type, arguments, state): a subclass of Tensor, or one with
    // attributes.
    if (Arguments.size() < 4)
      return Skip.tensor(Path, "is made in a way that culprit does not know");
    if (Tree.text(Arguments[0]) != "torch._utils._rebuild_wrapper_subclass")
      return rebuild(Tree.text(Arguments[0]), Tree.items(Arguments[2]), V,
                     Where);
    DataValue Attributes[] = {{}, {}, Arguments[3]};
    return attributes(Attributes, Where);
  }
  if (Name.consume_front("torch._utils._rebuild_")) {
    if (Name == "tensor_v2" || Name == "tensor" || Name == "tensor_v3")
      return tensor(Arguments, Name == "tensor_v3", Where);
    if ((Name.starts_with("parameter") || Name == "buffer" ||
         Name.starts_with("device_tensor_from") || Name == "xla_tensor") &&
        !Arguments.empty())
      return enter(Arguments[0], Where);
    StringRef What =
        Name.contains("sparse") ? "is sparse"
        : Name == "qtensor"     ? "is quantized"
        : Name == "meta_tensor_no_storage" ? "is on the meta device and has no "
                                             "values"
        : Name.contains("nested") ? "is nested"
                                  : "";
    StringRef Hint =
        Name.contains("sparse") ? "it was skipped; save x.to_dense()"
        : Name == "qtensor"     ? "it was skipped; save x.dequantize()"
        : Name.contains("nested")
            ? "it was skipped; save x.to_padded_tensor(0)"
            : "it was skipped; the others were read";
    if (!What.empty())
      return Skip.tensor(Path, What, Hint);
    return Skip.tensor(Path, "is made by " + printableName(Function) +
                                 ", which culprit does not know");
  }
  if (Name == "torch.Size" && !Arguments.empty())
    return enter(Arguments[0], Where);
  if (Name == "torch.device" || Name.starts_with("pathlib.")) {
    std::string Text;
    for (DataValue Part : Arguments)
      Text += (Text.empty() ? "" : Name == "torch.device" ? ":" : "/") +
              textOf(Part);
    return Config.add(Path, Text, static_cast<int64_t>(++Scalars));
  }
  if (Name.ends_with("core.multiarray._reconstruct"))
    return array(Tree.items(V), Where);
  if (Name.ends_with("core.multiarray.scalar"))
    return number(Arguments, Where);
  StringRef Maker = makerOf(Tree, Tree.items(V));
  if (!isHarmless(Maker))
    refuse(Maker);
  if (Maker == "collections.deque" && !Arguments.empty())
    enter(Arguments[0], Where);
  attributes(Tree.items(V), Where);
}

std::vector<FoundTensor> TorchObject::read() {
  enter(Tree.root(), Frame());
  while (!Frames.empty()) {
    Frame &Innermost = Frames.back();
    step(Innermost);
  }
  finish();
  return std::move(Found);
}

std::optional<int64_t> TorchObject::step() const {
  // A scheduler calls its calls epochs. More than two of them an epoch are one
  // for each update; where it is called once an epoch nothing tells the step.
  if (!Step && !StepBelow && Epoch && *Epoch >= 0 && *Epoch < Scheduled &&
      Scheduled / 2 > *Epoch + 1)
    return Scheduled;
  return Step ? Step : StepBelow;
}

std::optional<int64_t>
TorchObject::updates(ArrayRef<FoundTensor> Tensors) const {
  double Most = static_cast<double>(Counted);
  for (const FoundTensor &T : Tensors)
    if (T.Optimizer >= 0 && StringRef(T.Record.Name).ends_with(".step") &&
        T.Record.Data.numel() == 1 && isFloating(T.Record.Data.Type))
      Most = std::max(Most, T.Record.Data.at(0));
  if (!(Most > 0 && Most < 1e15))
    return std::nullopt;
  return static_cast<int64_t>(Most);
}

void TorchObject::finish() {
  Config.finish();
  constexpr size_t Most = 5;
  for (const std::string &Name : ArrayRef(Refused).take_front(Most))
    Into.warn(Into.path() + ": holds the Python object " + Name +
                  ", which is not data",
              "nothing of it was run, and what it holds was read as far as it "
              "is data; save a state_dict instead");
  if (Refused.size() > Most)
    Into.warn(Into.path() + ": " + utostr(Refused.size() - Most) +
              " more kinds of Python objects are not data");
  if (NumShared) {
    std::string Text = join(Shared, ", ");
    if (NumShared > Shared.size())
      Text += " and " + utostr(NumShared - Shared.size()) + " more";
    Into.Remarks.push_back(
        {Severity::Note,
         Into.path() + ": tensors under two names are one row: " + Text, ""});
  }
  nameLayers(Found, Optimizers);
}

} // namespace culprit
