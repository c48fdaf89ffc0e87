//===- Main.cpp - The culprit command ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Exit status: 0 when the analysis was done, whatever it found; 1 only under
// --fail-on, or when a check refuses; 2 for a usage or input error; 130
// when interrupted.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Options.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"
#include <csignal>

using namespace llvm;

namespace culprit {

int report(Error E) {
  report(toDiagnostics(std::move(E)));
  return ExitBadUse;
}

void report(ArrayRef<Diagnostic> Diagnostics) {
  for (const Diagnostic &D : Diagnostics) {
    switch (D.Level) {
    case Severity::Error:
      WithColor::error(errs()) << D.Message << '\n';
      break;
    case Severity::Warning:
      WithColor::warning(errs()) << D.Message << '\n';
      break;
    case Severity::Note:
      WithColor::note(errs()) << D.Message << '\n';
      break;
    }
    if (!D.Hint.empty())
      WithColor::note(errs()) << D.Hint << '\n';
  }
}

Expected<std::string> homeFolder() {
  if (auto Home = sys::Process::GetEnv("CULPRIT_HOME"))
    return *Home;
  static int Anchor;
  SmallString<256> Path(sys::fs::getMainExecutable(nullptr, &Anchor));
  sys::path::remove_filename(Path);
  sys::path::append(Path, "..", "share", "culprit");
  sys::path::remove_dots(Path, /*remove_dot_dot=*/true);
  if (sys::fs::is_directory(Path + "/kb"))
    return Path.str().str();
  return failure("the knowledge base and the detectors are not at '" + Path +
                     "'",
                 "install culprit again, or set CULPRIT_HOME to the folder "
                 "that holds 'kb' and 'plugins'");
}

std::string versionString() {
  if (auto Fake = sys::Process::GetEnv("CULPRIT_FAKE_VERSION"))
    return *Fake;
  return CULPRIT_VERSION;
}

unsigned outputWidth() {
  unsigned Width = 0;
  if (auto Columns = sys::Process::GetEnv("COLUMNS"))
    if (!StringRef(*Columns).getAsInteger(10, Width) && Width >= 60)
      return std::min(Width, 140u);
  return 100;
}

void exitAtOnce(int Exit) {
  outs().flush();
  std::_Exit(Exit);
}

int runVersion() {
  outs() << "culprit " << versionString() << '\n';
  return ExitDone;
}

namespace {

struct Command {
  StringRef Name;
  int (*Run)();
};

constexpr Command Commands[] = {
#define COMMAND(NAME, FUNCTION, SUMMARY) {NAME, FUNCTION},
#include "Commands.def"
};

/// NO_COLOR and CLICOLOR, which LLVM does not know.
bool wantsColor(const raw_ostream &OS) {
  auto Value = [](StringRef Name) {
    return sys::Process::GetEnv(Name).value_or("");
  };
  if (!Value("NO_COLOR").empty() || Value("CLICOLOR") == "0")
    return false;
  if (!Value("CLICOLOR_FORCE").empty() && Value("CLICOLOR_FORCE") != "0")
    return true;
  return OS.has_colors();
}

/// A first word that is no subcommand gets a sentence and a suggestion, not
/// LLVM's complaint about positional arguments.
int unknownCommand(StringRef Word) {
  std::vector<std::string> Names;
  for (const Command &C : Commands)
    Names.push_back(C.Name.str());
  std::string Close = closestName(Word, Names);
  std::string Hint = "commands: " + join(Names, ", ");
  if (sys::fs::exists(Word))
    Hint = "to diagnose it, run 'culprit diagnose " + Word.str() + "'";
  else if (!Close.empty())
    Hint = "did you mean '" + Close + "'? " + Hint;
  return report(failure("unknown command '" + Word + "'", Hint));
}

} // namespace
} // namespace culprit

using namespace culprit;

int main(int Argc, const char **Argv) {
  InitLLVM Setup(Argc, Argv);
  WithColor::setAutoDetectFunction(wantsColor);
  sys::SetInterruptFunction([] { _exit(ExitInterrupted); });
  // A reader that has seen enough, such as head, is no error worth a word.
  sys::SetOneShotPipeSignalFunction([] { _exit(128 + SIGPIPE); });
  cl::SetVersionPrinter(
      [](raw_ostream &OS) { OS << "culprit " << versionString() << '\n'; });

  if (Argc < 2 || StringRef(Argv[1]) == "--help" ||
      StringRef(Argv[1]) == "-h") {
    runHelp();
    return Argc < 2 ? ExitBadUse : ExitDone;
  }
  StringRef First = Argv[1];
  const Command *Chosen = llvm::find_if(
      Commands, [&](const Command &C) { return C.Name == First; });
  if (Chosen == std::end(Commands) && !First.starts_with("-"))
    return unknownCommand(First);

  // Before LLVM's own --help, which is a page of another look, and its own
  // complaints.
  if (cl::SubCommand *Sub =
          Chosen == std::end(Commands) ? nullptr : findSubCommand(First)) {
    ArrayRef<const char *> Rest(Argv + 2, Argv + Argc);
    for (StringRef Word : Rest) {
      if (Word == "--")
        break;
      if (Word == "--help" || Word == "-h" || Word == "-help") {
        printCommandHelp(*Sub);
        return ExitDone;
      }
    }
    if (Error E = checkWords(*Sub, Rest))
      return report(std::move(E));
  }

  std::string Problem;
  raw_string_ostream OS(Problem);
  if (!cl::ParseCommandLineOptions(Argc, Argv, "", &OS)) {
    // LLVM prefixes every line with the program's path; ours is "error:".
    StringRef Text = StringRef(Problem).trim();
    if (Error E = takeBadValue())
      return report(std::move(E));
    if (Text.empty()) // LLVM has said it on stderr itself
      return ExitBadUse;
    size_t Colon = Text.find(": ");
    if (Colon != StringRef::npos)
      Text = Text.substr(Colon + 2);
    return report(failure(Text.split('\n').first,
                          "'culprit help " + First + "' lists the options"));
  }
  if (Chosen == std::end(Commands))
    return report(failure("no command given", "try 'culprit help'"));
  int Exit = Chosen->Run();
  outs().flush();
  if (outs().has_error()) {
    std::string Reason = outs().error().message();
    outs().clear_error();
    return report(failure("the report could not be written: " + Reason,
                          "check where standard output goes"));
  }
  return Exit;
}
