//===- RunsRecord.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/RunsRecord.h"
#include "Table/Statistics.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <numeric>
#include <set>

using namespace llvm;

namespace culprit {

/// A step that comes this many times later than its predecessors, and at
/// least so many seconds, was waited for.
static constexpr double PauseTimes = 20, PauseSeconds = 60;

std::optional<size_t> ScalarSeries::find(int64_t Step) const {
  auto It = llvm::lower_bound(Steps, Step);
  if (It == Steps.end() || *It != Step)
    return std::nullopt;
  return size_t(It - Steps.begin());
}

const ScalarSeries *RunRecord::series(StringRef Name) const {
  auto It = Series.find(Name.str());
  return It == Series.end() ? nullptr : &It->second;
}

std::optional<std::pair<int64_t, int64_t>> RunRecord::steps() const {
  std::optional<std::pair<int64_t, int64_t>> Out;
  for (const auto &[Name, S] : Series) {
    if (!S.Layer.empty() || S.Steps.empty())
      continue;
    if (!Out)
      Out = {S.Steps.front(), S.Steps.back()};
    Out->first = std::min(Out->first, S.Steps.front());
    Out->second = std::max(Out->second, S.Steps.back());
  }
  return Out;
}

/// The folder of a run without that of a rank: run/rank_3 belongs to run.
static StringRef withoutRank(StringRef Folder) {
  StringRef Last = sys::path::filename(Folder);
  if (Last.consume_front_insensitive("rank") &&
      !Last.ltrim("_-").empty() &&
      Last.ltrim("_-").find_first_not_of("0123456789") == StringRef::npos)
    return sys::path::parent_path(Folder);
  return Folder;
}

static bool isInside(StringRef Folder, StringRef Outer) {
  return Folder == Outer || Outer.empty() || Outer == "." ||
         (Folder.starts_with(Outer) && Folder.size() > Outer.size() &&
          Folder[Outer.size()] == '/');
}

static std::string textAt(const Table &T, unsigned Column, size_t Row) {
  const ColumnView &V = T.columns()[Column];
  return V.isNull(Row) ? std::string() : T.cell(Row, V).text();
}

namespace {

/// One series while its rows are gathered.
struct Gathered {
  std::string Folder, Name, Metric, Layer;
  int64_t Rank = 0;
  std::vector<std::pair<int64_t, double>> Rows;
  std::vector<std::pair<int64_t, double>> Times;
  std::vector<int64_t> Resumes;
  int64_t Last = NullInt;
  size_t LastRow = 0;
};

} // namespace

/// All series of \p C, by run, rank and name, in order of appearance.
static std::vector<Gathered> gather(const Case &C) {
  const Table &T = C.table(TableId::scalars);
  ArrayRef<ColumnView> V = T.columns();
  using Key = std::pair<std::pair<StringId, int64_t>, StringId>;
  DenseMap<Key, size_t> Index;
  std::vector<Gathered> Out;
  const bool Timed = C.has(TableId::scalars, scalars::wall_time);
  for (size_t I = 0; I != T.rows(); ++I) {
    const ColumnView &Step = V[scalars::step];
    if (Step.isNull(I) || V[scalars::name].isNull(I) ||
        V[scalars::value].isNull(I))
      continue;
    const int64_t Rank =
        V[scalars::rank].isNull(I) ? 0 : V[scalars::rank].getInt(I);
    const Key K = {{V[scalars::run].getString(I), Rank},
                   V[scalars::name].getString(I)};
    auto [It, New] = Index.try_emplace(K, Out.size());
    if (New) {
      Gathered G;
      G.Folder = withoutRank(textAt(T, scalars::run, I)).str();
      G.Name = textAt(T, scalars::name, I);
      G.Metric = textAt(T, scalars::metric, I);
      G.Layer = textAt(T, scalars::layer, I);
      G.Rank = Rank;
      Out.push_back(std::move(G));
    }
    Gathered &G = Out[It->second];
    const int64_t At = Step.getInt(I);
    // Going back in one file is a resume; another file merely logs it too.
    if (G.Last != NullInt && At <= G.Last && G.Layer.empty() &&
        G.Resumes.size() < 64 &&
        C.cite(TableId::scalars, I).Path ==
            C.cite(TableId::scalars, G.LastRow).Path)
      G.Resumes.push_back(At);
    G.Last = At;
    G.LastRow = I;
    if (!V[scalars::primary].isNull(I) &&
        V[scalars::primary].Data->bools()[V[scalars::primary].row(I)] != 1)
      continue;
    G.Rows.push_back({At, V[scalars::value].getDouble(I)});
    if (Timed && !V[scalars::wall_time].isNull(I))
      G.Times.push_back({At, V[scalars::wall_time].getDouble(I)});
  }
  return Out;
}

/// Steps of \p Times before which the run stood still.
static std::vector<int64_t>
pausesOf(ArrayRef<std::pair<int64_t, double>> Times) {
  std::vector<double> Gaps;
  for (size_t I = 1; I < Times.size(); ++I)
    Gaps.push_back(Times[I].second - Times[I - 1].second);
  std::vector<int64_t> Out;
  const std::optional<double> Usual = quantile(Gaps, 0.5);
  if (Gaps.size() < 8 || !Usual)
    return Out;
  for (size_t I = 0; I != Gaps.size(); ++I)
    if (Gaps[I] > PauseSeconds && Gaps[I] > PauseTimes * *Usual)
      Out.push_back(Times[I + 1].first);
  return Out;
}

/// Puts the rows of \p G into \p Into: those of the lowest rank count.
static void addSeries(Gathered &G, RunRecord &Into) {
  auto [It, New] = Into.Series.try_emplace(G.Name);
  if (!New)
    return;
  ScalarSeries &S = It->second;
  S.Metric = G.Metric;
  S.Layer = G.Layer;
  const auto ByStep = [](const auto &A, const auto &B) {
    return A.first < B.first;
  };
  if (!is_sorted(G.Rows, ByStep))
    stable_sort(G.Rows, ByStep);
  for (const auto &[Step, Value] : G.Rows) {
    S.Steps.push_back(Step);
    S.Values.push_back(Value);
  }
  if (!G.Layer.empty())
    return;
  Into.Resumes.insert(Into.Resumes.end(), G.Resumes.begin(), G.Resumes.end());
  for (int64_t Step : pausesOf(G.Times))
    Into.Pauses.push_back(Step);
}

/// The run that \p Folder tells something of: the innermost run around it,
/// else, for files above several runs, all of those inside.
static std::vector<RunRecord *> runsAt(StringRef Folder,
                                       MutableArrayRef<RunRecord> Runs) {
  RunRecord *Best = nullptr;
  for (RunRecord &R : Runs)
    if (isInside(Folder, R.Folder) &&
        (!Best || R.Folder.size() > Best->Folder.size()))
      Best = &R;
  if (Best)
    return {Best};
  std::vector<RunRecord *> Out;
  for (RunRecord &R : Runs)
    if (isInside(R.Folder, Folder))
      Out.push_back(&R);
  return Out;
}

static void addSettings(const Case &C, MutableArrayRef<RunRecord> Runs) {
  const Table &Config = C.table(TableId::config);
  // Outer folders first, so that a run's own settings win.
  std::vector<size_t> Rows(Config.rows());
  std::iota(Rows.begin(), Rows.end(), 0);
  std::vector<std::string> Folders;
  for (size_t I : Rows)
    Folders.push_back(textAt(Config, config::run, I));
  stable_sort(Rows, [&](size_t A, size_t B) {
    return Folders[A].size() < Folders[B].size();
  });
  for (size_t I : Rows)
    for (RunRecord *R : runsAt(Folders[I], Runs))
      R->Config[textAt(Config, config::key, I)] =
          textAt(Config, config::value, I);

  const Table &Packages = C.table(TableId::packages);
  for (size_t I = 0; I != Packages.rows(); ++I) {
    const std::string Path = C.cite(TableId::packages, I).Path;
    for (RunRecord *R : runsAt(sys::path::parent_path(Path), Runs))
      R->Packages[textAt(Packages, packages::name, I)] =
          textAt(Packages, packages::version, I);
  }

  std::map<std::string, size_t> Models;
  const Table &Devices = C.table(TableId::devices);
  for (size_t I = 0; I != Devices.rows(); ++I)
    if (std::string Model = textAt(Devices, devices::model, I); !Model.empty())
      ++Models[Model];
  std::string Text;
  for (const auto &[Model, Count] : Models)
    Text += (Text.empty() ? "" : ", ") + std::to_string(Count) + " x " + Model;
  for (RunRecord &R : Runs)
    R.Devices = Text;
}

/// Whether \p Inner may be a part of \p Outer: it logs nothing that the outer
/// one logs too.
static bool isPart(const RunRecord &Inner, const RunRecord &Outer) {
  return isInside(Inner.Folder, Outer.Folder) &&
         Inner.Folder != Outer.Folder &&
         none_of(Inner.Series, [&](const auto &S) {
           return Outer.Series.count(S.first);
         });
}

std::vector<RunRecord> runRecords(const Case &C, StringRef Path) {
  std::vector<Gathered> All = gather(C);
  stable_sort(All, [](const Gathered &A, const Gathered &B) {
    return std::pair(StringRef(A.Folder), A.Rank) <
           std::pair(StringRef(B.Folder), B.Rank);
  });
  std::vector<RunRecord> Out;
  for (Gathered &G : All) {
    if (Out.empty() || Out.back().Folder != G.Folder) {
      Out.emplace_back();
      Out.back().Folder = G.Folder;
    }
    addSeries(G, Out.back());
  }
  // Outer folders sort before what is in them.
  for (size_t I = 1; I < Out.size(); ++I)
    for (size_t J = I; J-- != 0;)
      if (isPart(Out[I], Out[J])) {
        Out[J].Series.merge(Out[I].Series);
        Out.erase(Out.begin() + ptrdiff_t(I--));
        break;
      }
  addSettings(C, Out);
  for (RunRecord &R : Out) {
    llvm::sort(R.Resumes);
    R.Resumes.erase(llvm::unique(R.Resumes), R.Resumes.end());
    llvm::sort(R.Pauses);
    R.Pauses.erase(llvm::unique(R.Pauses), R.Pauses.end());
  }
  if (Out.size() == 1)
    Out[0].Name = Path.str();
  return Out;
}

void nameRuns(MutableArrayRef<RunRecord> Runs) {
  // The last components of the folder until all differ.
  for (unsigned Parts = 1; Parts <= 16; ++Parts) {
    std::set<std::string> Names;
    for (RunRecord &R : Runs) {
      StringRef Whole = R.Name.empty() ? StringRef(R.Folder) : R.Name;
      Whole = Whole.rtrim('/');
      StringRef Rest = Whole;
      for (unsigned I = 0; I != Parts && !Rest.empty(); ++I)
        Rest = sys::path::parent_path(Rest);
      Names.insert(
          Whole.drop_front(Rest.size()).ltrim('/').str());
    }
    if (Names.size() != Runs.size() && Parts != 16)
      continue;
    for (RunRecord &R : Runs) {
      StringRef Whole = R.Name.empty() ? StringRef(R.Folder) : R.Name;
      Whole = Whole.rtrim('/');
      StringRef Rest = Whole;
      for (unsigned I = 0; I != Parts && !Rest.empty(); ++I)
        Rest = sys::path::parent_path(Rest);
      StringRef End = Whole.drop_front(Rest.size()).ltrim('/');
      R.Name = End.empty() ? Whole.str() : End.str();
    }
    return;
  }
}

} // namespace culprit
