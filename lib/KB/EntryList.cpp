//===- EntryList.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/EntryList.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <iterator>

using namespace llvm;

namespace culprit {

Expected<std::unique_ptr<EntrySource>> EntrySource::open(StringRef Path,
                                                         const Vocabulary &V) {
  Expected<OpenedStore> Store = openStore(Path, V);
  if (!Store)
    return Store.takeError();
  if (!Store->IndexFits) {
    Expected<std::vector<LogFile>> Files = readStore(Store->D);
    if (!Files)
      return Files.takeError();
    return inMemory(std::move(*Files), V);
  }
  auto S = std::make_unique<EntrySource>();
  S->D = std::make_unique<Database>(std::move(Store->D));
  Expected<TextIndex> Index = TextIndex::open(*S->D);
  if (!Index)
    return failure(Path + ": " + toString(Index.takeError()),
                   "rebuild it with 'culprit kb build'");
  S->Index.emplace(std::move(*Index));
  return S;
}

std::unique_ptr<EntrySource> EntrySource::inMemory(std::vector<LogFile> Files,
                                                   const Vocabulary &V) {
  auto S = std::make_unique<EntrySource>();
  for (LogFile &F : Files)
    std::move(F.Entries.begin(), F.Entries.end(), std::back_inserter(S->Held));
  std::vector<const Entry *> Entries;
  for (const Entry &E : S->Held)
    Entries.push_back(&E);
  S->Index.emplace(buildIndex(std::move(Entries), V));
  return S;
}

Expected<EntryReader *> EntrySource::reader() const {
  if (!Reader) {
    Expected<EntryReader> New = EntryReader::open(*D);
    if (!New)
      return New.takeError();
    Reader.emplace(std::move(*New));
  }
  return &*Reader;
}

Expected<Entry> EntrySource::read(unsigned Row) const {
  if (!D)
    return Held[Row];
  Expected<EntryReader *> R = reader();
  if (!R)
    return R.takeError();
  return (*R)->read(Row);
}

Expected<std::vector<Entry>> EntrySource::takeAll() {
  if (!D)
    return std::move(Held);
  Expected<std::vector<LogFile>> Files = readStore(*D);
  if (!Files)
    return Files.takeError();
  std::vector<Entry> Out;
  for (LogFile &F : *Files)
    std::move(F.Entries.begin(), F.Entries.end(), std::back_inserter(Out));
  if (Out.size() != size())
    return failure(D->name() + ": the store is damaged",
                   "rebuild it with 'culprit kb build'");
  return Out;
}

Expected<std::string> EntrySource::id(unsigned Row) const {
  if (!D)
    return Held[Row].Id;
  Expected<EntryReader *> R = reader();
  if (!R)
    return R.takeError();
  return (*R)->id(Row);
}

Expected<std::vector<unsigned>> EntrySource::withId(StringRef Id) const {
  if (D) {
    Expected<EntryReader *> R = reader();
    if (!R)
      return R.takeError();
    return (*R)->rows(Id);
  }
  if (HeldIds.empty())
    for (auto [I, E] : enumerate(Held))
      HeldIds[E.Id].push_back(static_cast<unsigned>(I));
  auto It = HeldIds.find(Id);
  return It == HeldIds.end() ? std::vector<unsigned>() : It->second;
}

Expected<std::string> EntrySource::fragment(unsigned Row,
                                            unsigned Fragment) const {
  if (D) {
    Expected<EntryReader *> R = reader();
    if (!R)
      return R.takeError();
    return (*R)->fragment(Row, Fragment);
  }
  const std::vector<std::string> &Log = Held[Row].LogFragments;
  return Fragment < Log.size() ? Log[Fragment] : std::string();
}

void EntryList::add(std::unique_ptr<EntrySource> S) {
  unsigned Entries = S->size();
  Parts.push_back({std::move(S), Size});
  Size += Entries;
}

const EntryList::Part &EntryList::partOf(unsigned I) const {
  return *std::prev(llvm::upper_bound(
      Parts, I, [](unsigned I, const Part &P) { return I < P.First; }));
}

Expected<const Entry *> EntryList::entry(unsigned I) const {
  if (HasAll)
    return &All[I];
  if (auto It = Single.find(I); It != Single.end())
    return It->second.get();
  const Part &P = partOf(I);
  Expected<Entry> E = P.Source->read(I - P.First);
  if (!E)
    return E.takeError();
  Expected<std::string> Id = id(I, E->Id);
  if (!Id)
    return Id.takeError();
  E->Id = std::move(*Id);
  return (Single[I] = std::make_unique<Entry>(std::move(*E))).get();
}

Expected<ArrayRef<Entry>> EntryList::all() const {
  if (HasAll)
    return ArrayRef<Entry>(All);
  // Those that can fail first, as the others are then gone from their source.
  std::vector<std::vector<Entry>> Lists(Parts.size());
  for (bool InMemory : {false, true})
    for (auto [I, P] : enumerate(Parts)) {
      if (P.Source->isInMemory() != InMemory)
        continue;
      Expected<std::vector<Entry>> Own = P.Source->takeAll();
      if (!Own)
        return Own.takeError();
      Lists[I] = std::move(*Own);
    }
  StringMap<unsigned> Taken; // With the number that was tried last.
  All.reserve(Size);
  for (std::vector<Entry> &Own : Lists) {
    for (Entry &E : Own) {
      auto [It, New] = Taken.try_emplace(E.Id, 1);
      if (!New) {
        std::string Id = E.Id;
        // What lies between was taken before and still is.
        unsigned &Number = It->second;
        do
          E.Id = Id + "-" + std::to_string(++Number);
        while (!Taken.try_emplace(E.Id, 1).second);
      }
      All.push_back(std::move(E));
    }
    Own = {};
  }
  HasAll = true;
  return ArrayRef<Entry>(All);
}

Expected<std::string> EntryList::fragment(unsigned I, unsigned Fragment) const {
  if (HasAll) {
    const std::vector<std::string> &Log = All[I].LogFragments;
    return Fragment < Log.size() ? Log[Fragment] : std::string();
  }
  const Part &P = partOf(I);
  return P.Source->fragment(I - P.First, Fragment);
}

Expected<std::vector<unsigned>> EntryList::withId(StringRef Id,
                                                  unsigned Before) const {
  std::vector<unsigned> Out;
  for (const Part &P : Parts) {
    if (P.First >= Before)
      break;
    Expected<std::vector<unsigned>> Rows = P.Source->withId(Id);
    if (!Rows)
      return Rows.takeError();
    for (unsigned Row : *Rows)
      if (P.First + Row < Before)
        Out.push_back(P.First + Row);
  }
  return Out;
}

/// Whether an entry before \p Before has the id \p Id in this list: either its
/// own, or one that it was given as its own was taken.
Expected<bool> EntryList::isTaken(StringRef Id, unsigned Before) const {
  Expected<std::vector<unsigned>> Own = withId(Id, Before);
  if (!Own)
    return Own.takeError();
  if (!Own->empty())
    return true; // If that entry was renamed, another one has it.
  auto [Base, Number] = Id.rsplit('-');
  if (Base.empty() || Number.empty() || Number.front() == '0' ||
      !all_of(Number, isDigit))
    return false;
  Expected<std::vector<unsigned>> Same = withId(Base, Before);
  if (!Same)
    return Same.takeError();
  for (unsigned I : ArrayRef<unsigned>(*Same)) {
    Expected<std::string> Renamed = id(I, Base.str());
    if (!Renamed)
      return Renamed.takeError();
    if (*Renamed == Id)
      return true;
  }
  return false;
}

/// The id of the entry \p I, in whose source it is \p Given.
Expected<std::string> EntryList::id(unsigned I,
                                    const std::string &Given) const {
  // All at once where a log has the same title again and again.
  static constexpr size_t Many = 50;
  if (auto It = Ids.find(I); It != Ids.end())
    return It->second;
  Expected<std::vector<unsigned>> Same = withId(Given, I);
  if (!Same)
    return Same.takeError();
  if (Same->size() > Many) {
    if (Expected<ArrayRef<Entry>> Entries = all(); !Entries)
      return Entries.takeError();
    return All[I].Id;
  }
  std::string Id = Given;
  for (unsigned Number = 2;; ++Number) {
    Expected<bool> Taken = isTaken(Id, I);
    if (!Taken)
      return Taken.takeError();
    if (!*Taken)
      return Ids[I] = Id;
    Id = Given + "-" + std::to_string(Number);
  }
}

Expected<bool> EntryList::idBefore(unsigned A, unsigned B) const {
  if (HasAll)
    return All[A].Id < All[B].Id;
  const Part &Left = partOf(A), &Right = partOf(B);
  if (&Left == &Right) {
    Expected<uint32_t> First = Left.Source->index().order(A - Left.First);
    if (!First)
      return First.takeError();
    Expected<uint32_t> Second = Right.Source->index().order(B - Right.First);
    if (!Second)
      return Second.takeError();
    return *First < *Second;
  }
  Expected<std::string> First = Left.Source->id(A - Left.First);
  if (!First)
    return First.takeError();
  Expected<std::string> Second = Right.Source->id(B - Right.First);
  if (!Second)
    return Second.takeError();
  return std::pair(*First, A) < std::pair(*Second, B);
}

} // namespace culprit
