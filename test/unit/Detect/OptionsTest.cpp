//===- OptionsTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Options.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

DetectorInfo sample() {
  DetectorInfo I;
  I.Id = "gpu/idle";
  I.Options = {{"deep", Scalar(false), "d"},
               {"least", Scalar(0.1), "l"},
               {"many", Scalar(int64_t(32)), "m"},
               {"of", Scalar(std::string("kernel")), "o"}};
  return I;
}

/// "value (origin)" of each option, or what is wrong.
std::string chosen(std::vector<OptionSetting> Settings) {
  auto Choices = chooseOptions(sample(), Settings);
  if (!Choices)
    return toString(Choices.takeError());
  std::string Out;
  for (const OptionChoice &C : *Choices)
    Out += toString(C.Value) + " (" + C.Origin + ") ";
  return Out;
}

TEST(Options, TheLaterSettingWinsAndIsNamed) {
  EXPECT_EQ(chosen({}),
            "false (default) 0.1 (default) 32 (default) kernel (default) ");
  EXPECT_EQ(chosen({{"gpu/idle", "least", "0.2", "a.yaml:2"},
                    {"gpu/idle", "many", "3", "a.yaml:3"},
                    {"gpu/other", "many", "x", "a.yaml:4"},
                    {"gpu/idle", "least", "1", ""}}),
            "false (default) 1 (--option) 3 (a.yaml:3) kernel (default) ");
}

TEST(Options, MistakesNameTheirOrigin) {
  EXPECT_EQ(chosen({{"gpu/idle", "leest", "1", "a.yaml:2"}}),
            "a.yaml:2: unknown option 'leest' of 'gpu/idle'");
  EXPECT_EQ(chosen({{"gpu/idle", "many", "0.5", ""}}),
            "option 'gpu/idle.many' wants a whole number, not '0.5'");
  EXPECT_EQ(chosen({{"gpu/idle", "deep", "yes", "a.yaml:3"}}),
            "a.yaml:3: option 'gpu/idle.deep' wants true or false, not 'yes'");
}

TEST(Options, TextsOfTheCommandLine) {
  auto S = parseOptionSetting("my/v1.5.of=a=b.c");
  ASSERT_TRUE(!!S);
  EXPECT_EQ(S->Detector, "my/v1.5");
  EXPECT_EQ(S->Name, "of");
  EXPECT_EQ(S->Value, "a=b.c");
  EXPECT_EQ(S->text(), "my/v1.5.of=a=b.c");
  for (const char *Bad : {"", "gpu/idle.least", "least=1", "=", ".=1", "a.=1"})
    EXPECT_TRUE(static_cast<bool>(llvm::errorToBool(
        parseOptionSetting(Bad).takeError())))
        << Bad;
}

} // namespace
