//===- Import.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Import.h"
#include "KB/AddEntryText.h"
#include "KB/EntryTitle.h"
#include "KB/MarkdownReader.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// Of a body or comment; the rest stays where it is, behind the reference.
static constexpr size_t MostQuoted = 4000;
/// No issue nests deeper, and the parser recurses.
static constexpr unsigned MostNested = 64;

/// Whether the brackets of \p Json nest deeper than a parser can follow.
static bool nestsTooDeep(StringRef Json) {
  unsigned Depth = 0;
  bool InText = false;
  for (size_t I = 0; I < Json.size(); ++I) {
    char C = Json[I];
    if (InText) {
      I += C == '\\';
      InText = C != '"';
    } else if (C == '"') {
      InText = true;
    } else if (C == '[' || C == '{') {
      if (++Depth > MostNested)
        return true;
    } else if ((C == ']' || C == '}') && Depth) {
      --Depth;
    }
  }
  return false;
}

/// The first of \p Names that is a text in \p O.
static StringRef firstText(const json::Object &O, ArrayRef<StringRef> Names) {
  for (StringRef Name : Names)
    if (std::optional<StringRef> S = O.getString(Name))
      if (!S->empty())
        return *S;
  return {};
}

/// \p Text with plain line ends, cut at a line end when it is long.
static std::string quoted(StringRef Text) {
  std::string Out;
  for (char C : Text.trim())
    if (C != '\r')
      Out += C;
  if (Out.size() <= MostQuoted)
    return Out;
  StringRef Cut = wholeCharacters(Out, MostQuoted);
  Cut = Cut.take_front(std::min(Cut.rfind('\n'), Cut.size()));
  bool OpenFence = Cut.count("```") % 2 != 0;
  return (Cut.rtrim() + (OpenFence ? "\n```" : "") + "\n\n[...]").str();
}

namespace {

/// What comments are looked through for.
struct Cue {
  StringRef Words;
  Section Part;
};

} // namespace

// How people say that they have found it. The first comment that does is
// quoted, as it is the one to read.
static constexpr Cue Cues[] = {
    {"root cause", Section::RootCause},
    {"caused by", Section::RootCause},
    {"the cause", Section::RootCause},
    {"turns out", Section::RootCause},
    {"the reason", Section::RootCause},
    {"the problem is", Section::RootCause},
    {"the problem was", Section::RootCause},
    {"the issue was", Section::RootCause},
    {"this happens because", Section::RootCause},
    {"fixed by", Section::Fix},
    {"fixed in", Section::Fix},
    {"fixed with", Section::Fix},
    {"resolved by", Section::Fix},
    {"solved by", Section::Fix},
    {"solved it", Section::Fix},
    {"fixed it", Section::Fix},
    {"the fix", Section::Fix},
    {"the solution", Section::Fix},
    {"this fixes", Section::Fix},
    {"workaround", Section::Workarounds}};

/// Lines in fences of \p Body that look like a message of a failure.
static void takeLogLines(StringRef Body, std::vector<std::string> &Out) {
  bool InFence = false;
  while (!Body.empty() && Out.size() < 3) {
    StringRef Line;
    std::tie(Line, Body) = Body.split('\n');
    Line = Line.trim();
    if (Line.starts_with("```")) {
      InFence = !InFence;
      continue;
    }
    bool Tells = Line.contains("Error: ") || Line.contains("error: ") ||
                 Line.contains("ERROR") || Line.contains("CUDA error") ||
                 Line.contains("Exception: ") || Line.contains("FATAL");
    if (InFence && Tells && Line.size() >= 16 && Line.size() <= 200 &&
        !Line.contains('`') && !is_contained(Out, Line))
      Out.push_back(Line.str());
  }
}

