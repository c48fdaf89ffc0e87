//===- KbAdd.cpp - culprit kb add -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/AddEntry.h"
#include "KB/AddEntryReport.h"
#include "KB/AddEntryText.h"
#include "KB/EntryTitle.h"
#include "KB/Similar.h"
#include "KbVerbs.h"
#include "Knowledge.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace llvm;

namespace culprit {

static cl::opt<std::string>
    From("from", cl::sub(kbCommand()), cl::value_desc("REPORT"),
         cl::desc("add: start from REPORT, the output of diagnose --format "
                  "json"));
static cl::opt<std::string>
    To("to", cl::sub(kbCommand()), cl::value_desc("LOG"),
       cl::desc("add: the log to add to, by default the project's ISSUES.md"));
static cl::opt<std::string> Symptom("symptom", cl::sub(kbCommand()),
                                    cl::value_desc("TEXT"),
                                    cl::desc("add: what one sees"));
static cl::opt<std::string> Cause("cause", cl::sub(kbCommand()),
                                  cl::value_desc("TEXT"),
                                  cl::desc("add: why it happened"));
static cl::opt<std::string> Fix("fix-text", cl::sub(kbCommand()),
                                cl::value_desc("TEXT"),
                                cl::desc("add: how it was resolved"));
static cl::opt<std::string> Files("files", cl::sub(kbCommand()),
                                  cl::value_desc("TEXT"),
                                  cl::desc("add: the files that were changed"));
static cl::list<std::string>
    Prevention("prevention", cl::sub(kbCommand()), cl::value_desc("TEXT"),
               cl::desc("add: what would have caught it (repeatable)"));
static cl::opt<std::string>
    Status("status", cl::sub(kbCommand()), cl::value_desc("WORD"),
           cl::desc("add: FIXED, OPEN, ...; by default FIXED when there are "
                    "cause and fix"));
static cl::opt<std::string> Date("date", cl::sub(kbCommand()),
                                 cl::value_desc("YYYY-MM-DD"),
                                 cl::desc("add: the day, by default today"));
static cl::opt<bool> Ask("ask", cl::sub(kbCommand()),
                         cl::desc("add: ask on standard input for what was "
                                  "not given, a line each"));
static cl::opt<bool> DryRun("dry-run", cl::sub(kbCommand()),
                            cl::desc("add: print the entry, write nothing"));

static std::string today() {
  std::time_t Now = std::time(nullptr);
  std::tm Local = {};
  localtime_r(&Now, &Local);
  char Text[16];
  std::strftime(Text, sizeof(Text), "%Y-%m-%d", &Local);
  return Text;
}

/// A line of standard input as the answer to \p Question; empty at its end.
static std::string answer(StringRef Question) {
  errs() << Question << "? ";
  char *Line = nullptr;
  size_t Room = 0;
  ssize_t Size = ::getline(&Line, &Room, stdin);
  std::string Out =
      Size < 0 ? "" : StringRef(Line, static_cast<size_t>(Size)).trim().str();
  std::free(Line);
  return Out;
}

static void askForRest(Entry &E) {
  auto Fill = [](std::string &Text, StringRef Question) {
    if (Text.empty() || isPrompt(Text)) {
      std::string Given = answer(Question);
      if (!Given.empty())
        Text = Given;
    }
  };
  Fill(E.Title, "title, in one line");
  Fill(E.Symptom, "symptom: what does one see");
  Fill(E.RootCause, "root cause: why did it happen");
  Fill(E.Fix, "fix: how was it resolved");
  Fill(E.Files, "files: which were changed");
  if (!E.Prevention.empty() && !isPrompt(E.Prevention.front()))
    return;
  std::vector<std::string> Items;
  for (std::string Item = answer("prevention: what would have caught it");
       !Item.empty(); Item = answer("prevention: what else"))
    Items.push_back(std::move(Item));
  if (!Items.empty())
    E.Prevention = std::move(Items);
}

/// The entry that words and options describe; empty parts are left open.
static Expected<Entry> describedEntry(ArrayRef<std::string> Words) {
  Entry E;
  E.Title = join(Words, " ");
  E.Status = takeStatus(E.Title);
  E.Symptom = Symptom;
  E.RootCause = Cause;
  E.Fix = Fix;
  E.Files = Files;
  E.Prevention.assign(Prevention.begin(), Prevention.end());
  E.Class = kbOptions().Class;
  WrittenDate Day = findDate(Date.getValue());
  if (Day.Where.size() != Date.size() || Day.Ambiguous)
    return failure("--date: '" + Date + "' is no day",
                   "write it as 2026-11-20");
  E.Date = Date.empty() ? today() : Day.Iso;
  if (!Status.empty())
    E.Status = StringRef(Status).trim("[] ").upper();
  std::string Probe = "[" + E.Status + "] x";
  if (!E.Status.empty() && takeStatus(Probe).empty())
    return failure("--status: '" + E.Status + "' is no word of a status",
                   "one of FIXED, OPEN, WONTFIX, SKIPPED, or a word of yours");
  if (From.empty())
    return E;
  auto Input = MemoryBuffer::getFileOrSTDIN(From);
  if (!Input)
    return failure(From + ": " + Input.getError().message());
  if (Error Failed = fillFromReport((*Input)->getBuffer(), From, E))
    return Failed;
  return E;
}

static void printAdded(const AddedEntry &A, StringRef File,
                       ArrayRef<std::string> Prompts,
                       ArrayRef<SimilarPair> Alike) {
  if (kbOptions().Format == KbFormat::Json) {
    json::Array Near;
    for (const SimilarPair &P : Alike)
      Near.push_back(json::Object{{"entry", P.A->Id},
                                  {"line", P.A->Source.Line},
                                  {"score", roundedScore(P.Score)}});
    outs() << formatv("{0:2}",
                      json::Value(json::Object{
                          {"schema", 1},
                          {"file", json::fixUTF8(File)},
                          {"line", A.Added.Source.Line},
                          {"entry", A.Added.Id},
                          {"title", A.Added.Title},
                          {"written", !DryRun},
                          {"created", A.New},
                          {"prompts", json::Array(Prompts)},
                          {"similar", std::move(Near)},
                          {"text", json::fixUTF8(A.Text)}}))
           << '\n';
    return;
  }
  if (DryRun)
    outs() << StringRef(A.Text).trim("\r\n") << '\n';
  else
    outs() << File << ':' << A.Added.Source.Line << ": added '"
           << A.Added.Title << "' (" << A.Added.Id << ")\n";
  std::vector<Diagnostic> Notes;
  for (const SimilarPair &P : Alike)
    Notes.push_back(
        {Severity::Note,
         formatv("{0}:{1}: '{2}' is much like it ({3:f2})", File,
                 P.A->Source.Line, P.A->Title, P.Score),
         ""});
  if (!Prompts.empty())
    Notes.push_back({Severity::Note,
                     "to be answered: " + join(Prompts, ", ") +
                         "; 'culprit kb check " + File.str() +
                         "' names what is left",
                     ""});
  report(Notes);
}

int kbAdd(ArrayRef<std::string> Words) {
  if (Error E = checkFormat("add", {KbFormat::Text, KbFormat::Json}))
    return report(std::move(E));
  Expected<Vocabulary> V = openVocabulary();
  if (!V)
    return report(V.takeError());
  if (Error E = checkFilter(*V))
    return report(std::move(E));
  Expected<Entry> E = describedEntry(Words);
  if (!E)
    return report(E.takeError());
  bool Nothing = From.empty() && E->Symptom.empty() && E->RootCause.empty();
  if (Ask || (Nothing && sys::Process::StandardInIsUserInput() &&
              sys::Process::StandardErrIsDisplayed()))
    askForRest(*E);
  if (StringRef(E->Title).trim().empty())
    return report(failure("kb add: no title",
                          "say in one line what broke: culprit kb add 'Blurry "
                          "output, input scaling was missing', or start with "
                          "--from report.json"));
  if (E->Status.empty()) {
    bool Known = !E->RootCause.empty() && !isPrompt(E->RootCause) &&
                 !E->Fix.empty() && !isPrompt(E->Fix);
    E->Status = Known ? "FIXED" : "OPEN";
  }
  addPrompts(*E);

  std::string File = To;
  if (File.empty()) {
    Expected<std::string> Found = projectLog();
    if (!Found)
      return report(Found.takeError());
    File = *Found;
  }
  AddedEntry Added;
  if (DryRun) {
    std::unique_ptr<MemoryBuffer> Old = MemoryBuffer::getMemBuffer("");
    if (auto Read = MemoryBuffer::getFile(File))
      Old = std::move(*Read);
    Expected<std::string> New =
        withEntry(Old->getBuffer(), File, *E, Added);
    if (!New)
      return report(New.takeError());
  } else {
    Expected<AddedEntry> Done = addEntry(File, *E);
    if (!Done)
      return report(Done.takeError());
    Added = std::move(*Done);
  }
  printAdded(Added, File, promptLabels(Added.Added),
             similarTo(Added.Added, Added.Others));
  return ExitDone;
}

} // namespace culprit
