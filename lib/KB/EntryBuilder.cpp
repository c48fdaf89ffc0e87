//===- EntryBuilder.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryBuilder.h"
#include "KB/EntryTitle.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

EntryBuilder::EntryBuilder(StringRef File, MarkdownLog &Out)
    : File(File), Stem(slug(sys::path::stem(File))), Out(Out) {}

void EntryBuilder::remark(Severity S, unsigned Line, const Twine &What,
                          const Twine &Hint) {
  Out.Remarks.push_back(
      {S, (File + ":" + Twine(Line) + ": " + What).str(), Hint.str()});
}

std::string EntryBuilder::dateOf(StringRef Written, unsigned Line) {
  WrittenDate D = findDate(Written);
  if (D.Ambiguous)
    remark(Severity::Warning, Line,
           "the date '" + D.Iso + "' can be read in two ways",
           "write year-month-day: 2026-11-20");
  return D.Iso;
}

void EntryBuilder::setDate(StringRef Heading, unsigned Line) {
  std::string Found = dateOf(Heading, Line);
  if (!Found.empty())
    Date = Found;
}

void EntryBuilder::open(StringRef Title, StringRef Status, int NewLevel,
                        unsigned Line) {
  close();
  E = Entry();
  Lines = EntryLines();
  Seen.fill(false);
  E.Status = Status.str();
  std::string Plain = Title.trim().str();
  if (E.Status.empty())
    E.Status = takeStatus(Plain);
  WrittenDate Own = findDate(Plain);
  E.Date = Own.Iso.empty() ? Date : dateOf(Plain, Line);
  StringRef Rest = Plain;
  // A date that opens or closes the title is no part of what happened.
  bool Leads = Rest.ltrim("([").starts_with(Own.Where);
  bool Ends = Rest.rtrim(")]").ends_with(Own.Where);
  if (!Own.Where.empty() && Leads)
    Rest = Rest.ltrim("([").drop_front(Own.Where.size()).ltrim(" )]:-,");
  else if (!Own.Where.empty() && Ends)
    Rest = Rest.rtrim(")]").drop_back(Own.Where.size()).rtrim(" ([:-,");
  for (StringRef Dash : {"–", "—"})
    if (Rest.consume_front(Dash))
      Rest = Rest.ltrim();
  if (Rest.size() < Plain.size() && Rest.ends_with(" on"))
    Rest = Rest.drop_back(3).rtrim(); // "Hang on 2026-03-04"
  E.Title = (Rest.empty() ? StringRef(Plain) : Rest).trim("~ ").str();
  if (E.Status.empty())
    E.Status = takeStatus(E.Title);
  E.Source = {File.str(), Line};
  HasEntry = true;
  HasSection = false;
  Level = NewLevel;
  direct(Target::None, Line);
}

void EntryBuilder::section(Section S, unsigned Line) {
  direct(Target::Known, Line);
  Current = S;
  HasSection = true;
  if (S == Section::Symptom && has(S))
    remark(Severity::Warning, Line,
           "'" + E.Title + "' has a second " + sectionLabel(S),
           "its text is added to the first; a new entry begins with a heading");
  Seen[unsigned(S)] = true;
  if (!Lines.Sections[unsigned(S)])
    Lines.Sections[unsigned(S)] = Line;
}

void EntryBuilder::other(StringRef Label, unsigned Line) {
  direct(Target::Other, Line);
  OtherLabel = Label.str();
  if (isOtherLabel(Label))
    return;
  std::string Known = closestSectionLabel(Label);
  remark(Severity::Warning, Line,
         "unknown section '" + Label + "' in '" + E.Title + "'",
         Known.empty() ? "its text is kept but not searched"
                       : "did you mean '" + Known + "'?");
}

void EntryBuilder::direct(Target T, unsigned Line) {
  flush();
  Where = T;
  SectionLine = Line;
}

void EntryBuilder::addOther() {
  std::string Value = StringRef(Text).trim().str();
  StringRef Label = StringRef(OtherLabel).rtrim(": ");
  bool OneLine = !StringRef(Value).contains('\n') && Value.size() <= 80;
  if (Label.equals_insensitive("date")) {
    std::string Own = dateOf(Value, SectionLine);
    if (!Own.empty()) {
      E.Date = Own;
      return;
    }
    remark(Severity::Warning, SectionLine, "no date in '" + Value + "'",
           "write year-month-day: 2026-11-20");
  }
  if (Label.equals_insensitive("title") && OneLine && HasEntry) {
    E.Title = StringRef(Value).trim("\"'").str();
    return;
  }
  if (Label.equals_insensitive("status") && OneLine) {
    StringRef Word = StringRef(Value).trim("[]`*. ");
    if (Word.count(' ') < 3 && E.Status.empty()) {
      E.Status = Word.upper();
      return;
    }
  }
  E.Other.push_back({Label.str(), Value});
}

void EntryBuilder::flush() {
  StringRef Trimmed = StringRef(Text).trim();
  if (HasEntry && !Trimmed.empty()) {
    if (Where == Target::Known)
      setSection(E, Current, Trimmed, SectionLine, Out.Remarks);
    else if (Where == Target::Other)
      addOther();
    else
      E.Other.push_back({"", Trimmed.str()});
  }
  Text.clear();
}

void EntryBuilder::fillSymptom() {
  if (!E.Symptom.empty())
    return;
  for (StringRef Label : {"summary", "description", "impact"})
    for (auto It = E.Other.begin(); It != E.Other.end(); ++It)
      if (StringRef(It->Label).equals_insensitive(Label)) {
        remark(Severity::Note, E.Source.Line,
               "'" + E.Title + "' has no Symptom: its " + It->Label +
                   " is taken for it");
        E.Symptom = It->Text;
        E.Other.erase(It);
        return;
      }
}

void EntryBuilder::abandon() {
  Text.clear();
  HasEntry = false;
}

void EntryBuilder::close() {
  flush();
  if (!HasEntry)
    return;
  if (HasSection) {
    fillSymptom();
    HasEntry = false;
    E.Id = uniqueId(E.Title);
    Out.Entries.push_back(std::move(E));
    Out.Lines.push_back(std::move(Lines));
    return;
  }
  HasEntry = false;
  // With a status it was meant as an entry; without, it may be any heading.
  remark(E.Status.empty() ? Severity::Note : Severity::Warning, E.Source.Line,
         "'" + E.Title + "' has no section of an entry",
         "start it with '**Symptom**: ...'");
}

std::string EntryBuilder::uniqueId(StringRef Title) {
  std::string Short = slug(firstClause(Title), 48);
  if (Short.empty())
    Short = "entry";
  std::string Id = Stem + "/" + Short;
  if (Ids.insert(Id).second)
    return Id;
  std::string Long = Stem + "/" + slug(Title, 100);
  if (Ids.insert(Long).second)
    return Long;
  // Counts on where it stopped: a log may hold one title many times.
  for (unsigned &I = Counts.try_emplace(Id, 1).first->second;;) {
    std::string Numbered = Id + "-" + std::to_string(++I);
    if (Ids.insert(Numbered).second)
      return Numbered;
  }
}

} // namespace culprit