/// Takes the sections of an issue form: `### Describe the bug`.
static bool takeForm(StringRef Body, StringRef File, Entry &E) {
  if (!Body.contains("\n#") && !Body.starts_with("#") && !Body.contains("**"))
    return false;
  MarkdownLog Log =
      readMarkdown(("# [DRAFT] x\n\n" + Body).str(), File);
  if (Log.Entries.size() != 1 || Log.Entries[0].Symptom.empty())
    return false;
  Entry &Form = Log.Entries[0];
  E.Symptom = quoted(Form.Symptom);
  E.RootCause = quoted(Form.RootCause);
  E.Fix = quoted(Form.Fix);
  E.Files = Form.Files;
  E.Prevention = Form.Prevention;
  E.AlsoSeenAs = Form.AlsoSeenAs;
  E.LogFragments = Form.LogFragments;
  E.FailsWhen = Form.FailsWhen;
  E.WorksWhen = Form.WorksWhen;
  E.Workarounds = quoted(Form.Workarounds);
  for (OtherSection &S : Form.Other)
    E.Other.push_back({S.Label.empty() ? "Notes" : S.Label, quoted(S.Text)});
  return true;
}

static void takeComments(const json::Array &Comments, Entry &E) {
  for (const json::Value &V : Comments) {
    const json::Object *C = V.getAsObject();
    StringRef Body = C ? firstText(*C, {"body"}) : StringRef();
    std::string Lower = Body.lower();
    // A reply that quotes tells what somebody else said.
    if (Body.empty() || Body.ltrim().starts_with(">"))
      continue;
    for (const Cue &Look : Cues) {
      std::string &Part = Look.Part == Section::RootCause ? E.RootCause
                          : Look.Part == Section::Fix     ? E.Fix
                                                          : E.Workarounds;
      if (Part.empty() && StringRef(Lower).contains(Look.Words)) {
        Part = quoted(Body);
        break; // A comment is quoted once.
      }
    }
    takeLogLines(Body, E.LogFragments);
  }
}

static void importIssue(const json::Object &O, StringRef File, unsigned Index,
                        Imported &Out) {
  auto Skip = [&](const Twine &Why) {
    Out.Remarks.push_back(
        {Severity::Warning,
         (File + ": issue " + Twine(Index) + " " + Why + ", skipped").str(),
         ""});
  };
  if (O.get("pull_request"))
    return Skip("is a pull request");
  StringRef Title = firstText(O, {"title"});
  if (Title.trim().empty())
    return Skip("has no title");
  Entry E;
  E.Title = StringRef(escapedMarkdown(Title.trim())).str();
  E.Status = "DRAFT";
  E.Source = {File.str(), Index};
  E.Date = firstText(O, {"closedAt", "closed_at", "createdAt", "created_at"})
               .take_front(10)
               .str();
  std::string Body = quoted(firstText(O, {"body"}));
  if (!takeForm(firstText(O, {"body"}), File, E))
    E.Symptom = Body;
  takeLogLines(Body, E.LogFragments);
  if (const json::Array *Comments = O.getArray("comments"))
    takeComments(*Comments, E);

  std::string About = "state " + firstText(O, {"state"}).lower();
  if (std::optional<int64_t> Number = O.getInteger("number"))
    About = "issue " + std::to_string(*Number) + ", " + About;
  if (const json::Array *Labels = O.getArray("labels"))
    for (const json::Value &L : *Labels) {
      const json::Object *Label = L.getAsObject();
      StringRef Name = Label ? firstText(*Label, {"name"}) : StringRef();
      if (!Name.empty())
        About += ", label " + escapedMarkdown(Name);
    }
  E.Other.push_back({"Notes", "Imported from " + About});
  // The page, not the address of the interface.
  StringRef Url = firstText(O, {"html_url", "url"});
  if (!Url.empty() && !Url.contains(' '))
    E.References.push_back(Url.str());
  Out.Entries.push_back(std::move(E));
}

/// Whether \p A holds issues.
static bool holdsIssues(const json::Array &A) {
  return any_of(A, [](const json::Value &V) {
    const json::Object *O = V.getAsObject();
    return O && O->getString("title");
  });
}

