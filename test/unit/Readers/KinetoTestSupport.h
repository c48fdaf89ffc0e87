//===- KinetoTestSupport.h - Traces as tests write them ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A trace written and read, and its events in short.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_UNIT_READERS_KINETOTESTSUPPORT_H
#define CULPRIT_TEST_UNIT_READERS_KINETOTESTSUPPORT_H

#include "ProfileTestSupport.h"
#include "Readers/KinetoTrace.h"

namespace culprit::kineto {

/// An event of the category with a time, a duration and arguments.
inline std::string event(llvm::StringRef Category, llvm::StringRef Name,
                         llvm::StringRef Ts, llvm::StringRef Dur,
                         llvm::StringRef Args = "{}",
                         llvm::StringRef Thread = R"("pid": 10, "tid": 11)") {
  return (R"({"ph": "X", "cat": ")" + Category + R"(", "name": ")" + Name +
          R"(", )" + Thread + R"(, "ts": )" + Ts + R"(, "dur": )" + Dur +
          R"(, "args": )" + Args + "}")
      .str();
}

class KinetoTest : public ProfileTest {
protected:
  /// Reads a trace of the events, with \p Tail behind their list.
  std::string readEvents(std::initializer_list<std::string> Events,
                         llvm::StringRef Tail = "") {
    std::string Text = R"({"schemaVersion": 1, "traceEvents": [)";
    for (const std::string &E : Events)
      Text += (Text.back() == '[' ? "" : ",\n") + E;
    Written = Text + "]" + Tail.str() + "}";
    write(Written);
    return read(Reader);
  }
  std::string readTrace(llvm::StringRef Bytes) {
    write(Bytes);
    return read(Reader);
  }
  KinetoTraceReader Reader;
  std::string Written; ///< The trace that readEvents() made.
};

} // namespace culprit::kineto

#endif // CULPRIT_TEST_UNIT_READERS_KINETOTESTSUPPORT_H
