//===- Gguf.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Gguf.h"
#include "Readers/ConfigRows.h"
#include "Readers/GgufHeader.h"
#include "Readers/TensorRemarks.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace culprit {

Match GgufReader::matches(const InputFile &File) const {
  // Text that begins so has letters where the version is.
  StringRef Head = File.head();
  return Head.starts_with("GGUF") && Head.size() >= 8 &&
                 (Head.substr(4, 4).contains('\0') || Head.size() < 24)
             ? Match::Certain
             : Match::No;
}

/// A file names a dozen ids of tokens; looking one up walks over the pieces.
static constexpr size_t MaxIds = 32;

/// Longer lists are counted.
static constexpr uint64_t MaxItemsListed = 16;

static constexpr StringLiteral
    ConvertAgain("download the file again, or convert the model again");

namespace {
/// A pass over one file.
class GgufPass {
public:
  GgufPass(StringRef Bytes, Source &Into)
      : Bytes(Bytes), Into(Into), Config(Into, "gguf."),
        In(Bytes, 4), Skip(Into) {}

  Error run();

private:
  void entry(const GgufEntry &E);
  void tokenTexts();
  bool tensor(uint64_t Index);
  void checkEnd(uint64_t Tensors);

  StringRef Bytes;
  Source &Into;
  ConfigRows Config;
  GgufCursor In;
  SkippedTensors Skip;
  std::optional<GgufEntry> Tokens;
  /// Keys of ids, without "_id", and the ids.
  std::vector<std::pair<std::string, uint64_t>> Ids;
  uint64_t Alignment = 32, Needed = 0, Beyond = 0;
  /// Name, offset and size of every tensor whose size is known.
  struct Extent {
    StringRef Name;
    uint64_t Offset, Size;
  };
  std::vector<Extent> Extents;
};
} // namespace

void GgufPass::entry(const GgufEntry &E) {
  GgufCursor Value(Bytes, E.Offset);
  const int64_t Place = static_cast<int64_t>(E.Offset);
  std::string Key = printableName(E.Key);
  if (!E.Count) {
    std::string Text = Value.scalar(E.Type);
    uint64_t Number;
    if (StringRef(Key).ends_with("_token_id") && Ids.size() < MaxIds &&
        !StringRef(Text).getAsInteger(10, Number))
      Ids.emplace_back(StringRef(Key).drop_back(3).str(), Number);
    // The alignment is a power of two; anything else is a damaged file.
    if (Key == "general.alignment" &&
        !StringRef(Text).getAsInteger(10, Number) && isPowerOf2_64(Number) &&
        Number <= (1u << 20))
      Alignment = Number;
    Config.add(Key, json::fixUTF8(Text), Place);
    return;
  }
  if (Key == "tokenizer.ggml.tokens" && E.Type == GgufType::String)
    Tokens = E;
  if (*E.Count > MaxItemsListed || E.Type == GgufType::Array) {
    Config.add(Key + ".count", utostr(*E.Count), Place);
    return;
  }
  std::string List = "[";
  for (uint64_t I = 0; I != *E.Count; ++I)
    List += (I ? ", " : "") +
            StringRef(Value.scalar(E.Type)).take_front(1000).str();
  Config.add(Key, json::fixUTF8(List + "]"), Place);
}

/// What the ids of special tokens stand for.
void GgufPass::tokenTexts() {
  if (!Tokens)
    return;
  for (const auto &[Key, Id] : Ids) {
    if (Id >= *Tokens->Count)
      continue;
    GgufCursor At(Bytes, Tokens->Offset);
    At.skip(GgufType::String, Id);
    const int64_t Place = static_cast<int64_t>(At.offset());
    Config.add(Key, json::fixUTF8(At.text()), Place);
  }
}

