//===- Postings.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Postings.h"

using namespace llvm;

namespace culprit {

/// Sets \p Out to the positions in all fields, of the counts and positions
/// \p Own of an entry, as field << 32 | position, ascending.
static void readPositions(StringRef Own, std::vector<uint64_t> &Out) {
  Out.clear();
  ByteReader Counts(Own), R(Own);
  uint8_t Byte;
  do { // Behind the counts.
    Byte = R.byte();
    if (!(Byte >> 5))
      R.varint();
  } while (!(Byte & 16) && !R.atEnd());
  do {
    Byte = Counts.byte();
    if (!(Byte >> 5))
      Counts.varint();
    uint64_t Field = static_cast<uint64_t>(Byte & 15) << 32;
    uint32_t Position = ~0u; // The first step is one more than the position.
    bool More = true;
    while (More && !R.atEnd()) {
      uint64_t Step = R.varint();
      More = (Step & 1) != 0;
      if (Step >> 1) {
        Position += static_cast<uint32_t>(Step >> 1);
        Out.push_back(Field | Position);
      }
    }
  } while (!(Byte & 16) && !R.atEnd());
}

/// Calls \p Each(entry, counts and positions) for all of \p Places.
template <typename Function>
static void forEachEntry(StringRef Places, unsigned Limit, Function Each) {
  ByteReader R(Places);
  uint64_t At = 0;
  while (!R.atEnd()) {
    At += R.varint();
    size_t Size = R.varint();
    if (At >= Limit)
      return; // Damaged.
    Each(static_cast<unsigned>(At), R.take(Size));
  }
}

void PairFinder::find(StringRef First, StringRef Second, unsigned Limit,
                      unsigned Base, std::vector<Posting> &Out) {
  auto Holds = [](const Table &T, StringRef Places) {
    return T.Places.data() == Places.data() && T.Places.size() == Places.size();
  };
  auto Begin = [&](Table &T, StringRef Places) {
    T.Places = Places;
    T.Own.assign(Limit, {0, 0});
  };
  auto Put = [](Table &T, unsigned Entry, StringRef Own) {
    T.Own[Entry] = {static_cast<uint32_t>(Own.data() - T.Places.data()),
                    static_cast<uint32_t>(Own.size())};
  };
  if (!Holds(Tables[0], First)) {
    if (Holds(Tables[1], First)) {
      std::swap(Tables[0], Tables[1]);
    } else {
      Begin(Tables[0], First);
      forEachEntry(First, Limit, [&](unsigned Entry, StringRef Own) {
        Put(Tables[0], Entry, Own);
      });
    }
  }
  Begin(Tables[1], Second);
  forEachEntry(Second, Limit, [&](unsigned Entry, StringRef Own) {
    Put(Tables[1], Entry, Own);
    auto [At, Size] = Tables[0].Own[Entry];
    if (!Size)
      return;
    readPositions(First.substr(At, Size), Before);
    readPositions(Own, Behind);
    bool Found = false;
    auto It = Behind.begin();
    for (uint64_t P : Before) {
      while (It != Behind.end() && *It < P + 1)
        ++It;
      if (It == Behind.end())
        break;
      unsigned Field = static_cast<unsigned>(P >> 32);
      if (*It != P + 1 || Field >= NumFields)
        continue;
      if (!Found)
        Out.push_back({Base + Entry, {}});
      Found = true;
      ++Out.back().Counts[Field];
    }
  });
}

} // namespace culprit
