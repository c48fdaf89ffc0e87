//===- VocabularyFile.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/VocabularyFile.h"
#include "Readers/GgufHeader.h"
#include "Readers/SentencePiece.h"
#include "Readers/TokenizerFile.h"
#include "Readers/TokenizerWalk.h"
#include "Readers/VocabularyList.h"
#include "Support/Error.h"
#include "Support/InputFile.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

namespace {
/// Keeps the pieces and finds out how they spell. The decoder says it; where a
/// file has none, the pre-tokenizer does.
class Collector : public TokenizerVisitor {
public:
  explicit Collector(TokenVocabulary &Out) : Out(Out) {}

  void piece(StringRef Piece, int64_t Id) override {
    // Added tokens stand first in the file, and theirs is the last word.
    if (!Out.has(Id))
      Out.add(Id, Piece);
  }
  void added(StringRef Content, int64_t Id, bool Special, size_t) override {
    Out.add(Id, Content, /*Added=*/true, Special);
  }
  void setting(StringRef, StringRef, size_t) override {}
  void part(StringRef Name, StringRef Value, size_t) override {
    if (Name != "decoder" && Name != "pre_tokenizer")
      return;
    if (Value.contains("\"ByteLevel\""))
      Out.setSpelling(PieceSpelling::ByteLevel);
    else if (Value.contains("\"Metaspace\"") ||
             Value.contains("\"ByteFallback\"") ||
             Value.contains("\xE2\x96\x81"))
      Out.setSpelling(PieceSpelling::Metaspace);
    else if (Value.contains("\"WordPiece\""))
      Out.setSpelling(PieceSpelling::WordPiece);
  }

private:
  TokenVocabulary &Out;
};
} // namespace

/// tokenizer.ggml.tokens, with the marks of tokenizer.ggml.token_type.
static void readGguf(StringRef Bytes, TokenVocabulary &Out) {
  GgufCursor In(Bytes, 4);
  (void)In.number<uint32_t>();
  (void)In.number<uint64_t>();
  const uint64_t Entries = In.number<uint64_t>();
  std::optional<GgufEntry> Tokens, Types;
  std::string Model;
  (void)forEachEntry(In, Entries, [&](const GgufEntry &E) {
    if (E.Key == "tokenizer.ggml.model" && E.Type == GgufType::String)
      Model = GgufCursor(Bytes, E.Offset).text().str();
    else if (E.Key == "tokenizer.ggml.tokens" && E.Type == GgufType::String)
      Tokens = E;
    else if (E.Key == "tokenizer.ggml.token_type" &&
             E.Type == GgufType::Int32)
      Types = E;
    return true;
  });
  if (!Tokens || !Tokens->Count)
    return;
  Out.setSpelling(Model == "gpt2" ? PieceSpelling::ByteLevel
                                  : PieceSpelling::Metaspace);
  GgufCursor Token(Bytes, Tokens->Offset);
  GgufCursor Type(Bytes, Types ? Types->Offset : 0);
  const uint64_t Typed = Types ? Types->Count.value_or(0) : 0;
  for (uint64_t I = 0; I != *Tokens->Count; ++I) {
    StringRef Piece = Token.text();
    if (!Token.ok())
      return;
    // 3 is a control token, 4 one that a user added.
    int32_t Kind = I < Typed ? Type.number<int32_t>() : 1;
    Out.add(static_cast<int64_t>(I), Piece, Kind == 3 || Kind == 4, Kind == 3);
  }
}

static void readSentencePiece(StringRef Bytes, TokenVocabulary &Out) {
  Out.setSpelling(PieceSpelling::Metaspace);
  (void)forEachPiece(Bytes, [&](StringRef Piece, int64_t Id, PieceKind Kind) {
    const bool Special =
        Kind == PieceKind::Control || Kind == PieceKind::Unknown;
    Out.add(Id, Piece, Special || Kind == PieceKind::UserDefined, Special);
    return true;
  });
}

/// The list does not say how its pieces spell; they show it.
static void readVocabularyList(StringRef Text, TokenVocabulary &Out) {
  size_t ByteLevel = 0, Metaspace = 0, WordPiece = 0;
  (void)forEachEntry(Text, [&](StringRef Piece, int64_t Id) {
    ByteLevel += Piece.starts_with("\xC4\xA0"); // U+0120, a space
    Metaspace += Piece.starts_with("\xE2\x96\x81");
    WordPiece += Piece.size() > 2 && Piece.starts_with("##");
    const bool Mark = Piece.size() > 2 && Piece.starts_with("<") &&
                      Piece.ends_with(">") && !Piece.contains(' ') &&
                      Piece.find_if(isAlpha) != StringRef::npos;
    Out.add(Id, Piece, Mark, Mark);
  });
  const size_t Most = std::max({ByteLevel, Metaspace, WordPiece});
  if (Most)
    Out.setSpelling(Most == ByteLevel   ? PieceSpelling::ByteLevel
                    : Most == Metaspace ? PieceSpelling::Metaspace
                                        : PieceSpelling::WordPiece);
}

Expected<TokenVocabulary> readTokenVocabulary(StringRef Path) {
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File)
    return File.takeError();
  Expected<StringRef> Contents = (*File)->contents();
  if (!Contents)
    return Contents.takeError();
  TokenVocabulary Out;
  StringRef Text = *Contents;
  if (Text.starts_with("GGUF")) {
    readGguf(Text, Out);
  } else if (isSentencePiece((*File)->head())) {
    readSentencePiece(Text, Out);
  } else if (isVocabularyList((*File)->head())) {
    readVocabularyList(Text, Out);
  } else {
    Text.consume_front("\xEF\xBB\xBF");
    LooseJson In(Text);
    Collector Collect(Out);
    (void)walkTokenizer(In, Text, Collect);
  }
  if (Out.size() == 0)
    return failure(Path + ": holds no vocabulary",
                   "give the tokenizer.json of the model");
  return Out;
}

} // namespace culprit
