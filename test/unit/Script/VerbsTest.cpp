//===- VerbsTest.cpp - What scripts can call --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct VerbsTest : ScriptTest {};

TEST_F(VerbsTest, Where) {
  EXPECT_EQ("3", eval("case.gpu_work:where('dur > ?', 15):count()"));
  EXPECT_EQ("2", eval("case.gpu_work:where { kind = 'kernel', device = 0 }"
                      ":count()"));
  EXPECT_EQ("2", eval("case.gpu_work:where { name = { 'HtoD', 'softmax' } }"
                      ":count()"));
  EXPECT_EQ("0", eval("case.gpu_work:where { name = {} }:count()"));
  EXPECT_EQ("4", eval("case.gpu_work:where({}):count()"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:where('stopp > 1')"),
                         "6: unknown column 'stopp' in 'gpu_work' (did you "
                         "mean 'stop'? columns: kind,"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:where('dur > ?', nil)"),
                         "6: argument 2 of 'where' must be a number, a text "
                         "or a boolean, not nil (to find rows without"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:where { kind = {{}} }"),
                         "6: 'kind' of 'where' must be a number"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:where()"),
                         "6: argument 1 of 'where' must be a text, not nil"));
}

TEST_F(VerbsTest, MethodsAndFields) {
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:gapps()"),
                         "6: unknown method 'gapps' of a table (did you mean "
                         "'gaps'? methods: aggregate, around,"));
  EXPECT_EQ("6: a table has no field 'dur' (it is a column of 'gpu_work': "
            "write :col('dur'), or take a row first)",
            failureOf("log(case.gpu_work.dur)"));
  EXPECT_TRUE(startsWith(failureOf("log(case.gpu_work:first().durr)"),
                         "6: unknown column 'durr' in 'gpu_work' (did you "
                         "mean 'dur'?"));
  EXPECT_TRUE(startsWith(failureOf("log(case.gpu_wrok)"),
                         "6: the case has no table 'gpu_wrok' (did you mean "
                         "'gpu_work'? tables: gpu_work, host_calls,"));
  EXPECT_EQ("6: 'where' was called on the text 'x' (write a colon before it: "
            "value:where(...))",
            failureOf("case.gpu_work.where('x')"));
  EXPECT_TRUE(startsWith(failureOf("log(case.options.windw)"),
                         "6: unknown option 'windw' (none is declared)"));
  EXPECT_TRUE(startsWith(failureOf("log(case.gpu_work[1])"),
                         "6: a table of the case has no element 1 (use row("));
  EXPECT_EQ("nil", eval("case.gpu_work:first().graph"));
}

TEST_F(VerbsTest, OrderAndChoice) {
  EXPECT_EQ("130", eval("case.gpu_work:sort('-start'):first().start"));
  EXPECT_EQ("gemm_a", eval("case.gpu_work:sort('-dur', 'start'):first().name"));
  EXPECT_EQ("gpu_work#0", eval("case.gpu_work:top(1, 'dur'):first()"));
  EXPECT_EQ("2", eval("case.gpu_work:slice(2, 9):count()"));
  EXPECT_EQ("2", eval("case.gpu_work:distinct('device'):count()"));
  EXPECT_EQ("8", eval("case.gpu_work:concat(case.gpu_work):count()"));
  EXPECT_EQ("5", eval("case.scalars:around(case.scalars:row(20), 2):count()"));
  EXPECT_EQ("gpu_work#3", eval("case.gpu_work:last()"));
  EXPECT_EQ("nil", eval("case.gpu_work:where('dur > 99'):last()"));
  EXPECT_EQ("nil", eval("case.gpu_work:row(4)"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:top(-1, 'dur')"),
                         "6: argument 1 of 'top' must be 0 or more"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:around(case.scalars:first(), 1)"),
      "6: the row is of 'scalars' and cannot be found in 'gpu_work'"));
}

