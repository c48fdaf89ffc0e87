//===- MergesFile.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/MergesFile.h"
#include "Readers/ConfigRows.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Two pieces with one space between them.
static bool isMergeRule(StringRef Line) {
  auto [Left, Right] = Line.split(' ');
  return !Left.empty() && !Right.empty() && !Right.contains(' ') &&
         !Line.contains('\t');
}

Match MergesFileReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  // Its first line tells the version of the format in all files of GPT-2's
  // kind.
  if (!Head.starts_with("#version:"))
    return Match::No;
  unsigned Lines = 0, Rules = 0;
  bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t Number) {
    if (Number > 1 && !Line.empty()) {
      ++Lines;
      Rules += isMergeRule(Line);
    }
    return Lines < 50;
  });
  return Lines >= 2 && Rules == Lines ? Match::Certain : Match::No;
}

Error MergesFileReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  int64_t Rules = 0, Broken = 0;
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    if (Number == 1 || Line.empty())
      return true;
    const bool Rule = isMergeRule(Line);
    Rules += Rule;
    if (!Rule && ++Broken == 1)
      Into.warn(Into.path() + ":" + Twine(Number) + ": no rule of two pieces",
                "copy the file again; a tokenizer does not load it so");
    return true;
  });
  ConfigRows Config(Into, "tokenizer.");
  Config.add("type", "BPE", 1);
  Config.add("merges", itostr(Rules), 1);
  Config.finish();
  return Error::success();
}

} // namespace culprit
