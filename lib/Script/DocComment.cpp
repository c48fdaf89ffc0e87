//===- DocComment.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/DocComment.h"

using namespace llvm;

namespace culprit {

std::vector<DocSection> readDoc(StringRef Source) {
  std::vector<DocSection> Sections;
  Source.consume_front("\xef\xbb\xbf"); // of an editor of Windows
  while (!Source.empty()) {
    auto [Line, Rest] = Source.split('\n');
    Source = Rest;
    Line = Line.rtrim();
    if (!Line.consume_front("---") || Line.starts_with("@"))
      break; // the type annotation, or code
    Line.consume_front(" ");
    StringRef Heading = Line;
    if (Heading.consume_front("## "))
      Sections.push_back({Heading.trim().str(), ""});
    else if (!Sections.empty())
      Sections.back().Text += Line.str() + "\n";
    else if (!Line.empty())
      Sections.push_back({"", Line.str() + "\n"});
  }
  for (DocSection &Section : Sections)
    Section.Text = StringRef(Section.Text).trim().str();
  return Sections;
}

} // namespace culprit
