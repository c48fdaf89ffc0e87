//===- Options.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace culprit {

/// The first complaint; empty for none.
static Diagnostic &firstComplaint() {
  static Diagnostic First;
  return First;
}

bool badValue(const Twine &Message, const Twine &Hint) {
  Diagnostic &First = firstComplaint();
  if (First.Message.empty())
    First = {Severity::Error, Message.str(), Hint.str()};
  return true;
}

Error takeBadValue() {
  Diagnostic First = std::exchange(firstComplaint(), {});
  if (First.Message.empty())
    return Error::success();
  return failure(First.Message, First.Hint);
}

cl::SubCommand *findSubCommand(StringRef Name) {
  for (cl::SubCommand *Sub : cl::getRegisteredSubcommands())
    if (!Name.empty() && Sub->getName() == Name)
      return Sub;
  return nullptr;
}

Error checkWords(cl::SubCommand &Sub, ArrayRef<const char *> Argv) {
  StringSet<> Given;
  for (size_t I = 0; I != Argv.size(); ++I) {
    StringRef Word = Argv[I];
    if (Word == "--")
      break;
    if (!Word.starts_with("-") || Word == "-")
      continue;
    auto [Name, Value] = Word.ltrim('-').split('=');
    auto It = Sub.OptionsMap.find(Name);
    if (It == Sub.OptionsMap.end())
      continue; // LLVM names unknown options well
    const cl::Option &O = *It->second;
    bool Once = O.getNumOccurrencesFlag() == cl::Optional;
    if (!Given.insert(Name).second && Once)
      return failure("--" + Name + " is given twice", "give it once");
    if (O.getValueExpectedFlag() != cl::ValueRequired || Word.contains('='))
      continue;
    if (I + 1 == Argv.size())
      return failure("--" + Name + " wants a value: --" + Name + "=" +
                     (O.ValueStr.empty() ? StringRef("VALUE") : O.ValueStr));
    ++I; // the value
  }
  return Error::success();
}

Error checkPaths(StringRef Command, ArrayRef<std::string> Paths) {
  if (!is_contained(Paths, "-") || sys::fs::exists("-"))
    return Error::success();
  return failure(Command + ": standard input is not read",
                 "write it to a file first, then give the file: ... > run.log; "
                 "culprit " +
                     Command + " run.log");
}

bool CountParser::parse(cl::Option &O, StringRef, StringRef Value,
                        unsigned &Out) {
  if (!Value.getAsInteger(10, Out) && Out > 0)
    return false;
  return badValue("--" + O.ArgStr + ": '" + Value +
                      "' is not a whole number from 1 on",
                  "for example --" + O.ArgStr + "=2");
}

bool ProbabilityParser::parse(cl::Option &O, StringRef, StringRef Value,
                              double &Out) {
  if (!Value.getAsDouble(Out) && Out > 0 && Out <= 1)
    return false;
  return badValue("--" + O.ArgStr + ": '" + Value +
                      "' is not a probability above 0 and up to 1",
                  "for example --" + O.ArgStr + "=0.5");
}

bool SecondsParser::parse(cl::Option &O, StringRef, StringRef Value,
                          double &Out) {
  if (!Value.getAsDouble(Out) && Out > 0 && Out <= 1e6)
    return false;
  return badValue("--" + O.ArgStr + ": '" + Value +
                      "' is not a number of seconds above 0",
                  "for example --" + O.ArgStr + "=10");
}

} // namespace culprit
