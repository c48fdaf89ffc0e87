//===- SafeTensors.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/SafeTensors.h"
#include "Readers/TensorRemarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <simdjson.h>

using namespace llvm;

namespace culprit {

namespace dom = simdjson::dom;

/// The format's own limit for its header.
static constexpr uint64_t MaxHeader = 100'000'000;

namespace {
struct DeclaredTensor {
  StringRef Name; ///< In the JSON document.
  DType Type;
  SmallVector<int64_t, 4> Shape;
  uint64_t Begin, End; ///< In the data after the header.
};

/// What the header tells, and what is wrong with it.
struct Header {
  std::vector<DeclaredTensor> Entries;
  std::optional<int64_t> Step, Rank, Token;
  std::string Variant;
  StringMap<int64_t> Order;
};
} // namespace

static StringRef text(std::string_view View) {
  return {View.data(), View.size()};
}

static std::optional<DType> dtypeOfName(StringRef Name) {
  return StringSwitch<std::optional<DType>>(Name)
      .Case("F64", DType::Float64)
      .Case("F32", DType::Float32)
      .Case("F16", DType::Float16)
      .Case("BF16", DType::BFloat16)
      .Case("F8_E4M3", DType::Float8E4M3)
      .Case("F8_E5M2", DType::Float8E5M2)
      .Case("F8_E4M3FNUZ", DType::Float8E4M3FNUZ)
      .Case("F8_E5M2FNUZ", DType::Float8E5M2FNUZ)
      .Case("F8_E8M0", DType::Float8E8M0)
      .Case("C64", DType::Float32)
      .Case("I64", DType::Int64)
      .Case("I32", DType::Int32)
      .Case("I16", DType::Int16)
      .Case("I8", DType::Int8)
      .Case("U64", DType::UInt64)
      .Case("U32", DType::UInt32)
      .Case("U16", DType::UInt16)
      .Case("U8", DType::UInt8)
      .Case("BOOL", DType::Bool)
      .Default(std::nullopt);
}

/// Reads the entry \p Name into \p Out. Returns what is wrong with it, as the
/// end of the sentence "tensor 'x' ...", or an empty string.
static std::string readEntry(StringRef Name, dom::element Value,
                             DeclaredTensor &Out) {
  dom::object Fields;
  if (Value.get(Fields))
    return "is not described by a JSON object";
  std::string_view TypeName;
  if (Fields["dtype"].get(TypeName))
    return "has no dtype";
  std::optional<DType> Type = dtypeOfName(text(TypeName));
  if (!Type)
    return ("has the dtype " + printableName(text(TypeName)) +
            ", which culprit does not know");
  dom::array Shape, Offsets;
  if (Fields["shape"].get(Shape))
    return "has no shape";
  if (Fields["data_offsets"].get(Offsets))
    return "has no data_offsets";
  Out.Name = Name;
  Out.Type = *Type;
  int64_t Bytes = sizeOf(*Type);
  bool Empty = false, Overflow = false;
  for (dom::element Dim : Shape) {
    uint64_t Size;
    if (Dim.get(Size) || Size > uint64_t(INT64_MAX))
      return "has a shape that is not a list of sizes";
    Empty |= Size == 0;
    Overflow |= MulOverflow(Bytes, int64_t(Size), Bytes);
    Out.Shape.push_back(int64_t(Size));
  }
  if (text(TypeName) == "C64") {
    // As torch.view_as_real has it: the last dimension is the two parts.
    Overflow |= MulOverflow(Bytes, int64_t(2), Bytes);
    Out.Shape.push_back(2);
  }
  if (Empty)
    Bytes = 0;
  else if (Overflow)
    return "has more elements than any file can hold";
  if (Offsets.size() != 2 || Offsets.at(0).get(Out.Begin) ||
      Offsets.at(1).get(Out.End) || Out.End < Out.Begin)
    return "has data_offsets that are not a begin and an end";
  if (Out.End - Out.Begin != uint64_t(Bytes))
    return formatv("needs {0} bytes by its shape but has {1} by its "
                   "data_offsets",
                   Bytes, Out.End - Out.Begin);
  return "";
}

/// A number of the metadata, whose values are strings by the format's rules
/// but numbers in the files of some writers.
static std::optional<int64_t> number(dom::element Value) {
  int64_t Out;
  std::string_view View;
  if (!Value.get(Out))
    return Out;
  if (!Value.get(View) && !text(View).trim().getAsInteger(10, Out))
    return Out;
  return std::nullopt;
}

static void readMetadata(dom::element Value, Header &Out, Source &Into) {
  dom::object Fields;
  if (Value.get(Fields))
    return;
  for (dom::key_value_pair Field : Fields) {
    StringRef Key = text(Field.key);
    if (Key == "step" || Key == "global_step" || Key == "iteration")
      Out.Step = number(Field.value);
    else if (Key == "rank")
      Out.Rank = number(Field.value);
    else if (Key == "token")
      Out.Token = number(Field.value);
    std::string_view View;
    if (Field.value.get(View))
      continue;
    if (Key == "variant")
      Out.Variant = text(View).str();
    if (Key != "order")
      continue;
    dom::parser Parser;
    dom::array Names;
    if (Parser.parse(View.data(), View.size()).get(Names)) {
      Into.warn(Into.path() + ": \"order\" in the metadata is not a JSON list",
                "the order of the data in the file is taken instead");
      continue;
    }
    int64_t Position = 0;
    for (dom::element Element : Names) {
      std::string_view Name;
      if (!Element.get(Name))
        Out.Order.try_emplace(text(Name), Position);
      ++Position;
    }
  }
}

/// Drops entries whose data reach into that of an earlier one: at most one of
/// the two can be right.
static void dropOverlaps(std::vector<DeclaredTensor> &Entries,
                         SkippedTensors &Skip) {
  stable_sort(Entries, [](const DeclaredTensor &A, const DeclaredTensor &B) {
    return std::tie(A.Begin, A.End) < std::tie(B.Begin, B.End);
  });
  uint64_t End = 0;
  StringRef Before;
  erase_if(Entries, [&](const DeclaredTensor &E) {
    if (E.Begin == E.End)
      return false;
    if (E.Begin < End) {
      Skip.tensor(E.Name,
                  "shares bytes with '" + printableName(Before) + "'");
      return true;
    }
    End = E.End;
    Before = E.Name;
    return false;
  });
}

Match SafeTensorsReader::matches(const InputFile &File) const {
  // A header length, and JSON where it begins. Text never has four zero bytes
  // there; a length beyond the format's limit is a broken file, still told
  // by its name.
  StringRef Head = File.head();
  if (Head.size() < 9 || Head[8] != '{')
    return Match::No;
  uint64_t Length = support::endian::read64le(Head.data());
  StringRef Name = File.path();
  Name.consume_back(".gz");
  Name.consume_back(".zst");
  if (Length >> 32 == 0 || Name.ends_with(".safetensors"))
    return Match::Certain;
  return Match::No;
}

std::vector<NamedBytes> safeTensorNames(StringRef Contents) {
  std::vector<NamedBytes> Out;
  if (Contents.size() < 8)
    return Out;
  uint64_t Length = support::endian::read64le(Contents.data());
  dom::parser Parser;
  dom::object Root;
  if (Length > Contents.size() - 8 || Length > MaxHeader ||
      Parser.parse(Contents.data() + 8, Length).get(Root))
    return Out;
  for (dom::key_value_pair Field : Root) {
    dom::array Offsets;
    uint64_t Begin, End;
    if (text(Field.key) != "__metadata__" &&
        !Field.value["data_offsets"].get(Offsets) && Offsets.size() == 2 &&
        !Offsets.at(0).get(Begin) && !Offsets.at(1).get(End) && Begin <= End)
      Out.push_back({text(Field.key).str(), End - Begin});
  }
  return Out;
}

Error SafeTensorsReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Path = File.path();
  if (Contents->size() < 8)
    return failure(Path + ": ends before the header", CopyAgain);
  uint64_t Length = support::endian::read64le(Contents->data());
  if (Length > Contents->size() - 8)
    return failure(formatv("{0}: the header should be {1} bytes long, but the "
                           "file ends {2} bytes after its length",
                           Path, Length, Contents->size() - 8),
                   CopyAgain);
  if (Length > MaxHeader)
    return failure(formatv("{0}: the header is {1} bytes long, beyond the "
                           "format's limit of {2}",
                           Path, Length, MaxHeader),
                   "the file is damaged or no safetensors file");
  const StringRef Data = Contents->drop_front(8 + Length);

