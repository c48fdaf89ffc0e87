//===- LogRows.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogRows.h"
#include "Readers/RequestRows.h"
#include "Readers/ScalarRows.h"
#include "Readers/TimeStamp.h"
#include "Support/Text.h"
#include "Support/Units.h"

using namespace llvm;

namespace culprit {

LogRows::LogRows(Source &S, bool Large)
    : S(S), Large(Large), File(S.pool().intern(S.path())),
      Run(S.Run.empty() ? NullString : S.pool().intern(S.Run)),
      FileRank(rankOfPath(S.path())) {
  StringRef Side = variantOfPath(S.path());
  Variant = Side.empty() ? NullString : S.pool().intern(Side);
}

void LogRows::addRow(const LogLine &L, StringId Text, StringId Form) {
  ++Rows;
  TableBuilder &Row = S.table(TableId::log_lines);
  Row.addRow();
  Row.setId(log_lines::source, File);
  Row.set(log_lines::line, L.Number);
  if (L.WallTime)
    Row.set(log_lines::wall_time, *L.WallTime);
  if (L.Rank || FileRank)
    Row.set(log_lines::rank, L.Rank ? *L.Rank : *FileRank);
  if (!L.Level.empty())
    Row.set(log_lines::level, L.Level);
  Row.setId(log_lines::text, Text);
  Row.setId(log_lines::template_, Form);
  Row.set(log_lines::place, L.Number);
  if (Run)
    Row.setId(log_lines::run, Run);
  if (Variant)
    Row.setId(log_lines::variant, Variant);
}

/// Whether a reader of the log would want more than a few of such lines.
static bool isSevere(StringRef Level) {
  return Level == "warning" || Level == "error" || Level == "critical";
}

StringId LogRows::textOf(const LogLine &L) {
  StringRef Text = L.Text;
  if (Large)
    Text = wholeCharacters(Text, Kept < TextBytes ? MaxLine : Begin);
  Kept += Text.size();
  return S.pool().intern(Text);
}

unsigned LogRows::addWith(const LogLine &L) {
  if (Large)
    Form.resize(wholeCharacters(Form, MaxTemplate).size());
  auto It = ByText.find(Form);
  if (It == ByText.end() && Templates.size() == MaxTemplates) {
    ++Untold;
    if (!Large)
      addRow(L, textOf(L), S.pool().intern(Form));
    return None;
  }
  // Most texts occur once; a cache in front of the pool would only copy them.
  StringId Text = NullString;
  if (It == ByText.end()) {
    It = ByText.try_emplace(Form, Templates.size()).first;
    Template T;
    T.Text = S.pool().intern(Form);
    T.Example = Text = textOf(L);
    T.Level = L.Level;
    T.Rank = L.Rank ? L.Rank : FileRank;
    T.First = L.Number;
    Templates.push_back(T);
  }
  Template &T = Templates[It->second];
  ++T.Lines;
  T.Last = L.Number;
  T.ManyRanks |= (L.Rank ? L.Rank : FileRank) != T.Rank;
  if (L.WallTime) {
    T.LastTime = L.WallTime;
    if (!T.FirstTime)
      T.FirstTime = L.WallTime;
  }
  unsigned Most = isSevere(T.Level) ? RowsOfSevere : RowsOfTemplate;
  if (!Large || (T.Rows < Most && Rows < MaxRows)) {
    ++T.Rows;
    addRow(L, Text ? Text : textOf(L), T.Text);
  }
  return It->second;
}

void LogRows::repeat(unsigned T, uint64_t Lines, int64_t Last, StringRef Raw) {
  if (T == None) {
    Untold += Lines;
    return;
  }
  Template &Of = Templates[T];
  Of.Lines += Lines;
  Of.Last = std::max(Of.Last, Last);
  if (std::optional<TimeStamp> Stamp = leadingTimeStamp(Raw))
    if (Stamp->Unix) {
      Of.LastTime = Stamp->Unix;
      if (!Of.FirstTime)
        Of.FirstTime = Stamp->Unix;
    }
}

void LogRows::finish() {
  for (const Template &T : Templates) {
    TableBuilder &Row = S.table(TableId::log_templates);
    Row.addRow();
    Row.setId(log_templates::source, File);
    if (Run)
      Row.setId(log_templates::run, Run);
    if (Variant)
      Row.setId(log_templates::variant, Variant);
    Row.setId(log_templates::template_, T.Text);
    if (!T.Level.empty())
      Row.set(log_templates::level, T.Level);
    if (T.Rank && !T.ManyRanks)
      Row.set(log_templates::rank, *T.Rank);
    Row.set(log_templates::lines, static_cast<int64_t>(T.Lines));
    Row.set(log_templates::first, T.First);
    Row.set(log_templates::last, T.Last);
    if (T.FirstTime)
      Row.set(log_templates::first_time, *T.FirstTime);
    if (T.LastTime)
      Row.set(log_templates::last_time, *T.LastTime);
    Row.setId(log_templates::example, T.Example);
    Row.set(log_templates::place, T.First);
  }
  if (Untold)
    S.Remarks.push_back(
        {Severity::Note,
         S.path() + ": " + formatCount(Untold) +
             " lines are of more kinds than are counted apart (" +
             formatCount(MaxTemplates) + ")",
         "they were searched for errors, metrics and requests all the same"});
}

} // namespace culprit
