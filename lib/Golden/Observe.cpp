//===- Observe.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Observe.h"
#include "Golden/LockFile.h"
#include "Golden/Statistics.h"
#include "Readers/VocabularyFile.h"
#include "Support/InputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

std::optional<std::string> GoldenRun::piece(int64_t Id) const {
  if (auto It = Pieces.find(Id); It != Pieces.end())
    return It->second;
  if (Vocabulary && Vocabulary->has(Id))
    return Vocabulary->text(Id);
  return std::nullopt;
}

static bool startsAsLock(StringRef Path) {
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File) {
    consumeError(File.takeError());
    return false;
  }
  return isGoldenLock((*File)->head());
}

InputNames::InputNames(const Case &C, ArrayRef<std::string> Paths) : C(C) {
  std::map<std::string, unsigned> Taken;
  for (const InputSummary &I : C.inputs()) {
    std::string Name = sys::path::filename(I.Path).str();
    size_t Longest = 0;
    for (StringRef Given : Paths) {
      while (Given.size() > 1 && Given.ends_with("/"))
        Given = Given.drop_back();
      StringRef Rest = I.Path;
      if (Given.size() >= Longest && Rest.consume_front(Given) &&
          (Given == "/" || Rest.consume_front("/")) && !Rest.empty()) {
        Name = Rest.ltrim('/').str();
        Longest = Given.size();
      }
    }
    // Two paths may have files of one name: told apart by their order.
    if (const unsigned Before = Taken[Name]++)
      Name += ":" + std::to_string(Before + 1);
    Names[I.Path] = Name;
    if (I.Format == "YAML settings" && startsAsLock(I.Path))
      Locks.push_back(I.Path);
  }
}

std::string InputNames::of(StringRef Path) const {
  auto It = Names.find(Path);
  return It == Names.end() ? sys::path::filename(Path).str() : It->second;
}

std::string InputNames::place(TableId Id, size_t Row) const {
  const Citation At = C.cite(Id, Row);
  std::string Out = of(At.Path);
  if (schema(Id).hasLines() && At.Place != NullInt)
    Out += ":" + std::to_string(At.Place);
  return Out;
}

std::string slugOf(StringRef Text, size_t Most) {
  std::string Out;
  for (char C : Text) {
    if (Out.size() >= Most)
      break;
    if (isAlnum(C))
      Out += toLower(C);
    else if (!Out.empty() && Out.back() != '-')
      Out += '-';
  }
  while (!Out.empty() && Out.back() == '-')
    Out.pop_back();
  return Out;
}

std::optional<Observation> sampleItem(std::string Id,
                                      std::vector<double> Values,
                                      StringRef Unit, size_t Least,
                                      double Atol) {
  if (Values.size() < Least)
    return std::nullopt;
  Observation Out;
  GoldenItem &I = Out.Item;
  I.Id = std::move(Id);
  I.Kind = GoldenKind::Statistical;
  I.Of = GoldenSubject::Sample;
  const Moments M = momentsOf(Values);
  I.set("unit", Unit);
  I.set("count", int64_t(Values.size()));
  I.set("mean", M.Mean);
  I.set("sd", M.Deviation);
  I.set("points", sampleSketch(Values), 6);
  I.Tolerance = {{"k", 4}, {"p", 0.0001}};
  I.Why = "varies by chance: mean and sd within 4 standard errors, and p of "
          "the Kolmogorov-Smirnov test above 0.0001, fail by chance about "
          "once in 4,000 runs";
  if (Atol > 0)
    I.Tolerance.push_back({"atol", Atol});
  Out.Sample = std::move(Values);
  return Out;
}

Observation idsItem(std::string Id, std::vector<int64_t> Ids) {
  Observation Out;
  GoldenItem &I = Out.Item;
  I.Id = std::move(Id);
  I.Kind = GoldenKind::Exact;
  I.Of = GoldenSubject::Ids;
  std::string Written;
  for (int64_t V : Ids)
    Written += std::to_string(V) + ",";
  I.set("hash", goldenHash(Written));
  I.set("count", int64_t(Ids.size()));
  I.set("ids", ArrayRef<int64_t>(Ids).take_front(
                   std::min(Ids.size(), MaxHeldIds)));
  Out.Ids = std::move(Ids);
  return Out;
}

Observation levelItem(std::string Id, double Value, double Low, double High,
                      bool LowerIsBetter, StringRef Unit, double Rtol,
                      StringRef Why) {
  Observation Out;
  GoldenItem &I = Out.Item;
  I.Id = std::move(Id);
  I.Kind = GoldenKind::Regression;
  I.Of = GoldenSubject::Level;
  if (!Unit.empty())
    I.set("unit", Unit);
  I.set("better", LowerIsBetter ? "lower" : "higher");
  I.set("value", Value);
  I.set("low", Low);
  I.set("high", High);
  I.Tolerance = {{"rtol", Rtol}};
  I.Why = Why.str();
  return Out;
}

GoldenRun observe(const Case &C, ArrayRef<std::string> Paths,
                  const GoldenOptions &Options) {
  GoldenRun Run;
  const InputNames Names(C, Paths);
  observeRequests(C, Names, Options, Run);
  observeFigures(C, Names, Run);
  observeTensors(C, Names, Options.Threads, Run);
  observeSettings(C, Names, Run);
  observeSchemas(C, Names, Run);
  for (StringRef Format : {"tokenizer", "GGUF model"})
    for (const InputSummary &I : C.inputs())
      if (I.Format == Format && !I.Failed && !Run.Vocabulary) {
        Expected<TokenVocabulary> Words = readTokenVocabulary(I.Path);
        if (Words)
          Run.Vocabulary = std::move(*Words);
        else
          consumeError(Words.takeError());
      }
  llvm::stable_sort(Run.Items, [](const Observation &A, const Observation &B) {
    return A.Item.Id < B.Item.Id;
  });
  // Rows that nothing tells apart keep the order of their files.
  std::map<std::string, unsigned> Taken;
  for (Observation &O : Run.Items)
    if (const unsigned Before = Taken[O.Item.Id]++)
      O.Item.Id += "#" + std::to_string(Before + 1);
  llvm::stable_sort(Run.Items, [](const Observation &A, const Observation &B) {
    return A.Item.Id < B.Item.Id;
  });
  return Run;
}

} // namespace culprit
