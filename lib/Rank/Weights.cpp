//===- Weights.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Weights.h"
#include "Rank/RecordedRuns.h"
#include "Rank/Network.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"
#include <cmath>

using namespace llvm;

namespace {

using ByName = std::map<std::string, double>;
using ByLink = std::map<std::string, ByName>;
struct Words {
  culprit::Weights *W;
};
struct LogText {
  culprit::Weights *W;
};
struct UnknownCause {
  culprit::Weights *W;
};
/// kb/fitted.yaml. What it says of itself is for the reader.
struct FittedFile {
  std::string Date, Cases;
  double Pull = 0;
  culprit::Weights::Curve Map;
  culprit::Weights::Blend OfRecorded;
  ByName Leaks;
  ByLink Links;
};

} // namespace

LLVM_YAML_IS_SEQUENCE_VECTOR(std::vector<std::string>)

namespace llvm::yaml {

template <> struct CustomMappingTraits<ByName> {
  static void inputOne(IO &In, StringRef Key, ByName &Map) {
    In.mapRequired(Key.str().c_str(), Map[Key.str()]);
  }
  static void output(IO &Out, ByName &Map) {
    for (auto &[Key, Value] : Map)
      Out.mapRequired(Key.c_str(), Value);
  }
};

template <> struct CustomMappingTraits<ByLink> {
  static void inputOne(IO &In, StringRef Key, ByLink &Map) {
    In.mapRequired(Key.str().c_str(), Map[Key.str()]);
  }
  static void output(IO &Out, ByLink &Map) {
    for (auto &[Key, Value] : Map)
      Out.mapRequired(Key.c_str(), Value);
  }
};

template <> struct MappingTraits<culprit::Weights::Curve> {
  static void mapping(IO &In, culprit::Weights::Curve &C) {
    In.mapOptional("low", C.Low);
    In.mapOptional("high", C.High);
    In.mapOptional("offset", C.Offset);
  }
};

template <> struct MappingTraits<culprit::Weights::Blend> {
  static void mapping(IO &In, culprit::Weights::Blend &B) {
    In.mapOptional("network", B.Network);
    In.mapOptional("runs", B.Runs);
    In.mapOptional("none", B.None);
    In.mapOptional("rival", B.Rival);
    In.mapOptional("offset", B.Offset);
  }
};

template <> struct MappingTraits<culprit::Weights::Proof> {
  static void mapping(IO &In, culprit::Weights::Proof &P) {
    In.mapOptional("score", P.Score);
    In.mapOptional("weight", P.Weight);
    In.mapOptional("leak", P.Leak);
  }
};

template <> struct MappingTraits<FittedFile> {
  static void mapping(IO &In, FittedFile &F) {
    In.mapOptional("date", F.Date);
    In.mapOptional("cases", F.Cases);
    In.mapOptional("pull", F.Pull);
    In.mapOptional("calibration", F.Map);
    In.mapOptional("recorded", F.OfRecorded);
    In.mapOptional("leaks", F.Leaks);
    In.mapOptional("links", F.Links);
  }
};

template <> struct MappingTraits<culprit::Experiments> {
  static void mapping(IO &In, culprit::Experiments &E) {
    In.mapOptional("right", E.Right);
    In.mapOptional("minutes", E.Minutes);
    In.mapOptional("by_class", E.ByClass);
    In.mapOptional("by_recording", E.ByRecording);
  }
};

template <> struct MappingTraits<UnknownCause> {
  static void mapping(IO &In, UnknownCause &Part) {
    In.mapOptional("prior", Part.W->UnknownPrior);
    In.mapOptional("shows", Part.W->UnknownShows);
    In.mapOptional("shows_generic", Part.W->UnknownShowsGeneric,
                   Part.W->UnknownShows);
  }
};

template <> struct MappingTraits<Words> {
  static void mapping(IO &In, Words &Part) {
    In.mapOptional("always", Part.W->Always);
    In.mapOptional("often", Part.W->Often);
    In.mapOptional("sometimes", Part.W->Sometimes);
    In.mapOptional("never", Part.W->Never);
  }
};

template <> struct MappingTraits<LogText> {
  static void mapping(IO &In, LogText &Part) {
    In.mapOptional("cause", Part.W->LogTextCause);
    In.mapOptional("leak", Part.W->LogTextLeak);
    In.mapOptional("leak_beside_symptom", Part.W->LogTextLeakBeside);
  }
};

template <> struct MappingTraits<culprit::Weights> {
  static void mapping(IO &In, culprit::Weights &W) {
    Words WordPart{&W};
    LogText TextPart{&W};
    UnknownCause UnknownPart{&W};
    In.mapOptional("words", WordPart);
    In.mapOptional("prior", W.Prior);
    In.mapOptional("priors", W.Priors);
    In.mapOptional("leak", W.Leak);
    In.mapOptional("leaks", W.Leaks);
    In.mapOptional("generic", W.Generic);
    In.mapOptional("log_text", TextPart);
    In.mapOptional("unknown", UnknownPart);
    In.mapOptional("certain", W.CertainRatio);
    In.mapOptional("never_leaves", W.NeverLeaves);
    In.mapOptional("together", W.Together);
    In.mapOptional("absent_power", W.AbsentPower);
    In.mapOptional("exclusive", W.Exclusive);
    In.mapOptional("not_recorded", W.OfOthers);
    In.mapOptional("decisive", W.Decisive);
    In.mapOptional("experiments", W.Cost);
  }
};

} // namespace llvm::yaml

