//===- GgufHeader.h - Bytes of a GGUF header --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A cursor over the header of a GGUF file that never leaves it, and the sizes
/// of ggml's types. Counts in a header are claims: nothing is allocated by
/// them, and a walk ends where the bytes do.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GGUFHEADER_H
#define CULPRIT_READERS_GGUFHEADER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"
#include <optional>
#include <string>

namespace culprit {

/// Types of metadata, by their number in the file.
enum class GgufType : uint32_t {
  UInt8, Int8, UInt16, Int16, UInt32, Int32, Float32, Bool, String, Array,
  UInt64, Int64, Float64
};
constexpr uint32_t NumGgufTypes = 13;

/// A type of a tensor: so many elements in so many bytes.
struct GgmlType {
  llvm::StringRef Name; ///< "float16", "q4_K".
  unsigned Elements, Bytes;
};

/// The type of that number; none when it is not known.
std::optional<GgmlType> ggmlType(uint32_t Number);

/// Reads on in \p Bytes. Once something does not fit, ok() is false for good
/// and every read gives zero or an empty text. Not thread-safe.
class GgufCursor {
public:
  GgufCursor(llvm::StringRef Bytes, size_t Offset)
      : Bytes(Bytes), At(Offset) {}

  bool ok() const { return Good; }
  size_t offset() const { return At; }

  template <typename T> T number() {
    if (!room(sizeof(T)))
      return T();
    T Out = llvm::support::endian::read<T, llvm::endianness::little>(
        Bytes.data() + At);
    At += sizeof(T);
    return Out;
  }
  llvm::StringRef text();
  /// A scalar or a text as text; empty for an array, which stays unread.
  std::string scalar(GgufType Type);
  /// Skips \p Count values, arrays in arrays to a few levels.
  void skip(GgufType Type, uint64_t Count, unsigned Depth = 0);

private:
  bool room(uint64_t Wanted);

  llvm::StringRef Bytes;
  size_t At;
  bool Good = true;
};

/// One entry of the metadata. For an array, Type is that of its elements.
struct GgufEntry {
  llvm::StringRef Key;
  GgufType Type;
  std::optional<uint64_t> Count; ///< Elements of an array.
  size_t Offset;                 ///< Of the value or of the first element.
};

/// Calls \p Each with up to \p Count entries until it returns false. True when
/// all were there; the cursor then stands behind them.
bool forEachEntry(GgufCursor &In, uint64_t Count,
                  llvm::function_ref<bool(const GgufEntry &)> Each);

} // namespace culprit

#endif // CULPRIT_READERS_GGUFHEADER_H
