//===- KinetoTraceCollectivesTest.cpp ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KinetoTestSupport.h"

using namespace llvm;

namespace culprit::kineto {
namespace {

using KinetoCollectivesTest = KinetoTest;

/// record_param_comms with a name and further arguments.
std::string record(StringRef Ts, StringRef Op, StringRef Args) {
  return event("cpu_op", "record_param_comms", Ts, "20",
               (R"({"Collective name": ")" + Op + R"(", "Group size": 4, )" +
                Args + "}")
                   .str());
}

std::string kernel(StringRef Ts, StringRef Args) {
  return event("kernel", "ncclDevKernel_Generic(ncclDevKernelArgsStorage)", Ts,
               "50", (R"({"device": 0, "stream": 9, )" + Args + "}").str());
}

// The kernel has no metadata of its own: its launch call lies inside of the
// record on the same thread. Ids are those of another record, as after a tool
// has renumbered them, and must lose against the times.
TEST_F(KinetoCollectivesTest, RecordJoinsByLaunch) {
  ASSERT_EQ(
      readEvents({record("100", "_allgather_base",
                         R"("External id": 5, "In msg nelems": 100,
                            "Out msg nelems": 400, "dtype": "BFloat16",
                            "Process Group Name": "7", "Seq": 3,
                            "Process Group Description": "dp",
                            "Process Group Ranks": "[0, 2, 4, 6]",
                            "Input Dims": [[[100]], []])"),
                  record("200", "allreduce", R"("External id": 6,
                         "In msg nelems": 1, "Out msg nelems": 1,
                         "dtype": "Float")"),
                  event("cuda_runtime", "cudaLaunchKernelExC", "105", "3",
                        R"({"correlation": 77})"),
                  kernel("300", R"("correlation": 77, "External id": 6)")}),
      "");
  // 400 elements of 2 bytes: the output is what an all-gather carries.
  EXPECT_EQ(cells(TableId::collectives, 0,
                  {"op", "bytes", "dtype", "group", "group_name", "group_size",
                   "members", "seq", "enqueued", "input_shapes", "place"}),
            "all_gather 800 bfloat16 7 dp 4 [0, 2, 4, 6] 3 0 [[[100]], []] 3");
  EXPECT_EQ(cells(TableId::process_groups, 0,
                  {"rank", "group", "name", "size", "members"}),
            "0 7 dp 4 [0, 2, 4, 6]");
}

TEST_F(KinetoCollectivesTest, RecordJoinsByExternalId) {
  ASSERT_EQ(readEvents({record("100", "reduce_scatter_tensor_coalesced",
                               R"("External id": 5, "In msg nelems": 400,
                                  "Out msg nelems": 100, "dtype": "Float")"),
                        kernel("300", R"("External id": 5)"),
                        kernel("50", R"("External id": 5)")}),
            "");
  // 400 * 4 bytes: the input counts.
  EXPECT_EQ(cells(TableId::collectives, 0, {"op", "bytes"}),
            "reduce_scatter 1600");
  EXPECT_EQ(cells(TableId::collectives, 1, {"op", "bytes"}), "- -")
      << "began before the record that is said to have called for it";
}

// nccl-tests' sizes, from elements in, elements out and 4 ranks.
TEST_F(KinetoCollectivesTest, BytesAreThePayload) {
  struct {
    StringRef Op, In, Out;
    int64_t Want; ///< Times 4 bytes.
  } Cases[] = {{"allreduce", "10", "10", 40},
               {"broadcast", "10", "10", 40},
               {"all_to_all", "80", "80", 320},
               // Only the root has the other side.
               {"gather", "10", "0", 160},
               {"gather", "10", "40", 160},
               {"scatter", "0", "10", 160},
               {"scatter", "40", "10", 160}};
  for (const auto &C : Cases) {
    ASSERT_EQ(readEvents({kernel(
                  "1", (R"("Collective name": ")" + C.Op +
                        R"(", "Group size": 4, "dtype": "Float",
                          "In msg nelems": )" +
                        C.In + R"(, "Out msg nelems": )" + C.Out)
                           .str())}),
              "");
    EXPECT_EQ(cell(TableId::collectives, 0, "bytes"), std::to_string(C.Want))
        << C.Op.str();
  }
}

TEST_F(KinetoCollectivesTest, PeersOfPointToPoint) {
  ASSERT_EQ(readEvents({kernel("1", R"("Collective name": "send",
                               "Dst Rank": 6)"),
                        kernel("2", R"("Collective name": "recv",
                               "Src Rank": 4)")}),
            "");
  EXPECT_EQ(cells(TableId::collectives, 0, {"op", "peer"}), "send 6");
  EXPECT_EQ(cells(TableId::collectives, 1, {"op", "peer"}), "recv 4");
}

// Above 30 ranks the kernel's list is shortened; the header has it whole.
TEST_F(KinetoCollectivesTest, HeaderHasTheGroups) {
  ASSERT_EQ(readEvents({kernel("1", R"("Collective name": "allreduce",
        "Process Group Name": "0", "Process Group Ranks": "[0, ..., 3]")")},
                       R"(, "distributedInfo": {"backend": "nccl", "rank": 2,
        "world_size": 4, "pg_count": 2, "pg_config": [{"pg_name": "0",
        "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 4,
        "ranks": [0, 1, 2, 3]}, {"pg_name": "1", "pg_desc": "tp",
        "pg_size": 2, "ranks": "[2, 3]"}], "nccl_version": "2.22.3"})"),
            "");
  EXPECT_EQ(cells(TableId::collectives, 0,
                  {"rank", "group", "group_name", "group_size", "members"}),
            "2 0 default_pg 4 [0, 1, 2, 3]");
  ASSERT_EQ(rows(TableId::process_groups), 2u);
  EXPECT_EQ(cells(TableId::process_groups, 1,
                  {"rank", "group", "name", "size", "members"}),
            "2 1 tp 2 [2, 3]");
  EXPECT_EQ(cells(TableId::packages, 0, {"name", "version"}), "nccl 2.22.3");
}

// Gloo has no kernels: its host span is the collective.
TEST_F(KinetoCollectivesTest, HostBackends) {
  ASSERT_EQ(
      readEvents({record("99", "allreduce", R"("In msg nelems": 8,
                         "Out msg nelems": 8, "dtype": "Double")"),
                  event("user_annotation", "gloo:all_reduce", "100", "40"),
                  event("user_annotation", "nccl:all_reduce", "200", "40")}),
      "");
  ASSERT_EQ(rows(TableId::collectives), 1u);
  EXPECT_EQ(cells(TableId::collectives, 0,
                  {"op", "bytes", "device", "stream", "dur", "place"}),
            "all_reduce 64 -1 - 40000 1");
}

} // namespace
} // namespace culprit::kineto
