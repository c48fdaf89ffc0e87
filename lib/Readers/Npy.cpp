//===- Npy.cpp --------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Npy.h"
#include "Readers/TensorRemarks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include <cstdlib>
#include <cstring>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral Magic("\x93NUMPY");

/// NumPy's own limit. A row-major copy takes time for each dimension.
static constexpr size_t MaxNumpyDimensions = 64;

namespace {
/// The dictionary at the head of an array.
struct Layout {
  std::string Descr; ///< "<f4"; the text of the list for a structured type.
  bool Structured = false;
  bool Fortran = false;
  SmallVector<int64_t, 4> Shape;
};

/// Parses the subset of Python's literals that NumPy writes there:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class LiteralParser {
public:
  explicit LiteralParser(StringRef Text) : Rest(Text) {}

  bool parse(Layout &Out) {
    if (!eat('{'))
      return false;
    bool Descr = false, Order = false, Shape = false;
    while (!eat('}')) {
      std::optional<StringRef> Key = string();
      if (!Key || !eat(':'))
        return false;
      if (*Key == "descr" && (Descr = true)) {
        if (!parseDescr(Out))
          return false;
      } else if (*Key == "fortran_order" && (Order = true)) {
        if (word("True"))
          Out.Fortran = true;
        else if (!word("False"))
          return false;
      } else if (*Key == "shape" && (Shape = true)) {
        if (!parseShape(Out))
          return false;
      } else {
        return false;
      }
      if (!eat(',') && !next('}'))
        return false;
    }
    return Descr && Order && Shape;
  }

private:
  bool next(char C) {
    Rest = Rest.ltrim();
    return Rest.starts_with(StringRef(&C, 1));
  }
  bool eat(char C) {
    if (!next(C))
      return false;
    Rest = Rest.drop_front();
    return true;
  }
  bool word(StringRef Text) {
    Rest = Rest.ltrim();
    return Rest.consume_front(Text);
  }
  std::optional<StringRef> string() {
    Rest = Rest.ltrim();
    if (Rest.empty() || (Rest.front() != '\'' && Rest.front() != '"'))
      return std::nullopt;
    size_t End = Rest.find(Rest.front(), 1);
    if (End == StringRef::npos)
      return std::nullopt;
    StringRef Out = Rest.slice(1, End);
    Rest = Rest.drop_front(End + 1);
    return Out;
  }
  bool parseDescr(Layout &Out) {
    if (!next('[')) {
      std::optional<StringRef> Text = string();
      Out.Descr = Text.value_or("").str();
      return Text.has_value();
    }
    // Fields in brackets; only its text is wanted, for the refusal.
    Out.Structured = true;
    int Depth = 0;
    for (size_t I = 0; I != Rest.size(); ++I) {
      Depth += Rest[I] == '[';
      Depth -= Rest[I] == ']';
      if (Depth == 0) {
        Out.Descr = Rest.take_front(I + 1).str();
        Rest = Rest.drop_front(I + 1);
        return true;
      }
    }
    return false;
  }
  bool parseShape(Layout &Out) {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      int64_t Size;
      Rest = Rest.ltrim();
      if (Rest.consumeInteger(10, Size) || Size < 0)
        return false;
      Rest.consume_front("L"); // Python 2 wrote (3L, 4L)
      Out.Shape.push_back(Size);
      if (!eat(',') && !next(')'))
        return false;
    }
    return true;
  }

  StringRef Rest;
};
} // namespace

static std::optional<DType> dtypeOfDescr(StringRef Descr) {
  return StringSwitch<std::optional<DType>>(Descr)
      .Case("f8", DType::Float64)
      .Case("f4", DType::Float32)
      .Case("f2", DType::Float16)
      .Cases("V2", "bfloat16", DType::BFloat16) // as ml_dtypes writes it
      .Case("float8_e4m3fn", DType::Float8E4M3)
      .Case("float8_e5m2", DType::Float8E5M2)
      .Case("i8", DType::Int64)
      .Case("i4", DType::Int32)
      .Case("i2", DType::Int16)
      .Case("i1", DType::Int8)
      .Case("u8", DType::UInt64)
      .Case("u4", DType::UInt32)
      .Case("u2", DType::UInt16)
      .Case("u1", DType::UInt8)
      .Cases("b1", "?", DType::Bool)
      .Default(std::nullopt);
}

