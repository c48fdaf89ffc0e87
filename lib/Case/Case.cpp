//===- Case.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "Case/BatchNames.h"
#include "Case/CheckpointDates.h"
#include "Case/ClockAlignment.h"
#include "Case/Derive.h"
#include "Case/ErrorRoles.h"
#include "Case/PrimaryScalars.h"
#include "Case/Strangers.h"
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <set>

using namespace llvm;

namespace culprit {

Citation Case::cite(TableId Id, size_t Row) const {
  unsigned T = static_cast<unsigned>(Id);
  Citation Out;
  const auto &Parts = Segments[T];
  auto It = std::upper_bound(
      Parts.begin(), Parts.end(), Row,
      [](size_t R, const auto &Segment) { return R < Segment.first; });
  if (It == Parts.begin())
    return Out;
  Out.Path = Inputs[std::prev(It)->second].Path;
  if (const ColumnView *Place = Tables[T].find("place"))
    Out.Place = Place->getInt(Row);
  return Out;
}

size_t Case::bytes() const {
  size_t Sum = 0;
  for (const Table &T : Tables)
    for (const ColumnView &View : T.columns())
      Sum += View.Data->bytes();
  return Sum;
}

CaseBuilder::CaseBuilder() : Pool(std::make_shared<StringPool>()) {}

void CaseBuilder::add(std::unique_ptr<Source> S, Error E) {
  Failed.push_back(static_cast<bool>(E));
  for (Diagnostic &D : toDiagnostics(std::move(E)))
    S->Remarks.insert(S->Remarks.begin(), std::move(D));
  Sources.push_back(std::move(S));
}

/// The earliest time in any time column of \p S, or none.
static std::optional<int64_t> earliestTime(Source &S) {
  std::optional<int64_t> Earliest;
  forEachTime(S, [&](int64_t &Value) {
    if (!Earliest || Value < *Earliest)
      Earliest = Value;
  });
  return Earliest;
}

/// Adds \p Shift to every time of \p S.
static void shiftTimes(Source &S, int64_t Shift) {
  if (Shift == 0)
    return;
  forEachTime(S, [&](int64_t &Value) {
    Value = static_cast<int64_t>(static_cast<uint64_t>(Value) +
                                 static_cast<uint64_t>(Shift));
  });
}

/// Makes time 0 the start of the case: the earliest event over all sources
/// that know their epoch. A source without an epoch starts at its own
/// earliest event, since nothing says how it lies to the others.
static std::optional<int64_t>
alignTimes(ArrayRef<std::unique_ptr<Source>> Sources) {
  std::vector<std::optional<int64_t>> First;
  std::optional<int64_t> CaseStart;
  for (const auto &S : Sources) {
    First.push_back(earliestTime(*S));
    if (!First.back() || !S->EpochNs)
      continue;
    int64_t Absolute = *S->EpochNs + *First.back();
    CaseStart = CaseStart ? std::min(*CaseStart, Absolute) : Absolute;
  }
  for (size_t I = 0; I != Sources.size(); ++I) {
    if (!First[I])
      continue;
    shiftTimes(*Sources[I], Sources[I]->EpochNs
                                ? *Sources[I]->EpochNs - *CaseStart
                                : -*First[I]);
  }
  return CaseStart;
}

/// Gives profiles that claim the same rank ranks of their own: eight traces
/// without `distributedInfo` all say rank 0, and their times must not be
/// mixed on one device.
static void separateRanks(ArrayRef<std::unique_ptr<Source>> Sources) {
  constexpr std::pair<TableId, unsigned> RankColumns[] = {
      {TableId::gpu_work, gpu_work::rank},
      {TableId::host_calls, host_calls::rank},
      {TableId::host_ops, host_ops::rank},
      {TableId::syncs, syncs::rank},
      {TableId::ranges, ranges::rank},
      {TableId::memory_events, memory_events::rank},
      {TableId::memory_blocks, memory_blocks::rank},
      {TableId::counters, counters::rank},
      {TableId::thread_states, thread_states::rank},
      {TableId::profiler_events, profiler_events::rank},
      {TableId::process_groups, process_groups::rank},
      {TableId::stacks, stacks::rank},
      {TableId::devices, devices::rank},
      {TableId::ranks, ranks::rank},
      {TableId::collectives, collectives::rank}};
  std::set<int64_t> Taken;
  Source *First = nullptr;
  unsigned Conflicts = 0;
  for (const auto &S : Sources) {
    if (S->KeepRanks)
      continue;
    std::set<int64_t> Mine;
    for (auto [Id, C] : RankColumns)
      if (TableBuilder *B = S->existing(Id); B && B->touched(C))
        for (int64_t Rank : B->finished(C).ints())
          if (Rank != NullInt && (Mine.empty() || *Mine.rbegin() != Rank))
            Mine.insert(Rank);
    if (Mine.size() == 1 && Taken.count(*Mine.begin())) {
      int64_t Old = *Mine.begin(), New = 0;
      while (Taken.count(New))
        ++New;
      for (auto [Id, C] : RankColumns)
        if (TableBuilder *B = S->existing(Id); B && B->touched(C))
          for (int64_t &Rank : B->finished(C).mutableInts())
            if (Rank == Old)
              Rank = New;
      if (Conflicts++ == 0)
        First = S.get();
      Mine = {New};
    }
    Taken.insert(Mine.begin(), Mine.end());
  }
  if (Conflicts == 1)
    First->warn(First->path() + ": says it is a rank that an earlier profile "
                                "is already; taken as another rank",
                "diagnose profiles of different runs one at a time");
  else if (Conflicts)
    First->warn(First->path() + " and " + Twine(Conflicts - 1) +
                    " more profiles say they are ranks that earlier ones are "
                    "already; taken as other ranks",
                "diagnose profiles of different runs one at a time");
}

/// Tells when two dumps are of one rank: their collectives would be matched
/// with each other's as if they were of one job.
static void warnOfMixedRuns(ArrayRef<std::unique_ptr<Source>> Sources) {
  std::map<int64_t, Source *> ByRank;
  for (const auto &S : Sources) {
    TableBuilder *B = S->KeepRanks ? S->existing(TableId::ranks) : nullptr;
    if (!B || B->rows() != 1)
      continue;
    int64_t Rank = B->finished(ranks::rank).ints()[0];
    auto [It, New] = ByRank.try_emplace(Rank, S.get());
    if (New || Rank == NullInt)
      continue;
    S->warn(S->path() + ": is of rank " + Twine(Rank) + ", as " +
                It->second->path() + " is",
            "diagnose one run at a time; of several dumps of one rank give "
            "the last");
    return; // one is enough: the others differ in the number alone
  }
}

namespace {

/// Joins the rows of all sources for one table.
class TableJoin {
public:
  TableJoin(TableId Id, ArrayRef<std::unique_ptr<Source>> Sources)
      : Schema(schema(Id)) {
    for (size_t I = 0; I != Sources.size(); ++I)
      if (TableBuilder *B = Sources[I]->existing(Id); B && B->rows()) {
        Segments.push_back({Rows, I});
        Parts.push_back(B);
        Rows += B->rows();
      }
  }

