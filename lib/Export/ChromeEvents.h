//===- ChromeEvents.h - Events of a Chrome trace ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The JSON of events, one a line, as the Trace Event Format has them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_CHROMEEVENTS_H
#define CULPRIT_EXPORT_CHROMEEVENTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <utility>

namespace culprit {

class TraceEvents {
public:
  using Number = std::optional<int64_t>;

  /// A process or thread: its number, or a word where there is none, so that
  /// none is read back.
  struct LineId {
    LineId(int64_t Id) : Id(Id) {}
    LineId(Number Id) : Id(Id) {}
    LineId(std::string Word) : Word(std::move(Word)) {}

    Number Id;
    std::string Word = "unknown";
  };

protected:
  explicit TraceEvents(llvm::raw_ostream &OS) : OS(OS) {}

  /// Begins an event up to its arguments, of which the first may follow. Times
  /// are in ns; without \p Length it is a moment.
  void event(llvm::StringRef Phase, llvm::StringRef Category,
             llvm::StringRef Name, const LineId &Pid, const LineId &Tid,
             int64_t Start, Number Length);
  void endEvent() { OS << "}}"; }
  /// An end of an arrow, s or f, from a call to the work that it launched.
  void flow(llvm::StringRef Phase, Number Pid, Number Tid, int64_t At,
            int64_t Id);
  void metadata(llvm::StringRef What, int64_t Pid, Number Tid,
                const llvm::json::Value &Value);

  void beginArguments() { FirstArgument = true; }
  // Each is left out when there is no value.
  void argument(llvm::StringRef Name, Number Value);
  void textArgument(llvm::StringRef Name, llvm::StringRef Value);
  void listArgument(llvm::StringRef Name, llvm::ArrayRef<int64_t> Value);

  void key(llvm::StringRef Name);
  /// Begins the line of an event.
  void line() { OS << (std::exchange(First, false) ? "\n" : ",\n"); }
  void quoted(llvm::StringRef Text);
  void time(int64_t Ns);

  llvm::raw_ostream &OS;

private:
  bool First = true, FirstArgument = true;
};

} // namespace culprit

#endif // CULPRIT_EXPORT_CHROMEEVENTS_H
