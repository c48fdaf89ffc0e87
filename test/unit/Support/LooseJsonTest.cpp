//===- LooseJsonTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/LooseJson.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;
using namespace llvm;

/// The tokens of \p Text in one line.
static std::string tokensOf(StringRef Text) {
  LooseJson In(Text);
  std::string Out;
  raw_string_ostream OS(Out);
  for (;;) {
    switch (In.next()) {
    case LooseJson::Token::Object:
      OS << '{';
      break;
    case LooseJson::Token::EndObject:
      OS << '}';
      break;
    case LooseJson::Token::Array:
      OS << '[';
      break;
    case LooseJson::Token::EndArray:
      OS << ']';
      break;
    case LooseJson::Token::Key:
      OS << In.text() << ':';
      break;
    case LooseJson::Token::Null:
      OS << "null ";
      break;
    case LooseJson::Token::Bool:
      OS << (In.boolean() ? "T " : "F ");
      break;
    case LooseJson::Token::Number:
      OS << In.number() << ' ';
      break;
    case LooseJson::Token::String:
      OS << '"' << In.text() << "\" ";
      break;
    case LooseJson::Token::End:
      return Out;
    case LooseJson::Token::Error:
      return Out + "ERROR " + In.error();
    }
  }
}

TEST(LooseJson, ReadsJson) {
  EXPECT_EQ(tokensOf(R"({"a": [1, -2.5], "b": {"c": null, "d": true}})"),
            "{a:[1.000000e+00 -2.500000e+00 ]b:{c:null d:T }}");
  EXPECT_EQ(tokensOf(R"("a\"\u0041\n")"), "\"a\"A\n\" ");
}

TEST(LooseJson, ReadsWhatPythonWrites) {
  EXPECT_EQ(tokensOf("{'loss': nan, 'ok': True, 'n': None, 3: (1, 2,),}"),
            "{loss:nan ok:T n:null 3:[1.000000e+00 2.000000e+00 ]}");
  EXPECT_EQ(tokensOf("[NaN, Infinity, -Infinity, inf]"), "[nan INF -INF INF ]");
  EXPECT_EQ(
      tokensOf("{'a': np.float64(2.5), 'b': tensor(1., device='cuda:0')}"),
      "{a:2.500000e+00 b:1.000000e+00 }");
}

TEST(LooseJson, SaysWhatIsBroken) {
  EXPECT_EQ(tokensOf("{\"a\": 1"),
            "{a:1.000000e+00 ERROR the text ends inside a value");
  EXPECT_EQ(tokensOf("{\"a"), "{ERROR a string without an end");
  EXPECT_EQ(tokensOf("{\"a\" 1}"), "{a:ERROR a colon is missing after a key");
  EXPECT_EQ(tokensOf("[1 2]"), "[1.000000e+00 ERROR a comma is missing");
  EXPECT_EQ(tokensOf("[1}"),
            "[1.000000e+00 ERROR a bracket closes what was not opened");
  EXPECT_EQ(tokensOf("[oops]"), "[ERROR neither a value nor a quoted string");
  EXPECT_EQ(tokensOf(""), "ERROR the text ends inside a value");
  EXPECT_TRUE(StringRef(tokensOf(std::string(100000, '[')))
                  .ends_with("nested too deeply"));
}

TEST(LooseJson, SkipsAndTellsWhereItStands) {
  LooseJson In("{\"a\": [1, {\"b\": 2}], \"c\": 3} rest");
  In.next();
  In.next();
  ASSERT_EQ(In.next(), LooseJson::Token::Array);
  EXPECT_TRUE(In.skip(LooseJson::Token::Array));
  ASSERT_EQ(In.next(), LooseJson::Token::Key);
  EXPECT_EQ(In.text(), "c");
  EXPECT_EQ(In.offset(), 21u);
  In.next();
  EXPECT_EQ(In.next(), LooseJson::Token::EndObject);
  EXPECT_EQ(In.next(), LooseJson::Token::End);
  EXPECT_EQ(In.end(), 28u);
}

TEST(LooseJson, ParsesNumbers) {
  EXPECT_EQ(parseNumber(" 1e-4 "), 1e-4);
  EXPECT_EQ(parseNumber("+.5"), 0.5);
  EXPECT_EQ(parseNumber("1,234,567.5"), 1234567.5);
  EXPECT_EQ(parseNumber("1_000"), 1000);
  EXPECT_TRUE(std::isnan(*parseNumber("NaN")));
  EXPECT_EQ(parseNumber("-Infinity"), -INFINITY);
  EXPECT_EQ(parseNumber("1e999"), INFINITY);
  EXPECT_EQ(parseNumber("1e-999"), 0);
  for (StringRef Bad : {"", "-", "1,23", "12,34,567", "1.2.3", "0x10", "abc",
                        "1e", "nano", "1 2"})
    EXPECT_FALSE(parseNumber(Bad)) << Bad.str();
}
