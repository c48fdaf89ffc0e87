//===- Observe.h - What a run has that can be held --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns a case into golden items: each with the kind and tolerance that its
/// data suggests, and with what a check wants beside that, such as the whole
/// text of an answer. Ids name files relative to the paths given, so that a
/// lock made in one folder holds for a run in another.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_OBSERVE_H
#define CULPRIT_GOLDEN_OBSERVE_H

#include "Case/Case.h"
#include "Case/TokenVocabulary.h"
#include "Golden/Item.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace culprit {

/// An item of a run, with all its data.
struct Observation {
  GoldenItem Item;
  std::string Where; ///< "answers.jsonl:4"; the file alone without a line.
  std::string Text;  ///< Whole, of an answer or prompt; UTF-8.
  std::vector<int64_t> Ids;   ///< Whole.
  std::vector<double> Sample; ///< Whole.
  /// Of fields: where the key is first missing, under "key", and where it
  /// first has a type, under "key=type".
  std::map<std::string, std::string> Places;
};

struct GoldenOptions {
  /// Answers are greedy where no file tells how they were sampled.
  bool Greedy = false;
  /// Requests of a file that are looked at one by one: a lock of more is not
  /// reviewed by anyone. Those of a lock may be others than the first.
  size_t MostRequests = 1000;
  llvm::StringSet<> Wanted; ///< Ids of items that are looked at in any case.
  unsigned Threads = 1;
};

struct GoldenRun {
  std::vector<Observation> Items; ///< By id, each once.
  std::vector<std::string> Notes; ///< What is not held, and why.
  std::map<int64_t, std::string> Pieces; ///< Of token ids, from answers.
  std::optional<TokenVocabulary> Vocabulary;

  /// The piece that \p Id stands for; none where nothing tells.
  std::optional<std::string> piece(int64_t Id) const;
};

/// Everything of \p C, read from \p Paths, that can be held.
GoldenRun observe(const Case &C, llvm::ArrayRef<std::string> Paths,
                  const GoldenOptions &Options);

/// Names of the inputs of a case that do not depend on where they lie.
class InputNames {
public:
  InputNames(const Case &C, llvm::ArrayRef<std::string> Paths);
  /// Of the file \p Path; its own name if it is no input.
  std::string of(llvm::StringRef Path) const;
  /// Of the file that row \p Row of \p Id is from.
  std::string of(TableId Id, size_t Row) const {
    return of(C.cite(Id, Row).Path);
  }
  /// "answers.jsonl:4".
  std::string place(TableId Id, size_t Row) const;
  /// Whether \p Path is a golden lock, which is no evidence.
  bool isLock(llvm::StringRef Path) const {
    return llvm::is_contained(Locks, Path.str());
  }

private:
  const Case &C;
  std::map<std::string, std::string, std::less<>> Names;
  std::vector<std::string> Locks;
};

/// What observe() is made of: each adds what it knows.
void observeRequests(const Case &C, const InputNames &Names,
                     const GoldenOptions &Options, GoldenRun &Run);
void observeFigures(const Case &C, const InputNames &Names, GoldenRun &Run);
void observeTensors(const Case &C, const InputNames &Names, unsigned Threads,
                    GoldenRun &Run);
void observeSettings(const Case &C, const InputNames &Names, GoldenRun &Run);
void observeSchemas(const Case &C, const InputNames &Names, GoldenRun &Run);

/// \p Text fit for an id: lower case, words joined by dashes, at most \p Most
/// bytes.
std::string slugOf(llvm::StringRef Text, size_t Most);

/// An item of numbers that vary by chance; empty for fewer than \p Least. A
/// difference of \p Atol never matters.
std::optional<Observation> sampleItem(std::string Id,
                                      std::vector<double> Values,
                                      llvm::StringRef Unit, size_t Least,
                                      double Atol);
/// A list of ids, held exactly.
Observation idsItem(std::string Id, std::vector<int64_t> Ids);
/// A figure with its interval.
Observation levelItem(std::string Id, double Value, double Low, double High,
                      bool LowerIsBetter, llvm::StringRef Unit, double Rtol,
                      llvm::StringRef Why);

/// Longest text and list that a lock holds whole.
inline constexpr size_t MaxHeldText = 2000, MaxHeldIds = 256;

} // namespace culprit

#endif // CULPRIT_GOLDEN_OBSERVE_H
