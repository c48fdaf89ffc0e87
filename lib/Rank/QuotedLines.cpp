//===- QuotedLines.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/QuotedLines.h"
#include "KB/LogMatcher.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <deque>
#include <map>

using namespace llvm;

namespace culprit {

/// Errors looked at; what a job of many ranks repeats says nothing new.
static constexpr size_t MostErrors = 5000;

/// Whether \p Quote can be a message rather than a name in code.
static bool isMessage(StringRef Quote) {
  if (Quote.size() < 10)
    return false;
  for (StringRef End : {"Error", "Exception", "Warning", "Interrupt"})
    if (Quote.ends_with(End))
      return true;
  return Quote.contains(' ') && any_of(Quote, isAlpha);
}

std::vector<std::string> quotesOf(StringRef Text) {
  std::vector<std::string> Out;
  auto Add = [&](StringRef Quote) {
    Quote = Quote.trim(" \t\r\n.,;:");
    if (!isMessage(Quote))
      return;
    Out.push_back(Quote.str());
    // One may write `client.LeaseError: ...` where the log names its module.
    auto [Type, Message] = Quote.split(": ");
    if (!Type.contains(' ') && Message.size() >= 16 && isMessage(Message))
      Out.push_back(Message.str());
  };
  while (!Text.empty()) {
    size_t Begin = Text.find_first_of("`\"");
    if (Begin == StringRef::npos)
      break;
    StringRef Rest = Text.drop_front(Begin);
    if (Rest[0] == '"' && Begin && isAlnum(Text[Begin - 1])) { // inches
      Text = Rest.drop_front();
      continue;
    }
    size_t Ticks = std::max<size_t>(Rest.find_first_not_of('`'), 1);
    if (Ticks == StringRef::npos) // nothing but backquotes is left
      break;
    StringRef Mark = Rest.take_front(Ticks);
    size_t End = Rest.find(Mark, Ticks);
    if (End == StringRef::npos) {
      Text = Rest.drop_front(Ticks);
      continue;
    }
    StringRef Inner = Rest.slice(Ticks, End);
    if (Ticks >= 3) { // a fence, whose first line names the language
      SmallVector<StringRef, 8> Fenced;
      Inner.split('\n').second.split(Fenced, '\n');
      for_each(Fenced, Add);
    } else if (Mark != "\"" || !Inner.contains('\n')) {
      Add(Inner);
    }
    Text = Rest.drop_front(End + Ticks);
  }
  return Out;
}

namespace {

/// A line of a log or an error, and where it stands.
struct Told {
  StringRef Text;
  TableId Table;
  size_t Row;
  bool KnownKind;
};

/// The lines of a case that quotes are looked for in.
class Lines {
public:
  explicit Lines(const Case &C) : C(C), Logs(C.table(TableId::log_lines)) {
    addErrors();
    addLogErrors();
  }

  /// Errors, and the lines of logs that say that they are one.
  std::vector<Told> Errors;

  /// Every line of every log.
  std::vector<Told> all() const {
    std::vector<Told> Out;
    Out.reserve(Logs.rows());
    const ColumnView &Text = *Logs.find("text");
    for (size_t I = 0; I != Logs.rows(); ++I)
      Out.push_back({C.pool()->text(Text.getString(I)), TableId::log_lines, I,
                     isKnownKind(I)});
    return Out;
  }

private:
  using Place = std::pair<StringId, int64_t>; ///< Log and line.

  Place placeOf(const Table &T, size_t Row) const {
    return {T.find("source")->getString(Row), T.find("line")->getInt(Row)};
  }
  bool isKnownKind(size_t Row) const {
    auto It = Kinds.find(placeOf(Logs, Row));
    return It != Kinds.end() && It->second;
  }

