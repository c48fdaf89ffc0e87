//===- DecodeFields.h - From CUPTI's records to ours, inline ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The copying of fields, as a template over who gives the ids of names: where
/// that is known to the compiler, a record becomes a few moves.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_DECODEFIELDS_H
#define CULPRIT_CAPTURE_DECODEFIELDS_H

#include "Capture/Decode.h"

namespace culprit::capture::fields {

/// How wide a field is where CUPTI has it.
struct From {
  using U8 = uint8_t;
  using U16 = uint16_t;
  using U32 = uint32_t;
  using U64 = uint64_t;
  using I32 = int32_t;
  using I64 = int64_t;
  using String = const char *;
};

/// Where a record has its fields. \p Whole says that it has all of them, which
/// saves half of the time. \p Names has text(), call() and shape() as Namer.
template <bool Whole, typename Names> struct Source {
  const uint8_t *Record;
  size_t Stride;
  Names &Ids;

  template <typename Wide, typename Narrow>
  void read(Narrow &To, size_t Offset) const {
    Wide Value = {};
    if (Whole || Offset + sizeof(Wide) <= Stride)
      memcpy(&Value, Record + Offset, sizeof(Wide));
    assign(To, Value);
  }
  template <typename Narrow, typename Wide>
  void assign(Narrow &To, Wide Value) const {
    To = static_cast<Narrow>(Value);
  }
  void assign(uint32_t &To, const char *Value) const {
    To = Value ? Ids.text(Value) : 0;
  }
};

#define CAPTURE_RECORD(Id, Number, Name)                                       \
  template <bool Whole, typename Names>                                        \
  void fill(const Source<Whole, Names> &S, Id##Record &To) {
#define CAPTURE_FIELD(Id, Name, Type, Offset, Wide)                            \
  S.template read<From::Wide>(To.Name, Offset);
#define CAPTURE_RECORD_END(Id) }
#include "Capture/Records.def"

/// Where the last field of the newest layout ends.
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  constexpr size_t endOf##Id() {                                               \
    size_t End = 0;
#define CAPTURE_FIELD(Id, Name, Type, Offset, Wide)                            \
  End = End < Offset + sizeof(From::Wide) ? Offset + sizeof(From::Wide) : End;
#define CAPTURE_RECORD_END(Id)                                                 \
  return End;                                                                  \
  }
#include "Capture/Records.def"

/// As capture::decode(), with \p Activity and \p Kind known to be those of
/// \p Record.
template <typename Names>
inline void decode(const uint8_t *Record, size_t Stride, uint32_t Activity,
                   RecordKind Kind, Names &Ids, void *To) {
  switch (Kind) {
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  case RecordKind::Id:                                                         \
    /* Padding too, so that equal records are equal bytes. */                  \
    memset(To, 0, sizeof(Id##Record));                                         \
    if (Stride >= endOf##Id())                                                 \
      fill(Source<true, Names>{Record, Stride, Ids},                           \
           *static_cast<Id##Record *>(To));                                    \
    else                                                                       \
      fill(Source<false, Names>{Record, Stride, Ids},                          \
           *static_cast<Id##Record *>(To));                                    \
    break;
#include "Capture/Records.def"
  default:
    return;
  }
  if (Kind == RecordKind::Kernel)
    static_cast<KernelRecord *>(To)->shape = Ids.shape(Record, Stride);
  if (Kind == RecordKind::Call) {
    CallRecord &Call = *static_cast<CallRecord *>(To);
    Call.domain = Activity == activity::Driver ? 1 : 2;
    Call.name = Ids.call(Call.domain, Call.callback);
  }
}

} // namespace culprit::capture::fields

#endif // CULPRIT_CAPTURE_DECODEFIELDS_H
