//===- Weights.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Weights.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"

using namespace llvm;

namespace {

using ByName = std::map<std::string, double>;
struct Words {
  culprit::Weights *W;
};
struct LogText {
  culprit::Weights *W;
};

} // namespace

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
    In.mapOptional("words", WordPart);
    In.mapOptional("prior", W.Prior);
    In.mapOptional("priors", W.Priors);
    In.mapOptional("leak", W.Leak);
    In.mapOptional("leaks", W.Leaks);
    In.mapOptional("generic", W.Generic);
    In.mapOptional("log_text", TextPart);
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

bool Weights::isGeneric(StringRef Symptom) const {
  return is_contained(Generic, Symptom);
}

Expected<Weights> Weights::load(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
  if (!Buffer)
    return failure(Path + ": " + Buffer.getError().message(),
                   "the ranking's weights belong to the installation; install "
                   "culprit again");
  return parse((*Buffer)->getBuffer(), Path);
}

Expected<Weights> Weights::parse(StringRef Yaml, StringRef Name) {
  Weights W;
  std::string Problem;
  auto Remember = [](const SMDiagnostic &D, void *Out) {
    std::string &Text = *static_cast<std::string *>(Out);
    if (Text.empty())
      Text = (Twine(D.getLineNo()) + ": " + D.getMessage()).str();
  };
  yaml::Input In(Yaml, nullptr, Remember, &Problem);
  In >> W;
  if (In.error())
    return failure(Name + ":" + Problem,
                   "docs/ranking.md lists the keys of this file");

  auto Check = [&](StringRef What, double Value) -> Error {
    if (Value > 0 && Value < 1)
      return Error::success();
    return failure(Name + ": '" + What + "' is " + formatNumber(Value) +
                       ", not a probability",
                   "give a number between 0 and 1, neither included");
  };
  std::vector<std::pair<std::string, double>> All = {
      {"always", W.Always},          {"often", W.Often},
      {"sometimes", W.Sometimes},    {"never", W.Never},
      {"prior", W.Prior},            {"leak", W.Leak},
      {"log_text.cause", W.LogTextCause}, {"log_text.leak", W.LogTextLeak},
      {"log_text.leak_beside_symptom", W.LogTextLeakBeside}};
  All.insert(All.end(), W.Priors.begin(), W.Priors.end());
  All.insert(All.end(), W.Leaks.begin(), W.Leaks.end());
  for (const auto &[Key, Value] : All)
    if (Error E = Check(Key, Value))
      return E;
  return W;
}

} // namespace culprit
