//===- SafeTensorsTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/SafeTensors.h"
#include "TensorFileTest.h"

using namespace llvm;
using namespace culprit;

namespace {

class SafeTensorsTest : public TensorFileTest {
protected:
  static std::string file(StringRef Header, StringRef Data) {
    return (raw(uint64_t(Header.size())) + Header + Data).str();
  }
  bool read(StringRef Header, StringRef Data, StringRef Name = "dump") {
    return TensorFileTest::read(SafeTensorsReader(), file(Header, Data), Name);
  }
};

constexpr StringLiteral TwoTensors(
    R"({"__metadata__":{"order":"[\"b.output\",\"a.output\"]","step":"311",)"
    R"("rank":"3","variant":"cached"},)"
    R"("a.output":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b.output":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]}})");

std::string twoTensorsData() {
  return raw(1.5f) + raw(-2.0f) + raw(uint16_t(0x3c00)) + raw(uint16_t(0x7c00));
}

TEST_F(SafeTensorsTest, TensorsAndMetadata) {
  ASSERT_TRUE(read(TwoTensors, twoTensorsData()));
  EXPECT_EQ(Failed, "");
  EXPECT_TRUE(Warnings.empty());
  ASSERT_EQ(count(), 2u);
  EXPECT_EQ(tensor(0), "a.output float32 [2] 1.5 -2");
  EXPECT_EQ(tensor(1), "b.output float16 [1,2] 1 inf");
  const TensorRecord &A = S->tensors()[0];
  EXPECT_EQ(A.Step, 311);
  EXPECT_EQ(A.Rank, 3);
  EXPECT_EQ(A.Variant, "cached");
  EXPECT_EQ(A.Order, 1);
  EXPECT_EQ(A.Layer, "a");
  EXPECT_EQ(A.Role, "output");
  EXPECT_EQ(S->tensors()[1].Order, 0);
}

TEST_F(SafeTensorsTest, Rows) {
  ASSERT_TRUE(read(TwoTensors, twoTensorsData()));
  TableBuilder *Rows = S->existing(TableId::tensors);
  ASSERT_NE(Rows, nullptr);
  const auto Cell = [&](unsigned Column, size_t Row) {
    return Rows->finished(Column).cell(Row, Pool).text();
  };
  EXPECT_EQ(Rows->rows(), 2u);
  EXPECT_EQ(Cell(tensors::name, 1), "b.output");
  EXPECT_EQ(Cell(tensors::dtype, 1), "float16");
  EXPECT_EQ(Cell(tensors::shape, 1), "[1, 2]");
  EXPECT_EQ(Cell(tensors::inf, 1), "1");
  EXPECT_EQ(Cell(tensors::nonfinite, 1), "1");
  EXPECT_EQ(Cell(tensors::first_nonfinite, 1), "1");
  EXPECT_EQ(Cell(tensors::first_nonfinite, 0), "-");
  EXPECT_EQ(Cell(tensors::min, 0), "-2");
  EXPECT_EQ(Cell(tensors::absmax, 0), "2");
  EXPECT_EQ(Cell(tensors::l2, 0), "2.5");
  EXPECT_EQ(Cell(tensors::place, 1), "2");
}

TEST_F(SafeTensorsTest, OrderOfTheDataWithoutMetadata) {
  ASSERT_TRUE(read(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                   R"("a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})",
                   "\x01\x07", "step12.safetensors"));
  ASSERT_EQ(count(), 2u);
  EXPECT_EQ(tensor(0), "a bool [] 1");
  EXPECT_EQ(tensor(1), "b uint8 [1] 7");
  EXPECT_EQ(S->tensors()[1].Order, 1);
  EXPECT_EQ(S->tensors()[1].Step, 12);
}

TEST_F(SafeTensorsTest, EmptyTensorHasNullStatistics) {
  ASSERT_TRUE(
      read(R"({"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})", ""));
  ASSERT_EQ(count(), 1u);
  TableBuilder *Rows = S->existing(TableId::tensors);
  EXPECT_TRUE(Rows->finished(tensors::mean).isNull(0));
  EXPECT_TRUE(Rows->finished(tensors::zero_share).isNull(0));
}

TEST_F(SafeTensorsTest, TruncatedData) {
  std::string Data = twoTensorsData();
  Data.resize(9);
  ASSERT_TRUE(read(TwoTensors, Data));
  EXPECT_EQ(Failed, "");
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_TRUE(
      StringRef(Warnings[0])
          .contains("1 of 2 tensors lie beyond the end, 'b.output' first"))
      << Warnings[0];
  EXPECT_EQ(count(), 1u);
}

TEST_F(SafeTensorsTest, HeaderBeyondTheFile) {
  ASSERT_TRUE(TensorFileTest::read(SafeTensorsReader(),
                                   raw(uint64_t(500)) + "{\"a\":"));
  EXPECT_TRUE(StringRef(Failed).starts_with(
      "F: the header should be 500 bytes long, but the file ends 5 bytes "
      "after its length [copy the file again"))
      << Failed;
}

TEST_F(SafeTensorsTest, HeaderIsNoJson) {
  ASSERT_TRUE(read("{\"a\": oops}", ""));
  EXPECT_TRUE(
      StringRef(Failed).starts_with("F: the header is not a JSON object: "))
      << Failed;
  ASSERT_TRUE(read(std::string(100000, '{'), ""));
  EXPECT_NE(Failed, "");
}

TEST_F(SafeTensorsTest, WrongEntriesAreSkipped) {
  ASSERT_TRUE(
      read(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
           R"("size":{"dtype":"F32","shape":[2],"data_offsets":[4,8]},)"
           R"("type":{"dtype":"F4","shape":[1],"data_offsets":[4,8]},)"
           R"("negative":{"dtype":"F32","shape":[-1],"data_offsets":[4,8]},)"
           R"("huge":{"dtype":"F32","shape":[4294967296,4294967296],)"
           R"("data_offsets":[4,8]},)"
           R"("overlap":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
           R"("z":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
           R"("list":[]})",
           raw(1.0f) + raw(2.0f) + raw(int32_t(-7))));
  EXPECT_EQ(Failed, "");
  ASSERT_EQ(count(), 2u);
  EXPECT_EQ(tensor(0), "a float32 [1] 1");
  EXPECT_EQ(tensor(1), "z int32 [1] -7");
  ASSERT_EQ(Warnings.size(), 6u);
  EXPECT_EQ(Warnings[0],
            "F: tensor 'size' needs 8 bytes by its shape but has 4 by its "
            "data_offsets [it was skipped; the others were read]");
  EXPECT_TRUE(StringRef(Warnings[1]).contains("the dtype F4"));
  EXPECT_EQ(Warnings[5], "F: 1 more tensors were skipped for such reasons");
}

TEST_F(SafeTensorsTest, OverlapsAreSkipped) {
  ASSERT_TRUE(read(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                   std::string(8, '\0')));
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_TRUE(StringRef(Warnings[0]).contains("'b' shares bytes with 'a'"));
}

TEST_F(SafeTensorsTest, OtherFilesAreNotMatched) {
  for (StringRef Bytes : {"", "{", "{\"a\": 1}", "12345678{\"a\":1}"})
    EXPECT_FALSE(TensorFileTest::read(SafeTensorsReader(), Bytes))
        << Bytes.str();
}

TEST_F(SafeTensorsTest, DamagedFiles) {
  fuzz(SafeTensorsReader(), file(TwoTensors, twoTensorsData()));
}

} // namespace