TEST_F(VerbsTest, ASelectionOfNoRowsHasNoValues) {
  EXPECT_EQ("0 nil 0.0", eval("#case.scalars:where('step > 999'):col('value'), "
                            "case.scalars:where('step > 999'):median('value'), "
                            "case.scalars:where('step > 999'):sum('value')"));
  EXPECT_EQ("0", eval("(function() local t = case.scalars:where('step > 999')\n"
                      "return t:with { d = t:col('value'):diff() }:count() "
                      "end)()"));
}

TEST_F(VerbsTest, Columns) {
  EXPECT_EQ("80", eval("case.gpu_work:with { twice = 'dur * 2' }:first()"
                       ".twice"));
  EXPECT_EQ("7", eval("case.gpu_work:with { k = 7 }:last().k"));
  EXPECT_EQ("40", eval("case.gpu_work:sort('-start'):with { "
                       "d = case.gpu_work:sort('-start'):col('dur') }"
                       ":last().d"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:with { x = case.scalars:col('value') }"),
      "6: column 'x' has 31 rows and the table 'gpu_work' has 4"));
  EXPECT_EQ("true false", eval("case.gpu_work:has('dur'), "
                               "case.gpu_work:has('graph')"));
  EXPECT_EQ("gpu_work 2", eval("case.gpu_work:name(), "
                               "#case.gpu_work:select('dur', 'kind')"
                               ":columns()"));
  EXPECT_EQ("idle[4 rows]", eval("case.gpu_work:renamed('idle')"));
}

TEST_F(VerbsTest, ColumnArithmetic) {
  EXPECT_EQ("100", eval("(case.gpu_work:col('start') + "
                        "case.gpu_work:col('dur')):at(1)"));
  EXPECT_EQ("-60", eval("(-case.gpu_work:col('start')):at(1)"));
  EXPECT_EQ("0.5", eval("(20 / case.gpu_work:col('dur')):at(0)"));
  EXPECT_EQ("60 40", eval("case.gpu_work:col('start'):diff():at(1), "
                          "(case.gpu_work:col('start') - 100):abs():at(1)"));
  EXPECT_TRUE(startsWith(failureOf("log(case.gpu_work:col('dur') + 'x')"),
                         "6: arithmetic on a column and the text 'x'"));
  EXPECT_TRUE(startsWith(
      failureOf("log(case.gpu_work:col('dur') + case.scalars:col('step'))"),
      "6: the columns have 4 and 31 rows"));
  EXPECT_TRUE(
      startsWith(failureOf("case.gpu_work:col('name'):robust_z(4)"), "6: "));
}

TEST_F(VerbsTest, Figures) {
  EXPECT_EQ("120 10 40 30.0 35.0",
            eval("case.gpu_work:sum('dur'), case.gpu_work:min('dur'), "
                 "case.gpu_work:max('dur'), case.gpu_work:mean('dur'), "
                 "case.gpu_work:median('dur')"));
  EXPECT_EQ("0 nil nil", eval("case.gpu_work:slice(0, 0):sum('dur'), "
                              "case.gpu_work:slice(0, 0):min('dur'), "
                              "case.gpu_work:slice(0, 0):median('dur')"));
  // The logged NaN does not hide the rest.
  EXPECT_EQ("50.0", eval("case.scalars:max('value')"));
  EXPECT_EQ("31 0", eval("case.scalars:count('value'), "
                         "case.gpu_work:count('graph')"));
  EXPECT_EQ("40.0", eval("case.gpu_work:quantile('dur', 1)"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:quantile('dur', 99)"),
                         "6: argument 2 of 'quantile' must be from 0 to 1"));
  EXPECT_EQ("1.0", eval("case.scalars:col('step'):slope()"));
}

