//===- Dispatch.h - Highway chooses its kernels here ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The dispatch of Highway asks two functions of libhwy which kernels this
/// processor can run. Loading that library measures the processor's clock for
/// 3 ms, at every start of a command that has no tensors; so they are ours, see
/// Targets.cpp. They have names of their own, since a program that needs
/// anything else of libhwy, and one that links it statically, has both.
///
/// To be included before any header of Highway.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_DISPATCH_H
#define CULPRIT_TENSOR_DISPATCH_H

#ifdef HIGHWAY_HWY_TARGETS_H_
#error "Tensor/Dispatch.h must stand before the headers of Highway"
#endif

#define SupportedTargets culpritSupportedTargets
#define GetChosenTarget culpritChosenTarget

#endif // CULPRIT_TENSOR_DISPATCH_H
