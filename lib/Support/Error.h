//===- Error.h - One clear sentence and a remedy ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// How culprit says that something went wrong. Libraries return `llvm::Error`
/// made by `failure()` and never print or exit; the tool prints. A message
/// starts in lower case, names the file, the place and the thing, and has no
/// final full stop. The hint says what to do about it and is printed as a
/// `note:` under the error.
///
///   error: run/metrics.jsonl:14: not a JSON object
///   note: 13 rows before it were read; delete the line or fix its quotes
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_ERROR_H
#define CULPRIT_SUPPORT_ERROR_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// A failed operation: a message and, where there is a remedy, a hint.
class Failure : public llvm::ErrorInfo<Failure> {
public:
  static char ID;

  Failure(std::string Message, std::string Hint)
      : Message(std::move(Message)), Hint(std::move(Hint)) {}

  std::string message() const override { return Message; }
  const std::string &hint() const { return Hint; }

  void log(llvm::raw_ostream &OS) const override { OS << Message; }
  std::error_code convertToErrorCode() const override;

private:
  std::string Message;
  std::string Hint;
};

/// Makes an error of \p Message and, if not empty, \p Hint.
llvm::Error failure(const llvm::Twine &Message, const llvm::Twine &Hint = "");

enum class Severity { Note, Warning, Error };

/// Something worth telling about an input that did not stop the analysis.
/// Ordered by the input it belongs to, then by occurrence.
struct Diagnostic {
  Severity Level = Severity::Warning;
  std::string Message; ///< In the form of an error message.
  std::string Hint;    ///< Empty when there is no remedy.
};

/// Consumes \p E and returns its parts as one diagnostic. Joined errors give
/// one diagnostic each.
std::vector<Diagnostic> toDiagnostics(llvm::Error E,
                                      Severity Level = Severity::Error);

/// Prefixes the message of every Failure in \p E with \p Context and ": ".
llvm::Error addContext(const llvm::Twine &Context, llvm::Error E);

} // namespace culprit

#endif // CULPRIT_SUPPORT_ERROR_H