namespace culprit {

double Weights::prior(StringRef Class) const {
  auto It = Priors.find(Class.str());
  return It == Priors.end() ? Prior : It->second;
}

double Weights::leak(StringRef Symptom) const {
  auto It = Leaks.find(Symptom.str());
  return It == Leaks.end() ? Leak : It->second;
}

std::optional<double> Weights::fitted(StringRef Class,
                                     StringRef Symptom) const {
  auto Links = Fitted.find(Class.str());
  if (Links == Fitted.end())
    return std::nullopt;
  auto It = Links->second.find(Symptom.str());
  if (It == Links->second.end())
    return std::nullopt;
  return It->second;
}

double Weights::calibrated(double P) const {
  if (P <= 0 || P >= 1)
    return P;
  return 1 / (1 + std::exp(-(Calibration.Low * std::log(P) -
                             Calibration.High * std::log1p(-P) +
                             Calibration.Offset)));
}

double Weights::minutesOf(StringRef Class) const {
  auto It = Cost.ByClass.find(Class.str());
  return It == Cost.ByClass.end() ? Cost.Minutes : It->second;
}

std::optional<double> Weights::priceOf(StringRef Need) const {
  auto It =
      Cost.ByRecording.find(Need.take_front(Need.find_first_of(". ,")).str());
  if (It == Cost.ByRecording.end())
    return std::nullopt;
  return It->second;
}

double Weights::minutesToRecord(StringRef Need) const {
  return priceOf(Need).value_or(Cost.Minutes);
}

bool Weights::isGeneric(StringRef Symptom) const {
  return is_contained(Generic, Symptom);
}

static Expected<std::unique_ptr<MemoryBuffer>> readWhole(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
  if (!Buffer)
    return failure(Path + ": " + Buffer.getError().message(),
                   "the ranking's weights belong to the installation; install "
                   "culprit again");
  return std::move(*Buffer);
}

/// Reads \p Yaml, which \p Name stands for in messages, into \p Into.
template <typename T>
static Error parseYaml(StringRef Yaml, StringRef Name, T &Into) {
  std::string Problem;
  auto Remember = [](const SMDiagnostic &D, void *Out) {
    std::string &Text = *static_cast<std::string *>(Out);
    if (Text.empty())
      Text = (Twine(D.getLineNo()) + ": " + D.getMessage()).str();
  };
  yaml::Input In(Yaml, nullptr, Remember, &Problem);
  In >> Into;
  if (In.error())
    return failure(Name + ":" + Problem,
                   "docs/ranking.md lists the keys of this file");
  return Error::success();
}

static Error checkProbability(StringRef Name, StringRef What, double Value) {
  if (Value > 0 && Value < 1)
    return Error::success();
  return failure(Name + ": '" + What + "' is " + formatNumber(Value) +
                     ", not a probability",
                 "give a number between 0 and 1, neither included");
}

/// Ratios and minutes, which are above \p Least.
static Error checkAbove(StringRef Name, StringRef What, double Value,
                        double Least) {
  if (std::isfinite(Value) && Value > Least)
    return Error::success();
  return failure(Name + ": '" + What + "' is " + formatNumber(Value),
                 "give a number above " + formatNumber(Least));
}

static Error checkBlend(StringRef Name, StringRef What,
                        const Weights::Blend &B) {
  if (std::isfinite(B.Network) && std::isfinite(B.Runs) &&
      std::isfinite(B.Offset) && std::isfinite(B.None) &&
      std::isfinite(B.Rival) && B.Network >= 0 && B.Runs >= 0)
    return Error::success();
  return failure(Name + ": '" + What + "' has a weight that is no number, or "
                                       "one of network or runs below 0",
                 "docs/ranking.md says what it is");
}

/// Shares of runs, and a score.
static Error checkProof(StringRef Name, const Weights::Proof &P) {
  for (double Value : {P.Score, P.Weight, P.Leak})
    if (!(Value >= 0 && Value <= 1))
      return failure(Name + ": 'decisive' has a number that is not from 0 to 1",
                     "docs/ranking.md says what it is");
  return Error::success();
}

Expected<Weights> Weights::load(StringRef Path) {
  Expected<std::unique_ptr<MemoryBuffer>> Buffer = readWhole(Path);
  if (!Buffer)
    return Buffer.takeError();
  return parse((*Buffer)->getBuffer(), Path);
}

Expected<Weights> Weights::parse(StringRef Yaml, StringRef Name) {
  Weights W;
  if (Error E = parseYaml(Yaml, Name, W))
    return E;
  std::vector<std::pair<std::string, double>> All = {
      {"always", W.Always},
      {"often", W.Often},
      {"sometimes", W.Sometimes},
      {"never", W.Never},
      {"prior", W.Prior},
      {"leak", W.Leak},
      {"log_text.cause", W.LogTextCause},
      {"log_text.leak", W.LogTextLeak},
      {"log_text.leak_beside_symptom", W.LogTextLeakBeside},
      {"never_leaves", W.NeverLeaves},
      {"experiments.right", W.Cost.Right}};
  if (W.UnknownPrior != 0)
    All.push_back({"unknown.prior", W.UnknownPrior});
  All.insert(All.end(), W.Priors.begin(), W.Priors.end());
  All.insert(All.end(), W.Leaks.begin(), W.Leaks.end());
  for (const auto &[Key, Value] : All)
    if (Error E = checkProbability(Name, Key, Value))
      return E;
  std::vector<std::pair<std::string, double>> Minutes(W.Cost.ByClass.begin(),
                                                      W.Cost.ByClass.end());
  Minutes.insert(Minutes.end(), W.Cost.ByRecording.begin(),
                 W.Cost.ByRecording.end());
  Minutes.push_back({"experiments.minutes", W.Cost.Minutes});
  for (const auto &[Key, Value] : Minutes)
    if (Error E = checkAbove(Name, Key, Value, 0))
      return E;
  if (Error E = checkAbove(Name, "certain", W.CertainRatio, 1))
    return E;
  if (Error E = checkAbove(Name, "unknown.shows", W.UnknownShows, 0))
    return E;
  if (Error E =
          checkAbove(Name, "unknown.shows_generic", W.UnknownShowsGeneric, 0))
    return E;
  if (Error E = checkAbove(Name, "absent_power", W.AbsentPower, 0))
    return E;
  if (Error E = checkAbove(Name, "together", W.Together, 0))
    return E;
  if (Error E = checkBlend(Name, "not_recorded", W.OfOthers))
    return E;
  if (Error E = checkProof(Name, W.Decisive))
    return E;
  if (W.Exclusive.size() > 64)
    return failure(Name + ": more than 64 groups in 'exclusive'",
                   "join groups that share classes");
  return W;
}

Error Weights::loadFitted(StringRef Path) {
  if (!sys::fs::exists(Path))
    return Error::success();
  Expected<std::unique_ptr<MemoryBuffer>> Buffer = readWhole(Path);
  if (!Buffer)
    return Buffer.takeError();
  return parseFitted((*Buffer)->getBuffer(), Path);
}

Error Weights::loadRecorded(StringRef Path) {
  if (!sys::fs::exists(Path))
    return Error::success();
  Expected<RecordedRuns> Runs = RecordedRuns::load(Path);
  if (!Runs)
    return Runs.takeError();
  Recorded = std::make_shared<const RecordedRuns>(std::move(*Runs));
  return Error::success();
}

Error Weights::parseFitted(StringRef Yaml, StringRef Name) {
  FittedFile F;
  if (Error E = parseYaml(Yaml, Name, F))
    return E;
  if (Error E = checkAbove(Name, "calibration.low", F.Map.Low, 0))
    return E;
  if (Error E = checkAbove(Name, "calibration.high", F.Map.High, 0))
    return E;
  if (!std::isfinite(F.Map.Offset))
    return failure(Name + ": 'calibration.offset' is no number",
                   "make the file again with scripts/fit-rank");
  if (Error E = checkBlend(Name, "recorded", F.OfRecorded))
    return E;
  for (const auto &[Symptom, Value] : F.Leaks)
    if (Error E = checkProbability(Name, Symptom, Value))
      return E;
  for (const auto &[Class, Links] : F.Links)
    for (const auto &[Symptom, Value] : Links)
      if (Error E = checkProbability(Name, Class + ": " + Symptom, Value))
        return E;
  Calibration = F.Map;
  OfRecorded = F.OfRecorded;
  for (const auto &[Symptom, Value] : F.Leaks)
    Leaks[Symptom] = Value;
  for (auto &[Class, Links] : F.Links)
    for (const auto &[Symptom, Value] : Links)
      Fitted[Class][Symptom] = Value;
  return Error::success();
}

} // namespace culprit
