//===- OwnEntries.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/OwnEntries.h"
#include "KB/EntryTitle.h"
#include "Rank/QuotedLines.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace culprit {

/// Hits of a search by the words of an entry: the entry itself comes first, then
/// the causes it may be about.
static constexpr unsigned KinHits = 25;
/// Hypotheses that are searched for, and own entries that are looked at for
/// each.
static constexpr size_t MostSearched = 4, MostRecalled = 4;
/// Bytes of an entry's symptom that are searched: pasted logs say less.
static constexpr size_t MostText = 4000;
/// Entries with a quote that are looked at, the newest ones: each is a search,
/// and in a long log hundreds may quote `CUDA out of memory`.
static constexpr size_t MostQuoting = 200;
/// Different errors of a run that are searched.
static constexpr size_t MostErrors = 10;

namespace {

/// How much the words of an entry say of a class.
struct Kin {
  std::string Class;
  double OfSelf = 0; ///< As a share of what they say of the entry itself.
  double OfBest = 0; ///< As a share of what they say of the best class.
};

/// Finds what \p KB has of a team's own for one diagnosis.
class Recall {
public:
  Recall(const Case &C, const KnowledgeBase &KB, size_t Own,
         ArrayRef<SymptomEvidence> Symptoms, const Diagnosis &D)
      : C(C), KB(KB), Own(KB.entries().take_front(Own)), Symptoms(Symptoms),
        D(D) {}

  Error run() {
    if (Error E = byQuote())
      return E;
    byClass();
    return byWords();
  }

  /// By class of the hypothesis they belong to.
  std::map<std::string, std::vector<SeenBefore>> Found;
  /// The classes of Found that a line of the run quotes and that may be
  /// hypotheses for it.
  std::set<std::string> Claimed;

private:
  bool isOwn(const Entry &E) const {
    return &E >= Own.begin() && &E < Own.end();
  }

  const Hypothesis *listed(StringRef Class) const {
    auto It = find_if(D.Hypotheses,
                      [&](const Hypothesis &H) { return H.Class == Class; });
    return It == D.Hypotheses.end() ? nullptr : &*It;
  }

  void add(StringRef Class, SeenBefore Seen) {
    if (Taken.insert(Seen.Which).second)
      Found[Class.str()].push_back(std::move(Seen));
  }

  Expected<SearchResult> search(StringRef Words, size_t Limit) const {
    SearchOptions Options;
    Options.Limit = static_cast<unsigned>(Limit);
    Options.Questions = false;
    return KB.search(Words, Options);
  }

  /// The classes that the words of \p E lead to, the best first.
  Expected<std::vector<Kin>> kinOf(const Entry &E) {
    auto [It, New] = Kins.try_emplace(&E);
    if (!New)
      return It->second;
    Expected<SearchResult> Result = search(
        E.Title + ". " + StringRef(E.Symptom).take_front(MostText).str() +
            "\n" + StringRef(E.RootCause).take_front(MostText).str(),
        KinHits);
    if (!Result)
      return Result.takeError();
    double Self = 0, Best = 0;
    for (const SearchHit &H : Result->Hits)
      if (H.Found == &E)
        Self = H.Score;
    for (const SearchHit &H : Result->Hits) {
      StringRef Class = H.Found->Class;
      if (H.Found == &E || Class.empty() || Self <= 0 ||
          any_of(It->second, [&](const Kin &K) { return K.Class == Class; }))
        continue;
      if (Best <= 0)
        Best = H.Score;
      It->second.push_back({Class.str(), H.Score / Self, H.Score / Best});
    }
    return It->second;
  }

