//===- Msprobe.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Msprobe.h"
#include "Readers/Npy.h"
#include "Readers/TensorRemarks.h"
#include "Readers/TorchFile.h"
#include "Readers/TreeFile.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

bool isMsprobeDump(StringRef Head) {
  return isJsonObject(Head) && Head.contains("\"dump_data_dir\"") &&
         Head.contains("\"data\"") && Head.contains("\"task\"");
}

/// stack.json and construct.json have the calls of the dump as keys.
static bool isMsprobeCalls(StringRef Head) {
  if (!isJsonObject(Head))
    return false;
  Head = Head.substr(Head.find('{') + 1).ltrim();
  if (!Head.consume_front("\""))
    return false;
  StringRef Key = Head.take_until([](char C) { return C == '"'; });
  bool Kind = Key.starts_with("Module.") || Key.starts_with("Functional.") ||
              Key.starts_with("Tensor.") || Key.starts_with("Torch.") ||
              Key.starts_with("Cell.") || Key.starts_with("Mint.");
  return Kind && (Key.contains(".forward") || Key.contains(".backward"));
}

std::string msprobeDataFolder(StringRef Path) {
  SmallString<128> Out(sys::path::parent_path(Path));
  sys::path::append(Out, "dump_tensor_data");
  return Out.str().str();
}

Match MsprobeReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  return isMsprobeDump(Head) || isMsprobeCalls(Head) ? Match::Certain
                                                     : Match::No;
}

/// A dtype of PyTorch or MindSpore as `tensors` has it.
static std::string dtypeName(StringRef Text) {
  Text.consume_front("torch.");
  std::string Lower = Text.lower();
  if (Lower == "float8_e4m3fn")
    return "float8_e4m3";
  return Lower;
}

namespace {
/// The rows of one dump.
class DumpRows {
public:
  DumpRows(const DataTree &Tree, Source &Into)
      : Tree(Tree), Into(Into), Skip(Into),
        Folder(msprobeDataFolder(Into.path())) {}

  void call(StringRef Name, DataValue V);
  void rest();
  int64_t rows() const { return Order; }

private:
  void walk(const std::string &Name, DataValue V, unsigned Depth);
  void leaf(std::string Name, DataValue V);
  bool values(StringRef File, const TensorRecord &As);
  std::optional<double> statistic(DataValue V, StringRef Key) const;

  const DataTree &Tree;
  Source &Into;
  SkippedTensors Skip;
  std::string Folder;
  StringSet<> Read; ///< Files of the folder.
  int64_t Order = 0;
};
} // namespace

/// A number, or one as text: "nan", "-inf".
std::optional<double> DumpRows::statistic(DataValue V, StringRef Key) const {
  DataValue Found = Tree.find(V, Key);
  if (std::optional<double> Number = Tree.number(Found))
    return Number;
  if (!Tree.is(Found, Kind::String))
    return std::nullopt;
  return parseNumber(Tree.text(Found).trim());
}

/// Reads the values in \p File of the folder. False, with a remark, when they
/// cannot be read.
bool DumpRows::values(StringRef File, const TensorRecord &As) {
  // The name comes out of the dump: it may not lead out of the folder.
  File = sys::path::filename(File);
  SmallString<128> Path(Folder);
  sys::path::append(Path, File);
  if (!sys::fs::is_regular_file(Path) || !Read.insert(File).second)
    return false;
  const auto Fail = [&](Error E) {
    for (const Diagnostic &D : toDiagnostics(std::move(E))) {
      StringRef Message = D.Message;
      Message.consume_front(Into.path() + ": ");
      Message.consume_front((Path + ": ").str());
      Skip.tensor(As.Name, "has no values in " + File + ": " + Message,
                  As.Name.empty() ? "it was skipped"
                                  : "what dump.json says of it was taken");
    }
    return false;
  };
  Expected<std::unique_ptr<InputFile>> Opened = InputFile::open(Path);
  if (!Opened)
    return Fail(Opened.takeError());
  std::shared_ptr<InputFile> Data(std::move(*Opened));
  Expected<StringRef> Bytes = Data->contents();
  if (!Bytes)
    return Fail(Bytes.takeError());
  Into.keepAlive(Data);
  if (!File.ends_with(".npy")) {
    const size_t Before = Into.Remarks.size();
    Error E = readTorchFile(*Bytes, As, Into);
    // What is wrong in that file is said of that file.
    for (Diagnostic &D : MutableArrayRef(Into.Remarks).drop_front(Before))
      if (StringRef(D.Message).starts_with(Into.path()))
        D.Message.replace(0, Into.path().size(), Path.str());
    return E ? Fail(std::move(E)) : true;
  }
  Expected<TensorView> View = readNpy(*Bytes, Path, Into);
  if (!View)
    return Fail(View.takeError());
  TensorRecord Record = As;
  Record.Data = std::move(*View);
  Into.addTensor(std::move(Record));
  return true;
}