  dom::parser Parser;
  dom::object Root;
  simdjson::error_code Code =
      Parser.parse(Contents->data() + 8, Length).get(Root);
  if (Code)
    return failure(Path + ": the header is not a JSON object: " +
                       StringRef(simdjson::error_message(Code)).rtrim('.'),
                   "the file is damaged; copy it again or write it with "
                   "safetensors.torch.save_file");

  Header Told;
  SkippedTensors Skip(Into);
  StringSet<> Seen;
  uint64_t Beyond = 0, Total = 0, Needed = 0;
  std::string FirstBeyond;
  for (dom::key_value_pair Field : Root) {
    StringRef Name = text(Field.key);
    if (Name == "__metadata__") {
      readMetadata(Field.value, Told, Into);
      continue;
    }
    ++Total;
    DeclaredTensor E;
    std::string Wrong = readEntry(Name, Field.value, E);
    if (Wrong.empty() && !Seen.insert(Name).second)
      Wrong = "is described twice";
    if (!Wrong.empty()) {
      Skip.tensor(Name, Wrong);
    } else if (E.End > Data.size()) {
      Needed = std::max(Needed, E.End);
      if (Beyond++ == 0)
        FirstBeyond = printableName(Name);
    } else {
      Told.Entries.push_back(std::move(E));
    }
  }
  if (Beyond)
    Into.warn(formatv("{0}: the file ends after {1} of {2} bytes; {3} of {4} "
                      "tensors lie beyond the end, '{5}' first",
                      Path, Contents->size(), Needed + 8 + Length, Beyond,
                      Total, FirstBeyond),
              CopyAgain);
  dropOverlaps(Told.Entries, Skip);

  int64_t Position = 0;
  for (DeclaredTensor &E : Told.Entries) {
    TensorRecord Record;
    Record.Name = E.Name.str();
    Record.Data.Type = E.Type;
    Record.Data.Shape = std::move(E.Shape);
    Record.Data.Bytes = arrayRefFromStringRef(Data.slice(E.Begin, E.End));
    Record.Step = Told.Step;
    Record.Rank = Told.Rank;
    Record.Token = Told.Token;
    Record.Variant = Told.Variant;
    if (Told.Order.empty())
      Record.Order = Position;
    else if (auto It = Told.Order.find(E.Name); It != Told.Order.end())
      Record.Order = It->second;
    ++Position;
    Into.addTensor(std::move(Record));
  }
  return Error::success();
}

} // namespace culprit
