//===- Help.cpp - culprit help ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Options.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

static cl::SubCommand HelpCommand("help", "Explain a command or a topic");
static cl::opt<std::string> Topic(cl::Positional, cl::sub(HelpCommand),
                                  cl::desc("[COMMAND|TOPIC]"));
static cl::SubCommand VersionCommand("version", "Print the version");

namespace {

struct TopicText {
  StringRef Name, Summary, Text;
};

constexpr TopicText Topics[] = {
    {"exit-codes", "What the exit status means",
     "0    the analysis is complete, whatever it found: culprit is run after\n"
     "     something failed, and a finding is a success\n"
     "1    only with --fail-on: a hypothesis reached that probability;\n"
     "     'compare' found a difference; 'check' or 'kb check' an error; a check\n"
     "     of 'golden verify' failed; a case of 'test' did; 'verify' found a\n"
     "     broken promise; 'attach' could not record; or 'doctor' says that\n"
     "     nothing can, which need no option. 'record' has the status of its\n"
     "     command\n"
     "2    wrong usage, or an input that cannot be read at all\n"
     "130  interrupted\n"},
    {"config", "Settings of a project: .culprit.yaml",
     "A project keeps its settings in .culprit.yaml and its own detectors in\n"
     ".culprit/plugins. The nearest folder upward that has one of them counts,\n"
     "your home folder being the last that is looked at.\n"
     "\n"
     "    plugins: [tools/checks]      # more folders of detectors\n"
     "    kb: [ISSUES.md]              # your own issues logs\n"
     "    options:\n"
     "      gpu/idle.min_idle: 0.2     # as --option gpu/idle.min_idle=0.2\n"
     "      training/loss-spike:       # or several of one detector\n"
     "        sigmas: 10\n"
     "\n"
     "Paths are taken from the folder of the file. The command line wins over\n"
     "it. 'culprit explain ID' shows which value an option has and which line\n"
     "gave it. Of two detectors of one id the later counts: shipped,\n"
     ".culprit/plugins, 'plugins:', --plugins.\n"
     "\n"
     ".culprit/symptoms.md names symptoms of your own, a line each as in\n"
     "kb/symptoms.md: - `id`: what was observed\n"
     "\n"
     "--config FILE   take the settings and .culprit/ beside FILE\n"
     "--config none   neither settings nor detectors of a project\n"},
    {"checks", "What 'culprit check' looks for",
     "errors, with which the exit status is 1:\n"
     "syntax             what Lua itself refuses\n"
     "declaration        what keeps the detector from loading\n"
     "unknown-name       a global, a member of a library or module, that is not\n"
     "unknown-verb       :verb() that no table, row, column or text has\n"
     "unknown-table      case.NAME that is no table\n"
     "unknown-column     a column that the table does not have, where it shows\n"
     "                   which table it is\n"
     "undeclared-option  read and not declared\n"
     "undeclared-symptom reported and not declared\n"
     "test-form          a test that cannot be read\n"
     "warnings:\n"
     "doc-heading        a heading of the doc comment is missing or empty\n"
     "doc-hint           a text is still the hint of 'culprit new'\n"
     "unused-option      declared and never read\n"
     "unused-symptom     declared and never reported\n"
     "no-test            no cases\n"
     "positive-case      no case that expects a report\n"
     "negative-case      no case that expects silence\n"
     "notes:\n"
     "undeclared-need    a table is read and not among 'needs'\n"
     "unused-need        a column is needed and never named again\n"
     "long-line          more than 120 columns\n"
     "left-log           log(...) is left in\n"},
    {"environment", "Environment variables",
     "NO_COLOR         set to anything: no colour\n"
     "CLICOLOR         0: no colour\n"
     "CLICOLOR_FORCE   set and not 0: colour even into a pipe\n"
     "COLUMNS          width of the text report (60 to 140, 100 by default)\n"
     "CULPRIT_AGENT    the agent's library, in place of ../lib/culprit beside the\n"
     "                 program\n"
     "CULPRIT_HOME     folder that holds 'kb' and 'plugins', in place of\n"
     "                 ../share/culprit beside the program\n"},
    {"functions", "What 'culprit sql' adds to SQL",
     "ms(ns), us(ns)              a duration in milliseconds, microseconds\n"
     "overlap_ns(a0, a1, b0, b1)  how long two spans overlap\n"
     "share(part, whole)          part / whole; NULL when whole is 0\n"
     "median(x), quantile(x, q)   aggregates\n"
     "Columns that * leaves out: rowid (the number reports cite), path (file),\n"
     "and x_kind of a REAL column x: finite, nan, inf or -inf. NaN is NULL.\n"
     "docs/sql.md has an example of each.\n"},
    {"inputs", "What culprit reads",
     "Files are recognised by content. Give files or folders; folders are\n"
     "walked. 'culprit list formats' names the formats, 'culprit inspect PATH'\n"
     "says what was found in each file, and docs/tables.md what becomes of it.\n"
     "No input is ever written to.\n"},
};

} // namespace

