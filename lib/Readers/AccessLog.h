//===- AccessLog.h - Access logs of web servers -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the access log of nginx or Apache into `requests`, a row a line. The
/// lines of application servers stand between other lines; the reader of text
/// logs has those.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_ACCESSLOG_H
#define CULPRIT_READERS_ACCESSLOG_H

#include "Readers/Reader.h"

namespace culprit {

class AccessLogReader : public Reader {
public:
  llvm::StringRef name() const override { return "access log"; }
  llvm::StringRef about() const override {
    return "access log of nginx or Apache in the common or combined format";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_ACCESSLOG_H
