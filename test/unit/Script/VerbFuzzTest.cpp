//===- VerbFuzzTest.cpp - Verbs with every wrong argument -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Calls all that Api.def lists with arguments that no author means: of other
// types, beyond all bounds, without rows, of other tables. Whatever comes out,
// it comes out twice the same, in time, and without an address. Crashes and
// undefined behaviour are for the sanitized build to see; the seed is fixed,
// VERB_FUZZ_SEED and VERB_FUZZ_ROUNDS look further, VERB_FUZZ_SHOW at each.
//
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"
#include "Script/ApiEntries.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdio>
#include <cstdlib>

using namespace culprit;
using namespace llvm;

namespace {

/// Writes Lua. The same for the same seed on every machine.
class Generator {
public:
  explicit Generator(uint64_t Seed) : State(Seed) {}

  /// A body of `run` that calls \p E and looks at what comes back.
  std::string callOf(const ApiEntry &E) {
    std::string Call;
    if (E.Receiver == "table")
      Call = table(2) + ":" + E.Name.str();
    else if (E.Receiver == "row")
      Call = "(" + row(1) + "):" + E.Name.str();
    else if (E.Receiver == "column")
      Call = column(2) + ":" + E.Name.str();
    else if (E.Receiver == "global")
      Call = E.Name.str();
    else if (E.Receiver == "table_library")
      Call = "table." + E.Name.str();
    else
      Call = E.Receiver.str() + "." + E.Name.str();
    return "local a, b, c = " + Call + arguments(E) + "\n" + look(E.Result);
  }

  /// An expression of columns.
  std::string expression(unsigned Depth) {
    if (Depth == 0 || below(4) == 0)
      return atom();
    switch (below(9)) {
    case 0:
      return "(" + expression(Depth - 1) + ")";
    case 1:
      return "-" + expression(Depth - 1);
    case 2:
      return "not " + expression(Depth - 1);
    case 3:
      return expression(Depth - 1) + pick({" is null", " is not null"});
    case 4:
      return expression(Depth - 1) +
             pick({" in (1, 'copy')", " not in (?)", " in (null)",
                   " in (-9223372036854775807, 1e400)", " in ()"});
    case 5:
    case 6: {
      std::string Out =
          pick({"abs", "ceil", "coalesce", "contains", "ends_with", "exp",
                "finite", "floor", "if", "length", "log", "match", "max", "min",
                "product", "round", "sqrt", "starts_with"}) +
          "(";
      for (unsigned I = 0, N = 1 + below(3); I != N; ++I)
        Out += (I ? ", " : "") + expression(Depth - 1);
      return Out + ")";
    }
    default:
      return expression(Depth - 1) + " " +
             pick({"+", "-", "*", "/", "%", "==", "!=", "<", ">=", "and",
                   "or"}) +
             " " + expression(Depth - 1);
    }
  }

  std::string mutated(std::string Text) {
    for (unsigned I = below(4); I != 0 && !Text.empty(); --I) {
      size_t At = below(Text.size());
      switch (below(4)) {
      case 0:
        Text.erase(At, 1 + below(3));
        break;
      case 1:
        Text.insert(At, pick({"(", ")", "?", "'", "`", "%", "-", ".", "9e9",
                              "\xff", "==", "not ", std::string(1, '\0')}));
        break;
      case 2:
        Text[At] = static_cast<char>(below(256));
        break;
      default:
        Text += Text.substr(At);
      }
    }
    return Text;
  }

  size_t below(size_t N) {
    State += 0x9e3779b97f4a7c15; // splitmix64
    uint64_t Z = State;
    Z = (Z ^ (Z >> 30)) * 0xbf58476d1ce4e5b9;
    Z = (Z ^ (Z >> 27)) * 0x94d049bb133111eb;
    return (Z ^ (Z >> 31)) % N;
  }

  /// \p Text as Lua writes it, every byte of it.
  static std::string quoted(StringRef Text) {
    std::string Out = "\"";
    for (unsigned char C : Text)
      if (isAlnum(C) || (C >= ' ' && C < 127 && C != '"' && C != '\\'))
        Out += static_cast<char>(C);
      else
        Out += "\\x" + toHex(StringRef(reinterpret_cast<char *>(&C), 1));
    return Out + "\"";
  }

private:
  std::string pick(std::initializer_list<std::string> Of) {
    return Of.begin()[below(Of.size())];
  }

