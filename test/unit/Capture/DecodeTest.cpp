//===- DecodeTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include "gtest/gtest.h"
#include <cstring>
#include <string>
#include <vector>

using namespace culprit::capture;

namespace {

struct Asked {
  std::vector<std::string> Texts;
  LaunchShape Shape = {};
};

const Namer namesInto(Asked &A) {
  return {[](void *C, const char *Text) -> uint32_t {
            static_cast<Asked *>(C)->Texts.push_back(Text);
            return 7;
          },
          [](void *, uint32_t Domain, uint32_t Id) -> uint32_t {
            return Domain * 1000 + Id;
          },
          [](void *C, const void *Record, size_t Stride) -> uint32_t {
            decodeShape(Record, Stride, static_cast<Asked *>(C)->Shape);
            return 9;
          },
          &A};
}

template <typename T> void put(uint8_t *To, size_t Offset, T Value) {
  std::memcpy(To + Offset, &Value, sizeof(Value));
}

/// A kernel as CUPTI 13.0 lays it out.
std::vector<uint8_t> someKernel() {
  std::vector<uint8_t> R(216, 0xee);
  put(R.data(), 0, uint32_t(activity::ConcurrentKernel));
  put(R.data(), 6, uint16_t(40));
  put(R.data(), 16, uint64_t(100));
  put(R.data(), 24, uint64_t(250));
  put(R.data(), 52, int32_t(12));
  put(R.data(), 64, int32_t(256));
  put(R.data(), 92, uint32_t(77));
  put(R.data(), 104, static_cast<const char *>("gemm"));
  put(R.data(), 144, uint64_t(5));
  put(R.data(), 156, uint32_t(3));
  put(R.data(), 176, uint32_t(2));
  return R;
}

// A field is read when it ends within the stride, and is 0 beyond.
TEST(DecodeTest, GoesByTheStride) {
  std::vector<uint8_t> R = someKernel();
  for (size_t Stride : {216, 208, 200, 160, 144, 104}) {
    Asked A;
    KernelRecord To;
    ASSERT_EQ(decode(R.data(), Stride, namesInto(A), &To), RecordKind::Kernel);
    EXPECT_EQ(To.start, 100u);
    EXPECT_EQ(To.end, 250u);
    EXPECT_EQ(To.correlation, 77u);
    EXPECT_EQ(To.graph, Stride >= 160 ? 3u : 0u);
    EXPECT_EQ(To.graph_node, Stride >= 152 ? 5u : 0u);
    EXPECT_EQ(To.name, Stride >= 112 ? 7u : 0u);
    EXPECT_EQ(A.Texts.size(), Stride >= 112 ? 1u : 0u);
    EXPECT_EQ(To.shape, 9u);
    EXPECT_EQ(A.Shape.grid_x, 12);
    EXPECT_EQ(A.Shape.block_x, 256);
    EXPECT_EQ(A.Shape.registers, 40);
    EXPECT_EQ(A.Shape.cluster_x, Stride >= 180 ? 2u : 0u);
  }
}

TEST(DecodeTest, TakesAnyStride) {
  std::vector<uint8_t> R = someKernel();
  alignas(8) uint8_t To[MaxRecordSize];
  for (uint32_t Kind = 0; Kind < 64; ++Kind)
    for (size_t Stride = 0; Stride <= R.size(); ++Stride) {
      // Pointers to texts are null; only the copy's bounds are at stake.
      std::vector<uint8_t> Exact(Stride, 0);
      if (Stride >= 4)
        put(Exact.data(), 0, Kind);
      Asked A;
      RecordKind Is = decode(Exact.data(), Stride, namesInto(A), To);
      EXPECT_EQ(Is, Stride < 8 ? RecordKind(0) : recordKind(Kind));
    }
}

TEST(DecodeTest, TellsDomainsOfCalls) {
  uint8_t R[40] = {};
  put(R, 4, uint32_t(211));
  put(R, 36, uint32_t(999));
  Asked A;
  CallRecord To;
  put(R, 0, uint32_t(activity::Runtime));
  decode(R, sizeof(R), namesInto(A), &To);
  EXPECT_EQ(To.domain, 2);
  EXPECT_EQ(To.name, 2211u);
  EXPECT_EQ(To.result, 999);
  put(R, 0, uint32_t(activity::Driver));
  decode(R, sizeof(R), namesInto(A), &To);
  EXPECT_EQ(To.domain, 1);
  EXPECT_EQ(To.name, 1211u);
}

// Of 72 bytes up to 12.9, of 80 since.
TEST(DecodeTest, ReadsMemoryPools) {
  uint8_t R[80] = {};
  put(R, 0, uint32_t(activity::MemoryPool));
  put(R, 4, uint32_t(3));
  put(R, 8, uint32_t(1));
  put(R, 12, uint32_t(88));
  put(R, 20, uint32_t(2));
  put(R, 24, uint64_t(4096));
  put(R, 40, uint64_t(1) << 30);
  put(R, 56, uint64_t(12345));
  put(R, 64, uint64_t(1) << 20);
  put(R, 72, uint8_t(1));
  for (size_t Stride : {72, 80}) {
    Asked A;
    PoolRecord To;
    ASSERT_EQ(decode(R, Stride, namesInto(A), &To), RecordKind::Pool);
    EXPECT_EQ(To.operation, 3u);
    EXPECT_EQ(To.type, 1u);
    EXPECT_EQ(To.correlation, 88u);
    EXPECT_EQ(To.device, 2u);
    EXPECT_EQ(To.kept_at_least, 4096u);
    EXPECT_EQ(To.size, 1u << 30);
    EXPECT_EQ(To.used, 1u << 20);
    EXPECT_EQ(To.at, 12345u);
    EXPECT_EQ(To.managed, Stride == 80 ? 1 : 0);
  }
}

// Words are the same exactly when shapes are: each byte of a record in turn.
TEST(DecodeTest, WordsTellShapesApart) {
  std::vector<uint8_t> R = someKernel();
  LaunchShape Shape, Other;
  decodeShape(R.data(), R.size(), Shape);
  const ShapeWords Words(R.data());
  unsigned Different = 0;
  for (size_t I = 0; I < R.size(); ++I) {
    std::vector<uint8_t> Changed = R;
    Changed[I] ^= 1;
    decodeShape(Changed.data(), Changed.size(), Other);
    bool Same = !std::memcmp(&Shape, &Other, sizeof(Shape));
    EXPECT_EQ(Same, Words == ShapeWords(Changed.data())) << I;
    Different += !Same;
  }
  // Twelve numbers of 4 bytes, one of 2, one of 1.
  EXPECT_EQ(Different, 12u * 4 + 2 + 1);
}

} // namespace