TEST_F(VerbsTest, Groups) {
  EXPECT_EQ("0 3 1 1", run("local t = {}\n"
                           "for d, w in case.gpu_work:group('device') do\n"
                           "  table.insert(t, d) table.insert(t, #w)\n"
                           "end\nlog(table.unpack(t))")
                           .Log.front());
  EXPECT_EQ("kernel 0 2",
            run("for k, d, w in case.gpu_work:group('kind', 'device') do\n"
                "  log(k, d, #w)\nend")
                .Log.front());
  EXPECT_EQ("2", eval("case.gpu_work:aggregate('kind', { n = 'count' })"
                      ":count()"));
  EXPECT_EQ("kernel 3 90 30.0 softmax",
            run("local k = case.gpu_work:aggregate({ 'kind' }, { n = 'count', "
                "total = 'sum dur', mean = 'mean dur', last = 'last name' })"
                ":first()\nlog(k.kind, k.n, k.total, k.mean, k.last)")
                .Log.front());
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:aggregate('kind', { n = 'total dur' })"),
      "6: 'total dur' is no figure of a group"));
}

TEST_F(VerbsTest, RowsAreCapped) {
  EXPECT_EQ("no error", failureOf("for r in case.scalars:rows() do "
                                  "log(r.step) end"));
  EXPECT_TRUE(startsWith(
      failureOf("local t = case.scalars\nfor i = 1, 9 do t = t:concat(t) end\n"
                "for r in t:rows() do end"),
      "8: rows() would go over 15,872 rows of 'scalars'; the limit is 10,000 "
      "(choose with"));
}

TEST_F(VerbsTest, Intervals) {
  EXPECT_EQ("140 120 20", eval("case.gpu_work:span(), case.gpu_work:covered()"
                               ", case.gpu_work:gaps():sum('dur')"));
  EXPECT_EQ("40 60", eval("case.gpu_work:gaps('start', 'stop'):first().start, "
                          "case.gpu_work:gaps():first().stop"));
  EXPECT_EQ("15", eval("case.gpu_work:gaps():intersect(case.host_calls)"
                       ":sum('dur')"));
  EXPECT_EQ("5", eval("case.gpu_work:gaps():subtract(case.host_calls)"
                      ":sum('dur')"));
  EXPECT_EQ("2", eval("case.gpu_work:union():count()"));
  EXPECT_EQ("15", eval("case.host_calls:overlap(case.gpu_work:gaps()):at(0)"));
  EXPECT_EQ("0 nil", eval("case.host_calls:containing(case.gpu_work:gaps())"
                          ":at(0), case.host_calls:containing("
                          "case.gpu_work:gaps()):at(1)"));
  EXPECT_EQ("140", eval("case.gpu_work:with { a = 'start', b = 'stop' }"
                        ":select('a', 'b'):span('a', 'b')"));
  EXPECT_TRUE(startsWith(failureOf("case.scalars:span()"), "6: unknown "));
}

TEST_F(VerbsTest, Tensors) {
  std::string Names = "local function named(n) return case.tensors:where { "
                      "name = n }:first() end\n"
                      "local x, y, f = named('x'), named('y'), named('f')\n";
  auto Log = [&](const char *Values) {
    Outcome O = run(Names + "log(" + Values + ")");
    return O.Log.empty() ? error(O) : O.Log.front();
  };
  EXPECT_EQ("1 6", Log("table.unpack({ x:values(0, 1)[1], x:values()[6] })"));
  EXPECT_EQ("[1, 2]", Log("x:unravel(5)"));
  EXPECT_EQ("2 5", Log("y:count_equal(-100), y:distinct_values()"));
  // y[i] is x[i + 1], where it is not ignored.
  EXPECT_EQ("1.0", Log("y:equal_share(x, 1, -100)"));
  EXPECT_EQ("0.0", Log("y:equal_share(x, 0, -100)"));
  EXPECT_EQ("nil", Log("y:equal_share(x, 3)"));
  EXPECT_EQ("5 2.0", Log("(function() local d = case.tensors:where { variant "
                         "= 'cached' }:compare(case.tensors:where { variant = "
                         "'full' }, 'name'):first() return d.first_diff, "
                         "d.max_abs end)()"));
  EXPECT_EQ("0.0", Log("f:compare(f).rel_err"));
  EXPECT_TRUE(startsWith(Log("f:equal_share(f)"), "8: equal_share() wants"));
  EXPECT_TRUE(startsWith(Log("case.gpu_work:first():values()"),
                         "8: a row of 'gpu_work' is no tensor"));
  EXPECT_TRUE(startsWith(Log("x:unravel(6)"), "8: the tensor has 6 elements"));
}

