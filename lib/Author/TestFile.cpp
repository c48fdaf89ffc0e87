//===- TestFile.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestFile.h"
#include "Author/TestReader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

using namespace llvm;

namespace culprit {

const ExpectedField *ExpectedReport::find(StringRef Key) const {
  for (const ExpectedField &F : Fields)
    if (F.Key == Key)
      return &F;
  return nullptr;
}

StringRef ExpectedReport::symptom() const {
  const ExpectedField *F = find("symptom");
  return F ? StringRef(F->Text) : StringRef();
}

std::optional<WrittenNumber> WrittenNumber::parse(StringRef Text) {
  WrittenNumber Out;
  if (Text.empty() || Text.getAsDouble(Out.Value))
    return std::nullopt;
  // What a sum of doubles may be off by.
  Out.Tolerance = std::fabs(Out.Value) * 1e-9;
  StringRef Mantissa =
      Text.take_until([](char C) { return C == 'e' || C == 'E'; });
  size_t Point = Mantissa.find('.');
  if (Point == StringRef::npos)
    return Out;
  int Exponent = 0;
  if (Mantissa.size() < Text.size())
    Text.drop_front(Mantissa.size() + 1).ltrim('+').getAsInteger(10, Exponent);
  int Decimals = static_cast<int>(Mantissa.size() - Point - 1);
  Out.Tolerance += 0.5 * std::pow(10.0, Exponent - Decimals);
  return Out;
}

bool WrittenNumber::matches(double Other) const {
  return Value == Other || std::fabs(Value - Other) <= Tolerance ||
         (std::isnan(Value) && std::isnan(Other));
}

/// Whether \p Text has commands of lit, none of them for `culprit test`.
static bool isLitTest(StringRef Text) {
  bool Any = false;
  for (StringRef Line : split(Text, '\n')) {
    size_t At = Line.find("RUN:");
    if (At == StringRef::npos)
      continue;
    Any = true;
    if (Line.substr(At).contains("culprit test "))
      return false;
  }
  return Any;
}

/// Whether \p Text has nothing but comments.
static bool isEmptyDocument(StringRef Text) {
  for (StringRef Line : split(Text, '\n')) {
    Line = Line.trim();
    if (!Line.empty() && !Line.starts_with("#"))
      return false;
  }
  return true;
}

TestFile parseTestFile(StringRef Path, StringRef Text) {
  TestFile Out;
  Out.Path = Path.str();
  Out.IsLitTest = isLitTest(Text);
  if (Out.IsLitTest)
    return Out;
  // Documents are read one by one, so that a mistake in one leaves the others.
  size_t Begin = 0;
  unsigned Line = 1, FirstLine = 1;
  TestReader Reader(Out);
  auto Take = [&](size_t End) {
    StringRef Document = Text.slice(Begin, End);
    if (!isEmptyDocument(Document))
      Reader.read(Document, FirstLine);
  };
  for (size_t At = 0; At < Text.size(); ++Line) {
    size_t End = std::min(Text.find('\n', At), Text.size());
    if (Text.slice(At, End).rtrim() == "---") {
      Take(At);
      Begin = std::min(End + 1, Text.size());
      FirstLine = Line + 1;
    }
    At = End + 1;
  }
  Take(Text.size());
  if (Out.Cases.empty() && Out.Mistakes.empty())
    Out.Mistakes.push_back(
        {Severity::Error, Out.Path + ": no case in it",
         "a case is a document with name, case and expect; docs/case-format.md "
         "shows one"});
  return Out;
}

Expected<TestFile> readTestFile(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Text =
      MemoryBuffer::getFile(Path, /*IsText=*/true);
  if (!Text)
    return failure(Path + ": " + Text.getError().message(),
                   "give the .test of a detector");
  return parseTestFile(Path, (*Text)->getBuffer());
}

} // namespace culprit
