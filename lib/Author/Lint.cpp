//===- Lint.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Lint.h"
#include "Author/LintPass.h"
#include "Author/TestFile.h"
#include "Script/DocComment.h"
#include "Script/Host.h"
#include "Script/Lua.h"
#include "Support/PlainText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <memory>

using namespace llvm;

namespace culprit {

static constexpr unsigned MaxLineWidth = 120;

ArrayRef<DocHeading> docHeadings() {
  static constexpr DocHeading Headings[] = {
      {"What it detects", "TODO: what of which table, by which rule, above "
                          "which limit."},
      {"Why it matters", "TODO: what it costs or breaks, and for whom."},
      {"How to confirm", "TODO: what to run or look at that shows the same "
                         "without this detector."},
      {"Known false positives", "TODO: healthy runs that look like it, and "
                                "what keeps them out."},
      {"References", "TODO: a document, an issue or a measurement to rely "
                     "on."}};
  return Headings;
}

StringRef levelName(Severity Level) {
  return Level == Severity::Error     ? "error"
         : Level == Severity::Warning ? "warning"
                                      : "note";
}

std::string toString(const LintRemark &R) {
  std::string Out = (R.File + ":" + Twine(R.Line) + ": " +
                     levelName(R.Level) + ": " +
                     R.Text + " [" + R.Check + "]\n")
                        .str();
  if (!R.Hint.empty())
    Out += "  " + R.Hint + "\n";
  return Out;
}

static void lintDoc(LintPass &P, StringRef Source) {
  std::vector<DocSection> Doc = readDoc(Source);
  std::vector<std::string> Missing, Empty, Hints;
  unsigned FirstHint = 1;
  for (const DocHeading &H : docHeadings()) {
    auto Found = llvm::find_if(
        Doc, [&](const DocSection &S) { return S.Heading == H.Heading; });
    StringRef Text;
    if (Found != Doc.end())
      Text = StringRef(Found->Text).trim();
    if (Found == Doc.end()) {
      Missing.push_back(H.Heading.str());
    } else if (Text.empty()) {
      Empty.push_back(H.Heading.str());
    } else if (Text.starts_with("TODO")) {
      size_t At = Source.find(("## " + H.Heading).str());
      if (Hints.empty() && At != StringRef::npos)
        FirstHint = Source.take_front(At).count('\n') + 1;
      Hints.push_back(H.Heading.str());
    }
  }
  static constexpr StringLiteral Why =
      "a sentence or two each; 'culprit explain' and the docs show them";
  if (Missing.size() == docHeadings().size())
    P.say(Severity::Warning, 1, "doc-heading", "it has no doc comment",
          "'--- ## Heading' and text below it, before the code, for: " +
              join(Missing, ", "));
  else if (!Missing.empty())
    P.say(Severity::Warning, 1, "doc-heading",
          "the doc comment has no heading '" + join(Missing, "', '") + "'",
          Why);
  if (!Empty.empty())
    P.say(Severity::Warning, 1, "doc-heading",
          "nothing stands under '" + join(Empty, "', '") + "'", Why);
  if (!Hints.empty())
    P.say(Severity::Warning, FirstHint, "doc-hint",
          "the doc comment still has the hints it began with: " +
              join(Hints, ", "),
          Why);
  if (P.Info && StringRef(P.Info->Summary).starts_with("TODO"))
    P.say(Severity::Warning, Source.split("summary").first.count('\n') + 1,
          "doc-hint", "the summary still is the hint it began with",
          "it is what 'culprit list' and reports show");
}

static void lintLines(LintPass &P, StringRef Source) {
  unsigned Number = 0;
  for (StringRef Line : split(Source, '\n')) {
    ++Number;
    Line = Line.rtrim("\r");
    size_t Width = widthOf(Line);
    if (Width > MaxLineWidth)
      P.say(Severity::Note, Number, "long-line",
            "the line has " + Twine(Width) + " columns, more than " +
                Twine(MaxLineWidth));
  }
}

/// Editors of Windows begin a file with it; Lua would not read on.
static constexpr StringLiteral ByteOrderMark = "\xef\xbb\xbf";

/// What Lua itself says against \p Source, if anything.
static std::optional<std::pair<unsigned, std::string>>
syntaxError(StringRef Source) {
  // Lua's own compiler could take minutes for it.
  if (Source.size() > MaxSourceBytes)
    return std::pair(1u, std::string("Lua of a detector may have 256 KiB"));
  std::unique_ptr<lua_State, decltype(&lua_close)> L(luaL_newstate(),
                                                     lua_close);
  if (!L || luaL_loadbufferx(L.get(), Source.data(), Source.size(), "=f",
                             "t") == LUA_OK)
    return std::nullopt;
  StringRef Text = lua_tostring(L.get(), -1); // f:13: what
  unsigned Line = 1;
  if (Text.consume_front("f:") && !Text.consumeInteger(10, Line))
    Text.consume_front(": ");
  return std::make_pair(Line, Text.str());
}

static std::string remedyFor(StringRef Syntax, ArrayRef<LuaToken> Tokens,
                             StringRef Source) {
  // Lua writes bytes that are no ASCII as <\226>.
  if (Syntax.contains("'<\\"))
    return "save the file as UTF-8, and write quotes and signs as on a plain "
           "keyboard";
  return unclosedBlock(Tokens, Source);
}

static std::vector<LintRemark> inOrder(std::vector<LintRemark> Remarks) {
  llvm::stable_sort(Remarks, [](const LintRemark &A, const LintRemark &B) {
    return A.Line < B.Line;
  });
  StringSet<> Said;
  llvm::erase_if(Remarks, [&](const LintRemark &R) {
    return !Said.insert((Twine(R.Line) + ":" + R.Text).str()).second;
  });
  // What they quote of the file must not move the cursor.
  for (LintRemark &R : Remarks) {
    R.Text = failureText(R.Text);
    R.Hint = failureText(R.Hint);
  }
  return Remarks;
}

/// The parameter of `run = function(case)`.
static StringRef caseName(ArrayRef<LuaToken> Tokens) {
  for (size_t I = 0; I + LookAhead < Tokens.size(); ++I)
    if (Tokens[I].isName("run") && Tokens[I + 1].is("=") &&
        Tokens[I + 2].is("function") && Tokens[I + 3].is("(") &&
        Tokens[I + 4].Kind == LuaToken::Name)
      return Tokens[I + 4].Source;
  return "case";
}

std::vector<LintRemark> lintDetector(StringRef File, StringRef Source,
                                     const DetectorInfo *Info,
                                     const DetectorError *Problem,
                                     const ModuleSet *Modules) {
  Source.consume_front(ByteOrderMark);
  std::vector<LintRemark> Out;
  std::vector<LuaToken> Tokens = scanLua(Source);
  LintPass P{File, Tokens, Info, caseName(Tokens), Out, Modules};
  if (Modules)
    readModules(P);
  if (auto Syntax = syntaxError(Source)) {
    // Nothing else can be told of a file that does not parse.
    P.say(Severity::Error, Syntax->first, "syntax", Syntax->second,
          remedyFor(Syntax->second, Tokens, Source));
    return inOrder(std::move(Out));
  }
  lintNames(P);
  if (Problem) {
    // An unknown name on the way to the declaration has been told.
    bool Told = llvm::any_of(Out, [&](const LintRemark &R) {
      return R.Line == Problem->Line;
    });
    if (!Told) {
      P.say(Severity::Error, Problem->Line, "declaration", Problem->Message,
            Problem->Hint);
      if (!Problem->File.empty())
        Out.back().File = Problem->File;
    }
  }
  lintColumns(P);
  lintDoc(P, Source);
  lintLines(P, Source);
  if (Info)
    lintDeclaration(P);
  return inOrder(std::move(Out));
}

std::vector<LintRemark> lintModule(StringRef File, StringRef Source,
                                   const ModuleSet *Modules) {
  Source.consume_front(ByteOrderMark);
  std::vector<LintRemark> Out;
  std::vector<LuaToken> Tokens = scanLua(Source);
  LintPass P{File, Tokens, nullptr, "case", Out, Modules};
  if (auto Syntax = syntaxError(Source)) {
    P.say(Severity::Error, Syntax->first, "syntax", Syntax->second,
          remedyFor(Syntax->second, Tokens, Source));
    return inOrder(std::move(Out));
  }
  lintNames(P);
  lintLines(P, Source);
  return inOrder(std::move(Out));
}

std::vector<LintRemark> lintTest(StringRef File, StringRef TestFile,
                                 StringRef Text, StringRef Place) {
  std::vector<LintRemark> Out;
  LintPass P{TestFile.empty() ? File : TestFile, {}, nullptr, "", Out};
  if (TestFile.empty()) {
    P.say(Severity::Warning, 1, "no-test", "it has no test",
          "its place is " + Place);
    return Out;
  }
  culprit::TestFile Test = parseTestFile(TestFile, Text);
  bool Positive = false, Negative = false;
  if (Test.IsLitTest) {
    // Other commands: judged by what their output is compared with.
    Positive = Text.contains("matched") || Text.contains("symptom") ||
               Text.contains("message");
    Negative = Text.contains("clear") || Text.contains("skipped") ||
               Text.contains("CLEAR") || Text.contains("-NOT:") ||
               Text.contains("NOT: ") || Text.contains("--implicit-check-not");
  }
  for (const Diagnostic &D : Test.Mistakes) {
    // "path:12: what"
    StringRef Message = D.Message;
    unsigned Line = 1;
    if (Message.consume_front(TestFile) && Message.consume_front(":") &&
        !Message.consumeInteger(10, Line))
      Message.consume_front(": ");
    P.say(D.Level, Line, "test-form", Message, D.Hint);
  }
  for (const TestCase &C : Test.Cases) {
    Positive |= C.Expected.What == Expectation::Kind::Reports &&
                !C.Expected.Reports.empty();
    Negative |= C.Expected.What == Expectation::Kind::Clear ||
                (C.Expected.What == Expectation::Kind::Reports &&
                 C.Expected.Reports.empty());
  }
  if (!Test.Mistakes.empty())
    return Out; // the case that is missed may be the one that is mistaken
  if (!Positive)
    P.say(Severity::Warning, 1, "positive-case",
          "no case of the test expects a report");
  if (!Negative)
    P.say(Severity::Warning, 1, "negative-case",
          "no case of the test expects silence",
          "add one that looks alike and is well, with expect: clear");
  return Out;
}

} // namespace culprit
