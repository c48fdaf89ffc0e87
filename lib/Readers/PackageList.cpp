//===- PackageList.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/PackageList.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static bool isPackageName(StringRef Name) {
  return !Name.empty() && isAlnum(Name[0]) && Name.find_if_not([](char C) {
    return isAlnum(C) || C == '-' || C == '_' || C == '.';
  }) == StringRef::npos;
}

/// name[extra]==version too.
std::optional<PinnedPackage> pinnedPackage(StringRef Line) {
  Line = Line.split(" #").first.split(';').first.trim();
  size_t At = Line.find("==");
  StringRef Name = Line.take_front(At).split('[').first.trim();
  if (At != StringRef::npos && isPackageName(Name)) {
    StringRef Version = Line.drop_front(At).ltrim("= ");
    if (!Version.empty() && !Version.contains(' '))
      return PinnedPackage{Name, Version};
    return std::nullopt;
  }
  auto [Left, Url] = Line.split(" @ ");
  if (!Url.empty() && isPackageName(Left))
    return PinnedPackage{Left, Url};
  return std::nullopt;
}

/// A row of `pip list`: two words, of which the second begins with a digit.
static std::optional<PinnedPackage> parseListed(StringRef Line) {
  auto [Name, Rest] = Line.trim().split(' ');
  StringRef Version = Rest.ltrim().split(' ').first;
  if (!isPackageName(Name) || Version.empty() || !isDigit(Version[0]))
    return std::nullopt;
  return PinnedPackage{Name, Version};
}

static bool isPipList(StringRef Text) {
  StringRef First = Text.take_until([](char C) { return C == '\n'; });
  return First.starts_with("Package ") && First.contains("Version");
}

Match PackageListReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (isPipList(Head))
    return Match::Likely;
  unsigned Lines = 0, Packages = 0;
  bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    Line = Line.trim();
    if (Line.empty() || Line.starts_with("#") || Line.starts_with("-"))
      return true;
    ++Lines;
    Packages += pinnedPackage(Line).has_value();
    return Lines < 200;
  });
  return Packages && Packages * 5 > Lines * 4 ? Match::Likely : Match::No;
}

Error PackageListReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  bool Listed = isPipList(*Text);
  TableBuilder &T = Into.table(TableId::packages);
  const StringId Path = Into.pool().intern(Into.path());
  const StringId Run = Into.pool().intern(Into.Run);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    std::optional<PinnedPackage> P =
        Listed ? parseListed(Line) : pinnedPackage(Line);
    if (!P)
      return true;
    T.addRow();
    T.set(packages::name, P->Name);
    T.set(packages::version, P->Version);
    T.set(packages::place, Number);
    T.setId(packages::source, Path);
    T.setId(packages::run, Run);
    return true;
  });
  return Error::success();
}

} // namespace culprit
