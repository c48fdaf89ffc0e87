//===- TextIndex.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TextIndex.h"
#include "KB/Postings.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// Of rows of terms, all that is kept in memory.
static constexpr size_t MaxKnownBytes = 32 << 20;

StringRef indexPartName(IndexPart P) {
  static constexpr StringRef Names[] = {"summary", "lengths", "classes",
                                        "order", "anchors"};
  return Names[static_cast<size_t>(P) - 1];
}

std::string packSummary(const EntryTable &T) {
  std::string Out;
  appendVarint(Out, T.Entries);
  appendVarint(Out, NumFields);
  for (unsigned F = 0; F < NumFields; ++F) {
    appendVarint(Out, T.Sum[F]);
    appendVarint(Out, T.Having[F]);
  }
  appendVarint(Out, T.Long.size());
  for (const LongLength &L : T.Long) {
    appendVarint(Out, L.Entry);
    appendVarint(Out, L.Field);
    appendVarint(Out, L.Terms);
  }
  appendVarint(Out, T.Definitions.size());
  for (unsigned Entry : T.Definitions)
    appendVarint(Out, Entry);
  appendVarint(Out, T.Classes.size());
  for (const std::string &Class : T.Classes) {
    appendVarint(Out, Class.size());
    Out += Class;
  }
  return Out;
}

/// The inverse; false when \p Bytes are no summary.
static bool readSummary(StringRef Bytes, EntryTable &T) {
  ByteReader R(Bytes);
  T.Entries = static_cast<unsigned>(R.varint());
  if (R.varint() != NumFields)
    return false;
  for (unsigned F = 0; F < NumFields; ++F) {
    T.Sum[F] = R.varint();
    T.Having[F] = R.varint();
  }
  for (uint64_t N = R.varint(); N && !R.atEnd(); --N) {
    LongLength L;
    L.Entry = static_cast<uint32_t>(R.varint());
    L.Field = static_cast<uint32_t>(R.varint());
    L.Terms = static_cast<uint32_t>(R.varint());
    T.Long.push_back(L);
  }
  for (uint64_t N = R.varint(); N && !R.atEnd(); --N) {
    T.Definitions.push_back(static_cast<unsigned>(R.varint()));
    if (T.Definitions.back() >= T.Entries)
      return false;
  }
  for (uint64_t N = R.varint(); N && !R.atEnd(); --N) {
    size_t Size = R.varint();
    T.Classes.push_back(R.take(Size).str());
  }
  return R.atEnd() && !T.Classes.empty();
}

TextIndex::TextIndex(IndexData Data)
    : Data(std::move(Data)), HasOrder(true), HasAnchors(true) {}

Expected<TextIndex> TextIndex::open(const Database &D) {
  TextIndex I;
  I.D = &D;
  Expected<Statement> Find =
      D.prepare("SELECT term, entries FROM terms WHERE hash = ?");
  if (!Find)
    return Find.takeError();
  I.FindTerm = std::move(*Find);
  I.ReadPlaces = D.blobs("terms", "places");
  I.ReadPart = D.blobs("index_parts", "data");

  EntryTable &T = I.Data.Table;
  std::string Summary;
  for (auto [P, Into] : {std::pair(IndexPart::Summary, &Summary),
                         std::pair(IndexPart::Lengths, &T.Lengths),
                         std::pair(IndexPart::Classes, &T.ClassOf)})
    if (Error E = I.part(P, *Into))
      return E;
  size_t Width = Summary.empty() || !readSummary(Summary, T) ? 0
                 : T.Classes.size() > 65536                  ? 4
                                                             : 2;
  if (!Width || T.Lengths.size() != size_t(T.Entries) * NumFields ||
      T.ClassOf.size() != T.Entries * Width)
    return failure("the index is damaged");
  return I;
}

Error TextIndex::part(IndexPart P, std::string &Into) const {
  return ReadPart.read(static_cast<int64_t>(P), Into);
}

