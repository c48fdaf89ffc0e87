//===- ElfImage.h - A library as it lies in a process -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Segments and dynamic symbols of a 64-bit ELF file that is mapped in a
/// process, read from the process's memory and not from the file. The name in
/// /proc/PID/maps may lead to another file than the mapped one: after an
/// upgrade of the library, in another mount namespace, through an overlay, or
/// not at all when it was deleted. A symbol of the wrong libc would be a call
/// into the middle of something. Dynamic symbols are always in a loaded
/// segment, so memory has all that is needed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_ELFIMAGE_H
#define CULPRIT_ATTACH_ELFIMAGE_H

#include "Attach/Memory.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <vector>

namespace culprit::attach {

class ElfImage {
public:
  struct Segment {
    uint64_t Begin, End; ///< Addresses; End is not rounded to pages.
    uint64_t FileEnd;    ///< End of the bytes that come from the file.
    bool Writable, Executable;
  };
  struct Symbol {
    uint64_t Address;
    uint64_t Size;
    unsigned char Type; ///< STT_*.
  };

  /// The image whose ELF header lies at \p Base. \p Memory must outlive the
  /// image. \p Name is for messages.
  static llvm::Expected<ElfImage> open(const Memory &Memory, uint64_t Base,
                                       llvm::StringRef Name);

  uint16_t machine() const { return Machine; }
  uint16_t type() const { return Type; }
  /// What is added to an address in the file.
  uint64_t bias() const { return Bias; }
  llvm::ArrayRef<Segment> segments() const { return Segments; }
  /// The program that runs it, as "/lib64/ld-linux-x86-64.so.2"; empty when
  /// there is none, which is a static program or a library.
  const std::string &interpreter() const { return Interpreter; }
  bool hasDynamicSection() const { return Dynamic != 0; }
  bool contains(uint64_t Address) const;

  /// Where the process keeps its r_debug according to this image's dynamic
  /// section, 0 when it is not told. Only executables have it.
  uint64_t debugAddress() const { return DebugAddress; }

  /// A defined dynamic symbol; of several versions the default one is not
  /// told apart: they are the same function for the names looked up here.
  std::optional<Symbol> find(llvm::StringRef Name) const;

private:
  explicit ElfImage(const Memory &Memory) : From(&Memory) {}

  void readDynamic(uint64_t Size);
  std::optional<Symbol> symbolAt(uint64_t Index, llvm::StringRef Name) const;
  std::optional<Symbol> findByGnuHash(llvm::StringRef Name) const;
  std::optional<Symbol> findBySysvHash(llvm::StringRef Name) const;

  const Memory *From;
  uint16_t Machine = 0, Type = 0;
  uint64_t Bias = 0;
  std::vector<Segment> Segments;
  std::string Interpreter;
  uint64_t Dynamic = 0;
  uint64_t Symbols = 0, Strings = 0, StringsSize = 0;
  uint64_t GnuHash = 0, SysvHash = 0;
  uint64_t DebugAddress = 0;
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_ELFIMAGE_H
