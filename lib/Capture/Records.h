//===- Records.h - The records of a capture as structs ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One struct a kind of record, made of Records.def: `KernelRecord` and so on.
/// The agent writes arrays of them; a reader casts to them where the schema in
/// the file is the same, and else goes by the schema.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_RECORDS_H
#define CULPRIT_CAPTURE_RECORDS_H

#include "Capture/Format.h"

namespace culprit::capture {

namespace types {
using U8 = uint8_t;
using U16 = uint16_t;
using U32 = uint32_t;
using U64 = uint64_t;
using I32 = int32_t;
using I64 = int64_t;
using F64 = double;
using String = uint32_t; ///< Id of a string; 0 is none.
} // namespace types

enum class RecordKind : uint16_t {
#define CAPTURE_RECORD(Id, Number, Name) Id = Number,
#include "Capture/Records.def"
};
inline constexpr unsigned MaxRecordKind = 18;

#define CAPTURE_RECORD(Id, Number, Name)                                       \
  struct alignas(8) Id##Record {                                               \
    static constexpr RecordKind Kind = RecordKind::Id;
#define CAPTURE_FIELD(Id, Name, Type, Offset, From) types::Type Name;
#define CAPTURE_DERIVED(Id, Name, Type) types::Type Name;
#define CAPTURE_RECORD_END(Id)                                                 \
  }                                                                            \
  ;
#include "Capture/Records.def"

/// How a kernel was launched; in the file, a string of these bytes. A string
/// of another version is shorter or longer: what it lacks is 0.
struct LaunchShape {
#define CAPTURE_SHAPE(Name, Type, Offset, From) types::Type Name;
#include "Capture/Records.def"
};

/// The largest record.
constexpr size_t largestRecord() {
  size_t Most = 0;
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  Most = Most < sizeof(Id##Record) ? sizeof(Id##Record) : Most;
#include "Capture/Records.def"
  return Most;
}
inline constexpr size_t MaxRecordSize = largestRecord();

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_RECORDS_H
