//===- TorchTensors.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The leaves of the walk: tensors of PyTorch, arrays and scalars of NumPy.
// Tensors are made as torch/_utils.py makes them, from the arguments alone.
//
//===----------------------------------------------------------------------===//

#include "Readers/Npy.h"
#include "Readers/TorchObject.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

/// PyTorch's own limit is 64.
static constexpr size_t MaxTorchDimensions = 64;

/// The list of sizes or strides \p V; none when it is something else.
static std::optional<SmallVector<int64_t, 4>> sizesOf(const DataTree &Tree,
                                                      DataValue V) {
  // A torch.Size of its own is a call with the tuple.
  if (Tree.is(V, Kind::Object)) {
    ArrayRef<DataValue> Made = Tree.items(V);
    ArrayRef<DataValue> Arguments =
        Made.size() >= 2 ? Tree.items(Made[1]) : ArrayRef<DataValue>();
    if (Arguments.empty())
      return std::nullopt;
    V = Arguments[0];
  }
  if (!Tree.is(V, Kind::Tuple) && !Tree.is(V, Kind::List))
    return std::nullopt;
  SmallVector<int64_t, 4> Out;
  for (DataValue Item : Tree.items(V)) {
    std::optional<int64_t> Size = Tree.integer(Item);
    if (!Size || Out.size() == MaxTorchDimensions)
      return std::nullopt;
    Out.push_back(*Size);
  }
  return Out;
}

/// Takes \p Bytes off what may be looked at in all.
bool TorchObject::spend(uint64_t Bytes, uint64_t Elements) {
  uint64_t Cost = Bytes + Elements / 64;
  if (Cost > Budget)
    return false;
  Budget -= Cost;
  return true;
}

void TorchObject::add(TensorView View, StringRef Storage, const Frame &Where) {
  FoundTensor T;
  T.Record.Name = Path;
  T.Record.Data = std::move(View);
  T.Record.Order = static_cast<int64_t>(Found.size());
  T.Path = StringRef(Path).drop_front(std::min(Where.Strip, Path.size())).str();
  T.Storage = Storage.str();
  if (Where.Average)
    T.Record.Variant = "ema";
  T.Optimizer = Where.Optimizer;
  T.Parameter = Where.Parameter;
  Found.push_back(std::move(T));
}

/// Arguments of torch._utils._rebuild_tensor: storage, offset, sizes, strides;
/// _v2 adds requires_grad, hooks and metadata, and \p Typed, v3, has the dtype
/// before the metadata, since its storage is mere bytes.
void TorchObject::tensor(ArrayRef<DataValue> Arguments, bool Typed,
                         const Frame &Where) {
  if (Arguments.size() < 4)
    return Skip.tensor(Path, "is made of too few parts");
  std::optional<TorchStorage> Storage = torchStorageOf(Tree, Arguments[0]);
  std::optional<int64_t> Offset = Tree.integer(Arguments[1]);
  std::optional<SmallVector<int64_t, 4>> Shape = sizesOf(Tree, Arguments[2]),
                                         Strides = sizesOf(Tree, Arguments[3]);
  if (!Storage || !Offset || *Offset < 0 || !Shape || !Strides)
    return Skip.tensor(Path, "has no storage, sizes or strides");

  StringRef TypeName = Storage->Type;
  if (Typed)
    TypeName = Arguments.size() > 6 ? Tree.text(Arguments[6]) : "";
  std::optional<TorchType> Type = torchTypeOf(TypeName);
  if (!Type)
    return Skip.tensor(Path,
                       "has the dtype " + printableName(TypeName) +
                           ", which culprit does not read",
                       "it was skipped; save x.float()");
  StridedView View;
  View.Type = *Type;
  View.Offset = static_cast<uint64_t>(*Offset);
  View.Shape = std::move(*Shape);
  View.Strides = std::move(*Strides);
  View.Offset += Storage->Offset;
  if (View.Offset < Storage->Offset)
    return Skip.tensor(Path, "begins beyond the end of its data");
  const size_t Metadata = Typed ? 7 : 6;
  if (Arguments.size() > Metadata) {
    const auto Set = [&](StringRef Key) {
      return Tree.integer(Tree.find(Arguments[Metadata], Key)).value_or(0) != 0;
    };
    View.Negated = Set("neg");
    View.Conjugated = Set("conj");
  }

  std::optional<uint64_t> Bytes = View.bytes();
  if (!Bytes)
    return Skip.tensor(Path, "has sizes and strides that no tensor can have");
  // A weight that layers share is named twice.
  std::string Key = (Storage->Key + formatv(" {0} {1} {2:$[,]} {3:$[,]} {4}{5}",
                                            TypeName, View.Offset,
                                            make_range(View.Shape.begin(),
                                                       View.Shape.end()),
                                            make_range(View.Strides.begin(),
                                                       View.Strides.end()),
                                            View.Negated, View.Conjugated)
                                        .str())
                        .str();
  if (*Bytes != 0) {
    auto [It, New] = Views.try_emplace(std::move(Key), Found.size());
    if (!New) {
      constexpr size_t MaxNames = 100'000;
      if (OtherNames.size() < MaxNames)
        OtherNames.push_back(Path);
      if (++NumShared <= 3)
        Shared.push_back(printableName(Path) + " is " +
                         printableName(Found[It->second].Record.Name));
      return;
    }
    Expected<StringRef> Content = Archive.storage(Storage->Key);
    std::optional<uint64_t> Extent = View.extent();
    std::string Wrong;
    StringRef Hint("it was skipped; copy the file again");
    if (!Content) {
      std::vector<Diagnostic> Why = toDiagnostics(Content.takeError());
      Views.erase(It);
      return Skip.tensor(Path, "cannot be read: " + Why.front().Message,
                         "it was skipped; " + Why.front().Hint);
    }
    if (!Extent || *Extent > Content->size() / Type->size())
      Wrong = formatv("reaches to element {0} of its data, which has {1}",
                      Extent.value_or(UINT64_MAX),
                      Content->size() / Type->size());
    else if (!spend(*Bytes, 0)) {
      Wrong = "would unfold to more numbers than the file can hold";
      Hint = "it was skipped; save x.contiguous() of the part that matters";
    }
    if (!Wrong.empty()) {
      Views.erase(It);
      return Skip.tensor(Path, Wrong, Hint);
    }
    Expected<TensorView> Taken = takeView(View, *Content, Into);
    if (!Taken) {
      Views.erase(It);
      return Skip.tensor(Path, toString(Taken.takeError()));
    }
    return add(std::move(*Taken), Storage->Key, Where);
  }
  TensorView Empty;
  Empty.Type = Type->Type;
  Empty.Shape = View.Shape;
  if (Type->Complex)
    Empty.Shape.push_back(2);
  add(std::move(Empty), "", Where);
}

