//===- EntryTitle.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryTitle.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

StringRef findDate(StringRef Text) {
  static constexpr StringRef Form = "dddd-dd-dd";
  for (size_t I = 0; I + Form.size() <= Text.size(); ++I) {
    StringRef Part = Text.substr(I, Form.size());
    bool Fits = true;
    for (size_t K = 0; K < Form.size(); ++K)
      Fits &= Form[K] == 'd' ? isDigit(Part[K]) : Part[K] == '-';
    if (Fits)
      return Part;
  }
  return {};
}

std::string takeStatus(std::string &Title) {
  StringRef T = StringRef(Title).trim();
  StringRef Status;
  if (T.starts_with("[")) {
    std::tie(Status, T) = T.drop_front().split(']');
  } else if (T.ends_with("]")) {
    std::tie(T, Status) = T.drop_back().rsplit('[');
  }
  bool IsWord =
      !Status.empty() && Status.size() <= 20 && all_of(Status, [](char C) {
        return isAlpha(C) || C == ' ' || C == '-' || C == '\'' || C == '_';
      });
  if (!IsWord || T.trim().empty())
    return {};
  std::string Upper = Status.trim().upper();
  Title = T.trim(" :").str();
  return Upper;
}

StringRef firstClause(StringRef Title) {
  for (size_t I = 0; I < Title.size(); ++I) {
    StringRef Rest = Title.drop_front(I);
    bool Ends = Rest.starts_with(": ") || Rest.starts_with(", ") ||
                Rest.starts_with("; ") || Rest.starts_with(" (") ||
                Rest.starts_with(" - ") || Rest.starts_with(" – ") ||
                Rest.starts_with(" — ");
    if (Ends && Title.take_front(I).count(' ') >= 2)
      return Title.take_front(I);
  }
  return Title;
}

} // namespace culprit
