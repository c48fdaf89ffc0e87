//===- Options.h - Values of options, checked -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Parsers for option values that say what is wrong in the house form. LLVM's
/// own print a line of their own to stderr, with the program's path; these
/// keep the sentence for main() to print.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_OPTIONS_H
#define CULPRIT_TOOL_OPTIONS_H

#include "Support/Error.h"
#include "llvm/Support/CommandLine.h"

namespace culprit {

/// Keeps \p Message for takeBadValue(). Always true, "error" to LLVM.
bool badValue(const llvm::Twine &Message, const llvm::Twine &Hint);
/// The first bad value of the command line; success if there was none.
llvm::Error takeBadValue();

/// What is wrong with the words of \p Argv that LLVM would complain about in
/// words of its own: an option of \p Sub without its value, or given twice.
llvm::Error checkWords(llvm::cl::SubCommand &Sub,
                       llvm::ArrayRef<const char *> Argv);

/// Refuses "-" among \p Paths, unless a file is so named: profiles and dumps
/// are read at several places at once.
llvm::Error checkPaths(llvm::StringRef Command,
                       llvm::ArrayRef<std::string> Paths);

/// The subcommand \p Name, or null.
llvm::cl::SubCommand *findSubCommand(llvm::StringRef Name);
/// Prints the help page of \p Sub to stdout.
void printCommandHelp(llvm::cl::SubCommand &Sub);

/// One of the words given by cl::values.
template <typename T> class ChoiceParser : public llvm::cl::parser<T> {
public:
  using llvm::cl::parser<T>::parser;

  bool parse(llvm::cl::Option &O, llvm::StringRef, llvm::StringRef Value,
             T &Out) {
    std::string Known;
    for (const auto &V : this->Values) {
      if (V.Name == Value) {
        Out = V.V.getValue();
        return false;
      }
      Known += (Known.empty() ? "" : ", ") + V.Name.str();
    }
    return badValue("--" + O.ArgStr + ": there is no '" + Value + "'",
                    "one of " + Known);
  }
};

/// A whole number, 1 or more.
class CountParser : public llvm::cl::parser<unsigned> {
public:
  using parser::parser;
  bool parse(llvm::cl::Option &O, llvm::StringRef, llvm::StringRef Value,
             unsigned &Out);
};

/// A probability above 0, up to 1. A share in percent is refused: 50 would
/// never be reached.
class ProbabilityParser : public llvm::cl::parser<double> {
public:
  using parser::parser;
  bool parse(llvm::cl::Option &O, llvm::StringRef, llvm::StringRef Value,
             double &Out);
};

/// Seconds, above 0.
class SecondsParser : public llvm::cl::parser<double> {
public:
  using parser::parser;
  bool parse(llvm::cl::Option &O, llvm::StringRef, llvm::StringRef Value,
             double &Out);
};

} // namespace culprit

#endif // CULPRIT_TOOL_OPTIONS_H
