//===- ErrorNature.h - What an error says of itself -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The nature of an error by its own text, and whether one error explains
/// another. ErrorRoles.h says what the natures mean.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_ERRORNATURE_H
#define CULPRIT_CASE_ERRORNATURE_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class ErrorNature { Root, Sign, Report, Stop, Note, Advice };

/// The texts of a row of `errors`; empty where null.
struct ErrorText {
  llvm::StringRef Type, Code, Signature, Message, Frames, Device;
  bool HasFrames = false; ///< It has a traceback.

  llvm::StringRef kind() const { return Signature.empty() ? Type : Signature; }
  /// An Xid or SXid: of a machine, not of a run.
  bool fromDriver() const { return Type == "Xid" || Type == "SXid"; }
  /// What the driver did, or asks for, after another event.
  bool isDriverNote() const;
};

ErrorNature natureOf(const ErrorText &E);

/// Whether \p Later needs no cause of its own after \p First.
bool explains(const ErrorText &First, const ErrorText &Later);

} // namespace culprit

#endif // CULPRIT_CASE_ERRORNATURE_H