static void printOverview() {
  outs() << "culprit says why a model run broke, from the files it left.\n\n"
            "usage: culprit COMMAND [OPTIONS] [ARGUMENTS]\n\ncommands:\n";
#define COMMAND(NAME, FUNCTION, SUMMARY)                                       \
  outs() << formatv("  {0,-10} {1}\n", NAME, SUMMARY);
#include "Commands.def"
  outs() << "\ntopics:\n";
  for (const TopicText &T : Topics)
    outs() << formatv("  {0,-12} {1}\n", T.Name, T.Summary);
  outs() << "\n'culprit help COMMAND' lists the options of a command.\n"
            "start with: culprit diagnose PATH...\n";
}

void printCommandHelp(cl::SubCommand &Sub) {
  outs() << "culprit " << Sub.getName() << ": " << Sub.getDescription() << "\n\n"
         << "usage: culprit " << Sub.getName() << " [OPTIONS]";
  for (cl::Option *O : Sub.PositionalOpts)
    outs() << ' ' << O->HelpStr;
  outs() << '\n';
  std::vector<std::pair<std::string, std::string>> Rows;
  for (const auto &Item : Sub.OptionsMap) {
    const cl::Option *O = Item.second;
    StringRef Name = Item.first();
    if (O->getOptionHiddenFlag() != cl::NotHidden || Name.empty() ||
        Name == "help" || Name == "version")
      continue;
    std::string Left = (Name.size() == 1 ? "-" : "--") + Name.str();
    if (!O->ValueStr.empty())
      Left += (Name.size() == 1 ? " " : "=") + O->ValueStr.str();
    Rows.push_back({std::move(Left), O->HelpStr.str()});
  }
  llvm::sort(Rows); // by name
  if (!Rows.empty())
    outs() << "\noptions:\n";
  for (auto &[Left, Right] : Rows)
    outs() << formatv("  {0,-26} {1}\n", Left, Right);
}

int runHelp() {
  if (Topic.empty()) {
    printOverview();
    return ExitDone;
  }
  for (const TopicText &T : Topics)
    if (T.Name == Topic) {
      outs() << T.Text;
      return ExitDone;
    }
  std::vector<std::string> Names;
  for (cl::SubCommand *Sub : cl::getRegisteredSubcommands()) {
    if (Sub->getName() == Topic && !Topic.empty()) {
      printCommandHelp(*Sub);
      return ExitDone;
    }
    if (!Sub->getName().empty())
      Names.push_back(Sub->getName().str());
  }
  for (const TopicText &T : Topics)
    Names.push_back(T.Name.str());
  std::string Close = closestName(Topic, Names);
  return report(failure("no help on '" + Topic + "'",
                        Close.empty() ? "'culprit help' lists what there is"
                                      : "did you mean '" + Close + "'?"));
}

} // namespace culprit
