//===- TorchArchive.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// After torch/serialization.py. Nothing of the pickle is run: every name of
// code is only a name, and a call of it an object of the tree.
//
//===----------------------------------------------------------------------===//

#include "Readers/TorchArchive.h"
#include "Readers/TensorRemarks.h"
#include "Support/Pickle.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

using Kind = DataValue::Kind;

/// Bytes that the compressed members of one archive may become.
static constexpr uint64_t MaxUnpackedOfArchive = uint64_t(16) << 30;

/// The number 0x1950a86a20f9469cfc6c as a pickle of its own, with which the
/// old format begins; a second pickle has the protocol of torch, 1001.
static constexpr StringLiteral StreamMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
static constexpr StringLiteral StreamProtocol("\x80\x02M\xe9\x03.");

std::optional<TorchType> torchTypeOf(StringRef Name) {
  if (!Name.consume_front("torch."))
    return std::nullopt;
  Name.consume_front("cuda.");
  using T = std::optional<TorchType>;
  return StringSwitch<T>(Name)
      .Cases("DoubleStorage", "float64", "double", T(TorchType{DType::Float64}))
      .Cases("FloatStorage", "float32", "float", T(TorchType{DType::Float32}))
      .Cases("HalfStorage", "float16", "half", T(TorchType{DType::Float16}))
      .Cases("BFloat16Storage", "bfloat16", T(TorchType{DType::BFloat16}))
      .Case("float8_e4m3fn", T(TorchType{DType::Float8E4M3}))
      .Case("float8_e5m2", T(TorchType{DType::Float8E5M2}))
      .Case("float8_e4m3fnuz", T(TorchType{DType::Float8E4M3FNUZ}))
      .Case("float8_e5m2fnuz", T(TorchType{DType::Float8E5M2FNUZ}))
      .Case("float8_e8m0fnu", T(TorchType{DType::Float8E8M0}))
      .Cases("LongStorage", "int64", "long", T(TorchType{DType::Int64}))
      .Cases("IntStorage", "int32", "int", T(TorchType{DType::Int32}))
      .Cases("ShortStorage", "int16", "short", T(TorchType{DType::Int16}))
      .Cases("CharStorage", "int8", T(TorchType{DType::Int8}))
      .Case("uint64", T(TorchType{DType::UInt64}))
      .Case("uint32", T(TorchType{DType::UInt32}))
      .Case("uint16", T(TorchType{DType::UInt16}))
      .Cases("ByteStorage", "uint8", T(TorchType{DType::UInt8}))
      .Cases("BoolStorage", "bool", T(TorchType{DType::Bool}))
      .Cases("ComplexDoubleStorage", "complex128", "cdouble",
             T(TorchType{DType::Float64, true}))
      .Cases("ComplexFloatStorage", "complex64", "cfloat",
             T(TorchType{DType::Float32, true}))
      .Cases("complex32", "chalf", T(TorchType{DType::Float16, true}))
      .Default(std::nullopt);
}

std::optional<TorchStorage> torchStorageOf(const DataTree &Tree, DataValue V) {
  if (!Tree.is(V, Kind::Object))
    return std::nullopt;
  ArrayRef<DataValue> Made = Tree.items(V);
  if (Made.size() < 2 || !Made[0].isNone())
    return std::nullopt;
  // ('storage', type, key, location, elements[, view])
  ArrayRef<DataValue> Id = Tree.items(Made[1]);
  if (Id.size() < 5 || Tree.text(Id[0]) != "storage")
    return std::nullopt;
  TorchStorage Out;
  Out.Type = Tree.text(Id[1]);
  Out.Key = Tree.text(Id[2]);
  std::optional<int64_t> Elements = Tree.integer(Id[4]);
  if (!Elements || *Elements < 0)
    return std::nullopt;
  Out.Elements = static_cast<uint64_t>(*Elements);
  if (Id.size() > 5 && !Id[5].isNone()) {
    // (key of the view, offset, elements) of a storage that is part of one.
    ArrayRef<DataValue> View = Tree.items(Id[5]);
    std::optional<int64_t> Offset =
        View.size() == 3 ? Tree.integer(View[1]) : std::nullopt;
    if (!Offset || *Offset < 0)
      return std::nullopt;
    Out.Offset = static_cast<uint64_t>(*Offset);
  }
  return Out;
}