  Error byQuote() {
    std::map<std::string, std::string> OwnClass; // of a quote without a class
    std::vector<QuotedLine> Quotes = findQuotes(C, Own);
    if (Quotes.size() > MostQuoting) {
      llvm::stable_sort(Quotes, [&](const QuotedLine &A, const QuotedLine &B) {
        return Own[A.Entry].Date > Own[B.Entry].Date;
      });
      Quotes.resize(MostQuoting);
    }
    for (const QuotedLine &Q : Quotes) {
      const Entry &E = Own[Q.Entry];
      SeenBefore Seen{&E, SeenBefore::Quote, Q.Quote, Q.Path, Q.Line};
      if (!E.Class.empty()) {
        Claimed.insert(E.Class);
        add(E.Class, std::move(Seen));
        continue;
      }
      Expected<std::vector<Kin>> Kins = kinOf(E);
      if (!Kins)
        return Kins.takeError();
      // Of what its words may mean what the run shows most.
      const Hypothesis *Near = nullptr;
      double Most = 0;
      for (const Kin &K : *Kins)
        if (const Hypothesis *H = K.OfBest < 0.5 ? nullptr : listed(K.Class);
            H && H->Probability * K.OfBest > Most) {
          Most = H->Probability * K.OfBest;
          Near = H;
        }
      if (Near) {
        add(Near->Class, std::move(Seen));
      } else if (!Q.KnownKind) {
        // Entries about one message are about one thing.
        std::string Class = OwnClass.try_emplace(Q.Quote, E.Id).first->second;
        Claimed.insert(Class);
        add(Class, std::move(Seen));
      }
    }
    return Error::success();
  }

  void byClass() {
    for (const Entry &E : Own)
      if (const Hypothesis *H = E.Class.empty() ? nullptr : listed(E.Class);
          H && H->Probability >= RecalledFrom)
        add(E.Class, {&E, SeenBefore::Class, "", "", 0});
  }

  /// What speaks for \p H in words: its evidence, and what it is.
  std::string wordsOf(const Hypothesis &H) const {
    std::string Out;
    for (const EvidenceItem &I : H.Supports) {
      Out += I.Message + "\n";
      if (const SymptomTerm *T = KB.vocabulary().symptom(I.Symptom))
        Out += T->Id + ": " + T->Text + "\n";
    }
    Out += H.Class + ": " + H.Title + "\n";
    if (!H.Entries.empty())
      Out += H.Entries.front()->Title + ". " + H.Entries.front()->Symptom;
    return Out;
  }

  /// What was seen of the run as a whole, in words.
  std::string wordsOfRun() const {
    std::string Out = errorText(C, MostErrors);
    for (const SymptomEvidence &S : Symptoms)
      if (S.State == Presence::Present && !S.Informational) {
        Out += S.Message + "\n";
        if (const SymptomTerm *T = KB.vocabulary().symptom(S.Symptom))
          Out += T->Id + ": " + T->Text + "\n";
      }
    return Out;
  }

  Error recallBy(StringRef Words) {
    // The entries about the same cause in general come first.
    Expected<SearchResult> Result = search(Words, KB.entries().size());
    if (!Result)
      return Result.takeError();
    size_t Tried = 0;
    for (const SearchHit &H : Result->Hits) {
      if (!isOwn(*H.Found) || !H.Found->Class.empty() || Taken.count(H.Found))
        continue;
      if (++Tried > MostRecalled)
        break;
      Expected<std::vector<Kin>> Kins = kinOf(*H.Found);
      if (!Kins)
        return Kins.takeError();
      if (Kins->empty() || Kins->front().OfSelf < KinFrom)
        continue;
      const Hypothesis *Fits = listed(Kins->front().Class);
      if (Fits && Fits->Probability >= RecalledFrom)
        add(Fits->Class, {H.Found, SeenBefore::Words, "", "", 0});
    }
    return Error::success();
  }

  Error byWords() {
    if (all_of(Own, [](const Entry &E) { return !E.Class.empty(); }))
      return Error::success();
    size_t Searched = 0;
    for (const Hypothesis &H : D.Hypotheses) {
      if (H.Probability < RecalledFrom || Searched++ == MostSearched)
        continue;
      if (Error E = recallBy(wordsOf(H)))
        return E;
    }
    return Searched ? recallBy(wordsOfRun()) : Error::success();
  }

