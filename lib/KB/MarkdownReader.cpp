//===- MarkdownReader.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownReader.h"
#include "KB/EntryTitle.h"
#include "KB/MarkdownText.h"
#include "KB/Sections.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include <cmark.h>

using namespace llvm;

namespace culprit {

namespace {

/// Walks the blocks of a document in order and sorts their text into the
/// sections of entries.
class LogReader {
public:
  LogReader(StringRef File, MarkdownLog &Out)
      : File(File), Stem(slug(sys::path::stem(File))), Out(Out) {}

  void read(cmark_node *Document) {
    for (cmark_node *N = cmark_node_first_child(Document); N;
         N = cmark_node_next(N)) {
      if (cmark_node_get_type(N) == CMARK_NODE_HEADING)
        heading(N);
      else
        block(N, "", 0);
    }
    closeEntry();
  }

private:
  // Text of an open entry goes to a known section, to a section that is kept
  // without being understood, or stands before any section.
  enum class Target { None, Known, Other };

  void remark(Severity Level, unsigned Line, const Twine &What,
              const Twine &Hint = "") {
    Out.Remarks.push_back(
        {Level, (File + ":" + Twine(Line) + ": " + What).str(), Hint.str()});
  }

  void heading(cmark_node *N) {
    int Level = cmark_node_get_heading_level(N);
    unsigned Line = cmark_node_get_start_line(N);
    std::string Title = StringRef(inlineText(N)).trim().str();

    if (std::optional<Section> S = parseSectionLabel(Title)) {
      if (HasEntry && Level > EntryLevel)
        return openSection(*S, Line);
      if (!HasEntry && beginsEntry(*S)) {
        openUntitledEntry(Line);
        return openSection(*S, Line);
      }
    }
    std::string Plain = Title;
    std::string Status = takeStatus(Plain);
    StringRef Found = findDate(Title);
    bool IsEntry = !Status.empty() || Level == 3;
    if (HasEntry && Level > EntryLevel && Status.empty())
      return openOther(Title, Line);

    closeEntry();
    if (!IsEntry) {
      if (!Found.empty())
        Date = Found.str();
      else if (Level <= 2)
        Date.clear();
      LastHeading = Title;
      LastLevel = Level;
      LastLine = Line;
      return;
    }
    openEntry(Plain, Status, Level, Line);
  }

  static bool beginsEntry(Section S) {
    return S == Section::Symptom || S == Section::RootCause;
  }

  void openEntry(StringRef Title, StringRef Status, int Level, unsigned Line) {
    StringRef Own = findDate(Title);
    E = Entry();
    E.Date = Own.empty() ? Date : Own.str();
    if (!Own.empty() && Title.trim().starts_with(Own))
      Title = Title.trim().drop_front(Own.size()).ltrim(" :-");
    E.Title = Title.trim().str();
    E.Status = Status.str();
    if (E.Status.empty())
      E.Status = takeStatus(E.Title);
    E.Source = {File.str(), Line};
    HasEntry = true;
    HasSection = false;
    EntryLevel = Level;
    setTarget(Target::None, Line);
  }

  /// A section outside an entry: the heading above it was the title.
  void openUntitledEntry(unsigned Line) {
    if (LastHeading.empty())
      openEntry(Stem, "", 0, Line);
    else
      openEntry(LastHeading, "", LastLevel, LastLine);
  }

  void openSection(Section S, unsigned Line) {
    setTarget(Target::Known, Line);
    Current = S;
    HasSection = true;
  }

  void openOther(StringRef Label, unsigned Line) {
    std::string Known = closestSectionLabel(Label);
    remark(Severity::Warning, Line,
           "unknown section '" + Label + "' in '" + E.Title + "'",
           Known.empty() ? "its text is kept but not searched"
                         : "did you mean '" + Known + "'?");
    setTarget(Target::Other, Line);
    E.Other.push_back({Label.str(), ""});
  }

  void setTarget(Target T, unsigned Line) {
    flush();
    Where = T;
    SectionLine = Line;
  }

