//===- TokenVocabulary.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/TokenVocabulary.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

void TokenVocabulary::add(int64_t Id, StringRef Piece, bool Added,
                          bool Special) {
  if (Id < 0 || Id >= MaxIds)
    return;
  size_t Index = static_cast<size_t>(Id);
  if (Index >= Entries.size())
    Entries.resize(Index + 1);
  Entries[Index] = {Piece.copy(Texts), true, Added, Special};
}

/// The code point at the begin of \p Text and its bytes; what is no UTF-8 is a
/// character of its own.
static std::pair<uint32_t, size_t> codePoint(StringRef Text) {
  const auto At = [&](size_t I) { return static_cast<uint8_t>(Text[I]); };
  const auto Tail = [&](size_t I) {
    return I < Text.size() && (At(I) & 0xC0) == 0x80;
  };
  if ((At(0) & 0xE0) == 0xC0 && Tail(1))
    return {(At(0) & 0x1Fu) << 6 | (At(1) & 0x3Fu), 2};
  if ((At(0) & 0xF0) == 0xE0 && Tail(1) && Tail(2))
    return {(At(0) & 0x0Fu) << 12 | (At(1) & 0x3Fu) << 6 | (At(2) & 0x3Fu), 3};
  return {At(0), 1};
}

/// GPT-2 writes a byte as the character of its number where that is printable
/// in Latin-1, and the others, in order, as the characters from 256 on.
static bool isOwnCharacter(uint32_t C) {
  return (C >= 33 && C <= 126) || (C >= 161 && C <= 172) ||
         (C >= 174 && C <= 255);
}

/// The byte that character 256 + \p Index stands for; -1 beyond them.
static int shiftedByte(uint32_t Index) {
  for (uint32_t Byte = 0; Byte != 256; ++Byte)
    if (!isOwnCharacter(Byte) && Index-- == 0)
      return static_cast<int>(Byte);
  return -1;
}

static std::string fromByteLevel(StringRef Piece) {
  std::string Out;
  while (!Piece.empty()) {
    auto [Char, Bytes] = codePoint(Piece);
    int Shifted = Char >= 256 && Char < 512 ? shiftedByte(Char - 256) : -1;
    if (isOwnCharacter(Char))
      Out += static_cast<char>(Char);
    else if (Shifted >= 0)
      Out += static_cast<char>(Shifted);
    else
      Out += Piece.take_front(Bytes); // not of this spelling: as it is
    Piece = Piece.drop_front(Bytes);
  }
  return Out;
}

static std::string fromMetaspace(StringRef Piece) {
  // A byte that no piece covers: <0x0A>.
  uint8_t Byte;
  if (Piece.size() == 6 && Piece.starts_with("<0x") && Piece.ends_with(">") &&
      !Piece.substr(3, 2).getAsInteger(16, Byte))
    return std::string(1, static_cast<char>(Byte));
  std::string Out;
  constexpr StringLiteral Space("\xE2\x96\x81");
  while (!Piece.empty()) {
    if (Piece.consume_front(Space)) {
      Out += ' ';
      continue;
    }
    Out += Piece[0];
    Piece = Piece.drop_front();
  }
  return Out;
}

std::string TokenVocabulary::text(int64_t Id) const {
  if (!has(Id))
    return "";
  const Entry &E = entry(Id);
  if (E.Added)
    return E.Piece.str();
  switch (Spelling) {
  case PieceSpelling::Plain:
    return E.Piece.str();
  case PieceSpelling::ByteLevel:
    return fromByteLevel(E.Piece);
  case PieceSpelling::Metaspace:
    return fromMetaspace(E.Piece);
  case PieceSpelling::WordPiece: {
    StringRef Rest = E.Piece;
    return Rest.consume_front("##") ? Rest.str() : " " + Rest.str();
  }
  }
  return "";
}

} // namespace culprit
