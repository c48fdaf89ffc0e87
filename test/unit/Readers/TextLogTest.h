//===- TextLogTest.h - A fixture for metrics of logs ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_READERS_TEXTLOGTEST_H
#define CULPRIT_UNIT_READERS_TEXTLOGTEST_H

#include "Readers/TextLog.h"
#include "TextFileTest.h"

namespace culprit {

/// One log, and what was measured in it.
class TextLogTest : public TextFileTest {
protected:
  /// All scalars of \p Text as "step name=value, ...".
  std::string scalarsOf(llvm::StringRef Text) {
    read(R, Text);
    std::string Out;
    for (size_t I = 0; I != rows(TableId::scalars); ++I) {
      std::string Step = row(TableId::scalars, I, {scalars::step});
      Out += (Out.empty() ? "" : ", ") + Step + " " +
             row(TableId::scalars, I, {scalars::name}) + "=" +
             row(TableId::scalars, I, {scalars::value});
    }
    return Out;
  }
  TextLogReader R;
};

} // namespace culprit

#endif // CULPRIT_UNIT_READERS_TEXTLOGTEST_H
