//===- AccessLog.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/AccessLog.h"
#include "Readers/AccessLine.h"
#include "Readers/RequestRows.h"
#include "Readers/TextLines.h"
#include "Support/FindText.h"

using namespace llvm;

namespace culprit {

Match AccessLogReader::matches(const InputFile &File) const {
  unsigned Lines = 0, Known = 0;
  bool Whole = File.head().size() < InputFile::HeadBytes;
  forEachLine(completeLines(File.head(), Whole), [&](StringRef Line, int64_t) {
    if (Line.trim().empty())
      return true;
    std::optional<AccessLine> Parsed = parseAccessLine(Line);
    Known += Parsed && Parsed->Combined;
    return ++Lines < 50;
  });
  return Known && Known * 10 >= Lines * 8 ? Match::Certain : Match::No;
}

Error AccessLogReader::read(InputFile &File, Source &Into) const {
  RequestRows Rows(Into, File.expectedSize());
  RequestRecord R;
  size_t Broken = 0;
  int64_t FirstBroken = 0, Next = 1;
  auto Each = [&](StringRef Line, int64_t Number) {
    if (skipBlanks(Line).empty())
      return true;
    std::optional<AccessLine> L = parseAccessLine(Line);
    if (!L) {
      if (Broken++ == 0)
        FirstBroken = Number;
      return true;
    }
    if (L->Status < 400 && Rows.passOver(L->Id))
      return true;
    setRequest(*L, L->At, Number, R);
    R.Hop = "gateway";
    Rows.add(R);
    return true;
  };
  if (Error E = File.lines([&](StringRef Piece) {
        Next = forEachLine(Piece, Each, Next);
        return true;
      }))
    return E;
  Rows.finish();
  if (Broken)
    Into.warn(Into.path() + ":" + Twine(FirstBroken) + ": " + Twine(Broken) +
                  (Broken == 1 ? " line is" : " lines are") +
                  " not in the format of the others",
              "skipped; a log that is written to ends in an unfinished line");
  if (!Rows.requests())
    return failure(Into.path() + ": no line is of a request",
                   "log in nginx's combined format");
  return Error::success();
}

} // namespace culprit
