//===- Doctor.cpp - culprit doctor ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "DoctorChecks.h"
#include "Options.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand DoctorCommand("doctor",
                                    "Say whether this machine can record, and "
                                    "what is in the way");
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> DoctorFormat(
    "format", cl::sub(DoctorCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the result"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));

static StringRef word(Health H) {
  switch (H) {
  case Health::Good:
    return "good";
  case Health::Note:
    return "note";
  case Health::Limited:
    return "limited";
  case Health::Bad:
    return "bad";
  }
  return "";
}

int runDoctor() {
  std::vector<DoctorCheck> Checks = examineMachine();
  bool Works = none_of(
      Checks, [](const DoctorCheck &C) { return C.State == Health::Bad; });
  if (DoctorFormat == OutputFormat::Json) {
    json::Array All;
    for (const DoctorCheck &C : Checks)
      All.push_back(json::Object{{"check", C.Name},
                                 {"state", word(C.State)},
                                 {"what", C.What},
                                 {"advice", C.Advice}});
    outs() << formatv("{0:2}",
                      json::Value(json::Object{{"can_record", Works},
                                               {"checks", std::move(All)}}))
           << '\n';
    return Works ? ExitDone : ExitRefused;
  }
  for (const DoctorCheck &C : Checks) {
    outs() << formatv("{0,-8} {1,-10} {2}\n", word(C.State), C.Name, C.What);
    if (!C.Advice.empty())
      outs() << formatv("{0,-19} {1}\n", "", C.Advice);
  }
  outs() << (Works ? "CUDA programs can be recorded on this machine\n"
                   : "CUDA programs cannot be recorded on this machine\n");
  return Works ? ExitDone : ExitRefused;
}

} // namespace culprit
