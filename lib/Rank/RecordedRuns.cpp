//===- RecordedRuns.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/RecordedRuns.h"
#include "Rank/Network.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using namespace llvm;

namespace culprit {

/// No tree that was grown on recorded runs comes near any.
static constexpr double MostRuns = 1e9, Most = 1e6;
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
        auto [Class, Value] = Line.rsplit(' ');
        double Start;
        if (!parseNumber(Value, Start) || !(std::fabs(Start) < Most))
          return wrong("'" + Line + "' is no class and what it begins with");
        if (!Out.Places.try_emplace(Class, Out.Classes.size()).second)
          return wrong("'" + Class + "' is a class already");
        Out.Classes.push_back(Class.str());
        Out.Starts.push_back(Start);
      } else if (Line.consume_front("tree ")) {
        unsigned Class;
        if (!parseNumber(Line, Class) || Class >= Out.Classes.size())
          return wrong("'" + Line + "' is no class");
        Out.Trees.push_back(
            {Class, static_cast<unsigned>(Out.Nodes.size())});
        if (Error E = addTree())
          return E;
      } else {
        return wrong("'" + Line.take_front(40) + "' is no line of such a file");
      }
    }
    if (Out.Classes.empty())
      return wrong("no class in it");
    llvm::stable_sort(Out.Trees, [](const Tree &X, const Tree &Y) {
      return X.Class < Y.Class;
    });
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

  /// `= V N`, after the sign.
  Error addLeaf(Mean &N) {
    auto [Value, Runs] = Line.ltrim().split(' ');
    if (!parseNumber(Value, N.Value) || !(std::fabs(N.Value) < Most) ||
        !parseNumber(Runs, N.Runs) || !(N.Runs > 0) || !(N.Runs < MostRuns))
      return wrong("'" + Line.trim().take_front(40) +
                   "' is no value and its number of runs");
    return Error::success();
  }

  /// Of a node whose branches are both there.
  void complete(unsigned At) {
    Mean &N = Out.Means[At];
    const Mean &Up = Out.Means[At + 1], &Above = Out.Means[Out.Nodes[At].Above];
    N.Runs = Up.Runs + Above.Runs;
    N.Value = (Up.Value * Up.Runs + Above.Value * Above.Runs) / N.Runs;
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
      Out.Means.emplace_back();
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
      if (Error E = addLeaf(Out.Means[Here]))
        return E;
      Out.Nodes[Here].Threshold = Out.Means[Here].Value;
      // What is complete with this leaf.
      while (!Open.empty() && Open.back().Second) {
        complete(Open.back().Node);
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

unsigned RecordedRuns::below(unsigned At, const Answers &A) const {
  const Node &N = Nodes[At];
  return A[N.Asked] <= N.Threshold ? At + 1 : N.Above;
}

/// What adds up to log-odds of several classes, as shares of 1.
static std::vector<double> softmax(std::vector<double> Of) {
  const double Highest = *std::max_element(Of.begin(), Of.end());
  double Sum = 0;
  for (double &V : Of)
    Sum += V = std::exp(V - Highest);
  for (double &V : Of)
    V /= Sum;
  return Of;
}

std::vector<double> RecordedRuns::shares(const Answers &A) const {
  std::vector<double> Out = Starts;
  for (const Tree &T : Trees) {
    unsigned At = T.Root;
    while (Nodes[At].Asked >= 0)
      At = below(At, A);
    Out[T.Class] += Nodes[At].Threshold;
  }
  return softmax(std::move(Out));
}

std::vector<RecordedRuns::Reason>
RecordedRuns::reasons(const Answers &A, unsigned Place, double Share) const {
  std::vector<double> Moved(Questions.size());
  auto T = llvm::partition_point(
      Trees, [&](const Tree &One) { return One.Class < Place; });
  for (; T != Trees.end() && T->Class == Place; ++T)
    for (unsigned At = T->Root; Nodes[At].Asked >= 0;) {
      const unsigned Next = below(At, A);
      Moved[Nodes[At].Asked] += Means[Next].Value - Means[At].Value;
      At = Next;
    }
  // The slope of the line from the share of all runs to that of these.
  const double Was = softmax(Starts)[Place];
  const auto LogOdds = [](double P) {
    return logOddsOf(std::clamp(P, 1e-9, 1 - 1e-9));
  };
  const double Way = LogOdds(Share) - LogOdds(Was);
  const double Slope =
      std::fabs(Way) > 1e-6 ? (Share - Was) / Way : Share * (1 - Share);
  std::vector<Reason> Out;
  for (size_t Q = 0; Q != Questions.size(); ++Q)
    if (Moved[Q] != 0)
      Out.push_back({&Questions[Q], A[Q], Moved[Q] * Slope});
  llvm::stable_sort(Out, [](const Reason &X, const Reason &Y) {
    return std::fabs(X.Share) > std::fabs(Y.Share);
  });
  return Out;
}

} // namespace culprit