  void flush() {
    StringRef Text = StringRef(Buffer).trim();
    if (HasEntry && !Text.empty()) {
      if (Where == Target::Known)
        setSection(E, Current, Text, SectionLine, Out.Remarks);
      else if (Where == Target::Other)
        E.Other.back().Text = Text.str();
      else
        E.Other.push_back({"", Text.str()});
    }
    Buffer.clear();
  }

  void closeEntry() {
    flush();
    if (!HasEntry)
      return;
    HasEntry = false;
    if (HasSection) {
      E.Id = uniqueId(E.Title);
      Out.Entries.push_back(std::move(E));
      return;
    }
    // With a status it was meant as an entry; without, it may be any heading.
    remark(E.Status.empty() ? Severity::Note : Severity::Warning, E.Source.Line,
           "'" + E.Title + "' has no section of an entry",
           "start it with '**Symptom**: ...'");
  }

  std::string uniqueId(StringRef Title) {
    std::string Short = slug(firstClause(Title), 48);
    if (Short.empty())
      Short = "entry";
    std::string Id = Stem + "/" + Short;
    if (Ids.insert(Id).second)
      return Id;
    std::string Long = Stem + "/" + slug(Title, 100);
    if (Ids.insert(Long).second)
      return Long;
    for (unsigned I = 2;; ++I) {
      std::string Numbered = Id + "-" + std::to_string(I);
      if (Ids.insert(Numbered).second)
        return Numbered;
    }
  }

  /// The label that inline \p N begins, with its line; sets \p Rest to what
  /// follows the colon in the next node and \p Skip to the nodes consumed.
  bool labelAt(cmark_node *N, bool InItem, StringRef &Rest, unsigned &Skip,
               std::string &Label) {
    Skip = 1;
    Rest = "";
    bool Strong = cmark_node_get_type(N) == CMARK_NODE_STRONG;
    if (!Strong && cmark_node_get_type(N) != CMARK_NODE_TEXT)
      return false;
    if (!Strong) {
      // `Symptom: ...` without emphasis, as plain-text logs have it.
      StringRef Text = cmark_node_get_literal(N);
      size_t Colon = Text.find(':');
      if (Colon == StringRef::npos || !isUpper(Text.front()))
        return false;
      Label = Text.take_front(Colon).str();
      Rest = Text.drop_front(Colon + 1);
      return !UsesStrong && !InItem && parseSectionLabel(Label).has_value();
    }
    Label = inlineText(N);
    StringRef Name = StringRef(Label).trim();
    bool HasColon = Name.consume_back(":") || Name.consume_back("：");
    if (!HasColon) {
      cmark_node *Next = cmark_node_next(N);
      if (!Next || cmark_node_get_type(Next) != CMARK_NODE_TEXT)
        return false;
      Rest = cmark_node_get_literal(Next);
      Rest = Rest.ltrim();
      HasColon = Rest.consume_front(":") || Rest.consume_front("：");
      Skip = 2;
    }
    Label = Name.trim().str();
    if (!HasColon || Label.empty())
      return false;
    if (parseSectionLabel(Label))
      return UsesStrong = true;
    // A bold word with a colon that is no section. In a list it is content.
    return HasEntry && !InItem && isUpper(Label.front()) &&
           StringRef(Label).count(' ') < 3 && !StringRef(Label).contains('`');
  }

  /// Opens the section that \p Label names. False when it stays text because
  /// no entry is open and it does not begin one.
  bool label(StringRef Label, unsigned Line) {
    std::optional<Section> S = parseSectionLabel(Label);
    if (!HasEntry) {
      if (!S || !beginsEntry(*S))
        return false;
      openUntitledEntry(Line);
    }
    if (S)
      openSection(*S, Line);
    else
      openOther(Label, Line);
    return true;
  }

  void paragraph(cmark_node *P, bool InItem) {
    bool LineStart = true;
    unsigned Line = cmark_node_get_start_line(P);
    for (cmark_node *N = cmark_node_first_child(P); N; N = cmark_node_next(N)) {
      StringRef Rest;
      unsigned Skip;
      std::string Name;
      if (LineStart && labelAt(N, InItem, Rest, Skip, Name) &&
          label(Name, Line)) {
        Buffer += Rest.ltrim();
        if (Skip == 2)
          N = cmark_node_next(N);
        LineStart = false;
        continue;
      }
      cmark_node_type Type = cmark_node_get_type(N);
      LineStart = Type == CMARK_NODE_SOFTBREAK || Type == CMARK_NODE_LINEBREAK;
      Line += LineStart;
      renderInline(Buffer, N);
    }
  }