  const Case &C;
  const KnowledgeBase &KB;
  ArrayRef<Entry> Own;
  ArrayRef<SymptomEvidence> Symptoms;
  const Diagnosis &D;
  std::set<const Entry *> Taken;
  std::map<const Entry *, std::vector<Kin>> Kins;
};

} // namespace

/// 0 for what was mended, 1 for what was left as it is, 2 for what is open.
static int openness(const Entry &E) {
  return isOpen(E.Status) ? 2 : isSetAside(E.Status) ? 1 : 0;
}

/// Mended ones first, of these what a line quotes, then the newest.
static bool comesFirst(const SeenBefore &A, const SeenBefore &B) {
  if (int X = openness(*A.Which), Y = openness(*B.Which); X != Y)
    return X < Y;
  bool QuotesA = A.How == SeenBefore::Quote;
  if (QuotesA != (B.How == SeenBefore::Quote))
    return QuotesA;
  return A.Which->Date > B.Which->Date;
}

Expected<OwnDiagnosis>
recallOwnEntries(Diagnosis First, const Case &C, const KnowledgeBase &KB,
                 size_t Own, ArrayRef<SymptomEvidence> Symptoms,
                 ArrayRef<LogEvidence> Quoted, const Weights &W,
                 const ShapeFigures &Shape) {
  OwnDiagnosis Out;
  Recall R(C, KB, Own, Symptoms, First);
  if (Error E = R.run())
    return E;

  // A class that nothing but a quote of the team's own speaks for: the causes
  // are weighed once more, with that line as evidence.
  std::vector<LogEvidence> Logs = Quoted.vec();
  bool Again = false;
  for (const std::string &Class : R.Claimed)
    Again |= none_of(Quoted, [&](const LogEvidence &L) {
      return L.Quoted->Class == Class;
    });
  if (Again) {
    Out.Entries = KB.entries().vec();
    auto copyOf = [&](const Entry *E) -> Entry & {
      return Out.Entries[static_cast<size_t>(E - KB.entries().data())];
    };
    for (LogEvidence &L : Logs)
      L.Quoted = &copyOf(L.Quoted);
    for (const std::string &Class : R.Claimed)
      for (const SeenBefore &S : R.Found[Class]) {
        if (S.How != SeenBefore::Quote)
          continue;
        Entry &Copy = copyOf(S.Which);
        Copy.Class = Class;
        if (Copy.LogFragments.empty())
          Copy.LogFragments.push_back(S.Text);
        if (none_of(Logs, [&](const LogEvidence &L) {
              return L.Quoted->Class == Class;
            }))
          Logs.push_back({&Copy, S.Text, S.Path, S.Line, 1});
      }
    Out.Result =
        diagnose(Symptoms, Logs, Out.Entries, KB.vocabulary(), W, Shape);
  } else {
    Out.Result = std::move(First);
  }

  for (Hypothesis &H : Out.Result.Hypotheses) {
    auto It = R.Found.find(H.Class);
    if (It == R.Found.end())
      continue;
    H.Seen = It->second;
    llvm::stable_sort(H.Seen, comesFirst);
    erase_if(H.Entries, [&](const Entry *E) {
      return any_of(H.Seen, [&](const SeenBefore &S) {
        return S.Which->Id == E->Id;
      });
    });
    std::vector<const Entry *> Before;
    for (const SeenBefore &S : H.Seen)
      Before.push_back(S.Which);
    H.Entries.insert(H.Entries.begin(), Before.begin(), Before.end());
  }
  // Where no cause stands out, what the team had before comes first.
  if (none_of(Out.Result.Hypotheses, [](const Hypothesis &H) {
        return H.Probability >= ClaimedFrom;
      }))
    std::stable_partition(Out.Result.Hypotheses.begin(),
                          Out.Result.Hypotheses.end(),
                          [](const Hypothesis &H) { return !H.Seen.empty(); });
  return Out;
}

} // namespace culprit
