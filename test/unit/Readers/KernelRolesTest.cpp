//===- KernelRolesTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "gtest/gtest.h"

using namespace llvm;

namespace culprit {
namespace {

struct Kernel {
  StringRef Name, Op;
};

TEST(KernelRolesTest, CommunicationKernels) {
  static constexpr Kernel Kernels[] = {
      // NCCL before 2.4, to 2.18, since 2.19, and its symmetric kernels.
      {"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "all_reduce"},
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned "
       "long, ncclWork*)",
       "send_recv"},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*, unsigned "
       "long, ncclWork*)",
       "reduce_scatter"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       "all_gather"},
      {"ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       "broadcast"},
      {"ncclSymkDevKernel_AllGather_ST(ncclSymkDevWorkArgs)", "all_gather"},
      // RCCL, as in the MI300X trace.
      {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ""},
      {"ncclDevKernel_Generic_4(ncclDevComm*, unsigned long, ncclWork*)", ""},
      {"mscclKernel_Sum_half_Simple_false(ncclDevComm*)", ""},
      {"mscclpp::collective::allreducePacket<float>()", "all_reduce"},
      {"hcclAllReduceKernel", "all_reduce"},
      {"nvshmemi_transfer_rma_signal<2, true>", ""},
      // DeepEP.
      {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
       "all_to_all"},
      {"void deep_ep::internode_ll::combine<true, 3, 7168, 9>(void*)",
       "all_to_all"},
      {"void deep_ep::intranode::notify_dispatch<8>(int const*)", "barrier"},
      {"void deep_ep::intranode::cached_notify_combine<8>(void**)", "barrier"},
      {"mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>()", "all_to_all"},
      // Symmetric memory of PyTorch, and what came before it.
      {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, "
       "16>()",
       "all_reduce"},
      {"void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, "
       "16, 8, false>()",
       "all_reduce"},
      {"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float>",
       "all_reduce"},
      {"c10d::symmetric_memory::barrier_kernel(unsigned int**)", "barrier"},
      {"void c10d::intra_node_comm::oneShotAllReduceKernel<8u, false>()",
       "all_reduce"},
      // vLLM, SGLang, TensorRT-LLM, FlashInfer.
      {"void vllm::cross_device_reduce_1stage<half, 8>()", "all_reduce"},
      {"void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>()",
       "all_reduce"},
      {"void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot>()",
       "all_reduce"},
      {"void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8>()",
       "all_reduce"},
      {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_"
       "oneshot_lamport<>()",
       "all_reduce"},
      {"tensorrt_llm::kernels::moe_comm::moeAllToAllKernel()", "all_to_all"},
      {"userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<4>", ""},
  };
  for (const Kernel &K : Kernels) {
    EXPECT_EQ(kernelRole(K.Name), "communication") << K.Name.str();
    EXPECT_EQ(collectiveOp(K.Name), K.Op) << K.Name.str();
  }
}

TEST(KernelRolesTest, ComputeThatSoundsLikeIt) {
  for (StringRef Name :
       {"sm80_xmma_gemm_f32", "ncclCommInitRank", "my_reduce_scatter_cpu",
        "allreduce_check", "deep_ep::layout::get_dispatch_layout<256>",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>",
        "void at::native::vectorized_gather_kernel<16, long>",
        "void at::native::reduce_kernel<512, 1>",
        "void cub::DeviceReduceSingleTileKernel<>",
        "broadcast_add_kernel", "vllm::moe::moe_align_block_size_kernel"})
    EXPECT_EQ(kernelRole(Name), "compute") << Name.str();
}

TEST(KernelRolesTest, Ranges) {
  EXPECT_EQ(rangeCategory("ProfilerStep#12"), "step");
  EXPECT_EQ(rangeCategory("enumerate(DataLoader)#_It.__next__"), "dataloader");
  EXPECT_EQ(rangeCategory("Optimizer.step#AdamW.step"), "optimizer");
  for (StringRef Name : {"nccl:all_reduce", "gloo:broadcast",
                         "c10d::allreduce_", "ncclAllReduce",
                         "_c10d_functional::all_gather_into_tensor",
                         "FSDP::all_gather (layers.0)"})
    EXPECT_EQ(rangeCategory(Name), "collective") << Name.str();
  for (StringRef Name : {"ncclCommInitRank", "ncclGroupEnd", "forward",
                         "FSDP::all_gather_copy_in", "FSDP::pre_forward"})
    EXPECT_EQ(rangeCategory(Name), "annotation") << Name.str();
}

TEST(KernelRolesTest, CallsCopiesAndDevices) {
  EXPECT_EQ(callRole("cudaLaunchKernel"), "launch");
  EXPECT_EQ(callRole("hipExtModuleLaunchKernel"), "launch");
  EXPECT_EQ(callRole("cudaEventSynchronize"), "sync");
  EXPECT_EQ(callRole("cudaStreamWaitEvent"), "event");
  EXPECT_EQ(callRole("cudaMemcpyAsync"), "copy");
  EXPECT_EQ(callRole("cuMemCreate"), "allocate");
  EXPECT_EQ(callRole("cudaFreeHost"), "free");
  EXPECT_EQ(callRole("cuModuleLoadDataEx"), "load");
  EXPECT_EQ(callRole("cudaGetDevice"), "other");
  EXPECT_EQ(callName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(collectiveOp("_allgather_base"), "all_gather");
  EXPECT_EQ(collectiveOp("_reduce_scatter_base"), "reduce_scatter");
  EXPECT_EQ(collectiveOp("all_to_allv"), "all_to_all");
  EXPECT_EQ(collectiveOp("wait"), "");
  EXPECT_EQ(copyKinds("CopyHostToDevice").Kind, "HtoD");
  EXPECT_EQ(deviceVendor("AMD Instinct MI300X"), "amd");
  EXPECT_EQ(deviceVendor("Tesla V100-SXM2-32GB"), "nvidia");
}

} // namespace
} // namespace culprit