  std::string atom() {
    return pick({"start", "stop", "dur", "rank", "name", "kind", "value",
                 "step", "place", "shape", "`dur`", "nosuch", "0", "1", "2.5",
                 "-1", "9223372036854775807", "(-9223372036854775807 - 1)",
                 "0.0", "1e308", "1e-308", "'copy'", "''", "'*'", "true", "?",
                 "nonfinite", "metric"});
  }

  std::string integer() {
    return pick({"0", "1", "-1", "2", "3", "4", "8", "31", "1000", "65536",
                 "2147483647", "2147483648", "4294967295", "4294967296",
                 "1 << 53", "math.maxinteger", "math.maxinteger - 1",
                 "math.mininteger", "math.mininteger + 1", "1e15", "0.5",
                 "-0.0", "1e300", "math.huge", "-math.huge", "0/0", "nil"});
  }
  std::string number() {
    return pick({"0", "0.5", "1", "-0.0", "-1", "1e-320", "1e308", "-1e308",
                 "math.huge", "-math.huge", "0/0", "math.maxinteger",
                 "math.mininteger", "100", "nil"});
  }
  std::string goodInteger() { return pick({"0", "1", "2", "3", "8"}); }

  std::string columnName() {
    return pick({"start", "stop", "dur", "rank", "device", "name", "kind",
                 "place", "value", "step", "metric", "shape", "role", "stream",
                 "layer", "nonfinite", "order", "before", "count", "text",
                 "depth"});
  }
  std::string text() {
    switch (below(8)) {
    case 0:
      return pick({"''", "'\\0'", "'\\xff\\xfe'", "'\\xed\\xa0\\x80'",
                   "'\\xf0\\x9f'", "'dur\\0x'", "'-'", "'--dur'", "'%'",
                   "'%s%d%n'", "'%.99f'", "'%d %s %c %q'", "'\\n'", "'?'",
                   "'*|*|*'"});
    case 1:
      return pick({"('a'):rep(1048576)", "('so '):rep(300000)",
                   "('('):rep(100000)", "('1+'):rep(200000)..'1'",
                   "('\\xff'):rep(1048576)", "('?,'):rep(100000)",
                   "('-'):rep(100000)", "('*a'):rep(1000)",
                   "('not '):rep(100000)"});
    case 2:
    case 3:
      return quoted(mutated(expression(3)));
    default:
      return "'" +
             pick({"max", "min", "abs_max", "mean", "rms", "sum", "nonfinite",
                   "median", "inner", "left", "logits", "twice", "pearson",
                   "spearman", "count", "sum dur", "p99 dur", "gpu-idle",
                   "covered", "a b c a b c a b c a b c", "12 -5 1e999 .5",
                   columnName(), columnName(), columnName(), columnName(),
                   columnName()}) +
             "'";
    }
  }

