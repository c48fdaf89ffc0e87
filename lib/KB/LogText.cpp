//===- LogText.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogText.h"
#include "KB/MarkdownReader.h"
#include "Support/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ConvertUTF.h"
#include <cstring>

using namespace llvm;

namespace culprit {

static void tell(std::vector<Diagnostic> &Remarks, StringRef File, size_t Line,
                 const Twine &What, const Twine &Hint) {
  Remarks.push_back({Severity::Warning,
                     (File + ":" + Twine(Line) + ": " + What).str(),
                     Hint.str()});
}

/// The number of bytes of \p Text before the first that is no UTF-8.
static size_t validLength(StringRef Text) {
  const UTF8 *Begin = reinterpret_cast<const UTF8 *>(Text.data());
  const UTF8 *At = Begin, *End = At + Text.size();
  while (At < End) {
    uint64_t Eight = 0;
    if (End - At >= 8)
      std::memcpy(&Eight, At, 8);
    if (End - At >= 8 && !(Eight & 0x8080808080808080)) {
      At += 8; // Of ASCII.
      continue;
    }
    if (*At < 0x80)
      ++At;
    else if (isLegalUTF8Sequence(At, End))
      At += getNumBytesForUTF8(*At);
    else
      break;
  }
  return static_cast<size_t>(At - Begin);
}

StringRef decodeLog(StringRef Text, StringRef File, std::string &Storage,
                    std::vector<Diagnostic> &Remarks, bool &Valid) {
  bool Wide = Text.starts_with("\xFF\xFE") || Text.starts_with("\xFE\xFF");
  if (Wide && Text.size() % 2 == 0 &&
      convertUTF16ToUTF8String(ArrayRef<char>(Text.data(), Text.size()),
                               Storage))
    Text = Storage;
  Text.consume_front("\xEF\xBB\xBF");
  size_t Nul = Text.find('\0');
  if (Nul != StringRef::npos)
    tell(Remarks, File, 1 + Text.take_front(Nul).count('\n'),
         "holds NUL bytes",
         "is this a markdown file? They were replaced by U+FFFD");
  size_t Legal = validLength(Text);
  Valid = Legal == Text.size() && Nul == StringRef::npos;
  if (Legal < Text.size())
    tell(Remarks, File, 1 + Text.take_front(Legal).count('\n'),
         "holds bytes that are not UTF-8",
         "they were replaced by U+FFFD; save the file as UTF-8");
  return Text;
}

FrontMatter takeFrontMatter(StringRef &Text) {
  FrontMatter Out;
  StringRef Rest = Text;
  auto Line = [&] {
    StringRef L;
    std::tie(L, Rest) = Rest.split('\n');
    return L.rtrim();
  };
  if (Line() != "---")
    return Out;
  for (unsigned N = 2; N < 200 && !Rest.empty(); ++N) {
    StringRef L = Line();
    if (L == "---" || L == "...") {
      Out.Lines = N;
      Text = Rest;
      return Out;
    }
    auto [Key, Value] = L.split(':');
    if (!Value.trim().empty() && !isSpace(L.front()))
      Out.Fields.push_back(
          {Key.trim().str(), Value.trim().trim("\"'").str()});
  }
  return FrontMatter(); // Never closed: a rule and then text.
}

void forEachPiece(StringRef Text, size_t Size, StringRef File,
                  std::vector<Diagnostic> &Remarks,
                  function_ref<void(StringRef, unsigned)> Each) {
  size_t Begin = 0, At = 0;
  unsigned Line = 0, First = 0;
  StringRef Fence; // The signs that opened the fence that is open.
  while (At < Text.size()) {
    size_t End = std::min(Text.find('\n', At), Text.size() - 1) + 1;
    StringRef L = Text.slice(At, End).rtrim();
    StringRef Bare = L.ltrim(' ');
    if (L.size() > Size) {
      // No prose and no log has such a line. The parser would take many times
      // its size in memory.
      if (At > Begin)
        Each(Text.slice(Begin, At), First);
      Each(wholeCharacters(L, Size), Line);
      tell(Remarks, File, Line + 1,
           "a line of " + Twine(L.size()) + " bytes",
           "its first " + Twine(Size) + " were read");
      Begin = End;
      First = Line + 1;
    } else if (!Fence.empty()) {
      if (Bare.starts_with(Fence) && Bare.ltrim(Fence.front()).empty())
        Fence = "";
    } else if (Bare.starts_with("```") || Bare.starts_with("~~~")) {
      Fence = Bare.take_while([&](char C) { return C == Bare.front(); });
    }
    bool Free = Fence.empty() && At - Begin >= Size && L.starts_with("#");
    bool Forced = At - Begin >= 8 * Size && L.empty();
    if (At > Begin && (Free || Forced)) {
      Each(Text.slice(Begin, At), First);
      Begin = At;
      First = Line;
      Fence = "";
    }
    At = End;
    ++Line;
  }
  if (Begin < Text.size())
    Each(Text.drop_front(Begin), First);
}

bool looksLikeIssuesLog(StringRef Text) {
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    Line = Line.ltrim("#-* \t");
    StringRef Label = Line.take_until(
        [](char C) { return C == '*' || C == ':' || C == '\r'; });
    if (Label.size() != Line.size() &&
        parseSectionLabel(Label) == Section::Symptom)
      return true;
    if (Label.size() == Line.size() && Line.rtrim() == "Symptom")
      return true;
  }
  return false;
}

} // namespace culprit
