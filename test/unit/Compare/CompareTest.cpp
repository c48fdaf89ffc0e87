//===- CompareTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Compare/KernelNames.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// A side of \p Steps steps with the given groups: kind, name, ns, count.
struct Side : ProfileSide {
  Side(int64_t Steps, int64_t Ns) { Windows.push_back({0, 0, Ns, Steps, 0}); }
  Side &group(const char *Kind, const char *Name, int64_t Ns, int64_t Count) {
    Groups[{Kind, Name}] = {Ns, Count, {}};
    return *this;
  }
};

const Contribution *find(const ProfileComparison &C, llvm::StringRef Name) {
  for (const Contribution &Each : C.Contributions)
    if (Each.Name == Name)
      return &Each;
  return nullptr;
}

TEST(KernelFamilyTest, Names) {
  EXPECT_EQ(kernelFamily("volta_sgemm_128x64_nn"), "sgemm");
  EXPECT_EQ(kernelFamily("ampere_sgemm_32x32_sliced1x4_tn"), "sgemm");
  EXPECT_EQ(kernelFamily("ampere_fp16_s16816gemm_fp16_128x128_ldg8_tn"), "gemm");
  EXPECT_EQ(kernelFamily("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
            "nccl AllReduce");
  EXPECT_EQ(kernelFamily("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x*)"),
            "nccl AllReduce");
  EXPECT_EQ(kernelFamily("void (anonymous namespace)::softmax<float, 4>(int)"),
            "softmax");
  EXPECT_EQ(kernelFamily("void at::native::vectorized_elementwise_kernel<4, "
                         "at::native::FillFunctor<float> >(int, char)"),
            "vectorized_elementwise_kernel FillFunctor");
  EXPECT_EQ(kernelFamily(""), "");
  EXPECT_EQ(kernelFamily("<<<((("), "<<<(((");
}

// Three thirds of a step of 10 ns are 3.33 ns each: rounded they must still be
// 10, and with one step more of B, 7 ns in all, 7 - 10 = -3.
TEST(CompareTest, RoundedPartsAddUp) {
  Side A(3, 30), B(3, 20);
  A.group("compute", "a", 10, 3).group("compute", "b", 10, 3).group("code", "", 10, 3);
  B.group("compute", "a", 7, 3).group("compute", "b", 7, 3).group("code", "", 6, 3);
  ProfileComparison C = compareProfiles(A, B);
  EXPECT_EQ(C.A.StepNs, 10);
  EXPECT_EQ(C.B.StepNs, 7); // 6.67
  EXPECT_EQ(C.differenceNs(), -3);
  EXPECT_EQ(C.sumNs(), -3);
  EXPECT_EQ(C.Verdict, CompareVerdict::Different);
}

// 2 calls of 100 become 4 of 80: (4 - 2) * 90 = +180 and -20 * 3 = -60.
TEST(CompareTest, SplitsCountAndDuration) {
  Side A(1, 200), B(1, 320);
  A.group("compute", "k", 200, 2);
  B.group("compute", "k", 320, 4);
  ProfileComparison C = compareProfiles(A, B);
  ASSERT_EQ(C.Contributions.size(), 1u);
  EXPECT_EQ(C.Contributions[0].FromCountNs, 180);
  EXPECT_EQ(C.Contributions[0].FromDurationNs, -60);
}

TEST(CompareTest, MatchesNamesThenFamilies) {
  Side A(1, 600), B(1, 700);
  A.group("compute", "volta_sgemm_128x64_nn", 300, 1)
      .group("compute", "both", 200, 1)
      .group("compute", "only_in_a", 100, 1);
  B.group("compute", "ampere_sgemm_64x64_tn", 250, 1)
      .group("compute", "both", 200, 1)
      .group("compute", "fresh", 250, 1);
  ProfileComparison C = compareProfiles(A, B);
  ASSERT_TRUE(find(C, "sgemm"));
  EXPECT_EQ(find(C, "sgemm")->differenceNs(), -50);
  EXPECT_EQ(find(C, "sgemm")->ANames,
            std::vector<std::string>{"volta_sgemm_128x64_nn"});
  EXPECT_TRUE(find(C, "only_in_a")->isGone());
  EXPECT_TRUE(find(C, "fresh")->isNew());
  EXPECT_EQ(find(C, "fresh")->FromCountNs, 250);
  EXPECT_EQ(C.sumNs(), 100);
}

// Steps of 100 +- 10 (MAD 10, sigma 14.8): over 5 steps each the noise is
// 3 * sqrt(2 * 14.8^2 / 5) = 28. A mean 10 higher is noise, 50 is not.
TEST(CompareTest, NoiseIsThatOfTheSteps) {
  auto side = [](int64_t More) {
    Side S(5, 500 + 5 * More);
    for (double Step : {80, 90, 100, 110, 120})
      S.StepNs.push_back(Step + static_cast<double>(More));
    S.group("compute", "k", 500 + 5 * More, 5);
    return S;
  };
  EXPECT_EQ(compareProfiles(side(0), side(0)).Verdict, CompareVerdict::Same);
  ProfileComparison Small = compareProfiles(side(0), side(10));
  EXPECT_EQ(Small.NoiseNs, 28);
  EXPECT_EQ(Small.Verdict, CompareVerdict::WithinNoise);
  EXPECT_EQ(compareProfiles(side(0), side(50)).Verdict,
            CompareVerdict::Different);
}

// Rank 1 waits in collectives for rank 2, which is 1 % faster in all: rank 2
// is the one to look at. Rank 0 is far from the slowest.
TEST(CompareTest, ChoosesTheRankOthersWaitFor) {
  auto Shared = std::make_shared<StringPool>();
  TableBuilder W(TableId::windows, *Shared), P(TableId::critical_path, *Shared);
  int64_t Ns[] = {500, 1000, 990}, Waits[] = {0, 400, 100};
  for (int64_t Rank : {0, 1, 2}) {
    W.addRow();
    W.set(windows::rank, Rank);
    W.set(windows::device, int64_t(0));
    W.set(windows::dur, Ns[Rank]);
    W.set(windows::steps, int64_t(1));
    for (bool Waiting : {false, true}) {
      P.addRow();
      P.set(critical_path::rank, Rank);
      P.set(critical_path::device, int64_t(0));
      P.set(critical_path::dur, Waiting ? Waits[Rank] : Ns[Rank] - Waits[Rank]);
      P.set(critical_path::kind,
            llvm::StringRef(Waiting ? "communication" : "compute"));
      P.set(critical_path::name, llvm::StringRef("k"));
    }
  }
  auto table = [&](TableBuilder &B) {
    std::vector<std::pair<std::string, ColumnRef>> Columns;
    for (unsigned I = 0; I != schema(B.id()).Columns.size(); ++I)
      Columns.push_back({schema(B.id()).Columns[I].Name.str(),
                         std::make_shared<Column>(std::move(B.finished(I)))});
    return Table("t", Shared, std::move(Columns), B.rows(), true);
  };
  ProfileSide Side = llvm::cantFail(profileSide(table(W), table(P)));
  EXPECT_EQ(Side.window().Rank, 2);
  EXPECT_EQ((Side.Groups[{"communication", "k"}].Ns), 100);
}

} // namespace
