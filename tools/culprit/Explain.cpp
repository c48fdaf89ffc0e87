//===- Explain.cpp - culprit explain ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "DetectorText.h"
#include "Detectors.h"
#include "KB/Search.h"
#include "KB/TextWrap.h"
#include "Knowledge.h"
#include "Options.h"
#include "Report/DetectorPage.h"
#include "Settings.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand ExplainCommand("explain", "Explain a detector, symptom, "
                                                "class or entry");
static cl::list<std::string> Ids(cl::Positional, cl::sub(ExplainCommand),
                                 cl::desc("ID..."));
static cl::list<std::string>
    ExplainPlugins("plugins", cl::sub(ExplainCommand), cl::value_desc("DIR"),
                   cl::desc("Also know the detectors of DIR (repeatable)"));
static cl::list<std::string>
    ExplainKbPaths("kb", cl::sub(ExplainCommand), cl::value_desc("PATH"),
                   cl::desc("Also know the entries of PATH (repeatable)"));
static cl::list<std::string> ExplainOptions(
    "option", cl::sub(ExplainCommand), cl::value_desc("ID.NAME=VALUE"),
    cl::desc("Show an option of a detector as so set (repeatable)"));
static ConfigOption ExplainConfig(ExplainCommand);
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> ExplainFormat(
    "format", cl::sub(ExplainCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json|markdown"), cl::desc("Form of what is said"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs"),
               clEnumValN(OutputFormat::Markdown, "markdown",
                          "For docs (detectors only)")));

namespace {

/// Everything an id may name.
struct Known {
  KnowledgeBase KB;
  DetectorSet Detectors;
  std::vector<std::string> Folders; ///< As detectorFolders() gives them.
  std::vector<OptionSetting> Settings;
};

} // namespace

static void heading(StringRef Text) { outs() << '\n' << Text << '\n'; }

static void line(StringRef Left, StringRef Text, unsigned Column = 28) {
  std::string First = "  " + Left.str();
  First.append(First.size() + 2 < Column ? Column - First.size() : 2, ' ');
  printWrapped(outs(), Text, First, std::string(Column, ' '), outputWidth());
}

/// "min_idle = 0.2 (.culprit.yaml:4; default 0.1)"
static std::string optionText(const OptionSpec &O, const OptionChoice &Choice) {
  std::string Text =
      O.Name + " = " + toString(Choice.Value) + " (" + Choice.Origin;
  if (Choice.Origin != "default")
    Text += "; default " + toString(O.Default);
  return Text + ")";
}

static void explainDetector(const DetectorInfo &I, const Known &K) {
  outs() << I.Id << "\n" << I.Summary << '\n';
  for (const DocSection &S : I.Doc) {
    heading(S.Heading);
    printWrapped(outs(), joinLines(S.Text), "  ", "  ", outputWidth());
  }
  heading("Needs");
  for (const Need &N : I.Needs.All)
    outs() << "  " << needText(N) << '\n';
  for (const auto &Alternatives : I.Needs.AnyOf) {
    std::vector<std::string> Texts;
    for (const Need &N : Alternatives)
      Texts.push_back(needText(N));
    outs() << "  one of: " << join(Texts, "; ") << '\n';
  }
  heading("Symptoms");
  for (const std::string &S : I.Symptoms) {
    const SymptomTerm *Term = K.KB.vocabulary().symptom(S);
    line(S, Term ? Term->Text : "");
  }
  if (!I.Options.empty()) {
    heading("Options, set by --option " + I.Id +
            ".NAME=VALUE or in .culprit.yaml");
    std::vector<OptionChoice> Choices =
        cantFail(chooseOptions(I, K.Settings)); // checked when gathered
    std::vector<std::string> Left;
    size_t Column = 28;
    for (size_t N = 0; N != I.Options.size(); ++N) {
      Left.push_back(optionText(I.Options[N], Choices[N]));
      Column = std::max(Column, std::min<size_t>(Left.back().size() + 4, 60));
    }
    for (size_t N = 0; N != I.Options.size(); ++N)
      line(Left[N], I.Options[N].Doc, Column);
  }
  outs() << "\nin " << I.File;
  if (K.Folders.size() > 1)
    outs() << " (" << originOf(I.File, K.Folders) << ')';
  outs() << '\n';
}

static void explainSymptom(const SymptomTerm &S, const Known &K) {
  outs() << S.Id << '\n';
  printWrapped(outs(), S.Text, "", "", outputWidth());
  heading("Detected by");
  for (const auto &D : K.Detectors.all())
    if (is_contained(D->info().Symptoms, S.Id))
      line(D->id(), D->info().Summary);
  heading("A signal of");
  for (const Entry &E : K.KB.entries())
    for (const Signal &Signal : E.Signals)
      if (Signal.Symptom == S.Id)
        line(E.Class + " (" + frequencyName(Signal.How).str() + ")", E.Title,
             40);
}

