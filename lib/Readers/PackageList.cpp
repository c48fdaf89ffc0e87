//===- PackageList.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/PackageList.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"
#include <optional>

using namespace llvm;

namespace culprit {

namespace {
struct Package {
  StringRef Name, Version;
};
} // namespace

static bool isPackageName(StringRef Name) {
  return !Name.empty() && isAlnum(Name[0]) && Name.find_if_not([](char C) {
    return isAlnum(C) || C == '-' || C == '_' || C == '.';
  }) == StringRef::npos;
}

/// name==version, name[extra]==version, or name @ file:///... of pip freeze.
static std::optional<Package> parsePackage(StringRef Line) {
  Line = Line.split(" #").first.split(';').first.trim();
  size_t At = Line.find("==");
  StringRef Name = Line.take_front(At).split('[').first.trim();
  if (At != StringRef::npos && isPackageName(Name)) {
    StringRef Version = Line.drop_front(At).ltrim("= ");
    if (!Version.empty() && !Version.contains(' '))
      return Package{Name, Version};
    return std::nullopt;
  }
  auto [Left, Url] = Line.split(" @ ");
  if (!Url.empty() && isPackageName(Left))
    return Package{Left, Url};
  return std::nullopt;
}

/// A row of `pip list`: two words, of which the second begins with a digit.
static std::optional<Package> parseListed(StringRef Line) {
  auto [Name, Rest] = Line.trim().split(' ');
  StringRef Version = Rest.ltrim().split(' ').first;
  if (!isPackageName(Name) || Version.empty() || !isDigit(Version[0]))
    return std::nullopt;
  return Package{Name, Version};
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
    Packages += parsePackage(Line).has_value();
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
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    std::optional<Package> P = Listed ? parseListed(Line) : parsePackage(Line);
    if (!P)
      return true;
    T.addRow();
    T.set(packages::name, P->Name);
    T.set(packages::version, P->Version);
    T.set(packages::place, Number);
    return true;
  });
  return Error::success();
}

} // namespace culprit