/// The next entry of the list of tensors. False when the header ends in it.
bool GgufPass::tensor(uint64_t Index) {
  constexpr uint32_t MaxDims = 8; // ggml has 4
  StringRef Name = In.text();
  uint32_t Dims = In.number<uint32_t>();
  if (!In.ok() || Dims > MaxDims)
    return false;
  TensorRecord Record;
  Record.Name = printableName(Name);
  Record.Order = static_cast<int64_t>(Index);
  uint64_t Elements = 1;
  bool Fits = true;
  for (uint32_t D = 0; D != Dims; ++D) {
    uint64_t Size = In.number<uint64_t>();
    Fits &= Size <= uint64_t(INT64_MAX);
    bool Overflow = false;
    Elements = SaturatingMultiply(Elements, Size, &Overflow);
    Fits &= !Overflow;
    // Stored with the fastest dimension first.
    Record.Data.Shape.insert(Record.Data.Shape.begin(),
                             static_cast<int64_t>(Size));
  }
  uint32_t Number = In.number<uint32_t>();
  uint64_t Offset = In.number<uint64_t>();
  if (!In.ok())
    return false;
  if (!Fits || Elements > uint64_t(INT64_MAX)) {
    Skip.tensor(Name, "has more elements than any file can hold");
    return true;
  }
  std::optional<GgmlType> Type = ggmlType(Number);
  TensorSummary Known;
  Known.Type = Type ? Type->Name.str() : "ggml type " + utostr(Number);
  if (Type) {
    bool Overflow = false;
    uint64_t Size = SaturatingMultiply(divideCeil(Elements, Type->Elements),
                                       uint64_t(Type->Bytes), &Overflow);
    if (!Overflow && Offset <= UINT64_MAX - Size)
      Extents.push_back({Name, Offset, Size});
  }
  Into.addTensor(std::move(Record), Known, /*Known=*/true);
  return true;
}

/// Tells of tensors that lie beyond the end of a file that broke off.
void GgufPass::checkEnd(uint64_t Tensors) {
  const uint64_t Data = alignTo(In.offset(), Alignment);
  const uint64_t Room = Bytes.size() < Data ? 0 : Bytes.size() - Data;
  std::string First;
  for (const Extent &E : Extents) {
    if (E.Size == 0 || E.Offset + E.Size <= Room)
      continue;
    Needed = std::max(Needed, E.Offset + E.Size);
    if (Beyond++ == 0)
      First = printableName(E.Name);
  }
  if (Beyond)
    Into.warn(Into.path() + ": the file ends after " +
                  formatCount(static_cast<int64_t>(Bytes.size())) + " of " +
                  formatCount(static_cast<int64_t>(std::min<uint64_t>(
                      SaturatingAdd(Needed, Data), INT64_MAX))) +
                  " bytes; " + utostr(Beyond) + " of " + utostr(Tensors) +
                  " tensors lie beyond the end, '" + First + "' first",
              ConvertAgain);
}

Error GgufPass::run() {
  const uint32_t Version = In.number<uint32_t>();
  const std::string &Path = Into.path();
  if (Version == 0x02000000 || Version == 0x03000000)
    return failure(Path + ": a GGUF file for big-endian machines",
                   "give the file for this machine; the models are published "
                   "in both");
  if (Version != 2 && Version != 3)
    return failure(Path + ": GGUF of version " + utostr(Version) +
                       ", and culprit reads 2 and 3",
                   "convert the model again with llama.cpp's "
                   "convert_hf_to_gguf.py");
  const uint64_t Tensors = In.number<uint64_t>();
  const uint64_t Entries = In.number<uint64_t>();
  if (!In.ok())
    return failure(Path + ": ends before the header", ConvertAgain);
  uint64_t Read = 0;
  const bool Whole = forEachEntry(In, Entries, [&](const GgufEntry &E) {
    ++Read;
    entry(E);
    return true;
  });
  tokenTexts();
  Config.finish();
  if (!Whole) {
    std::string What = Path + ": the header breaks off in entry " +
                       utostr(Read + 1) + " of " + utostr(Entries) +
                       " of the metadata, at byte " + utostr(In.offset());
    if (Read == 0)
      return failure(What, ConvertAgain);
    Into.warn(What, ConvertAgain);
    return Error::success();
  }
  uint64_t I = 0;
  while (I != Tensors && tensor(I))
    ++I;
  if (I != Tensors)
    Into.warn(Path + ": the list of tensors breaks off after " + utostr(I) +
                  " of " + utostr(Tensors),
              ConvertAgain);
  else
    checkEnd(Tensors);
  return Error::success();
}

Error GgufReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Bytes = File.contents();
  if (!Bytes)
    return Bytes.takeError();
  return GgufPass(*Bytes, Into).run();
}

} // namespace culprit
