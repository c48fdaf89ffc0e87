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
static cl::list<std::string> VerifyPaths(cl::Positional, cl::sub(VerifyCommand),
                                         cl::desc("CAPTURE..."));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> VerifyFormat(
    "format", cl::sub(VerifyCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json"), cl::desc("Form of the result"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For people"),
               clEnumValN(OutputFormat::Json, "json", "For programs")));

static void print(StringRef Path, const CaptureCheck &C) {
  outs() << Path << ": "
         << (!C.Broken.empty() ? "broken"
             : C.Cut           ? "good as far as it goes"
                               : "good")
         << (C.Sum.empty() ? "" : ": ") << C.Sum << '\n';
  for (const std::string &Text : C.Broken)
    outs() << "  broken: " << Text << '\n';
  for (const std::string &Text : C.Notes)
    outs() << "  " << Text << '\n';
  if (!C.Broken.empty())
    outs() << "  next: copy the file again if there is another; what can be "
              "read of it, `culprit diagnose` uses\n";
}

static json::Value orNull(std::optional<uint64_t> Number) {
  return Number ? json::Value(*Number) : json::Value(nullptr);
}

static json::Value asJson(StringRef Path, const CaptureCheck &C) {
  json::Value Records = nullptr;
  if (C.Records)
    Records = json::Object{{"seen", C.Records->Seen},
                           {"written", C.Records->Written},
                           {"lost", C.Records->Lost},
                           {"left_out", C.Records->LeftOut}};
  json::Array Losses, Kinds;
  for (const CaptureCheck::Reason &L : C.Losses)
    Losses.push_back(json::Object{
        {"name", L.Name}, {"count", L.Count}, {"why", L.Why}});
  for (const CaptureCheck::Kind &K : C.Kinds)
    Kinds.push_back(json::Object{
        {"kind", K.Name},
        {"seen", orNull(K.Seen)},
        {"written", orNull(K.Written)},
        {"lost", K.Seen && K.Written && *K.Seen >= *K.Written
                     ? json::Value(*K.Seen - *K.Written)
                     : json::Value(nullptr)},
        {"overwritten", orNull(K.Overwritten)},
        {"in_file", K.InFile}});
  return json::Object{{"path", Path},
                      {"good", C.Broken.empty()},
                      {"cut", C.Cut},
                      {"records", std::move(Records)},
                      {"losses", std::move(Losses)},
                      {"kinds", std::move(Kinds)},
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
  if (VerifyPaths.empty())
    return report(failure("verify: nothing to check", "give captures: *.cprt"));
  if (Error E = checkPaths("verify", VerifyPaths))
    return report(std::move(E));
  int Exit = ExitDone;
  json::Array All;
  for (const std::string &Path : VerifyPaths) {
    Expected<CaptureCheck> C = checkFile(Path);
    if (!C) {
      Exit = report(C.takeError());
      continue;
    }
    if (!C->Broken.empty() && Exit == ExitDone)
      Exit = ExitRefused;
    if (VerifyFormat == OutputFormat::Json)
      All.push_back(asJson(Path, *C));
    else
      print(Path, *C);
  }
  if (VerifyFormat == OutputFormat::Json)
    outs() << formatv("{0:2}", json::Value(std::move(All))) << '\n';
  return Exit;
}

} // namespace culprit