  void addErrors() {
    const Table &T = C.table(TableId::errors);
    for (size_t I = 0; I != std::min(T.rows(), MostErrors); ++I) {
      auto text = [&](StringRef Column) {
        return C.pool()->text(T.find(Column)->getString(I));
      };
      if (text("role") == "advice")
        continue;
      bool Known = !text("signature").empty();
      Kinds[placeOf(T, I)] = Known;
      StringRef Line = text("message");
      if (!text("type").empty())
        Line = Joined.emplace_back((text("type") + ": " + Line).str());
      Errors.push_back({Line, TableId::errors, I, Known});
    }
  }

  void addLogErrors() {
    const ColumnView &Text = *Logs.find("text"), &Level = *Logs.find("level");
    for (size_t I = 0; I != Logs.rows() && Errors.size() < 2 * MostErrors;
         ++I) {
      StringRef Word = C.pool()->text(Level.getString(I));
      if (Word == "error" || Word == "critical" ||
          (!Kinds.empty() && Kinds.count(placeOf(Logs, I))))
        Errors.push_back({C.pool()->text(Text.getString(I)),
                          TableId::log_lines, I, isKnownKind(I)});
    }
  }

  const Case &C;
  const Table &Logs;
  std::deque<std::string> Joined; ///< Texts that stand in no pool.
  std::map<Place, bool> Kinds;    ///< Of errors: whether the kind is known.
};

} // namespace

std::vector<QuotedLine> findQuotes(const Case &C, ArrayRef<Entry> Entries) {
  // Any line counts for a fragment that the entry declares as one, but for a
  // quote only a line that tells an error.
  std::vector<Entry> Declaring(Entries.size()), Quoting(Entries.size());
  bool AnyDeclared = false, AnyQuoted = false;
  for (size_t I = 0; I != Entries.size(); ++I) {
    Declaring[I].LogFragments = Entries[I].LogFragments;
    Quoting[I].LogFragments = quotesOf(Entries[I].Symptom);
    append_range(Quoting[I].LogFragments, quotesOf(Entries[I].Title));
    append_range(Quoting[I].LogFragments, Entries[I].LogFragments);
    AnyDeclared |= !Declaring[I].LogFragments.empty();
    AnyQuoted |= !Quoting[I].LogFragments.empty();
  }
  if (!AnyQuoted || (!C.has(TableId::errors) && !C.has(TableId::log_lines)))
    return {};
  std::map<size_t, QuotedLine> Best; // the longest quote of each entry
  auto match = [&](ArrayRef<Entry> From, ArrayRef<Told> Where) {
    std::vector<StringRef> Texts;
    for (const Told &T : Where)
      Texts.push_back(T.Text);
    for (const LogMatch &M : LogMatcher(From).match(Texts)) {
      const Told &T = Where[M.Lines.front()];
      Citation At = C.cite(T.Table, T.Row);
      QuotedLine New{M.Entry, From[M.Entry].LogFragments[M.Fragment], At.Path,
                     At.Place, T.KnownKind};
      auto [It, First] = Best.try_emplace(M.Entry, New);
      if (!First && New.Quote.size() > It->second.Quote.size())
        It->second = std::move(New);
    }
  };
  Lines L(C);
  match(Quoting, L.Errors);
  if (AnyDeclared)
    match(Declaring, L.all());
  std::vector<QuotedLine> Out;
  for (auto &[Index, Line] : Best)
    Out.push_back(std::move(Line));
  return Out;
}

std::string errorText(const Case &C, size_t Limit) {
  std::string Out;
  const Table &Errors = C.table(TableId::errors);
  StringSet<> Seen;
  for (size_t I = 0; I != std::min(Errors.rows(), MostErrors); ++I) {
    auto text = [&](StringRef Column) {
      return C.pool()->text(Errors.find(Column)->getString(I));
    };
    if (text("role") == "advice" || !Seen.insert(text("message")).second)
      continue;
    Out += (text("type") + " " + text("code") + ": " +
            text("message").take_front(400) + "\n")
               .str();
    if (Seen.size() == Limit)
      break;
  }
  return Out;
}

} // namespace culprit