/// The type in an npy header, as '<f8', of the numpy.dtype \p V.
static std::string descrOf(const DataTree &Tree, DataValue V) {
  ArrayRef<DataValue> Made = Tree.items(V);
  if (!Tree.is(V, Kind::Object) || Made.size() < 2 ||
      Tree.text(Made[0]) != "numpy.dtype" || Tree.items(Made[1]).empty())
    return "";
  StringRef Type = Tree.text(Tree.items(Made[1])[0]);
  // The state is (version, byte order, ...).
  StringRef Order = "|";
  if (Made.size() > 2)
    if (ArrayRef<DataValue> State = Tree.items(Made[2]); State.size() > 1)
      Order = Tree.text(State[1]);
  if (Type.empty() || Type.size() > 16 || !all_of(Type, isAlnum) ||
      Order.size() != 1 || !StringRef("<>|=").contains(Order))
    return "";
  return (Order + Type).str();
}

/// \p Content as the array that numpy.save would have written; a copy, for it
/// lies somewhere in the pickle.
static Expected<TensorView> makeArray(StringRef Descr, StringRef Shape,
                                      bool Fortran, StringRef Content,
                                      StringRef Where, Source &Into) {
  std::string Header = formatv("{{'descr': '{0}', 'fortran_order': {1}, "
                               "'shape': ({2}), }",
                               Descr, Fortran ? "True" : "False", Shape);
  auto File = std::make_shared<std::string>("\x93NUMPY\x02");
  File->push_back('\0');
  char Length[4];
  support::endian::write32le(Length, static_cast<uint32_t>(Header.size()));
  File->append(Length, 4);
  File->append(Header);
  File->append(Content.data(), Content.size());
  Into.keepAlive(File);
  return readNpy(*File, Where, Into);
}

/// numpy.core.multiarray._reconstruct(...) with the state (version, shape,
/// dtype, column-major, bytes).
void TorchObject::array(ArrayRef<DataValue> Made, const Frame &Where) {
  ArrayRef<DataValue> State =
      Made.size() > 2 ? Tree.items(Made[2]) : ArrayRef<DataValue>();
  std::optional<SmallVector<int64_t, 4>> Shape;
  if (State.size() >= 5)
    Shape = sizesOf(Tree, State[1]);
  if (!Shape)
    return Skip.tensor(Path, "is an array of NumPy without a shape");
  if (!Tree.is(State[4], Kind::Bytes))
    return Skip.tensor(Path, "is an array of Python objects");
  std::string Text;
  for (int64_t Size : *Shape)
    Text += itostr(Size) + ",";
  StringRef Content = Tree.text(State[4]);
  std::string Name = Into.path() + ": tensor '" + printableName(Path) + "'";
  if (!spend(Content.size(), 0))
    return Skip.tensor(Path, "would unfold to more numbers than the file can "
                             "hold");
  Expected<TensorView> View =
      makeArray(descrOf(Tree, State[2]), Text,
                Tree.integer(State[3]).value_or(0) != 0, Content, Name, Into);
  if (!View) {
    std::vector<Diagnostic> Why = toDiagnostics(View.takeError());
    StringRef Message = Why.front().Message;
    Message.consume_front(Name + ": ");
    return Skip.tensor(Path, "was skipped: " + Message, Why.front().Hint);
  }
  add(std::move(*View), "", Where);
}

/// numpy.core.multiarray.scalar(dtype, bytes): a setting.
void TorchObject::number(ArrayRef<DataValue> Arguments, const Frame &Where) {
  if (Arguments.size() != 2 || !Tree.is(Arguments[1], Kind::Bytes) ||
      Path.empty() || (Where.Optimizer >= 0 && Where.Parameter > 0))
    return;
  StringRef Content = Tree.text(Arguments[1]);
  if (Content.size() > 16)
    return;
  Expected<TensorView> View = makeArray(descrOf(Tree, Arguments[0]), "", false,
                                        Content, Path, Into);
  if (!View)
    return consumeError(View.takeError());
  std::string Text = isFloating(View->Type)
                         ? shortestText(View->at(0))
                         : itostr(View->intAt(0));
  Config.add(Path, Text, static_cast<int64_t>(++Scalars));
}

} // namespace culprit
