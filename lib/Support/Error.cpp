//===- Error.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Error.h"

using namespace llvm;

namespace culprit {

char Failure::ID = 0;

std::error_code Failure::convertToErrorCode() const {
  return inconvertibleErrorCode();
}

Error failure(const Twine &Message, const Twine &Hint) {
  return make_error<Failure>(Message.str(), Hint.str());
}

std::vector<Diagnostic> toDiagnostics(Error E, Severity Level) {
  std::vector<Diagnostic> Out;
  handleAllErrors(
      std::move(E),
      [&](const Failure &F) {
        Out.push_back({Level, F.message(), F.hint()});
      },
      [&](const ErrorInfoBase &Other) {
        Out.push_back({Level, Other.message(), ""});
      });
  return Out;
}

Error addContext(const Twine &Context, Error E) {
  std::string Prefix = Context.str() + ": ";
  return handleErrors(
      std::move(E),
      [&](const Failure &F) {
        return failure(Prefix + F.message(), F.hint());
      },
      [&](const ErrorInfoBase &Other) {
        return failure(Prefix + Other.message());
      });
}

} // namespace culprit