  /// Appends \p Text with its lines after the first indented.
  void append(StringRef Text, StringRef Indent) {
    for (char C : Text) {
      Buffer += C;
      if (C == '\n')
        Buffer += Indent;
    }
  }

  void list(cmark_node *List, StringRef Indent, unsigned Depth) {
    bool Ordered = cmark_node_get_list_type(List) == CMARK_ORDERED_LIST;
    int Number = cmark_node_get_list_start(List);
    for (cmark_node *Item = cmark_node_first_child(List); Item;
         Item = cmark_node_next(Item)) {
      if (!Buffer.empty() && Buffer.back() != '\n')
        Buffer += '\n';
      Buffer += Indent;
      if (Ordered)
        Buffer += std::to_string(Number++) + ". ";
      else
        Buffer += "- ";
      bool First = true;
      for (cmark_node *N = cmark_node_first_child(Item); N;
           N = cmark_node_next(N)) {
        if (First && startsWithLabel(N)) {
          // `- **Symptom**: ...`: the bullet belongs to the form.
          Buffer.resize(StringRef(Buffer).rtrim("-0123456789. ").size());
        }
        if (!First && cmark_node_get_type(N) != CMARK_NODE_LIST)
          Buffer += "\n" + Indent.str() + "  ";
        block(N, Indent.str() + "  ", Depth + 1, /*InItem=*/true);
        First = false;
      }
    }
  }

  bool startsWithLabel(cmark_node *N) {
    if (cmark_node_get_type(N) != CMARK_NODE_PARAGRAPH)
      return false;
    cmark_node *First = cmark_node_first_child(N);
    StringRef Rest;
    unsigned Skip;
    std::string Name;
    return First && labelAt(First, /*InItem=*/true, Rest, Skip, Name);
  }

  void block(cmark_node *N, const std::string &Indent, unsigned Depth,
             bool InItem = false) {
    // Beyond this nobody means the structure, and recursion must end.
    if (Depth > 32) {
      Buffer += flatText(N);
      return;
    }
    if (!InItem && !Buffer.empty())
      Buffer += "\n\n";
    switch (cmark_node_get_type(N)) {
    case CMARK_NODE_PARAGRAPH:
      return paragraph(N, InItem);
    case CMARK_NODE_LIST:
      return list(N, Indent, Depth);
    case CMARK_NODE_CODE_BLOCK:
      return append(codeBlockText(N), Indent);
    case CMARK_NODE_HTML_BLOCK:
      return append(StringRef(cmark_node_get_literal(N)).rtrim(), Indent);
    case CMARK_NODE_BLOCK_QUOTE:
      for (cmark_node *Child = cmark_node_first_child(N); Child;
           Child = cmark_node_next(Child))
        block(Child, Indent, Depth + 1, InItem);
      return;
    case CMARK_NODE_HEADING: // Inside a quote or an item.
      Buffer += inlineText(N);
      return;
    default:
      return;
    }
  }

  StringRef File;
  std::string Stem;
  MarkdownLog &Out;
  StringSet<> Ids;

  std::string Date;
  std::string LastHeading;
  int LastLevel = 0;
  unsigned LastLine = 1;

  Entry E;
  bool HasEntry = false;
  bool HasSection = false;
  bool UsesStrong = false;
  int EntryLevel = 0;
  Target Where = Target::None;
  Section Current = Section::Symptom;
  unsigned SectionLine = 0;
  std::string Buffer;
};

} // namespace

MarkdownLog readMarkdown(StringRef Text, StringRef File) {
  MarkdownLog Out;
  if (Text.contains('\0'))
    Out.Remarks.push_back(
        {Severity::Warning, (File + ": holds NUL bytes").str(),
         "is this a markdown file? The bytes were replaced by U+FFFD"});
  cmark_node *Document =
      cmark_parse_document(Text.data(), Text.size(), CMARK_OPT_VALIDATE_UTF8);
  LogReader(File, Out).read(Document);
  cmark_node_free(Document);
  return Out;
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
