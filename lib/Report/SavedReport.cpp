//===- SavedReport.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/SavedReport.h"
#include "KB/Entry.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {

std::string text(const json::Object &O, StringRef Key) {
  return O.getString(Key).value_or("").str();
}

std::vector<std::string> texts(const json::Object &O, StringRef Key) {
  std::vector<std::string> Out;
  if (const json::Array *All = O.getArray(Key))
    for (const json::Value &V : *All)
      if (std::optional<StringRef> S = V.getAsString())
        Out.push_back(S->str());
  return Out;
}

Error broken(StringRef Where, const Twine &What) {
  return failure(Where + ": " + What,
                 "give what 'culprit diagnose --format json' wrote");
}

/// One element of `evidence`.
Error takeSymptom(const json::Object &O, StringRef Where,
                  std::vector<SymptomEvidence> &Into) {
  SymptomEvidence S;
  S.Symptom = text(O, "id");
  if (S.Symptom.empty())
    return broken(Where, "an element of 'evidence' has no 'id'");
  std::optional<Presence> State = parsePresence(text(O, "state"));
  if (!State)
    return broken(Where, "the state of '" + S.Symptom + "' is '" +
                             text(O, "state") + "'");
  S.State = *State;
  S.Score = O.getNumber("score").value_or(S.State == Presence::Present);
  if (!(S.Score >= 0 && S.Score <= 1))
    return broken(Where, "the score of '" + S.Symptom +
                             "' is not between 0 and 1");
  S.Detector = text(O, "detector");
  S.Informational = O.getBoolean("informational").value_or(false);
  if (std::optional<int64_t> Time = O.getInteger("recoverable_ns"))
    S.Recoverable = *Time;
  S.Missing = texts(O, "needs");
  Into.push_back(std::move(S));
  return Error::success();
}

/// `shape`: what the curves look like, where the report has it.
Error takeShape(const json::Object &O, StringRef Where,
                std::map<std::string, double> &Into) {
  const json::Value *Given = O.get("shape");
  if (!Given || Given->getAsNull())
    return Error::success();
  const json::Object *Shape = Given->getAsObject();
  if (!Shape)
    return broken(Where, "'shape' is no object");
  for (const auto &[Name, V] : *Shape) {
    std::optional<double> Figure = V.getAsNumber();
    if (!Figure)
      return broken(Where, "'" + StringRef(Name) +
                               "' of 'shape' is not a number");
    Into[StringRef(Name).str()] = *Figure;
  }
  return Error::success();
}

} // namespace

Expected<SavedReport> SavedReport::parse(const json::Value &V,
                                         StringRef Where) {
  const json::Object *O = V.getAsObject();
  const json::Array *Evidence = O ? O->getArray("evidence") : nullptr;
  if (!Evidence)
    return broken(Where, "no 'evidence' in it");
  SavedReport R;
  R.Name = text(*O, "name");
  R.Without = texts(*O, "without");
  for (const json::Value &Each : *Evidence) {
    const json::Object *S = Each.getAsObject();
    if (!S)
      return broken(Where, "an element of 'evidence' is no object");
    if (Error E = takeSymptom(*S, Where, R.Symptoms))
      return E;
  }
  llvm::sort(R.Symptoms, [](const auto &A, const auto &B) {
    return A.Symptom < B.Symptom;
  });
  for (size_t I = 1; I < R.Symptoms.size(); ++I)
    if (R.Symptoms[I].Symptom == R.Symptoms[I - 1].Symptom)
      return broken(Where,
                    "'" + R.Symptoms[I].Symptom + "' is twice in 'evidence'");
  auto objects = [&](StringRef Key, auto Take) {
    if (const json::Array *All = O->getArray(Key))
      for (const json::Value &Each : *All)
        if (const json::Object *Part = Each.getAsObject())
          Take(*Part);
  };
  objects("log_quotes", [&](const json::Object &Q) {
    R.Quotes.push_back({text(Q, "entry"), text(Q, "fragment"), text(Q, "file"),
                        Q.getInteger("line").value_or(0),
                        static_cast<unsigned>(std::clamp<int64_t>(
                            Q.getInteger("count").value_or(1), 1, INT32_MAX))});
  });
  if (Error E = takeShape(*O, Where, R.Shape))
    return E;
  if (const json::Array *All = O->getArray("hypotheses"))
    for (const json::Value &Each : *All) {
      const json::Object *H = Each.getAsObject();
      std::string Class = H ? text(*H, "class") : "";
      double P = H ? H->getNumber("probability").value_or(-1) : -1;
      if (Class.empty() || !(P >= 0 && P <= 1))
        return broken(Where, "an element of 'hypotheses' has no 'class' and "
                             "'probability' from 0 to 1");
      R.Ranked.push_back({std::move(Class), P});
    }
  objects("inputs", [&](const json::Object &I) {
    R.Paths.push_back(text(I, "path"));
  });
  R.Unknown = O->getNumber("unknown").value_or(0);
  return R;
}

Expected<std::vector<SavedReport>> SavedReport::load(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
  if (!Buffer)
    return failure(Path + ": " + Buffer.getError().message(),
                   "give a file that 'culprit diagnose --format json' wrote");
  StringRef Text = (*Buffer)->getBuffer();
  std::vector<SavedReport> Out;
  auto take = [&](StringRef Json, const Twine &Where) -> Error {
    Expected<json::Value> V = json::parse(Json);
    if (!V) {
      std::string What = toString(V.takeError());
      return broken(Where.str(), "no JSON: " + What);
    }
    Expected<SavedReport> R = parse(*V, Where.str());
    if (!R)
      return R.takeError();
    Out.push_back(std::move(*R));
    return Error::success();
  };
  // One report is an object over many lines; a set has one on each line.
  StringRef First = Text.split('\n').first.trim();
  bool ByLine = First.size() > 1 && First.ends_with("}");
  if (!ByLine) {
    if (Error E = take(Text, Path))
      return E;
    return Out;
  }
  for (unsigned Line = 1; !Text.empty(); ++Line) {
    auto [Head, Tail] = Text.split('\n');
    Text = Tail;
    if (!Head.trim().empty())
      if (Error E = take(Head, Path + ":" + Twine(Line)))
        return E;
  }
  return Out;
}

std::vector<LogEvidence> SavedReport::logs(ArrayRef<Entry> Entries) const {
  std::vector<LogEvidence> Out;
  for (const SavedQuote &Q : Quotes)
    for (const Entry &E : Entries)
      if (E.Id == Q.Entry && !E.Class.empty())
        Out.push_back({&E, Q.Fragment, Q.Path, Q.Line, Q.Count});
  return Out;
}

} // namespace culprit
