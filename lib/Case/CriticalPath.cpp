//===- CriticalPath.cpp - What a device's window waited for -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The chain is walked backwards from the last work of a window. Work i began
// at s. It could not begin before three things had happened; the last of them
// is why it began at s and not earlier, and the walk goes on there:
//
//   p  the work it follows: the last to end before s on its own stream, or on
//      any stream unless that is communication, which runs beside compute;
//   c  a collective that ended just before s although i was long launched:
//      i waited for it;
//   l  the host's call that launched i.
//
//      comm     |------c------|
//      stream   |--p--|        .|---i---|      i waited for c, not for p
//      host     ..l
//
//      comm     |------c------------|
//      stream   |--p--|     |---i---|          i waited for its launch: c is
//      host        .......l                    exposed, but blocks nothing
//
// Where the launch came last, the time from p's end to l is the host's, by
// what its threads did. Pieces follow each other, so they add up to the
// window: a change of the step time is the sum of the changes of its pieces.
//
// Streams that wait through events are not traced one by one: a wait shows as
// work that begins within MaxHandover of another's end. CUDA needs 1 to 10 us
// for that on current devices, 20 us with an event across streams.
//
//===----------------------------------------------------------------------===//

#include "Case/Derive.h"
#include "Case/HostActivity.h"
#include "Table/RunSort.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

namespace {

constexpr int64_t MaxHandover = 30'000; // ns
/// How many pieces of work that began earlier are asked whether they still
/// ran; devices run up to 128 kernels at once, programs a few.
constexpr unsigned MaxBeside = 32;

class PathWalker {
public:
  PathWalker(const Case &C, const ProfileIndex &Index,
             const HostActivity &Host, const DeviceKey &Key,
             ArrayRef<Span> Work, TableBuilder &Into);

  void walk(int64_t From, int64_t To);
  /// Writes the pieces found, in order of time, cut at \p Bounds: times at
  /// which steps begin, with their numbers.
  void write(ArrayRef<std::pair<int64_t, int64_t>> Bounds);

private:
  struct Piece {
    int64_t Start, Stop;
    StringId Kind;
    uint32_t Work; ///< Row of gpu_work, or None.
  };
  static constexpr uint32_t None = UINT32_MAX;

  void piece(int64_t Start, int64_t Stop, StringId Kind, uint32_t Work) {
    Start = std::max(Start, From);
    if (Start < Stop)
      Pieces.push_back({Start, Stop, Kind, Work});
  }
  void host(int64_t Start, int64_t Stop, uint32_t Before, uint32_t Next);
  void hole(int64_t Start, int64_t Stop, StringId Kind, uint32_t Next);
  StringId kindOf(uint32_t Row) const;
  /// When the call that launched \p Row returned.
  int64_t launchEnd(uint32_t Row) const {
    uint32_t Call = *Index.launchOf(Row);
    return std::max(intAt(Calls, host_calls::start, Call),
                    intAt(Calls, host_calls::stop, Call));
  }
  bool isCommunication(uint32_t Row) const {
    return Rows.columns()[gpu_work::role].getString(Row) == Communication;
  }

  const ProfileIndex &Index;
  const HostActivity &Host;
  DeviceKey Key;
  const Table &Rows;
  const Table &Calls;
  TableBuilder &Into;
  ArrayRef<Span> ByStart;
  /// By end; the position in it only falls as the walk goes back.
  std::vector<Span> ByStop;
  /// For each position of ByStop: the position before it of work on the same
  /// stream, of anything but communication, and of communication; or -1.
  std::vector<int32_t> SameStream, Other, Collective;
  std::vector<Piece> Pieces; ///< Latest first.
  int64_t From = 0;
  StringId Communication, Compute, Launching, Stalled, Blocked, Unresolved,
      Refill, GraphKind;
  std::array<StringId, HostActivity::NumKinds> Words; ///< By kind.
};

} // namespace

