//===- DetectorStoreTest.cpp - Detectors, compiled beforehand ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/DetectorStore.h"
#include "Script/LuaDetector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;

namespace {

/// Says its whole self, with signs and numbers that are hard to write down.
constexpr const char *Whole = R"(--- Doc.
local twice = require("twice")
return {
  api = 1,
  summary = "\"quoted\" \\ and\nbroken, \0011 ü",
  needs = {
    scalars = { "step", "value", metric = { "loss", "a\"b" } },
    any = { tensors = { "data", "name" }, config = { "key" } },
  },
  symptoms = { "here", "there" },
  relies = { "launches" },
  options = {
    flag = { default = true, doc = "a flag" },
    huge = { default = math.huge, doc = "without bound" },
    least = { default = -9223372036854775807 - 1,
              doc = "of whole numbers" },
    small = { default = 0.1 + 0.2, doc = "a third, nearly" },
    whole = { default = -3, doc = "three" },
    word = { default = "x]]y", doc = "a word" },
  },
  run = function(case)
    log(twice.of(21))
    error("here")
  end,
}
)";

class DetectorStoreTest : public testing::Test {
protected:
  DetectorStoreTest() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("store", Folder));
    write("lib/twice.lua",
          "return { of = function(x) return 2 * x end }");
    write("g/whole.lua", Whole);
    write("g/broken.lua", "local t = { api = 1 }\nt.self = t\nreturn t");
  }
  ~DetectorStoreTest() override {
    llvm::sys::fs::remove_directories(Folder);
  }

  std::string path(llvm::StringRef Name) {
    return (Folder + "/" + Name).str();
  }
  void write(llvm::StringRef Name, llvm::StringRef Text) {
    std::string To = path(Name);
    (void)llvm::sys::fs::create_directories(llvm::sys::path::parent_path(To));
    std::error_code EC;
    llvm::raw_fd_ostream Out(To, EC);
    ASSERT_FALSE(EC);
    Out << Text;
  }
  std::string made() {
    return llvm::cantFail(makeDetectorStore(Folder, LoadSettings()));
  }
  DetectorSet load(llvm::StringRef Store = "") {
    DetectorSet Out;
    LoadSettings Settings;
    if (!Store.empty())
      Settings.Store = path(Store);
    llvm::cantFail(loadDetectors(Folder, Settings, Out));
    return Out;
  }
  /// Whether a store of \p Bytes counts for what is in the folder.
  bool counts(llvm::StringRef Bytes) {
    write("s", Bytes);
    ModuleSet Modules;
    llvm::cantFail(Modules.addFolder(path("lib")));
    std::vector<DetectorText> Texts;
    for (const char *Name : {"broken", "whole"}) {
      std::string File = path(std::string("g/") + Name + ".lua");
      auto Text = llvm::MemoryBuffer::getFile(File);
      Texts.push_back(
          {std::string("g/") + Name, File, (*Text)->getBuffer().str()});
    }
    return DetectorStore::open(path("s"), Texts, Modules).has_value();
  }

  llvm::SmallString<128> Folder;
};

TEST_F(DetectorStoreTest, WhatIsStoredIsWhatIsDeclared) {
  write("s", made());
  ASSERT_TRUE(counts(made()));
  DetectorSet Fresh = load(), Stored = load("s");
  ASSERT_EQ(Stored.all().size(), 1u);
  const DetectorInfo &A = Fresh.all()[0]->info(), &B = Stored.all()[0]->info();
  EXPECT_EQ(B.Id, "g/whole");
  EXPECT_EQ(B.File, path("g/whole.lua"));
  EXPECT_EQ(B.Summary, "\"quoted\" \\ and\nbroken, \x01" "1 ü");
  EXPECT_EQ(B.Symptoms, A.Symptoms);
  EXPECT_EQ(B.Relies, A.Relies);
  ASSERT_EQ(B.Options.size(), 6u);
  for (unsigned O = 0; O != 6; ++O) {
    EXPECT_EQ(B.Options[O].Name, A.Options[O].Name);
    EXPECT_EQ(B.Options[O].Default, A.Options[O].Default);
    EXPECT_EQ(B.Options[O].Doc, A.Options[O].Doc);
  }
  EXPECT_EQ(B.Options[1].Default, Scalar(double(INFINITY)));
  EXPECT_EQ(B.Options[2].Default, Scalar(INT64_MIN));
  EXPECT_EQ(B.Options[3].Default, Scalar(0.1 + 0.2));
  ASSERT_EQ(B.Needs.All.size(), 1u);
  EXPECT_EQ(B.Needs.All[0].Columns, A.Needs.All[0].Columns);
  ASSERT_EQ(B.Needs.All[0].Rows.size(), 1u);
  EXPECT_EQ(B.Needs.All[0].Rows[0].AnyOf,
            (std::vector<Scalar>{std::string("loss"), std::string("a\"b")}));
  ASSERT_EQ(B.Needs.AnyOf.size(), 1u);
  EXPECT_EQ(B.Needs.AnyOf[0].size(), 2u);
  // A mistake is named as without a store.
  ASSERT_EQ(Stored.broken().size(), 1u);
  EXPECT_EQ(Stored.broken()[0].Error.Message,
            Fresh.broken()[0].Error.Message);
}

TEST_F(DetectorStoreTest, RunsAndFailsAtTheSameLine) {
  write("s", made());
  for (const char *Store : {"", "s"}) {
    DetectorSet Set = load(Store);
    CaseBuilder Builder;
    Case C = Builder.build();
    Outcome Out;
    const Detector &D = *Set.all()[0];
    std::vector<Scalar> Options;
    for (const OptionSpec &O : D.info().Options)
      Options.push_back(O.Default);
    D.run(C, Options, Limits(), Out);
    EXPECT_EQ(Out.Log, std::vector<std::string>{"42"});
    ASSERT_TRUE(Out.Error);
    EXPECT_EQ(Out.Error->Message, "here");
    EXPECT_EQ(Out.Error->File, path("g/whole.lua"));
    EXPECT_EQ(Out.Error->Line, 23u);
  }
}

TEST_F(DetectorStoreTest, CountsForTheTextsItWasMadeOfAlone) {
  std::string Bytes = made();
  EXPECT_EQ(Bytes, made());
  EXPECT_TRUE(counts(Bytes));
  EXPECT_FALSE(counts(""));
  for (size_t At = 0; At < Bytes.size(); At += 97) {
    std::string Spoiled = Bytes;
    Spoiled[At] ^= 1;
    EXPECT_FALSE(counts(Spoiled)) << At;
    EXPECT_FALSE(counts(llvm::StringRef(Bytes).take_front(At))) << At;
  }
  write("lib/twice.lua", "return { of = function(x) return 3 * x end }");
  EXPECT_FALSE(counts(Bytes));
  EXPECT_TRUE(counts(made()));
}

} // namespace