/// Says why arrays of the type \p L cannot be tensors.
static Error refuse(const Layout &L, StringRef Where) {
  std::string Shown = json::fixUTF8(StringRef(L.Descr).take_front(80));
  if (L.Structured)
    return failure(Where + ": the array has the structured dtype " + Shown,
                   "save each field as an array of its own");
  StringRef Kind = StringRef(L.Descr).ltrim("<>|=");
  if (Kind.starts_with("O"))
    return failure(Where + ": the array holds Python objects, which are "
                           "pickled and not read",
                   "convert it before saving: numpy.asarray(x, "
                   "dtype=numpy.float32)");
  if (Kind == "V1" || Kind == "f1")
    return failure(Where + ": the dtype '" + Shown +
                       "' is some 8-bit float, "
                       "but the file does not say which",
                   "save the tensor as safetensors, or as float32");
  StringRef What = Kind.starts_with("c")   ? "complex numbers"
                   : Kind.starts_with("U") ? "text"
                   : Kind.starts_with("S") ? "text"
                   : Kind.starts_with("M") ? "dates"
                   : Kind.starts_with("m") ? "time spans"
                                           : "";
  if (!What.empty())
    return failure(Where + ": the array holds " + What + " (dtype '" + Shown +
                       "')",
                   "only real numbers are analysed");
  return failure(Where + ": the dtype '" + Shown + "' is not known",
                 "save the array as float32 or as an integer type");
}

/// Copies \p From, which lies in column-major order, in row-major order.
template <class T>
static void transpose(const uint8_t *From, ArrayRef<int64_t> Shape, T *To) {
  const size_t Rank = Shape.size();
  SmallVector<int64_t, 8> Stride(Rank), At(Rank);
  int64_t Count = 1;
  for (size_t I = 0; I != Rank; ++I) {
    Stride[I] = Count;
    Count *= Shape[I];
  }
  int64_t Offset = 0;
  for (int64_t Done = 0; Done != Count; ++Done) {
    std::memcpy(To + Done, From + Offset * sizeof(T), sizeof(T));
    // Counts up, the last dimension fastest.
    for (size_t I = Rank; I-- != 0;) {
      Offset += Stride[I];
      if (++At[I] != Shape[I])
        break;
      Offset -= At[I] * Stride[I];
      At[I] = 0;
    }
  }
}

template <class T>
static void rearrange(const uint8_t *From, ArrayRef<int64_t> Shape,
                      int64_t Count, bool Fortran, bool Swap, uint8_t *To) {
  T *Out = reinterpret_cast<T *>(To);
  if (Fortran)
    transpose(From, Shape, Out);
  else
    std::memcpy(Out, From, Count * sizeof(T));
  if (Swap)
    for (int64_t I = 0; I != Count; ++I)
      Out[I] = llvm::byteswap(Out[I]);
}

