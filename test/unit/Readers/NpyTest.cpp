//===- NpyTest.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Npy.h"
#include "TensorFileTest.h"

using namespace llvm;
using namespace culprit;

namespace {

class NpyTest : public TensorFileTest {
protected:
  static std::string file(StringRef Header, StringRef Data,
                          unsigned Version = 1) {
    std::string Out = "\x93NUMPY";
    Out += char(Version);
    Out += '\0';
    Out += Version == 1 ? raw(uint16_t(Header.size()))
                        : raw(uint32_t(Header.size()));
    return Out + Header.str() + Data.str();
  }
  static std::string header(StringRef Descr, StringRef Shape,
                            StringRef Fortran = "False") {
    return ("{'descr': " + Descr + ", 'fortran_order': " + Fortran +
            ", 'shape': " + Shape + ", }        \n")
        .str();
  }
  bool read(StringRef Header, StringRef Data, unsigned Version = 1) {
    return TensorFileTest::read(NpyReader(), file(Header, Data, Version),
                                "000311_fc.output.npy");
  }
  /// The message of the failure, without its hint.
  std::string why() { return StringRef(Failed).rsplit(" [").first.str(); }
};

const std::string SixFloats =
    raw(1.f) + raw(2.f) + raw(3.f) + raw(4.f) + raw(5.f) + raw(6.f);

TEST_F(NpyTest, RowMajor) {
  for (unsigned Version : {1, 2, 3}) {
    ASSERT_TRUE(read(header("'<f4'", "(2, 3)"), SixFloats, Version));
    EXPECT_EQ(Failed, "");
    ASSERT_EQ(count(), 1u);
    EXPECT_EQ(tensor(0), "fc.output float32 [2,3] 1 2 3 4 5 6");
    EXPECT_EQ(S->tensors()[0].Step, 311);
    EXPECT_EQ(S->tensors()[0].Layer, "fc");
    EXPECT_TRUE(S->owners().empty()) << "no copy";
  }
}

TEST_F(NpyTest, ColumnMajorIsRearranged) {
  // The same bytes are columns: [[1, 3, 5], [2, 4, 6]].
  ASSERT_TRUE(read(header("'<f4'", "(2, 3)", "True"), SixFloats));
  EXPECT_EQ(tensor(0), "fc.output float32 [2,3] 1 3 5 2 4 6");
  ASSERT_TRUE(read(header("'<f4'", "(6,)", "True"), SixFloats));
  EXPECT_EQ(tensor(0), "fc.output float32 [6] 1 2 3 4 5 6");
  EXPECT_TRUE(S->owners().empty()) << "one dimension has one order";
  std::string Bytes;
  for (char C = 0; C != 8; ++C)
    Bytes += C;
  ASSERT_TRUE(read(header("'|u1'", "(2, 2, 2)", "True"), Bytes));
  EXPECT_EQ(tensor(0), "fc.output uint8 [2,2,2] 0 4 2 6 1 5 3 7");
}

TEST_F(NpyTest, BigEndianIsSwapped) {
  ASSERT_TRUE(read(header("'>i2'", "(2,)"), StringRef("\x01\x02\xff\xfe", 4)));
  EXPECT_EQ(tensor(0), "fc.output int16 [2] 258 -2");
  ASSERT_TRUE(
      read(header("'>f8'", "()"), StringRef("\xbf\xf8\0\0\0\0\0\0", 8)));
  EXPECT_EQ(tensor(0), "fc.output float64 [] -1.5");
  ASSERT_TRUE(read(header("'>i4'", "(1, 2)", "True"),
                   StringRef("\0\0\0\x01\0\0\0\x02", 8)));
  EXPECT_EQ(tensor(0), "fc.output int32 [1,2] 1 2");
}

TEST_F(NpyTest, NarrowTypes) {
  ASSERT_TRUE(read(header("'<f2'", "(1,)"), raw(uint16_t(0x7bff))));
  EXPECT_EQ(tensor(0), "fc.output float16 [1] 65504");
  ASSERT_TRUE(read(header("'|V2'", "(1,)"), raw(uint16_t(0x3fc0))));
  EXPECT_EQ(tensor(0), "fc.output bfloat16 [1] 1.5");
  ASSERT_TRUE(read(header("'<V2'", "(1,)"), raw(uint16_t(0x3fc0))));
  EXPECT_EQ(tensor(0), "fc.output bfloat16 [1] 1.5");
  ASSERT_TRUE(read(header("'|b1'", "(2,)"), StringRef("\1\0", 2)));
  EXPECT_EQ(tensor(0), "fc.output bool [2] 1 0");
}

TEST_F(NpyTest, EmptyArray) {
  ASSERT_TRUE(read(header("'<f4'", "(0, 9223372036854775807, 4)"), ""));
  EXPECT_EQ(Failed, "");
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(S->tensors()[0].Data.numel(), 0);
}

TEST_F(NpyTest, PythonTwoAndOtherSpelling) {
  ASSERT_TRUE(read(R"({"shape":(2L,3L),"fortran_order":False,"descr":"<f4"})",
                   SixFloats));
  EXPECT_EQ(tensor(0), "fc.output float32 [2,3] 1 2 3 4 5 6");
}

TEST_F(NpyTest, RefusedTypes) {
  ASSERT_TRUE(read(header("'|O'", "(1,)"), "pickle.."));
  EXPECT_EQ(why(), "F: the array holds Python objects, which are pickled and "
                   "not read");
  ASSERT_TRUE(
      read(header("[('x', '<f4'), ('y', '<i4', (2, 2))]", "(1,)"), SixFloats));
  EXPECT_EQ(why(), "F: the array has the structured dtype [('x', '<f4'), "
                   "('y', '<i4', (2, 2))]");
  ASSERT_TRUE(read(header("'<c8'", "(1,)"), SixFloats));
  EXPECT_EQ(why(), "F: the array holds complex numbers (dtype '<c8')");
  ASSERT_TRUE(read(header("'<U5'", "(1,)"), SixFloats));
  EXPECT_EQ(why(), "F: the array holds text (dtype '<U5')");
  ASSERT_TRUE(read(header("'|V1'", "(1,)"), "x"));
  EXPECT_EQ(why(), "F: the dtype '|V1' is some 8-bit float, but the file does "
                   "not say which");
  ASSERT_TRUE(read(header("'<f16'", "(1,)"), SixFloats));
  EXPECT_EQ(why(), "F: the dtype '<f16' is not known");
}

TEST_F(NpyTest, Truncated) {
  ASSERT_TRUE(read(header("'<f4'", "(2, 4)"), SixFloats));
  EXPECT_EQ(why(),
            "F: the array needs 32 bytes, but only 24 follow its header");
  ASSERT_TRUE(TensorFileTest::read(NpyReader(), "\x93NUMPY\x01"));
  EXPECT_EQ(why(), "F: ends before the array's header");
  ASSERT_TRUE(TensorFileTest::read(
      NpyReader(), StringRef("\x93NUMPY\x01\0\xff\xff{'descr'", 18)));
  EXPECT_EQ(why(), "F: the array's header should be 65535 bytes long, but only "
                   "8 follow");
}

TEST_F(NpyTest, DamagedHeader) {
  for (StringRef Header :
       {"", "{", "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': 1, "
        "'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1"}) {
    ASSERT_TRUE(read(Header, SixFloats));
    EXPECT_EQ(why(), "F: the array's header is not the dictionary that "
                     "numpy.save writes")
        << Header.str();
  }
  ASSERT_TRUE(read(header("'<f4'", "(4294967296, 4294967296)"), SixFloats));
  EXPECT_EQ(why(), "F: the array's shape has more elements than any file can "
                   "hold");
  ASSERT_TRUE(read(header("'<f4'", "(1,)"), SixFloats, 9));
  EXPECT_EQ(why(), "F: has version 9 of the .npy format; versions 1 to 3 are "
                   "known");
  std::string Ones = "(";
  for (int I = 0; I != 65; ++I)
    Ones += "1, ";
  ASSERT_TRUE(read(header("'<f4'", Ones + ")"), SixFloats));
  EXPECT_EQ(why(), "F: the array has 65 dimensions; NumPy knows at most 64");
}

TEST_F(NpyTest, BytesAfterTheArray) {
  ASSERT_TRUE(read(header("'<f4'", "(5,)"), SixFloats));
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_TRUE(StringRef(Warnings[0])
                  .starts_with("F: 4 bytes follow the "
                               "array"));
}

TEST_F(NpyTest, DamagedFiles) {
  fuzz(NpyReader(), file(header("'>f4'", "(2, 3)", "True"), SixFloats),
       "x.npy");
}

} // namespace
