//===- RecordedRuns.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/RecordedRuns.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using namespace llvm;

namespace culprit {

/// No tree that was grown on recorded runs comes near either.
static constexpr double MostRuns = 1e9;
static constexpr size_t MostQuestions = 1000;

/// The number that \p Text is as a whole. A diagnosis reads 80,000 of them, and
/// StringRef::getAsDouble takes ten times as long.
template <typename T> static bool parseNumber(StringRef Text, T &Out) {
  auto [End, Problem] = std::from_chars(Text.begin(), Text.end(), Out);
  return Problem == std::errc() && End == Text.end();
}

/// Reads the file line by line; what stands where is in RecordedRuns.h.
class RecordedRuns::Parser {
public:
  Parser(StringRef Text, StringRef Name) : Rest(Text), Name(Name) {}

  Expected<RecordedRuns> run() {
    while (next()) {
      if (Line.consume_front("ask symptom ")) {
        if (Out.Symptoms.contains(Line))
          return wrong("'" + Line + "' is asked about already");
        addQuestion({false, Line.str(), 0});
      } else if (Line.consume_front("ask shape ")) {
        auto [Figure, Value] = Line.split(' ');
        double Missing;
        if (!parseNumber(Value, Missing) || !std::isfinite(Missing))
          return wrong("'" + Value + "' is no number");
        addQuestion({true, Figure.str(), Missing});
      } else if (Line.consume_front("class ")) {
        if (!Out.Places.try_emplace(Line, Out.Classes.size()).second)
          return wrong("'" + Line + "' is a class already");
        Out.Classes.push_back(Line.str());
      } else if (Line == "tree") {
        Out.Roots.push_back(Out.Nodes.size());
        if (Error E = addTree())
          return E;
      } else {
        return wrong("'" + Line.take_front(40) + "' is no line of such a file");
      }
    }
    if (Out.Roots.empty())
      return wrong("no tree in it");
    return std::move(Out);
  }

private:
  Error wrong(const Twine &What) const {
    return failure(Name + ":" + Twine(Number) + ": " + What,
                   "make the file again with scripts/fit-rank");
  }

  /// The next line that is no remark.
  bool next() {
    while (!Rest.empty()) {
      std::tie(Line, Rest) = Rest.split('\n');
      Line = Line.rtrim('\r');
      ++Number;
      if (!Line.empty() && !Line.starts_with("#"))
        return true;
    }
    return false;
  }

  void addQuestion(Question Q) {
    if (!Q.OfShape)
      Out.Symptoms[Q.Name] = Out.Questions.size();
    Out.Questions.push_back(std::move(Q));
  }

  /// `= C*N C*N`, after the sign.
  Error addEnds() {
    unsigned Before = Out.Ends.size();
    for (StringRef Left = Line; !(Left = Left.ltrim()).empty();) {
      StringRef Word;
      std::tie(Word, Left) = Left.split(' ');
      auto [Class, Runs] = Word.split('*');
      End E;
      if (!parseNumber(Class, E.Class) || E.Class >= Out.Classes.size() ||
          !parseNumber(Runs, E.Runs) || !(E.Runs > 0) || !(E.Runs < MostRuns))
        return wrong("'" + Word + "' is no class and its number of runs");
      Out.Ends.push_back(E);
    }
    return Out.Ends.size() == Before ? wrong("a branch ends without a run")
                                     : Error::success();
  }

  /// A tree of which Open are the nodes that still lack their second branch,
  /// outermost first: no recursion, since a file may be as deep as it likes.
  Error addTree() {
    struct Branch {
      unsigned Node;
      bool Second;
    };
    std::vector<Branch> Open;
    while (true) {
      if (!next())
        return wrong("a tree that ends in the middle");
      unsigned Here = Out.Nodes.size();
      Out.Nodes.emplace_back();
      Out.Nodes[Here].From = Out.Ends.size();
      if (!Line.consume_front("=")) {
        auto [Asked, Threshold] = Line.split(' ');
        Node &N = Out.Nodes[Here];
        if (!parseNumber(Asked, N.Asked) || N.Asked < 0 ||
            static_cast<size_t>(N.Asked) >= Out.Questions.size() ||
            !parseNumber(Threshold, N.Threshold) || std::isnan(N.Threshold))
          return wrong("'" + Line.take_front(40) +
                       "' is no question and its threshold");
        Open.push_back({Here, false});
        if (Open.size() > MostQuestions)
          return wrong("a branch of more than " + Twine(MostQuestions) +
                       " questions");
        continue;
      }
      if (Error E = addEnds())
        return E;
      Out.Nodes[Here].To = Out.Ends.size();
      // What is complete with this leaf.
      while (!Open.empty() && Open.back().Second) {
        Out.Nodes[Open.back().Node].To = Out.Ends.size();
        Open.pop_back();
      }
      if (Open.empty())
        return Error::success();
      Open.back().Second = true;
      Out.Nodes[Open.back().Node].Above = Out.Nodes.size();
    }
  }

