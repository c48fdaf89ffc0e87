//===- JsonConfig.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonConfig.h"
#include "Readers/ConfigRows.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

static StringRef withoutMark(StringRef Text) {
  Text.consume_front("\xEF\xBB\xBF");
  return Text;
}

Match JsonConfigReader::matches(const InputFile &File) const {
  StringRef Head = withoutMark(File.head());
  LooseJson In(Head);
  Token First = In.next();
  if (First == Token::Array)
    return isRecordList(In, Head) ? Match::Likely : Match::No;
  if (First != Token::Object)
    return Match::No;
  // Python code and prose in braces have no quoted key in front.
  StringRef Key = Head.drop_front(In.end()).ltrim();
  if (Key.empty() || !StringRef("\"'}").contains(Key[0]))
    return Match::No;
  Token Second = In.next();
  if (Second == Token::Error)
    return Match::No;
  // A broken object is still evidently JSON; read() says what is wrong.
  if (Second != Token::EndObject && !In.skip(Token::Object))
    return Match::Possible;
  // Something behind the object is another format: one object a line.
  return Head.drop_front(In.end()).trim().empty() ? Match::Possible : Match::No;
}

Error JsonConfigReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Text = withoutMark(*Contents);
  LooseJson In(Text);
  LineCounter Lines(Text);
  ConfigRows Config(Into);
  ScalarRows Scalars(Into);
  Token First = In.next();
  bool Complete = First == Token::Array
                      ? readRecordList(In, Scalars, Lines)
                      : readSettings(In, Text, Config, Scalars, Lines);
  Config.finish();
  Scalars.finish();
  if (Complete)
    return Error::success();
  size_t Read = Config.rows() + Scalars.rows();
  std::string Where =
      (Into.path() + ":" + Twine(Lines.lineOf(In.offset()))).str();
  std::string What = In.error() ? In.error() : "it breaks off";
  if (Read == 0)
    return failure(Where + ": " + What, "write the file again");
  Into.warn(Where + ": " + What, "the " + utostr(Read) +
                                     " values before it were read; repair the "
                                     "file to get the rest");
  return Error::success();
}

} // namespace culprit
