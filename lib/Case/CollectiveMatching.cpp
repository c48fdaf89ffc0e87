//===- CollectiveMatching.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One list of records a rank and group. The longest list is the reference and
// every other list is paired with it, so that a group of n ranks takes n - 1
// pairings. How good a pairing is shows in the times of leaving: the ranks
// leave a collective together, so the differences are one clock offset plus
// microseconds. Example, stops in us, rank 1 without its first record:
//
//   rank 0   100  250  310  520  800        by number:  -150 -60 -210 -280
//   rank 1        250  310  520  800        shifted:       0   0    0    0
//
// The scatter (median deviation from the median) says it without knowing the
// offset. Where steps are as regular as a clock, the numbers are kept.
//
//===----------------------------------------------------------------------===//

#include "Case/CollectiveMatching.h"
#include "llvm/ADT/STLExtras.h"
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

using namespace llvm;

namespace culprit {

/// Times of leaving that differ by less than this always agree.
constexpr int64_t Tolerance = 50'000;
/// A pairing with less scatter than this needs no second opinion.
constexpr int64_t GoodScatter = 20'000;
/// A lag has to be this much better, beyond a factor, to be preferred to one
/// nearer to 0: times of profilers have microseconds.
constexpr int64_t ClearlyLess = 2'000;
/// A pairing of which less than this part is consistent was no pairing: these
/// are records of different runs.
constexpr double LeastConsistent = 0.3;
/// Records tried on either side to get back in step after a lost one.
constexpr size_t MaxSkip = 64;
constexpr int64_t MaxLag = 4096;
constexpr int64_t LagSample = 128;

bool leavesTogether(StringRef Op) {
  return Op == "all_reduce" || Op == "all_gather" || Op == "reduce_scatter" ||
         Op == "all_to_all" || Op == "barrier" || Op == "send_recv" ||
         Op.empty();
}

static bool isPointToPoint(StringRef Op) {
  return Op == "send" || Op == "recv";
}

/// Whether the ranks may move different numbers of bytes in \p Op.
static bool mayDifferInBytes(StringRef Op) {
  return Op == "all_to_all" || Op == "send_recv" || Op == "gather" ||
         Op == "scatter" || Op.empty();
}

namespace {

/// What all records of one sequence share.
struct Key {
  bool Timed;
  int64_t World, From, To; ///< From and To: ends of a send, else NullInt.
  StringRef Group;
  ArrayRef<int64_t> Members;

  bool operator<(const Key &O) const {
    auto Head = [](const Key &K) {
      return std::tie(K.Timed, K.World, K.From, K.To, K.Group);
    };
    if (Head(*this) != Head(O))
      return Head(*this) < Head(O);
    return std::lexicographical_compare(Members.begin(), Members.end(),
                                        O.Members.begin(), O.Members.end());
  }
};

using List = std::vector<uint32_t>; ///< Positions in the records.
using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

class Pairing {
public:
  Pairing(ArrayRef<CollectiveRecord> All, const List &A, const List &B)
      : All(All), A(A), B(B) {}

  /// Positions in A and B that are the same collective, ascending in A.
  Pairs find() const {
    Pairs ByNumber = byNumber();
    if (trusted(ByNumber))
      return consistent(ByNumber, ByNumber.size(), /*Numbered=*/true);
    Pairs ByOrder = byOrder();
    std::optional<int64_t> Numbered = scatter(ByNumber),
                           Ordered = scatter(ByOrder);
    if (!ByNumber.empty() && agreement(ByNumber) >= 0.9 &&
        (!Ordered || !Numbered || 3 * *Ordered + GoodScatter >= *Numbered))
      return consistent(ByNumber, ByNumber.size(), /*Numbered=*/true);
    return consistent(ByOrder, std::min(A.size(), B.size()),
                      /*Numbered=*/false);
  }

private:
  const CollectiveRecord &a(size_t I) const { return All[A[I]]; }
  const CollectiveRecord &b(size_t I) const { return All[B[I]]; }

