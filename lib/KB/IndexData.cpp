//===- IndexData.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The entries are indexed in chunks, each by one thread: the uses of terms are
/// sorted by term with a counting sort and packed. The packed pieces of a term
/// are then joined in the order of chunks.
///
//===----------------------------------------------------------------------===//

#include "KB/IndexData.h"
#include "KB/Analyzer.h"
#include "KB/FragmentIndex.h"
#include "KB/Postings.h"
#include "KB/Speller.h"
#include "KB/TermList.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/xxhash.h"
#include <atomic>
#include <numeric>
#include <thread>

using namespace llvm;

namespace culprit {

/// Entries that one thread takes at a time.
static constexpr size_t ChunkSize = 1024;

int64_t firstKey(StringRef Term) {
  return static_cast<int64_t>(xxh3_64bits(Term) >> 1);
}

bool isDefinition(const Entry &E) {
  return E.Symptom.empty() && E.Title == E.RootCause;
}

unsigned indexThreads(size_t Entries) {
  unsigned Cores = std::max(1u, std::thread::hardware_concurrency());
  size_t Chunks = (Entries + ChunkSize - 1) / ChunkSize;
  return static_cast<unsigned>(
      std::min<size_t>(Cores - 1, Chunks ? Chunks - 1 : 0));
}

namespace {

/// A term in an entry of a chunk.
struct Use {
  uint32_t Term, Entry, Position;
  uint8_t Field;
};

/// The packed places of a term in a chunk, less the number of its first entry.
struct Segment {
  uint32_t Term;
  uint32_t First, Last, Entries;
  size_t Begin, End; ///< Of its bytes among those of the chunk.
};

struct Chunk {
  unsigned Worker = 0;
  std::vector<Segment> Segments;
  std::string Places;
  std::vector<LongLength> Long;
  std::array<uint64_t, NumFields> Sum = {}, Having = {};
};

/// What a thread keeps between chunks.
struct Worker {
  explicit Worker(const Analyzer &A) : Lister(A) {}
  TermLister Lister;
  WordCounts Words;
  std::vector<TermUse> List;
  std::vector<Use> Uses, Sorted;
  std::vector<uint32_t> Begin;
};

} // namespace

/// Packs \p Uses, all of one term, by entry, field and position.
static void pack(ArrayRef<Use> Uses, Chunk &Into) {
  Segment S;
  S.Term = Uses.front().Term;
  S.First = Uses.front().Entry;
  S.Last = S.First;
  S.Entries = 0;
  S.Begin = Into.Places.size();
  std::string Counts, Positions;
  for (size_t I = 0; I < Uses.size();) {
    uint32_t Entry = Uses[I].Entry;
    if (S.Entries++) // The first is known when the segments are joined.
      appendVarint(Into.Places, Entry - S.Last);
    S.Last = Entry;
    Counts.clear();
    Positions.clear();
    bool Positioned = false;
    while (I < Uses.size() && Uses[I].Entry == Entry) {
      uint8_t Field = Uses[I].Field;
      size_t Begin = I;
      uint32_t Before = ~0u;
      uint64_t Pending = 0;
      for (; I < Uses.size() && Uses[I].Entry == Entry &&
             Uses[I].Field == Field;
           ++I) {
        if (Uses[I].Position == TermUse::NoPosition)
          continue;
        if (Pending)
          appendVarint(Positions, Pending | 1);
        Pending = static_cast<uint64_t>(Uses[I].Position - Before) << 1;
        Before = Uses[I].Position;
      }
      appendVarint(Positions, Pending);
      Positioned |= Pending != 0;
      size_t Count = I - Begin;
      bool Last = I == Uses.size() || Uses[I].Entry != Entry;
      uint8_t Byte = Field | (Last ? 16 : 0);
      if (Count < 8) {
        Counts += static_cast<char>(Byte | (Count << 5));
      } else {
        Counts += static_cast<char>(Byte);
        appendVarint(Counts, Count - 8);
      }
    }
    if (Positioned)
      Counts += Positions;
    appendVarint(Into.Places, Counts.size());
    Into.Places += Counts;
  }
  S.End = Into.Places.size();
  Into.Segments.push_back(S);
}

struct IndexBuilder::State {
  State(std::vector<const Entry *> E, const Vocabulary &V)
      : Entries(std::move(E)), V(V), A(V),
        Chunks((Entries.size() + ChunkSize - 1) / ChunkSize) {
    static_assert(NumFields <= 16, "a field has four bits");
    Data.Table.Entries = static_cast<unsigned>(Entries.size());
    Data.Table.Lengths.resize(Entries.size() * NumFields);
  }

