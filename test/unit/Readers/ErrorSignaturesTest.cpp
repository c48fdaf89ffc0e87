//===- ErrorSignaturesTest.cpp ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ErrorSignatures.h"
#include "Readers/OutOfMemory.h"
#include "gtest/gtest.h"
#include <set>

using namespace culprit;
using namespace llvm;

/// The signature of \p Line; "none" for no error, "" for an unknown one.
static std::string signatureOf(StringRef Line) {
  std::optional<ErrorMatch> Match = findError(Line);
  return Match ? Match->Signature.str() : "none";
}

static const std::pair<StringRef, StringRef> KnownErrors[] = {
    {"cuda-oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to "
                 "allocate 20.00 MiB."},
    {"cuda-oom", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB "
                 "(GPU 0; 3.79 GiB total capacity)"},
    {"cuda-oom",
     "CUDA out of memory when allocating tensor with shape [8, 65536, 4096]"},
    {"cuda-oom", "retrying after CUDA out of memory ... succeeded"},
    {"cuda-oom", "NCCL WARN Cuda failure 2 'out of memory'"},
    {"cuda-oom", "RuntimeError: HIP out of memory. Tried to allocate 1.00 GiB"},
    {"host-oom",
     "[31313.1] Out of memory: Killed process 12 (python) anon-rss:9kB"},
    {"host-oom",
     "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0"},
    {"host-oom",
     "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."},
    {"host-oom", "container exited with code 137"},
    {"host-oom", "  traceback : Signal 9 (SIGKILL) received by PID 12345"},
    {"host-oom", "MemoryError"},
    {"shm-exhausted",
     "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. "
     "It is possible that dataloader's workers are out of shared memory."},
    {"shm-exhausted",
     "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'"},
    {"illegal-access",
     "RuntimeError: CUDA error: an illegal memory access was encountered"},
    {"illegal-access", "CUDA error 700 at kernel.cu:12"},
    {"illegal-access", "RuntimeError: CUDA error: misaligned address"},
    {"illegal-access",
     "NVRM: Xid (PCI:0000:09:00): 31, pid=1, name=python3, MMU Fault"},
    {"device-assert", "RuntimeError: CUDA error: device-side assert triggered"},
    {"device-assert",
     "k.cu:7: f: block: [0,0,0], thread: [1,0,0] Assertion `x > 0` failed."},
    {"index-out-of-bounds",
     "Indexing.cu:1290: indexSelectLargeIndex: block: [10,0,0], thread: "
     "[64,0,0] Assertion `srcIndex < srcSelectDimSize` failed."},
    {"index-out-of-bounds", "Loss.cu:250: nll: block: [0,0,0], thread: [3,0,0] "
                            "Assertion `t >= 0 && t < n_classes` failed."},
    {"index-out-of-bounds",
     "ScatterGatherKernel.cu:144: operator(): block: [0,0,0], thread: [3,0,0] "
     "Assertion `idx_dim >= 0 && idx_dim < index_size && \"index out of "
     "bounds\"` failed."},
    {"index-out-of-bounds", "IndexError: index out of range in self"},
    {"index-out-of-bounds", "IndexError: Target 10 is out of bounds."},
    {"nccl-timeout", "[Rank 0] Watchdog caught collective operation timeout: "
                     "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, "
                     "Timeout(ms)=600000) ran for 600060 milliseconds"},
    {"nccl-timeout", "but store->get('0') got error: Socket Timeout"},
    {"nccl-mismatch", "RuntimeError: Detected mismatch between collectives on "
                      "ranks. Rank 0 is running"},
    {"nccl-network", "ncclSystemError: System call (e.g. socket, malloc) or "
                     "external library call failed or device error."},
    {"nccl-network",
     "host:5:17 [3] NCCL WARN Net : Call to recv from 10.0.0.1 failed"},
    {"rdma-error",
     "host:5:17 [3] NCCL WARN NET/IB : Got completion from peer with error 12"},
    {"host-oom", "[Wed Dec  6 23:54:11 2017] Killed process 5282 (java) "
                 "total-vm:33221024kB, anon-rss:16777216kB, file-rss:0kB"},
    {"host-oom", "(raylet) node_manager.cc:3069: 1 Workers (tasks / actors) "
                 "killed due to memory pressure (OOM), 0 Workers crashed"},
    {"shm-exhausted", "['python', 'main.py'] exits with return code = -7"},
    {"cuda-oom", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating "
                 "144817.04 MiB on device 0: cudaMalloc failed: out of memory"},
    {"kv-cache-no-room", "ValueError: No available memory for the cache "
                         "blocks. Try increasing `gpu_memory_utilization`"},
    {"kv-cache-no-room",
     "ValueError: The model's max seq len (131072) is larger than the maximum "
     "number of tokens that can be stored in KV cache (43520)."},
    {"native-crash", "failed (exitcode: -11) local_rank: 0 (pid: 4122)"},
    {"native-crash", "[a:183006:0:183006] Caught signal 11 (Segmentation fault: "
                     "address not mapped to object at address 0x8)"},
    {"native-crash", "text_generation_launcher: Shard process was signaled to "
                     "shutdown with signal 4 rank=0"},
    {"terminated", "slurmstepd: error: *** JOB 49 ON node01 CANCELLED AT "
                   "2024-04-20T09:09:37 DUE TO TIME LIMIT ***"},
    {"terminated", "SignalException: Process 4711 got signal: 15"},
    {"disk-full", "OSError: [Errno 28] No space left on device"},
    {"disk-full", "RuntimeError: [enforce fail at inline_container.cc:445] . "
                  "PytorchStreamWriter failed writing file data/176: file "
                  "write failed"},
    {"cuda-library", "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED "
                     "when calling `cublasCreate(handle)`"},
    {"checkpoint-shape",
     "\tsize mismatch for embed.weight: copying a param with shape "
     "torch.Size([32001, 4096]) from checkpoint, the shape in current model is "
     "torch.Size([32000, 4096])."},
    {"rank-exited", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
                    "encountered an issue."},
    {"rank-exited", "NCCL error, remote process exited or there was a network "
                    "error, NCCL version 2.18.1"},
    {"rank-exited", "[../gloo/transport/tcp/pair.cc:534] Connection closed by "
                    "peer [10.0.0.1]:2345"},
    {"rank-exited", "E0101 api.py:833] failed (exitcode: 1) local_rank: 0 "
                    "(pid: 7) of binary: python"},
    {"xid",
     "NVRM: Xid (PCI:0000:09:00): 79, pid=0, GPU has fallen off the bus."},
    {"xid", "NVRM: Xid (PCI:0000:09:00): 119, pid=1, Timeout after 6s of "
            "waiting for RPC response from GPU0 GSP!"},
    {"ecc", "NVRM: Xid (PCI:0000:9b:00): 94, pid=1234, name=python3, Contained "
            "ECC error"},
    {"ecc", "NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE"},
    {"ecc", "NVRM: Xid (PCI:0000:9b:00): 63, pid=1, Row Remapper: remapped"},
    {"ecc", "NVRM: Xid (PCI:0000:9b:00): 64, pid=1, x"},
    {"ecc", "NVRM: Xid (PCI:0000:9b:00): 95, pid=1, Uncontained ECC error"},
    {"ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
    {"nvlink", "NVRM: Xid (PCI:0000:9b:00): 74, pid=1, NVLink: fatal error "
               "detected on link 3"},
    {"nvlink",
     "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32"},
    {"driver-too-old", "RuntimeError: The NVIDIA driver on your system is too "
                       "old (found version 11040)."},
    {"driver-too-old",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {"arch-missing", "RuntimeError: CUDA error: no kernel image is available "
                     "for execution on the device"},
    {"library-mismatch", "ImportError: /x/flash_attn_2_cuda.so: undefined "
                         "symbol: _ZN2at4_ops5zeros4callE"},
    {"driver-mismatch",
     "Failed to initialize NVML: Driver/library version mismatch"},
    {"library-mismatch", "ImportError: libcudnn.so.9: cannot open shared "
                         "object file: No such file or directory"},
    {"port-in-use", "RuntimeError: The server socket has failed to listen on "
                    "any local network address. port: 29500"},
    {"fork-after-cuda",
     "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use "
     "CUDA with multiprocessing, you must use the 'spawn' start method"},
    {"nan-detected", "RuntimeError: Function 'MulBackward0' returned nan "
                     "values in its 0th output."},
    {"nan-detected", "Unexpected result nan on rank 3 at iteration #12"},
    {"nan-detected",
     "found NaN in local grad norm for bucket #2 in backward pass"},
    {"nan-detected", "number of nan iterations:   1 |"},
    {"nan-detected", "nan encountered 3 times"},
    {"nan-detected", "WARNING loss is nan at step 40"},
    {"shape-mismatch",
     "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x4)"},
    {"shape-mismatch",
     "RuntimeError: shape '[2, 3]' is invalid for input of size 5"},
    {"keys-mismatch", "\tMissing key(s) in state_dict: \"lm_head.weight\"."},
    {"keys-mismatch", "Some weights of GPT2LMHeadModel were not initialized "
                      "from the model checkpoint at gpt2"},
    {"keys-mismatch",
     "_IncompatibleKeys(missing_keys=['a'], unexpected_keys=[])"},
    {"checkpoint-corrupt", "RuntimeError: PytorchStreamReader failed reading "
                           "zip archive: failed finding central directory"},
    {"checkpoint-corrupt", "safetensors_rust.SafetensorError: Error while "
                           "deserializing header: HeaderTooLarge"},
    {"checkpoint-corrupt", "EOFError: Ran out of input"},
    {"recompile-limit", "torch._dynamo hit config.recompile_limit (8)"},
    {"unused-parameters", "RuntimeError: Expected to have finished reduction "
                          "in the prior iteration before starting a new one."},
    {"sequence-too-long",
     "Token indices sequence length is longer than the specified maximum "
     "sequence length for this model (600 > 512)."},
    {"padding-side", "A decoder-only architecture is being used, but "
                     "right-padding was detected!"},
    {"file-descriptors", "OSError: [Errno 24] Too many open files"},
    {"profiler-permission",
     "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"},
    {"", "NVRM: Xid (PCI:0000:9b:00): 43, pid=1234, name=python3, Ch 00000008"},
    {"", "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 1 caused by "
         "previous Xid 149"},
    {"", "RuntimeError: CUDA error: invalid configuration argument"},
};

TEST(ErrorSignatures, TellsErrorsApart) {
  for (auto [Signature, Line] : KnownErrors)
    EXPECT_EQ(signatureOf(Line), Signature) << Line.str();
}

TEST(ErrorSignatures, CoversTheVocabulary) {
  // Each log symptom that a text alone tells, once at least.
  std::set<StringRef> Seen;
  for (auto [Signature, Line] : KnownErrors)
    Seen.insert(Signature);
  EXPECT_EQ(Seen.size(), 36u + 1u) << "36 signatures and the errors without";
}

TEST(ErrorSignatures, LeavesLookalikesAlone) {
  for (StringRef Line : {
           "skipping unused special token <|pad|>",
           "nan encountered 0 times",
           "number of skipped iterations:   0 | number of nan iterations:   0 "
           "|",
           "found 0 errors",
           "0 CUDA out of memory errors so far",
           "CUDA out of memory retries: 0",
           "nan detected: false",
           "no NaN detected in 400 steps",
           "nccl_timeout=1800 ddp_timeout=1800000 cuda_launch_blocking=0",
           "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
           "TORCH_NCCL_DUMP_ON_TIMEOUT=1 NCCL_IB_TIMEOUT=22",
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
           "python train.py --out-of-memory-retries 3 --detect-nan",
           "Namespace(out_of_memory_retry=False, nan_detected_action='skip')",
           "To avoid CUDA out of memory, reduce the batch size",
           "if you see CUDA out of memory lower max_tokens",
           "this prevents device-side assert triggered by bad labels",
           "The current process just got forked, after parallelism has already "
           "been used. Disabling parallelism to avoid deadlocks...",
           "<All keys matched successfully>",
           "_IncompatibleKeys(missing_keys=[], unexpected_keys=[])",
           "UserWarning: find_unused_parameters=True was specified in DDP "
           "constructor, but did not find any unused parameters",
           "OutOfResources: out of resource: shared memory, Required: 131072, "
           "Hardware limit: 101376",
           "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64",
           "Xid errors: 0",
           "(raylet) 0 Workers (tasks / actors) killed due to memory pressure "
           "(OOM), 1 Workers crashed due to other reasons",
           "Sending process 4800 closing signal SIGTERM",
           "XID counter reset",
           "step 40 loss nan grad_norm nan",
           "Setting pad_token_id to eos_token_id:2 for open-end generation.",
           "urllib3: Connection reset by peer, retrying https://huggingface.co",
           "torch.nan_to_num applied to logits",
           "process exits with return code = 0",
           "IndexError: list index out of range",
           "found nans_detected_hook in registry",
           // Counts of none, as trainers, nvidia-smi and monitors print them.
           "number of nan iterations: 0",
           "nan encountered 0 times in 1000 steps",
           "nan_count=0 inf_count=0",
           "nan detected = 0",
           "nan gradients: 0, inf gradients: 0",
           "errors: 0, warnings: 0",
           "0 errors, 3 warnings",
           "Volatile ECC uncorrected: 0",
           "    Uncorrectable ECC errors : 0",
           "uncorrectable ECC error encountered: 0",
           "0 Xid errors since boot",
           "XID: 0",
           "Xid = 0",
           "device-side assert triggered count: 0",
           "zero CUDA out of memory errors",
           "NCCL timeouts so far: 0",
           "watchdog caught collective operation timeout: 0",
           // Settings, patterns and manuals that a log prints.
           "fatal_patterns: ['CUDA out of memory', \"CUDA error: out of "
           "memory\"]",
           "health check watches Xid 48, 63, 64 and 79",
           "will reboot on Xid 79",
           "ignore Xid 43",
           "retry when CUDA out of memory",
           "see `CUDA out of memory` in the manual",
           "--max-oom N  batches to skip if CUDA out of memory",
           "    nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data "
           "{0x50610002, 0x10100030}",
       })
    EXPECT_EQ(signatureOf(Line), "none") << Line.str();
}

TEST(ErrorSignatures, NamesCodes) {
  EXPECT_EQ(findError("NVRM: Xid (PCI:0000:09:00): 79, pid=0, x")->Code, "79");
  EXPECT_EQ(findError("NVRM: Xid (PCI:0000:09:00): 79, pid=0, x")->Type, "Xid");
  auto Switch = findError("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, "
                          "Fatal, Link 30 LTSSM Fault Up");
  EXPECT_EQ(Switch->Type, "SXid");
  EXPECT_EQ(Switch->Code, "20034");
  EXPECT_EQ(Switch->Signature, "nvlink");
  EXPECT_EQ(findError("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, "
                      "Non-fatal, Link 32 egress non-posted PRIV error")
                ->Signature,
            "")
      << "the switch survived it";
  EXPECT_EQ(findError("CUDA error 209 at x.cu:3")->Code,
            "cudaErrorNoKernelImageForDevice")
      << "not error 2, out of memory";
}

TEST(OutOfMemory, ReadsNewTexts) {
  MemoryFigures F = memoryFigures(
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
      "capacity of 79.19 GiB of which 14.75 MiB is free. Process 12 has 70.00 "
      "GiB memory in use. Of the allocated memory 71.69 GiB is allocated by "
      "PyTorch, and 6.00 GiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(F.Asked, 20 << 20);
  EXPECT_EQ(F.Capacity, 85029615043);
  EXPECT_EQ(F.ReservedUnallocated, int64_t(6) << 30);
}

TEST(OutOfMemory, ReadsOldTexts) {
  MemoryFigures F = memoryFigures(
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 4.00 GiB total "
      "capacity; 388.00 MiB already allocated; 7.69 MiB free; 392.00 MiB "
      "reserved in total by PyTorch)");
  EXPECT_EQ(F.Asked, int64_t(2) << 30);
  EXPECT_EQ(F.Capacity, int64_t(4) << 30);
  EXPECT_EQ(F.ReservedUnallocated, 4 << 20);
}

TEST(OutOfMemory, ReadsShapesAndTheKernel) {
  StringRef Text = "CUDA out of memory when allocating tensor with shape [8, "
                   "65536, 4096]";
  EXPECT_FALSE(memoryFigures(Text).Asked) << "no dtype, so no bytes";
  EXPECT_EQ(memoryFigures((Text + " of type bfloat16").str()).Asked, int64_t(4)
                                                                         << 30);
  EXPECT_EQ(memoryFigures("Killed process 1 (python) anon-rss:1024kB,").Asked,
            1 << 20);
  EXPECT_FALSE(memoryFigures("").Asked);
}

// Each would take minutes if the whole line were searched for each phrase.
TEST(ErrorSignatures, LinesOfManyPhrases) {
  const auto Repeated = [](StringRef Text) {
    std::string Out;
    while (Out.size() < size_t(4) << 20)
      Out += Text;
    return Out;
  };
  EXPECT_EQ(signatureOf(Repeated("Xid (")), "none");
  EXPECT_EQ(signatureOf(Repeated("SXid (")), "none");
  // Without total-vm behind it, it is no kill.
  EXPECT_EQ(signatureOf(Repeated("killed process ")), "none");
  EXPECT_EQ(signatureOf(Repeated("x ") + "killed process 3 total-vm:9kB"),
            "host-oom");
}