  /// Whether the two records may be of one collective by what they say.
  static bool alike(const CollectiveRecord &X, const CollectiveRecord &Y) {
    bool BothEnds = isPointToPoint(X.Op) && isPointToPoint(Y.Op);
    if (X.Op != Y.Op && !BothEnds)
      return false;
    return X.Bytes == NullInt || Y.Bytes == NullInt || X.Bytes == Y.Bytes ||
           mayDifferInBytes(X.Op);
  }
  int64_t lead(size_t I, size_t J) const { return a(I).Stop - b(J).Stop; }
  /// Whether the times of leaving fit a clock offset of \p Offset within
  /// \p Slack.
  bool inTime(size_t I, size_t J, int64_t Offset, int64_t Slack) const {
    return !a(I).timed() || !leavesTogether(a(I).Op) ||
           std::abs(lead(I, J) - Offset) <= Slack;
  }
  /// What a pair that agrees in its number may be off by: half of the stay.
  int64_t numberedSlack(size_t I, size_t J) const {
    int64_t Stay = std::min(a(I).Stop - a(I).Start, b(J).Stop - b(J).Start);
    return std::max(Tolerance, a(I).timed() ? Stay / 2 : 0);
  }

  Pairs byNumber() const {
    std::map<std::pair<StringRef, int64_t>, std::deque<uint32_t>> Waiting;
    auto key = [](const CollectiveRecord &R) {
      return std::pair(isPointToPoint(R.Op) ? StringRef("send") : R.Op, R.Seq);
    };
    for (uint32_t J = 0; J != B.size(); ++J)
      if (b(J).Seq != NullInt)
        Waiting[key(b(J))].push_back(J);
    Pairs Out;
    for (uint32_t I = 0; I != A.size(); ++I) {
      auto It = Waiting.find(key(a(I)));
      if (a(I).Seq == NullInt || It == Waiting.end() || It->second.empty())
        continue;
      Out.push_back({I, It->second.front()});
      It->second.pop_front();
    }
    return Out;
  }

  /// Lines the lists up by their best lag, then walks both and steps over
  /// records that only one of them has.
  Pairs byOrder() const {
    std::optional<int64_t> Lag = bestLag();
    if (!Lag)
      return {};
    // The lag may be that after a lost record: begin somewhat before it.
    constexpr int64_t Before = MaxSkip / 2;
    size_t I = std::max<int64_t>(0, *Lag - Before),
           J = std::max<int64_t>(0, -*Lag - Before);
    int64_t Offset = median(leads(window(*Lag)));
    // Half of a long stay would let the neighbour in: order has nothing but
    // the times, so they must agree as well as they do where it fits best.
    int64_t Slack = orderedSlack(*Lag);
    auto fits = [&](size_t X, size_t Y) {
      return X < A.size() && Y < B.size() && alike(a(X), b(Y)) &&
             inTime(X, Y, Offset, Slack);
    };
    // One pair may agree by accident; two in a row back in step do not.
    auto inStep = [&](size_t X, size_t Y) {
      bool Last = X + 1 >= A.size() || Y + 1 >= B.size();
      return fits(X, Y) && (Last || fits(X + 1, Y + 1));
    };
    Pairs Out;
    while (I < A.size() && J < B.size()) {
      for (size_t Skip = 0, Found = 0; Skip <= MaxSkip && !Found; ++Skip)
        for (size_t D = 0; D <= Skip && !Found; ++D)
          if (Skip ? inStep(I + D, J + Skip - D) : fits(I, J)) {
            I += D;
            J += Skip - D;
            Found = 1;
          }
      if (fits(I, J)) {
        Out.push_back({static_cast<uint32_t>(I), static_cast<uint32_t>(J)});
        if (a(I).timed()) // clocks drift: follow slowly
          Offset += (lead(I, J) - Offset) / 8;
      }
      ++I;
      ++J;
    }
    return Out;
  }

  int64_t orderedSlack(int64_t Lag) const {
    return std::clamp<int64_t>(8 * scatter(window(Lag)).value_or(0), Tolerance,
                               20 * Tolerance);
  }

