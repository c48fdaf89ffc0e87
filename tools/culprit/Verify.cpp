//===- Verify.cpp - culprit verify ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Options.h"
#include "Readers/CaptureCheck.h"
#include "Support/InputFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand VerifyCommand("verify",
                                    "Check that captures hold what they "
                                    "promise");
static cl::list<std::string> Paths(cl::Positional, cl::sub(VerifyCommand),
                                   cl::desc("CAPTURE..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>>
    Format("format", cl::sub(VerifyCommand), cl::init(OutputFormat::Text),
           cl::value_desc("text|json"), cl::desc("Form of the result"),
           cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
                      clEnumValN(OutputFormat::Json, "json", "For programs")));

static void print(StringRef Path, const CaptureCheck &C) {
  outs() << Path << ": "
         << (C.Broken.empty() ? "good" : "broken")
         << (C.Sum.empty() ? "" : ": ") << C.Sum << '\n';
  for (const std::string &Text : C.Broken)
    outs() << "  broken: " << Text << '\n';
  for (const std::string &Text : C.Notes)
    outs() << "  " << Text << '\n';
}

static json::Value asJson(StringRef Path, const CaptureCheck &C) {
  return json::Object{{"path", Path},
                      {"good", C.Broken.empty()},
                      {"broken", json::Array(C.Broken)},
                      {"notes", json::Array(C.Notes)}};
}

/// Checks the file at \p Path.
static Expected<CaptureCheck> checkFile(StringRef Path) {
  Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
  if (!File)
    return File.takeError();
  Expected<StringRef> Bytes = (*File)->contents();
  if (!Bytes)
    return Bytes.takeError();
  std::string_view View(Bytes->data(), Bytes->size());
  if (!capture::CaptureFile::isCapture(View))
    return failure(Path + ": is no capture",
                   "captures are what `culprit attach` and `culprit record` "
                   "write: *.cprt");
  CaptureCheck Out = checkCapture(capture::CaptureFile(View));
  if (!(*File)->truncation().empty())
    Out.Broken.push_back((*File)->truncation());
  return Out;
}

int runVerify() {
  if (Paths.empty())
    return report(failure("verify: nothing to check", "give captures: *.cprt"));
  if (Error E = checkPaths("verify", Paths))
    return report(std::move(E));
  int Exit = ExitDone;
  json::Array All;
  for (const std::string &Path : Paths) {
    Expected<CaptureCheck> C = checkFile(Path);
    if (!C) {
      Exit = report(C.takeError());
      continue;
    }
    if (!C->Broken.empty() && Exit == ExitDone)
      Exit = ExitRefused;
    if (Format == OutputFormat::Json)
      All.push_back(asJson(Path, *C));
    else
      print(Path, *C);
  }
  if (Format == OutputFormat::Json)
    outs() << formatv("{0:2}", json::Value(std::move(All))) << '\n';
  return Exit;
}

} // namespace culprit