TEST_F(VerbsTest, Series) {
  EXPECT_EQ("20", eval("case.scalars:with { z = case.scalars:col('value')"
                       ":robust_z(16) }:top(1, 'z'):first().step"));
  EXPECT_EQ("2.0", eval("case.scalars:col('value'):rolling(4, 'min'):at(4)"));
  EXPECT_EQ("0", eval("case.scalars:col('value'):change_points():count()"));
  EXPECT_EQ("2.0 31", eval("case.scalars:col('value'):values()[1], "
                           "#case.scalars:col('value'):values()"));
  EXPECT_TRUE(startsWith(failureOf("case.scalars:col('value'):robust_z(0)"),
                         "6: argument 1 of 'robust_z' must be 1 or more"));
  EXPECT_TRUE(
      startsWith(failureOf("case.scalars:col('value'):rolling(3, 'mode')"),
                 "6: rolling() knows mean, median, min and max, not 'mode'"));
}

TEST_F(VerbsTest, Text) {
  EXPECT_EQ("bcd ABC abc 3", eval("('abcde'):sub(2, -2), ('abc'):upper(), "
                                  "('ABC'):lower(), ('abc'):len()"));
  EXPECT_EQ("a-a true false 3", eval("('a'):rep(2, '-'), "
                                     "('abc'):contains('b'), "
                                     "('abc'):starts_with('b'), "
                                     "('abc'):index('c')"));
  EXPECT_EQ("b 2 x.y", eval("('a,b'):split(',')[2], #('a,b'):split(','), "
                            "('x-y'):replace('-', '.')"));
  EXPECT_EQ("12 -0.5 3e2", eval("table.concat(('step 12: -0.5, fp16 3e2')"
                                ":numbers(), ' '):replace('300.0', '3e2')"));
  EXPECT_EQ("true true", eval("('flash_fwd'):glob('*gemm*|*flash*'), "
                              "('a'):ends_with('a')"));
  EXPECT_EQ("65 x", eval("('A'):byte(), ('  x '):trim()"));
}

TEST_F(VerbsTest, Format) {
  EXPECT_EQ("3 3.50    x|y  |0x1f 50%",
            eval("('%d %.2f %4s|%-3s|%#x %d%%'):format(3.0, 3.5, 'x', 'y', "
                 "31, 50)"));
  EXPECT_EQ("6: '%d' wants a whole number, and argument 2 of 'format' is 3.5 "
            "(write %.0f, or math.floor first)",
            failureOf("log(('%d'):format(3.5))"));
  EXPECT_TRUE(startsWith(failureOf("log(('%d'):format(nil))"),
                         "6: argument 2 of 'format' must be a number for "
                         "'%d', not nil"));
  EXPECT_EQ("6: 'format' lacks a value for '%s'",
            failureOf("log(('%s'):format())"));
  EXPECT_TRUE(startsWith(failureOf("log(('5 %'):format())"),
                         "6: '%' is no directive of 'format'"));
  EXPECT_EQ("nan abc true nil", eval("('%.2f %.3s %s %s'):format(0/0, 'abcd', "
                                     "true, nil)"));
}

TEST_F(VerbsTest, Units) {
  EXPECT_EQ("1.50 us 1.50 KiB 2,160,551 12 % 0.25 % 0.6931",
            eval("units.format(1500.4), units.bytes(1536), "
                 "units.count(2160551), units.percent(0.12), "
                 "units.percent(0.0025), units.number(0.693147)"));
  EXPECT_EQ("20000 1073741824", eval("20 * units.us, units.GiB"));
  EXPECT_TRUE(startsWith(failureOf("units.format(nil)"),
                         "6: argument 1 of 'format' must be a number, not "
                         "nil (a field of a row"));
}

TEST_F(VerbsTest, CaseFields) {
  EXPECT_EQ("run/p.json test", eval("case.inputs[1].path, "
                                    "case.inputs[1].format"));
  EXPECT_EQ("nil case", eval("case.epoch_ns, case"));
}

} // namespace
