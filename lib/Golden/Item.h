//===- Item.h - One promise of a golden lock --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// An item of a golden lock: what is held of a run, of which kind the check
/// is, how far a new run may be from it, and why. Values are kept as they are
/// written, so that what people edited by hand is written back as it was.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_ITEM_H
#define CULPRIT_GOLDEN_ITEM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// How an item is checked.
enum class GoldenKind {
  Exact,       ///< Equal, to the byte or id.
  Statistical, ///< Equal but for chance or rounding.
  Structural,  ///< Of the same shape, type or keys.
  Regression,  ///< Not worse than it was by more than noise.
};

/// What an item is about. It decides which values the item has.
enum class GoldenSubject {
  Answer,   ///< Text that a model answered to one prompt.
  Prompt,   ///< What was sent: its text, its number of tokens.
  Ids,      ///< A list of integers: token ids, an integer tensor.
  Sample,   ///< Numbers that vary by chance, one a request.
  Shares,   ///< How often each of a few words is.
  Level,    ///< One figure that is better when lower, or when higher.
  Tensor,   ///< Values of a floating-point tensor.
  Schema,   ///< Keys and types of API responses.
  Layout,   ///< Names, types and shapes of tensors.
  Settings, ///< Keys and values of a configuration.
  Counts,   ///< Tokens of each prompt.
};

llvm::StringRef toString(GoldenKind Kind);
llvm::StringRef toString(GoldenSubject Subject);
std::optional<GoldenKind> goldenKind(llvm::StringRef Word);
std::optional<GoldenSubject> goldenSubject(llvm::StringRef Word);
/// The kinds that an item about \p Subject may have, the usual one first.
llvm::ArrayRef<GoldenKind> kindsFor(GoldenSubject Subject);

/// A value of the lock file: a word, a list of words or words by key.
struct GoldenValue {
  enum class Form { Text, List, Map };
  Form Is = Form::Text;
  std::string Text;
  std::vector<std::string> List;
  std::vector<std::pair<std::string, std::string>> Map; ///< As written.
  unsigned Line = 0; ///< In the lock file, from 1; 0 for one just made.
};

struct GoldenItem {
  std::string Id; ///< "answers/run.jsonl/capital-of-france-1f2e3d".
  GoldenKind Kind = GoldenKind::Exact;
  GoldenSubject Of = GoldenSubject::Answer;
  /// What differences are allowed, by name: rtol, atol, k, p.
  std::vector<std::pair<std::string, double>> Tolerance;
  std::string Why; ///< Why this kind and tolerance.
  std::vector<std::pair<std::string, GoldenValue>> Values;
  /// Lines of the lock file, the first and the one behind the last; 0, 0 for
  /// an item that was just made.
  unsigned FirstLine = 0, EndLine = 0;

  const GoldenValue *find(llvm::StringRef Key) const;
  /// The word under \p Key; empty without one.
  llvm::StringRef text(llvm::StringRef Key) const;
  /// The number under \p Key; none where there is none.
  std::optional<double> number(llvm::StringRef Key) const;
  std::optional<int64_t> integer(llvm::StringRef Key) const;
  /// The numbers of the list under \p Key; a word that is none is NaN.
  std::vector<double> numbers(llvm::StringRef Key) const;
  std::vector<int64_t> integers(llvm::StringRef Key) const;
  /// The number at \p Name of the map under \p Key.
  std::optional<double> number(llvm::StringRef Key, llvm::StringRef Name) const;
  /// 0 where the item does not name it.
  double tolerance(llvm::StringRef Name) const;

  void set(llvm::StringRef Key, llvm::StringRef Text);
  void set(llvm::StringRef Key, int64_t Number);
  /// In at most \p Digits significant digits.
  void set(llvm::StringRef Key, double Number, int Digits = 6);
  void set(llvm::StringRef Key, llvm::ArrayRef<double> Numbers, int Digits);
  void set(llvm::StringRef Key, llvm::ArrayRef<int64_t> Numbers);
  void set(llvm::StringRef Key,
           std::vector<std::pair<std::string, std::string>> Map);
};

/// Whether \p Item has all that its subject wants, in the right form, and no
/// kind or tolerance that does not fit. \p Path names the lock file.
llvm::Error checkForm(const GoldenItem &Item, llvm::StringRef Path);

/// "xxh3:" and 16 hexadecimal digits.
std::string goldenHash(llvm::StringRef Bytes);

} // namespace culprit

#endif // CULPRIT_GOLDEN_ITEM_H
