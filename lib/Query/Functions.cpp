//===- Functions.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/Functions.h"
#include "Table/Statistics.h"
#include <algorithm>
#include <memory>
#include <sqlite3.h>
#include <vector>

using namespace llvm;

namespace culprit {

static constexpr SqlFunction Documented[] = {
    {"ms(ns)", "a duration or time in milliseconds"},
    {"us(ns)", "a duration or time in microseconds"},
    {"overlap_ns(a0, a1, b0, b1)",
     "how long the spans [a0, a1) and [b0, b1) overlap, 0 if they do not"},
    {"share(part, whole)", "part / whole as a number; NULL when whole is 0"},
    {"median(x)", "aggregate: the middle value"},
    {"quantile(x, q)", "aggregate: the value below which the share q of the "
                       "values lies, interpolated as NumPy does"},
};

ArrayRef<SqlFunction> sqlFunctions() { return Documented; }

namespace {

bool isNumber(sqlite3_value *V) {
  int Type = sqlite3_value_numeric_type(V);
  return Type == SQLITE_INTEGER || Type == SQLITE_FLOAT;
}

/// ms and us: the divisor is the function's context.
void divided(sqlite3_context *Out, int, sqlite3_value **Values) {
  if (isNumber(Values[0]))
    sqlite3_result_double(
        Out, sqlite3_value_double(Values[0]) /
                 *static_cast<const double *>(sqlite3_user_data(Out)));
}

void overlap(sqlite3_context *Out, int, sqlite3_value **Values) {
  for (int I = 0; I != 4; ++I)
    if (!isNumber(Values[I]))
      return;
  int64_t From = std::max(sqlite3_value_int64(Values[0]),
                          sqlite3_value_int64(Values[2]));
  int64_t To = std::min(sqlite3_value_int64(Values[1]),
                        sqlite3_value_int64(Values[3]));
  int64_t Length;
  if (To <= From || __builtin_sub_overflow(To, From, &Length))
    Length = 0;
  sqlite3_result_int64(Out, Length);
}

void share(sqlite3_context *Out, int, sqlite3_value **Values) {
  if (!isNumber(Values[0]) || !isNumber(Values[1]))
    return;
  double Whole = sqlite3_value_double(Values[1]);
  if (Whole != 0)
    sqlite3_result_double(Out, sqlite3_value_double(Values[0]) / Whole);
}

/// The values of a group so far. SQLite zeroes the memory it gives.
struct Collected {
  std::vector<double> *Values;
  double Q;
};

void collect(sqlite3_context *Out, int Count, sqlite3_value **Values) {
  auto *C = static_cast<Collected *>(
      sqlite3_aggregate_context(Out, sizeof(Collected)));
  if (!C)
    return sqlite3_result_error_nomem(Out);
  if (!C->Values) {
    C->Values = new std::vector<double>();
    C->Q = Count == 2 ? sqlite3_value_double(Values[1]) : 0.5;
  }
  if (isNumber(Values[0]))
    C->Values->push_back(sqlite3_value_double(Values[0]));
}

void quantileOf(sqlite3_context *Out) {
  auto *C = static_cast<Collected *>(sqlite3_aggregate_context(Out, 0));
  if (!C || !C->Values)
    return;
  std::unique_ptr<std::vector<double>> Values(C->Values);
  C->Values = nullptr;
  if (!(C->Q >= 0 && C->Q <= 1))
    return sqlite3_result_error(
        Out, "quantile: the second argument lies between 0 and 1", -1);
  if (std::optional<double> Q = quantile(*Values, C->Q))
    sqlite3_result_double(Out, *Q);
}

} // namespace

int addFunctions(sqlite3 *D) {
  static const double Thousand = 1e3, Million = 1e6;
  constexpr int Flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
  auto scalar = [&](const char *Name, int Arguments, const double *Context,
                    void (*Call)(sqlite3_context *, int, sqlite3_value **)) {
    return sqlite3_create_function_v2(D, Name, Arguments, Flags,
                                      const_cast<double *>(Context), Call,
                                      nullptr, nullptr, nullptr);
  };
  auto aggregate = [&](const char *Name, int Arguments) {
    return sqlite3_create_function_v2(D, Name, Arguments, Flags, nullptr,
                                      nullptr, collect, quantileOf, nullptr);
  };
  for (int Code : {scalar("ms", 1, &Million, divided),
                   scalar("us", 1, &Thousand, divided),
                   scalar("overlap_ns", 4, nullptr, overlap),
                   scalar("share", 2, nullptr, share),
                   aggregate("median", 1), aggregate("quantile", 2)})
    if (Code != SQLITE_OK)
      return Code;
  return SQLITE_OK;
}

} // namespace culprit
