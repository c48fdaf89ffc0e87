//===- verbs.cpp - Verbs of detectors beside loops in C++ -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Times verbs as a detector calls them, through the sandbox, over a table like
// `gpu_work`, beside the same loop in C++ over plain vectors and beside a Lua
// function that is called for each row with its values: in a loop over rows(),
// as a detector would, and from C++ with the values alone, the least that a
// callback can cost; both over 10,000 rows, as is the verb beside them. The
// goals: at most 1.5 times the loop, and 40 times less than the loop over
// rows(). Runs of a verb and of its loop alternate, so that a busy machine
// slows both; the figures are medians. What either makes is freed when its
// clock has stopped.
//
// usage: verbs [ROWS [RUNS [VERB]]]
//
// ROWS are 5 million. VERB is a part of a name. The second table is of 1,000
// rows: what a call costs whatever it works on. Exit code 1 where a goal or
// the loop's result is missed.
//
//===----------------------------------------------------------------------===//

#include "verbs.h"
#include "Script/Host.h"
#include "Script/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <ctime>
#include <malloc.h>
#include <random>

using namespace culprit;
using namespace culprit::bench;

static constexpr double MostRatio = 1.5, LeastFactor = 40;
static constexpr size_t Keys = 100000;
static constexpr size_t LuaRows = 10000; ///< As many as rows() goes over.

Rows bench::makeRows(size_t Count, std::shared_ptr<StringPool> Pool) {
  std::mt19937_64 Random(7);
  Rows R;
  R.Pool = Pool;
  std::vector<StringId> Names;
  for (int I = 0; I != 300; ++I)
    Names.push_back(Pool->intern(
        (I % 5 == 0 ? "gemm_" : I % 5 == 1 ? "void at::native::vectorized_"
                                           : "elementwise_kernel_") +
        std::to_string(I % 5 == 0 ? I / 5 : I)));
  StringId Kernel = Pool->intern("kernel"), Copy = Pool->intern("copy");
  int64_t Now = 0;
  for (size_t I = 0; I != Count; ++I) {
    if (I % (Count / 4 + 1) == 0)
      Now = 1000; // the next stream
    int64_t Length = 1000 + int64_t(Random() % 40000);
    Now += int64_t(Random() % 50000);
    R.Start.push_back(Now);
    R.Stop.push_back(Now + Length);
    R.Dur.push_back(Random() % 50 ? Length : NullInt);
    R.Device.push_back(int64_t(Random() % 8));
    R.Correlation.push_back(1 + int64_t(Random() % Keys));
    bool IsCopy = Random() % 5 == 0;
    R.Bytes.push_back(IsCopy ? int64_t(Random() % 100000000) : NullInt);
    R.Kind.push_back(IsCopy ? Copy : Kernel);
    R.Name.push_back(Names[Random() % Names.size()]);
    double Value = double(Random() % 1000000) / 1e6 + (I / 4096 % 2 ? 0.5 : 0);
    R.Value.push_back(Random() % 100 == 0    ? nullDouble()
                      : Random() % 1000 == 0 ? INFINITY
                                             : Value);
  }
  return R;
}

Rows bench::makeCalls(size_t Count, size_t Keys,
                      std::shared_ptr<StringPool> Pool) {
  std::mt19937_64 Random(11);
  Rows R;
  R.Pool = Pool;
  for (size_t I = 0; I != Count; ++I) {
    R.Start.push_back(int64_t(I) * 300000);
    R.Stop.push_back(R.Start.back() + 100000);
    R.Correlation.push_back(1 + int64_t(I));
  }
  std::shuffle(R.Correlation.begin(), R.Correlation.end(), Random);
  return R;
}

template <typename T> static ColumnRef columnOf(const std::vector<T> &Values) {
  if constexpr (std::is_same_v<T, double>) {
    auto Out = std::make_shared<Column>(ColumnType::Double);
    Out->mutableDoubles() = Values;
    return Out;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    auto Out = std::make_shared<Column>(ColumnType::Int);
    Out->mutableInts() = Values;
    return Out;
  } else {
    auto Out = std::make_shared<Column>(ColumnType::String);
    for (StringId Value : Values)
      Out->addString(Value);
    return Out;
  }
}

Table bench::makeTable(const Rows &R, std::string Name) {
  std::vector<std::pair<std::string, ColumnRef>> Columns = {
      {"start", columnOf(R.Start)}, {"stop", columnOf(R.Stop)}};
  auto add = [&](const char *Name, const auto &Values) {
    if (!Values.empty())
      Columns.emplace_back(Name, columnOf(Values));
  };
  add("dur", R.Dur);
  add("device", R.Device);
  add("correlation", R.Correlation);
  add("bytes", R.Bytes);
  add("value", R.Value);
  add("kind", R.Kind);
  add("name", R.Name);
  // As many columns as a table of a case has.
  for (const char *More : {"rank", "context", "external", "grid", "block",
                           "registers", "shared_bytes", "graph", "place"})
    Columns.emplace_back(More, columnOf(R.Start));
  return Table(std::move(Name), R.Pool, std::move(Columns), R.size(), true);
}