uint32_t TextIndex::length(unsigned Entry, unsigned Field) const {
  const EntryTable &T = Data.Table;
  uint8_t Length =
      static_cast<uint8_t>(T.Lengths[size_t(Entry) * NumFields + Field]);
  if (Length != EntryTable::LongField)
    return Length;
  auto It = llvm::lower_bound(T.Long, std::pair(Entry, Field),
                              [](const LongLength &L, auto At) {
                                return std::pair(L.Entry, L.Field) < At;
                              });
  return It != T.Long.end() && It->Entry == Entry && It->Field == Field
             ? It->Terms
             : Length;
}

uint32_t TextIndex::classOf(unsigned Entry) const {
  const EntryTable &T = Data.Table;
  uint32_t Class =
      T.ClassOf.size() == size_t(T.Entries) * 2
          ? support::endian::read16le(T.ClassOf.data() + size_t(2) * Entry)
          : support::endian::read32le(T.ClassOf.data() + size_t(4) * Entry);
  return Class < T.Classes.size() ? Class : 0;
}

Expected<uint32_t> TextIndex::order(unsigned Entry) const {
  if (!HasOrder) {
    if (Error E = part(IndexPart::Order, Data.Order))
      return E;
    Data.Order.resize(size_t(4) * Data.Table.Entries);
    HasOrder = true;
  }
  return support::endian::read32le(Data.Order.data() + size_t(4) * Entry);
}

Expected<StringRef> TextIndex::anchors() const {
  if (!HasAnchors) {
    if (Error E = part(IndexPart::Anchors, Data.Anchors))
      return E;
    HasAnchors = true;
  }
  return StringRef(Data.Anchors);
}

Expected<const IndexTerm *> TextIndex::find(StringRef Term) const {
  int64_t Key = firstKey(Term);
  if (!D) {
    auto It = llvm::lower_bound(
        Data.Terms, Key,
        [](const IndexTerm &T, int64_t Key) { return T.Key < Key; });
    for (; It != Data.Terms.end() && It->Key == Key; ++It, ++Key)
      if (It->Text == Term)
        return &*It;
    return nullptr;
  }
  auto [It, New] = Known.try_emplace(Term);
  IndexTerm &T = It->second;
  if (New) {
    if (Error E = read(Term, Key, T)) {
      Known.erase(It);
      return E;
    }
    KnownBytes += T.Places.size() + 2 * Term.size() + sizeof(IndexTerm);
  }
  return T.Entries ? &T : nullptr;
}

/// Reads the row of \p Term, if there is one. Terms of one hash lie behind each
/// other.
Error TextIndex::read(StringRef Term, int64_t Key, IndexTerm &Into) const {
  for (;; ++Key) {
    FindTerm.bind(1, Key);
    Expected<bool> Found = FindTerm.next();
    if (!Found)
      return Found.takeError();
    bool Same = *Found && FindTerm.text(0) == Term;
    if (Same)
      Into.Entries = static_cast<unsigned>(FindTerm.integer(1));
    FindTerm.reset();
    if (Same)
      return ReadPlaces.read(Key, Into.Places);
    if (!*Found)
      return Error::success();
  }
}

void TextIndex::trim() const {
  if (KnownBytes <= MaxKnownBytes)
    return;
  Known.clear();
  KnownBytes = 0;
}

Error TextIndex::addWords(char First, WordCounts &Counts) const {
  std::string From(1, First), To(1, static_cast<char>(First + 1));
  if (!D) {
    auto It = llvm::lower_bound(
        Data.Words, From,
        [](const auto &W, const std::string &From) { return W.first < From; });
    for (; It != Data.Words.end() && It->first < To; ++It)
      Counts[It->first] += It->second;
    return Error::success();
  }
  Expected<Statement> S =
      D->prepare("SELECT word, count FROM words WHERE word >= ? AND word < ?");
  if (!S)
    return S.takeError();
  S->bind(1, From);
  S->bind(2, To);
  while (true) {
    Expected<bool> More = S->next();
    if (!More)
      return More.takeError();
    if (!*More)
      return Error::success();
    Counts[S->text(0)] += static_cast<unsigned>(S->integer(1));
  }
}

} // namespace culprit