  Table finish(std::shared_ptr<StringPool> Pool, std::vector<bool> &Known) {
    // Every absent column reads the same single null through one index of
    // zeros, so that it costs 4 bytes a row once and not 8 each.
    std::shared_ptr<const RowIndex> Zeros;
    std::vector<ColumnView> Views;
    for (unsigned C = 0; C != Schema.Columns.size(); ++C) {
      ColumnRef Data = joined(C);
      Known.push_back(Data != nullptr);
      if (!Data || isConstant(*Data)) {
        if (!Zeros)
          Zeros = std::make_shared<const RowIndex>(Rows, 0);
        auto One = std::make_shared<Column>(Schema.Columns[C].Type);
        if (Data)
          One->addInt(Data->ints()[0]);
        else
          One->addNull();
        Views.push_back({Schema.Columns[C].Name.str(), std::move(One), Zeros});
        continue;
      }
      Views.push_back(
          {Schema.Columns[C].Name.str(), std::move(Data), nullptr});
    }
    return Table(Schema.Name.str(), std::move(Pool), std::move(Views), Rows,
                 /*IsOrigin=*/true);
  }

  std::vector<std::pair<size_t, size_t>> Segments;

private:
  /// Ranks, devices and contexts of a single-GPU trace are one number.
  static bool isConstant(const Column &Data) {
    if (Data.type() != ColumnType::Int || Data.size() < 1024)
      return false;
    ArrayRef<int64_t> Values = Data.ints();
    return llvm::all_equal(Values);
  }

  /// Column \p C over all parts, or null when no row has a value in it.
  std::shared_ptr<Column> joined(unsigned C) {
    std::shared_ptr<Column> Data;
    for (TableBuilder *Part : Parts) {
      if (!Part->touched(C) && !Data && Parts.size() == 1)
        return nullptr;
      Column &Values = Part->finished(C);
      if (!Data) {
        Data = std::make_shared<Column>(std::move(Values));
        if (Parts.size() > 1)
          Data->reserve(Rows);
      } else {
        Data->append(Values);
        Values = Column(Values.type()); // free it before the next one
      }
    }
    if (!Data)
      return nullptr;
    for (size_t I = 0, E = Data->size(); I != E; ++I)
      if (!Data->isNull(I))
        return Data;
    return nullptr;
  }

