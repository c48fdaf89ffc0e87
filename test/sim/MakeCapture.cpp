//===- MakeCapture.cpp - Writes the capture of every kind -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: make-capture OUT
///
/// Makes test/Inputs/captures/kinds.cprt, for kinds of records that the
/// simulated device has not.
///
//===----------------------------------------------------------------------===//

#include "CaptureBuilder.h"
#include <cstdio>

using namespace culprit::capture;

int main(int Count, char **Arguments) {
  if (Count != 2)
    return 2;
  CaptureBuilder B(3);
  addEveryKind(B);
  B.finish();
  std::string Bytes = B.bytes();
  FILE *To = std::fopen(Arguments[1], "wb");
  if (!To || std::fwrite(Bytes.data(), 1, Bytes.size(), To) != Bytes.size())
    return 1;
  return std::fclose(To) != 0;
}