  StringRef Rest, Name, Line;
  size_t Number = 0;
  RecordedRuns Out;
};

Expected<RecordedRuns> RecordedRuns::parse(StringRef Text, StringRef Name) {
  return Parser(Text, Name).run();
}

Expected<RecordedRuns> RecordedRuns::load(StringRef Path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(Path);
  if (!Buffer)
    return failure(Path + ": " + Buffer.getError().message(),
                   "the recorded runs belong to the installation; install "
                   "culprit again");
  return parse((*Buffer)->getBuffer(), Path);
}

RecordedRuns::Answers
RecordedRuns::answersOf(ArrayRef<SymptomEvidence> Seen,
                        const ShapeFigures &Shape) const {
  Answers A;
  for (const Question &Q : Questions) {
    auto It = Q.OfShape ? Shape.find(Q.Name) : Shape.end();
    A.push_back(It == Shape.end() ? Q.Missing : It->second);
  }
  for (const SymptomEvidence &S : Seen)
    if (auto It = Symptoms.find(S.Symptom);
        It != Symptoms.end() && S.State == Presence::Present)
      A[It->second] = S.Score;
  return A;
}

std::optional<unsigned> RecordedRuns::placeOf(StringRef Class) const {
  auto It = Places.find(Class);
  if (It == Places.end())
    return std::nullopt;
  return It->second;
}

double RecordedRuns::known(const ShapeFigures &Shape) const {
  size_t Asked = 0, Known = 0;
  for (const Question &Q : Questions)
    if (Q.OfShape) {
      ++Asked;
      Known += Shape.count(Q.Name);
    }
  return Asked ? static_cast<double>(Known) / Asked : 1;
}

bool RecordedRuns::asksAbout(StringRef Symptom) const {
  return Symptoms.contains(Symptom);
}

std::vector<unsigned> RecordedRuns::pathOf(unsigned At,
                                           const Answers &A) const {
  std::vector<unsigned> Path{At};
  while (Nodes[At].Asked >= 0) {
    const Node &N = Nodes[At];
    At = A[N.Asked] <= N.Threshold ? At + 1 : N.Above;
    Path.push_back(At);
  }
  return Path;
}

std::vector<double> RecordedRuns::shares(const Answers &A) const {
  std::vector<double> Out(Classes.size());
  for (unsigned Root : Roots) {
    const Node &Leaf = Nodes[pathOf(Root, A).back()];
    double All = 0;
    for (unsigned E = Leaf.From; E != Leaf.To; ++E)
      All += Ends[E].Runs;
    for (unsigned E = Leaf.From; E != Leaf.To; ++E)
      Out[Ends[E].Class] += Ends[E].Runs / All;
  }
  for (double &Share : Out)
    Share /= static_cast<double>(Roots.size());
  return Out;
}

double RecordedRuns::shareAt(const Node &N, unsigned Class) const {
  double All = 0, Of = 0;
  for (unsigned E = N.From; E != N.To; ++E) {
    All += Ends[E].Runs;
    if (Ends[E].Class == Class)
      Of += Ends[E].Runs;
  }
  return Of / All;
}

std::vector<RecordedRuns::Reason> RecordedRuns::reasons(const Answers &A,
                                                        unsigned Place) const {
  std::vector<double> Moved(Questions.size());
  for (unsigned Root : Roots) {
    double Before = 0;
    int Asked = -1;
    for (unsigned At : pathOf(Root, A)) {
      double Share = shareAt(Nodes[At], Place);
      if (Asked >= 0)
        Moved[Asked] += Share - Before;
      Before = Share;
      Asked = Nodes[At].Asked;
    }
  }
  std::vector<Reason> Out;
  for (size_t Q = 0; Q != Questions.size(); ++Q)
    if (Moved[Q] != 0)
      Out.push_back({&Questions[Q], A[Q],
                     Moved[Q] / static_cast<double>(Roots.size())});
  llvm::stable_sort(Out, [](const Reason &X, const Reason &Y) {
    return std::fabs(X.Share) > std::fabs(Y.Share);
  });
  return Out;
}

} // namespace culprit