  /// Indexes chunks until there are none left.
  void work(unsigned Index) {
    Worker &W = *Workers[Index];
    for (size_t C; (C = Next.fetch_add(1)) < Chunks.size();) {
      Chunks[C].Worker = Index;
      index(C, W);
    }
  }

  void index(size_t C, Worker &W) {
    Chunk &Into = Chunks[C];
    W.Uses.clear();
    size_t End = std::min(Entries.size(), (C + 1) * ChunkSize);
    for (size_t I = C * ChunkSize; I < End; ++I)
      entry(static_cast<uint32_t>(I), W, Into);

    W.Begin.assign(W.Lister.size() + 1, 0);
    for (const Use &U : W.Uses)
      ++W.Begin[U.Term + 1];
    std::partial_sum(W.Begin.begin(), W.Begin.end(), W.Begin.begin());
    W.Sorted.resize(W.Uses.size());
    for (const Use &U : W.Uses)
      W.Sorted[W.Begin[U.Term]++] = U;
    // Begin is now where each term ends.
    uint32_t Last = 0;
    for (uint32_t End : W.Begin) {
      if (End > Last)
        pack(ArrayRef<Use>(W.Sorted).slice(Last, End - Last), Into);
      Last = std::max(Last, End);
    }
  }

  void entry(uint32_t Index, Worker &W, Chunk &Into) {
    const Entry &E = *Entries[Index];
    std::array<std::string, NumFields> Texts = fieldTexts(E, V);
    for (unsigned F = 0; F < NumFields; ++F) {
      if (Texts[F].empty())
        continue;
      W.Lister.list(Texts[F], W.List);
      uint32_t Length = static_cast<uint32_t>(W.List.size());
      uint32_t Before = TermUse::NoPosition;
      for (const TermUse &T : W.List) {
        W.Uses.push_back({T.Term, Index, T.Position, static_cast<uint8_t>(F)});
        if (T.Position == TermUse::NoPosition)
          continue;
        // A pair is a term of the field too.
        Length += Before != TermUse::NoPosition && T.Position == Before + 1;
        Before = T.Position;
      }
      if (!Length)
        continue;
      Into.Sum[F] += Length;
      ++Into.Having[F];
      if (Length >= EntryTable::LongField)
        Into.Long.push_back({Index, F, Length});
      Data.Table.Lengths[size_t(Index) * NumFields + F] = static_cast<char>(
          std::min<uint32_t>(Length, EntryTable::LongField));
    }
    countWords(E, W.Words);
  }

  void join();
  void classes();
  void order();
  void words();

