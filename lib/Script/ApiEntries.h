//===- ApiEntries.h - Api.def as data ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The lines of Api.def and the parts of the API they belong to, for those who
/// write about them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_APIENTRIES_H
#define CULPRIT_SCRIPT_APIENTRIES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

enum class ApiKind { Function, Field, Standard };

/// A line of Api.def.
struct ApiEntry {
  ApiKind Kind;
  llvm::StringRef Receiver, Name;
  llvm::StringRef Params; ///< Of a function.
  llvm::StringRef Result; ///< Of a function; the type of a field.
  llvm::StringRef Doc, Example;
};

/// A receiver: how it is written, and what it is.
struct ApiSection {
  llvm::StringRef Receiver, Title, Prefix, Class, Doc;
};

/// A purpose, and what serves it: `receiver:name` of lines of Api.def.
struct ApiTopic {
  llvm::StringRef Purpose, Names;

  /// The names one by one; those of operators hold blanks.
  llvm::SmallVector<llvm::StringRef, 16> names() const;
};

/// All lines of Api.def, in its order.
llvm::ArrayRef<ApiEntry> apiEntries();
/// What the example of \p E gives, as log() prints it; empty where it gives
/// nothing.
llvm::StringRef resultOf(const ApiEntry &E);
/// All of ApiTopics.def.
llvm::ArrayRef<ApiTopic> apiTopics();
/// All receivers, in the order of the manual.
llvm::ArrayRef<ApiSection> apiSections();

/// `first: integer, last?: integer`, at the commas between parameters.
llvm::SmallVector<llvm::StringRef, 4> parameters(llvm::StringRef Params);
/// The names alone: `first, last`, with \p Optional behind those that may be
/// left out.
std::string parameterNames(llvm::StringRef Params,
                           llvm::StringRef Optional = "");

} // namespace culprit

#endif // CULPRIT_SCRIPT_APIENTRIES_H
