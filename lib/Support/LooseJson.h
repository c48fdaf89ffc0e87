//===- LooseJson.h - JSON as people and Python write it ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A pull parser for JSON and for Python's repr of it. Training code writes
/// both, and neither as the standard wants: NaN, Infinity and nan as numbers,
/// single quotes, True, False and None, trailing commas, tuples. A diverged
/// run is exactly the one whose metrics hold NaN, so these must be read.
///
///   LooseJson In("{'loss': nan, 'step': 3}");
///   In.next();                       // Object
///   while (In.next() == LooseJson::Token::Key) { ... In.text() ... }
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_LOOSEJSON_H
#define CULPRIT_SUPPORT_LOOSEJSON_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

/// Reads one value, whatever its size, in constant memory. Holds a view of the
/// text. Not thread-safe.
class LooseJson {
public:
  enum class Token {
    Object,    ///< A map begins; keys and values follow.
    EndObject, ///< It ends.
    Array,     ///< A list or a tuple begins.
    EndArray,  ///< It ends.
    Key,       ///< A key; its value follows.
    Null,
    Bool,
    Number,
    String,
    End,  ///< The value is complete; what follows it has not been looked at.
    Error ///< Broken here; error() says why. Stays in this state.
  };

  /// Deeper nesting is refused; no trainer comes near it.
  static constexpr unsigned MaxDepth = 256;

  explicit LooseJson(llvm::StringRef Text) : Text(Text) {}

  Token next();

  /// The text of a Key or String, unescaped; of a Number or Bool, as written.
  /// Valid until the next call of next().
  llvm::StringRef text() const { return Value; }
  double number() const { return NumberValue; }
  bool boolean() const { return NumberValue != 0; }

  /// Offset of the token read last, or of the one that is broken.
  size_t offset() const { return Start; }
  /// Offset behind the token read last.
  size_t end() const { return Position; }
  unsigned depth() const { return Stack.size(); }
  const char *error() const { return Problem; }

  /// Reads on to the end of the value that \p Begun opened; nothing to do for
  /// a scalar. False when the text breaks before.
  bool skip(Token Begun);

private:
  enum class Expect { Value, KeyOrEnd, Colon, CommaOrEnd, Done };

  Token fail(const char *Message);
  Token readKey();
  Token readValue();
  Token readWord();
  Token open(char Kind);
  Token close(char Kind);
  bool readWrapped();
  bool readString(char Quote);
  void readEscape();
  void readCodePoint(char Kind, unsigned Digits);
  void skipBlanks();
  void afterValue();

  llvm::StringRef Text;
  size_t Position = 0;
  size_t Start = 0;
  llvm::SmallVector<char, 16> Stack;
  Expect Wanted = Expect::Value;
  llvm::StringRef Value;
  std::string Unescaped;
  double NumberValue = 0;
  const char *Problem = nullptr;
};

/// \p Text as a whole as a number: 1e-4, .5, 1,234, NaN, -inf, Infinity,
/// 1_000; none when it is anything else. Independent of the locale.
std::optional<double> parseNumber(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_SUPPORT_LOOSEJSON_H