  std::vector<const Entry *> Entries;
  const Vocabulary &V;
  Analyzer A;
  std::vector<Chunk> Chunks;
  std::vector<std::unique_ptr<Worker>> Workers;
  std::vector<std::thread> Threads;
  std::atomic<size_t> Next = 0;
  IndexData Data;
};

/// Joins the segments of each term over all chunks.
void IndexBuilder::State::join() {
  // The terms of all threads by key and text.
  struct Name {
    int64_t Key;
    StringRef Text;
    unsigned Worker;
    uint32_t Term;
  };
  std::vector<Name> Names;
  std::vector<std::vector<uint32_t>> Global(Workers.size());
  for (unsigned W = 0; W < Workers.size(); ++W) {
    const TermLister &L = Workers[W]->Lister;
    Global[W].resize(L.size());
    for (uint32_t T = 0; T < L.size(); ++T)
      Names.push_back({firstKey(L.term(T)), L.term(T), W, T});
  }
  llvm::sort(Names, [](const Name &A, const Name &B) {
    return std::tie(A.Key, A.Text, A.Worker) <
           std::tie(B.Key, B.Text, B.Worker);
  });
  std::vector<IndexTerm> &Terms = Data.Terms;
  for (const Name &N : Names) {
    if (Terms.empty() || Terms.back().Text != N.Text) {
      IndexTerm &T = Terms.emplace_back();
      T.Text = N.Text.str();
      T.Key = N.Key;
      if (Terms.size() > 1)
        T.Key = std::max(T.Key, Terms[Terms.size() - 2].Key + 1);
    }
    Global[N.Worker][N.Term] = static_cast<uint32_t>(Terms.size() - 1);
  }

  // A list of its segments for each term, in the order of chunks.
  struct Link {
    const Chunk *C;
    const Segment *S;
  };
  std::vector<uint32_t> Begin(Terms.size() + 1);
  for (const Chunk &C : Chunks)
    for (const Segment &S : C.Segments)
      ++Begin[Global[C.Worker][S.Term] + 1];
  std::partial_sum(Begin.begin(), Begin.end(), Begin.begin());
  std::vector<Link> Links(Begin.back());
  std::vector<uint32_t> At(Begin.begin(), Begin.end() - 1);
  for (const Chunk &C : Chunks)
    for (const Segment &S : C.Segments)
      Links[At[Global[C.Worker][S.Term]]++] = {&C, &S};

  for (size_t T = 0; T < Terms.size(); ++T) {
    ArrayRef<Link> Own =
        ArrayRef<Link>(Links).slice(Begin[T], Begin[T + 1] - Begin[T]);
    std::string &Out = Terms[T].Places;
    size_t Size = 0;
    for (const Link &L : Own)
      Size += L.S->End - L.S->Begin + 5;
    Out.reserve(Size);
    uint32_t Last = 0;
    for (const Link &L : Own) {
      appendVarint(Out, L.S->First - Last);
      Out.append(L.C->Places, L.S->Begin, L.S->End - L.S->Begin);
      Last = L.S->Last;
      Terms[T].Entries += L.S->Entries;
    }
  }
}

void IndexBuilder::State::classes() {
  EntryTable &T = Data.Table;
  StringMap<uint32_t> Known;
  Known[""] = 0;
  T.Classes.push_back("");
  std::vector<uint32_t> Of;
  for (size_t I = 0; I < Entries.size(); ++I) {
    auto [It, New] =
        Known.try_emplace(Entries[I]->Class, uint32_t(T.Classes.size()));
    if (New)
      T.Classes.push_back(Entries[I]->Class);
    Of.push_back(It->second);
    if (isDefinition(*Entries[I]))
      T.Definitions.push_back(static_cast<unsigned>(I));
  }
  unsigned Width = T.Classes.size() > 65536 ? 4 : 2;
  for (uint32_t C : Of)
    for (unsigned Byte = 0; Byte < Width; ++Byte)
      T.ClassOf += static_cast<char>(C >> (8 * Byte));
}

void IndexBuilder::State::order() {
  std::vector<uint32_t> ById(Entries.size());
  std::iota(ById.begin(), ById.end(), 0);
  llvm::stable_sort(ById, [&](uint32_t A, uint32_t B) {
    return Entries[A]->Id < Entries[B]->Id;
  });
  Data.Order.resize(4 * Entries.size());
  for (uint32_t Rank = 0; Rank < ById.size(); ++Rank)
    for (unsigned Byte = 0; Byte < 4; ++Byte)
      Data.Order[size_t(4) * ById[Rank] + Byte] =
          static_cast<char>(Rank >> (8 * Byte));
}

void IndexBuilder::State::words() {
  WordCounts All;
  for (const std::unique_ptr<Worker> &W : Workers)
    for (const auto &Item : W->Words)
      All[Item.first()] += Item.second;
  for (const auto &Item : All)
    Data.Words.emplace_back(Item.first().str(), Item.second);
  llvm::sort(Data.Words);
}

IndexBuilder::IndexBuilder(std::vector<const Entry *> Entries,
                           const Vocabulary &V, unsigned Threads)
    : S(std::make_unique<State>(std::move(Entries), V)) {
  for (unsigned I = 0; I <= Threads; ++I)
    S->Workers.push_back(std::make_unique<Worker>(S->A));
  for (unsigned I = 1; I <= Threads; ++I)
    S->Threads.emplace_back([State = S.get(), I] { State->work(I); });
}

IndexBuilder::~IndexBuilder() {
  S->Next = S->Chunks.size();
  for (std::thread &T : S->Threads)
    if (T.joinable())
      T.join();
}

IndexData IndexBuilder::finish() {
  S->Data.Anchors = fragmentAnchors(S->Entries);
  S->order();
  S->classes();
  S->work(0);
  for (std::thread &T : S->Threads)
    T.join();
  for (const Chunk &C : S->Chunks) {
    append_range(S->Data.Table.Long, C.Long);
    for (unsigned F = 0; F < NumFields; ++F) {
      S->Data.Table.Sum[F] += C.Sum[F];
      S->Data.Table.Having[F] += C.Having[F];
    }
  }
  S->join();
  S->words();
  return std::move(S->Data);
}

IndexData buildIndex(std::vector<const Entry *> Entries, const Vocabulary &V) {
  unsigned Threads = indexThreads(Entries.size());
  return IndexBuilder(std::move(Entries), V, Threads).finish();
}

} // namespace culprit
