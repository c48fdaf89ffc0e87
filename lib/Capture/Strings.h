//===- Strings.h - Names as numbers -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Gives each distinct text a number, in memory of a fixed size that is
/// reserved at the start and used as it fills: no allocation later, since the
/// caller may be inside somebody's malloc.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_STRINGS_H
#define CULPRIT_CAPTURE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

namespace culprit::capture {

/// One thread at a time.
class Strings {
public:
  static constexpr uint32_t MaxStrings = 1u << 20;
  static constexpr size_t MaxBytes = size_t(64) << 20;
  /// What a text beyond the limits becomes.
  static constexpr char FullText[] = "<strings-full>";

  /// False when the address space could not be reserved.
  bool reserve();
  void release();

  struct Named {
    uint32_t Id = 0;
    bool New = false; ///< The text has not been asked for since clear().
  };
  /// The number of \p Text, from 1. Ids stay small and count up; after the
  /// limits, that of FullText.
  Named intern(const char *Text);
  Named intern(const char *Text, size_t Size);

  /// The text of \p Id with its size, for ids given since clear().
  const char *text(uint32_t Id, size_t &Size) const;
  uint32_t size() const { return Count; }
  uint64_t refused() const { return Refused; }

  /// Forgets the texts of ids from \p First on, which are given anew.
  void forgetFrom(uint32_t First);

  /// Forgets all texts, for the start of a new epoch.
  void clear();

private:
  struct Slot {
    uint64_t Hash;
    uint32_t Id; ///< 0 is empty.
    uint32_t Unused;
  };
  struct Place {
    uint32_t Begin, Size;
  };
  Named add(const char *Text, size_t Size, uint64_t Hash, Slot &S);

  char *Bytes = nullptr;
  Slot *Slots = nullptr;   ///< 2 * MaxStrings, open addressing.
  Place *Places = nullptr; ///< By id.
  size_t Used = 0;
  uint32_t Count = 0;
  uint32_t FullId = 0;
  uint64_t Refused = 0;
};

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_STRINGS_H
