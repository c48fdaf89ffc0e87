//===- TestCompare.cpp - What was expected and what came --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestRun.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The number that \p Key of \p R is, if it is one and is known.
static std::optional<double> numberOf(StringRef Key, const Report &R) {
  if (Key == "score")
    return R.Score;
  if (Key == "share")
    return R.Share;
  if (Key == "recoverable" && R.RecoverableNs)
    return static_cast<double>(*R.RecoverableNs);
  return std::nullopt;
}

static size_t evidenceRows(const Report &R) {
  size_t Rows = 0;
  for (const EvidenceRef &E : R.Evidence)
    Rows += E.Total;
  return Rows;
}

/// \p Key of \p R as a test would write it; empty where it has none.
static std::string textOf(StringRef Key, const Report &R) {
  if (Key == "symptom")
    return R.Symptom;
  if (Key == "message")
    return R.Message;
  if (Key == "severity")
    return severityName(R.Level).str();
  if (Key == "doubt")
    return R.Doubt;
  if (Key == "evidence")
    return std::to_string(evidenceRows(R));
  if (Key == "recoverable")
    return R.RecoverableNs ? std::to_string(*R.RecoverableNs) : "";
  if (std::optional<double> Number = numberOf(Key, R))
    return formatNumber(*Number, 6);
  if (Key.consume_front("at."))
    if (const Coordinate *At = R.at(Key))
      return At->text();
  return "";
}

static bool matches(const ExpectedField &F, const Report &R) {
  StringRef Key = F.Key;
  if (Key == "message" || Key == "doubt")
    return globMatch(F.Text, textOf(Key, R));
  if (std::optional<double> Number = numberOf(Key, R)) {
    std::optional<WrittenNumber> Written = WrittenNumber::parse(F.Text);
    return Written && Written->matches(*Number);
  }
  if (!Key.consume_front("at."))
    return F.Text == textOf(Key, R);
  const Coordinate *At = R.at(Key);
  if (!At)
    return false;
  std::optional<WrittenNumber> Written = WrittenNumber::parse(F.Text);
  if (const double *Number = std::get_if<double>(&At->Value))
    return Written && Written->matches(*Number);
  return F.Text == At->text();
}

static size_t differences(const ExpectedReport &E, const Report &R) {
  return llvm::count_if(E.Fields, [&](const ExpectedField &F) {
    return !matches(F, R);
  });
}

namespace {
constexpr size_t None = SIZE_MAX;

/// Which report stands for which expected one. A glob may fit several, so
/// taking the first that fits could leave another without.
class Pairing {
public:
  Pairing(ArrayRef<ExpectedReport> Expected, ArrayRef<Report> Got)
      : Expected(Expected), Got(Got), Partner(Expected.size(), None),
        Taken(Got.size(), None) {
    for (size_t E = 0; E != Expected.size(); ++E) {
      std::vector<bool> Seen(Got.size());
      place(E, Seen);
    }
    for (size_t E = 0; E != Expected.size(); ++E)
      if (Partner[E] == None)
        placeClosest(E);
  }

  size_t partnerOf(size_t E) const { return Partner[E]; }
  bool taken(size_t G) const { return Taken[G] != None; }

private:
  /// Finds \p E a partner that fits, moving others to other ones.
  bool place(size_t E, std::vector<bool> &Seen) {
    for (size_t G = 0; G != Got.size(); ++G) {
      if (Seen[G] || differences(Expected[E], Got[G]))
        continue;
      Seen[G] = true;
      if (Taken[G] != None && !place(Taken[G], Seen))
        continue;
      Partner[E] = G;
      Taken[G] = E;
      return true;
    }
    return false;
  }

  /// Sets beside \p E what it most likely means.
  void placeClosest(size_t E) {
    std::pair<size_t, unsigned> Best(None, 0);
    const ExpectedField *Message = Expected[E].find("message");
    for (size_t G = 0; G != Got.size(); ++G) {
      if (Taken[G] != None || Got[G].Symptom != Expected[E].symptom())
        continue;
      std::pair<size_t, unsigned> Distance(
          differences(Expected[E], Got[G]),
          Message ? StringRef(Message->Text).edit_distance(Got[G].Message) : 0);
      if (Distance < Best) {
        Best = Distance;
        Partner[E] = G;
      }
    }
    if (Partner[E] != None)
      Taken[Partner[E]] = E;
  }

  ArrayRef<ExpectedReport> Expected;
  ArrayRef<Report> Got;
  std::vector<size_t> Partner, Taken;
};

/// Fills the rows.
class Comparison {
public:
  Comparison(const Outcome &Got, std::vector<SideRow> &Rows)
      : Got(Got), Rows(Rows) {}

  void run(const Expectation &Expected);
  bool same() const { return Same; }

private:
  void row(std::string Left, std::string Right, bool Differs) {
    Same &= !Differs;
    Rows.push_back({std::move(Left), std::move(Right), Differs});
  }
  void reports(ArrayRef<ExpectedReport> Expected);
  void unexpected(const Report &R);
  void texts(StringRef Word, ArrayRef<std::string> Wanted,
             ArrayRef<std::string> There);
  void unjudged(const Expectation &Expected);
  /// The outcome in a word or two.
  std::string outcome() const;

