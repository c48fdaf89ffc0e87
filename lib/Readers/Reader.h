//===- Reader.h - One input format ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A reader knows one format. To add one, write Foo.h and Foo.cpp with a class
/// FooReader and add a line to Readers.def. Rules:
///
/// - matches() decides by content, never by the file name alone, and reads
///   nothing but the head.
/// - read() takes what it can. A broken record is skipped and told in
///   Source::warn with the place; an Error is for a file of which nothing
///   more can be read, and the rows added before it are kept.
/// - No crash on any bytes. No output, no exit, no writing.
/// - Readers have no state; one object serves all threads.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_READER_H
#define CULPRIT_READERS_READER_H

#include "Case/Case.h"
#include "Case/Source.h"
#include "Support/InputFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// How sure a reader is that a file is its own. The surest reader gets it;
/// ties go to the earlier line of Readers.def.
enum class Match {
  No,
  Possible, ///< Parses, but so would other formats: any text, any JSON.
  Likely,   ///< Has the keys or lines of the format.
  Certain,  ///< Has a magic number or keys nothing else has.
};

class Reader {
public:
  virtual ~Reader() = default;

  /// Name for reports: "Kineto trace", "Nsight Systems export".
  virtual llvm::StringRef name() const = 0;
  /// What users know it as, for `culprit list formats`: one sentence part.
  virtual llvm::StringRef about() const { return ""; }
  /// How files of it alone end, ".npy .npz": one that ends so and holds
  /// something else has been cut, packed or exchanged, which is told.
  virtual llvm::StringRef endings() const { return ""; }
  virtual Match matches(const InputFile &File) const = 0;
  virtual llvm::Error read(InputFile &File, Source &Into) const = 0;
};

/// All readers, in the order of Readers.def.
llvm::ArrayRef<const Reader *> readers();

/// Whether the rows of `tensors` have statistics, or the names and shapes alone
/// for one that reads the values itself.
enum class TensorDetail { Statistics, Values };

/// Reads \p Paths (files, or directories, which are walked in name order) with
/// up to \p Threads threads into a case. A file that no reader knows is listed
/// with an empty format. An error only when the one path given does not exist;
/// among several it is an input that could not be read.
llvm::Expected<Case>
readCase(llvm::ArrayRef<std::string> Paths, unsigned Threads,
         TensorDetail Detail = TensorDetail::Statistics);

} // namespace culprit

#endif // CULPRIT_READERS_READER_H
