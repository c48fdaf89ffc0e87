//===- CommandTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Command.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

CommandResult run(std::vector<std::string> Command) {
  return llvm::cantFail(runCommand(Command));
}

// A shell ends with 126 and 127 for what it could not run, 125 is git's skip.
TEST(CommandTest, EveryStatusIsPassedOn) {
  for (int Status : {0, 1, 125, 126, 127, 128, 255}) {
    const CommandResult R = run({"sh", "-c", "exit " + std::to_string(Status)});
    EXPECT_EQ(R.Kind, CommandResult::End::Exited) << Status;
    EXPECT_EQ(R.Status, Status);
  }
}

// Nothing of a word is taken for syntax of a shell.
TEST(CommandTest, WordsStayWords) {
  EXPECT_EQ(run({"test", "a b;$(c)*", "=", "a b;$(c)*"}).Status, 0);
  EXPECT_EQ(run({"sh", "-c", "test $# = 2", "sh", "a b", ""}).Status, 0);
}

TEST(CommandTest, Ends) {
  EXPECT_EQ(run({"no-such-program-here"}).Kind, CommandResult::End::NotFound);
  EXPECT_EQ(run({"./no-such-file"}).Kind, CommandResult::End::NotFound);
  EXPECT_EQ(run({"sh", "-c", "kill -SEGV $$"}).Kind,
            CommandResult::End::Crashed);
  EXPECT_EQ(run({"sh", "-c", "kill -TERM $$"}).Kind,
            CommandResult::End::Interrupted);
}

} // namespace
