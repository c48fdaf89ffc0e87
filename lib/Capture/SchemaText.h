//===- SchemaText.h - What a file says of its records -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The schema frame of a kind of record, so that a reader of another version
/// finds the fields it knows and steps over those it does not.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_SCHEMATEXT_H
#define CULPRIT_CAPTURE_SCHEMATEXT_H

#include "Capture/Records.h"

namespace culprit::capture {

struct SchemaText {
  static constexpr unsigned MaxFields = 40;
  SchemaHead Head;
  SchemaField Fields[MaxFields];
};

/// Fills in the schema of \p Kind; false when there is no such kind.
bool schemaText(RecordKind Kind, SchemaText &To);

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_SCHEMATEXT_H