namespace {

/// Time of this thread, which is one: what others run on the machine does not
/// count.
double now() {
  timespec T;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &T);
  return 1e9 * double(T.tv_sec) + double(T.tv_nsec);
}

double median(std::vector<double> Values) {
  llvm::sort(Values);
  return Values.empty() ? 0 : Values[Values.size() / 2];
}

struct Tables {
  Tables(size_t Count, std::shared_ptr<StringPool> Pool)
      : Work(makeRows(Count, Pool)),
        Calls(makeCalls(std::min(Count, Keys), Keys, Pool)),
        WorkTable(std::make_shared<Table>(makeTable(Work, "gpu_work"))),
        CallTable(std::make_shared<Table>(makeTable(Calls, "host_calls"))) {}

  Rows Work, Calls;
  TableRef WorkTable, CallTable;
};

/// One Lua state and the verb in it.
class Runner {
public:
  /// \p Body is that of a function of \p Parameters.
  Runner(const char *Parameters, const std::string &Body)
      : H("verbs", bounds()), Source(std::string("return function(") +
                                     Parameters + ") " + Body + " end") {}

  /// The time of one call of the verb on \p T in ns; \p Result is set to what
  /// Made::Number would be.
  double time(const Tables &T, double &Result) {
    double Took = 0;
    run([&](lua_State *L) {
      pushValue(L, TableValue{T.WorkTable});
      pushValue(L, TableValue{T.CallTable});
      double Begin = now();
      lua_call(L, 2, 1);
      Took = now() - Begin;
      Result = numberOf(L);
    });
    return Took;
  }

  /// The time of calls of the row function for the first \p Count rows.
  double timeRows(const Table &T, llvm::ArrayRef<const char *> Given,
                  size_t Count) {
    double Took = 0;
    run([&](lua_State *L) {
      lua_call(L, 0, 2); // the function of a row, and that of the end
      std::vector<const ColumnView *> Views;
      for (const char *Name : Given)
        Views.push_back(T.find(Name));
      double Sum = 0;
      double Begin = now();
      for (size_t I = 0; I != Count; ++I) {
        lua_pushvalue(L, -2);
        for (const ColumnView *View : Views)
          pushCell(L, T.cell(I, *View));
        lua_call(L, int(Views.size()), 1);
        Sum += lua_toboolean(L, -1) ? lua_tonumber(L, -1) : 0;
        lua_pop(L, 1);
      }
      if (lua_isfunction(L, -1))
        lua_call(L, 0, 1);
      Took = now() - Begin + (Sum == 1e300);
    });
    return Took;
  }

private:
  static Limits bounds() {
    Limits Out;
    Out.Time = std::chrono::seconds(600);
    Out.Memory = size_t(4) << 30;
    Out.Tables = size_t(64) << 30;
    Out.Rows = SIZE_MAX;
    return Out;
  }

  void run(llvm::function_ref<void(lua_State *)> Body) {
    bool Done = H.run([&](lua_State *L) {
      if (Loaded) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, this);
      } else {
        H.load(L, Source);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, this);
        Loaded = true;
      }
      Body(L);
      lua_settop(L, 0);
      lua_gc(L, LUA_GCCOLLECT);
    });
    if (Done)
      return;
    llvm::errs() << "verbs: " << Source << "\n  " << H.error().Message << '\n';
    exit(2);
  }

  static double sumOf(const ColumnView &View, size_t Rows) {
    double Sum = 0;
    for (size_t I = 0; I != Rows; ++I)
      if (double Value = View.number(I); std::isfinite(Value))
        Sum += Value;
    return Sum;
  }

  static double numberOf(lua_State *L) {
    if (TableValue *V = valueAt<TableValue>(L, -1))
      return double((*V)->rows());
    if (ColumnValue *V = valueAt<ColumnValue>(L, -1))
      return sumOf(V->view(), V->rows());
    return lua_tonumber(L, -1);
  }

  Host H;
  std::string Source;
  bool Loaded = false;
};

/// What a loop came to, as numberOf() says it of a verb.
double numberOf(const Made &M) {
  double Sum = M.Number;
  if (Sum != 0)
    return Sum;
  for (int64_t Value : M.Ints[0])
    Sum += Value == NullInt ? 0 : double(Value);
  for (double Value : M.Doubles)
    Sum += std::isfinite(Value) ? Value : 0;
  return Sum;
}