  const TableSchema &Schema;
  std::vector<TableBuilder *> Parts;
  size_t Rows = 0;
};

} // namespace

struct Case::DerivedTables {
  std::array<std::once_flag, NumTables> Once;
  std::array<DerivedTable, NumTables> Tables;
  std::once_flag IndexOnce;
  std::unique_ptr<ProfileIndex> Index;
};

Case::Case() : Lazy(std::make_unique<DerivedTables>()) {}
Case::Case(Case &&) = default;
Case &Case::operator=(Case &&) = default;
Case::~Case() = default;

const ProfileIndex &Case::profile() const {
  std::call_once(Lazy->IndexOnce, [&] {
    Lazy->Index = std::make_unique<ProfileIndex>(*this);
  });
  return *Lazy->Index;
}

const Case::DerivedTable &Case::derived(TableId Id) const {
  unsigned T = static_cast<unsigned>(Id);
  DerivedTable &Out = Lazy->Tables[T];
  std::call_once(Lazy->Once[T], [&] {
    TableBuilder Rows(Id, *Pool);
    derive(Id, *this, profile(), Rows);
    std::vector<std::pair<std::string, ColumnRef>> Columns;
    for (unsigned C = 0; C != schema(Id).Columns.size(); ++C) {
      Out.Known.push_back(Rows.touched(C));
      Columns.push_back(
          {schema(Id).Columns[C].Name.str(),
           std::make_shared<Column>(std::move(Rows.finished(C)))});
    }
    size_t Count = Rows.rows();
    Out.Rows = Table(schema(Id).Name.str(), Pool, std::move(Columns), Count,
                     /*IsOrigin=*/true);
  });
  return Out;
}

Case CaseBuilder::build() {
  Case Out;
  Out.Pool = Pool;
  remarkStrangers(Sources);
  separateRanks(Sources);
  warnOfMixedRuns(Sources);
  std::vector<ClockAnchor> Anchors;
  for (const std::unique_ptr<Source> &S : Sources)
    Anchors.push_back(anchorClock(*S));
  Out.EpochNs = alignTimes(Sources);
  int64_t Earlier = alignClocks(Sources);
  if (Out.EpochNs)
    *Out.EpochNs -= Earlier;
  for (size_t I = 0; I != Sources.size(); ++I) {
    Source &S = *Sources[I];
    InputSummary Summary{S.path(), S.Format, S.Run, {}, std::move(S.Remarks),
                         Failed[I], fileClock(S, Anchors[I])};
    for (unsigned T = 0; T != NumTables; ++T)
      if (TableBuilder *B = S.existing(static_cast<TableId>(T)); B && B->rows())
        Summary.Rows.push_back({static_cast<TableId>(T), B->rows()});
    Out.Inputs.push_back(std::move(Summary));
    for (TensorRecord &Record : S.tensors())
      Out.Tensors.push_back(Record.Data);
    // A case of text may give rows of statistics alone, which have no record:
    // each row has a view all the same, if one without bytes.
    if (TableBuilder *B = S.existing(TableId::tensors))
      Out.Tensors.resize(Out.Tensors.size() +
                         (B->rows() - std::min(B->rows(), S.tensors().size())));
    for (std::shared_ptr<void> &Owner : S.owners())
      Out.Owners.push_back(std::move(Owner));
  }
  for (unsigned T = 0; T != NumTables; ++T) {
    TableJoin Join(static_cast<TableId>(T), Sources);
    std::vector<bool> Known;
    Out.Tables.push_back(Join.finish(Pool, Known));
    Out.Known.push_back(std::move(Known));
    Out.Segments.push_back(std::move(Join.Segments));
  }
  Sources.clear();

  const unsigned Tensors = static_cast<unsigned>(TableId::tensors);
  nameBatches(Out.Tables[Tensors], *Pool);
  if (dateCheckpoints(Out.Tables[Tensors],
                      Out.Tables[static_cast<unsigned>(TableId::scalars)],
                      Out.Segments[Tensors], Out.Inputs, *Pool))
    Out.Known[Tensors][tensors::step] = true;
  markPrimaryScalars(Out.Tables[static_cast<unsigned>(TableId::scalars)],
                     Out.Segments[static_cast<unsigned>(TableId::scalars)],
                     Out.Inputs);
  Out.Known[static_cast<unsigned>(TableId::scalars)][scalars::primary] =
      Out.has(TableId::scalars);

  const auto At = [](TableId Id) { return static_cast<unsigned>(Id); };
  const unsigned Errors = At(TableId::errors), Lines = At(TableId::log_lines),
                 Steps = At(TableId::scalars),
                 Requests = At(TableId::requests);
  auto [Roles, Aftermaths] = markErrorRoles(
      Out.Tables[Errors], Out.Segments[Errors],
      {Out.Tables[Lines], Out.Tables[Steps], Out.Tables[Requests],
       Out.Segments[Lines], Out.Segments[Steps], Out.Segments[Requests]},
      Out.Inputs, *Pool);
  Out.Known[Errors][errors::role] = Roles;
  Out.Known[Errors][errors::aftermath] = Aftermaths;
  return Out;
}

} // namespace culprit
