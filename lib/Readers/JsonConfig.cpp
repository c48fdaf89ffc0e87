//===- JsonConfig.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonConfig.h"
#include "Readers/ConfigRows.h"
#include "Readers/TextLines.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

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

namespace {
/// JSON that is a recording and no settings, told by its first bytes.
struct Recording {
  StringRef Name;
  StringRef Mark;    ///< Its first key, or what it holds near its begin.
  StringRef Instead; ///< What to record that can be read.
};
} // namespace

static constexpr Recording Recordings[] = {
    {"a file of rocprof results (rocprofiler-sdk)", "\"rocprofiler-sdk-tool\"",
     "record the run with torch.profiler, which writes a trace of AMD devices "
     "too"},
    {"a PyTorch execution trace without times,",
     "[pytorch|profiler|execution_trace|",
     "give the torch.profiler trace of the same run "
     "(prof.export_chrome_trace)"},
    {"a PyTorch execution graph without times,",
     "[pytorch|profiler|execution_graph|",
     "give the torch.profiler trace of the same run "
     "(prof.export_chrome_trace)"},
};

Error JsonConfigReader::read(InputFile &File, Source &Into) const {
  StringRef Begin = withoutMark(File.head()).take_front(4096);
  for (const Recording &R : Recordings)
    if (Begin.ltrim("{ \t\r\n").starts_with(R.Mark) ||
        (R.Mark.starts_with("[") && Begin.contains(R.Mark)))
      return failure(Into.path() + ": is " + R.Name +
                         " and not read by culprit",
                     R.Instead);
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Text = withoutMark(*Contents);
  LooseJson In(Text);
  LineCounter Lines(Text);
  ConfigRows Config(Into, "", settingName);
  ScalarRows Scalars(Into);
  Token First = In.next();
  bool Complete = First == Token::Array
                      ? readRecordList(In, Scalars, Lines)
                      : readSettings(In, Text, Config, Scalars, Lines);
  Config.finish();
  Scalars.finish();
  if (Complete)
    return Error::success();
  return brokenOff(In, Lines, Config.rows() + Scalars.rows(), Into);
}

} // namespace culprit