PathWalker::PathWalker(const Case &C, const ProfileIndex &Index,
                       const HostActivity &Host, const DeviceKey &Key,
                       ArrayRef<Span> Work, TableBuilder &Into)
    : Index(Index), Host(Host), Key(Key), Rows(C.table(TableId::gpu_work)),
      Calls(C.table(TableId::host_calls)), Into(Into), ByStart(Work),
      ByStop(Work),
      Communication(Into.intern("communication")),
      Compute(Into.intern("compute")), Launching(Into.intern("launching")),
      Stalled(Into.intern("stalled")), Blocked(Into.intern("blocked")),
      Unresolved(Into.intern("unresolved")), Refill(Into.intern("refill")),
      GraphKind(Into.intern("graph")) {
  for (unsigned K = 0; K != HostActivity::NumKinds; ++K)
    Words[K] = Into.intern(HostActivity::name(HostActivity::Kind(K)));
  Pieces.reserve(3 * Work.size());
  sortRuns(ByStop, [](const Span &A, const Span &B) {
    return std::tie(A.Stop, A.Start, A.Row) < std::tie(B.Stop, B.Start, B.Row);
  });
  size_t N = ByStop.size();
  SameStream.assign(N, -1);
  Other.assign(N, -1);
  Collective.assign(N, -1);
  std::map<int64_t, int32_t> LastOn;
  int32_t LastOther = -1, LastCollective = -1;
  for (size_t I = 0; I != N; ++I) {
    int32_t &Last =
        LastOn
            .try_emplace(intAt(Rows, gpu_work::stream, ByStop[I].Row), -1)
            .first->second;
    SameStream[I] = Last;
    Other[I] = LastOther;
    Collective[I] = LastCollective;
    Last = static_cast<int32_t>(I);
    (isCommunication(ByStop[I].Row) ? LastCollective : LastOther) =
        static_cast<int32_t>(I);
  }
}

StringId PathWalker::kindOf(uint32_t Row) const {
  if (Rows.columns()[gpu_work::kind].getString(Row) == GraphKind)
    return GraphKind;
  StringId Role = Rows.columns()[gpu_work::role].getString(Row);
  return Role == NullString ? Compute : Role;
}

/// [Start, Stop) belongs to the host, which then launched \p Next.
void PathWalker::host(int64_t Start, int64_t Stop, uint32_t Before,
                      uint32_t Next) {
  Start = std::max(Start, From);
  if (Start >= Stop)
    return;
  std::optional<uint32_t> Call = Index.launchOf(Next);
  bool Waited = Before != None && Host.waitedFor(Key, Start, Before);
  size_t First = Pieces.size();
  Host.pieces(Key, intAt(Calls, host_calls::tid, *Call), Start, Stop,
              [&](int64_t A, int64_t B, HostActivity::Kind K) {
                StringId Word =
                    K == HostActivity::Code && Waited ? Refill : Words[K];
                if (Pieces.size() > First && Pieces.back().Kind == Word)
                  Pieces.back().Stop = B;
                else
                  Pieces.push_back({A, B, Word, Next});
              });
  std::reverse(Pieces.begin() + static_cast<ptrdiff_t>(First), Pieces.end());
}

/// [Start, Stop) passed before \p Next, which was launched, could begin. Where
/// the device computed something else right up to then, that was it.
void PathWalker::hole(int64_t Start, int64_t Stop, StringId Kind,
                      uint32_t Next) {
  auto At = llvm::partition_point(
      ByStart, [&](const Span &S) { return S.Start < Stop; });
  for (unsigned Tries = 0; At != ByStart.begin() && Tries != MaxBeside;
       ++Tries) {
    --At;
    if (At->Stop < Stop || isCommunication(At->Row))
      continue;
    piece(std::max(At->Start, Start), Stop, kindOf(At->Row), At->Row);
    Stop = std::max(At->Start, Start);
    break;
  }
  piece(Start, Stop, Kind, Next);
}

