//===- TensorBoardRecords.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TensorBoardRecords.h"
#include "Support/Crc.h"
#include "llvm/Support/Endian.h"

using namespace llvm;
using support::endian::read32le;
using support::endian::read64le;

namespace culprit {

bool TfRecords::isHeader(StringRef Text) {
  return Text.size() >= HeaderBytes &&
         read32le(Text.data() + 8) == maskedCrc32c(Text.take_front(8));
}

void TfRecords::noteBroken() {
  if (Broken++ == 0)
    FirstBroken = At;
  ++Number;
}

/// Looks for the next header behind a broken one. Few of the offsets hold a
/// length that the file has room for, so most cost a comparison.
bool TfRecords::resync() {
  for (size_t I = At + 1; I + HeaderBytes + FooterBytes <= Text.size(); ++I) {
    uint64_t Room = Text.size() - I - HeaderBytes - FooterBytes;
    if (read64le(Text.data() + I) <= Room && isHeader(Text.drop_front(I))) {
      At = I;
      return true;
    }
  }
  At = Text.size();
  return false;
}

bool TfRecords::next() {
  while (At < Text.size()) {
    StringRef Rest = Text.drop_front(At);
    if (Rest.size() < HeaderBytes) {
      Unfinished = Rest.size();
      At = Text.size();
      return false;
    }
    if (!isHeader(Rest)) {
      noteBroken();
      if (!resync())
        return false;
      continue;
    }
    uint64_t Length = read64le(Rest.data());
    if (Length > Rest.size() || Length + HeaderBytes + FooterBytes >
                                    Rest.size()) {
      Unfinished = Rest.size();
      At = Text.size();
      return false;
    }
    Data = Rest.substr(HeaderBytes, Length);
    if (read32le(Data.end()) != maskedCrc32c(Data)) {
      noteBroken();
      At += HeaderBytes + Length + FooterBytes;
      continue;
    }
    At += HeaderBytes + Length + FooterBytes;
    ++Number;
    return true;
  }
  return false;
}

} // namespace culprit
