//===- CuptiCallsTest.cpp - Calls that begin and end captures ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compiled where a toolkit is: ids of Calls.h against the headers of CUPTI
/// 13.0. A mistake is an error of the compiler.
///
//===----------------------------------------------------------------------===//

#include "gtest/gtest.h"

#ifndef CULPRIT_HAVE_CUPTI_HEADERS

TEST(CuptiCallsTest, Agree) {
  GTEST_SKIP() << "no headers of CUPTI: nothing was compared";
}

#else

#include "Agent/Calls.h"
#include <cupti.h>

// Headers of another version may lack what is named here.
#if CUPTI_API_VERSION < 130000

TEST(CuptiCallsTest, Agree) {
  GTEST_SKIP() << "the headers of CUPTI are older than 13.0";
}

#else

using namespace culprit::agent;

#define RUNTIME(Name) CUPTI_RUNTIME_TRACE_CBID_cuda##Name
#define DRIVER(Name) CUPTI_DRIVER_TRACE_CBID_cu##Name

static_assert(RuntimeBegins[0] == RUNTIME(StreamBeginCapture_v10000) &&
              RuntimeBegins[1] == RUNTIME(StreamBeginCapture_ptsz_v10000) &&
              RuntimeBegins[2] == RUNTIME(StreamBeginCaptureToGraph_v12030) &&
              RuntimeBegins[3] ==
                  RUNTIME(StreamBeginCaptureToGraph_ptsz_v12030) &&
              RuntimeEnds[0] == RUNTIME(StreamEndCapture_v10000) &&
              RuntimeEnds[1] == RUNTIME(StreamEndCapture_ptsz_v10000));
static_assert(DriverBegins[0] == DRIVER(StreamBeginCapture) &&
              DriverBegins[1] == DRIVER(StreamBeginCapture_ptsz) &&
              DriverBegins[2] == DRIVER(StreamBeginCapture_v2) &&
              DriverBegins[3] == DRIVER(StreamBeginCapture_v2_ptsz) &&
              DriverBegins[4] == DRIVER(StreamBeginCaptureToGraph) &&
              DriverBegins[5] == DRIVER(StreamBeginCaptureToGraph_ptsz) &&
              DriverEnds[0] == DRIVER(StreamEndCapture) &&
              DriverEnds[1] == DRIVER(StreamEndCapture_ptsz));

// The stream is the first parameter of each.
static_assert(
    offsetof(cudaStreamBeginCapture_v10000_params, stream) == 0 &&
    offsetof(cudaStreamBeginCaptureToGraph_v12030_params, stream) == 0 &&
    offsetof(cudaStreamEndCapture_v10000_params, stream) == 0 &&
    offsetof(cuStreamBeginCapture_v2_params, hStream) == 0 &&
    offsetof(cuStreamBeginCaptureToGraph_params, hStream) == 0 &&
    offsetof(cuStreamEndCapture_params, hStream) == 0);
static_assert(int(cudaErrorStreamCaptureInvalidated) == 901 &&
              int(cudaErrorStreamCaptureUnjoined) == 904);

TEST(CuptiCallsTest, Agree) { SUCCEED(); }

#endif
#endif