  const Outcome &Got;
  std::vector<SideRow> &Rows;
  bool Same = true;
};
} // namespace

std::string Comparison::outcome() const {
  std::string Out = toString(Got.Kind).str();
  if (Got.Kind == OutcomeKind::Skipped)
    Out += ": " + join(Got.Missing, "; ");
  if (Got.Kind == OutcomeKind::Failed && Got.Error)
    Out += ": " + Got.Error->Message;
  return Out;
}

/// "- " before the first of a report's lines.
static std::string lineOf(size_t I, StringRef Key, StringRef Text) {
  return ((I ? "  " : "- ") + Key + ": " + Text).str();
}

void Comparison::reports(ArrayRef<ExpectedReport> Expected) {
  const Pairing Pairs(Expected, Got.Reports);
  for (size_t E = 0; E != Expected.size(); ++E) {
    const Report *R = Pairs.partnerOf(E) == None
                          ? nullptr
                          : &Got.Reports[Pairs.partnerOf(E)];
    for (const auto &[I, F] : enumerate(Expected[E].Fields)) {
      std::string Left = lineOf(I, F.Key, F.Text);
      if (!R) {
        std::string Right;
        if (I == 0)
          Right = Got.Kind == OutcomeKind::Matched ? "(no such report)"
                  : E == 0                         ? outcome()
                                                   : "";
        row(std::move(Left), std::move(Right), true);
        continue;
      }
      std::string Actual = textOf(F.Key, *R);
      row(std::move(Left),
          lineOf(I, F.Key, Actual.empty() ? "(none)" : Actual),
          !matches(F, *R));
    }
  }
  for (size_t G = 0; G != Got.Reports.size(); ++G)
    if (!Pairs.taken(G))
      unexpected(Got.Reports[G]);
}

void Comparison::unexpected(const Report &R) {
  row("(no such report)", lineOf(0, "symptom", R.Symptom), true);
  for (const Coordinate &C : R.At)
    row("", lineOf(1, "at." + C.Key, C.text()), true);
  row("", lineOf(1, "message", R.Message), true);
  row("", lineOf(1, "score", textOf("score", R)), true);
}

void Comparison::texts(StringRef Word, ArrayRef<std::string> Wanted,
                       ArrayRef<std::string> There) {
  std::vector<bool> Fits(There.size(), Wanted.empty());
  for (const std::string &Glob : Wanted) {
    size_t Found = None;
    for (size_t I = 0; I != There.size(); ++I)
      if (globMatch(Glob, There[I])) {
        Found = Found == None ? I : Found;
        Fits[I] = true;
      }
    row((Word + ": " + Glob).str(),
        Found == None ? "" : (Word + ": " + There[Found]).str(),
        Found == None);
  }
  for (size_t I = 0; I != There.size(); ++I)
    if (!Fits[I])
      row("", (Word + ": " + There[I]).str(), true);
}

void Comparison::unjudged(const Expectation &Expected) {
  for (const ExpectedField &F : Expected.Unjudged) {
    const UnjudgedSymptom *U = Got.unjudged(F.Key);
    row("unjudged." + F.Key + ": " + F.Text,
        U ? "unjudged." + F.Key + ": " + U->Needed : "(judged)",
        !U || !globMatch(F.Text, U->Needed));
  }
  // A case that is to be clear must not be so because nobody could look.
  if (Expected.What == Expectation::Kind::Clear)
    for (const UnjudgedSymptom &U : Got.Unjudged)
      if (llvm::none_of(Expected.Unjudged, [&](const ExpectedField &F) {
            return F.Key == U.Symptom;
          }))
        row("", "unjudged." + U.Symptom + ": " + U.Needed, true);
}

void Comparison::run(const Expectation &Expected) {
  switch (Expected.What) {
  case Expectation::Kind::Any:
    break;
  case Expectation::Kind::Reports:
    reports(Expected.Reports);
    break;
  case Expectation::Kind::Clear:
    row("clear", outcome(), Got.Kind != OutcomeKind::Clear);
    for (const Report &R : Got.Reports)
      unexpected(R);
    break;
  case Expectation::Kind::Skipped:
    if (Got.Kind == OutcomeKind::Skipped) {
      texts("skipped", Expected.Texts, Got.Missing);
      break;
    }
    row(Expected.Texts.empty() ? "skipped"
                               : "skipped: " + join(Expected.Texts, "; "),
        outcome(), true);
    for (const Report &R : Got.Reports)
      unexpected(R);
    break;
  case Expectation::Kind::Failed:
    if (Got.Kind == OutcomeKind::Failed && Got.Error) {
      texts("failed", Expected.Texts, Got.Error->Message);
      break;
    }
    row(Expected.Texts.empty() ? "failed" : "failed: " + Expected.Texts.front(),
        outcome(), true);
    for (const Report &R : Got.Reports)
      unexpected(R);
    break;
  }
  unjudged(Expected);
}

bool compareOutcome(const Expectation &Expected, const Outcome &Got,
                    std::vector<SideRow> &Rows) {
  Comparison Both(Got, Rows);
  Both.run(Expected);
  return Both.same();
}

} // namespace culprit