/// One tensor: {"type": "torch.Tensor", "dtype": ..., "shape": ..., ...}.
void DumpRows::leaf(std::string Name, DataValue V) {
  StringRef File = Tree.text(Tree.find(V, "data_name"));
  TensorRecord Record;
  Record.Name = std::move(Name);
  Record.Order = Order++;
  if (!File.empty() && File != "-1") {
    Record.Name = printableName(sys::path::stem(sys::path::filename(File)));
    if (values(File, Record))
      return;
  }

  TensorSummary Given;
  Given.Type = dtypeName(Tree.text(Tree.find(V, "dtype")));
  Given.Min = statistic(V, "Min");
  Given.Max = statistic(V, "Max");
  Given.Mean = statistic(V, "Mean");
  Given.L2 = statistic(V, "Norm");
  Given.Hash = Tree.text(Tree.find(V, "md5")).take_front(64).str();
  DataValue Shape = Tree.find(V, "shape");
  bool Known = Tree.is(Shape, Kind::List) || Tree.is(Shape, Kind::Tuple);
  int64_t Numel = 1;
  for (DataValue Item : Tree.items(Shape)) {
    std::optional<int64_t> Size = Tree.integer(Item);
    if (!Size || *Size < 0 || Record.Data.Shape.size() == 64 ||
        (*Size != 0 && MulOverflow(Numel, *Size, Numel))) {
      Known = false;
      break;
    }
    Record.Data.Shape.push_back(*Size);
  }
  if (!Known)
    Record.Data.Shape.clear();
  Into.addTensor(std::move(Record), Given, Known);
}

void DumpRows::walk(const std::string &Name, DataValue V, unsigned Depth) {
  constexpr unsigned MaxDepth = 16;
  if (Depth == MaxDepth)
    return;
  if (Tree.is(V, Kind::Dict)) {
    StringRef Type = Tree.text(Tree.find(V, "type"));
    bool Tensor = Tree.is(Tree.find(V, "shape"), Kind::List) ||
                  Type.ends_with("Tensor") || Type.ends_with("Parameter");
    if (!Type.empty()) {
      // {"type": "int", "value": 3} is an argument and no tensor.
      if (Tensor && !Tree.find(V, "dtype").isNone())
        leaf(Name, V);
      return;
    }
    ArrayRef<DataValue> Pairs = Tree.items(V);
    for (size_t I = 0; I + 1 < Pairs.size(); I += 2) {
      StringRef Key = Tree.text(Pairs[I]).take_front(200);
      StringRef Part = StringSwitch<StringRef>(Key)
                           .Cases("input_args", "input_kwargs", "input")
                           .Default(Key);
      walk(Name + "." + printableName(Part), Pairs[I + 1], Depth + 1);
    }
    return;
  }
  if (!Tree.is(V, Kind::List))
    return;
  ArrayRef<DataValue> Items = Tree.items(V);
  // A gradient of a parameter is a list of one and has no number.
  if (Items.size() == 1 && StringRef(Name).contains(".parameters_grad."))
    return walk(Name, Items[0], Depth + 1);
  for (size_t I = 0; I != Items.size(); ++I)
    walk(Name + "." + utostr(I), Items[I], Depth + 1);
}

void DumpRows::call(StringRef Name, DataValue V) {
  walk(printableName(Name), V, 0);
}

/// The files that dump.json does not name, as when it broke off.
void DumpRows::rest() {
  std::vector<std::string> Files;
  std::error_code EC;
  for (sys::fs::directory_iterator It(Folder, EC), End; It != End && !EC;
       It.increment(EC)) {
    StringRef File = sys::path::filename(It->path());
    if (!Read.contains(File) &&
        (File.ends_with(".pt") || File.ends_with(".npy")))
      Files.push_back(File.str());
  }
  llvm::sort(Files);
  size_t Added = 0;
  for (const std::string &File : Files) {
    TensorRecord As;
    As.Name = printableName(sys::path::stem(File));
    Added += values(File, As);
  }
  if (Added)
    Into.warn(Into.path() + ": " + formatCount(static_cast<int64_t>(Added)) +
                  " tensors in dump_tensor_data are not named in it, such as " +
                  printableName(Files.front()),
              "they were read and their order is not known; dump again, or "
              "call debugger.stop() before the run ends");
}

Error MsprobeReader::read(InputFile &File, Source &Into) const {
  if (!isMsprobeDump(File.head()))
    return Error::success(); // where calls came from; no tensors
  Expected<DataTree> Tree = readTreeFile(File, Into);
  if (!Tree) {
    // The values are there all the same.
    DataTree None(0);
    DumpRows(None, Into).rest();
    return Tree.takeError();
  }
  DumpRows Rows(*Tree, Into);
  ArrayRef<DataValue> Calls =
      Tree->items(Tree->find(Tree->root(), "data"));
  if (!Tree->is(Tree->find(Tree->root(), "data"), Kind::Dict))
    Calls = {};
  for (size_t I = 0; I + 1 < Calls.size(); I += 2)
    Rows.call(Tree->text(Calls[I]), Calls[I + 1]);
  Rows.rest();
  Into.KeepRanks = true;
  if (Rows.rows() == 0 && Into.tensors().empty())
    return failure(Into.path() + ": names no tensor",
                   "dump with the task \"statistics\" or \"tensor\" and the "
                   "step that fails");
  return Error::success();
}

} // namespace culprit
