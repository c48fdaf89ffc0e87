//===- SchemaText.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/SchemaText.h"
#include <string.h>

namespace culprit::capture {

static void addField(SchemaText &To, const char *Name, FieldType Type,
                     size_t Offset) {
  SchemaField &F = To.Fields[To.Head.Fields++];
  F = {};
  strncpy(F.Name, Name, sizeof(F.Name) - 1);
  F.Type = Type;
  F.Offset = static_cast<uint32_t>(Offset);
}

// Names and counts are checked where they are made, not where they are read.
#define CAPTURE_RECORD(Id, Number, Text)                                       \
  static_assert(sizeof(Text) <= sizeof(SchemaHead::Name));                     \
  static constexpr unsigned Fields##Id = 0
#define CAPTURE_FIELD(Id, Name, Type, Offset, From) +1
#define CAPTURE_DERIVED(Id, Name, Type) +1
#define CAPTURE_RECORD_END(Id)                                                 \
  ;                                                                            \
  static_assert(Fields##Id <= SchemaText::MaxFields);
#include "Capture/Records.def"

bool schemaText(RecordKind Kind, SchemaText &To) {
  To.Head = {};
  switch (Kind) {
#define CAPTURE_RECORD(Id, Number, Text)                                       \
  case RecordKind::Id: {                                                       \
    using Record = Id##Record;                                                 \
    To.Head.Size = sizeof(Record);                                             \
    strncpy(To.Head.Name, Text, sizeof(To.Head.Name) - 1);
#define CAPTURE_FIELD(Id, Name, Type, Offset, From)                            \
  addField(To, #Name, FieldType::Type, offsetof(Record, Name));
#define CAPTURE_DERIVED(Id, Name, Type)                                        \
  addField(To, #Name, FieldType::Type, offsetof(Record, Name));
#define CAPTURE_RECORD_END(Id)                                                 \
  return true;                                                                 \
  }
#include "Capture/Records.def"
  }
  return false;
}

} // namespace culprit::capture
