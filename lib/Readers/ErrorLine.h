//===- ErrorLine.h - What a line with an error says besides -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the device that an error names, and time stamps that other lines do
/// not need: those without a year, and dmesg -T's.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_ERRORLINE_H
#define CULPRIT_READERS_ERRORLINE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

/// The device in the text of an error: the PCI address behind "PCI:" or "GPU ",
/// in lower case and without the function 0 that not every line has
/// ("0000:9b:00"), or the index in "GPU 3 has a total capacity"; empty for
/// none.
std::string deviceIn(llvm::StringRef Text);

/// The year of a Unix time, UTC.
int yearOf(double Unix);

/// Unix time, UTC, of the stamps of glog ("[E321 02:07:08.408 Foo.cpp:607]",
/// "E0321 02:07:08.408", also behind "[rank3]:") and syslog ("Mar 21 02:07:08
/// node kernel:"), which leave the year out, in \p Year; and of dmesg -T
/// ("[Sat Mar 21 02:07:08 2026]"), which has its own.
std::optional<double> stampWithoutYear(llvm::StringRef Text, int Year);

/// Whether \p Message, behind "TimeoutError: ", counts none: 0, none, no.
bool isCountOfNone(llvm::StringRef Message);

} // namespace culprit

#endif // CULPRIT_READERS_ERRORLINE_H
