//===- AddEntry.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntry.h"
#include "KB/AddEntryFile.h"
#include "KB/AddEntryStyle.h"
#include "KB/AddEntryText.h"
#include "KB/MarkdownReader.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

/// What stands between the bytes \p Before and a block: nothing when they end
/// in an empty line.
static StringRef gap(StringRef Before) {
  StringRef Rest = Before;
  unsigned Ends = 0;
  while (Ends < 2 && Rest.consume_back("\n")) {
    Rest.consume_back("\r");
    ++Ends;
  }
  if (Rest.empty() || Ends == 2)
    return "";
  return Ends ? "\n" : "\n\n";
}

/// The number of the line that follows \p Text. Lines end as they do for
/// cmark, so also at a \r by itself.
static unsigned lineAfter(StringRef Text) {
  unsigned Line = 1;
  for (size_t I = 0; I < Text.size(); ++I)
    Line += Text[I] == '\n' ||
            (Text[I] == '\r' && !Text.substr(I + 1).starts_with("\n"));
  return Line;
}

static bool endsWithRule(StringRef Text) {
  Text = Text.rtrim();
  StringRef Line = Text.drop_front(Text.find_last_of('\n') + 1).trim();
  return Line.size() >= 3 && Line.find_first_not_of('-') == StringRef::npos;
}

/// The bytes to put in at \p P.
static std::string blockFor(const Entry &E, const LogForm &Log,
                            const EntryPlace &P, StringRef Before,
                            StringRef After) {
  const LogStyle &Style = Log.Style;
  std::string Block;
  bool AddRule = Style.Rules && !P.BeforeEntry && !endsWithRule(Before);
  if (AddRule)
    Block += "---\n\n";
  if (P.NeedsDate && !E.Date.empty()) {
    std::string Heading = Style.DateHeading;
    Heading.replace(Heading.find("{d}"), 3, E.Date);
    Block += std::string(Style.DateLevel, '#') + " " + Heading + "\n\n";
  }
  Block += entryMarkdown(E, Style);
  if (Style.Rules && P.BeforeEntry)
    Block += "\n---\n";
  std::string Out = gap(Before).str() + Block;
  if (!After.empty() && !After.starts_with("\n") && !After.starts_with("\r"))
    Out += '\n';
  if (!Style.Crlf)
    return Out;
  std::string WithCr;
  for (char C : Out) {
    if (C == '\n')
      WithCr += '\r';
    WithCr += C;
  }
  return WithCr;
}

/// Whether \p New reads as \p Old did and has one entry more; gives its index
/// or says what is wrong.
static Expected<size_t> findAdded(ArrayRef<Entry> Old, ArrayRef<Entry> New,
                                  unsigned Line, const Entry &E,
                                  StringRef File) {
  auto Found = find_if(New, [&](const Entry &N) {
    return N.Source.Line == Line;
  });
  if (New.size() < Old.size() + 1 || Found == New.end())
    return failure(
        File + ": an entry at line " + Twine(Line) +
            " would not be read as one",
        "nothing was changed; look for a code fence or an HTML comment before "
        "this line that is not closed");
  size_t At = static_cast<size_t>(Found - New.begin());
  auto Same = [](const Entry &A, const Entry &B) {
    return A.Title == B.Title && A.Symptom == B.Symptom &&
           A.RootCause == B.RootCause && A.Fix == B.Fix &&
           A.Files == B.Files && A.Prevention == B.Prevention &&
           A.Date == B.Date && A.Status == B.Status;
  };
  bool Intact = New.size() == Old.size() + 1;
  for (size_t I = 0; Intact && I < Old.size(); ++I)
    Intact = Same(Old[I], New[I < At ? I : I + 1]);
  if (!Intact)
    return failure(File + ": with the entry '" + E.Title +
                       "' in it, other entries would be read differently",
                   "nothing was changed; take headings and labels such as "
                   "'**Fix**:' out of its texts, or put them into code fences");
  const Entry &A = *Found;
  bool Whole = !A.Symptom.empty() && !A.RootCause.empty() && !A.Fix.empty() &&
               !A.Files.empty() && A.Prevention.size() >= E.Prevention.size();
  if (!Whole)
    return failure("the entry '" + E.Title +
                       "' would not be read with all its sections",
                   "nothing was changed; take headings and labels such as "
                   "'**Fix**:' out of its texts, or put them into code fences");
  return At;
}

Expected<std::string> withEntry(StringRef Old, StringRef File, const Entry &E,
                                AddedEntry &Out) {
  std::string Start;
  LogForm Log = readLogForm(Old, File);
  EntryPlace P = placeForEntry(Log, Old, E.Date);
  if (Old.trim().empty())
    Start = "# Issues Log\n\n";
  StringRef Before = Old.take_front(P.Offset), After = Old.drop_front(P.Offset);
  std::string Block =
      Start + blockFor(E, Log, P, Start.empty() ? Before : StringRef(), After);
  if (!Start.empty() && !Old.empty() && !Old.ends_with("\n"))
    Block = "\n" + Block;
  std::string New = (Before + Block + After).str();

  std::vector<Entry> Read = readMarkdown(New, File).Entries;
  std::vector<Entry> Was = readMarkdown(Old, File).Entries;
  // The line of the entry's own heading, which stands behind that of its date.
  std::string Written = entryMarkdown(E, Log.Style);
  size_t Heading =
      P.Offset + Block.find(StringRef(Written).split('\n').first.str());
  unsigned Line = lineAfter(StringRef(New).take_front(Heading));
  Expected<size_t> At = findAdded(Was, Read, Line, E, File);
  if (!At)
    return At.takeError();
  Out.Added = std::move(Read[*At]);
  Out.Text = std::move(Block);
  Out.New = Old.empty();
  Out.Others = std::move(Was);
  return New;
}

Expected<AddedEntry> addEntry(StringRef File, const Entry &E) {
  AddedEntry Out;
  Error Failed = updateFile(File, [&](StringRef Old) {
    return withEntry(Old, File, E, Out);
  });
  if (Failed)
    return Failed;
  return Out;
}

} // namespace culprit
