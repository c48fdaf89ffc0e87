//===- TrainerState.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TrainerState.h"
#include "Readers/ConfigRows.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

Match TrainerStateReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (!Head.ltrim().starts_with("{") || !Head.contains("\"log_history\""))
    return Match::No;
  return Head.contains("\"global_step\"") || Head.contains("\"max_steps\"")
             ? Match::Certain
             : Match::Likely;
}

Error TrainerStateReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  LooseJson In(*Text);
  LineCounter Lines(*Text);
  ConfigRows Config(Into);
  ScalarRows Scalars(Into);
  bool Complete = In.next() == LooseJson::Token::Object &&
                  readSettings(In, *Text, Config, Scalars, Lines);
  Scalars.finish();
  Config.finish();
  if (!Complete) {
    std::string Where =
        (Into.path() + ":" + Twine(Lines.lineOf(In.offset()))).str();
    std::string Why = In.error() ? In.error() : "it breaks off";
    if (Scalars.rows() + Config.rows() == 0)
      return failure(Where + ": " + Why,
                     "an earlier checkpoint folder has an older copy");
    Into.warn(Where + ": " + Why,
              utostr(Scalars.rows()) +
                  " logged values before it were read; an earlier checkpoint "
                  "folder has an older, complete copy");
  } else if (Scalars.rows() == 0) {
    Into.warn(Into.path() + ": log_history is empty",
              "nothing was logged yet; set logging_steps to 1 to get a curve");
  }
  return Error::success();
}

} // namespace culprit
