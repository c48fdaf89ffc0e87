//===- LinkMap.h - What the dynamic linker says of a process ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// r_debug, the protocol between the dynamic linker and debuggers: the loaded
/// objects in the order in which symbols are looked up, and whether the list is
/// being changed just now. A dlopen called while it changes trips an assertion
/// of the linker if the change was cut off, and waits if it was not.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_LINKMAP_H
#define CULPRIT_ATTACH_LINKMAP_H

#include "Attach/ElfImage.h"
#include "Attach/ProcessMaps.h"

namespace culprit::attach {

class LinkMap {
public:
  struct Object {
    uint64_t Bias = 0;
    uint64_t Dynamic = 0; ///< Address of its dynamic section.
    std::string Name;     ///< Empty for the executable.
  };

  /// Finds r_debug by the symbol `_r_debug` of the dynamic linker.
  static llvm::Expected<LinkMap> find(const Memory &Memory,
                                      const ProcessMaps &Maps);
  /// The one at \p Address.
  LinkMap(const Memory &Memory, uint64_t Address)
      : From(&Memory), Address(Address) {}

  uint64_t address() const { return Address; }

  /// Is no namespace's list being changed? A few reads: this is asked while a
  /// thread is stopped. False also when it cannot be read.
  bool isConsistent() const;

  /// The objects of the first namespace. Empty when the list is being changed
  /// or makes no sense.
  std::vector<Object> objects() const;

  /// The definition of \p Name that the process's own calls reach: of the
  /// first object that has one.
  std::optional<ElfImage::Symbol> find(llvm::StringRef Name,
                                       const ProcessMaps &Maps) const;

private:
  const Memory *From;
  uint64_t Address;
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_LINKMAP_H