  /// A table of the case or one made of it, which is there as a rule.
  std::string table(unsigned Depth) {
    if (Depth == 0 || below(3) == 0)
      return "case." + pick({"gpu_work", "gpu_work", "host_calls", "scalars",
                             "tensors", "tensors", "requests", "documents",
                             "config", "memory"});
    std::string Inner = table(Depth - 1);
    switch (below(16)) {
    case 0:
      return Inner + ":slice(" + goodInteger() + ", " + goodInteger() + ")";
    case 1:
      return Inner + ":concat(" + table(Depth - 1) + ")";
    case 2:
      return Inner + ":take({ 0, 0, 1 })";
    case 3:
      return Inner + ":take({})";
    case 4:
      return "case.gpu_work:windows(" + pick({"1", "50", "1000000"}) +
             ", { n = 'count', busy = 'covered', dur = 'mean dur' })";
    case 5:
      return "case.gpu_work:" + pick({"gaps", "union", "depth"}) + "()";
    case 6:
      return Inner + ":aggregate('" + columnName() +
             "', { n = 'count', value = 'first " + columnName() + "' })";
    case 7:
      return Inner + ":with { start = " + integer() + ", stop = " + number() +
             ", value = " + quoted(expression(2)) + " }";
    case 8:
      return Inner + ":with { dur = 'stop - start * 3', value = 'dur / 0' }";
    case 9:
      return Inner + ":sort('-" + columnName() + "')";
    case 10:
      return Inner + ":select('" + columnName() + "')";
    case 11:
      return "case.gpu_work:" + pick({"intersect", "subtract"}) + "(" +
             table(Depth - 1) + ")";
    case 12:
      return Inner + ":join(" + table(Depth - 1) + ", 'rank', 'left')";
    case 13:
      return Inner + ":where('" + columnName() + " is not null')";
    case 14:
      return "case.scalars:with { start = 'step * 9223372036854775807', stop "
             "= 'value * 1e300', dur = 'value' }";
    default:
      return "case.tensors:where { name = { '" + tensor() + "', '" + tensor() +
             "' } }";
    }
  }
  std::string tensor() {
    return pick({"x", "y", "f", "logits", "labels", "head", "more",
                 "attention", "decoding", "bounds", "rows", "through", "none",
                 "flat", "scalar", "unseen", "bytes", "halves", "odd", "wide"});
  }
  std::string row(unsigned Depth) {
    if (below(4))
      return "case.tensors:where { name = '" + tensor() + "' }:first()";
    return table(Depth) + ":row(" + goodInteger() + ")";
  }
  std::string column(unsigned Depth) {
    std::string Out;
    switch (below(4)) {
    case 0:
      Out = table(Depth) + ":compute(" + quoted(expression(2)) + ")";
      break;
    case 1:
      Out = table(Depth) + ":col('" + columnName() + "')";
      break;
    default:
      Out = pick({"case.gpu_work:col('dur')", "case.scalars:col('value')",
                  "case.scalars:col('step')", "case.gpu_work:col('name')",
                  "case.tensors:col('shape')", "case.requests:col('latency')",
                  "case.gpu_work:compute('9223372036854775807 - start')",
                  "case.scalars:compute('value * 1e308 * 10 - value')",
                  "case.gpu_work:compute('dur > 35')"});
    }
    if (below(4) == 0)
      Out += pick({":diff()", ":abs()", ":shift()", ":shift(-1)", ":cumsum()",
                   ":rank()", ":log()", ":rolling(3, 'median')",
                   ":robust_z(8)", ":clip(nil, 0)"});
    if (below(6) == 0)
      Out = "(" + Out + pick({" + ", " - ", " * ", " / "}) + number() + ")";
    return Out;
  }

  /// A Lua table of some values.
  std::string list(StringRef Of) {
    std::string Out = "{ ";
    for (unsigned I = 0, N = below(4); I != N; ++I)
      Out += (I ? ", " : "") + argument(Of);
    return Out + " }";
  }
  std::string odd() {
    switch (below(14)) {
    case 0:
      return "nil";
    case 1:
      return pick({"true", "false"});
    case 2:
      return integer();
    case 3:
      return number();
    case 4:
      return text();
    case 5:
      return table(1);
    case 6:
      return "(" + row(1) + ")";
    case 7:
      return column(1);
    case 8:
      return list("any");
    case 9:
      return pick({"self", "deep", "{ [self] = self }", "{ [0/1] = 1 }",
                   "{ nil, nil, 3 }", "{ [math.maxinteger] = 1 }",
                   "{ ['a\\0b'] = 'count' }", "{ [''] = '' }", "many"});
    case 10:
      return pick({"function() end", "function(a, b) return true end",
                   "log", "units", "case", "case.options", "math", "_ENV",
                   "case.gpu_work:rows()", "string.rep", "case.inputs"});
    case 11:
      return "{ " + columnName() + " = " + argument("any") + " }";
    case 12:
      return "table.unpack(many)";
    default:
      return "{ n = " + text() + ", " + columnName() + " = " + text() + " }";
    }
  }

