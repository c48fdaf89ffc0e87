//===- KernelNames.h - Which kernels do the same work -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Another device, library or dtype runs the same operator by a kernel of
/// another name. The family of a kernel is what stays of its name:
///
///   volta_sgemm_128x64_nn, ampere_sgemm_32x32_sliced1x4_tn   sgemm
///   void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, ...   bn_fw_tr_kernel
///   ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)      nccl AllReduce
///   sm80_xmma_dgrad_implicit_gemm_f16f16_...                  convolution
///                                                             dgrad
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_KERNELNAMES_H
#define CULPRIT_COMPARE_KERNELNAMES_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// The family of the kernel \p Name; never empty unless the name is.
std::string kernelFamily(llvm::StringRef Name);

/// \p Name without return type, namespaces, parameters and, where it is still
/// longer than \p Most characters, its middle.
std::string shortKernelName(llvm::StringRef Name, size_t Most);

} // namespace culprit

#endif // CULPRIT_COMPARE_KERNELNAMES_H
