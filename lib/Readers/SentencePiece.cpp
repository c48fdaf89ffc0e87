//===- SentencePiece.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/SentencePiece.h"
#include "Readers/ConfigRows.h"
#include "Support/WireFormat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;

namespace culprit {

using Fields = WireFields;

namespace {
/// Fields of the messages, by the numbers of sentencepiece_model.proto.
struct Model {
  enum : uint32_t { Pieces = 1, TrainerSpec = 2, NormalizerSpec = 3 };
};
struct Piece {
  enum : uint32_t { Text = 1, Score = 2, Kind = 3 };
};

/// What TrainerSpec says, with the defaults of the schema.
struct Trainer {
  int64_t Type = 1;
  int64_t Unk = 0, Bos = 1, Eos = 2, Pad = -1;
  bool ByteFallback = false;
};
} // namespace

/// One message SentencePiece; false when it is none.
static bool readPiece(StringRef Message, StringRef &Piece, PieceKind &Type,
                      bool &Scored) {
  Type = PieceKind::Normal;
  Piece = StringRef();
  Scored = false;
  Fields F(Message);
  while (F.next()) {
    if (F.is(Piece::Text, Fields::Bytes))
      Piece = F.bytes();
    else if (F.is(Piece::Score, Fields::Fixed32))
      Scored = true;
    else if (F.is(Piece::Kind, Fields::Varint) && F.asInt() >= 1 &&
             F.asInt() <= 6)
      Type = static_cast<PieceKind>(F.asInt());
  }
  return !F.broken() && Piece.data();
}

static bool isUtf8(StringRef Piece) {
  const UTF8 *Begin = reinterpret_cast<const UTF8 *>(Piece.begin());
  return isLegalUTF8String(&Begin,
                           reinterpret_cast<const UTF8 *>(Piece.end()));
}

bool isSentencePiece(StringRef Head) {
  // Some pieces in front, each with text and score.
  unsigned Seen = 0;
  for (Fields F(Head); Seen < 3 && F.next(); ++Seen) {
    StringRef Piece;
    PieceKind Type;
    bool Scored;
    if (!F.is(Model::Pieces, Fields::Bytes) ||
        !readPiece(F.bytes(), Piece, Type, Scored) || !Scored ||
        Piece.empty() || Piece.size() > 1024 || !isUtf8(Piece))
      return false;
  }
  return Seen == 3;
}

bool forEachPiece(StringRef Bytes,
                  function_ref<bool(StringRef, int64_t, PieceKind)> Each) {
  int64_t Id = 0;
  Fields F(Bytes);
  while (F.next()) {
    if (!F.is(Model::Pieces, Fields::Bytes))
      continue;
    StringRef Piece;
    PieceKind Type;
    bool Scored;
    if (!readPiece(F.bytes(), Piece, Type, Scored))
      return false;
    if (!Each(Piece, Id++, Type))
      return true;
  }
  return !F.broken();
}

Match SentencePieceReader::matches(const InputFile &File) const {
  return isSentencePiece(File.head()) ? Match::Certain : Match::No;
}

static Trainer readTrainer(StringRef Message) {
  Trainer Out;
  for (Fields F(Message); F.next();) {
    if (F.is(3, Fields::Varint))
      Out.Type = F.asInt();
    else if (F.is(35, Fields::Varint))
      Out.ByteFallback = F.asInt() != 0;
    // Ids are int32: a negative one fills 64 bits.
    else if (F.is(40, Fields::Varint))
      Out.Unk = F.asInt();
    else if (F.is(41, Fields::Varint))
      Out.Bos = F.asInt();
    else if (F.is(42, Fields::Varint))
      Out.Eos = F.asInt();
    else if (F.is(43, Fields::Varint))
      Out.Pad = F.asInt();
  }
  return Out;
}

static const char *algorithmName(int64_t Type) {
  switch (Type) {
  case 2:
    return "BPE";
  case 3:
    return "Word";
  case 4:
    return "Char";
  default:
    return "Unigram";
  }
}

static void addNormalizer(StringRef Message, ConfigRows &Config) {
  bool Prefix = true, Extra = true; // the schema's defaults
  for (Fields F(Message); F.next();) {
    if (F.is(1, Fields::Bytes))
      Config.add("normalizer.name", F.bytes(), 1);
    else if (F.is(3, Fields::Varint))
      Prefix = F.asInt() != 0;
    else if (F.is(4, Fields::Varint))
      Extra = F.asInt() != 0;
  }
  Config.add("normalizer.add_dummy_prefix", Prefix ? "true" : "false", 1);
  Config.add("normalizer.remove_extra_whitespaces", Extra ? "true" : "false",
             1);
}

Error SentencePieceReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Bytes = File.contents();
  if (!Bytes)
    return Bytes.takeError();
  Trainer Spec;
  StringRef Normalizer;
  for (Fields F(*Bytes); F.next();) {
    if (F.is(Model::TrainerSpec, Fields::Bytes))
      Spec = readTrainer(F.bytes());
    else if (F.is(Model::NormalizerSpec, Fields::Bytes))
      Normalizer = F.bytes();
  }
  ConfigRows Config(Into, "tokenizer.");
  int64_t Count = 0;
  const bool Complete = forEachPiece(
      *Bytes, [&](StringRef Piece, int64_t Id, PieceKind Type) {
        Count = Id + 1;
        const std::pair<const char *, int64_t> Marks[] = {
            {"unk_token", Spec.Unk},
            {"bos_token", Spec.Bos},
            {"eos_token", Spec.Eos},
            {"pad_token", Spec.Pad}};
        for (auto [Key, Of] : Marks)
          if (Of == Id)
            Config.add(Key, Piece, 1);
        const bool Special =
            Type == PieceKind::Control || Type == PieceKind::Unknown;
        if (!Special && Type != PieceKind::UserDefined)
          return true;
        Config.add("added_tokens." + itostr(Id), Piece, 1);
        Config.add("added_tokens." + itostr(Id) + ".special",
                   Special ? "true" : "false", 1);
        return true;
      });
  // Half a vocabulary would look like the tokenizer of another model.
  if (Complete) {
    Config.add("type", algorithmName(Spec.Type), 1);
    Config.add("byte_fallback", Spec.ByteFallback ? "true" : "false", 1);
    Config.add("base_vocab_size", itostr(Count), 1);
    Config.add("vocab_size", itostr(Count), 1);
    Config.add("largest_id", itostr(Count - 1), 1);
    addNormalizer(Normalizer, Config);
  }
  Config.finish();
  if (!Complete)
    return failure(Into.path() + ": breaks off behind piece " + Twine(Count),
                   "copy the file again and compare its size with the "
                   "original");
  return Error::success();
}

} // namespace culprit