  /// Pairs at the begin of the overlap of the lists, A ahead by \p Lag.
  Pairs window(int64_t Lag) const {
    int64_t I = std::max<int64_t>(0, Lag), J = I - Lag;
    Pairs Out;
    for (; I < int64_t(A.size()) && J < int64_t(B.size()) &&
           int64_t(Out.size()) < LagSample;
         ++I, ++J)
      Out.push_back({static_cast<uint32_t>(I), static_cast<uint32_t>(J)});
    return Out;
  }

  /// The lag at which the lists agree best, and among those that agree alike
  /// the one with the least scatter; the nearest to 0 among equals.
  std::optional<int64_t> bestLag() const {
    int64_t Shorter = std::min(A.size(), B.size());
    int64_t NeededOverlap = std::max<int64_t>(1, (Shorter + 1) / 2);
    std::optional<int64_t> Best;
    double BestAgreement = 0;
    int64_t BestScatter = 0;
    auto consider = [&](int64_t Lag) {
      int64_t First = std::max<int64_t>(0, Lag);
      int64_t Last = std::min<int64_t>(A.size(), int64_t(B.size()) + Lag);
      if (Last - First < NeededOverlap)
        return;
      Pairs P = window(Lag);
      double Agreement = agreement(P);
      int64_t Scatter = scatter(P).value_or(INT64_MAX / 4);
      bool Better =
          !Best || Agreement > BestAgreement + 0.1 ||
          (Agreement > BestAgreement - 0.1 &&
           3 * Scatter + ClearlyLess < BestScatter);
      if (Agreement < 0.5 || !Better)
        return;
      Best = Lag;
      BestAgreement = Agreement;
      BestScatter = Scatter;
    };
    consider(0);
    int64_t Reach = std::min<int64_t>(MaxLag, std::max(A.size(), B.size()));
    for (int64_t D = 1; D <= Reach; ++D) {
      consider(D);
      consider(-D);
    }
    return Best;
  }

  double agreement(const Pairs &P) const {
    size_t Same = llvm::count_if(
        P, [&](auto IJ) { return alike(a(IJ.first), b(IJ.second)); });
    return P.empty() ? 0 : double(Same) / P.size();
  }

  std::vector<int64_t> leads(const Pairs &P) const {
    std::vector<int64_t> Out;
    for (auto [I, J] : P)
      if (a(I).timed() && leavesTogether(a(I).Op) && alike(a(I), b(J)))
        Out.push_back(lead(I, J));
    return Out;
  }
  static int64_t median(std::vector<int64_t> Values) {
    if (Values.empty())
      return 0;
    auto Middle = Values.begin() + Values.size() / 2;
    std::nth_element(Values.begin(), Middle, Values.end());
    return *Middle;
  }
  /// Median deviation of the clock offsets that the pairs ask for; none for
  /// fewer than three.
  std::optional<int64_t> scatter(const Pairs &P) const {
    std::vector<int64_t> Leads = leads(P);
    if (Leads.size() < 3)
      return std::nullopt;
    int64_t Middle = median(Leads);
    for (int64_t &L : Leads)
      L = std::abs(L - Middle);
    return median(std::move(Leads));
  }
  /// Whether the numbers need no check against the order: all agree, and the
  /// ranks leave together or nothing is known of when they leave.
  bool trusted(const Pairs &P) const {
    if (P.empty() || agreement(P) < 1)
      return false;
    std::optional<int64_t> Scatter = scatter(P);
    return !a(0).timed() || (Scatter && *Scatter <= GoodScatter);
  }

  /// The pairs of \p P that agree in what they say and in when they end; none
  /// if these are few of the \p Possible ones.
  Pairs consistent(const Pairs &P, size_t Possible, bool Numbered) const {
    int64_t Offset = median(leads(P));
    Pairs Out;
    for (auto [I, J] : P) {
      // Order was checked against the times pair by pair.
      if (Numbered && (!alike(a(I), b(J)) ||
                       !inTime(I, J, Offset, numberedSlack(I, J))))
        continue;
      Out.push_back({I, J});
      if (a(I).timed() && leavesTogether(a(I).Op))
        Offset += (lead(I, J) - Offset) / 8;
    }
    if (Out.size() < LeastConsistent * Possible)
      Out.clear();
    return Out;
  }