bool isTorchZip(StringRef Head) {
  if (Head.size() < 30 || !Head.starts_with("PK\3\4"))
    return false;
  size_t Length = support::endian::read16le(Head.data() + 26);
  StringRef First = Head.substr(30, Length);
  // torch.save begins with data.pkl; TorchScript and repacked archives with
  // another member.
  return First.ends_with("/data.pkl") || First.ends_with("/byteorder") ||
         First.ends_with("/version") || First.contains("/data/") ||
         First == "network.pt" || First == "model_params.json" ||
         (Head.contains("/data.pkl") && !First.ends_with(".npy"));
}

bool isTorchStream(StringRef Head) { return Head.starts_with(StreamMagic); }

static PickleOptions options() {
  PickleOptions Out;
  Out.PersistentIds = true;
  Out.AnyGlobal = true;
  return Out;
}

Expected<TorchArchive> TorchArchive::open(StringRef Bytes, Source &Into) {
  TorchArchive Out(Bytes, Into);
  Error E = isTorchStream(Bytes) ? Out.openStream() : Out.openZip();
  if (E)
    return addContext(Into.path(), std::move(E));
  if (!Out.Tree->truncation().empty())
    Into.warn(Into.path() + ": " + Out.Tree->truncation(),
              "what came before it was read; copy the file again");
  return Out;
}

const ZipMember *TorchArchive::innerArchive() const {
  if (Nested)
    return nullptr;
  for (const ZipMember &M : Members)
    if (M.Name == "network.pt")
      return &M;
  return nullptr;
}

Error TorchArchive::openInner(const ZipMember &Member) {
  std::shared_ptr<void> Owner;
  const std::string Name = Member.Name; // of a list that is read anew
  Expected<StringRef> Inner = unpack(Bytes, Member, "'" + Name + "'", Owner);
  if (!Inner)
    return Inner.takeError();
  if (Owner)
    Into->keepAlive(Owner);
  Bytes = *Inner;
  Nested = true;
  return addContext("'" + Name + "'",
                    isTorchStream(Bytes) ? openStream() : openZip());
}

Error TorchArchive::openZip() {
  ZipDirectory Directory = listZip(Bytes);
  if (!Directory.Damage.empty()) {
    if (Directory.Members.empty())
      return failure(Directory.Damage, CopyAgain);
    Into->warn(Into->path() + ": " + Directory.Damage, CopyAgain);
  }
  Members = std::move(Directory.Members);
  Overlaps = overlappingMembers(Members);

  const ZipMember *Pickle = nullptr;
  for (const ZipMember &M : Members)
    if (StringRef(M.Name).ends_with("/data.pkl") &&
        (!Pickle || M.Name.size() < Pickle->Name.size()))
      Pickle = &M;
  if (!Pickle) {
    if (const ZipMember *Inner = innerArchive())
      return openInner(*Inner);
    return failure("the archive has no member data.pkl, so the names of its "
                   "tensors are missing",
                   CopyAgain);
  }
  StringRef Stem = StringRef(Pickle->Name).drop_back(strlen("data.pkl"));
  const ZipMember *Order = nullptr;
  for (size_t I = 0; I != Members.size(); ++I) {
    StringRef Name = Members[I].Name;
    if (!Name.consume_front(Stem))
      continue;
    if (Name.consume_front("data/"))
      MemberOf.try_emplace(Name, I);
    else if (Name == "byteorder")
      Order = &Members[I];
  }
  std::shared_ptr<void> Owner;
  // torch.save can be told not to compute checksums; it leaves zeros.
  const auto Open = [&](const ZipMember &M) {
    return unpack(Bytes, M, ("'" + M.Name + "'"), Owner,
                  M.Checksum ? ZipCheck::Sum : ZipCheck::None);
  };
  if (Order) {
    Expected<StringRef> Word = Open(*Order);
    if (!Word)
      consumeError(Word.takeError());
    else if (Word->trim() == "big")
      return failure("holds big-endian numbers",
                     "load it and save it again on a little-endian machine");
  }
  Expected<StringRef> Program = Open(*Pickle);
  if (!Program)
    return Program.takeError();
  if (Owner)
    Into->keepAlive(Owner);
  Expected<DataTree> Read = readPickle(*Program, options());
  if (!Read)
    return addContext("'" + Pickle->Name + "'", Read.takeError());
  Tree = std::make_unique<DataTree>(std::move(*Read));
  return Error::success();
}

