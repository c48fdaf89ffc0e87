//===- CaptureTestSupport.h - Captures as tests read them -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the tests of the reader of captures have in common.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_UNIT_READERS_CAPTURETESTSUPPORT_H
#define CULPRIT_TEST_UNIT_READERS_CAPTURETESTSUPPORT_H

#include "../../sim/CaptureBuilder.h"
#include "ProfileTestSupport.h"
#include "Readers/Capture.h"

namespace culprit {

/// \p Bytes with the last frame in an epoch of its own, as a file that became
/// full has had it.
inline std::string withLastEpoch(std::string Bytes) {
  capture::FrameView Last = capture::CaptureFile(Bytes).frames().back();
  Last.Head.Epoch = 1;
  uint32_t Crc = capture::crc32c(0, &Last.Head, offsetof(capture::Frame, Crc));
  Last.Head.Crc = capture::crc32c(Crc, Last.Payload, Last.Head.Payload);
  std::memcpy(Bytes.data() + Last.Offset, &Last.Head, sizeof(Last.Head));
  return Bytes;
}

class CaptureTest : public ProfileTest {
protected:
  std::string readBytes(const std::string &Bytes) {
    write(Bytes);
    return read(Reader);
  }
  /// The same without a file on a disk, for thousands of them.
  std::string readInMemory(std::string_view Bytes) {
    int File = memfd_create("capture", 0);
    EXPECT_EQ(::write(File, Bytes.data(), Bytes.size()),
              static_cast<ssize_t>(Bytes.size()));
    std::string Error = readFrom("/proc/self/fd/" + std::to_string(File));
    close(File);
    return Error;
  }
  std::string readFrom(const std::string &Name) {
    llvm::Expected<std::unique_ptr<InputFile>> Input = InputFile::open(Name);
    if (!Input)
      return toString(Input.takeError());
    S = std::make_unique<Source>("capture", Pool);
    llvm::Error E = Reader.read(**Input, *S);
    return E ? toString(std::move(E)) : "";
  }
  size_t allRows() {
    size_t Sum = 0;
    for (TableId Id : {TableId::gpu_work, TableId::host_calls, TableId::syncs,
                       TableId::ranges, TableId::memory_events,
                       TableId::counters, TableId::devices})
      Sum += rows(Id);
    return Sum;
  }
  CaptureReader Reader;
};

} // namespace culprit

#endif // CULPRIT_TEST_UNIT_READERS_CAPTURETESTSUPPORT_H