/// The function of a row, called in a loop over the rows.
std::string overRows(const Benchmark &B) {
  std::string Out = "local each, last = (function() " +
                    std::string(B.Callback) +
                    " end)() for row in t:rows() do each(";
  for (const char *Name : B.Given)
    Out += (Name == B.Given.front() ? "row." : ", row.") + std::string(Name);
  return Out + ") end if last then last() end";
}

struct Figures {
  double Verb = 0, Loop = 0;             ///< ns a row of all
  double Part = 0, Rows = 0, Values = 0; ///< ns a row of LuaRows
  double Small = 0;                      ///< ns a call on the small table
  bool SameResult = true;
};

Figures measure(const Benchmark &B, const Tables &Large, const Tables &Part,
                const Tables &Small, size_t Runs) {
  Runner Verb("t, o", B.Lua);
  std::vector<double> VerbTimes, LoopTimes, SmallTimes;
  double Result = 0, Expected = 0;
  for (size_t I = 0; I != Runs; ++I) {
    VerbTimes.push_back(Verb.time(Large, Result));
    Made Out;
    double Begin = now();
    B.Loop(Large.Work, Large.Calls, Out);
    LoopTimes.push_back(now() - Begin);
    Expected = numberOf(Out);
  }
  Figures F;
  F.SameResult = std::fabs(Result - Expected) <= 1e-6 * std::fabs(Expected);
  if (!F.SameResult)
    llvm::errs() << llvm::formatv("{0}: {1}, and by the loop {2}\n", B.Verb,
                                  Result, Expected);
  for (size_t I = 0; I != 100 * Runs; ++I)
    SmallTimes.push_back(Verb.time(Small, Result));
  F.Verb = median(VerbTimes) / double(Large.Work.size());
  F.Loop = median(LoopTimes) / double(Large.Work.size());
  F.Small = median(SmallTimes);
  if (!B.Callback)
    return F;

  // The verb again, on the rows that Lua goes over: a sort is not linear.
  Runner Values("", B.Callback), Rows("t", overRows(B));
  const Table &First = *Part.WorkTable;
  std::vector<double> PartTimes, RowTimes, ValueTimes;
  for (size_t I = 0; I != 3 * Runs; ++I)
    PartTimes.push_back(Verb.time(Part, Result));
  for (size_t I = 0; I != Runs; ++I) {
    RowTimes.push_back(Rows.time(Part, Result));
    ValueTimes.push_back(Values.timeRows(First, B.Given, First.rows()));
  }
  F.Part = median(PartTimes) / double(First.rows());
  F.Rows = median(RowTimes) / double(First.rows());
  F.Values = median(ValueTimes) / double(First.rows());
  return F;
}

} // namespace

int main(int Argc, char **Argv) {
  // Pages are not given back between runs: what is measured are the loops.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  auto argument = [&](int I, size_t Default) {
    return Argc > I ? size_t(std::atoll(Argv[I])) : Default;
  };
  size_t Count = argument(1, 5000000), Runs = argument(2, 7);
  llvm::StringRef Wanted = Argc > 3 ? Argv[3] : "";
  auto Pool = std::make_shared<StringPool>();
  Tables Large(Count, Pool), Part(LuaRows, Pool), Small(1000, Pool);
  std::optional<Tables> Fewer;

  llvm::outs() << "| verb | ns a row | loop | times | of 10,000 rows | loop "
                  "over rows() | factor | function of values | factor | us a "
                  "call, 1,000 rows |\n"
               << "|---|---|---|---|---|---|---|---|---|---|\n";
  bool Missed = false;
  for (const auto &List : {rowBenchmarks(), groupBenchmarks(),
                           timeBenchmarks(), seriesBenchmarks()})
    for (const Benchmark &B : List) {
      if (!llvm::StringRef(B.Verb).contains(Wanted))
        continue;
      if (B.Fewer > 1 && !Fewer)
        Fewer.emplace(Count / B.Fewer, Pool);
      Figures F = measure(B, B.Fewer > 1 ? *Fewer : Large, Part, Small, Runs);
      double Ratio = F.Verb / F.Loop;
      bool Slow = Ratio > MostRatio ||
                  (B.Callback && F.Rows < LeastFactor * F.Part);
      Missed |= Slow || !F.SameResult;
      std::string Row = llvm::formatv("| {0} | {1:F2} | {2:F2} | {3:F2} | ",
                                      B.Verb, F.Verb, F.Loop, Ratio);
      if (B.Callback)
        Row += llvm::formatv("{0:F2} | {1:F0} | {2:F0} | {3:F0} | {4:F0}",
                             F.Part, F.Rows, F.Rows / F.Part, F.Values,
                             F.Values / F.Part);
      else
        Row += "| | | |";
      llvm::outs() << Row << llvm::formatv(" | {0:F1} |", F.Small / 1000)
                   << (Slow ? " missed" : "") << '\n';
      llvm::outs().flush();
    }
  return Missed;
}