Error TorchArchive::openStream() {
  StringRef Rest = Bytes.drop_front(StreamMagic.size());
  if (!Rest.consume_front(StreamProtocol))
    return failure("is of a version of torch.save's old format that no "
                   "PyTorch wrote",
                   "load it and save it again");
  // What is known of the machine that wrote it, the object, the keys.
  PickleOptions Options = options();
  uint64_t Read = 0;
  Options.Read = &Read;
  for (unsigned Part = 0; Part != 2; ++Part) {
    Expected<DataTree> One = readPickle(Rest, Options);
    if (!One)
      return One.takeError();
    if (Part == 0) {
      std::optional<int64_t> Little =
          One->integer(One->find(One->root(), "little_endian"));
      if (Little && !*Little)
        return failure("holds big-endian numbers",
                       "load it and save it again on a little-endian machine");
    }
    if (!One->truncation().empty() && Part == 0)
      return failure(One->truncation(), CopyAgain);
    Rest = Rest.drop_front(std::min<uint64_t>(Read, Rest.size()));
    Tree = std::make_unique<DataTree>(std::move(*One));
  }
  return listStorages(Rest);
}

/// The old format's storages: a pickle of their keys, then for each its number
/// of elements and the elements. How large one is, its type in the pickle of
/// the object tells.
Error TorchArchive::listStorages(StringRef Rest) {
  StringMap<unsigned> Sizes;
  DataTree::Once Once(*Tree);
  std::vector<DataValue> Open{Tree->root()};
  while (!Open.empty()) {
    DataValue V = Open.back();
    Open.pop_back();
    if (std::optional<TorchStorage> S = torchStorageOf(*Tree, V)) {
      std::optional<TorchType> Type = torchTypeOf(S->Type);
      StringRef Untyped = S->Type;
      Sizes[S->Key] = Type ? Type->size()
                           : Untyped.ends_with("QInt32Storage") ? 4
                                                                : 1;
    }
    append_range(Open, Once.items(V));
  }

  PickleOptions Options = options();
  uint64_t Read = 0;
  Options.Read = &Read;
  Expected<DataTree> Keys = readPickle(Rest, Options);
  if (!Keys) {
    consumeError(Keys.takeError());
    Into->warn(Into->path() + ": ends before the data of its tensors",
               CopyAgain);
    return Error::success();
  }
  Rest = Rest.drop_front(std::min<uint64_t>(Read, Rest.size()));
  for (DataValue Key : Keys->items(Keys->root())) {
    StringRef Name = Keys->text(Key);
    auto Size = Sizes.find(Name);
    if (Rest.size() < 8 || Size == Sizes.end())
      break;
    uint64_t Elements = support::endian::read64le(Rest.data());
    Rest = Rest.drop_front(8);
    if (Elements > Rest.size() / Size->second) {
      Contents[Name] = Rest; // as far as it goes
      break;
    }
    Contents[Name] = Rest.take_front(Elements * Size->second);
    Rest = Rest.drop_front(Elements * Size->second);
  }
  return Error::success();
}

Expected<StringRef> TorchArchive::storage(StringRef Key) {
  if (auto Known = Contents.find(Key); Known != Contents.end())
    return Known->second;
  auto It = MemberOf.find(Key);
  if (It == MemberOf.end())
    return failure("its data, '" + Key + "', are not in the file", CopyAgain);
  const ZipMember &M = Members[It->second];
  std::string Where = "its data, '" + M.Name + "'";
  if (Overlaps[It->second])
    return failure(Where + ", share bytes with another member",
                   "the archive is damaged or malicious");
  if (M.compressed() && M.Size > MaxUnpackedOfArchive - Unpacked)
    return failure(Where + ": the archive would unpack to more than 16 GiB",
                   "save it again; torch.save does not compress");
  std::shared_ptr<void> Owner;
  // A checksum costs as much as the statistics do; see damaged().
  Expected<StringRef> Content =
      unpack(Bytes, M, Where, Owner,
             M.compressed() && M.Checksum ? ZipCheck::Sum : ZipCheck::None);
  if (!Content)
    return Content.takeError();
  if (Owner) {
    Unpacked += M.Size;
    Into->keepAlive(std::move(Owner));
  }
  Contents[Key] = *Content;
  return *Content;
}

bool TorchArchive::damaged(StringRef Key) const {
  auto It = MemberOf.find(Key);
  auto Content = Contents.find(Key);
  if (It == MemberOf.end() || Content == Contents.end())
    return false;
  const ZipMember &M = Members[It->second];
  return M.Checksum != 0 && !checksumHolds(M, Content->second);
}

} // namespace culprit
