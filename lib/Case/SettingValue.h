//===- SettingValue.h - When two settings say the same ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Values of configurations as their meaning has them: 3e-4 is 0.0003, True is
/// true, bf16 is torch.bfloat16, and a list is compared element by element.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_SETTINGVALUE_H
#define CULPRIT_CASE_SETTINGVALUE_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace culprit {

/// Whether \p Value says that there is none: empty, null, None, ~.
bool isUnsetValue(llvm::StringRef Value);

/// \p Value as a finite number, with _ between digits allowed.
std::optional<double> settingNumber(llvm::StringRef Value);

/// Whether \p A and \p B mean the same. With \p AsSet the order of a list and
/// how often an element stands in it do not matter, and one value is a list of
/// one. Texts of more than 64 bytes, as chat templates, are compared byte by
/// byte, shorter ones without regard to case.
bool sameSettingValue(llvm::StringRef A, llvm::StringRef B, bool AsSet = false);

/// Of a duration with its unit behind it, "30s" or "500 ms", the seconds; none
/// for a mere number.
std::optional<double> settingSeconds(llvm::StringRef Value);

/// The factor that takes a number under key \p Plain to seconds, where the
/// key's end names a unit: 0.001 for request_timeout_ms. 1 for any other.
double unitOfKey(llvm::StringRef Plain);

} // namespace culprit

#endif // CULPRIT_CASE_SETTINGVALUE_H