static void explainClass(const ClassTerm &C, ArrayRef<const Entry *> Entries) {
  outs() << C.Id << " (" << C.Layer << ")\n";
  printWrapped(outs(), C.Definition, "", "", outputWidth());
  for (const Entry *E : Entries) {
    outs() << '\n';
    printEntryText(outs(), *E);
  }
  if (Entries.empty())
    outs() << "\nno entry describes it yet\n";
}

static bool explain(StringRef Id, const Known &K) {
  const Vocabulary &Words = K.KB.vocabulary();
  if (const Detector *D = K.Detectors.find(Id)) {
    if (ExplainFormat == OutputFormat::Markdown)
      printDetectorPage(outs(), D->info(), Words, K.KB.entries());
    else
      explainDetector(D->info(), K);
    return true;
  }
  if (const SymptomTerm *S = Words.symptom(Id)) {
    explainSymptom(*S, K);
    return true;
  }
  std::vector<const Entry *> Entries = K.KB.find(Id);
  if (const ClassTerm *C = Words.rootCause(Id)) {
    explainClass(*C, Entries);
    return true;
  }
  for (const Entry *E : Entries)
    printEntryText(outs(), *E);
  return !Entries.empty();
}

static json::Object symptomJson(const SymptomTerm &S, const Known &K) {
  json::Array Detectors, Entries;
  for (const auto &D : K.Detectors.all())
    if (is_contained(D->info().Symptoms, S.Id))
      Detectors.push_back(D->id());
  for (const Entry &E : K.KB.entries())
    for (const Signal &Signal : E.Signals)
      if (Signal.Symptom == S.Id)
        Entries.push_back(json::Object{{"entry", E.Id},
                                       {"class", E.Class},
                                       {"frequency", frequencyName(Signal.How)}});
  return json::Object{{"kind", "symptom"},
                      {"id", S.Id},
                      {"text", S.Text},
                      {"detected_by", std::move(Detectors)},
                      {"signal_of", std::move(Entries)}};
}

/// The same as explain() as an object; none where nothing is called \p Id.
static std::optional<json::Object> explainJson(StringRef Id, const Known &K) {
  const Vocabulary &Words = K.KB.vocabulary();
  if (const Detector *D = K.Detectors.find(Id)) {
    json::Object O = detectorJson(
        D->info(), cantFail(chooseOptions(D->info(), K.Settings)),
        originOf(D->info().File, K.Folders));
    O["kind"] = "detector";
    return O;
  }
  if (const SymptomTerm *S = Words.symptom(Id))
    return symptomJson(*S, K);
  json::Array Entries;
  for (const Entry *E : K.KB.find(Id))
    Entries.push_back(entryJson(*E));
  if (const ClassTerm *C = Words.rootCause(Id))
    return json::Object{{"kind", "class"},
                        {"id", C->Id},
                        {"layer", C->Layer},
                        {"text", C->Definition},
                        {"entries", std::move(Entries)}};
  if (Entries.empty())
    return std::nullopt;
  return json::Object{
      {"kind", "entry"}, {"id", Id}, {"entries", std::move(Entries)}};
}

/// Why nothing can be said of \p Id.
static int reportUnknown(StringRef Id, const Known &K) {
  for (const BrokenDetector &B : K.Detectors.broken())
    if (B.Id == Id)
      return ExitBadUse; // told already
  std::vector<std::string> Names = K.Detectors.ids();
  for (const SymptomTerm &S : K.KB.vocabulary().symptoms())
    Names.push_back(S.Id);
  for (const ClassTerm &C : K.KB.vocabulary().classes())
    Names.push_back(C.Id);
  std::string Close = closestName(Id, Names);
  return report(failure("nothing is called '" + Id + "'",
                        Close.empty()
                            ? "'culprit list detectors', 'list symptoms' and "
                              "'list classes' name what there is"
                            : "did you mean '" + Close + "'?"));
}

int runExplain() {
  if (Ids.empty())
    return report(failure("explain: nothing named",
                          "name a detector (gpu/idle), a symptom, a class or "
                          "an entry"));
  Expected<KnowledgeBase> KB = openKnowledge(ExplainKbPaths);
  if (!KB)
    return report(KB.takeError());
  Expected<DetectorSet> Detectors =
      openDetectors(ExplainPlugins, KB->vocabulary());
  if (!Detectors)
    return report(Detectors.takeError());
  reportBroken(*Detectors);
  Expected<std::vector<OptionSetting>> Settings =
      optionSettings(*Detectors, ExplainOptions);
  if (!Settings)
    return report(Settings.takeError());
  Known K{std::move(*KB), std::move(*Detectors),
          cantFail(detectorFolders(ExplainPlugins)), std::move(*Settings)};

  int Exit = ExitDone;
  json::Array All;
  for (const std::string &Id : Ids) {
    std::optional<json::Object> O;
    if (ExplainFormat == OutputFormat::Json)
      O = explainJson(Id, K);
    if (O)
      All.push_back(std::move(*O));
    else if (ExplainFormat == OutputFormat::Json || !explain(Id, K))
      Exit = reportUnknown(Id, K);
  }
  if (ExplainFormat == OutputFormat::Json)
    outs() << formatv("{0:2}", json::Value(std::move(All))) << '\n';
  return Exit;
}

} // namespace culprit
