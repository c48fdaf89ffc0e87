//===- Vocabulary.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Vocabulary.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace culprit {

/// Calls \p Each with every line of \p Text and its number, until an error.
static Error forEachLine(StringRef Text,
                         function_ref<Error(StringRef, unsigned)> Each) {
  for (unsigned Number = 1; !Text.empty(); ++Number) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    if (Error E = Each(Line.rtrim("\r"), Number))
      return E;
  }
  return Error::success();
}

static bool inSymptomId(char C) {
  return isLower(C) || isDigit(C) || C == '-';
}

Error Vocabulary::addSymptoms(StringRef Text, StringRef File) {
  std::string Group;
  Text.consume_front("\xef\xbb\xbf"); // of an editor of Windows
  return forEachLine(Text, [&](StringRef Line, unsigned Number) -> Error {
    auto Wrong = [&](const Twine &What, const Twine &Hint) {
      return failure(File + ":" + Twine(Number) + ": " + What, Hint);
    };
    static constexpr StringLiteral Form = "write '- `id`: what was observed'";
    if (Line.consume_front("## "))
      Group = Line.trim().str();
    Line = Line.ltrim();
    if (!Line.consume_front("- ") && !Line.consume_front("* "))
      return Error::success();
    Line = Line.ltrim();
    if (!Line.consume_front("`")) {
      // Any other list is prose, but for what would be a symptom.
      StringRef Id = Line.take_while(inSymptomId);
      if (!Id.empty() && Line.drop_front(Id.size()).starts_with(":"))
        return Wrong("the symptom '" + Id + "' is not in backquotes", Form);
      return Error::success();
    }
    size_t End = Line.find("`:");
    if (End == StringRef::npos)
      return Wrong("a symptom without a description", Form);
    SymptomTerm T{Line.take_front(End).str(),
                  Line.drop_front(End + 2).trim().str(), Group};
    if (T.Id.empty() || !all_of(T.Id, inSymptomId))
      return Wrong("the symptom '" + T.Id +
                       "' has other characters than a-z, 0-9 and -",
                   Form);
    if (T.Text.empty())
      return Wrong("a symptom without a description", Form);
    if (!SymptomIndex.try_emplace(T.Id, Symptoms.size()).second)
      return Wrong("symptom '" + T.Id + "' is defined twice",
                   "'culprit explain " + T.Id +
                       "' tells its meaning; take this line out, or choose "
                       "another name");
    Symptoms.push_back(std::move(T));
    return Error::success();
  });
}

Expected<Vocabulary> Vocabulary::parse(StringRef SymptomsMd,
                                       StringRef ClassesTsv,
                                       StringRef AliasesTsv) {
  Vocabulary V;
  if (Error E = V.addSymptoms(SymptomsMd, "symptoms.md"))
    return E;

  Error E = forEachLine(ClassesTsv, [&](StringRef Line, unsigned Number) -> Error {
    if (Number == 1 || Line.trim().empty() || Line.starts_with("#"))
      return Error::success();
    SmallVector<StringRef, 3> Cells;
    Line.split(Cells, '\t');
    if (Cells.size() < 3 || Cells[1].trim().empty())
      return failure("classes.tsv:" + Twine(Number) + ": " +
                         Twine(Cells.size()) + " columns, expected 3",
                     "layer, class and definition, separated by tabs");
    ClassTerm T{Cells[1].trim().str(), Cells[0].trim().str(),
                Cells[2].trim().str(), Number};
    if (!V.ClassIndex.try_emplace(T.Id, V.Classes.size()).second)
      return failure("classes.tsv:" + Twine(Number) + ": class '" + T.Id +
                     "' is defined twice");
    V.Classes.push_back(std::move(T));
    return Error::success();
  });
  if (E)
    return E;

  E = forEachLine(AliasesTsv, [&](StringRef Line, unsigned Number) -> Error {
    if (Line.trim().empty() || Line.starts_with("#"))
      return Error::success();
    auto [Concept, Rest] = Line.split('\t');
    AliasGroup G{Concept.trim().str(), {}};
    SmallVector<StringRef, 8> Phrases;
    Rest.split(Phrases, '|', -1, false);
    for (StringRef Phrase : Phrases)
      if (!Phrase.trim().empty())
        G.Phrases.push_back(Phrase.trim().str());
    if (G.Concept.empty() || StringRef(G.Concept).contains(' ') ||
        G.Phrases.empty())
      return failure("aliases.tsv:" + Twine(Number) +
                         ": not a group of "
                         "aliases",
                     "a name, a tab, then phrases separated by '|'");
    V.Aliases.push_back(std::move(G));
    return Error::success();
  });
  if (E)
    return E;

  uint64_t Parts[] = {xxh3_64bits(SymptomsMd), xxh3_64bits(ClassesTsv),
                      xxh3_64bits(AliasesTsv)};
  V.Hash = xxh3_64bits(ArrayRef<uint8_t>(
      reinterpret_cast<const uint8_t *>(Parts), sizeof(Parts)));
  return V;
}

Expected<Vocabulary> Vocabulary::load(StringRef Directory) {
  std::unique_ptr<MemoryBuffer> Files[3];
  const char *Names[] = {"symptoms.md", "classes.tsv", "aliases.tsv"};
  for (unsigned I = 0; I < 3; ++I) {
    SmallString<256> Path(Directory);
    sys::path::append(Path, Names[I]);
    ErrorOr<std::unique_ptr<MemoryBuffer>> File = MemoryBuffer::getFile(Path);
    if (File)
      Files[I] = std::move(*File);
    else if (I < 2)
      return failure("cannot read " + Path + ": " + File.getError().message(),
                     "the knowledge base lies in the folder kb of culprit");
  }
  return parse(Files[0]->getBuffer(), Files[1]->getBuffer(),
               Files[2] ? Files[2]->getBuffer() : "");
}

const SymptomTerm *Vocabulary::symptom(StringRef Id) const {
  auto It = SymptomIndex.find(Id);
  return It == SymptomIndex.end() ? nullptr : &Symptoms[It->second];
}

const ClassTerm *Vocabulary::rootCause(StringRef Id) const {
  auto It = ClassIndex.find(Id);
  return It == ClassIndex.end() ? nullptr : &Classes[It->second];
}

std::string Vocabulary::closestSymptom(StringRef Unknown) const {
  std::vector<std::string> Known;
  for (const SymptomTerm &T : Symptoms)
    Known.push_back(T.Id);
  return closestName(Unknown, Known);
}

std::string Vocabulary::closestClass(StringRef Unknown) const {
  std::vector<std::string> Known;
  for (const ClassTerm &T : Classes)
    Known.push_back(T.Id);
  return closestName(Unknown, Known);
}

} // namespace culprit