  ArrayRef<CollectiveRecord> All;
  const List &A, &B;
};

/// Order on its rank: by time, else by the number of the record, else by the
/// sequence number.
bool before(const CollectiveRecord &X, const CollectiveRecord &Y) {
  return std::tie(X.Start, X.Stop, X.Order, X.Seq, X.Row) <
         std::tie(Y.Start, Y.Stop, Y.Order, Y.Seq, Y.Row);
}

/// Matches the lists of one group. \p Lists is used up.
void matchGroup(ArrayRef<CollectiveRecord> All, std::map<int64_t, List> &Lists,
                std::vector<CollectiveMatch> &Out) {
  for (auto &[Rank, L] : Lists)
    llvm::sort(L, [&](uint32_t X, uint32_t Y) {
      return before(All[X], All[Y]);
    });
  // What the reference lost, others may share: they go another round.
  for (int Round = 0; Round != 3 && Lists.size() >= 2; ++Round) {
    auto Longest = Lists.begin();
    for (auto It = Lists.begin(); It != Lists.end(); ++It)
      if (It->second.size() > Longest->second.size())
        Longest = It;
    const List Reference = Longest->second;
    std::vector<CollectiveMatch> Found(Reference.size());
    size_t Matched = 0;
    for (auto &[Rank, L] : Lists) {
      if (Rank == Longest->first)
        continue;
      std::vector<bool> Used(L.size(), false);
      for (auto [I, J] : Pairing(All, Reference, L).find()) {
        Found[I].push_back(L[J]);
        Used[J] = true;
        ++Matched;
      }
      List Rest;
      for (size_t J = 0; J != L.size(); ++J)
        if (!Used[J])
          Rest.push_back(L[J]);
      L = std::move(Rest);
    }
    for (size_t I = 0; I != Found.size(); ++I)
      if (!Found[I].empty()) {
        Found[I].push_back(Reference[I]);
        llvm::sort(Found[I], [&](uint32_t X, uint32_t Y) {
          return All[X].Rank < All[Y].Rank;
        });
        Out.push_back(std::move(Found[I]));
      }
    Lists.erase(Longest);
    if (Matched == 0)
      return;
  }
}

} // namespace

std::vector<CollectiveMatch>
matchCollectives(ArrayRef<CollectiveRecord> Records) {
  std::map<Key, std::map<int64_t, List>> Groups;
  for (uint32_t I = 0; I != Records.size(); ++I) {
    const CollectiveRecord &R = Records[I];
    Key K{R.timed(), R.World, NullInt, NullInt, R.Group, R.Members};
    if (isPointToPoint(R.Op)) {
      if (R.Peer == NullInt)
        continue; // nothing says whose
      K.From = R.Op == "send" ? R.Rank : R.Peer;
      K.To = R.Op == "send" ? R.Peer : R.Rank;
    }
    Groups[K][R.Rank].push_back(I);
  }

  std::vector<CollectiveMatch> Out;
  for (auto &[K, Lists] : Groups) {
    // More ranks than the group has: several groups of one name, and nothing
    // says who is in which.
    int64_t Size = Records[Lists.begin()->second.front()].GroupSize;
    if (K.From == NullInt && K.Members.empty() && Size != NullInt &&
        int64_t(Lists.size()) > Size)
      continue;
    matchGroup(Records, Lists, Out);
  }

  auto entry = [&](const CollectiveMatch &M) {
    const CollectiveRecord &First = Records[M.front()];
    int64_t Start = INT64_MAX;
    for (uint32_t I : M)
      if (Records[I].timed())
        Start = std::min(Start, Records[I].Start);
    return std::tuple(Start, First.Group, First.Seq, First.Op, M.front());
  };
  llvm::stable_sort(Out, [&](const auto &X, const auto &Y) {
    return entry(X) < entry(Y);
  });
  return Out;
}

} // namespace culprit