  /// An argument of the LuaCATS type \p Type, of another now and then.
  std::string argument(StringRef Type) {
    Type = Type.trim();
    if (below(8) == 0)
      return odd();
    if (Type.starts_with("table<"))
      return pick({"{ n = 'count', m = 'p99 dur', " + columnName() +
                       " = 'max " + columnName() + "' }",
                   "{ value = " + quoted(mutated(expression(3))) + " }",
                   "{ " + columnName() + " = " + argument("any") + ", " +
                       columnName() + " = " + argument("any") + " }",
                   "{ value = " + column(1) + " }"});
    if (Type.starts_with("{"))
      return "{ direction = " + pick({"'nearest'", "'forward'", text()}) +
             ", tolerance = " + number() + " }";
    auto [First, Rest] = Type.split('|');
    if (!Rest.empty() && !Type.starts_with("fun"))
      return argument(below(2) ? First : Rest);
    if (Type.consume_back("[]"))
      return list(Type);
    if (Type == "integer")
      return integer();
    if (Type == "number")
      return number();
    if (Type == "culprit.Table")
      return table(2);
    if (Type == "culprit.Row")
      return "(" + row(1) + ")";
    if (Type == "culprit.Column")
      return column(1);
    if (Type == "culprit.Report")
      return report();
    if (Type == "string")
      return text();
    if (Type.starts_with("\""))
      return Type.str();
    return odd();
  }
  std::string report() {
    return "{ symptom = " + pick({"'gpu-idle'", text()}) +
           ", score = " + pick({"1", number()}) + ", at = " +
           pick({"nil", "{ device = " + number() + ", name = " + text() + " }",
                 odd()}) +
           ", message = " + pick({"'m'", text()}) +
           ", severity = " + pick({"nil", "'info'", odd()}) +
           ", recoverable = " + pick({"nil", number(), integer()}) +
           ", share = " + pick({"nil", number()}) +
           ", evidence = " + pick({table(2), column(1), row(1), odd(),
                                   "{ " + table(2) + ", " + column(2) + " }"}) +
           " }";
  }

  std::string arguments(const ApiEntry &E) {
    std::string Out = "(";
    bool First = true;
    for (StringRef Parameter : parameters(E.Params)) {
      auto [Name, Type] = Parameter.split(':');
      unsigned Times = Name.trim() == "..." ? below(4) : 1;
      if (Name.ends_with("?") && below(3) == 0)
        break;
      while (Times-- != 0) {
        Out += (First ? "" : ", ") + argument(Type);
        First = false;
      }
    }
    if (below(16) == 0)
      Out += (First ? "" : ", ") + odd();
    return Out + ")";
  }

  /// Says all of what a call gave.
  std::string look(StringRef Result) {
    std::string Out = "log(a, b, c)\n";
    if (Result.starts_with("culprit.Table"))
      return Out + "if a then log(#a, a:first(), a:last())\n"
                   "for row in a:slice(0, 20):rows() do\n"
                   "  for _, n in ipairs(a:columns()) do log(n, row[n]) end\n"
                   "end\nreport { symptom = 'gpu-idle', score = 1, message = "
                   "'m', evidence = a } end";
    if (Result.starts_with("culprit.Column"))
      return Out + "log(#a, a:count())\nfor i = 0, 20 do log(a:at(i)) end\n"
                   "report { symptom = 'gpu-idle', score = 1, message = 'm', "
                   "evidence = a }";
    if (Result.starts_with("culprit.Row"))
      return Out + "if a then report { symptom = 'gpu-idle', score = 1, "
                   "message = 'm', evidence = a } end";
    if (Result.starts_with("table<") || Result.contains("[]"))
      return Out + "if a then for k, v in pairs(a) do log(k, v) end end";
    if (Result.starts_with("fun"))
      return Out + "local n = 0\nfor x, y in a do n = n + 1 log(x, y) if n > "
                   "20 then break end end";
    return Out;
  }

  uint64_t State;
};

struct VerbFuzzTest : ScriptTest {
  VerbFuzzTest() {
    Bounds.Time = std::chrono::milliseconds(1000);
    Bounds.Memory = size_t(32) << 20;
    Bounds.Tables = size_t(64) << 20;
    // With tensors that no verb has an easy time with.
    CaseBuilder Odd;
    std::unique_ptr<Source> S = everything(Odd.pool());
    float Inf = std::numeric_limits<float>::infinity();
    addTensor(*S, "flat", floats({}, {0, int64_t(1) << 50, int64_t(1) << 50}));
    addTensor(*S, "scalar", floats({3}, {}));
    TensorRecord Unseen;
    Unseen.Name = "unseen";
    Unseen.Data.Shape = {int64_t(1) << 50};
    S->addTensor(std::move(Unseen), {}, /*Known=*/true);
    addTensor(*S, "bytes", view(DType::UInt8, std::vector<uint8_t>(12, 255),
                                {3, 1, 4}));
    addTensor(*S, "halves",
              view(DType::Float16,
                   std::vector<uint16_t>{0x7c00, 0xfc00, 0x7e00, 1, 0x3c00, 0},
                   {1, 2, 3}));
    addTensor(*S, "odd",
              floats({Inf, -Inf, std::nanf(""), 3e38f, -3e38f,
                      1e-45f, 0, -0.0f},
                     {1, 2, 2, 2}));
    addTensor(*S, "wide",
              ids({INT64_MIN, INT64_MAX, INT64_MAX - 1, -1, 0, INT64_MIN + 1}));
    Odd.add(std::move(S));
    C = Odd.build();
  }