void PathWalker::walk(int64_t Begin, int64_t End) {
  From = Begin;
  // The last work to begin inside the window and to end last.
  int32_t I = -1;
  for (size_t P = ByStop.size(); P-- != 0;)
    if (ByStop[P].Start < End) {
      I = static_cast<int32_t>(P);
      break;
    }
  if (I < 0)
    return piece(Begin, End, Unresolved, None);
  int64_t T = End;
  if (ByStop[I].Stop < T) {
    piece(ByStop[I].Stop, T, Unresolved, None);
    T = ByStop[I].Stop;
  }
  while (T > From) {
    const Span &Work = ByStop[I];
    piece(Work.Start, std::min(T, Work.Stop), kindOf(Work.Row), Work.Row);
    T = std::min(T, Work.Start);
    // The nearest earlier work of each sort that had ended by then.
    auto endedBy = [&](const std::vector<int32_t> &Before) {
      int32_t P = Before[I];
      while (P >= 0 && ByStop[P].Stop > T)
        P = Before[P];
      return P;
    };
    int32_t Follows = std::max(endedBy(SameStream), [&] {
      // Other[] leads from any position to the one before that is no
      // communication, so it can be followed from there on.
      return endedBy(Other);
    }());
    int64_t Launch = Index.launchTime(Work.Row);
    int32_t Comm = [&] {
      int32_t P = Collective[I];
      while (P >= 0 && ByStop[P].Stop > T)
        P = Collective[P];
      return P;
    }();
    bool OnCollective =
        Comm >= 0 && Comm > Follows && T - ByStop[Comm].Stop <= MaxHandover &&
        (Launch == NullInt || Launch <= ByStop[Comm].Stop);
    int32_t Next = OnCollective ? Comm : Follows;
    int64_t Ended = Next < 0 ? From : std::max(ByStop[Next].Stop, From);
    uint32_t Before = Next < 0 ? None : ByStop[Next].Row;
    bool OtherStream =
        Next >= 0 && intAt(Rows, gpu_work::stream, ByStop[Next].Row) !=
                         intAt(Rows, gpu_work::stream, Work.Row);
    StringId Waited = Launch == NullInt ? Unresolved
                      : OtherStream     ? Blocked
                                        : Stalled;
    // As in Gaps.cpp: launching ends with the call, or a little after it
    // where the device was already waiting for it.
    int64_t Called = Launch == NullInt ? Ended : std::max(Launch, Ended);
    int64_t Launched = Launch == NullInt ? Ended : launchEnd(Work.Row);
    if (Launch != NullInt && Launch > Ended)
      Launched += LaunchLatency;
    Launched = std::clamp(Launched, Called, std::max(T, Called));
    hole(Launched, T, Waited, Work.Row);
    piece(Called, std::min(Launched, T), Launching, Work.Row);
    if (Called > Ended)
      host(Ended, std::min(Called, T), Before, Work.Row);
    T = std::min(T, Ended);
    if (Next < 0)
      break;
    I = Next;
  }
}

void PathWalker::write(ArrayRef<std::pair<int64_t, int64_t>> Bounds) {
  auto Bound = Bounds.begin();
  int64_t Step = NullInt;
  Into.reserve(Into.rows() + Pieces.size() + Bounds.size());
  auto row = [&](int64_t Start, int64_t Stop, const Piece &P) {
    Into.addRow();
    Into.set(critical_path::rank, Key.first);
    Into.set(critical_path::device, Key.second);
    Into.set(critical_path::step, Step);
    Into.set(critical_path::start, Start);
    Into.set(critical_path::stop, Stop);
    Into.set(critical_path::dur, Stop - Start);
    Into.setId(critical_path::kind, P.Kind);
    if (P.Work != None) {
      Into.setId(critical_path::name,
                 Rows.columns()[gpu_work::name].getString(P.Work));
      Into.set(critical_path::work, static_cast<int64_t>(P.Work));
    }
  };
  for (const Piece &P : llvm::reverse(Pieces)) {
    int64_t Start = P.Start;
    while (Bound != Bounds.end() && Bound->first < P.Stop) {
      if (Bound->first > Start) {
        row(Start, Bound->first, P);
        Start = Bound->first;
      }
      Step = Bound->second;
      ++Bound;
    }
    row(Start, P.Stop, P);
  }
}

void deriveCriticalPath(const Case &C, const ProfileIndex &Index,
                        TableBuilder &Into) {
  const Table &Windows = C.table(TableId::windows);
  const Table &Steps = C.table(TableId::steps);
  const HostActivity &Host = Index.activity();
  for (size_t W = 0; W != Windows.rows(); ++W) {
    DeviceKey Key{intAt(Windows, windows::rank, W),
                  intAt(Windows, windows::device, W)};
    // Where each steady step begins on the device.
    std::vector<std::pair<int64_t, int64_t>> Bounds;
    if (intAt(Windows, windows::steps, W) > 0)
      for (size_t S = 0; S != Steps.rows(); ++S)
        if (intAt(Steps, steps::rank, S) == Key.first &&
            Steps.columns()[steps::steady].Data->bools()[S] == 1)
          Bounds.push_back(
              {Index.onDevice(Key, intAt(Steps, steps::start, S)),
               intAt(Steps, steps::step, S)});
    llvm::stable_sort(Bounds, [](const auto &A, const auto &B) {
      return A.first < B.first;
    });
    PathWalker Walker(C, Index, Host, Key, Index.work().at(Key), Into);
    Walker.walk(intAt(Windows, windows::start, W),
                intAt(Windows, windows::stop, W));
    Walker.write(Bounds);
  }
}

} // namespace culprit
