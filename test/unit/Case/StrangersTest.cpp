//===- StrangersTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// The remarks at the second of two profiles of these models that begin
/// \p Apart seconds apart.
size_t remarksOf(llvm::StringRef ModelA, llvm::StringRef ModelB,
                 int64_t Apart) {
  CaseBuilder Builder;
  for (int64_t I = 0; I != 2; ++I) {
    auto S = std::make_unique<Source>("r" + std::to_string(I), Builder.pool());
    S->EpochNs = 1'700'000'000'000'000'000 + I * Apart * 1'000'000'000;
    TableBuilder &Work = S->table(TableId::gpu_work);
    Work.addRow();
    Work.set(gpu_work::start, int64_t(0));
    Work.set(gpu_work::stop, int64_t(1000));
    Work.set(gpu_work::rank, I);
    TableBuilder &Devices = S->table(TableId::devices);
    Devices.addRow();
    Devices.set(devices::model, I ? ModelB : ModelA);
    Builder.add(std::move(S));
  }
  return Builder.build().inputs()[1].Remarks.size();
}

TEST(StrangersTest, RanksOfOneJobAreNotRemarked) {
  EXPECT_EQ(remarksOf("H100", "H100", 59 * 60), 0u);
}

TEST(StrangersTest, AnotherModelIs) {
  EXPECT_EQ(remarksOf("H100", "V100", 0), 1u);
}

TEST(StrangersTest, AnotherHourIs) {
  EXPECT_EQ(remarksOf("H100", "H100", 2 * 3600), 1u);
}

} // namespace
