//===- Decode.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/DecodeFields.h"
#include <string.h>

namespace culprit::capture {

namespace {
/// A Namer as the fields want it.
struct Given {
  const Namer &Names;
  uint32_t text(const char *Text) { return Names.Text(Names.Context, Text); }
  uint32_t call(uint32_t Domain, uint32_t Callback) {
    return Names.Call(Names.Context, Domain, Callback);
  }
  uint32_t shape(const void *Record, size_t Stride) {
    return Names.Shape(Names.Context, Record, Stride);
  }
};
} // namespace

void decodeShape(const void *Record, size_t Stride, LaunchShape &To) {
  struct None {
    uint32_t text(const char *) { return 0; }
  } Ids;
  fields::Source<false, None> S = {static_cast<const uint8_t *>(Record), Stride,
                                   Ids};
  memset(&To, 0, sizeof(To));
#define CAPTURE_SHAPE(Name, Type, Offset, Wide)                                \
  S.read<fields::From::Wide>(To.Name, Offset);
#include "Capture/Records.def"
}

RecordKind decode(const void *From, size_t Stride, const Namer &Names,
                  void *To) {
  uint32_t Activity = 0;
  if (Stride < 2 * sizeof(Activity))
    return RecordKind(0);
  memcpy(&Activity, From, sizeof(Activity));
  RecordKind Kind = recordKind(Activity);
  Given Ids = {Names};
  fields::decode(static_cast<const uint8_t *>(From), Stride, Activity, Kind,
                 Ids, To);
  return Kind;
}

} // namespace culprit::capture