  /// Runs \p Body, twice, and looks at all that it says.
  void check(const std::string &Body) {
    if (std::getenv("VERB_FUZZ_SHOW")) {
      std::fprintf(stderr, "%s\n", Body.c_str());
      std::fflush(stderr); // before a crash
    }
    std::string Whole =
        "local self = {} self.self = self self[1] = self\nlocal deep = {} for "
        "i = 1, 300 do deep = { deep, x = deep } end\nlocal many = {} for i = "
        "1, 300 do many[i] = i end\n" +
        Body;
    auto Begin = std::chrono::steady_clock::now();
    std::string First = said(run(Whole));
    auto Took = std::chrono::steady_clock::now() - Begin;
    EXPECT_GT(std::chrono::seconds(20), Took) << Body;
    EXPECT_FALSE(hasAddress(First)) << Body << "\n" << First.substr(0, 2000);
    EXPECT_GT(size_t(13000), Message) << Body;
    if (StringRef(First).contains("ran longer than"))
      return; // where it was stopped is chance
    std::string Second = said(run(Whole));
    if (!StringRef(Second).contains("ran longer than")) {
      EXPECT_EQ(First.substr(0, 2000), Second.substr(0, 2000)) << Body;
    }
  }

  std::string said(const Outcome &O) {
    std::string Out = error(O);
    Message = Out.size();
    for (const std::string &Line : O.Log)
      Out += "\n" + Line;
    for (const Report &R : O.Reports) {
      Out += "\n" + R.Symptom + R.Message + std::to_string(R.Score);
      for (const EvidenceRef &E : R.Evidence)
        for (const auto &Row : E.Shown)
          Out += "\n" + llvm::join(Row, " ");
    }
    for (const std::string &Line : O.Missing)
      Out += "\n" + Line;
    return Out;
  }
  static bool hasAddress(StringRef Text) {
    for (size_t At = Text.find("0x"); At != StringRef::npos;
         At = Text.find("0x", At + 1))
      if (Text.substr(At + 2).take_while(isHexDigit).size() >= 8)
        return true;
    return false;
  }
  static uint64_t setting(const char *Name, uint64_t Default) {
    const char *Text = std::getenv(Name);
    uint64_t Value = Default;
    if (Text)
      StringRef(Text).getAsInteger(10, Value);
    return Value;
  }

  size_t Message = 0;
};

TEST_F(VerbFuzzTest, AllVerbsStandAllArguments) {
  uint64_t Seed = setting("VERB_FUZZ_SEED", 1);
  for (uint64_t Round = 0, E = setting("VERB_FUZZ_ROUNDS", 3); Round != E;
       ++Round) {
    uint64_t Each = 0;
    for (const ApiEntry &Entry : apiEntries())
      if (Entry.Kind == ApiKind::Function) {
        Generator Write(Seed * 1000003 + Round * 1009 + ++Each);
        std::string Body = Write.callOf(Entry);
        check(Body);
      }
  }
}

TEST_F(VerbFuzzTest, AllExpressionsEnd) {
  uint64_t Seed = setting("VERB_FUZZ_SEED", 1);
  Generator Write(Seed);
  for (uint64_t Round = 0, E = setting("VERB_FUZZ_ROUNDS", 3) * 100;
       Round != E; ++Round) {
    std::string Text = Generator::quoted(Write.mutated(Write.expression(5)));
    std::string Body = "local e = " + Text +
                       "\nlocal v = {}\nfor i = 1, " +
                       "#e - #e:replace('?', '') do v[i] = i - 2 end\n"
                       "local c = case.gpu_work:compute(e, table.unpack(v))\n"
                       "log(c, #c, c:at(0), c:at(1), c:at(2), c:at(3))";
    check(Body);
  }
}

} // namespace