Expected<TensorView> readNpy(StringRef Bytes, StringRef Where, Source &Into) {
  if (!Bytes.starts_with(Magic))
    return failure(Where + ": is no .npy data: it does not begin with the "
                           "magic \\x93NUMPY",
                   "write it with numpy.save");
  if (Bytes.size() < 10)
    return failure(Where + ": ends before the array's header", CopyAgain);
  unsigned Version = uint8_t(Bytes[6]);
  if (Version < 1 || Version > 3)
    return failure(formatv("{0}: has version {1} of the .npy format; versions "
                           "1 to 3 are known",
                           Where, Version),
                   "the file is damaged, or newer than culprit");
  size_t Start = Version == 1 ? 10 : 12;
  if (Bytes.size() < Start)
    return failure(Where + ": ends before the array's header", CopyAgain);
  uint64_t Length = Version == 1 ? support::endian::read16le(Bytes.data() + 8)
                                 : support::endian::read32le(Bytes.data() + 8);
  if (Length > Bytes.size() - Start)
    return failure(formatv("{0}: the array's header should be {1} bytes long, "
                           "but only {2} follow",
                           Where, Length, Bytes.size() - Start),
                   CopyAgain);
  StringRef Data = Bytes.drop_front(Start + Length);

  Layout L;
  if (!LiteralParser(Bytes.substr(Start, Length)).parse(L))
    return failure(Where + ": the array's header is not the dictionary that "
                           "numpy.save writes",
                   "the file is damaged; copy it again or save it again");
  StringRef Descr = L.Descr;
  bool Big = Descr.consume_front(">");
  if (!Big)
    Descr.consume_front("<") || Descr.consume_front("|") ||
        Descr.consume_front("=");
  std::optional<DType> Type = dtypeOfDescr(Descr);
  if (L.Structured || !Type)
    return refuse(L, Where);

  if (L.Shape.size() > MaxNumpyDimensions)
    return failure(formatv("{0}: the array has {1} dimensions; NumPy knows at "
                           "most {2}",
                           Where, L.Shape.size(), MaxNumpyDimensions),
                   "the file is damaged; copy it again");

  TensorView View;
  View.Type = *Type;
  View.Shape = L.Shape;
  int64_t Needed = sizeOf(*Type);
  bool Overflow = false;
  for (int64_t Dim : L.Shape)
    Overflow |= MulOverflow(Needed, Dim, Needed);
  if (is_contained(L.Shape, 0))
    Needed = 0;
  else if (Overflow)
    return failure(Where + ": the array's shape has more elements than any "
                           "file can hold",
                   "the file is damaged; copy it again");
  if (uint64_t(Needed) > Data.size())
    return failure(formatv("{0}: the array needs {1} bytes, but only {2} "
                           "follow its header",
                           Where, Needed, Data.size()),
                   CopyAgain);
  if (Data.size() > uint64_t(Needed))
    Into.warn(
        formatv("{0}: {1} bytes follow the array", Where, Data.size() - Needed),
        "several arrays in one file? save them with numpy.savez");
  View.Bytes = arrayRefFromStringRef(Data.take_front(Needed));
  const unsigned Size = sizeOf(*Type);
  const int64_t Count = Needed / Size;
  const bool Swap = Big && Size > 1;
  const bool Fortran =
      L.Fortran && count_if(L.Shape, [](int64_t Dim) { return Dim != 1; }) > 1;
  if ((!Swap && !Fortran) || Count == 0)
    return View;

  auto *Copy = static_cast<uint8_t *>(std::malloc(Needed));
  if (!Copy)
    return failure(Where + ": does not fit into memory");
  Into.keepAlive(std::shared_ptr<void>(Copy, std::free));
  const auto Rearrange = Size == 1   ? rearrange<uint8_t>
                         : Size == 2 ? rearrange<uint16_t>
                         : Size == 4 ? rearrange<uint32_t>
                                     : rearrange<uint64_t>;
  Rearrange(View.Bytes.data(), L.Shape, Count, Fortran, Swap, Copy);
  View.Bytes = ArrayRef(Copy, Needed);
  return View;
}

Match NpyReader::matches(const InputFile &File) const {
  return File.head().starts_with(Magic) ? Match::Certain : Match::No;
}

Error NpyReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  Expected<TensorView> View = readNpy(*Contents, File.path(), Into);
  if (!View)
    return View.takeError();
  TensorRecord Record; // the file's name is the tensor's
  Record.Data = std::move(*View);
  Into.addTensor(std::move(Record));
  return Error::success();
}

} // namespace culprit
