//===- StackDump.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/StackDump.h"
#include "Readers/CallFrames.h"
#include "Readers/LogLine.h"
#include "Readers/ScalarRows.h"
#include "Readers/StackLines.h"
#include "Readers/TextLines.h"
#include "Readers/TextLog.h"

using namespace llvm;

namespace culprit {

using Kind = DataTree::Kind;

static bool isJsonDump(StringRef Head) {
  return Head.ltrim().starts_with("[") && Head.contains("\"thread_id\"") &&
         Head.contains("\"owns_gil\"") && Head.contains("\"frames\"");
}

/// Lines of \p Text that belong to stacks, and others.
static std::pair<size_t, size_t> countLines(StringRef Text, size_t &Heads) {
  LogLineParser Parser;
  StackLines Stacks(nullptr);
  size_t Own = 0, Foreign = 0;
  forEachLine(Text, [&](StringRef Line, int64_t Number) {
    if (!Line.trim().empty())
      ++(Stacks.line(Parser.parse(Line, Number)) ? Own : Foreign);
    return true;
  });
  Heads = Stacks.heads();
  return {Own, Foreign};
}

Match StackDumpReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (isJsonDump(Head))
    return Match::Certain;
  if (Head.contains('\0') ||
      !(Head.contains("Thread ") || Head.contains("most recent call first")))
    return Match::No;
  size_t Heads = 0;
  auto [Own, Foreign] = countLines(
      completeLines(Head, Head.size() < InputFile::HeadBytes), Heads);
  if (Heads == 0 || Own < 2 * Heads)
    return Match::No;
  if (Foreign == 0)
    return Match::Certain;
  return Own > Foreign ? Match::Likely : Match::No;
}

/// The list of threads of py-spy dump --json.
static void readJson(const DataTree &Tree, Source &Into) {
  CallFrames Frames(Tree, Into.pool());
  std::optional<int64_t> Rank = rankOfPath(Into.path());
  int64_t Number = 0;
  for (DataValue Thread : Tree.items(Tree.root())) {
    if (!Tree.is(Thread, Kind::Dict))
      continue;
    TableBuilder &Row = Into.table(TableId::stacks);
    Row.addRow();
    Row.set(stacks::source, StringRef(Into.path()));
    if (Rank)
      Row.set(stacks::rank, *Rank);
    auto number = [&](StringRef Key) {
      return Tree.integer(Tree.find(Thread, Key));
    };
    if (std::optional<int64_t> Pid = number("pid"))
      Row.set(stacks::pid, *Pid);
    std::optional<int64_t> Tid = number("os_thread_id");
    Tid = Tid ? Tid : number("thread_id");
    if (Tid)
      Row.set(stacks::tid, *Tid);
    if (StringRef Name = Tree.text(Tree.find(Thread, "thread_name"));
        !Name.empty())
      Row.set(stacks::thread, Name);
    if (std::optional<int64_t> Active = number("active"))
      Row.set(stacks::state, number("owns_gil").value_or(0) ? "gil"
                             : *Active                      ? "active"
                                                            : "idle");
    if (StringId Text = Frames.of(Tree.find(Thread, "frames")))
      Row.setId(stacks::frames, Text);
    Row.set(stacks::place, ++Number);
  }
}

Error StackDumpReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  if (isJsonDump(File.head())) {
    Expected<DataTree> Tree = readJsonTree(*Text);
    if (!Tree)
      return addContext(Into.path(), Tree.takeError());
    if (!Tree->truncation().empty())
      Into.warn(Into.path() + ": " + Tree->truncation(),
                "what came before it was read; copy the file again");
    readJson(*Tree, Into);
    return Error::success();
  }
  // Other lines, as "Fatal Python error: Segmentation fault", are evidence
  // that the reader of logs understands; it reads the stacks as well.
  size_t Heads = 0;
  if (countLines(*Text, Heads).second) {
    TextLogReader Log;
    Into.Format = Log.name().str();
    return Log.read(File, Into);
  }
  LogLineParser Parser;
  StackLines Stacks(&Into);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Stacks.line(Parser.parse(Line, Number));
    return true;
  });
  Stacks.finish();
  return Error::success();
}

} // namespace culprit
