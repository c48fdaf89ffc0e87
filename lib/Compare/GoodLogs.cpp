//===- GoodLogs.cpp - Log lines other than in good runs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Kinds of lines (log_templates) that the good runs do not print, print no
// more, or print far less often. A long sentence that differs in one word is
// the same kind. Where the logs are of two programs, as few kinds in common
// tell, only errors and warnings are told.
//
//===----------------------------------------------------------------------===//

#include "Compare/GoodRun.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace llvm;

namespace culprit {

/// Words of a sentence of which one may differ.
static constexpr size_t LongSentence = 5;
/// Share of the kinds of lines of the smaller log that both sides must have to
/// be of one program.
static constexpr double OneProgramLines = 0.5;
/// Much more frequent: so many times as often, and so many lines more.
static constexpr double MuchMore = 4;
static constexpr int64_t ManyLines = 5;
/// Kinds looked at on each side; those of the most lines, or severe ones.
static constexpr size_t MostKinds = 5000;

namespace {

struct LineKind {
  int64_t Lines = 0;
  std::string Level, Example;
  SmallVector<StringRef, 16> Words;

  bool isSevere() const {
    return Level == "error" || Level == "critical" || Level == "warning";
  }
};

struct LogSide {
  std::map<std::string, LineKind> Kinds;
  std::map<size_t, std::vector<const LineKind *>> ByLength;
  int64_t Lines = 0;

  /// The kind \p Of, or a sentence but for one word the same; null for none.
  const LineKind *find(const std::string &Name, const LineKind &Of) const {
    auto It = Kinds.find(Name);
    if (It != Kinds.end())
      return &It->second;
    auto Long = ByLength.find(Of.Words.size());
    if (Of.Words.size() < LongSentence || Long == ByLength.end())
      return nullptr;
    for (const LineKind *K : Long->second) {
      size_t Differ = 0;
      for (size_t I = 0; I != Of.Words.size() && Differ < 2; ++I)
        Differ += K->Words[I] != Of.Words[I];
      if (Differ < 2)
        return K;
    }
    return nullptr;
  }
};

} // namespace

static LogSide logSide(const Case &C) {
  LogSide Out;
  const Table &T = C.table(TableId::log_templates);
  auto text = [&](unsigned Column, size_t Row) {
    const ColumnView &V = T.columns()[Column];
    return V.isNull(Row) ? std::string() : T.cell(Row, V).text();
  };
  for (size_t I = 0; I != T.rows() && Out.Kinds.size() < MostKinds; ++I) {
    const ColumnView &Count = T.columns()[log_templates::lines];
    LineKind &K = Out.Kinds[text(log_templates::template_, I)];
    const int64_t Lines = Count.isNull(I) ? 1 : Count.getInt(I);
    K.Lines += Lines;
    Out.Lines += Lines;
    if (K.Level.empty())
      K.Level = text(log_templates::level, I);
    if (K.Example.empty())
      K.Example = text(log_templates::example, I);
  }
  for (auto &[Name, K] : Out.Kinds) {
    StringRef(Name).split(K.Words, ' ', -1, false);
    Out.ByLength[K.Words.size()].push_back(&K);
  }
  return Out;
}

/// How often the good runs print it for a log as long as the bad run's: the
/// most of any; none where some good run does not print it at all.
static double expectedLines(ArrayRef<LogSide> Good, const LogSide &Bad,
                            const std::string &Name, const LineKind &K) {
  double Most = 0;
  for (const LogSide &G : Good)
    if (const LineKind *In = G.find(Name, K))
      Most = std::max(Most, static_cast<double>(In->Lines) *
                                std::max(1.0, static_cast<double>(Bad.Lines) /
                                                  static_cast<double>(G.Lines)));
  return Most;
}

static double standingOf(const LineKind &K) {
  return K.Level == "error" || K.Level == "critical" ? 1
         : K.Level == "warning"                      ? 0.7
                                                     : 0.4;
}

static std::string quoted(const LineKind &K, StringRef Name) {
  return "'" + shortened(K.Example.empty() ? Name : StringRef(K.Example), 100) +
         "'";
}

void compareGoodLogs(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                     GoodComparison &Into) {
  const LogSide InBad = logSide(*Bad.Evidence);
  std::vector<LogSide> InGood;
  for (const ComparedRun &G : Good)
    InGood.push_back(logSide(*G.Evidence));
  if (InBad.Kinds.empty() ||
      any_of(InGood, [](const LogSide &S) { return S.Kinds.empty(); }))
    return;

  size_t Common = 0, Smaller = InBad.Kinds.size();
  for (const auto &[Name, K] : InBad.Kinds)
    Common += expectedLines(InGood, InBad, Name, K) > 0;
  for (const LogSide &S : InGood)
    Smaller = std::min(Smaller, S.Kinds.size());
  const bool Alike = static_cast<double>(Common) >=
                     OneProgramLines * static_cast<double>(Smaller);
  if (!Alike)
    Into.Remarks.push_back("the logs are of other programs or formats: of "
                           "their lines only errors and warnings are compared");

  size_t Kept = 0;
  for (const auto &[Name, K] : InBad.Kinds) {
    if (!Alike && !K.isSevere())
      continue;
    const double Expected = expectedLines(InGood, InBad, Name, K);
    const double Lines = static_cast<double>(K.Lines);
    GoodChange Out{"log", Name, "", formatCount(K.Lines), "", 0,
                   std::nullopt, false, true};
    if (Expected == 0) {
      Out.Standing = standingOf(K);
      Out.Says = formatv("new line, {0} time{1}: {2}", formatCount(K.Lines),
                         K.Lines == 1 ? "" : "s", quoted(K, Name));
    } else if (Lines > MuchMore * Expected &&
               Lines - Expected >= static_cast<double>(ManyLines)) {
      Out.Good = formatNumber(Expected, 3);
      Out.Standing = standingOf(K) * (1 - Expected / Lines);
      Out.Says = formatv("{0} lines where the good run's rate makes {1}: {2}",
                         formatCount(K.Lines), Out.Good, quoted(K, Name));
    } else {
      ++Kept;
      continue;
    }
    Into.Changes.push_back(std::move(Out));
  }
  // What every good run prints and this one does not: a run that broke off.
  if (Alike)
    for (const auto &[Name, K] : InGood.front().Kinds)
      if (!InBad.find(Name, K) &&
          all_of(InGood, [&, &N = Name, &Of = K](const LogSide &S) {
            return S.find(N, Of);
          }))
        Into.Changes.push_back({"log", Name, formatCount(K.Lines), "",
                                "no line any more: " + quoted(K, Name),
                                0.3 * standingOf(K), std::nullopt, false, true});
  if (Kept)
    Into.Same.push_back(formatv("{0} kind{1} of log lines", Kept,
                                Kept == 1 ? "" : "s"));
}

} // namespace culprit
