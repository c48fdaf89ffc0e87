//===- TokenizerWalk.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TokenizerWalk.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// A whole number that fits; -1 for anything else, which is no id.
static int64_t idOf(const LooseJson &In) {
  int64_t Id;
  return In.text().getAsInteger(10, Id) || Id < 0 ? -1 : Id;
}

namespace {
class Walk {
public:
  Walk(LooseJson &In, StringRef Text, TokenizerVisitor &To)
      : In(In), Text(Text), To(To) {}

  bool run();

private:
  bool readAdded();
  bool readModel();
  bool readMap();
  bool readList();
  bool countMerges();

  LooseJson &In;
  StringRef Text;
  TokenizerVisitor &To;
};
} // namespace

/// [{"id": 0, "content": "<s>", "special": true, ...}, ...]
bool Walk::readAdded() {
  for (;;) {
    Token T = In.next();
    if (T == Token::EndArray)
      return true;
    if (T != Token::Object) {
      if (T == Token::Error || T == Token::End || !In.skip(T))
        return false;
      continue;
    }
    const size_t Offset = In.offset();
    int64_t Id = -1;
    bool Special = false;
    std::string Content;
    while ((T = In.next()) == Token::Key) {
      std::string Key = In.text().str();
      T = In.next();
      if (Key == "id" && T == Token::Number)
        Id = idOf(In);
      else if (Key == "content" && T == Token::String)
        Content = In.text().str();
      else if (Key == "special" && T == Token::Bool)
        Special = In.boolean();
      else if (T == Token::Error || T == Token::End || !In.skip(T))
        return false;
    }
    if (T != Token::EndObject)
      return false;
    if (Id >= 0)
      To.added(Content, Id, Special, Offset);
  }
}

/// {"piece": 0, ...}
bool Walk::readMap() {
  std::string Piece;
  Token T;
  while ((T = In.next()) == Token::Key) {
    Piece = In.text().str();
    T = In.next();
    if (T == Token::Error || T == Token::End)
      return false;
    if (T == Token::Number) {
      if (int64_t Id = idOf(In); Id >= 0)
        To.piece(Piece, Id);
    } else if (!In.skip(T)) {
      return false;
    }
  }
  return T == Token::EndObject;
}

/// [["piece", -3.2], ...]; the id is the position.
bool Walk::readList() {
  for (int64_t Id = 0;; ++Id) {
    Token T = In.next();
    if (T == Token::EndArray)
      return true;
    if (T != Token::Array) {
      if (T == Token::Error || T == Token::End || !In.skip(T))
        return false;
      continue;
    }
    T = In.next();
    if (T == Token::EndArray)
      continue;
    if (T == Token::String)
      To.piece(In.text(), Id);
    else if (T == Token::Error || T == Token::End || !In.skip(T))
      return false;
    while ((T = In.next()) != Token::EndArray)
      if (T == Token::Error || T == Token::End || !In.skip(T))
        return false;
  }
}

bool Walk::countMerges() {
  const size_t Offset = In.offset();
  uint64_t Count = 0;
  for (Token T; (T = In.next()) != Token::EndArray; ++Count)
    if (T == Token::Error || T == Token::End || !In.skip(T))
      return false;
  To.setting("merges", utostr(Count), Offset);
  return true;
}

bool Walk::readModel() {
  Token T;
  while ((T = In.next()) == Token::Key) {
    std::string Key = In.text().str();
    T = In.next();
    bool Whole = true;
    if (Key == "vocab" && T == Token::Object)
      Whole = readMap();
    else if (Key == "vocab" && T == Token::Array)
      Whole = readList();
    else if (Key == "merges" && T == Token::Array)
      Whole = countMerges();
    else if (T == Token::Error || T == Token::End)
      Whole = false;
    else if (T == Token::Object || T == Token::Array || T == Token::Null)
      Whole = In.skip(T);
    else
      To.setting(Key, In.text(), In.offset());
    if (!Whole)
      return false;
  }
  return T == Token::EndObject;
}

bool Walk::run() {
  if (In.next() != Token::Object)
    return false;
  static constexpr StringLiteral Parts[] = {
      "normalizer",     "pre_tokenizer", "post_processor",
      "decoder",        "truncation",    "padding"};
  Token T;
  while ((T = In.next()) == Token::Key) {
    std::string Key = In.text().str();
    T = In.next();
    bool Whole = true;
    if (Key == "added_tokens" && T == Token::Array) {
      Whole = readAdded();
    } else if (Key == "model" && T == Token::Object) {
      Whole = readModel();
    } else if (T == Token::Error || T == Token::End) {
      Whole = false;
    } else {
      const size_t Offset = In.offset();
      Whole = In.skip(T);
      if (Whole && T == Token::Object && is_contained(Parts, Key))
        To.part(Key, Text.slice(Offset, In.end()), Offset);
    }
    if (!Whole)
      return false;
  }
  return T == Token::EndObject;
}

bool walkTokenizer(LooseJson &In, StringRef Text, TokenizerVisitor &Visitor) {
  return Walk(In, Text, Visitor).run();
}

} // namespace culprit
