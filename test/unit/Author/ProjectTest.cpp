//===- ProjectTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Project.h"
#include "Author/Scaffold.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace culprit;
using llvm::StringRef;

namespace {

/// The options in \p Text as "text@origin", or what is wrong with it.
std::string options(StringRef Text) {
  Project P;
  if (llvm::Error E = readSettings("p/.culprit.yaml", Text, P))
    return toString(std::move(E));
  std::string Out;
  for (const OptionSetting &S : P.Options)
    Out += S.text() + "@" + S.Origin + " ";
  return Out;
}

TEST(Settings, OptionsInBothForms) {
  EXPECT_EQ(options("options:\n  gpu/idle.min_idle: 0.2\n  a/b:\n    c: x y\n"
                    "    d: true\n"),
            "gpu/idle.min_idle=0.2@p/.culprit.yaml:2 "
            "a/b.c=x y@p/.culprit.yaml:4 a/b.d=true@p/.culprit.yaml:5 ");
  EXPECT_EQ(options("options: {a/b: {c: 1}, a/b.d: '2'}"),
            "a/b.c=1@p/.culprit.yaml:1 a/b.d=2@p/.culprit.yaml:1 ");
}

TEST(Settings, NothingIsNoMistake) {
  for (StringRef Text : {"", "\n", "# only a comment\n", "---\n",
                         "options:\nplugins:\nkb:\n", "{}"})
    EXPECT_EQ(options(Text), "") << Text.str();
}

TEST(Settings, MistakesHaveTheirLine) {
  EXPECT_EQ(options("\n- a\n"),
            "p/.culprit.yaml:2: the settings are no map of names to values");
  EXPECT_EQ(options("options: 3"),
            "p/.culprit.yaml:1: 'options' wants a map, not '3'");
  EXPECT_EQ(options("options:\n  gpu: 3"),
            "p/.culprit.yaml:2: 'gpu' names no option of a detector");
  EXPECT_EQ(options("options:\n  a/b.c: [1]"),
            "p/.culprit.yaml:2: option 'a/b.c' wants one value, not a list");
  EXPECT_EQ(options("options:\n  a/b.c:\n"),
            "p/.culprit.yaml:2: option 'a/b.c' wants one value, not nothing");
  EXPECT_EQ(options("options: {}\noptions: {}"),
            "p/.culprit.yaml:2: 'options' is given twice");
  EXPECT_EQ(options("plugins: [[a]]"),
            "p/.culprit.yaml:1: 'plugins' wants paths, not a list");
}

TEST(Scaffold, NamesOfDetectors) {
  auto Wrong = [](StringRef Id) {
    return toString(checkDetectorId(Id));
  };
  for (StringRef Id : {"my/idle", "a/b", "team_1/gpu-2", "idle/idles"})
    EXPECT_EQ(Wrong(Id), "") << Id.str();
  for (StringRef Id : {"", "/", "idle", "/idle", "my/", "My/idle", "my/1st",
                       "my/idle-", "a/b/c", "lib/a", "meta/a", "gpu/gpu-idle",
                       "gpu/gpu", "my/../up", "my/\xff", "my/a b", "./a"})
    EXPECT_NE(Wrong(Id), "") << Id.str();
}

TEST(Scaffold, EditorSettingsOfTheRepository) {
  std::string Text = editorSettings("plugins/meta", {"plugins/lib"});
  const char *Path = CULPRIT_SOURCE_DIR "/.luarc.json";
  if (getenv("UPDATE")) {
    std::error_code EC;
    llvm::raw_fd_ostream OS(Path, EC);
    OS << Text;
  }
  auto File = llvm::MemoryBuffer::getFile(Path, /*IsText=*/true);
  ASSERT_TRUE(!!File);
  EXPECT_EQ((*File)->getBuffer(), Text) << "run this test with UPDATE=1";
}

} // namespace