/// Finds the issues in \p V, which may wrap them: `data.search.nodes`.
static void findIssues(const json::Value &V, StringRef File, unsigned &Index,
                       Imported &Out) {
  if (const json::Array *A = V.getAsArray()) {
    for (const json::Value &Item : *A)
      if (const json::Object *O = Item.getAsObject();
          O && (holdsIssues(*A) || O->get("body")))
        importIssue(*O, File, ++Index, Out);
      else
        findIssues(Item, File, Index, Out);
    return;
  }
  const json::Object *O = V.getAsObject();
  if (!O)
    return;
  if (O->getString("title"))
    return importIssue(*O, File, ++Index, Out);
  for (const auto &[Key, Value] : *O)
    findIssues(Value, File, Index, Out);
}

Expected<Imported> importIssues(StringRef Json, StringRef File) {
  if (nestsTooDeep(Json))
    return failure(File + ": nests too deep for a list of issues");
  Imported Out;
  unsigned Index = 0;
  std::string Clean = json::fixUTF8(Json);
  Expected<json::Value> Whole = json::parse(Clean);
  if (Whole) {
    findIssues(*Whole, File, Index, Out);
  } else {
    // Pages one after another, or an issue a line.
    std::string Why = toString(Whole.takeError());
    StringRef Rest = Clean;
    unsigned Line = 0, Good = 0;
    while (!Rest.empty()) {
      StringRef Text;
      std::tie(Text, Rest) = Rest.split('\n');
      ++Line;
      if (Text.trim().empty())
        continue;
      std::string Pages = Text.trim().str();
      for (size_t At = 0; (At = Pages.find("][", At)) != std::string::npos;)
        Pages.replace(At, 2, "],[");
      Expected<json::Value> One = json::parse("[" + Pages + "]");
      if (!One) {
        consumeError(One.takeError());
        if (!Good)
          return failure(File + ": no JSON: " + Why,
                         "export with 'gh issue list --state all --json "
                         "number,title,body,comments,state,closedAt,labels,"
                         "url'");
        Out.Remarks.push_back({Severity::Warning,
                               formatv("{0}:{1}: no JSON, skipped", File, Line),
                               ""});
        continue;
      }
      ++Good;
      findIssues(*One, File, Index, Out);
    }
  }
  if (!Index)
    Out.Remarks.push_back({Severity::Warning,
                           (File + ": no issue in this file").str(),
                           "an issue has a 'title' and a 'body'"});
  return Out;
}

Imported importPostMortem(StringRef Text, StringRef File) {
  Imported Out;
  MarkdownLog Log = readMarkdown(Text, File);
  Out.Remarks = std::move(Log.Remarks);
  for (Entry &E : Log.Entries) {
    if (!E.Status.empty() && E.Status != "DRAFT")
      E.Other.push_back({"Notes", "Imported with the status " + E.Status});
    E.Status = "DRAFT";
    Out.Entries.push_back(std::move(E));
  }
  if (!Out.Entries.empty() || Text.trim().empty())
    return Out;
  // Prose alone: all of it is what is known.
  Entry E;
  StringRef First = Text.ltrim("# \n\r\t").split('\n').first.trim();
  E.Title = shortened(First, 100);
  E.Status = "DRAFT";
  E.Date = findDate(sys::path::filename(File)).Iso;
  if (E.Date.empty())
    E.Date = findDate(Text.take_front(2000)).Iso;
  E.Symptom = quoted(Text);
  E.Source = {File.str(), 1};
  Out.Entries.push_back(std::move(E));
  Out.Remarks.push_back(
      {Severity::Note,
       (File + ":1: no section of an entry; all of its text is the Symptom")
           .str(),
       ""});
  return Out;
}

std::string draftLog(ArrayRef<Entry> Entries) {
  std::string Out = "# Drafts\n";
  std::string Date;
  LogStyle Style;
  for (Entry E : Entries) {
    if (E.Date != Date && !E.Date.empty())
      Out += "\n## " + E.Date + "\n";
    Date = E.Date;
    addPrompts(E);
    E.Date.clear();
    for (std::string *Part :
         {&E.Symptom, &E.RootCause, &E.Fix, &E.Files, &E.Workarounds})
      *Part = isPrompt(*Part) ? *Part : sectionMarkdown(*Part);
    for (OtherSection &S : E.Other)
      S.Text = sectionMarkdown(S.Text);
    Out += "\n" + entryMarkdown(E, Style);
  }
  return Out;
}

} // namespace culprit
